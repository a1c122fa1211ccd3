"""A real drive as a target: a Linux file or block device, past the page cache."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from ftlab import _native
from ftlab._checks import whole
from ftlab.characterize.target import FLUSH, TRIM, Batch, Times
from ftlab.errors import ConfigError, RunError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

# What an address of a file begins with: without it, a path is the description of a simulated drive.
_FILE = "file:"
_MIB = 1 << 20
# The native module has a byte for an operation, and refuses what is none.
_NO_OPERATION = 255


class TargetError(RunError):
    """A real drive failed in the middle of a batch.

    It has vanished, has answered with an error, or has returned other data than were written. Or the clock went
    backwards.

    Attributes:
        times: When the requests of the batch began and ended; what did not complete is not a number.
        done: Which requests completed.
    """

    def __init__(self, message: str, times: Times, done: npt.NDArray[np.bool_]) -> None:
        """Keep what was measured."""
        super().__init__(message)
        self.times, self.done = times, done


class BlockTarget:
    """A file or a block device, whose data are destroyed by being measured.

    Nobody else can have it until it is closed. Times are nanoseconds since it was opened, on the monotonic clock.

    Attributes:
        name: The path.
        capacity: Sectors of 512 bytes.
        features: What the system says of the drive, as it was when it was opened. Nothing of it is changed.
            ``kind`` is ``"file"`` or ``"block"``. Addresses and lengths are multiples of ``unit_sectors``.
            ``warnings`` has sentences about what else is in the measured times.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        destroy: str | os.PathLike[str] | None,
        seed: int = 1,
        verify: bool = True,
        wait: str = "spin",
        least_bytes: int = _MIB,
        buffer_bytes: int = 64 * _MIB,
    ) -> None:
        """Open a drive for this program alone.

        Args:
            path: A block device or a regular file.
            destroy: The path again, exactly as it is given: consent to the loss of its data.
            seed: Seed of what is written.
            verify: Compare what is read with what was written last, after each batch.
            wait: How ends of requests are waited for: ``"spin"`` takes a core, ``"sleep"`` adds what waking takes.
            least_bytes: The smallest drive that will do.
            buffer_bytes: Memory for what requests carry. Larger batches go in parts, with a pause between them.

        Raises:
            ConfigError: The drive is refused: not named by ``destroy``, mounted, in use, partitioned, read-only, too
                small, or without a way past the page cache. Or this system has no ``io_uring``.
        """
        self.name = os.fspath(path)
        self._native = _native.BlockDevice(
            self.name,
            None if destroy is None else os.fspath(destroy),
            seed=whole("seed", seed),
            verify=verify,
            wait=wait,
            least_bytes=whole("least_bytes", least_bytes),
            buffer_bytes=whole("buffer_bytes", buffer_bytes, 1),
        )
        self.capacity = self._native.sectors
        self.features: Mapping[str, Any] = {
            **self._native.facts(),
            "unit_sectors": self._native.unit_sectors,
            "flush": True,
            "trim": self._native.can_trim,
            "fork": False,
        }

    @property
    def verified_sectors(self) -> int:
        """Sectors read so far that had to hold what was written last, and did."""
        return self._native.proofs[0]

    @property
    def unknown_sectors(self) -> int:
        """Sectors read so far of which nothing is known: never written, trimmed, or written at the time of the read."""
        return self._native.proofs[1]

    @property
    def device_counts(self) -> dict[str, int] | None:
        """What the system has counted of a block device, for everybody; ``None`` for a file.

        ``reads``, ``merged_reads``, ``read_sectors``, and the same of writes. They show whether the system merged or
        cut requests, and whether somebody else used the drive.
        """
        return self._native.device_counts

    def cached_bytes(self, lba: int, sectors: int) -> int:
        """Bytes of these sectors that lie in the page cache of the system: 0, or requests did not reach the drive."""
        return self._native.cached_bytes(whole("lba", lba), whole("sectors", sectors))

    def send(self, batch: Batch) -> Times:
        """Send requests, and wait until all have completed.

        Those of one instant go to the system in one call. Trims and flushes wait for what is outstanding, and what
        follows waits for them.

        Raises:
            InputError: A request is beyond the drive, not aligned, or larger than memory. Nothing was sent then.
            TargetError: The drive failed; what was measured by then is in it.
        """
        at_ns = None if batch.at_ns is None else batch.at_ns.astype("<u8").tobytes()
        op = np.minimum(batch.op, _NO_OPERATION).astype(np.uint8)
        lba, sectors = (column.astype("<u8").tobytes() for column in (batch.lba, batch.sectors))
        depth = min(batch.queue_depth, 2**32 - 1)
        start, end, done, why = self._native.send(op.tobytes(), lba, sectors, at_ns, depth, batch.gap_ns)
        times = [np.frombuffer(column, dtype="<u8").astype(float) for column in (start, end)]
        if why is not None:
            completed = np.frombuffer(done, dtype=np.bool_)
            for column in times:
                column[~completed] = np.nan
            raise TargetError(f"{self.name}: {why}", Times(*times), completed)
        return Times(*times)

    def idle(self, ns: int) -> None:
        """Send nothing for a while."""
        self._native.idle(whole("ns", ns))

    def flush(self) -> float:
        """Make durable what was written; gives the time that it took in nanoseconds."""
        return float(self.send(Batch.of(FLUSH, [0], 0)).latency_ns[0])

    def trim(self, lba: int, sectors: int) -> float:
        """Forget sectors; gives the time that it took in nanoseconds.

        Raises:
            InputError: The drive has no trim, or not there.
        """
        return float(self.send(Batch.of(TRIM, [lba], sectors)).latency_ns[0])

    def close(self) -> None:
        """Give the drive back to others. Every other call is refused from then on."""
        self._native.close()

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def fork(self) -> NoReturn:
        """Refuse: a real drive cannot be copied.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(f"{self.name}: a real drive cannot be copied in its state")


def open_block(address: str, *, destroy: str | None = None) -> BlockTarget:
    """Open the path of a block device, or of a file behind ``file:``.

    Args:
        address: The address.
        destroy: The address again, exactly as it is given.

    Raises:
        ConfigError: As for :class:`BlockTarget`.
    """
    if destroy != address:
        found = "nothing" if destroy is None else f'"{destroy}"'
        raise ConfigError(
            f'--destroy-data-on: found {found}, expected "{address}": measuring writes to it and destroys what it holds'
        )
    path = address.removeprefix(_FILE)
    return BlockTarget(path, destroy=path)
