"""Crash tests: the power is cut in the middle of a run, and what comes back is held against what was promised."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ftlab import _limits as limits
from ftlab import _native
from ftlab import _outputs as outputs
from ftlab._checks import checked, shown, whole, whole_or_none
from ftlab._device import Device
from ftlab._progress import Progress, Wanted, wanted
from ftlab._result import inputs_of, repeated_by
from ftlab._rows import as_html, as_text
from ftlab._running import check_memory, memory_bytes, source_for
from ftlab._units import bytes_text, count_text, time_text
from ftlab._workload import Trace, Workload, named
from ftlab.errors import ConfigError, InputError, Interrupted, interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import polars as pl

REQUESTS = 2_000
"""Requests of a crash test that states no number."""

IS_FOUND = "a completed write is found"
IS_OWN = "only what was written to a sector is found in it"
IS_WHOLE = "what was under way is there as a whole or not at all"
STAYS_TRIMMED = "what was promised to be trimmed stays so"
GOES_ON = "the drive can be mounted and goes on"
_GUARANTEES = {"lost": IS_FOUND, "foreign": IS_OWN, "torn": IS_WHOLE, "returned": STAYS_TRIMMED}

# Mounts that are run with a clock: as many as give a mean, and few enough to take no time beside the cuts.
_TIMED = 32
# Flash of a worker: as it moves on, as it is cut, and with what the mount makes of it.
_COPIES = 3
_MOST_NESTED = 2**32 - 1

_Columns = dict[str, list[Any]]
_Losses = list[tuple[int, str, int, int, int, int, "int | None"]]


def flushes_trims(device: Device) -> bool:
    """Whether a flush promises the trims before it."""
    return bool(device.to_dict()["power"]["trim"] == "flush")


def keeps_trims(device: Device) -> bool:
    """Whether a trim is promised when it has completed: a non-volatile cache keeps it."""
    cache = device.to_dict()["nvm"]
    return bool(cache.get("kind", "none") != "none" and cache.get("bytes", 0) > 0)


@dataclass(frozen=True)
class CrashCase:
    """A cut that was not survived, with all that does it again.

    Attributes:
        device: The drive.
        workload: Its requests: a trace, a workload or a table.
        seed: The seed, as it was stated.
        requests: The number of requests, as it was stated.
        at: ``"command"`` or ``"time"``.
        point: At which point of the run the power is cut.
        nested_at: At which command of the mount it is cut again; ``None`` when it is not.
        violations: What was found, and what had been promised, as in the summary.
    """

    device: Device = field(repr=False)
    workload: Any = field(repr=False)
    seed: int | None
    requests: int | None
    at: Literal["command", "time"]
    point: int
    nested_at: int | None
    violations: tuple[dict[str, Any], ...] = field(compare=False)

    def options(self) -> dict[str, Any]:
        """Give the arguments of :func:`ftlab.crash` that do this cut alone, beside device and workload."""
        return {name: getattr(self, name) for name in ("seed", "requests", "at", "point", "nested_at")}


class CrashResult:
    """What power cuts did to a drive.

    Attributes:
        device: The device that was tested.
        workload: The workload that was run: a trace, a workload, or a table.
        summary: The numbers of all cuts, and what each violated (``docs/reference/commands/crash.md``).
        interrupted: Whether Ctrl-C ended the test. Then the numbers are those of the cuts that were examined.
    """

    @checked
    def __init__(
        self,
        *,
        device: Device,
        workload: Any,
        recording: _native.CrashRecording,
        options: Mapping[str, Any],
        columns: _Columns,
        losses: _Losses,
        mount_ns: Sequence[int],
        interrupted: bool,
    ) -> None:
        """Made by :func:`ftlab.crash`."""
        self.device = device
        self.workload = workload
        self.interrupted = interrupted
        self._recording = recording
        self._options = dict(options)
        self._columns = columns
        self._violations = _violations(columns, losses)
        self.summary: dict[str, Any] = self._summed(mount_ns)

    def _summed(self, mount_ns: Sequence[int]) -> dict[str, Any]:
        run, columns = json.loads(self._recording.summary_json), self._columns
        commands = ("reads", "programs", "erases", "copybacks")
        lost, foreign = columns["lost_sectors"], columns["foreign_sectors"]
        older = [all_of - own for all_of, own in zip(lost, foreign, strict=True)]
        returned, torn = columns["returned_sectors"], columns["torn_writes"]
        promises_trims = flushes_trims(self.device) or keeps_trims(self.device)
        trims = {"guarantee": STAYS_TRIMMED, "cuts": sum(map(bool, returned)), "sectors": sum(returned)}
        failed = sum(text is not None for text in columns["failure"])
        mounts = zip(columns["mount_reads"], columns["mount_programs"], columns["mount_erases"], strict=True)
        return {
            "device": self.device.name,
            "workload": self._options["name"],
            "seed": 1 if self._options["seed"] is None else self._options["seed"],
            "at": self._options["at"],
            "requests": run["host"]["completed"],
            "commands": sum(run["flash"][each]["total"] for each in commands),
            "points": self._recording.points,
            "cuts": len(lost),
            "nested": self._options["nested"],
            "nested_cuts": sum(each is not None for each in columns["nested_at"]),
            "lost_cuts": sum(any(each) for each in zip(lost, returned, torn, strict=True)),
            "failed_cuts": failed,
            "lost_pages": sum(columns["lost_pages"]),
            "lost_sectors": sum(lost),
            "torn_writes": sum(torn),
            "returned_sectors": sum(returned),
            "untrimmed_sectors": sum(columns["untrimmed_sectors"]),
            "untrimmed_older_sectors": sum(columns["untrimmed_older_sectors"]),
            "unflushed_sectors": sum(columns["unflushed_sectors"]),
            "guarantees": [
                {"guarantee": IS_FOUND, "cuts": sum(map(bool, older)), "sectors": sum(older)},
                {"guarantee": IS_OWN, "cuts": sum(map(bool, foreign)), "sectors": sum(foreign)},
                {"guarantee": IS_WHOLE, "cuts": sum(map(bool, torn)), "sectors": None},
                *([trims] if promises_trims else []),
                {"guarantee": GOES_ON, "cuts": failed, "sectors": None},
            ],
            "mount": {
                "mean_ns": round(sum(mount_ns) / len(mount_ns)) if mount_ns else None,
                "max_ns": max(mount_ns, default=None),
                "timed": len(mount_ns),
                "commands": max(map(sum, mounts), default=0),
            },
            "partial": self.interrupted,
            "violations": [violation for each in self._violations.values() for violation in each],
        }

    @property
    def survived(self) -> bool:
        """Whether no cut lost what was promised, and the drive went on after each."""
        return not self._violations

    @property
    def partial(self) -> bool:
        """Whether Ctrl-C ended the test."""
        return self.interrupted

    @property
    def frame(self) -> pl.DataFrame:
        """One row for each cut, in order of the points; second cuts follow the cut that they belong to.

        ``at_command`` is the number of the command; a test with ``at="time"`` has ``at_ns`` in its place.
        ``nested_at`` is a command of the mount. ``torn`` counts
        commands under way. ``foreign_sectors`` are those of ``lost_sectors`` that hold data of others, ``lost_pages``
        mapping units. ``returned_sectors`` had been trimmed, and that was promised. ``torn_writes`` are there
        in part only. ``mount_reads``, ``mount_programs`` and ``mount_erases`` are the commands of the mount.
        """
        import polars as pl

        kinds = {name: pl.String if name == "failure" else pl.UInt64 for name in self._columns}
        return pl.DataFrame(self._columns, schema=kinds).rename({"at": self._at})

    @property
    def _at(self) -> str:
        """The column with the place of each cut, which has its unit in its name."""
        return "at_ns" if self._options["at"] == "time" else "at_command"

    def _row(self, columns: _Columns, number: int) -> dict[str, Any]:
        return {self._at if name == "at" else name: values[number] for name, values in columns.items()}

    @property
    def cases(self) -> tuple[CrashCase, ...]:
        """The cuts that were not survived, each with all that does it again."""
        return tuple(
            CrashCase(
                device=self.device,
                workload=self.workload,
                seed=self._options["seed"],
                requests=self._options["requests"],
                at=self._options["at"],
                point=self._columns["point"][row],
                nested_at=self._columns["nested_at"][row],
                violations=tuple(violations),
            )
            for row, violations in self._violations.items()
        )

    def replay(self, case: CrashCase) -> dict[str, Any]:
        """Do the cut of a case again.

        A case of this test is done on its recorded run; any other case is run anew.

        Returns:
            Its row of :attr:`frame` by column, and its ``violations``.

        Raises:
            ConfigError: The run of the case has no such point.
        """
        own = {name: self._options[name] for name in ("seed", "requests", "at")}
        same = case.device == self.device and case.workload is self.workload
        if not same or own != {name: getattr(case, name) for name in own}:
            return crash(case.device, case.workload, **case.options()).row(0)
        columns, losses, _ = _examined(self._recording, [case.point], 1, case.nested_at, None)
        kept = columns["nested_at"].index(case.nested_at)
        row = self._row(columns, kept)
        return {**row, "violations": _violations(columns, losses).get(kept, [])}

    def row(self, number: int) -> dict[str, Any]:
        """Give a row of :attr:`frame` by column, with its ``violations``."""
        row = self._row(self._columns, number)
        return {**row, "violations": self._violations.get(number, [])}

    def files(self) -> dict[str, str]:
        """What was tested and what came of it, as text files by name: what :meth:`write` writes, without the table."""
        options = {name: value for name, value in self._options.items() if name != "name"}
        return {
            "summary.json": json.dumps(self.summary, indent=2) + "\n",
            "run.json": json.dumps({"engine": _native.__engine__, **options}, indent=2) + "\n",
            **repeated_by(self.device, self.workload),
        }

    @checked
    def write(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the result into a directory: the texts of :meth:`files`, and :attr:`frame` as ``cuts.parquet``.

        Args:
            folder: The directory.
            overwrite: Also write into one that has files and no such result, or over the trace of the run.

        Raises:
            ConfigError: The directory has other files, or the trace of the run is one of these files.
        """
        _check_place(Path(folder), self.workload, (), overwrite=overwrite)
        with outputs.whole_folder(folder, outputs.CRASH) as place:
            self._write_files(place)

    def _write_files(self, folder: Path) -> None:
        for name, text in self.files().items():
            # A path need not be text.
            (folder / name).write_bytes(text.encode(errors="surrogateescape"))
        self.frame.write_parquet(folder / "cuts.parquet")

    def rows(self) -> list[tuple[str, str]]:
        """The main numbers as pairs of name and text, with units."""
        summary = self.summary
        bad = len(self._violations)
        where = "of simulated time" if summary["at"] == "time" else "of commands"
        rows = [
            ("device", str(summary["device"])),
            ("workload", f"{summary['workload']}, {count_text(summary['requests'])} requests"),
            ("cuts", f"{count_text(summary['cuts'])} at points {where}"),
            ("survived", f"{count_text(summary['cuts'] - bad)} of {count_text(summary['cuts'])}"),
        ]
        if summary["lost_cuts"]:
            lost = f"{count_text(summary['lost_pages'])} pages ({count_text(summary['lost_sectors'])} sectors)"
            rows.append(("lost", f"{lost} in {count_text(summary['lost_cuts'])} cuts"))
        rows.append(("mount", self.mount_text()))
        return rows

    def mount_text(self) -> str:
        """How much work mounts were, in words."""
        mount = self.summary["mount"]
        text = f"at most {count_text(mount['commands'])} commands"
        if mount["mean_ns"] is None:
            return text
        spans = f"mean {time_text(mount['mean_ns'])}, max {time_text(mount['max_ns'])}"
        return f"{text}; {spans} (of {mount['timed']} timed)"

    def __repr__(self) -> str:
        """The main numbers."""
        title = "ftlab.CrashResult (partial)" if self.partial else "ftlab.CrashResult"
        return as_text(title, self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), "partial: the test ended early" if self.partial else None)


