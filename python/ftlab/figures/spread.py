"""Distributions: cumulative curves and histograms, of samples or of values with counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab._checks import checked
from ftlab.errors import ConfigError
from ftlab.figures.data import MOST_GROUPS, Means, Table, means
from ftlab.figures.points import draw_legend, finish_y, name_places
from ftlab.figures.scales import (
    Log,
    Scale,
    check_log,
    scale_for,
    sentence,
    spans_decades,
    wants_log,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ftlab.figures.canvas import Canvas, Look, Width

    Array = NDArray[np.float64]

# A curve of more points than this looks no different.
_MOST_POINTS = 2_000
_MOST_BINS, _MOST_EDGES = 60, 5_000
# So few whole numbers far from each other have a bar each.
_MOST_ALONE = 16
# Columns of percentiles, and the share of values that are not above them.
_PERCENTILES = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
# Shares that differ by more than this factor are drawn on a logarithmic axis.
_TALL = 1_000


@dataclass(frozen=True)
class _Groups:
    """Values with weights, by facet and colour.

    Attributes:
        facets: Values of the facet.
        colors: Values of the colour.
        values: Values in ascending order with their weights.
        missing: Rows without a value, of all rows.
        rows: All rows.
        means: What percentiles are means over.
    """

    facets: list[Any]
    colors: list[Any]
    values: dict[tuple[Any, Any], tuple[Array, Array]]
    missing: int
    rows: int
    means: Means | None = None

    @property
    def every(self) -> Array:
        """All values."""
        return np.concatenate([values for values, _ in self.values.values()])

    def notes(self, look: Look) -> list[str]:
        """What must be said under the figure."""
        notes = [f"{self.missing} of {self.rows} values are missing."] if self.missing else []
        if self.means is not None:
            notes = ["Points: smallest, p50, p90, p99, p99.9, largest.", *self.means.over_what(look.name), *notes]
        return notes


def _groups(table: Table, x: str, weight: str | None, color: str | None, facet: str | None) -> _Groups:
    import polars as pl

    facets = [None] if facet is None else table.values(facet, "facet")
    colors = [None] if color is None else table.values(color, "color")
    weights = None if weight is None else table.numbers(weight, "weight").fill_null(0.0)
    if weights is not None:
        least = weights.min()
        if isinstance(least, float) and least < 0:
            raise ConfigError(f"weight: column {weight!r} has {least:g}, expected counts, which are not below 0")
        if not weights.sum():
            raise ConfigError(f"weight: column {weight!r} sums to 0")
    frame = table.frame.select(
        (pl.lit(None) if facet is None else table.column(facet, "facet")).alias("facet"),
        (pl.lit(None) if color is None else table.column(color, "color")).alias("color"),
        table.numbers(x, "x").alias("x"),
        (pl.lit(1.0) if weights is None else weights).alias("weight"),
    )
    whole = frame.drop_nulls(["x", *(each for each, key in (("facet", facet), ("color", color)) if key is not None)])
    values = {}
    together = whole.group_by("facet", "color", "x").agg(pl.col("weight").sum()).filter(pl.col("weight") > 0)
    for (one, other), part in together.sort("x").group_by(["facet", "color"], maintain_order=True):
        values[one, other] = part["x"].to_numpy(), part["weight"].to_numpy()
    if not values:
        raise ConfigError(f"x: no row has a value of {x!r} and of all other columns that are drawn")
    return _Groups(facets, colors, values, frame.height - whole.height, frame.height)


def _percentiles(table: Table, x: str, color: str | None, facet: str | None, over: Sequence[str]) -> _Groups:
    """The percentiles of a summary as points of its distribution: means over repetitions."""
    columns = {f"{x}.{part}": share for part, share in _PERCENTILES.items() if f"{x}.{part}" in table.frame.columns}
    facets = [None] if facet is None else table.values(facet, "facet")
    colors = [None] if color is None else table.values(color, "color")
    points: dict[tuple[Any, Any], list[tuple[float, float]]] = {}
    missing = rows = 0
    found = None
    for column, share in columns.items():
        found = means(table, column, [facet, color], over=over, confidence=0.95)
        missing, rows = missing + found.missing, rows + found.rows
        for key, point in found.points.items():
            if point.mean is not None:
                points.setdefault((key[0], key[1]), []).append((point.mean, share))
    values = {key: (np.array([v for v, _ in drawn]), np.array([s for _, s in drawn])) for key, drawn in points.items()}
    return _Groups(facets, colors, values, missing, rows, found)


def _curve(values: Array, weights: Array) -> tuple[Array, Array]:
    """Shares of values not above each value; thinned where nobody could see the difference."""
    shares = np.cumsum(weights) / weights.sum()
    shares[-1] = 1.0
    if values.size > _MOST_POINTS:
        # Evenly by share, and by share of what is left: the tail keeps its points.
        left = 1 - np.concatenate([[0.0], shares[:-1]])
        even = np.searchsorted(shares, np.linspace(0, 1, _MOST_POINTS // 2))
        tail = np.searchsorted(-left, -np.logspace(0, math.log10(left[-1]), _MOST_POINTS // 2))
        keep = np.unique(np.clip(np.concatenate([[0], even, tail, [values.size - 1]]), 0, values.size - 1))
        values, shares = values[keep], shares[keep]
    return values, shares


@checked
def cdf(
    frame: Any,
    *,
    x: str,
    weight: str | None = None,
    color: str | None = None,
    facet: str | None = None,
    complement: bool = False,
    over: Sequence[str] = ("seed",),
    log: Log | None = None,
    order: Mapping[str, Sequence[Any]] | None = None,
    names: Mapping[str, str] | None = None,
    title: str | None = None,
    note: str | None = None,
    width: Width = "page",
    height: float | None = None,
) -> Figure:
    """Draw the share of values that are not above each value.

    Of samples (``ftlab.Result.requests``), of values with counts (``weight``), or of the percentiles that summaries
    have: where ``x`` is no column but ``x.p50`` and the like are, these are the points, as means over repetitions.

    Args:
        frame: A tidy frame.
        x: Column of the values, or the leading parts of percentiles, such as ``"latency_ns.read"``.
        weight: Column that says how often a value occurs. Of bins, take their upper ends as ``x``.
        color: Column whose values have a curve each; their rows are taken together.
        facet: Column whose values have a panel each.
        complement: Draw the share above each value on a logarithmic axis: the tail.
        over: Columns that repetitions differ in, for percentiles.
        log: Logarithmic axes. Default: ``x`` where the largest value is at least 100 times the smallest.
        order: The order of a column's values, in place of the natural one.
        names: Names of keys and values, in place of those that ftlab gives.
        title: In place of the one that says what is drawn; ``""`` for none.
        note: In place of the one under the figure; ``""`` for none.
        width: ``"column"``, ``"page"`` or ``"slide"``.
        height: Of a panel, in inches.

    Raises:
        ConfigError: A column is missing, has no values or none that can be drawn, or an option is wrong.
    """
    from ftlab.figures.canvas import MARKERS, Canvas, Look, styled

    check_log(log)
    look = Look(title, note, width, height, log, dict(names or {}))
    table = Table(frame, order)
    summed = isinstance(x, str) and x not in table.frame.columns and f"{x}.p50" in table.frame.columns
    if summed and weight is not None:
        raise ConfigError("weight: percentiles have none")
    found = _percentiles(table, x, color, facet, over) if summed else _groups(table, x, weight, color, facet)
    every = found.every
    base = wants_log(log, "x", every.tolist(), chosen=10 if spans_decades([every.min(), every.max()]) else 0)
    scale = scale_for(x, [every.min(), every.max()], base, look.names)
    every_scaled = [every.min() * scale.factor, every.max() * scale.factor]
    with styled(width):
        canvas = Canvas(look, facet, found.facets)
        handles: dict[Any, Any] = {}
        lowest = 1.0
        for axes, one in zip(canvas.axes, found.facets, strict=True):
            for at, other in enumerate(found.colors):
                if (one, other) not in found.values:
                    continue
                values, given = found.values[one, other]
                xs, shares = (values, given) if summed else _curve(values, given)
                if complement:
                    above = 1 - shares if summed else 1 - np.concatenate([[0.0], shares[:-1]])
                    shares = np.where(above > 0, above, np.nan)
                    lowest = min(lowest, float(np.nanmin(shares)))
                elif not summed:
                    # From 0 to the first value.
                    xs, shares = np.concatenate([xs[:1], xs]), np.concatenate([[0.0], shares])
                style = _style(canvas, found.colors, at)
                steps = "steps-pre" if complement else "steps-post"
                marks: dict[str, Any] = {"marker": MARKERS[at % len(MARKERS)]} if summed else {"drawstyle": steps}
                (handles[other],) = axes.plot(xs * scale.factor, shares, **style, **marks)
        for axes in canvas.axes:
            scale.ticks_at(axes, "x", every_scaled, canvas.room[0], measured=True)
        tall = Scale("share", "share above" if complement else "cumulative share", 1.0, 10 if complement else 0)
        finish_y(canvas, tall, [lowest, 1.0], from_zero=True)
        for axes in canvas.axes:
            axes.set_ylim((lowest / 2, 1.2) if complement else (0, 1.02))
        canvas.label(scale.text, tall.text)
        if color is not None:
            draw_legend(canvas, found.colors, handles, look.name(color), lambda value: look.value(color, value))
        return canvas.finish(sentence(f"distribution of {look.name(x)}"), [*found.notes(look), *table.warned()])


def _style(canvas: Canvas, colors: list[Any], at: int) -> dict[str, Any]:
    from ftlab.figures.canvas import DASHES, series_colors

    return {"color": series_colors(colors)[at], "linestyle": DASHES[at % len(DASHES)], "linewidth": canvas.line}


@dataclass(frozen=True)
class _Bins:
    """Bins of a histogram; ``each`` where every value has its own."""

    edges: Array
    each: bool = False


def _whole(values: Array) -> bool:
    return bool(np.all(values == np.round(values)))


def _bins(every: Array, total: float, wanted: int | None, base: int) -> _Bins:
    """Choose the bins: one for each whole number where these are few, else of one width, or growing by one factor."""
    least, most = float(every.min()), float(every.max())
    if base:
        count = wanted or min(_MOST_BINS, max(10, int(10 * math.log10(most / least))))
        edges = np.logspace(math.log10(least), math.log10(most), count + 1)
        edges[0], edges[-1] = least, most
        return _Bins(edges)
    if least == most:
        return _Bins(np.array([least - 0.5, least + 0.5]), each=True)
    if _whole(every):
        span = most - least + 1
        if wanted is None and span <= _MOST_BINS:
            return _Bins(np.arange(least - 0.5, most + 1), each=True)
        # Bins of whole numbers have as many of them each, and 0 is in the middle of one.
        step = max(1, math.ceil(span / (wanted or _MOST_BINS)))
        # An odd number has a middle.
        step += least < 0 <= most and step % 2 == 0
        first = -step / 2 - step * math.ceil((-step / 2 - least + 0.5) / step) if least < 0 <= most else least - 0.5
        return _Bins(np.arange(first, most + step, step))
    count = wanted or int(np.clip(math.ceil(2 * total ** (1 / 3)), 10, _MOST_BINS))
    return _Bins(np.linspace(least, most, count + 1))


@checked
def histogram(
    frame: Any,
    *,
    x: str,
    weight: str | None = None,
    color: str | None = None,
    facet: str | None = None,
    bins: int | None = None,
    counts: bool = False,
    log: Log | None = None,
    order: Mapping[str, Sequence[Any]] | None = None,
    names: Mapping[str, str] | None = None,
    title: str | None = None,
    note: str | None = None,
    width: Width = "page",
    height: float | None = None,
) -> Figure:
    """Draw how often values occur: numbers in bins, names one by one.

    Args:
        frame: A tidy frame of samples, or of values with counts.
        x: Column of the values.
        weight: Column that says how often a value occurs.
        color: Column whose values have an outline (or, for names, a bar) each.
        facet: Column whose values have a panel each.
        bins: How many bins. Default: one for each whole number where these are at most 16 apart or span at most 60.
            Else by the number of values, at most 60; on a logarithmic axis ten for each factor of ten.
        counts: Draw how many there are. Default: their share of the colour's.
        log: Logarithmic axes. Default: ``x`` where the largest value is at least 100 times the smallest, ``y`` where
            bins differ by a factor of 1,000.
        order: The order of a column's values, in place of the natural one.
        names: Names of keys and values, in place of those that ftlab gives.
        title: In place of the one that says what is drawn; ``""`` for none.
        note: In place of the one under the figure; ``""`` for none.
        width: ``"column"``, ``"page"`` or ``"slide"``.
        height: Of a panel, in inches.

    Raises:
        ConfigError: A column is missing, has no values or none that can be drawn, or an option is wrong.
    """
    from ftlab.figures.canvas import Canvas, Look, styled

    check_log(log)
    if bins is not None and not 1 <= bins <= _MOST_EDGES:
        raise ConfigError(f"bins = {bins}: expected 1 to {_MOST_EDGES}")
    look = Look(title, note, width, height, log, dict(names or {}))
    table = Table(frame, order)
    counted = _counted(table, x, weight, color, facet, bins=bins, counts=counts, look=look)
    found, cut = counted.found, counted.bins
    with styled(width):
        canvas = Canvas(look, facet, found.facets)
        if color is not None:
            handles = _handles(canvas, found.colors, filled=cut.each)
            draw_legend(canvas, found.colors, handles, look.name(color), lambda value: look.value(color, value))
        for axes, one in zip(canvas.axes, found.facets, strict=True):
            for at, other in enumerate(found.colors):
                if (one, other) in counted.heights:
                    _draw_bins(canvas, axes, cut, counted.heights[one, other], found.colors, at, counted.across.factor)
        if counted.places is not None:
            name_places(canvas, x, counted.places, look)
        else:
            few = cut.each and cut.edges.size <= _MOST_ALONE
            middles = ((cut.edges[1:] + cut.edges[:-1]) / 2 * counted.across.factor).tolist()
            for axes in canvas.axes:
                counted.across.ticks_at(axes, "x", middles, canvas.room[0], measured=not few)
                axes.set_xlabel(counted.across.text)
        finish_y(canvas, counted.up, [counted.least, counted.most], from_zero=True)
        canvas.label(canvas.axes[-1].get_xlabel(), counted.up.text)
        return canvas.finish(sentence(f"distribution of {look.name(x)}"), [*found.notes(look), *table.warned()])


@dataclass(frozen=True)
class _Counted:
    """How often values are in which bins.

    Attributes:
        found: The values.
        places: Names on the axis, where each has its own place.
        bins: The bins.
        heights: Heights of the bins by facet and colour.
        across: The horizontal axis.
        up: The vertical axis.
        least: The smallest height above 0.
        most: The largest height.
    """

    found: _Groups
    places: list[Any] | None
    bins: _Bins
    heights: dict[tuple[Any, Any], Array]
    across: Scale
    up: Scale
    least: float
    most: float


def _counted(
    table: Table,
    x: str,
    weight: str | None,
    color: str | None,
    facet: str | None,
    *,
    bins: int | None,
    counts: bool,
    look: Look,
) -> _Counted:
    table.check(x, "x")
    places: list[Any] | None = None
    if not table.is_number(x):
        if look.log is not None and "x" in look.log:
            raise ConfigError(f"log = {look.log!r}: {x!r} has names, expected numbers")
        places = table.values(x, "x", most=2 * MOST_GROUPS)
    elif bins is None and (look.log is None or "x" not in look.log):
        places = _apart(table, x)
    if places is None:
        found = _groups(table, x, weight, color, facet)
    else:
        found = _groups(_numbered(table, x, places), _NUMBER, weight, color, facet)
    every = found.every
    ends = [float(every.min()), float(every.max())]
    base = 0 if places is not None else wants_log(look.log, "x", ends, chosen=10 if spans_decades(ends) else 0)
    if places is not None:
        cut = _Bins(np.arange(-0.5, len(places)), each=True)
    else:
        cut = _bins(every, sum(float(weights.sum()) for _, weights in found.values.values()), bins, base)
    heights = {}
    for key, (values, weights) in found.values.items():
        height = np.histogram(values, cut.edges, weights=weights)[0]
        heights[key] = height if counts else height / weights.sum()
    tops = np.concatenate(list(heights.values()))
    positive = tops[tops > 0]
    least, most = float(positive.min()), float(positive.max())
    tall = wants_log(look.log, "y", [least, most], chosen=10 if most >= _TALL * least else 0)
    up = Scale("count", "number of values" if counts else "share of values", 1.0, tall)
    across = Scale(x, x, 1.0, 0) if places is not None else scale_for(x, ends, base, look.names)
    return _Counted(found, places, cut, heights, across, up, least, most)


_NUMBER = "ftlab:number"


def _apart(table: Table, x: str) -> list[Any] | None:
    """Numbers that stand for themselves, such as 8, 16, 32 and 64: few, whole, and far from each other."""
    found = table.numbers(x, "x").drop_nulls().unique().sort().to_numpy()
    if found.size > _MOST_ALONE or not _whole(found) or (found.size > 1 and found[-1] - found[0] < 2 * found.size):
        return None
    return table.values(x, "x", most=None)


def _numbered(table: Table, x: str, places: list[Any]) -> Table:
    """Put names on an axis: their numbers in the order of the axis."""
    import polars as pl

    numbers = dict(zip(places, range(len(places)), strict=True))
    at = [None if value is None else float(numbers[value]) for value in table.column(x, "x").to_list()]
    return table.with_columns(pl.Series(_NUMBER, at, pl.Float64))


def _handles(canvas: Canvas, colors: list[Any], *, filled: bool) -> dict[Any, Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from ftlab.figures.canvas import HATCHES, series_colors

    if not filled:
        return {value: Line2D([], [], **_style(canvas, colors, at)) for at, value in enumerate(colors)}
    return {
        value: Patch(facecolor=hue, hatch=HATCHES[at % len(HATCHES)], edgecolor="white")
        for at, (value, hue) in enumerate(zip(colors, series_colors(colors), strict=True))
    }


def _draw_bins(
    canvas: Canvas, axes: Any, cut: _Bins, heights: Array, colors: list[Any], at: int, factor: float
) -> None:
    from ftlab.figures.canvas import HATCHES, series_colors

    hue, edges = series_colors(colors)[at], cut.edges * factor
    if cut.each:
        wide = 0.84 / len(colors)
        middles = (edges[1:] + edges[:-1]) / 2 + (at - (len(colors) - 1) / 2) * wide * factor
        axes.bar(middles, heights, wide * factor, facecolor=hue, hatch=HATCHES[at % len(HATCHES)], edgecolor="white")
    elif len(colors) == 1:
        axes.stairs(heights, edges, fill=True, color=hue, linewidth=0)
    else:
        axes.stairs(heights, edges, baseline=None, **_style(canvas, colors, at))
