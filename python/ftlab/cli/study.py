"""`ftlab study`."""

from __future__ import annotations

import math
import sys
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ftlab import _warned as warned
from ftlab._signals import import_whole
from ftlab._units import count_text, iops_text, time_text
from ftlab.cli import BAD_INPUT, FAILED, INTERRUPTED
from ftlab.cli.analysis import COMMANDS as ANALYSES
from ftlab.cli.output import HEADLINES, console, json_option, print_frame, print_json, print_lines, table, tell_warnings
from ftlab.cli.plot import plot
from ftlab.cli.reading import StoreFolder
from ftlab.errors import ConfigError
from ftlab.studies import Part, Store, Study, ThreadExecutor, Watch, run_study

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import polars as pl

    from ftlab.studies import Executor, Run
    from ftlab.studies.store import Record

# Where studies go that name no directory.
_HOME = Path("out/studies")

_RECENT_ROWS = 12
_MOST_ERRORS = 10
_MOST_ROWS = 200


def _text(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name.startswith("latency_ns."):
        return time_text(value)
    if name == "host.iops":
        return iops_text(value).removesuffix(" IOPS")
    if isinstance(value, float):
        return f"{value:.3f}" if name in HEADLINES else f"{value:g}"
    if isinstance(value, int) and not isinstance(value, bool) and "." in name:
        return count_text(value)
    return str(value)


def _get(summary: Mapping[str, Any] | None, name: str) -> Any:
    value: Any = summary
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


class _Live(Watch):
    """Progress, time left and the latest results, on a terminal."""

    def __init__(self) -> None:
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as TimeLeft

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[about]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeLeft(elapsed_when_finished=False),
            console=console(stderr=True),
        )
        self._work = self._bars.add_task("", total=None, about="")
        self._recent: deque[tuple[Run, Record]] = deque(maxlen=_RECENT_ROWS)
        self._axes: Sequence[str] = ()
        self._errors = self._ended = self._total = 0
        self.live = Live(get_renderable=self._render, console=self._bars.console, transient=True, refresh_per_second=4)

    def begin(self, study: Study, runs: list[Run], found: Mapping[str, Record]) -> None:
        keys = {run.key for run in runs if run.description is not None}
        self._axes, self._total, self._ended = study.axes, len(keys), len(found)
        about = f"{len(found)} were there" if found else ""
        self._bars.update(self._work, description=study.name, total=self._total, completed=len(found), about=about)
        # The pace is that of what is run now.
        self._bars.reset(self._work, completed=len(found), total=self._total)

    def finished(self, run: Run, record: Record) -> None:
        self._recent.append((run, record))
        self._ended += 1
        self._errors += record.status != "done"
        self._bars.update(self._work, about=f"{self._errors} failed" if self._errors else "")

    def tick(self, under_way: float) -> None:
        self._bars.update(self._work, completed=min(self._ended + under_way, self._total))

    def _render(self) -> Any:
        from rich.console import Group

        shown = [name for name in HEADLINES if any(_get(record.summary, name) for _, record in self._recent)]
        rows = [
            [
                *(_text("", value) for value in run.values),
                str(run.seed),
                record.status,
                *(_text(name, _get(record.summary, name)) for name in shown),
                f"{record.elapsed_seconds:.1f} s",
            ]
            for run, record in self._recent
        ]
        heads = [HEADLINES[name] for name in shown]
        names = [*self._axes, "seed", "status", *heads, "took"]
        return Group(table(names, rows, right=[*heads, "took"]), "", self._bars.get_renderable())


@contextmanager
def watched() -> Iterator[Watch]:
    """Show how studies go, on standard error while it is a terminal."""
    if not sys.stderr.isatty():
        yield Watch()
        return
    watch = _Live()
    with watch.live:
        yield watch


def _print_frame(frame: pl.DataFrame, axes: Sequence[str]) -> None:
    """Print the short table of a study."""
    # What is 0 everywhere, such as IOPS without timing, was not measured.
    shown = [name for name in HEADLINES if name in frame.columns and any(frame[name].drop_nulls())]
    told = [warned.COLUMN] if warned.counted(frame) else []
    names = list(dict.fromkeys([*axes, "seed", "status", *shown, *told]))
    heads = [HEADLINES.get(name, name) for name in names]
    rows = [
        [
            warned.short(value) if name == warned.COLUMN else _text(name if name in HEADLINES else "", value)
            for name, value in zip(names, row, strict=True)
        ]
        for row in frame.head(_MOST_ROWS).select(names).iter_rows()
    ]
    print_lines(table(heads, rows, right=[HEADLINES[name] for name in shown]))
    if (warning := warned.of_table(frame)) is not None:
        tell_warnings([warning])
    if frame.height > _MOST_ROWS:
        click.echo(f"... and {frame.height - _MOST_ROWS} more; --csv and --json have all", err=True)


