"""`ftlab explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ftlab import _warned as warned
from ftlab._units import count_text, time_text
from ftlab.cli import bars
from ftlab.cli.output import console, json_option, print_json, print_lines, table, tell_warnings

if TYPE_CHECKING:
    from ftlab._explaining import Explanation

# A part below this share of every column says nothing.
_LEAST_SHARE = 0.005
# Less than this is printed as 0.0 %.
_NO_SHARE = 0.0005
# More dies are put together.
_MOST_DIES = 5
# Wider bars say no more.
_CHART_COLUMNS = 100


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--slowest", type=int, metavar="N", help="How many of the slowest requests. Default: 20.")
@click.option(
    "--percentile", type=float, metavar="P", help="The slowest requests, above this percentile, such as 99.9."
)
@click.option("--request", type=int, metavar="ID", help="The request with this number: column index of the log.")
@click.option("--op", type=click.Choice(["read", "write", "trim", "flush"]), help="Of requests of this operation only.")
@json_option
def explain(
    run: Path, slowest: int | None, percentile: float | None, request: int | None, op: str | None, *, as_json: bool
) -> None:
    """Say where the time of the slow requests of RUN went.

    RUN is what `ftlab run --out DIR --requests-log` wrote, or its requests.parquet. Prints words, what each part of the
    latency took, the dies that requests waited at, and how that changes from fast requests to slow ones, with a chart.
    """
    from ftlab import _explaining as explaining

    if not run.exists():
        raise click.UsageError(
            f"RUN: {run} does not exist; expected a directory of `ftlab run --out DIR --requests-log`"
        )
    found = explaining.explain(run, slowest=slowest, percentile=percentile, request=request, op=op)
    if as_json:
        print_json(found.to_dict())
        return
    if found.partial:
        tell_warnings(["the run is partial: it ended before its workload did"])
    tell_warnings(f"{text} ({code})" for code, text, _ in warned.lines({"warnings": found.warnings}))
    click.echo(f"{found.words}\n")
    if request is None:
        _print_chart(found)
        click.echo()
    _print_parts(found)
    _print_dies(found)
    if request is None:
        click.echo()
        _print_groups(found)


def _print_chart(found: Explanation) -> None:
    from ftlab._explaining import group_names

    out, groups = console(), found.groups
    times = groups["latency_ns"].to_list()
    logarithmic = ", on a logarithmic scale" if bars.is_logarithmic(times) else ""
    click.echo(f"Mean latency by percentile{logarithmic}, each divided by what took it:\n")
    parts = {part: groups[f"{part}_ns"].to_list() for part in found.parts["part"]}
    width, ascii_only = min(out.width, _CHART_COLUMNS), out.options.ascii_only
    for line in bars.lines(group_names(groups), times, parts, width=width, ascii_only=ascii_only):
        click.echo(line)


def _print_parts(found: Explanation) -> None:
    latency = found.requests["latency_ns"].mean()
    everything = sum(found.parts["all_ns"])
    rows = [
        [
            row["part"],
            time_text(row["mean_ns"]),
            f"{row['share'] * 100:.1f} %",
            time_text(row["all_ns"]),
            row["meaning"],
        ]
        for row in found.parts.iter_rows(named=True)
        if row["share"] >= _NO_SHARE or row["all_ns"] >= _NO_SHARE * everything
    ]
    rows.append(
        ["latency", time_text(float(str(latency))), "100.0 %", time_text(everything), "From hand-over to the end."]
    )
    print_lines(
        table(["part", "these", "share", "all", "what it is"], rows, right=["these", "share", "all"], whole=["part"])
    )


def _print_dies(found: Explanation) -> None:
    """Print where the requests waited, if that was at more than one die or one of several."""
    dies = found.dies
    if dies.height == 0 or (dies.height == 1 and dies["die"][0] == 0 and dies["all_share"][0] == 1):
        return
    rows = [
        [
            str(row["die"]),
            "-" if row["channel"] is None else str(row["channel"]),
            count_text(row["requests"]),
            time_text(row["mean_ns"]),
            f"{row['share'] * 100:.1f} %",
            f"{row['all_share'] * 100:.1f} %",
        ]
        for row in dies.head(_MOST_DIES).iter_rows(named=True)
    ]
    if (rest := dies.slice(_MOST_DIES)).height:
        means, shares, all_shares = (float(rest[name].sum()) for name in ("mean_ns", "share", "all_share"))
        count = count_text(int(rest["requests"].sum()))
        others = f"{rest.height} others"
        rows.append([others, "", count, time_text(means), f"{shares * 100:.1f} %", f"{all_shares * 100:.1f} %"])
    names = [found.die_name, "channel", "requests", "these", "share", "all"]
    click.echo(f"\nThe {found.die_name} that a request waited at longest, and how long:\n")
    print_lines(table(names, rows, right=names[1:]))


def _print_groups(found: Explanation) -> None:
    from ftlab._explaining import group_names

    groups = found.groups
    names = list(group_names(groups))
    rows = []
    for part in found.parts["part"]:
        shares = (groups[f"{part}_ns"] / groups["latency_ns"]).to_list()
        if any(share >= _LEAST_SHARE for share in shares):
            rows.append([part, *(f"{share * 100:.1f} %" if share >= _LEAST_SHARE / 10 else "-" for share in shares)])
    heads = [["requests", *map(count_text, groups["requests"])], ["latency", *map(time_text, groups["latency_ns"])]]
    print_lines(table(["", *names], [*heads, *rows], right=names, whole=[""]))
