"""Log blocks of one block each, or shared by all: two blocks that are updated in turn tell."""

from __future__ import annotations

import numpy as np

from ftlab.characterize.bench import MIB, Bench
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.scenarios.updates import rhythm
from ftlab.characterize.target import SECTOR_BYTES

_PERIODS, _PAGE = 12, 3
# A merge takes this share of the programs of a block at least.
_MERGED = 0.5
# Planes of a unit, whose number nobody can see: at this multiple of all units two blocks share everything.
_PLANES = (4, 2)


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    if bench.known.get("updates") != "logs":
        raise NotApplicableError("updates are not kept in log blocks")
    page = int(bench.number("page_bytes")) // SECTOR_BYTES
    run = int(bench.number("block_bytes")) // SECTOR_BYTES
    block, units = run // page, int(bench.number("units"))
    room = bench.capacity_bytes // SECTOR_BYTES
    distances = [planes * units * run for planes in _PLANES if (planes * units + 2) * run < room]
    if not distances or distances[0] != _PLANES[0] * units * run:
        raise UndecidedError(f"needs {(_PLANES[0] * units + 2) * run * SECTOR_BYTES // MIB} MiB")
    distance = distances[0]
    base = bench.region((distance + run) * SECTOR_BYTES)
    for first in (base, base + distance):
        bench.fill(first, run * SECTOR_BYTES)
    writes = 2 * block * max(_PERIODS, effort.repetitions)
    # As many as a shared log of 64 blocks takes before it merges for the first time.
    settle = 80 * block
    places = base + np.arange(settle + writes) % 2 * distance + _PAGE * page
    latency = bench.durable_writes(places, page)[settle:]
    found = rhythm(latency, (block, 2 * block))
    plot = Plot(
        "update", "time until durable (ns)", {"two in turn": (list(range(4 * block)), latency[: 4 * block].tolist())}
    )
    if float(np.median(latency)) > _MERGED * block * bench.number("program_guess_ns", np.inf):
        # There is room for one log block, which each of them takes from the other: shared, it would have been filled.
        return [Estimate("translation", "bast", 0.97, plot, "each update of two blocks in turn merges")]
    if found is None or found.period not in {block, 2 * block}:
        raise UndecidedError("two blocks in turn have no rhythm of a block", repetitions=2)
    word = "fast" if found.period == block else "bast"
    return [Estimate("translation", word, 0.97, plot)]


SCENARIO = Scenario(
    name="two-blocks-in-turn",
    finds=("translation",),
    needs=("block_bytes", "page_bytes", "units", "updates"),
    assumes="A log block of its own is full after a block of updates of one block; one that is shared, of both.",
    sends="two blocks at four times all units from each other, filled; a page of each, updated in turn",
    estimator="the period of slow writes: a block of updates, or two",
    drive_writes="about 110 blocks",
    run=_run,
    alone={"translation": "the period is one of two values"},
)