def _violations(columns: _Columns, losses: _Losses) -> dict[int, list[dict[str, Any]]]:
    """What each cut violated, by its row."""
    found: dict[int, list[dict[str, Any]]] = {}

    def add(row: int, **more: Any) -> None:
        about = {"cut": columns["point"][row], "nested_at": columns["nested_at"][row], "at": columns["at"][row]}
        found.setdefault(row, []).append({**about, **more})

    for row, kind, lba, sectors, version, promised, request in losses:
        add(
            row,
            guarantee=_GUARANTEES[kind],
            lba=lba,
            sectors=sectors,
            found=version,
            promised=promised or None,
            request=request,
        )
    for row, failure in enumerate(columns["failure"]):
        if failure is not None:
            nothing = dict.fromkeys(("lba", "sectors"))
            add(row, guarantee=GOES_ON, **nothing, found=failure, promised=None, request=None)
    return dict(sorted(found.items()))


def _examined(
    recording: _native.CrashRecording,
    points: Sequence[int],
    workers: int,
    nested_at: int | None,
    progress: Callable[[int], None] | None,
) -> tuple[_Columns, _Losses, bool]:
    if nested_at is None:
        return recording.examine(points, workers, progress)
    [point] = points
    columns, losses = recording.examine_second(point, nested_at)
    if not columns["point"]:
        there = recording.second_points(point)
        near = min(there, key=lambda each: abs(each - nested_at), default=None)
        why = "the mount changes nothing in flash" if near is None else f"command {near} is the nearest that does"
        raise ConfigError(f"nested_at = {nested_at} (--nested-at): expected a command that changes flash; {why}")
    return columns, losses, False


