"""Student's t."""

from __future__ import annotations

import math


def half_width(stdev: float, count: int, confidence: float) -> float:
    """Half of the confidence interval of a mean of ``count`` values.

    >>> round(half_width(1.0, 5, 0.95), 4)
    1.2417
    """
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, (1 + confidence) / 2)) * stdev / math.sqrt(count)
