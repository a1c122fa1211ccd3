"""Parts of the drive that are collected for themselves, from updates of one of them."""

from __future__ import annotations

import numpy as np

from ftlab.characterize.bench import MIB, Bench
from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Scenario, UndecidedError
from ftlab.characterize.scenarios.onset import PLANES, collects, first_collection, picture, prepare, rows
from ftlab.characterize.target import SECTOR_BYTES

# How far a part's share of the spare space may be from an even one; and of all of it, when there are no parts.
_NEAR, _ALL = 0.2, 0.75


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    collects(bench)
    units = int(bench.number("units"))
    if units == 1:
        raise NotApplicableError("there is one unit, and nothing to divide")
    page = int(bench.number("page_bytes")) // SECTOR_BYTES
    if bench.number("run_bytes") != page * SECTOR_BYTES:
        raise UndecidedError("consecutive pages are not on different units")
    whole = bench.number("gc_onset_bytes") / (page * SECTOR_BYTES)
    prepare(bench, effort)
    places = rows(bench, PLANES, step=units)
    wanted = int(_ALL * whole) + 1
    if places.size < wanted and places.size < whole / units * (1 + _NEAR):
        raise UndecidedError(f"needs {wanted * page * SECTOR_BYTES // MIB} MiB of one part")
    while places.size < wanted:
        # Where all of the drive takes them, pages of a part are too few, and are updated again.
        places = np.tile(places, 2)
    at, latency = first_collection(bench, places[:wanted], page)
    plot = picture(latency, page)
    if at is None:
        one = Interval(1, 1, 1)
        return [Estimate("volumes", one, 0.97, plot, "updates of one unit's pages use the space of all")]
    share = at / whole
    if abs(share * units - 1) > _NEAR:
        raise UndecidedError(f"updates of one of {units} units use {share:.0%} of the space: no even part of it")
    value = float(units)
    note = f"updates of one of {units} units use a {units}th of the space"
    return [Estimate("volumes", Interval(value, value, value), 0.97, plot, note)]


SCENARIO = Scenario(
    name="updates-of-one-unit",
    finds=("volumes",),
    needs=("page_bytes", "run_bytes", "units", "translation", "read_ns"),
    assumes="Consecutive runs go to units in turn; a part has an even share of the spare space.",
    sends="a full drive; pages of one unit in a shuffled order, each with a flush",
    estimator="updates before the first collection, as a share of those of the whole drive: an even part, or all",
    drive_writes="the drive once, unless it is a copy, and three quarters of its spare space",
    run=_run,
    alone={"volumes": "the answer is one of two that are far from each other"},
)
