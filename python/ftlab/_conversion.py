"""Traces written as other files: in another format, several as one, and one as several."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ftlab import _native
from ftlab import _outputs as outputs
from ftlab._checks import checked, whole_or_none
from ftlab._progress import wanted_reading
from ftlab._recording import COMPRESSIONS, EXTENSIONS, format_of
from ftlab._result import inputs_of
from ftlab._statistics import DEFAULT_CAPACITY, requests_of
from ftlab._workload import Trace, Workload
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ftlab._progress import Reading

    Progress = Reading | Literal[False] | None


class Stream(NamedTuple):
    """A volume of a file that was merged.

    Attributes:
        file: The file.
        volume: The number of the volume there.
        stream: Its number in the merged trace.
    """

    file: Path
    volume: int
    stream: int


@dataclass(frozen=True)
class Written:
    """A trace that was written.

    Attributes:
        trace: The new file, as a trace.
        requests: How many it has.
        skipped_records: Bad records that were left out of what was read.
        streams: Of :func:`merge`: what became of the volumes of the files.
        lost: What the format could not hold, in sentences, such as times below its unit.
        remarks: What the input says of itself, in sentences, such as events that its recorder lost.
    """

    trace: Trace
    requests: int
    skipped_records: int
    streams: tuple[Stream, ...] = ()
    lost: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parts:
    """A trace that was split.

    Attributes:
        traces: The new files by volume, as traces.
        requests: How many requests each volume has.
        skipped_records: Bad records that were left out of what was read.
        lost: What the format could not hold, in sentences that begin with the file.
        remarks: What the input says of itself, as in :class:`Written`.
    """

    traces: Mapping[int, Trace]
    requests: Mapping[int, int]
    skipped_records: int
    lost: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def _named(trace: Trace | str | os.PathLike[str]) -> Trace:
    return trace if isinstance(trace, Trace) else Trace(trace)


def _format_of(target: Path, given: str | None) -> str:
    chosen = given or format_of(target)
    if chosen is None:
        raise ConfigError(f"{target}: the extension names no format; state one, or use one of {', '.join(EXTENSIONS)}")
    return chosen


@checked
def convert(
    trace: Trace | Workload | str | os.PathLike[str] | Any,
    target: str | os.PathLike[str],
    to: str | None = None,
    *,
    requests: int | None = None,
    capacity: str | int | None = None,
    seed: int | None = None,
    overwrite: bool = False,
    progress: Progress = None,
) -> Written:
    """Write a trace as another file, with its volumes, transformations and bad records treated as it says.

    Requests of a workload are written too, as a drive of some capacity gets them: for another simulator, or for fio and
    a real drive. So is a table of requests.

    Args:
        trace: The trace or its file, a workload, or a table of requests.
        target: The file to write; ``.gz``, ``.bz2``, ``.xz`` and ``.zst`` compress it.
        to: Its format. Default: by the extension of ``target``.
        requests: Stop after this many; of a workload, as many as in a run. Default: all.
        capacity: The drive of a workload that says no footprint. Default: ``"64GiB"``.
        seed: In place of the workload's.
        overwrite: Also write over the trace itself, and over a file that is no trace of ftlab's.
        progress: Called now and then with the share of the input that is read, if known, and the requests so far.
            Default: a bar, as for :func:`ftlab.run`; ``False`` for none.

    Raises:
        ConfigError: No format is stated, and the extension names none; ``requests`` is no count; or the target would
            be missed.
        InputError: The trace cannot be read, or the format cannot express a request.
    """
    path, limit = Path(target), whole_or_none("requests", requests, 1)
    chosen = _format_of(path, to)
    given = Trace(trace) if isinstance(trace, str | os.PathLike) else trace
    for name, value in {"capacity": capacity, "seed": seed}.items():
        if value is not None and not isinstance(given, Workload):
            raise ConfigError(f"{name} = {value}: belongs to a workload")
    outputs.check(path, outputs.TRACE, inputs=inputs_of(given), overwrite=overwrite)
    if isinstance(given, Trace):
        with wanted_reading(progress, f"converting {given.path.name}") as tell:
            count, skipped, lost, remarks = _native.trace_convert(
                given.path, path, chosen, reading=given.reading(), requests=limit, progress=tell
            )
    else:
        drive = DEFAULT_CAPACITY if capacity is None else capacity
        source = requests_of(given, drive, whole_or_none("seed", seed), limit, "trace")
        with wanted_reading(progress, f"writing {source.name}") as tell:
            count, skipped, lost, remarks = source.write(path, chosen, requests=limit, progress=tell)
    outputs.mark(path)
    return Written(Trace(path, chosen), count, skipped, lost=tuple(lost), remarks=tuple(remarks))


@checked
def merge(
    traces: Sequence[Trace | str | os.PathLike[str]],
    target: str | os.PathLike[str],
    to: str | None = None,
    *,
    keep_streams: bool = False,
    overwrite: bool = False,
    progress: Progress = None,
) -> Written:
    """Write several traces as one, by time; equal times leave in the order of the traces.

    Formats that count times from their first request (such as msr) are counted from the earliest of all files of the
    format.

    Args:
        traces: The traces, or their files. The transformations of each are for it alone.
        target: The file to write; ``.gz``, ``.bz2``, ``.xz`` and ``.zst`` compress it.
        to: Its format. Default: by the extension of ``target``.
        keep_streams: Keep the numbers of volumes: those of the same number become one. Default: each volume of each
            file gets a number of its own, which is in ``streams`` of the result.
        overwrite: As for :func:`convert`.
        progress: As for :func:`convert`.

    Raises:
        ConfigError: There is no trace, or no format, or the target would be missed.
        InputError: A trace cannot be read, or the format cannot express a request.
    """
    named, path = [_named(trace) for trace in traces], Path(target)
    if not named:
        raise ConfigError("traces: found none, expected traces to merge")
    chosen = _format_of(path, to)
    outputs.check(path, outputs.TRACE, inputs=[trace.path for trace in named], overwrite=overwrite)
    files = [(trace.path, trace.reading()) for trace in named]
    with wanted_reading(progress, f"merging {len(named)} files") as tell:
        count, skipped, streams, lost, remarks = _native.trace_merge(
            files, path, chosen, keep_streams=keep_streams, progress=tell
        )
    outputs.mark(path)
    numbered = tuple(Stream(*stream) for stream in streams)
    return Written(Trace(path, chosen), count, skipped, numbered, tuple(lost), tuple(remarks))


@checked
def split(
    trace: Trace | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    to: str = "parquet",
    *,
    overwrite: bool = False,
    progress: Progress = None,
) -> Parts:
    """Write a trace as one file for each volume, called by its number: ``disk-0.parquet``, ``disk-3.parquet``.

    Requests keep their volume, so that :func:`merge` with ``keep_streams=True`` makes the trace whole
    again, except for the order of equal times.

    Args:
        trace: The trace, or its file.
        folder: Where the files go; it is made if it is missing.
        to: Format of the files, which is their extension as well.
        overwrite: Write over files that are there.
        progress: As for :func:`convert`.

    Raises:
        InputError: The trace cannot be read, one of the files is there already, or the format cannot express a
            request.
    """
    named = _named(trace)
    path = named.path
    stem = path.with_suffix("").stem if path.suffix in COMPRESSIONS else path.stem
    # The engine makes names of it, which are text.
    stem = os.fsencode(stem).decode(errors="replace")
    with wanted_reading(progress, f"splitting {path.name}") as tell:
        rows, skipped, lost, remarks = _native.trace_split(
            path, Path(folder), stem, f".{to}", to, reading=named.reading(), overwrite=overwrite, progress=tell
        )
    traces = {volume: Trace(part, to) for volume, part, _ in rows}
    counts = {volume: count for volume, _, count in rows}
    return Parts(traces, counts, skipped, tuple(lost), tuple(remarks))
