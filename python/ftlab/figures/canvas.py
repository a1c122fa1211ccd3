"""The sheet that figures are drawn on: style, panels, legend, title and note, each with its own room."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ftlab._labels import name
from ftlab.errors import ConfigError
from ftlab.figures.saving import image
from ftlab.figures.scales import named, text_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

Width = Literal["column", "page", "slide"]


@dataclass(frozen=True)
class _Sheet:
    """Inches and points of a width."""

    inches: float
    panel: float
    small_panel: float
    columns: int
    font: float
    line: float


_SHEETS: dict[str, _Sheet] = {
    "column": _Sheet(3.4, 1.9, 1.4, 2, 8, 1.2),
    "page": _Sheet(7.0, 2.7, 1.8, 3, 8, 1.2),
    "slide": _Sheet(10.0, 4.4, 3.0, 3, 14, 2.2),
}
# Okabe and Ito's colours without yellow, then three of Tol's; they differ for all kinds of sight. Blue comes first.
COLORS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#999999",
    "#882255",
    "#999933",
)
BLUE, ORANGE, GREY = COLORS[0], COLORS[1], COLORS[7]
# What tells series apart in grey.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h", "d")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.2, 1.2)),
    (0, (5, 1.5, 1.2, 1.5)),
    (0, (8, 2)),
    (0, (3, 1.5, 1.2, 1.5, 1.2, 1.5)),
    (0, (2.5, 1.2)),
)
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "----", "oo", "++++", "||||", "**")
# Numbers of more values than this are shown as shades.
_MOST_HUES = 6
_NOTE = 0.85


def _settings(sheet: _Sheet) -> dict[str, Any]:
    font, line = sheet.font, sheet.line
    return {
        "font.size": font,
        "axes.titlesize": font,
        "axes.labelsize": font,
        "axes.linewidth": 0.5 * line,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "errorbar.capsize": 1.7 * line,
        "figure.constrained_layout.h_pad": 0.03,
        "figure.constrained_layout.w_pad": 0.03,
        "figure.titlesize": font + 1,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.4 * line,
        "hatch.linewidth": 0.4 * line,
        "legend.fontsize": font - 1,
        "legend.edgecolor": "none",
        "legend.fancybox": False,
        "legend.handlelength": 2.6,
        "legend.title_fontsize": font - 1,
        "lines.linewidth": line,
        "lines.markersize": 3.4 * line,
        "patch.linewidth": 0.4 * line,
        # Fonts are embedded whole, as publishers ask for, and names inside do not depend on chance.
        "pdf.fonttype": 42,
        "svg.fonttype": "path",
        "svg.hashsalt": "ftlab",
        "text.parse_math": False,
        "xtick.labelsize": font - 1,
        "xtick.major.width": 0.5 * line,
        "xtick.minor.width": 0.4 * line,
        "ytick.labelsize": font - 1,
        "ytick.major.width": 0.5 * line,
        "ytick.minor.width": 0.4 * line,
    }


@contextmanager
def styled(width: str = "page") -> Iterator[None]:
    """Draw in this style, whatever the user's own settings are."""
    with style.context(["default", _settings(_SHEETS[width])]):
        yield


class Picture(Figure):
    """A figure that notebooks show as it is.

    Attributes:
        sheet: The width that it is drawn for.
    """

    sheet = "page"

    def _repr_png_(self) -> bytes:
        return image(self, "png", 140)


