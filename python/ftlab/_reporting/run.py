"""What stands in the report of a run."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ftlab import _labels as labels
from ftlab import _native
from ftlab import _warned as warned
from ftlab._device import Device
from ftlab._reporting.drawing import Shape, draw
from ftlab._reporting.page import MOST_POINTS, Axis, Cell, Chart, Num, Numbers, Table, clean, raw_text, render
from ftlab._series import amplification, band, known, over_time, percentile_columns
from ftlab._units import bytes_text, count_text
from ftlab._workload import Workload
from ftlab.errors import FtlabError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from markupsafe import Markup

    from ftlab._reporting.data import RunData

CAUSES = {
    "host": "host",
    "cache_flush": "cache flush",
    "gc": "garbage collection",
    "merge": "merge",
    "map": "mapping",
    "metadata": "metadata",
    "lsb_backup": "LSB backup",
    "wear_level": "wear levelling",
    "recovery": "recovery",
}
# The percentile from which on requests are explained, and the share of their time below which a part is not drawn.
_TAIL, _LEAST_SHARE = 99.0, 0.005
_OPS = ("all", "read", "write", "trim", "flush")
_STATISTICS = ("mean", "stdev", "min", "p50", "p90", "p99", "p999", "max")
_HEADINGS = ("mean", "std. dev.", "min", "p50", "p90", "p99", "p99.9", "max")
_COMMANDS = {"reads": "page reads", "programs": "page programs", "copybacks": "copybacks", "erases": "block erases"}
# Intervals of the line that shows the trend: more would show single collections.
_TREND_POINTS = 40
# A latency with more zeros than this is drawn on a logarithmic axis.
_WIDE_RANGE = 20

_PERCENTILES_NOTE = (
    " A percentile is of as many requests that ten are slower. Where a point stands for several of them, it is the "
    "middle one, and of p99.9 the largest."
)

# The numbers at the head of the page, as far as the run has them.
_HEAD = (
    "host.completed",
    "host.iops",
    "host.bytes_per_second",
    "latency_ns.read.mean",
    "latency_ns.read.p99",
    "latency_ns.read.p999",
    "latency_ns.write.mean",
    "latency_ns.write.p99",
    "latency_ns.write.p999",
    "write_amplification.total",
    "gc.collections",
    "wear.erase_mean",
    "map_cache.hit_ratio",
    "map_cache.mean_penalty_ns",
)
# What is about flash.
_OF_FLASH = ("write_amplification.", "gc.", "merges.", "wear.")
# Beside its neighbours, its own name would say too little.
_NAMES = {"host.bytes_per_second": "data rate"}
_SECTIONS = {
    "host": "Requests",
    "gc": "Garbage collection",
    "merges": "Merges",
    "wear": "Wear",
    "map_cache": "Mapping cache",
    "buffer": "Write buffer",
    "lsb_backup": "LSB backup",
    "journal": "Journal of trims",
    "precondition": "Preconditioning",
    "verify": "Verification",
    "memory": "Memory of the model",
}
_PENALTY_PARTS = {
    "fetch": "reading what is missing",
    "program": "writing pages of the table back",
    "rest": "reading what memory does not hold of those",
    "probe": "reading data that were predicted wrongly",
}
_SECTION_NOTES = {
    "wear": "Erases of blocks, preconditioning included.",
    "precondition": "State of the drive before the measured run.",
    "verify": "Every sector read was compared with the newest data written to it.",
}


def _flat(summary: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every value by dotted key, lists included."""
    found: dict[str, Any] = {}
    for key, value in summary.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def _has_flash(numbers: Numbers) -> bool:
    """Whether flash did anything; in a model of mapping caches alone, it is not there."""
    return any(numbers[f"flash.{kind}.total"] for kind in _COMMANDS)


def _measured(numbers: Numbers, key: str) -> bool:
    """Whether a number says something: rates without a clock, and latencies of what did not occur, do not."""
    if key not in numbers:
        return False
    if key.startswith(_OF_FLASH):
        return _has_flash(numbers)
    if key.startswith("latency_ns."):
        return bool(numbers[f"{key.rsplit('.', 1)[0]}.count"])
    return "latency_ns.all.count" in numbers or key not in {"host.iops", "host.bytes_per_second"}