@click.group()
def study() -> None:
    """Grids of runs: executed in parallel, stored, resumed, queried, analysed."""


for command in (*ANALYSES, plot):
    study.add_command(command)


class PartOf(click.ParamType[Part]):
    """One of several parts, such as 1/4."""

    name = "part"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Part:
        """Read and check."""
        try:
            return value if isinstance(value, Part) else Part.parse(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)


@study.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=StoreFolder(),
    metavar="DIR",
    help="The store of results; several studies may share one. Default: out/studies/NAME.",
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Runs at a time. Default: one for every core.")
@click.option("--retry", is_flag=True, help="Execute runs again that ended with an error.")
@click.option(
    "--part",
    type=PartOf(),
    metavar="K/N",
    help="Only the runs of one of N parts, for N processes that share a store: --part 1/4 to --part 4/4.",
)
@click.option(
    "--executor",
    "where",
    type=click.Choice(["threads", "ray"]),
    default="threads",
    show_default=True,
    help="Threads of this process, or the nodes of a Ray cluster (pip install 'ftlab[ray]'; docs/guides/clusters.md).",
)
@click.option(
    "--address",
    metavar="auto|HOST:PORT",
    help="With --executor ray: the cluster. Default: auto, the one that runs here or that RAY_ADDRESS names.",
)
@click.option(
    "--ship-traces",
    is_flag=True,
    help="With --executor ray: send traces of up to 1 GiB to nodes that do not have them.",
)
@click.option("--dry-run", is_flag=True, help="Only say how many runs there are, and how many are missing.")
@click.option(
    "--trace-memory",
    type=click.FloatRange(0, 2**40),
    default=1024,
    show_default=True,
    metavar="MIB",
    help="Memory for decoded traces, which runs share; what does not fit is decoded by each run.",
)
@json_option
def run(
    file: Path,
    out: Path | None,
    jobs: int | None,
    retry: bool,
    part: Part | None,
    where: str,
    address: str | None,
    ship_traces: bool,
    dry_run: bool,
    trace_memory: float,
    as_json: bool,
) -> int:
    """Run the study in FILE (docs/reference/studies.md), or what is missing of it.

    Every run is in the store as soon as it has ended: after Ctrl-C or a crash, the same command goes on. Prints a short
    table, or with --json all rows. Exit status 1 when runs failed, 2 when a machine could not do some; the others are
    done all the same.
    """
    if math.isnan(trace_memory):
        raise click.UsageError("--trace-memory nan: expected MiB, 0 or more")
    _check_executor(where, address, ship_traces=ship_traces, jobs=jobs)
    described = Study.load(file)
    if dry_run:
        return _dry(described, out or _HOME / described.name, part, as_json=as_json)
    store = Store(out or _HOME / described.name)
    memory = int(trace_memory * 2**20)
    # For what is told after an interruption.
    import_whole("polars")
    try:
        with _executor(where, address, memory, jobs, ship_traces=ship_traces) as executor, watched() as watch:
            done = run_study(described, store, executor=executor, retry=retry, part=part, watch=watch)
    except KeyboardInterrupt:
        if described.name not in store.studies():
            raise
        frame = store.frame(described.name)
        ended = frame.height - frame["status"].to_list().count("missing")
        click.echo(f"interrupted: {ended} of {frame.height} runs have ended and are kept in {store.folder}", err=True)
        click.echo("hint: the same command goes on from there", err=True)
        return INTERRUPTED
    frame = store.frame(described.name)
    if as_json:
        print_json(frame.to_dicts())
    else:
        _print_frame(frame, described.axes)
    click.echo(
        f"{described.name}: {frame.height} runs, {done.executed} executed now; results are in {store.folder}", err=True
    )
    status = _tell_errors(described, [(run.values, run.seed, error) for run, error in done.errors])
    # Another machine, or this one at another time, may do them.
    machines = any(record.error_kind == "machine" for record in done.records.values())
    return BAD_INPUT if machines else status