def _points(there: int) -> str:
    return "1 point" if there == 1 else f"{there:,} points"


def _chosen(recording: _native.CrashRecording, cuts: Literal["all"] | int, point: int | None) -> list[int]:
    """The points at which the power is cut."""
    there = recording.points
    if point is not None:
        if point >= there:
            raise ConfigError(
                f"point = {point:,} (--point): this run has {_points(there)}, expected at most {there - 1:,}"
            )
        return [point]
    if cuts == "all":
        return recording.spread(there)
    if cuts > there:
        raise ConfigError(
            f'cuts = {cuts:,} (--cuts): this run has {_points(there)}, expected at most as many, or "all" for each'
        )
    return recording.spread(cuts)


def _check_cuts(
    cuts: Literal["all"] | int, point: int | None, nested: int, nested_at: int | None
) -> tuple[Literal["all"] | int, int | None]:
    if cuts != "all":
        # Whoever has a mistake in the word meets the word.
        if isinstance(cuts, (str, bool)) or cuts == 0:
            raise ConfigError(f'cuts = {shown(cuts)} (--cuts): expected "all", or a whole number from 1')
        cuts = whole("cuts", cuts, 1)
        if point is not None:
            raise ConfigError(f"cuts = {cuts} (--cuts): point (--point) is a single cut: drop one of them")
    if nested_at is not None and point is None:
        raise ConfigError(f"nested_at = {shown(nested_at)} (--nested-at): needs the point of the first cut (--point)")
    if nested_at is not None and nested:
        raise ConfigError(f"nested = {nested} (--nested): nested_at (--nested-at) is a single cut: drop one of them")
    whole_or_none("nested_at", nested_at)
    return cuts, whole_or_none("point", point)


