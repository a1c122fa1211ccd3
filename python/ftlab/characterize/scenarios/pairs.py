"""Channels, ways, read and transfer time, from pairs of reads at one instant."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab.characterize.bench import FILL_BYTES, MIB, Bench
from ftlab.characterize.detect import BIC_MARGIN, Fit, Interval, fit, location
from ftlab.characterize.scenario import Declined, Effort, Estimate, Plot, Scenario, UndecidedError
from ftlab.characterize.scenarios.chunk import only_flash
from ftlab.characterize.scenarios.read_sizes import UNSEEN
from ftlab.characterize.scenarios.trimmed_reads import rate
from ftlab.characterize.target import SECTOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ftlab.characterize.bench import Array

# Distances below which no period could be seen twice; the residual up to which two periods explain the waits.
_LEAST_DISTANCES, _EXPLAINED = 8, 3
# Two periods of the largest number of units that can be told.
_DISTANCES, _REGION = 136, 96 * MIB
_BATCHES = 4
# A class waits longer than the one below by this many halves of its interval, and by this share of a read alone.
_LINK = 0.4
_CLEAR, _LEAST = 3.0, 0.005
# Who waits for a unit waits for all of its read; less than this share of a read alone is none.
_PART = 0.5
# A transfer over the link that is as long hides one over the bus; a wait beside the link is none up to this share.
_HIDES, _SAME = 1.02, 0.01
# Whether whole pages cross the bus, whatever is wanted of them.
WHOLE = "whole_pages"
# Array and transfer of a page of one unit, which nothing tells apart.
TOGETHER = "read_and_transfer_ns"


@dataclass(frozen=True)
class Pairs:
    """Waits of the second read of pairs.

    Attributes:
        distances: Distances, in runs.
        waits: How much later the later one ended than one alone, for each distance.
        alone: A read alone.
        sectors: Sectors of the first and of the second.
    """

    distances: Array
    waits: list[Interval]
    alone: Interval
    sectors: tuple[int, int]


def _places(
    bench: Bench, run: int, places: int, distances: Array, count: int, inner: int
) -> tuple[Array, Array, Array]:
    """First and second sector of pairs of which no page is used twice, and their distances."""
    used: set[tuple[int, int]] = set()
    first, second, kept = [], [], []
    offsets = max(1, run // inner)
    for distance in np.tile(distances, count).tolist():
        for _ in range(20):
            base, one, two = (int(bench.random.integers(high)) for high in (places - distance, offsets, offsets))
            if (base, one) not in used and (base + distance, two) not in used:
                used |= {(base, one), (base + distance, two)}
                first.append(base * run + one * inner)
                second.append((base + distance) * run + two * inner)
                kept.append(distance)
                break
    return np.array(first), np.array(second), np.array(kept)


def measure(bench: Bench, effort: Effort, *, equal: bool) -> Pairs:
    """Send pairs over all distances, in a region that was written in order."""
    run = int(bench.number("run_bytes"))
    page = int(min(bench.number("page_bytes", 2048), run))
    if bench.number("units", 0.0) == 1:
        run = page
    size = int(min(bench.capacity_bytes // 8 * 7, max(_REGION, run * (_DISTANCES + 40)))) // FILL_BYTES * FILL_BYTES
    region = bench.region(size)
    bench.fill(region, size)
    bench.scrub()
    sectors = page // SECTOR_BYTES
    link = bench.number("link_sector_ns", 0.0)
    if link:
        # A transfer over the link must not hide that a unit was waited for.
        sample = float(
            np.median(bench.reads(region + bench.random.permutation(size // SECTOR_BYTES // sectors)[:15] * sectors, 1))
        )
        sectors = max(1, min(sectors, int(_LINK * (sample - bench.number("host_overhead_ns", 0.0)) / link)))
        bench.scrub()
    if not equal and bench.interval("bus_sector_ns") is None:
        # Whether whole pages cross, the shortest reads say: what the link takes for them hides nothing.
        sectors = 1
    lengths = (sectors, sectors if equal else 1)
    places = size // run
    farthest = int(min(_DISTANCES, places * 2 // 3))
    if farthest < _LEAST_DISTANCES:
        raise UndecidedError(f"needs {_LEAST_DISTANCES * run * 3 // 2 // MIB} MiB for pairs of runs of {run} bytes")
    step = run // SECTOR_BYTES
    distances = np.arange(1, farthest + 1)
    inner = page // SECTOR_BYTES
    samples: dict[int, list[Array]] = {int(distance): [] for distance in distances}
    singles = []
    # Between batches the buffer is emptied, so that no page is read from there.
    for _ in range(_BATCHES):
        count = max(1, -(-effort.repetitions // (2 * _BATCHES)))
        first, second, kept = _places(bench, step, places, distances, count, inner)
        bench.scrub()
        one, two = bench.together(region + first, region + second, lengths)
        for distance in distances:
            chosen = kept == distance
            samples[int(distance)].append(np.column_stack([one[chosen], two[chosen]]))
        bench.scrub()
        rest = region + bench.random.permutation(places * max(1, step // inner))[: 4 * effort.repetitions] * inner
        singles.append(bench.reads(rest, lengths[1]))
    if any(not sum(map(len, taken)) for taken in samples.values()):
        raise UndecidedError("the region has no room for pairs at all distances of which no page is read twice")
    alone = location(np.concatenate(singles))
    waits = []
    for distance in distances:
        both = np.concatenate(samples[int(distance)])
        ends = [location(both[:, column]) for column in ((0, 1) if equal else (1,))]
        # Of each request for itself: the mean of the later one of two noisy ends is too late.
        waits.append(max(ends, key=lambda end: end.value) - alone)
    return Pairs(distances, waits, alone, lengths)


def _pooled(pairs: Pairs) -> list[Interval]:
    """Waits with errors that are a share of the latency: those of single distances are too uncertain."""
    ends = np.array([wait.value + pairs.alone.value for wait in pairs.waits])
    if ends.min() <= 0:
        raise UndecidedError("reads take no time: they come from memory")
    share = float(np.median([wait.half for wait in pairs.waits] / ends))
    return [Interval.around(wait.value, share * end) for wait, end in zip(pairs.waits, ends, strict=True)]


def periods(pairs: Pairs) -> tuple[int, int, Fit, float]:
    """Channels and units by the periods that explain the waits best; one that is equal to the other is not seen.

    Returns:
        The period of the middle class, that of the upper class (0: there is none), the fit, and the margin to the next.
    """
    j = pairs.distances
    points = _pooled(pairs)
    ones = np.ones(j.size)
    designs: dict[Any, Array] = {(0, 0): np.column_stack([ones])}
    for units in range(2, int(j[-1]) // 2 + 1):
        upper = (j % units == 0).astype(float)
        designs[units, units] = np.column_stack([ones, upper])
        for channels in range(2, units // 2 + 1):
            if units % channels == 0:
                middle = (j % channels == 0).astype(float)
                designs[channels, units] = np.column_stack([ones, middle, upper])
    fits = {key: fit(design, points) for key, design in designs.items()}
    # Classes wait longer, in this order: anything else is no drive.
    sound = {
        key: found
        for key, found in fits.items()
        if all(each.value > max(_CLEAR * each.half, _LEAST * pairs.alone.value) for each in found.coefficients[1:])
    }
    order = sorted(sound, key=lambda key: sound[key].bic)
    best = order[0]
    scale = max(1.0, sound[best].residual ** 2)
    margin = (sound[order[1]].bic - sound[best].bic) / scale if len(order) > 1 else math.inf
    return best[0], best[1], sound[best], margin


def _plot(pairs: Pairs) -> Plot:
    ys = [wait.value + pairs.alone.value for wait in pairs.waits]
    return Plot("distance (runs)", "latency of the later read (ns)", {"pairs": (pairs.distances.tolist(), ys)})


@dataclass(frozen=True)
class _Levels:
    """What the second read of a pair waits on other channels, on one channel, and on one unit."""

    other: float
    channel: float
    unit: float


def _expected(bench: Bench, pairs: Pairs, read: float, transfer: float) -> _Levels:
    """Waits by what is known of transfers.

    Args:
        bench: The bench.
        pairs: The pairs.
        read: Time of the array.
        transfer: Time of the bus for a sector.
    """
    first, second = pairs.sectors
    link = bench.number("link_sector_ns", 0.0)
    bus = transfer * _crossing(bench, first)
    if first == second:
        other = link * first
        return _Levels(other, max(bus, other), bus + read)
    behind = max(0.0, link * first - transfer * second)
    # Without a transfer on the bus both are ready at once, and the first goes first.
    other = link * first if not transfer else 0.0
    return _Levels(other, bus + behind, bus + read)


def _run(bench: Bench, effort: Effort, *, equal: bool) -> Sequence[Estimate | Declined]:
    pairs = measure(bench, effort, equal=equal)
    channels, units, found, margin = periods(pairs)
    plot = _plot(pairs)
    if margin < BIC_MARGIN:
        raise UndecidedError("no period of the waits is clearly better than the next", repetitions=3)
    if found.residual > _EXPLAINED:
        raise UndecidedError("waits do not have two periods: pages are not placed in turn, channels first")
    bus, unseen = bench.interval("bus_sector_ns"), bench.interval(UNSEEN)
    if bus is not None:
        if channels != units:
            return _three(bench, pairs, found, channels, units, plot)
        return _two(bench, pairs, found, units, bus, plot)
    if unseen is None or equal:
        raise UndecidedError("the time of a transfer is not known")
    return _unseen(bench, found, (channels, units), unseen, plot)


def _unseen(
    bench: Bench, found: Fit, periods_found: tuple[int, int], unseen: Interval, plot: Plot
) -> list[Estimate | Declined]:
    """Pairs of single sectors, where reads of a page take as long: a bus that whole pages cross makes others wait."""
    channels, units = periods_found
    page = int(bench.number("page_bytes")) // SECTOR_BYTES
    link = bench.interval("link_sector_ns") or _exact(0.0)
    base, rises = found.coefficients[0], found.coefficients[1:]
    if not units:
        only_flash(bench)
        reason = "one unit: its reads wait for each other's array and transfer, which nothing tells apart"
        return [
            Estimate("units", _exact(1), 0.99, plot),
            *_words(1, 1, plot),
            # For a model, which does not care what of both it is.
            Estimate(TOGETHER, base),
            *(Declined(name, reason) for name in ("read_ns", "bus_mb_per_s")),
        ]
    total = base
    for rise in rises:
        total += rise
    words: list[Estimate | Declined] = [Estimate("units", _exact(units), 0.99, plot), *_wait(total, 1)]
    # What reads of one channel wait for beside the link, with a class of their own or where all share a channel.
    shared = base + rises[0] if channels != units else base
    beyond = shared - link
    if beyond.low > max(unseen.high, _LEAST * total.value):
        ways = units // channels if channels != units else units
        words += _words(channels if channels != units else 1, ways, plot)
        if shared.value <= link.value * _HIDES:
            return words
        words += _wait(total, page)
        return [
            *words,
            Estimate("read_ns", rises[-1], plot=plot),
            Estimate("bus_mb_per_s", rate(shared * (1 / page)), plot=plot, note="whole pages cross the bus"),
            Estimate("bus_sector_ns", shared * (1 / page)),
            Estimate(WHOLE, "yes"),
        ]
    if channels != units or beyond.high > unseen.high + _SAME * total.value:
        raise UndecidedError("whether reads wait for a channel is not clear", repetitions=3)
    # Units that each have a channel of their own would look the same if whole pages crossed it.
    note = f"no read waits for a channel: transfers take no time, unless each of the {units} units has its own"
    words += [
        Estimate("read_ns", total - unseen, plot=plot, note=note),
        Estimate("bus_sector_ns", unseen),
        Declined("channels", f"{note}; the {units} units may be any channels and ways"),
        Declined("ways", f"{note}; the {units} units may be any channels and ways"),
    ]
    if not rate(unseen).value:
        return [*words, Estimate("bus_mb_per_s", _exact(0.0), plot=plot, note=note)]
    return [*words, Declined("bus_mb_per_s", f"{note}, or less than {unseen.high:,.0f} ns a sector")]


def _three(bench: Bench, pairs: Pairs, found: Fit, channels: int, units: int, plot: Plot) -> list[Estimate]:
    """All classes are there: every value follows."""
    first, second = pairs.sectors
    crossing = _crossing(bench, first)
    base, middle, upper = found.coefficients
    link = bench.number("link_sector_ns", 0.0)
    estimates = [
        Estimate("channels", _exact(channels), 0.99, plot),
        Estimate("ways", _exact(units // channels), 0.99, plot),
    ]
    if first == second:
        # Equal reads of one channel end as late as the slower of bus and link lets them.
        transfer = middle + base
        if transfer.value <= link * first * _HIDES:
            return estimates
        read = upper
    else:
        transfer, read = middle + base, upper
        known, bus = bench.interval("link_sector_ns"), bench.interval("bus_sector_ns")
        if known is not None and bus is not None and link * first > bus.value * second:
            overlap = known * first - bus * second
            transfer, read = transfer - overlap, read + overlap
    estimates.append(Estimate("read_ns", read, plot=plot))
    estimates.append(Estimate("bus_mb_per_s", rate(transfer * (1 / crossing)), plot=plot))
    if first != second:
        estimates += _wait(base + middle + upper, crossing)
        estimates.append(Estimate("units", _exact(units), 0.99))
    return estimates


def _two(bench: Bench, pairs: Pairs, found: Fit, units: int, bus: Interval, plot: Plot) -> list[Estimate]:
    """One class is missing: which one, the known time of a transfer says."""
    base, first = found.coefficients[0], _crossing(bench, pairs.sectors[0])
    total = base + found.coefficients[1] if units else base
    read = total - bus * first
    levels = _expected(bench, pairs, read.value, bus.value)
    estimates = [Estimate("read_ns", read, plot=plot)]
    if pairs.sectors[1] == 1:
        estimates += _wait(total, first)
    if not units:
        only_flash(bench)
        return [Estimate("units", _exact(1), 0.99, plot), *estimates, *_words(1, 1, plot)]
    host, link = bench.interval("host_overhead_ns"), bench.interval("link_sector_ns")
    if host is not None and link is not None:
        array = pairs.alone - host - (link + bus) * pairs.sectors[1]
        if read.high < _PART * array.low:
            raise UndecidedError("reads wait for a channel and never for a unit: pairs are nearer than units come back")
    estimates.append(Estimate("units", _exact(units), 0.99, plot))
    if bus.low <= 0:
        return estimates
    apart = abs(levels.channel - levels.other)
    if apart < 4 * max(base.half, bus.half * first, 1.0):
        return estimates
    if abs(base.value - levels.other) < apart / 4:
        return [*estimates, *_words(units, 1, plot)]
    if abs(base.value - levels.channel) < apart / 4:
        return [*estimates, *_words(1, units, plot)]
    return estimates


def _wait(value: Interval, sectors: int) -> list[Estimate]:
    """What a read waits for one of some sectors on its unit: they may be fewer than a page has."""
    return [Estimate("wait_unit_ns", value), Estimate("wait_unit_sectors", _exact(sectors))]


def _crossing(bench: Bench, sectors: int) -> int:
    """Sectors that cross the bus where a number of them is wanted."""
    return sectors if bench.known.get(WHOLE) != "yes" else int(bench.number("page_bytes")) // SECTOR_BYTES


def _exact(value: float) -> Interval:
    return Interval(value, value, value)


def _words(channels: int, ways: int, plot: Plot) -> list[Estimate]:
    return [Estimate("channels", _exact(channels), 0.97, plot), Estimate("ways", _exact(ways), 0.97, plot)]


def _of(*, equal: bool) -> Callable[[Bench, Effort], Sequence[Estimate | Declined]]:
    def run(bench: Bench, effort: Effort) -> Sequence[Estimate | Declined]:
        return _run(bench, effort, equal=equal)

    return run


_FINDS = ("channels", "ways", "read_ns", "bus_mb_per_s")
_ASSUMES = (
    "Runs go to channels in turn, then to units of a channel; reads of one unit and transfers of one channel wait."
)
UNEQUAL = Scenario(
    name="pairs-page-and-sector",
    finds=_FINDS,
    needs=("run_bytes",),
    assumes=_ASSUMES,
    sends="a region written in order; at one instant a read of a page and one of a sector, 1 to 136 runs apart",
    estimator="two periods by the Bayesian information criterion; levels by weighted least squares",
    drive_writes="96 MiB to the whole drive, and the buffer eight times",
    run=_of(equal=False),
    effort=Effort(repetitions=32),
)
EQUAL = replace(
    UNEQUAL,
    name="pairs-of-pages",
    sends="a region written in order; two reads of a page at one instant, 1 to 136 runs apart",
    estimator=f"as {UNEQUAL.name}",
    drive_writes=f"as {UNEQUAL.name}",
    run=_of(equal=True),
)