def _head(numbers: Numbers) -> list[tuple[str, Num]]:
    return [(_NAMES.get(key) or labels.name(key), numbers.num(key)) for key in _HEAD if _measured(numbers, key)]


def _latency(numbers: Numbers) -> list[Table]:
    tables = []
    for key, title, note in (
        ("latency_ns", "Latency", "From handing a request to the drive until it is done."),
        ("host_wait_ns", "Wait in the host", "From arrival until the drive takes the request."),
    ):
        ops = [(op, f"{key}.{op}") for op in _OPS] if key == "latency_ns" else [("all", key)]
        rows: list[list[Cell]] = [
            [op, *(numbers.num(f"{prefix}.{name}") for name in ("count", *_STATISTICS))]
            for op, prefix in ops
            if numbers.get(f"{prefix}.count")
        ]
        if len(rows) == 2:  # noqa: PLR2004 - one operation, which is all of them
            rows = rows[1:]
        if rows:
            tables.append(Table(title, ("operation", "requests", *_HEADINGS), rows, note, id=key))
    return tables


def _causes(numbers: Numbers, key: str) -> list[str]:
    return [cause for cause in CAUSES if numbers.get(f"{key}.{cause}")]


def _work(numbers: Numbers) -> Table:
    """Die time, write amplification and commands by cause."""
    kinds = {"busy_ns": "die time"} if "busy_ns.total" in numbers else {}
    shares = {key: f"{name}, share" for key, name in kinds.items()}
    counts = {f"flash.{kind}": text for kind, text in _COMMANDS.items() if numbers[f"flash.{kind}.total"]}
    amplification = {"write_amplification": "write amplification"} if "write_amplification.total" in numbers else {}
    columns = {**kinds, **amplification, **counts}
    present = [cause for cause in CAUSES if any(cause in _causes(numbers, key) for key in columns)]

    def row(name: str, part: str) -> list[Cell]:
        cells: list[Cell] = [name]
        for key in columns:
            cells.append(numbers.num(f"{key}.{part}"))
            if key in shares:
                formula = f"{key}.{part} / {key}.total"
                cells.append(numbers.share(numbers[f"{key}.{part}"], numbers[f"{key}.total"], formula))
        return cells

    heads = [text for key, name in columns.items() for text in ((name, shares[key]) if key in shares else (name,))]
    rows = [row(CAUSES[cause], cause) for cause in present] + [row("all", "total")]
    note = (
        "Every flash command knows why it runs; the parts sum to the whole. Write amplification is flash pages "
        "programmed for each page that the host wrote."
    )
    return Table("The same in numbers", ("cause", *heads), rows, note, id="work")


def _section(numbers: Numbers, part: str) -> Table | None:
    keys = [key for key, value in numbers.values.items() if key.startswith(f"{part}.") and not isinstance(value, list)]
    if f"{part}." in _OF_FLASH and not _has_flash(numbers):
        return None
    if part == "host":
        # What did not happen is in the table of all numbers.
        keys = [key for key in keys if numbers[key]]
    if not keys:
        return None
    rows: list[list[Cell]] = []
    for key in keys:
        name = _NAMES.get(key) or labels.name(key)
        rows.append([name[:1].upper() + name[1:], numbers.num(key)])
    if part == "gc" and numbers["gc.collections"]:
        formula = "gc.pages_copied / gc.collections"
        value = numbers["gc.pages_copied"] / numbers["gc.collections"]
        rows.append(["Valid pages copied from each block", Num(f"{value:.4g}", formula, raw_text(value))])
    return Table(_SECTIONS[part], ("", ""), rows, _SECTION_NOTES.get(part, ""), id=part)


# Time series


def _groups(size: int, most: int) -> list[np.ndarray[Any, Any]]:
    return np.array_split(np.arange(size), min(size, most))


def _means(values: Any, weights: Any, groups: Sequence[Any]) -> list[float]:
    known = np.nan_to_num(values)
    weights = np.where(np.isnan(values), 0.0, weights)
    return [
        float(np.average(known[group], weights=weights[group])) if weights[group].sum() > 0 else float("nan")
        for group in groups
    ]


