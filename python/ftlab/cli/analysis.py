"""`ftlab study compare` and what else says what a study says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ftlab import _warned as warned
from ftlab import analysis
from ftlab._estimates import estimate, plain
from ftlab._labels import label, value_text
from ftlab.analysis.comparison import WITHHELD
from ftlab.cli import completion
from ftlab.cli.output import HEADLINES, json_option, print_frame, print_json, print_lines, table, tell_warnings
from ftlab.cli.reading import StoreFolder
from ftlab.errors import ConfigError
from ftlab.studies import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import polars as pl

# Effects of the short table: the others have a smaller share of the variance.
_LEAST_SHARE, _CHANCE = 0.001, 1e-4
# Letters of heads that fit beside each other.
_WIDE = 90


def _options(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_store = click.argument("folder", metavar="DIR", type=StoreFolder())
_study = click.option("--study", "name", metavar="NAME", help="Which study of the store. Default: the newest.")
_csv = click.option("--csv", "as_csv", is_flag=True, help="Print all columns as CSV.")
_output = _options(_study, _csv, json_option)
_by = click.option(
    "--by",
    multiple=True,
    shell_complete=completion.axes,
    required=True,
    metavar="KEY",
    help="The axis that holds the schemes. Repeated: each combination is a scheme, named as in 'greedy, 0.1'.",
)
_at = click.option(
    "--at",
    multiple=True,
    shell_complete=completion.axes,
    metavar="KEY",
    help="An axis of the points at which schemes are compared. May be repeated. Default: all other axes that vary.",
)
_over = click.option(
    "--over",
    multiple=True,
    shell_complete=completion.axes,
    default=("seed",),
    show_default=True,
    metavar="KEY",
    help="What repeats a run. May be repeated.",
)
_better = click.option(
    "--better", type=click.Choice(["smaller", "larger"]), help="Which way the metric is better. Default: what is known."
)
_estimation = _options(
    click.option(
        "--confidence",
        type=float,
        default=0.95,
        show_default=True,
        metavar="SHARE",
        help="Share of intervals that hold the truth.",
    ),
    click.option(
        "--method",
        type=click.Choice(["t", "bootstrap"]),
        default="t",
        show_default=True,
        help="How intervals are made: Student's t (ratios: Fieller), or BCa bootstrap for 25 seeds or more.",
    ),
)


# Without timing, and of runs that write nothing, these are 0.
_NEVER_0 = ("host.iops", "write_amplification.total")


def is_measured(frame: pl.DataFrame, key: str) -> bool:
    """Whether runs of a study have a headline: some are 0 where nothing was measured."""
    values = frame[key].drop_nulls().to_list()
    return any(values) if key in _NEVER_0 else bool(values)


def frame_of(store: Store, name: str | None) -> pl.DataFrame:
    """Give the table of a study, and say how many of its runs have no results."""
    frame = store.frame(name)
    left_out = frame.height - frame["status"].to_list().count("done")
    if left_out:
        click.echo(f"{left_out} of {frame.height} runs are left out: they failed or are missing", err=True)
    if (told := warned.of_table(frame)) is not None:
        tell_warnings([told])
    return frame


def _check(*, as_json: bool, as_csv: bool) -> None:
    if as_csv and as_json:
        raise click.UsageError("give either --csv or --json")


def _share(share: float) -> str:
    return f"{share * 100:.4g} %"


def _cells(names: Iterable[str], row: dict[str, Any]) -> list[str]:
    return [value_text(name, row[name]) for name in names]


def _before(frame: pl.DataFrame, name: str) -> list[str]:
    return frame.columns[: frame.columns.index(name)]


@click.command()
@_store
@_by
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    shell_complete=completion.columns,
    metavar="KEY",
    help="A column to compare. May be repeated. Default: the main ones that the runs have.",
)
@click.option(
    "--baseline", metavar="VALUE", help="The scheme that the others are compared with. Default: none, only means."
)
@_at
@_over
@_estimation
@click.option(
    "--simultaneous",
    is_flag=True,
    help="Widen the intervals of differences so that they hold all together (Bonferroni).",
)
@_better
@click.option("--even-unsteady", is_flag=True, help="Give verdicts also where runs are not steady.")
@_output
def compare(
    folder: Path,
    by: tuple[str, ...],
    metrics: tuple[str, ...],
    at: tuple[str, ...],
    name: str | None,
    as_csv: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare schemes of a study with confidence intervals over seeds (docs/guides/analysis.md).

    With a baseline, also differences: runs with the same seed have the same requests and are compared pair by pair.
    """
    _check(as_json=as_json, as_csv=as_csv)
    frame = frame_of(Store(folder, create=False), name)
    shown = [key for key in HEADLINES if key in frame.columns and is_measured(frame, key)]
    if not (metrics or shown):
        raise ConfigError(f"{folder}: the runs have none of {', '.join(HEADLINES)}: name a --metric")
    found = analysis.compare(frame, _one(by), metrics or shown, at=at or None, **options)
    if as_json or as_csv:
        print_frame(found, as_json=as_json, as_csv=as_csv)
        return
    axes = _before(found, "metric")
    for number, metric in enumerate(found["metric"].unique(maintain_order=True)):
        rows = found.filter(metric=metric).to_dicts()
        if number:
            click.echo()
        _print_comparison(metric, axes, rows, options)
    _hint(found)
    _settle(found)


