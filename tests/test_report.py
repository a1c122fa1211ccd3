"""`ftlab report`: what stands on a page, that each number is that of the summary, and that the page repeats its run."""

from __future__ import annotations

import hashlib
import html
import io
import json
import re
import shlex
from contextlib import chdir, redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ftlab as package
from conftest import ROOT, SMALL, ftlab
from ftlab import _labels as labels
from ftlab._reporting import study
from ftlab._reporting.drawing import Shape, draw
from ftlab._reporting.page import Table, asset, on_paper, raw_text
from ftlab._reporting.run import CAUSES
from ftlab.cli import status_of
from ftlab.studies import Store, Study

EVIL = "<script>alert('a & b')</script>"
TIMED = ("--set", "geometry.channels=2", "--set", "geometry.ways=2", "--set", "host.arrival=closed")
WORK = ("--workload", "zipf", "--set", "workload.requests=3000", "--set", "workload.read_fraction=0.4")
VOID = {"meta", "link", "br", "input", "img", "hr"}


class Page(HTMLParser):
    """A page taken apart."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.text = path.read_text(encoding="utf-8")
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.numbers: list[tuple[str, str]] = []
        self.code: list[str] = []
        self.open: list[str] = []
        self.scripts: list[tuple[dict[str, str], str]] = []
        self._title: str | None = None
        self.feed(self.text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if tag not in VOID:
            self.open.append(tag)
        if "num" in given.get("class", "").split():
            self._title = given["title"]
        if tag == "code":
            self.code.append("")
        if tag == "script":
            self.scripts.append((given, ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        if self._title is not None:
            self.numbers.append((data, self._title))
            self._title = None
        if self.open and self.open[-1] == "code":
            self.code[-1] += data
        if self.open and self.open[-1] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)

    @property
    def ids(self) -> list[str]:
        return [given["id"] for _, given in self.tags if "id" in given]

    @property
    def data(self) -> Any:
        return json.loads(next(text for given, text in self.scripts if given.get("id") == "data"))

    def file(self, heading: str) -> str:
        """The text of a file that the page has."""
        found = re.search(rf"<h3>{heading}</h3>\s*<pre><code>(.*?)</code></pre>", self.text, re.DOTALL)
        assert found, heading
        return html.unescape(found[1])


def command(*words: str | Path) -> tuple[int, str, str]:
    """Run the command line in this process: status, output and messages."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        status = status_of([str(word) for word in words])
    return status, out.getvalue(), err.getvalue()


def repeat(words: list[str], folder: Path) -> None:
    with chdir(folder):
        status, _, err = command(*words)
    assert status == 0, err