def _points(x: Any, y: Sequence[float] | np.ndarray[Any, Any]) -> list[list[Any]]:
    return [[a, b] for a, b in zip(clean(x), clean(y), strict=True)]


class _Series:
    """Charts of the time series."""

    def __init__(self, series: dict[str, np.ndarray[Any, Any]]) -> None:
        self.columns = {name: values.astype(float) for name, values in series.items()}
        self.size = self.columns["requests"].size
        self.timed = bool(self.size and self.columns["simulated_ns"][-1] > 0)
        self.groups = _groups(self.size, MOST_POINTS)
        self.trend = _groups(self.size, _TREND_POINTS) if self.size > _TREND_POINTS else []
        self.x = Axis("simulated_ns" if self.timed else "requests", "simulated time" if self.timed else "requests")
        self.spans = np.diff(self.columns["simulated_ns"], prepend=0.0)
        self.completed = np.diff(self.columns["requests"], prepend=0.0)
        self.columns["write_amplification"], self.written = amplification(self.columns)
        # Folders of an older ftlab do not have them.
        self.lookups = self.columns.get("map_lookups", self.completed)

    def _at(self, groups: Sequence[Any]) -> Any:
        return self.columns[self.x.key][[group[-1] for group in groups]]

    def line(self, column: str, weights: Any, name: str) -> list[dict[str, Any]]:
        """Each interval faintly, and the mean over some of them boldly."""
        values = self.columns[column]
        faint = bool(self.trend)
        each = _points(self._at(self.groups), _means(values, weights, self.groups))
        lines = [{"name": "each interval" if faint else name, "data": each, "faint": faint, "at": 0}]
        if faint:
            trend = _points(self._at(self.trend), _means(values, weights, self.trend))
            lines.append({"name": name, "data": trend, "at": 0})
        return lines

    def largest(self, column: str, name: str) -> dict[str, Any]:
        values = self.columns[column]
        data = _points(self._at(self.groups), [float(np.max(values[group])) for group in self.groups])
        return {"name": name, "data": data, "dots": True, "at": 1}

    def percentiles(self) -> list[dict[str, Any]]:
        """The latency of reads and of writes: a line for the median, a band up to p99, and dots for p99.9."""
        found: list[dict[str, Any]] = []
        for at, op in enumerate(("read", "write")):
            median, _, highest = percentile_columns(op)
            if not known(self.columns, median).size:
                continue
            x = self.columns[self.x.key]
            at_ends, low, top = band(x, self.columns, op)
            if at_ends.size:
                data = [list(point) for point in zip(clean(at_ends), clean(low), clean(top), strict=True)]
                found.append({"name": f"{op}, p50 to p99", "data": data, "band": True, "at": at})
            line = over_time(x, self.columns, median)
            found.append({"name": f"{op}, p50", "data": _points(*line), "at": at, "solid": True})
            if known(self.columns, highest).size:
                dots = over_time(x, self.columns, highest, np.max)
                found.append({"name": f"{op}, p99.9", "data": _points(*dots), "dots": True, "at": at})
        return found

    def smallest(self, column: str, name: str) -> dict[str, Any]:
        values = self.columns[column]
        return {
            "name": name,
            "data": _points(self._at(self.groups), [float(np.min(values[group])) for group in self.groups]),
        }

    def last(self, column: str, name: str) -> dict[str, Any]:
        """What holds at the end of each interval."""
        values = self.columns[column]
        return {"name": name, "data": _points(self._at(self.groups), [values[group[-1]] for group in self.groups])}

    def parts(self, prefix: str, suffix: str) -> list[dict[str, Any]]:
        """Means over lookups that make up a whole, stacked; each over some intervals, as the trend."""
        groups = self.trend or self.groups
        found = []
        for column, values in self.columns.items():
            part = column.removeprefix(prefix).removesuffix(suffix)
            if column == f"{prefix}{part}{suffix}" and np.nansum(values) > 0:
                means = _points(self._at(groups), _means(values, self.lookups, groups))
                found.append({"name": part, "data": means, "stack": "all"})
        return found

    def shares(self, prefix: str) -> list[dict[str, Any]]:
        """Columns of a prefix as parts of their sum, stacked; each over some intervals, as the trend."""
        groups = self.trend or self.groups
        names = [name for name in self.columns if name.startswith(prefix)]
        sums = {name: np.array([np.nansum(self.columns[name][group]) for group in groups]) for name in names}
        whole = np.sum(list(sums.values()), axis=0) if names else np.array([])
        return [
            {
                "name": name.removeprefix(prefix),
                "data": _points(
                    self._at(groups), np.divide(part, whole, out=np.full(part.size, np.nan), where=whole > 0)
                ),
                "stack": "all",
            }
            for name, part in sums.items()
            if part.any()
        ]

    @property
    def note(self) -> str:
        """How many intervals a point stands for."""
        text = f"From series.parquet, {count_text(self.size)} intervals"
        if self.size > MOST_POINTS:
            text += f"; each point stands for about {self.size / len(self.groups):.0f} of them"
        return f"{text}."


