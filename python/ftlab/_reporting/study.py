"""What stands in the report of a study."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from ftlab import _labels as labels
from ftlab import _warned as warned
from ftlab._estimates import estimate
from ftlab._reporting.page import Cell, Num, Table, on_paper, raw_text, render
from ftlab._units import count_text
from ftlab.errors import ConfigError
from ftlab.studies.frame import plain
from ftlab.studies.spec import VOLUME

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt
    import polars as pl

    from ftlab.studies import Store, StudyRecord

# What the table of runs shows, as far as the runs have it.
_SHOWN = (
    "write_amplification.total",
    "host.iops",
    "latency_ns.read.mean",
    "latency_ns.write.mean",
    "latency_ns.all.p99",
    "map_cache.hit_ratio",
    "buffer.hit_ratio",
    "gc.collections",
    "wear.erase_max",
)
# What the chart shows at first: the first of these that differs between runs.
_FIRST = ("write_amplification.total", "latency_ns.all.mean", "host.iops", "gc.collections")
# These are 0 without a clock, and where nothing was written.
_OF_NOTHING = ("latency_ns.", "write_amplification.")
_MOST_ROWS = 1_000
# A table of more runs is folded, where their means stand above it.
_UNFOLDED_ROWS = 12
_MOST_VALUES = 24
_MOST_COLORS = 8
_FIXED = ("seed", "status", "error", "key")


def _done(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(frame["status"] == "done")


def _axes(frame: pl.DataFrame, axes: Sequence[str]) -> Table:
    rows: list[list[Cell]] = []
    for axis in axes:
        values = frame[axis].unique(maintain_order=True).to_list()
        texts = [labels.value_text(axis, value) for value in values[:_MOST_VALUES]]
        more = f", and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
        rows.append([labels.name(axis), axis, ", ".join(texts) + more, count_text(len(values))])
    seeds = frame["seed"].unique(maintain_order=True).to_list()
    if "seed" not in axes:
        texts = ["as the workload states" if seed is None else str(seed) for seed in seeds[:_MOST_VALUES]]
        rows.append(["seed", "seed", ", ".join(texts), count_text(len(seeds))])
    return Table("", ("axis", "key", "values", "how many"), rows, words=("axis", "key", "values"))


def _varies(frame: pl.DataFrame, name: str) -> bool:
    return frame[name].n_unique() > 1


def _metrics(frame: pl.DataFrame, axes: Sequence[str]) -> list[str]:
    """Columns of numbers that differ between runs: what can be drawn."""
    return [
        name
        for name, kind in frame.schema.items()
        if name not in {*axes, *_FIXED} and kind.is_numeric() and _varies(frame, name)
    ]


def _shown(frame: pl.DataFrame, axes: Sequence[str]) -> list[str]:
    """Columns of the table of runs; what is 0 everywhere, such as IOPS without timing, was not measured."""
    return [name for name in _SHOWN if name in frame.columns and name not in axes and any(frame[name].drop_nulls())]


def _schemes_of(frame: pl.DataFrame, axes: Sequence[str]) -> list[str]:
    """The axes whose values are compared: those of the device with few values.

    Where there are none, it is one axis: the first of names that varies, else the first of numbers.
    """
    from ftlab.analysis.front import is_given

    varied = [axis for axis in axes if axis != "seed" and _varies(frame, axis)]
    chosen = [axis for axis in varied if axis != VOLUME and not is_given(axis)]
    # Of axes that are zipped, one says it all.
    few = [axis for axis in chosen if frame[axis].n_unique() <= _MOST_COLORS]
    apart = [axis for at, axis in enumerate(few) if not any(_same(frame, axis, other) for other in few[:at])]
    if apart:
        return apart
    others = chosen or varied
    return [axis for axis in others if not frame.schema[axis].is_numeric()][:1] or others[:1]


def _follows(frame: pl.DataFrame, axis: str, other: str) -> bool:
    """Whether an axis has one value for each value of another, as axes that are zipped with it have."""
    return frame.select(axis, other).n_unique() == frame[other].n_unique()


def _same(frame: pl.DataFrame, axis: str, other: str) -> bool:
    return _follows(frame, axis, other) and _follows(frame, other, axis)


def _means(frame: pl.DataFrame, by: str, shown: Sequence[str]) -> Table | None:
    """Means over seeds with their intervals, point by point."""
    from ftlab.analysis import compare

    try:
        found = compare(frame, by, list(shown))
    except ConfigError:
        # Two runs of a point have one seed, or a metric has no value at all: the table of runs has them.
        return None
    if found.height > _MOST_ROWS:
        return None
    named = found.columns[: found.columns.index("metric")]
    cells: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for row in found.iter_rows(named=True):
        point = tuple(labels.value_text(name, row[name]) for name in named)
        cells.setdefault(point, {})[row["metric"]] = row
    units = {key: labels.label(key, found.filter(metric=key)["mean"].abs().max()) for key in shown}  # type: ignore[arg-type] # a column of floats
    heads = [f"{unit.text} ({unit.unit})" if unit.unit else unit.text for unit in units.values()]
    rows: list[list[Cell]] = []
    for point, metrics in cells.items():
        first = next(iter(metrics.values()))
        texts = [
            estimate(each["mean"], each["low"], each["high"], units[key].scale) if (each := metrics.get(key)) else "-"
            for key in shown
        ]
        rows.append([*point, count_text(first["n"]), *texts])
    names = [labels.name(name) for name in named]
    note = "Means over seeds, with 95 % confidence intervals (Student's t)."
    return Table("Means", [*names, "runs", *heads], rows, note, words=names, id="means")


def _numbered(keys: Sequence[Any]) -> npt.NDArray[np.intp]:
    """The number of each key, in the order in which they are met."""
    import numpy as np

    known = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    return np.array([known[key] for key in keys], dtype=np.intp)


def _balanced(frame: pl.DataFrame, others: Sequence[str]) -> tuple[pl.DataFrame, bool]:
    """The rows of seeds and points of which each seed has each point; otherwise, seeds would stand for other points.

    What is left out is what misses most. Where that would be half of the rows or more, all stay.

    Returns:
        The rows, and whether each seed has each point.
    """
    import numpy as np
    import polars as pl

    from ftlab.analysis import tables

    seed, at = (_numbered(tables.keys(frame, names)) for names in (["seed"], others))
    there = np.zeros((seed.max() + 1, at.max() + 1), dtype=bool)
    there[seed, at] = True
    seeds, points = np.arange(there.shape[0]), np.arange(there.shape[1])
    while not (kept := there[np.ix_(seeds, points)]).all():
        of_seed, of_point = kept.mean(axis=1), kept.mean(axis=0)
        if of_seed.min() <= of_point.min():
            seeds = np.delete(seeds, of_seed.argmin())
        else:
            points = np.delete(points, of_point.argmin())
    rows = np.isin(seed, seeds) & np.isin(at, points)
    return (frame.filter(pl.Series(rows)), True) if 2 * rows.sum() > rows.size else (frame, False)


def _averaged(frame: pl.DataFrame, by: str, others: Sequence[str], metric: str) -> tuple[pl.DataFrame, bool]:
    """A row for each value of an axis and each seed: the mean of a metric over the points that all values have.

    Returns:
        The rows, and whether each seed has each point.
    """
    import polars as pl

    from ftlab.analysis import tables

    known = pl.Series(metric, tables.numbers(frame, metric), dtype=pl.Float64)
    measured = frame.with_columns(known).filter(pl.col(metric).is_not_null())
    values = measured[by].n_unique()
    point = pl.struct("seed", *others).alias("point")
    whole = measured.with_columns(point).filter(pl.col(by).n_unique().over("point") == values)
    if metric.startswith(_OF_NOTHING) and others:
        # What is 0 in all runs of a point was not measured there.
        whole = whole.filter((pl.col(metric) != 0).any().over(others))
    same = True
    if others and whole.height:
        whole, same = _balanced(whole, others)
    told = pl.lit("") if warned.COLUMN not in frame.columns else pl.col(warned.COLUMN).fill_null("").str.join(", ")
    rows = whole.group_by(by, "seed", maintain_order=True).agg(pl.col(metric).mean(), told.alias(warned.COLUMN))
    return rows, same


def _at_points(frame: pl.DataFrame, by: str, metric: str, baseline: Any) -> dict[Any, str]:
    """What the verdicts at the points are, by value of the axis: means over points may hide that they differ."""
    from ftlab.analysis import compare

    found = compare(frame, by, metric, baseline=baseline)
    told: dict[Any, Counter[str]] = {}
    for row in found.iter_rows(named=True):
        if row["difference"] is not None:
            told.setdefault(row[by], Counter())[row["verdict"] or "not known"] += 1
    return {value: ", ".join(f"{count} {word}" for word, count in each.most_common()) for value, each in told.items()}


def _compared(frame: pl.DataFrame, axes: Sequence[str], schemes: Sequence[str], shown: Sequence[str]) -> Table | None:
    """Each value of an axis against the first one, axis by axis, with the others averaged."""
    from ftlab.analysis import compare

    rows: list[list[Cell]] = []
    apart = False
    for by in schemes:
        others = [axis for axis in axes if axis not in {by, "seed"} and not _follows(frame, axis, by)]
        first = frame[by][0]
        # What changes along with it has a share in the difference.
        along = [labels.name(axis) for axis in axes if axis not in {by, "seed"} and _follows(frame, axis, by)]
        called = f"{labels.name(by)}, with {' and '.join(along)}" if along else labels.name(by)
        for metric in shown:
            try:
                averaged, same = _averaged(frame, by, others, metric)
                found = compare(averaged, by, metric, at=[], baseline=first)
                points = _at_points(frame, by, metric, first) if others else {}
            except ConfigError:
                # A value has no such metric, or no point that all values have: the table of runs has them.
                continue
            apart = apart or not same
            name = labels.label(metric, found["mean"].abs().max()).text  # type: ignore[arg-type] # a column of floats
            for row in found.iter_rows(named=True):
                if row["difference"] is None:
                    continue
                unit = labels.label(metric, abs(row["difference"]))
                between = row["difference"], row["difference_low"], row["difference_high"]
                told = row["verdict"] or "one seed: not known"
                against = f"{labels.value_text(by, row[by])} minus {labels.value_text(by, first)}"
                cells = [called, against, name, estimate(*between, unit.scale, "+", unit.unit), told]
                rows.append([*cells, points.get(row[by], "-")])
    if not rows:
        return None
    told = (
        "Means over the points of the other axes that all values and seeds have, with 95 % confidence intervals of the "
        "differences over seeds. Runs with the same seed are compared. A verdict is withheld where runs are not steady."
    )
    if apart:
        told += " Some seeds have other points than others: how points differ is in these intervals, too."
    columns = ["axis", "compared", "metric", "difference", "verdict", "at single points"]
    if all(row[-1] == "-" for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    words = [name for name in columns if name != "difference"]
    return Table("Compared", columns, rows[:_MOST_ROWS], told, words=words, id="compared")


def _fleet(frame: pl.DataFrame, axes: Sequence[str], shown: Sequence[str]) -> Table | None:
    """How each metric is distributed over the volumes of a fleet, which are too many to be read one by one."""
    from ftlab.analysis import fleet

    if VOLUME not in axes or not _varies(frame, VOLUME):
        return None
    places = ("mean", "min", "p50", "p90", "p99", "max")
    rows: list[list[Cell]] = []
    named: list[str] = []
    for key in shown:
        found = fleet(frame, key)
        named = found.columns[: found.columns.index("volumes")]
        unit = labels.label(key, found["max"].abs().max())  # type: ignore[arg-type] # a column of floats
        head = f"{unit.text} ({unit.unit})" if unit.unit else unit.text
        for row in found.iter_rows(named=True):
            scheme = [labels.value_text(name, row[name]) for name in named]
            numbers = [estimate(row[place], None, None, unit.scale) for place in places]
            rows.append([head, *scheme, count_text(row["volumes"]), *numbers])
    names = [labels.name(name) for name in named]
    note = "Over the volumes, each with its mean over seeds. `ftlab study fleet` names the worst ones."
    columns = ["metric", *names, "volumes", "mean", "least", "median", "p90", "p99", "most"]
    return Table("The fleet", columns, rows, note, words=names, id="fleet") if rows else None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _query(names: Sequence[str], condition: str = "") -> str:
    return f"SELECT {', '.join(map(_quoted, names))} FROM study{condition}"  # noqa: S608 - quoted


def _grid(frame: pl.DataFrame, axes: Sequence[str], shown: Sequence[str]) -> dict[str, Any]:
    told = [warned.COLUMN] if warned.counted(frame) else []
    names = list(dict.fromkeys([*axes, "seed", "status", *shown, *told]))
    rows = []
    for at, row in enumerate(frame.head(_MOST_ROWS).iter_rows(named=True)):
        cells = []
        for name in names:
            value = row[name]
            text = "-" if value is None else str(value) if name == "seed" else labels.value_text(name, value)
            source = f"{name} of run {row['key']}"
            # Numbers are sorted as such, and say where they come from; axes are words as well as numbers.
            cells.append(Num(text, source, raw_text(value)) if name in shown and value is not None else text)
        sort = [row[name] if isinstance(row[name], int | float) else str(row[name] or "") for name in names]
        rows.append({"at": at, "cells": cells, "sort": sort, "status": row["status"]})
    columns = [{"name": labels.name(name), "key": name, "number": name in shown} for name in names]
    texts = [[cell if isinstance(cell, str) else cell.text for cell in row["cells"]] for row in rows]
    return {
        "columns": columns,
        "on_paper": on_paper([labels.name(name) for name in names], texts, [name in shown for name in names]),
        "rows": rows,
        "more": max(0, frame.height - _MOST_ROWS),
        "query": _query(names),
    }


def _data(frame: pl.DataFrame, axes: Sequence[str], metrics: Sequence[str]) -> dict[str, Any]:
    """The table for the script: a column each, the same value in all runs once."""
    frame = plain(frame)
    columns = []
    for name in frame.columns:
        values = frame[name].to_list()
        base, factor = labels.quantity(name)
        column: dict[str, Any] = {"key": name, "name": labels.name(name), "base": base, "factor": factor}
        if frame.height > 1 and len({json.dumps(value) for value in values}) == 1:
            column["same"] = values[0]
        else:
            column["values"] = values
        columns.append(column)
    first = next((name for name in _FIRST if name in metrics), metrics[0] if metrics else None)
    done = _done(frame)
    x, color = _chosen(done if done.height else frame, axes)
    return {
        "study": {
            "axes": list(axes),
            "metrics": list(metrics),
            "first": {"metric": first, "x": x, "color": color},
            "columns": columns,
        }
    }


def _chosen(frame: pl.DataFrame, axes: Sequence[str]) -> tuple[str, str | None]:
    """The axes to begin with: along the one with most numbers, coloured by the one with most values that stay apart."""
    varied = [axis for axis in axes if _varies(frame, axis)] or ["seed"]
    numeric = [axis for axis in varied if frame.schema[axis].is_numeric()]
    x = max(numeric, key=lambda axis: frame[axis].n_unique()) if numeric else varied[-1]
    others = [axis for axis in varied if axis != x]
    apart = [axis for axis in others if frame[axis].n_unique() <= _MOST_COLORS]
    return x, max(apart, key=lambda axis: frame[axis].n_unique()) if apart else None


def _toml(spec: dict[str, Any]) -> tuple[str, str]:
    """The description of a study as a file, and the file's kind."""
    import tomli_w

    def without_none(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_none(each) for key, each in value.items() if each is not None}
        return value

    try:
        return tomli_w.dumps(without_none(spec)), "toml"
    except TypeError:
        return json.dumps(spec, indent=2), "json"


