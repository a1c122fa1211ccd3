"""Robust detection: locations with intervals, lines, spikes, periods, steps, levels and knees.

Every function takes plain arrays and knows no drive.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Array = np.ndarray[Any, Any]

# Time stamps are whole nanoseconds: an interval is never narrower than the rounding.
RESOLUTION_NS = 0.5
# The step of the clock that made the samples, while a scenario works; a latency is the difference of two stamps.
CLOCK_NS: ContextVar[float] = ContextVar("clock", default=1.0)
# Tries go on until an interval is narrow, and the narrowest is chosen: what is left of 99.7 % is 95 %.
_LEVEL, _DEVIATIONS = 0.9973, 3.0
# Of a normal distribution, the median absolute deviation times this is the standard deviation.
_MAD = 1.4826
# Outside of this many deviations, a sample is an outlier.
_CLIP = 6.0
_SKEWED, _FEW = 1.0, 20
_SPIKE, _WINDOW, _FLOOR = 8.0, 31, 0.02
_LEAST_SPIKES, _AGREE, _CLOSE = 5, 0.8, 0.02
BIC_MARGIN = 10.0
# Points of the spectrum of gaps, the gaps that it is made of, the steps that it may show, all in nanoseconds.
_SPECTRUM, _LONGEST_GAP = 1 << 20, 1 << 18
_COARSEST, _FINEST = 120_000, 4
# Random gaps of 64 stamps have no peak of this height, and a peak is that wide.
_PERIODIC, _PEAK = 0.8, 8


def rounding_ns() -> float:
    """Half of the narrowest interval: a clock of coarse steps may be a whole step off.

    >>> rounding_ns()
    0.5
    """
    step = CLOCK_NS.get()
    return step if step > 1 else RESOLUTION_NS


def step_ns(stamps: Array) -> float:
    """The step of a clock, by the longest one of which nearly all gaps between stamps are multiples; 1: there is none.

    Stamps are rounded to nanoseconds, and a clock that is slewed has steps that are no whole number of them. So the
    largest common divisor would say nothing; the spectrum of the gaps peaks all the same.

    >>> step_ns(np.cumsum(np.random.default_rng(1).integers(20_000, 220_000, 64)) // 1000 * 1000)
    1000.0
    """
    from scipy import fft

    gaps = np.diff(np.unique(np.round(np.asarray(stamps, dtype=float)))).astype(np.int64)
    gaps = gaps[gaps < _LONGEST_GAP]
    if gaps.size < _FEW:
        return 1.0
    strength = np.abs(fft.rfft(np.bincount(gaps).astype(float), _SPECTRUM)) / gaps.size
    first, last = _SPECTRUM // _COARSEST, _SPECTRUM // _FINEST
    clear = np.flatnonzero(strength[first:last] > _PERIODIC)
    if not clear.size:
        return 1.0
    # Of the peaks, the first is the step; those behind it are parts of it.
    at = first + int(clear[0])
    peak = at + int(np.argmax(strength[at : at + _PEAK]))
    step = _SPECTRUM / peak
    # Between the points of the spectrum, all gaps together say it.
    return float(round(float(gaps.sum()) / max(1.0, float(np.round(gaps / step).sum())), 3))


@dataclass(frozen=True)
class Interval:
    """A value and the interval that holds it in 95 of 100 cases.

    >>> Interval.around(10, 2) - Interval.around(4, 0)
    Interval(value=6, low=4.0, high=8.0)
    """

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, half: float) -> Interval:
        """An interval of ``half`` to both sides."""
        return cls(value, value - half, value + half)

    @property
    def half(self) -> float:
        """Half of its width."""
        return (self.high - self.low) / 2

    @property
    def relative(self) -> float:
        """Half of its width as a share of the value."""
        return self.half / abs(self.value) if self.value else math.inf

    def __add__(self, other: Interval | float) -> Interval:
        """Sum of independent values."""
        if not isinstance(other, Interval):
            return Interval(self.value + other, self.low + other, self.high + other)
        return Interval.around(self.value + other.value, math.hypot(self.half, other.half))

    def __sub__(self, other: Interval | float) -> Interval:
        """Difference of independent values."""
        return self + (other * -1 if isinstance(other, Interval) else -other)

    def __mul__(self, factor: float) -> Interval:
        """Multiple."""
        return Interval.around(self.value * factor, abs(self.half * factor))

    def holds(self, value: float) -> bool:
        """Whether it holds a value."""
        return self.low <= value <= self.high

    def meets(self, other: Interval) -> bool:
        """Whether two of them have a value in common."""
        return self.low <= other.high and other.low <= self.high


def clipped(samples: Array) -> Array:
    """Samples without outliers: those beyond six robust deviations of the median."""
    samples = np.asarray(samples, dtype=float)
    middle = np.median(samples)
    spread = _MAD * float(np.median(np.abs(samples - middle)))
    kept: Array = samples[np.abs(samples - middle) <= max(_CLIP * spread, 3 * rounding_ns())]
    return kept


def location(samples: Array) -> Interval:
    """Where samples lie: the mean without outliers, or the median where what is left leans to one side.

    The mean needs two thirds of the samples that the median needs, and both are right for symmetric noise.

    >>> location(np.array([100, 100, 300.0]))
    Interval(value=100.0, low=99.5, high=100.5)
    """
    from scipy import stats

    kept = clipped(samples)
    count = kept.size
    spread = float(np.std(kept, ddof=1)) if count > 1 else 0.0
    half = float(stats.t.ppf((1 + _LEVEL) / 2, count - 1)) * spread / math.sqrt(count) if count > 1 else 0.0
    middle = float(np.mean(kept))
    if count >= _FEW and spread > RESOLUTION_NS and abs(float(stats.skew(kept))) > _SKEWED:
        middle = float(np.median(samples))
        half *= math.sqrt(math.pi / 2)
    return Interval.around(middle, max(half, rounding_ns()))


@dataclass(frozen=True)
class Fit:
    """Coefficients of a linear model, with intervals.

    Attributes:
        coefficients: One for each column of the design.
        residual: Root of the mean square of what is left, in units of the errors: about 1 where the model holds.
        bic: The Bayesian information criterion, less a constant of the data.
    """

    coefficients: tuple[Interval, ...]
    residual: float
    bic: float


def fit(design: Array, points: Sequence[Interval]) -> Fit:
    """Least squares, weighted by the intervals of the points, which widen where the model does not hold.

    >>> from ftlab.characterize.detect import fit
    >>> design = np.array([[1, 1], [1, 2], [1, 3.0]])
    >>> fit(design, [Interval.around(value, 0.5) for value in (3, 5, 7)]).coefficients[1].value.__round__(6)
    2.0
    """
    errors = np.array([point.half / _DEVIATIONS for point in points])
    values = np.array([point.value for point in points])
    scaled, target = design / errors[:, None], values / errors
    found, *_ = np.linalg.lstsq(scaled, target, rcond=None)
    left = target - scaled @ found
    rows, columns = design.shape
    free = max(1, rows - columns)
    chi = float(left @ left)
    widen = max(1.0, math.sqrt(chi / free))
    covariance = np.linalg.pinv(scaled.T @ scaled)
    halves = _DEVIATIONS * widen * np.sqrt(np.clip(np.diag(covariance), 0, None))
    intervals = tuple(Interval.around(float(value), float(half)) for value, half in zip(found, halves, strict=True))
    return Fit(intervals, math.sqrt(chi / free), chi + columns * math.log(rows))


def line(points: Mapping[float, Array]) -> Fit:
    """The line through the locations of samples at each x: intercept and slope."""
    xs = sorted(points)
    design = np.array([[1.0, x] for x in xs])
    return fit(design, [location(points[x]) for x in xs])


def best(designs: Mapping[Any, Array], points: Sequence[Interval]) -> tuple[Any, Fit, float]:
    """The model that explains points best, its fit, and by how much its criterion is below that of the next.

    The errors of points are taken as known, so where no model holds the criterion alone would claim too much: it is
    divided by what the best model leaves.
    """
    fits = {key: fit(design, points) for key, design in designs.items()}
    order = sorted(fits, key=lambda key: fits[key].bic)
    first = order[0]
    scale = max(1.0, fits[first].residual ** 2)
    margin = (fits[order[1]].bic - fits[first].bic) / scale if len(order) > 1 else math.inf
    return first, fits[first], margin


def spikes(latencies: Array) -> Array:
    """Indices of requests that took much longer than those around them; of neighbours, the first.

    >>> spikes(np.array([1.0] * 40 + [9, 8] + [1.0] * 40)).tolist()
    [40]
    """
    from scipy import ndimage

    latencies = np.asarray(latencies, dtype=float)
    base = ndimage.median_filter(latencies, size=min(_WINDOW, latencies.size), mode="nearest")
    left = latencies - base
    middle = float(np.median(left))
    spread = _MAD * float(np.median(np.abs(left - middle)))
    floor = _FLOOR * float(np.median(latencies)) + RESOLUTION_NS
    high = np.flatnonzero(left > middle + max(_SPIKE * spread, floor))
    return high[np.diff(high, prepend=-2) > 1]


def period(places: Array) -> tuple[int, float] | None:
    """The period of places, and the share of gaps that keep it; ``None`` where there is none.

    >>> period(np.array([0, 65, 129, 193, 257, 321, 385]))
    (64, 1.0)
    """
    gaps = np.diff(np.asarray(places))
    if len(places) < _LEAST_SPIKES:
        return None
    middle = float(np.median(gaps))
    share = float(np.mean(np.abs(gaps - middle) <= max(_CLOSE * middle, 1)))
    if share >= _AGREE:
        values, counts = np.unique(gaps[np.abs(gaps - middle) <= max(_CLOSE * middle, 1)], return_counts=True)
        return int(values[np.argmax(counts)]), share
    common = reduce(math.gcd, (int(gap) for gap in gaps))
    return (common, 1.0) if common > 1 else None


def steps(sizes: Array, points: Sequence[Interval], periods: Sequence[int]) -> tuple[int, Fit, float]:
    """The period at which a cost over size rises by a step: ``a + b s + c ceil(s / g)``."""
    designs = {
        g: np.column_stack([np.ones(len(sizes)), sizes, np.ceil(np.asarray(sizes) / g)]).astype(float)
        for g in periods
        if np.unique(np.ceil(np.asarray(sizes) / g)).size > 1
    }
    return best(designs, points)


def dips(sizes: Array, points: Sequence[Interval], periods: Sequence[int]) -> tuple[int, Fit, float]:
    """The period at which a cost over size falls back: ``a + b s + c [s mod g != 0]``, with ``c`` above 0."""
    sizes = np.asarray(sizes)
    designs = {
        g: np.column_stack([np.ones(len(sizes)), sizes, sizes % g != 0]).astype(float)
        for g in periods
        if 0 < np.count_nonzero(sizes % g != 0) < len(sizes)
    }
    return best(designs, points)


def levels(values: Array, gap: float) -> Array:
    """The cluster of each value, from 0 for the lowest: neighbours in order are together up to a relative gap.

    >>> levels(np.array([10, 20, 10.1, 30]), 0.08).tolist()
    [0, 1, 0, 2]
    """
    values = np.asarray(values, dtype=float)
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    cluster = np.concatenate([[0], np.cumsum(np.diff(ranked) > gap * ranked[:-1])])
    result = np.empty(values.size, dtype=int)
    result[order] = cluster
    return result


def change(values: Array) -> int:
    """Where a series changes from one level to another: the first index of the second level.

    >>> change(np.array([5, 5.2, 5.1, 9, 9.3, 9.1]))
    3
    """
    values = np.asarray(values, dtype=float)
    if values.size <= 1:
        return int(values.size)
    ranks = np.arange(1, values.size)
    low = np.cumsum(values)[:-1] / ranks
    high = (values.sum() - np.cumsum(values)[:-1]) / (values.size - ranks)
    # Between two means, the split that explains most.
    return int(np.argmax(ranks * (values.size - ranks) * (high - low) ** 2)) + 1
