"""Lines and bars: means by place, with their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ftlab._checks import checked
from ftlab._labels import common_key, part_text, quantity
from ftlab.analysis.tables import check_confidence
from ftlab.errors import ConfigError
from ftlab.figures.data import MOST_GROUPS, Means, Table, finite, interval_of, means
from ftlab.figures.scales import (
    Log,
    base_of_powers,
    check_log,
    limits,
    scale_for,
    sentence,
    spans_decades,
    text_width,
    texts_of,
    wants_log,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ftlab.figures.canvas import Canvas, Look, Width
    from ftlab.figures.scales import Scale

Error = Literal["auto", "bars", "band", "none"]
_ERRORS = ("auto", "bars", "band", "none")
# From this number of places on, intervals are a band, and markers would touch each other.
_BAND_FROM, _MARKERS_TO, _THIN_FROM = 25, 60, 200
# What stands on a logarithmic axis begins so far below the smallest value.
_FOOT = 3
# Names along an axis are broken into lines of so many letters' height.
_LONGEST = 10
# Columns that are drawn together become rows of these.
_PART, _VALUE = "ftlab:part", "ftlab:value"


def heading(what: str, *by: str) -> str:
    """A title.

    >>> heading("read latency, p99", "queue depth"), heading("hit ratio", "size", "scheme")
    ('Read latency, p99, by queue depth', 'Hit ratio by size and scheme')
    """
    return sentence(f"{what}{',' if ',' in what else ''} by {' and '.join(by)}")


def melted(
    frame: Any, y: str | Sequence[str], color: str | None, order: Mapping[str, Sequence[Any]] | None, look: Look
) -> _Values:
    """Put several columns below each other, with their names as colours."""
    if isinstance(y, str):
        table = Table(frame, order)
        key, name = table.about(y, look.name)
        return _Values(table, y, color, key, look.names.get(y, name))
    import polars as pl

    columns = list(dict.fromkeys(y))
    if not columns:
        raise ConfigError("y: no column is named")
    if color is not None:
        raise ConfigError("y: several columns need colour to distinguish them; give color or several y")
    table = Table(frame, order)
    for each in columns:
        table.numbers(each, "y")
    if len({quantity(each)[0] for each in columns}) > 1:
        kinds = ", ".join(f"{each} in {quantity(each)[0] or 'no unit'}" for each in columns)
        raise ConfigError(f"y: columns of one figure have one unit, found {kinds}")
    parts = [
        table.frame.with_columns(
            pl.lit(each).alias(_PART),
            (table.numbers(each, "y") * (quantity(each)[1] / quantity(columns[0])[1])).alias(_VALUE),
        )
        for each in columns
    ]
    both = Table(pl.concat(parts), {**(order or {}), _PART: columns})
    return _Values(both, _VALUE, _PART, columns[0], look.name(common_key(columns)), tuple(columns))


@dataclass(frozen=True)
class _Values:
    """What is drawn.

    Attributes:
        table: The frame.
        y: The column of values.
        color: The column of colours.
        key: The key of the values, which says their unit.
        name: Their name.
        parts: The columns that are drawn together, if there are several.
    """

    table: Table
    y: str
    color: str | None
    key: str
    name: str
    parts: tuple[str, ...] = ()

    def color_text(self, look: Look, value: Any) -> str:
        """Text of a legend entry."""
        if self.parts:
            return look.names.get(str(value), part_text(value, common_key(self.parts)))
        return look.value(self.color or "", value)

    def legend_title(self, look: Look) -> str:
        """Title of the legend; none for parts, which say themselves what they are."""
        return "" if self.parts or self.color is None else look.name(self.color)


@dataclass(frozen=True)
class _Drawing:
    """Everything that lines and bars share: panels, series and their points."""

    values: _Values
    look: Look
    x: str
    facet: str | None
    found: Means
    facets: list[Any]
    colors: list[Any]
    given: tuple[str, ...]

    @property
    def means(self) -> list[float]:
        """All means."""
        return finite(point.mean for point in self.found.points.values())

    @property
    def ends(self) -> list[float]:
        """All means, and the ends of their intervals."""
        return finite(end for point in self.found.points.values() for end in (point.mean, point.low, point.high))

    def title(self) -> str:
        """What the figure shows."""
        return heading(self.values.name, self.look.name(self.x))

    def notes(self, confidence: float, *, intervals: bool) -> list[str]:
        """What must be said under the figure, with or without intervals."""
        if not intervals:
            return self.found.notes(self.look.name, confidence=None)
        return self.found.notes(self.look.name, confidence=confidence, given=self.given)


def _prepared(
    frame: Any,
    x: str,
    y: str | Sequence[str],
    color: str | None,
    facet: str | None,
    look: Look,
    *,
    order: Mapping[str, Sequence[Any]] | None,
    over: Sequence[str],
    confidence: float,
    low: str | None,
    high: str | None,
) -> _Drawing:
    check_confidence(confidence)
    if isinstance(over, str):
        over = [over]
    values = melted(frame, y, color, order, look)
    table = values.table
    table.check(x, "x")
    facets = [None] if facet is None else table.values(facet, "facet")
    colors = [None] if values.color is None else table.values(values.color, "color")
    low, high = interval_of(table, values.y, low, high)
    found = means(table, values.y, [facet, values.color, x], over=over, confidence=confidence, low=low, high=high)
    given = () if low is None or high is None else (low, high)
    return _Drawing(values, look, x, facet, found, facets, colors, given)


@checked
def line(
    frame: Any,
    *,
    x: str,
    y: str | Sequence[str],
    color: str | None = None,
    facet: str | None = None,
    low: str | None = None,
    high: str | None = None,
    over: Sequence[str] = ("seed",),
    confidence: float = 0.95,
    error: Error = "auto",
    log: Log | None = None,
    order: Mapping[str, Sequence[Any]] | None = None,
    names: Mapping[str, str] | None = None,
    title: str | None = None,
    note: str | None = None,
    width: Width = "page",
    height: float | None = None,
) -> Figure:
    """Draw a line of means for each colour, with error bars or bands.

    Rows that have the same place, colour and facet are repetitions. Their mean is drawn, with a confidence interval by
    Student's t, and the note under the figure says so. They may differ in ``over`` only.

    Args:
        frame: A tidy frame: Polars, pandas, Arrow, or a dictionary of columns.
        x: Column of the places: numbers, or names in the order of the frame.
        y: Column of the values, or several of the same unit, which then are the colours.
        color: Column whose values have a line each.
        facet: Column whose values have a panel each.
        low: Column of the lower ends of error bars that are known already; with ``high``. Default: ``low`` and
            ``high`` where ``y`` is ``mean`` or ``improvement``, as in tables of ``ftlab.analysis``.
        high: Column of their upper ends.
        over: Columns that repetitions differ in.
        confidence: Of the intervals.
        error: How intervals are drawn: ``"bars"``, ``"band"``, ``"none"``; ``"auto"``: bars on fewer than 25 places.
        log: Logarithmic axes: ``"x"``, ``"y"``, ``"xy"``, ``"none"``. Default: ``x`` where its values are powers
            (the smallest times powers of two, or growing by a constant factor). ``y`` where the largest value is at
            least 100 times the smallest.
        order: The order of a column's values, in place of the natural one.
        names: Names of keys and values, in place of those that ftlab gives: ``{"cost_benefit": "CB"}``.
        title: In place of the one that says what is drawn; ``""`` for none.
        note: In place of the one under the figure; ``""`` for none.
        width: ``"column"`` (3.4 inches), ``"page"`` (7) or ``"slide"`` (10, with large text).
        height: Of a panel, in inches.

    Raises:
        ConfigError: A column is missing, has no values or none that can be drawn, or an option is wrong.
    """
    from ftlab.figures.canvas import Canvas, Look, styled

    check_log(log)
    if error not in _ERRORS:
        raise ConfigError(f"error = {error!r}: expected {', '.join(_ERRORS)}")
    look = Look(title, note, width, height, log, dict(names or {}))
    drawing = _prepared(
        frame, x, y, color, facet, look, order=order, over=over, confidence=confidence, low=low, high=high
    )
    table = drawing.values.table
    places = table.values(x, "x", most=None)
    numeric = table.is_number(x)
    every = drawing.ends if error != "none" else drawing.means
    chosen = 10 if spans_decades(drawing.means) else 0
    y_scale = scale_for(
        drawing.values.key,
        every,
        wants_log(log, "y", drawing.means, chosen=chosen),
        {drawing.values.key: drawing.values.name},
    )
    kind: Literal["bars", "band", "none"] = error if error != "auto" else "bars" if len(places) < _BAND_FROM else "band"
    with styled(width):
        canvas = Canvas(look, facet, drawing.facets)
        handles = _draw_lines(canvas, drawing, places, numeric=numeric, factor=y_scale.factor, error=kind)
        _finish_x(canvas, drawing, places, numeric=numeric)
        x_text = canvas.axes[-1].get_xlabel()
        finish_y(canvas, y_scale, every, from_zero=False)
        canvas.label(x_text, y_scale.text)
        if drawing.values.color is not None:
            _legend(canvas, drawing, handles)
        notes = drawing.notes(confidence, intervals=kind != "none")
        return canvas.finish(drawing.title(), [*notes, *drawing.values.table.warned()])


def _draw_lines(
    canvas: Canvas,
    drawing: _Drawing,
    places: list[Any],
    *,
    numeric: bool,
    factor: float,
    error: Literal["bars", "band", "none"],
) -> dict[Any, Any]:
    from ftlab.figures.canvas import COLORS, DASHES, MARKERS, series_colors

    hues = series_colors(drawing.colors)
    x_factor = scale_for(drawing.x, places, _x_base(drawing, places), {}).factor if numeric else 1.0
    handles: dict[Any, Any] = {}
    for axes, facet in zip(canvas.axes, drawing.facets, strict=True):
        for at, color in enumerate(drawing.colors):
            drawn = [
                (place * x_factor if numeric else number, drawing.found.points[facet, color, place])
                for number, place in enumerate(places)
                if (facet, color, place) in drawing.found.points
            ]
            xs = [place for place, _ in drawn]
            ys = [math.nan if point.mean is None else point.mean * factor for _, point in drawn]
            marker = MARKERS[at % len(MARKERS)] if len(drawn) <= _MARKERS_TO else None
            # Colours, markers and dashes go round at different paces: no two series have the same three.
            dash = DASHES[at % len(DASHES)] if len(drawing.colors) > 1 else "-"
            thin = 0.6 if len(drawn) > _THIN_FROM else 1.0
            style: dict[str, Any] = {
                "linewidth": thin * canvas.line,
                "color": hues[at] if len(drawing.colors) > 1 else COLORS[0],
                "linestyle": dash,
            }
            (handle,) = axes.plot(xs, ys, marker=marker, markeredgecolor="white", markeredgewidth=0.3, **style)
            handles[color] = handle
            whole = [
                (place, point.mean * factor, point.low * factor, point.high * factor)
                for place, point in drawn
                if point.mean is not None and point.low is not None and point.high is not None
            ]
            if not whole or error == "none":
                continue
            at_x, middle, low, high = zip(*whole, strict=True)
            if error == "band":
                axes.fill_between(at_x, low, high, color=style["color"], alpha=0.2, linewidth=0)
            else:
                below = [mean - end for mean, end in zip(middle, low, strict=True)]
                above = [end - mean for mean, end in zip(middle, high, strict=True)]
                axes.errorbar(
                    at_x, middle, yerr=[below, above], fmt="none", ecolor=style["color"], elinewidth=0.6 * canvas.line
                )
    return handles


def _x_base(drawing: _Drawing, places: list[Any]) -> int:
    return wants_log(drawing.look.log, "x", places, chosen=base_of_powers(places))


def _finish_x(canvas: Canvas, drawing: _Drawing, places: list[Any], *, numeric: bool) -> None:
    if numeric:
        scale = scale_for(drawing.x, places, _x_base(drawing, places), drawing.look.names)
        for axes in canvas.axes:
            scale.ticks_at(axes, "x", [place * scale.factor for place in places], canvas.room[0])
            axes.set_xlabel(scale.text)
        return
    if drawing.look.log is not None and "x" in drawing.look.log:
        raise ConfigError(f"log = {drawing.look.log!r}: {drawing.x!r} has names, expected numbers")
    name_places(canvas, drawing.x, places, drawing.look)


def name_places(canvas: Canvas, key: str, places: list[Any], look: Look) -> None:
    """Write the values of a column along the horizontal axis, turned if they need it."""
    from ftlab.figures.canvas import wrapped

    text, texts = texts_of(key, places, look.names)
    size = canvas.font - 1
    slot = canvas.room[0] / max(1, len(places))
    lines, turned = [wrapped(each, slot * 0.92, size) for each in texts], 0
    if max(text_width(line, size) for each in lines for line in each) > slot * 0.92 or max(map(len, lines)) > 2:  # noqa: PLR2004 - lines
        lines, turned = [[each] for each in texts], 35
        longest = max(text_width(each, size) for each in texts)
        if slot < 1.3 * canvas.font or longest > _LONGEST * size:
            # Upright, in as many lines as fit beside each other.
            turned, most = 90, max(1, int(slot / (1.3 * size)))
            lines = [wrapped(each, max(1.2 * longest / most, _LONGEST * size), size) for each in texts]
        widest = max(text_width(line, size) for each in lines for line in each)
        canvas.make_room(max(0.0, widest * math.sin(math.radians(turned)) - 3 * size))
    for axes in canvas.axes:
        axes.set_xticks(range(len(places)), ["\n".join(each) for each in lines])
        axes.set_xlim(-0.5, len(places) - 0.5)
        axes.tick_params(axis="x", length=0, labelrotation=turned)
        for tick in axes.get_xticklabels() if turned else ():
            steep = turned == 90  # noqa: PLR2004 - degrees
            tick.set(ha="center" if steep else "right", rotation_mode="default" if steep else "anchor")
        axes.grid(visible=False, axis="x")
        axes.set_xlabel(text)


def finish_y(canvas: Canvas, scale: Scale, values: list[float], *, from_zero: bool) -> None:
    """Scale the vertical axis to the values."""
    scaled = [value * scale.factor for value in values]
    for axes in canvas.axes:
        scale.ticks_at(axes, "y", scaled, canvas.room[1], measured=True)
        if scale.base and from_zero:
            axes.set_ylim(bottom=min(value for value in scaled if value > 0) / _FOOT)
        if not scale.base:
            bottom, top = limits(scaled, scale.key)
            if from_zero and bottom is None:
                bottom, top = (0.0, None) if min(scaled, default=0) >= 0 else (None, None)
            if bottom is not None:
                axes.set_ylim(bottom=bottom)
            if top is not None:
                axes.set_ylim(top=top)


def draw_legend(
    canvas: Canvas, values: list[Any], handles: Mapping[Any, Any], title: str, text: Callable[[Any], str]
) -> None:
    """Keep the entries of the values that were drawn."""
    drawn = [value for value in values if value in handles]
    canvas.legend([handles[value] for value in drawn], [text(value) for value in drawn], title)


def _legend(canvas: Canvas, drawing: _Drawing, handles: Mapping[Any, Any]) -> None:
    values = drawing.values
    draw_legend(
        canvas,
        drawing.colors,
        handles,
        values.legend_title(canvas.look),
        lambda value: values.color_text(canvas.look, value),
    )


@checked
def bar(
    frame: Any,
    *,
    x: str,
    y: str | Sequence[str],
    color: str | None = None,
    facet: str | None = None,
    low: str | None = None,
    high: str | None = None,
    over: Sequence[str] = ("seed",),
    confidence: float = 0.95,
    error: Literal["auto", "bars", "none"] = "auto",
    stack: bool = False,
    annotate: bool | None = None,
    log: Log | None = None,
    order: Mapping[str, Sequence[Any]] | None = None,
    names: Mapping[str, str] | None = None,
    title: str | None = None,
    note: str | None = None,
    width: Width = "page",
    height: float | None = None,
) -> Figure:
    """Draw bars of means: a group for each place, a bar in it for each colour.

    Repetitions, intervals and the other arguments are those of :func:`line`. Bars begin at 0, and a logarithmic axis
    is drawn only where it is asked for.

    Args:
        frame: A tidy frame.
        x: Column of the places; each of its values has a group of bars.
        y: Column of the values, or several of the same unit, which then are the colours.
        color: Column whose values have a bar each in every group.
        facet: Column whose values have a panel each.
        low: Column of the lower ends of error bars that are known already; with ``high``.
        high: Column of their upper ends.
        over: Columns that repetitions differ in.
        confidence: Of the intervals.
        error: ``"none"`` leaves the intervals out.
        stack: Put the bars of a group on top of each other, such as the causes of write amplification. Parts that are
            0 everywhere are left out, and intervals are not drawn.
        annotate: Write the values on the bars. Default: where they fit.
        log: ``"y"`` for a logarithmic axis.
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

    check_log(log, ("y", "none"))
    if error not in {"auto", "bars", "none"}:
        raise ConfigError(f"error = {error!r}: expected auto, bars, none")
    if stack and (low is not None or high is not None):
        raise ConfigError("stack: intervals of stacked parts cannot be drawn; leave out low and high")
    if stack and log == "y":
        raise ConfigError("stack: parts on a logarithmic axis have no lengths to compare; leave out log")
    look = Look(title, note, width, height, log, dict(names or {}))
    drawing = _prepared(
        frame, x, y, color, facet, look, order=order, over=over, confidence=confidence, low=low, high=high
    )
    places = drawing.values.table.values(x, "x", most=4 * MOST_GROUPS)
    if stack:
        drawing = _without_empty(drawing)
    intervals = not stack and error != "none"
    every = _tops(drawing, places) if stack else drawing.ends if intervals else drawing.means
    base = wants_log(log, "y", drawing.means, chosen=0)
    y_scale = scale_for(drawing.values.key, every, base, {drawing.values.key: drawing.values.name})
    with styled(width):
        canvas = Canvas(look, facet, drawing.facets)
        if drawing.values.color is not None:
            # Before the bars are drawn: it takes room from them.
            _legend(canvas, drawing, _patches(drawing))
        bars = _draw_bars(canvas, drawing, places, y_scale, stack=stack, intervals=intervals)
        name_places(canvas, x, places, look)
        finish_y(canvas, y_scale, every, from_zero=True)
        canvas.label(canvas.axes[-1].get_xlabel(), y_scale.text)
        for axes in canvas.axes:
            if any(value < 0 for value in every):
                axes.axhline(0, color="black", linewidth=0.5 * canvas.line)
        _annotated(canvas, bars, annotate=annotate if not stack else bool(annotate))
        notes = drawing.notes(confidence, intervals=intervals)
        return canvas.finish(drawing.title(), [*notes, *drawing.values.table.warned()])


