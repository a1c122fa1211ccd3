"""Log blocks that all blocks of a unit share, from the updates that they take before the first merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ftlab.characterize.bench import MIB
from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.target import SECTOR_BYTES

if TYPE_CHECKING:
    from ftlab.characterize.bench import Bench

# Planes of a unit, which nobody can see: blocks at this multiple of all units share everything.
_PLANES = 4
_MOST_BLOCKS, _MERGED = 128, 0.4
# Log blocks of a unit, without the one for sequences.
RANDOM_LOGS = "random_logs_of_unit"


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    if bench.known.get("translation") != "fast":
        raise NotApplicableError("no log blocks are shared")
    page, run = (int(bench.number(name)) // SECTOR_BYTES for name in ("page_bytes", "block_bytes"))
    pages, distance = run // page, _PLANES * int(bench.number("units")) * run
    blocks = min(int(_MOST_BLOCKS * effort.span), bench.target.capacity // distance - 1)
    if blocks <= 1:
        raise UndecidedError(f"needs {3 * distance * SECTOR_BYTES // MIB} MiB")
    base = bench.region(blocks * distance * SECTOR_BYTES)
    for block in range(blocks):
        bench.fill(base + block * distance, run * SECTOR_BYTES)
    # Backwards, and never the first page of a block: what is written in order goes to a log of its own.
    offsets = np.arange(pages - 1, 0, -1) * page
    places = (base + np.arange(blocks)[:, None] * distance + offsets[None, :]).ravel()
    latency = bench.durable_writes(places, page)
    slow = np.flatnonzero(latency > _MERGED * pages * float(np.median(latency[: pages // 2])))
    # What earlier writes have left in logs must not count: from the first merge on they come once in a block.
    if slow.size <= 1:
        raise UndecidedError(f"no merge in updates of {places.size:,} pages", span=2)
    logs = round(float(slow[0]) / pages)
    if logs < 1 or abs(slow[0] - logs * pages) > 1:
        raise UndecidedError(f"the first merge came after {slow[0]:,} updates: no whole number of blocks")
    plot = Plot("updates", "time until durable (ns)", {"updates": (list(range(latency.size)), latency.tolist())})
    return [Estimate(RANDOM_LOGS, Interval(logs, logs, logs), 0.97, plot)]


SCENARIO = Scenario(
    name="updates-until-merge",
    finds=(),
    needs=("block_bytes", "page_bytes", "units", "translation"),
    assumes="Updates that are not in order fill the log blocks of their unit one after the other.",
    sends="blocks of one unit, filled; their pages, backwards and once each, each with a flush",
    estimator="the first write that takes as long as a merge, in blocks",
    drive_writes="up to 256 blocks",
    run=_run,
)
