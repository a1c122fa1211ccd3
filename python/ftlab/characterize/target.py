"""What is measured: something that takes requests and gives time stamps, and shows nothing else."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

from ftlab._checks import whole
from ftlab._session import Session
from ftlab._tables import OPERATIONS
from ftlab.errors import ConfigError, InputError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from ftlab._device import Device

READ, WRITE, TRIM, FLUSH = (OPERATIONS.index(name) for name in ("read", "write", "trim", "flush"))
SECTOR_BYTES = 512


def _column(name: str, values: Any, rows: int | None = None) -> np.ndarray[Any, np.dtype[np.int64]]:
    column = np.asarray(values, dtype=np.int64)
    if column.ndim == 0 and rows is not None:
        column = np.full(rows, column)
    if column.ndim != 1 or (rows is not None and column.size != rows):
        raise InputError(f"{name}: found an array of shape {column.shape}, expected {rows} numbers")
    if column.size and column.min() < 0:
        raise InputError(f"{name} = {column.min()}: expected no negative number")
    return column


@dataclass(frozen=True)
class Batch:
    """Requests that are sent together.

    Attributes:
        op: Operation of each: ``READ``, ``WRITE``, ``TRIM`` or ``FLUSH``.
        lba: First sector of 512 bytes of each.
        sectors: Length of each in sectors.
        at_ns: When each arrives, from the beginning of the batch on; ``None``: each completion brings the next one.
        queue_depth: Without ``at_ns``: how many are outstanding.
        gap_ns: Without ``at_ns``: time between a completion and the arrival that it brings.
    """

    op: np.ndarray[Any, np.dtype[np.int64]]
    lba: np.ndarray[Any, np.dtype[np.int64]]
    sectors: np.ndarray[Any, np.dtype[np.int64]]
    at_ns: np.ndarray[Any, np.dtype[np.int64]] | None = None
    queue_depth: int = 1
    gap_ns: int = 0

    @classmethod
    def of(
        cls, op: Any, lba: Any, sectors: Any, *, at_ns: Any | None = None, queue_depth: int = 1, gap_ns: int = 0
    ) -> Batch:
        """Make a batch of columns; a single operation or length stands for all.

        Raises:
            InputError: Columns have different lengths, or a number is negative.

        >>> len(Batch.of(READ, [0, 8, 16], 8))
        3
        """
        first = _column("lba", lba)
        rows = first.size
        times = None if at_ns is None else _column("at_ns", at_ns, rows)
        depth, gap = whole("queue_depth", queue_depth, 1), whole("gap_ns", gap_ns)
        return cls(_column("op", op, rows), first, _column("sectors", sectors, rows), times, depth, gap)

    def __len__(self) -> int:
        """How many requests there are."""
        return int(self.lba.size)

    @property
    def written_bytes(self) -> int:
        """Bytes that its writes have."""
        return int(self.sectors[self.op == WRITE].sum()) * SECTOR_BYTES


@dataclass(frozen=True)
class Times:
    """When each request of a batch began and ended, in nanoseconds of the target's clock, in the order of the batch."""

    start_ns: np.ndarray[Any, np.dtype[np.float64]]
    end_ns: np.ndarray[Any, np.dtype[np.float64]]

    @property
    def latency_ns(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """From the beginning of each to its end."""
        return self.end_ns - self.start_ns


@runtime_checkable
class Target(Protocol):
    """A drive as its host sees it.

    A simulated one also has ``warnings``, those of its summary. They are shown, and decide nothing.
    """

    @property
    def name(self) -> str:
        """What reports call it."""

    @property
    def capacity(self) -> int:
        """Sectors of 512 bytes."""

    @property
    def features(self) -> Mapping[str, Any]:
        """Facts that a host can read, such as ``flush``, ``trim`` and ``fork``."""

    def send(self, batch: Batch) -> Times:
        """Send requests, and wait until all have completed."""

    def idle(self, ns: int) -> None:
        """Send nothing for a while."""

    def flush(self) -> float:
        """Make durable what was written; gives the time that it took in nanoseconds."""

    def trim(self, lba: int, sectors: int) -> float:
        """Forget sectors; gives the time that it took in nanoseconds."""

    def fork(self) -> Target:
        """Copy the drive in its state.

        Raises:
            ConfigError: It cannot be copied, as ``features["fork"]`` says.
        """


class SimulatedTarget:
    """A simulated drive that shows time stamps and nothing else.

    >>> from ftlab import Device
    >>> target = SimulatedTarget(Device.load("ideal-page", "precondition.kind=fill"))
    >>> target.send(Batch.of(READ, [0], 8)).latency_ns.tolist()
    [127400.0]
    """

    def __init__(self, device: Device | str | os.PathLike[str], *, seed: int = 1) -> None:
        """Put a drive together and precondition it.

        Args:
            device: A device, a preset's name, or the path of a device file.
            seed: Seed of every random choice of the drive.

        Raises:
            ConfigError: The device is refused, or has no clock.
        """
        self._session = Session(device, seed=seed)
        self.name = self._session.device.name
        self.capacity = self._session.sectors
        self.features: dict[str, Any] = {"kind": "simulated", "flush": True, "trim": True, "fork": True}

    @property
    def warnings(self) -> list[dict[str, Any]]:
        """Warnings of the drive's summary, about all that it has served."""
        warnings: list[dict[str, Any]] = self._session.summary["warnings"]
        return warnings

    def send(self, batch: Batch) -> Times:
        """Send requests, and wait until all have completed.

        Raises:
            RunError: The drive has failed.
            SessionError: A request is beyond the drive.
        """
        table: dict[str, Any] = {"op": batch.op, "lba": batch.lba, "sectors": batch.sectors}
        if not len(batch):
            return Times(np.empty(0), np.empty(0))
        if batch.at_ns is None:
            frame = self._session.send(table, queue_depth=batch.queue_depth, gap_ns=batch.gap_ns)
        else:
            frame = self._session.send(table | {"arrival_ns": batch.at_ns}, queue_depth=None)
        # Ids count in the order of the batch, rows in that of completion.
        order = np.argsort(frame["id"].to_numpy(), kind="stable")
        start, end = (frame[name].to_numpy().astype(float)[order] for name in ("start_ns", "end_ns"))
        return Times(start, end)

    def idle(self, ns: int) -> None:
        """Send nothing for a while."""
        self._session.advance(int(np.ceil(self._session.now_ns)) + whole("ns", ns))

    def flush(self) -> float:
        """Make durable what was written; gives the time that it took in nanoseconds."""
        return self._session.wait(self._session.submit("flush")).latency_ns

    def trim(self, lba: int, sectors: int) -> float:
        """Forget sectors; gives the time that it took in nanoseconds."""
        return self._session.wait(self._session.submit("trim", lba, sectors)).latency_ns

    def fork(self) -> Self:
        """Copy the drive in its state."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._session = self._session.fork()  # noqa: SLF001 - of its own kind
        return copy


@dataclass(frozen=True)
class NoiseLevel:
    """How much time stamps are disturbed.

    Attributes:
        sigma: Relative jitter of a latency: 0.01 is one percent. Draws are cut at three sigma.
        outliers: Share of requests that take three times as long.
        lookup_every: Requests from one look-up of metadata to the next; 0: none.
        lookup_ns: How long that takes.
        seed: Seed of the draws.
    """

    sigma: float = 0.0
    outliers: float = 0.0
    lookup_every: int = 0
    lookup_ns: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ConfigError: A value is negative, no share, or without effect.
        """
        for name in _NOISE_NAMES:
            value, most = getattr(self, name), _MOST_NOISE.get(name)
            # Written so that what is no number is refused as well.
            if not value >= 0 or value == float("inf") or (most is not None and value > most):
                expected = "a number from 0" if most is None else f"0 to {most:g}"
                raise ConfigError(f"noise: {name} = {value:g}: expected {expected}")
        if bool(self.lookup_every) != bool(self.lookup_ns):
            names = ("lookup_every", "lookup_ns") if self.lookup_every else ("lookup_ns", "lookup_every")
            raise ConfigError(f"noise: {names[0]} = {getattr(self, names[0]):g}: has no effect without {names[1]}")

    @classmethod
    def parse(cls, text: str, *, seed: int = 1) -> NoiseLevel:
        """Read ``"sigma=0.01,outliers=0.01"``.

        Raises:
            ConfigError: A name or a number is wrong.

        >>> NoiseLevel.parse("sigma=0.01,lookup_every=64,lookup_ns=2000").lookup_every
        64
        """
        given: dict[str, Any] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = part.partition("=")
            if name not in _NOISE_NAMES:
                near = difflib.get_close_matches(name, _NOISE_NAMES, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ConfigError(f"noise: no {name!r}; expected {', '.join(_NOISE_NAMES)}{hint}")
            if name in given:
                raise ConfigError(f"noise: {name} is there twice")
            given[name] = _noise_number(name, value)
        if not given:
            raise ConfigError(f"noise: found {text!r}, expected NAME=N of {', '.join(_NOISE_NAMES)}")
        return cls(**{"seed": seed} | given)


def _noise_number(name: str, value: str) -> float | int:
    """A number of ``--noise``; those that have a most are shares, also in per cent."""
    try:
        if name in {"lookup_every", "seed"}:
            return int(value)
        if name in _MOST_NOISE and value.endswith("%"):
            return float(value.removesuffix("%")) / 100
        return float(value)
    except ValueError:
        raise ConfigError(f"noise: {name} = {value!r}: expected a number") from None


# Three sigma must leave a positive latency.
_MOST_NOISE = {"sigma": 0.3, "outliers": 1.0}
_CUT, _OUTLIER = 3.0, 3.0
_NOISE_NAMES = ("sigma", "outliers", "lookup_every", "lookup_ns", "seed")


class Noise:
    """Any target, with its time stamps disturbed: each request ends earlier or later than it did.

    >>> from ftlab import Device
    >>> drive = SimulatedTarget(Device.load("ideal-page", "precondition.kind=fill"))
    >>> noisy = Noise(drive, NoiseLevel(sigma=0.05, seed=3))
    >>> bool(100_000 < noisy.send(Batch.of(READ, [0], 8)).latency_ns[0] < 160_000)
    True
    """

    def __init__(self, target: Target, level: NoiseLevel) -> None:
        """Disturb ``target`` by ``level``."""
        self._target, self._level = target, level
        self._random = np.random.default_rng(level.seed)
        self._count = 0
        self.name, self.capacity, self.features = target.name, target.capacity, target.features

    @property
    def warnings(self) -> list[dict[str, Any]]:
        """Warnings of the target's summary, where it has one."""
        return list(getattr(self._target, "warnings", ()))

    def _disturbed(self, latency: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        level = self._level
        jitter = np.clip(self._random.standard_normal(latency.size), -_CUT, _CUT)
        late = self._random.random(latency.size) < level.outliers
        result = latency * (1 + level.sigma * jitter) * np.where(late, _OUTLIER, 1.0)
        if level.lookup_every:
            numbers = self._count + np.arange(1, latency.size + 1)
            result = result + np.where(numbers % level.lookup_every == 0, level.lookup_ns, 0.0)
        self._count += latency.size
        return result

    def send(self, batch: Batch) -> Times:
        """Send requests; the ends of their times are disturbed."""
        times = self._target.send(batch)
        return Times(times.start_ns, times.start_ns + self._disturbed(times.latency_ns))

    def idle(self, ns: int) -> None:
        """Send nothing for a while."""
        self._target.idle(ns)

    def flush(self) -> float:
        """Make durable what was written; gives the disturbed time that it took."""
        return float(self._disturbed(np.array([self._target.flush()]))[0])

    def trim(self, lba: int, sectors: int) -> float:
        """Forget sectors; gives the disturbed time that it took."""
        return float(self._disturbed(np.array([self._target.trim(lba, sectors)]))[0])

    def fork(self) -> Noise:
        """Copy the drive in its state. Draws of the copy are its own, and follow from those so far."""
        copy = Noise(self._target.fork(), self._level)
        copy._random = np.random.default_rng(self._random.integers(2**63))
        return copy


@dataclass
class Opener:
    """How an address is opened that begins with ``prefix``.

    Attributes:
        prefix: Beginning of the address, such as ``/dev/``.
        module: The module that has it.
        name: A callable there, which gets the address and the path named by ``--destroy-data-on``.
        what: What such an address is, in words.
    """

    prefix: str
    module: str
    name: str
    what: str


@dataclass
class Openers:
    """The forms of addresses that are no simulated drive: one line each."""

    known: list[Opener] = field(
        default_factory=lambda: [
            Opener("/dev/", "ftlab.characterize.block", "open_block", "a block device"),
            Opener("file:", "ftlab.characterize.block", "open_block", "a file, for tests of the real path"),
            Opener("nbd+unix://", "ftlab.characterize.nbd", "open_nbd", "a drive that is served over NBD"),
        ]
    )

    def find(self, address: str) -> Opener | None:
        """The opener for an address; ``None`` for a simulated drive."""
        return next((opener for opener in self.known if address.startswith(opener.prefix)), None)


OPENERS = Openers()


def open_target(address: str, *, destroy: str | None = None, seed: int = 1) -> Target:
    """Open what an address names: a simulated drive, or what has a form of :data:`OPENERS`.

    Args:
        address: A preset, the path of a device file, or an address of another form.
        destroy: The address again, for what loses its data by being measured.
        seed: Seed of a simulated drive.

    Raises:
        ConfigError: There is none, or this installation cannot open it.
    """
    opener = OPENERS.find(address)
    if opener is None:
        return SimulatedTarget(address, seed=seed)
    import importlib

    try:
        opened: Callable[..., Target] = getattr(importlib.import_module(opener.module), opener.name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{address}: is {opener.what}, which this installation cannot open ({error})") from error
    return opened(address, destroy=destroy)