def _without_empty(drawing: _Drawing) -> _Drawing:
    from dataclasses import replace

    points = drawing.found.points
    if any((point.mean or 0) < 0 for point in points.values()):
        raise ConfigError("stack: a value is below 0, expected parts of a whole")
    used = [color for color in drawing.colors if any(key[1] == color and point.mean for key, point in points.items())]
    return replace(drawing, colors=used or drawing.colors[:1])


def _tops(drawing: _Drawing, places: list[Any]) -> list[float]:
    """Heights of stacks."""
    points = drawing.found.points
    return [
        sum(points[facet, color, place].mean or 0 for color in drawing.colors if (facet, color, place) in points)
        for facet in drawing.facets
        for place in places
    ]


def _styles(drawing: _Drawing) -> list[dict[str, Any]]:
    from ftlab.figures.canvas import HATCHES, series_colors

    return [
        {"facecolor": hue, "hatch": HATCHES[at % len(HATCHES)], "edgecolor": "white"}
        for at, hue in enumerate(series_colors(drawing.colors))
    ]


def _patches(drawing: _Drawing) -> dict[Any, Any]:
    from matplotlib.patches import Patch

    return {color: Patch(**style) for color, style in zip(drawing.colors, _styles(drawing), strict=True)}


def _draw_bars(
    canvas: Canvas, drawing: _Drawing, places: list[Any], scale: Scale, *, stack: bool, intervals: bool
) -> list[tuple[Axes, Any, float]]:
    """Draw the bars; gives those that stand alone with their values, to write these on them."""
    points, factor = drawing.found.points, scale.factor
    wide = 0.7 if stack or len(drawing.colors) == 1 else 0.84 / len(drawing.colors)
    bars = []
    for axes, facet in zip(canvas.axes, drawing.facets, strict=True):
        bottoms = [0.0] * len(places)
        for at, (color, style) in enumerate(zip(drawing.colors, _styles(drawing), strict=True)):
            shift = 0.0 if stack else (at - (len(drawing.colors) - 1) / 2) * wide
            for number, place in enumerate(places):
                point = points.get((facet, color, place))
                if point is None:
                    continue
                if point.mean is None:
                    axes.annotate(
                        "\N{MULTIPLICATION SIGN}",
                        (number + shift, 0),
                        (0, 1),
                        textcoords="offset points",
                        xycoords=("data", "axes fraction"),
                        ha="center",
                        va="bottom",
                        color="#666666",
                        fontsize=canvas.font - 1,
                    )
                    continue
                height = point.mean * factor
                drawn = axes.bar(number + shift, height, wide, bottom=bottoms[number] if stack else 0.0, **style)
                bottoms[number] += height
                top = height
                if intervals and point.low is not None and point.high is not None:
                    ends = [[height - point.low * factor], [point.high * factor - height]]
                    axes.errorbar(
                        number + shift, height, yerr=ends, fmt="none", ecolor="black", elinewidth=0.6 * canvas.line
                    )
                    top = max(height, point.high * factor) if height >= 0 else min(height, point.low * factor)
                if not stack or at == len(drawing.colors) - 1:
                    bars.append((axes, drawn.patches[0], top + (bottoms[number] - height if stack else 0)))
    return bars


