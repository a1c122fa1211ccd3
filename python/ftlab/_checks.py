"""Numbers that a caller gives, checked before they go to the engine."""

from __future__ import annotations

import operator
import os
from typing import Any

from ftlab.errors import ConfigError

LARGEST = 2**64 - 1
"""The largest count, time in nanoseconds or size in bytes that the engine can hold."""


# Characters of a value in a message.
_READABLE = 60


def whole(name: str, value: Any, lowest: int = 0, highest: int = LARGEST) -> int:
    """Give a whole number within its range.

    Raises:
        ConfigError: It is no whole number, or out of range.

    >>> whole("requests", np.uint32(3), 1)
    3
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or not lowest <= number <= highest:
        upto = "2^64 - 1" if highest == LARGEST else f"{highest:,}"
        raise ConfigError(f"{name} = {shown(value)}: expected a whole number from {lowest} to {upto}")
    return number


def whole_or_none(name: str, value: Any, lowest: int = 0, highest: int = LARGEST) -> int | None:
    """Give a whole number within its range, or ``None`` as it is.

    Raises:
        ConfigError: It is no whole number, or out of range.
    """
    return None if value is None else whole(name, value, lowest, highest)


def utf8(path: str | os.PathLike[str]) -> str:
    """Give a path as text.

    Raises:
        ConfigError: It is no UTF-8.
    """
    text = os.fspath(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{text}: the name is not UTF-8, as that of this file has to be: rename it") from None
    return text


def shown(value: Any) -> str:
    """Show a value in a message, however long it is.

    >>> shown("9" * 400)
    "'999999999999999999999999999999999999999... (402 characters)"
    """
    try:
        text = repr(value)
    except ValueError:
        # Python writes no number of more than 4,300 digits.
        return f"a {type(value).__name__} of more than 4,300 digits"
    return text if len(text) <= _READABLE else f"{text[:40]}... ({len(text)} characters)"
