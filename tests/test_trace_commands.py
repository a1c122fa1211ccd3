"""`ftlab trace`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ftlab as package
from conftest import ftlab


@pytest.fixture
def spc(tmp_path: Path) -> Path:
    rows = [f"0,{8 * (index % 50)},4096,{'R' if index % 4 else 'W'},{index / 1000:.6f}\n" for index in range(400)]
    path = tmp_path / "some.spc"
    path.write_text("".join(rows))
    return path


def test_info_head_and_stats(spc: Path) -> None:
    assert ftlab("trace", "info", spc, "--json").json["format"] == "spc"
    assert "spc" in ftlab("trace", "info", spc).out
    head = ftlab("trace", "head", spc, "-n", "2", "--json").json
    assert head[1] == {"arrival_ns": 1_000_000, "op": "read", "lba": 8, "sectors": 8, "stream": 0}
    assert len(ftlab("trace", "head", spc).out.splitlines()) == 12
    stats = ftlab("trace", "stats", spc, "--json").json
    assert (stats["requests"], stats["reads"], stats["writes"]) == (400, 300, 100)
    assert (stats["footprint_pages_4k"], stats["duration_ns"]) == (50, 399_000_000)
    promised = "trims flushes read_bytes write_bytes lowest_byte highest_byte footprint_written_pages_4k"
    assert set(promised.split()) <= set(stats)
    assert "reads" in ftlab("trace", "stats", spc).out


@pytest.mark.parametrize(
    "target", ["a.csv", "a.parquet", "a.disksim", "a.mqsim", "a.csv.gz", "a.csv.zst", "a.csv.bz2", "a.csv.xz"]
)
def test_conversion_there_and_back(tmp_path: Path, spc: Path, target: str) -> None:
    there = ftlab("trace", "convert", spc, tmp_path / target, "--json")
    assert there.status == 0, there.err
    assert there.json["requests"] == 400
    stats = ("trace", "stats", "--json", "--format")
    kind = there.json["format"]
    assert ftlab(*stats, kind, tmp_path / target).json["write_bytes"] == 100 * 4096


def test_a_failed_conversion_leaves_the_target_alone(tmp_path: Path, spc: Path) -> None:
    spc.write_text(spc.read_text() + "0,zzz,4096,R,9.0\n")
    (tmp_path / "a.csv").write_text("precious")
    ran = ftlab("trace", "convert", spc, tmp_path / "a.csv")
    assert ran.status == 2
    assert "some.spc:401" in ran.err
    assert (tmp_path / "a.csv").read_text() == "precious"


def test_an_unknown_format(spc: Path) -> None:
    ran = ftlab("trace", "info", spc, "--format", "spcc")
    assert ran.status == 2
    assert "spc" in ran.err
    ran = ftlab("trace", "convert", spc, "x.unknown")
    assert (ran.status, "--to" in ran.err) == (2, True)


def test_formats_are_documented() -> None:
    formats = ftlab("trace", "formats", "--json").json
    assert {row["name"] for row in formats} >= {"spc", "msr", "disksim", "mqsim", "csv", "parquet"}
    for row in formats:
        assert row["summary"]
        assert row["units"]
    assert "parquet" in ftlab("trace", "formats").out


def test_statistics_of_traces_and_workloads(tmp_path: Path, spc: Path) -> None:
    ran = ftlab("trace", "stats", spc, "--workload", "zipf", "--requests", "2000", "--out", tmp_path / "o", "--json")
    assert ran.status == 0, ran.err
    recorded, generated = ran.json
    assert (recorded["file"], generated["workload"]) == (str(spc), "zipf")
    assert recorded["reuse"]["first_touches"] == 50
    curve = recorded["reuse"]["miss_ratio_curve"]
    # Fifty pages in turn: a cache of 50 holds all, a smaller one nothing.
    assert {ratio for size, ratio in zip(curve["cache_pages"], curve["all"], strict=True) if size < 44} == {1.0}
    assert curve["all"][-1] == 50 / 400
    assert recorded["hotness"]["top_20_percent"] == pytest.approx(0.2)
    assert recorded["interarrival"]["p50"] == pytest.approx(1e6, rel=0.03)
    assert (generated["requests"], generated["ftl_requests"]) == (2000, 2000)
    for folder in ("1-some.spc", "2-zipf"):
        names = {path.name for path in (tmp_path / "o" / folder).iterdir()}
        assert {"stats.json", "miss_ratio_curve.parquet", "growth.parquet", "plot.png", "plot.svg"} <= names


def test_options_of_statistics_change_what_they_say(spc: Path) -> None:
    def stats(*options: str) -> dict[str, Any]:
        found: dict[str, Any] = ftlab("trace", "stats", spc, "--json", *options).json
        return found

    plain = stats()
    assert stats("--reuse", "off")["reuse"] is None
    assert stats("--reuse", "exact") == plain
    assert stats("--page-bytes", "1KiB")["ftl_requests"] == 4 * plain["ftl_requests"]
    assert stats("--service", "2ms")["queue"]["depth"]["max"] > plain["queue"]["depth"]["max"]
    assert stats("--map-cache", "1MiB")["intra_distance"]["cache_bytes"] == 1 << 20
    footprint = ftlab("trace", "stats", "--workload", "uniform", "--requests", "3000", "--capacity", "1MiB", "--json")
    assert footprint.json["footprint_pages_4k"] == 256
    for wrong, told in ((("--page-bytes", "5000"), "power of two"), (("--map-cache", "4furlongs"), "4furlongs")):
        ran = ftlab("trace", "stats", spc, *wrong)
        assert (ran.status, told in ran.err) == (2, True)
    assert ftlab("trace", "stats").status == 2


def test_statistics_in_python(spc: Path) -> None:
    result = package.Trace(spc).stats(reuse="exact")
    assert result.summary["reuse"]["references"] == 400
    assert result.miss_ratio(1 << 20) == 50 / 400
    assert result.frames["growth"]["requests"][-1] == 400
    assert "<table>" in result._repr_html_()
    assert "OS requests" in repr(result)
    workload = package.Workload(kind="sequential", requests=100)
    assert workload.stats(capacity="1GiB").summary["sequential_fraction"] == pytest.approx(0.99)
    assert package.trace_stats({"op": ["r", "w"], "lba": [0, 8], "sectors": [8, 8]}).summary["requests"] == 2


def test_a_trace_is_fitted_and_the_workload_runs(tmp_path: Path, spc: Path) -> None:
    target = tmp_path / "fitted.toml"
    ran = ftlab("trace", "fit", spc, "-o", target, "--json")
    assert ran.status == 0, ran.err
    assert ran.json["miss_ratio_error"] < 0.03
    rows = {row["name"]: row for row in ran.json["comparison"]}
    assert not any(rows[name]["off"] for name in ("requests", "reads", "writes", "mean_request_bytes", "duration_ns"))
    # A few pages of fifty are many percent.
    assert abs(rows["footprint_pages_4k"]["fitted"] - 50) < 10
    text = ftlab("trace", "fit", spc, "-o", target).out
    assert "fitted" in text
    assert str(target) in text
    run = ftlab("run", "ideal-page", "--workload", target, "--no-timing", "--json")
    assert run.status == 0, run.err
    assert run.json["host"]["requests"] == 400
    assert ftlab("run", "ideal-page", "--workload", target, "--set", "workload.requests=401").status == 2
    target.write_text(target.read_text().replace("duration_ns", "duration"))
    broken = ftlab("run", "ideal-page", "--workload", target)
    assert broken.status == 2
    assert "duration_ns" in broken.err


def test_fits_in_python(spc: Path) -> None:
    found = package.fit(package.Trace(spc), description="a test")
    assert found.workload.description == "a test"
    assert found.generated.summary["requests"] == 400
    assert found.miss_ratio_error < 0.03
    assert "some.spc" in repr(found)
    with pytest.raises(package.InputError, match="no request"):
        package.fit({"op": [], "lba": [], "sectors": []})
