"""`ftlab trace`."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        assert row["cannot_say"]
    assert "parquet" in ftlab("trace", "formats").out
