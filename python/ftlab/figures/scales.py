"""Axes: names, units, logarithms by rule, and ticks where the values are."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ftlab._labels import label, name, quantity, value_text
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

Log = Literal["x", "y", "xy", "value", "none"]

# A grid of powers has at least so many values, and so large a span.
_LEAST_POWERS, _LEAST_SPAN = 3, 4
# Measured values go on a logarithmic axis from this span on.
_WIDE = 100
_ALIKE = 0.15
# Sizes within this span share a unit.
_ONE_UNIT = 4096
_FEW_TICKS = 12
_ALIGNED = 3
_PLAIN_DECADES = range(-3, 5)
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Axes of positive numbers begin at 0 unless all of them are larger than this part of the largest.
_FROM_ZERO = 0.75
_ROOM = 1.05


def base_of_powers(values: Sequence[float]) -> int:
    """The base of the logarithmic axis on which values that somebody chose belong; 0 for a linear one.

    2 where all are the smallest times powers of two, 10 where they grow by a constant factor.

    >>> base_of_powers([4096, 8192, 65536]), base_of_powers([1, 10, 100]), base_of_powers([1, 2, 3, 4])
    (2, 10, 0)
    """
    distinct = sorted(set(values))
    if len(distinct) < _LEAST_POWERS or distinct[0] <= 0 or distinct[-1] < _LEAST_SPAN * distinct[0]:
        return 0
    twos = [math.log2(value / distinct[0]) for value in distinct]
    if all(abs(power - round(power)) < 1e-9 for power in twos):  # noqa: PLR2004 - rounding
        return 2
    steps = [math.log(after / before) for before, after in itertools.pairwise(distinct)]
    return 10 if max(steps) - min(steps) <= _ALIKE * max(steps) and distinct[-1] >= _LEAST_SPAN**2 * distinct[0] else 0


def spans_decades(values: Sequence[float]) -> bool:
    """Whether measured values spread so far that only a logarithmic axis shows them.

    >>> spans_decades([1, 80]), spans_decades([0.5, 80])
    (False, True)
    """
    return bool(values) and min(values) > 0 and max(values) >= _WIDE * min(values)


def check_log(log: str | None, allowed: Sequence[str] = ("x", "y", "xy", "none")) -> None:
    """Refuse an unknown ``log``.

    Raises:
        ConfigError: It is none of those allowed.
    """
    if log is not None and log not in allowed:
        raise ConfigError(f"log = {log!r}: expected {', '.join(allowed)}")


def wants_log(log: str | None, which: str, values: Sequence[float], *, chosen: int) -> int:
    """Base of the logarithm of an axis (0: linear): what was asked for, else what the rule has ``chosen``.

    Raises:
        ConfigError: A logarithmic axis was asked for, and a value is not above 0.
    """
    if log is None:
        return chosen
    if which not in log:
        return 0
    least = min(values, default=1)
    if least <= 0:
        raise ConfigError(f"log = {log!r}: the smallest value of {which} is {least:g}, expected numbers above 0")
    return 2 if base_of_powers(values) == 2 else 10  # noqa: PLR2004 - base


@dataclass(frozen=True)
class Scale:
    """An axis of numbers.

    Attributes:
        key: Of its values.
        text: Its label, with the unit.
        factor: What values are multiplied by.
        base: Of its logarithm; 0 where it is linear.
        sizes: Whether ticks are powers of two of bytes.
        wide: Whether ticks have units of their own.
    """

    key: str
    text: str
    factor: float
    base: int
    sizes: bool = False
    wide: bool = False

    def ticks_at(
        self, axes: Axes, which: Literal["x", "y"], values: Sequence[float], room: float, *, measured: bool = False
    ) -> None:
        """Choose the ticks: at the values themselves if they are few, fit into ``room`` points and are not measured."""
        from matplotlib import rcParams, ticker

        axis, size = axes.xaxis if which == "x" else axes.yaxis, float(rcParams["xtick.labelsize"])
        if self.base:
            axes.set_xscale("log", base=self.base) if which == "x" else axes.set_yscale("log", base=self.base)
        distinct = sorted(set(values))
        if not measured and 1 < len(distinct) <= _FEW_TICKS and self._fit(distinct, room, size, which):
            axis.set_major_locator(ticker.FixedLocator(distinct))
            axis.set_minor_locator(ticker.NullLocator())
        elif self.base:
            narrow = self.base == 10 and bool(distinct) and distinct[-1] < _WIDE * distinct[0]  # noqa: PLR2004 - base
            subs = (1.0, 2.0, 5.0) if narrow else (1.0,)
            most = max(3, int(room / (4.5 if which == "x" else 3.0) / size))
            axis.set_major_locator(ticker.LogLocator(base=self.base, subs=subs, numticks=most))
            axis.set_minor_formatter(ticker.NullFormatter())
            if narrow:
                axis.set_minor_locator(ticker.NullLocator())
        elif self.sizes and distinct:
            step = 2.0 ** math.ceil(math.log2(max(distinct[-1] - min(0.0, distinct[0]), 1e-9) / 5))
            axis.set_major_locator(ticker.MultipleLocator(step))
        else:
            each = (4.0 if which == "x" else 2.4) * size
            axis.set_major_locator(ticker.MaxNLocator(nbins=max(3, min(8, int(room / each))), steps=[1, 2, 2.5, 5, 10]))
        if self.base or self.wide:
            axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: self.tick(value)))
        else:
            axis.set_major_formatter(_plain())

    def tick(self, value: float) -> str:
        """The text of a tick."""
        if self.wide:
            return value_text(self.key, value)
        if self.base == 10 and value > 0:  # noqa: PLR2004 - base
            decade = math.log10(value)
            whole = round(decade)
            if abs(decade - whole) < 1e-9 and whole not in _PLAIN_DECADES:  # noqa: PLR2004 - rounding
                return f"10{str(whole).translate(_SUPERSCRIPTS)}"
        return f"{value:.6g}"

    def _fit(self, values: Sequence[float], room: float, size: float, which: str) -> bool:
        places = [math.log(value) if self.base else value for value in values]
        span = places[-1] - places[0]
        # The outermost values do not lie at the very ends.
        at = [room * 0.9 * (place - places[0]) / span for place in places]
        needs = [text_width(self.tick(value), size) if which == "x" else size for value in values]
        gaps = zip(at, at[1:], needs, needs[1:], strict=False)
        return all(after - before >= (one + other) / 2 + size * 0.6 for before, after, one, other in gaps)


def _plain() -> Any:
    from matplotlib import ticker

    formatter = ticker.ScalarFormatter(useOffset=False)
    formatter.set_scientific(False)
    return formatter


def text_width(text: str, size: float) -> float:
    """How wide a text is, in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    wide, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=size), ismath=False)
    return float(wide)


