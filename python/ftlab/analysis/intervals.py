"""Confidence intervals of means, differences and ratios of means over repetitions.

Two methods. ``"t"``: Student's t for means and paired differences; Welch's approximation where the repetitions are not
the same ones; Fieller's theorem for ratios (E. C. Fieller, Some problems in interval estimation, JRSS B 16, 1954).
``"bootstrap"``: bias-corrected and accelerated (B. Efron, Better bootstrap confidence intervals, JASA 82, 1987). It
follows skewed metrics, but needs many repetitions. Of exponentially distributed values, its 95 % intervals contain the
mean in 79 % of cases with 5, 87 % with 10 and 91 % with 25. Those of Student do in 88 %, 90 % and 93 %.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ftlab.analysis.tables import check_confidence, choice
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Method = Literal["t", "bootstrap"]
Interval = tuple[float, float]

# Two values have only three distinct resamples.
_FEWEST_TO_RESAMPLE = 3


def student(freedom: float, confidence: float) -> float:
    """Give how many standard errors a confidence interval of Student's reaches to either side.

    >>> round(student(2, 0.95), 4)
    4.3027
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


@dataclass(frozen=True)
class Estimator:
    """How intervals are made.

    Attributes:
        confidence: Share of such intervals that hold the truth.
        method: See the module.
        resamples: Of the bootstrap.
        seed: Of the bootstrap; every interval begins with it, so that none depends on what else is in the table.
    """

    confidence: float
    method: Method
    resamples: int
    seed: int

    def __post_init__(self) -> None:
        """Refuse what is wrong."""
        check_confidence(self.confidence)
        choice("method", self.method, ("t", "bootstrap"))
        if self.resamples < 100:  # noqa: PLR2004 - the tails would be a handful of values
            raise ConfigError(f"resamples = {self.resamples}: expected 100 or more")

    def _t(self, freedom: float) -> float:
        return student(freedom, self.confidence)

    def mean(self, values: NDArray[np.float64]) -> Interval | None:
        """Interval of a mean; ``None`` for fewer than two values."""
        if values.size < 2:  # noqa: PLR2004 - a spread takes two
            return None
        centre = float(values.mean())
        if values.min() == values.max():
            return centre, centre
        if self.method == "bootstrap":
            return self._resampled((values,), np.mean)
        half = self._t(values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
        return centre - half, centre + half

    def difference(self, one: NDArray[np.float64], other: NDArray[np.float64], *, paired: bool) -> Interval | None:
        """Interval of the difference of two means; ``None`` for fewer than two values of either."""
        if paired:
            return self.mean(one - other)
        if min(one.size, other.size) < 2:  # noqa: PLR2004 - a spread takes two
            return None
        centre = float(one.mean() - other.mean())
        variances = _variance(one), _variance(other)
        if not any(variances):
            return centre, centre
        if self.method == "bootstrap":
            return self._resampled((one, other), lambda a, b, axis: np.mean(a, axis=axis) - np.mean(b, axis=axis))
        half = self._t(_freedom(variances, (one.size, other.size))) * math.sqrt(sum(variances))
        return centre - half, centre + half

    def ratio(self, one: NDArray[np.float64], other: NDArray[np.float64], *, paired: bool) -> Interval | None:
        """Interval of the ratio of two means.

        ``None`` for fewer than two values of either, and where the second mean is so uncertain that no finite interval
        holds the ratio.
        """
        if min(one.size, other.size) < 2 or other.mean() <= 0:  # noqa: PLR2004 - a spread takes two
            return None
        above, below = float(one.mean()), float(other.mean())
        variances = _variance(one), _variance(other)
        if not any(variances):
            return above / below, above / below
        if self.method == "bootstrap":
            return self._resampled(
                (one, other), lambda a, b, axis: np.mean(a, axis=axis) / np.mean(b, axis=axis), paired=paired
            )
        covariance = float(np.cov(one, other)[0, 1]) / one.size if paired else 0.0
        scaled = variances[0], (above / below) ** 2 * variances[1]
        freedom = one.size - 1 if paired or not any(scaled) else _freedom(scaled, (one.size, other.size))
        square = self._t(freedom) ** 2
        # The ratios r for which one - r * other may be 0: a r^2 - 2 b r + c <= 0.
        a, b, c = (
            below**2 - square * variances[1],
            above * below - square * covariance,
            above**2 - square * variances[0],
        )
        if a <= 0:
            return None
        root = math.sqrt(max(b * b - a * c, 0))
        # Rounding must not leave out the ratio itself.
        return min((b - root) / a, above / below), max((b + root) / a, above / below)

    def _resampled(
        self, samples: tuple[NDArray[np.float64], ...], statistic: Callable[..., Any], *, paired: bool = False
    ) -> Interval | None:
        from scipy.stats import bootstrap

        if min(sample.size for sample in samples) < _FEWEST_TO_RESAMPLE:
            return None
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = bootstrap(
                samples,
                statistic,
                n_resamples=self.resamples,
                confidence_level=self.confidence,
                method="BCa",
                paired=paired,
                rng=np.random.default_rng(self.seed),
                axis=-1,
                vectorized=True,
            ).confidence_interval
        low, high = float(found.low), float(found.high)
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _variance(values: NDArray[np.float64]) -> float:
    """Variance of a mean; exactly 0 where all values are one."""
    return 0.0 if values.min() == values.max() else float(values.var(ddof=1)) / values.size


def _freedom(variances: tuple[float, float], sizes: tuple[int, int]) -> float:
    """Degrees of freedom by Welch and Satterthwaite."""
    return sum(variances) ** 2 / sum(v * v / (n - 1) for v, n in zip(variances, sizes, strict=True))
