"""`ftlab run`."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ftlab import limits, outputs
from ftlab.cli import INTERRUPTED
from ftlab.cli.output import force_option, json_option, print_json, progress_bar, tell_notes, transform_option
from ftlab.cli.reading import COUNT, SEED, SKIPPED, Volumes, size
from ftlab.device import Device
from ftlab.errors import FtlabError
from ftlab.running import memory_bytes, series_interval, unit_bytes
from ftlab.running import run as run_device
from ftlab.units import bytes_text
from ftlab.workload import Trace, Workload

if TYPE_CHECKING:
    from ftlab.result import Result

_PREFIX = "workload."
# Written in some seconds.
_MANY_PAGES = 200_000_000


def _check_outputs(out: Path | None, events: Path | None, inputs: list[str], *, overwrite: bool) -> None:
    """Refuse what the package cannot: it has descriptions, and does not know any more which files they are from."""
    for place, kind in ((out, outputs.RESULT), (events, outputs.EVENTS)):
        if place is not None:
            outputs.check(place, kind, inputs=filter(None, inputs), overwrite=overwrite)


def _waits(device: Device) -> list[str]:
    """What is said of a drive that takes long before its first request."""
    keys = device.to_dict()
    pages = device.logical_bytes // unit_bytes(device)
    if pages < _MANY_PAGES or keys["precondition"]["kind"] == "none" or keys.get("model") == "mapping_cache":
        return []
    memory, limit = memory_bytes(device, verify=False), limits.least()
    if limit is not None and memory > limit.bytes:
        return []
    said = f"its {pages:,} pages are written before the first request: that takes a while, and up to"
    return [f'{device.name}: {said} {bytes_text(memory)} of memory; precondition.kind = "none" leaves it out']


def _show(result: Result, *, as_json: bool, explain: bool) -> None:
    if as_json:
        print_json(result.summary)
        return
    from ftlab.cli.short import show

    show(result, explain=explain)


@click.command()
@click.argument("device")
@click.option("--trace", type=click.Path(path_type=Path), metavar="FILE", help="Run a recorded trace.")
@click.option("--workload", metavar="NAME|FILE.toml", help="Run a generated workload.")
@click.option(
    "--trace-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory of original traces; if the trace a stand-in imitates is found here, it runs instead. "
    "Default: $FTLAB_TRACES.",
)
@click.option("--format", "trace_format", metavar="FMT", help="Format of the trace. Default: recognised by content.")
@click.option("--volume", type=Volumes(), metavar="N[,N...]", help="Take only these volumes of the trace.")
@click.option(
    "--volumes",
    type=click.Choice(["overlay", "concat"]),
    help="Where the volumes of the trace lie: on top of each other (default), or concatenated.",
)
@click.option("--volume-bytes", metavar="SIZE", help="With --volumes concat: size of the region of each volume.")
@click.option("--skip-bad", type=SKIPPED, metavar="N", help="Leave out up to N bad records of the trace.")
@transform_option
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a value of the device (ftl.gc=fifo) or of the workload (workload.seed=2). May be repeated. "
    "Setting ftl.over_provisioning, ftl.logical_bytes or ftl.logical_pages replaces the other two.",
)
@click.option("--requests", type=COUNT, metavar="N", help="Stop after N requests.")
@click.option(
    "--seed",
    type=SEED,
    metavar="N",
    help="Seed of every random choice. Default: 1, or what the workload states.",
)
@click.option("--verify", is_flag=True, help="Check every read against the newest write of each sector.")
@json_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write summary, series, device, workload and plot into DIR.",
)
@click.option("--requests-log", is_flag=True, help="With --out: also write requests.parquet, a row for every request.")
@click.option(
    "--events",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write every flash command for the Perfetto trace viewer.",
)
@force_option
@click.option("--no-timing", is_flag=True, help="Keep no simulated time: only counts, fastest.")
@click.option(
    "--series-every",
    default="auto",
    show_default=True,
    metavar="N|TIME|auto",
    help="Interval of the time series: requests (1000) or simulated time (10ms).",
)
@click.option("--explain", is_flag=True, help="Say what each number of the table means.")
def run(
    device: str,
    trace: Path | None,
    workload: str | None,
    trace_dir: Path | None,
    trace_format: str | None,
    volume: tuple[int, ...] | None,
    volumes: Literal["overlay", "concat"] | None,
    volume_bytes: str | None,
    skip_bad: int | None,
    transforms: tuple[str, ...],
    overrides: tuple[str, ...],
    requests: int | None,
    seed: int | None,
    verify: bool,
    as_json: bool,
    out: Path | None,
    requests_log: bool,
    events: Path | None,
    overwrite: bool,
    no_timing: bool,
    series_every: str,
    explain: bool,
) -> int:
    """Run a workload on DEVICE: a preset's name or a TOML file.

    Prints a short table, or with --json the summary document. Ctrl-C, SIGTERM and SIGHUP end a run with what was
    measured so far, marked partial. The exit status is 128 and the signal's number: 130 after Ctrl-C.
    """
    if (trace is None) == (workload is None):
        raise click.UsageError("give either --trace FILE or --workload NAME (ftlab workloads lists them)")
    of_trace = {
        "--format": trace_format,
        "--volume": volume,
        "--volumes": volumes,
        "--volume-bytes": volume_bytes,
        "--skip-bad": skip_bad,
    }
    owner, useless = ("--trace", of_trace) if trace is None else ("--workload", {"--trace-dir": trace_dir})
    for option in (option for option, value in useless.items() if value is not None):
        raise click.UsageError(f"{option} belongs to {owner}")
    # Also where nobody sees the series: a typing error is one.
    series_interval(series_every)
    if requests_log and out is None:
        raise click.UsageError("--requests-log needs --out DIR")
    mine = [text for text in overrides if text.startswith(_PREFIX)]
    if mine and workload is None:
        raise click.UsageError(f"--set {mine[0]}: there is no --workload")
    drive = Device.load(device, *(text for text in overrides if not text.startswith(_PREFIX)))
    if trace is None:
        source: Workload | Trace = Workload.load(str(workload), *mine)
    else:
        source = Trace(
            trace,
            trace_format,
            volume,
            volumes=volumes or "overlay",
            volume_bytes=size(volume_bytes),
            skip_bad=skip_bad or 0,
        )
    _check_outputs(out, events, [device, workload or ""], overwrite=overwrite)
    source = reduce(type(source).transform, transforms, source)
    tell_notes([*drive.notes, *_waits(drive)])
    try:
        with progress_bar(f"{source.name} on {drive.name}") as progress:
            result = run_device(
                drive,
                source,
                seed=seed,
                requests=requests,
                verify=verify,
                timing=not no_timing,
                # A series costs little, but without --out nobody sees it.
                series=series_every if out is not None else None,
                request_log=requests_log,
                events=events,
                out=out,
                progress=progress,
                traces=trace_dir,
                overwrite=overwrite,
            )
    except FtlabError as error:
        # A table of nothing would stand before the sentence that says why.
        if error.result is not None and (as_json or error.result.summary["host"]["completed"]):
            _show(error.result, as_json=as_json, explain=explain)
        raise
    _show(result, as_json=as_json, explain=explain)
    if out is not None:
        click.echo(f"written to {out}", err=True)
    if result.interrupted:
        click.echo("interrupted: the numbers are those of the part that was run", err=True)
        return INTERRUPTED
    return 0
