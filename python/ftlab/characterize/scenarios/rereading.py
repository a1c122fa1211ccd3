"""Size of the buffer, from how much of what was written or read last is read again at its speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ftlab.characterize.bench import FILL_BYTES, KIB, MIB, Bench
from ftlab.characterize.detect import Interval, change, location
from ftlab.characterize.scenario import Effort, Estimate, Plot, Scenario, UndecidedError
from ftlab.characterize.target import FLUSH, READ, SECTOR_BYTES, WRITE, Batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ftlab.characterize.bench import Array

_COARSE, _FINE = 64 * KIB, KIB
# Rounds that must come within a page of the answer.
_PAGE, _ROUNDS = 16 * KIB, 0.6
_MOST = 160 * MIB
# A miss takes at least this many times as long as a hit, or there is no buffer.
_SLOWER = 1.25
_SMOOTH = 5
# Sectors of a small page.
_SMALL = 8
# Pairs at each distance, the nearest distance in sectors, and shares of pairs that wait or do not.
_PAIRS, _NEAR, _SURE = 24, 2, 0.8
_WAIT, _LESS = 0.1, 0.7
# How often noise alone may look like units.
_CHANCE = 0.001
# Memory that moves one page at a time is so much faster than one unit of flash, without the fixed time.
_MEMORY = 3.0
# A flush after a write that takes this many times as long writes what a buffer held.
_DURABLE = 2


def _prepare(bench: Bench, op: int, region: int, size: int) -> None:
    if op == WRITE:
        bench.fill(region, size)
        return
    count, step = size // SECTOR_BYTES, FILL_BYTES // SECTOR_BYTES
    bench.send(Batch.of(READ, region + np.arange(0, count, step), step))
    bench.send(Batch.of(FLUSH, [0], 0))


def _backwards(bench: Bench, end: int, distances: Array) -> Array:
    """Latencies of single sectors at distances in bytes before the end, nearest first."""
    return bench.reads(end - distances // SECTOR_BYTES, 1)


def has_units(waits: dict[int, Array], alone: float) -> bool:
    """Whether reads that are near each other wait, and some that are far wait less: a memory has no such parts.

    >>> has_units({2: np.array([60.0] * 9), 4: np.array([0.0] * 9)}, 100)
    True
    """
    from scipy import stats

    near = waits[min(waits)]
    if np.mean(near > _WAIT * alone) < _SURE:
        return False
    # Units of one channel wait for its transfers, if whole pages cross it.
    less = _LESS * float(np.median(near))
    # Under noise, the least of many medians is small by chance: the distances share one error.
    chance = _CHANCE / len(waits)
    return any(
        float(np.median(each)) < less and float(stats.mannwhitneyu(each, near, alternative="less").pvalue) < chance
        for each in waits.values()
    )


def _from_flash(bench: Bench, end: int, size: int) -> bool | None:
    """Whether reads of the bytes before `end` come from flash; `None` where all of them wait, as one unit's do."""
    sectors = size // SECTOR_BYTES
    newest = end - 1
    step = min(128, max(1, sectors // _PAIRS))
    alone = location(bench.reads(newest - np.arange(_PAIRS) * step, 1)).value
    waits = {}
    distance = _NEAR
    while distance <= sectors // 4:
        # Close to the end: what was touched last is what a buffer would have.
        first = newest - 1 - distance - np.arange(_PAIRS) * 2 * max(distance, step // 2) % (sectors // 2)
        first -= first % (2 * _NEAR)
        waits[distance] = bench.together(first, first + distance, (1, 1))[1] - alone
        if has_units(waits, alone):
            return True
        distance *= 2
    shares = [float(np.mean(each > _WAIT * alone)) for each in waits.values()]
    return None if shares and min(shares) >= _SURE else False


def _is_flash(bench: Bench, end: int, held: int, levels: tuple[float, float]) -> bool:
    """Whether what is faster is flash all the same: of fast pages, or of which the mapping is at hand.

    Raises:
        UndecidedError: That is not clear.
    """
    flash = _from_flash(bench, end, held)
    host = bench.number("host_overhead_ns", 0.0)
    hit, miss = (max(1.0, level - host) for level in levels)
    if flash is None and miss < _MEMORY * hit:
        raise UndecidedError("reads of what is faster wait for each other: one unit of flash, or a slow memory")
    return bool(flash)


def _none(bench: Bench, effort: Effort, op: int, region: int, estimate: Estimate) -> list[Estimate]:
    """There is no buffer, unless a page is kept, or a flush after a write says that something has kept the data."""
    if _keeps_the_last(bench, op, region, effort.repetitions):
        raise UndecidedError(f"{estimate.note}, but what was used just before is read faster: there is a small memory")
    if op == WRITE and _held(bench, region, effort.repetitions):
        raise UndecidedError(f"{estimate.note}, but a flush after a write says that a buffer held it")
    return [estimate]


def _keeps_the_last(bench: Bench, op: int, region: int, count: int) -> bool:
    """Whether a sector is read faster right after it was written or read than after another one was.

    Its neighbour is read before: where the mapping is fetched for a read, it is at hand for both.
    """
    step = _COARSE // SECTOR_BYTES
    near = region + (2 * np.arange(count) + 1) * step
    other = near + step // 2
    order = np.column_stack([near, other, near, near] if op == READ else [near, near, other, near]).ravel()
    # A page of 4 KiB, for which nothing is read.
    ops = np.tile([op if op == READ else WRITE, READ, READ, READ], count)
    sectors = np.tile([1 if op == READ else _SMALL, 1, 1, 1], count)
    latency = bench.send(Batch.of(ops, order, sectors, gap_ns=bench.idle_ns(READ, near))).latency_ns
    again, after_other = (3, 2) if op == READ else (1, 3)
    return float(np.median(latency[after_other::4])) > _SLOWER * float(np.median(latency[again::4]))


def _held(bench: Bench, region: int, count: int) -> bool:
    """Whether a flush after a write takes long: then something has kept the data."""
    host = bench.number("host_overhead_ns", 0.0)
    lba = np.column_stack([region + np.arange(count) * 128, np.zeros(count, dtype=np.int64)]).ravel()
    latency = bench.send(Batch.of(np.tile([WRITE, FLUSH], count), lba, np.tile([32, 0], count))).latency_ns
    write, flush = (float(np.median(latency[side::2])) - host for side in (0, 1))
    return flush > write / _DURABLE


def _boundary(latencies: Array) -> tuple[int, float, float]:
    """The first miss, and the levels of hits and misses."""
    # A hit may take no time at all, and a level of 0 limits nothing.
    limit = 4 * float(np.median(latencies)) or np.inf
    at = change(np.minimum(latencies, limit))
    return at, float(np.median(latencies[:at])), float(np.median(latencies[at:]))


def _measure(bench: Bench, effort: Effort, op: int, name: str) -> list[Estimate]:
    from scipy import ndimage

    # Where a quarter of the drive does not tell, all of it does.
    most = bench.capacity_bytes if effort.span > 1 else bench.capacity_bytes // 4
    size = int(min(most, _MOST * effort.span)) // FILL_BYTES * FILL_BYTES
    whole = size + FILL_BYTES > bench.capacity_bytes
    region = bench.region(size)
    end = region + size // SECTOR_BYTES
    if op == READ:
        bench.fill(region, size)
        bench.fill(bench.region(size), size)
    _prepare(bench, op, region, size)
    distances = np.arange(_COARSE, size + 1, _COARSE)
    coarse = _backwards(bench, end, distances)
    at, hit, miss = _boundary(ndimage.median_filter(coarse, size=_SMOOTH, mode="nearest"))
    plot = Plot("bytes before the newest", "latency (ns)", {"reread": (distances.tolist(), coarse.tolist())})
    if miss <= _SLOWER * hit:
        alike = f"the newest and the oldest of {size // MIB} MiB take as long"
        note = f"{alike}, and reads wait for units of flash: none comes from memory"
        if whole:
            note = f"{alike}, which is the whole drive: no memory holds that"
        elif not _from_flash(bench, end, size):
            more = bench.capacity_bytes / size * max(1.0, size / _MOST)
            raise UndecidedError(f"{alike}: all may come from memory, or none", span=more)
        return _none(bench, effort, op, region, Estimate(name, Interval(0, 0, 0), 0.99, plot, note))
    if at >= distances.size - _SMOOTH:
        raise UndecidedError(f"all of {size // MIB} MiB is in the buffer", span=2)
    middle = int(distances[at])
    _prepare(bench, op, region, size)
    if _is_flash(bench, end, max(_COARSE, middle), (hit, miss)):
        note = "what is faster waits for units of flash: pages of other classes, or a cache of the mapping"
        return _none(bench, effort, op, region, Estimate(name, Interval(0, 0, 0), 0.99, plot, note))
    fine = np.arange(max(_FINE, middle - 4 * _COARSE), min(size, middle + 4 * _COARSE) + 1, _FINE)
    rounds = []
    for _ in range(max(3, effort.repetitions // 3)):
        _prepare(bench, op, region, size)
        rounds.append(_backwards(bench, end, fine))
    limit = float(np.sqrt(hit * miss))
    held = np.array([_last_hit(fine, _without_outliers(each, hit, limit), limit) for each in rounds])
    # What leaves as a page may leave more room than was needed: the most that was held is what there is.
    value = int(held.max())
    note = "" if value % (2 * KIB) == 0 else "no whole number of pages"
    near = float(np.mean(held >= value - _PAGE))
    sure = near >= _ROUNDS and not note
    return [Estimate(name, Interval(value, value, value), 0.97 if sure else min(near, 0.9), plot, note)]


def _without_outliers(latencies: Array, hit: float, limit: float) -> Array:
    """Single slow reads between fast ones are no misses."""
    slow = latencies > limit
    alone = slow & ~np.roll(slow, 1) & ~np.roll(slow, -1)
    return np.where(alone, hit, latencies)


def _last_hit(distances: Array, latencies: Array, limit: float) -> int:
    slow = latencies > limit
    # Of a page that was missed, the other sectors may have come with the first.
    first = int(np.argmax(slow)) if slow.any() else slow.size
    return int(distances[first - 1]) if first else 0


def _of(op: int, name: str) -> Callable[[Bench, Effort], list[Estimate]]:
    def run(bench: Bench, effort: Effort) -> list[Estimate]:
        return _measure(bench, effort, op, name)

    return run


_ALONE = "the order in which data leave is not known: a second way would assume the same"
WRITTEN = Scenario(
    name="rereading-written",
    finds=("buffer_bytes",),
    needs=(),
    assumes="The buffer keeps what was written last, and a read from it is faster than one from flash.",
    sends="a region written in order; single sectors of it, the newest first, in steps of 64 KiB, then of 1 KiB",
    estimator="the split between two means, then the last fast read of the median over repetitions",
    drive_writes="up to 960 MiB",
    run=_of(WRITE, "buffer_bytes"),
    alone={"buffer_bytes": _ALONE},
)
READ_AGAIN = Scenario(
    name="rereading-read",
    finds=("read_buffer_bytes",),
    needs=(),
    assumes="The buffer keeps what was read last, and a read from it is faster than one from flash.",
    sends="a region read in order; single sectors of it, the newest first, in steps of 64 KiB, then of 1 KiB",
    estimator="as rereading-written",
    drive_writes="up to 320 MiB",
    run=_of(READ, "read_buffer_bytes"),
    alone={"read_buffer_bytes": _ALONE},
)