def _check_executor(where: str, address: str | None, *, ship_traces: bool, jobs: int | None) -> None:
    """Refuse options of another executor than the chosen one."""
    if where == "threads":
        for option, given in (("--address", address), ("--ship-traces", ship_traces)):
            if given:
                raise click.UsageError(f"{option} goes with --executor ray")
    elif jobs is not None:
        raise click.UsageError("--jobs counts threads; with --executor ray the nodes say how many processors they have")


def _executor(where: str, address: str | None, memory: int, jobs: int | None, *, ship_traces: bool) -> Executor:
    if where == "threads":
        return ThreadExecutor(jobs, memory)
    from ftlab.studies.ray import RayExecutor

    return RayExecutor(address or "auto", trace_memory_bytes=memory, ship_traces=ship_traces)


def _tell_errors(described: Study, errors: list[tuple[tuple[Any, ...], int | None, str]]) -> int:
    if not errors:
        return 0
    click.echo(f"{len(errors)} failed:", err=True)
    for values, seed, error in errors[:_MOST_ERRORS]:
        named = ", ".join(f"{name} = {value}" for name, value in zip(described.axes, values, strict=True))
        click.echo(f"  {named}{', ' if named else ''}seed {seed}: {error}", err=True)
    if len(errors) > _MOST_ERRORS:
        click.echo(f"  ... and {len(errors) - _MOST_ERRORS} more; the column error of the table has all", err=True)
    return FAILED


def _dry(described: Study, folder: Path, part: Part | None, *, as_json: bool) -> int:
    runs = [run for run in described.runs() if part is None or run.description is None or part.has(run.key)]
    keys = {run.key for run in runs if run.description is not None}
    there: dict[str, Record] = {}
    if (folder / "store.json").is_file():
        there = Store(folder, create=False).records(keys, read_series=True)
    facts = {"study": described.name, "runs": len(runs), "missing": len(keys - set(there))}
    if as_json:
        print_json(facts)
    else:
        click.echo(f"{described!r}: {len(runs)} runs, {facts['missing']} missing in {folder}")
    return 0


@study.command()
@click.argument("folder", metavar="DIR", type=StoreFolder())
@click.option("--study", "name", metavar="NAME", help="Which study of the store. Default: the newest.")
@click.option(
    "--sql",
    "query",
    metavar="QUERY",
    help="Ask DuckDB: SQL over the views study (this study), runs (all of the store), and each study by name.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print all columns as CSV.")
@json_option
def show(folder: Path, name: str | None, query: str | None, as_csv: bool, as_json: bool) -> None:
    """Show the table of a study in the store DIR."""
    if as_csv and as_json:
        raise click.UsageError("give either --csv or --json")
    store = Store(folder, create=False)
    if query is not None:
        print_frame(store.sql(query, name), as_json=as_json, as_csv=as_csv)
        return
    frame = store.frame(name)
    if as_csv or as_json:
        print_frame(frame, as_json=as_json, as_csv=as_csv)
    else:
        _print_frame(frame, store.study(name).axes)


def _stores(folder: Path) -> list[Store]:
    if (folder / "store.json").is_file():
        return [Store(folder, create=False)]
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such directory")
    return [Store(mark.parent, create=False) for mark in sorted(folder.glob("*/store.json"))]


@study.command("list")
@click.argument("folder", metavar="[DIR]", type=StoreFolder(), required=False)
@json_option
def list_(folder: Path | None, as_json: bool) -> None:
    """List the studies in DIR: a store, or a directory of stores. Default: out/studies."""
    stores = [] if folder is None and not _HOME.is_dir() else _stores(folder or _HOME)
    rows: list[dict[str, Any]] = []
    for store in stores:
        studies = store.studies()
        states = store.states() if studies else {}
        for each in studies.values():
            status = ["error" if run.error is not None else states.get(run.key, "missing") for run in each.runs]
            rows.append(
                {
                    "study": each.name,
                    "description": each.description,
                    "store": str(store.folder),
                    "axes": list(each.axes),
                    "runs": len(each.runs),
                    **{kind: status.count(kind) for kind in ("done", "error", "missing")},
                    "saved": each.saved,
                }
            )
        for lost in store.lost_studies():
            click.echo(f"{store.folder}: study {lost!r} was damaged and set aside: run it again", err=True)
    if as_json:
        print_json(rows)
        return
    counts = ("runs", "done", "error", "missing")
    lines = [
        (
            row["study"],
            *(count_text(row[kind]) for kind in counts),
            row["saved"][:19],
            row["store"],
            ", ".join(row["axes"]),
        )
        for row in rows
    ]
    print_lines(table(("study", *counts, "begun (UTC)", "store", "axes"), lines, right=counts))
