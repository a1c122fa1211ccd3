"""Plots of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab import _warned as warned
from ftlab._labels import Label, label
from ftlab._series import amplification, band, known, over_time, percentile_columns
from ftlab.errors import ConfigError
from ftlab.figures.canvas import BLUE, COLORS, GREY, ORANGE, new_figure, styled

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ftlab._result import Result
    from ftlab._statistics import TraceStats

    _Panel = Callable[[Axes, Any, dict[str, Any], dict[str, Any]], None]

# Intervals of the bold line: more would show single collections and hide the trend.
_TREND_POINTS = 40
# Percentiles that are drawn.
_PERCENTILES = ("p50", "p99", "p99.9")
_DOTS = {"read": "o", "write": "s"}
# Entries of a legend beside each other, which are as wide as a panel.
_LEGEND_COLUMNS = 3
_DECADES = 7
# Shares of intervals below the band around it, and up to its end.
_BAND = (0.1, 0.9)
# A latency with more zeros than this is drawn on a logarithmic axis.
_WIDE_RANGE = 20
# Parts of the penalty of a lookup in the mapping cache.
_PENALTY_PARTS = ("fetch", "program", "rest", "probe")


def _draw(axis: Axes, x: Any, y: Any, weights: Any, label: str, color: str) -> None:
    """Draw the mean over some intervals, and a band that eight tenths of them are in."""
    if x.size <= _TREND_POINTS:
        axis.plot(x, y, color=color, linewidth=1.2, label=label)
        return
    ends, trend = _trend(x, y, weights)
    low, high = (_quantiles(y, share) for share in _BAND)
    axis.fill_between(ends, low, high, color=color, alpha=0.2, linewidth=0, label="80 % of intervals")
    axis.plot(ends, trend, color=color, linewidth=1.8, label=label)


def _quantiles(y: Any, share: float) -> list[float]:
    """Quantiles over groups of intervals, as :func:`_trend` has them."""
    groups = [group[~np.isnan(group)] for group in np.array_split(y, min(y.size, _TREND_POINTS))]
    return [float(np.quantile(group, share)) if group.size else np.nan for group in groups]


def _trend(x: Any, y: Any, weights: Any) -> tuple[list[float], list[float]]:
    """Means over groups of intervals, each at the end of its group."""
    groups = np.array_split(np.arange(x.size), min(x.size, _TREND_POINTS))
    known = np.nan_to_num(y)
    weights = np.where(np.isnan(y), 0, weights)
    trend = [np.average(known[g], weights=weights[g]) if weights[g].sum() > 0 else np.nan for g in groups]
    return [x[g[-1]] for g in groups], trend


def plot(result: Result) -> Figure:
    """Draw write amplification, throughput and latency over time, above each other.

    Without timing the horizontal axis is the number of requests and only write amplification and free blocks are
    drawn. With a mapping cache, its hit ratio and what makes up the penalty of its lookups follow; a model of the
    mapping cache alone has nothing else. The figure does not need a display; save it with ``figure.savefig``.

    Args:
        result: A result with a time series.

    Raises:
        ConfigError: The run kept no time series.
    """
    series = result.series_arrays()
    if series is None:
        raise ConfigError('nothing to plot: run with series="auto"')
    with styled("page"):
        return _over_time(result, series)


def _over_time(result: Result, series: dict[str, np.ndarray[Any, Any]]) -> Figure:
    timed = bool(series["simulated_ns"].size and series["simulated_ns"][-1] > 0)
    cached = "map_hit_ratio" in series
    # The model of the mapping cache alone never has any.
    flash = any(kind["total"] for kind in result.summary["flash"].values()) or not cached
    panels = (_drive_panels(timed=timed) if flash else []) + ([_hits, _penalties] if cached else [])
    figure = new_figure(7, 2.1 * len(panels) + 0.2)
    axes: list[Axes] = list(figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0])
    if timed:
        time = label("simulated_ns", float(series["simulated_ns"][-1]))
        x = series["simulated_ns"] * time.scale
    else:
        time = Label("requests", "", 1.0)
        x = series["requests"]
    for axis, panel in zip(axes, panels, strict=True):
        panel(axis, x, series, result.summary)
        if axis.get_yscale() == "linear":
            axis.set_ylim(bottom=0)
    axes[-1].set_xlabel(time.axis)
    figure.suptitle(f"{result.summary['workload']} on {result.summary['device']}")
    if note := warned.footnote([result.summary]):
        figure.supxlabel(note, fontsize="small", color="#444444")
    return figure


def _drive_panels(*, timed: bool) -> list[_Panel]:
    return [_amplification, _throughput, _latency] if timed else [_amplification, _free_blocks]


def _whole(axis: Axes, value: float, text: str) -> None:
    axis.axhline(value, color=GREY, linestyle="--", linewidth=1, label=f"whole run: {text}")


def _legend_above(axis: Axes) -> None:
    """Name what is drawn, above the panel: in it there is no place that no run draws on."""
    handles, texts = axis.get_legend_handles_labels()
    columns = min(len(texts), _LEGEND_COLUMNS)
    # It is filled column by column, and read line by line.
    order = [at for column in range(columns) for at in range(column, len(texts), columns)]
    axis.legend(
        [handles[at] for at in order],
        [texts[at] for at in order],
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.1,
        borderpad=0.1,
        ncols=columns,
        columnspacing=1.4,
        frameon=False,
    )


def _amplification(axis: Axes, x: Any, series: dict[str, Any], summary: dict[str, Any]) -> None:
    total = summary.get("write_amplification", {}).get("total")
    values, pages = amplification(series)
    _draw(axis, x, values, pages, "over time", BLUE)
    if total is not None:
        _whole(axis, total, f"{total:.3f}")
    axis.set_ylabel("write amplification")
    _legend_above(axis)


def _throughput(axis: Axes, x: Any, series: dict[str, Any], _: dict[str, Any]) -> None:
    spans = np.diff(series["simulated_ns"].astype(float), prepend=0)
    rate = label("iops", float(np.nanmax(series["iops"], initial=0)))
    _draw(axis, x, series["iops"] * rate.scale, spans, "requests a second", BLUE)
    axis.set_ylabel(rate.axis)


def _latency(axis: Axes, x: Any, series: dict[str, Any], _: dict[str, Any]) -> None:
    """Draw a line for the median and a band up to p99, of reads and of writes."""
    kinds = [(op, color) for op, color in (("read", BLUE), ("write", ORANGE)) if known(series, f"{op}_p50_ns").size]
    if not kinds:
        _latency_means(axis, x, series)
        return
    drawn = {
        (op, at): over_time(x, series, column, np.max if at == "p99.9" else np.median)
        for op, _ in kinds
        for at, column in zip(_PERCENTILES, percentile_columns(op), strict=True)
    }
    values = np.concatenate([y for _, y in drawn.values()])
    latency = label("latency_ns", float(np.max(values)))
    for op, color in kinds:
        at, y = drawn[op, "p50"]
        axis.plot(at, y * latency.scale, color=color, linewidth=1.4, label=f"{op}, p50")
        at, low, high = band(x, series, op)
        if at.size:
            ends = low * latency.scale, high * latency.scale
            axis.fill_between(at, *ends, color=color, alpha=0.25, linewidth=0, label=f"{op}, p50 to p99")
        at, y = drawn[op, "p99.9"]
        if at.size:
            # Dots: of few points a line would tell of what lies between them.
            axis.plot(at, y * latency.scale, _DOTS[op], color=color, markersize=3, label=f"{op}, p99.9")
    axis.set_ylabel(latency.axis)
    positive = values[values > 0]
    if positive.size and float(np.max(values)) > _WIDE_RANGE * float(np.min(positive)):
        axis.set_yscale("log")
    _legend_above(axis)


def _latency_means(axis: Axes, x: Any, series: dict[str, Any]) -> None:
    """Draw the latency of a run that is too short for percentiles over time."""
    completed = np.diff(series["requests"].astype(float), prepend=0.0)
    latency = label("latency_ns", float(np.max(series["latency_mean_ns"])))
    _draw(axis, x, series["latency_mean_ns"] * latency.scale, completed, "mean", BLUE)
    largest = series["latency_max_ns"] * latency.scale
    axis.plot(x, largest, ".", color=ORANGE, markersize=2, label="largest of an interval")
    axis.set_ylabel(latency.axis)
    positive = series["latency_mean_ns"][series["latency_mean_ns"] > 0]
    if positive.size and float(np.max(series["latency_max_ns"])) > _WIDE_RANGE * float(np.min(positive)):
        axis.set_yscale("log")
    _legend_above(axis)


def _free_blocks(axis: Axes, x: Any, series: dict[str, Any], _: dict[str, Any]) -> None:
    _draw(axis, x, series["free_blocks"].astype(float), np.ones(x.size), "free blocks", BLUE)
    axis.set_ylabel("free blocks")


def _hits(axis: Axes, x: Any, series: dict[str, Any], summary: dict[str, Any]) -> None:
    ratio = summary["map_cache"]["hit_ratio"]
    _draw(axis, x, series["map_hit_ratio"], series["map_lookups"], "over time", BLUE)
    _whole(axis, ratio, f"{ratio:.3f}")
    axis.set_ylabel("mapping cache hit ratio")
    _legend_above(axis)


def _penalties(axis: Axes, x: Any, series: dict[str, Any], summary: dict[str, Any]) -> None:
    """Draw what the mean penalty of a lookup is made of, on top of each other."""
    mean = summary["map_cache"]["mean_penalty_ns"]
    columns = [(part, f"map_penalty_{part}_mean_ns") for part in _PENALTY_PARTS]
    parts = {
        part: _trend(x, series[column], series["map_lookups"])
        for part, column in columns
        if column in series and np.nansum(series[column]) > 0
    }
    totals = _trend(x, series["map_penalty_mean_ns"], series["map_lookups"])[1]
    shown = label("map_penalty_mean_ns", float(np.nanmax([mean, *totals])))
    if parts:
        ends = next(iter(parts.values()))[0]
        heights = [np.multiply(means, shown.scale) for _, means in parts.values()]
        axis.stackplot(ends, heights, labels=list(parts), colors=COLORS, alpha=0.8)
    _whole(axis, mean * shown.scale, f"{mean * shown.scale:.4g} {shown.unit}")
    axis.set_ylabel(shown.axis)
    _legend_above(axis)


def _shares(axis: Axes, rows: pl.DataFrame, scale: float) -> None:
    """Draw the share of values up to each row's end."""
    from matplotlib.ticker import LogLocator

    shares = np.cumsum(rows["count"].to_numpy()) / max(1, rows["count"].sum())
    axis.plot(np.maximum(rows["max"].to_numpy() / scale, 1e-3), shares, color=BLUE, linewidth=1.4)
    axis.set_xscale("log")
    # The numbers of more decades would run into each other.
    axis.xaxis.set_major_locator(LogLocator(numticks=_DECADES))


