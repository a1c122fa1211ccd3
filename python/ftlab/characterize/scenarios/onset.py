"""Bytes of updates that a full drive takes before it collects: what is spare, less what it keeps free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ftlab.characterize.bench import Bench
from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.target import SECTOR_BYTES

if TYPE_CHECKING:
    from ftlab.characterize.bench import Array

# Planes of a unit, which nobody can see: rows of so many pages of each unit take a page of each plane, or two, or four.
PLANES = 4
# Writes that are looked at together, and at most.
_BATCH, _MOST = 4096, 1 << 21
# Reads that must come from flash for a drive to count as full.
_FULL = 0.9
# A collection copies this share of a block at least, in programs of ordinary writes.
_COPIED = 0.3
_USUAL = 256


def collects(bench: Bench) -> None:
    """Make sure that the drive collects garbage.

    Raises:
        NotApplicableError: It merges blocks instead.
    """
    if bench.known.get("translation") != "page":
        raise NotApplicableError("updates are merged into their blocks: no free space is collected")


def prepare(bench: Bench, effort: Effort) -> bool:
    """Fill the drive in order, unless it is a copy that is full as it is; gives whether it was filled."""
    host, link = bench.number("host_overhead_ns", 0.0), bench.number("link_sector_ns", 0.0)
    spots = bench.random.integers(bench.target.capacity, size=4 * effort.repetitions)
    mapped = bench.reads(spots, 1) > host + link + bench.number("read_ns") / 2
    # What was written last may come from a buffer.
    kept = bench.number("buffer_bytes", 0.0) / bench.capacity_bytes
    if Bench.copies(bench.target) and float(np.mean(mapped)) >= _FULL - kept:
        return False
    bench.fill(0, bench.capacity_bytes)
    return True


def first_collection(bench: Bench, places: Array, page: int) -> tuple[int | None, Array]:
    """Which of some updates is the first that waits for the copies of a collection; and the times of all."""
    block = bench.number("block_bytes") / bench.number("page_bytes")
    latency = np.empty(0)
    for first in range(0, places.size, _BATCH):
        latency = np.concatenate([latency, bench.durable_writes(places[first : first + _BATCH], page)])
        # Erases alone are no collection here: what was trimmed or overwritten as a whole may be erased before.
        limit = _COPIED * block * float(np.median(latency[:_USUAL])) + bench.number("erase_ns", 0.0)
        slow = np.flatnonzero(latency > limit)
        if slow.size:
            return int(slow[0]), latency
    return None, latency


def rows(bench: Bench, count: int, *, step: int = 1) -> Array:
    """Pages in rows of a shuffled order: all planes get as much, and all blocks lose as much, page by page.

    Args:
        bench: The bench.
        count: Pages of a row.
        step: Pages from one of a row to the next.
    """
    page = int(bench.number("page_bytes"))
    whole = bench.capacity_bytes // page // (count * step)
    order = bench.random.permutation(whole)
    pages = (order[:, None] * count + np.arange(count)[None, :]) * step
    places: Array = pages.ravel()[:_MOST] * (page // SECTOR_BYTES)
    return places


def picture(latency: Array, page: int) -> Plot:
    """Times over the bytes written so far: of many, the slowest of neighbours."""
    step = -(-latency.size // 4000)
    slowest = np.maximum.reduceat(latency, np.arange(0, latency.size, step))
    x = (np.arange(slowest.size) * step * page * SECTOR_BYTES).tolist()
    return Plot("bytes written", "time until durable (ns)", {"updates": (x, slowest.tolist())})


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    collects(bench)
    page = int(bench.number("page_bytes")) // SECTOR_BYTES
    filled = prepare(bench, effort)
    row = int(bench.number("units")) * PLANES
    places = rows(bench, row)
    at, latency = first_collection(bench, places, page)
    if at is None:
        raise UndecidedError(f"{places.size:,} updates were not enough to make it collect")
    size = page * SECTOR_BYTES
    # Rows are not resolved; where the drive was in use before, blocks that are partly stale are not either.
    unsure = row + (bench.number("gc_unit_bytes", 0.0) / size if filled else 0.0)
    value = Interval.around(float(at * size), unsure * size)
    return [Estimate("gc_onset_bytes", value, plot=picture(latency, page))]


SCENARIO = Scenario(
    name="updates-until-collection",
    finds=("gc_onset_bytes",),
    needs=("page_bytes", "block_bytes", "units", "translation", "read_ns"),
    assumes="A full drive collects when its spare space is used up; a collection copies a third of a block or more.",
    sends="a full drive; pages of it once each, in rows over all units, each with a flush",
    estimator="the first write that takes as long as the copies of a third of a block",
    drive_writes="the drive once, unless it is a copy, and its spare space",
    run=_run,
    alone={"gc_onset_bytes": "it happens once: a second time would need another state of the drive"},
)
