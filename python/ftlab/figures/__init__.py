"""Figures for papers, each from a tidy frame in one call (docs/guides/figures.md).

>>> figure = ftlab.figures.line(
...     {"ftl.over_provisioning": [0.1, 0.2, 0.3], "write_amplification.total": [4.1, 2.6, 1.9]},
...     x="ftl.over_provisioning", y="write_amplification.total")
>>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
('over-provisioning', 'write amplification')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ftlab._lazy import names_of

if TYPE_CHECKING:
    from ftlab.figures.grids import heatmap
    from ftlab.figures.over_time import series
    from ftlab.figures.points import bar, line
    from ftlab.figures.saving import save
    from ftlab.figures.spread import cdf, histogram

__all__ = ["bar", "cdf", "heatmap", "histogram", "line", "save", "series"]

__getattr__ = names_of(
    __name__,
    {
        "over_time": ("series",),
        "grids": ("heatmap",),
        "points": ("bar", "line"),
        "saving": ("save",),
        "spread": ("cdf", "histogram"),
    },
)


def __dir__() -> list[str]:
    return __all__
