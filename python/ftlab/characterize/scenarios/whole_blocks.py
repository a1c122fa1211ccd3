"""Erase time of a layer that moves a block for each update, from whole blocks that are overwritten or written anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ftlab.characterize.bench import MIB
from ftlab.characterize.detect import location
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.target import FLUSH, SECTOR_BYTES

if TYPE_CHECKING:
    from ftlab.characterize.bench import Bench

# Blocks that are trimmed together, at most, and how long their erases may take.
_TOGETHER, _IDLE_NS = 32, 1_000_000_000
_LARGEST = 16 * MIB


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    if bench.known.get("translation") != "block":
        raise NotApplicableError("an update moves no block")
    if bench.known.get("write_policy") == "back":
        raise UndecidedError("pages of a block leave the buffer one by one, and each moves the block")
    size = int(bench.number("block_bytes"))
    together = min(_TOGETHER, bench.capacity_bytes // 4 // size)
    if size > _LARGEST or not together:
        raise UndecidedError(f"needs blocks of up to {_LARGEST // MIB} MiB, and four of them")
    sectors = size // SECTOR_BYTES
    region = bench.region(together * size)
    bench.fill(region, together * size)
    # All of one block: what is erased after the one write is waited for by the next.
    over = bench.durable_writes(np.full(effort.repetitions + 1, region), sectors)[1:]
    anew = np.empty(0)
    while anew.size < effort.repetitions:
        bench.trim(region, together * size)
        bench.latencies(FLUSH, [0, 0], 0, gap_ns=_IDLE_NS)
        anew = np.append(anew, bench.durable_writes(region + np.arange(together) * sectors, sectors))
    plot = Plot(
        "repetition",
        "time until durable (ns)",
        {"overwritten": (list(range(over.size)), over.tolist()), "anew": (list(range(anew.size)), anew.tolist())},
    )
    return [Estimate("erase_ns", location(over) - location(anew), plot=plot, note="one erase of a block")]


SCENARIO = Scenario(
    name="whole-blocks",
    finds=("erase_ns",),
    needs=("block_bytes", "translation", "write_policy"),
    assumes="A block that is overwritten as a whole is written anew, and the old one is erased.",
    sends="a block, overwritten as a whole again and again; blocks that were trimmed, written as a whole",
    estimator="difference of means without outliers",
    drive_writes="about 32 blocks for each 15 repetitions",
    run=_run,
    most_repetitions=4096,
    alone={"erase_ns": "other updates copy pages, whose times hide the erase"},
)
