"""What a caller gives, checked before it goes further."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, ParamSpec, TypeVar

from ftlab.errors import ConfigError

_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")

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
        ConfigError: It is no UTF-8, or the locale is not.
    """
    text = os.fspath(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        encoding = sys.getfilesystemencoding()
        if encoding != "utf-8":
            raise ConfigError(
                f"{text}: names are read as {encoding}, as the locale says: set LC_ALL=C.UTF-8, or PYTHONUTF8=1"
            ) from None
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


def _is_whole(value: Any) -> bool:
    return hasattr(value, "__index__") and not is_bool(value)


def is_bool(value: Any) -> bool:
    """Whether it is true or false, of NumPy too."""
    return type(value).__name__ in ("bool", "bool_")


def _is_a(value: Any, name: str, package: str) -> bool:
    # By name, so that nothing has to be imported.
    return any(base.__name__ == name and base.__module__.startswith(package) for base in type(value).__mro__)


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


_Kind = tuple[Callable[[Any], bool], str]

# By a part of an annotation: what is one, and what a message calls it.
_KINDS: dict[str, _Kind] = {
    "None": (lambda value: value is None, "None"),
    "bool": (is_bool, "True or False"),
    "Literal[False]": (lambda value: value is False, "False"),
    "int": (_is_whole, "a whole number"),
    "float": (lambda value: isinstance(value, Real) and not is_bool(value), "a number"),
    "str": (lambda value: isinstance(value, str), "a text"),
    "os.PathLike[str]": (
        lambda value: isinstance(value, os.PathLike) and isinstance(os.fspath(value), str),
        "a path",
    ),
    "Mapping[str, Any]": (lambda value: isinstance(value, Mapping), "a mapping"),
    "pl.DataFrame": (lambda value: _is_a(value, "DataFrame", "polars."), "a DataFrame of Polars"),
    "_native.Device": (lambda value: _is_a(value, "Device", ""), "a Device"),
    "Op": (lambda value: isinstance(value, str), "an operation"),
    "Size": (lambda value: isinstance(value, str) or _is_whole(value), "a size"),
}
# Classes of ftlab that arguments are of.
_CLASSES = ("Device", "Executor", "Part", "Result", "Store", "Study", "Trace", "Watch", "Workload")


def _kind(part: str) -> _Kind | None:
    if part in _KINDS:
        return _KINDS[part]
    if part in _CLASSES:
        return lambda value: _is_a(value, part, ""), f"{_article(part)} {part}"
    if listed := re.fullmatch(r"(?:Sequence|Iterable)\[(.*)\]", part):
        kinds = _kinds(listed[1])
        if kinds is None:
            return None
        # Nobody looks into what can be gone through only once.
        return (
            lambda value: (
                _is_list(value) and (not isinstance(value, Sequence) or all(_is_one(each, kinds) for each in value))
            ),
            f"a list of {_either([re.sub('^an? ', '', text) + 's' for _, text in kinds])}",
        )
    if names := re.fullmatch(r"Literal\[('.*')\]", part):
        # Which text it is, the function looks at.
        return lambda value: isinstance(value, str), _either(names[1].split(", "))
    return None


def _kinds(annotation: str) -> list[_Kind] | None:
    """What an argument may be, or ``None`` if only the function itself can tell."""
    parts = [""]
    for piece in annotation.split(" | "):
        # What stands between brackets is one part.
        is_open = parts[-1].count("[") > parts[-1].count("]")
        parts = [*parts[:-1], f"{parts[-1]} | {piece}"] if is_open else [*parts, piece]
    kinds = [_kind(part) for part in parts[1:]]
    return None if None in kinds else [kind for kind in kinds if kind]


def _is_one(value: Any, kinds: list[_Kind]) -> bool:
    return any(is_one(value) for is_one, _ in kinds)


def checked(function: Callable[_Given, _Returned]) -> Callable[_Given, _Returned]:
    """Refuse arguments of other types than those that a function is annotated with, by name.

    Annotations that are made of the types above are checked, and no others. Whole numbers have ranges: :func:`whole`.

    Raises:
        ConfigError: An argument is of another type.

    >>> @checked
    ... def title(text: str): ...
    >>> title(3)
    Traceback (most recent call last):
    ftlab.errors.ConfigError: text = 3: expected a text
    """
    code = function.__code__
    named, has_more = code.co_argcount, bool(code.co_flags & inspect.CO_VARARGS)
    names = code.co_varnames[:named]
    # The name of ``*args`` stands behind those that are given by name only.
    more = code.co_varnames[named + code.co_kwonlyargcount :][:has_more]
    others = {name: text for name, text in function.__annotations__.items() if text not in ("int", "int | None")}
    kinds = {name: kinds for name, annotation in others.items() if (kinds := _kinds(annotation))}

    @functools.wraps(function)
    def call(*args: _Given.args, **keys: _Given.kwargs) -> _Returned:
        of_more = ((name, value) for name in more for value in args[named:])
        for given in (zip(names, args, strict=False), of_more, keys.items()):
            for name, value in given:
                if name in kinds and not _is_one(value, kinds[name]):
                    raise ConfigError(f"{name} = {shown(value)}: expected {_either([text for _, text in kinds[name]])}")
        return function(*args, **keys)

    return call


def _article(word: str) -> str:
    return "an" if word[0] in "AEIOU" else "a"


def _either(texts: list[str]) -> str:
    return " or ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
