"""Data latency of the buffer, from reads of what was just written."""

from __future__ import annotations

import numpy as np

from ftlab.characterize.bench import KIB, Bench
from ftlab.characterize.detect import line, location
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.target import SECTOR_BYTES

_PAGES = (1, 2, 4, 8, 16)
# Ends of pages that are read over, and reads for each repetition.
_ENDS, _SAMPLES = 16, 16
_NO_LONGER = "a second page takes no longer: accesses of one request go on side by side, or take no time"


def _check(bench: Bench) -> None:
    if not bench.number("buffer_bytes") and not bench.number("read_buffer_bytes"):
        raise NotApplicableError("there is no buffer")


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    _check(bench)
    page = int(bench.number("page_bytes"))
    sectors = page // SECTOR_BYTES
    size = max(_PAGES) * page
    region = bench.region(size)
    points = {}
    bench.fill(region, size)
    for count in _PAGES:
        points[float(count)] = bench.reads(np.full(effort.repetitions * 4, region), count * sectors)
    link = bench.interval("link_sector_ns")
    if link is None:
        raise NotApplicableError("the link is not known")
    # With its error: of a large page the link takes longer than the buffer.
    slope = line(points).coefficients[1] - link * sectors
    if slope.holds(0):
        raise UndecidedError(_NO_LONGER)
    plot = Plot(
        "pages",
        "latency (ns)",
        {"hits": ([c for c in points for _ in points[c]], [float(y) for c in points for y in points[c]])},
    )
    return [Estimate("buffer_ns", slope, plot=plot)]


def _single(bench: Bench, effort: Effort) -> list[Estimate]:
    _check(bench)
    region = bench.region(64 * KIB)
    bench.fill(region, 64 * KIB)
    latency = bench.reads(np.full(effort.repetitions * 8, region), 1)
    host = bench.interval("host_overhead_ns")
    link = bench.interval("link_sector_ns")
    if host is None or link is None:
        raise NotApplicableError("fixed time and link are not known")
    plot = Plot("repetition", "latency (ns)", {"hits": (list(range(latency.size)), latency.tolist())})
    return [Estimate("buffer_ns", location(latency) - host - link, plot=plot)]


def _over(bench: Bench, effort: Effort) -> list[Estimate]:
    """Two sectors of one page, and of two pages: neither the fixed time nor the link differs."""
    _check(bench)
    page = int(bench.number("page_bytes")) // SECTOR_BYTES
    size = _ENDS * 2 * page * SECTOR_BYTES
    region = bench.region(size)
    bench.fill(region, size)
    count = _SAMPLES * effort.repetitions
    ends = region + (2 * bench.random.integers(_ENDS, size=count) + 1) * page
    # In turn, so that what changes over time is in both.
    latency = bench.reads(np.column_stack([ends - 2, ends - 1]).ravel(), 2)
    within, over = latency[0::2], latency[1::2]
    plot = Plot(
        "repetition",
        "latency (ns)",
        {"one page": (list(range(count)), within.tolist()), "two pages": (list(range(count)), over.tolist())},
    )
    more = location(over) - location(within)
    if more.holds(0):
        raise UndecidedError(_NO_LONGER)
    return [Estimate("buffer_ns", more, plot=plot)]


SLOPE = Scenario(
    name="hit-slope",
    finds=("buffer_ns",),
    needs=("buffer_bytes", "page_bytes", "link_sector_ns"),
    assumes="What was just written is read from the buffer, page after page (the paper, 6.4).",
    sends="16 pages, written; reads of 1, 2, 4, 8 and 16 of them",
    estimator="weighted least squares: the slope over pages, less the link",
    drive_writes="256 KiB",
    run=_run,
)
SINGLE = Scenario(
    name="hit-single",
    finds=("buffer_ns",),
    needs=("buffer_bytes", "host_overhead_ns", "link_sector_ns"),
    assumes="A read from the buffer costs the fixed time, one access and the link.",
    sends="64 KiB, written; reads of one sector of them",
    estimator="mean without outliers, less fixed time and link",
    drive_writes="64 KiB",
    run=_single,
)
OVER = Scenario(
    name="hits-over-an-end",
    finds=("buffer_ns",),
    needs=("buffer_bytes", "page_bytes"),
    assumes="A read of two pages from the buffer has one access more than one of a page.",
    sends="32 pages, written; reads of two sectors of one page, and of two sectors over the end of a page",
    estimator="difference of means without outliers",
    drive_writes="512 KiB at most",
    run=_over,
    effort=Effort(repetitions=256),
)