def _add_map_cache(s: _Series, add: Callable[..., None]) -> None:
    for column, name, title in (
        ("map_hit_ratio", "hit ratio", "Hits of the mapping cache"),
        ("map_penalty_mean_ns", "penalty of a lookup", "Penalty of the mapping cache"),
    ):
        if column in s.columns:
            lines = s.line(column, s.lookups, "mean over time")
            add(column.replace("_", "-"), title, Axis(column, name), lines)
    parts = s.parts("map_penalty_", "_mean_ns")
    if len(parts) > 1:
        told = "; ".join(f"{each['name']}: {_PENALTY_PARTS[each['name']]}" for each in parts)
        y = Axis("map_penalty_mean_ns", "penalty of a lookup")
        add("map-penalty-parts", "Parts of the mapping cache's penalty", y, parts, f" {told}.")
    for prefix, title in (
        ("map_window_", "Windows chosen by the mapping cache"),
        ("map_content_bytes_", "Content of the mapping cache"),
    ):
        shares = s.shares(prefix)
        if len(shares) > 1:
            told = f" Columns {prefix}*, as shares of their sum."
            add(prefix.strip("_").replace("_", "-"), title, Axis("share", most=1), shares, told)
    told = " Columns map_score_*, at the ends of intervals."
    scores = [name for name in s.columns if name.startswith("map_score_")]
    for key, named, columns in (
        ("map_score", "score", [name for name in scores if not name.endswith("_bytes")]),
        ("map_score_bytes", "bytes", [name for name in scores if name.endswith("_bytes")]),
    ):
        if any(s.columns[name].any() for name in columns):
            title = "Scores of the mapping cache" + (", in bytes" if key.endswith("bytes") else "")
            lines = [s.last(name, name.removeprefix("map_score_")) for name in columns]
            add(key.replace("_", "-"), title, Axis(key, named), lines, told)


def _series_charts(run: RunData, numbers: Numbers) -> list[Chart]:
    if run.series is None or not len(run.series.get("requests", ())):
        return []
    try:
        s = _Series(run.series)
        latency_mean, latency_max = s.columns["latency_mean_ns"], s.columns["latency_max_ns"]
        amplification = s.line("write_amplification", s.written, "mean over time")
        iops = s.line("iops", s.spans, "mean over time")
        means = [*s.line("latency_mean_ns", s.completed, "mean"), s.largest("latency_max_ns", "largest")]
        free = [s.smallest("free_blocks", "free blocks")]
    except KeyError as error:
        raise InputError(f"series.parquet: has no column {error}, which `ftlab run --out` writes") from error
    charts = []

    def add(id: str, title: str, y: Axis, lines: list[dict[str, Any]], note: str = "") -> None:
        charts.append(Chart(f"series-{id}", f"{title} over time", s.x, y, lines, s.note + note, "series"))

    if numbers.get("write_amplification.total"):
        total = numbers["write_amplification.total"]
        ends = s.columns[s.x.key][[0, -1]]
        whole = {"name": "whole run", "data": _points(ends, [total, total]), "dashed": True, "color": "#57606a"}
        add("wa", "Write amplification", Axis("write_amplification.total"), [*amplification, whole])
    if s.timed:
        add("iops", "Throughput", Axis("host.iops"), iops)
        percentiles = s.percentiles()
        drawn = [value for each in percentiles for point in each["data"] for value in point[1:]]
        every = np.array(drawn) if percentiles else np.concatenate([latency_mean, latency_max])
        wide = bool(np.any(every > 0)) and float(np.max(every)) > _WIDE_RANGE * float(np.min(every[every > 0]))
        axis = Axis("latency_ns", "latency", "log" if wide else "linear")
        add("latency", "Latency", axis, percentiles or means, _PERCENTILES_NOTE if percentiles else "")
    if _has_flash(numbers):
        told = " Blocks of the whole drive that are erased and not in use."
        add("free", "Free blocks", Axis("free_blocks", "free blocks"), free, told)
    _add_map_cache(s, add)
    return charts


