"""Where runs are executed."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from ftlab import _limits as limits
from ftlab import _native
from ftlab._checks import whole
from ftlab.errors import FtlabError
from ftlab.studies.description import Description, Outcome, execute, memory_of

if TYPE_CHECKING:
    from types import TracebackType

# 44 million requests of traces, decoded.
TRACE_MEMORY_BYTES = 1 << 30
# Aged drives: a drive takes 12 bytes for each physical page, 84 MiB for tlc-small.
AGED_MEMORY_BYTES = 1 << 30


class Executor(ABC):
    """Executes runs, somewhere.

    A description is plain data that refers to nothing in this process, and so is an outcome. An executor on other
    machines sends the one, calls :func:`ftlab.studies.execute` there, and returns the other. The files of traces must
    lie at their paths there (their content is checked).
    """

    exclusive = False
    """Whether a study has one driver with it at a time: two would do everything twice, at the cost of others."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many runs go at a time."""

    @property
    def traces(self) -> _native.TraceCache | None:
        """Traces that runs in this process share; ``None`` where runs are in others."""
        return None

    def flush(self) -> None:  # noqa: B027 - most executors begin at once
        """Begin with what was submitted: nothing more comes before something has ended."""

    @abstractmethod
    def submit(self, description: Description) -> Future[Outcome]:
        """Take a run on.

        Its errors are part of its outcome; the future raises only when the executor itself fails, or ``CancelledError``
        when it was closed before the run was done.
        """

    @abstractmethod
    def close(self) -> None:
        """Cancel what has not ended, and wait until nothing is under way."""

    def under_way(self) -> float:
        """The work done in runs that are under way, in runs: 0.7 and 0.2 of two runs are 0.9. 0 when not known."""
        return 0.0

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


class _Room:
    """Memory that runs beside each other share."""

    def __init__(self, limit: int | None) -> None:
        self._limit, self._used = limit, 0
        self._change = threading.Condition()

    def enter(self, needed: int, stopping: threading.Event) -> bool:
        """Wait for room. False when it is no longer wanted."""
        with self._change:
            # A run that needs more than there is goes alone, and says so itself.
            while self._limit is not None and self._used and self._used + needed > self._limit:
                if stopping.is_set():
                    return False
                self._change.wait(0.1)
            self._used += needed
        return not stopping.is_set()

    def leave(self, needed: int) -> None:
        with self._change:
            self._used -= needed
            self._change.notify_all()


class ThreadExecutor(Executor):
    """Runs on threads of this process: a simulation needs no interpreter.

    Each run keeps to one thread. Traces are decoded once for all runs that read them. Runs that differ only in what the
    host does and in the write buffer share the ageing of a plain page-mapped drive. No more runs go at a time than
    there is memory for.
    """

    def __init__(self, jobs: int | None = None, trace_memory_bytes: int = TRACE_MEMORY_BYTES) -> None:
        """Start no thread yet.

        Args:
            jobs: Runs at a time. Default: one for every core that this process may use.
            trace_memory_bytes: Memory for decoded traces (24 bytes a request). What does not fit is decoded by each run
                for itself.
        """
        self._slots = limits.cores() if jobs is None else whole("jobs", jobs, 1)
        self._pool = ThreadPoolExecutor(self._slots, thread_name_prefix="ftlab-study")
        self._traces = _native.TraceCache.of(whole("trace_memory_bytes", trace_memory_bytes))
        self._stopping = threading.Event()
        limit = limits.least()
        # A tenth of what there is at most: drives that are kept are a gain of time, not a need.
        kept = AGED_MEMORY_BYTES if limit is None else min(AGED_MEMORY_BYTES, limit.bytes // 10)
        self.aged = _native.AgedDrives.of(kept)
        self._room = _Room(None if limit is None else max(0, limit.bytes - trace_memory_bytes - kept))
        self._going: set[_native.RunControl] = set()

    @property
    def slots(self) -> int:
        """How many runs go at a time."""
        return self._slots

    @property
    def traces(self) -> _native.TraceCache:
        """Traces that its runs share."""
        return self._traces

    def submit(self, description: Description) -> Future[Outcome]:
        """Take a run on."""
        return self._pool.submit(self._run, description)

    def _run(self, description: Description) -> Outcome:
        try:
            needed = memory_of(description)
        except FtlabError:
            # Executing it says what is wrong with it.
            needed = 0
        if not self._room.enter(needed, self._stopping):
            raise CancelledError
        control = _native.RunControl.of()
        self._going.add(control)
        try:
            if self._stopping.is_set():
                # It was set before the control was there to be stopped.
                raise CancelledError
            return execute(description, self._traces, aged=self.aged, control=control)
        except KeyboardInterrupt:
            raise CancelledError from None
        finally:
            self._going.discard(control)
            self._room.leave(needed)

    def under_way(self) -> float:
        """The work done in runs that are under way, in runs."""
        return sum(control.fraction or 0.0 for control in list(self._going))

    def close(self) -> None:
        """Cancel what has not ended, and wait until nothing is under way."""
        self._stopping.set()
        for control in list(self._going):
            control.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
