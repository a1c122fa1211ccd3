"""Time series of runs: what write amplification is a mean over, and where percentiles stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

# Points of the line of a percentile.
_MOST_PERCENTILES = 60


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


def percentile_columns(op: str) -> tuple[str, str, str]:
    """Columns of the percentiles that are drawn, of reads or of writes: median, p99 and p99.9."""
    return f"{op}_p50_ns", f"{op}_p99_ns", f"{op}_p999_ns"


def known(series: Mapping[str, NDArray[Any]], column: str) -> NDArray[np.intp]:
    """Rows in which a column has a value; none where it is not there, as in the series of an older ftlab.

    >>> known({"read_p50_ns": np.array([np.nan, 5.0])}, "read_p50_ns").tolist(), known({}, "read_p50_ns").tolist()
    ([1], [])
    """
    return np.flatnonzero(np.isfinite(series[column])) if column in series else np.array([], dtype=np.intp)


def over_time(
    x: NDArray[Any], series: Mapping[str, NDArray[Any]], column: str, of: Callable[..., Any] = np.median
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The line of a percentile: where it has many values, one for several of them, at the end of the last.

    Ten requests are slower than each, which may as well be five or fifteen by chance: all of them would be noise.

    Args:
        x: Where each row stands.
        series: Columns by name.
        column: The percentile.
        of: Which one it is of several: the middle one, or the largest (``np.max``).
    """
    rows = known(series, column)
    groups = [group for group in np.array_split(rows, min(rows.size, _MOST_PERCENTILES) or 1) if group.size]
    at = np.array([group[-1] for group in groups], dtype=np.intp)
    return x[at], np.array([of(series[column][group]) for group in groups])


def band(x: NDArray[Any], series: Mapping[str, NDArray[Any]], op: str) -> tuple[NDArray[Any], ...]:
    """A band from the median to p99 over time: where its points stand, and its two ends.

    The median stands in more rows, and not in the same ones: it is taken from the line through them.

    Args:
        x: Where each row stands.
        series: Columns by name.
        op: ``read`` or ``write``.
    """
    median, high, _ = percentile_columns(op)
    at, top = over_time(x, series, high)
    return (at, np.minimum(np.interp(at, *over_time(x, series, median)), top), top) if at.size else (at, top, top)
