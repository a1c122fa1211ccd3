"""Percentiles over time, against the request log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ftlab
from conftest import inside
from ftlab._series import band, known, over_time

# In thousandths, so that ranks are exact.
LEVELS = {"p50": 500, "p90": 900, "p99": 990, "p999": 999}
SMALL = ("geometry.blocks_per_plane=64", "geometry.pages_per_block=16", "ftl.over_provisioning=0.2")
DEVICES: dict[str, tuple[str, ...]] = {
    "page mapping": (*SMALL, "precondition.kind=fill"),
    "planes apart": (*SMALL, "geometry.planes=2", "timing.independent_planes=true", "geometry.channels=2"),
    "log blocks": ("geometry.blocks_per_plane=64", "geometry.pages_per_block=16", "ftl.kind=fast"),
    "buffer": (*SMALL, "precondition.kind=fill", "buffer.kind=lru", "buffer.bytes=128KiB"),
}


def ran(name: str, series: str | int, requests: int = 30_000, **keys: Any) -> ftlab.Result:
    device = ftlab.Device.load("ideal-page").set(*DEVICES[name])
    work = ftlab.Workload(kind="uniform", requests=requests, read_fraction=0.6, seed=5, **keys)
    return ftlab.run(device, work, series=series, requests_log=True)


def exact(values: np.ndarray[Any, Any], level: int) -> int:
    """The smallest value that so many thousandths do not exceed."""
    return int(np.sort(values)[-(-values.size * level // 1000) - 1])


def check(series: pl.DataFrame, log: pl.DataFrame) -> int:
    """Every percentile is that of the requests since the row before that has one. Gives how many there are."""
    ops, latency = log["op"].to_numpy(), log["latency_ns"].to_numpy()
    found = 0
    for op in ("read", "write"):
        for name, level in LEVELS.items():
            start = 0
            for end, value in series.select("requests", f"{op}_{name}_ns").iter_rows():
                values = latency[start:end][ops[start:end] == op]
                enough = values.size * (1000 - level) >= 10 * 1000
                assert np.isfinite(value) == enough, (op, name, end, values.size)
                if enough:
                    true = exact(values, level)
                    assert true <= value <= true * (1 + 1 / 128), (op, name, end)
                    start = end
                    found += 1
    return found


@pytest.mark.parametrize("series", ["auto", 700, "25ms"])
@pytest.mark.parametrize("name", DEVICES)
def test_percentiles_are_those_of_the_log(name: str, series: str | int) -> None:
    result = ran(name, series)
    assert result.series is not None
    assert result.requests is not None
    log = result.requests
    assert log["end_ns"].is_sorted()
    assert check(result.series, log) > 30
    # The one that every run keeps has none: they would make each run slower.
    assert not {f"{op}_{name}_ns" for op in ("read", "write") for name in LEVELS} & set(result.coarse_series.columns)


def test_a_series_of_one_row_has_what_the_summary_has() -> None:
    result = ran("page mapping", 30_000)
    assert result.series is not None
    [row] = result.series.iter_rows(named=True)
    summary = result.summary
    [few] = [each["text"] for each in summary["warnings"] if each["code"] == "few_samples"] or [""]
    for op in ("read", "write"):
        assert row["read_p999_ns"] > 0
        for name in LEVELS:
            value, text = row[f"{op}_{name}_ns"], name.replace("999", "99.9")
            if f"{text} of {summary['latency_ns'][op]['count']} {op}" in few:
                assert np.isnan(value)
            else:
                # The summary has three digits, and both are at most as much above.
                assert value == pytest.approx(summary["latency_ns"][op][name], rel=1 / 128)


def test_without_a_clock_there_are_none() -> None:
    device = ftlab.Device.load("ideal-page").set(*DEVICES["page mapping"])
    result = ftlab.run(device, ftlab.Workload(kind="uniform", requests=3_000), timing=False, series=1_000)
    assert result.series is not None
    columns = [f"{op}_{name}_ns" for op in ("read", "write") for name in LEVELS]
    assert set(columns) < set(result.series.columns)
    assert all(np.isnan(result.series[column].to_numpy()).all() for column in columns)


def test_rows_come_with_their_percentiles_while_the_run_goes_on() -> None:
    device = ftlab.Device.load("ideal-page").set(*DEVICES["page mapping"])
    work, rows = ftlab.Workload(kind="uniform", requests=5_000, read_fraction=1.0, seed=2), []
    result = ftlab.run(device, work, series=500, on_row=rows.append)
    assert result.series is not None
    assert np.array_equal([row["read_p99_ns"] for row in rows], result.series["read_p99_ns"], equal_nan=True)
    assert result.series["read_p99_ns"].is_finite().to_list() == [False, True] * 5


def test_a_band_begins_at_the_median() -> None:
    nan = np.nan
    series = {
        "read_p50_ns": np.array([10.0, nan, 20.0, 40.0]),
        "read_p99_ns": np.array([nan, 90.0, nan, 80.0]),
    }
    x = np.array([0.0, 1.0, 2.0, 3.0])
    at, low, high = band(x, series, "read")
    assert at.tolist() == [1.0, 3.0]
    assert low.tolist() == [15.0, 40.0]
    assert high.tolist() == [90.0, 80.0]
    assert known(series, "write_p99_ns").size == 0
    assert [part.size for part in band(x, series, "write")] == [0, 0, 0]


def test_a_line_has_a_point_for_several_percentiles() -> None:
    values = np.full(1_000, np.nan)
    values[::5] = np.arange(200)
    at, middle = over_time(np.arange(1_000.0), {"read_p99_ns": values}, "read_p99_ns")
    _, largest = over_time(np.arange(1_000.0), {"read_p99_ns": values}, "read_p99_ns", np.max)
    assert at.size == 60
    assert at[-1] == 995
    assert np.all(at / 5 == largest)
    assert np.all((middle < largest) & (middle > largest - 3))


def test_the_report_and_the_plot_have_bands(tmp_path: Path) -> None:
    result = ran("page mapping", "auto")
    figure = result.plot()
    [latency] = [axes for axes in figure.axes if axes.get_ylabel().startswith("latency")]
    texts = [text.get_text() for text in latency.get_legend().get_texts()]  # type: ignore[union-attr] # there is one
    assert {"read, p50", "read, p50 to p99", "write, p50", "write, p50 to p99"} <= set(texts)
    out = tmp_path / "run"
    words = ("--workload", "uniform", "--requests", "8000", "--set", "workload.read_fraction=0.5")
    small = [word for each in DEVICES["page mapping"] for word in ("--set", each)]
    assert inside("run", "ideal-page", *words, *small, "--out", out).status == 0
    page = ftlab.report(out).read_text()
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    [chart] = [each for each in data["charts"] if each["id"] == "series-latency"]
    series = pl.read_parquet(out / "series.parquet")
    for op in ("read", "write"):
        [drawn] = [each for each in chart["series"] if each["name"] == f"{op}, p50 to p99"]
        assert drawn["band"]
        finite = series[f"{op}_p99_ns"].to_numpy()
        assert [point[2] for point in drawn["data"]] == finite[np.isfinite(finite)].tolist()
        assert all(low <= high for _, low, high in drawn["data"])


def test_legends_stand_beside_what_is_drawn() -> None:
    """In a panel there is no place that no run draws on."""
    figure = ran("page mapping", "auto").plot()
    figure.draw_without_rendering()
    legends = [(axes, axes.get_legend()) for axes in figure.axes if axes.get_legend() is not None]
    assert len(legends) == 2
    above: Any = figure.bbox.frozen()
    for axes, legend in legends:
        box = legend.get_window_extent()
        assert not box.overlaps(axes.get_window_extent())
        assert above.xmax >= box.xmax > box.xmin >= above.xmin
        assert above.ymax >= box.ymax
    [latency] = [legend for axes, legend in legends if axes.get_ylabel().startswith("latency")]
    # Column by column: a line of the legend is about one operation.
    texts = [text.get_text() for text in latency.get_texts()]
    assert texts[:2] == ["read, p50", "write, p50"]


def test_a_run_that_is_too_short_for_percentiles_has_means() -> None:
    result = ran("page mapping", "auto", requests=15)
    texts = [text.get_text() for text in result.plot().axes[2].get_legend().get_texts()]  # type: ignore[union-attr] # there is one
    assert "mean" in texts


def lines_and_bands(figure: Any) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """The points of each line, and the corners of the band around it."""
    axes = figure.axes[0]
    return [
        (np.array(line.get_xydata()), np.array(band.get_paths()[0].vertices))
        for line, band in zip(axes.get_lines(), axes.collections, strict=True)
    ]


def test_a_figure_has_the_middle_of_the_runs_and_a_band_that_they_are_in() -> None:
    runs = {seed: np.array([10.0, 20.0, 30.0, 40.0]) * seed for seed in (1, 2, 5)}
    frame = pl.concat([
        pl.DataFrame({"seed": seed, "requests": [100, 200, 300, 400], "iops": values}) for seed, values in runs.items()
    ])  # fmt: skip
    [(line, band_of)] = lines_and_bands(ftlab.figures.series(frame, y="iops"))
    assert set(line[:, 1]) == {20.0, 40.0, 60.0, 80.0}
    # At 150 requests, the second interval is under way.
    assert line[np.searchsorted(line[:, 0], 150), 1] == 40
    assert (band_of[:, 1].min(), band_of[:, 1].max()) == (10, 200)
    [(_, half)] = lines_and_bands(ftlab.figures.series(frame, y="iops", spread=0.5))
    assert half[:, 1].max() == np.quantile([40, 80, 200], 0.75)
    with pytest.raises(ftlab.ConfigError, match="'requests' goes back: rows are of several runs"):
        ftlab.figures.series(frame.drop("seed"), y="iops")
    with pytest.raises(ftlab.ConfigError, match="spread = 2: expected a share"):
        ftlab.figures.series(frame, y="iops", spread=2)
    with pytest.raises(ftlab.ConfigError, match="no column 'iop'; did you mean 'iops'"):
        ftlab.figures.series(frame, y="iop")


def test_studies_are_drawn_over_time(tmp_path: Path) -> None:
    spec = {
        "name": "course",
        "device": "ideal-page",
        "workload": {"kind": "uniform", "requests": 8_000, "read_fraction": 0.5},
        "set": {
            "geometry.blocks_per_plane": 64,
            "geometry.pages_per_block": 16,
            "ftl.over_provisioning": 0.2,
            "precondition.kind": "fill",
        },
        "axes": {"ftl.gc": ["greedy", "fifo"]},
        "repetitions": 3,
        "options": {"series": "auto"},
    }
    ftlab.study(spec, out=tmp_path / "store")
    store = ftlab.Store(tmp_path / "store")
    frame = ftlab.analysis.series(store)
    assert frame.select("ftl.gc", "seed").n_unique() == 6
    assert store.coarse_series(frame["key"].to_list()) == {}
    for key in frame["key"].unique():
        own, series = frame.filter(pl.col("key") == key), store.series(key)
        assert series is not None
        assert own["requests"].to_list() == series["requests"].to_list()
        assert own["read_p99_ns"].fill_nan(None).to_list() == series["read_p99_ns"].fill_nan(None).to_list()
    figure = ftlab.figures.series(frame, y="write_p50_ns", upto="write_p99_ns", color="ftl.gc")
    drawn = lines_and_bands(figure)
    assert len(drawn) == 2
    # In milliseconds, as the largest is.
    assert figure.axes[0].get_ylabel() == "write latency, p50 (ms)"
    for (line, band_of), gc in zip(drawn, ("greedy", "fifo"), strict=True):
        own = frame.filter(pl.col("ftl.gc") == gc)
        most = float(own["write_p99_ns"].fill_nan(None).max())  # type: ignore[arg-type] # numbers
        assert band_of[:, 1].max() <= most / 1e6 * (1 + 1e-9)
        assert line[:, 1].mean() < band_of[:, 1].mean()
    words = ("study", "plot", tmp_path / "store", "--kind", "series", "--color", "ftl.gc", "--out", tmp_path / "a.png")
    ran = inside(*words, "--y", "write_p50_ns", "--upto", "write_p99_ns", "--x", "simulated_ns")
    assert ran.status == 0, ran.err
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert "--kind series needs --y" in inside(*words, "--force").err
    wrong = inside("study", "plot", tmp_path / "store", "--upto", "a", "--out", "b")
    assert "--upto does not go with --kind line" in wrong.err
