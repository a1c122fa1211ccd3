"""Driving a study: what is missing is run, everything else is there already."""

from __future__ import annotations

import collections
import contextlib
import re
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ftlab import _aged as aged
from ftlab._checks import checked, whole_or_none
from ftlab._progress import progress_bar
from ftlab._signals import import_whole
from ftlab.errors import ConfigError, Interrupted, interruptible
from ftlab.studies.description import SETTLED_ERRORS, Contents, Outcome
from ftlab.studies.executor import TRACE_MEMORY_BYTES, Executor, ThreadExecutor
from ftlab.studies.spec import Study
from ftlab.studies.store import Record, Store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Future

    import polars as pl

    from ftlab._progress import Progress as Tell
    from ftlab.studies.spec import Run

# Between two looks at progress, and from the end of a run to its place in the store.
_TICK_SECONDS = 0.2
# Runs handed out beyond those that go: an executor never waits for this thread to write.
_AHEAD = 8
# Finished runs that lie alone before they are put into a table while a study goes on.
_LOOSE_RUNS = 2000


@dataclass(frozen=True)
class Part:
    """One of several parts of a study, for processes that share its work and its store.

    Which runs it has follows from their keys alone. Parts of one study have every run once, and about as many each.

    Attributes:
        number: Which part it is, from 1.
        of: How many there are.

    Raises:
        ConfigError: There is no such part.
    """

    number: int
    of: int

    def __post_init__(self) -> None:
        """Check."""
        if not 1 <= self.number <= self.of:
            raise ConfigError(f"part {self.number}/{self.of}: expected K/N with K from 1 to N, such as 1/4")

    @classmethod
    def parse(cls, text: str) -> Part:
        """Read a part as it is written, such as ``1/4``.

        Raises:
            ConfigError: It is none.
        """
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        if found is None:
            raise ConfigError(f"part {text[:40]}: expected K/N with K from 1 to N, such as 1/4")
        return cls(int(found[1]), int(found[2]))

    def has(self, key: str) -> bool:
        """Whether a run is in this part."""
        return int(key[:16], 16) % self.of == self.number - 1


class Watch:
    """Hears how a study goes on; every method may be left as it is."""

    def begin(self, study: Study, runs: list[Run], found: Mapping[str, Record]) -> None:
        """Runs are known, and what the store has of them."""

    def finished(self, run: Run, record: Record) -> None:
        """A run ended, and is in the store."""

    def tick(self, under_way: float) -> None:
        """Time passes; so much work is done in runs under way, in runs."""


class _Bar(Watch):
    """A bar of the runs that have ended."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._total, self._ended = 1, 0

    def begin(self, study: Study, runs: list[Run], found: Mapping[str, Record]) -> None:  # noqa: ARG002 - as Watch
        self._total = max(1, len({run.key for run in runs if run.description is not None}))
        self._ended = len(found)

    def finished(self, run: Run, record: Record) -> None:  # noqa: ARG002 - as Watch
        self._ended += 1

    def tick(self, under_way: float) -> None:
        self._tell("", min(1.0, (self._ended + under_way) / self._total), self._ended)


@contextlib.contextmanager
def watching(watch: Watch | Literal[False] | None, name: str) -> Iterator[Watch | None]:
    """Give who hears how a study goes: the caller's, nobody, or a bar where somebody sees it."""
    if watch is not None:
        yield watch or None
        return
    with progress_bar(name, "runs") as tell:
        yield None if tell is None else _Bar(tell)


@dataclass(frozen=True)
class Progress:
    """What became of a study.

    Attributes:
        runs: Its runs, or those of the part, in the order of the table.
        executed: How many were executed now.
        records: Finished runs by key.
    """

    runs: list[Run]
    executed: int
    records: dict[str, Record]

    @property
    def errors(self) -> list[tuple[Run, str]]:
        """The runs that failed, and why."""
        found = []
        for run in self.runs:
            record = self.records.get(run.key)
            error = run.error or (record.error if record is not None else None)
            if error is not None:
                found.append((run, error))
        return found


def _settled(record: Record | None, *, retry: bool) -> bool:
    """Whether a run need not be run again."""
    if record is None:
        return False
    return record.status == "done" or (not retry and record.error_kind in SETTLED_ERRORS)


