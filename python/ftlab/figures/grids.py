"""Heat maps: a value at every point of two axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab._checks import checked
from ftlab.errors import ConfigError
from ftlab.figures.data import MOST_GROUPS, Table, finite, means
from ftlab.figures.points import heading, name_places
from ftlab.figures.scales import check_log, scale_for, spans_decades, text_width, texts_of, wants_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ftlab.figures.canvas import Canvas, Width
    from ftlab.figures.scales import Scale

_MOST_CELLS = 8 * MOST_GROUPS
_DIGITS = 3
# Of the height of a cell, the text may take so much.
_FILL = 0.9
# Below this brightness of a cell, its number is white.
_DARK = 0.5


@checked
def heatmap(
    frame: Any,
    *,
    x: str,
    y: str,
    value: str,
    facet: str | None = None,
    over: Sequence[str] = ("seed",),
    center: float | None = None,
    annotate: bool | None = None,
    log: Literal["value", "none"] | None = None,
    order: Mapping[str, Sequence[Any]] | None = None,
    names: Mapping[str, str] | None = None,
    title: str | None = None,
    note: str | None = None,
    width: Width = "page",
    height: float | None = None,
) -> Figure:
    """Draw a value at every point of two axes as colour and number: means over repetitions.

    Cells without a value are hatched, and the note says how many there are.

    Args:
        frame: A tidy frame.
        x: Column of the horizontal axis; each of its values has a column of cells.
        y: Column of the vertical axis: numbers grow upwards, names are read downwards.
        value: Column of the values.
        facet: Column whose values have a panel each.
        over: Columns that repetitions differ in.
        center: The value with the colour in the middle. Default: 0 where there are values of both signs, as in tables
            of improvement; none else.
        annotate: Write the values into the cells. Default: where they fit.
        log: ``"value"`` for colours by logarithm. Default: where all are above 0 and the largest value is at least 100
            times the smallest.
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

    check_log(log, ("value", "none"))
    look = Look(title, note, width, height, log, dict(names or {}))
    table = Table(frame, order)
    columns, rows = table.values(x, "x", _MOST_CELLS), table.values(y, "y", _MOST_CELLS)
    if table.is_number(y):
        # Pictures of cells are filled from above.
        rows = rows[::-1]
    facets = [None] if facet is None else table.values(facet, "facet")
    found = means(table, value, [facet, x, y], over=over, confidence=0.95, role="value")
    every = finite(point.mean for point in found.points.values())
    if center is None and min(every) < 0 < max(every):
        center = 0.0
    chosen = 10 if center is None and spans_decades(every) else 0
    base = wants_log(log, "value", every, chosen=chosen)
    if base and center is not None:
        raise ConfigError("center: a logarithmic scale has none; leave out center or log")
    key, what = table.about(value, look.name)
    what = look.names.get(value, what)
    scale = scale_for(key, every, base and 10, {key: what})
    with styled(width):
        canvas = Canvas(look, facet, facets, panel_height=_height(look.width, len(rows), many=len(facets) > 1))
        colors = _norm(every, scale, center)
        drawn: Any = None
        empty = 0
        for axes, one in zip(canvas.axes, facets, strict=True):
            cells = np.array(
                [
                    [
                        found.points[one, column, row].mean if (one, column, row) in found.points else None
                        for column in columns
                    ]
                    for row in rows
                ],
                dtype=float,
            )
            cells *= scale.factor
            empty += int(np.isnan(cells).sum())
            axes.set_facecolor("#eeeeee")
            axes.patch.set(hatch="////", edgecolor="#aaaaaa")
            drawn = axes.pcolormesh(
                np.arange(len(columns) + 1) - 0.5,
                np.arange(len(rows) + 1) - 0.5,
                np.ma.masked_invalid(cells),
                norm=colors,
                cmap="viridis" if center is None else "RdBu",
                edgecolors="white",
                linewidth=0.4,
            )
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_yticks(range(len(rows)), texts_of(y, rows, look.names)[1])
            axes.tick_params(axis="y", length=0)
            axes.grid(visible=False)
            for spine in axes.spines.values():
                spine.set_visible(False)
        canvas.reserve(0.12)
        name_places(canvas, x, columns, look)
        canvas.label(canvas.axes[-1].get_xlabel(), texts_of(y, rows, look.names)[0])
        bar = canvas.figure.colorbar(drawn, ax=canvas.axes, aspect=25, pad=0.015, fraction=0.06)
        bar.set_label(scale.text)
        bar.outline.set_visible(False)
        for axes in canvas.axes:
            _annotated(canvas, axes, len(columns), len(rows), annotate=annotate)
        # Rows without a value are cells without one.
        notes = found.over_what(look.name)
        if empty:
            notes.append(f"Hatched: no value ({empty} of {len(columns) * len(rows) * len(facets)}).")
        return canvas.finish(heading(what, look.name(x), look.name(y)), [*notes, *table.warned()])


def _height(width: str, rows: int, *, many: bool) -> float:
    """Rows high enough for their text, and not higher than they look well."""
    line = {"column": 0.19, "page": 0.24, "slide": 0.42}[width] * (0.85 if many else 1)
    return max(4.5 * line, rows * line + 2.5 * line)


def _norm(values: list[float], scale: Scale, center: float | None) -> Normalize:
    from matplotlib.colors import CenteredNorm, LogNorm, Normalize

    low, high = min(values) * scale.factor, max(values) * scale.factor
    if center is not None:
        middle = center * scale.factor
        return CenteredNorm(middle, max(abs(high - middle), abs(low - middle)) or 1.0)
    if scale.base:
        return LogNorm(low, high)
    return Normalize(low, high if high > low else low + 1)


def _annotated(canvas: Canvas, axes: Any, columns: int, rows: int, *, annotate: bool | None) -> None:
    mesh = axes.collections[0]
    cells: NDArray[np.float64] = np.ma.filled(mesh.get_array(), np.nan).reshape(rows, columns)
    size = canvas.font - 1.5
    known = cells[np.isfinite(cells) & (cells != 0)]
    # As many digits behind the point as a value in the middle needs for three in all.
    digits = _DIGITS - 1 - math.floor(math.log10(float(np.median(np.abs(known))))) if known.size else 0
    texts = {at: _text(cell, min(max(0, digits), 6)) for at, cell in np.ndenumerate(cells) if np.isfinite(cell)}
    wide, high = canvas.room[0] / columns, canvas.room[1] / rows
    fits = all(text_width(text, size) <= _FILL * wide for text in texts.values()) and size <= _FILL * high
    if annotate is False or (annotate is None and not fits):
        return
    for (row, column), text in texts.items():
        red, green, blue, _ = mesh.cmap(mesh.norm(cells[row, column]))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < _DARK
        axes.text(column, row, text, ha="center", va="center", fontsize=size, color="white" if dark else "black")


def _text(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}".replace("-", "\N{MINUS SIGN}")
