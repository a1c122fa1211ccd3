"""Tables of studies made of columns are those made of documents, and stay quick with many runs."""

from __future__ import annotations

import json
import os
import runpy
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import ftlab
from conftest import ROOT, inside
from ftlab.studies import Outcome, Store, run_study
from ftlab.studies.frame import study_frame

LONG = "FTLAB_LONG" in os.environ
MANY = 100_000 if LONG else 2_000
SMALL = {"geometry.blocks_per_plane": 64, "geometry.pages_per_block": 16}


def spec(**changes: Any) -> dict[str, Any]:
    return {
        "name": "small",
        "device": "ideal-page",
        "workload": {"kind": "mix", "requests": 100},
        "set": {**SMALL, "precondition.kind": "fill"},
        **changes,
    }


STUDIES: list[dict[str, Any]] = [
    {"axes": {"ftl.gc": ["greedy", "fifo"]}, "repetitions": 2},
    # Parts that some runs have, in turn.
    {"axes": {"map_cache": [{"kind": "ideal"}, {"kind": "dftl", "bytes": 4096}], "options.verify": [True, False]}},
    {"axes": {"buffer": [{"kind": "lru", "bytes": "64KiB"}], "options.timing": [False, True]}},
    # Errors of runs, of descriptions, and an axis that the summary has as well.
    {"axes": {"workload.footprint_bytes": ["64KiB", "1GiB"], "workload.seed": [1, 7]}, "seeds": [1, 2**63 + 5]},
    {"axes": {"geometry.blocks_per_plane": [16, 64], "ftl.logical_pages": [200, 900]}},
]


def documents(store: Store, name: str | None = None) -> Any:
    study = store.study(name)
    return study_frame(study, store.records(run.key for run in study.runs))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("order", [1, -1])
def test_columns_give_the_table_of_documents(tmp_path: Path, order: int) -> None:
    store = Store(tmp_path)
    names = []
    # Each study adds a table, and a join of them has the runs of all.
    for number, changes in list(enumerate(STUDIES))[::order]:
        described = {**spec(), **changes, "name": f"s{number}"}
        if "geometry.blocks_per_plane" in changes["axes"]:
            described["set"] = {key: value for key, value in described["set"].items() if "blocks_per" not in key}
        run_study(ftlab.Study(described), store)
        names.append(described["name"])
    for name in names:
        found, expected = store.frame(name), documents(store, name)
        assert found.columns == expected.columns
        assert_frame_equal(found, expected)
        assert found.write_csv() == expected.write_csv()
    states = {key: record.status for key, record in store.records().items()}
    assert store.states() == states


def test_runs_that_are_loose_or_missing_or_twice_count_as_in_documents(tmp_path: Path) -> None:
    store = Store(tmp_path)
    study = ftlab.Study(spec(axes={"ftl.gc": ["greedy", "fifo", "random"]}))
    runs = study.runs()
    run_study(study, store)
    # An error that was tried again, and beside it in another table.
    store.put(runs[0].description or {}, runs[0].key, Outcome("error", None, "the machine", "machine", 0.1))
    store.compact()
    more = ftlab.Study(spec(name="more", axes={"ftl.gc": ["greedy", "cost_benefit", "d_choices"]}))
    store.save_study(more.record(more.runs()))
    store.put(more.runs()[1].description or {}, more.runs()[1].key, Outcome("error", None, "full", "run", 0.1))
    for name, status in (("small", ["done"] * 3), ("more", ["done", "error", "missing"])):
        assert store.frame(name)["status"].to_list() == status
        assert_frame_equal(store.frame(name), documents(store, name))


def test_a_column_of_two_types_is_looked_at_value_by_value(tmp_path: Path) -> None:
    store = Store(tmp_path)
    study = ftlab.Study(spec(repetitions=3))
    runs = study.runs()
    run_study(study, store, part=None)
    for run, value in zip(runs, (1, "two", 3.5), strict=True):
        store.put(
            run.description or {}, run.key, Outcome("done", json.dumps({"seed": 1, "odd": value}), None, None, 0.1)
        )
        store.compact()
    frame = store.frame()
    assert frame["odd"].to_list() == ["1", "two", "3.5"]
    assert_frame_equal(frame, documents(store))
    assert store.sql("SELECT count(*) AS n FROM study")["n"].to_list() == [3]


@pytest.mark.long
def test_many_finished_runs_are_listed_and_queried_in_three_seconds(tmp_path: Path) -> None:
    bench = runpy.run_path(str(ROOT / "benches" / "study.py"), run_name="bench")
    bench["_stored"](Store(tmp_path), MANY)
    took = []
    for _ in range(2):
        # Of the processor: other tests may run beside this one.
        before = os.times()
        listed = inside("study", "list", tmp_path, "--json")
        assert f'"done": {MANY}' in listed.out
        asked = inside("study", "show", tmp_path, "--json", "--sql", "SELECT count(*) AS n FROM study")
        assert f'"n": {MANY}' in asked.out
        after = os.times()
        took.append(sum(after[:4]) - sum(before[:4]))
    # The process that answers a query takes most of the time of a small store.
    assert min(took) < 3, took
