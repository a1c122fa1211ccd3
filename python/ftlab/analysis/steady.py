"""Where a run becomes steady."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ftlab._checks import checked
from ftlab._series import amplification
from ftlab.analysis import tables
from ftlab.errors import ConfigError
from ftlab.studies.frame import to_polars

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import ArrayLike, NDArray

    from ftlab.studies import Store

# MSER-5: observations in a batch, and the fewest batches. Cuts that leave less than a third are not looked at: so few
# may be alike by chance, the more so as write amplification takes few values. (The usual guard is five batches:
# K. Hoad, S. Robinson and R. Davies, Automating warm-up length estimation, 2010.)
_BATCH, _FEWEST_BATCHES, _LEFT = 5, 20, 3
# SNIA: rounds in the measurement window, its widest range, and its steepest slope, both as shares of the average.
_WINDOW, _RANGE, _SLOPE = 5, 0.20, 0.10
# A trend of what is left, or a difference of its end, that would be less likely by chance is one (H. B. Mann,
# Nonparametric tests against trend, 1945; M. G. Kendall, A new measure of rank correlation, 1938).
_CHANCE = 0.005
# Batches of that test and of the interval of the mean (B. Schmeiser, Batch size effects in the analysis of simulation
# output, 1982: more than 30 gain nothing).
_MEANS = 20

# What a value of the series is a mean over: intervals have not all the same number of requests, nor the same length.
# These columns count from the start of the run.
_WEIGHTS = {"latency_mean_ns": "requests", "iops": "simulated_ns", "bytes_per_second": "simulated_ns"}
# These count in the interval.
_OWN_WEIGHTS = {
    "map_hit_ratio": "map_lookups",
    **{f"map_penalty_{part}mean_ns": "map_lookups" for part in ("", "fetch_", "program_", "rest_", "probe_")},
    "map_fetch_mean_bytes": "map_fetches",
    "buffer_hit_ratio": "buffer_accesses",
    "nvm_hit_ratio": "nvm_accesses",
}
_CLOCKS = ("requests", "simulated_ns")


@dataclass(frozen=True)
class Steady:
    """Whether and where a series becomes steady.

    Attributes:
        reached: Whether it does.
        reason: Why it does not; empty otherwise.
        method: How that was found: ``"mser"`` or ``"snia"``.
        start: The interval with which steadiness begins, counted from 0; ``None`` when it is not reached.
        requests: Completed requests before that, where the series has it.
        simulated_ns: Simulated time before that, where the series has it.
        n: Intervals from there on.
        mean: Mean from there on, in the unit of the column.
        low: Lower end of the 95 % confidence interval of the mean (20 batch means); ``None`` for fewer than 40
            intervals. Nearly steady is not enough for it to be right: a slow drift is not in it.
        high: Upper end.
    """

    reached: bool
    reason: str
    method: str
    start: int | None = None
    requests: int | None = None
    simulated_ns: int | None = None
    n: int = 0
    mean: float | None = None
    low: float | None = None
    high: float | None = None


@checked
def steady_state(
    series: Any,
    column: str = "write_amplification",
    *,
    method: Literal["mser", "snia"] = "mser",
    rounds: int = 25,
    weights: ArrayLike | None = None,
) -> Steady:
    """Say where a time series becomes steady, and its mean from there on.

    ``"mser"`` is MSER-5, the truncation rule that simulation practice recommends. It cuts off what makes the standard
    error of the mean of the rest smallest, in batches of five (K. P. White, An effective truncation heuristic for bias
    reduction in simulation output, 1997; K. P. White, M. J. Cobb and S. C. Spratt, A comparison of five steady-state
    truncation heuristics for simulation, 2000). Cuts that leave less than a third are not looked at. Where the cut is
    beyond half, the run was too short: not reached. Nor is it where 20 means of the rest still have a trend (Mann and
    Kendall's test, 0.5 %). The last of them must be like the others, too (Student's test, 0.5 %). MSER-5 alone would
    take a long plateau with a rise at its end for steady.

    ``"snia"`` is how solid-state drives are tested (SNIA, Solid State Storage Performance Test Specification). In a
    window of five rounds, the values span no more than 20 % of their average. The line that fits them best changes by
    no more than 10 % of it. The specification stops at the first such window. Here the run goes on, so every later
    window must meet it too: a plateau before the first collection is none.

    Args:
        series: The time series of a run (``result.series``, ``store.series(key)``), the run's result, or the values
            alone.
        column: The column.
        method: See above.
        rounds: With ``"snia"``: into how many rounds of equally many intervals the series is divided; what is left over
            is at its beginning, and counts as not steady. The specification tests up to 25.
        weights: What each value weighs in means. Default for a time series: pages that the host wrote for write
            amplification, requests for mean latency, time for what is by the second. Hit ratios and penalties go by
            lookups or accesses. All the same else.

    Returns:
        Whether and where it is reached. A series that has too few intervals (100; for ``"snia"`` as many as rounds) has
        not reached it. Intervals without a value, such as write amplification without writes, are passed over.

    Raises:
        ConfigError: There is no such column, the run kept no series, or an option is wrong.

    >>> warming = [5.0 + (i % 3) for i in range(40)] + [1.0 + 0.5 * (i % 2) for i in range(160)]
    >>> steady = ftlab.analysis.steady_state(warming)
    >>> steady.reached, steady.start, steady.mean
    (True, 40, 1.25)
    """
    tables.choice("method", method, ("mser", "snia"))
    if rounds < _WINDOW:
        raise ConfigError(f"rounds = {rounds}: expected {_WINDOW} or more")
    values, weighted, clocks = _read(series, column, weights)
    known = np.flatnonzero(np.isfinite(values) & (weighted > 0))
    y, w = values[known], weighted[known]
    start = _mser(y) if method == "mser" else _snia(y, w, rounds)
    reason = start if isinstance(start, str) else _trend(y[start:]) if method == "mser" else ""
    if reason or isinstance(start, str):
        return Steady(reached=False, reason=reason, method=method)
    first = int(known[start])
    before = {name: int(clock[first - 1]) if first else 0 for name, clock in clocks.items()}
    low, high = _interval(y[start:], w[start:])
    return Steady(
        reached=True,
        reason="",
        method=method,
        start=first,
        n=int(y.size - start),
        mean=float(np.average(y[start:], weights=w[start:])),
        low=low,
        high=high,
        **before,
    )


def _read(
    series: Any, column: str, weights: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], dict[str, NDArray[Any]]]:
    """Values, their weights, and what was before each interval's end."""
    from ftlab._result import Result

    if isinstance(series, Result):
        series = series.series
    if series is None:
        raise ConfigError('the run kept no time series: run with series="auto", a study with options.series = "auto"')
    clocks: dict[str, NDArray[Any]] = {}
    if isinstance(series, dict) or hasattr(series, "columns"):
        table = to_polars(series)
        tables.columns(table, [column], "column")
        if not table[column].dtype.is_numeric():
            raise ConfigError(f"column {column!r}: expected numbers, found {str(table[column].dtype).lower()}")
        # Without timing no time passes.
        clocks = {name: table[name].to_numpy() for name in _CLOCKS if name in table.columns and table[name].max()}
        if weights is None:
            values, weights = _weighted(table, column)
        else:
            values = table[column].cast(float).fill_null(math.nan).to_numpy()
    else:
        try:
            values = np.asarray(series, dtype=float)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"expected a time series, found {type(series).__name__}") from error
    weighted = np.ones(values.shape) if weights is None else np.asarray(weights, dtype=float)
    if values.ndim != 1 or weighted.shape != values.shape:
        raise ConfigError(f"expected values of one dimension and as many weights: {values.shape}, {weighted.shape}")
    if (weighted < 0).any():
        raise ConfigError("weights: expected numbers that are not negative")
    return values, weighted, clocks


