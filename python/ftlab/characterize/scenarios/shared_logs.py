"""Log blocks that all blocks of a unit share, from the updates that they take before the first merge."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ftlab.characterize.bench import MIB
from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.scenarios.logs import MOST_PLANES, PLANES_OF_UNIT
from ftlab.characterize.target import SECTOR_BYTES

if TYPE_CHECKING:
    from ftlab.characterize.bench import Array, Bench

_MOST_BLOCKS, _MERGED = 128, 0.4
# Log blocks of a plane, without the one for sequences.
RANDOM_LOGS = "random_logs_of_plane"


def _until_merge(bench: Bench, effort: Effort, distance: int) -> tuple[int, Array]:
    """Updates of blocks at a distance until the first merge, in blocks; and what they took."""
    page, run = (int(bench.number(name)) // SECTOR_BYTES for name in ("page_bytes", "block_bytes"))
    pages = run // page
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
    if slow.size <= 1:
        raise UndecidedError(f"no merge in updates of {places.size:,} pages", span=2)
    logs = round(float(slow[0]) / pages)
    if logs < 1 or abs(slow[0] - logs * pages) > 1:
        raise UndecidedError(f"the first merge came after {slow[0]:,} updates: no whole number of blocks")
    return logs, latency


def _row(bench: Bench) -> int:
    """Sectors of a block of each unit."""
    if bench.known.get("translation") != "fast":
        raise NotApplicableError("no log blocks are shared")
    return int(bench.number("units")) * int(bench.number("block_bytes")) // SECTOR_BYTES


def _plane(bench: Bench, effort: Effort) -> list[Estimate]:
    logs, latency = _until_merge(bench, effort, MOST_PLANES * _row(bench))
    plot = Plot("updates", "time until durable (ns)", {"updates": (list(range(latency.size)), latency.tolist())})
    return [Estimate(RANDOM_LOGS, Interval(logs, logs, logs), 0.97, plot)]


def _unit(bench: Bench, effort: Effort) -> list[Estimate]:
    both, latency = _until_merge(bench, effort, _row(bench))
    planes = both / bench.number(RANDOM_LOGS)
    if planes not in {1, 2, MOST_PLANES}:
        raise UndecidedError(f"blocks of a unit fill {planes:g} times as many logs as those of a plane")
    plot = Plot("updates", "time until durable (ns)", {"updates": (list(range(latency.size)), latency.tolist())})
    return [Estimate(PLANES_OF_UNIT, Interval(planes, planes, planes), 0.97, plot)]


PLANE = Scenario(
    name="updates-until-merge",
    finds=(),
    needs=("block_bytes", "page_bytes", "units", "translation"),
    assumes="Updates that are not in order fill the log blocks of their unit one after the other.",
    sends="blocks at four times all units from each other, filled; their pages, backwards and once each, with a flush",
    estimator="the first write that takes as long as a merge, in blocks",
    drive_writes="up to 256 blocks",
    run=_plane,
)
UNIT = replace(
    PLANE,
    name="updates-until-merge-of-a-unit",
    needs=(*PLANE.needs, RANDOM_LOGS),
    sends="the same with blocks at all units from each other",
    run=_unit,
)
