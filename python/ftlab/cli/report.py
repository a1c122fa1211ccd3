"""`ftlab report`."""

from __future__ import annotations

from pathlib import Path

import click

from ftlab.cli.output import force_option


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The page. Default: report.html in DIR.",
)
@click.option("--study", metavar="NAME", help="Which study of a store. Default: the newest.")
@click.option("--run", metavar="KEY", help="A run of a store by its key, or how that begins, instead of a study.")
@click.option("--title", metavar="TEXT", help="The title. Default: what was run.")
@force_option
def report(
    folder: Path, out: Path | None, study: str | None, run: str | None, title: str | None, overwrite: bool
) -> None:
    """Write a report of the results in DIR: one page of HTML that needs no network and no other file.

    DIR is what `ftlab run --out DIR` or `ftlab study run --out DIR` wrote. Prints the path of the page.
    """
    from ftlab._reporting import report as write

    click.echo(write(folder, out=out, study=study, run=run, title=title, overwrite=overwrite))
