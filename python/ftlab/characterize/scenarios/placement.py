"""What decides where data go: their address, or the order in which they are written."""

from __future__ import annotations

import numpy as np

from ftlab.characterize.bench import MIB, Array, Bench
from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.target import FLUSH, SECTOR_BYTES, WRITE, Batch

_MOST, _RUNS = 48, 1024
_SURE = 0.85


def _waits(bench: Bench, first: Array, second: Array, limit: float) -> float:
    """Which share of pairs of sectors wait for each other."""
    bench.scrub()
    _first, later = bench.together(first, second, (1, 1))
    return float(np.mean(later > limit))


def _apart(places: Array, units: int) -> Array:
    """Places of which no one is another's partner: what was read once may come from memory.

    >>> _apart(np.array([0, 4, 1, 8]), 4).tolist()
    [0, 1, 8]
    """
    used: set[int] = set()
    chosen: list[int] = []
    for at in places.tolist():
        if len(chosen) < _MOST and not used & {at, at + units}:
            used |= {at, at + units}
            chosen.append(at)
    return np.array(chosen)


def _run(bench: Bench, _: Effort) -> list[Estimate]:
    run_bytes, units = bench.number("run_bytes"), int(bench.number("units"))
    if units == 1:
        raise NotApplicableError("there is one unit")
    run = int(run_bytes) // SECTOR_BYTES
    count = int(min(_RUNS, bench.capacity_bytes // 2 // int(run_bytes)))
    if count < 3 * units:
        raise UndecidedError(f"needs {6 * units * int(run_bytes) // MIB} MiB")
    region = bench.region(count * int(run_bytes))
    bench.fill(region, count * int(run_bytes))
    order = bench.random.permutation(count)
    step = min(run, 512)
    parts = np.arange(0, run, step)
    lba = (region + order[:, None] * run + parts[None, :]).ravel()
    bench.send(Batch.of(WRITE, lba, step))
    bench.send(Batch.of(FLUSH, [0], 0))
    alone_at = region + order[:: max(1, count // 40)] * run + 2
    bench.scrub()
    alone = float(np.median(bench.reads(alone_at, 1)))
    limit = alone + bench.number("read_ns") / 2
    at = _apart(bench.random.permutation(count - units), units)
    # Where a run has several pages, no page is read twice.
    page = int(min(bench.number("page_bytes", run_bytes), run_bytes)) // SECTOR_BYTES
    other = page if run > page else 0
    by_address = _waits(bench, region + at * run, region + (at + units) * run + other, limit)
    by_order = _waits(bench, region + order[at] * run, region + order[at + units] * run + other, limit)
    plot = Plot(
        "",
        "share of pairs that wait",
        {"one period apart by address": ([0], [by_address]), "by order of writing": ([1], [by_order])},
    )
    if by_address > _SURE > by_order:
        found = [Estimate("placement", "address", 0.98, plot)]
        return [*found, Estimate("chunk_bytes", Interval(run_bytes, run_bytes, run_bytes), 0.98, plot)]
    if by_order > _SURE > by_address:
        return [Estimate("placement", "write_order", 0.98, plot)]
    raise UndecidedError("neither address nor order of writing keeps the period alone", repetitions=2)


SCENARIO = Scenario(
    name="shuffled-writes",
    finds=("placement", "chunk_bytes"),
    needs=("run_bytes", "units", "read_ns", "read_buffer_bytes"),
    assumes="Runs go to all units in turn, by address or as they are written.",
    sends="runs in a shuffled order; pairs of sectors one period apart by address, and by order of writing",
    estimator="the share of pairs that wait for each other, above 85 %",
    drive_writes="up to half of the drive",
    run=_run,
    alone={
        "placement": "both readings were tried, and one alone holds",
        "chunk_bytes": "the run of pairs of reads, kept under shuffled writes",
    },
)
