"""`ftlab study plot`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ftlab import figures
from ftlab.analysis import series
from ftlab.cli.analysis import frame_of
from ftlab.cli.output import force_option
from ftlab.cli.reading import StoreFolder
from ftlab.errors import ConfigError
from ftlab.studies import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    _Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_KINDS = ("line", "bar", "cdf", "heatmap", "histogram", "series")


def _one(name: str, text: str, metavar: str = "KEY") -> _Decorator:
    return click.option(f"--{name}", metavar=metavar, help=text)


def _flag(name: str, text: str) -> _Decorator:
    return click.option(f"--{name}", is_flag=True, default=None, help=text)


def _chosen(frame: pl.DataFrame, axes: tuple[str, ...], where: tuple[str, ...]) -> pl.DataFrame:
    """The rows that meet all conditions."""
    from ftlab.studies.where import Where, check_steps

    names = list(dict.fromkeys([*axes, "seed"]))
    try:
        conditions = [Where(text, names) for text in where]
        check_steps(conditions, frame.height)
        rows = frame.select(names).to_dicts()
        keep = [all(condition.holds(row) for condition in conditions) for row in rows]
    except ValueError as error:
        raise ConfigError(f"--where {error}") from error
    if not any(keep):
        raise ConfigError(f"--where: none of the {frame.height} rows meets {' and '.join(map(repr, where))}")
    return frame.filter(keep)


def _names(pairs: tuple[str, ...]) -> dict[str, str]:
    names = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--name {pair}: expected KEY=TEXT, such as cost_benefit=CB")
        names[name] = text
    return names


@click.command()
@click.argument("folder", metavar="DIR", type=StoreFolder())
@click.option("--study", "study_name", metavar="NAME", help="Which study of the store. Default: the newest.")
@click.option("--kind", type=click.Choice(_KINDS), default="line", show_default=True, help="What is drawn.")
@_one("x", "Horizontal axis; for cdf and histogram the values themselves.")
@click.option("--y", multiple=True, metavar="KEY", help="Values; may be repeated. For heatmap the vertical axis.")
@_one("value", "Values of a heatmap.")
@_one("color", "A line, bar or curve for each of its values.")
@_one("facet", "A panel for each of its values.")
@_one("upto", "What the band of a time series goes up to, such as read_p99_ns.", "COLUMN")
@click.option("--spread", type=float, metavar="SHARE", help="Of the runs in the band of a time series. Default: 1.")
@click.option("--over", multiple=True, metavar="KEY", help="What means are over; may be repeated. Default: seed.")
@click.option("--confidence", type=float, metavar="SHARE", help="Of the intervals. Default: 0.95.")
@click.option("--error", type=click.Choice(["auto", "bars", "band", "none"]), help="How intervals are drawn.")
@click.option(
    "--log", type=click.Choice(["x", "y", "xy", "value", "none"]), help="Logarithmic axes. Default: by the values."
)
@_flag("stack", "Bars on top of each other, such as causes: --y for each part.")
@_flag("complement", "The share above each value, for cdf.")
@click.option("--bins", type=int, metavar="N", help="Bins of a histogram.")
@click.option("--where", multiple=True, metavar="CONDITION", help="Rows to draw, as in a study. May be repeated.")
@click.option("--name", "named", multiple=True, metavar="KEY=TEXT", help="A name of a key or value. May be repeated.")
@_one("title", "In place of the one that is made.", "TEXT")
@_one("note", "In place of the one under the figure.", "TEXT")
@click.option("--width", type=click.Choice(["column", "page", "slide"]), help="What it is for. Default: page.")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="FILE.pdf, FILE.svg or FILE.png; without an ending, all three.",
)
@force_option
def plot(
    folder: Path,
    study_name: str | None,
    kind: str,
    out: Path,
    overwrite: bool,
    where: tuple[str, ...],
    named: tuple[str, ...],
    **given: Any,
) -> None:
    """Draw a figure of a study in the store DIR: docs/reference/figures.md.

    Such as: --x ftl.over_provisioning --y write_amplification.total --color ftl.gc --out figure

    Over time, of a study with options.series = "auto": --kind series --y read_p50_ns --upto read_p99_ns
    --color ftl.gc --out figure
    """
    draw = getattr(figures, kind)
    options = {name: value for name, value in given.items() if value not in {None, ()}}
    taken = inspect.signature(draw).parameters
    for name in options:
        if name not in taken:
            raise click.UsageError(f"--{name} does not go with --kind {kind}")
    for name, parameter in taken.items():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty and name not in options:
            raise click.UsageError(f"--kind {kind} needs --{name}")
    if "y" in options and len(options["y"]) == 1:
        [options["y"]] = options["y"]
    elif "y" in options and kind in {"heatmap", "series"}:
        raise click.UsageError(f"--kind {kind} takes one --y")
    store = Store(folder, create=False)
    frame = frame_of(store, study_name)
    if kind == "series":
        frame = series(store, study_name)
    if where:
        frame = _chosen(frame, store.study(study_name).axes, where)
    figure = draw(frame, names=_names(named), **options)
    for path in figures.save(figure, out, overwrite=overwrite):
        click.echo(path)
