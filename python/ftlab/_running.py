"""Running a workload on a device."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ftlab import _aged as drives
from ftlab import _limits as limits
from ftlab import _native
from ftlab import _outputs as outputs
from ftlab import _tables as tables
from ftlab._checks import checked, is_bool, shown, whole, whole_or_none
from ftlab._device import Device
from ftlab._progress import Progress, Wanted, wanted
from ftlab._result import Result, inputs_of
from ftlab._signals import held_back, interrupts
from ftlab._units import bytes_text
from ftlab._workload import Trace, Workload, named, uncalibrated
from ftlab.errors import ConfigError, FtlabError, InputError, Interrupted, RunError, interruptible

if TYPE_CHECKING:
    import tempfile

OnRow = Callable[[dict[str, Any]], object]

_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
# Addresses that threads, buffers and libraries take, used or not: beside the tables of a drive, and to draw.
_WORKING_BYTES = 64 << 20
_DRAWING_BYTES = 5 << 28
# The clock of the core counts picoseconds: 213 days.
_LONGEST_NS = (2**64 - 1) // 1000


def series_interval(every: str | int | bool | None) -> tuple[str, int] | None:
    """Read an interval of a time series.

    Args:
        every: ``"auto"`` (500 to 1,000 rows), a number of requests, or a simulated time such as ``"10ms"``; ``None``
            or ``False`` for no series, ``True`` for ``"auto"``.

    Raises:
        ConfigError: It is none of these.

    >>> series_interval("10ms"), series_interval(500), series_interval("auto")
    (('ns', 10000000), ('requests', 500), ('auto', 0))
    """
    if every is None or (is_bool(every) and not every):
        return None
    if is_bool(every) or every == "auto":
        return ("auto", 0)
    # Digits that no interval needs are left to the message: Python makes no number of thousands of them.
    text = every if isinstance(every, str) else shown(int(every) if hasattr(every, "__index__") else every)
    match = re.fullmatch(r"\s*(\d{1,40}(?:\.\d+)?)\s*(ns|us|ms|s)?\s*", text, re.ASCII)
    if match is None or (match[2] is None and "." in match[1]) or float(match[1]) <= 0:
        expected = 'expected "auto", a number of requests such as 1000, or a time such as "10ms"'
        raise ConfigError(f"series = {shown(every)}: {expected}")
    if match[2] is None:
        return ("requests", whole("series", int(match[1]), 1, 2**63 - 1))
    ns = max(1, round(float(match[1]) * _NS[match[2]]))
    if ns > _LONGEST_NS:
        raise ConfigError(f"series = {shown(every)}: expected at most {_LONGEST_NS // _NS['s']:,} s of simulated time")
    return ("ns", ns)


def unit_bytes(device: Device) -> int:
    """Bytes of a mapping unit."""
    geometry = device.to_dict()["geometry"]
    return int(geometry["mapping_unit_bytes"] or geometry["page_bytes"])


def memory_bytes(device: Device, *, verify: bool) -> int:
    """Memory that the tables of a drive take at most."""
    return device._native.memory_bytes(verify)  # noqa: SLF001 - one package


def memory_bytes_at_first(device: Device, *, verify: bool) -> int | None:
    """Memory that they take before the first request, if the rest is taken only where requests touch it."""
    return device._native.memory_bytes_at_first(verify)  # noqa: SLF001 - one package


def fills_by_formula(device: Device, *, verify: bool) -> bool:
    """Whether a formula stands for a fill of a drive, which takes no time then."""
    return device._native.fills_by_formula(verify)  # noqa: SLF001 - one package


def check_memory(device: Device, *, verify: bool, drawing: bool = False, watched: bool = False) -> int | None:
    """Refuse a drive whose tables need more memory than there is; with ``drawing``, a plot is made of the result.

    A drive of which only what is touched takes memory may have more of it, if the run is ``watched``. Returns how many
    bytes this process may have then: whoever watches ends the run beyond them.
    """
    needed = memory_bytes(device, verify=verify)
    limit, addresses = limits.least(), limits.least_of_addresses()
    most = None
    if limit is not None and needed > limit.bytes and watched and (addresses is None or needed <= addresses.bytes):
        first = memory_bytes_at_first(device, verify=verify)
        if first is not None and first <= limit.bytes // 2 and not limits.promises_all():
            _tell_memory(device, needed, first, limit)
            most = limits.most_of_process()
    if limit is not None and most is None and needed > limit.bytes:
        cached = device.to_dict()["map_cache"]["kind"] != "ideal"
        extras = [text for text, wanted in (("its mapping cache", cached), ("verification", verify)) if wanted]
        units = device.physical_bytes // unit_bytes(device)
        raise ConfigError(
            f"{device.name}: a drive of {units:,} mapping units needs up to {bytes_text(needed)} of memory"
            f"{' with ' if extras else ''}{' and '.join(extras)}, {limit}: "
            "make geometry.blocks_per_plane smaller or geometry.mapping_unit_bytes larger"
            f"{', or map_cache.bytes smaller' if cached else ''}"
        )
    needed += _WORKING_BYTES + (_DRAWING_BYTES if drawing else 0)
    if addresses is not None and needed > addresses.bytes:
        extra = ", and of that the plot of out (--out) needs " + bytes_text(_DRAWING_BYTES) if drawing else ""
        raise ConfigError(
            f"{device.name}: a run needs up to {bytes_text(needed)} of addresses{extra}, {addresses}: "
            "raise the limit, or choose a smaller drive"
        )
    return most


def _tell_memory(device: Device, needed: int, first: int, limit: limits.Limit) -> None:
    """Log that nobody knows whether memory will do. Without a handler, that is a line on standard error."""
    # It takes time to import, and is hardly ever needed.
    import logging

    text = (
        f"{device.name}: the tables of this drive need {bytes_text(first)} of memory at first, and up to "
        f"{bytes_text(needed)} as more of it is touched; {limit}. If memory runs short, the run ends with what it has "
        "measured"
    )
    logging.getLogger("ftlab.memory").warning("%s", text)


def _check_clock(
    device: Device, interval: tuple[str, int] | None, *, timing: bool, events: bool, requests_log: bool
) -> None:
    """Refuse what needs simulated time where there is none.

    Logs would be full of zeros that look measured, and a series would be one row.
    """
    alone = device.to_dict().get("model") == "mapping_cache"
    if interval is not None and interval[0] == "ns" and (alone or not timing):
        why = 'model = "mapping_cache" has no clock' if alone else "timing=False (--no-timing) leaves the clock out"
        raise ConfigError(f"series (--series): states a simulated time, but {why}: state a number of requests")
    if not events and not requests_log:
        return
    log = "events (--events)" if events else "requests_log (--requests-log)"
    if not timing:
        raise ConfigError(f"{log}: says when things happened, which timing=False (--no-timing) leaves out: drop one")
    if alone:
        raise ConfigError(f'{log}: says when things happened, but model = "mapping_cache" has no clock')


def source_for(
    device: Device, workload: Trace | Workload | Any, seed: int | None, requests: int | None
) -> _native.Source:
    """Requests of a trace, a workload or a table, for a device."""
    if isinstance(workload, Trace):
        return workload.source()
    if isinstance(workload, Workload):
        return workload.source(device, seed, requests)
    if tables.is_table(workload):
        return tables.source_of(workload)
    kind = type(workload).__name__
    expected = "a preset's name, a path, ftlab.Trace, ftlab.Workload, or a table of requests"
    raise InputError(f"workload: found {kind}, expected {expected}")


def _log_path(
    requests_log: bool | str | os.PathLike[str], folder: Path | None
) -> tuple[Path | None, tempfile.TemporaryDirectory[str] | None]:
    """Where the request log goes, and the temporary directory that holds it when nobody named a place."""
    if requests_log is False:
        return None, None
    if requests_log is not True:
        return Path(requests_log), None
    if folder is not None:
        return folder / "requests.parquet", None
    import tempfile

    keep = tempfile.TemporaryDirectory(prefix="ftlab-")
    return Path(keep.name) / "requests.parquet", keep


def _placed(path: Path | None, folder: Path | None, staged: Path | None, ends: contextlib.ExitStack) -> Path | None:
    """Where a log is written that goes to `path`: whole, or as a part of the folder of results, which is staged."""
    if path is None:
        return None
    if folder is not None and staged is not None and path.parent.resolve() == folder.resolve():
        if path.name in outputs.RESULT.names and path.name != "requests.parquet":
            raise ConfigError(f"{path}: is a file of the result in {folder}: choose another name")
        return staged / path.name
    return ends.enter_context(outputs.whole_file(path))


def _failure(error: tuple[str, str], result: Result, folder: Path | None, staged: Path | None) -> FtlabError:
    """What ended a run, or could not be written of it.

    Raises:
        FtlabError: The same, if the folder of results stays as it was.
    """
    kind, message = error
    failure: FtlabError
    stays = not result.summary["host"]["requests"]
    if folder is not None and staged is not None and str(staged) in message:
        half = Path(message.partition(": cannot be written")[0])
        message = message.replace(str(staged), str(folder))
        if kind == "output":
            if half.parent == staged:
                half.unlink(missing_ok=True)
            if half.name == "requests.parquet":
                result._request_log = None  # noqa: SLF001 - one package
            if (folder / "summary.json").exists():
                message, stays = f"{message}; {folder} has the older result", True
    failure = RunError(message) if kind == "run" else InputError(message)
    failure.result = result
    if stays:
        # A folder of zeros would look like a result, and half a result is no better than a whole one.
        raise failure
    return failure


def _drawn(result: Result, folder: Path) -> bool:
    """Draw the plot into a folder, unless Ctrl-C ends that."""
    try:
        result._draw(folder)  # noqa: SLF001 - one package
    except KeyboardInterrupt:
        return False
    return True


@interruptible()
@checked
def run(
    device: Device | str | os.PathLike[str],
    workload: Trace | Workload | str | os.PathLike[str] | Any,
    *,
    seed: int | None = None,
    requests: int | None = None,
    verify: bool = False,
    timing: bool = True,
    series: str | int | bool | None = "auto",
    requests_log: bool | str | os.PathLike[str] = False,
    events: str | os.PathLike[str] | None = None,
    events_slowest: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Wanted = None,
    on_row: OnRow | None = None,
    trace_dir: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Result:
    """Run a workload on a device.

    The interpreter lock is released meanwhile: runs in several threads go in parallel. The same arguments give the
    same result on every machine, except ``wall_seconds``.

    Args:
        device: A device, a preset's name, or the path of a device file.
        workload: A preset's name, the path of a workload file or of a trace, a trace, or a generated workload. Or a
            table of requests: a structured NumPy array, a dictionary of arrays, a Polars, pandas or Arrow table. Its
            columns are ``op``, ``lba`` and ``sectors`` of 512 bytes, and optionally ``arrival_ns``, ``stream`` and
            ``fua``.
        seed: Seed of every random choice of the drive and of the workload. Default: 1, or what the workload states.
        requests: Stop after this many requests. Default: all.
        verify: Keep a version of every sector and check every read against it.
        timing: Keep simulated time. Without it there are no latencies and no logs of requests or events, and write
            amplification comes out fastest.
        series: The interval of the time series: ``"auto"`` (500 to 1,000 rows), a number of requests, or a simulated
            time such as ``"10ms"``; ``None`` for no series.
        requests_log: Keep a row for every request: ``True``, or the path of a Parquet file.
        events: Write every flash command to this file, for the Perfetto trace viewer.
        events_slowest: Write only what goes on while this number of requests, the slowest, is under way. The run is
            done twice then, and Ctrl-C during the first leaves nothing.
        out: Write summary, series, device, workload and a plot into this directory.
        progress: Called about ten times a second with the phase (``"precondition"`` or ``"run"``), the fraction done
            or ``None``, and the number of requests taken. Default: a bar on a terminal or in a notebook, from half a
            second on; ``False`` for none.
        on_row: Called with each row of the time series while the run goes on, a dictionary, in order and none left
            out. What it raises ends the run. Needs an interval in ``series``: rows of ``"auto"`` are joined later.
        trace_dir: A folder of recordings. When the trace that a stand-in imitates is there, it runs instead. Default:
            the folder that the environment variable ``FTLAB_TRACES`` names.
        overwrite: Write ``out``, ``events`` and ``requests_log`` also over inputs and over what ftlab did not make.

    Raises:
        ConfigError: The device, the workload or an option is wrong, or a place of output has what would be missed.
        InputError: The requests cannot be read or the drive cannot take them. Its ``result`` holds what was
            measured before.
        RunError: The run failed: the drive is full, a rule of flash was broken, or verification found a mismatch.
            Its ``result`` holds what was measured before.
        Interrupted: Ctrl-C, a ``KeyboardInterrupt``. Its ``result`` holds what was measured before, or is
            ``None``.
    """
    inputs: list[str | os.PathLike[str]] = []
    if not isinstance(device, Device):
        inputs, device = [device], Device.load(device)
    if isinstance(workload, str | os.PathLike):
        inputs, workload = [*inputs, workload], named(workload)
    seed = whole_or_none("seed", seed)
    requests = whole_or_none("requests", requests, 1)
    memory = check_memory(device, verify=verify, drawing=out is not None, watched=True)
    stand_in: tuple[str, str | None, str | None] | None = None
    if isinstance(workload, Workload) and workload.stand_in is not None:
        recording = workload.recording(trace_dir)
        if recording is None:
            counted = {} if requests is None else {"requests": requests}
            why = uncalibrated(workload.to_dict() | counted, workload.stand_in["for"])
            stand_in = (workload.stand_in["for"], None, why)
        else:
            stand_in = (workload.stand_in["for"], os.fsencode(recording.path).decode(errors="replace"), None)
        workload = workload if recording is None else recording
    source = source_for(device, workload, seed, requests)
    with wanted(progress, f"{source.name} on {device.name}") as tell:
        result = measure(
            device,
            source,
            workload,
            seed=seed,
            requests=requests,
            verify=verify,
            timing=timing,
            series=series,
            requests_log=requests_log,
            events=events,
            events_slowest=events_slowest,
            out=out,
            progress=tell,
            on_row=on_row,
            stand_in=stand_in,
            inputs=inputs,
            overwrite=overwrite,
            aged=(None, drives.name_of(workload.to_dict(), seed, requests)) if isinstance(workload, Workload) else None,
            memory=memory,
        )
    if result.interrupted:
        raise Interrupted(result)
    return result


def measure(
    device: Device,
    source: _native.Source,
    workload: Any,
    *,
    seed: int | None,
    requests: int | None,
    verify: bool,
    timing: bool,
    series: str | int | bool | None,
    requests_log: bool | str | os.PathLike[str] = False,
    events: str | os.PathLike[str] | None = None,
    events_slowest: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    on_row: OnRow | None = None,
    stand_in: tuple[str, str | None, str | None] | None = None,
    inputs: Sequence[str | os.PathLike[str]] = (),
    overwrite: bool = False,
    aged: tuple[_native.AgedDrives | None, str | None] | None = None,
    control: _native.RunControl | None = None,
    memory: int | None = None,
) -> Result:
    """Run requests on a device, as :func:`run` does once it knows where they come from.

    ``workload`` is what they came from, for the result; ``stand_in`` what it stands for, the recording that runs in
    its place, and why it is not calibrated. ``inputs`` are files beside those of the workload. ``aged`` are drives that
    may be used again by runs of this process, and what tells the workload from all others; drives on disk may be used
    in any case. With a ``control`` the run stays on this thread, and another one looks after it. A run that brings this
    process to more than ``memory`` bytes ends with what it has measured.
    """
    interval = series_interval(series)
    if on_row is not None and (interval is None or interval[0] == "auto"):
        raise ConfigError(
            f"series = {shown(series)}: on_row needs an interval whose rows stay as they are: state a number of "
            'requests such as 1000, or a time such as "10ms"'
        )
    events_slowest = whole_or_none("events_slowest", events_slowest, 1)
    if events_slowest is not None and events is None:
        raise ConfigError(
            f"events_slowest = {events_slowest}: says what events (--events) keeps, and there are none: name their file"
        )
    # NumPy has truths of its own.
    requests_log = bool(requests_log) if is_bool(requests_log) else requests_log
    logs = {"events": events is not None, "requests_log": requests_log is not False}
    _check_clock(device, interval, timing=timing, **logs)
    folder = None if out is None else Path(out)
    log, keep = _log_path(requests_log, folder)
    events_to = None if events is None else Path(events)
    places = [
        (folder, outputs.RESULT),
        (events_to, outputs.EVENTS),
        (None if isinstance(requests_log, bool) else log, outputs.REQUEST_LOG),
    ]
    for place, made in places:
        if place is not None:
            traces = inputs_of(workload)
            outputs.check(place, made, inputs=traces, called="the trace of the run", overwrite=overwrite)
            outputs.check(place, made, inputs=inputs, overwrite=overwrite)
    with contextlib.ExitStack() as ends:
        of_folder = ends.enter_context(contextlib.ExitStack())
        staged = None if folder is None else of_folder.enter_context(outputs.whole_folder(folder, outputs.RESULT))
        kept = drives.files()
        outcome = _native.run(
            device._native,  # noqa: SLF001 - one package
            source,
            seed=1 if seed is None else seed,
            requests=requests,
            verify=verify,
            timing=timing,
            series=interval,
            request_log=log if keep is not None else _placed(log, folder, staged, ends),
            events=_placed(events_to, folder, staged, ends),
            events_slowest=events_slowest,
            progress=progress,
            on_row=on_row,
            stand_in=stand_in,
            aged=aged,
            aged_files=kept,
            control=control,
            memory=memory,
        )
        # What was measured is kept whole. Ctrl-C may only end the drawing.
        with held_back() as came:
            drives.tell(kept)
            result = Result(
                device=device,
                workload=workload,
                summary_json=outcome.summary_json,
                series=outcome.series,
                coarse_series=outcome.coarse_series,
                requests_log=log,
                interrupted=outcome.interrupted,
                options={
                    "engine": _native.__engine__,
                    "seed": seed,
                    "requests": requests,
                    "verify": verify,
                    "timing": timing,
                    "series": series,
                },
                keep=keep,
            )
            failure = None if outcome.error is None else _failure(outcome.error, result, folder, staged)
            if staged is not None:
                result._write_files(staged)  # noqa: SLF001 - one package
        interrupted = interrupts(came)
        undrawn = None
        if folder is not None and staged is not None and (interrupted or not _drawn(result, staged)):
            undrawn = folder / "plot.png"
        with held_back() as came:
            of_folder.close()
        if failure is not None and outcome.error is not None and outcome.error[0] == "output":
            # Within: what was written in part takes the place of nothing.
            raise failure
    if interrupts(came) or interrupted or undrawn is not None:
        raise Interrupted(result, undrawn) from failure
    if failure is not None:
        raise failure
    return result
