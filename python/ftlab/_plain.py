"""Values from Python as JSON, for the native module."""

from __future__ import annotations

import json
import math
import os
from typing import Any

from ftlab.errors import ConfigError


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"found {type(value).__name__} {value!r}, expected a number, a string, a list or a dictionary")


def _not_finite(value: Any, key: str = "") -> tuple[str, float] | None:
    """Find a number that no configuration can hold, and its key: ``wear.limits[2]``."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return None if math.isfinite(value) else (key, value)
    if isinstance(value, dict):
        inner = ((f"{key}.{name}" if key else str(name), each) for name, each in value.items())
    elif isinstance(value, list | tuple):
        inner = ((f"{key}[{index}]", each) for index, each in enumerate(value))
    else:
        return None
    return next(filter(None, (_not_finite(each, at) for at, each in inner)), None)


def to_json(value: Any) -> str:
    """Give a value as JSON; NumPy numbers and paths are taken for what they hold.

    Raises:
        ConfigError: It holds something that no configuration can.

    >>> to_json({"requests": np.uint32(3)})
    '{"requests": 3}'
    """
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except ValueError as error:
        # A value that holds itself is no ValueError of numbers, and would be walked for ever.
        wrong = None if "Circular" in str(error) else _not_finite(value)
        if wrong is None:
            raise ConfigError(str(error)) from error
        key, number = wrong
        raise ConfigError(f"{key or 'value'} = {number}: expected a finite number") from error
    except (TypeError, RecursionError) as error:
        raise ConfigError(str(error)) from error
