"""Closed forms of write amplification under uniform single-page writes, in the limit of many blocks.

``alpha`` is physical over logical pages, without free and open blocks.
"""

from __future__ import annotations

import math

_STEPS = 100
_CLOSE = 1e-15
# Below this, the series around the branch point is the better start for Newton's method.
_NEAR_BRANCH = -0.25


def lambert_w(x: float) -> float:
    """Give the principal branch of Lambert's W on -1/e..0.

    >>> round(lambert_w(-0.2), 6)
    -0.259171
    """
    w = math.sqrt(max(0.0, 2 * (1 + math.e * x))) - 1 if x < _NEAR_BRANCH else x
    for _ in range(_STEPS):
        slope = math.exp(w) * (w + 1)
        step = (w * math.exp(w) - x) / slope if slope else 0.0
        if abs(step) < _CLOSE:
            break
        w -= step
    return w


def fifo(alpha: float) -> float:
    """Collect the oldest block.

    >>> round(fifo(1.25), 4), round(fifo(1.1), 4)
    (2.6927, 5.6775)
    """
    return alpha / (alpha + lambert_w(-alpha * math.exp(-alpha)))


def greedy(alpha: float, pages: int) -> float:
    """Collect the block with fewest valid of its ``pages``: victims have one of two successive numbers.

    >>> round(greedy(1.25, 64), 4), round(greedy(1.1, 128), 4)
    (2.5993, 5.4532)
    """
    harmonic = [0.0]
    for level in range(1, pages + 1):
        harmonic.append(harmonic[-1] + 1 / level)
    for level in range(1, pages):
        share = pages * (harmonic[pages] - harmonic[level]) - alpha * (pages - level)
        share /= alpha - pages / level
        if 0 <= share < 1:
            return pages / (pages - level + share)
    raise ValueError(f"alpha = {alpha}: expected more than 1")
