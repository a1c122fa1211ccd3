"""Runs on the nodes of a Ray cluster: they execute, and the process that drives the study alone writes results.

Runs go in batches, because a task of Ray costs more than a short run. A worker that is lost takes its batch with it,
which another does again. What a run itself does wrong is its outcome, and is not tried again.
"""

from __future__ import annotations

import importlib
import itertools
import logging
import pickle
import re
import socket
import threading
import time
import zlib
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ftlab._checks import whole
from ftlab._units import bytes_text
from ftlab.errors import ConfigError, FtlabError
from ftlab.studies.description import ENGINE, Description, Outcome, canonical, memory_of
from ftlab.studies.executor import TRACE_MEMORY_BYTES, Executor
from ftlab.studies.files import LOG

if TYPE_CHECKING:
    from ftlab.studies.shipping import Shipped

# A batch is to take so long: much longer than Ray takes for a task, and short enough to be lost.
_BATCH_SECONDS = 2.0
# More results than this would fill the object store of a small node.
_MOST_RUNS = 1000
# The first batches are short, because nobody knows how long a run takes.
_GROWTH = 8
# Batches for each processor: one goes while the next waits at its node.
_BATCHES = 2
# How long a cluster may take to answer, and its nodes to start the process that answers for them.
_ADDRESS_SECONDS, _NODE_SECONDS = 10.0, 120.0
# Between two looks at which nodes there are.
_LOOK_SECONDS = 1.0
_TICK_SECONDS = 0.2
# After so long without any processor the user is told.
_EMPTY_SECONDS = 15.0
# A node whose clock is off by more is refused: what it logs could not be read beside what others log.
_CLOCK_SECONDS = 60.0
# Memory is asked for in whole steps: each size that Ray sees has workers of its own.
_MEMORY_STEP = 16 << 20

_ADDRESS = re.compile(r"(?P<host>[^\s:/]+):(?P<port>[0-9]{1,5})")
_LARGEST_PORT = 65_535


