"""Warnings beside numbers: from the summary to tables, comparisons, plots and reports; and runs that need none."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import ftlab
from conftest import inside as command
from ftlab import _keys as keys
from ftlab import _native
from ftlab import _warned as warned
from ftlab.studies import Store, ThreadExecutor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ftlab._result import Result

# A drive of tlc-small's dies with so few blocks that it is full within a second.
TINY = {"geometry": {"blocks_per_plane": 40, "pages_per_block": 24, "planes": 1}}
POLICIES = ["greedy", "cost_benefit"]


def skewed(requests: int) -> dict[str, Any]:
    return {"kind": "zipf", "theta": 0.99, "requests": requests, "read_fraction": 0.5, "request_bytes": "4KiB"}


def of_policies(device: dict[str, Any], requests: int, folder: Path) -> Store:
    store = Store(folder)
    spec = {
        "name": "policies",
        "device": device,
        "workload": skewed(requests),
        "axes": {"ftl.gc": POLICIES},
        "repetitions": 5,
        "options": {"timing": False},
    }
    ftlab.study(spec, out=store)
    return store


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The first story: a tenth of a full drive is overwritten."""
    return of_policies({"extends": "tlc-small", **TINY}, 8_000, tmp_path_factory.mktemp("fresh"))


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The same on a drive that the workload has aged."""
    before = {"kind": "steady", "pattern": "workload", "tolerance": 0.02}
    device = {"extends": "tlc-small", **TINY, "precondition": before}
    return of_policies(device, 8_000, tmp_path_factory.mktemp("aged"))


def compared(store: Store, **options: Any) -> dict[str, Any]:
    frame = ftlab.analysis.compare(store.frame(), "ftl.gc", "write_amplification.total", baseline="greedy", **options)
    return frame.row(1, named=True)


def test_a_tenth_of_a_drive_gives_no_verdict(fresh: Store, aged: Store) -> None:
    """Story (a): what five seeds agree on is wrong in the steady state, so nothing is said."""
    row = compared(fresh)
    assert row["verdict"] == "withheld"
    assert row["unsteady"] == row["n"] == len(fresh.frame()) // 2
    assert all("not_steady" in warned.split(cell) for cell in fresh.frame()["warnings"])
    names = {
        name for cell in fresh.frame().filter(pl.col("ftl.gc") != "greedy")["warnings"] for name in cell.split(", ")
    }
    assert set(row["warnings"].split(", ")) == names
    settled = compared(aged)
    assert "not_steady" not in settled["warnings"]
    assert settled["verdict"] in {"better", "worse", "undecided"}
    assert settled["unsteady"] == 0
    # The numbers are there all the same, and so is the verdict for who asks.
    assert compared(fresh, even_unsteady=True)["verdict"] in {"better", "worse", "undecided", "same"}
    hits = ftlab.analysis.compare(fresh.frame(), "ftl.gc", "host.requests", baseline="greedy")
    assert hits["verdict"].to_list() == [None, "same"]


def keys_of(tables: keys.Tables, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """The dotted keys of the values of a document; of keys that are names, one."""
    inner = tables.resolved(schema)
    if "properties" in inner:
        for name, each in inner["properties"].items():
            yield from keys_of(tables, each, f"{path}.{name}" if path else name)
    elif isinstance(inner.get("additionalProperties"), dict):
        yield from keys_of(tables, inner["additionalProperties"], f"{path}.name")
    else:
        yield path


def test_every_number_depends_on_the_state_of_the_drive_or_does_not() -> None:
    tables = keys.Tables("summary")
    found = list(keys_of(tables, tables.root))
    assert {"map_cache.windows.name", "latency_ns.read.p999", "nvm.hit_ratio", "seed"} <= set(found)
    sides = (warned._OF_STATE, warned._NOT_OF_STATE)
    fitting = {key: [side for side in sides if warned._fits(key, side)] for key in found}
    assert [key for key, fit in fitting.items() if not fit] == [], "put it on one side in _warned.py"
    assert [key for key, fit in fitting.items() if len(fit) > 1] == []
    assert [pattern for side in sides for pattern in side if not any(fnmatchcase(key, pattern) for key in found)] == []


@pytest.mark.parametrize("metric", ["nvm.write_amplification_primary", "gc.collections"])
def test_no_verdict_on_what_depends_on_the_state(metric: str, tmp_path: Path) -> None:
    spec = {
        "device": "ideal-page",
        "workload": {"kind": "uniform", "requests": 5000},
        "repetitions": 5,
        "set": {
            "geometry": {"blocks_per_plane": 64, "pages_per_block": 32},
            "nvm": {"kind": "basic", "bytes": "256KiB"},
            "precondition.kind": "none",
        },
        "axes": {"ftl.gc": ["greedy", "fifo"]},
        "options": {"timing": False},
    }
    frame = ftlab.study(spec, out=Store(tmp_path))
    assert set(frame["warnings"]) == {"not_steady"}
    found = ftlab.analysis.compare(frame, "ftl.gc", metric, baseline="greedy")
    assert found["verdict"].to_list() == [None, "withheld"]


def test_the_command_says_what_would_settle_it(fresh: Store) -> None:
    done = command("study", "compare", fresh.folder, "--by", "ftl.gc", "--baseline", "greedy")
    assert "withheld" in done.out
    assert "verdicts are withheld: 10 of 10 runs are not steady" in done.err
    assert 'precondition.pattern = "workload"' in done.err
    assert "not_steady (10)" in done.err
    done = command("study", "compare", fresh.folder, "--by", "ftl.gc", "--baseline", "greedy", "--even-unsteady")
    assert "withheld" not in done.out + done.err
    rows = command("study", "compare", fresh.folder, "--by", "ftl.gc", "--json").json
    assert all("not_steady" in row["warnings"].split(", ") for row in rows)
    assert ",warnings," in command("study", "compare", fresh.folder, "--by", "ftl.gc", "--csv").out


def test_tables_and_reports_of_studies_have_warnings(fresh: Store, tmp_path: Path) -> None:
    done = command("study", "show", fresh.folder)
    assert "not_steady" in done.out
    assert "10 of 10 runs have warnings" in done.err
    found = fresh.sql("SELECT count(*) FROM study WHERE contains(warnings, 'not_steady')")
    assert found.item() == 10
    page = ftlab.report(fresh, out=tmp_path / "study.html").read_text()
    assert "10 of 10 runs have warnings: not_steady (10)" in page


def test_every_run_of_a_study_has_a_coarse_series(aged: Store) -> None:
    states = ftlab.analysis.steady_states(aged)
    assert states.height == 10
    series = aged.series(aged.frame()["key"][0])
    assert series is not None
    assert 128 <= series.height <= 256
    assert series["requests"][-1] == 8_000
    assert "steady after" in command("study", "steady", aged.folder).out


# An 8 x 8 drive of one's own, as a newcomer writes it.
OWN = """
[geometry]
channels = 8
ways = 8
blocks_per_plane = 32
pages_per_block = 64
page_bytes = 4096

