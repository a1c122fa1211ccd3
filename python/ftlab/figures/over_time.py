"""Time series of several runs: a line through the middle of them, and a band that they are in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab._checks import checked
from ftlab.errors import ConfigError
from ftlab.figures.data import Table
from ftlab.figures.points import draw_legend, finish_y
from ftlab.figures.scales import Log, check_log, scale_for, sentence, spans_decades, wants_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ftlab.figures.canvas import Canvas, Width

    Array = NDArray[np.float64]
    Run = tuple[Array, Array, Array]

# Places at which runs are compared: more would show single intervals.
_PLACES = 60


@dataclass(frozen=True)
class _Band:
    """What is drawn of some runs."""

    x: Array
    middle: Array
    low: Array
    high: Array
    runs: int


def _values(ends: Array, values: Array, places: Array) -> Array:
    """The value of the interval that each place is in, or the middle one of those since the place before.

    NaN where the run has ended, or has not begun to have values.
    """
    known = np.isfinite(values)
    ends, values = ends[known], values[known]
    found = np.full(places.size, np.nan)
    first = 0
    for at, last in enumerate(np.searchsorted(ends, places)):
        if last < values.size:
            found[at] = np.median(values[min(first, last) : last + 1])
            first = last + 1
    return found


def _band(runs: Sequence[Run], spread: float) -> _Band | None:
    """The median of runs at common places, and a band around it."""
    lasts = [ends[np.isfinite(values)].max() for ends, values, _ in runs if np.isfinite(values).any()]
    if not lasts:
        return None
    # As far as all of them go.
    last = min(lasts)
    single = runs[0][0][np.isfinite(runs[0][1])]
    places = single if len(runs) == 1 and single.size <= _PLACES else np.linspace(last / _PLACES, last, _PLACES)
    lines = np.array([_values(ends, values, places) for ends, values, _ in runs])
    tops = np.array([_values(ends, values, places) for ends, _, values in runs])
    if np.isnan(lines).all(axis=0).any():
        keep = ~np.isnan(lines).all(axis=0)
        places, lines, tops = places[keep], lines[:, keep], tops[:, keep]
    middle = np.nanmedian(lines, axis=0)
    if not np.array_equal(lines, tops, equal_nan=True):
        # From one column to another, each in the middle of the runs.
        known = ~np.isnan(tops).all(axis=0)
        high = np.full(places.size, np.nan)
        high[known] = np.nanmedian(tops[:, known], axis=0)
        return _Band(places, middle, middle, high, len(runs))
    low, high = (np.nanquantile(lines, share, axis=0) for share in ((1 - spread) / 2, (1 + spread) / 2))
    return _Band(places, middle, low, high, len(runs))


def _runs(table: Table, x: str, y: str, upto: str, keys: Sequence[str], over: Sequence[str]) -> dict[Any, list[Run]]:
    """The runs of each facet and colour.

    Raises:
        ConfigError: Rows are of several runs, and nothing says of which.
    """
    import polars as pl

    names = list(dict.fromkeys([*keys, *(each for each in over if each in table.frame.columns)]))
    columns = {name: table.numbers(name, role) for name, role in ((x, "x"), (y, "y"), (upto, "upto"))}
    frame = table.frame.select(
        *(table.column(name, "color").alias(f"key {name}") for name in names),
        *(values.alias(role) for role, values in zip("xyt", (columns[x], columns[y], columns[upto]), strict=True)),
    )
    found: dict[Any, list[Run]] = {}
    parts = frame.group_by([pl.col(f"key {name}") for name in names], maintain_order=True) if names else [((), frame)]
    for key, part in parts:
        ends, values, tops = (part[role].cast(pl.Float64).fill_null(np.nan).to_numpy() for role in "xyt")
        if (np.diff(ends) < 0).any():
            raise ConfigError(
                f"{x!r} goes back: rows are of several runs; name what they differ in as color or facet, "
                f"filter the frame, or take the middle over it with over={[*over]!r} and more"
            )
        values_of = dict(zip(names, key, strict=True))
        found.setdefault(tuple(values_of[name] for name in keys), []).append((ends, values, tops))
    return found


@checked
def series(
    frame: Any,
    *,
    y: str,
    x: str = "requests",
    upto: str | None = None,
    color: str | None = None,
    facet: str | None = None,
    over: Sequence[str] = ("seed",),
    spread: float = 1.0,
    log: Log | None = None,
    order: Mapping[str, Sequence[Any]] | None = None,
    names: Mapping[str, str] | None = None,
    title: str | None = None,
    note: str | None = None,
    width: Width = "page",
    height: float | None = None,
) -> Figure:
    """Draw time series of runs: a line through the middle of repetitions, and a band that they are in.

    Args:
        frame: A row for each interval of each run, as :func:`ftlab.analysis.series` gives it.
        y: Column of the values, such as ``read_p50_ns``.
        x: Column of the ends of intervals: ``requests``, or ``simulated_ns``.
        upto: Column that the band goes up to, such as ``read_p99_ns``. Default: the band is that of the repetitions.
        color: Column whose values have a line each.
        facet: Column whose values have a panel each.
        over: Columns that repetitions differ in.
        spread: The share of the repetitions in the band; 1 is from the least to the most.
        log: Logarithmic axes. Default: ``y`` where the largest value is at least 100 times the smallest.
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
    if not 0 < spread <= 1:
        raise ConfigError(f"spread = {spread:g}: expected a share, above 0 and at most 1")
    look = Look(title, note, width, height, log, dict(names or {}))
    over = [over] if isinstance(over, str) else over
    table = Table(frame, order)
    facets = [None] if facet is None else table.values(facet, "facet")
    colors = [None] if color is None else table.values(color, "color")
    keys = [key for key in (facet, color) if key is not None]
    runs = _runs(table, x, y, upto or y, keys, over)
    bands = {key: band for key, each in runs.items() if (band := _band(each, spread)) is not None}
    ends = np.concatenate([[band.low, band.middle, band.high] for band in bands.values()], axis=None)
    every = ends[np.isfinite(ends)].tolist()
    places = np.concatenate([band.x for band in bands.values()])
    base = wants_log(log, "y", every, chosen=10 if spans_decades(every) else 0)
    y_scale, x_scale = (
        scale_for(y, every, base, look.names),
        scale_for(x, [0.0, float(places.max())], wants_log(log, "x", places.tolist(), chosen=0), look.names),
    )
    with styled(width):
        canvas = Canvas(look, facet, facets)
        handles = _draw(canvas, bands, (facets, colors), (facet, color), (x_scale.factor, y_scale.factor))
        for axes in canvas.axes:
            x_scale.ticks_at(axes, "x", (places * x_scale.factor).tolist(), canvas.room[0], measured=True)
        finish_y(canvas, y_scale, every, from_zero=False)
        canvas.label(x_scale.text, y_scale.text)
        if color is not None:
            draw_legend(canvas, colors, handles, look.name(color), lambda value: look.value(color, value))
        notes = _notes(bands, look.name(upto) if upto else "", spread)
        return canvas.finish(sentence(f"{look.name(y)} over time"), [*notes, *table.warned()])


