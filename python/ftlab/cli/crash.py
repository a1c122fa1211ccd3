"""`ftlab crash`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ftlab import _outputs as outputs
from ftlab._checks import LARGEST, shown
from ftlab._crashing import IS_WHOLE, REQUESTS, STAYS_TRIMMED, flushes_trims, keeps_trims
from ftlab._crashing import crash as crash_device
from ftlab._units import bytes_text, count_text, time_text
from ftlab.cli import FAILED, INTERRUPTED
from ftlab.cli.inputs import Inputs, input_options, seed_option, tell_about
from ftlab.cli.output import console, force_option, json_option, print_json, print_lines, table
from ftlab.cli.reading import COUNT
from ftlab.errors import Interrupted

if TYPE_CHECKING:
    from ftlab._crashing import CrashResult

# Of a single cut, or of the first that was not survived.
_MOST_SHOWN = 16


class _Cuts(click.ParamType["Literal['all'] | int"]):
    """All points, or how many."""

    name = "cuts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Literal["all"] | int:
        """Check."""
        if value == "all":
            return "all"
        if not re.fullmatch("[0-9]{1,19}", str(value)) or int(value) == 0:
            self.fail(f"{shown(value)}: expected all, or a whole number from 1", param, ctx)
        return int(value)


def _command(inputs: Inputs, result: CrashResult, violation: dict[str, Any], stated: dict[str, Any]) -> str:
    """The command that does a cut again."""
    options = {
        "--requests": stated["requests"],
        "--seed": stated["seed"],
        "--at": None if result.summary["at"] == "command" else result.summary["at"],
        "--point": violation["cut"],
        "--nested-at": violation["nested_at"],
    }
    words = [word for name, value in options.items() if value is not None for word in (name, str(value))]
    return shlex.join(["ftlab", "crash", *inputs.words(), *words])


def _where(violation: dict[str, Any], at: str) -> str:
    """At which point of the run, and of the mount."""
    when = f"at {time_text(violation['at'])}" if at == "time" else f"command {violation['at']:,}"
    again = violation["nested_at"]
    return when if again is None else f"{when}, again at command {again:,} of the mount"


def _what(violation: dict[str, Any]) -> str:
    """What was found, and what had been promised."""
    if violation["lba"] is None:
        return str(violation["found"])
    first, count = violation["lba"], violation["sectors"]
    sectors = f"sector {first:,} holds" if count == 1 else f"sectors {first:,} to {first + count - 1:,} hold"
    if violation["guarantee"] == STAYS_TRIMMED:
        return f"{sectors} data again that had been promised to be trimmed"
    if violation["promised"] is None:
        return f"{sectors} data that were never written there"
    if violation["guarantee"] == IS_WHOLE:
        return f"{sectors} older data than other sectors of request {violation['request']:,}, which was under way"
    held = "nothing" if violation["found"] == 0 else "older data"
    wrote = (
        "what was there before the run"
        if violation["request"] is None
        else f"what request {violation['request']:,} wrote"
    )
    return f"{sectors} {held}, promised: {wrote}"


def _many(count: int, noun: str) -> str:
    return f"{count_text(count)} {noun}{'' if count == 1 else 's'}"


def _facts(result: CrashResult, again: str | None) -> list[tuple[str, str]]:
    """The lines below the table: heading and text."""
    summary = result.summary
    bad = len({(each["cut"], each["nested_at"]) for each in summary["violations"]})
    lines = [("survived", f"{count_text(summary['cuts'] - bad)} of {_many(summary['cuts'], 'cut')}")]
    if summary["lost_pages"]:
        lost = f"{_many(summary['lost_pages'], 'page')}, {_many(summary['lost_sectors'], 'sector')}"
        lines.append(("lost", f"{lost}, of all cuts together"))
    back = summary["untrimmed_sectors"] + summary["untrimmed_older_sectors"]
    if back:
        older = f", {count_text(summary['untrimmed_older_sectors'])} of them older than the last write"
        text = f"{_many(back, 'sector')} held data again{older if summary['untrimmed_older_sectors'] else ''}"
        until = " before a flush" if flushes_trims(result.device) else ""
        until = " before it has completed" if keeps_trims(result.device) else until
        lines.append(("trims", f"{text}; a trim promises nothing{until}"))
    if unflushed := summary["unflushed_sectors"]:
        mean = f"{unflushed / summary['cuts']:,.1f} a cut on average"
        gone = f"{_many(unflushed, 'sector')} of acknowledged writes were gone, {mean}"
        lines.append(("not flushed", f"{gone}; nothing had promised them"))
    lines.append(("mount", result.mount_text()))
    if summary["nested"] and not summary["nested_cuts"]:
        lines.append(("second cuts", "none: no mount changes anything in flash"))
    if summary["violations"]:
        first = summary["violations"][0]
        lines.append(("first case", f"point {first['cut']:,} ({_where(first, summary['at'])}): {_what(first)}"))
    if again is not None:
        lines.append(("replay", again))
    return lines


def _show(result: CrashResult, inputs: Inputs, stated: dict[str, Any], *, single: bool) -> None:
    from rich.markup import escape

    summary = result.summary
    out = console()
    size = f"{bytes_text(result.device.logical_bytes)} of {bytes_text(result.device.physical_bytes)} flash"
    workload, device = escape(summary["workload"]), escape(summary["device"])
    out.print(f"[bold]{workload}[/bold] on [bold]{device}[/bold] ({size}), seed {summary['seed']}")
    nested = f", {count_text(summary['nested_cuts'])} of them during a mount" if summary["nested_cuts"] else ""
    counts = f"{_many(summary['requests'], 'request')}, {_many(summary['commands'], 'command')}"
    where = "instants" if summary["at"] == "time" else "commands"
    points = f"the run has {_many(summary['points'], 'point')}, at {where}"
    out.print(f"{counts}; {_many(summary['cuts'], 'cut')}{nested}; {points}")
    if result.partial:
        out.print("[bold red]partial[/bold red]: the test ended before all points were examined")
    out.print()
    rows = [
        (each["guarantee"], count_text(each["cuts"]), "-" if each["sectors"] is None else count_text(each["sectors"]))
        for each in summary["guarantees"]
    ]
    headings = ("what is promised", "cuts that broke it", "sectors lost")
    print_lines(table(headings, rows, right=headings[1:]))
    out.print()
    violations = summary["violations"]
    again = _command(inputs, result, violations[0], stated) if violations and not single else None
    for heading, text in _facts(result, again):
        # As one line, also where it is long: it is there to be copied.
        click.echo(f"{heading:<12} {text}")
    if single:
        for violation in violations[1:_MOST_SHOWN]:
            click.echo(f"{'':<12} {_what(violation)}")


@click.command()
@input_options
@click.option("--requests", type=COUNT, metavar="N", help=f"Stop the run after N requests. Default: {REQUESTS:,}.")
@seed_option
@click.option(
    "--cuts",
    type=_Cuts(),
    metavar="all|N",
    default="all",
    show_default=True,
    help="At how many points the power is cut: all, or N that are evenly spread.",
)
@click.option(
    "--at",
    type=click.Choice(["command", "time"]),
    default="command",
    show_default=True,
    help="Where points are: during each command of flash, one at a time; or at instants of simulated time, with "
    "several commands under way.",
)
@click.option(
    "--nested",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="Cut the power again at N commands of each mount.",
)
@click.option(
    "--point", type=click.IntRange(0, LARGEST), metavar="N", help="Cut at this point alone, to see a case again."
)
@click.option(
    "--nested-at",
    type=click.IntRange(0, LARGEST),
    metavar="N",
    help="With --point: cut again at this command of the mount.",
)
@click.option(
    "--jobs",
    type=COUNT,
    metavar="N",
    help="Cuts examined at a time. Default: one for each core. The result is the same for any number.",
)
@json_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write summary, device, workload and a table of all cuts into DIR.",
)
@force_option
def crash(
    inputs: Inputs,
    requests: int | None,
    seed: int | None,
    cuts: Literal["all"] | int,
    at: Literal["command", "time"],
    nested: int,
    point: int | None,
    nested_at: int | None,
    jobs: int | None,
    as_json: bool,
    out: Path | None,
    overwrite: bool,
) -> int:
    """Cut the power of DEVICE in the middle of a workload, everywhere, and see what is lost.

    A run is recorded once. For each cut the drive is mounted from what flash held then, every sector is held against
    what was promised, and the drive goes on. Exit status 0 when nothing that was promised is lost, 1 otherwise.

    Ctrl-C, SIGTERM and SIGHUP end the test with the cuts that were examined, marked partial. The exit status is 128
    and the signal's number.
    """
    drive, source = inputs.load()
    if out is not None:
        # The package has descriptions, and does not know any more which files they are from.
        outputs.check(out, outputs.CRASH, inputs=inputs.files, overwrite=overwrite)
    tell_about(drive)
    try:
        result = crash_device(
            drive,
            source,
            requests=requests,
            cuts=cuts,
            at=at,
            nested=nested,
            seed=seed,
            jobs=jobs,
            point=point,
            nested_at=nested_at,
            out=out,
            trace_dir=inputs.trace_dir,
            overwrite=overwrite,
        )
    except Interrupted as ended:
        if ended.result is None:
            raise
        result = ended.result
    if as_json:
        print_json(result.summary)
    else:
        _show(result, inputs, {"requests": requests, "seed": seed}, single=point is not None)
    if out is not None:
        click.echo(f"written to {out}", err=True)
    if result.interrupted:
        click.echo("interrupted: the numbers are those of the cuts that were examined", err=True)
        return INTERRUPTED
    return 0 if result.survived else FAILED
