"""Plots of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ftlab.result import Result

_BLUE, _ORANGE, _GREY = "#1f77b4", "#d95f02", "#999999"


def _time_axis(end_ns: float) -> tuple[float, str]:
    for factor, unit in ((60e9, "min"), (1e9, "s"), (1e6, "ms")):
        if end_ns >= 2 * factor:
            return factor, f"simulated time ({unit})"
    return 1e3, "simulated time (us)"


def _steps(axis: Axes, x: Any, y: Any, label: str, color: str) -> None:
    axis.plot(x, y, drawstyle="steps-pre", color=color, linewidth=1.2, label=label)


def plot(result: Result) -> Figure:
    """Draw write amplification, throughput and latency over time, above each other.

    Without timing the horizontal axis is the number of requests and only write amplification and free blocks are
    drawn. The figure does not need a display; save it with ``figure.savefig``.

    Args:
        result: A result with a time series.

    Raises:
        ConfigError: The run kept no time series.
    """
    from matplotlib.figure import Figure

    series = result.series_arrays()
    if series is None:
        raise ConfigError('nothing to plot: run with series="auto"')
    timed = bool(series["simulated_ns"].size and series["simulated_ns"][-1] > 0)
    figure = Figure(figsize=(8, 7.5 if timed else 5), layout="constrained")
    axes: list[Axes] = list(figure.subplots(3 if timed else 2, 1, sharex=True))
    if timed:
        factor, label = _time_axis(float(series["simulated_ns"][-1]))
        x = series["simulated_ns"] / factor
    else:
        x, label = series["requests"], "requests"

    total = result.summary.get("write_amplification", {}).get("total")
    _steps(axes[0], x, series["write_amplification"], "in each interval", _BLUE)
    if total is not None:
        axes[0].axhline(total, color=_GREY, linestyle="--", linewidth=1, label=f"whole run: {total:.3f}")
    axes[0].set_ylabel("write amplification")
    axes[0].legend(loc="best", fontsize="small")

    if timed:
        _steps(axes[1], x, series["iops"], "requests a second", _BLUE)
        axes[1].set_ylabel("IOPS")
        _steps(axes[2], x, series["latency_mean_ns"] / 1e3, "mean", _BLUE)
        _steps(axes[2], x, series["latency_max_ns"] / 1e3, "largest", _ORANGE)
        axes[2].set_ylabel("latency (us)")
        positive = series["latency_mean_ns"][series["latency_mean_ns"] > 0]
        if positive.size and float(np.max(series["latency_max_ns"])) > 20 * float(np.min(positive)):
            axes[2].set_yscale("log")
        axes[2].legend(loc="best", fontsize="small")
    else:
        _steps(axes[1], x, series["free_blocks"], "free blocks", _BLUE)
        axes[1].set_ylabel("free blocks")
    for axis in axes:
        axis.grid(visible=True, alpha=0.3)
        if axis.get_yscale() == "linear":
            axis.set_ylim(bottom=0)
    axes[-1].set_xlabel(label)
    figure.suptitle(f"{result.summary['workload']} on {result.summary['device']}")
    return figure