def _draw_misses(axis: Axes, curve: pl.DataFrame) -> None:
    curve = curve.filter(curve["cache_pages"] > 0)
    for column, color in (("read", BLUE), ("write", ORANGE), ("all", "black")):
        size = curve["cache_pages"].to_numpy() / 256
        axis.plot(size, curve[column].to_numpy(), color=color, linewidth=1.4, label=column)
    axis.set_xscale("log")
    axis.set_ylim(0, 1.02)
    axis.legend(loc="best")


def _draw_hotness(axis: Axes, curve: pl.DataFrame) -> None:
    axis.plot(curve["pages_fraction"].to_numpy(), curve["accesses_fraction"].to_numpy(), color=BLUE)
    axis.set_xscale("log")
    axis.set_ylim(0, 1.02)


def _draw_lifetimes(axis: Axes, rows: pl.DataFrame) -> None:
    _shares(axis, rows, 2**20)


def _draw_gaps(axis: Axes, rows: pl.DataFrame) -> None:
    _shares(axis, rows, 1e3)


def _draw_sizes(axis: Axes, sizes: pl.DataFrame) -> None:
    names = [f"{size / 1024:g}" for size in sizes["max_bytes"]]
    total = max(1, sum(int(sizes[op].sum()) for op in ("reads", "writes", "trims")))
    bottom = np.zeros(len(names))
    for op, color in (("reads", BLUE), ("writes", ORANGE), ("trims", GREY)):
        share = sizes[op].to_numpy() / total
        axis.bar(names, share, bottom=bottom, color=color, label=op)
        bottom += share
    axis.tick_params(axis="x", labelrotation=45)
    axis.legend(loc="best")


