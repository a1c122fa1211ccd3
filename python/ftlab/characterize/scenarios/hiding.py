"""Hiding ratio, from reads that miss the buffer; the paper's own formula is kept beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ftlab.characterize.bench import FILL_BYTES, MIB
from ftlab.characterize.detect import Interval, location
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.target import SECTOR_BYTES

if TYPE_CHECKING:
    from ftlab.characterize.bench import Array, Bench


_ALL = 100.0
# Pairs for each repetition; the share of pages that are read in pairs.
_SAMPLES, _REGION, _PAIRED = 20, 96 * MIB, 0.55


def percent(unhidden_ns: Interval, buffer: Interval) -> Interval:
    """100 (B - rest) / B: a value beyond 0 or 100 is cut off, and its interval keeps its width.

    Raises:
        UndecidedError: The whole interval is beyond, or the time of the buffer is not above its own error.
    """
    if buffer.low <= 0:
        raise UndecidedError("the time of the buffer cannot be told from none: there is nothing to hide")
    value = _ALL * (1 - unhidden_ns.value / buffer.value)
    half = _ALL * (unhidden_ns.half / buffer.value + abs(unhidden_ns.value) / buffer.value * buffer.relative)
    if value + half < 0 or value - half > _ALL:
        raise UndecidedError(f"{value:.1f} % is no share: a time that it follows from is wrong")
    return Interval.around(min(_ALL, max(0.0, value)), half)


def paper(buffer: float, program: float, write: float) -> float:
    """The paper's formula: overlap over the shorter of both times, in percent.

    >>> round(paper(1430, 200_995, 200_999.9), 2)
    99.66
    """
    return 100 * (buffer + program - write) / min(buffer, program)


def _places(bench: Bench, page: int, size: int) -> tuple[Array, Array, Array]:
    """Pages of a region: pairs that are on one unit, first and second, and pages for reads alone."""
    run = int(bench.number("run_bytes")) // SECTOR_BYTES
    apart = 1 if run > page else int(bench.number("units"))
    rows = size // SECTOR_BYTES // page // (2 * apart)
    first = (np.arange(rows)[:, None] * 2 * apart + np.arange(apart)[None, :]).ravel()
    first = bench.random.permutation(first)
    # More alone than in pairs: they count twice.
    paired = int(first.size * _PAIRED)
    alone = np.concatenate([first[paired:], first[paired:] + apart])
    return first[:paired] * page, (first[:paired] + apart) * page, alone * page


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    if not bench.number("read_buffer_bytes"):
        raise NotApplicableError("there is no buffer")
    buffer = bench.interval("buffer_ns")
    if buffer is None:
        raise UndecidedError("the time of the buffer is not known")
    page = int(bench.number("page_bytes")) // SECTOR_BYTES
    size = min(_REGION, bench.capacity_bytes // 4) // FILL_BYTES * FILL_BYTES
    region = bench.region(size)
    bench.fill(region, size)
    wanted = _SAMPLES * effort.repetitions
    behind, alone = np.empty(0), np.empty(0)
    while behind.size < wanted:
        bench.scrub()
        first, second, rest = _places(bench, page, size)
        left = wanted - behind.size
        behind = np.append(behind, bench.together(region + first[:left], region + second[:left], (page, page))[1])
        alone = np.append(alone, bench.reads(region + rest[: 2 * left], page))
    bench.fill(region, page * SECTOR_BYTES)
    hits = bench.reads(np.full(wanted, region), page)
    # What waits for a page of its unit waits for array and transfer; a hit has fixed time, link and buffer.
    unhidden_ns = location(alone) * 2 - location(behind) - (location(hits) - buffer)
    plot = Plot("", "ns", {"not hidden": ([0], [unhidden_ns.value]), "buffer": ([0], [buffer.value])})
    return [Estimate("hiding_percent", percent(unhidden_ns, buffer), plot=plot)]


SCENARIO = Scenario(
    name="hiding-of-misses",
    finds=("hiding_percent",),
    needs=("read_buffer_bytes", "buffer_ns", "page_bytes", "run_bytes", "units"),
    assumes="A read that misses costs fixed time, link, array, transfer, and what of the buffer is not hidden.",
    sends="reads of a page that miss the buffer, alone and in pairs on one unit at one instant; reads that hit it",
    estimator="100 (1 - rest / B): rest is two misses less the later of a pair, less a hit without B",
    drive_writes="as read-steps",
    run=_run,
    effort=Effort(repetitions=64),
    most_repetitions=4096,
    alone={"hiding_percent": "the paper's formula needs the program time to a ten-thousandth, which noise forbids"},
)
