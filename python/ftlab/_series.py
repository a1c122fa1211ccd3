"""Time series of runs: what write amplification is a mean over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def amplification(series: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Give the write amplification of each interval with what it weighs in means: the pages that the host handed over.

    So the mean over some intervals is what flash programmed in them for each page that the host wrote. What flash
    programs while the host writes nothing, as for a flush, belongs to the writes before.

    Args:
        series: Columns by name. Those of an older ftlab have neither ``write_pages`` nor ``programmed_pages``: there,
            completed ``writes`` are weights, which is exact only for writes of one size.

    Returns:
        Values, NaN where there is none, and weights; ``None`` where the series has nothing of that kind.
    """
    values = series["write_amplification"].astype(float)
    if "write_pages" not in series:
        return values, series["writes"].astype(float) if "writes" in series else None
    pages = series["write_pages"].astype(float)
    own = np.flatnonzero(pages)
    if "programmed_pages" in series and own.size:
        values = np.full(pages.size, np.nan)
        values[own] = np.add.reduceat(series["programmed_pages"].astype(float), own) / pages[own]
    return values, pages
