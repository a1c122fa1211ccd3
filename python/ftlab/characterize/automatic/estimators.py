"""A fixed set of estimators: latencies over what was swept become a value, or the reason why they do not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab.characterize import detect
from ftlab.characterize.detect import BIC_MARGIN, Interval, location
from ftlab.characterize.scenario import UndecidedError
from ftlab.characterize.scenarios.pairs import Pairs, periods
from ftlab.characterize.scenarios.updates import rhythm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Array = np.ndarray[Any, Any]

# More of the same may make an unclear jump clear.
_AGAIN = 4
_SURE = 0.97
# Neighbours are on one level up to this gap, as for pairs of reads.
_LEVEL_GAP = 0.08
# Requests from one slow one to the next, and the share of the first ones that say nothing yet.
_RHYTHMS = tuple(1 << power for power in range(4, 13))
_SETTLE = 8
_LEAST_DISTANCES = 8
# A constant, a line, and the part that comes back.
_COLUMNS = 3


@dataclass(frozen=True)
class Series:
    """What was measured.

    Attributes:
        x: What was swept, in sectors, for each step; its number where nothing was.
        y: The latency of each step that counts.
        unit: Sectors of which the sweep has multiples.
        step_bytes: Bytes that a step writes.
        threshold: Share of an ordinary time that a jump has at least.
    """

    x: Array
    y: Array
    unit: int
    step_bytes: int
    threshold: float

    @property
    def points(self) -> dict[float, Array]:
        """The latencies at each point of the sweep, in its order."""
        return {float(each): self.y[self.x == each] for each in np.unique(self.x)}

    @property
    def medians(self) -> tuple[Array, Array]:
        """The points of the sweep, and the median at each."""
        points = self.points
        return np.array(list(points)), np.array([float(np.median(each)) for each in points.values()])


class NoJumpError(Exception):
    """There is surely no jump: what the recipe says of that case holds."""


@dataclass(frozen=True)
class Read:
    """What an estimator has read off.

    Attributes:
        value: The value: sectors, requests or units as a whole number, or nanoseconds.
        confidence: From 0 to 1.
    """

    value: Interval
    confidence: float = 1.0


def exact(value: float) -> Read:
    """A value that is one of separate ones."""
    return Read(Interval(value, value, value), _SURE)


def _folds(series: Series, design: Callable[[Array, int], Array]) -> Read:
    """The period, a power of two of sectors, by which a part of the cost comes back."""
    points = series.points
    sizes = np.array(list(points))
    places = [location(each) for each in points.values()]
    ones = np.ones(sizes.size)
    designs = {}
    for power in range(1, 12):
        part = design(sizes, 1 << power)
        # Of a part that is a line over sizes, nothing could be told.
        if np.unique(part).size > 1 and np.linalg.matrix_rank(np.column_stack([ones, sizes, part])) == _COLUMNS:
            designs[1 << power] = np.column_stack([ones, sizes, part])
    if not designs:
        raise UndecidedError("the sweep is too short to show a period")
    least = series.threshold * places[0].value
    rises = {g: detect.fit(each, places).coefficients[2] for g, each in designs.items()}
    clear = {g: designs[g] for g, rise in rises.items() if rise.low > least}
    if not clear:
        if any(rise.high > 2 * least for rise in rises.values()):
            raise UndecidedError("a jump over size can be neither seen nor excluded", repetitions=_AGAIN)
        raise NoJumpError
    found, _, margin = detect.best(clear, places)
    if margin < BIC_MARGIN:
        raise UndecidedError("no period over size is clearly better than the next", repetitions=_AGAIN)
    return exact(found)


def _steps(series: Series) -> Read:
    return _folds(series, lambda sizes, g: np.ceil(sizes / g))


def _dips(series: Series) -> Read:
    return _folds(series, lambda sizes, g: (sizes % g != 0).astype(float))


def middle_of(series: Series) -> float:
    """The latency between the levels before and behind a jump; both must be clear of it.

    Raises:
        NoJumpError: There is none.
        UndecidedError: Levels are mixed.
    """
    sizes, medians = series.medians
    if sizes.size <= 1:
        raise UndecidedError("one point has no neighbour")
    at = detect.change(np.minimum(medians, 4 * float(np.median(medians)) or math.inf))
    before, behind = medians[:at], medians[at:]
    low, high = sorted((float(np.median(before)), float(np.median(behind))))
    if high <= (1 + series.threshold) * low:
        raise NoJumpError
    middle = math.sqrt(low * high) if low > 0 else high / 2
    upward = float(np.median(behind)) == high
    if bool(np.any((before > middle) == upward) or np.any((behind < middle) == upward)):
        raise UndecidedError("levels before and behind the jump are mixed", repetitions=_AGAIN)
    return middle


def edge(series: Series, middle: float) -> tuple[float, float]:
    """The last point before latencies cross a middle, and the first one behind it.

    Raises:
        UndecidedError: They do not.
    """
    sizes, medians = series.medians
    other = np.flatnonzero((medians > middle) != (medians[0] > middle))
    if not other.size:
        raise UndecidedError("the jump is not where it was", repetitions=_AGAIN)
    return float(sizes[other[0] - 1]), float(sizes[other[0]])


def _last_before(series: Series) -> Read:
    return exact(edge(series, middle_of(series))[0])


def _first_after(series: Series) -> Read:
    return exact(edge(series, middle_of(series))[1])


def _rhythm(series: Series) -> tuple[float, Interval]:
    y = series.y[series.y.size // _SETTLE :]
    if y.size < _RHYTHMS[0]:
        raise UndecidedError("too few steps for a rhythm", repetitions=_AGAIN)
    found = rhythm(y, _RHYTHMS)
    if found is None:
        raise UndecidedError(f"no rhythm in {y.size:,} steps", repetitions=_AGAIN)
    height = found.slow - found.ordinary
    if height.low < series.threshold * found.ordinary.value:
        raise UndecidedError("what is slow is hardly slower", repetitions=_AGAIN)
    return found.period / found.width, height


def _of_rhythm(series: Series) -> Read:
    period = _rhythm(series)[0] * series.step_bytes / 512
    if not period or period != int(period):
        raise UndecidedError("a period is no whole number of sectors")
    return exact(period)


def _height(series: Series) -> Read:
    return Read(_rhythm(series)[1])


def _level(series: Series) -> Read:
    return Read(location(series.y))


def _rise(series: Series) -> Read:
    points = list(series.points.values())
    if len(points) == 1:
        raise UndecidedError("one point has no neighbour")
    return Read(location(points[-1]) - location(points[0]))


def _slope(series: Series) -> Read:
    points = series.points
    if len(points) == 1:
        raise UndecidedError("one point has no slope")
    return Read(detect.line(points).coefficients[1] * series.unit)


def _classes(series: Series) -> Read:
    """The two uppermost levels, and their difference."""
    sizes, medians = series.medians
    levels = detect.levels(medians, _LEVEL_GAP)
    if levels.max() == 0:
        raise UndecidedError("there is one level")
    upper, next_ = (
        location(np.concatenate([series.y[series.x == each] for each in sizes[levels == level]]))
        for level in (levels.max(), levels.max() - 1)
    )
    if (upper - next_).low < series.threshold * next_.value:
        raise UndecidedError("levels are hardly apart", repetitions=_AGAIN)
    return Read(upper - next_)


def _periods(series: Series) -> tuple[int, int]:
    """The periods of the middle and of the upper class of waits."""
    points = series.points
    if len(points) < _LEAST_DISTANCES:
        raise UndecidedError("too few distances for a period")
    places = [location(each) for each in points.values()]
    alone = min(places, key=lambda place: place.value)
    if alone.value <= 0:
        raise UndecidedError("requests take no time")
    distances = np.array([round(each / series.unit) for each in points])
    # Level by level above the fastest: which of them is a request alone does not matter to periods.
    pairs = Pairs(distances, [place - alone for place in places], alone, (1, 1))
    fine, coarse, fitted, margin = periods(pairs)
    if margin < BIC_MARGIN or fitted.residual > _SETTLE:
        raise UndecidedError("no period over the distance is clearly better than the next", repetitions=_AGAIN)
    if not coarse:
        raise NoJumpError
    rise = fitted.coefficients[-1]
    if rise.low < series.threshold * alone.value:
        raise UndecidedError("waits are hardly longer than none", repetitions=_AGAIN)
    return fine, coarse


def _two(series: Series) -> tuple[int, int]:
    fine, coarse = _periods(series)
    if fine == coarse:
        raise UndecidedError("there is one class of waits: it may be of channels or of units")
    return fine, coarse


def _fine(series: Series) -> Read:
    return exact(_two(series)[0])


def _coarse(series: Series) -> Read:
    return exact(_periods(series)[1])


def _ratio(series: Series) -> Read:
    fine, coarse = _two(series)
    return exact(coarse // fine)


READERS: Mapping[str, Callable[[Series], Read]] = {
    "steps": _steps,
    "dips": _dips,
    "last_before": _last_before,
    "first_after": _first_after,
    "rhythm": _of_rhythm,
    "level": _level,
    "height": _height,
    "rise": _rise,
    "slope": _slope,
    "classes": _classes,
    "fine": _fine,
    "coarse": _coarse,
    "ratio": _ratio,
}
