"""Scenarios, in the order of the plan: one line each."""

from ftlab.characterize.scenario import Scenario
from ftlab.characterize.scenarios import (
    chunk,
    flushes,
    hiding,
    hits,
    pairs,
    partial,
    policy,
    read_sizes,
    rereading,
    trimmed_reads,
    writes,
)

SCENARIOS: tuple[Scenario, ...] = (
    flushes.SCENARIO,
    rereading.WRITTEN,
    rereading.READ_AGAIN,
    trimmed_reads.SCENARIO,
    policy.SCENARIO,
    chunk.SCENARIO,
    read_sizes.STEPS,
    read_sizes.SLOPE,
    pairs.UNEQUAL,
    pairs.EQUAL,
    partial.SCENARIO,
    hits.SLOPE,
    hits.SINGLE,
    writes.ALONE,
    writes.TWO,
    hiding.SCENARIO,
    policy.PAPER,
)

__all__ = ["SCENARIOS"]
