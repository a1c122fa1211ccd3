"""`ftlab trace`."""

from __future__ import annotations

import functools
import os
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click

from ftlab import _conversion as conversion
from ftlab import _native
from ftlab import _outputs as outputs
from ftlab._progress import progress_bar
from ftlab._recording import EXTENSIONS, format_of
from ftlab._recording import record as record_command
from ftlab._statistics import DEFAULT_CAPACITY, TraceStats, requests_of, trace_stats
from ftlab._statistics import OUTPUT as STATISTICS
from ftlab._statistics import fit as fit_trace
from ftlab._units import bytes_text, count_text, time_text
from ftlab._workload import Trace, Workload
from ftlab.cli import completion
from ftlab.cli.output import force_option, json_option, print_json, print_lines, table, tell_warnings
from ftlab.cli.reading import COUNT, SEED, SKIPPED, Reading, reading_options, tell_lost, tell_remarks, tell_skipped
from ftlab.errors import InputError, Interrupted

# Numbers from here on are shown without decimals.
_WHOLE = 1e5
_SIZED = ("reads", "writes", "trims")

_files = click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
_file = click.argument("file", type=click.Path(path_type=Path))
_capacity = click.option(
    "--capacity",
    show_default=DEFAULT_CAPACITY,
    metavar="SIZE",
    help="Drive of workloads that say no footprint.",
)
_generated = click.option(
    "--workload",
    metavar="NAME|FILE",
    shell_complete=completion.workloads,
    help="The requests of a generated workload in place of FILE.",
)
_seed = click.option("--seed", type=SEED, metavar="N", help="Seed of workloads. Default: their own.")
_format = click.option(
    "--format",
    "trace_format",
    metavar="FMT",
    help="Format of the trace, with an argument behind a colon where it takes one. Default: recognised by content.",
)


@click.group()
def trace() -> None:
    """Recorded traces: what they are, what is in them, conversion."""


@trace.command()
@json_option
def formats(as_json: bool) -> None:
    """List the formats of traces."""
    rows = _native.formats()
    if as_json:
        print_json(rows)
        return
    for row in rows:
        click.echo(f"{row['name']}{'' if row['writable'] else ' (read only)'}: {row['summary']}")
        click.echo(f"  columns: {row['columns']}\n  units: {row['units']}\n  cannot say: {row['cannot_say']}")
        if row["argument"] is not None:
            click.echo(f"  {row['name']}:{row['argument']['example']}: {row['argument']['summary']}")


@trace.command()
@_files
@_format
@click.option(
    "--volumes",
    is_flag=True,
    help="Read each FILE to its end, and list its volumes: number, name in the FILE, requests.",
)
@click.option(
    "--skip-bad",
    type=SKIPPED,
    default=0,
    show_default=True,
    metavar="N",
    help="With --volumes: leave out up to N bad lines or records, and count them.",
)
@json_option
def info(files: tuple[Path, ...], trace_format: str | None, volumes: bool, skip_bad: int, as_json: bool) -> None:
    """Tell format, compression and size of each FILE."""
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    for file in files:
        try:
            name, compression, remarks = _native.trace_info(file, trace_format)
            if not volumes:
                tell_remarks(file, remarks)
            found = _volumes(file, trace_format, skip_bad) if volumes else {}
        except InputError as error:
            problems.append(str(error))
        else:
            size = file.stat().st_size
            rows.append({"file": str(file), "format": name, "compression": compression, "bytes": size, **found})
    if as_json and rows:
        print_json(rows if len(files) > 1 else rows[0])
    elif rows:
        lines = [(row["file"], row["format"], row["compression"], bytes_text(row["bytes"])) for row in rows]
        print_lines(table(("file", "format", "compression", "size"), lines, right=("size",)))
        for row in (row for row in rows if volumes):
            click.echo(f"\nvolumes of {row['file']}" if len(rows) > 1 else "")
            lists = [(str(each["number"]), each["name"], count_text(each["requests"])) for each in row["volumes"]]
            print_lines(table(("number", "name", "requests"), lists, right=("number", "requests")))
    if problems:
        raise InputError("\n".join(problems))


