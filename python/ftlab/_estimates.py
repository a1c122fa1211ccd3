"""Numbers with their uncertainty, as tables show them."""

from __future__ import annotations

import math

# Decimals that a number needs at most.
_MOST_DIGITS = 6


def _digits(size: float) -> int:
    """Decimals that show two digits of an uncertainty."""
    return min(max(1 - math.floor(math.log10(size)), 0), _MOST_DIGITS) if size > 0 else 0


def plain(value: float | None, sign: str = "") -> str:
    """A number without an uncertainty.

    >>> plain(1234567.0), plain(0.12345), plain(None)
    ('1,234,567', '0.1235', '-')
    """
    if value is None:
        return "-"
    return f"{value:{sign},.0f}" if abs(value) >= 1000 else f"{value:{sign}.4g}"  # noqa: PLR2004 - four digits in all


def estimate(
    middle: float | None, low: float | None, high: float | None, scale: float = 1, sign: str = "", unit: str = ""
) -> str:
    """A number with its interval, and its unit.

    >>> estimate(2.0, 1.9, 2.1), estimate(2.0, None, None), estimate(1.0, 1.0, 1.0), estimate(0.5, 0.5, 0.5, unit="ms")
    ('2.00 ± 0.10', '2', '1 ± 0', '0.5 ± 0 ms')
    """
    if middle is None:
        return "-"
    behind = f" {unit}" if unit else ""
    if low is None or high is None:
        return plain(middle * scale, sign) + behind
    middle, low, high = (value * scale for value in (middle, low, high))
    half = (high - low) / 2
    if not half:
        # Of values that are all the same.
        return f"{plain(middle, sign)} ± 0{behind}"
    digits = _digits(half)
    if abs(high + low - 2 * middle) < half / 10:
        return f"{middle:{sign},.{digits}f} ± {half:,.{digits}f}{behind}"
    return f"{middle:{sign},.{digits}f} ({low:{sign},.{digits}f} to {high:{sign},.{digits}f}){behind}"