def run_study(
    study: Study,
    store: Store,
    *,
    executor: Executor | None = None,
    jobs: int | None = None,
    trace_memory_bytes: int = TRACE_MEMORY_BYTES,
    retry: bool = False,
    part: Part | None = None,
    watch: Watch | None = None,
) -> Progress:
    """Run what is missing of a study.

    Each run is in the store a fifth of a second after it has ended. After Ctrl-C, a crash or a kill, running the study
    again goes on with what is missing. An error of a run is recorded as its result.

    Args:
        study: The study.
        store: Where results are, and go.
        executor: Where runs are executed; stays open, unless the study is interrupted. Default: threads of this
            process.
        jobs: Runs at a time, without an executor. Default: one for every core.
        trace_memory_bytes: Memory for decoded traces, without an executor.
        retry: Execute runs again that ended with an error.
        part: Look at the runs of this part only; others may be run by other processes at the same time, into the same
            store. Default: all.
        watch: Hears how it goes.

    Raises:
        ConfigError: The study or an argument is wrong.
        InputError: A trace cannot be read.
        KeyboardInterrupt: Ctrl-C; what had ended is in the store.
    """
    whole_or_none("jobs", jobs, 1)
    mine = executor is None
    engine = executor or ThreadExecutor(jobs, trace_memory_bytes)
    try:
        name = study.name if part is None else f"{study.name}.{part.number}-{part.of}"
        with store.claim(name) if engine.exclusive else contextlib.nullcontext():
            return _run(study, store, engine, watch or Watch(), retry=retry, part=part)
    finally:
        if mine:
            engine.close()


def _run(study: Study, store: Store, engine: Executor, watch: Watch, *, retry: bool, part: Part | None) -> Progress:
    # A limit that is no size is told before the first run, and not by every run.
    aged.files()
    runs = study.runs(Contents(store.files, engine.traces))
    store.save_study(study.record(runs))
    if part is not None:
        # What cannot be described has no key: every part tells of it.
        runs = [run for run in runs if run.description is None or part.has(run.key)]
    records = store.records({run.key for run in runs}, read_series=True)
    todo: dict[str, Run] = {}
    for run in runs:
        if run.description is not None and not _settled(records.get(run.key), retry=retry):
            todo.setdefault(run.key, run)
            records.pop(run.key, None)
    watch.begin(study, runs, records)
    if todo:
        # Runs of one trace follow each other, so that few traces are in memory at a time.
        order = sorted(todo.values(), key=_trace_of)
        try:
            _drive(order, store, engine, records, watch)
        finally:
            store.compact()
    return Progress(runs, len(todo), records)


def _trace_of(run: Run) -> str:
    trace = None if run.description is None else run.description["trace"]
    return "" if trace is None else str(trace[0]["path"])


