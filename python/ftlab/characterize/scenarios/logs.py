"""Log blocks, from how many blocks can be updated in turn without a merge at every write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ftlab.characterize.bench import MIB, Bench
from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.target import SECTOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS, _PAGE, _MOST_BLOCKS = 4, 3, 512
# Less than the share that one block has.
_ONE = 0.75
# Blocks of one plane that can be updated without a merge; planes of a unit, as far as such blocks show them.
LOGS_OF_PLANE, PLANES_OF_UNIT, MOST_PLANES = "logs_of_plane", "planes_of_unit", 4


def _cost(bench: Bench, blocks: int, run: int, page: int, step: int = 1) -> float:
    """What the slowest block takes, of some that are updated in turn, each a number of blocks behind the last."""
    base = bench.region(blocks * step * run * SECTOR_BYTES)
    if step == 1:
        bench.fill(base, blocks * run * SECTOR_BYTES)
    else:
        for block in range(blocks):
            bench.fill(base + block * step * run, run * SECTOR_BYTES)
    places = np.tile(base + np.arange(blocks) * step * run + _PAGE * page, _ROUNDS)
    latency = bench.durable_writes(places, page)
    # Where one plane has no room for all, only its own blocks merge.
    return float(np.quantile(latency[2 * blocks :], 1 - _ONE / blocks))


def _most_without(merges: Callable[[int], bool], most: int) -> tuple[int, bool]:
    """How many blocks are updated in turn without merges, by bisection; and whether more of them have some."""
    high = 2
    while high <= most and not merges(high):
        high *= 2
    if high > most:
        return high // 2, False
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if merges(middle) else (middle, high)
    return low, True


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    if bench.known.get("translation") != "bast":
        raise NotApplicableError("updates are not kept in log blocks of one block each")
    run, page = (int(bench.number(name)) // SECTOR_BYTES for name in ("block_bytes", "page_bytes"))
    blocks = bench.capacity_bytes // (run * SECTOR_BYTES)
    most = min(_MOST_BLOCKS, int(blocks // 2))
    limit = 4 * bench.number("program_guess_ns", 0.0) or 8 * _cost(bench, 1, run, page)
    costs: dict[int, float] = {}

    def merges(count: int) -> bool:
        costs[count] = _cost(bench, count, run, page)
        return costs[count] > limit

    low, ended = _most_without(merges, most)
    if not ended:
        raise UndecidedError(
            f"more than {low}: no more were tried, {4 * low * run * SECTOR_BYTES // MIB} MiB are needed"
        )
    # The answer again, from both sides.
    sure = [merges(low + 1) and not merges(low) for _ in range(max(2, effort.repetitions // 8))]
    xs = sorted(costs)
    plot = Plot("blocks updated in turn", "time until durable (ns)", {"updates": (xs, [costs[x] for x in xs])})
    value = float(low)
    spare = _spare(bench, low, blocks, lambda count, step: _cost(bench, count, run, page, step) > limit)
    room = {each.parameter: each.value.value for each in spare if isinstance(each.value, Interval)}
    all_planes = room.get(PLANES_OF_UNIT, 1.0) * bench.number("units", 1.0)
    # Where planes are full first, nothing is seen of the number of logs.
    full = room[LOGS_OF_PLANE] < low and room[LOGS_OF_PLANE] * all_planes <= low
    confidence = 0.0 if full else float(np.mean(sure))
    note = "planes have no room for more log blocks" if full else ""
    return [Estimate("log_blocks", Interval(value, value, value), confidence, plot, note), *spare]


def _spare(bench: Bench, logs: int, blocks: int, merges: Callable[[int, int], bool]) -> list[Estimate]:
    """How many log blocks one plane has room for, and the planes of a unit where it has less than all of them."""
    units = int(bench.number("units", 1.0))

    def held(step: int) -> tuple[int, bool]:
        most = min(logs, blocks // step - 1)
        return _most_without(lambda count: merges(count, step), most) if most > 1 else (logs, False)

    (plane, few), (unit, fewer) = held(MOST_PLANES * units), held(units)
    if few and fewer and unit % plane == 0 and unit // plane in {1, 2, MOST_PLANES}:
        return [
            Estimate(LOGS_OF_PLANE, Interval(plane, plane, plane), 0.97),
            Estimate(PLANES_OF_UNIT, Interval(unit // plane, unit // plane, unit // plane), 0.97),
        ]
    room = float(unit if fewer else logs)
    return [Estimate(LOGS_OF_PLANE, Interval(room, room, room), 0.97)]


SCENARIO = Scenario(
    name="blocks-in-turn",
    finds=("log_blocks",),
    needs=("block_bytes", "page_bytes", "translation"),
    assumes="Each block that is updated has a log block of its own, and there is one pool of them.",
    sends="one page of each of m blocks that were filled, four rounds, for m found by bisection",
    estimator="the smallest m at which a block merges in each round, less one",
    drive_writes="a few times half of the drive at most",
    run=_run,
    alone={"log_blocks": "the answer was measured again from both sides"},
)