[ftl]
over_provisioning = 0.28

[host]
arrival = "closed"
queue_depth = 256

[precondition]
kind = "fill"
"""


def test_a_drive_of_ones_own_is_as_fast_as_its_dies() -> None:
    """Story (b): writes go to whichever die is next. Where addresses decide, one die is the limit, and that is said."""
    device = ftlab.Device.parse(OWN, "own")
    assert device.to_dict()["ftl"]["striping"] == "dynamic"
    work = ftlab.Workload(**skewed(30_000))
    named = device.with_(ftl={"striping": "static"})
    dynamic, static = (ftlab.run(each, work).summary for each in (device, named))
    assert dynamic["host"]["iops"] > 2 * static["host"]["iops"]
    assert 4 * dynamic["latency_ns"]["read"]["p99"] < static["latency_ns"]["read"]["p99"]
    uneven = [each["advice"] for each in static["warnings"] if each["code"] == "uneven_dies"]
    assert "ftl.striping" in uneven[0]
    assert "uneven_dies" not in [each["code"] for each in dynamic["warnings"]]


def run(**changes: Any) -> Result:
    device = ftlab.Device.load("tlc-small").with_(**TINY)
    return ftlab.run(device, ftlab.Workload(**(skewed(2_000) | changes)))


def test_a_result_tells_its_warnings(tmp_path: Path) -> None:
    result = run()
    codes = [each["code"] for each in result.warnings]
    assert codes == ["not_steady", "few_samples"]
    for each in result.warnings:
        assert set(each) == {"code", "text", "advice", "found"}
        assert all(isinstance(value, float) for value in each["found"].values())
    assert "warning (not_steady)" in repr(result)
    assert 128 <= result.coarse_series.height <= 256
    asked = set(result.series.columns)  # type: ignore[union-attr] # by default
    assert set(result.coarse_series.columns) == {name for name in asked if not re.fullmatch(r"\w+_p\d+_ns", name)}
    # Under the plot, at the head of the page, and in the files.
    assert result.plot().get_supxlabel() == "Warnings: not_steady, few_samples."
    page = ftlab.report(result, out=tmp_path / "run.html").read_text()
    assert page.index('aria-label="Warnings"') < page.index('class="tiles"')
    assert result.warnings[0]["text"] in page
    result.write(tmp_path / "run")
    kept = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert [each["code"] for each in kept["warnings"]] == codes


def test_the_command_prints_warnings_below_its_table() -> None:
    sets = [f"--set=geometry.{key}={value}" for key, value in TINY["geometry"].items()]
    done = command("run", "tlc-small", "--workload", "zipf", "--requests", "2000", *sets)
    words = " ".join(done.out.split())
    assert "warning (not_steady): write amplification was" in words
    assert 'precondition.pattern = "workload"' in words
    done = command("run", "tlc-small", "--workload", "zipf", "--requests", "2000", *sets, "--json")
    assert [each["code"] for each in json.loads(done.out)["warnings"]] == ["not_steady", "few_samples"]


@pytest.mark.long
def test_a_stand_in_is_one_everywhere() -> None:
    device = ftlab.Device.load("tlc-small").with_(**TINY, host={"out_of_range": "wrap"})
    work = ftlab.Workload.load("like-financial")
    codes = [each["code"] for each in ftlab.run(device, work, requests=200, timing=False).warnings]
    assert "stand_in" in codes


def test_a_summary_of_an_older_ftlab_has_no_warnings() -> None:
    assert warned.lines({"schema": 1}) == []
    assert warned.of_table(pl.DataFrame({"ftl.gc": ["greedy"], "seed": [1]})) is None
    frame = {"gc": ["a", "a", "b", "b"], "seed": [1, 2, 1, 2], "write_amplification.total": [1.0, 1.1, 2.0, 2.2]}
    found = ftlab.analysis.compare(frame, "gc", "write_amplification.total", baseline="a", at=[])
    assert found["verdict"].to_list() == [None, "worse"]
    assert found["unsteady"].to_list() == [0, 0]


def test_all_warnings_have_a_rule_and_a_reason() -> None:
    rows = _native.warnings()
    assert len({code for code, _, _ in rows}) == len(rows)
    assert all(when.endswith(".") and why.endswith(".") for _, when, why in rows)
    page = (Path(__file__).parents[1] / "docs" / "reference" / "warnings.md").read_text()
    assert all(f"`{code}`" in page for code, _, _ in rows)


def test_a_command_explains_warnings() -> None:
    # A page of the documentation is nothing that pip installs.
    frame = pl.DataFrame({"warnings": ["few_samples", "", "few_samples, not_steady"]})
    told = warned.of_table(frame)
    assert told == "2 of 3 runs have warnings: few_samples (2), not_steady (1); `ftlab warnings` explains them"
    rows = _native.warnings()
    listed = command("warnings", "--json").json
    assert [(row["name"], row["when"], row["why"]) for row in listed] == rows
    lines = command("warnings").out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [code for code, _, _ in rows]
    alone = command("warnings", "not_steady").out.splitlines()
    assert alone[0] == "not_steady"
    assert lines[: len(alone)] == alone
    assert "did you mean 'not_steady'?" in command("warnings", "not_stedy").err


def test_runs_of_a_study_share_the_ageing_of_their_drive(tmp_path: Path) -> None:
    spec = {
        "name": "depths",
        "device": {"extends": "tlc-small", **TINY, "precondition": {"kind": "steady", "tolerance": 0.05},
                   "host": {"arrival": "closed"}},
        "workload": [
            {**skewed(500), "label": "skewed"},
            {"kind": "uniform", "requests": 500, "request_bytes": "4KiB", "label": "even"},
        ],
        "axes": {"host.queue_depth": [1, 4, 16]},
    }  # fmt: skip
    with ThreadExecutor(2) as threads:
        together = ftlab.study(spec, out=tmp_path / "together", executor=threads)
        # Six runs of one seed, and one drive.
        assert threads.aged.reused == 5
        assert threads.aged.used_bytes > 0
    for depth in (1, 16):
        device = ftlab.Device.load("tlc-small").with_(**TINY, precondition=spec["device"]["precondition"],
                                                      host={"arrival": "closed", "queue_depth": depth})  # fmt: skip
        alone = ftlab.run(device, ftlab.Workload(**skewed(500))).summary
        [row] = together.filter(workload="skewed").filter(pl.col("host.queue_depth") == depth).to_dicts()
        assert row["write_amplification.total"] == alone["write_amplification"]["total"]
        assert row["latency_ns.all.p99"] == alone["latency_ns"]["all"]["p99"]