def _volumes(file: Path, trace_format: str | None, skip_bad: int) -> dict[str, Any]:
    with progress_bar(f"reading {file.name}") as progress:
        tell = None if progress is None else lambda fraction, count: progress("", fraction, count)
        rows, skipped, remarks = _native.trace_volumes(file, trace_format, skip_bad, tell)
    tell_skipped(file, skipped)
    tell_remarks(file, remarks)
    found = [{"number": number, "name": name, "requests": count} for number, name, count in rows]
    return {"skipped_records": skipped, "remarks": remarks, "volumes": found}


def _refuse_without_workload(capacity: str | None, seed: int | None) -> None:
    for option, value in {"--capacity": capacity, "--seed": seed}.items():
        if value is not None:
            raise click.UsageError(f"{option} belongs to --workload")


def _inputs(
    files: tuple[Path, ...], workloads: tuple[str, ...], reading: Reading
) -> list[tuple[str, Trace | Workload]]:
    """What is read, by name, after the steps of the command line. Without files it says nothing of reading a trace."""
    if not files:
        reading.refuse_without_trace()
    stepped = functools.partial(functools.reduce, Workload.transform, reading.transforms)
    traces: list[tuple[str, Trace | Workload]] = [(str(file), reading.trace(file)) for file in files]
    return traces + [(name, stepped(Workload.load(name))) for name in workloads]


@trace.command()
@click.argument("file", required=False, metavar="[FILE]", type=click.Path(path_type=Path))
@_generated
@click.option(
    "-n",
    "--requests",
    type=COUNT,
    default=10,
    show_default=True,
    metavar="N",
    help="How many requests.",
)
@_capacity
@_seed
@reading_options
@json_option
def head(
    file: Path | None,
    workload: str | None,
    requests: int,
    capacity: str | None,
    seed: int | None,
    reading: Reading,
    as_json: bool,
) -> None:
    """Print the first requests of FILE, as ftlab understands them; with fua where one of them has it."""
    columns = ["arrival_ns", "op", "lba", "sectors", "stream"]
    if (file is None) == (workload is None):
        raise click.UsageError("give either a FILE or a --workload")
    if file is not None:
        _refuse_without_workload(capacity, seed)
        rows, skipped, remarks = _native.trace_head(file, requests, reading.native())
    else:
        [(_, generated)] = _inputs((), (workload or "",), reading)
        source = requests_of(generated, capacity or DEFAULT_CAPACITY, seed, None)
        rows, skipped, remarks = source.head(requests)
    name = file or workload or ""
    tell_skipped(name, skipped)
    tell_remarks(name, remarks)
    # Most traces say nothing of FUA.
    if any(row[-1] for row in rows):
        columns.append("fua")
    if as_json:
        print_json([dict(zip(columns, row, strict=False)) for row in rows])
        return
    lines = [[*map(str, row[:-1]), str(int(row[-1]))][: len(columns)] for row in rows]
    print_lines(table(columns, lines, right=("arrival_ns", "lba", "sectors", "stream", "fua")))


@trace.command()
@click.argument("paths", nargs=-1, required=True, metavar="[FILE] TARGET", type=click.Path(path_type=Path))
@_generated
@click.option("--to", metavar="FMT", help="Format to write. Default: by TARGET's extension.")
@click.option("--requests", type=COUNT, metavar="N", help="Stop after N requests.")
@_capacity
@_seed
@force_option
@reading_options
@json_option
def convert(
    paths: tuple[Path, ...],
    workload: str | None,
    to: str | None,
    requests: int | None,
    capacity: str | None,
    seed: int | None,
    overwrite: bool,
    reading: Reading,
    as_json: bool,
) -> None:
    """Write FILE, or the requests of a --workload, as TARGET in another format.

    The extensions .gz, .bz2, .xz and .zst compress it.
    """
    *files, target = paths
    if len(files) != (workload is None):
        raise click.UsageError("give a FILE or a --workload, and one TARGET")
    if files:
        _refuse_without_workload(capacity, seed)
    [(name, source)] = _inputs(tuple(files), () if workload is None else (workload,), reading)
    if target.is_dir():
        raise click.UsageError(f"{target}: is a directory, expected a file to write")
    to = _target_format(target, to)
    done = conversion.convert(source, target, to, requests=requests, capacity=capacity, seed=seed, overwrite=overwrite)
    tell_skipped(name, done.skipped_records)
    tell_remarks(name, done.remarks)
    tell_lost(target, done.lost)
    with _beside(target):
        if as_json:
            print_json(_written(target, to, done))
        else:
            click.echo(f"{target}: {count_text(done.requests)} requests written as {to}")


