"""Page size, transfer time and time of a miss, from reads of growing size that miss the buffer."""

from __future__ import annotations

import numpy as np

from ftlab.characterize.bench import MIB, Bench
from ftlab.characterize.detect import BIC_MARGIN, Interval, best, fit, line, location
from ftlab.characterize.scenario import Declined, Effort, Estimate, Plot, Scenario, UndecidedError
from ftlab.characterize.scenarios.trimmed_reads import rate
from ftlab.characterize.target import SECTOR_BYTES

# Not 1: steps of every sector are the line over sectors.
# Sectors of a run from which on its pages are read one after the other.
_LONG_RUN = 256
_CANDIDATES = (2, 4, 8, 16, 32, 64, 128)
_REGION = 96 * MIB
# Another page is another read of the array: more than this share of a read of one sector.
_RISE = 0.1
# Nanoseconds a sector below which a bus is free: half of the rounding of a read of one page.
_FREE_NS = 0.5
# Where reads of a sector and of a page take as long: what a sector may take at most on its way over the bus.
UNSEEN = "bus_unseen_ns"


def _samples(bench: Bench, effort: Effort, sizes: np.ndarray, align: int) -> dict[float, np.ndarray]:
    """Latencies of reads of each size at starts of runs, none of them read before."""
    size = min(_REGION, bench.capacity_bytes // 4)
    region = bench.region(size)
    bench.fill(region, size)
    spots = size // SECTOR_BYTES // align
    order = bench.random.permutation(spots)
    count = effort.repetitions
    if spots < sizes.size:
        raise UndecidedError("the drive is too small for reads of all sizes")
    bench.scrub()
    points: dict[float, list[np.ndarray]] = {float(s): [] for s in sizes}
    at = 0
    for _ in range(count):
        if at + sizes.size > spots:
            # All were read: they may be in the buffer now.
            bench.scrub()
            order, at = bench.random.permutation(spots), 0
        latency = bench.reads(region + order[at : at + sizes.size] * align, sizes)
        for each, value in zip(sizes.tolist(), latency, strict=True):
            points[float(each)].append(value)
        at += sizes.size
    return {s: np.array(values) for s, values in points.items()}


def _steps(bench: Bench, effort: Effort) -> list[Estimate]:
    run = int(bench.number("run_bytes")) // SECTOR_BYTES
    sizes = np.unique(np.concatenate([np.arange(1, 9), [12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 128]]))
    sizes = sizes[sizes <= run]
    # Pages of a long run are at multiples of their size anywhere in it.
    points = _samples(bench, effort, sizes, min(run, _LONG_RUN))
    places = [location(points[float(s)]) for s in sizes]
    ones = np.ones(sizes.size)
    designs = {
        g: np.column_stack([ones, sizes, np.ceil(sizes / g)])
        for g in _CANDIDATES
        if g < run and np.unique(np.ceil(sizes / g)).size > 1
    }
    xs = [s for s in points for _ in points[s]]
    plot = Plot("sectors", "latency (ns)", {"reads": (xs, [float(y) for s in points for y in points[s]])})
    one = places[0].value
    rises = {g: fit(design, places).coefficients[2] for g, design in designs.items()}
    clear = {g: designs[g] for g, rise in rises.items() if rise.low > _RISE * one}
    if not clear:
        if any(rise.high > 2 * _RISE * one for rise in rises.values()):
            raise UndecidedError("a step of latency over size can be neither seen nor excluded", repetitions=4)
        # A run that is read as one is a page.
        found = run
    else:
        found, _, margin = best(clear, places)
        if margin < BIC_MARGIN:
            raise UndecidedError("no step of latency over size is clearly better than the next", repetitions=4)
    value = float(found * SECTOR_BYTES)
    return [Estimate("page_bytes", Interval(value, value, value), 0.99, plot)]


def _slope(bench: Bench, effort: Effort) -> list[Estimate | Declined]:
    run = int(bench.number("run_bytes")) // SECTOR_BYTES
    page = int(min(bench.number("page_bytes", 2048) // SECTOR_BYTES, run))
    sizes = np.array([1, page])
    points = _samples(bench, effort, np.tile(sizes, 8), run if run < _LONG_RUN else page)
    fitted = line(points)
    intercept, slope = fitted.coefficients
    link = bench.interval("link_sector_ns")
    if link is None:
        raise UndecidedError("the rate of the link is not known")
    bus = slope - link
    if bus.value < 4 * bus.half and bus.high * page > 0.02 * intercept.value:
        raise UndecidedError("the time of a transfer cannot be told from none", repetitions=4)
    xs = [s for s in points for _ in points[s]]
    plot = Plot("sectors", "latency (ns)", {"misses": (xs, [float(y) for s in points for y in points[s]])})
    miss = location(points[float(page)])
    if bus.low <= _FREE_NS:
        # Pairs tell a bus that takes no time from one that whole pages cross whatever is wanted.
        unseen = Interval(max(0.0, bus.value), 0.0, max(bus.high, _FREE_NS))
        return [
            Declined("bus_mb_per_s", "a sector takes as long as a page: transfers take no time, or pages always cross"),
            Estimate(UNSEEN, unseen),
            Estimate("miss_page_ns", miss),
        ]
    return [
        Estimate("bus_mb_per_s", rate(bus), plot=plot),
        Estimate("bus_sector_ns", bus),
        Estimate("miss_page_ns", miss),
    ]


STEPS = Scenario(
    name="read-steps",
    finds=("page_bytes",),
    needs=("run_bytes", "read_buffer_bytes"),
    assumes="Pages of a run are read one after the other.",
    sends="a region written in order; reads of 1 to 128 sectors at starts of runs, none of them twice",
    estimator="a + b s + c ceil(s / g) for each power of two g, by the Bayesian information criterion",
    drive_writes="96 MiB, and the buffer for each pass over it",
    run=_steps,
)
SLOPE = Scenario(
    name="read-slope",
    finds=("bus_mb_per_s",),
    needs=("run_bytes", "read_buffer_bytes", "link_sector_ns"),
    assumes="Only the sectors that are wanted cross bus and link, one after the other.",
    sends="a region written in order; reads of one sector and of one page that miss the buffer",
    estimator="weighted least squares: the slope less that of the link",
    drive_writes="as read-steps",
    run=_slope,
    most_repetitions=4096,
)