class _Going:
    """Runs that an executor has."""

    def __init__(self, store: Store, engine: Executor, records: dict[str, Record], watch: Watch) -> None:
        self._store, self._engine, self._records, self._watch = store, engine, records, watch
        self._runs: dict[Future[Outcome], Run] = {}
        # Those that ended: looking at all of them would take longer than short runs.
        self._done: collections.deque[Future[Outcome]] = collections.deque()
        # To wake this thread for each of them would take as long as a short run: it sleeps until so many have ended.
        self._worth_waking = 1
        self._woken = threading.Event()
        # Those of them that are not in the store yet, and since when.
        self._ended: list[tuple[Run, Outcome]] = []
        self._since = 0.0
        self._loose = 0

    def submit(self, run: Run) -> None:
        future = self._engine.submit(run.description or {})
        self._runs[future] = run
        future.add_done_callback(self._ends)

    def _ends(self, future: Future[Outcome]) -> None:
        self._done.append(future)
        if len(self._done) >= self._worth_waking:
            self._woken.set()

    def __len__(self) -> int:
        return len(self._runs)

    def enter(self) -> None:
        """Wait a moment, and take what ended meanwhile."""
        self._engine.flush()
        # What was handed out ahead is under way meanwhile.
        self._worth_waking = min(len(self._runs), max(1, _AHEAD // 2))
        woken = len(self._done) >= self._worth_waking or self._woken.wait(_TICK_SECONDS)
        self._woken.clear()
        # As many as are there now: others end while these are taken.
        for _ in range(len(self._done)):
            self._take(self._done.popleft())
        if self._ended and (not woken or time.monotonic() - self._since > _TICK_SECONDS):
            self.keep()
        self._watch.tick(self._engine.under_way())

    def _take(self, future: Future[Outcome]) -> None:
        if not self._ended:
            self._since = time.monotonic()
        self._ended.append((self._runs[future], future.result()))
        # Only now: an interruption between the two takes it once more.
        del self._runs[future]

    def keep(self) -> None:
        """Put what ended into the store. A file for each run would take longer than short runs."""
        ended = self._ended
        if not ended:
            return
        records = self._store.put_all([(run.description or {}, run.key, outcome) for run, outcome in ended])
        self._ended = []
        for (run, _), record in zip(ended, records, strict=True):
            self._records[run.key] = record
            self._watch.finished(run, record)
        self._loose += len(ended)
        if self._loose >= _LOOSE_RUNS:
            self._loose = 0
            self._store.compact()

    def abandon(self) -> None:
        """End what is under way; what ended meanwhile is not lost."""
        for future in self._runs:
            future.cancel()
        self._engine.close()
        for future in list(self._runs):
            if not future.cancelled() and future.exception() is None:
                self._take(future)
        self.keep()


def _drive(order: list[Run], store: Store, engine: Executor, records: dict[str, Record], watch: Watch) -> None:
    waiting = iter(order)
    going = _Going(store, engine, records, watch)
    try:
        while True:
            while len(going) < engine.slots + _AHEAD and (run := next(waiting, None)) is not None:
                going.submit(run)
            if not len(going):
                going.keep()
                return
            going.enter()
    except BaseException:
        going.abandon()
        raise


@interruptible()
@checked
def study(
    spec: Study | Mapping[str, Any] | str | os.PathLike[str],
    *,
    out: Store | str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    retry: bool = False,
    part: Part | None = None,
    watch: Watch | Literal[False] | None = None,
) -> pl.DataFrame:
    """Run a study and give its tidy table, one row a run.

    Columns: the axes, ``seed``, ``status`` (``done`` or ``error``), ``error``, ``key``, and the summary document by
    dotted key, such as ``write_amplification.total``. Rows are in the order of the grid: the last axis varies fastest,
    and seeds faster. The table does not depend on the number of jobs.

    Args:
        spec: A study, a dictionary, or the path of a study file (``docs/reference/studies.md``).
        out: Where results are kept, so that no run is ever run twice: a store, or its directory. Default: nowhere.
        jobs: Runs at a time. Default: one for every core.
        executor: Where runs are executed. Default: threads of this process.
        retry: Execute runs again that ended with an error.
        part: Run this part only. The table has all runs, those of others as far as the store has them.
        watch: Hears how it goes. Default: a bar, as for :func:`ftlab.run`; ``False`` for none.

    Raises:
        ConfigError: The study is wrong.
        InputError: A trace cannot be read.
        Interrupted: Ctrl-C, a ``KeyboardInterrupt``. Its ``result`` is the table with what had ended, which is also in
            the store.
    """
    # Now, and not while runs go on.
    import_whole("polars")
    if isinstance(spec, Study):
        described = spec
    else:
        from collections.abc import Mapping

        described = Study(spec) if isinstance(spec, Mapping) else Study.load(spec)
    if out is None:
        with tempfile.TemporaryDirectory(prefix="ftlab-") as folder:
            return study(described, out=folder, jobs=jobs, executor=executor, retry=retry, part=part, watch=watch)
    store = out if isinstance(out, Store) else Store(out)
    try:
        with watching(watch, described.name) as heard:
            run_study(described, store, executor=executor, jobs=jobs, retry=retry, part=part, watch=heard)
    except KeyboardInterrupt:
        # Before the first run there is nothing to tell.
        if described.name not in store.studies():
            raise
        raise Interrupted(store.frame(described.name)) from None
    return store.frame(described.name)