def _threads(device: Device, jobs: int | None) -> int:
    """How many threads there are: no more than there is memory for."""
    check_memory(device, verify=True)
    table = memory_bytes(device, verify=True)
    limit = limits.least()

    def needed(count: int) -> int:
        # Flash before the run and as it stands, and the shadow model.
        return (2 + _COPIES * count) * table

    least = needed(1 if jobs is None else jobs)
    if limit is not None and least > limit.bytes:
        way = "take fewer jobs (--jobs)" if (jobs or 1) > 1 else "make geometry.blocks_per_plane smaller"
        raise ConfigError(
            f"{device.name}: a crash test of {jobs or 1} jobs needs up to {bytes_text(least)} of memory, {limit}: {way}"
        )
    if jobs is not None:
        return jobs
    most = limits.cores()
    return next(count for count in range(most, 0, -1) if count == 1 or limit is None or needed(count) <= limit.bytes)


def _check_place(folder: Path, workload: Any, inputs: Iterable[str | os.PathLike[str]], *, overwrite: bool) -> None:
    read = inputs_of(workload)
    outputs.check(folder, outputs.CRASH, inputs=read, called="the trace of the run", overwrite=overwrite)
    outputs.check(folder, outputs.CRASH, inputs=inputs, overwrite=overwrite)