def _print_comparison(metric: str, axes: Sequence[str], rows: list[dict[str, Any]], options: dict[str, Any]) -> None:
    largest = max((abs(row["mean"]) for row in rows if row["mean"] is not None), default=None)
    _, unit, scale = label(metric, largest)
    way = options["better"] or analysis.better(metric)
    about = [f"{_share(options['confidence'])} confidence", f"{way} is better" if way else "neither way is better"]
    click.echo(f"{metric}{f' ({unit})' if unit else ''}: {', '.join(about)}")
    heads, baseline = [*axes, "n", "mean"], options["baseline"]
    # A difference may be a thousandth of what differs: it has a unit of its own.
    apart = max((abs(row["difference"]) for row in rows if row.get("difference")), default=largest)
    _, unit_apart, scale_apart = label(metric, apart)
    if baseline is not None:
        heads += [f"minus {baseline}{f' ({unit_apart})' if unit_apart != unit else ''}", "verdict"]
    lines = []
    for row in rows:
        line = [*_cells(axes, row), str(row["n"]), estimate(row["mean"], row["low"], row["high"], scale)]
        if baseline is not None:
            between = (row["difference"], row["difference_low"], row["difference_high"])
            unpaired = " (unpaired)" if row["paired"] is False else ""
            line += [estimate(*between, scale_apart, "+"), (row["verdict"] or "-") + unpaired]
        lines.append(line)
    print_lines(table(heads, lines, right=heads[len(axes) : len(axes) + 3]))


def _settle(found: pl.DataFrame) -> None:
    """Say why verdicts are withheld, and what would settle them."""
    if "verdict" in found.columns and WITHHELD in found["verdict"].to_list():
        runs = found.filter(metric=found["metric"][0])
        told = f"{runs['unsteady'].sum()} of {runs['n'].sum()} runs are not steady"
        click.echo(f"verdicts are withheld: {told}, and say nothing about the long run", err=True)
        click.echo(f"hint: {warned.SETTLES}; --even-unsteady gives verdicts all the same", err=True)


def _hint(found: pl.DataFrame) -> None:
    if found["n"].max() == 1:
        click.echo("hint: one seed says nothing about noise; give the study repetitions", err=True)


def _one(names: Sequence[str]) -> str | Sequence[str]:
    return names[0] if len(names) == 1 else names


