"""Log blocks, from how many blocks can be updated in turn without a merge at every write."""

from __future__ import annotations

import numpy as np

from ftlab.characterize.bench import MIB, Bench
from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.target import SECTOR_BYTES

_ROUNDS, _PAGE, _MOST_BLOCKS = 4, 3, 512


def _cost(bench: Bench, blocks: int, run: int, page: int) -> float:
    """The median of the last rounds of updates of some blocks in turn."""
    base = bench.region(blocks * run * SECTOR_BYTES)
    bench.fill(base, blocks * run * SECTOR_BYTES)
    places = np.tile(base + np.arange(blocks) * run + _PAGE * page, _ROUNDS)
    latency = bench.durable_writes(places, page)
    return float(np.median(latency[2 * blocks :]))


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    if bench.known.get("translation") != "bast":
        raise NotApplicableError("updates are not kept in log blocks of one block each")
    run, page = (int(bench.number(name)) // SECTOR_BYTES for name in ("block_bytes", "page_bytes"))
    most = min(_MOST_BLOCKS, int(bench.capacity_bytes // 2 // (run * SECTOR_BYTES)))
    limit = 4 * bench.number("program_guess_ns", 0.0) or 8 * _cost(bench, 1, run, page)
    costs: dict[int, float] = {}

    def merges(blocks: int) -> bool:
        costs[blocks] = _cost(bench, blocks, run, page)
        return costs[blocks] > limit

    high = 2
    while high <= most and not merges(high):
        high *= 2
    if high > most:
        raise UndecidedError(
            f"more than {high // 2}: no more were tried, {2 * high * run * SECTOR_BYTES // MIB} MiB are needed"
        )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if merges(middle) else (middle, high)
    # The answer again, from both sides.
    sure = [merges(high) and not merges(low) for _ in range(max(2, effort.repetitions // 8))]
    xs = sorted(costs)
    plot = Plot("blocks updated in turn", "time until durable (ns)", {"updates": (xs, [costs[x] for x in xs])})
    value = float(low)
    return [Estimate("log_blocks", Interval(value, value, value), float(np.mean(sure)), plot)]


SCENARIO = Scenario(
    name="blocks-in-turn",
    finds=("log_blocks",),
    needs=("block_bytes", "page_bytes", "translation"),
    assumes="Each block that is updated has a log block of its own, and there is one pool of them.",
    sends="one page of each of m blocks that were filled, four rounds, for m found by bisection",
    estimator="the smallest m at which the median write contains a merge, less one",
    drive_writes="a few times half of the drive at most",
    run=_run,
    alone={"log_blocks": "the answer was measured again from both sides"},
)
