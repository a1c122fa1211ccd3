"""Mapping unit, from writes of growing size: only those of whole units read nothing first."""

from __future__ import annotations

import numpy as np

from ftlab.characterize.bench import MIB, Bench
from ftlab.characterize.detect import BIC_MARGIN, Interval, best, location
from ftlab.characterize.scenario import Effort, Estimate, Plot, Scenario, UndecidedError
from ftlab.characterize.target import SECTOR_BYTES

_SIZES = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 20, 24, 28, 31, 32, 33, 48, 56, 63, 64])
_CANDIDATES = (2, 4, 8, 16, 32, 64)
_REGION, _STEP = 96 * MIB, 128
_LEAST = 0.004


def _middle(samples: np.ndarray) -> Interval:
    """The median, with the interval of the mean: merges among writes are not rare enough to be clipped."""
    place = location(samples)
    return Interval.around(float(np.median(samples)), place.half * 1.25)


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    size = min(_REGION, bench.capacity_bytes // 4)
    region = bench.region(size)
    spots = size // SECTOR_BYTES // _STEP
    points: dict[int, list[float]] = {int(s): [] for s in _SIZES}
    done = 0
    while done < effort.repetitions:
        rounds = min(effort.repetitions - done, spots // _SIZES.size)
        bench.fill(region, size)
        bench.scrub()
        sizes = np.tile(_SIZES, rounds)
        places = region + bench.random.permutation(spots)[: sizes.size] * _STEP
        for s, value in zip(sizes.tolist(), bench.durable_writes(places, sizes).tolist(), strict=True):
            points[s].append(value)
        done += rounds
    places = [_middle(np.array(points[int(s)])) for s in _SIZES]
    page = bench.number("page_bytes", 0.0) / SECTOR_BYTES
    base = [np.ones(_SIZES.size), _SIZES.astype(float)] + ([np.ceil(_SIZES / page)] if page else [])
    designs = {1: np.column_stack(base)}
    for g in _CANDIDATES:
        missing = (-_SIZES) % g
        # What is read first is at most one unit, less what is written of it.
        designs[g] = np.column_stack([*base, missing.astype(float), missing > 0])
    found, fitted, margin = best(designs, places)
    xs = [s for s in points for _ in points[s]]
    plot = Plot("sectors", "time until durable (ns)", {"writes": (xs, [y for s in points for y in points[s]])})
    if found == 1:
        raise UndecidedError("no size needs a read first", repetitions=4)
    read = fitted.coefficients[-1]
    if margin < BIC_MARGIN or read.low < _LEAST * places[0].value:
        raise UndecidedError("no unit explains which sizes need a read first", repetitions=4)
    value = float(found * SECTOR_BYTES)
    estimates = [Estimate("mapping_unit_bytes", Interval(value, value, value), 0.99, plot)]
    if page and found == page:
        # The array reads pages, so a unit that is read first as one lies in one page.
        estimates.append(Estimate("page_bytes", Interval(value, value, value), 0.97, plot))
    return estimates


SCENARIO = Scenario(
    name="partial-writes",
    finds=("mapping_unit_bytes", "page_bytes"),
    needs=("read_buffer_bytes",),
    assumes="A write that covers a unit in part reads the rest of it first.",
    sends="a region written in order; writes of 1 to 64 sectors at multiples of 64 KiB, each with a flush",
    estimator="a + b s + c p + [s mod g > 0] (d + e rest) for each power of two g, by the Bayesian information criterion",
    drive_writes="96 MiB and the buffer, for each 66 repetitions",
    run=_run,
    alone={"mapping_unit_bytes": "what is read first can be seen in writes alone"},
)
