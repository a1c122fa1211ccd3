"""Studies: what a description means, what is refused, and what every study holds, whoever executes it."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import ftlab
from conftest import FTLAB, ROOT
from conftest import ftlab as command
from ftlab.cli import status_of
from ftlab.studies import Executor, Outcome, Part, Watch, execute, key_of, run_study
from ftlab.studies.description import Contents, Description
from ftlab.studies.executor import ThreadExecutor
from ftlab.studies.files import Files
from ftlab.studies.values import range_values
from ftlab.studies.where import Where

LONG = "FTLAB_LONG" in os.environ
SMALL = {"geometry": {"blocks_per_plane": 64, "pages_per_block": 16}}


def spec(**changes: Any) -> dict[str, Any]:
    """A study of six quick runs."""
    return {
        "name": "small",
        "device": "ideal-page",
        "workload": {"kind": "uniform", "requests": 200},
        "set": {**SMALL, "precondition.kind": "fill"},
        "axes": {"ftl.gc": ["greedy", "fifo", "random"], "ftl.over_provisioning": [0.2, 0.4]},
        **changes,
    }


FILE = """
name = "small"
device = "ideal-page"
workload = { kind = "uniform", requests = 200 }

[set]
geometry = { blocks_per_plane = 64, pages_per_block = 16 }
precondition.kind = "fill"