def _errors(frame: pl.DataFrame, axes: Sequence[str]) -> Table | None:
    failed = frame.filter(frame["status"] == "error")
    if not failed.height:
        return None
    rows: list[list[Cell]] = []
    for row in failed.head(_MOST_ROWS).iter_rows(named=True):
        values = [f"{axis} = {labels.value_text(axis, row[axis])}" for axis in axes]
        rows.append([", ".join([*values, f"seed {row['seed']}"]), row["error"] or ""])
    query = _query([*axes, "seed", "error"], " WHERE status = 'error'")
    return Table("", ("run", "error"), rows, words=("run", "error"), query=query)


def _what(store: Store, study: StudyRecord, frame: pl.DataFrame, axes: Sequence[str]) -> list[tuple[str, str]]:
    records = store.records(run.key for run in study.runs)
    engines = sorted({record.description["engine"] for record in records.values()})
    status = frame["status"].to_list()
    words = {"done": "done", "error": "failed", "missing": "missing"}
    told = [f"{count_text(status.count(each))} {word}" for each, word in words.items() if each in status]
    rows = [("Runs", f"{count_text(frame.height)}: {', '.join(told)}")]
    for part in ("device", "workload"):
        if part in frame.columns and part not in axes:
            names = frame[part].drop_nulls().unique(maintain_order=True).to_list()
            if len(names) == 1:
                rows.append((part.capitalize(), str(names[0])))
    rows.append(("Engine", ", ".join(engines) or "nothing has run yet"))
    if "stand_in.stands_for" in frame.columns:
        stands = [text for text in frame["stand_in.stands_for"].unique(maintain_order=True).to_list() if text]
        rows.append(("Stand-ins", f"workloads that are generated, not recorded, stand for: {', '.join(stands)}"))
    if "stand_in.uncalibrated" in frame.columns:
        reasons = frame["stand_in.uncalibrated"].drop_nulls().unique(maintain_order=True).to_list()
        rows.append(("Uncalibrated", "; ".join(text for text in reasons if text)))
    return rows