def _source_of(
    workload: Trace | Workload | Any,
    trace: Trace | str | os.PathLike[str] | None,
    trace_dir: str | os.PathLike[str] | None,
) -> Trace | Workload | Any:
    """What is run: a stand-in gives way to the recording that it imitates."""
    if (workload is None) == (trace is None):
        found = "neither" if workload is None else "both"
        raise ConfigError(f"workload, trace: found {found}, expected one of them")
    if trace is not None:
        return trace if isinstance(trace, Trace) else Trace(trace)
    recording = workload.recording(trace_dir) if isinstance(workload, Workload) else None
    return workload if recording is None else recording


@interruptible()
@checked
def crash(
    device: Device | str | os.PathLike[str],
    workload: Trace | Workload | str | os.PathLike[str] | Any = None,
    *,
    trace: Trace | str | os.PathLike[str] | None = None,
    requests: int | None = None,
    cuts: Literal["all"] | int = "all",
    at: Literal["command", "time"] = "command",
    nested: int = 0,
    seed: int | None = None,
    jobs: int | None = None,
    point: int | None = None,
    nested_at: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Wanted = None,
    trace_dir: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> CrashResult:
    """Cut the power in the middle of a run, everywhere, and see what comes back.

    The run is recorded once. For each cut, flash is put together as it stood then, what was under way is torn, and the
    drive is mounted from flash alone. Every sector is held against what was promised, and the drive goes on. The result
    is the same for any number of jobs.

    >>> device = Device.load("ideal-page").set("geometry.blocks_per_plane=16", "precondition.kind=none")
    >>> result = crash(device, Workload(kind="uniform"), requests=20)
    >>> result.summary["cuts"], result.survived
    (21, True)

    Args:
        device: A device, a preset's name, or the path of a device file.
        workload: A preset's name, a path, a workload, a trace, or a table of requests, as for :func:`ftlab.run`.
        trace: A trace or its file, in place of a workload.
        requests: Stop the run after this many requests. Default: 2,000.
        cuts: At how many points the power is cut, evenly spread; ``"all"`` for each of them.
        at: Where points are. ``"command"``: one during each command of flash, and one after the last; no clock.
            ``"time"``: one between any two instants at which a command that changes flash begins or ends.
        nested: At how many commands of each mount the power is cut again, evenly spread; one that changes nothing in
            flash does not count.
        seed: Seed of every random choice of the drive and of the workload. Default: 1, or what the workload states.
        jobs: Cuts examined at a time. Default: one for each core, if there is memory for them.
        point: Cut at this point alone.
        nested_at: Beside ``point``: cut again at this command of the mount, and do not examine the first cut.
        out: Write the result into this directory.
        progress: Called about ten times a second with the phase (``"precondition"``, ``"run"`` or ``"cuts"``), the
            fraction done or ``None``, and the number of requests or points done. Default and ``False`` as for
            :func:`ftlab.run`.
        trace_dir: A folder of recordings, as for :func:`ftlab.run`.
        overwrite: Write ``out`` also over inputs and over what ftlab did not make.

    Raises:
        ConfigError: The device, the workload or an option is wrong, or ``out`` has what would be missed.
        InputError: The requests cannot be read, the drive cannot take them, or there are none.
        RunError: The run itself failed, without any cut.
        Interrupted: Ctrl-C, a ``KeyboardInterrupt``. Its ``result`` has the cuts that were examined, unless the run
            itself was interrupted.
    """
    inputs: list[str | os.PathLike[str]] = []
    if not isinstance(device, Device):
        inputs, device = [device], Device.load(device)
    seed = whole_or_none("seed", seed)
    requests = whole_or_none("requests", requests, 1)
    nested = whole("nested", nested, 0, _MOST_NESTED)
    cuts, point = _check_cuts(cuts, point, nested, nested_at)
    if at not in {"command", "time"}:
        raise ConfigError(f'at = {shown(at)} (--at): expected "command" or "time"')
    threads = _threads(device, whole_or_none("jobs", jobs, 1))
    if isinstance(workload, str | os.PathLike):
        inputs, workload = [*inputs, workload], named(workload)
    workload = _source_of(workload, trace, trace_dir)
    source = source_for(device, workload, seed, requests)
    folder = None if out is None else Path(out)
    if folder is not None:
        _check_place(folder, workload, inputs, overwrite=overwrite)
    options = {
        "name": source.name,
        "seed": seed,
        "requests": requests,
        "cuts": cuts,
        "at": at,
        "nested": nested,
        "point": point,
        "nested_at": nested_at,
    }
    with contextlib.ExitStack() as ends:
        staged = None if folder is None else ends.enter_context(outputs.whole_folder(folder, outputs.CRASH))
        tell = ends.enter_context(wanted(progress, f"{source.name} on {device.name}"))
        result = _tested(device, workload, source, options, threads, tell)
        if staged is not None:
            result._write_files(staged)  # noqa: SLF001 - one package
    if result.interrupted:
        raise Interrupted(result)
    return result


def _tested(
    device: Device,
    workload: Any,
    source: _native.Source,
    options: Mapping[str, Any],
    threads: int,
    progress: Progress | None,
) -> CrashResult:
    """Record the run, and examine its cuts."""
    seed, requests = options["seed"], options["requests"]
    recording = _native.CrashRecording.record(
        device._native,  # noqa: SLF001 - one package
        source,
        seed=1 if seed is None else seed,
        requests=REQUESTS if requests is None else requests,
        at=options["at"],
        nested=options["nested"],
        progress=progress,
    )
    if json.loads(recording.summary_json)["host"]["requests"] == 0:
        raise InputError(f"{source.name}: has no requests, and a crash test needs one at least")
    points = _chosen(recording, options["cuts"], options["point"])

    def tell(done: int) -> None:
        if progress is not None:
            progress("cuts", done / len(points), done)

    columns, losses, interrupted = _examined(recording, points, threads, options["nested_at"], tell)
    mount_ns: list[int] = []
    if not interrupted:
        timed = points if len(points) <= _TIMED else _spread(points, _TIMED)
        try:
            mount_ns = [each for each in recording.mount_ns(timed, threads) if each is not None]
        except KeyboardInterrupt:
            interrupted = True
    return CrashResult(
        device=device,
        workload=workload,
        recording=recording,
        options=options,
        columns=columns,
        losses=losses,
        mount_ns=mount_ns,
        interrupted=interrupted,
    )


def _spread(points: Sequence[int], count: int) -> list[int]:
    """Some of the points, evenly spread, with the last."""
    return [points[number * len(points) // count - 1] for number in range(1, count + 1)]