[axes]
ftl.gc = ["greedy", "fifo", "random"]
ftl.over_provisioning = { from = 0.2, to = 0.4, step = 0.2 }
"""


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return path


# What a description means


def test_a_scheme_stands_with_its_keys_in_one_value() -> None:
    policies = ["greedy", {"kind": "d_choices", "gc_choices": 3}, {"label": "wide", "kind": "windowed_greedy"}]
    study = ftlab.Study(spec(axes={"ftl.gc": policies, "ftl.over_provisioning": [0.2]}))
    runs = study.runs()
    assert [run.values[0] for run in runs] == ["greedy", "d_choices(gc_choices=3)", "wide"]
    found = [run.description["device"]["ftl"] for run in runs if run.description is not None]
    assert [ftl["gc"] for ftl in found] == ["greedy", "d_choices", "windowed_greedy"]
    assert [ftl.get("gc_choices") for ftl in found] == [None, 3, None]
    caches = [{"kind": "dftl", "bytes": 4096}, {"kind": "tafp", "bytes": 4096, "window_bytes": 32}]
    labels = [run.values[0] for run in ftlab.Study(spec(axes={"map_cache": caches})).runs()]
    assert labels == ["dftl(bytes=4096)", "tafp(bytes=4096, window_bytes=32)"]
    with pytest.raises(ftlab.ConfigError, match=r"gc_choices = 3: has no effect with ftl.gc = \"greedy\""):
        ftlab.Study(spec(set={"ftl.gc_choices": 3}, axes={"ftl.gc": ["greedy"]})).runs()


def test_a_file_and_a_dictionary_are_the_same_study(study_file: Path) -> None:
    ours, theirs = ftlab.Study(spec()).runs(), ftlab.Study.load(study_file).runs()
    assert ours == theirs
    assert [run.values for run in ours][:3] == [("greedy", 0.2), ("greedy", 0.4), ("fifo", 0.2)]


def test_a_run_of_a_study_is_what_run_gives() -> None:
    frame = ftlab.study(spec(axes={"workload.read_fraction": [0.5]}, seeds=[7], options={"verify": True}))
    device = ftlab.Device.load("ideal-page").with_(**SMALL, precondition={"kind": "fill"})
    workload = ftlab.Workload(kind="uniform", requests=200, read_fraction=0.5)
    summary = ftlab.run(device, workload, seed=7, verify=True, series=None).summary
    row = frame.to_dicts()[0]
    assert row["latency_ns.write.mean"] == summary["latency_ns"]["write"]["mean"]
    assert row["verify.reads_checked"] == summary["verify"]["reads_checked"] > 0
    assert row["seed"] == 7
    assert "wall_seconds" not in frame.columns


def test_columns_are_axes_then_seed_and_status_then_the_summary() -> None:
    frame = ftlab.study(spec(repetitions=2))
    assert frame.columns[:6] == ["ftl.gc", "ftl.over_provisioning", "seed", "status", "error", "key"]
    assert frame["seed"].to_list() == [1, 2] * 6
    assert frame["write_amplification.total"].dtype == pl.Float64
    assert frame.schema["host.writes"] == pl.Int64
    assert set(frame["status"]) == {"done"}


BUFFERED = {"buffer": {"kind": "lru"}}


def test_values_with_units_are_numbers_in_tables(tmp_path: Path) -> None:
    axes = {
        "ftl.over_provisioning": ["7%", 0.28],
        "buffer": [
            {"kind": "lru", "bytes": "64KiB", "label": "64 KiB"},
            {"kind": "lru", "bytes": 131072, "label": "128 KiB"},
        ],
        "workload.footprint_bytes": ["64KiB", 131072],
        "workload.mean_interarrival_us": ["1.5ms", 250],
    }
    store = ftlab.Store(tmp_path)
    frame = ftlab.study(spec(axes=axes, where=["ftl.over_provisioning > 0.1"]), out=store)
    assert set(frame["ftl.over_provisioning"]) == {0.28}
    assert set(frame["workload.footprint_bytes"]) == {65536, 131072}
    assert set(frame["workload.mean_interarrival_us"]) == {1500, 250}
    # A name stays one.
    assert set(frame["buffer"]) == {"64 KiB", "128 KiB"}
    found = store.sql('SELECT count(*) AS n FROM study WHERE "workload.footprint_bytes" > 70000')
    assert found["n"].to_list() == [4]
    # A condition says them as an axis does, and one value has one spelling.
    for where, left in [("buffer.bytes != '64KiB'", [1 << 20]), ("'64K' == buffer.bytes", [65536])]:
        frame = ftlab.study(spec(axes={"buffer.bytes": ["64K", "1MiB"]}, set=BUFFERED, where=[where]))
        assert frame["buffer.bytes"].to_list() == left
    sizes = {"buffer.bytes": ["64KiB", "1MiB"]}
    frame = ftlab.study(spec(axes=sizes, set=BUFFERED, where=["buffer.bytes in ['1MiB', 3]"]))
    assert frame["buffer.bytes"].to_list() == [1 << 20]
    for twice in (["64KiB", 65536], ["1MiB", "1024KiB"]):
        with pytest.raises(ftlab.ConfigError, match="is stated twice"):
            ftlab.Study(spec(axes={"buffer.bytes": twice}, set=BUFFERED))


def test_seeds_are_called_what_they_are(tmp_path: Path) -> None:
    # Of the second size the workload does not fit: runs that fail have their seeds, too.
    axes = {"ftl.gc": ["greedy", "fifo"], "workload.footprint_bytes": ["64KiB", "1GiB"]}
    store = ftlab.Store(tmp_path)
    frame = ftlab.study(spec(axes=axes, seeds=[0, 1, 2]), out=store)
    assert frame["seed"].to_list() == [0, 1, 2] * 4
    assert store.frame()["seed"].to_list() == [0, 1, 2] * 4
    compared = ftlab.analysis.compare(frame, "ftl.gc", "write_amplification.total", baseline="greedy")
    assert compared["n"].to_list() == [3, 3]
    # What cannot be described, and what states no seed.
    axes = {"geometry.blocks_per_plane": [16, 64], "ftl.logical_pages": [200, 900]}
    small = {"geometry.pages_per_block": 16}
    runs = ftlab.Study(spec(axes=axes, set=small, seeds=[0, 3])).runs()
    assert [(run.seed, run.error is None) for run in runs[:4]] == [(0, True), (3, True), (0, False), (3, False)]
    assert {run.seed for run in ftlab.Study(spec(axes=axes, set=small)).runs()} == {1}


def test_axes_may_be_devices_and_workloads_of_any_form(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "ideal-page"\nname = "mine"\n[geometry]\nblocks_per_plane = 64\n')
    (tmp_path / "load.toml").write_text('[workload]\nkind = "zipf"\nrequests = 50\n')
    (tmp_path / "study.toml").write_text(
        'device = ["mine.toml", { extends = "ideal-page", label = "tiny", geometry.blocks_per_plane = 32 }]\n'
        'workload = ["load.toml", { kind = "mix", requests = 60 }, { extends = "zipf", label = "z", requests = 70 }]\n'
        "[set]\nprecondition.kind = 'fill'\n"
    )
    frame = ftlab.study(tmp_path / "study.toml")
    assert frame["device"].to_list() == ["mine.toml"] * 3 + ["tiny"] * 3
    assert frame["host.requests"].to_list() == [50, 60, 70] * 2
    assert frame["workload"].to_list()[2] == "z"


def test_objects_of_the_package_are_taken_for_what_they_describe(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", 30)
    device = ftlab.Device.load("ideal-page").with_(**SMALL, precondition={"kind": "fill"})
    workloads = [ftlab.Workload(kind="mix", requests=20), ftlab.Trace(trace).slice(take=10)]
    frame = ftlab.study({"device": device, "workload": workloads})
    assert frame["host.requests"].to_list() == [20, 10]
    assert frame["workload"].to_list() == ["mix", "t.csv"]


def test_zipped_axes_move_together_and_filters_leave_out() -> None:
    axes = {"geometry.channels": [1, 2, 4], "ftl.gc": ["greedy", "fifo"], "geometry.ways": [4, 2, 1]}
    study = ftlab.Study(
        spec(
            axes=axes,
            zip=[["geometry.channels", "geometry.ways"]],
            where=["ftl.gc == 'greedy' or geometry.channels < 3", "seed != 2"],
            seeds=[1, 2, 3],
        )
    )
    points = [(*run.values, run.seed) for run in study.runs()]
    assert points[:4] == [(1, "greedy", 4, 1), (1, "greedy", 4, 3), (1, "fifo", 4, 1), (1, "fifo", 4, 3)]
    assert len(points) == 10
    assert all(channels * ways == 4 for channels, _, ways, _ in points)


@pytest.mark.parametrize(
    ("described", "values"),
    [
        ({"from": 1, "to": 5, "step": 2}, [1, 3, 5]),
        ({"from": 1, "to": 0, "step": -0.25}, [1, 0.75, 0.5, 0.25, 0]),
        ({"from": 0, "to": 1, "count": 3}, [0, 0.5, 1]),
        ({"from": 0.001, "to": 1, "count": 4, "scale": "log"}, [0.001, 0.01, 0.1, 1]),
        ({"from": "4KiB", "to": "20KB", "factor": 2}, [4096, 8192, 16384]),
        ({"from": 1, "to": 4, "count": 10, "whole": True}, [1, 2, 3, 4]),
        ({"from": "7%", "to": "28%", "count": 4}, [0.07, 0.14, 0.21, 0.28]),
    ],
)
def test_ranges(described: dict[str, Any], values: list[float]) -> None:
    assert range_values(described) == values


def test_conditions_know_only_axes_and_arithmetic() -> None:
    assert Where("1 < a.b <= 3 and c not in ['x']").holds({"a.b": 2, "c": "y"})
    assert not Where("min(a, 2) * 2 == 6").holds({"a": 3})
    for text in (
        "__import__('os')",
        "(lambda: 1)()",
        "a.b()",
        "[x for x in a]",
        "2 ** 999999999",
        "f'{a}'",
        "a :=",
        "",
    ):
        with pytest.raises(ValueError, match=r"expected|no condition"):
            Where(text)
    with pytest.raises(ValueError, match=r"column 11: ftl\.gcc is no axis .*did you mean 'ftl\.gc'"):
        Where("1 < 2 and ftl.gcc == 1", ["ftl.gc"])
    with pytest.raises(ValueError, match="cannot be computed"):
        Where("1 / a > 1").holds({"a": 0})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a == 'x' * 10000000000", "found 'x', expected a number"),
        ("a == '%10000000000d' % 1", "found '%10000000000d', expected a number"),
        ("a == [1] * 10000000000", "found .1., expected a number"),
        ("a == 'x' + 'y'", "found 'x', expected a number"),
        ("round(a, -10000000000) == 0", "found -10000000000 digits"),
        ("round('x', 1) == 0", "expected a number"),
        (" * ".join(["a"] * 90) + " > 0", "bits, expected at most 1,024"),
        ("b * b > 0", "found a number of 1,661 bits"),
        ("a // (1e308 * a) % 0 > 0", "modulo"),
    ],
)
def test_conditions_cannot_take_memory(text: str, message: str) -> None:
    spent = []
    # The garbage of other tests may be collected meanwhile, but not each time.
    for _ in range(3):
        began = time.process_time()
        with pytest.raises(ValueError, match=message) as caught:
            Where(text).holds({"a": 12345, "b": 10**500})
        spent.append(time.process_time() - began)
        assert "cannot be computed for a = 12345" in str(caught.value)
    assert min(spent) < 0.1


@pytest.mark.parametrize(
    "text",
    [
        "not " * 400 + "a",
        "-" * 1900 + "1",
        "(" * 900 + "1" + ")" * 900,
        "[" * 150 + "]" * 150 + " == a",
        "a or (" * 200 + "a" + ")" * 200,
        "abs(" * 300 + "a" + ")" * 300,
        "a" + ".a" * 900 + "()",
        "a" + " + a" * 400,
        "9" * 2001,
        "\0",
    ],
    ids=lambda text: text[:9],
)
def test_conditions_are_of_bounded_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"deeper than 100|no condition|2001 characters|found a\.a"):
        Where(text, ["a"]).holds({"a": 1e308})


def test_conditions_are_of_bounded_time() -> None:
    many = spec(axes={"ftl.over_provisioning": [0.2]}, seeds={"from": 1, "to": 50_000, "step": 1})
    long = f"seed in {[1] * 450}"
    began = time.process_time()
    with pytest.raises(
        ftlab.ConfigError, match=r"where: the conditions take 22,650,000 steps for 50,000 runs, expected"
    ):
        ftlab.Study({**many, "where": long}).runs()
    with pytest.raises(ftlab.ConfigError, match="where: found 101 conditions, expected at most 100"):
        ftlab.Study({**many, "where": ["seed > 1"] * 101})
    assert time.process_time() - began < 1


BAD = [
    ("axs = {}", r"small\.toml:3:1: axs: no key of a study; did you mean 'axes'"),
    ("name = 'a/b'", "name = 'a/b': expected letters"),
    ("[axes]\nftl.gc = 'greedy'", r"small\.toml:4:\d+: axes\.ftl\.gc: .*expected a list"),
    ("[axes]\nftl.gc = []", "1 to 100,000 values"),
    ("[axes]\nftl.gcc = ['greedy']", r"small\.toml:4:\d+: ftl\.gcc: unknown key.*did you mean \"gc\""),
    ("[axes]\nftl.gc = ['fifo', 'gredy']", r"small\.toml:4:19: ftl\.gc = \"gredy\".*did you mean \"greedy\""),
    ("[axes]\nworkload.reqests = [1]", r"small\.toml:4:\d+: workload\.reqests.*\"requests\""),
    ("[axes]\noptions.verify = [1]", r"small\.toml:4:\d+: options\.verify: found 1, expected true"),
    ("[axes]\nftl.gc_choices = { from = 1, to = 5 }", "needs one of step, factor and count"),
    ("[axes]\nftl.gc_choices = { from = 1, to = 5, stepp = 2 }", "stepp: no key of a range; did you mean 'step'"),
    ("[axes]\nftl.gc_choices = { to = 5, step = 2 }", "a range that has from"),
    ("[axes]\nftl.gc_choices = { from = 1, to = 5, step = -1 }", "never leads"),
    ("[axes]\nseed = [1]", "state seeds or repetitions"),
    ("zip = [['ftl.gc', 'x']]\n[axes]\nftl.gc = ['fifo']", r"zip\.0: x is no axis"),
    ("zip = [['ftl.gc', 'seed2']]\n[axes]\nftl.gc = ['fifo']\nseed2 = [1, 2]", "as many values"),
    ("where = 'ftl.gx == 1'\n[axes]\nftl.gc = ['fifo']", r"small\.toml:3:1: where\.0: .*column 1: ftl\.gx is no axis"),
    ("where = 'ftl.gc == 1'\n[axes]\nftl.gc = ['fifo']", "no run is left"),
    ("seeds = [1]\nrepetitions = 2", "state one"),
    ("seeds = [1, 1]", "stated twice"),
    ("seeds = [-1]", "whole numbers from 0"),
    ("repetitions = 0", "above 0"),
    ("options = { requests = 0 }", "from 1 to"),
    ("options = { requests = 1e30 }", "expected a whole number"),
    ("options = { verfy = true }", "did you mean 'verify'"),
    ("options = { series = 'often' }", 'expected "auto"'),
    ("options = { series = '10ms', timing = false }", r"options\.series: states a simulated time"),
    ("trace = 'no.csv'", "the study has a workload and a trace"),
    ("[set]\nftl.gc = 'fifo'\n[axes]\nftl.gc = ['fifo']", r"set\.ftl\.gc: is an axis as well"),
    ("[axes]\nftl.gc = ['greedy', 'fifo', 'greedy']", r"small\.toml:4:29: ftl\.gc = 'greedy' is stated twice"),
    ("[set]\nftl.gx = 1", r"small\.toml:4:\d+: ftl\.gx: unknown key"),
    ("[axes", r"small\.toml:3:\d+: "),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[text.replace("\n", " ") for text, _ in BAD])
def test_mistakes_are_told_with_their_places(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "small.toml"
    path.write_text(f"device = 'ideal-page'\nworkload = 'uniform'\n{text}\n")
    with pytest.raises(ftlab.ConfigError, match=message):
        ftlab.Study.load(path).runs()


@pytest.mark.parametrize(
    ("axes", "told"),
    [
        ({"ftl.gc": ["fifo", "fifo"]}, r"study: axes\.ftl\.gc\.1: ftl\.gc = 'fifo' is stated twice"),
        ({"host.queue_depth": [1, 2, 1.0]}, r"host\.queue_depth = 1\.0 is stated twice"),
        ({"ftl.gc": [{"kind": "d_choices", "choices": 2}] * 2}, r"ftl\.gc = \{'kind': 'd_choices', 'choices': 2\} is"),
    ],
)
def test_a_value_of_an_axis_is_stated_once(axes: dict[str, Any], told: str) -> None:
    with pytest.raises(ftlab.ConfigError, match=told):
        ftlab.Study(spec(axes=axes), "study")


def test_zipped_axes_repeat_values_and_not_combinations() -> None:
    axes = {"ftl.gc": ["greedy", "greedy", "fifo"], "host.queue_depth": [1, 2, 1]}
    assert len(ftlab.Study(spec(axes=axes, zip=["ftl.gc", "host.queue_depth"])).runs()) == 3
    with pytest.raises(ftlab.ConfigError, match=r"ftl\.gc = 'greedy', host\.queue_depth = 1 is stated twice"):
        ftlab.Study(spec(axes={**axes, "host.queue_depth": [1, 1, 1]}, zip=["ftl.gc", "host.queue_depth"]))
    with pytest.raises(ftlab.ConfigError, match="device = 'ideal-page' is stated twice"):
        ftlab.Study(spec(device=["ideal-page", "ideal-page"]))
    # A switch is no number.
    assert len(ftlab.Study(spec(axes={"options.verify": [True, False]})).runs()) == 2


def test_two_values_of_an_axis_have_two_names() -> None:
    same = [{"kind": "uniform", "label": "x"}, {"kind": "zipf", "label": "x"}]
    told = r"another value of workload is called 'x' too: tables could not separate their runs"
    with pytest.raises(ftlab.ConfigError, match=told):
        ftlab.Study(spec(workload=same))
    with pytest.raises(ftlab.ConfigError, match=r"another value of ftl\.gc is called 'greedy' too"):
        ftlab.Study(spec(axes={"ftl.gc": ["greedy", {"kind": "d_choices", "label": "greedy"}]}))
    # Zipped axes are told apart by any of them.
    zipped = spec(workload=same, axes={"ftl.gc": ["greedy", "fifo"]}, zip=["workload", "ftl.gc"])
    assert len(ftlab.Study(zipped).runs()) == 2


def test_mistakes_in_dictionaries_are_told_with_their_keys() -> None:
    with pytest.raises(ftlab.ConfigError, match=r"study: axes\.ftl\.gc.*: ftl\.gc = \"x\": expected one of"):
        ftlab.Study(spec(axes={"ftl.gc": ["x"]}), "study").runs()
    with pytest.raises(ftlab.ConfigError, match=r'no device preset .* did you mean "ideal-page"'):
        ftlab.Study(spec(device="ideal-pge")).runs()
    with pytest.raises(ftlab.ConfigError, match="state a workload or a trace"):
        ftlab.Study({"device": "ideal-page"})
    with pytest.raises(ftlab.ConfigError, match="name that as the trace"):
        ftlab.Study(spec(workload=pl.DataFrame({"lba": [1]}))).runs()
    with pytest.raises(ftlab.InputError, match=r"no\.csv: no such file"):
        ftlab.Study({"device": "ideal-page", "trace": "no.csv"}).runs()


def test_values_that_fit_nothing_are_refused_and_combinations_are_recorded() -> None:
    axes = {"geometry.blocks_per_plane": [16, 64], "ftl.logical_pages": [200, 900]}
    frame = ftlab.study(spec(axes=axes, set={"geometry.pages_per_block": 16, "precondition.kind": "fill"}))
    assert frame["status"].to_list() == ["done", "error", "done", "done"]
    assert "ftl.logical_pages" in frame["error"][1]
    with pytest.raises(ftlab.ConfigError, match="logical_pages"):
        ftlab.study(spec(axes={**axes, "ftl.logical_pages": [200, 90_000]}, set={"geometry.pages_per_block": 16}))


def test_stand_ins_are_marked_and_make_way_for_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = ftlab.Workload.load("like-financial")
    stand_in = preset.stand_in or {}
    monkeypatch.delenv("FTLAB_TRACES", raising=False)
    small: dict[str, Any] = {"workload.requests": 30}
    named, given = (
        ftlab.Study({"device": "tlc-256g", "workload": each, "set": small}).runs()[0] for each in (preset.name, preset)
    )
    assert named.key == given.key
    cut = f"workload.requests not as in {preset.name}"
    assert (named.description or {})["stand_in"] == [stand_in["for"], None, cut]
    whole = ftlab.Study({"device": "tlc-256g", "workload": preset.name}).runs()[0]
    assert (whole.description or {})["stand_in"] == [stand_in["for"], None]
    (tmp_path / f"{stand_in['traces'][0]}").write_text("arrival_ns,op,lba,sectors\n" + "5,r,8,8\n" * 40)
    monkeypatch.setenv("FTLAB_TRACES", str(tmp_path))
    monkeypatch.setattr(ftlab.Workload, "stand_in", {**stand_in, "format": "csv"})
    frame = ftlab.study(
        {"device": "ideal-page", "workload": preset.name, "set": {**SMALL, **small}, "options": {"timing": False}}
    )
    assert frame["host.requests"].to_list() == [30]
    assert frame["stand_in.stands_for"].to_list() == [stand_in["for"]]
    assert frame["stand_in.recording"].to_list() == [stand_in["traces"][0]]
    assert frame["host.reads"].to_list() == [0], "what the paper made of the recording"
    other = ftlab.Study(
        {"device": "ideal-page", "workload": preset.name, "set": {"workload.oltp_financial.all_writes": True}}
    )
    with pytest.raises(ftlab.ConfigError, match="oltp_financial"):
        other.runs()


# Keys


def test_the_key_covers_all_that_determines_a_result_and_nothing_else() -> None:
    base = ftlab.Study(spec(axes={})).runs()[0]
    assert base.description is not None
    same = [spec(axes={}, seeds=[1]), spec(axes={}, name="other"), spec(axes={}, description="words")]
    assert {ftlab.Study(each).runs()[0].key for each in same} == {base.key}
    other = [
        spec(axes={}, seeds=[2]),
        spec(axes={}, options={"verify": True}),
        spec(axes={}, options={"timing": False}),
        spec(axes={}, options={"requests": 100}),
        spec(axes={}, options={"series": True}),
        spec(axes={}, workload={"kind": "uniform", "requests": 201}),
        spec(axes={}, workload={"kind": "uniform", "requests": 200, "seed": 3}),
        spec(axes={"ftl.gc": ["fifo"]}),
    ]
    keys = [ftlab.Study(each).runs()[0].key for each in other]
    assert len({*keys, base.key}) == len(other) + 1
    assert key_of({**base.description, "engine": "another"}) != base.key
    assert key_of(json.loads(json.dumps(base.description))) == base.key


def write_trace(path: Path, requests: int, last: str = "") -> Path:
    lines = [f"{index * 1000},w,{index * 7 % 500 * 8},8" for index in range(requests)]
    path.write_text("\n".join(["arrival_ns,op,lba,sectors", *lines]) + f"\n{last}")
    return path


def test_traces_count_by_content_wherever_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(trace: Path) -> str:
        return ftlab.Study({"device": "ideal-page", "trace": str(trace)}).runs(Contents(Files(tmp_path)))[0].key

    (tmp_path / "traces").mkdir()
    here = write_trace(tmp_path / "t.csv", 50)
    first = key(here)
    (tmp_path / "there").mkdir()
    assert key(write_trace(tmp_path / "there" / "t.csv", 50)) == first
    write_trace(here, 51)
    assert key(here) != first
    # The hash of a file that has settled is remembered, and forgotten when the file changes.
    assert not list(tmp_path.glob("traces/*.json"))
    monkeypatch.setattr("ftlab.studies.description._SETTLED_NS", 0)
    assert key(here) != first
    remembered = [json.loads(path.read_text()) for path in tmp_path.glob("traces/*.json")]
    assert [each["path"] for each in remembered] == [str(here.resolve())]


def test_a_blktrace_recording_counts_with_the_files_of_all_cpus(tmp_path: Path) -> None:
    for cpu in (0, 1):
        (tmp_path / f"sda.blktrace.{cpu}").write_bytes(b"")
    (tmp_path / "sda.blktrace.0").write_bytes((0x65617407).to_bytes(4, "little") + bytes(44))
    (tmp_path / "sda.blktrace.1").write_bytes((0x65617407).to_bytes(4, "little") + bytes(44))
    files = ftlab._native.trace_files(tmp_path / "sda.blktrace.1", "blktrace")
    assert [file.name for file in files] == ["sda.blktrace.0", "sda.blktrace.1"]


# Executing


class Reversed(Executor):
    """Ends runs in the opposite order, and takes and gives nothing but text."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._going: list[tuple[str, Future[Outcome]]] = []

    @property
    def slots(self) -> int:
        return self._slots

    def submit(self, description: Description) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        self._going.append((json.dumps(description), future))
        return future

    def under_way(self) -> float:
        return 0.5

    def close(self) -> None:
        for _, future in self._going:
            future.cancel()

    def work(self) -> None:
        while self._going:
            text, future = self._going.pop()
            future.set_result(execute(json.loads(text)))


