"""A drive that is fed while it runs: requests one by one or by the table, and copies of it at any moment."""

from __future__ import annotations

import json
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ftlab import _native
from ftlab._checks import checked, is_bool, shown, whole, whole_or_none
from ftlab._device import Device
from ftlab._running import check_memory, source_for
from ftlab._tables import OPERATIONS
from ftlab.errors import InputError, RunError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import polars as pl

# The most that the engine can hold of each.
_SECTORS, _STREAM, _DEPTH = 2**32 - 1, 2**16 - 1, 2**32


class Completion(NamedTuple):
    """A request that has completed.

    Attributes:
        id: Its number in the session, from 0.
        op: ``"read"``, ``"write"``, ``"trim"`` or ``"flush"``.
        lba: First sector of 512 bytes, as the drive took it.
        sectors: Sectors.
        stream: Write stream.
        arrival_ns: When it arrived at the host.
        start_ns: When the drive took it.
        end_ns: When it had completed.
        fua: Whether it was a write that had to be durable before it completed (force unit access).
    """

    id: int
    op: str
    lba: int
    sectors: int
    stream: int
    arrival_ns: float
    start_ns: float
    end_ns: float
    fua: bool = False

    @property
    def latency_ns(self) -> float:
        """From hand-over to the drive until completion."""
        return self.end_ns - self.start_ns


def _completion(row: tuple[int, int, int, int, int, float, float, float, bool]) -> Completion:
    return Completion(row[0], OPERATIONS[row[1]], *row[2:])


def _frame(columns: Mapping[str, tuple[str, bytes]]) -> pl.DataFrame:
    import polars as pl

    arrays = {name: np.frombuffer(data, dtype=kind) for name, (kind, data) in columns.items()}
    return pl.DataFrame(arrays | {"op": pl.Series(OPERATIONS).gather(arrays["op"])})


