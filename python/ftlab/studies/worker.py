"""What a node of a cluster does: batches of runs, and files of traces that are sent to it."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import pickle
import platform
import time
import zlib
from typing import TYPE_CHECKING, Any

from ftlab import _native
from ftlab.studies.description import ENGINE, Description, Outcome, execute
from ftlab.studies.shipping import receive

if TYPE_CHECKING:
    from collections.abc import Callable

    from ftlab.studies.shipping import Shipped

    Tell = Callable[[str, float | None, int], None]

# Between two words about a batch.
_TELL_SECONDS = 1.0

# Decoded once for all batches of this process.
_TRACES: dict[int, _native.TraceCache] = {}


def node_name() -> str:
    """Name this node as messages do."""
    ray: Any = importlib.import_module("ray")
    context = ray.get_runtime_context()
    return f"{platform.node()} ({ray.util.get_node_ip_address()}, {context.get_node_id()[:8]})"


def _where(outcome: Outcome, description: Description) -> Outcome:
    """Name the node where a machine is to blame."""
    if outcome.error_kind not in {"machine", "internal"}:
        return outcome
    told = outcome.error
    if description["engine"] != ENGINE:
        told = f"found ftlab {ENGINE}, expected ftlab {description['engine']}: install the same there"
    return dataclasses.replace(outcome, error=f"node {node_name()}: {told}")


def _one(description: Description, traces: _native.TraceCache, shipped: list[Shipped], tell: Tell) -> Outcome:
    there = description
    try:
        for each in shipped:
            if description["trace"] is not None and each.hashes == [file["hash"] for file in description["trace"]]:
                there = moved(description, receive(each))
    except OSError as error:
        text = f"a trace cannot be kept here: {error.filename or ''}: {error.strerror or error}"
        return Outcome("error", None, text, "machine", 0.0)
    return execute(there, traces, tell)


def moved(description: Description, paths: list[str]) -> Description:
    """Give a run whose trace lies elsewhere; its key stays, because traces count by content."""
    there = copy.deepcopy(description)
    before = there["workload"]["keys"]["trace"]
    for file, path in zip(there["trace"], paths, strict=True):
        if file["path"] == before:
            there["workload"]["keys"]["trace"] = path
        file["path"] = path
    return there


def work(
    batch: list[Description], trace_memory_bytes: int, shipped: list[Shipped], done: Callable[[float], object]
) -> bytes:
    """Execute runs, one after the other.

    Args:
        batch: The runs.
        trace_memory_bytes: Memory for decoded traces of this process.
        shipped: Files of traces that may be fetched.
        done: Called about once a second with the work done, in runs.

    Returns:
        How long they took in seconds, and their outcomes in order, pickled and compressed.
    """
    began = told = time.perf_counter()
    traces = _TRACES.setdefault(trace_memory_bytes, _native.TraceCache.of(trace_memory_bytes))
    outcomes: list[Outcome] = []

    def tell(phase: str, fraction: float | None, requests: int) -> None:  # noqa: ARG001 - the signature of progress
        nonlocal told
        if phase == "run" and fraction is not None and time.perf_counter() - told > _TELL_SECONDS:
            told = time.perf_counter()
            done(len(outcomes) + fraction)

    for description in batch:
        outcomes.append(_where(_one(description, traces, shipped, tell), description))  # noqa: PERF401 - told as it grows
    return zlib.compress(pickle.dumps((time.perf_counter() - began, outcomes)), 1)