class Working(Watch):
    """Lets an executor work whenever the study waits."""

    def __init__(self, executor: Reversed) -> None:
        self._executor = executor

    def tick(self, under_way: float) -> None:
        assert under_way == 0.5
        self._executor.work()


def test_the_table_does_not_depend_on_who_executes_it() -> None:
    axes = {**spec()["axes"], "ftl.logical_pages": [600, 900]}
    described = spec(
        axes=axes, set={"geometry.pages_per_block": 16, "geometry.blocks_per_plane": 64}, options={"series": True}
    )
    del axes["ftl.over_provisioning"]
    frames = [ftlab.study(described, jobs=jobs) for jobs in (1, 2, 5)]
    executor = Reversed(4)
    frames.append(ftlab.study(described, executor=executor, watch=Working(executor)))
    for frame in frames[1:]:
        assert_frame_equal(frame, frames[0])
        assert frame.write_csv() == frames[0].write_csv()


def test_a_description_is_all_that_another_process_needs(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", 40)
    run = ftlab.Study({"device": "ideal-page", "trace": str(trace), "set": SMALL, "options": {"timing": False}}).runs()[
        0
    ]
    program = (
        "import json, sys, dataclasses, ftlab.studies as s;"
        "print(json.dumps(dataclasses.asdict(s.execute(json.load(sys.stdin)))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(run.description), capture_output=True, text=True, check=True
    )
    there, here = Outcome(**json.loads(done.stdout)), execute(run.description or {})
    assert there.status == here.status == "done"
    assert there.summary is not None
    assert here.summary is not None
    assert {**there.summary, "wall_seconds": 0} == {**here.summary, "wall_seconds": 0}


def test_runs_that_share_a_trace_measure_what_runs_alone_do(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", 70_000)
    described = {
        "device": "ideal-page",
        "trace": str(trace),
        "set": {**SMALL, "host.out_of_range": "wrap", "precondition.kind": "fill"},
        "axes": {"ftl.gc": ["greedy", "fifo"], "workload.transform": [[], [{"step": "slice", "take": 65_600}]]},
        "options": {"timing": False},
    }
    frame = ftlab.study(described, jobs=2)
    device = ftlab.Device.load("ideal-page").with_(
        **SMALL, host={"out_of_range": "wrap"}, precondition={"kind": "fill"}, ftl={"gc": "fifo"}
    )
    alone = ftlab.run(device, ftlab.Trace(trace).slice(take=65_600), timing=False, series=None).summary
    assert frame["write_amplification.total"][3] == alone["write_amplification"]["total"]
    assert frame["host.requests"].to_list() == [70_000, 65_600] * 2
    # So little memory that each run decodes for itself from the beginning.
    store = ftlab.Store(tmp_path / "out")
    run_study(ftlab.Study(described), store, trace_memory_bytes=0)
    assert_frame_equal(store.frame(), frame)


def test_a_trace_that_changes_meanwhile_gives_no_result(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", 40)
    run = ftlab.Study({"device": "ideal-page", "trace": str(trace), "set": SMALL}).runs()[0]
    write_trace(trace, 41)
    outcome = execute(run.description or {})
    assert (outcome.status, outcome.error_kind) == ("error", "machine")
    assert "has changed" in str(outcome.error)
    trace.unlink()
    assert "No such file" in str(execute(run.description or {}).error)
    assert "is for engine" in str(execute({**(run.description or {}), "engine": "0"}).error)


@pytest.mark.parametrize("renamed", [True, False])
@pytest.mark.parametrize("settled_ns", [0, 2_000_000_000])
def test_a_trace_of_the_same_size_and_time_is_another(
    renamed: bool, settled_ns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ftlab.studies.description._SETTLED_NS", settled_ns)
    trace, other = tmp_path / "t.csv", tmp_path / "other.csv"
    described = {"device": "ideal-page", "trace": str(trace), "set": SMALL}
    (tmp_path / "traces").mkdir()
    kept = Contents(Files(tmp_path))
    write_trace(trace, 40)
    before = trace.stat()
    first = ftlab.Study(described).runs(kept)[0]
    other.write_bytes(trace.read_bytes().replace(b",w,", b",r,"))
    if renamed:
        other.replace(trace)
    else:
        trace.write_bytes(other.read_bytes())
    os.utime(trace, ns=(before.st_atime_ns, before.st_mtime_ns))
    now = trace.stat()
    assert (now.st_size, now.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    outcome = execute(first.description or {})
    assert (outcome.status, outcome.error_kind) == ("error", "machine")
    assert ftlab.Study(described).runs(kept)[0].key != first.key


@pytest.mark.long
def test_errors_are_recorded_beside_results_and_told(tmp_path: Path) -> None:
    good, bad = write_trace(tmp_path / "good.csv", 40), write_trace(tmp_path / "bad.csv", 40, "5,w,nonsense,8\n")
    (tmp_path / "s.toml").write_text(
        'name = "s"\ndevice = "ideal-page"\ntrace = ["good.csv", "bad.csv"]\n'
        '[set]\ngeometry.blocks_per_plane = 64\n[axes]\nftl.gc = ["greedy", "fifo"]\n'
    )
    out = tmp_path / "out"
    ran = command("study", "run", tmp_path / "s.toml", "--out", out)
    assert ran.status == 1
    assert "2 failed" in ran.err
    assert f"{bad}:42:" in ran.err
    assert "trace = bad.csv, ftl.gc = fifo, seed 1" in ran.err
    frame = ftlab.Store(out).frame()
    assert frame["status"].to_list() == ["done", "done", "error", "error"]
    assert frame["host.writes"].to_list() == [40, 40, None, None]
    again = command("study", "run", tmp_path / "s.toml", "--out", out)
    assert (again.status, "4 runs, 0 executed now" in again.err) == (1, True)
    assert "2 executed now" in command("study", "run", tmp_path / "s.toml", "--out", out, "--retry").err
    assert good.exists()


def test_a_workload_that_does_not_fit_a_drive_is_an_error_of_its_run(tmp_path: Path) -> None:
    axes = {"workload.footprint_bytes": ["64KiB", "1GiB"]}
    store = ftlab.Store(tmp_path)
    frame = ftlab.study(spec(axes=axes), out=store)
    assert frame["status"].to_list() == ["done", "error"]
    assert "workload.footprint_bytes" in frame["error"][1]
    assert store.records()[frame["key"][1]].error_kind == "config"
    assert run_study(ftlab.Study(spec(axes=axes)), store).executed == 0
    assert run_study(ftlab.Study(spec(axes=axes)), store, retry=True).executed == 1


def test_an_executor_that_fails_loses_nothing(tmp_path: Path) -> None:
    class Breaking(Reversed):
        def submit(self, description: Description) -> Future[Outcome]:
            if len(self._going) == 3:
                self.work()
                raise OSError("the cluster is gone")
            return super().submit(description)

    store = ftlab.Store(tmp_path)
    with pytest.raises(OSError, match="the cluster is gone"):
        run_study(ftlab.Study(spec()), store, executor=Breaking(9))
    assert store.frame()["status"].to_list().count("done") == 3
    assert run_study(ftlab.Study(spec()), store).executed == 3


# The store


def test_nothing_is_run_twice(tmp_path: Path) -> None:
    store = ftlab.Store(tmp_path / "store")
    assert run_study(ftlab.Study(spec()), store).executed == 6
    first = store.frame()
    assert run_study(ftlab.Study(spec()), store).executed == 0
    assert_frame_equal(store.frame(), first)
    more = spec(name="more", axes={**spec()["axes"], "ftl.gc": ["greedy", "cost_benefit"]}, repetitions=2)
    assert run_study(ftlab.Study(more), store).executed == 6
    assert set(store.studies()) == {"small", "more"}
    assert len(store.records()) == 12


def test_results_of_another_engine_are_not_mixed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ftlab.Store(tmp_path)
    assert run_study(ftlab.Study(spec()), store).executed == 6
    monkeypatch.setattr("ftlab.studies.description.ENGINE", "0.1.0+another")
    assert run_study(ftlab.Study(spec()), store).executed == 6
    assert store.sql("SELECT engine, count(*) AS n FROM runs GROUP BY engine")["n"].to_list() == [6, 6]


def test_sql_and_frames(tmp_path: Path) -> None:
    store = ftlab.Store(tmp_path)
    ftlab.study(spec(options={"series": True}), out=store)
    best = store.sql('SELECT "ftl.gc", min("write_amplification.total") AS wa FROM study GROUP BY ALL ORDER BY wa')
    assert best["ftl.gc"].to_list()[0] == "greedy"
    assert store.sql("SELECT count(*) AS n FROM small JOIN runs USING (key)")["n"].to_list() == [6]
    both = store.sql("SELECT a.key, b.key FROM study a, study b")
    assert (both.columns, both.height) == (["key", "key_1"], 36)
    assert store.sql("SHOW TABLES").height == 3
    assert store.sql("SELECT description->>'$.device.ftl.gc' AS gc FROM runs ORDER BY gc")["gc"].to_list()[0] == "fifo"
    with pytest.raises(ftlab.InputError, match=r"SQL: .*nonsense"):
        store.sql("SELECT nonsense FROM runs")
    with pytest.raises(ftlab.ConfigError, match="no study 'smal'; did you mean 'small'"):
        store.frame("smal")
    frame = store.pandas()
    assert list(frame.columns) == store.frame().columns
    assert frame["host.writes"].tolist() == [200] * 6
    series = store.series(store.frame()["key"][0])
    assert series is not None
    assert series["requests"][-1] == 200
    assert store.series("none") is None


def test_directories_that_are_no_stores_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ftlab.ConfigError, match=r"holds notes\.txt and is no store"):
        ftlab.Store(tmp_path)
    with pytest.raises(ftlab.ConfigError, match="no store of results"):
        ftlab.Store(tmp_path / "absent", create=False)
    store = ftlab.Store(tmp_path / "new")
    (store.folder / "store.json").write_text('{"ftlab_store": 1}')
    with pytest.raises(ftlab.ConfigError, match="found a store of version 1, expected version 3"):
        ftlab.Store(store.folder)


def test_spoilt_and_abandoned_files_harm_nothing(tmp_path: Path) -> None:
    store = ftlab.Store(tmp_path)
    run_study(ftlab.Study(spec()), store)
    (tmp_path / "runs" / "0000.json").write_text('{"key": "0000", "sta')
    (tmp_path / "runs" / "0001.json").write_bytes(b"\0" * 100)
    old = tmp_path / "runs" / ".x.json.1.tmp"
    old.write_text("half")
    os.utime(old, (1, 1))
    store.compact()
    assert not old.exists()
    assert len(store.records()) == 6
    assert run_study(ftlab.Study(spec()), store).executed == 0


@pytest.mark.long
def test_many_tables_become_one(tmp_path: Path) -> None:
    store = ftlab.Store(tmp_path)
    for seed in range(20):
        ftlab.study(spec(axes={}, seeds=[seed]), out=store)
    assert len(list((tmp_path / "tables").iterdir())) <= 16
    assert sorted(store.sql("SELECT seed FROM runs")["seed"]) == list(range(20))


WRITER = """
import sys, ftlab
from ftlab.studies import Study, run_study
spec, out, seeds = eval(sys.argv[1]), sys.argv[2], eval(sys.argv[3])
store = ftlab.Store(out)
for seed in seeds:
    run_study(Study({**spec, "seeds": [seed, seed + 1], "name": f"s{seed}"}), store, jobs=1)
"""


@pytest.mark.long
def test_writers_and_readers_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    writers = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                WRITER,
                repr(spec(axes={"ftl.gc": ["greedy", "fifo"]})),
                out,
                f"range({at}, {at + 9})",
            ]
        )
        for at in (0, 3, 6)
    ]
    seen: set[str] = set()
    while any(writer.poll() is None for writer in writers):
        if (out / "store.json").exists():
            store = ftlab.Store(out)
            keys = set(store.records())
            assert seen <= keys
            seen = keys
            if keys:
                assert store.sql("SELECT count(DISTINCT key) = count(*) AS whole FROM runs")["whole"].to_list() == [
                    True
                ]
                seen |= set(store.sql("SELECT key FROM runs")["key"])
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(ftlab.Store(out).records()) == 2 * 16


@pytest.mark.long
def test_parts_of_a_study_are_the_study(tmp_path: Path) -> None:
    described = ftlab.Study(spec(seeds={"from": 1, "to": 10, "step": 1}))
    keys = [run.key for run in described.runs()]
    shares = [[key for key in keys if Part(number, 3).has(key)] for number in (1, 2, 3)]
    assert sorted(key for share in shares for key in share) == sorted(keys)
    assert min(map(len, shares)) > len(keys) / 6
    (tmp_path / "small.toml").write_text(FILE + "[seeds]\nfrom = 1\nto = 10\nstep = 1\n")
    line = [FTLAB, "study", "run", str(tmp_path / "small.toml"), "--out", str(tmp_path / "parts"), "--jobs", "1"]
    parts = [
        subprocess.Popen([*line, "--part", f"{number}/3"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for number in (1, 2, 3)
    ]
    # One is killed, and goes on where it was.
    time.sleep(0.5)
    parts[0].kill()
    assert [part.wait() for part in parts[1:]] == [0, 0]
    parts[0].wait()
    assert command(*line[1:], "--part", "1/3").status == 0
    whole = ftlab.study(tmp_path / "small.toml", out=tmp_path / "whole")
    assert_frame_equal(ftlab.Store(tmp_path / "parts").frame("small"), whole)
    again = run_study(ftlab.Study.load(tmp_path / "small.toml"), ftlab.Store(tmp_path / "parts"))
    assert (again.executed, again.errors) == (0, [])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("part", ["0/3", "4/3", "1/0", "1", "a/b", "-1/3", "1/3/5"])
def test_parts_that_do_not_exist_are_refused(study_file: Path, part: str) -> None:
    done = command("study", "run", study_file, f"--part={part}")
    assert done.status == 2
    assert "such as 1/4" in done.err


SLOW = """
name = "slow"
device = "ideal-page"
workload = { kind = "uniform", requests = 60_000 }
seeds = { from = 1, to = 30, step = 1 }
[set]
geometry = { blocks_per_plane = 64, pages_per_block = 16 }
precondition.kind = "fill"
"""


def finished(out: Path) -> set[str]:
    return set(ftlab.Store(out, create=False).records()) if (out / "store.json").exists() else set()


def killed(spec: Path, out: Path, count: int) -> int:
    """Run a study of so many runs, kill it again and again until it is complete, and say how often."""
    arguments = [FTLAB, "study", "run", spec, "--out", out, "--jobs", "2"]
    seen: set[str] = set()
    kills = 0
    for attempt in range(40):
        with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            began, before = time.monotonic(), len(seen)
            # Some kills come while it starts, others after so many results more, one way or the other in any state.
            while process.poll() is None and time.monotonic() - began < 20:
                if (out / "runs").is_dir() and len(seen | finished(out)) >= before + 2 * (attempt % 3):
                    break
                time.sleep(0.01)
            process.kill()
            process.wait()
        kills += process.returncode == -signal.SIGKILL
        now = finished(out)
        assert seen <= now
        seen = now
        if len(seen) == count:
            break
    done = command("study", "run", spec, "--out", out)
    assert done.status == 0
    assert f"{count} runs, {count - len(seen)} executed now" in done.err
    return kills


@pytest.mark.long
def test_a_kill_at_any_moment_loses_no_finished_run(tmp_path: Path) -> None:
    count = 30 if LONG else 14
    slow = tmp_path / "slow.toml"
    slow.write_text(SLOW.replace("to = 30", f"to = {count}").replace("60_000", "1_000_000" if LONG else "250_000"))
    whole = ftlab.study(slow)
    kills = 0
    # On a busy machine a study may be complete before anybody looks.
    for again in range(5):
        kills += killed(slow, tmp_path / f"out-{again}", count)
        assert_frame_equal(ftlab.Store(tmp_path / f"out-{again}").frame(), whole)
        if kills >= (5 if LONG else 3):
            return
    pytest.fail(f"only {kills} kills")


COMPACTOR = """
import json, sys, ftlab
from ftlab.studies import Outcome, store
store._MOST_TABLES = 2
results = ftlab.Store(sys.argv[1])
description, outcome = json.loads(sys.argv[2]), Outcome("done", '{"seed": 1, "host": {"writes": 2}}', None, None, 0.1)
for number in range(10**9):
    key = f"{sys.argv[3]}-{number}"
    results.put(description, key, outcome)
    print(key, flush=True)
    if number % 3 == 2:
        results.compact()
"""


@pytest.mark.long
def test_a_kill_while_tables_are_joined_loses_nothing(tmp_path: Path) -> None:
    description = json.dumps(ftlab.Study(spec(axes={})).runs()[0].description)
    told: set[str] = set()
    attempts = range(0, 8, 1 if LONG else 3)
    for attempt in attempts:
        arguments = [sys.executable, "-c", COMPACTOR, tmp_path, description, str(attempt)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            # After so many runs, and then at some moment of the next ones.
            told |= {process.stdout.readline().strip() for _ in range(8 + attempt)}
            time.sleep(0.003 * attempt)
            process.kill()
            # A line is told when it is whole.
            told |= {line.strip() for line in process.stdout if line.endswith("\n")}
        store = ftlab.Store(tmp_path)
        assert told <= set(store.records())
    assert len(told) >= 8 * len(attempts)
    assert set(store.sql("SELECT key FROM runs")["key"]) >= told


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_keeps_what_has_ended(tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(SLOW.replace("60_000", "1_000_000"))
    out = tmp_path / "out"
    arguments = [FTLAB, "study", "run", tmp_path / "slow.toml", "--out", out, "--jobs", "2"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not any(out.glob("runs/*.json")):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "are kept in" in err
    kept = finished(out)
    assert 0 < len(kept) < 30
    frame = ftlab.Store(out).frame()
    assert frame["status"].to_list().count("missing") == 30 - len(kept)


@pytest.mark.parametrize("phase", ["precondition", "run"])
def test_threads_tell_how_runs_go_on_and_end_them(phase: str) -> None:
    long = {"precondition.kind": "steady"} if phase == "precondition" else {}
    described = spec(
        axes={},
        set={"geometry.blocks_per_plane": 40_000, "precondition.kind": "none", **long},
        workload={"kind": "uniform", "requests": 1_000_000_000},
        seeds=[1],
    )
    [run] = ftlab.Study(described).runs()
    threads = ThreadExecutor(1)
    future = threads.submit(run.description or {})
    waiting = threads.submit(run.description or {})
    before = time.monotonic()
    while not threads._going or (phase == "run" and not threads.under_way()):
        assert time.monotonic() < before + 30
        assert not future.done()
        time.sleep(0.01)
    assert threads.under_way() < 0.5
    time.sleep(0.1)
    before = time.monotonic()
    threads.close()
    assert time.monotonic() < before + 2
    assert waiting.cancelled()
    with pytest.raises(CancelledError):
        future.result()
    assert threads.under_way() == 0


def test_a_run_with_a_control_calls_nobody() -> None:
    [run] = ftlab.Study(spec(axes={}, seeds=[1])).runs()
    outcome = execute(run.description or {}, tell=lambda *_: None, control=ftlab._native.RunControl.of())
    assert (outcome.status, outcome.error_kind) == ("error", "internal")
    assert execute(run.description or {}, control=ftlab._native.RunControl.of()).status == "done"


def _fastest(*steps: Callable[[], None]) -> float:
    """Of the processor, not the clock: other tests may run beside this one. The fastest try: they only ever add."""

    def seconds(step: Callable[[], None]) -> float:
        began = time.process_time()
        step()
        return time.process_time() - began

    return min(map(seconds, steps))


@pytest.mark.long
def test_resuming_a_thousand_runs_and_starting_one_are_quick(tmp_path: Path) -> None:
    described = ftlab.Study(spec(axes={}, seeds={"from": 1, "to": 1000, "step": 1}))
    store = ftlab.Store(tmp_path / "one")
    runs = described.runs()
    outcome = execute(runs[0].description or {})
    for run in runs:
        store.put(run.description or {}, run.key, outcome)
    shutil.copytree(tmp_path / "one", tmp_path / "two")

    def resume(store: ftlab.Store) -> None:
        assert run_study(described, store).executed == 0
        assert store.frame().height == 1000
        store.compact()
        assert run_study(described, store).executed == 0

    assert _fastest(lambda: resume(store), lambda: resume(ftlab.Store(tmp_path / "two"))) < 2

    def start() -> None:
        for run in runs[:50]:
            store.put(run.description or {}, run.key, execute(run.description or {}))

    assert _fastest(start, start) / 50 < 0.020


@pytest.mark.long
def test_the_bench_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["study.py", "--small"])
    runpy.run_path(str(ROOT / "benches" / "study.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == ["workers", "overhead", "resume", "store"]
    # The same requests give the same table, wherever it runs; a change of the engine may change it.
    assert re.search(r"table [0-9a-f]{16}$", out.splitlines()[0])


# The command line


def test_run_show_and_list(study_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = study_file.parent / "out"

    def said(*arguments: str | Path) -> str:
        # Without a process for each: many commands are tried.
        assert status_of([str(argument) for argument in arguments]) == 0
        return capsys.readouterr().out

    run = ("study", "run", study_file, "--out", out)
    assert json.loads(said(*run, "--dry-run", "--json")) == {"study": "small", "runs": 6, "missing": 6}
    ran = command(*run, "--jobs", "2")
    assert ran.status == 0
    assert ran.out.splitlines()[0].split()[:4] == ["ftl.gc", "ftl.over_provisioning", "seed", "status"]
    assert len(ran.out.splitlines()) == 8
    rows = json.loads(said("study", "show", out, "--json"))
    assert rows == json.loads(said(*run, "--json"))
    assert [row["status"] for row in rows] == ["done"] * 6
    assert pl.read_csv(said("study", "show", out, "--csv").encode()).height == 6
    query = 'SELECT "ftl.gc" AS gc, round(avg("write_amplification.total"), 3) AS wa FROM study GROUP BY gc ORDER BY wa'
    assert json.loads(said("study", "show", out, "--sql", query, "--json"))[0]["gc"] == "greedy"
    assert "random" in said("study", "show", out, "--sql", query)
    assert said("study", "show", out, "--sql", query, "--csv").startswith("gc,wa\n")
    listed = json.loads(said("study", "list", study_file.parent, "--json"))
    assert [(row["study"], row["runs"], row["done"]) for row in listed] == [("small", 6, 6)]
    assert "small" in said("study", "list", out)
    assert "6 runs, 0 missing" in said(*run, "--dry-run")


@pytest.mark.long
def test_studies_without_a_directory_have_a_home(study_file: Path) -> None:
    assert command("study", "list", cwd=study_file.parent).status == 0
    assert command("study", "run", study_file, cwd=study_file.parent).status == 0
    listed = command("study", "list", "--json", cwd=study_file.parent).json
    assert [row["store"] for row in listed] == ["out/studies/small"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "absent.toml"), "absent.toml: No such file"),
        (("run", "small.toml", "--jobs", "0"), "--jobs"),
        (("run", "small.toml", "--out", "."), "is no store"),
        (("show", "absent"), "no store of results"),
        (("show", "."), "no store of results"),
        (("list", "absent"), "no such directory"),
    ],
)
def test_mistakes_on_the_command_line(study_file: Path, arguments: tuple[str, ...], message: str) -> None:
    ran = command("study", *arguments, cwd=study_file.parent)
    assert ran.status == 2
    assert message in ran.err


def test_what_nothing_did_has_no_latency(tmp_path: Path) -> None:
    spec = {"device": "ideal-page", "workload": {"kind": "uniform", "requests": 200}}
    table = ftlab.study({**spec, "axes": {"workload.read_fraction": [0, 1]}}, out=tmp_path / "store")
    assert table["latency_ns.read.count"].to_list() == [0, 200]
    for name in ("mean", "p50", "p99", "max"):
        reads, writes = (table[f"latency_ns.{op}.{name}"].to_list() for op in ("read", "write"))
        assert [value is None for value in (*reads, *writes)] == [True, False, False, True], name
        assert min(reads[1], writes[0]) > 0