@click.command()
@_store
@_by
@click.option("--metric", shell_complete=completion.columns, required=True, metavar="KEY", help="The column.")
@click.option("--baseline", metavar="VALUE", help="What to improve on. Default: every other scheme.")
@click.option("--scheme", metavar="VALUE", help="What improves. Default: every scheme.")
@_at
@_over
@_estimation
@_better
@_output
def improvement(
    folder: Path,
    by: tuple[str, ...],
    metric: str,
    at: tuple[str, ...],
    name: str | None,
    as_csv: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Say by which share schemes of a study are better than others.

    1 - mean / mean of the baseline where smaller is better, mean / mean of the baseline - 1 where larger is: positive
    numbers are improvements.
    """
    _check(as_json=as_json, as_csv=as_csv)
    found = analysis.improvement(
        frame_of(Store(folder, create=False), name), _one(by), metric, at=at or None, **options
    )
    if as_json or as_csv:
        print_frame(found, as_json=as_json, as_csv=as_csv)
        return
    click.echo(f"improvement of {metric} in %: {_share(options['confidence'])} confidence")
    axes = _before(found, "baseline")
    pairs = found.select(axes[0], "baseline").unique(maintain_order=True).rows()
    heads = {pair: "{} over {}".format(*pair) for pair in pairs}
    if sum(map(len, [*heads.values(), *axes[1:]])) > _WIDE:
        names = [*axes, "over", "improvement"]
        rows = [[*_cells(axes, row), str(row["baseline"]), _improved(row)] for row in found.to_dicts()]
        print_lines(table(names, rows, right=["improvement"]))
        _hint(found)
        return
    # A column a pair and a row a point, as papers print it.
    lines: dict[tuple[str, ...], dict[tuple[Any, Any], str]] = {}
    for row in found.to_dicts():
        lines.setdefault(tuple(_cells(axes[1:], row)), {})[row[axes[0]], row["baseline"]] = _improved(row)
    rows = [[*key, *(line.get(pair, "-") for pair in pairs)] for key, line in lines.items()]
    print_lines(table([*axes[1:], *heads.values()], rows, right=list(heads.values())))
    _hint(found)


def _improved(row: dict[str, Any]) -> str:
    return estimate(row["improvement"], row["low"], row["high"], 100, "+")


@click.command()
@_store
@click.option(
    "--metric",
    shell_complete=completion.columns,
    required=True,
    metavar="KEY",
    help="The column whose variance is taken apart.",
)
@click.option(
    "--axis",
    "axes",
    multiple=True,
    metavar="KEY",
    shell_complete=completion.axes,
    help="An axis. May be repeated. Default: all that vary.",
)
@_over
@click.option("--log", is_flag=True, help="Of the logarithm: for metrics whose values differ by factors.")
@click.option(
    "--method",
    type=click.Choice(["anova", "regression"]),
    default="anova",
    show_default=True,
    help="Analysis of variance, which needs the whole grid; or shares of R², which do not.",
)
@_output
def sensitivity(
    folder: Path, axes: tuple[str, ...], name: str | None, as_csv: bool, as_json: bool, **options: Any
) -> None:
    """Say which axis of a study matters: the share of a metric's variance that each causes.

    Shares of axes, of interactions and of the noise over seeds sum to 100 %. The total of an axis includes all its
    interactions. The short table leaves out interactions of less than 0.1 %.
    """
    _check(as_json=as_json, as_csv=as_csv)
    found = analysis.sensitivity(frame_of(Store(folder, create=False), name), axes=axes or None, **options)
    if as_json or as_csv:
        print_frame(found, as_json=as_json, as_csv=as_csv)
        return
    metric = options["metric"]
    _, unit, scale = label(metric, found["highest"].max())  # type: ignore[arg-type] # a column of floats
    click.echo(
        f"{metric}{f' ({unit})' if unit else ''}{', logarithm' if options['log'] else ''}: shares of variance in %"
    )
    lines = []
    left = 0
    for row in found.to_dicts():
        if row["order"] > 1 and row["share"] < _LEAST_SHARE:
            left += 1
            continue
        bounds = [row[end] for end in ("lowest", "highest")]
        ends = [
            "" if bound is None else f"{plain(bound * scale)} at {row[f'{end}_at']}"
            for end, bound in zip(("lowest", "highest"), bounds, strict=True)
        ]
        chance = "" if row["p"] is None else f"{row['p']:.4f}" if row["p"] >= _CHANCE else "< 0.0001"
        shares = ["-" if row["share"] is None else f"{row['share'] * 100:.2f}"]
        shares.append("" if row["total"] is None else f"{row['total'] * 100:.2f}")
        lines.append([row["effect"], *shares, *ends, chance])
    heads = ["effect", "share", "total", "lowest mean", "highest mean", "p"]
    print_lines(table(heads, lines, right=["share", "total", "p"]))
    if left:
        click.echo(
            f"... and {left} interactions of less than {_share(_LEAST_SHARE)}; --csv and --json have all", err=True
        )


@click.command()
@_store
@click.option(
    "--minimize",
    shell_complete=completion.columns,
    multiple=True,
    metavar="KEY",
    help="A column of which less is better. May be repeated.",
)
@click.option(
    "--maximize",
    shell_complete=completion.columns,
    multiple=True,
    metavar="KEY",
    help="A column of which more is better. May be repeated.",
)
@click.option(
    "--axis",
    "axes",
    multiple=True,
    metavar="KEY",
    shell_complete=completion.axes,
    help="What distinguishes points. Default: all that vary.",
)
@click.option(
    "--at",
    multiple=True,
    shell_complete=completion.axes,
    metavar="KEY",
    help="An axis whose values have a front each. May be repeated. Default: what the host asks for (workload, trace).",
)
@_over
@click.option("--front", "only", is_flag=True, help="Show only the front.")
@_output
def pareto(
    folder: Path,
    minimize: tuple[str, ...],
    maximize: tuple[str, ...],
    axes: tuple[str, ...],
    at: tuple[str, ...],
    over: tuple[str, ...],
    only: bool,
    name: str | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Say which points of a study are on the Pareto front, and what dominates the others.

    Points count with their means over seeds. "of seeds" is the share of seeds for which the point is on the front of
    that seed alone. Near 100 %, the front is not one of chance.
    """
    _check(as_json=as_json, as_csv=as_csv)
    found = analysis.pareto(
        frame_of(Store(folder, create=False), name),
        minimize=minimize,
        maximize=maximize,
        axes=axes or None,
        at=at or None,
        over=over,
    )
    if only:
        found = found.filter("front")
    if as_json or as_csv:
        print_frame(found, as_json=as_json, as_csv=as_csv)
        return
    metrics = [*minimize, *maximize]
    named = [key for key in _before(found, "n") if key not in metrics]
    scales = {key: label(key, found[key].abs().max()) for key in metrics}  # type: ignore[arg-type] # a column of numbers
    heads = [*named, *(f"{key} ({unit})" if unit else key for key, (_, unit, _) in scales.items())]
    lines = []
    for row in found.to_dicts():
        numbers = [plain(None if row[key] is None else row[key] * scale.scale) for key, scale in scales.items()]
        verdict = {True: "front", False: f"behind {row['dominated_by']}", None: "-"}[row["front"]]
        share = "-" if row["front_share"] is None else _share(row["front_share"])
        lines.append([str(row["point"]), *_cells(named[1:], row), *numbers, verdict, share])
    heads += ["front", "of seeds"]
    print_lines(table(heads, lines, right=[heads[0], *heads[len(named) : -2], "of seeds"]))


@click.command()
@_store
@click.option(
    "--column", default="write_amplification", show_default=True, metavar="NAME", help="The column of the time series."
)
@click.option(
    "--method",
    type=click.Choice(["mser", "snia"]),
    default="mser",
    show_default=True,
    help="MSER-5, or the five rounds of SNIA's test specification.",
)
@click.option(
    "--rounds",
    type=int,
    default=25,
    show_default=True,
    metavar="N",
    help="With snia: rounds that a run is divided into.",
)
@_output
def steady(folder: Path, name: str | None, as_csv: bool, as_json: bool, **options: Any) -> None:
    """Say where the runs of a study become steady, and their means from there on.

    Every run keeps a coarse time series; with options.series = "auto" in the study, a finer one.
    """
    _check(as_json=as_json, as_csv=as_csv)
    store = Store(folder, create=False)
    frame_of(store, name)
    found = analysis.steady_states(store, name=name, **options)
    if as_json or as_csv:
        print_frame(found, as_json=as_json, as_csv=as_csv)
        return
    axes = _before(found, "key")
    column = options["column"]
    largest = found["mean"].max()
    _, unit, scale = label(column, largest if isinstance(largest, float) else None)
    heads = [*axes, "steady after", "requests", f"{column} ({unit})" if unit else column]
    lines = []
    for row in found.to_dicts():
        if row["reached"]:
            when = value_text("simulated_ns", row["simulated_ns"]) if row["simulated_ns"] is not None else "-"
            requests = "-" if row["requests"] is None else f"{row['requests']:,}"
            cells = [when, requests, estimate(row["mean"], row["low"], row["high"], scale)]
        else:
            cells = ["not reached", "-", "-"]
        lines.append([*_cells(axes, row), *cells])
    print_lines(table(heads, lines, right=heads[len(axes) :]))
    reasons = found.filter(~found["reached"])["reason"].to_list()
    if reasons:
        click.echo(f"{len(reasons)} of {found.height} runs do not become steady. The first: {reasons[0]}", err=True)


@click.command()
@_store
@click.option(
    "--metric",
    shell_complete=completion.columns,
    default="write_amplification.total",
    show_default=True,
    metavar="KEY",
    help="The column.",
)
@click.option("--worst", "count", type=click.IntRange(0), default=10, show_default=True, metavar="N", help="Volumes.")
@_over
@_better
@_output
def fleet(
    folder: Path,
    metric: str,
    count: int,
    over: tuple[str, ...],
    better: str | None,
    name: str | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Say how a metric is distributed over the volumes of a study, and which N are worst.

    The study has volumes = "all", or a number of the largest (docs/guides/fleets.md). --csv prints the worst alone.
    """
    _check(as_json=as_json, as_csv=as_csv)
    frame = frame_of(Store(folder, create=False), name)
    spread = analysis.fleet(frame, metric, over=over)
    worst = analysis.worst(frame, metric, count=count, over=over, better=better) if count else None
    if as_json:
        print_json({"fleet": spread.to_dicts(), "worst": [] if worst is None else worst.to_dicts()})
        return
    if as_csv:
        print_frame(spread if worst is None else worst, as_json=False, as_csv=True)
        return
    _, unit, scale = label(metric, spread["max"].max())  # type: ignore[arg-type] # a column of floats
    click.echo(f"{metric}{f' ({unit})' if unit else ''} over volumes")
    axes = _before(spread, "volumes")
    numbers = ["mean", "min", "p10", "p50", "p90", "p99", "max"]
    lines = [
        [*_cells(axes, row), str(row["volumes"]), *(_scaled(row[key], scale) for key in numbers)]
        for row in spread.to_dicts()
    ]
    print_lines(table([*axes, "volumes", *numbers], lines, right=["volumes", *numbers]))
    missing = spread["missing"].sum()
    if missing:
        click.echo(f"{missing} volumes have no value", err=True)
    if worst is None:
        return
    click.echo(f"\nthe worst {count}")
    at = worst.columns.index(metric)
    heads = [*worst.columns[:at], metric, *worst.columns[at + 1 :]]
    lines = [
        [*map(str, row[:at]), _scaled(row[at], scale), *(plain(each) for each in row[at + 1 :])]
        for row in worst.iter_rows()
    ]
    print_lines(table(heads, lines, right=heads[len(axes) :]))


def _scaled(value: float | None, scale: float) -> str:
    return plain(None if value is None else value * scale)


COMMANDS = (compare, improvement, sensitivity, pareto, steady, fleet)
