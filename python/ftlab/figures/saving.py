"""Figures to files: whole, without dates, the same bytes every time."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ftlab import _outputs as outputs
from ftlab._checks import checked
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from matplotlib.figure import Figure

DPI = 300
# Without dates; by the maker, ftlab knows its own figures again.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": "ftlab"},
    "svg": {"Date": None, "Creator": "ftlab"},
    "png": {"Software": "ftlab"},
}
FORMS = tuple(_METADATA)


def _plain_powers(figure: Figure) -> None:
    """Write the numbers of logarithmic axes plainly: Matplotlib's own are formulas, which this style does not set."""
    from matplotlib import ticker

    class Plain(ticker.LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), ticker.LogFormatterMathtext):
                axis.set_major_formatter(Plain())
            if isinstance(axis.get_minor_formatter(), ticker.LogFormatterMathtext):
                # Between powers of ten only where there are few of those.
                axis.set_minor_formatter(Plain(labelOnlyBase=False, minor_thresholds=(1, 0.4)))


def image(figure: Figure, form: str, dpi: float = DPI) -> bytes:
    """Give a figure as a file: ``"pdf"`` and ``"svg"`` with their fonts, or ``"png"``."""
    from ftlab.figures.canvas import Picture, styled

    drawn = io.BytesIO()
    with styled(figure.sheet if isinstance(figure, Picture) else "page"):
        _plain_powers(figure)
        figure.savefig(drawn, format=form, dpi=dpi, metadata=_METADATA[form])
    return drawn.getvalue()


def write(figure: Figure, paths: Iterable[Path], dpi: float = DPI) -> None:
    """Write a figure to files. It is laid out for the first of them, and lies so in all: that is half of the work."""
    engine = figure.get_layout_engine()
    try:
        for path in paths:
            outputs.write_whole(path, image(figure, path.suffix[1:].lower(), dpi))
            figure.set_layout_engine(None)
    finally:
        if engine is not None:
            figure.set_layout_engine(engine)


def places(path: str | os.PathLike[str]) -> list[Path]:
    """Give the files that a figure is saved to.

    Raises:
        ConfigError: The ending is none of a figure.
    """
    path = Path(path)
    ending = path.suffix.removeprefix(".").lower()
    if ending in FORMS:
        return [path]
    if ending.isalpha():
        raise ConfigError(
            f"{path}: found the ending .{ending}, expected {', '.join(f'.{form}' for form in FORMS)} or none"
        )
    return [path.with_name(f"{path.name}.{form}") for form in FORMS]


@checked
def save(figure: Figure, path: str | os.PathLike[str], dpi: float = DPI, *, overwrite: bool = False) -> list[Path]:
    """Save a figure as PDF, SVG and PNG, or in one of these forms.

    The same figure gives the same bytes. Files appear whole or not at all.

    Args:
        figure: The figure.
        path: With the ending ``.pdf``, ``.svg`` or ``.png``: this file. Without one: all three beside each other.
        dpi: Resolution of PNG.
        overwrite: Also write over files that are no figures of ftlab's.

    Returns:
        The files.

    Raises:
        ConfigError: The ending is another one, a file is there that is no figure of ftlab's, or the place cannot be
            written.
    """
    paths = places(path)
    for each in paths:
        outputs.check(each, outputs.FIGURE, overwrite=overwrite)
    try:
        paths[0].parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
    write(figure, paths, dpi)
    return paths
