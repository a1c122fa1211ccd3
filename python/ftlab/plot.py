"""Plots of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab.errors import ConfigError
from ftlab.figures.canvas import BLUE, GREY, ORANGE, new_figure, styled
from ftlab.labels import Label, label

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ftlab.result import Result
    from ftlab.statistics import TraceStats

# Intervals of the bold line: more would show single collections and hide the trend.
_TREND_POINTS = 40


def _draw(axis: Axes, x: Any, y: Any, weights: Any, label: str, color: str) -> None:
    """Draw every interval faintly, and the mean over some of them boldly."""
    if x.size <= _TREND_POINTS:
        axis.plot(x, y, color=color, linewidth=1.2, label=label)
        return
    axis.plot(x, y, color=color, linewidth=0.5, alpha=0.3)
    groups = np.array_split(np.arange(x.size), _TREND_POINTS)
    known = np.nan_to_num(y)
    weights = np.where(np.isnan(y), 0, weights)
    trend = [np.average(known[g], weights=weights[g]) if weights[g].sum() > 0 else np.nan for g in groups]
    axis.plot([x[g[-1]] for g in groups], trend, color=color, linewidth=1.8, label=label)


def plot(result: Result) -> Figure:
    """Draw write amplification, throughput and latency over time, above each other.

    Without timing the horizontal axis is the number of requests and only write amplification and free blocks are
    drawn. The figure does not need a display; save it with ``figure.savefig``.

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
    figure = new_figure(7, 6.5 if timed else 4.4)
    axes: list[Axes] = list(figure.subplots(3 if timed else 2, 1, sharex=True))
    if timed:
        time = label("simulated_ns", float(series["simulated_ns"][-1]))
        x = series["simulated_ns"] * time.scale
    else:
        time = Label("requests", "", 1.0)
        x = series["requests"]

    total = result.summary.get("write_amplification", {}).get("total")
    spans = np.diff(series["simulated_ns"].astype(float), prepend=0)
    completed = (series["reads"] + series["writes"]).astype(float)
    _draw(axes[0], x, series["write_amplification"], series["writes"].astype(float), "over time", BLUE)
    if total is not None:
        axes[0].axhline(total, color=GREY, linestyle="--", linewidth=1, label=f"whole run: {total:.3f}")
    axes[0].set_ylabel("write amplification")
    axes[0].legend(loc="best")

    if timed:
        _draw(axes[1], x, series["iops"], spans, "requests a second", BLUE)
        axes[1].set_ylabel("IOPS")
        latency = label("latency_ns", float(np.max(series["latency_mean_ns"])))
        _draw(axes[2], x, series["latency_mean_ns"] * latency.scale, completed, "mean", BLUE)
        largest = series["latency_max_ns"] * latency.scale
        axes[2].plot(x, largest, ".", color=ORANGE, markersize=2, label="largest of an interval")
        axes[2].set_ylabel(latency.axis)
        positive = series["latency_mean_ns"][series["latency_mean_ns"] > 0]
        if positive.size and float(np.max(series["latency_max_ns"])) > 20 * float(np.min(positive)):
            axes[2].set_yscale("log")
        axes[2].legend(loc="best")
    else:
        _draw(axes[1], x, series["free_blocks"].astype(float), np.ones(x.size), "free blocks", BLUE)
        axes[1].set_ylabel("free blocks")
    for axis in axes:
        if axis.get_yscale() == "linear":
            axis.set_ylim(bottom=0)
    axes[-1].set_xlabel(time.axis)
    figure.suptitle(f"{result.summary['workload']} on {result.summary['device']}")
    return figure


def _shares(axis: Axes, rows: pl.DataFrame, scale: float) -> None:
    """Draw the share of values up to each row's end."""
    shares = np.cumsum(rows["count"].to_numpy()) / max(1, rows["count"].sum())
    axis.plot(np.maximum(rows["max"].to_numpy() / scale, 1e-3), shares, color=BLUE, linewidth=1.4)
    axis.set_xscale("log")


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
    for (column, text), color in zip(columns.items(), (BLUE, ORANGE), strict=True):
        axis.plot(growth["requests"].to_numpy(), growth[column].to_numpy() * scale, color=color, label=text)
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
