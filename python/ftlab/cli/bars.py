"""Bars of times in a terminal, each divided by what took the time: characters only, so that no colour is needed."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from ftlab._units import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# What parts are drawn with, the largest first; the last is for all others together.
_BLOCKS, _ASCII = "█▓▒░·", "#=+-."
# From this range on, lengths are logarithmic: linear ones would be too short to be divided.
_TENFOLD = 10
# The share of the width that the shortest logarithmic bar has, for the same reason.
_SHORTEST = 0.2
_LEAST_BAR = 10
_FEW_TICKS = 3
# Columns that the last time below the bars may need beyond them.
_BEYOND = 7


class _Scale:
    """Where a time ends on a line of some columns, and what is written below."""

    def __init__(self, times: Sequence[float], columns: int) -> None:
        positive = [time for time in times if time > 0]
        self.columns = columns
        self.most = max(positive, default=1.0)
        least = min(positive, default=1.0)
        self.logarithmic = self.most >= _TENFOLD * least
        # The shortest bar ends at its share of the width.
        self.first = least * (least / self.most) ** (_SHORTEST / (1 - _SHORTEST)) if self.logarithmic else 0.0

    def place(self, time: float) -> int:
        """The columns of a time: at least one, as long as it takes any."""
        if time <= 0:
            return 0
        share = math.log(time / self.first, self.most / self.first) if self.logarithmic else time / self.most
        return max(1, round(share * self.columns))

    def _ticks(self) -> list[float]:
        if not self.logarithmic:
            step = 10.0 ** math.floor(math.log10(self.most))
            steps = (step / 5, step / 2, step, 2 * step, 5 * step)
            step = next(each for each in steps if self.most / each <= _FEW_TICKS + 1)
            return [step * count for count in range(math.floor(self.most / step) + 1)]
        decades = range(math.floor(math.log10(self.first)), math.ceil(math.log10(self.most)) + 1)
        for digits in ((1,), (1, 2, 5)):
            found = [digit * 10.0**decade for decade in decades for digit in digits]
            found = [time for time in found if self.first <= time <= self.most]
            if len(found) >= _FEW_TICKS:
                break
        return found

    def line(self) -> str:
        """Times below the bars, as many as have room."""
        line = ""
        for time in self._ticks():
            at, text = self.place(time), f"|{_round_text(time)}"
            if (not line or at > len(line) + 1) and at + len(text) <= self.columns + _BEYOND:
                line = line.ljust(at) + text
        return line


def _round_text(ns: float) -> str:
    """A time of one digit.

    >>> _round_text(2e5), _round_text(0), _round_text(1e10)
    ('200 us', '0', '10 s')
    """
    factor, unit = next(((f, u) for f, u in ((1e9, "s"), (1e6, "ms"), (1e3, "us")) if ns >= f), (1, "ns"))
    return f"{round(ns / factor, 3):g} {unit}" if ns else "0"


def _divided(columns: int, shares: Sequence[float], marks: str) -> str:
    """A bar of some columns; each part ends where its sum does, so that roundings do not add up.

    >>> _divided(10, [0.5, 0.25, 0.25], "#=+")
    '#####===++'
    """
    whole = sum(shares)
    ends = [round(end / whole * columns) if whole else 0 for end in itertools.accumulate(shares)]
    return "".join(mark * (end - start) for mark, start, end in zip(marks, [0, *ends], ends, strict=False))


def lines(
    names: Sequence[str],
    times: Sequence[float],
    parts: Mapping[str, Sequence[float]],
    *,
    width: int,
    ascii_only: bool,
) -> Iterator[str]:
    r"""Draw a bar for each name, with a scale and a legend.

    Args:
        names: What the bars are called.
        times: How long they are, in nanoseconds.
        parts: What each is divided by: a time for each bar.
        width: Columns that there are.
        ascii_only: Whether the terminal has no block characters.

    >>> print(*lines(["fast", "slow"], [10e3, 40e3], {"read": [10e3, 10e3], "wait": [0, 30e3]}, width=54,
    ...     ascii_only=True), sep="\n")
    fast  10.0 us  ########
    slow  40.0 us  ########========================
                   |0     |10 us  |20 us  |30 us  |40 us
    # read   = wait
    """
    marks = _ASCII if ascii_only else _BLOCKS
    whole = [time or 1.0 for time in times]
    # By the sum of shares: what makes the tail counts as much as what makes most requests.
    order = sorted(parts, key=lambda part: -sum(took / time for took, time in zip(parts[part], whole, strict=True)))
    shown = order if len(order) <= len(marks) else order[: len(marks) - 1]
    rest = [part for part in order if part not in shown]
    rows = [[parts[part][at] for part in shown] + [sum(parts[part][at] for part in rest)] for at in range(len(times))]
    texts = [time_text(time) for time in times]
    wide, long = max(map(len, names)), max(map(len, texts))
    indent = wide + long + 4
    scale = _Scale(times, max(width - indent - _BEYOND, _LEAST_BAR))
    drawn = [_divided(scale.place(time), row, marks) for time, row in zip(times, rows, strict=True)]
    for name, text, bar in zip(names, texts, drawn, strict=True):
        yield f"{name:<{wide}}  {text:>{long}}  {bar}".rstrip()
    yield " " * indent + scale.line()
    legend = [f"{mark} {name}" for mark, name in zip(marks, [*shown, *(["other"] if rest else [])], strict=False)]
    # What has no column anywhere needs no sign.
    yield from _wrapped([each for each in legend if any(each[0] in bar for bar in drawn)], width)


def _wrapped(words: Sequence[str], width: int) -> Iterator[str]:
    line = ""
    for word in words:
        if line and len(line) + 3 + len(word) > width:
            yield line
            line = ""
        line += f"   {word}" if line else word
    yield line


def is_logarithmic(times: Sequence[float]) -> bool:
    """Whether lengths are logarithmic."""
    return _Scale(times, _LEAST_BAR).logarithmic
