"""Spare space, from the updates that a full drive takes before it collects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import Effort, Estimate, Scenario, UndecidedError

if TYPE_CHECKING:
    from ftlab.characterize.bench import Bench

# Blocks of each plane that are free or open when a collection begins: at least, mostly, and at most.
LEAST_RESERVE, RESERVE, MOST_RESERVE = 2, 3, 4


def _run(bench: Bench, _: Effort) -> list[Estimate]:
    if bench.known.get("translation") != "page":
        raise UndecidedError("blocks beyond those that hold data and logs are never seen to be used up")
    onset = bench.interval("gc_onset_bytes")
    if onset is None:
        raise UndecidedError("needs gc_onset_bytes")
    unit, size = bench.number("gc_unit_bytes"), float(bench.capacity_bytes)
    value = Interval(
        (onset.value + RESERVE * unit) / size,
        (onset.low + LEAST_RESERVE * unit) / size,
        (onset.high + MOST_RESERVE * unit) / size,
    )
    note = f"with {LEAST_RESERVE} to {MOST_RESERVE} blocks of each plane that are open or kept free"
    return [Estimate("over_provisioning", value, note=note)]


SCENARIO = Scenario(
    name="spare-by-onset",
    finds=("over_provisioning",),
    needs=("translation",),
    assumes="When a plane is collected, two to four of its blocks are open or kept free.",
    sends="nothing: it uses what the first collection and the rounds of collection said",
    estimator="updates before the first collection and the reserve, as a share of what the host sees",
    drive_writes="none",
    run=_run,
    most_repetitions=1,
    alone={"over_provisioning": "write amplification would say the same, less closely"},
)
