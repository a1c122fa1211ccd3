"""Fixed time of a request, from flushes of a drive that has nothing to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ftlab.characterize.detect import location
from ftlab.characterize.scenario import Effort, Estimate, Plot, Scenario
from ftlab.characterize.target import FLUSH

if TYPE_CHECKING:
    from ftlab.characterize.bench import Bench


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    bench.latencies(FLUSH, [0], 0)
    times = bench.latencies(FLUSH, np.zeros(effort.repetitions * 4, dtype=int), 0, gap_ns=100_000)
    plot = Plot("flush", "latency (ns)", {"flush": (list(range(times.size)), times.tolist())})
    return [Estimate("host_overhead_ns", location(times), plot=plot)]


SCENARIO = Scenario(
    name="flushes",
    finds=("host_overhead_ns",),
    needs=(),
    assumes="A flush with nothing to write costs the fixed time of a request and nothing else.",
    sends="flushes of an idle drive, one after the other",
    estimator="mean without outliers",
    drive_writes="none",
    run=_run,
)
