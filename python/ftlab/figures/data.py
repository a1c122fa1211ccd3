"""From tidy frames to points: columns checked, values in order, repetitions averaged."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ftlab import _warned as warned
from ftlab.analysis.intervals import student
from ftlab.errors import ConfigError
from ftlab.studies.frame import to_polars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import polars as pl

# Columns of a study's frame that stand right of its axes.
_STATUS = "status"
# Series or panels beyond this cannot be distinguished.
MOST_GROUPS = 24
_SIZES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_TIMES = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_PARTS = 5
# Columns of tables of `ftlab.analysis`: what is measured, what it is compared with, and what has an interval.
_METRIC, _BASELINE, _MEAN, _ESTIMATES = "metric", "baseline", "mean", ("mean", "improvement")


def nearest(name: str, names: Iterable[str]) -> str:
    """What to say of a column that is not there."""
    names = list(names)
    parts = [each for each in names if each.startswith(f"{name}.")]
    if parts:
        return f"; it has parts: {', '.join(parts[:_PARTS])}{', ...' if len(parts) > _PARTS else ''}"
    # The last part of a key is what is remembered: iops for host.iops.
    ends = [each for each in names if each.endswith(f".{name}")]
    near = ends[:1] or get_close_matches(name, names, 1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; columns: {', '.join(names[:_PARTS])}{', ...' if len(names) > _PARTS else ''}"


def _size_of(text: str) -> float | None:
    """The amount that a text such as ``"32 KiB"``, ``"1.5ms"`` or ``"8"`` begins and ends with."""
    match = re.fullmatch(r"\s*(-?[\d.]+)\s*([A-Za-zµ%]*)\s*", text)
    if match is None:
        return None
    unit = match[2].lower()
    try:
        number = float(match[1])
    except ValueError:
        return None
    if unit in _TIMES:
        return number * _TIMES[unit]
    stem = unit.removesuffix("b").removesuffix("i") if unit not in {"", "%"} else ""
    return number * float(1024 ** _SIZES[stem]) if stem in _SIZES else None


def in_order(values: Sequence[Any]) -> list[Any]:
    """Put distinct values in the order in which people look for them.

    Numbers go by size, texts with sizes or times by these, and texts that differ in numbers only by the numbers. All
    others stay as they come, which in the frame of a study is the order of its axes.

    >>> in_order([8, 2, 4]), in_order(["128KiB", "32KiB", "1 MiB"]), in_order(["qd16", "qd2"])
    ([2, 4, 8], ['32KiB', '128KiB', '1 MiB'], ['qd2', 'qd16'])
    >>> in_order(["greedy", "fifo", "cost_benefit"])
    ['greedy', 'fifo', 'cost_benefit']
    """
    if all(isinstance(value, (int, float)) for value in values):
        return sorted(values)
    texts = [str(value) for value in values]
    sizes = [_size_of(text) for text in texts]
    if None not in sizes:
        return [value for _, value in sorted(zip(sizes, values, strict=True), key=lambda pair: pair[0] or 0.0)]
    if len({re.sub(r"\d+", "0", text) for text in texts}) == 1:
        numbers = [[int(digits) for digits in re.findall(r"\d+", text)] for text in texts]
        return [value for _, value in sorted(zip(numbers, values, strict=True), key=lambda pair: pair[0])]
    return list(values)


class Table:
    """A tidy frame whose columns are asked for by name."""

    def __init__(self, frame: Any, order: Mapping[str, Sequence[Any]] | None = None) -> None:
        """Take a frame.

        Args:
            frame: See :func:`ftlab.studies.frame.to_polars`.
            order: The order of values by column, in place of :func:`in_order`.

        Raises:
            ConfigError: It is no frame, or has no rows.
        """
        self.frame = to_polars(frame)
        self._order = order or {}
        if not self.frame.height:
            raise ConfigError("the frame has no rows")
        for name in self._order:
            self.check(name, "order")

    def with_columns(self, *columns: pl.Series) -> Table:
        """Give the frame with more columns, and the same order of values."""
        return Table(self.frame.with_columns(*columns), self._order)

    def warned(self) -> list[str]:
        """What must be said of the runs of the frame, if anything."""
        names = [name for name in warned.counted(self.frame) if name not in warned.MINOR]
        return [f"Warnings: {', '.join(names)}."] if names else []

    def check(self, name: Any, role: str) -> str:
        """Say that a column is not there.

        Raises:
            ConfigError: It is not there; the message names the nearest.
        """
        if not isinstance(name, str):
            raise ConfigError(f"{role} = {name!r}: expected the name of a column")
        if name not in self.frame.columns:
            raise ConfigError(f"{role}: no column {name!r}{nearest(name, self.frame.columns)}")
        return name

    def is_number(self, name: str) -> bool:
        """Whether a column has numbers."""
        return self.frame.schema[name].is_numeric()

    def numbers(self, name: str, role: str) -> pl.Series:
        """Give a column of numbers; what is not finite is missing.

        Raises:
            ConfigError: There is none of this name, it has no numbers, or no value at all.
        """
        import polars as pl

        self.check(name, role)
        column = self.frame[name]
        if column.null_count() == column.len():
            raise ConfigError(f"{role}: no row has a value of {name!r}{self._failures()}")
        if not column.dtype.is_numeric():
            example = next(value for value in column if value is not None)
            raise ConfigError(f"{role}: column {name!r} has {example!r}, expected numbers")
        wide = column.cast(pl.Float64)
        found = pl.select(pl.when(wide.is_finite()).then(wide).alias(name)).to_series()
        if found.null_count() == found.len():
            raise ConfigError(f"{role}: no row has a finite value of {name!r}")
        return found

    def _failures(self) -> str:
        if {_STATUS, "error"} <= set(self.frame.columns):
            errors = [error for error in self.frame["error"].to_list() if error is not None]
            if errors:
                return f"; {len(errors)} runs failed, the first with: {errors[0]}"
        return ""

    def column(self, name: str, role: str) -> pl.Series:
        """Give a column of names or numbers that rows are grouped by.

        Raises:
            ConfigError: There is none of this name.
        """
        import polars as pl

        column = self.frame[self.check(name, role)]
        if column.dtype.is_float():
            return column.fill_nan(None)
        if column.dtype.is_numeric() or column.dtype in {pl.Boolean, pl.String}:
            return column
        return column.cast(pl.String) if not column.dtype.is_nested() else column.map_elements(str, pl.String)

    def about(self, name: str, named: Callable[[str], str]) -> tuple[str, str]:
        """The key and the name of a column of values.

        In tables of ``ftlab.analysis`` these are those of the metric, and an improvement is one of it over a baseline.

        Raises:
            ConfigError: There are several metrics.
        """
        if name not in _ESTIMATES or _METRIC not in self.frame.columns:
            return name, named(name)
        metrics = self.values(_METRIC, _METRIC, most=None)
        if len(metrics) > 1:
            raise ConfigError(f"the frame has several metrics, {', '.join(map(repr, metrics))}: filter it for one")
        metric = str(metrics[0])
        if name == _MEAN:
            return metric, named(metric)
        bases = self.values(_BASELINE, _BASELINE, most=None) if _BASELINE in self.frame.columns else []
        over = f" over {named(str(bases[0]))}" if len(bases) == 1 else ""
        return name, f"improvement of {named(metric)}{over}"

    def values(self, name: str, role: str, most: int | None = MOST_GROUPS) -> list[Any]:
        """Give the distinct values of a column in their order.

        Raises:
            ConfigError: There is no such column, it has no value, or more of them than can be distinguished.
        """
        found = self.column(name, role).drop_nulls().unique(maintain_order=True).to_list()
        if not found:
            raise ConfigError(f"{role}: no row has a value of {name!r}{self._failures()}")
        if most is not None and len(found) > most:
            raise ConfigError(
                f"{role}: {name!r} has {len(found)} values, more than the {most} that can be distinguished; "
                "filter the frame, or put it on an axis"
            )
        wanted = list(self._order.get(name, ()))
        return [*(value for value in wanted if value in found), *in_order([v for v in found if v not in wanted])]


@dataclass(frozen=True)
class Point:
    """What is drawn at a place: a mean with its interval.

    Attributes:
        mean: Of the values; ``None`` when there are none.
        low: Lower end of the interval; ``None`` without one.
        high: Upper end of the interval.
        count: How many values there are.
    """

    mean: float | None
    low: float | None
    high: float | None
    count: int


@dataclass(frozen=True)
class Means:
    """Points by facet, colour and place.

    Attributes:
        points: By value of the facet, of the colour, and of the axes; ``None`` for what was not asked for.
        counts: The smallest and the largest number of values of a point.
        over: What repetitions differ in.
        missing: Rows without a value, of all rows.
        rows: All rows.
    """

    points: dict[tuple[Any, ...], Point]
    counts: tuple[int, int]
    over: tuple[str, ...]
    missing: int
    rows: int

    def over_what(self, name: Callable[[str], str], how: str = "") -> list[str]:
        """Say what points are means over; nothing where they are single values."""
        least, most = self.counts
        if most <= 1:
            return []
        number = f"{most}" if least == most else f"{least} to {most}"
        if self.over in {(), ("seed",)}:
            return [f"Means over {number} {'seeds' if self.over else 'values'}{how}."]
        return [f"Means over {number} values of {' and '.join(map(name, self.over))}{how}."]

    def notes(self, name: Callable[[str], str], *, confidence: float | None, given: Sequence[str] = ()) -> list[str]:
        """What must be said under a figure of these points.

        Args:
            name: Names of keys.
            confidence: Of the intervals that are drawn; ``None`` without them.
            given: Columns of intervals that were known already.
        """
        how = "" if confidence is None else f" with {confidence * 100:g} % confidence intervals (Student's t)"
        notes = [f"Intervals: {' to '.join(map(name, given))}."] if given else self.over_what(name, how)
        if self.missing:
            notes.append(f"{self.missing} of {self.rows} values are missing.")
        return notes


def _varying(frame: pl.DataFrame, keys: Sequence[str], names: Sequence[str]) -> list[str]:
    """Columns that have several values where the keys have one."""
    import polars as pl

    counts = [pl.col(name).n_unique() for name in names]
    found = frame.group_by(keys).agg(counts) if keys else frame.select(counts)
    return [name for name in names if found[name].max() not in {None, 1}]


def _fixed(table: Table, keys: Sequence[str | None], over: Sequence[str]) -> None:
    """Refuse to average over what nobody named."""
    frame = table.frame
    used = [key for key in dict.fromkeys(keys) if key is not None]
    repeated = [name for name in over if name in frame.columns and name not in used]
    # In the frame of a study the axes stand first.
    end = next((name for name in (_STATUS, *repeated) if name in frame.columns), None)
    axes = frame.columns[: frame.columns.index(end)] if end is not None else []
    varying = _varying(frame, used, [name for name in axes if name not in {*used, *over}])
    same = [*used, *repeated]
    if not varying and repeated and frame.select(same).n_unique() < frame.height:
        words = [name for name, kind in frame.schema.items() if not kind.is_float() and not kind.is_nested()]
        varying = _varying(frame, same, [name for name in words if name not in {*used, *over}])[:1]
        if not varying:
            raise ConfigError(f"several rows have the same {', '.join(same)}: filter the frame")
    if varying:
        listed = ", ".join(varying)
        raise ConfigError(
            f"several rows fall on one point: they differ in {listed}; name it as x, color or facet, filter the frame, "
            f"or take means over it with over={[*over, *varying]!r}"
        )


def means(
    table: Table,
    y: str,
    keys: Sequence[str | None],
    *,
    over: Sequence[str],
    confidence: float,
    low: str | None = None,
    high: str | None = None,
    role: str = "y",
) -> Means:
    """Average the rows of each point, with confidence intervals by Student's t.

    Args:
        table: The frame.
        y: The column of values.
        keys: Columns of facet, colour and axes; ``None`` for what was not asked for.
        over: Columns that repetitions differ in.
        confidence: Of the intervals.
        low: Column of the lower ends of intervals that are known already.
        high: Column of the upper ends.
        role: What ``y`` is called in errors.

    Raises:
        ConfigError: Rows that fall on one point differ in more than ``over``.
    """
    import polars as pl

    if (low is None) != (high is None):
        raise ConfigError("give both low and high, or neither")
    values = table.numbers(y, role)
    over = list(dict.fromkeys(over))
    for name in over:
        if name != "seed":
            table.check(name, "over")
    _fixed(table, keys, over)
    columns = [
        (pl.lit(None) if key is None else table.column(key, "key")).alias(f"k{at}") for at, key in enumerate(keys)
    ]
    names = [f"k{at}" for at in range(len(keys))]
    ends = [table.numbers(end, role).alias(role) for end, role in ((low, "low"), (high, "high")) if end is not None]
    frame = table.frame.select(*columns, values.alias("y"), *ends)
    whole = frame.drop_nulls([name for name, key in zip(names, keys, strict=True) if key is not None])
    grouped = whole.group_by(names, maintain_order=True).agg(
        pl.col("y").mean().alias("mean"),
        pl.col("y").std().alias("stdev"),
        pl.col("y").count().alias("count"),
        *(pl.col(end.name).drop_nulls().alias(end.name) for end in ends),
    )
    points = {}
    for row in grouped.iter_rows(named=True):
        mean, count = row["mean"], row["count"]
        ends_of = (None, None)
        if ends:
            if count > 1:
                raise ConfigError(f"several rows fall on one point, and intervals of {low!r} cannot be averaged")
            ends_of = tuple(next(iter(row[end]), None) for end in ("low", "high"))  # type: ignore[assignment] # two ends make a pair
            if mean is not None and None not in ends_of and not ends_of[0] <= mean <= ends_of[1]:
                raise ConfigError(f"{y} = {mean:g} is outside its interval, {ends_of[0]:g} to {ends_of[1]:g}")
        elif count > 1:
            half = student(count - 1, confidence) * row["stdev"] / math.sqrt(count)
            ends_of = (mean - half, mean + half)
        points[tuple(row[name] for name in names)] = Point(mean, *ends_of, count)
    counts = [point.count for point in points.values() if point.count]
    if not counts:
        raise ConfigError(f"{role}: no row has a value of {y!r} and of all other columns that are drawn")
    present = tuple(name for name in over if name in table.frame.columns)
    missing = frame.height - whole["y"].count()
    return Means(points, (min(counts), max(counts)), present, missing, frame.height)


def interval_of(table: Table, y: str, low: str | None, high: str | None) -> tuple[str | None, str | None]:
    """Columns of the interval: those named, else those of a table of ``ftlab.analysis``."""
    known = low is None and high is None and y in _ESTIMATES and {"low", "high"} <= set(table.frame.columns)
    return ("low", "high") if known else (low, high)


def finite(values: Iterable[float | None]) -> list[float]:
    """Those of some numbers that are there."""
    return [value for value in values if value is not None and math.isfinite(value)]