def _beside(target: Path) -> AbstractContextManager[Any]:
    """Print messages to stderr when the trace goes to stdout."""
    try:
        same = os.path.samestat(target.stat(), os.fstat(1))
    except OSError:
        same = False
    return redirect_stdout(sys.stderr) if same else nullcontext()


def _written(target: Path, to: str, done: conversion.Written) -> dict[str, Any]:
    return {"file": str(target), "format": to, "requests": done.requests, **_left_out(done)}


def _left_out(done: conversion.Written | conversion.Parts) -> dict[str, Any]:
    return {"skipped_records": done.skipped_records, "remarks": list(done.remarks), "lost": list(done.lost)}


def _target_format(target: Path, to: str | None) -> str:
    """Find the format to write by the extension, unless it is given."""
    to = to or format_of(target)
    if to is None:
        known = ", ".join(EXTENSIONS)
        raise click.UsageError(f"{target}: the extension names no format; use --to FMT or one of {known}")
    return to


@trace.command()
@_files
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--to", metavar="FMT", help="Format to write. Default: by TARGET's extension.")
@click.option(
    "--keep-streams",
    is_flag=True,
    help="Keep the numbers of volumes: those of the same number become one. Default: each volume of each file gets a "
    "number of its own.",
)
@force_option
@reading_options
@json_option
def merge(
    files: tuple[Path, ...],
    target: Path,
    to: str | None,
    keep_streams: bool,
    overwrite: bool,
    reading: Reading,
    as_json: bool,
) -> None:
    """Write the requests of all FILEs as TARGET, by time.

    Formats that count times from their first request (such as msr) are counted from the earliest of all files of the
    format. The options apply to each file by itself.
    """
    to = _target_format(target, to)
    traces = [reading.trace(file) for file in files]
    done = conversion.merge(traces, target, to, keep_streams=keep_streams, overwrite=overwrite)
    tell_skipped(target, done.skipped_records)
    tell_remarks(target, done.remarks)
    tell_lost(target, done.lost)
    with _beside(target):
        if as_json:
            rows = [{**stream._asdict(), "file": str(stream.file)} for stream in done.streams]
            print_json({**_written(target, to, done), "streams": rows})
            return
        click.echo(f"{target}: {count_text(done.requests)} requests written as {to}")
        lines = [(str(file), str(volume), str(stream)) for file, volume, stream in done.streams]
        print_lines(table(("file", "volume", "stream"), lines, right=("volume", "stream")))


@trace.command()
@_file
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--to", default="parquet", show_default=True, metavar="FMT", help="Format to write.")
@click.option("--force", is_flag=True, help="Write over files that are there.")
@reading_options
@json_option
def split(file: Path, folder: Path, to: str, force: bool, reading: Reading, as_json: bool) -> None:
    """Write one file into FOLDER for each volume of FILE, called by its number.

    Requests keep their volume, so that `ftlab trace merge --keep-streams` makes the trace whole again, except for the
    order of equal times and of times that go back.
    """
    parts = conversion.split(reading.trace(file), folder, to, overwrite=force)
    tell_skipped(file, parts.skipped_records)
    tell_remarks(file, parts.remarks)
    for text in parts.lost:
        click.echo(text, err=True)
    files = [(volume, str(part.path), parts.requests[volume]) for volume, part in parts.traces.items()]
    if as_json:
        rows = [{"volume": volume, "file": path, "requests": count} for volume, path, count in files]
        print_json({"format": to, **_left_out(parts), "files": rows})
        return
    lines = [(str(volume), path, count_text(count)) for volume, path, count in files]
    print_lines(table(("volume", "file", "requests"), lines, right=("volume", "requests")))


