"""Hiding ratio, from reads that miss the buffer; the paper's own formula is kept beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.scenarios.read_sizes import misses
from ftlab.characterize.scenarios.writes import unhidden
from ftlab.characterize.target import SECTOR_BYTES

if TYPE_CHECKING:
    from ftlab.characterize.bench import Bench


_ALL = 100.0


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


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    if not bench.number("read_buffer_bytes"):
        raise NotApplicableError("there is no buffer")
    buffer = bench.interval("buffer_ns")
    if buffer is None:
        raise UndecidedError("the time of the buffer is not known")
    sectors = int(bench.number("page_bytes")) // SECTOR_BYTES
    miss = misses(bench, effort, sectors)
    rest = unhidden(bench, miss)
    plot = Plot("", "ns", {"not hidden": ([0], [rest.value]), "buffer": ([0], [buffer.value])})
    return [Estimate("hiding_percent", percent(rest, buffer), plot=plot)]


SCENARIO = Scenario(
    name="hiding-of-misses",
    finds=("hiding_percent",),
    needs=("read_buffer_bytes", "buffer_ns", "page_bytes", "wait_unit_ns", "host_overhead_ns", "link_sector_ns"),
    assumes="A read that misses costs fixed time, link, array, transfer, and what of the buffer is not hidden.",
    sends="reads of a page that miss the buffer",
    estimator="100 (1 - rest / B): rest is the miss less fixed time, link, and array and transfer of pairs",
    drive_writes="as read-steps",
    run=_run,
    effort=Effort(repetitions=64),
    alone={"hiding_percent": "the paper's formula needs the program time to a ten-thousandth, which noise forbids"},
)
