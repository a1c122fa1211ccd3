"""Fleets: each volume of a trace on a drive of its own, from one pass over the trace; and what they say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import ftlab
from conftest import inside
from ftlab import figures
from ftlab.studies import ThreadExecutor, run_study

LONG = "FTLAB_LONG" in os.environ
VOLUMES = 200
SMALL = {"geometry": {"blocks_per_plane": 32, "pages_per_block": 8}, "precondition.kind": "fill"}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of 200 volumes, merged of as many files; each has more requests than the one before."""
    folder = tmp_path_factory.mktemp("cloud")
    parts = []
    for volume in range(VOLUMES):
        pages = 40 + volume
        rows = [f"{at * 1000 + volume},w,{at * 17 % pages * 8},8" for at in range(volume + 60)]
        part = folder / f"v{volume}.csv"
        part.write_text("\n".join(["arrival_ns,op,lba,sectors", *rows]) + "\n")
        parts.append(part)
    merged = ftlab.merge(parts, folder / "cloud.csv")
    assert [stream.stream for stream in merged.streams] == list(range(VOLUMES))
    return folder / "cloud.csv"


def spec(cloud: Path, **changes: Any) -> dict[str, Any]:
    return {
        "name": "fleet",
        "device": "ideal-page",
        "trace": str(cloud),
        "volumes": "all",
        "set": {**SMALL, "host.out_of_range": "wrap"},
        **changes,
    }


def without_time(summary: dict[str, Any]) -> dict[str, Any]:
    return {**summary, "wall_seconds": 0}


# 16 MiB are held in any case, so the file of what memory does not hold is tested in Rust.
@pytest.mark.sampled(2)
def test_each_run_is_that_of_the_volume_alone_and_the_trace_is_decoded_once(cloud: Path, tmp_path: Path) -> None:
    store = ftlab.Store(tmp_path)
    study = ftlab.Study(spec(cloud))
    with ThreadExecutor(2) as executor:
        assert run_study(study, store, executor=executor).executed == VOLUMES
        assert executor.traces.passes == 1
    frame = store.frame()
    assert frame["workload.volume"].to_list() == list(range(VOLUMES))
    assert set(frame["status"]) == {"done"}
    device = ftlab.Device("ideal-page").with_(
        geometry=SMALL["geometry"], precondition={"kind": "fill"}, host={"out_of_range": "wrap"}
    )
    records = store.records()
    for volume in range(0, VOLUMES, 1 if LONG else 20):
        alone = ftlab.run(device, ftlab.Trace(cloud, volume=volume), series=None).summary
        found = records[frame["key"][volume]].summary
        assert found is not None
        assert without_time(found) == without_time(alone), volume
    # What is there is not run again, and neither is the trace read.
    with ThreadExecutor(2) as executor:
        assert run_study(study, store, executor=executor).executed == 0
        assert executor.traces.passes == 0
    # The keys are those of the volumes, however they were named.
    listed = spec(cloud, volumes=None, axes={"workload.volume": [3, 1]})
    del listed["volumes"]
    assert {run.key for run in ftlab.Study(listed).runs()} <= set(frame["key"])


def test_numbers_of_volumes_share_a_pass_as_well(cloud: Path, tmp_path: Path) -> None:
    described = spec(cloud, axes={"workload.volume": [1, 5, 7], "ftl.gc": ["greedy", "fifo"]})
    del described["volumes"]
    with ThreadExecutor(2) as executor:
        run_study(ftlab.Study(described), ftlab.Store(tmp_path), executor=executor)
        assert executor.traces.passes == 1


def test_the_largest_stand_in_the_order_of_their_numbers(cloud: Path) -> None:
    runs = ftlab.Study(spec(cloud, volumes=3, axes={"ftl.gc": ["greedy", "fifo"]})).runs()
    assert [run.values for run in runs] == [(volume, gc) for volume in (197, 198, 199) for gc in ("greedy", "fifo")]
    some = ftlab.Study(spec(cloud, where="workload.volume < 4 and workload.volume != 2")).runs()
    assert [run.values for run in some] == [(0,), (1,), (3,)]


def test_a_fleet_reads_the_trace_as_the_study_says(tmp_path: Path) -> None:
    rows = [f"{at},w,{at * 8},8,{at % 2}" for at in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["arrival_ns,op,lba,sectors,stream", *rows, "bad"]) + "\n")
    described = spec(tmp_path / "t.csv")
    with pytest.raises(ftlab.InputError, match=r"study: trace: .*t\.csv:22"):
        ftlab.Study(described, "study").runs()
    described["set"] = {**described["set"], "workload.skip_bad": 1}
    frame = ftlab.study(described)
    assert frame["host.skipped_records"].to_list() == [1, 1]
    assert frame["host.requests"].to_list() == [10, 10]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"volumes": 0}, 'volumes: found 0, expected "all", or how many of the largest'),
        ({"volumes": True}, "volumes: found True, expected"),
        ({"volumes": "some"}, "volumes: found 'some', expected"),
        ({"volumes": 201}, "volumes: found 201, and the trace has 200"),
        ({"axes": {"workload.volume": [1]}}, "workload.volume: volumes states it"),
        ({"axes": {"workload.skip_bad": [1, 2]}}, "volumes are those of one trace, read in one way"),
        ({"set": {"workload.volume": 1}}, "is an axis as well"),
        ({"set": {"workload.volumes": "concat"}}, "workload.volumes: says where several volumes lie"),
        ({"axes": {"ftl.gc": ["fifo"]}, "zip": [["workload.volume", "ftl.gc"]]}, "moves with nothing"),
    ],
    ids=str,
)
def test_what_is_no_fleet_is_refused(cloud: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ftlab.ConfigError, match=message):
        ftlab.Study(spec(cloud, **changes), "study").runs()


