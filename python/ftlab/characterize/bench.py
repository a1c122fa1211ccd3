"""The bench that scenarios work at: requests, prepared regions, and an account of what they cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab.characterize.detect import CLOCK_NS, step_ns
from ftlab.characterize.scenario import UndecidedError
from ftlab.characterize.target import FLUSH, READ, SECTOR_BYTES, TRIM, WRITE, Batch, Times
from ftlab.errors import FtlabError

if TYPE_CHECKING:
    from typing import TextIO

    from ftlab.characterize.detect import Interval
    from ftlab.characterize.target import Target

Array = np.ndarray[Any, Any]

KIB, MIB = 1 << 10, 1 << 20
# Requests that fill a region: whole pages of any drive, and whole rows of most.
FILL_BYTES = 256 * KIB
# Regions begin at multiples of it: larger than any block.
ALIGN_BYTES = 4 * MIB
# A drive up to this size is copied before each scenario instead of being written again.
_FORK_BYTES = 4 << 30
# Stamps that show the clock, and the gaps between them: hardly any step is a divisor of all of them.
CLOCK_STAMPS, CLOCK_GAPS_NS = 64, (20_000, 220_000)
_OPERATION_NAMES = {READ: "read", WRITE: "write", TRIM: "trim", FLUSH: "flush"}


class BudgetSpentError(FtlabError):
    """The target has worked for as long as it was allowed to."""


class Account:
    """What was sent, shared by all copies of a target.

    Attributes:
        requests: Requests so far.
        written_bytes: Bytes that they wrote.
        target_ns: Time that the target took for them.
        limit_ns: How long it may take; ``None``: for ever.
        clock_ns: Step of the clock; 0: there were no stamps yet.
    """

    def __init__(self, limit_ns: float | None, transcript: TextIO | None) -> None:
        """Begin with nothing."""
        self.requests, self.written_bytes, self.target_ns = 0, 0, 0.0
        self.limit_ns = limit_ns
        self.clock_ns = 0.0
        self._transcript = transcript

    def note(self, scenario: str, batch: Batch, times: Times) -> None:
        """Count a batch that was sent.

        Raises:
            BudgetSpentError: That was too long.
        """
        self.requests += len(batch)
        self.written_bytes += batch.written_bytes
        if len(batch):
            self.target_ns += float(times.end_ns.max() - times.start_ns.min())
        if self._transcript is not None:
            columns = (batch.op, batch.lba, batch.sectors, times.start_ns, times.end_ns)
            for op, lba, sectors, start, end in zip(*(column.tolist() for column in columns), strict=True):
                row = [scenario, _OPERATION_NAMES[op], lba, sectors, round(start, 3), round(end, 3)]
                self._transcript.write(json.dumps(row) + "\n")
        self.check()

    def check(self) -> None:
        """See whether the budget is spent.

        Raises:
            BudgetSpentError: It is.
        """
        if self.limit_ns is not None and self.target_ns >= self.limit_ns:
            raise BudgetSpentError(f"the budget of {self.limit_ns / 1e9:g} s is spent")


def _instants() -> Batch:
    """Flushes at instants whose differences have no common divisor."""
    at = np.cumsum(np.random.default_rng(1).integers(*CLOCK_GAPS_NS, CLOCK_STAMPS))
    return Batch.of(FLUSH, np.zeros(at.size, dtype=np.int64), 0, at_ns=at)


class Bench:
    """A target in a known state, with the values that earlier scenarios found.

    Attributes:
        target: The target, or a copy of it.
        known: Values found so far.
        random: Source of every choice of the scenario.
        account: What was sent.
    """

    def __init__(
        self,
        target: Target,
        known: dict[str, Interval | str],
        account: Account,
        *,
        scenario: str,
        seed: int,
        first: int,
    ) -> None:
        """Prepare a bench.

        Args:
            target: The target.
            known: Values found so far.
            account: Where requests are counted.
            scenario: Who works at it.
            seed: Seed of its choices.
            first: First sector of the regions that it gives out.
        """
        self.target, self.known, self.account = target, known, account
        self.random = np.random.default_rng([seed, *scenario.encode()])
        self.scenario = scenario
        self.next = first
        self.gap_ns = 0

    @staticmethod
    def copies(target: Target) -> bool:
        """Whether a fresh copy of the target is made for each scenario."""
        return bool(target.features.get("fork")) and target.capacity * SECTOR_BYTES <= _FORK_BYTES

    @property
    def capacity_bytes(self) -> int:
        """Bytes of the target."""
        return self.target.capacity * SECTOR_BYTES

    def number(self, name: str, otherwise: float | None = None) -> float:
        """A value found earlier.

        Raises:
            KeyError: It is not known, and there is nothing to take instead.
        """
        value = self.known.get(name)
        if value is None or isinstance(value, str):
            if otherwise is None:
                raise KeyError(name)
            return otherwise
        return value.value

    def interval(self, name: str) -> Interval | None:
        """A value found earlier, with its interval."""
        value = self.known.get(name)
        return None if isinstance(value, str) else value

    def region(self, size: int, *, align: int = ALIGN_BYTES) -> int:
        """The first sector of a region; none overlaps another of this scenario while there is room."""
        step = max(align, ALIGN_BYTES) // SECTOR_BYTES
        count = -(-size // SECTOR_BYTES)
        start = -(-self.next // step) * step
        if start + count > self.target.capacity:
            start = 0
        self.next = start + count
        return start

    # Requests ----------------------------------------------------------------------------------------------------

    def send(self, batch: Batch) -> Times:
        """Send a batch and count it."""
        if not self.account.clock_ns:
            # Close together, so that a drift of the clock does not show among them.
            times = self.target.send(probe := _instants())
            self.account.clock_ns = step_ns(times.start_ns)
            self.account.note(self.scenario, probe, times)
        CLOCK_NS.set(self.account.clock_ns)
        times = self.target.send(batch)
        self.account.note(self.scenario, batch, times)
        return times

    def latencies(self, op: int, lba: Any, sectors: Any, *, gap_ns: int | None = None) -> Array:
        """Latencies of requests that are sent one after the other, with idle time between."""
        gap = self.gap_ns if gap_ns is None else gap_ns
        return self.send(Batch.of(op, lba, sectors, gap_ns=gap)).latency_ns

    def reads(self, lba: Any, sectors: Any) -> Array:
        """Latencies of reads, one after the other."""
        return self.latencies(READ, lba, sectors)

    def writes(self, lba: Any, sectors: Any) -> Array:
        """Latencies of writes, one after the other."""
        return self.latencies(WRITE, lba, sectors)

    def durable_writes(self, lba: Any, sectors: Any) -> Array:
        """How long each write takes until it is durable: the write, and a flush after it."""
        first = np.asarray(lba, dtype=np.int64)
        lbas = np.column_stack([first, np.zeros_like(first)]).ravel()
        lengths = np.broadcast_to(np.asarray(sectors, dtype=np.int64), first.shape)
        counts = np.column_stack([lengths, np.zeros_like(first)]).ravel()
        ops = np.tile([WRITE, FLUSH], first.size)
        latency = self.send(Batch.of(ops, lbas, counts, gap_ns=self.gap_ns)).latency_ns
        return latency[0::2] + latency[1::2]

    def trim(self, lba: int, size: int) -> None:
        """Forget a region.

        Raises:
            UndecidedError: The drive has no trim.
        """
        if not self.target.features.get("trim"):
            raise UndecidedError("the drive has no trim")
        self.send(Batch.of(TRIM, [lba], -(-size // SECTOR_BYTES)))

    def fill(self, lba: int, size: int) -> None:
        """Write a region in order, in large requests, and make it durable."""
        count = -(-size // SECTOR_BYTES)
        step = FILL_BYTES // SECTOR_BYTES
        starts = np.arange(0, count, step)
        if self.target.features.get("trim"):
            # What is forgotten need not be copied by a layer that keeps blocks whole.
            self.trim(lba, size)
        self.send(Batch.of(WRITE, lba + starts, np.minimum(step, count - starts)))
        self.send(Batch.of(FLUSH, [0], 0))

    def scrub(self, size: float | None = None) -> None:
        """Push everything out of a buffer: write more than it holds, at the end of the drive.

        Raises:
            UndecidedError: It holds more than half of the drive.
        """
        # What was written last may be kept longer than what was read.
        kept = (self.number(name, 0.0) for name in ("read_buffer_bytes", "buffer_bytes"))
        room = max(kept) if size is None else size
        if not room:
            return
        most = self.capacity_bytes // 2
        if room > most:
            raise UndecidedError("a buffer of more than half of the drive cannot be emptied")
        count = min(int(room * 1.25) + MIB, most) // FILL_BYTES * FILL_BYTES
        self.fill(self.target.capacity - count // SECTOR_BYTES, count)

    def together(self, first: Any, second: Any, sectors: tuple[int, int], *, op: int = READ) -> tuple[Array, Array]:
        """Send pairs of requests, each pair at one instant on an idle drive.

        Returns:
            The latencies of the first of each pair, and of the second.
        """
        one, two = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
        gap = self.idle_ns(op, one)
        lba = np.column_stack([one, two]).ravel()
        length = np.tile(sectors, one.size)
        at = np.repeat(np.arange(one.size) * gap, 2)
        latency = self.send(Batch.of(op, lba, length, at_ns=at)).latency_ns
        return latency[0::2], latency[1::2]

    def idle_ns(self, op: int, lba: Array) -> int:
        """Time between pairs: many times what one request takes, in the state in which the drive is."""
        if not self.gap_ns:
            sample = self.latencies(op, lba[:5], 1, gap_ns=0)
            # A collection or a merge among them must not set it.
            self.gap_ns = int(20 * float(np.median(sample))) + 1_000_000
        return self.gap_ns
