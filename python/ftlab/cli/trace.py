"""`ftlab trace`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ftlab import _native
from ftlab.cli.output import json_option, print_json, print_lines, progress_bar, table
from ftlab.errors import InputError
from ftlab.statistics import DEFAULT_CAPACITY, TraceStats, trace_stats
from ftlab.statistics import fit as fit_trace
from ftlab.units import bytes_text, count_text
from ftlab.workload import Trace, Workload

_FORMAT_OF_EXTENSION = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".disksim": "disksim",
    ".mqsim": "mqsim",
    ".spc": "spc",
}
_COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
_SIZED = ("reads", "writes", "trims")

_files = click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
_file = click.argument("file", type=click.Path(path_type=Path))
_format = click.option(
    "--format", "trace_format", metavar="FMT", help="Format of the trace. Default: recognised by content."
)
_volume = click.option(
    "--volume",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Take only this volume (ASU, disk or device number).",
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
        click.echo(f"  {row['columns']}\n  {row['units']}")


@trace.command()
@_files
@_format
@json_option
def info(files: tuple[Path, ...], trace_format: str | None, as_json: bool) -> None:
    """Tell format, compression and size of each FILE."""
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    for file in files:
        try:
            name, compression = _native.trace_info(file, trace_format)
        except InputError as error:
            problems.append(str(error))
        else:
            rows.append({"file": str(file), "format": name, "compression": compression, "bytes": file.stat().st_size})
    if as_json and rows:
        print_json(rows if len(files) > 1 else rows[0])
    elif rows:
        lines = [(row["file"], row["format"], row["compression"], bytes_text(row["bytes"])) for row in rows]
        print_lines(table(("file", "format", "compression", "size"), lines, right=("size",)))
    if problems:
        raise InputError("\n".join(problems))


@trace.command()
@_file
@click.option(
    "-n",
    "--requests",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    metavar="N",
    help="How many requests.",
)
@_format
@_volume
@json_option
def head(file: Path, requests: int, trace_format: str | None, volume: int | None, as_json: bool) -> None:
    """Print the first requests of FILE, as ftlab understands them."""
    columns = ("arrival_ns", "op", "lba", "sectors", "stream")
    rows = _native.trace_head(file, requests, trace_format, volume)
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    lines = [[str(value) for value in row] for row in rows]
    print_lines(table(columns, lines, right=("arrival_ns", "lba", "sectors", "stream")))


@trace.command()
@_file
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--to", metavar="FMT", help="Format to write. Default: by TARGET's extension.")
@click.option("--requests", type=click.IntRange(1), metavar="N", help="Stop after N requests.")
@_format
@_volume
@json_option
def convert(
    file: Path,
    target: Path,
    to: str | None,
    requests: int | None,
    trace_format: str | None,
    volume: int | None,
    as_json: bool,
) -> None:
    """Write FILE as TARGET in another format.

    The extensions .gz, .bz2, .xz and .zst compress it.
    """
    if to is None:
        inner = target.with_suffix("") if target.suffix in _COMPRESSIONS else target
        to = _FORMAT_OF_EXTENSION.get(inner.suffix)
        if to is None:
            known = ", ".join(_FORMAT_OF_EXTENSION)
            raise click.UsageError(f"{target}: the extension names no format; use --to FMT or one of {known}")
    with progress_bar(f"converting {file.name}") as progress:
        tell = None if progress is None else lambda fraction, count: progress("", fraction, count)
        count = _native.trace_convert(
            file, target, to, format=trace_format, volume=volume, requests=requests, progress=tell
        )
    if as_json:
        print_json({"file": str(target), "format": to, "requests": count})
    else:
        click.echo(f"{target}: {count_text(count)} requests written as {to}")


@trace.command()
@click.argument("files", nargs=-1, metavar="[FILE...]", type=click.Path(path_type=Path))
@click.option("--workload", "workloads", multiple=True, metavar="NAME|FILE", help="Describe a generated workload.")
@click.option(
    "--capacity",
    default=DEFAULT_CAPACITY,
    show_default=True,
    metavar="SIZE",
    help="Drive of workloads that say no footprint.",
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed of workloads. Default: their own.")
@click.option("--requests", type=click.IntRange(1), metavar="N", help="Look at the first N requests only.")
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
@_format
@_volume
@json_option
def stats(
    files: tuple[Path, ...],
    workloads: tuple[str, ...],
    capacity: str,
    seed: int | None,
    requests: int | None,
    reuse: str,
    page_bytes: str,
    map_cache: str,
    service: str,
    out: Path | None,
    trace_format: str | None,
    volume: int | None,
    as_json: bool,
) -> None:
    """Describe requests: counts, sizes, footprint, sequence, arrivals, skew, reuse, lifetimes.

    FILEs are traces; --workload describes presets and workload files.
    """
    inputs: list[tuple[str, Trace | Workload]] = [(str(file), Trace(file, trace_format, volume)) for file in files]
    inputs += [(name, Workload.load(name)) for name in workloads]
    if not inputs:
        raise click.UsageError("name a FILE or a --workload")
    found: list[TraceStats] = []
    for label, source in inputs:
        with progress_bar(f"reading {label}") as progress:
            result = trace_stats(
                source,
                requests=requests,
                capacity=capacity,
                seed=seed,
                page_bytes=page_bytes,
                map_cache_bytes=map_cache,
                reuse=reuse,
                service_us=service,
                progress=progress,
            )
        found.append(result)
    if out is not None:
        folders = [out] if len(found) == 1 else [out / f"{index}-{each.name}" for index, each in enumerate(found, 1)]
        for each, folder in zip(found, folders, strict=True):
            each.write(folder)
    if as_json:
        keys = ["file"] * len(files) + ["workload"] * len(workloads)
        rows = [{key: label, **each.to_dict()} for key, (label, _), each in zip(keys, inputs, found, strict=True)]
        print_json(rows if len(rows) > 1 else rows[0])
        return
    for each in found:
        print_lines(table(("", each.name), each.rows()))
        click.echo("")
        lines = [
            (f"{size['min_bytes']:,} - {size['max_bytes']:,}", *(count_text(size[op]) for op in _SIZED))
            for size in each.to_dict()["size_histogram"]
        ]
        print_lines(table(("bytes", *_SIZED), lines, right=("bytes", *_SIZED)))
    if out is not None:
        click.echo(f"wrote {', '.join(map(str, folders))}")


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
@click.option("--requests", type=click.IntRange(1), metavar="N", help="Fit the first N requests only.")
@click.option("--description", metavar="TEXT", help="What the file says it is. Default: the name of FILE.")
@_format
@_volume
@json_option
def fit(
    file: Path,
    target: Path,
    requests: int | None,
    description: str | None,
    trace_format: str | None,
    volume: int | None,
    as_json: bool,
) -> None:
    """Write a workload file whose requests resemble the trace FILE.

    It has counts and distributions and none of the addresses, so that it can be shared where the trace cannot.
    What the workload makes is shown beside the trace.
    """
    with progress_bar(f"fitting {file.name}") as progress:
        found = fit_trace(
            Trace(file, trace_format, volume), requests=requests, description=description, progress=progress
        )
    found.write(target)
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
    click.echo(f"\nwrote {target}: {bytes_text(len(found.text))}; {f'off: {off}' if off else 'all within limits'}")