def new_figure(width_inches: float, height_inches: float) -> Picture:
    """Make a figure that needs no display."""
    figure = Picture(figsize=(width_inches, height_inches), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def series_colors(values: Sequence[Any]) -> list[str]:
    """Colours of series: hues, or shades from dark to light where their values are many numbers."""
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    if numbers and len(values) > _MOST_HUES:
        from matplotlib import colormaps
        from matplotlib.colors import to_hex

        return [to_hex(colormaps["viridis"](0.9 * at / (len(values) - 1))) for at in range(len(values))]
    return [COLORS[at % len(COLORS)] for at in range(len(values))]


@dataclass(frozen=True)
class Look:
    """The options of all kinds of figures.

    Attributes:
        title: In place of the one that is made; empty for none.
        note: In place of the one under the figure; empty for none.
        width: For a column, a page or a slide.
        height: Of a panel, in inches.
        log: Which axes are logarithmic.
        names: Names of keys and of values, in place of those of :mod:`ftlab.labels`.
    """

    title: str | None = None
    note: str | None = None
    width: Width = "page"
    height: float | None = None
    log: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn.

        Raises:
            ConfigError: The width is unknown or the height is not above 0.
        """
        if self.width not in _SHEETS:
            raise ConfigError(f"width = {self.width!r}: expected {', '.join(_SHEETS)}")
        if self.height is not None and not 0 < self.height <= 100:  # noqa: PLR2004 - inches
            raise ConfigError(f"height = {self.height}: expected inches, above 0 and at most 100")

    def name(self, key: str) -> str:
        """The name of a key."""
        return self.names.get(key, name(key))

    def value(self, key: str, value: Any) -> str:
        """The text of a value."""
        return named(key, value, self.names)


class Canvas:
    """Panels of a figure, one for each value of a facet."""

    def __init__(self, look: Look, facet: str | None, values: Sequence[Any], panel_height: float | None = None) -> None:
        """Make the panels.

        Args:
            look: Style and texts.
            facet: The key whose values have a panel each; ``None`` for a single panel.
            values: Its values.
            panel_height: Height of a panel in inches, if not the usual one.
        """
        sheet = self._sheet = _SHEETS[look.width]
        self.look = look
        count = len(values)
        self.columns = 1 if count == 1 else min(sheet.columns, count) if count != 4 else 2  # noqa: PLR2004 - two by two
        self._rows = math.ceil(count / self.columns)
        usual = sheet.panel if count == 1 else sheet.small_panel
        title = 0 if facet is None else 1.6 * sheet.font / 72
        # Room for ticks and labels is not that of the panel.
        self._panel = look.height or panel_height or usual
        self._panels = self._rows * (self._panel + title) + 0.35 * sheet.font / 8
        self.figure = new_figure(sheet.inches, self._panels)
        self.figure.sheet = look.width
        grid = self.figure.subplots(self._rows, self.columns, sharex=True, sharey=True, squeeze=False)
        every = list(grid.flat)
        for spare in every[count:]:
            spare.set_visible(False)
        self.axes: list[Axes] = every[:count]
        for at, axes in enumerate(self.axes):
            if at + self.columns >= count:
                axes.tick_params(labelbottom=True)
            if facet is not None:
                text = look.value(facet, values[at])
                alone = isinstance(values[at], str)
                axes.set_title(text if alone else f"{look.name(facet)}: {text}")
        self._reserved = 0.0
        self._entries: tuple[list[Any], list[str], str] | None = None

    @property
    def font(self) -> float:
        """Size of the text, in points."""
        return self._sheet.font

    @property
    def line(self) -> float:
        """Width of lines, in points."""
        return self._sheet.line

    @property
    def room(self) -> tuple[float, float]:
        """Width and height of a panel inside its axes, in points, about."""
        legend = 0.22 if self._entries and self.look.width != "column" else 0.0
        width = (self._sheet.inches * (1 - legend - self._reserved) / self.columns) * 72 - 4.5 * self.font
        return width, self._panels / self._rows * 72 - 4.5 * self.font

    def reserve(self, share: float) -> None:
        """Count on something beside the panels, such as a bar of colours."""
        self._reserved = share

    def label(self, x: str, y: str) -> None:
        """Write the labels of the axes where they are needed."""
        size = self.font
        up = "\n".join(wrapped(y, self._panel * 72, size))
        for at, axes in enumerate(self.axes):
            axes.set_xlabel(x if at + self.columns >= len(self.axes) else "")
            axes.set_ylabel(up if at % self.columns == 0 else "")

    def make_room(self, points: float) -> None:
        """Make the figure higher by what stands under the panels."""
        self._panels += points / 72

    def legend(self, handles: list[Any], texts: list[str], title: str) -> None:
        """Keep the entries of the legend, which stands beside or below the panels."""
        self._entries = handles, texts, title

    def finish(self, title: str, notes: Sequence[str]) -> Picture:
        """Put title, legend and note around the panels, and give the figure."""
        figure, width = self.figure, self._sheet.inches
        pad = 0.05
        lines = self._wrapped(self.look.title if self.look.title is not None else title, self.font + 1)
        note = self._wrapped(self.look.note if self.look.note is not None else " ".join(notes), self.font * _NOTE)
        top = len(lines) * (self.font + 1) * 1.3 / 72 + (pad if lines else 0)
        bottom = len(note) * self.font * _NOTE * 1.25 / 72 + (2 * pad if note else 0)
        legend, box, beside, below = None, None, 0.0, 0.0
        if self._entries is not None:
            legend, on_the_right = self._placed(*self._entries)
            box = legend.get_window_extent(self._renderer())
            if on_the_right:
                beside = box.width / figure.dpi + pad
            else:
                below = box.height / figure.dpi + pad
        height = top + self._panels + below + bottom
        if beside and box is not None:
            height = max(height, top + bottom + box.height / figure.dpi + 2 * pad)
        figure.set_size_inches(width, height)
        if legend is not None:
            at = (1 - beside / width, 1 - top / height) if beside else (0.5, bottom / height)
            legend.set_loc("upper left" if beside else "lower center")
            legend.set_bbox_to_anchor(at, figure.transFigure)
        rect = (0, (bottom + below) / height, 1 - beside / width, 1 - (top + bottom + below) / height)
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.set(rect=rect)  # type: ignore[call-arg] # stubs know the layouts without keys
        if lines:
            figure.text(0.5, 1 - pad / height, "\n".join(lines), ha="center", va="top", fontsize=self.font + 1)
        if note:
            figure.text(
                pad / width,
                pad / height,
                "\n".join(note),
                ha="left",
                va="bottom",
                fontsize=self.font * _NOTE,
                color="#444444",
                linespacing=1.2,
            )
        return figure

    def _renderer(self) -> Any:
        return self.figure.canvas.get_renderer()  # type: ignore[attr-defined] # Agg canvases have one

    def _placed(self, handles: list[Any], texts: list[str], title: str) -> tuple[Legend, bool]:
        """Make the legend: right of wide figures if it leaves them room, else below in as many columns as fit."""
        inches = self._sheet.inches
        legend = self._legend(handles, texts, title, 1)
        box = legend.get_window_extent(self._renderer())
        if self.look.width != "column" and box.width / self.figure.dpi <= inches * 0.3:
            return legend, True
        # As many columns as fit, and no more than fill their rows.
        for columns in dict.fromkeys(math.ceil(len(texts) / rows) for rows in range(1, len(texts) + 1)):
            legend.remove()
            legend = self._legend(handles, texts, title, columns)
            if legend.get_window_extent(self._renderer()).width / self.figure.dpi <= inches or columns == 1:
                break
        return legend, False

    def _legend(self, handles: list[Any], texts: list[str], title: str, columns: int) -> Legend:
        return self.figure.legend(
            handles,
            texts,
            title=title or None,
            ncols=columns,
            borderaxespad=0,
            borderpad=0.2,
            columnspacing=1.2,
            alignment="left",
            labelspacing=0.35,
        )

    def _wrapped(self, text: str, size: float) -> list[str]:
        return wrapped(text, (self._sheet.inches - 0.1) * 72, size)


def wrapped(text: str, room: float, size: float) -> list[str]:
    """Break a text into lines that are no wider than ``room`` points, where it has spaces."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