class Session:
    """A drive that stands still between calls.

    The same requests at the same times complete at the same times as in a run, to the picosecond. Of the keys of
    ``host``, a session heeds ``overhead_us``, the link, ``out_of_range`` and, with open arrivals, ``outstanding``. When
    requests come is up to the caller. A call that is refused changes nothing. One thread at a time may use a session.

    >>> session = Session(Device.load("ideal-page").set("precondition.kind=none"))
    >>> first = session.submit("write", 0, 8)
    >>> session.wait(first).latency_ns
    302400.0
    >>> session.send({"op": ["read"] * 3, "lba": [0, 8, 0], "sectors": [8, 8, 8]})["latency_ns"].to_list()
    [127400, 0, 127400]
    """

    @checked
    def __init__(self, device: Device | str | os.PathLike[str], *, seed: int = 1, verify: bool = False) -> None:
        """Put a drive together and precondition it.

        Args:
            device: A device, a preset's name, or the path of a device file.
            seed: Seed of every random choice of the drive.
            verify: Keep a version of every sector and check every read against it.

        Raises:
            ConfigError: The device is refused, has no clock (``model = "mapping_cache"``), or is preconditioned by a
                workload.
            RunError: The drive filled up while it was preconditioned.
        """
        if not isinstance(device, Device):
            device = Device.load(device)
        seed = whole("seed", seed)
        check_memory(device, verify=verify)
        self.device = device
        self._summary: dict[str, Any] | None = None
        self._native = _native.Session(device._native, seed, verify)  # noqa: SLF001 - one package

    @property
    def now_ns(self) -> float:
        """The present in nanoseconds, exact to the picosecond for the first hundred days.

        Raises:
            SessionError: The session is closed.
        """
        return self._native.now_ns

    @property
    def outstanding(self) -> int:
        """Requests that were submitted and whose completion was not returned."""
        return self._native.outstanding

    @property
    def sectors(self) -> int:
        """Sectors of 512 bytes that the host sees."""
        return self._native.sectors

    @property
    def summary(self) -> dict[str, Any]:
        """The summary document (schema 1, see ``docs/reference/summary.md``) of what has happened so far.

        Requests that are outstanding count as unfinished. Of a closed session, it is the last one.
        """
        if self._summary is not None:
            return self._summary
        document: dict[str, Any] = json.loads(self._native.outcome()[0])
        return document

    def submit(
        self,
        op: str,
        lba: int = 0,
        sectors: int = 0,
        *,
        stream: int = 0,
        fua: bool = False,
        at_ns: int | None = None,
    ) -> int:
        """Send one request, and let no time pass.

        Args:
            op: ``"read"``, ``"write"``, ``"trim"`` or ``"flush"``; a flush has no address.
            lba: First sector of 512 bytes.
            sectors: Length in sectors.
            stream: Write stream.
            fua: The write must be durable before it completes (force unit access).
            at_ns: When it arrives: not before the present, nor before the one submitted last. Default: now, before
                anything else happens.

        Returns:
            Its id. Ids count from 0.

        Raises:
            SessionError: The time has passed, the request is beyond the drive or empty, or the session is closed.
            RunError: The drive has failed before.
        """
        if op not in OPERATIONS:
            raise InputError(f"op = {shown(op)}: expected one of {', '.join(OPERATIONS)}")
        # Not by `checked`: this is called for each request.
        if fua is not True and fua is not False and not is_bool(fua):
            raise InputError(f"fua = {shown(fua)}: expected True or False")
        at = whole_or_none("at_ns", at_ns)
        lba, sectors = whole("lba", lba), whole("sectors", sectors, 0, _SECTORS)
        stream = whole("stream", stream, 0, _STREAM)
        return self._native.submit(OPERATIONS.index(op), lba, sectors, stream, bool(fua), at)

    def next_event(self) -> Completion | None:
        """Let time pass until the next request has completed.

        Returns:
            Its completion; ``None`` when none is outstanding, and then time stands still.

        Raises:
            SessionError: The session is closed.
            RunError: The drive has failed, and all completions of what it had begun were returned.
        """
        row = self._native.next_event()
        return None if row is None else _completion(row)

    def wait(self, id: int) -> Completion:
        """Let time pass until one request has completed. The next calls return other completions.

        Raises:
            SessionError: There is no such request, its completion was returned already, or the session is closed.
            RunError: The drive has failed.
        """
        return _completion(self._native.wait(whole("id", id)))

    def advance(self, until_ns: int | None = None) -> pl.DataFrame:
        """Let everything happen before ``until_ns``, which becomes the present.

        What ends at ``until_ns`` itself comes with the next call: requests may arrive then that go first.

        Args:
            until_ns: Nanoseconds since the start. Default: until nothing is left to happen, background work included.

        Returns:
            The completions in order, with the columns of :meth:`send`.

        Raises:
            SessionError: The time has passed, or the session is closed.
            RunError: The drive has failed, and all completions of what it had begun were returned.
        """
        return _frame(self._native.advance(whole_or_none("until_ns", until_ns)))

    def send(self, table: Any, *, queue_depth: int | None = 1, gap_ns: int = 0) -> pl.DataFrame:
        """Send many requests from now on, and let time pass until they have completed.

        Args:
            table: What :func:`ftlab.run` takes: a table with the columns ``op``, ``lba``, ``sectors``, and optionally
                ``stream``, ``fua`` and ``arrival_ns``; a trace; or a workload.
            queue_depth: How many of them are outstanding: each completion brings the next one. ``None``: they arrive at
                their own times ``arrival_ns``, counted from now and scaled by ``host.time_scale``.
            gap_ns: Time between a completion and the arrival that it brings.

        Returns:
            A row for every request in order of completion: ``id``, ``arrival_ns``, ``start_ns``, ``end_ns``,
            ``latency_ns``, ``op``, ``lba``, ``sectors``, ``stream``, ``fua``. Times are rounded to nanoseconds.

        Raises:
            SessionError: A request is empty, or beyond the drive and not clipped, or its time is before another one's:
                nothing was sent. Or the session is closed.
            InputError: The table cannot be read.
            ConfigError: An option is refused.
            RunError: The drive has failed. The next call of :meth:`advance` returns what had completed.
            KeyboardInterrupt: Ctrl-C. What was sent has completed, and is returned in the same way.
        """
        depth = whole_or_none("queue_depth", queue_depth, 1, _DEPTH)
        gap = whole("gap_ns", gap_ns)
        return _frame(self._native.send(source_for(self.device, table, None, None), depth, gap))

    def send_together(self, table: Any, count: int, *, gap_ns: int = 0) -> pl.DataFrame:
        """Send many requests in groups: all of a group arrive at one instant.

        >>> pair = {"op": ["read"] * 2, "lba": [0, 8], "sectors": [8, 8]}
        >>> session = Session(Device.load("femu-bb").set("geometry.blocks_per_plane=80", "ftl.logical_bytes=1GiB"))
        >>> session.send_together(pair, 2)["arrival_ns"].to_list()
        [0, 0]

        Args:
            table: As for :meth:`send`.
            count: Requests of a group; the last one may have fewer.
            gap_ns: Time between the completion of the last request of a group and the arrival of the next group.

        Returns:
            As :meth:`send`.

        Raises:
            SessionError: As :meth:`send`.
            InputError: The table cannot be read.
            ConfigError: An option is refused.
            RunError: As :meth:`send`.
            KeyboardInterrupt: As :meth:`send`.
        """
        count, gap = whole("count", count, 1, _DEPTH), whole("gap_ns", gap_ns)
        return _frame(self._native.send_together(source_for(self.device, table, None, None), count, gap))

    def idle(self, span_ns: int) -> pl.DataFrame:
        """Send nothing for a time. What the drive does meanwhile happens.

        Args:
            span_ns: Nanoseconds from the present on.

        Returns:
            The completions of that time, as :meth:`advance`.

        Raises:
            SessionError: The session is closed, or the time too long.
            RunError: The drive has failed, and all completions of what it had begun were returned.
        """
        return _frame(self._native.idle(whole("span_ns", span_ns)))

    def flush(self) -> Completion:
        """Send a flush now, and let time pass until it has completed.

        Raises:
            SessionError: The session is closed.
            RunError: The drive has failed.
        """
        return _completion(self._native.serve(OPERATIONS.index("flush"), 0, 0))

    def trim(self, lba: int, sectors: int) -> Completion:
        """Trim sectors now, and let time pass until that has completed.

        Args:
            lba: First sector of 512 bytes.
            sectors: Length in sectors.

        Raises:
            SessionError: The request is beyond the drive or empty, or the session is closed.
            RunError: The drive has failed.
        """
        lba, sectors = whole("lba", lba), whole("sectors", sectors, 0, _SECTORS)
        return _completion(self._native.serve(OPERATIONS.index("trim"), lba, sectors))

    def fork(self) -> Self:
        """Copy the drive in its state, with its clock and its outstanding requests.

        What is done to one session does nothing to the other; the same calls give the same completions.

        Raises:
            SessionError: The session is closed.
        """
        fork = copy(self)
        fork._native = self._native.fork()  # noqa: SLF001 - of its own kind
        return fork

    def close(self) -> dict[str, Any]:
        """Let everything happen that was submitted, and end the session.

        Returns:
            The summary document.

        Raises:
            SessionError: The session is closed already.
            RunError: The drive had failed. The session is closed all the same, and keeps its summary.
        """
        document, failure = self._native.close()
        summary: dict[str, Any] = json.loads(document)
        self._summary = summary
        if failure is not None:
            raise RunError(failure)
        return summary

    def __enter__(self) -> Self:
        """Close the session at the end of the block."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Close the session, unless that was done."""
        if self._summary is None and kind is None:
            self.close()
