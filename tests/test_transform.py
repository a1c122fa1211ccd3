"""Transformations: the steps of Python, of the command line and of workload files are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ftlab
from conftest import ROOT, inside, run_small
from ftlab import _native
from ftlab._transform import Transformable

NAMES = [step["name"] for step in _native.transform_steps()]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    rows = [f"{1000 * index},{'read' if index % 2 else 'write'},{8 * index},8,{index % 3}\n" for index in range(30)]
    path.write_text("arrival_us,op,lba,sectors,stream\n" + "".join(rows))
    return path


def test_every_step_is_a_method_and_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "transformations.md").read_text()
    for step in _native.transform_steps():
        assert callable(getattr(Transformable, step["name"])), step
        assert step["summary"]
        assert f"| `{step['name']}` | `{step['example']}` | " in page
        assert ftlab.Workload(kind="uniform").transform(step["example"]).to_dict()["transform"]


def test_every_example_of_the_page_is_a_step() -> None:
    page = (ROOT / "docs" / "reference" / "transformations.md").read_text()
    examples = [text for text in re.findall(r"\| `(\w+ [^`]*=[^`]*)` \|", page) if text.split()[0] in NAMES]
    assert len(examples) > len(NAMES)
    for example in examples:
        _native.transform_step(example)


def test_methods_and_text_say_the_same() -> None:
    by_method = (
        ftlab.Trace("x")
        .scale_time(0.5)
        .shift_time(start_us=0)
        .slice(skip=1, take=5)
        .filter(ops=["read", "write"], streams=3)
        .set_op("write")
        .merge_streams(stride_bytes="1GiB")
        .shift_address(up_bytes="1MiB")
        .wrap("8GiB")
        .remap(size_bytes="64GiB", to_size_bytes="8GiB")
        .compact()
        .align(4096)
        .sort()
        .repeat(3)
        .cap_outstanding(8, "200us")
    )
    assert [step["step"] for step in by_method.transforms] == NAMES
    by_text = ftlab.Trace("x")
    texts = ["scale_time factor=0.5", "shift_time start_us=0", "slice skip=1 take=5"]
    texts += ["filter ops=read,write streams=3", "set_op op=write", "merge_streams stride_bytes=1GiB"]
    texts += ["shift_address up_bytes=1MiB", "wrap bytes=8GiB", "remap size_bytes=64GiB to_size_bytes=8GiB"]
    texts += ["compact", "align bytes=4KiB", "sort", "repeat times=3", "cap_outstanding outstanding=8 service_us=200"]
    for text in texts:
        by_text = by_text.transform(text)
    assert by_text.transforms == by_method.transforms
    assert "| compact | align" in repr(by_text)


def test_a_step_leaves_the_trace_that_it_is_added_to_alone() -> None:
    trace = ftlab.Trace("x")
    assert trace.repeat(2).transforms
    assert trace.transforms == ()
    workload = ftlab.Workload(kind="uniform")
    assert "transform" in workload.repeat(2).to_dict()
    assert "transform" not in workload.to_dict()


@pytest.mark.long
def test_commands_read_through_steps(tmp_path: Path, trace: Path) -> None:
    steps = ("--transform", "filter ops=write", "--transform", "slice skip=1 take=3")
    head = inside("trace", "head", trace, *steps, "--json").json
    assert [row["lba"] for row in head] == [16, 32, 48]
    assert inside("trace", "stats", trace, *steps, "--json").json["requests"] == 3
    done = inside("trace", "convert", trace, tmp_path / "o.csv", *steps, "--transform", "scale_time factor=2", "--json")
    assert done.json["requests"] == 3
    assert inside("trace", "head", tmp_path / "o.csv", "--json").json[0]["arrival_ns"] == 4_000_000
    run = run_small("--trace", trace, *steps, "--out", tmp_path / "out", "--json").json
    assert run["host"]["requests"] == run["host"]["writes"] == 3
    again = run_small("--workload", tmp_path / "out" / "workload.toml", "--json").json
    assert again["host"] == run["host"]


@pytest.mark.long
def test_workloads_count_what_goes_in_and_runs_what_comes_out(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text(
        '[workload]\nkind = "uniform"\nrequests = 100\nread_fraction = 0.5\n'
        '[[workload.transform]]\nstep = "filter"\nops = "write"\n'
    )
    few = run_small("--workload", path, "--json").json["host"]
    assert few["reads"] == 0
    assert 20 < few["writes"] < 80
    assert run_small("--workload", path, "--requests", "5", "--json").json["host"]["writes"] == 5
    doubled = run_small("--workload", path, "--transform", "repeat times=2", "--json").json["host"]
    assert doubled["writes"] == 2 * few["writes"]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("scale_tme factor=1", 'did you mean "scale_time"?'),
        ("scale_time factr=1", 'did you mean "factor"?'),
        ("scale_time factor=0", "must be above 0"),
        ("sort by=lba", "by: unknown key: there are none here"),
        ("shift_address down_bytes=1GiB", "transform 1 (shift_address):1: begins at sector 0"),
    ],
)
def test_a_step_that_makes_no_sense(trace: Path, step: str, expected: str) -> None:
    ran = inside("trace", "stats", trace, "--transform", step)
    assert ran.status == 2
    assert expected in ran.err