def _module() -> Any:
    """Ray, which is there only for those who ask for it."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError(
            f"executor = 'ray': needs Ray, which cannot be loaded ({error}): pip install 'ftlab[ray]'"
        ) from None


@dataclass(frozen=True)
class _Node:
    """A node that can execute runs."""

    id: str
    name: str
    cores: int
    memory: int


@dataclass
class _Batch:
    """Runs that go as one task."""

    number: int
    items: list[tuple[Description, Future[Outcome]]]


def _checked(address: str) -> tuple[str, int] | None:
    """Host and port of an address; `None` for the cluster that Ray finds by itself."""
    if address == "auto":
        return None
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) <= _LARGEST_PORT:
        raise ConfigError(f"address = {address[:80]!r}: expected 'auto' or HOST:PORT, such as 10.0.0.1:6379")
    return found["host"], int(found["port"])


def _no_cluster(address: str, why: object) -> ConfigError:
    reason = " ".join(str(why).split())[:300]
    return ConfigError(
        f"address = {address!r}: no cluster within {_ADDRESS_SECONDS:.0f} s ({reason}): start one with "
        "`ray start --head`, or name the HOST:PORT of one that is up"
    )


def _connect(ray: Any, address: str) -> None:
    """Join a cluster as its driver.

    Raises:
        ConfigError: There is none.
    """
    place = _checked(address)
    if place is not None:
        try:
            socket.create_connection(place, _ADDRESS_SECONDS).close()
        except OSError as error:
            raise _no_cluster(address, error.strerror or error) from None
    failed: list[BaseException] = []

    def join() -> None:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits
            failed.append(error)

    # On another thread: it may hang, and on this one it would change what signals do.
    thread = threading.Thread(target=join, name="ftlab-ray-join", daemon=True)
    thread.start()
    thread.join(_ADDRESS_SECONDS)
    if thread.is_alive():
        raise _no_cluster(address, "it does not answer")
    if failed:
        raise _no_cluster(address, failed[0]) from None


class RayExecutor(Executor):
    """Runs on the nodes of a Ray cluster (``pip install 'ftlab[ray]'``).

    Each node needs the same ftlab, which is checked, and the files of traces at their paths, or ``ship_traces``.
    """

    exclusive = True

    def __init__(
        self, address: str = "auto", *, trace_memory_bytes: int = TRACE_MEMORY_BYTES, ship_traces: bool = False
    ) -> None:
        """Join a cluster. One that this process has joined already is used, and stays joined.

        Args:
            address: ``"auto"`` for the cluster that runs on this machine or that ``RAY_ADDRESS`` names, or
                ``"HOST:PORT"``.
            trace_memory_bytes: Memory of each node for decoded traces.
            ship_traces: Send the files of a trace to nodes that do not have them, up to 1 GiB for each trace.

        Raises:
            ConfigError: Ray is not installed, there is no cluster, or a node has another ftlab.
        """
        _checked(address)
        self._trace_memory = whole("trace_memory_bytes", trace_memory_bytes)
        self._ray = _module()
        self._mine = not self._ray.is_initialized()
        if self._mine:
            _connect(self._ray, address)
        try:
            self._nodes = self._examine(self._nodes_now(), address)
        except BaseException:
            self._leave()
            raise
        self._ship = ship_traces
        self._shipped: dict[str, Shipped] = {}
        self._waiting: deque[tuple[Description, Future[Outcome]]] = deque()
        self._flight: dict[Any, _Batch] = {}
        self._batch_runs = 1
        self._all_there = False
        self._lock = threading.RLock()
        self._news = threading.Event()
        self._closing = False
        # Of a drive, by the identity of its description, which many runs share.
        self._memory: dict[int, tuple[Any, bool, int]] = {}
        self._task = self._ray.remote(num_cpus=1, max_retries=-1, retry_exceptions=False)(_task())
        self._board = self._ray.remote(num_cpus=0)(_board()).remote()
        self._asked: Any = None
        # How much of each batch is done, in runs.
        self._done: dict[int, float] = {}
        self._numbers = itertools.count()
        self._collector = threading.Thread(target=self._collect, name="ftlab-ray", daemon=True)
        self._collector.start()

    # Nodes

    def _nodes_now(self) -> list[_Node]:
        return [
            _Node(
                node["NodeID"],
                f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node['NodeID'][:8]})",
                int(node["Resources"]["CPU"]),
                int(node["Resources"].get("memory", 0)),
            )
            for node in self._ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
        ]

    def _examine(self, nodes: list[_Node], address: str) -> list[_Node]:
        """Refuse nodes that have another ftlab or a wrong clock, or that there are none; give those that live."""
        if not nodes:
            raise ConfigError(f"address = {address!r}: the cluster has no node with a processor: start one")
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        ask = self._ray.remote(num_cpus=0, max_retries=0)(_question())
        began = time.time()
        asked = {
            node: ask.options(
                scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(node_id=node.id, soft=False)
            ).remote()
            for node in nodes
        }
        deadline = time.monotonic() + _NODE_SECONDS
        living = []
        for node, answer in asked.items():
            try:
                engine, problem, clock = self._ray.get(answer, timeout=max(0.0, deadline - time.monotonic()))
            except self._ray.exceptions.RayError as error:
                if node.id not in {each.id for each in self._nodes_now()}:
                    # It has died since it was listed: the others do its work.
                    continue
                raise ConfigError(f"node {node.name}: does not answer: {_first_line(error)}") from None
            if engine != ENGINE:
                found = f"ftlab {engine}" if problem is None else f"no ftlab ({problem})"
                raise ConfigError(f"node {node.name}: found {found}, expected ftlab {ENGINE}: install the same there")
            off = clock - time.time() if clock > time.time() else min(0.0, clock - began)
            if abs(off) > _CLOCK_SECONDS:
                found = f"{abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} the driver's"
                raise ConfigError(
                    f"node {node.name}: its clock is {found}, expected at most {_CLOCK_SECONDS:.0f} s: set it"
                )
            living.append(node)
        if not living:
            raise ConfigError(f"address = {address!r}: all nodes of the cluster have died: start one")
        return living

    def _cores(self) -> int:
        return sum(node.cores for node in self._nodes)

    # What the study asks

    @property
    def slots(self) -> int:
        """How many runs go at a time, those of batches that wait at a node included."""
        return max(1, self._cores()) * (_BATCHES + 1) * self._batch_runs

    def submit(self, description: Description) -> Future[Outcome]:
        """Take a run on."""
        future: Future[Outcome] = Future()
        refused = self._refused(description)
        if refused is not None:
            future.set_result(Outcome("error", None, refused, "machine", 0.0))
            return future
        self.prepare(description)
        with self._lock:
            self._waiting.append((description, future))
            self._all_there = False
            self._launch()
        return future

    def flush(self) -> None:
        """Begin with what was submitted."""
        with self._lock:
            self._all_there = True
            self._launch()

    def _refused(self, description: Description) -> str | None:
        """Why no node can do a run."""
        largest = max(self._nodes, key=lambda node: node.memory, default=None)
        needed = self._needed(description)
        if largest is None or needed <= largest.memory:
            return None
        return (
            f"needs up to {bytes_text(needed)} of memory, and the largest node, {largest.name}, offers "
            f"{bytes_text(largest.memory)}: start a larger one (ray start --memory), or make the drive smaller"
        )

    def _needed(self, description: Description) -> int:
        device, verify = description["device"], bool(description["options"]["verify"])
        known = self._memory.get(id(device))
        if known is not None and known[0] is device and known[1] == verify:
            return known[2]
        try:
            needed = memory_of(description)
        except FtlabError:
            # Executing it says what is wrong with it.
            needed = 0
        self._memory[id(device)] = (device, verify, needed)
        return needed

    def prepare(self, description: Description) -> None:
        """Read the trace of a run, so that nodes can be sent it.

        Raises:
            ConfigError: It is too large.
            InputError: It cannot be read.
        """
        from ftlab.studies.shipping import ship

        files = description["trace"] if self._ship else None
        if files is not None and (key := canonical([file["hash"] for file in files])) not in self._shipped:
            self._shipped[key] = ship(self._ray, files)

    # Batches

    def _launch(self) -> None:
        """Hand out as many batches as the nodes have use for."""
        while self._waiting and not self._closing and len(self._flight) < _BATCHES * max(1, self._cores()):
            if not self._all_there and len(self._waiting) < self._batch_runs:
                return
            # At the end all processors get a share of what is left.
            share = -(-len(self._waiting) // max(1, self._cores()))
            runs = min(self._batch_runs, share)
            batch = _Batch(next(self._numbers), [self._waiting.popleft() for _ in range(runs)])
            needed = max(self._needed(description) for description, _ in batch.items)
            memory = -(-needed // _MEMORY_STEP) * _MEMORY_STEP
            task = self._task.options(memory=memory) if memory else self._task
            descriptions = [description for description, _ in batch.items]
            share_of_memory = self._trace_memory // max((node.cores for node in self._nodes), default=1)
            shipped = [
                self._shipped[key]
                for key in {canonical([file["hash"] for file in each["trace"] or ()]) for each in descriptions}
                if key in self._shipped
            ]
            reference = task.remote(descriptions, share_of_memory, shipped, self._board, batch.number)
            self._flight[reference] = batch
            self._news.set()

    def _collect(self) -> None:
        looked, empty_since, told = time.monotonic(), 0.0, False
        while not self._closing:
            with self._lock:
                flight = list(self._flight)
            try:
                if flight:
                    for reference in self._ray.wait(flight, num_returns=1, timeout=_TICK_SECONDS)[0]:
                        self._finish(reference)
                else:
                    self._news.wait(_TICK_SECONDS)
                    self._news.clear()
                now = time.monotonic()
                if now - looked > _LOOK_SECONDS:
                    looked, self._nodes = now, self._nodes_now()
                    self._look()
                    empty_since = 0.0 if self._nodes else empty_since or now
                    if empty_since and now - empty_since > _EMPTY_SECONDS and not told:
                        told = True
                        LOG.warning("no node of the cluster has a processor now: runs wait until one comes back")
            except Exception as error:  # noqa: BLE001 - the cluster is gone: whoever waits must hear of it
                self._fail(error)
                return
            with self._lock:
                self._launch()

    def _look(self) -> None:
        """Take what the nodes have said of their batches, and ask again."""
        if self._asked is not None:
            if not self._ray.wait([self._asked], timeout=0)[0]:
                return
            try:
                self._done = self._ray.get(self._asked)
            except self._ray.exceptions.RayError as error:
                LOG.debug("nobody knows what is under way: %s", error)
        self._asked = self._board.read.remote()

    def under_way(self) -> float:
        """The work done in batches that are under way, in runs, as of a second or two ago."""
        with self._lock:
            numbers = [batch.number for batch in self._flight.values()]
        return sum(self._done.get(number, 0.0) for number in numbers)

    def _finish(self, reference: Any) -> None:
        with self._lock:
            batch = self._flight[reference]
        try:
            seconds, outcomes = pickle.loads(zlib.decompress(self._ray.get(reference)))  # noqa: S301 - of our own workers
        except self._ray.exceptions.RayError as error:
            why = f"the cluster: {_first_line(error)}"
            outcomes = [Outcome("error", None, why, "machine", 0.0)] * len(batch.items)
        else:
            self._learn(seconds / len(outcomes))
        with self._lock:
            self._flight.pop(reference, None)
            # The next batch goes before the results of this one are written.
            self._launch()
        for (_, future), outcome in zip(batch.items, outcomes, strict=True):
            if future.set_running_or_notify_cancel():
                future.set_result(outcome)

    def _learn(self, seconds: float) -> None:
        """Make batches as long as they are to be, as far as a batch tells how long runs take."""
        wanted = int(_BATCH_SECONDS / max(seconds, 1e-6))
        self._batch_runs = max(1, min(wanted, self._batch_runs * _GROWTH, _MOST_RUNS))

    def _fail(self, error: Exception) -> None:
        with self._lock:
            self._closing = True
            lost = [future for batch in self._flight.values() for _, future in batch.items]
            lost += [future for _, future in self._waiting]
            self._flight.clear()
            self._waiting.clear()
        for future in lost:
            if future.set_running_or_notify_cancel():
                future.set_exception(ConfigError(f"the cluster is gone: {_first_line(error)}"))

    def close(self) -> None:
        """Cancel what has not ended, and leave the cluster."""
        self._closing = True
        self._news.set()
        self._collector.join(_ADDRESS_SECONDS)
        with self._lock:
            flight, self._flight = dict(self._flight), {}
            waiting, self._waiting = list(self._waiting), deque()
        for reference, batch in flight.items():
            try:
                self._ray.cancel(reference, force=True)
            except Exception as error:  # noqa: BLE001 - it is gone already
                LOG.debug("cannot cancel: %s", error)
            waiting += batch.items
        for _, future in waiting:
            future.cancel()
        self._shipped.clear()
        self._leave()

    def _leave(self) -> None:
        if self._mine:
            self._ray.shutdown()


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]


# What goes to the nodes. All of it is sent as code, not by name: they have to say where there is no ftlab.


def _question() -> Any:
    def question() -> tuple[str | None, str | None, float]:
        import time

        try:
            from ftlab.studies.description import ENGINE
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            return None, f"{type(error).__name__}: {error}"[:200], time.time()
        return ENGINE, None, time.time()

    return question


def _task() -> Any:
    def ftlab_runs(
        batch: list[Description], trace_memory_bytes: int, shipped: list[Shipped], board: Any, number: int
    ) -> bytes:
        from ftlab.studies.worker import work

        return work(batch, trace_memory_bytes, shipped, lambda done: board.tell.remote(number, done))

    return ftlab_runs


def _board() -> Any:
    class Board:
        """What nodes say of their batches."""

        def __init__(self) -> None:
            self.done: dict[int, float] = {}

        def tell(self, number: int, done: float) -> None:
            self.done[number] = done

        def read(self) -> dict[int, float]:
            return self.done

    return Board
