"""Block size of a layer that moves a block for each update, from writes over multiples of growing size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ftlab.characterize.bench import MIB
from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.target import SECTOR_BYTES

if TYPE_CHECKING:
    from ftlab.characterize.bench import Bench

# Pages of a block, at most; the multiple that no block has; and how much more two blocks take than one.
_MOST, _NONE, _TWICE = 1024, 8, 1.5
_REGION = 96 * MIB


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    if bench.known.get("translation") != "block":
        raise NotApplicableError("an update moves no block")
    if bench.number("units", 0.0) != 1:
        raise UndecidedError("neighbouring blocks are moved at the same time, on units of their own")
    page = int(bench.number("page_bytes")) // SECTOR_BYTES
    size = min(_REGION, bench.capacity_bytes // 4)
    region = bench.region(size)
    bench.fill(region, size)
    pages = size // SECTOR_BYTES // page
    costs: dict[int, float] = {}
    multiple = _NONE
    while multiple <= min(_MOST, pages // 2):
        # Of odd multiples: the larger ones have their own turn.
        odd = 2 * bench.random.integers(pages // multiple // 2, size=effort.repetitions) + 1
        # A page before the multiple, and one behind it.
        latency = bench.durable_writes(region + (odd * multiple - 1) * page, 2 * page)
        costs[multiple] = float(np.median(latency))
        if costs[multiple] > _TWICE * costs[_NONE]:
            break
        multiple *= 2
    else:
        raise UndecidedError(f"no block of up to {multiple // 2} pages ends where writes were sent")
    plot = Plot("multiple (pages)", "time until durable (ns)", {"writes": (list(costs), list(costs.values()))})
    value = float(multiple * page * SECTOR_BYTES)
    return [Estimate("block_bytes", Interval(value, value, value), 0.98, plot)]


SCENARIO = Scenario(
    name="writes-over-ends",
    finds=("block_bytes",),
    needs=("page_bytes", "translation", "units"),
    assumes="A write over the end of a block moves two blocks, one after the other; blocks have 16 pages at least.",
    sends="a region written in order; two pages over odd multiples of 8, 16, 32 and more pages, each with a flush",
    estimator="the smallest multiple at which the median is half as much again as at 8 pages",
    drive_writes="96 MiB, and a block for each of about 120 writes",
    run=_run,
    alone={"block_bytes": "one block or two are far from each other"},
)