# Latencies


# A distribution is drawn at these shares: evenly in its body, and closer and closer to 1 in its tail. They are whole
# numbers of parts, so that ranks are exact: 0.9 of 10 is 9, which the nearest binary number is not.
_PARTS = 10**9
_LEVELS = np.array([
    *(_PARTS // 100 * level for level in range(91)),
    *(_PARTS - _PARTS // 10**digits * left for digits in range(2, 10) for left in range(9, 0, -1)),
])  # fmt: skip
_PERCENTILES = {"p50": _PARTS // 2, "p90": _PARTS // 10 * 9, "p99": _PARTS // 100 * 99, "p999": _PARTS // 1000 * 999}


def _last_level(count: int) -> float:
    """Where the largest of a number of requests is drawn: on an axis that never reaches 1, half a request before it."""
    return 1 - 0.5 / max(count, 1)


def _quantiles(values: np.ndarray[Any, Any]) -> list[list[Any]]:
    """Points of a distribution: the smallest value that a share of the sorted values does not exceed, and the share."""
    levels = _LEVELS[_LEVELS * values.size <= _PARTS * (values.size - 1)]
    ranks = np.maximum(-(-levels * values.size // _PARTS) - 1, 0)
    latencies = clean(np.append(values[ranks], values[-1]))
    shares = [*(levels / _PARTS).tolist(), _last_level(values.size)]
    return [[latency, round(_tail(share), 6)] for latency, share in zip(latencies, shares, strict=True)]


def _tail(share: float) -> float:
    """Where a share stands on an axis on which each step is a tenth of what is left."""
    return float(-np.log10(max(1 - share, 1e-12)))


def _latencies(path: Path) -> dict[str, Any]:
    import polars as pl

    try:
        # Polars takes names that are text only, and files of any name.
        with path.open("rb") as file:
            frame = pl.read_parquet(file, columns=["op", "start_ns", "end_ns"])
        frame = frame.select("op", latency=pl.col("end_ns") - pl.col("start_ns"))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: cannot be read as a request log: {error}") from error
    ops = [op for op in _OPS if op in set(frame["op"].unique().to_list())]
    return {op: np.sort(frame.filter(pl.col("op") == op)["latency"].to_numpy()) for op in ops}


def _distribution(run: RunData, numbers: Numbers) -> Chart | None:
    if "latency_ns.all.count" not in numbers:
        return None
    series: list[dict[str, Any]] = []
    if run.requests is not None:
        note = "From requests.parquet, every request: end_ns - start_ns."
        for op, values in _latencies(run.requests).items():
            series.append({"name": op, "data": _quantiles(values)})
    else:
        note = "From the percentiles of the summary; with --requests-log every request is drawn."
        for op in _OPS[1:]:
            if count := numbers[f"latency_ns.{op}.count"]:
                # A percentile that leaves no request above it is the largest.
                above = {name: count * (_PARTS - level) >= _PARTS for name, level in _PERCENTILES.items()}
                known = {name: level / _PARTS for name, level in _PERCENTILES.items() if above[name]}
                at = {"min": 0.0, **known, "max": _last_level(count)}.items()
                data = [[numbers[f"latency_ns.{op}.{name}"], round(_tail(share), 6)] for name, share in at]
                series.append({"name": op, "data": data, "marked": True})
    positive = all(point[0] > 0 for each in series for point in each["data"])
    return Chart(
        "latency",
        "Distribution of latency",
        Axis("latency_ns", "latency", "log" if positive else "linear"),
        Axis("tail", "share of requests done within", "tail"),
        series,
        f"{note} Each step up is a tenth of the requests that are left: the tail is as visible as the body.",
    )


# Why


class Why(NamedTuple):
    """Why requests are slow: in words, drawn, and in numbers."""

    words: str
    chart: Chart
    table: Table


# Colours of parts that are no cause of commands: what a request does itself is bluish, what it waits for is not.
_PART_COLORS = {
    "service_overhead": "#9aa5b1",
    "service_link": "#5b7083",
    "service_buffer": "#88ccee",
    "service_read": "#0072b2",
    "service_program": "#44518f",
    "service_transfer": "#56b4e9",
    "wait_link": "#c9b458",
    "wait_buffer": "#ddcc77",
    "wait_bus": "#e69f00",
    "wait_read": "#cc79a7",
    "wait_program": "#882255",
    "wait_order": "#999933",
}


def _why(run: RunData) -> Why | None:
    """What slow requests waited for, if the run kept that."""
    if run.requests is None:
        return None
    from ftlab import _explaining as explaining

    try:
        found = explaining.explain(run.requests, percentile=_TAIL)
    except InputError:
        # A log without parts, of an older ftlab, or one without a request.
        return None
    groups, names = found.groups, list(explaining.group_names(found.groups))
    series, rows = [], []
    for part, meaning in found.parts.select("part", "meaning").iter_rows():
        times = groups[f"{part}_ns"]
        shares = [time / whole if whole else 0.0 for time, whole in zip(times, groups["latency_ns"], strict=True)]
        texts = [labels.value_text("latency_ns", time) for time in times]
        if any(share >= _LEAST_SHARE for share in shares):
            cause = part.removeprefix("wait_")
            looks = {"cause": cause} if cause in CAUSES else {"color": _PART_COLORS[part]}
            series.append({"name": part, **looks, "data": clean(shares), "texts": texts})
        rows.append([part, *texts, meaning])
    rows.append(["latency", *(labels.value_text("latency_ns", whole) for whole in groups["latency_ns"]), ""])
    chart = Chart(
        "why",
        "Where the time of requests goes, from the fastest to the slowest",
        Axis("share", "share of the latency"),
        Axis("kind", ""),
        series,
        "Requests are divided by percentiles of their latency. `ftlab explain` says more, also of a single one.",
        kind="bars",
        categories=names,
    )
    table = Table(
        "Mean times", ("part", *names, "what it is"), rows, "They sum to the latency.", ["what it is"], id="why-table"
    )
    # Terminals need not know the letter for micro; pages do.
    return Why(re.sub(r"(?<=\d) us\b", " µs", found.words), chart, table)


# By cause


def _by_cause(numbers: Numbers) -> Chart | None:
    kinds = {"busy_ns": "die time", **{f"flash.{kind}": text for kind, text in _COMMANDS.items()}}
    kinds = {key: text for key, text in kinds.items() if numbers.get(f"{key}.total")}
    if not kinds:
        return None
    series = []
    for cause, name in CAUSES.items():
        values = [numbers[f"{key}.{cause}"] / numbers[f"{key}.total"] for key in kinds]
        if any(values):
            texts = [labels.value_text(f"{key}.{cause}", numbers[f"{key}.{cause}"]) for key in kinds]
            series.append({"name": name, "cause": cause, "data": clean(values), "texts": texts})
    return Chart(
        "causes",
        "Time and commands by cause",
        Axis("share", "share"),
        Axis("kind", ""),
        series,
        "Shares of each whole; the table has the numbers.",
        kind="bars",
        categories=list(kinds.values()),
    )


def _drawings(numbers: Numbers, shape: Shape) -> list[tuple[str, str, Markup]]:
    found: list[tuple[str, str, Markup]] = []
    if not _has_flash(numbers):
        return found
    planes = " (planes work independently: each has its own number)" if shape.planes_apart else ""
    if "parallelism.die_busy_ns" in numbers and numbers["parallelism.span_ns"]:
        span = numbers["parallelism.span_ns"]
        dies = [busy / span for busy in numbers["parallelism.die_busy_ns"]]
        buses = [busy / span for busy in numbers["parallelism.channel_busy_ns"]]
        drawing = draw(
            shape,
            dies,
            _percent,
            what="busy",
            buses=buses,
        )
        note = (
            f"Share of the time that each die ran commands{planes} and each channel's bus transferred: "
            "parallelism.die_busy_ns and parallelism.channel_busy_ns / parallelism.span_ns."
        )
        found.append(("Utilisation", note, drawing))
    if "wear.die_erase_mean" in numbers:
        erases = numbers["wear.die_erase_mean"]
        drawing = draw(shape, erases, "{:.3g}".format, what="mean erases of its blocks")
        found.append(("Wear", "Mean erases of the blocks of each die: wear.die_erase_mean.", drawing))
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share else "0 %"


# Repeating it


def _command(run: RunData, numbers: Numbers) -> str:
    """The command that repeats the run from the files on the page."""
    words = ["ftlab", "run", "device.toml"]
    if run.trace is not None and run.workload is None:
        words += ["--trace", run.trace]
    else:
        words += ["--workload", "workload.toml"]
    options = {"seed": None, "requests": None, "series": None, **run.options}
    if not run.options:
        # A folder of an ftlab that kept no options: the numbers of the summary do.
        options |= {"seed": numbers["seed"], "requests": numbers["host.requests"]}
    for name in ("seed", "requests"):
        if options[name] is not None:
            words += [f"--{name}", str(options[name])]
    if options.get("verify", "verify.reads_checked" in numbers):
        words.append("--verify")
    if not options.get("timing", "latency_ns.all.count" in numbers):
        words.append("--no-timing")
    if options["series"] not in {None, False, True, "auto"}:
        words += ["--series", str(options["series"])]
    words += ["--out", "repeated"]
    if run.requests is not None:
        words.append("--requests-log")
    return shlex.join(words)


def _unlike(document: dict[str, Any], preset: Device | Workload, keys: dict[str, Any]) -> list[str]:
    """The keys that a document has otherwise than the preset whose description it has."""
    if document.get("description") != preset.description:
        return []
    sections = ({name: part for name, part in one.items() if isinstance(part, dict)} for one in (document, keys))
    found, own = map(_flat, sections)
    return [f"{key} = {json.dumps(value)}" for key, value in found.items() if own.get(key) != value]


def _changes(run: RunData, numbers: Numbers, device: dict[str, Any], workload: dict[str, Any]) -> list[tuple[str, str]]:
    """What the descriptions of presets do not know."""
    changed = []
    names = [{name for name, _ in _native.presets(kind)} for kind in ("device", "workload")]
    if (name := str(numbers["device"])) in names[0]:
        drive = Device.load(name)
        changed += _unlike(device, drive, drive.to_dict())
    if (name := str(numbers["workload"])) in names[1]:
        load = Workload.load(name)
        changed += _unlike(workload, load, {"workload": load.to_dict()})
    if run.options.get("requests") is not None:
        changed = [each for each in changed if not each.startswith("workload.requests ")]
        changed.append(f"--requests {run.options['requests']}")
    return [("Other than described", ", ".join(changed))] if changed else []


def _what(run: RunData, numbers: Numbers, device: dict[str, Any], shape: Shape) -> list[tuple[str, str]]:
    g = device["geometry"]
    planes = f"{shape.planes} plane{'s' * (shape.planes != 1)} a die"
    blocks = f"{g['blocks_per_plane']:,} blocks of {g['pages_per_block']} pages a plane"
    size = shape.channels * shape.dies_per_channel * shape.planes * g["blocks_per_plane"]
    size *= g["pages_per_block"] * g["page_bytes"]
    counts = ((shape.channels, "channel"), (shape.ways, "way"), (shape.dies, "die"))
    dies = " x ".join(f"{count} {name}{'s' * (count != 1)}" for count, name in counts)
    flash = f"{dies}; {planes}, {blocks}; {bytes_text(size)} of flash"
    rows = [("Device", f"{numbers['device']}: {device.get('description', '')}".rstrip(": ")), ("Flash", flash)]
    ftl = device["ftl"]
    layer = f"{ftl['kind']}, {ftl['gc']} collection" if "gc" in ftl else ftl.get("kind", "none: no flash")
    rows.append(("Translation layer", layer))
    for part, name in (("map_cache", "Mapping cache"), ("buffer", "Write buffer"), ("nvm", "Non-volatile cache")):
        kind = device.get(part, {}).get("kind", "none")
        if kind not in {"none", "ideal"}:
            size = device[part].get("bytes")
            rows.append((name, kind if size is None else f"{kind}, {bytes_text(size)}"))
    workload = {} if run.workload is None else tomllib.loads(run.workload)
    rows.append(("Workload", f"{numbers['workload']}: {workload.get('description', '')}".rstrip(": ")))
    rows += _changes(run, numbers, device, workload)
    if run.trace is not None:
        rows.append(("Trace", run.trace))
    if "stand_in.stands_for" in numbers:
        stands_for, recording = numbers["stand_in.stands_for"], numbers.get("stand_in.recording")
        told = f"generated, not recorded; it stands for {stands_for}"
        if "stand_in.uncalibrated" in numbers:
            told += f"; uncalibrated: {numbers['stand_in.uncalibrated']}"
        rows.append(
            ("Stand-in", told if recording is None else f"the recording {stands_for} ran instead ({recording})")
        )
    rows += [("Seed", str(numbers["seed"])), ("ftlab", f"{numbers['version']}")]
    if run.options.get("engine"):
        rows.append(("Engine", str(run.options["engine"])))
    if run.key is not None:
        rows.append(("Run of a store", f"{run.key}{f' (study {run.study})' if run.study else ''}"))
    return rows


def run_page(run: RunData, title: str | None = None) -> str:
    """Make the page of a run.

    Args:
        run: The run.
        title: The title. Default: workload and device.

    Raises:
        InputError: A file of the results is damaged.
    """
    numbers = Numbers(_flat(run.summary))
    try:
        device = tomllib.loads(run.device)
        shape = Shape.of(device)
        what = _what(run, numbers, device, shape)
    except FtlabError:
        raise
    except (KeyError, TypeError) as error:
        raise InputError(f"device.toml: expected what `ftlab run --out` wrote: {error}") from error
    try:
        charts = [*_series_charts(run, numbers)]
        distribution, causes = _distribution(run, numbers), _by_cause(numbers)
        why = _why(run)
        latency, work, drawings = _latency(numbers), _work(numbers), _drawings(numbers, shape)
        sections = [table for part in _SECTIONS if (table := _section(numbers, part)) is not None]
    except FtlabError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        message = f"summary.json: expected what this ftlab writes: {type(error).__name__}: {error}"
        raise InputError(message) from error
    shown = [chart for chart in (distribution, why and why.chart, causes, *charts) if chart is not None]
    rest = {key: value for key, value in numbers.values.items() if key != "wall_seconds"}
    return render(
        "run.html",
        {"charts": [chart.plain() for chart in shown]},
        title=title or f"{numbers['workload']} on {numbers['device']}",
        partial=bool(numbers.get("partial")),
        stand_in="stand_in.stands_for" in numbers and "stand_in.recording" not in numbers,
        warnings=[each for each in warned.lines(run.summary) if each[0] != "stand_in"],
        head=_head(numbers),
        what=what,
        latency=latency,
        work=work if _has_flash(numbers) else None,
        sections=sections,
        distribution=distribution,
        why=why,
        causes=causes,
        series=charts,
        drawings=drawings,
        command=_command(run, numbers) if run.workload is not None or run.trace is not None else None,
        device=run.device,
        workload=run.workload,
        all=[(key, raw_text(value)) for key, value in rest.items()],
        key=run.key,
    )
