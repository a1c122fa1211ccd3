"""A drive and its model, under the same workloads that neither has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab._device import Device
from ftlab.characterize.target import READ, SECTOR_BYTES, WRITE, Batch, SimulatedTarget

if TYPE_CHECKING:
    from ftlab.characterize.target import Target

_QUANTITIES = ("mean", "p50", "p99")
_WARM_UP = 0.25
# Which share of the mix reads, and of the runs of mixed sizes.
_READS, _RUNS_READ = 0.7, 0.5
_PAGE = 8


@dataclass(frozen=True)
class Row:
    """A workload on both.

    Attributes:
        workload: Its name.
        quantity: ``mean``, ``p50`` or ``p99``.
        target_ns: Of the target.
        model_ns: Of the model.
    """

    workload: str
    quantity: str
    target_ns: float
    model_ns: float

    @property
    def error(self) -> float:
        """Error of the model as a share of the target's."""
        return self.model_ns / self.target_ns - 1 if self.target_ns else 0.0

    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "workload": self.workload,
            "quantity": self.quantity,
            "target_ns": round(self.target_ns, 3),
            "model_ns": round(self.model_ns, 3),
            "error": round(self.error, 6),
        }


def workloads(capacity: int, requests: int, seed: int) -> dict[str, Batch]:
    """Workloads that no scenario sends: random reads, a mix at depth 4, and mixed sizes with runs.

    Args:
        capacity: Sectors of the smaller of both drives.
        requests: Requests of each.
        seed: Seed of the addresses.
    """
    random = np.random.default_rng([seed, 2718])
    pages = capacity // _PAGE

    def places(count: int) -> Any:
        return random.integers(pages, size=count) * _PAGE

    reads = Batch.of(READ, places(requests), _PAGE)
    mix = Batch.of(np.where(random.random(requests) < _READS, READ, WRITE), places(requests), _PAGE, queue_depth=4)
    sizes = random.choice([_PAGE, 2 * _PAGE, 8 * _PAGE], size=requests)
    starts = np.minimum(places(requests), capacity - 8 * _PAGE)
    # Every other request goes on where the one before it ended.
    follows = np.arange(requests) % 2 == 1
    starts[follows] = np.minimum(
        starts[np.flatnonzero(follows) - 1] + sizes[np.flatnonzero(follows) - 1], capacity - 8 * _PAGE
    )
    ops = np.where(np.repeat(random.random((requests + 1) // 2) < _RUNS_READ, 2)[:requests], READ, WRITE)
    return {"random reads": reads, "mix of 4 outstanding": mix, "runs of mixed sizes": Batch.of(ops, starts, sizes)}


def _numbers(latency: Any) -> dict[str, float]:
    late = latency[int(latency.size * _WARM_UP) :]
    return {"mean": float(late.mean()), "p50": float(np.quantile(late, 0.5)), "p99": float(np.quantile(late, 0.99))}


def unwritten(target: Target) -> list[str]:
    """Say that reads of a drive went to pages that nobody had written, where its summary warns of that.

    Args:
        target: A drive that has served requests. Of a real one, nothing is known.
    """
    return [
        f"{target.name}: {warning['text']}; {warning['advice']}"
        for warning in getattr(target, "warnings", ())
        if warning["code"] == "unwritten_reads"
    ]


def compare(target: Target, device: Device | Target, *, requests: int = 4000, seed: int = 1) -> list[Row]:
    """Send the same workloads to a target and to a model of it.

    Both are used as they are; the first quarter of each workload warms up and is not counted.

    Args:
        target: The target, whose data are written over.
        device: The model, or the drive that is made of it.
        requests: Requests of each workload.
        seed: Seed of the workloads, and of the model's own choices.
    """
    model = SimulatedTarget(device, seed=seed) if isinstance(device, Device) else device
    capacity = min(target.capacity, model.capacity)
    rows = []
    for name, batch in workloads(capacity, requests, seed).items():
        there, here = (_numbers(each.send(batch).latency_ns) for each in (target, model))
        rows += [Row(name, quantity, there[quantity], here[quantity]) for quantity in _QUANTITIES]
    return rows


__all__ = ["SECTOR_BYTES", "Row", "compare", "unwritten", "workloads"]
