"""Block size, from updates of one place: the bytes written from one merge or collection to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ftlab.characterize.bench import KIB, MIB, Array, Bench
from ftlab.characterize.detect import Interval, location, period
from ftlab.characterize.scenario import Declined, Effort, Estimate, Plot, Scenario, UndecidedError
from ftlab.characterize.target import SECTOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

# Shares of periods that are slow at their end, and of updates where each is slow.
_MOST_PERIODS, _EVERY = 0.8, 0.99
_LEAST_PERIODS, _MOST_WRITES = 6, 1 << 17
# The paper's form: sectors of an update, for the plateau of bytes over one period.
SIZES = (1, 2, 4, 8, 16, 32)
_BLOCK_PAGES = tuple(1 << power for power in range(4, 11))
# What comes back after fewer pages is no block: classes of pages, such as the fast and slow ones of MLC.
_LEAST_PAGES = min(_BLOCK_PAGES)
# Above the median of all, a phase of a period is slow.
_SLOW = 0.15
# Programs that an update takes at least where it moves a block.
_MANY = 8
# Rounds of a phase that must be slow.
_NEARLY_ALL = 0.8
# A phase that is slow in each other round has kept its rhythm; outliers of a few rounds have not that share.
_EACH_OTHER = 0.35
# What is slow of larger updates is no less than that, as erases are.
_SAME = 0.03
# Log blocks that one place may fill before any is merged.
_MOST_LOGS = 64
# Planes of a unit that are tried, periods of a second size, and the bytes that are filled before updates.
_PLANES, _ROUNDS, _ROOM = (1, 2, 4), 8, 8 * MIB


@dataclass(frozen=True)
class Rhythm:
    """How slow requests come back.

    Attributes:
        period: Requests from one to the next.
        width: How many of a period are slow.
        ordinary: What the others take.
        slow: What the slow ones take.
    """

    period: int
    width: int
    ordinary: Interval
    slow: Interval


def rhythm(latencies: Array, candidates: tuple[int, ...]) -> Rhythm | None:
    """The period of slow requests; single slow ones, which noise makes, do not count.

    Without noise the gaps say it for any period. Otherwise latencies are folded by each candidate: medians over
    periods are slow at some phase for the right one and its multiples only.
    """
    middle = float(np.median(latencies))
    spread = 1.4826 * float(np.median(np.abs(latencies - middle)))
    slow = np.flatnonzero(latencies > middle + max(8 * spread, _SLOW * middle))
    starts = slow[np.diff(slow, prepend=-2) > 1]
    by_gaps = period(starts)
    if by_gaps is not None and by_gaps[1] == 1.0 and by_gaps[0] > 1:
        found = by_gaps[0]
        if found * _LEAST_PERIODS > latencies.size:
            return None
        width = round(slow.size / max(1, starts.size))
        return Rhythm(found, width, location(np.delete(latencies, slow)), location(latencies[slow]))
    return folded(latencies, candidates)


def folded(latencies: Array, candidates: tuple[int, ...]) -> Rhythm | None:
    """The shortest candidate for which medians over periods are slow at some phase, in nearly all periods."""
    middle = float(np.median(latencies))
    spread = 1.4826 * float(np.median(np.abs(latencies - middle)))
    for found in sorted(candidates):
        periods = latencies.size // found
        if found == 1 or periods < _LEAST_PERIODS:
            continue
        table = latencies[-periods * found :].reshape(periods, found)
        phases = np.median(table, axis=0)
        high = np.flatnonzero(phases > middle + max(6 * spread / np.sqrt(periods), _SLOW * middle))
        if not high.size or high.size > found // 2:
            continue
        # Nearly all periods must be slow there: a chance of noise is not.
        share = float(np.mean(table[:, high] > middle + _SLOW * middle / 2))
        if share < _MOST_PERIODS:
            continue
        rest = np.delete(table, high, axis=1)
        return Rhythm(found, int(high.size), location(rest.ravel()), location(table[:, high].ravel()))
    return None


def _blocks_at_once(bench: Bench) -> set[int]:
    """Blocks that may be filled together: that of one unit, or those of all, or of all their planes."""
    units = int(bench.number("units", 1.0))
    return {1, *(planes * units for planes in _PLANES)}


def candidates(bench: Bench) -> tuple[int, ...]:
    """Periods that a drive may have, in pages: blocks of a power of two, of one unit or all at once."""
    return tuple(sorted({pages * each for pages in _BLOCK_PAGES for each in _blocks_at_once(bench)}))


def updates(bench: Bench, sectors: int, writes: int, *, offset: int) -> Array:
    """Time until each update of one place is durable, after it was filled."""
    base = bench.region(_ROOM)
    bench.fill(base, _ROOM)
    return bench.durable_writes(np.full(writes, base + offset), sectors)


def halved(first: Rhythm, latency: Array) -> Interval | None:
    """What is slow about requests that are slow twice as often as in a rhythm; ``None`` where they are not.

    Requests of twice the pages fill a block in half as many, and a delay each n requests does not care. Other units
    may be slow at other times, so only phases that are slow in nearly all rounds count.
    """
    half = first.period // 2
    rounds = latency.size // half if half else 0
    if first.period % 2 or rounds < _LEAST_PERIODS:
        return None
    folded = latency[-rounds * half :].reshape(rounds, half)
    middle = float(np.median(latency))
    slow = folded > middle + (first.slow.value - first.ordinary.value) / 2
    shares = slow.mean(axis=0)
    high = shares >= _NEARLY_ALL
    if not high.any() or high.sum() > half // 2:
        return None
    if first.width > 1 and np.any((shares > _EACH_OTHER) & ~high):
        # Some of what is slow has kept its rhythm of requests, so not all of it are blocks.
        return None
    return location(folded[:, high].ravel()) - location(folded[:, ~high][~slow[:, ~high]])


def _twice(bench: Bench, first: Rhythm, page: int, offset: int) -> Interval | None:
    """What is slow about updates that write two pages where one was written; ``None`` where none halves the rhythm.

    Neighbours are on one unit where runs are long or places follow the order of writes. Otherwise a request must
    reach around all units, and around their planes, whose number nobody can see.
    """
    around = [planes * int(bench.number("units", 1.0)) + 1 for planes in _PLANES]
    for pages in (2, *(around if first.width == 1 and bench.number("run_bytes") == page * SECTOR_BYTES else ())):
        if offset + pages * page > _ROOM // SECTOR_BYTES:
            continue
        # Until all logs are full, nothing is slow.
        settle = _MOST_LOGS * first.period // first.width // pages
        latency = updates(bench, pages * page, settle + _ROUNDS * first.period, offset=offset)[settle:]
        found = halved(first, latency)
        if found is not None:
            return found
    return None


def _every_time(bench: Bench, latency: Array) -> list[Estimate | Declined] | None:
    """Whether every update moves a block."""
    program = bench.number("program_guess_ns", 0.0)
    middle = float(np.median(latency))
    apart = bench.number("run_bytes") > bench.number("page_bytes")
    slow = float(np.mean(latency > _MANY * program / 2))
    if not program or not apart or middle < _MANY * program or slow < _EVERY:
        return None
    plot = Plot("update", "time until durable (ns)", {"updates": (list(range(100)), latency[:100].tolist())})
    return [
        Estimate("translation", "block", 0.97, plot, "every update moves many pages"),
        Declined("block_bytes", "every update is as slow: there is no rhythm of blocks"),
        Declined("erase_ns", "every update moves a block: its erase cannot be told from its copies"),
    ]


def _layer(bench: Bench, block_pages: float, extra: Interval) -> str | None:
    """How updates are kept, by what the slow ones cost; ``None`` where that is not clear."""
    program = bench.number("program_guess_ns", 0.0)
    if not program:
        return None
    run, page = bench.number("run_bytes"), bench.number("page_bytes")
    # A merge of a block that was filled copies all of it.
    if run > page and extra.value > block_pages * program * 0.9:
        return "logs"
    if bench.number("units", 1.0) == 1:
        return None
    if run == page:
        return "page" if extra.value < block_pages * program / 2 else None
    # Of a log that has nothing but stale pages, merging is erasing.
    return "logs" if run == block_pages * page and extra.value < block_pages * program / 2 else None


def _check(found: Rhythm, block_pages: float, at_once: set[int]) -> None:
    """Refuse a rhythm that blocks cannot have."""
    if not block_pages.is_integer():
        raise UndecidedError("a period is no whole number of pages")
    if block_pages < _LEAST_PAGES:
        raise UndecidedError(
            f"writes are slow again after {found.period} pages: the rhythm of slow and fast pages hides that of blocks"
        )
    if found.width not in at_once:
        slow = f"{found.width} of {found.period} updates are slow"
        raise UndecidedError(f"{slow}, neither one nor one for each unit: some erases may be hidden")


def _run(bench: Bench, effort: Effort) -> Sequence[Estimate | Declined]:
    page = int(bench.number("page_bytes")) // SECTOR_BYTES
    found, latency = None, np.empty(0)
    writes = 1 << 11
    # Not at the start of a block: some layers treat updates there as the beginning of a sequence.
    offset = 3 * page
    while writes <= _MOST_WRITES * effort.span:
        latency = updates(bench, page, writes, offset=offset)
        # What is slow at first, before there is a log, must not set the rhythm.
        latency = latency[writes // 8 :]
        every = _every_time(bench, latency)
        if every is not None:
            return every
        found = rhythm(latency, candidates(bench))
        if found is not None:
            break
        writes *= 8
    if found is None:
        raise UndecidedError(f"no rhythm in {latency.size:,} updates of one place")
    value = float(found.period / found.width * page * SECTOR_BYTES)
    shown = latency[: min(latency.size, 6 * found.period)]
    x = ((np.arange(shown.size) + 1) * page).tolist()
    plot = Plot("sectors written", "time until durable (ns)", {"updates": (x, shown.tolist())})
    _check(found, value / (page * SECTOR_BYTES), _blocks_at_once(bench))
    again = _twice(bench, found, page, offset)
    if again is None:
        raise UndecidedError("updates of two pages are not slow twice as often: what is counted may be requests")
    extra = found.slow - found.ordinary
    in_turn = bench.known.get("placement") == "write_order"
    if in_turn and found.width == 1 and again.low > (1 + _SAME) * extra.high:
        # Updates go to all units in turn, so that one erase goes on beside the next updates.
        seen = f"{extra.value:,.0f} ns of updates of one page, {again.value:,.0f} ns of more"
        raise UndecidedError(f"what is slow differs ({seen}): some erases may be hidden")
    # A transfer of the write may go on beside the erase.
    beside = page * (bench.number("link_sector_ns", 0.0) + bench.number("bus_sector_ns", 0.0))
    extra = Interval.around(extra.value, extra.half + beside)
    estimates = [Estimate("block_bytes", Interval(value, value, value), 0.98, plot)]
    layer = _layer(bench, value / (page * SECTOR_BYTES), extra)
    if layer == "logs":
        estimates.append(Estimate("updates", layer))
    elif layer is not None:
        estimates.append(Estimate("translation", layer, 0.97, plot))
    return [*estimates, _erase(layer, extra, again, plot)]


def _erase(layer: str | None, extra: Interval, again: Interval, plot: Plot) -> Estimate | Declined:
    """The erase, if it is all that is slow; otherwise why not."""
    if layer == "logs":
        return Declined("erase_ns", "what is slow is a merge, which copies pages as well")
    if layer is None:
        return Declined("erase_ns", "whether what is slow is an erase or a merge is not clear")
    # Of more pages, one may wait for another besides.
    if again.high < (1 - _SAME) * extra.low:
        seen = f"{extra.value:,.0f} ns of updates of one page, {again.value:,.0f} ns of more"
        return Declined("erase_ns", f"what is slow differs ({seen}): it is not the erase alone")
    return Estimate("erase_ns", extra, plot=plot, note="one erase of a block without live pages")


SCENARIO = Scenario(
    name="updates-of-one-place",
    finds=("block_bytes", "translation", "erase_ns"),
    needs=("page_bytes", "run_bytes", "read_buffer_bytes"),
    assumes="Updates fill a log block or an open block, which is merged or collected; blocks have 2^n pages.",
    sends="8 MiB written in order; one page of them, again and again, each write with a flush; then more pages at once",
    estimator="period of slow writes, by gaps or by folding; updates of twice the size must halve it",
    drive_writes=f"up to {_MOST_WRITES * 16 * KIB // MIB} MiB",
    run=_run,
    alone={"translation": "block, page and log layers differ in whether and by how much updates are slow"},
)