@trace.command()
@click.argument("files", nargs=-1, metavar="[FILE...]", type=click.Path(path_type=Path))
@click.option("--workload", "workloads", multiple=True, metavar="NAME|FILE", help="Describe a generated workload.")
@_capacity
@_seed
@click.option("--requests", type=COUNT, metavar="N", help="Look at the first N requests only.")
@click.option(
    "--reuse",
    type=click.Choice(["exact", "sampled", "off"]),
    default="sampled",
    show_default=True,
    help="Reuse distances; sampled is exact up to 65,536 pages.",
)
@click.option("--page-bytes", default="4KiB", show_default=True, metavar="SIZE", help="Logical page, for FTL requests.")
@click.option(
    "--map-cache", default="4MiB", show_default=True, metavar="SIZE", help="Mapping cache of the intra-distances."
)
@click.option(
    "--service", default="100us", show_default=True, metavar="TIME", help="Service time of the queue estimate."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write stats.json, tables (Parquet) and plots; of several inputs, each to a directory of its own.",
)
@force_option
@reading_options
@json_option
def stats(
    files: tuple[Path, ...],
    workloads: tuple[str, ...],
    capacity: str | None,
    seed: int | None,
    requests: int | None,
    reuse: str,
    page_bytes: str,
    map_cache: str,
    service: str,
    out: Path | None,
    overwrite: bool,
    reading: Reading,
    as_json: bool,
) -> None:
    """Describe requests: counts, sizes, footprint, sequence, arrivals, skew, reuse, lifetimes.

    FILEs are traces; --workload describes presets and workload files. --transform applies to each of them.
    """
    if not (files or workloads):
        raise click.UsageError("name a FILE or a --workload")
    if not workloads:
        _refuse_without_workload(capacity, seed)
    inputs = _inputs(files, workloads, reading)
    folders = _folders(out, [source.name for _, source in inputs])
    for folder in folders:
        outputs.check(folder, STATISTICS, inputs=files, overwrite=overwrite)
    found: list[TraceStats] = []
    for label, source in inputs:
        result = trace_stats(
            source,
            requests=requests,
            capacity=capacity or DEFAULT_CAPACITY,
            seed=seed,
            page_bytes=page_bytes,
            map_cache=map_cache,
            reuse=reuse,
            service=service,
        )
        found.append(result)
        tell_skipped(label, result.to_dict()["skipped_records"])
        tell_remarks(label, result.remarks)
    for each, folder in zip(found, folders, strict=False):
        each.write(folder, overwrite=overwrite)
    if as_json:
        keys = ["file"] * len(files) + ["workload"] * len(workloads)
        rows = [{key: label, **each.to_dict()} for key, (label, _), each in zip(keys, inputs, found, strict=True)]
        print_json(rows if len(rows) > 1 else rows[0])
        return
    columns = [dict(each.rows()) for each in found]
    labels = dict.fromkeys(label for column in columns for label in column)
    lines = [(label, *(column.get(label, "-") for column in columns)) for label in labels]
    print_lines(table(("", *(each.name for each in found)), lines))
    for each in found:
        _show_calibration(each)
    for each in found:
        click.echo(f"\nsizes of requests in {each.name}" if len(found) > 1 else "")
        lines = [
            (f"{size['min_bytes']:,} - {size['max_bytes']:,}", *(count_text(size[op]) for op in _SIZED))
            for size in each.to_dict()["size_histogram"]
        ]
        print_lines(table(("bytes", *_SIZED), lines, right=("bytes", *_SIZED)))
    if out is not None:
        click.echo(f"wrote {', '.join(map(str, folders))}")


def _folders(out: Path | None, names: list[str]) -> list[Path]:
    """Where the statistics of inputs with these names go."""
    if out is None or len(names) == 1:
        return [] if out is None else [out]
    return [out / f"{index}-{name}" for index, name in enumerate(names, 1)]


def _show_calibration(stats: TraceStats) -> None:
    def text(value: float | list[float] | None) -> str:
        if isinstance(value, list):
            return " to ".join(text(each) for each in value)
        return "-" if value is None else f"{value:,.6g}" if abs(value) < _WHOLE else f"{value:,.0f}"

    rows = stats.calibration_rows()
    if rows:
        click.echo(f"\n{stats.name} beside its calibration")
        words = {True: "yes", False: "no", None: "-"}
        lines = [(row["statistic"], text(row["expected"]), text(row["measured"]), words[row["met"]]) for row in rows]
        print_lines(table(("statistic", "expected", "measured", "met"), lines, right=("expected", "measured")))


