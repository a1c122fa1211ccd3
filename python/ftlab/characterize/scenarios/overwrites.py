"""Bytes from one round of collection to the next, from a drive that is overwritten in order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ftlab.characterize.bench import MIB
from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.scenarios.onset import PLANES
from ftlab.characterize.scenarios.updates import Rhythm, candidates, folded
from ftlab.characterize.target import SECTOR_BYTES

if TYPE_CHECKING:
    from ftlab.characterize.bench import Bench

# No drive has more spare space than this share of what its host sees.
_SPARE = 2
_FIRST, _MOST, _MERGED = 1 << 13, 1 << 19, 256 * MIB


def _rhythm(bench: Bench, effort: Effort, page: int, block: int, size: int) -> tuple[Rhythm, np.ndarray]:
    """The rhythm of slow writes in the first bytes of the drive, of as many writes as it takes to see it."""
    pages = size // (page * SECTOR_BYTES)
    # The end must be followed by the beginning as any row by the next.
    pages -= pages % math.lcm(block, int(bench.number("units")) * PLANES)
    periods = tuple(each for each in candidates(bench) if each % block == 0)
    first, count = pages // _SPARE, _FIRST
    latency, before = np.empty(0), 0
    while latency.size < _MOST * effort.span:
        places = (first + latency.size + np.arange(count)) % pages * page
        latency = np.concatenate([latency, bench.durable_writes(places, page)])
        # Until logs are full nothing is slow, so the same must be seen twice.
        found = folded(latency[latency.size // 2 :], periods)
        if found is not None and found.period == before:
            return found, latency
        count, before = latency.size, 0 if found is None else found.period
    raise UndecidedError(f"no rhythm in {latency.size:,} writes in order")


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    if bench.known.get("translation") == "block":
        raise NotApplicableError("every update moves its block: there are no rounds of collection")
    page = int(bench.number("page_bytes")) // SECTOR_BYTES
    block = int(bench.number("block_bytes")) // (page * SECTOR_BYTES)
    # Nothing is collected until all that is spare was used; merges need no more than blocks that were written.
    merges = bench.known.get("translation") in {"bast", "fast"}
    size = min(bench.capacity_bytes, _MERGED) if merges else bench.capacity_bytes
    bench.fill(0, size)
    bench.fill(0, size // _SPARE)
    found, latency = _rhythm(bench, effort, page, block, size)
    value = float(found.period * page * SECTOR_BYTES)
    shown = latency[: 3 * found.period]
    x = ((np.arange(shown.size) + 1) * page * SECTOR_BYTES).tolist()
    plot = Plot("bytes written", "time until durable (ns)", {"in order": (x, shown.tolist())})
    return [Estimate("gc_unit_bytes", Interval(value, value, value), 0.98, plot)]


SCENARIO = Scenario(
    name="overwrites-in-order",
    finds=("gc_unit_bytes",),
    needs=("page_bytes", "block_bytes", "units"),
    assumes="Each unit is collected once in a round; a round writes a block of each unit, or of each plane of it.",
    sends="the whole drive in order, then its pages in order, each with a flush",
    estimator="medians over periods: the shortest whole number of blocks after which the same writes are slow",
    drive_writes="the drive one and a half times (256 MiB of one that merges), and up to 2^20 pages",
    run=_run,
    alone={"gc_unit_bytes": "the rhythm was seen in six rounds at least"},
)
