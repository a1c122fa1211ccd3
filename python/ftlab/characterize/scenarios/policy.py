"""Write policy, from what a flush after a write costs; and as in the paper, from a threshold."""

from __future__ import annotations

import numpy as np

from ftlab.characterize.bench import MIB, Bench
from ftlab.characterize.detect import location
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.target import FLUSH, SECTOR_BYTES, WRITE, Batch

_STEP = 128
# Within a fifth of the threshold the paper's comparison says nothing.
_UNCLEAR = 0.2


def _pairs(bench: Bench, count: int, sectors: int) -> tuple[np.ndarray, np.ndarray]:
    """Latencies of writes, and of the flush after each."""
    size = count * _STEP * SECTOR_BYTES
    region = bench.region(size)
    bench.fill(region, size)
    first = region + np.arange(count) * _STEP
    ops = np.tile([WRITE, FLUSH], count)
    lba = np.column_stack([first, np.zeros_like(first)]).ravel()
    latency = bench.send(Batch.of(ops, lba, np.tile([sectors, 0], count))).latency_ns
    return latency[0::2], latency[1::2]


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    writes, flushes = _pairs(bench, effort.repetitions, 32)
    host = bench.number("host_overhead_ns", 0.0)
    write, flush = float(np.median(writes)) - host, float(np.median(flushes)) - host
    plot = Plot(
        "repetition",
        "latency (ns)",
        {
            "write": (list(range(writes.size)), writes.tolist()),
            "flush after it": (list(range(flushes.size)), flushes.tolist()),
        },
    )
    if flush > 2 * write:
        return [Estimate("write_policy", "back", 0.99, plot)]
    if write > 2 * flush:
        kept = bench.number("buffer_bytes")
        return [Estimate("write_policy", "through" if kept else "none", 0.99, plot)]
    raise UndecidedError("a write and a flush after it take about as long", repetitions=2)


def _threshold(bench: Bench, effort: Effort) -> list[Estimate]:
    program, buffer = bench.number("program_ns"), bench.number("buffer_ns")
    if not bench.number("buffer_bytes"):
        raise NotApplicableError("there is no buffer")
    page = int(bench.number("page_bytes"))
    writes, _ = _pairs(bench, effort.repetitions, page // SECTOR_BYTES)
    link = bench.number("link_sector_ns", 0.0) * page / SECTOR_BYTES
    cost = location(writes).value - bench.number("host_overhead_ns", 0.0) - link
    threshold = (program + buffer) / 2
    if abs(cost - threshold) < _UNCLEAR * threshold:
        raise UndecidedError(f"{cost:,.0f} ns is too close to the threshold of {threshold:,.1f} ns", repetitions=2)
    plot = Plot(
        "repetition",
        "latency (ns)",
        {
            "write": (list(range(writes.size)), writes.tolist()),
            "threshold": ([0, writes.size - 1], [threshold, threshold]),
        },
    )
    word = "through" if cost > threshold else "back"
    return [Estimate("write_policy", word, 0.99, plot, f"threshold {threshold:,.1f} ns")]


SCENARIO = Scenario(
    name="flush-after-write",
    finds=("write_policy",),
    needs=("buffer_bytes",),
    assumes="A flush makes durable what a buffer has acknowledged, and costs nothing where all is durable.",
    sends="writes of 16 KiB in a region that was written, each with a flush after it",
    estimator="medians of both, less the fixed time; a factor of two decides",
    drive_writes=f"{2 * 15 * _STEP * SECTOR_BYTES // MIB + 1} MiB",
    run=_run,
)
PAPER = Scenario(
    name="write-policy",
    finds=("write_policy",),
    needs=("program_ns", "buffer_ns", "page_bytes"),
    assumes="A write that waits for flash takes longer than the mean of program and buffer time (the paper, 6.5).",
    sends="writes of one page in a region that was written",
    estimator="mean without outliers, less fixed time and link, against the mean of both times",
    drive_writes="2 MiB",
    run=_threshold,
)
