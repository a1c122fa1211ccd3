"""What a trace or a workload is like."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ftlab import _native
from ftlab import _outputs as outputs
from ftlab import _tables as tables
from ftlab._checks import checked, whole_or_none
from ftlab._plain import to_json
from ftlab._progress import Wanted, wanted
from ftlab._rows import as_html, as_text
from ftlab._units import bytes_text, count_text, time_text
from ftlab._workload import Trace, Workload
from ftlab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl
    from matplotlib.figure import Figure

# The drive of a workload that says no footprint.
DEFAULT_CAPACITY = "64GiB"

_PARTS = {
    "sizes": ("size_histogram",),
    "alignment": ("alignment_histogram",),
    "interarrival": ("interarrival", "histogram"),
    "bursts": ("queue", "bursts"),
    "hotness": ("hotness", "curve"),
    "lifetime_ns": ("lifetime", "time_histogram"),
    "lifetime_bytes": ("lifetime", "bytes_histogram"),
    "intra_distance": ("intra_distance", "histogram"),
    "growth": ("growth",),
}


def _sampled(rate: float) -> str:
    """What stands behind a number of which only a share was looked at."""
    return "" if rate == 1 else f", 1/{round(1 / rate)} sampled"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _size(count: float | None) -> str:
    return "-" if count is None else bytes_text(count)


def _spread(spread: Mapping[str, float] | None, text: Callable[[float], str]) -> str:
    if spread is None:
        return "-"
    return ", ".join([f"mean {text(spread['mean'])}", *(f"{p} {text(spread[p])}" for p in ("p50", "p99", "max"))])


OUTPUT = outputs.Kind(
    "statistics of a trace",
    lambda path: outputs.has_keys(path / "stats.json", "requests", "footprint_written_pages_4k", "lifetime"),
    ("stats.json", "plot.png", "plot.svg", "miss_ratio_curve.parquet", *(f"{name}.parquet" for name in _PARTS)),
)
"""The folder that :meth:`TraceStats.write` writes."""


class TraceStats:
    """Statistics of the requests of a trace or a workload.

    Attributes:
        name: Of the trace or the workload.
        summary: The numbers that stand for themselves, by name; histograms and curves are in :attr:`frames`.
    """

    @checked
    def __init__(self, name: str, document: dict[str, Any]) -> None:
        """Made by :func:`trace_stats`."""
        self.name = name
        self._document = document
        self.summary: dict[str, Any] = {
            key: {name: number for name, number in value.items() if not isinstance(number, (list, dict))}
            if isinstance(value, dict)
            else value
            for key, value in document.items()
            if not isinstance(value, list)
        }

    def to_dict(self) -> dict[str, Any]:
        """Every number, as ``ftlab trace stats --json`` prints it."""
        copy: dict[str, Any] = json.loads(json.dumps(self._document))
        return copy

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the trace says of itself, in sentences, such as events that its recorder lost."""
        return tuple(self._document.get("remarks", ()))

    @property
    def frames(self) -> dict[str, pl.DataFrame]:
        """Histograms and curves as Polars frames (``.to_pandas()`` gives pandas').

        ``sizes``, ``alignment``, ``interarrival``, ``bursts``, ``hotness``, ``lifetime_ns``, ``lifetime_bytes``,
        ``intra_distance``, ``growth``, and ``miss_ratio_curve``; those that the trace has nothing for are absent.
        """
        import polars as pl

        found: dict[str, pl.DataFrame] = {}
        for name, path in _PARTS.items():
            part: Any = self._document
            for key in path:
                part = part and part.get(key)
            if part:
                # What is beyond a signed number is an unsigned one, and not of 128 bits.
                large = [key for key, last in part[-1].items() if isinstance(last, int) and last >= 1 << 63]
                found[name] = pl.DataFrame(part, schema_overrides=dict.fromkeys(large, pl.UInt64))
        reuse = self._document["reuse"]
        if reuse:
            columns = reuse["miss_ratio_curve"]
            kinds = {"cache_pages": pl.UInt64, "all": pl.Float64, "read": pl.Float64, "write": pl.Float64}
            found["miss_ratio_curve"] = pl.DataFrame(columns, schema=kinds)
        return found

    def miss_ratio(self, cache_bytes: int) -> float | None:
        """Share of the page accesses that an LRU cache of this size misses; ``None`` without reuse distances."""
        reuse = self._document["reuse"]
        if not reuse:
            return None
        curve = reuse["miss_ratio_curve"]
        points = zip(curve["cache_pages"], curve["all"], strict=True)
        return float([ratio for pages, ratio in points if pages * 4096 <= cache_bytes][-1])

    def stand_in_rows(self) -> list[tuple[str, str]]:
        """What the workload stands for, and why it is uncalibrated; empty when it is neither."""
        mark = self._document.get("stand_in")
        rows = [] if mark is None else [("stand-in for", f"{mark['stands_for']}; generated, not recorded")]
        why = (mark or self._document.get("calibration") or {}).get("uncalibrated")
        return rows + ([("uncalibrated", why)] if why else [])

    def calibration_rows(self) -> list[dict[str, Any]]:
        """The statistics that the workload must have: ``statistic``, ``expected``, ``measured`` and ``met``.

        ``expected`` is a number or a range; ``measured`` and ``met`` are ``None`` for what these statistics do not
        have. Empty when the workload states none.
        """
        return list((self._document.get("calibration") or {}).get("targets", ()))

    def rows(self) -> list[tuple[str, str]]:
        """The main numbers as pairs of name and text, with units."""
        s = self._document
        volumes = f" on {count_text(s['volumes'])} volumes" if s["volumes"] > 1 else ""
        rows = [
            *self.stand_in_rows(),
            ("OS requests", f"{count_text(s['requests'])}{volumes}"),
            ("reads / writes", f"{count_text(s['reads'])} / {count_text(s['writes'])}"),
            ("read share: requests, bytes", f"{_percent(s['read_fraction'])}, {_percent(s['read_bytes_fraction'])}"),
            ("trims / flushes", f"{count_text(s['trims'])} / {count_text(s['flushes'])}"),
            (
                "mean size: all, read, write",
                ", ".join(_size(s[key]) for key in ("mean_request_bytes", "mean_read_bytes", "mean_write_bytes")),
            ),
            (f"FTL requests ({bytes_text(s['ftl_page_bytes'])})", count_text(s["ftl_requests"])),
            ("FTL requests per request", f"{s['ftl_requests_per_request'] or 0:.2f}"),
            ("written", bytes_text(s["write_bytes"])),
            # What the device can address, no trace says: as much as is used of it, counted from 0, or more.
            ("address range, at least", bytes_text(s["highest_byte"] or 0)),
            ("actual address range", bytes_text(s["address_range_bytes"])),
            ("actual request range", bytes_text(s["footprint_bytes"])),
            ("pages of 4 KiB", count_text(s["footprint_pages_4k"])),
            ("written pages of 4 KiB", count_text(s["footprint_written_pages_4k"])),
            ("translation pages", count_text(s["footprint_translation_pages"])),
            (
                "distinct start addresses",
                ("" if s["distinct_starts_exact"] else "about ") + count_text(s["distinct_starts"]),
            ),
            ("begin aligned to 4 KiB", _percent(s["aligned_start_4k_fraction"])),
            ("whole pages of 4 KiB", _percent(s["aligned_4k_fraction"])),
            ("sequential", _percent(s["sequential_fraction"])),
        ]
        if s["sequence"]:
            rows.append(("requests of a sequential run", _spread(s["sequence"]["run_requests"], lambda n: f"{n:,.1f}")))
        rows.append(("duration", time_text(s["duration_ns"])))
        rows.append(("arrivals out of order", count_text(s["unsorted"])))
        if s["interarrival"]:
            variation = s["interarrival"]["coefficient_of_variation"]
            rows.append(("time between arrivals", _spread(s["interarrival"], time_text)))
            rows.append(("its coefficient of variation", "-" if variation is None else f"{variation:.2f}"))
        if s["queue"]:
            queue = s["queue"]
            label = f"queue if served in {time_text(queue['service_ns'])} each"
            rows.append((label, _spread(queue["depth"], lambda n: f"{n:,.1f}")))
            peaks = (f"{count_text(burst['max'])} in {time_text(burst['window_ns'])}" for burst in queue["bursts"])
            rows.append(("most arrivals", ", ".join(peaks)))
        if s["hotness"]:
            shares = (f"{100 * s['hotness'][f'top_{part}_percent']:.1f}" for part in (1, 5, 10, 20))
            rows.append(("accesses to hottest 1/5/10/20 %", f"{' / '.join(shares)} %"))
        if s["reuse"]:
            sampled = _sampled(s["reuse"]["sample_rate"])
            misses = (f"{100 * (self.miss_ratio(size << 20) or 0):.1f}" for size in (1, 16, 256, 4096))
            rows.append(("LRU misses: 1/16/256 MiB, 4 GiB", f"{' / '.join(misses)} %{sampled}"))
        if s["lifetime"]:
            life = s["lifetime"]
            ended = life["overwritten"] + life["trimmed"]
            died = _percent(ended / life["page_writes"])
            rows.append(("page writes that died", died + _sampled(life["sample_rate"])))
            rows.append(("their lives", _spread(life["time_ns"], time_text)))
            rows.append(("their lives in bytes written", _spread(life["written_bytes"], bytes_text)))
        if s["intra_distance"]:
            intra = s["intra_distance"]
            shares = (_percent(intra[f"{key}_fraction"]) for key in ("zero", "ahead", "behind"))
            rows.append(("intra-distance: 0, ahead, behind", ", ".join(shares)))
        return rows

    def plot(self) -> Figure:
        """Draw the curves: miss ratio, hotness, lifetimes, arrivals, sizes, intra-distance and growth."""
        from ftlab._plot import plot_stats

        return plot_stats(self)

    @checked
    def write(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write ``stats.json``, a Parquet file for each of :attr:`frames`, ``plot.png`` and ``plot.svg``.

        They take the place of older statistics in one step; other files there are kept.

        Args:
            folder: The directory.
            overwrite: Also write into one that has files and no statistics.

        Raises:
            ConfigError: The directory has other files and no statistics, or cannot be written.
        """
        from ftlab.figures.saving import write

        outputs.check(folder, OUTPUT, overwrite=overwrite)
        with outputs.whole_folder(folder, OUTPUT) as place:
            (place / "stats.json").write_text(json.dumps(self._document, indent=2) + "\n", encoding="utf-8")
            for name, frame in self.frames.items():
                with (place / f"{name}.parquet").open("wb") as file:
                    frame.write_parquet(file)
            write(self.plot(), [place / "plot.png", place / "plot.svg"], dpi=150)

    def __repr__(self) -> str:
        """The main numbers."""
        return as_text(f"ftlab.TraceStats {self.name}", self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), self.name)


def requests_of(
    workload: Trace | Workload | Any,
    capacity: str | int,
    seed: int | None,
    requests: int | None,
    called: str = "workload",
) -> _native.Source:
    """Open a trace or its path, a workload for a drive of some capacity, or a table."""
    if isinstance(workload, str | os.PathLike):
        workload = Trace(workload)
    if isinstance(workload, Trace):
        return workload.source()
    if isinstance(workload, Workload):
        return workload.source_of_capacity(capacity, seed, requests)
    if tables.is_table(workload):
        source = tables.source_of(workload)
        if tables.is_empty(workload):
            raise InputError(f"{called}: the table has no request")
        return source
    kind = type(workload).__name__
    raise InputError(
        f"{called}: found {kind}, expected ftlab.Trace or its path, ftlab.Workload, or a table of requests"
    )


def _of_calibration(document: dict[str, Any], unit_bytes: int) -> dict[str, float | None]:
    """The statistics by the names that calibrations have for them; footprints are in units of ``unit_bytes``."""

    def share(count: int) -> float | None:
        return count / document["requests"] if document["requests"] else None

    hotness = document["hotness"] or {}
    sequence = document["sequence"] or {}
    # Of the ten most frequent sizes. What is not among them is less frequent than the last of them.
    common = document["common_sizes"]
    moved = document["reads"] + document["writes"]
    sizes = {
        f"sizes.{_size_name(row['min_bytes'])}": (row["reads"] + row["writes"]) / moved
        for row in common
        if moved and row["min_bytes"] == row["max_bytes"]
    }
    writes_4k = [row["writes"] for row in common if row["min_bytes"] == row["max_bytes"] == _CALIBRATION_PAGE]
    gap = document["mean_interarrival_ns"]
    in_pages = document["ftl_page_bytes"] == _CALIBRATION_PAGE
    footprints = {_CALIBRATION_PAGE: document["footprint_bytes"]}
    if in_pages:
        # A translation page has 1,024 entries.
        footprints[1024 * _CALIBRATION_PAGE] = document["footprint_translation_pages"] * 1024 * _CALIBRATION_PAGE
    return {
        **sizes,
        "requests": document["requests"],
        "read_fraction": document["read_fraction"],
        "write_fraction": share(document["writes"]),
        "trim_fraction": share(document["trims"]),
        "flush_fraction": share(document["flushes"]),
        "read_bytes_fraction": document["read_bytes_fraction"],
        "mean_bytes": document["mean_request_bytes"],
        "mean_read_bytes": document["mean_read_bytes"],
        "mean_write_bytes": document["mean_write_bytes"],
        "page_accesses": document["ftl_requests"] if in_pages else None,
        "span_bytes": document["address_range_bytes"],
        "footprint_bytes": footprints.get(unit_bytes),
        "sequential_fraction": document["sequential_fraction"],
        "sequential_read_fraction": sequence.get("read_after_read_fraction"),
        "sequential_write_fraction": sequence.get("write_after_write_fraction"),
        "aligned_fraction": document["aligned_start_4k_fraction"],
        "write_4k_fraction": writes_4k[0] / document["writes"] if writes_4k and document["writes"] else None,
        "pages_per_request": document["ftl_requests_per_request"] if in_pages else None,
        "footprint_written_bytes": document["footprint_written_pages_4k"] * _CALIBRATION_PAGE,
        "distinct_starts": document["distinct_starts"],
        "hottest_hundredth": hotness.get("top_1_percent"),
        "hottest_twentieth": hotness.get("top_5_percent"),
        "hottest_tenth": hotness.get("top_10_percent"),
        "hottest_fifth": hotness.get("top_20_percent"),
        "mean_gap_us": None if gap is None else gap / 1000,
        "gap_cv": (document["interarrival"] or {}).get("coefficient_of_variation"),
    }


# The page that calibrations count in.
_CALIBRATION_PAGE = 4096


def _size_name(count: int) -> str:
    """A size as calibrations name it."""
    for name, unit in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= unit and count % unit == 0:
            return f"{count // unit}{name}"
    return str(count)


def _mark(document: dict[str, Any], workload: Workload) -> None:
    """Say what a workload stands for, and how it meets its calibration."""
    off = []
    calibration = workload.calibration
    if calibration is not None:
        measured = _of_calibration(document, calibration["footprint_unit_bytes"])
        targets = []
        for target in calibration["targets"]:
            found = measured.get(target["statistic"])
            met = None if found is None else target["least"] <= found <= target["most"]
            targets.append(
                {"statistic": target["statistic"], "expected": target["expected"], "measured": found, "met": met}
            )
        off = [target["statistic"] for target in targets if target["met"] is False]
    reasons = [] if workload.uncalibrated is None else [workload.uncalibrated]
    if off:
        reasons.append(f"{', '.join(off)} not as its calibration says")
    why = "; ".join(reasons) or None
    if calibration is not None:
        document["calibration"] = {"source": calibration["source"], "targets": targets, "uncalibrated": why}
    if workload.stand_in is not None:
        document["stand_in"] = {"stands_for": workload.stand_in["for"], "uncalibrated": why}


@checked
def trace_stats(
    workload: Trace | Workload | Any,
    *,
    requests: int | None = None,
    capacity: str | int = DEFAULT_CAPACITY,
    seed: int | None = None,
    page_bytes: str | int = 4096,
    map_cache: str | int = "4MiB",
    reuse: str = "sampled",
    service: str | float = "100us",
    progress: Wanted = None,
) -> TraceStats:
    """Describe a trace, a workload or a table of requests, in one pass.

    Args:
        workload: What to describe: a trace or its path, a workload, or a table of requests.
        requests: Look at the first requests only, this many.
        capacity: The drive of a workload that says no footprint.
        seed: In place of the workload's.
        page_bytes: Logical page of the drive, for FTL requests and translation pages.
        map_cache: Mapping cache of the intra-distance histogram: bytes, or a text such as ``"4MiB"``.
        reuse: Reuse distances: ``"exact"``, ``"sampled"`` (exact up to 65,536 pages, then a sample) or ``"off"``.
        service: Service time of the queue estimate: microseconds, or a text such as ``"100us"``.
        progress: Called with ``""``, the fraction done or ``None``, and the number of requests. Default: a bar, as for
            :func:`ftlab.run`; ``False`` for none.

    Raises:
        ConfigError: An option is wrong.
        InputError: The trace cannot be read.
    """
    seed, requests = whole_or_none("seed", seed), whole_or_none("requests", requests, 1)
    source = requests_of(workload, capacity, seed, requests)
    options = {
        "page_bytes": page_bytes,
        "map_cache_bytes": map_cache,
        "reuse": reuse,
        "service_us": service,
    }
    with wanted(progress, f"reading {source.name}") as told:
        tell = None if told is None else lambda fraction, count: told("", fraction, count)
        document = json.loads(source.stats(to_json(options), requests, tell))
    if isinstance(workload, Workload):
        _mark(document, workload)
    return TraceStats(source.name, document)


@checked
def fit(
    trace: Trace | Workload | Any,
    *,
    requests: int | None = None,
    capacity: str | int = DEFAULT_CAPACITY,
    description: str | None = None,
    progress: Wanted = None,
) -> Fit:
    """Fit a workload to a trace: a file without any of its addresses, whose requests resemble it.

    Args:
        trace: A trace or its path, a table of requests, or a workload.
        requests: Fit the first requests only, this many.
        capacity: The drive of a workload that says no footprint.
        description: What the workload file says it is; the name of the trace when absent.
        progress: As for :func:`trace_stats`.

    Raises:
        InputError: The trace cannot be read, or is empty.
    """
    recorded = trace_stats(trace, requests=requests, capacity=capacity, reuse="exact", progress=progress)
    count = recorded.to_dict()["requests"]
    source = requests_of(trace, capacity, None, requests)
    about = f"{count:,} requests fitted to {recorded.name}" if description is None else description
    text = source.fit(max(1, count), about)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fitted.toml"
        path.write_text(text, encoding="utf-8")
        workload = Workload.load(path)
    generated = trace_stats(workload, capacity=_ANY_SPAN, reuse="exact", progress=progress)
    return Fit(text, workload, recorded, generated)


# A drive on which every trace can be laid out as wide as it was.
_ANY_SPAN = "1024TiB"
# What a fit may differ by: of the miss-ratio curve, relative, and of shares. It does not aim at the hottest pages, nor
# at the order of spans.
_MISS_RATIO_LIMIT = 0.03
_LIMITS = {
    "requests": 0.0,
    "reads": 0.0,
    "writes": 0.0,
    "trims": 0.0,
    "flushes": 0.0,
    "mean_request_bytes": 0.02,
    "footprint_pages_4k": 0.05,
    "footprint_written_pages_4k": 0.05,
    "ftl_requests": 0.02,
    "duration_ns": 0.01,
    "address_range_bytes": 0.25,
    "footprint_translation_pages": 0.25,
    "interarrival.coefficient_of_variation": 0.2,
    "intra_distance: misses": 0.25,
}
_SHARE_LIMITS = {
    "sequential_fraction": 0.05,
    "aligned_start_4k_fraction": 0.05,
    "hotness.top_1_percent": 0.05,
    "hotness.top_10_percent": 0.05,
    "intra_distance.zero_fraction": 0.1,
    "intra_distance.ahead_fraction": 0.1,
    "lifetime.overwritten / page_writes": 0.05,
    "lifetime.trimmed / page_writes": 0.05,
    "lifetime.alive / page_writes": 0.05,
}


def _compared(statistics: dict[str, Any]) -> dict[str, float | None]:
    """The numbers that a fit is judged by, by the names of the limits."""
    found: dict[str, float | None] = {}
    for name in (*_LIMITS, *_SHARE_LIMITS):
        part, _, key = name.rpartition(".")
        found[name] = (statistics[part] or {}).get(key) if part else statistics.get(key)
    intra, life = statistics["intra_distance"], statistics["lifetime"]
    if intra:
        found["intra_distance: misses"] = intra["misses"] / (intra["hits"] + intra["misses"])
    if life and statistics["trims"]:
        for end in ("overwritten", "trimmed", "alive"):
            found[f"lifetime.{end} / page_writes"] = life[end] / life["page_writes"]
    return found


class Fit:
    """A workload fitted to a trace, with the statistics of both.

    Attributes:
        text: Of the workload file.
        workload: The workload.
        recorded: Statistics of the trace.
        generated: Statistics of the workload.
    """

    @checked
    def __init__(self, text: str, workload: Workload, recorded: TraceStats, generated: TraceStats) -> None:
        """Made by :func:`fit`."""
        self.text = text
        self.workload = workload
        self.recorded = recorded
        self.generated = generated

    @property
    def miss_ratio_error(self) -> float:
        """Mean absolute difference of the two miss-ratio curves, over cache sizes in equal ratios."""
        sizes = sorted(
            {
                size
                for stats in (self.recorded, self.generated)
                for size in (stats.to_dict()["reuse"] or {"miss_ratio_curve": {"cache_pages": []}})["miss_ratio_curve"][
                    "cache_pages"
                ]
                if size > 0
            }
        )
        pairs = [(self.recorded.miss_ratio(4096 * size), self.generated.miss_ratio(4096 * size)) for size in sizes]
        errors = [abs(first - second) for first, second in pairs if first is not None and second is not None]
        return sum(errors) / len(errors) if errors else 0.0

    def rows(self) -> list[dict[str, Any]]:
        """Trace beside workload: ``name``, ``trace``, ``fitted``, ``difference``, ``limit`` and whether it is ``off``.

        Differences of shares and of the miss-ratio curve are differences, all others are relative.
        """
        first, second = _compared(self.recorded.to_dict()), _compared(self.generated.to_dict())
        rows: list[dict[str, Any]] = []

        def row(name: str, trace: float | None, fitted: float | None, limit: float, *, relative: bool) -> None:
            if trace is None and fitted is None:
                return
            difference = (fitted or 0) - (trace or 0)
            if relative and difference:
                difference = difference / trace if trace else math.inf
            off = abs(difference) > limit
            rows.append(
                {
                    "name": name,
                    "trace": trace,
                    "fitted": fitted,
                    "difference": difference,
                    "limit": limit,
                    "off": off,
                }
            )

        for name, limit in _LIMITS.items():
            # Spans that hardly vary do so by the width of the bins that they are kept in.
            even = name == "interarrival.coefficient_of_variation" and (first[name] or 0) <= limit
            row(name, first[name], second[name], limit, relative=not even)
        for name, limit in _SHARE_LIMITS.items():
            row(name, first[name], second[name], limit, relative=False)
        row("miss_ratio_curve: mean error", 0.0, self.miss_ratio_error, _MISS_RATIO_LIMIT, relative=False)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The comparison as ``ftlab trace fit --json`` prints it."""
        rows = [{**row, "difference": None} if math.isinf(row["difference"]) else row for row in self.rows()]
        return {"bytes": len(self.text.encode()), "miss_ratio_error": self.miss_ratio_error, "comparison": rows}

    @checked
    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the workload file.

        Args:
            path: The file.
            overwrite: Also write over a file that is no fitted workload of ftlab's.

        Raises:
            ConfigError: Such a file is there, or it cannot be written.
        """
        outputs.check(path, outputs.FIT, overwrite=overwrite)
        outputs.write_whole(path, self.text.encode())

    def __repr__(self) -> str:
        """Size and what is off."""
        off = ", ".join(row["name"] for row in self.rows() if row["off"]) or "nothing"
        return f"<ftlab.Fit of {self.recorded.name}: miss ratios to {self.miss_ratio_error:.4f}; off: {off}>"
