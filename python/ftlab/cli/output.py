"""What the commands share: tables, JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl
    from rich.console import Console
    from rich.table import Table

# Width of output that goes to a file or a pipe: wide enough for the tables, and the same everywhere.
_FILE_COLUMNS = 110

# What the short tables show of a summary, as far as the runs have it.
HEADLINES = {
    "write_amplification.total": "WA",
    "host.iops": "IOPS",
    "latency_ns.read.mean": "read mean",
    "latency_ns.write.mean": "write mean",
    "latency_ns.all.p99": "p99",
    "map_cache.hit_ratio": "map hits",
    "buffer.hit_ratio": "buffer hits",
}

transform_option = click.option(
    "--transform",
    "transforms",
    multiple=True,
    metavar="STEP",
    help="Change the requests, such as 'scale_time factor=0.5'. May be repeated; in order. "
    "docs/reference/transformations.md has all steps.",
)
force_option = click.option(
    "--force",
    "overwrite",
    is_flag=True,
    help="Write over what is there, even an input or what ftlab did not make.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")


def print_json(value: Any) -> None:
    """Print a value as JSON, alone on standard output."""
    click.echo(json.dumps(value, indent=2))


def tell_notes(notes: Iterable[str]) -> None:
    """Say on standard error what a description says to no effect."""
    for note in notes:
        click.echo(f"note: {note}", err=True)


def tell_warnings(texts: Iterable[str]) -> None:
    """Say on standard error why numbers may mislead."""
    for text in texts:
        click.echo(f"warning: {text}", err=True)


def console(*, stderr: bool = False) -> Console:
    """Make a console that does not wrap by chance when it is no terminal."""
    from rich.console import Console

    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, width=None if terminal else _FILE_COLUMNS, highlight=False, soft_wrap=False)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = (), whole: Sequence[str] = ()
) -> Table:
    """Make a table without vertical lines; columns in `right` hold numbers, cells of those in `whole` are never cut."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    result = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        result.add_column(
            Text(column), justify="right" if column in right else "left", overflow="fold", no_wrap=column in whole
        )
    for row in rows:
        # Text: square brackets in names and descriptions are no markup.
        result.add_row(*map(Text, row))
    return result


def print_lines(rendered: Table) -> None:
    """Print a table, without the blanks that pad its lines."""
    out = console()
    with out.capture() as capture:
        out.print(rendered)
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def print_frame(frame: pl.DataFrame, *, as_json: bool, as_csv: bool) -> None:
    """Print all of a frame: as JSON, as CSV, or as a table."""
    if as_json:
        print_json(frame.to_dicts())
    elif as_csv:
        from ftlab.studies.frame import plain

        click.echo(plain(frame).write_csv(), nl=False)
    else:
        rows = [
            ["-" if value is None else f"{value:g}" if isinstance(value, float) else str(value) for value in row]
            for row in frame.iter_rows()
        ]
        numbers = [name for name, kind in frame.schema.items() if kind.is_numeric()]
        print_lines(table(frame.columns, rows, right=numbers))