def page_of(folder: Path, *options: str) -> Page:
    status, out, err = command("report", folder, *options)
    assert (status, err) == (0, "")
    return Page(Path(out.rstrip("\n")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "run"
    options = ("--requests-log", "--seed", "7", "--verify", "--requests", "2500", "--series", "50", "--out", out)
    ran = ftlab("run", "ideal-page", *SMALL, *TIMED, *WORK, *options)
    assert ran.status == 0, ran.err
    return out


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return page_of(folder)


@pytest.fixture(scope="module")
def summary(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return document


def value(summary: dict[str, Any], key: str) -> Any:
    for part in key.split("."):
        summary = summary[part]
    return summary


def loads_nothing(page: Page) -> None:
    for tag, given in page.tags:
        assert tag not in {"iframe", "object", "embed", "base", "form"} or given.get("method") == "dialog", tag
        assert "src" not in given, given
        assert tag == "a" or given.get("href", "data:,") == "data:,", given
        assert given.get("href", "#").startswith(("#", "data:,")), given
        assert not [name for name in given if name.startswith("on")], given
    style = page.text[page.text.index("<style>") : page.text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in page.text


def test_the_page_of_a_run_stands_by_itself(page: Page) -> None:
    assert page.text.startswith("<!doctype html>\n")
    loads_nothing(page)
    assert len(page.ids) == len(set(page.ids))
    assert {"run", "results", "causes", "drive", "series", "more", "repeat", "all"} <= set(page.ids)
    links = [given["href"][1:] for tag, given in page.tags if tag == "a"]
    assert set(links) <= set(page.ids)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    drawings = [given for tag, given in page.tags if tag == "svg"]
    assert len(drawings) == 2
    assert all(given["role"] == "img" and given["aria-label"] for given in drawings)
    # About 0.75 MB of it is the library of charts.
    assert len(page.text) < 1_000_000


def test_every_number_is_that_of_the_summary(page: Page, summary: dict[str, Any]) -> None:
    keys = set()
    for shown, title in page.numbers:
        source, raw = title.rsplit(" = ", 1)
        if "/" in source:
            part, whole = (value(summary, key) for key in source.split(" / "))
            assert json.loads(raw) == part / whole
            continue
        keys.add(source)
        assert raw == raw_text(value(summary, source))
        if not isinstance(value(summary, source), bool):
            assert shown == labels.value_text(source, value(summary, source))
    assert {"write_amplification.gc", "latency_ns.read.p99", "busy_ns.host", "host.iops", "wear.erase_max"} <= keys
    # Every number is there, with every digit.
    named = re.findall(r'<div id="([^"]+)"(?: class="list")?><dt>[^<]+</dt><dd>(.*?)</dd></div>', page.text)
    found = {key: json.loads(html.unescape(raw)) for key, raw in named}
    assert found == {key: each for key, each in all_of(summary).items() if key != "wall_seconds"}


def all_of(document: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, each in document.items():
        flat |= all_of(each, f"{prefix}{key}.") if isinstance(each, dict) else {f"{prefix}{key}": each}
    return flat


def test_the_charts_have_the_numbers_of_the_tables(page: Page, folder: Path, summary: dict[str, Any]) -> None:
    charts = {chart["id"]: chart for chart in page.data["charts"]}
    assert list(charts) == ["latency", "why", "causes", "series-wa", "series-iops", "series-latency", "series-free"]
    placed = [given["data-chart"] for _, given in page.tags if "data-chart" in given]
    assert placed == list(charts)
    series = pl.read_parquet(folder / "series.parquet")
    each = charts["series-iops"]["series"][0]["data"]
    assert [point[0] for point in each] == series["simulated_ns"].to_list()
    assert [point[1] for point in each] == pytest.approx(series["iops"].to_list(), rel=1e-5)
    causes = charts["causes"]
    assert causes["categories"] == ["die time", "page reads", "page programs", "copybacks", "block erases"]
    for each in causes["series"]:
        busy = summary["busy_ns"]
        assert each["data"][0] == pytest.approx(busy[each["cause"]] / busy["total"], rel=1e-5)
        assert each["name"] == CAUSES[each["cause"]]
    # The distribution meets the percentiles of the summary (three digits), and ends at the largest.
    by_op = {each["name"]: each["data"] for each in charts["latency"]["series"]}
    assert set(by_op) == {"read", "write"}
    for op, points in by_op.items():
        assert points[0][0] == pytest.approx(summary["latency_ns"][op]["min"], rel=1e-5)
        assert points[-1][0] == pytest.approx(summary["latency_ns"][op]["max"], rel=1e-5)
        at = {round(1 - 10**-tail, 6): latency for latency, tail in points}
        for name, share in {"p50": 0.5, "p90": 0.9, "p99": 0.99}.items():
            assert at[share] == pytest.approx(summary["latency_ns"][op][name], rel=1e-3), (op, name)


def test_percentiles_of_ten_requests_are_drawn_where_one_is_above_them(tmp_path: Path) -> None:
    device = package.Device.load("ideal-page").with_(geometry={"blocks_per_plane": 64})
    run = package.run(device, "uniform", requests=10)
    charts = Page(package.report(run, out=tmp_path / "page.html")).data["charts"]
    [points] = [each["data"] for chart in charts if chart["id"] == "latency" for each in chart["series"]]
    assert [round(1 - 10**-tail, 6) for _, tail in points] == [0, 0.5, 0.9, 0.95]


def test_means_of_latency_are_over_requests_of_every_kind(tmp_path: Path) -> None:
    rows = {
        "op": ["w"] * 15 + ["f"] * 45,
        "lba": [8 * at for at in range(15)] + [0] * 45,
        "sectors": [8] * 15 + [0] * 45,
    }
    result = package.run(package.Device.load("cave-8x4"), rows, series=5)
    assert result.series is not None
    page = Page(package.report(result, out=tmp_path / "page.html"))
    chart = next(chart for chart in page.data["charts"] if chart["id"] == "series-latency")
    drawn = [value for _, value in chart["series"][0]["data"]]
    assert len(drawn) == 12
    assert drawn == pytest.approx(result.series["latency_mean_ns"].to_list(), rel=1e-3)


def test_the_drive_is_drawn_with_the_use_of_every_die(page: Page, summary: dict[str, Any]) -> None:
    titles = re.findall(r'<g class="cell"><title>([^<]+)</title>', page.text)
    parallelism = summary["parallelism"]
    busy = [die / parallelism["span_ns"] for die in parallelism["die_busy_ns"]]
    names = [f"channel {channel}, way {way}" for channel in range(2) for way in range(2)]
    expected = [f"{name}: busy {100 * share:.3g} %" for name, share in zip(names, busy, strict=True)]
    assert titles[:4] == expected
    assert len(titles) == 8
    assert sum(busy) == pytest.approx(parallelism["mean_busy_dies"], rel=1e-6)
    assert sum(summary["wear"]["die_erase_mean"]) / 4 == pytest.approx(summary["wear"]["erase_mean"])


@pytest.mark.parametrize(("channels", "ways", "dies", "planes"), [(1, 1, 1, 1), (8, 4, 2, 1), (2, 16, 2, 4)])
def test_every_shape_of_a_drive_fits_the_page(channels: int, ways: int, dies: int, planes: int) -> None:
    shape = Shape(channels, ways, dies, planes, planes_apart=planes > 1)
    units = channels * ways * dies * planes
    drawing = draw(shape, [at / units for at in range(units)], "{:.2f}".format, what="busy", buses=[0.5] * channels)
    assert drawing.count('class="cell"') == units
    wide, high = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing)[0])
    assert wide <= 780
    rects = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', drawing)
    for x, y, width, height in (map(float, rect) for rect in rects):
        assert x + width <= wide + 2
        assert y + height <= high + 2
    cells = re.findall(r'</title><rect x="([\d.]+)" y="([\d.]+)"', drawing)
    assert len(set(cells)) == units


def saved(page: Page, folder: Path, names: tuple[str, ...]) -> list[str]:
    """Save the files that a page has, and give the words of its command."""
    for name in names:
        (folder / name).write_text(page.file(name))
    command = next(text for text in page.code if text.startswith("ftlab run device.toml"))
    return shlex.split(command)[1:]


def test_the_command_on_the_page_repeats_the_run(page: Page, summary: dict[str, Any], tmp_path: Path) -> None:
    words = saved(page, tmp_path, ("device.toml", "workload.toml"))
    assert {"--seed", "--requests", "--verify", "--series", "--requests-log"} <= set(words)
    repeat(words, tmp_path)
    again = json.loads((tmp_path / "repeated" / "summary.json").read_text())
    assert {**again, "wall_seconds": 0} == {**summary, "wall_seconds": 0}
    # Its page is the same, byte for byte.
    assert page_of(tmp_path / "repeated").text == page.text


@pytest.mark.long
def test_a_run_of_a_trace_without_a_clock(tmp_path: Path) -> None:
    trace = tmp_path / "writes of a day.txt"
    trace.write_text("".join(f"{at} 0 {at % 40 * 8} 8 0\n" for at in range(400)))
    ran = ftlab(
        "run", "ideal-page", *SMALL, "--trace", trace, "--format", "disksim", "--no-timing", "--out", tmp_path / "run"
    )
    assert ran.status == 0, ran.err
    page = page_of(tmp_path / "run", "--out", str(tmp_path / "deep" / "page.html"), "--title", EVIL)
    assert page.text.count(EVIL) == 0
    assert html.escape(EVIL, quote=False)[:20] in page.text
    assert "kept no clock" in page.text
    assert "Utilisation" not in page.text
    assert [chart["id"] for chart in page.data["charts"]] == ["causes", "series-wa", "series-free"]
    words = saved(page, tmp_path, ("device.toml", "workload.toml"))
    assert "--no-timing" in words
    assert str(trace) in page.text
    repeat(words, tmp_path)
    before, after = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("run", "repeated"))
    assert {**before, "wall_seconds": 0} == {**after, "wall_seconds": 0}


def test_a_result_in_memory_gives_the_page_of_its_folder(tmp_path: Path) -> None:
    device = package.Device.load("ideal-page").set("geometry.blocks_per_plane=64", "geometry.pages_per_block=16")
    result = package.run(
        device, package.Workload(kind="uniform", requests=500), requests_log=tmp_path / "run" / "requests.parquet",
        out=tmp_path / "run",
    )  # fmt: skip
    path = package.report(result, out=tmp_path / "memory.html")
    assert path == tmp_path / "memory.html"
    assert path.read_bytes() == package.report(tmp_path / "run").read_bytes()
    table = {"op": ["w"] * 9, "lba": range(0, 72, 8), "sectors": [8] * 9}
    text = package.report(package.run(device, {key: list(column) for key, column in table.items()}),
                          out=tmp_path / "table.html").read_text()  # fmt: skip
    assert "came from a table in memory" in text
    assert "ftlab run device.toml" not in text


def test_names_of_users_are_text(tmp_path: Path) -> None:
    (tmp_path / "evil.toml").write_text(
        f'extends = "ideal-page"\nname = "{EVIL}"\ndescription = "{EVIL}"\n'
        "[geometry]\nblocks_per_plane = 64\npages_per_block = 16\n"
    )
    spec = {
        "name": "names",
        "description": EVIL,
        "device": str(tmp_path / "evil.toml"),
        "workload": [{"kind": "uniform", "requests": 200, "label": EVIL}, {"kind": "uniform", "requests": 300}],
    }
    package.study(spec, out=tmp_path / "store")
    store = Store(tmp_path / "store")
    pages = [package.report(store), package.report(store, run=store.frame()["key"][0], out=tmp_path / "run.html")]
    for path in pages:
        page = Page(path)
        assert EVIL not in page.text
        assert "alert(" in page.text
        assert not [text for given, text in page.scripts if "alert('a" in text and given.get("type") is None]
        loads_nothing(page)


@pytest.mark.long
def test_stand_ins_and_runs_that_ended_early_are_marked(tmp_path: Path) -> None:
    page = Page(package.report(package.run("cave-8x4", package.Workload.load("like-oltp"), requests=300),
                               out=tmp_path / "stand-in.html"))  # fmt: skip
    assert "The workload is a stand-in" in page.text
    assert "it stands for OLTP" in page.text
    assert "uncalibrated: workload.requests not as in like-oltp" in page.text
    drive = package.Device.load("cave-8x4").set("host.out_of_range=wrap")
    page = Page(package.report(package.run(drive, package.Workload.load("like-general")),
                               out=tmp_path / "whole.html"))  # fmt: skip
    assert "it stands for GENERAL" in page.text
    assert "uncalibrated" not in page.text
    assert "Partial: the run ended" not in page.text
    device = package.Device.load("ideal-page").set("geometry.blocks_per_plane=64", "geometry.pages_per_block=16")
    rows = {"op": ["w", "w"], "lba": [0, 1 << 40], "sectors": [8, 8]}
    with pytest.raises(package.InputError) as caught:
        package.run(device, rows)
    assert caught.value.result is not None
    text = package.report(caught.value.result, out=tmp_path / "partial.html").read_text()
    assert "Partial: the run ended before its workload did" in text
    assert "The workload is a stand-in" not in text


@pytest.mark.parametrize("device", ["map-cache-chip", "map-cache-model"])
def test_mapping_caches_are_shown_and_what_is_not_modelled_is_not(device: str, tmp_path: Path) -> None:
    drive = package.Device.load(device).with_(map_cache={"kind": "bsb", "bytes": "32KiB"})
    result = package.run(drive, package.Workload(kind="zipf", requests=3_000, footprint_bytes="1GiB"))
    page = Page(package.report(result, out=tmp_path / "page.html"))
    charts = {chart["id"]: chart for chart in page.data["charts"]}
    assert {"series-map-hit-ratio", "series-map-penalty-mean-ns"} <= set(charts)
    # A window that is the only one chosen needs no chart.
    chosen = [window for window, count in result.summary["map_cache"]["windows"].items() if count]
    assert ("series-map-window" in charts) == (len(chosen) > 1)
    if len(chosen) > 1:
        windows = [[share or 0 for _, share in each["data"]] for each in charts["series-map-window"]["series"]]
        assert {round(sum(shares), 4) for shares in zip(*windows, strict=True)} <= {0, 1}
    assert ("Mapping cache", "bsb, 32.0 KiB") in re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page.text)
    # What the board goes by, each window over time.
    scores = {each["name"]: each["data"] for each in charts["series-map-score"]["series"]}
    assert set(scores) == set(result.summary["map_cache"]["scores"])
    assert any(score > 0 for data in scores.values() for _, score in data)
    whole = device == "map-cache-chip"
    assert whole or len(chosen) > 1
    assert ("Garbage collection</h3>" in page.text, "series-wa" in charts, 'class="drive"' in page.text) == (whole,) * 3


def _parts(result: package.Result, charts: dict[str, Any]) -> dict[str, float]:
    """Penalties by part, added up from a chart whose points stand for one interval each."""
    assert result.series is not None
    lookups = result.series["map_lookups"].to_list()
    parts = charts["series-map-penalty-parts"]["series"]
    return {
        each["name"]: sum(mean * count for (_, mean), count in zip(each["data"], lookups, strict=True))
        for each in parts
    }


@pytest.mark.parametrize("kind", ["leaftl", "cftl"])
def test_parts_of_the_penalty_and_scores_are_shown(kind: str, tmp_path: Path) -> None:
    drive = package.Device.load("map-cache-model").with_(
        geometry={"spare_bytes": 1024},
        ftl={"logical_bytes": "64MiB"},
        map_cache={"kind": kind, "bytes": "4KiB"} | ({"leaftl_gamma": 8} if kind == "leaftl" else {}),
    )
    load = package.Workload(kind="zipf", requests=6_000, footprint_bytes="64MiB", read_fraction=0.5)
    result = package.run(drive, load, series=300)
    page = Page(package.report(result, out=tmp_path / "page.html"))
    charts = {chart["id"]: chart for chart in page.data["charts"]}
    penalty = result.summary["map_cache"]["penalty_ns"]
    parts = _parts(result, charts)
    assert set(parts) == {part for part, ns in penalty.items() if ns and part != "total"}
    assert ("probe" in parts) == (kind == "leaftl")
    for part, ns in parts.items():
        assert ns == pytest.approx(penalty[part], rel=1e-4), part
    assert sum(parts.values()) == pytest.approx(penalty["total"], rel=1e-4)
    # Counts and bytes have axes of their own.
    assert result.series is not None
    scores = [name for name in result.series.columns if name.startswith("map_score_") and result.series[name].sum() > 0]
    assert ("series-map-score-bytes" in charts) == any(name.endswith("_bytes") for name in scores)
    assert ("series-map-score" in charts) == any(not name.endswith("_bytes") for name in scores)
    assert "series-map-content-bytes" in charts
    # Of the model alone, memory is told by logical pages: some bytes each.
    assert result.summary["memory"]["bytes_per_page"] < 1000


@pytest.mark.sampled(6)
@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("device", ["map-cache-chip", "map-cache-model", "ideal-page"])
def test_a_plot_has_the_mapping_cache_and_nothing_that_never_changes(device: str, timing: bool) -> None:
    drive = package.Device.load(device)
    if device != "ideal-page":
        drive = drive.with_(map_cache={"kind": "bsb", "bytes": "32KiB"})
    else:
        drive = drive.set("geometry.blocks_per_plane=512")
    footprint = "64MiB" if device == "ideal-page" else "1GiB"
    load = package.Workload(kind="zipf", requests=3_000, footprint_bytes=footprint, read_fraction=0.5)
    result = package.run(drive, load, series=True, timing=timing)
    axes = {axis.get_ylabel().split(" (")[0]: axis for axis in result.plot().axes}
    timed = timing and device != "map-cache-model"
    of_drive = ["write amplification", *(["throughput", "latency"] if timed else ["free blocks"])]
    cached = ["mapping cache hit ratio", "mapping penalty, mean"]
    assert list(axes) == (of_drive if device != "map-cache-model" else []) + (cached if device != "ideal-page" else [])
    if device == "map-cache-model":
        cache = result.summary["map_cache"]
        legend = axes["mapping penalty, mean"].get_legend()
        assert legend is not None
        texts = [text.get_text() for text in legend.get_texts()]
        assert texts[:-1] == [part for part in ("fetch", "program", "rest") if cache["penalty_ns"][part]]
        assert texts[-1].startswith("whole run: ")
        # The stacked parts reach up to the mean penalty.
        unit = {"ns": 1, "µs": 1e3, "ms": 1e6}[axes["mapping penalty, mean"].get_ylabel().split("(")[1][:-1]]
        assert result.series is not None
        tops = [
            path.vertices[:, 1].max() for area in axes["mapping penalty, mean"].collections for path in area.get_paths()
        ]
        highest = result.series["map_penalty_mean_ns"].max()
        assert cache["mean_penalty_ns"] / unit <= max(tops) * (1 + 1e-9)
        assert isinstance(highest, float)
        assert max(tops) <= highest / unit * (1 + 1e-9)


# Studies


STUDY: dict[str, Any] = {
    "name": "spare",
    "description": "Spare space and victim policies",
    "device": "ideal-page",
    "workload": {"kind": "uniform", "requests": 600},
    "set": {"geometry": {"blocks_per_plane": 64, "pages_per_block": 16}},
    "axes": {
        "ftl.gc": ["greedy", "fifo"],
        "ftl.over_provisioning": [0.1, 0.2],
        # No drive of this size has the second: half of the runs fail.
        "workload.footprint_bytes": ["256KiB", "1GiB"],
    },
    "repetitions": 2,
    "options": {"series": True},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("studies") / "store")
    package.study(STUDY, out=store)
    return store


@pytest.fixture(scope="module")
def study_page(store: Store) -> Page:
    return page_of(store.folder)


def test_the_page_of_a_study_has_its_table(study_page: Page, store: Store) -> None:
    loads_nothing(study_page)
    assert len(study_page.ids) == len(set(study_page.ids))
    frame = store.frame()
    assert frame["status"].to_list().count("error") == 8
    data = study_page.data["study"]
    columns = {column["key"]: column for column in data["columns"]}
    assert set(columns) == set(frame.columns)
    for name in frame.columns:
        values = columns[name].get("values", [columns[name].get("same")] * frame.height)
        assert values == frame[name].to_list(), name
    assert data["axes"] == ["ftl.gc", "ftl.over_provisioning", "workload.footprint_bytes"]
    assert data["first"]["metric"] == "write_amplification.total"
    assert (data["first"]["x"], data["first"]["color"]) == ("ftl.over_provisioning", "ftl.gc")
    assert "latency_ns.write.p99" in data["metrics"]
    rows = [given for _, given in study_page.tags if "data-at" in given]
    assert len(rows) == frame.height
    runs = {row["key"]: row for row in frame.iter_rows(named=True)}
    shown = set()
    for text, title in study_page.numbers:
        source, raw = title.split(" = ")
        key, run = source.split(" of run ")
        shown.add(key)
        assert raw == raw_text(runs[run][key])
        assert text == labels.value_text(key, runs[run][key])
    assert {"write_amplification.total", "host.iops", "latency_ns.all.p99"} <= shown
    for error in frame["error"].drop_nulls().unique():
        assert html.escape(error, quote=False).replace('"', "&#34;") in study_page.text.replace("&quot;", "&#34;")


def test_the_page_of_a_fleet_begins_with_the_volumes_together(tmp_path: Path) -> None:
    rows = [f"{at * 1000},w,{at * 17 % 50 * 8},8,{at % 3}" for at in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(["arrival_ns,op,lba,sectors,stream", *rows]) + "\n")
    fleet = {
        "name": "fleet", "device": "ideal-page", "trace": str(tmp_path / "t.csv"), "volumes": "all",
        "set": {"geometry": {"blocks_per_plane": 32, "pages_per_block": 8}, "host.out_of_range": "wrap"},
        "axes": {"ftl.gc": ["greedy", "fifo"]},
    }  # fmt: skip
    frame = package.study(fleet, out=tmp_path / "store")
    text = package.report(package.Store(tmp_path / "store")).read_text()
    results = text[text.index('<section id="results">') : text.index('<section id="chart">')]
    folded = results[results.index("<summary>volume by volume</summary>") :]
    assert 'id="means"' in folded
    assert "The fleet" not in folded
    spread = package.analysis.fleet(frame, "host.iops").to_dicts()[0]
    found = re.search(r"<tr><th[^>]*>throughput[^<]*</th><td>greedy</td>(.*?)</tr>", results)
    assert found is not None
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", found[1])
    assert cells[0] == "3"
    shown = [float(cell.replace(",", "")) for cell in cells[1:]]
    unit = spread["mean"] / shown[0]
    wanted = [spread[name] / unit for name in ("mean", "min", "p50", "p90", "p99", "max")]
    assert shown == pytest.approx(wanted, rel=1e-3)


def test_policies_are_compared_whatever_varies_first() -> None:
    gc, spare = ("greedy", "fifo"), (0.1, 0.3)
    points = [(work, each, op, seed) for work in ("uniform", "zipf") for each in gc for op in spare for seed in (1, 2)]
    # fifo costs 2 more of uniform writes and 1 less of others; more space takes 3 off. A seed adds 0.1.
    effect = {("uniform", "fifo"): 2.0, ("zipf", "fifo"): -1.0}
    frame = pl.DataFrame(
        {
            **{name: [point[at] for point in points] for at, name in enumerate(AXES)},
            "status": ["done"] * len(points),
            "key": list(map(str, range(len(points)))),
            "write_amplification.total": [
                5 + effect.get((work, each), 0) - 3 * (op == spare[1]) + seed / 10 for work, each, op, seed in points
            ],
            "warnings": [""] * len(points),
        }
    )
    axes, shown = AXES[:-1], ["write_amplification.total"]
    schemes = study._schemes_of(frame, axes)
    assert schemes == ["ftl.gc", "ftl.over_provisioning"]

    def rows(frame: pl.DataFrame) -> list[list[Any]]:
        table = study._compared(frame, axes, schemes, shown)
        assert table is not None
        assert table.columns[-1] == "at single points"
        return [list(row) for row in table.rows]

    assert rows(frame) == [
        ["victim policy", "fifo minus greedy", "write amplification", "+0.5 ± 0", "worse", "2 worse, 2 better"],
        ["over-provisioning", "0.3 minus 0.1", "write amplification", "-3 ± 0", "better", "4 better"],
    ]
    # A point that a policy lacks is none at which policies can be compared.
    lost = frame.filter(~((pl.col("workload") == "zipf") & (pl.col("ftl.gc") == "fifo")))
    assert rows(lost)[0][3] == "+2 ± 0"
    # Nor is one at which nothing was measured.
    none = frame.with_columns(pl.when(workload="uniform").then("write_amplification.total").otherwise(0.0))
    assert rows(none)[0][3] == "+2 ± 0"
    # But nothing is a number, too: of collections, in all runs of a point or for one seed alone.
    counts = pl.when(workload="uniform").then(0).when(seed=1).then(0).when(pl.col("ftl.gc") == "fifo").then(8)
    table = study._compared(
        frame.with_columns(counts.otherwise(4).alias("gc.collections")), axes, schemes[:1], ["gc.collections"]
    )
    assert table is not None
    assert str(table.rows[0][3]).startswith("+1 ± ")
    # A seed that lacks points, as in a study that is not done, stands for no others: it is left out, or the points are.
    third = frame.filter(seed=1).with_columns(
        seed=pl.lit(3, dtype=pl.Int64), key=pl.col("key") + "c", **{shown[0]: pl.col(shown[0]) + 0.2}
    )
    some = pl.concat([frame, third.filter(workload="uniform")])
    assert rows(some)[0][3] == "+0.5 ± 0"
    late = pl.concat([frame, third.filter((pl.col("workload") != "uniform") | (pl.col("ftl.over_provisioning") < 0.2))])
    assert rows(late)[0][3] == "+0 ± 0"
    # Where each seed has points of its own, all stay.
    apart = frame.filter((pl.col("workload") == "uniform") == (pl.col("seed") == 1))
    assert str(rows(apart)[0][3]).split()[2] == "19"
    assert not study._averaged(apart, "ftl.gc", ["workload", "ftl.over_provisioning"], shown[0])[1]
    unsteady = frame.with_columns(
        warnings=pl.when(seed=2, workload="zipf").then(pl.lit("not_steady")).otherwise(pl.lit(""))
    )
    assert [row[4] for row in rows(unsteady)] == ["withheld", "withheld"]
    one = frame.filter(seed=1)
    assert rows(one)[0][4:] == ["one seed: not known", "4 not known"]
    # What is zipped with a policy has a share in what it is compared by.
    blocks = pl.when(pl.col("ftl.gc") == "fifo").then(64).otherwise(256)
    zipped = frame.with_columns(blocks.alias("geometry.blocks_per_plane"))
    table = study._compared(zipped, [*axes, "geometry.blocks_per_plane"], schemes, shown)
    assert table is not None
    assert [row[0] for row in table.rows] == ["victim policy, with blocks per plane", "over-provisioning"]


AXES = ["workload", "ftl.gc", "ftl.over_provisioning", "seed"]


def test_axes_that_are_compared_are_those_of_the_device() -> None:
    frame = pl.DataFrame(
        {
            "workload": ["a", "b"] * 10,
            "ftl.gc": ["greedy"] * 10 + ["fifo"] * 10,
            "device": ["one"] * 10 + ["two"] * 10,
            "workload.read_fraction": [0.5] * 10 + [0.7] * 10,
            "ftl.over_provisioning": [at / 100 for at in range(20)],
        }
    )
    # Devices are zipped with policies, and one may have too many sizes of spare space to be told.
    assert study._schemes_of(frame, frame.columns) == ["ftl.gc"]
    assert study._schemes_of(frame, ["workload", "ftl.over_provisioning"]) == ["ftl.over_provisioning"]
    assert study._schemes_of(frame, ["workload.read_fraction", "workload"]) == ["workload"]
    assert study._schemes_of(frame, ["workload.read_fraction"]) == ["workload.read_fraction"]
    assert study._schemes_of(frame.head(1), frame.columns) == []


def test_the_page_of_a_study_compares_policies(study_page: Page) -> None:
    results = study_page.text[study_page.text.index('id="compared"') :]
    results = results[: results.index("</table>")]
    assert "fifo minus greedy" in results
    assert "0.2 minus 0.1" in results


@pytest.mark.long
def test_the_page_of_a_study_repeats_it(study_page: Page, store: Store, tmp_path: Path) -> None:
    found = re.search(r"<code>spare.toml</code>.*?<pre><code>(.*?)</code></pre>", study_page.text, re.DOTALL)
    assert found
    (tmp_path / "spare.toml").write_text(html.unescape(found[1]))
    again = Study.load(tmp_path / "spare.toml")
    assert [run.key for run in again.runs()] == [run.key for run in Study(STUDY).runs()]
    queries = [text for text in study_page.code if text.startswith("SELECT") and "'...'" not in text]
    assert len(set(queries)) >= 3
    for query in queries:
        assert store.sql(query).height > 0, query
    means = store.sql(next(query for query in queries if "avg(" in query))
    assert means.height == 8


def test_a_run_of_a_store_has_a_page_of_its_own(store: Store, tmp_path: Path) -> None:
    key = store.frame()["key"][0]
    page = page_of(store.folder, "--run", key[:12], "--out", str(tmp_path / "run.html"))
    assert key in page.text
    assert "series-wa" in {chart["id"] for chart in page.data["charts"]}
    words = saved(page, tmp_path, ("device.toml", "workload.toml"))
    repeat(words, tmp_path)
    again = json.loads((tmp_path / "repeated" / "summary.json").read_text())
    expected = store.records()[key].summary
    assert expected is not None
    assert {**again, "wall_seconds": 0} == {**expected, "wall_seconds": 0}


def test_the_same_study_gives_the_same_bytes(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    package.study(STUDY, out=other, jobs=1)
    assert package.report(other).read_bytes() == package.report(store, out=tmp_path / "again.html").read_bytes()


def test_an_unfinished_study_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    package.study(STUDY, out=store)
    record = store.study()
    runs = tuple(run if at else type(run)("0" * 32, run.values, run.seed) for at, run in enumerate(record.runs))
    store.save_study(type(record)(**{**record.__dict__, "runs": runs}))
    page = page_of(store.folder)
    assert "1 runs are missing" in page.text
    assert "1 missing" in page.text


# What is refused


def refused(folder: Path, *options: str) -> str:
    status, out, err = command("report", folder, *options)
    assert (status, out) == (2, "")
    return err


def test_what_is_no_result_is_refused(folder: Path, store: Store, tmp_path: Path) -> None:
    assert "no such directory" in refused(tmp_path / "nowhere")
    assert "is a file" in refused(folder / "summary.json")
    assert "neither summary.json" in refused(tmp_path)
    (tmp_path / "more" / "one").mkdir(parents=True)
    (tmp_path / "more" / "one" / "store.json").write_text((store.folder / "store.json").read_text())
    assert "one level down there are: one" in refused(tmp_path / "more")
    assert "no study has been run here" in refused(tmp_path / "more" / "one")
    assert "did you mean 'spare'" in refused(store.folder, "--study", "spar")
    assert "no run has a key that begins with 'zz'" in refused(store.folder, "--run", "zz")
    assert "16 runs have keys that begin" in refused(store.folder, "--run", "")
    failed = store.frame().filter(pl.col("status") == "error")["key"][0]
    assert "ended with an error" in refused(store.folder, "--run", failed)
    assert "not both" in refused(store.folder, "--run", "a", "--study", "spare")
    assert "is the result of one run" in refused(folder, "--study", "spare")
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "verdicts.json").write_text("{}")
    assert "the folder of a paper, whose report is" in refused(tmp_path / "paper")
    assert "cannot be written" in refused(folder, "--out", str(folder / "summary.json" / "page.html"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("summary.json", "{", "expected JSON"),
        ("summary.json", "[]", "expected a JSON object"),
        ("summary.json", '{"schema": 1}', "no summary document"),
        ("summary.json", '{"schema": 1, "device": "a", "host": {}, "flash": {}, "gc": {}, "wear": {}}', "summary.json"),
        ("device.toml", "", "device.toml"),
        ("device.toml", "[", "/device.toml: expected TOML"),
        ("device.toml", None, "no device.toml"),
        ("series.parquet", "no table", "series.parquet"),
        ("requests.parquet", "no table", "requests.parquet"),
        ("workload.toml", "[", "/workload.toml: expected TOML"),
        ("run.json", "{", "run.json"),
        ("device.toml", b"\xff\xfe", "device.toml"),
    ],
)
def test_damaged_results_are_told(
    folder: Path, tmp_path: Path, name: str, content: str | bytes | None, message: str
) -> None:
    for file in folder.iterdir():
        if file.suffix != ".html":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in refused(tmp_path)


def test_what_was_changed_of_presets_stands_beside_their_descriptions(tmp_path: Path) -> None:
    device = package.Device("ideal-page").set("geometry.blocks_per_plane=64", "ftl.gc=fifo")
    workload = package.Workload.load("zipf").set("theta=0.3", "requests=500")
    other = package.Workload(kind="uniform", requests=100)
    same = package.Device("ideal-page")
    ours = "geometry.blocks_per_plane = 64"
    for drive, load, requests, told in (
        (device, workload, 200, f'{ours}, ftl.gc = "fifo", workload.theta = 0.3, --requests 200'),
        (device.set("ftl.gc=greedy"), workload, None, f"{ours}, workload.requests = 500, workload.theta = 0.3"),
        (same, "uniform", 100, "--requests 100"),
        (same, other, None, None),
    ):
        package.run(drive, load, requests=requests, out=tmp_path / "out")
        text = html.unescape(page_of(tmp_path / "out").text)
        found = re.search(r"<dt>Other than described</dt><dd>([^<]*)</dd>", text)
        assert (found and found[1]) == told


def test_the_library_of_charts_is_the_published_one() -> None:
    digest = hashlib.sha256(asset("echarts.common.min.js").encode()).hexdigest()
    assert digest in (ROOT / "docs" / "notes" / "dependencies.md").read_text()
    assert "Apache License" in asset("NOTICE-echarts.txt")
    assert "--" not in asset("NOTICE-echarts.txt")


def test_a_table_says_how_wide_it_is_on_paper() -> None:
    assert on_paper(("a", "b"), [("x", "1")], (False, True)) == ""
    assert Table("", ("", ""), []).on_paper == ""

    def given(columns: int, cell: str, *, number: bool = True) -> tuple[str | None, int]:
        text = on_paper(("a",) * columns, [(cell,) * columns], (number,) * columns)
        found = re.fullmatch(r'( data-paper="(?P<kind>[a-z ]+)")? style="--chars: (?P<chars>\d+)"', text)
        assert found is not None, text
        return found["kind"], int(found["chars"])

    # Letters get smaller, then numbers are folded, then words are broken: letters are never smaller than that.
    assert given(9, "0.394 ± 0.12") == (None, 121)
    assert given(14, "0.394 ± 0.12") == ("folded", 130)
    assert given(22, "0.394 ± 0.12") == ("folded", 141)
    assert given(40, "0.394 ± 0.12") == ("folded broken", 150)
    # Words are folded already.
    assert given(14, "a bcdefg hijkl", number=False) == (None, 104)
