"""Scenarios, in the order of the plan: one line each."""

from ftlab.characterize.scenario import Scenario
from ftlab.characterize.scenarios import (
    chunk,
    flushes,
    hiding,
    hits,
    layers,
    logs,
    merges,
    pairs,
    partial,
    placement,
    policy,
    read_sizes,
    rereading,
    runs_as_blocks,
    trimmed_reads,
    updates,
    writes,
)

SCENARIOS: tuple[Scenario, ...] = (
    flushes.SCENARIO,
    rereading.WRITTEN,
    rereading.READ_AGAIN,
    policy.SCENARIO,
    chunk.SCENARIO,
    read_sizes.STEPS,
    trimmed_reads.SCENARIO,
    read_sizes.SLOPE,
    pairs.UNEQUAL,
    pairs.EQUAL,
    placement.SCENARIO,
    hits.SLOPE,
    hits.SINGLE,
    writes.FIRST,
    updates.SCENARIO,
    runs_as_blocks.SCENARIO,
    partial.SCENARIO,
    layers.SCENARIO,
    merges.FULL,
    merges.SWITCH,
    writes.ALONE,
    writes.TWO,
    logs.SCENARIO,
    hiding.SCENARIO,
    policy.PAPER,
)

__all__ = ["SCENARIOS"]
