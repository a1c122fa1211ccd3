"""Values from Python as JSON, for the native module."""

from __future__ import annotations

import json
import os
from typing import Any

from ftlab.errors import ConfigError


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"found {type(value).__name__} {value!r}, expected a number, a string, a list or a dictionary")


def to_json(value: Any) -> str:
    """Give a value as JSON; NumPy numbers and paths are taken for what they hold.

    Raises:
        ConfigError: It holds something that no configuration can.

    >>> to_json({"requests": np.uint32(3)})
    '{"requests": 3}'
    """
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(str(error)) from error