def study_page(store: Store, name: str | None = None, title: str | None = None) -> str:
    """Make the page of a study.

    Args:
        store: The store.
        name: The study. Default: the newest.
        title: The title. Default: the study's name.

    Raises:
        ConfigError: There is no such study, or none of its runs has ended.
    """
    study = store.study(name)
    frame = store.frame(study.name)
    axes = list(study.axes)
    if not any(status != "missing" for status in frame["status"].to_list()):
        raise ConfigError(f"{store.folder}: no run of study {study.name!r} has ended: nothing to report")
    done = _done(frame)
    metrics = _metrics(done, axes) if done.height else []
    shown = _shown(frame, axes)
    text, kind = _toml(study.spec)
    schemes = _schemes_of(done, axes) if done.height and shown else []
    means = _means(done, schemes[0], shown) if schemes else None
    compared = _compared(done, axes, schemes, shown)
    same = [
        (column, labels.value_text(column, done[column][0]))
        for column in done.columns
        if column not in {*axes, *_FIXED} and done.height > 1 and done[column].n_unique() == 1 and done[column][0]
    ]
    return render(
        "study.html",
        _data(frame, axes, metrics),
        title=title or f"Study {study.name}",
        name=study.name,
        description=study.description,
        what=_what(store, study, frame, axes),
        axes=_axes(frame, axes),
        fleet=_fleet(done, axes, shown) if done.height else None,
        means=means,
        compared=compared,
        folded=means is not None and frame.height > _UNFOLDED_ROWS,
        errors=_errors(frame, axes),
        warnings=warned.of_table(frame),
        missing=frame["status"].to_list().count("missing"),
        stand_in="stand_in.stands_for" in frame.columns,
        drawn=bool(metrics),
        grid=_grid(frame, axes, shown),
        same=same,
        spec=text,
        kind=kind,
        mean=_mean_query(axes, metrics),
    )


def _mean_query(axes: Sequence[str], metrics: Sequence[str]) -> str:
    metric = next((name for name in _FIRST if name in metrics), metrics[0] if metrics else "host.completed")
    groups = "".join(f"{_quoted(axis)}, " for axis in axes if axis != "seed")
    return f"SELECT {groups}avg({_quoted(metric)}), stddev({_quoted(metric)}), count(*) FROM study GROUP BY ALL"  # noqa: S608 - quoted