def _draw_distances(axis: Axes, rows: pl.DataFrame) -> None:
    share = rows["count"].to_numpy() / max(1, rows["count"].sum())
    axis.plot(rows["distance"].to_numpy(), share, ".", color=BLUE, markersize=3, markeredgewidth=0)
    axis.axvline(0, color=GREY, linewidth=0.8, zorder=0)
    axis.set_yscale("log")


def _draw_growth(axis: Axes, growth: pl.DataFrame, columns: dict[str, str], scale: float) -> None:
    # Where one lies on the other, both are seen.
    for (column, text), color, style in zip(columns.items(), (BLUE, ORANGE), ("-", "--"), strict=True):
        axis.plot(growth["requests"].to_numpy(), growth[column].to_numpy() * scale, style, color=color, label=text)
    axis.legend(loc="best")


def _draw_footprint(axis: Axes, growth: pl.DataFrame) -> None:
    _draw_growth(axis, growth, {"footprint_pages_4k": "touched", "footprint_written_pages_4k": "written"}, 1 / 256)


def _draw_traffic(axis: Axes, growth: pl.DataFrame) -> None:
    _draw_growth(axis, growth, {"read_bytes": "read", "write_bytes": "written"}, 2**-20)


# Frame, drawing, title, and what the axes show.
_PICTURES: tuple[tuple[str, Callable[[Axes, pl.DataFrame], None], str, str, str], ...] = (
    ("miss_ratio_curve", _draw_misses, "LRU miss ratio", "cache (MiB)", "misses / page accesses"),
    ("hotness", _draw_hotness, "hottest pages", "share of touched pages", "share of page accesses"),
    ("lifetime_bytes", _draw_lifetimes, "lifetime of written pages", "MiB written meanwhile", "share of ended lives"),
    ("interarrival", _draw_gaps, "time between arrivals", "µs", "share of requests"),
    ("sizes", _draw_sizes, "sizes", "up to KiB", "share of requests"),
    ("intra_distance", _draw_distances, "intra-distance", "pages from the miss", "share of hits"),
    ("growth", _draw_footprint, "footprint", "requests", "MiB"),
    ("growth", _draw_traffic, "traffic", "requests", "MiB"),
)


def plot_stats(stats: TraceStats) -> Figure:
    """Draw what a trace is like, eight pictures on a page: reuse, skew, lifetimes, arrivals, sizes, mapping, growth.

    The figure does not need a display; save it with ``figure.savefig``.
    """
    with styled("page"):
        return _pictures(stats)


def _pictures(stats: TraceStats) -> Figure:
    frames = stats.frames
    figure = new_figure(7.5, 9)
    for axis, (frame, draw, title, x, y) in zip(figure.subplots(4, 2).flat, _PICTURES, strict=True):
        axis.set_title(title)
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        if frame in frames:
            draw(axis, frames[frame])
    figure.suptitle(stats.name)
    return figure
