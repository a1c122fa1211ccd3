"""Values of axes: lists and ranges."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

RANGE_KEYS = ("from", "to", "step", "factor", "count", "scale", "whole")

# A study of more runs is a slip of a range.
MOST_VALUES = 100_000

_UNITS: dict[str, Decimal] = {"": Decimal(1), "b": Decimal(1), "%": Decimal("0.01")} | {
    name: Decimal(base**power)
    for power, letter in enumerate("kmgt", start=1)
    for name, base in ((f"{letter}ib", 1024), (f"{letter}b", 1000), (letter, 1024))
}


def is_range(value: object) -> bool:
    """Whether a value describes a range."""
    return isinstance(value, dict) and "from" in value


def _number(name: str, value: object) -> Decimal:
    """Read a number, a size with a unit as bytes, or a share in per cent."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = Decimal(repr(value))
        if number.is_finite():
            return number
    elif isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*|%)\s*", value)
        if match and match[2].lower() in _UNITS and match[1].count(".") <= 1 and match[1] != ".":
            return Decimal(match[1]) * _UNITS[match[2].lower()]
    raise ValueError(f'{name} = {value!r}: expected a number, a size such as "64KiB", or a share such as "7%"')


# Spans in microseconds, for keys whose names end with ``_us``.
_SPANS = {"ns": Decimal("0.001"), "us": Decimal(1), "ms": Decimal(1000), "s": Decimal(10) ** 6}


def _quantity(key: str, value: object) -> Decimal | None:
    """Read a value with a unit as the number that stands for it, if it is one."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]+\.?[0-9]*)\s*([A-Za-z]+|%)\s*", value)
        if match and match[2] == "%":
            return Decimal(match[1]) / 100
        if match and key.endswith("_us") and match[2] in _SPANS:
            return Decimal(match[1]) * _SPANS[match[2]]
    try:
        return _number(key, value)
    except ValueError:
        return None


def numbers_of(key: str, values: list[Any]) -> list[Any]:
    """Give the values of an axis as numbers, if all of them are: tables sort, compare and draw them as such.

    >>> numbers_of("buffer.bytes", ["64KiB", 131072])
    [65536, 131072]
    >>> numbers_of("ftl.over_provisioning", ["7%", 0.28])
    [0.07, 0.28]
    >>> numbers_of("ftl.gc", ["fifo", "greedy"])
    ['fifo', 'greedy']
    """
    read = [_quantity(key, value) for value in values]
    given = zip(values, read, strict=True)
    return (
        values
        if None in read
        else [
            _plain(number, whole=False) if isinstance(value, str) else value
            for value, number in given
            if number is not None
        ]
    )


def _plain(number: Decimal, *, whole: bool) -> int | float:
    return int(number) if whole or number == number.to_integral_value() else float(number)


def _stepped(low: Decimal, high: Decimal, step: Decimal) -> list[Decimal]:
    if step == 0 or (high - low) * step < 0:
        raise ValueError(f"step = {step} never leads from {low} to {high}")
    count = int((high - low) / step) + 1
    if count > MOST_VALUES:
        raise ValueError(f"the range has {count:,} values; at most {MOST_VALUES:,} make sense")
    return [low + index * step for index in range(count)]


def _multiplied(low: Decimal, high: Decimal, factor: Decimal) -> list[Decimal]:
    if low <= 0 or high <= 0 or factor <= 0 or factor == 1 or (high > low) != (factor > 1):
        raise ValueError(f"factor = {factor} never leads from {low} to {high}")
    values, value = [], low
    while (value <= high) if factor > 1 else (value >= high):
        values.append(value)
        value *= factor
        if len(values) > MOST_VALUES:
            raise ValueError(f"the range has more than {MOST_VALUES:,} values")
    return values


def _counted(low: Decimal, high: Decimal, count: object, scale: object) -> list[Decimal]:
    if not isinstance(count, int) or isinstance(count, bool) or not 1 < count <= MOST_VALUES:
        raise ValueError(f"count = {count!r}: expected a whole number from 2 to {MOST_VALUES:,}")
    if scale not in {"linear", "log"}:
        raise ValueError(f'scale = {scale!r}: expected "linear" or "log"')
    if scale == "linear":
        return [low + (high - low) * index / (count - 1) for index in range(count)]
    if low <= 0 or high <= 0:
        raise ValueError('scale = "log": both ends must be above 0')
    # In decimal arithmetic, whose result is the same everywhere; 15 digits are what a float keeps of it.
    span = (high / low).ln()
    between = [low * (span * index / (count - 1)).exp() for index in range(1, count - 1)]
    return [low, *(Decimal(f"{value:.15g}") for value in between), high]


def range_values(spec: dict[str, Any]) -> list[int | float]:
    """Give the values of a range: ``{from, to, step}``, ``{from, to, factor}`` or ``{from, to, count, scale}``.

    It has both ends, but ends before ``to`` where no ``step`` or ``factor`` meets it. Sizes with units become bytes.
    ``whole`` rounds to whole numbers and drops repetitions.

    Raises:
        ValueError: It is no range; the message says what is wrong.

    >>> range_values({"from": 0, "to": 0.3, "step": 0.1})
    [0, 0.1, 0.2, 0.3]
    >>> range_values({"from": "16KiB", "to": "64KiB", "factor": 2})
    [16384, 32768, 65536]
    >>> range_values({"from": 1, "to": 100, "count": 5, "scale": "log", "whole": True})
    [1, 3, 10, 32, 100]
    """
    from difflib import get_close_matches

    for key in spec:
        if key not in RANGE_KEYS:
            near = get_close_matches(key, RANGE_KEYS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f": expected {', '.join(RANGE_KEYS)}"
            raise ValueError(f"{key}: no key of a range{hint}")
    if "to" not in spec:
        raise ValueError("a range needs to")
    low, high = _number("from", spec["from"]), _number("to", spec["to"])
    ways = [key for key in ("step", "factor", "count") if key in spec]
    if len(ways) != 1:
        raise ValueError(f"a range needs one of step, factor and count; found {' and '.join(ways) or 'none'}")
    if "scale" in spec and ways != ["count"]:
        raise ValueError("scale belongs to count")
    whole = spec.get("whole", False)
    if not isinstance(whole, bool):
        raise ValueError(f"whole = {whole!r}: expected true or false")  # noqa: TRY004 - as all that is wrong here
    if ways == ["step"]:
        values = _stepped(low, high, _number("step", spec["step"]))
    elif ways == ["factor"]:
        values = _multiplied(low, high, _number("factor", spec["factor"]))
    else:
        values = _counted(low, high, spec["count"], spec.get("scale", "linear"))
    if whole:
        values = [value.to_integral_value() for value in values]
    return list(dict.fromkeys(_plain(value, whole=whole) for value in values))
