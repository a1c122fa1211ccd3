"""The drive as a drawing: channels with their dies, coloured and numbered, as SVG inside the page."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Sizes in pixels of a page of 760: what stands in a cell must be legible on paper.
_CELL, _HIGH, _GAP, _LABEL, _HEAD, _MOST = 54, 26, 8, 118, 20, 640
# From pale to dark blue, which stay apart in grey. Black text gives way to white where both are equally easy to read:
# 4.5 to 1.
_PALE, _DARK = (237, 243, 250), (8, 64, 129)
_WHITE_FROM = 0.69


@dataclass(frozen=True)
class Shape:
    """How many there are of each, and whether each plane works for itself."""

    channels: int
    ways: int
    dies: int
    planes: int
    planes_apart: bool

    @classmethod
    def of(cls, device: dict[str, Any]) -> Shape:
        """Take the shape from a device file."""
        g = device["geometry"]
        return cls(g["channels"], g["ways"], g["dies"], g["planes"], bool(device["timing"].get("independent_planes")))

    def heading(self, die: int) -> str:
        """The same where there is little room."""
        return "{}.{}".format(*divmod(die, self.dies)) if self.dies > 1 else self.die_name(die)

    @property
    def dies_per_channel(self) -> int:
        """Dies on a channel."""
        return self.ways * self.dies

    def die_name(self, die: int) -> str:
        """The name of a die of a channel."""
        way, index = divmod(die, self.dies)
        return f"way {way}" if self.dies == 1 else f"way {way}, die {index}"


def _color(share: float) -> str:
    mixed = (round(pale + (dark - pale) * share) for pale, dark in zip(_PALE, _DARK, strict=True))
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _cell(x: float, y: float, width: float, share: float, text: str, title: str) -> str:
    ink = "#fff" if share >= _WHITE_FROM else "#000"
    return (
        f'<g class="cell"><title>{escape(title)}</title>'
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{_HIGH}" fill="{_color(share)}" stroke="#8a97a6"/>'
        f'<text x="{x + width / 2:g}" y="{y + _HIGH / 2 + 4:g}" text-anchor="middle" fill="{ink}">'
        f"{escape(text)}</text></g>"
    )


def _ceiling(most: float) -> float:
    """The next round number, at which the scale of colours ends.

    >>> _ceiling(0.0145), _ceiling(7.0), _ceiling(1.0)
    (0.02, 10.0, 1.0)
    """
    if most <= 0:
        return 1.0
    power = 10.0 ** floor(log10(most))
    return next(float(f"{step * power:.3g}") for step in (1, 2, 5, 10) if most <= step * power * (1 + 1e-9))


def _scale(high: float, text: str) -> str:
    steps = 10
    cells = "".join(
        f'<rect x="{_LABEL + at * 14}" y="{high:g}" width="14" height="9" fill="{_color((at + 0.5) / steps)}"/>'
        for at in range(steps)
    )
    return (
        f'<text x="{_LABEL - 8}" y="{high + 9:g}" text-anchor="end" class="dim">0</text>{cells}'
        f'<text x="{_LABEL + 14 * steps + 8}" y="{high + 9:g}" class="dim">{escape(text)}</text>'
    )


def draw(
    shape: Shape,
    per_unit: Sequence[float],
    show: Callable[[float], str],
    *,
    what: str,
    buses: Sequence[float] | None = None,
) -> Markup:
    """Draw a value of every die.

    Args:
        shape: The drive.
        per_unit: A value of each die in the order of channel, way, die; or of each plane.
        show: Gives a value as text.
        what: What the values are, for those who cannot see them.
        buses: A value of each channel.
    """
    parts = len(per_unit) // (shape.channels * shape.dies_per_channel)
    # The planes of a die stand in two columns.
    columns = 1 if parts == 1 else 2
    lines = ceil(parts / columns)
    die_wide, die_high = columns * _CELL, lines * _HIGH
    across = min(shape.dies_per_channel, max(1, (_MOST + _GAP) // (die_wide + _GAP)))
    rows = ceil(shape.dies_per_channel / across)
    channel_high = rows * (die_high + _GAP) - _GAP
    most = _ceiling(max(per_unit, default=0.0))
    wide = _LABEL + across * (die_wide + _GAP)
    drawn: list[str] = []
    if rows == 1:
        heads = (
            f'<text x="{_LABEL + die * (die_wide + _GAP) + die_wide / 2:g}" y="13" text-anchor="middle">'
            f"{escape(shape.heading(die))}</text>"
            for die in range(across)
        )
        drawn += heads
        if shape.dies > 1:
            drawn.append(f'<text x="{_LABEL - 8}" y="13" text-anchor="end" class="dim">way.die</text>')
    top = float(_HEAD if rows == 1 else 0)
    for channel in range(shape.channels):
        middle = top + channel_high / 2
        bus = ""
        if buses is not None:
            bus = f"bus {show(buses[channel])}"
            drawn.append(f'<text x="0" y="{middle + 12:g}" class="dim">{escape(bus)}</text>')
        drawn.append(f'<text x="0" y="{middle - 3 if bus else middle + 4:g}">channel {channel}</text>')
        drawn.append(
            f'<line x1="{_LABEL - 22}" x2="{_LABEL - 10}" y1="{middle:g}" y2="{middle:g}" class="wire"/>'
            f'<line x1="{_LABEL - 10}" x2="{_LABEL - 10}" y1="{top:g}" y2="{top + channel_high:g}" class="wire"'
            ' stroke-width="2"/>'
        )
        for die in range(shape.dies_per_channel):
            row, column = divmod(die, across)
            x, y = _LABEL + column * (die_wide + _GAP), top + row * (die_high + _GAP)
            for part in range(parts):
                unit = (channel * shape.dies_per_channel + die) * parts + part
                down, right = divmod(part, columns)
                plane = f", plane {part}" if parts > 1 else ""
                text = show(per_unit[unit])
                title = f"channel {channel}, {shape.die_name(die)}{plane}: {what} {text}"
                share = per_unit[unit] / most
                drawn.append(_cell(x + right * _CELL, y + down * _HIGH, _CELL, share, text, title))
            drawn.append(
                f'<rect x="{x:g}" y="{y:g}" width="{die_wide}" height="{die_high}" fill="none" class="die"'
                ' stroke-width="1.5"/>'
            )
        top += channel_high + _GAP * 1.5
    drawn.append(_scale(top, show(most)))
    high = top + 14
    wide = max(wide, _LABEL + 240)
    label = escape(f"The drive as channels and dies: {what}; the same numbers are in the table of all numbers")
    return Markup(  # noqa: S704 - every text in it has been escaped
        f'<svg class="drive" role="img" aria-label="{label}" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" '
        f'height="{high:g}" xmlns="http://www.w3.org/2000/svg">{"".join(drawn)}</svg>'
    )
