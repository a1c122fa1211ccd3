"""`ftlab run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ftlab import _outputs as outputs
from ftlab._running import run as run_device
from ftlab._running import series_interval
from ftlab.cli import INTERRUPTED
from ftlab.cli.inputs import Inputs, input_options, seed_option, tell_about, unused_times
from ftlab.cli.output import force_option, json_option, print_json, tell_notes
from ftlab.cli.reading import COUNT
from ftlab.errors import FtlabError, Interrupted

if TYPE_CHECKING:
    from ftlab._result import Result


def _check_outputs(out: Path | None, events: Path | None, inputs: list[str], *, overwrite: bool) -> None:
    """Refuse what the package cannot: it has descriptions, and does not know any more which files they are from."""
    for place, kind in ((out, outputs.RESULT), (events, outputs.EVENTS)):
        if place is not None:
            outputs.check(place, kind, inputs=inputs, overwrite=overwrite)


def _show(result: Result, *, as_json: bool, explain: bool) -> None:
    if as_json:
        print_json(result.summary)
        return
    from ftlab.cli.short import show

    show(result, explain=explain)


@click.command()
@input_options
@click.option("--requests", type=COUNT, metavar="N", help="Stop after N requests.")
@seed_option
@click.option("--verify", is_flag=True, help="Check every read against the newest write of each sector.")
@json_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write summary, series, device, workload and plot into DIR.",
)
@click.option(
    "--requests-log",
    is_flag=True,
    help="With --out: also write requests.parquet, a row for every request and what it waited for.",
)
@click.option(
    "--events",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write every request and flash command for the Perfetto trace viewer.",
)
@click.option(
    "--events-slowest",
    type=click.IntRange(1),
    metavar="N",
    help="Keep of --events what goes on during the N slowest requests: the run is done twice then. "
    "Ctrl-C during the first leaves nothing.",
)
@force_option
@click.option("--no-timing", is_flag=True, help="Keep no simulated time: only counts, fastest.")
@click.option(
    "--series",
    metavar="N|TIME|auto",
    help="Interval of the time series that --out keeps: requests (1000) or simulated time (10ms).  [default: auto]",
)
@click.option("--explain", is_flag=True, help="Say what each number of the table means.")
def run(
    inputs: Inputs,
    requests: int | None,
    seed: int | None,
    verify: bool,
    as_json: bool,
    out: Path | None,
    requests_log: bool,
    events: Path | None,
    events_slowest: int | None,
    overwrite: bool,
    no_timing: bool,
    series: str | None,
    explain: bool,
) -> int:
    """Run a workload on DEVICE: a preset's name or a TOML file.

    Prints a short table, or with --json the summary document. Ctrl-C, SIGTERM and SIGHUP end a run with what was
    measured so far, marked partial. The exit status is 128 and the signal's number: 130 after Ctrl-C.

    A drive that takes 0.2 s to age is kept for later runs, in $FTLAB_CACHE or else the user's folder for caches.
    With FTLAB_CACHE= none is kept. $FTLAB_CACHE_LIMIT (such as 16GiB; default 4GiB) bounds them all together.
    """
    series_interval(series)
    for option, is_given in (("--requests-log", requests_log), ("--series", series is not None)):
        if is_given and out is None:
            raise click.UsageError(f"{option} needs --out DIR")
    drive, source = inputs.load()
    _check_outputs(out, events, inputs.files, overwrite=overwrite)
    tell_about(drive)
    unwritten, was_interrupted = None, False
    try:
        result = run_device(
            drive,
            source,
            seed=seed,
            requests=requests,
            verify=verify,
            timing=not no_timing,
            # A series costs little, but without --out nobody sees it.
            series=None if out is None else "auto" if series is None else series,
            requests_log=requests_log,
            events=events,
            events_slowest=events_slowest,
            out=out,
            trace_dir=inputs.trace_dir,
            overwrite=overwrite,
        )
    except Interrupted as ended:
        if ended.result is None:
            raise
        result, unwritten, was_interrupted = ended.result, ended.unwritten, True
    except FtlabError as error:
        # A table of nothing would stand before the sentence that says why.
        if error.result is not None and (as_json or error.result.summary["host"]["completed"]):
            _show(error.result, as_json=as_json, explain=explain)
        raise
    tell_notes(unused_times(drive, source))
    _show(result, as_json=as_json, explain=explain)
    if out is not None:
        click.echo(f"written to {out}" + ("" if unwritten is None else ", without a plot"), err=True)
    if result.interrupted:
        click.echo("interrupted: the numbers are those of the part that was run", err=True)
    elif was_interrupted:
        click.echo("interrupted after the run, which is whole", err=True)
    return INTERRUPTED if was_interrupted else 0
