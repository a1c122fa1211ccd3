"""Program time, from writes to trimmed pages alone and two of them on one unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ftlab.characterize.bench import MIB, Bench
from ftlab.characterize.detect import Interval, location
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.target import FLUSH, SECTOR_BYTES, WRITE, Batch

_PAGES_FIRST = 2


def _room(bench: Bench, count: int) -> tuple[int, int, int]:
    """A trimmed region for writes of a page: its first sector, sectors of a page, sectors between writes."""
    page = int(bench.number("page_bytes")) // SECTOR_BYTES
    size = max(count * page * SECTOR_BYTES, 4 * MIB)
    region = bench.region(size)
    bench.trim(region, size)
    return region, page, page


def _transfer(bench: Bench, page: int) -> Interval:
    """What of a write to flash is transfer and not counted as program."""
    if str(bench.known.get("program_form", "")).startswith("included"):
        # Merges have shown that what a copy takes for its program is what a write takes in all.
        return Interval(0.0, 0.0, 0.0)
    bus = bench.interval("bus_sector_ns")
    if bus is None:
        raise UndecidedError("the time of a transfer is not known")
    return bus * page


def unhidden(bench: Bench, miss: Interval | None = None) -> Interval:
    """What of the buffer's time is not hidden behind a read: nothing without a buffer."""
    if not bench.number("read_buffer_bytes", 0.0):
        return Interval(0.0, 0.0, 0.0)
    page = int(bench.number("page_bytes")) // SECTOR_BYTES
    miss, unit = miss or bench.interval("miss_page_ns"), bench.interval("wait_unit_ns")
    host, link = bench.interval("host_overhead_ns"), bench.interval("link_sector_ns")
    if miss is None or unit is None or host is None or link is None:
        raise UndecidedError("the time of a read that misses the buffer is not known")
    missing = page - int(bench.number("wait_unit_sectors"))
    if missing:
        # Pairs of shorter reads: the rest of the page crosses the bus as well.
        bus = bench.interval("bus_sector_ns")
        if bus is None:
            raise UndecidedError("the time of a transfer is not known")
        unit += bus * missing
    return miss - host - link * page - unit


def _alone(bench: Bench, effort: Effort) -> list[Estimate]:
    """One page at a time, in order, in a trimmed region."""
    count = 16 * effort.repetitions
    region, page, step = _room(bench, count)
    first = region + np.arange(count) * step
    ops, lba = np.tile([WRITE, FLUSH], count), np.column_stack([first, np.zeros_like(first)]).ravel()
    latency = bench.send(Batch.of(ops, lba, np.tile([page, 0], count), gap_ns=1_000_000)).latency_ns
    # The first writes may erase what was trimmed.
    write, flush = (latency[side::2][_PAGES_FIRST:] for side in (0, 1))
    host, link = bench.interval("host_overhead_ns"), bench.interval("link_sector_ns")
    if host is None or link is None:
        raise UndecidedError("fixed time and link are not known")
    transfer = _transfer(bench, page)
    if bench.known.get("write_policy") == "back":
        whole = location(flush) - host
    else:
        whole = location(write) - host - link * page - unhidden(bench)
    plot = Plot(
        "page",
        "latency (ns)",
        {
            "write": (list(range(write.size)), write.tolist()),
            "flush after it": (list(range(flush.size)), flush.tolist()),
        },
    )
    return [Estimate("program_ns", whole - transfer, plot=plot), Estimate("write_flash_ns", whole)]


def _first(bench: Bench, effort: Effort) -> list[Estimate]:
    """A first idea of a program, for scenarios that only ask for its size."""
    program, whole = _alone(bench, effort)
    return [replace(program, parameter="program_guess_ns"), whole]


def _two(bench: Bench, effort: Effort) -> list[Estimate]:
    """Two pages on one unit: the second waits for the whole of the first."""
    page = int(bench.number("page_bytes")) // SECTOR_BYTES
    run = int(bench.number("run_bytes")) // SECTOR_BYTES
    if run > page:
        far, step = page, 2 * page
    elif bench.known.get("placement") == "address":
        units = int(bench.number("units"))
        far, step = units * page, page
    else:
        raise NotApplicableError("where a page goes does not depend on its address")
    count = 8 * effort.repetitions
    size = (count * step + 2 * far) * SECTOR_BYTES * 2
    if size > bench.capacity_bytes // 2:
        raise UndecidedError(f"needs {size * 2 // MIB} MiB")
    region = bench.region(size)
    bench.trim(region, size)
    index = np.arange(count)
    # Rows of pages of which each is followed by the next of its unit.
    first = region + (
        index * step if far == page else (index // (far // page)) * 2 * far + index % (far // page) * page
    )
    if bench.known.get("write_policy") == "back":
        one = bench.send(_with_flush(first, page)).latency_ns[1::2]
        second_region = bench.region(size)
        bench.trim(second_region, size)
        moved = first - region + second_region
        lba = np.column_stack([moved, moved + far, np.zeros_like(moved)]).ravel()
        batch = Batch.of(np.tile([WRITE, WRITE, FLUSH], count), lba, np.tile([page, page, 0], count), gap_ns=1_000_000)
        wait = location(bench.send(batch).latency_ns[2::3]) - location(one)
    else:
        bench.gap_ns = 0
        one, two = bench.together(first, first + far, (page, page), op=WRITE)
        wait = location(two) - location(one)
    plot = Plot("pages", "wait (ns)", {"second page": ([1], [wait.value])})
    return [Estimate("program_ns", wait - _transfer(bench, page), plot=plot)]


def _with_flush(first: np.ndarray, page: int) -> Batch:
    lba = np.column_stack([first, np.zeros_like(first)]).ravel()
    return Batch.of(np.tile([WRITE, FLUSH], first.size), lba, np.tile([page, 0], first.size), gap_ns=1_000_000)


_NEEDS = ("page_bytes", "run_bytes", "write_policy", "bus_sector_ns", "host_overhead_ns", "link_sector_ns")
FIRST = Scenario(
    name="first-writes",
    finds=(),
    needs=_NEEDS,
    assumes="as trimmed-writes",
    sends="as trimmed-writes",
    estimator="as trimmed-writes; what follows asks only for the size of a program",
    drive_writes="up to 4 MiB",
    run=_first,
)
ALONE = Scenario(
    name="trimmed-writes",
    finds=("program_ns",),
    needs=_NEEDS,
    assumes="A page that was trimmed is written without anything else; its transfer and its program follow each other.",
    sends="a trimmed region, written in order by the page, with a flush after each",
    estimator="mean without outliers, less fixed time, link, transfer, and what the buffer does not hide",
    drive_writes="up to 4 MiB",
    run=_alone,
)
TWO = Scenario(
    name="writes-of-one-unit",
    finds=("program_ns",),
    needs=("page_bytes", "run_bytes", "write_policy", "bus_sector_ns"),
    assumes="Of two pages on one unit the second waits until the first is programmed.",
    sends="two pages of one unit in a trimmed region, at one instant, or behind a buffer with one flush",
    estimator="difference of means without outliers, less the transfer",
    drive_writes="up to 8 MiB",
    run=_two,
)