def scale_for(key: str, values: Sequence[float], base: int, names: Mapping[str, str]) -> Scale:
    """Choose name and unit of an axis for the values that it shows."""
    text = names.get(key, name(key))
    largest = max((abs(value) for value in values), default=0.0)
    smallest = min((abs(value) for value in values if value), default=0.0)
    is_size = quantity(key)[0] == "B"
    if is_size and base == 2 and smallest:  # noqa: PLR2004 - base
        if largest > _ONE_UNIT * smallest:
            return Scale(key, text, 1.0, base, sizes=True, wide=True)
        largest = smallest
    shown = label(key, largest)
    return Scale(key, shown._replace(text=text).axis, shown.scale, base, sizes=is_size)


def limits(values: Sequence[float], key: str) -> tuple[float | None, float | None]:
    """Ends of a linear axis of measured values: from 0 where that does not flatten them; ratios up to 1."""
    least, most = min(values, default=0.0), max(values, default=0.0)
    bottom = 0.0 if least >= 0 and (least < _FROM_ZERO * most or most == 0) else None
    top: float | None = None
    if bottom is not None:
        top = most * _ROOM if most else 1.0
        if quantity(key)[0] == "ratio" and 0.5 < most <= 1:  # noqa: PLR2004 - half
            top = 1.0
    return bottom, top


def texts_of(key: str, values: Sequence[Any], names: Mapping[str, str]) -> tuple[str, list[str]]:
    """Label of an axis of single values, and their texts: with the unit on the axis where all share it.

    >>> texts_of("workload.request_bytes", [4096, 16384], {})
    ('request size (KiB)', ['4', '16'])
    >>> texts_of("ftl.over_provisioning", [0.15, 0.5], {})
    ('over-provisioning', ['0.15', '0.50'])
    """
    text = names.get(key, name(key))
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    positive = [abs(value) for value in numbers if value]
    if len(numbers) == len(values) and positive and max(positive) <= _ONE_UNIT * min(positive):
        shown = label(key, min(positive))
        if shown.unit or any(isinstance(value, float) for value in values):
            texts = [f"{value * shown.scale:.6g}" for value in values]
            digits = max(len(each.partition(".")[2]) for each in texts)
            if digits <= _ALIGNED and not any("e" in each for each in texts):
                # 0.15 and 0.50
                texts = [f"{value * shown.scale:.{digits}f}" for value in values]
            texts = [names.get(str(value), each) for value, each in zip(values, texts, strict=True)]
            return shown._replace(text=text).axis, texts
    return text, [named(key, value, names) for value in values]


def sentence(text: str) -> str:
    """A text with a capital at its beginning.

    >>> sentence("write amplification by over-provisioning")
    'Write amplification by over-provisioning'
    """
    return text[:1].upper() + text[1:]


def named(key: str, value: Any, names: Mapping[str, str]) -> str:
    """The text of a value."""
    return names.get(str(value), value_text(key, value))