@trace.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("recording.csv.zst"),
    show_default=True,
    metavar="FILE",
    help="Where the trace goes; .gz, .bz2, .xz and .zst compress it.",
)
@click.option("--to", metavar="FMT", help="Format to write. Default: by the extension of --out.")
@click.option(
    "--cache",
    metavar="none|SIZE",
    default="none",
    show_default=True,
    help="Page cache between the command and the device: none makes every call a request.",
)
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Only files in this folder, or whose whole path matches, such as '*.db*'. May be repeated.",
)
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Not these files. May be repeated.")
@force_option
@json_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARGS]...")
def record(
    out: Path,
    to: str | None,
    cache: str,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    overwrite: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND and record what it and all that it starts do to files, as a trace (Linux).

    Recorded are system calls on regular files and block devices; the files lie in one flat address space. Needs no
    privileges. The exit status is that of COMMAND; with --json its standard output goes to standard error. Ctrl-C ends
    COMMAND, and SIGTERM and SIGHUP are passed on to it; what was recorded until then is kept. What the format cannot
    express (trims and flushes in disksim and mqsim) is left out and counted.
    """
    try:
        done = record_command(
            command,
            out,
            to=to,
            cache=cache,
            include=include,
            exclude=exclude,
            output_to_stderr=as_json,
            overwrite=overwrite,
        )
    except Interrupted as ended:
        if ended.result is None:
            raise
        done = ended.result
    if as_json:
        told = {"unseen": done.unseen(), "lost": list(done.lost)}
        print_json({"file": str(out), "requests": done.requests, **done.counts(), **told})
    else:
        kinds = ", ".join(f"{count_text(getattr(done, kind))} {kind}" for kind in (*_SIZED, "flushes"))
        click.echo(
            f"{out}: {kinds} in {time_text(done.duration_ns)}; {count_text(done.files)} files in "
            f"{bytes_text(done.space_bytes)}",
            err=True,
        )
    tell_warnings((*done.unseen(), *done.lost))
    if done.status:
        click.echo(f"the command ended with exit status {done.status}", err=True)
    return done.status


@trace.command()
@_file
@click.option(
    "-o",
    "--out",
    "target",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT.toml",
    help="Workload file to write.",
)
@click.option("--requests", type=COUNT, metavar="N", help="Fit the first N requests only.")
@click.option("--description", metavar="TEXT", help="What the file says it is. Default: the name of FILE.")
@force_option
@reading_options
@json_option
def fit(
    file: Path,
    target: Path,
    requests: int | None,
    description: str | None,
    overwrite: bool,
    reading: Reading,
    as_json: bool,
) -> None:
    """Write a workload file whose requests resemble the trace FILE.

    It has counts and distributions and none of the addresses, so that it can be shared where the trace cannot.
    What the workload makes is shown beside the trace.
    """
    outputs.check(target, outputs.FIT, inputs=[file], called="is the trace", overwrite=overwrite)
    if not target.parent.is_dir():
        raise InputError(f"{target}: cannot be written: {target.parent} is no folder")
    found = fit_trace(reading.trace(file), requests=requests, description=description)
    found.write(target, overwrite=overwrite)
    if as_json:
        print_json({"file": str(target), **found.to_dict()})
        return

    def text(value: float | None) -> str:
        return "-" if value is None else (f"{value:,}" if isinstance(value, int) else f"{value:,.4g}")

    rows = found.rows()
    columns = ("", "trace", "fitted", "difference", "limit", "")
    lines = [
        (
            row["name"],
            text(row["trace"]),
            text(row["fitted"]),
            f"{row['difference']:+.4f}",
            f"{row['limit']:g}",
            "off" if row["off"] else "",
        )
        for row in rows
    ]
    print_lines(table(columns, lines, right=columns[1:5]))
    off = ", ".join(row["name"] for row in rows if row["off"])
    size = bytes_text(len(found.text.encode()))
    click.echo(f"\nwrote {target}: {size}; {f'off: {off}' if off else 'all within limits'}")