def _annotated(canvas: Canvas, bars: list[tuple[Axes, Any, float]], *, annotate: bool | None) -> None:
    """Write the heights over the bars if all of them fit."""
    if annotate is False or not bars:
        return
    heights = [patch.get_y() + patch.get_height() for _, patch, _ in bars]
    texts = [f"{height:.3g}" if abs(height) < 1000 else f"{height:,.0f}" for height in heights]  # noqa: PLR2004 - digits
    texts = [text.replace("-", "\N{MINUS SIGN}") for text in texts]
    size = canvas.font - 2
    axes = bars[0][0]
    left, right = axes.get_xlim()
    room = bars[0][1].get_width() * canvas.room[0] / (right - left)
    if annotate is None and any(text_width(text, size) > room for text in texts):
        return
    for (axes, patch, top), text in zip(bars, texts, strict=True):
        up = patch.get_height() >= 0
        axes.annotate(
            text,
            (patch.get_x() + patch.get_width() / 2, top),
            (0, 1 if up else -1),
            textcoords="offset points",
            ha="center",
            va="bottom" if up else "top",
            fontsize=size,
        )
    for axes in canvas.axes:
        bottom, top = axes.get_ylim()
        if axes.get_yscale() == "linear":
            axes.set_ylim(bottom - (0.06 * (top - bottom) if bottom < 0 else 0), top + 0.06 * (top - bottom))
