"""Figures: what is drawn is what the frame says, and nothing on it has to be edited."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import ftlab
from ftlab import _labels as labels
from ftlab import figures
from ftlab.cli import status_of
from ftlab.figures.saving import image
from ftlab.studies.frame import flatten

POLICIES = ["greedy", "fifo", "random"]
SPACE = [0.1, 0.2, 0.4]
# Student's t for three seeds: 97.5 % with two degrees of freedom, from a printed table.
T_OF_THREE = 4.302653
STUDY = {
    "name": "small",
    "set": {"geometry": {"blocks_per_plane": 64, "pages_per_block": 16}},
    "device": "ideal-page",
    "workload": [
        {"kind": "uniform", "label": "uniform", "requests": 300},
        {"kind": "hotcold", "label": "skewed", "requests": 300},
    ],
    "axes": {"ftl.gc": POLICIES, "ftl.over_provisioning": SPACE},
    "repetitions": 3,
}
KINDS = ("line", "bar", "cdf", "heatmap", "histogram")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ftlab.Store:
    store = ftlab.Store(tmp_path_factory.mktemp("store"))
    ftlab.study(STUDY, out=store)
    return store


@pytest.fixture(scope="module")
def frame(store: ftlab.Store) -> pl.DataFrame:
    return store.frame()


@pytest.fixture(scope="module")
def requests() -> pl.DataFrame:
    device = ftlab.Device.load("ideal-page").with_(**STUDY["set"])  # type: ignore[arg-type]  # stubs are narrower
    result = ftlab.run(device, ftlab.Workload(kind="mix", requests=500, read_fraction=0.5), requests_log=True)
    assert result.requests is not None
    return result.requests


def drawn(kind: str, frame: pl.DataFrame, requests: pl.DataFrame, **options: Any) -> Figure:
    """A figure of each kind, with everything that it can have."""
    space, total = "ftl.over_provisioning", "write_amplification.total"
    match kind:
        case "line" | "bar":
            draw = getattr(figures, kind)
            figure = draw(frame, x=space, y=total, color="ftl.gc", facet="workload", **options)
        case "heatmap":
            figure = figures.heatmap(frame, x=space, y="ftl.gc", value=total, facet="workload", **options)
        case "cdf":
            figure = figures.cdf(requests, x="latency_ns", color="op", **options)
        case _:
            figure = figures.histogram(requests, x="latency_ns", color="op", **options)
    assert isinstance(figure, Figure)
    return figure


def legend_of(figure: Figure) -> tuple[str, list[str]]:
    [legend] = figure.legends
    return legend.get_title().get_text(), [text.get_text() for text in legend.get_texts()]


def texts_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def rendered(figure: Figure) -> Any:
    figure.draw_without_rendering()
    return figure.canvas.get_renderer()  # type: ignore[attr-defined]  # stubs are narrower


# Names and units


def test_every_key_has_a_name_and_its_unit(frame: pl.DataFrame, requests: pl.DataFrame) -> None:
    devices = (ftlab.Device.load(name) for name in ("msr-ssd", "tlc-small"))
    keys = {*frame.columns, *requests.columns, *(key for device in devices for key in flatten(device.to_dict()))}
    for key in keys:
        text = labels.name(key)
        assert text.strip(" _") == text != "", key
        assert "_" not in text, key
        shown = labels.label(key, 1e12)
        assert shown.scale > 0, key
        last = key.rsplit(".", 1)[-1]
        if last.endswith(("_ns", "_us")) or (key.startswith("latency_ns.") and last != "count"):
            assert shown.unit == "s", key
        if last.endswith("_bytes"):
            assert shown.unit == "GiB", key
        if last.endswith(("_ratio", "_fraction", "reads", "gc")):
            assert shown.unit in {"", "billions"} or key.startswith("busy_ns"), key


@pytest.mark.parametrize(
    ("key", "largest", "axis", "scaled"),
    [
        ("latency_ns.read.p99", 132_511, "read latency, p99 (µs)", 132.511),
        ("latency_ns.all.mean", 2.5e9, "latency, mean (s)", 2.5),
        ("write_amplification.total", 4.2, "write amplification", 4.2),
        ("ftl.over_provisioning", 0.28, "over-provisioning", 0.28),
        ("map_cache.hit_ratio", 0.9, "mapping cache hit ratio", 0.9),
        ("host.write_bytes", 3 << 30, "data written (GiB)", 3),
        ("host.bytes_per_second", 40e6, "throughput (MB/s)", 40),
        ("host.iops", 9_500, "throughput (IOPS)", 9_500),
        ("host.iops", 95_000, "throughput (kIOPS)", 95),
        ("timing.read_us", 50, "page read time (µs)", 50),
        ("timing.bus_mb_per_s", 333, "channel bus (MB/s)", 333),
        ("host.requests", 5_000_000, "requests (millions)", 5),
        ("workload.some_new_key", 3, "some new key", 3),
    ],
)
def test_units_fit_the_values(key: str, largest: float, axis: str, scaled: float) -> None:
    label = labels.label(key, largest)
    assert label.axis == axis
    assert largest * label.scale == pytest.approx(scaled)


# Lines


def test_a_line_shows_means_over_seeds_with_their_intervals(frame: pl.DataFrame) -> None:
    uniform = frame.filter(pl.col("workload") == "uniform")
    y = "latency_ns.write.mean"
    figure = figures.line(uniform, x="ftl.over_provisioning", y=y, color="ftl.gc")
    [axes] = figure.axes
    assert axes.get_xlabel() == "over-provisioning"
    assert axes.get_ylabel() == "write latency, mean (ms)"
    assert legend_of(figure) == ("victim policy", POLICIES)
    assert texts_of(figure) == [
        "Write latency, mean, by over-provisioning",
        "Means over 3 seeds with 95 % confidence intervals (Student's t). Warnings: not_steady, not_aged.",
    ]
    lines = [line for line in axes.get_lines() if line.get_marker() in {"o", "s", "^"}]
    bars = [container.lines for container in axes.containers]
    assert len(bars) == len(POLICIES)
    for policy, line, (_, caps, _) in zip(POLICIES, lines, bars, strict=False):
        rows = uniform.filter(pl.col("ftl.gc") == policy)
        values = (
            np.array([rows.filter(pl.col("ftl.over_provisioning") == space)[y].to_numpy() for space in SPACE]) / 1e6
        )
        assert np.asarray(line.get_xdata(), float) == pytest.approx(SPACE)
        assert np.asarray(line.get_ydata(), float) == pytest.approx(values.mean(axis=1))
        half = T_OF_THREE * values.std(axis=1, ddof=1) / np.sqrt(3)
        low, high = (np.asarray(cap.get_ydata(), float) for cap in caps)
        assert low == pytest.approx(values.mean(axis=1) - half, rel=1e-5)
        assert high == pytest.approx(values.mean(axis=1) + half, rel=1e-5)


def test_one_seed_has_no_interval(frame: pl.DataFrame) -> None:
    one = frame.filter((pl.col("workload") == "uniform") & (pl.col("seed") == 1))
    figure = figures.line(one, x="ftl.over_provisioning", y="write_amplification.total", color="ftl.gc")
    assert len(figure.axes[0].containers) == 0
    assert texts_of(figure) == ["Write amplification by over-provisioning", "Warnings: not_steady, not_aged."]


def test_intervals_that_are_known_are_drawn_as_they_are() -> None:
    table = {"x": [1, 2], "mean": [5.0, 6.0], "low": [4.0, 5.5], "high": [7.0, 6.25]}
    for draw in (figures.line, figures.bar):
        figure = draw(table, x="x", y="mean", low="low", high="high")
        ends = [
            container.lines[2][0].get_segments()
            for container in figure.axes[0].containers
            if hasattr(container, "lines")
        ]
        found = sorted(tuple(segment[:, 1]) for segments in ends for segment in segments)
        assert found == [(4.0, 7.0), (5.5, 6.25)]
        assert texts_of(figure)[1] == "Intervals: low to high."


def test_tables_of_estimates_are_drawn_with_what_they_say() -> None:
    table = {
        "ftl.gc": ["greedy", "fifo"] * 2,
        "metric": ["latency_ns.read.p99"] * 4,
        "ftl.over_provisioning": [0.1, 0.1, 0.2, 0.2],
        "mean": [2e5, 3e5, 1e5, 2e5],
        "low": [1.5e5, 2.5e5, 0.5e5, None],
        "high": [2.5e5, 3.5e5, 1.5e5, None],
    }
    figure = figures.line(table, x="ftl.over_provisioning", y="mean", color="ftl.gc")
    assert figure.axes[0].get_ylabel() == "read latency, p99 (µs)"
    assert texts_of(figure) == ["Read latency, p99, by over-provisioning", "Intervals: low to high."]
    bars = [container.lines[2][0].get_segments() for container in figure.axes[0].containers]
    assert [[segment[:, 1].tolist() for segment in series] for series in bars] == [
        [[150, 250], [50, 150]],
        [[250, 350]],
    ]
    cells = figures.heatmap(table, x="ftl.over_provisioning", y="ftl.gc", value="mean")
    assert cells.axes[1].get_ylabel() == "read latency, p99 (µs)"
    better = {**table, "improvement": table["mean"], "baseline": ["random"] * 4}
    figure = figures.bar(better, x="ftl.over_provisioning", y="improvement", color="ftl.gc", names={"random": "chance"})
    assert figure.axes[0].get_ylabel() == "improvement of read latency, p99 over chance"
    with pytest.raises(ftlab.ConfigError, match="several metrics, 'a', 'b'"):
        figures.bar({**table, "metric": ["a", "a", "b", "b"]}, x="ftl.over_provisioning", y="mean", color="ftl.gc")


def test_comparisons_are_drawn_in_one_call(frame: pl.DataFrame) -> None:
    table = ftlab.analysis.compare(frame, "ftl.gc", ["latency_ns.write.mean"], baseline="greedy")
    figure = figures.line(table, x="ftl.over_provisioning", y="mean", color="ftl.gc", facet="workload")
    direct = figures.line(frame, x="ftl.over_provisioning", y="latency_ns.write.mean", color="ftl.gc", facet="workload")
    for one, other in zip(figure.axes, direct.axes, strict=True):
        assert one.get_ylabel() == other.get_ylabel()
        for ours, theirs in zip(one.get_lines(), other.get_lines(), strict=True):
            assert np.asarray(ours.get_data(), float) == pytest.approx(np.asarray(theirs.get_data(), float))


def test_many_places_have_a_band() -> None:
    rng = np.random.default_rng(3)
    table = {"x": np.repeat(np.arange(40), 4), "seed": np.tile(np.arange(4), 40), "y": rng.normal(10, 1, 160)}
    figure = figures.line(table, x="x", y="y")
    [band] = figure.axes[0].collections
    assert len(figure.axes[0].containers) == 0
    assert len(band.get_paths()[0].vertices) > 80


def test_a_missing_value_is_a_gap_and_is_said() -> None:
    table = {"x": [1, 2, 3, 4], "y": [1.0, None, float("nan"), 4.0]}
    figure = figures.line(table, x="x", y="y")
    assert np.isnan(np.asarray(figure.axes[0].get_lines()[0].get_ydata(), float)).tolist() == [False, True, True, False]
    assert "2 of 4 values are missing." in texts_of(figure)[1]


def test_several_columns_are_the_colours(frame: pl.DataFrame) -> None:
    columns = [f"latency_ns.write.{each}" for each in ("p50", "p99", "max")]
    uniform = frame.filter(pl.col("workload") == "uniform")
    figure = figures.line(uniform, x="ftl.over_provisioning", y=columns, facet="ftl.gc")
    assert legend_of(figure) == ("", ["p50", "p99", "largest"])
    assert [axes.get_title() for axes in figure.axes] == POLICIES
    assert figure.axes[0].get_ylabel() == "write latency (ms)"


# Axes


def test_what_is_named_twice_is_drawn_once(frame: pl.DataFrame) -> None:
    columns = {"x": "ftl.over_provisioning", "y": "write_amplification.total", "color": "ftl.gc", "facet": "workload"}
    once, twice = (figures.line(frame, **columns, over=["seed"] * times) for times in (1, 2))
    shapes = [[np.size(line.get_xdata()) for axes in each.axes for line in axes.lines] for each in (once, twice)]
    assert shapes[0] == shapes[1]
    rows = [{"requests": at, "wa": 1.0 + at, "gc": gc, "seed": 1} for gc in ("greedy", "fifo") for at in range(5)]
    figure = figures.series(pl.DataFrame(rows), y="wa", x="requests", color="gc", facet="gc", over=["seed", "seed"])
    assert [axes.get_title() for axes in figure.axes] == ["greedy", "fifo"]


def test_powers_have_logarithmic_axes_with_ticks_at_the_values() -> None:
    sizes = [4096, 8192, 16384, 65536]
    figure = figures.line({"workload.request_bytes": sizes, "y": [1, 2, 3, 4]}, x="workload.request_bytes", y="y")
    [axes] = figure.axes
    assert axes.get_xscale() == "log"
    rendered(figure)
    assert axes.get_xlabel() == "request size (KiB)"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["4", "8", "16", "64"]
    wide = figures.line({"map_cache.bytes": [1 << 12, 1 << 20, 1 << 28], "y": [1, 2, 3]}, x="map_cache.bytes", y="y")
    rendered(wide)
    assert [text.get_text() for text in wide.axes[0].get_xticklabels()] == ["4 KiB", "1 MiB", "256 MiB"]
    assert wide.axes[0].get_xlabel() == "mapping cache size"
    even = figures.line({"x": [1, 2, 3, 4], "y": [1, 2, 3, 4]}, x="x", y="y")
    assert even.axes[0].get_xscale() == "linear"
    asked = figures.line({"x": [1, 2, 3, 4], "y": [1, 2, 3, 4]}, x="x", y="y", log="xy")
    assert (asked.axes[0].get_xscale(), asked.axes[0].get_yscale()) == ("log", "log")


def test_values_over_decades_are_logarithmic_unless_they_are_not_wanted_so() -> None:
    table = {"x": [1, 2, 3], "latency_ns": [1e4, 1e6, 5e6]}
    assert figures.line(table, x="x", y="latency_ns").axes[0].get_yscale() == "log"
    assert figures.line(table, x="x", y="latency_ns", log="none").axes[0].get_yscale() == "linear"
    assert figures.bar(table, x="x", y="latency_ns").axes[0].get_yscale() == "linear"


def test_axes_begin_at_zero_and_ratios_end_at_one() -> None:
    figure = figures.line({"x": [1, 2], "map_cache.hit_ratio": [0.3, 0.9]}, x="x", y="map_cache.hit_ratio")
    assert figure.axes[0].get_ylim() == (0, 1)
    close = figures.line({"x": [1, 2], "y": [99.0, 100.0]}, x="x", y="y")
    assert close.axes[0].get_ylim()[0] > 90
    assert figures.bar({"x": [1, 2], "y": [99.0, 100.0]}, x="x", y="y").axes[0].get_ylim()[0] == 0


def test_values_are_in_the_order_that_people_expect() -> None:
    table = {"x": [1] * 3, "y": [1, 2, 3], "size": ["128KiB", "32KiB", "1MiB"]}
    assert legend_of(figures.line(table, x="x", y="y", color="size"))[1] == ["32KiB", "128KiB", "1MiB"]
    numbers = {"x": [1] * 3, "y": [1, 2, 3], "map_cache.bytes": [131072, 32768, 1 << 20]}
    assert legend_of(figures.line(numbers, x="x", y="y", color="map_cache.bytes"))[1] == ["32 KiB", "128 KiB", "1 MiB"]
    names = {"x": [1] * 3, "y": [1, 2, 3], "ftl.gc": ["greedy", "fifo", "cost_benefit"]}
    assert legend_of(figures.line(names, x="x", y="y", color="ftl.gc"))[1] == names["ftl.gc"]
    order = {"ftl.gc": ["cost_benefit", "greedy"]}
    figure = figures.line(
        names, x="x", y="y", color="ftl.gc", order=order, names={"cost_benefit": "CB", "ftl.gc": "GC"}
    )
    assert legend_of(figure) == ("GC", ["CB", "greedy", "fifo"])


def test_series_differ_without_colour() -> None:
    table = {"x": [1, 2] * 12, "y": list(range(24)), "s": np.repeat([f"s{at}" for at in range(12)], 2)}
    lines = figures.line(table, x="x", y="y", color="s").axes[0].get_lines()
    assert len({(line.get_marker(), str(line.get_linestyle()), str(line._dash_pattern)) for line in lines}) == 12
    assert len({to_hex(line.get_color()) for line in lines[:10]}) == 10
    patches = figures.bar(table, x="x", y="y", color="s").legends[0].get_patches()
    assert len({patch.get_hatch() for patch in patches[:10]}) == 10


# Bars


def test_stacked_bars_sum_to_the_total(frame: pl.DataFrame) -> None:
    parts = [each for each in frame.columns if re.match(r"write_amplification\.(?!total)", each)]
    uniform = frame.filter((pl.col("workload") == "uniform") & (pl.col("ftl.over_provisioning") == 0.2))
    figure = figures.bar(uniform, x="ftl.gc", y=parts, stack=True)
    assert legend_of(figure) == ("", ["host", "GC"])
    tops = [patch.get_y() + patch.get_height() for patch in figure.axes[0].patches if patch.get_y() > 0]
    totals = uniform.group_by("ftl.gc", maintain_order=True).agg(pl.col("write_amplification.total").mean())
    assert tops == pytest.approx(totals["write_amplification.total"].to_list())


def test_bars_without_a_value_are_marked() -> None:
    figure = figures.bar({"x": ["a", "b", "c"], "y": [1.0, None, -2.0]}, x="x", y="y")
    [axes] = figure.axes
    assert [patch.get_height() for patch in axes.patches] == [1.0, -2.0]
    written = [text.get_text() for text in axes.texts]
    assert written == ["\N{MULTIPLICATION SIGN}", "1", "\N{MINUS SIGN}2"]
    assert texts_of(figure)[1] == "1 of 3 values are missing."


# Distributions


def test_samples_and_counts_give_the_same_curve() -> None:
    samples = {"latency_ns": [100.0, 100.0, 300.0, 200.0, 100.0]}
    counts = {"latency_ns": [300.0, 100.0, 200.0, 900.0], "count": [1, 3, 1, 0]}
    curves = [
        figures.cdf(samples, x="latency_ns").axes[0].get_lines()[0],
        figures.cdf(counts, x="latency_ns", weight="count").axes[0].get_lines()[0],
    ]
    for line in curves:
        assert np.asarray(line.get_xdata(), float).tolist() == [100, 100, 200, 300]
        assert np.asarray(line.get_ydata(), float) == pytest.approx([0, 0.6, 0.8, 1])
    tail = figures.cdf(samples, x="latency_ns", complement=True).axes[0]
    assert tail.get_yscale() == "log"
    assert np.asarray(tail.get_lines()[0].get_ydata(), float) == pytest.approx([1, 0.4, 0.2])


def test_a_long_curve_is_thinned_without_losing_its_tail() -> None:
    rng = np.random.default_rng(1)
    values = rng.exponential(1.0, 200_000)
    line = figures.cdf({"v": values}, x="v", log="none").axes[0].get_lines()[0]
    xs, ys = (np.asarray(each, float) for each in line.get_data())
    assert xs.size < 2_500
    ordered = np.sort(values)
    exact = np.searchsorted(ordered, xs[1:], side="right") / values.size
    assert ys[1:] == pytest.approx(exact)
    assert xs[-1] == ordered[-1]
    assert np.sum(ys > 0.9999) >= 10


def test_percentiles_of_summaries_are_a_distribution(frame: pl.DataFrame) -> None:
    uniform = frame.filter((pl.col("workload") == "uniform") & (pl.col("ftl.over_provisioning") == 0.1))
    figure = figures.cdf(uniform, x="latency_ns.write", color="ftl.gc", log="none")
    line = figure.axes[0].get_lines()[1]
    fifo = uniform.filter(pl.col("ftl.gc") == "fifo")
    columns = [f"latency_ns.write.{each}" for each in ("min", "p50", "p90", "p99", "p999", "max")]
    assert np.asarray(line.get_xdata(), float) == pytest.approx([fifo[each].mean() / 1e6 for each in columns])  # type: ignore[operator]  # stubs are narrower
    assert np.asarray(line.get_ydata(), float).tolist() == [0, 0.5, 0.9, 0.99, 0.999, 1]
    assert "Means over 3 seeds." in texts_of(figure)[1]


def test_a_histogram_of_distances_has_zero_in_the_middle_of_a_bin() -> None:
    distances = np.arange(-1023, 1024)
    counts = 1 + np.maximum(0, 1000 - np.abs(distances))
    for bins in (None, 50, 1000):
        figure = figures.histogram(
            {"distance": distances, "count": counts}, x="distance", weight="count", log="none", bins=bins
        )
        shares = figure.axes[0].patches[0].get_data().values
        assert shares == pytest.approx(shares[::-1]), "as symmetric as the counts"
    figure = figures.histogram({"distance": distances, "count": counts}, x="distance", weight="count", log="none")
    [axes] = figure.axes
    assert axes.get_xlabel() == "distance from the miss (pages)"
    data = axes.patches[0].get_data()
    assert data.values.sum() == pytest.approx(1)
    widths = np.diff(data.edges)
    assert (widths == widths[0]).all()
    at = int(np.searchsorted(data.edges, 0)) - 1
    assert data.edges[at] + data.edges[at + 1] == 0
    first = (distances >= data.edges[0]) & (distances < data.edges[1])
    assert data.values[0] == pytest.approx(counts[first].sum() / counts.sum())
    positive = figures.histogram({"latency_ns": np.arange(25, 5000)}, x="latency_ns", log="none").axes[0]
    assert positive.patches[0].get_data().edges[0] == pytest.approx(0.0245), "nothing is drawn where nothing is"
    assert positive.patches[0].get_data().values.sum() == pytest.approx(1)


def test_few_numbers_and_names_have_a_bar_each() -> None:
    table = {"window": [8, 64, 16, 8], "count": [1, 2, 3, 2], "scheme": ["a", "a", "a", "b"]}
    figure = figures.histogram(table, x="window", weight="count", color="scheme", counts=True)
    [axes] = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["8", "16", "64"]
    assert [patch.get_height() for patch in axes.patches] == [1, 3, 2, 2, 0, 0]
    words = figures.histogram({"op": ["read", "write", "read"]}, x="op").axes[0]
    assert [patch.get_height() for patch in words.patches] == pytest.approx([2 / 3, 1 / 3])


# Heat maps


def test_cells_are_means_and_empty_ones_are_said(frame: pl.DataFrame) -> None:
    uniform = frame.filter(pl.col("workload") == "uniform")
    holed = uniform.filter((pl.col("ftl.gc") != "fifo") | (pl.col("ftl.over_provisioning") != 0.2))
    value = "write_amplification.total"
    figure = figures.heatmap(holed, x="ftl.over_provisioning", y="ftl.gc", value=value)
    axes, bar = figure.axes
    cells = np.ma.filled(axes.collections[0].get_array(), np.nan)
    for (row, policy), (column, space) in itertools.product(enumerate(POLICIES), enumerate(SPACE)):
        rows = holed.filter((pl.col("ftl.gc") == policy) & (pl.col("ftl.over_provisioning") == space))
        if rows.height:
            assert cells[row, column] == pytest.approx(rows[value].mean())
            assert f"{cells[row, column]:.2f}" in [text.get_text() for text in axes.texts]
        else:
            assert np.isnan(cells[row, column])
    assert bar.get_ylabel() == "write amplification"
    assert [text.get_text() for text in axes.get_yticklabels()] == POLICIES
    assert axes.get_ylim() == (2.5, -0.5), "the first name is at the top"
    assert texts_of(figure)[1] == "Means over 3 seeds. Hatched: no value (1 of 9). Warnings: not_steady, not_aged."


def test_improvements_have_a_neutral_zero_and_numbers_grow_upwards() -> None:
    table = {"x": [1, 1, 2, 2], "y": [4096, 8192] * 2, "improvement": [-0.1, 0.3, 0.2, 0.05]}
    axes = figures.heatmap(table, x="x", y="y", value="improvement").axes[0]
    norm = axes.collections[0].norm
    assert (norm.vmin, norm.vmax) == pytest.approx((-0.3, 0.3))
    assert [text.get_text() for text in axes.get_yticklabels()] == ["8192", "4096"]


# All of them


def crowded(kind: str, **options: Any) -> Figure:
    """Nine schemes at five sizes, of three seeds each."""
    names = ["greedy", "FIFO", "random choice", "d-choices 2", "d-choices 10", "cost-benefit", "window 8", "age", "2Q"]
    grid = [(name, 4096 << power, seed) for name in names for power in range(5) for seed in (1, 2, 3)]
    table = {
        "scheme": [name for name, _, _ in grid],
        "workload.request_bytes": [size for _, size, _ in grid],
        "seed": [seed for _, _, seed in grid],
        "latency_ns.read.p99": [1e5 * (1 + len(name)) + size + 1e4 * seed for name, size, seed in grid],
    }
    size, latency = "workload.request_bytes", "latency_ns.read.p99"
    match kind:
        case "line" | "bar":
            return getattr(figures, kind)(table, x=size, y=latency, color="scheme", **options)  # type: ignore[no-any-return]  # stubs are narrower
        case "heatmap":
            return figures.heatmap(table, x=size, y="scheme", value=latency, **options)
        case _:
            return getattr(figures, kind)(table, x=latency, color="scheme", **options)  # type: ignore[no-any-return]  # stubs are narrower


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", ["column", "page", "slide"])
@pytest.mark.parametrize("full", [False, True], ids=["facets", "crowded"])
def test_nothing_is_cut_and_nothing_overlaps(
    kind: str, width: Any, full: bool, frame: pl.DataFrame, requests: pl.DataFrame
) -> None:
    figure = crowded(kind, width=width) if full else drawn(kind, frame, requests, width=width)
    renderer = rendered(figure)
    inside = figure.bbox.padded(1)
    panels = [axes.get_tightbbox(renderer) for axes in figure.axes]
    around = [other.get_window_extent(renderer) for other in (*figure.legends, *figure.texts)]
    for box in (*panels, *around):
        assert inside.x0 <= box.x0 <= box.x1 <= inside.x1
        assert inside.y0 <= box.y0 <= box.y1 <= inside.y1
    for one, other in itertools.chain(itertools.product(panels, around), itertools.combinations(around, 2)):
        assert not one.overlaps(other)
    for axes in figure.axes:
        boxes = [text.get_window_extent(renderer) for text in axes.get_xticklabels() if text.get_text()]
        assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes) if one.width and other.width)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS if "FTLAB_LONG" in os.environ else ["heatmap", "cdf"])
def test_the_same_figure_is_the_same_bytes(
    kind: str, frame: pl.DataFrame, requests: pl.DataFrame, tmp_path: Path
) -> None:
    first = figures.save(drawn(kind, frame, requests), tmp_path / "first", dpi=72)
    assert [path.name for path in first] == ["first.pdf", "first.svg", "first.png"]
    settings = {
        "font.size": 20,
        "axes.grid": False,
        "lines.linewidth": 9,
        "savefig.bbox": "tight",
        "text.hinting": "none",
    }
    with mpl.rc_context(settings):
        second = figures.save(drawn(kind, frame, requests), tmp_path / "second", dpi=72)
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.suffix
    pdf, svg = first[0].read_bytes(), first[1].read_text()
    assert b"/Type3" not in pdf
    assert b"CreationDate" not in pdf
    assert "<dc:date>" not in svg
    assert not list(tmp_path.glob(".*")), "nothing half written is left"


def test_frames_of_any_kind_give_the_same_figure(frame: pl.DataFrame) -> None:
    columns = ["workload", "ftl.gc", "ftl.over_provisioning", "seed", "write_amplification.total"]
    some = frame.select(columns).filter(pl.col("workload") == "uniform").drop("workload")
    forms = [some, some.lazy(), some.to_pandas(), some.to_arrow(), some.to_dict(as_series=False)]
    forms.append({name: some[name].to_numpy() for name in some.columns})
    lines = []
    for form in forms:
        figure = figures.line(form, x="ftl.over_provisioning", y="write_amplification.total", color="ftl.gc")
        assert legend_of(figure) == ("victim policy", POLICIES)
        lines.append([np.asarray(line.get_data(), float).tolist() for line in figure.axes[0].get_lines()])
    assert all(each == lines[0] for each in lines)


def test_notebooks_show_figures(frame: pl.DataFrame, requests: pl.DataFrame) -> None:
    assert drawn("bar", frame, requests)._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]  # stubs are narrower


def test_means_are_never_taken_over_what_nobody_named(frame: pl.DataFrame) -> None:
    where = {"x": "ftl.over_provisioning", "y": "write_amplification.total", "color": "ftl.gc"}
    for table in (frame, frame.drop("status"), frame.drop("status", "error", "key")):
        with pytest.raises(ftlab.ConfigError, match=r"differ in workload.*over=\['seed', 'workload'\]"):
            figures.line(table, **where)
    figure = figures.line(frame, **where, over=["seed", "workload"])
    assert texts_of(figure)[1].startswith("Means over 6 values of seed and workload with 95 %")
    with pytest.raises(ftlab.ConfigError, match=r"differ in ftl.over_provisioning"):
        figures.heatmap(frame, x="workload", y="ftl.gc", value="gc.collections")


GOOD = {
    "x": [1, 2],
    "y": [2.0, 1.0],
    "zero": [0.0, 1.0],
    "word": ["a", "b"],
    "none": [None, None],
    "h.a_ns": [1, 2],
    "h.b_bytes": [1, 2],
}


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("line", {"x": "x", "y": "yy"}, "y: no column 'yy'; did you mean 'y'"),
        ("line", {"x": "a_ns", "y": "y"}, "x: no column 'a_ns'; did you mean 'h.a_ns'"),
        ("line", {"x": "h", "y": "y"}, "x: no column 'h'; it has parts: h.a_ns, h.b_bytes"),
        ("line", {"x": "x", "y": "word"}, "y: column 'word' has 'a', expected numbers"),
        ("line", {"x": "x", "y": "none"}, "y: no row has a value of 'none'"),
        ("line", {"x": "x", "y": "y", "color": "none"}, "color: no row has a value of 'none'"),
        ("line", {"x": "x", "y": "y", "color": "colour"}, "color: no column 'colour'"),
        ("line", {"x": "x", "y": "y", "facet": "nope"}, "facet: no column 'nope'"),
        ("line", {"x": "x", "y": ["h.a_ns", "h.b_bytes"]}, "one unit"),
        ("line", {"x": "x", "y": ["y"], "color": "word"}, "color or several y"),
        ("line", {"x": "x", "y": []}, "no column is named"),
        ("line", {"x": "x", "y": "y", "low": "x"}, "both low and high"),
        ("line", {"x": "x", "y": "y", "confidence": 95}, "confidence = 95: expected a share between 0 and 1"),
        ("line", {"x": "x", "y": "y", "log": "z"}, "log = 'z': expected x, y, xy, none"),
        ("line", {"x": "word", "y": "y", "log": "x"}, "'word' has names"),
        ("line", {"x": "x", "y": "y", "width": "wide"}, "width = 'wide': expected column, page, slide"),
        ("line", {"x": "x", "y": "y", "height": 0}, "height = 0"),
        ("line", {"x": "x", "y": "y", "error": "whiskers"}, "error = 'whiskers'"),
        ("line", {"x": "x", "y": "y", "order": {"z": []}}, "order: no column 'z'"),
        ("line", {"x": "x", "y": "y", "over": ["sed"]}, "over: no column 'sed'"),
        ("line", {"x": "word", "y": "x", "low": "y", "high": "h.a_ns"}, "x = 1 is outside its interval, 2 to 1"),
        ("bar", {"x": "word", "y": "zero", "log": "y"}, "the smallest value of y is 0, expected numbers above 0"),
        ("bar", {"x": "x", "y": "y", "log": "x"}, "log = 'x': expected y, none"),
        ("bar", {"x": "x", "y": "y", "stack": True, "log": "y"}, "stack"),
        ("bar", {"x": "x", "y": "y", "stack": True, "low": "y", "high": "y"}, "stack"),
        ("cdf", {"x": "word"}, "x: column 'word' has 'a'"),
        ("cdf", {"x": "x", "weight": "none"}, "weight: no row"),
        ("histogram", {"x": "none"}, "x: no row has a value of 'none'"),
        ("histogram", {"x": "x", "bins": 0}, "bins = 0"),
        ("heatmap", {"x": "x", "y": "y", "value": "word"}, "value: column 'word' has 'a'"),
        ("heatmap", {"x": "x", "y": "y", "value": "x", "log": "value", "center": 1}, "center"),
    ],
)
def test_mistakes_are_told(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ftlab.ConfigError, match=re.escape(message)):
        getattr(figures, kind)(GOOD, **options)


def test_what_is_no_frame_is_told(tmp_path: Path) -> None:
    for wrong, message in (([1, 2], "found list"), ({"x": []}, "no rows"), ({"x": [1], "y": [1, 2]}, "cannot be read")):
        with pytest.raises(ftlab.ConfigError, match=message):
            figures.line(wrong, x="x", y="y")
    many = {"x": [1] * 30, "y": [1] * 30, "s": [f"{at}-{at % 7}x" for at in range(30)]}
    with pytest.raises(ftlab.ConfigError, match=r"30 values, more than the 24"):
        figures.line(many, x="x", y="y", color="s")
    with pytest.raises(ftlab.ConfigError, match="above 0"):
        figures.line({"x": [0, 1], "y": [1, 2]}, x="x", y="y", log="x")
    apart = {"x": [1, 2], "y": [None, 2.0], "s": ["a", None]}
    with pytest.raises(ftlab.ConfigError, match="all other columns"):
        figures.line(apart, x="x", y="y", color="s")
    with pytest.raises(ftlab.ConfigError, match="all other columns"):
        figures.cdf(apart, x="y", color="s")
    figure = figures.line(GOOD, x="x", y="y")
    with pytest.raises(ftlab.ConfigError, match=r"found the ending \.jpg, expected \.pdf, \.svg, \.png"):
        figures.save(figure, tmp_path / "figure.jpg")
    (tmp_path / "file").write_text("")
    with pytest.raises(ftlab.ConfigError, match="cannot be written"):
        figures.save(figure, tmp_path / "file" / "figure")


def test_runs_that_failed_are_named() -> None:
    table = {"x": [1, 2], "status": ["error"] * 2, "error": ["the drive is full", "no"], "y": [None, None]}
    with pytest.raises(ftlab.ConfigError, match=r"'y'; 2 runs failed, the first with: the drive is full"):
        figures.line(table, x="x", y="y")


# The command line


PLOTS: dict[str, list[str]] = {
    "line": [
        "--x",
        "ftl.over_provisioning",
        "--y",
        "write_amplification.total",
        "--color",
        "ftl.gc",
        "--facet",
        "workload",
    ],
    "bar": [
        *("--x", "ftl.gc", "--y", "write_amplification.host", "--y", "write_amplification.gc", "--stack"),
        *("--where", "ftl.over_provisioning == 0.2 and workload == 'uniform'"),
    ],
    "cdf": [
        "--x",
        "latency_ns.write",
        "--color",
        "ftl.gc",
        "--facet",
        "workload",
        "--over",
        "seed",
        "--over",
        "ftl.over_provisioning",
    ],
    "heatmap": [
        "--x",
        "ftl.over_provisioning",
        "--y",
        "ftl.gc",
        "--value",
        "write_amplification.total",
        "--facet",
        "workload",
    ],
    "histogram": ["--x", "host.iops", "--color", "ftl.gc", "--bins", "5", "--name", "fifo=FIFO"],
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS)
def test_the_command_draws_studies(
    kind: str, store: ftlab.Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / f"{kind}.svg"
    assert status_of(["study", "plot", str(store.folder), "--kind", kind, *PLOTS[kind], "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--y", "host.iops"], "--kind line needs --x"),
        (["--x", "seed", "--y", "host.iops", "--bins", "4"], "--bins does not go with --kind line"),
        (["--kind", "heatmap", "--x", "seed", "--y", "a", "--y", "b", "--value", "c"], "one --y"),
        (["--x", "seed", "--y", "iops"], "did you mean 'host.iops'"),
        (["--x", "seed", "--y", "host.iops", "--where", "sed == 1"], "--where 'sed == 1', column 1"),
        (["--x", "seed", "--y", "host.iops", "--where", "seed == 99"], "none of the 54 rows meets 'seed == 99'"),
        (["--x", "seed", "--y", "host.iops", "--name", "seed"], "expected KEY=TEXT"),
        (["--x", "seed", "--y", "host.iops", "--study", "smal"], "did you mean 'small'"),
    ],
)
def test_the_command_tells_mistakes(
    options: list[str], message: str, store: ftlab.Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["study", "plot", str(store.folder), *options, "--out", str(tmp_path / "a.svg")]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_logarithmic_axes_are_no_formulas() -> None:
    from matplotlib import ticker

    figure = Figure()
    axis = figure.subplots()
    axis.plot([1, 2, 3], [5, 700, 90_000])
    axis.set_yscale("log")
    assert isinstance(axis.yaxis.get_major_formatter(), ticker.LogFormatterMathtext)
    image(figure, "svg")
    figure.canvas.draw()
    texts = [text.get_text() for text in axis.get_yticklabels(which="both")]
    assert {"10", "1000"} <= set(texts)
    assert not any("$" in text for text in texts)