def _weighted(table: pl.DataFrame, column: str) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """The values of a column and what they weigh; ``None`` where they all weigh the same."""
    values, weights = table[column].cast(float).fill_null(math.nan).to_numpy(), None
    by, own = _WEIGHTS.get(column), _OWN_WEIGHTS.get(column)
    if column == "write_amplification":
        numbers = [each for each in table.iter_columns() if each.dtype.is_numeric()]
        values, weights = amplification({each.name: each.to_numpy() for each in numbers})
    elif own in table.columns:
        weights = table[own].cast(float).to_numpy()
    elif by in table.columns:
        weights = np.diff(table[by].cast(float).to_numpy(), prepend=0)
    # Without timing no time passes.
    return values, weights if weights is not None and weights.any() else None


def _mser(values: NDArray[np.float64]) -> int | str:
    batches = values.size // _BATCH
    if batches < _FEWEST_BATCHES:
        return f"{values.size} intervals are too few: MSER-5 needs {_BATCH * _FEWEST_BATCHES}"
    means = values[: batches * _BATCH].reshape(batches, _BATCH).mean(axis=1)
    kept = np.arange(batches, batches // _LEFT, -1)
    # Two passes: sums of squares of values that are nearly alike would leave nothing but rounding.
    squares = np.array([((rest := means[-count:]) - rest.mean()) @ (rest - rest.mean()) for count in kept])
    cut = int(np.argmin(squares / kept.astype(float) ** 2))
    if cut > batches / 2:
        return f"the standard error of the mean falls until {100 * cut / batches:.0f} % are cut off, more than half"
    return cut * _BATCH


def _trend(values: NDArray[np.float64]) -> str:
    """What speaks against steadiness of these values; empty if nothing does."""
    from scipy.special import stdtrit
    from scipy.stats import kendalltau

    means = np.array([piece.mean() for piece in np.array_split(values, _MEANS)])
    if np.ptp(means) == 0:
        return ""
    test = kendalltau(range(_MEANS), means)
    if test.pvalue < _CHANCE:
        way = "rises" if test.statistic > 0 else "falls"
        return f"what MSER-5 leaves still {way} (p = {test.pvalue:.2g})"
    others = means[:-1]
    spread = float(others.std(ddof=1)) * math.sqrt(1 + 1 / others.size)
    if abs(means[-1] - others.mean()) > float(stdtrit(others.size - 1, 1 - _CHANCE / 2)) * spread:
        return f"the last {100 // _MEANS} % of what MSER-5 leaves are unlike the rest"
    return ""


def _snia(values: NDArray[np.float64], weights: NDArray[np.float64], rounds: int) -> int | str:
    each = values.size // rounds
    if not each:
        return f"{values.size} intervals are too few for {rounds} rounds"
    first = values.size - each * rounds
    w = weights[first:].reshape(rounds, each)
    means = (values[first:].reshape(rounds, each) * w).sum(axis=1) / w.sum(axis=1)
    steady = [_in_bounds(means[end - _WINDOW : end]) for end in range(_WINDOW, rounds + 1)]
    if not steady[-1]:
        return f"the last {_WINDOW} of {rounds} rounds span more than 20 %, or change by more than 10 %"
    begin = len(steady) - 1
    while begin and steady[begin - 1]:
        begin -= 1
    return first + begin * each


def _in_bounds(window: NDArray[np.float64]) -> bool:
    average = abs(float(window.mean()))
    place = np.arange(window.size) - (window.size - 1) / 2
    change = abs(float(place @ window / (place @ place))) * (window.size - 1)
    # Bounds are met also where they are missed by rounding.
    average *= 1 + 1e-9
    return float(np.ptp(window)) <= _RANGE * average and change <= _SLOPE * average


def _interval(values: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[float | None, float | None]:
    """Confidence interval of a mean of values that depend on their neighbours."""
    from scipy.special import stdtrit

    if values.size < 2 * _MEANS:
        return None, None
    pieces = zip(np.array_split(values, _MEANS), np.array_split(weights, _MEANS), strict=True)
    means = np.array([np.average(piece, weights=weight) for piece, weight in pieces])
    centre = float(np.average(values, weights=weights))
    half = float(stdtrit(_MEANS - 1, 0.975) * means.std(ddof=1) / math.sqrt(_MEANS)) if np.ptp(means) else 0.0
    return centre - half, centre + half


@checked
def steady_states(
    store: Store,
    column: str = "write_amplification",
    name: str | None = None,
    *,
    method: Literal["mser", "snia"] = "mser",
    rounds: int = 25,
) -> pl.DataFrame:
    """Say for each run of a study where it becomes steady.

    Every run has a coarse time series of 128 to 256 intervals; ``options.series = "auto"`` keeps a finer one.

    Args:
        store: The store of results.
        column: The column of the time series.
        name: The study. Default: the newest.
        method: As in :func:`ftlab.analysis.steady_state`.
        rounds: As in :func:`ftlab.analysis.steady_state`.

    Returns:
        A row for each run that is done: the axes, ``seed``, ``key``, and the attributes of :class:`Steady`.

    Raises:
        ConfigError: There is no such study or column, or the time series of all runs are lost.
    """
    import polars as pl

    study = store.study(name)
    runs = tables.done(store.frame(study.name))
    axes = list(dict.fromkeys([*study.axes, "seed"]))
    rows = []
    coarse = store.coarse_series(runs["key"].to_list())
    for run in runs.select([*axes, "key"]).iter_rows(named=True):
        series = coarse.get(run["key"])
        series = store.series(run["key"]) if series is None else series
        if series is not None:
            rows.append(run | asdict(steady_state(series, column, method=method, rounds=rounds)))
    if not rows:
        raise ConfigError(f"{store.folder}: the time series of all runs of {study.name} are lost: run it again")
    kinds: dict[str, Any] = {each: runs[each].dtype for each in (*axes, "key")}
    kinds |= {"reached": pl.Boolean, "reason": pl.String, "method": pl.String, "start": pl.Int64}
    kinds |= {"requests": pl.Int64, "simulated_ns": pl.Int64, "n": pl.Int64}
    kinds |= dict.fromkeys(("mean", "low", "high"), pl.Float64)
    return pl.DataFrame([list(row.values()) for row in rows], schema=kinds, orient="row")
