"""Scenarios, in the order of the plan: one line each."""

from ftlab.characterize.scenario import Scenario
from ftlab.characterize.scenarios import chunk, flushes, hits, pairs, policy, read_sizes, rereading, trimmed_reads

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
    hits.SLOPE,
    hits.SINGLE,
    policy.PAPER,
)

__all__ = ["SCENARIOS"]
