"""Figures for papers, each from a tidy frame in one call (docs/guides/figures.md).

>>> figure = ftlab.figures.line(
...     {"ftl.over_provisioning": [0.1, 0.2, 0.3], "write_amplification.total": [4.1, 2.6, 1.9]},
...     x="ftl.over_provisioning", y="write_amplification.total")
>>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
('over-provisioning', 'write amplification')
"""

from ftlab.figures.grids import heatmap
from ftlab.figures.points import bar, line
from ftlab.figures.saving import save
from ftlab.figures.spread import cdf, histogram

__all__ = ["bar", "cdf", "heatmap", "histogram", "line", "save"]