def _draw(
    canvas: Canvas,
    bands: Mapping[Any, _Band],
    values: tuple[list[Any], list[Any]],
    named: tuple[str | None, str | None],
    factors: tuple[float, float],
) -> dict[Any, Any]:
    from ftlab.figures.canvas import COLORS, DASHES, series_colors

    facets, colors = values
    hues = series_colors(colors) if len(colors) > 1 else [COLORS[0]]
    handles: dict[Any, Any] = {}
    for axes, one in zip(canvas.axes, facets, strict=True):
        for at, other in enumerate(colors):
            key = tuple(value for value, name in zip((one, other), named, strict=True) if name is not None)
            if (band := bands.get(key)) is None:
                continue
            x = band.x * factors[0]
            style: dict[str, Any] = {"color": hues[at], "linestyle": DASHES[at % len(DASHES)]}
            (handles[other],) = axes.plot(x, band.middle * factors[1], linewidth=canvas.line, **style)
            low, high = band.low * factors[1], band.high * factors[1]
            known = np.isfinite(high)
            axes.fill_between(x[known], low[known], high[known], color=hues[at], alpha=0.2, linewidth=0)
    return handles


def _notes(bands: Mapping[Any, _Band], upto: str, spread: float) -> list[str]:
    """What must be said under the figure."""
    counts = sorted({band.runs for band in bands.values()})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    several = counts[-1] > 1
    line = f"Lines: the median of {runs} runs." if several else ""
    if upto:
        band = f"Bands: up to {upto}{', the median of the runs' if several else ''}."
    elif several:
        band = "Bands: from the least to the most." if spread == 1 else f"Bands: {100 * spread:g} % of the runs."
    else:
        band = ""
    return [text for text in (line, band) if text]
