"""Values from Python as JSON, for the native module."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

from ftlab._checks import shown
from ftlab.errors import ConfigError


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{shown(value)}: expected a number, a string, a list or a dictionary")


def _is_refused(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return not (value is None or isinstance(value, str | int | os.PathLike))


def _refused(value: Any, key: str = "") -> tuple[str, Any] | None:
    """Find what no configuration can hold, and its key: ``wear.limits[2]``."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        inner = ((f"{key}.{name}" if key else str(name), each) for name, each in value.items())
    elif isinstance(value, list | tuple):
        inner = ((f"{key}[{index}]", each) for index, each in enumerate(value))
    else:
        return (key, value) if _is_refused(value) else None
    return next(filter(None, (_refused(each, at) for at, each in inner)), None)


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
        wrong = None if "Circular" in str(error) else _refused(value)
        if wrong is None:
            raise ConfigError(str(error)) from error
        key, number = wrong
        raise ConfigError(f"{key or 'value'} = {number}: expected a finite number") from error
    except TypeError as error:
        # Keys of other types have no name of their own.
        wrong = _refused(value)
        raise ConfigError(f"{wrong[0]} = {error}" if wrong and wrong[0] else str(error)) from error
    except RecursionError as error:
        raise ConfigError(str(error)) from error