def test_a_fleet_is_of_one_trace(cloud: Path) -> None:
    two = {**spec(cloud), "trace": [str(cloud), str(cloud)]}
    with pytest.raises(ftlab.ConfigError, match="volumes: are those of one trace: found a list of them"):
        ftlab.Study(two)
    generated = {**spec(cloud), "workload": "uniform"}
    del generated["trace"]
    with pytest.raises(ftlab.ConfigError, match="found none, expected trace = PATH"):
        ftlab.Study(generated)
    with pytest.raises(ftlab.ConfigError, match=r"trace\.volume: volumes states it"):
        ftlab.Study({**spec(cloud), "trace": {"path": str(cloud), "volume": 3}})


@pytest.fixture(scope="module")
def stored(cloud: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fleet") / "out"
    axes = {"ftl.gc": ["greedy", "fifo"]}
    ftlab.study(spec(cloud, volumes=30, axes=axes, options={"timing": False}, repetitions=2), out=out)
    return out


def test_the_distribution_and_the_worst(stored: Path) -> None:
    frame = ftlab.Store(stored).frame()
    metric = "write_amplification.total"
    spread = ftlab.analysis.fleet(frame)
    assert spread["ftl.gc"].to_list() == ["greedy", "fifo"]
    assert spread["volumes"].to_list() == [30, 30]
    means = frame.group_by("workload.volume", "ftl.gc").agg(pl.col(metric).mean())
    greedy = means.filter(pl.col("ftl.gc") == "greedy")[metric]
    row = spread.to_dicts()[0]
    assert row["p50"] == pytest.approx(greedy.median())
    assert (row["min"], row["max"]) == (pytest.approx(greedy.min()), pytest.approx(greedy.max()))
    worst = ftlab.analysis.worst(frame, count=10)
    assert worst["rank"].to_list() == [*range(1, 11)] * 2
    first = worst.filter(pl.col("ftl.gc") == "greedy")[metric].to_list()
    assert first == sorted(greedy, reverse=True)[:10]
    best = ftlab.analysis.worst(frame, count=1, better="larger")
    assert best[metric][0] == pytest.approx(greedy.min())
    with pytest.raises(ftlab.ConfigError, match="neither way is better by itself"):
        ftlab.analysis.worst(frame, "host.writes")
    with pytest.raises(ftlab.ConfigError, match=r"volume 'workload\.volume': the table has no such column"):
        ftlab.analysis.fleet(frame.drop("workload.volume"))


def test_figures_of_a_fleet(stored: Path, tmp_path: Path) -> None:
    frame = ftlab.Store(stored).frame()
    figures.cdf(frame, x="write_amplification.total", color="ftl.gc")
    worst = ftlab.analysis.worst(frame)
    figure = figures.bar(worst, x="workload.volume", y="write_amplification.total", color="ftl.gc")
    assert len(figures.save(figure, tmp_path / "worst.svg")) == 1
    plot = ["study", "plot", stored, "--kind", "cdf", "--x", "write_amplification.total", "--color", "ftl.gc"]
    assert inside(*plot, "--out", tmp_path / "fleet.png").status == 0


def test_the_command_prints_both(stored: Path) -> None:
    ran = inside("study", "fleet", stored)
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[0] == "write_amplification.total over volumes"
    assert lines[1].split() == ["ftl.gc", "volumes", "mean", "min", "p10", "p50", "p90", "p99", "max"]
    assert "the worst 10" in lines
    assert len(lines) == 1 + 2 + 2 + 2 + 2 + 20
    both = json.loads(inside("study", "fleet", stored, "--worst", "2", "--json").out)
    assert [len(both["fleet"]), len(both["worst"])] == [2, 4]
    table = pl.read_csv(inside("study", "fleet", stored, "--csv").out.encode())
    assert table.height == 20
    assert inside("study", "fleet", stored, "--metric", "write_amplification.totl").status == 2


def test_a_fleet_in_parts_is_the_fleet(cloud: Path, tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(
        f"device = 'ideal-page'\ntrace = '{cloud}'\nvolumes = 20\n[set]\nhost.out_of_range = 'wrap'\n"
        "precondition.kind = 'fill'\ngeometry = { blocks_per_plane = 32, pages_per_block = 8 }\n"
    )
    for part in ("1/2", "2/2"):
        assert inside("study", "run", tmp_path / "fleet.toml", "--out", tmp_path / "out", "--part", part).status == 0
    whole = ftlab.study(tmp_path / "fleet.toml")
    assert_frame_equal(ftlab.Store(tmp_path / "out").frame(), whole)


def test_a_volume_of_which_no_run_is_done_is_missing() -> None:
    frame = {
        "workload.volume": [0, 1, 2, 0, 1, 2],
        "ftl.gc": ["greedy"] * 3 + ["fifo"] * 3,
        "status": ["done", "error", "done", "done", "done", "done"],
        "write_amplification.total": [1.0, None, 3.0, 2.0, 2.0, 2.0],
        "seed": [1] * 6,
    }
    assert ftlab.analysis.fleet(frame, by=[]).select("volumes", "missing").rows() == [(3, 0)]
    found = ftlab.analysis.fleet(frame).select("ftl.gc", "volumes", "missing")
    assert found.rows() == [("greedy", 2, 1), ("fifo", 3, 0)]
