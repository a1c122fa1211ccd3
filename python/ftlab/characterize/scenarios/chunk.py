"""Consecutive bytes on one unit, from pairs of reads at a distance."""

from __future__ import annotations

import numpy as np

from ftlab.characterize.bench import MIB, Bench
from ftlab.characterize.detect import Interval, location
from ftlab.characterize.scenario import Effort, Estimate, Plot, Scenario, UndecidedError
from ftlab.characterize.target import SECTOR_BYTES

_REFERENCE, _LARGEST = 2, 16 * MIB // SECTOR_BYTES
_MOST, _REGION = 24, 96 * MIB
_SURE = 0.8
# Reads of one unit wait for as long, wherever they are.
_ALIKE = 0.9
# A wait for a unit must be longer than what a sector takes on its way to the host: all reads wait for that.
_WAY = 0.8


def _share(
    bench: Bench, region: int, size: int, distance: int, alone: float, waits: tuple[float, float]
) -> tuple[float, float]:
    """Which share of pairs at a distance wait for each other, and the median wait, of the longest and the shortest."""
    places = size // SECTOR_BYTES // (2 * distance)
    # One pair says nothing.
    if places <= 1:
        return 1.0, waits[0]
    count = min(_MOST, places)
    # Spread over the region, at multiples of twice the distance.
    first = region + (np.arange(count) * places // count) * 2 * distance
    bench.scrub()
    _, second = bench.together(first, first + distance, (1, 1))
    waited = second - alone
    return float(np.mean(waited > sum(waits) / 2)), float(np.median(waited))


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    size = min(int(_REGION * effort.span), bench.capacity_bytes // 2)
    region = bench.region(size)
    bench.fill(region, size)
    bench.scrub()
    spots = region + (np.arange(4 * effort.repetitions) * 128 + 64) % (size // SECTOR_BYTES)
    alone = location(bench.reads(spots, 1)).value
    bench.scrub()
    # What a second sector of the same page takes on its way.
    way = max(0.0, location(bench.reads(spots, 2)).value - alone)
    bench.scrub()
    near = region + np.arange(effort.repetitions) * 256 % (size // SECTOR_BYTES - _REFERENCE)
    _, second = bench.together(near, near + _REFERENCE, (1, 1))
    wait = float(np.median(second)) - alone
    if wait < 0.1 * alone:
        raise UndecidedError("two reads of one page do not wait for each other")
    if way > _WAY * wait:
        took = f"a sector takes {way:,.0f} ns over link and bus, and a read of one page waits {wait:,.0f} ns for one"
        raise UndecidedError(f"{took}: waits for a unit do not show")
    distances, shares, waits = [], [], []
    distance = 2 * _REFERENCE
    while distance <= _LARGEST:
        share, middle = _share(bench, region, size, distance, alone, (wait, way))
        distances.append(distance * SECTOR_BYTES)
        shares.append(share)
        waits.append(middle)
        if share < 1 - _SURE:
            break
        if share < _SURE:
            raise UndecidedError("runs have no length that is a power of two", repetitions=4)
        distance *= 2
    else:
        only_flash(bench)
        if min(waits) < _ALIKE * wait:
            raise UndecidedError("reads far apart wait less than those of a page: units share a channel", repetitions=4)
        return _one_unit(distances, waits)
    plot = Plot("distance (bytes)", "wait of the second (ns)", {"pairs": (distances, waits)})
    value = float(distances[-1])
    return [Estimate("run_bytes", Interval(value, value, value), 0.99, plot)]


def only_flash(bench: Bench) -> None:
    """Make sure that pairs were read from flash, where all of them wait.

    Raises:
        UndecidedError: They may have come from a buffer that nothing has shown.
    """
    if bench.interval("read_buffer_bytes") is None or bench.interval("buffer_bytes") is None:
        raise UndecidedError("all reads wait for each other: one unit, or reads from memory")


def _one_unit(distances: list[int], waits: list[float]) -> list[Estimate]:
    """All pairs wait for each other, however far apart they are: so do reads of a memory."""
    plot = Plot("distance (bytes)", "wait of the second (ns)", {"pairs": (distances, waits)})
    one, all_of_it = Interval(1, 1, 1), float(distances[-1])
    return [
        Estimate("run_bytes", Interval(all_of_it, all_of_it, all_of_it), 0.99, plot),
        Estimate("units", one, 0.97, plot),
        *(Estimate(name, one, 0.97, plot) for name in ("channels", "ways")),
    ]


SCENARIO = Scenario(
    name="runs",
    finds=("chunk_bytes", "channels", "ways"),
    needs=("read_buffer_bytes",),
    assumes="Runs begin at multiples of their length, which is a power of two; reads of one unit wait for each other.",
    sends="a region written in order; pairs of single sectors at one instant, at distances from 2 KiB on",
    estimator="the smallest distance at which no pair waits",
    drive_writes="96 MiB, and the buffer once for each distance",
    run=_run,
)
