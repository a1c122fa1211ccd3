"""`ftlab papers`."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from ftlab.cli import FAILED, completion
from ftlab.cli.output import force_option, json_option, print_json, print_lines, table
from ftlab.cli.reading import StoreFolder
from ftlab.cli.study import watched
from ftlab.papers import PAPERS, Done, last_claims, run_paper
from ftlab.papers.frame import claims_json
from ftlab.papers.report import number, verdict_counts

_HOME = Path("out/papers")


@click.command()
@click.argument("name", required=False, shell_complete=completion.papers)
@click.option("--quick", is_flag=True, help="Run a smaller version, of at most two minutes on two cores.")
@click.option(
    "--out",
    type=StoreFolder(),
    default=_HOME,
    show_default=True,
    metavar="DIR",
    help="The folder of reports; a paper has a folder of its name in it.",
)
@force_option
@json_option
def papers(name: str | None, quick: bool, out: Path, overwrite: bool, as_json: bool) -> int:
    """List published results and their last verdicts, or run the paper NAME again and compare (docs/papers.md).

    Writes report.md, report.html and figures into DIR/NAME, and prints what was published beside what was measured.
    Results are kept: the same command goes on after an interruption. Exit status 1 when runs failed; a claim that is
    not reproduced is no failure.
    """
    if name is None:
        if quick:
            raise click.UsageError("--quick: expected the name of a paper to run")
        _list(out, as_json=as_json)
        return 0
    if name not in PAPERS:
        near = difflib.get_close_matches(name, PAPERS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise click.UsageError(f"{name}: no paper of this name; papers: {', '.join(PAPERS)}{hint}")
    with watched() as watch:
        done = run_paper(PAPERS[name], out, "quick" if quick else "full", watch=watch, overwrite=overwrite)
    if as_json:
        print_json([claims_json(name, done.paper.title, done.claims)])
    else:
        _show(done)
    for error in done.errors:
        click.echo(f"failed: {error}", err=True)
    return FAILED if done.errors else 0


def _list(home: Path, *, as_json: bool) -> None:
    found = {name: last_claims(paper, home) for name, paper in PAPERS.items()}
    if as_json:
        print_json(
            [claims_json(name, PAPERS[name].title, last[1] if last is not None else []) for name, last in found.items()]
        )
        return
    rows = [
        (
            name,
            "not run" if last is None else verdict_counts([claim.verdict for claim in last[1]]),
            "-" if last is None else last[0],
            PAPERS[name].title,
        )
        for name, last in found.items()
    ]
    print_lines(table(("paper", "verdicts", "size", "what it is about"), rows))


def _show(done: Done) -> None:
    rows = [
        (claim.id, number(claim.published), number(claim.measured), claim.verdict, claim.reason)
        for claim in done.claims
    ]
    columns = ("claim", "published", "measured", "verdict", "reason")
    print_lines(table(columns, rows, right=("published", "measured")))
    click.echo(verdict_counts([claim.verdict for claim in done.claims]))
    click.echo(
        f"{done.paper.name}: {done.executed} runs executed now; the report is {done.folder}/report.html", err=True
    )
