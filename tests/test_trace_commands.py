"""`ftlab trace`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import polars as pl
import pytest

import ftlab as ftlab_package
from conftest import FTLAB, ROOT, inside, run_small
from ftlab import _native


@pytest.fixture
def spc(tmp_path: Path) -> Path:
    rows = [f"0,{8 * (index % 50)},4096,{'R' if index % 4 else 'W'},{index / 1000:.6f}\n" for index in range(400)]
    path = tmp_path / "some.spc"
    path.write_text("".join(rows))
    return path


def test_info_head_and_stats(spc: Path) -> None:
    assert inside("trace", "info", spc, "--json").json["format"] == "spc"
    assert "spc" in inside("trace", "info", spc).out
    head = inside("trace", "head", spc, "-n", "2", "--json").json
    assert head[1] == {"arrival_ns": 1_000_000, "op": "read", "lba": 8, "sectors": 8, "stream": 0}
    assert len(inside("trace", "head", spc).out.splitlines()) == 12
    stats = inside("trace", "stats", spc, "--json").json
    assert (stats["requests"], stats["reads"], stats["writes"]) == (400, 300, 100)
    assert (stats["footprint_pages_4k"], stats["duration_ns"]) == (50, 399_000_000)
    promised = "trims flushes read_bytes write_bytes lowest_byte highest_byte footprint_written_pages_4k"
    assert set(promised.split()) <= set(stats)
    assert "reads" in inside("trace", "stats", spc).out


def test_head_and_info_say_what_is_strange(tmp_path: Path) -> None:
    rows = [f"{at * 3}.5 0 {23_979_941_888 + at * 4096} 4096 {at % 2}" for at in range(300)]
    (trace := tmp_path / "t.disksim").write_text("\n".join(rows) + "\n")
    for command in ("head", "info", "stats"):
        told = inside("trace", command, trace).err
        assert told.count("all multiples of 512, as bytes are; if they are bytes, use --format 'columns:") == 1, told
    assert "multiples of 512" not in inside("trace", "head", trace, "--format", "disksim").err
    # Hours for milliseconds, and every third out of order: as far as the rows that are read tell.
    (slow := tmp_path / "slow.disksim").write_text(
        "".join(f"{at * 7_200_000 - (at % 3 == 1) * 8_000_000 + 9_000_000} 0 {at * 7919} 8 1\n" for at in range(300))
    )
    every = ("head", slow, "-n", "200")
    for told in (inside("trace", *every).err, inside("trace", "info", "--volumes", slow).err):
        assert "a request arrives every 71" in told
        assert "their times look like those of a smaller unit" in told
        assert "arrive before one ahead of them" in told
    few = inside("trace", "head", slow, "-n", "3")
    assert "unit" not in few.err
    assert "1 of 3 requests (33 %) arrive before one ahead of them" in few.err
    assert len(few.out.splitlines()) == 5
    with slow.open("a") as file:
        file.write("bad\n")
    told = inside("trace", "head", slow, "-n", "400", "--skip-bad", "1").err
    assert "1 bad record skipped" in told


@pytest.mark.parametrize(
    "target", ["a.csv", "a.parquet", "a.disksim", "a.mqsim", "a.csv.gz", "a.csv.zst", "a.csv.bz2", "a.csv.xz"]
)
def test_conversion_there_and_back(tmp_path: Path, spc: Path, target: str) -> None:
    there = inside("trace", "convert", spc, tmp_path / target, "--json")
    assert there.status == 0, there.err
    assert there.json["requests"] == 400
    stats = ("trace", "stats", "--json", "--format")
    kind = there.json["format"]
    assert inside(*stats, kind, tmp_path / target).json["write_bytes"] == 100 * 4096


def test_a_failed_conversion_leaves_the_target_alone(tmp_path: Path, spc: Path) -> None:
    spc.write_text(spc.read_text() + "0,zzz,4096,R,9.0\n")
    (tmp_path / "a.csv").write_text("precious")
    ran = inside("trace", "convert", spc, tmp_path / "a.csv", "--force")
    assert ran.status == 2
    assert "some.spc:401" in ran.err
    assert (tmp_path / "a.csv").read_text() == "precious"


def test_an_unknown_format(spc: Path) -> None:
    ran = inside("trace", "info", spc, "--format", "spcc")
    assert ran.status == 2
    assert "spc" in ran.err
    ran = inside("trace", "convert", spc, "x.unknown")
    assert (ran.status, "--to" in ran.err) == (2, True)


def test_formats_are_documented() -> None:
    formats = inside("trace", "formats", "--json").json
    binary = {"vscsi", "blktrace", "hp_srt", "oracle_general"}
    assert {row["name"] for row in formats} >= {"spc", "msr", "disksim", "mqsim", "csv", "parquet", *binary}
    for row in formats:
        assert row["summary"]
        assert row["units"]
        assert row["cannot_say"]
        assert len(row["example"].splitlines()) >= 4
    assert "parquet" in inside("trace", "formats").out


def test_bad_lines_are_skipped_and_counted(tmp_path: Path, spc: Path) -> None:
    spc.write_text(spc.read_text() + "0,zzz,4096,R,9.0\n0,1,4096,R,9.0\n0,1,0,R,9.0\n")
    ran = inside("trace", "stats", spc, "--skip-bad", "2", "--json")
    assert (ran.status, ran.json["requests"], ran.json["skipped_records"]) == (0, 401, 2)
    assert "2 bad records skipped" in ran.err
    assert inside("trace", "stats", spc, "--json", "--requests", "9").json["skipped_records"] == 0
    ran = inside("trace", "convert", spc, tmp_path / "a.csv", "--skip-bad", "1")
    assert ran.status == 2
    assert "some.spc:403:5" in ran.err
    assert "1 bad record was skipped before" in ran.err
    ran = inside("trace", "convert", spc, tmp_path / "a.csv", "--skip-bad", "2", "--json")
    assert (ran.json["requests"], ran.json["skipped_records"]) == (401, 2)
    ran = run_small("--trace", spc, "--skip-bad", "5", "--json")
    assert ran.json["host"]["skipped_records"] == 2
    assert "2 bad records skipped" in run_small("--trace", spc, "--skip-bad", "5").out
    file = tmp_path / "w.toml"
    file.write_text(f'[workload]\ntrace = "{spc}"\nskip_bad = 5\n')
    assert run_small("--workload", file, "--json").json["host"]["skipped_records"] == 2
    assert "skipped_records" not in run_small("--workload", "uniform", "--requests", "9", "--json").json["host"]


@pytest.fixture
def two_volumes(tmp_path: Path) -> Path:
    path = tmp_path / "two.spc"
    path.write_text("3,0,4096,w,0.0\n0,8,4096,w,0.1\n3,8,4096,r,0.2\n")
    return path


def test_volumes_are_chosen_and_laid_out(two_volumes: Path, tmp_path: Path) -> None:
    def lbas(*options: str) -> list[int]:
        ran = inside("trace", "head", two_volumes, "--json", *options)
        assert ran.status == 0, ran.err
        return [row["lba"] for row in ran.json]

    assert lbas() == [0, 8, 8]
    assert lbas("--volume", "0") == [8]
    assert lbas("--volume", "0,3") == [0, 8, 8]
    assert lbas("--volumes", "concat") == [2048, 8, 2056]
    assert lbas("--volumes", "concat", "--volume-bytes", "4MiB") == [0, 8192 + 8, 8]
    for options, message in [
        (("--volume", "0,x"), "as in 3 or 0,3"),
        (("--volume", "70000"), "65535"),
        (("--volume", "7"), "there are 0, 3"),
        (("--volume-bytes", "1MiB"), "belongs to"),
        (("--volumes", "concat", "--volume-bytes", "7"), "multiple of 512"),
        (("--volumes", "concat", "--volume-bytes", "1Mib"), "volume_bytes"),
    ]:
        ran = inside("trace", "head", two_volumes, *options)
        assert (ran.status, message in ran.err) == (2, True), ran.err

    file = tmp_path / "w.toml"
    text = f'[workload]\ntrace = "{two_volumes}"\n'
    file.write_text(text + 'volume = [0, 3]\nvolumes = "concat"\nvolume_bytes = "64KiB"\n')
    assert run_small("--workload", file, "--json").json["host"]["requests"] == 3
    for keys, message in [
        ('volume_bytes = "4MiB"', "volume_bytes"),
        ("volume = []", "a list of them"),
        ('volume = "x"', "a list of them"),
        ('volumes = "concatt"', "concat"),
    ]:
        file.write_text(text + keys + "\n")
        ran = run_small("--workload", file)
        assert (ran.status, message in ran.err) == (2, True), ran.err


def test_split_and_merge(two_volumes: Path, tmp_path: Path) -> None:
    ran = inside("trace", "split", two_volumes, tmp_path / "parts", "--json")
    assert ran.status == 0, ran.err
    files = [row["file"] for row in ran.json["files"]]
    assert [(row["volume"], row["requests"]) for row in ran.json["files"]] == [(0, 1), (3, 2)]
    assert [Path(file).name for file in files] == ["two-0.parquet", "two-3.parquet"]
    ran = inside("trace", "merge", *files, tmp_path / "all.csv", "--keep-streams", "--json")
    assert ran.json["requests"] == 3
    whole = inside("trace", "head", two_volumes, "--json").json
    assert inside("trace", "head", tmp_path / "all.csv", "--json").json == whole
    ran = inside("trace", "merge", *files, tmp_path / "all.csv", "--json")
    assert [(row["volume"], row["stream"]) for row in ran.json["streams"]] == [(0, 0), (3, 1)]
    assert inside("trace", "merge", files[0], tmp_path / "none.csv", tmp_path / "x.csv").status == 2
    ran = inside("trace", "merge", *files, tmp_path / "all.csv", "--transform", "slice take=1", "--json")
    assert (ran.status, ran.json["requests"]) == (0, 2), ran.err


def test_a_step_that_leaves_nothing_is_an_error(two_volumes: Path, tmp_path: Path) -> None:
    none = ("--transform", "filter streams=9")
    ran = inside("trace", "convert", two_volumes, tmp_path / "x.csv", *none)
    assert (ran.status, "transform 1 (filter)" in ran.err, "leaves none of 3" in ran.err) == (2, True, True), ran.err
    assert list(tmp_path.iterdir()) == [two_volumes]
    ran = run_small("--trace", two_volumes, *none)
    assert (ran.status, "leaves none of 3" in ran.err) == (2, True), ran.err


def test_merging_says_that_hashes_are_left_out(two_volumes: Path, tmp_path: Path) -> None:
    hashed = tmp_path / "hashed.csv"
    hashed.write_text(f"arrival_ns,op,lba,sectors,content_hash\n1,w,0,8,{'0' * 32}\n")
    ran = inside("trace", "merge", hashed, two_volumes, tmp_path / "all.csv")
    assert (ran.status, "hashes of contents are left out" in ran.err) == (0, True), ran.err


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    "command",
    [
        ("trace", "convert", "FILE", "x.csv"),
        ("trace", "stats", "FILE"),
        ("trace", "fit", "FILE", "-o", "x.toml"),
        ("run", "tlc-small", "--trace", "FILE"),
    ],
)
@pytest.mark.parametrize("last", ["filter streams=99", "compact"])
def test_steps_that_give_nothing_for_long_are_interrupted(
    two_volumes: Path, tmp_path: Path, command: tuple[str, ...], last: str
) -> None:
    arguments = [str(two_volumes) if argument == "FILE" else argument for argument in command]
    steps = ["--transform", "repeat times=1000000000", "--transform", last]
    with subprocess.Popen([FTLAB, *arguments, *steps], stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        time.sleep(0.8)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert (process.returncode, "interrupted" in err, "Traceback" in err) == (130, True, False), err


def test_requests_of_a_workload_are_written_as_a_run_serves_them(tmp_path: Path) -> None:
    import ftlab as package

    mixed = package.Workload(
        kind="zipf", requests=900, footprint_bytes="8MiB", rate_iops=5000, read_fraction=0.5, flush_fraction=0.1
    )
    mixed = mixed.set('phases=[{requests=100}, {requests=50, with={kind="sequential", request_bytes="64KiB"}}]')
    done = package.convert(mixed, tmp_path / "mixed.parquet", seed=7)
    assert (done.requests, done.skipped_records, done.lost, done.remarks) == (900, 0, (), ())
    device = package.Device("ideal-page").set("precondition.kind=none")
    one, other = (package.run(device, source, seed=7, requests_log=True) for source in (mixed, done.trace))
    assert one.requests.equals(other.requests)
    # As many as are asked for, as in a run.
    short = package.convert(mixed, tmp_path / "short.iolog", requests=30, seed=7)
    assert (short.requests, short.trace.format, short.trace.stats().summary["requests"]) == (30, "fio_iolog", 30)
    # Where no footprint is stated, a drive decides.
    wide = package.Workload(kind="uniform", requests=2000)
    ends = [
        package.convert(wide, tmp_path / f"{size}.csv", capacity=size).trace.stats().summary["highest_byte"]
        for size in ("1MiB", "1GiB")
    ]
    assert ends[0] <= 1 << 20 < 1 << 29 < ends[1] <= 1 << 30
    table = pl.read_parquet(tmp_path / "mixed.parquet")
    again = package.convert(table, tmp_path / "again.parquet")
    assert pl.read_parquet(again.trace.path).equals(table)
    # The address of a flush does not count, and whoever gave the table keeps it.
    placed = table.with_columns(lba=pl.when(op="flush").then(77).otherwise("lba").cast(pl.UInt64))
    flushes = package.convert(placed, tmp_path / "flushes.parquet")
    assert pl.read_parquet(flushes.trace.path).equals(table)
    with pytest.raises(package.InputError, match=r"^trace: the table has no request$"):
        package.convert(placed.clear(), tmp_path / "empty.parquet")
    own = {name: placed[name].to_numpy().copy() for name in ("op", "lba", "sectors")}
    package.convert(own, tmp_path / "own.parquet")
    assert (own["lba"] == placed["lba"].to_numpy()).all()
    with pytest.raises(package.InputError, match=r"^trace: found int, expected ftlab.Trace or its path"):
        package.convert(3, tmp_path / "x.csv")
    with pytest.raises(package.ConfigError, match=r"^seed = 3: belongs to a workload$"):
        package.convert(done.trace, tmp_path / "x.csv", seed=3)
    with pytest.raises(package.ConfigError, match=r"^capacity = 1MiB: belongs to a workload$"):
        package.convert(done.trace, tmp_path / "x.csv", capacity="1MiB")


def test_workloads_stand_where_files_do(tmp_path: Path, spc: Path) -> None:
    name = tmp_path / "w.toml"
    name.write_text('[workload]\nkind = "uniform"\nrequests = 40\nrate_iops = 1000\n')
    options = ("--workload", name, "--capacity", "1GiB", "--seed", "3", "--transform", "scale_time factor=2")
    written = inside("trace", "convert", *options, tmp_path / "w.csv", "--json").json
    told = {"requests": 40, "skipped_records": 0, "remarks": [], "lost": []}
    assert written == {"file": str(tmp_path / "w.csv"), "format": "csv", **told}
    rows = inside("trace", "head", *options, "-n", "100", "--json").json
    assert rows == inside("trace", "head", tmp_path / "w.csv", "-n", "100", "--json").json
    plain = inside("trace", "head", *options[:-2], "-n", "100", "--json").json
    assert [row["arrival_ns"] for row in rows] == [row["arrival_ns"] * 2 for row in plain]
    assert "uniform" not in inside("trace", "head", *options, "-n", "1").out
    for arguments, said in [
        (("head",), "give either a FILE or a --workload"),
        (("head", spc, "--workload", "zipf"), "give either a FILE or a --workload"),
        (("head", spc, "--seed", "3"), "--seed belongs to --workload"),
        (("stats", spc, "--capacity", "1GiB"), "--capacity belongs to --workload"),
        (("convert", tmp_path / "x.csv"), "give a FILE or a --workload, and one TARGET"),
        (("convert", spc, tmp_path / "x.csv", "--workload", "zipf"), "give a FILE or a --workload, and one TARGET"),
        (("convert", spc, tmp_path / "x.csv", "--seed", "3"), "--seed belongs to --workload"),
        (("convert", "--workload", "zipf", "--volume", "3", tmp_path / "x.csv"), "--volume belongs to FILE"),
        (("convert", spc, tmp_path), "is a directory, expected a file to write"),
        (("head", name), "looks like TOML, which describes workloads and devices; a workload is given with"),
    ]:
        failed = inside("trace", *arguments)
        assert (failed.status, said in failed.err) == (2, True), failed.err
    assert not (tmp_path / "x.csv").exists()


def test_split_merge_and_convert_in_python(two_volumes: Path, tmp_path: Path) -> None:
    import ftlab as package

    parts = package.split(package.Trace(two_volumes, skip_bad=1), tmp_path / "parts", "csv")
    assert {volume: trace.path.name for volume, trace in parts.traces.items()} == {0: "two-0.csv", 3: "two-3.csv"}
    assert (dict(parts.requests), parts.skipped_records) == ({0: 1, 3: 2}, 0)
    whole = package.merge(list(parts.traces.values()), tmp_path / "all.parquet", keep_streams=True)
    assert (whole.requests, whole.trace.format) == (3, "parquet")
    assert [(stream.volume, stream.stream) for stream in whole.streams] == [(0, 0), (3, 3)]
    one = package.merge([package.Trace(two_volumes, volume=3), tmp_path / "all.parquet"], tmp_path / "five.csv.gz")
    assert [stream[1:] for stream in one.streams] == [(3, 0), (0, 2), (3, 1)]
    assert one.requests == 5
    seen: list[int] = []
    done = package.convert(
        package.Trace(two_volumes).filter(ops="write").scale_time(0.5),
        tmp_path / "half.csv",
        requests=1,
        progress=lambda _, count: seen.append(count),
    )
    assert (done.requests, done.streams, seen) == (1, (), [1])
    with pytest.raises(package.ConfigError, match="found none"):
        package.merge([], tmp_path / "x.csv")
    with pytest.raises(package.ConfigError, match="names no format"):
        package.convert(two_volumes, tmp_path / "x.unknown")
    twice = [package.Trace(two_volumes).slice(take=1), two_volumes]
    assert package.merge(twice, tmp_path / "four.csv", keep_streams=True).requests == 4
    with pytest.raises(package.InputError, match="read only"):
        package.split(two_volumes, tmp_path / "y", "spc")
    assert not list(tmp_path.glob("x.*"))


def test_contents_of_requests_are_kept(tmp_path: Path) -> None:
    one, other = "98b9cb7e1dd888f9dac2bf08af1c3cb2", "aad461f40ced9c7166a87fca5bc03d1f"
    fiu = tmp_path / "t.fiu"
    fiu.write_text(f"1 1 a 8 8 W 6 0 {one}\n2 1 a 16 8 W 6 1 {other}\n3 1 a 24 8 R 6 0 {other}\n")

    def hashes(file: Path) -> list[str]:
        header, *rows = file.read_text().splitlines()
        assert header.endswith(",content_hash")
        return [row.rsplit(",", 1)[1] for row in rows]

    assert inside("trace", "split", fiu, tmp_path / "parts", "--to", "csv").status == 0
    parts = [tmp_path / "parts" / f"t-{volume}.csv" for volume in (0, 1)]
    assert [hashes(part) for part in parts] == [[one, other], [other]]
    assert inside("trace", "merge", *parts, tmp_path / "all.csv").status == 0
    assert hashes(tmp_path / "all.csv") == [one, other, other]
    options = ("--transform", "filter ops=write", "--transform", "scale_time factor=2")
    assert inside("trace", "convert", fiu, tmp_path / "w.csv", *options).status == 0
    assert hashes(tmp_path / "w.csv") == [one, other]
    assert inside("trace", "convert", fiu, tmp_path / "a.csv", "--transform", "align bytes=4KiB").status == 0
    assert "content_hash" not in (tmp_path / "a.csv").read_text()


def test_the_columnar_file_says_what_it_is(tmp_path: Path, spc: Path) -> None:
    import polars as pl

    target = tmp_path / "a.parquet"
    assert inside("trace", "convert", spc, target).status == 0
    table = pl.read_parquet(target)
    assert table.columns == ["arrival_ns", "op", "lba", "sectors", "stream"]
    assert table.dtypes == [pl.UInt64, pl.String, pl.UInt64, pl.UInt32, pl.UInt16]
    notes = pl.read_parquet_metadata(target)
    assert (notes["ftlab.schema"], notes["ftlab.sector_bytes"]) == ("requests 1", "512")
    assert notes["ftlab.origin"] == "some.spc"


def test_a_run_of_a_trace_keeps_how_it_was_read(tmp_path: Path, two_volumes: Path) -> None:
    out = tmp_path / "out"
    first = run_small("--trace", two_volumes, "--volume", "3", "--volumes", "concat", "--out", out, "--json").json
    again = run_small("--workload", out / "workload.toml", "--json").json
    assert again["host"] == first["host"]
    assert first["host"]["requests"] == 2


def test_traces_in_python(two_volumes: Path) -> None:
    device = ftlab_package.Device.load("ideal-page").set("geometry.blocks_per_plane=64")
    trace = ftlab_package.Trace(two_volumes, volume=[0, 3], volumes="concat", volume_bytes="4MiB")
    assert ftlab_package.run(device, trace).summary["host"]["requests"] == 3
    with pytest.raises(ftlab_package.InputError, match="volume_bytes belongs"):
        ftlab_package.run(device, ftlab_package.Trace(two_volumes, volume_bytes=4096))


def test_columns_and_actions_are_chosen_behind_the_name_of_a_format(tmp_path: Path) -> None:
    log = tmp_path / "replay.log"
    log.write_text("time,latency,op,size,offset\n0.5,99,0,4096,8192\n1.25,12,1,512,1024\n", encoding="utf-8")
    columns = "columns:arrival_ms,-,op[read=1 write=0],bytes,offset_bytes"
    rows = inside("trace", "head", log, "--format", columns, "--json").json
    assert [tuple(row.values()) for row in rows] == [(500_000, "write", 16, 8, 0), (1_250_000, "read", 2, 1, 0)]
    ran = inside("trace", "head", log, "--format", columns.replace("bytes,", "byte,"))
    assert (ran.status, "did you mean bytes?" in ran.err) == (2, True)
    events = tmp_path / "events.txt"
    lines = ["8,0 1 1 0.000000000 697 Q W 64 + 8 [a]", "8,0 1 2 0.000000500 697 C W 64 + 8 [0]"]
    events.write_text("\n".join(lines), encoding="utf-8")
    ran = inside("trace", "stats", events)
    assert (ran.status, "--format blkparse:Q" in ran.err) == (2, True)
    assert inside("trace", "stats", events, "--format", "blkparse:Q", "--json").json["writes"] == 1


def test_conversion_keeps_hashes_of_contents(tmp_path: Path) -> None:
    one, other = "98b9cb7e1dd888f9dac2bf08af1c3cb2", "aad461f40ced9c7166a87fca5bc03d1f"
    source = tmp_path / "home.txt"
    source.write_text(f"5 1 a 8 8 W 6 0 {one}\n7 1 b 16 8 R 6 1 {other}\n", encoding="utf-8")
    for target in ("a.csv", "a.parquet", "b.csv"):
        assert inside("trace", "convert", source, tmp_path / target).status == 0
        source = tmp_path / target
    assert source.read_text(encoding="utf-8").splitlines() == [
        "arrival_ns,op,lba,sectors,stream,content_hash",
        f"5,write,8,8,0,{one}",
        f"7,read,16,8,1,{other}",
    ]
    assert inside("trace", "convert", source, tmp_path / "c.csv", "--volume", "1").status == 0
    assert (tmp_path / "c.csv").read_text(encoding="utf-8").splitlines()[1:] == [f"7,read,16,8,1,{other}"]


def test_conversion_keeps_fua(tmp_path: Path) -> None:
    source = tmp_path / "disk.blkparse"
    lines = ["Q FWFS 8 + 8", "Q WS 16 + 8", "Q R 24 + 8", "Q WFS 32 + 8"]
    source.write_text("".join(f"  8,0 1 {n} 0.00000100{n} 697 {line} [a]\n" for n, line in enumerate(lines)))
    expected = [
        "arrival_ns,op,lba,sectors,stream,fua",
        "1000,flush,0,0,0,0",
        "1000,write,8,8,0,1",
        "1001,write,16,8,0,0",
        "1002,read,24,8,0,0",
        "1003,write,32,8,0,1",
    ]
    reading = ["--format", "blkparse:Q"]
    for target in ("a.csv", "a.parquet", "b.csv.zst", "b.blkparse", "c.csv"):
        ran = inside("trace", "convert", source, tmp_path / target, *reading, "--transform", "shift_time later_us=0")
        assert (ran.status, ran.err) == (0, ""), target
        source, reading = tmp_path / target, []
    assert source.read_text(encoding="utf-8").splitlines() == expected
    assert "fua" in inside("trace", "head", source).out
    assert [row["fua"] for row in inside("trace", "head", source, "--json").json] == [False, True, False, False, True]
    parts = ftlab_package.split(source, tmp_path / "parts", "csv")
    ftlab_package.merge(list(parts.traces.values()), tmp_path / "whole.csv", keep_streams=True)
    assert (tmp_path / "whole.csv").read_text(encoding="utf-8").splitlines() == expected
    ran = inside("trace", "convert", source, tmp_path / "d.iolog")
    assert "FUA is left out of 2 writes: fio_iolog has no place for it" in ran.err
    inside("trace", "convert", tmp_path / "d.iolog", tmp_path / "d.csv")
    assert "fua" not in (tmp_path / "d.csv").read_text(encoding="utf-8")
    assert "fua" not in inside("trace", "head", tmp_path / "d.csv").out


@pytest.mark.parametrize("bad", ["2", "durable", "-1", ""])
def test_fua_is_0_or_1(tmp_path: Path, bad: str) -> None:
    source = tmp_path / "t.csv"
    source.write_text(f"arrival_ns,op,lba,sectors,fua\n1,write,0,8,1\n2,write,0,8,{bad}\n", encoding="utf-8")
    ran = inside("trace", "head", source)
    assert ran.status == 2
    found = f'"{bad}"' if bad else "end of line"
    assert f"{source}:3:13: found {found}, expected 0 or 1 in column fua" in ran.err.replace('"end of line"', found)
    assert inside("trace", "head", source, "--skip-bad", "1", "--json").json[0]["fua"] is True


@pytest.mark.long
def test_statistics_of_traces_and_workloads(tmp_path: Path, spc: Path) -> None:
    ran = inside("trace", "stats", spc, "--workload", "zipf", "--requests", "2000", "--out", tmp_path / "o", "--json")
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


def test_several_inputs_stand_side_by_side(spc: Path) -> None:
    ran = inside("trace", "stats", spc, "--workload", "uniform", "--requests", "300")
    assert ran.status == 0, ran.err
    row = next(line for line in ran.out.splitlines() if line.startswith("OS requests"))
    assert row.split()[2:] == ["300", "300"]


def test_what_belongs_to_traces_is_refused_for_workloads_and_steps_are_applied(spc: Path) -> None:
    of_zipf = ("trace", "stats", "--workload", "zipf", "--requests", "300")
    for option, value in (("--format", "spc"), ("--volume", "3"), ("--volumes", "concat"),
                          ("--volume-bytes", "3MiB"), ("--skip-bad", "4")):  # fmt: skip
        ran = inside(*of_zipf, option, value)
        assert (ran.status, f"error: {option} belongs to FILE" in ran.err) == (2, True), ran.err
    ran = inside(*of_zipf, spc, "--format", "spc", "--transform", "set_op op=read", "--json")
    assert [(each["requests"], each["reads"]) for each in ran.json] == [(300, 300)] * 2
    ran = inside(
        "trace", "stats", "--workload", "like-general", "--transform", "scale_time factor=2", "--reuse", "off", "--json"
    )
    assert ran.json["stand_in"]["uncalibrated"].startswith("workload.transform not as in like-general")
    assert inside(*of_zipf, "--transform", "nope").status == 2


def test_options_of_statistics_change_what_they_say(spc: Path) -> None:
    def stats(*options: str) -> dict[str, Any]:
        found: dict[str, Any] = inside("trace", "stats", spc, "--json", *options).json
        return found

    plain = stats()
    assert stats("--reuse", "off")["reuse"] is None
    assert stats("--reuse", "exact") == plain
    assert stats("--page-bytes", "1KiB")["ftl_requests"] == 4 * plain["ftl_requests"]
    assert stats("--service", "2ms")["queue"]["depth"]["max"] > plain["queue"]["depth"]["max"]
    assert stats("--map-cache", "1MiB")["intra_distance"]["cache_bytes"] == 1 << 20
    footprint = inside("trace", "stats", "--workload", "uniform", "--requests", "3000", "--capacity", "1MiB", "--json")
    assert footprint.json["footprint_pages_4k"] == 256
    for wrong, told in ((("--page-bytes", "5000"), "power of two"), (("--map-cache", "4furlongs"), "4furlongs")):
        ran = inside("trace", "stats", spc, *wrong)
        assert (ran.status, told in ran.err) == (2, True)
    assert inside("trace", "stats").status == 2


def test_statistics_in_python(spc: Path) -> None:
    result = ftlab_package.Trace(spc).stats(reuse="exact")
    assert result.summary["reuse"]["references"] == 400
    assert result.miss_ratio(1 << 20) == 50 / 400
    assert result.frames["growth"]["requests"][-1] == 400
    assert "<table>" in result._repr_html_()
    assert "OS requests" in repr(result)
    workload = ftlab_package.Workload(kind="sequential", requests=100)
    assert workload.stats(capacity="1GiB").summary["sequential_fraction"] == pytest.approx(0.99)
    assert ftlab_package.trace_stats({"op": ["r", "w"], "lba": [0, 8], "sectors": [8, 8]}).summary["requests"] == 2


def test_a_trace_is_fitted_and_the_workload_runs(tmp_path: Path, spc: Path) -> None:
    target = tmp_path / "fitted.toml"
    ran = inside("trace", "fit", spc, "-o", target, "--json")
    assert ran.status == 0, ran.err
    assert ran.json["miss_ratio_error"] < 0.03
    rows = {row["name"]: row for row in ran.json["comparison"]}
    assert not any(rows[name]["off"] for name in ("requests", "reads", "writes", "mean_request_bytes", "duration_ns"))
    # A few pages of fifty are many percent.
    assert abs(rows["footprint_pages_4k"]["fitted"] - 50) < 10
    text = inside("trace", "fit", spc, "-o", target).out
    assert "fitted" in text
    assert str(target) in text
    fresh = ("--no-timing", "--set", "precondition.kind=none")
    run = inside("run", "ideal-page", "--workload", target, *fresh, "--json")
    assert run.status == 0, run.err
    assert run.json["host"]["requests"] == 400
    assert inside("run", "ideal-page", "--workload", target, "--set", "workload.requests=401").status == 2
    target.write_text(target.read_text().replace("duration_ns", "duration"))
    broken = inside("run", "ideal-page", "--workload", target)
    assert broken.status == 2
    assert "duration_ns" in broken.err


def test_fits_in_python(spc: Path) -> None:
    found = ftlab_package.fit(ftlab_package.Trace(spc), description="a test")
    assert found.workload.description == "a test"
    assert found.generated.summary["requests"] == 400
    assert found.miss_ratio_error < 0.03
    assert "some.spc" in repr(found)
    with pytest.raises(ftlab_package.InputError, match="no request"):
        ftlab_package.fit({"op": [], "lba": [], "sectors": []})


def test_what_a_format_cannot_hold_is_said(tmp_path: Path) -> None:
    source = tmp_path / "t.csv"
    source.write_text("arrival_ns,op,lba,sectors,stream\n1000,w,0,8,7\n2500,r,8,8,3\n")
    ran = inside("trace", "convert", source, tmp_path / "t.iolog", "--json")
    told = "1 time is cut to whole microseconds"
    assert (ran.status, ran.json["requests"]) == (0, 2)
    assert told in ran.err
    assert told in ran.json["lost"][0]
    for target in ("t.iolog", "t.blkparse"):
        assert inside("trace", "convert", source, tmp_path / target).status == 0
        chosen = inside("trace", "head", tmp_path / target, "--volume", "7", "--json")
        assert [row["stream"] for row in chosen.json] == [7], chosen.err
    ran = inside("trace", "convert", source, tmp_path / "t.parquet", "--json")
    assert (ran.err, ran.json["lost"]) == ("", [])
    assert told in ftlab_package.convert(source, tmp_path / "u.iolog").lost[0]
    assert "t-3.fio_iolog: 1 time is cut" in inside("trace", "split", source, tmp_path / "p", "--to", "fio_iolog").err


def test_split_writes_over_nothing_unless_told(two_volumes: Path, tmp_path: Path) -> None:
    (tmp_path / "two-3.csv").write_text("precious")
    ran = inside("trace", "split", two_volumes, tmp_path, "--to", "csv")
    assert ran.status == 2
    assert "two-3.csv: is there already" in ran.err
    assert "--force" in ran.err
    assert (tmp_path / "two-3.csv").read_text() == "precious"
    assert not (tmp_path / "two-0.csv").exists()
    with pytest.raises(ftlab_package.InputError, match="already"):
        ftlab_package.split(two_volumes, tmp_path, "csv")
    assert inside("trace", "split", two_volumes, tmp_path, "--to", "csv", "--force").status == 0
    assert (tmp_path / "two-3.csv").read_text().startswith("arrival_ns")
    assert ftlab_package.split(two_volumes, tmp_path, "csv", overwrite=True).requests[3] == 2


def test_a_trace_goes_where_a_link_leads(tmp_path: Path) -> None:
    small = tmp_path / "small.csv"
    small.write_text("arrival_ns,op,lba,sectors\n0,w,0,8\n")
    (tmp_path / "link.csv").symlink_to("target.csv")
    assert inside("trace", "convert", small, tmp_path / "link.csv").status == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "target.csv").read_text().endswith("\n0,write,0,8,0\n")
    ran = inside("trace", "convert", small, "-", "--to", "csv")
    assert ran.status == 2
    assert "-: cannot be created: `-` is not taken for standard output, state /dev/stdout" in ran.err
    assert not Path("-").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no link to standard output")
@pytest.mark.parametrize("command", ["convert", "merge"])
def test_a_trace_on_standard_output_is_nothing_but_the_trace(tmp_path: Path, command: str) -> None:
    small = tmp_path / "small.csv"
    small.write_text("arrival_ns,op,lba,sectors\n0,w,0,8\n")
    # A link of our own: what replaces links would replace that of the system.
    (tmp_path / "out").symlink_to("/dev/fd/1")
    arguments = [FTLAB, "trace", command, small, tmp_path / "out", "--to", "csv"]
    with (tmp_path / "kept").open("w") as kept:
        subprocess.run(arguments, stdout=kept, stderr=subprocess.PIPE, check=True)
    piped = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert piped.stdout == (tmp_path / "kept").read_text() == "arrival_ns,op,lba,sectors,stream\n0,write,0,8,0\n"
    assert "1 requests written" in piped.stderr
    assert (tmp_path / "out").is_symlink()


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_conversion_that_is_ended_leaves_no_part_behind(tmp_path: Path, number: str) -> None:
    small = tmp_path / "small.csv"
    small.write_text("arrival_ns,op,lba,sectors\n" + "".join(f"{index},w,0,8\n" for index in range(1000)))
    command = [FTLAB, "trace", "convert", small, tmp_path / "t.csv", "--transform", "repeat times=1000000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 30
        while not (tmp_path / "t.csv.partial").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(getattr(signal, number))
        _, err = process.communicate(timeout=30)
    assert process.returncode == (130 if number == "SIGINT" else 128 + getattr(signal, number)), err
    assert "interrupted" in err
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["small.csv"]


def test_volumes_with_large_numbers_are_told(tmp_path: Path) -> None:
    trace = tmp_path / "t.tencent"
    rows = ((70_000, 3), (12, 1), (1_000_000, 2))
    trace.write_text("".join(f"1538400000,{8 * i},8,1,{name}\n" for name, count in rows for i in range(count)))
    ran = inside("trace", "info", trace, "--volumes", "--json")
    assert [tuple(row.values()) for row in ran.json["volumes"]] == [
        (12, "12", 1),
        (65_534, "1000000", 2),
        (65_535, "70000", 3),
    ]
    table = inside("trace", "info", trace, "--volumes").out.splitlines()
    assert table[-1].split() == ["65,535", "70000", "3"] or table[-1].split() == ["65535", "70000", "3"]
    assert "volumes" not in inside("trace", "info", trace, "--json").json


def test_python_takes_paths_and_refuses_nothing_at_all(spc: Path, tmp_path: Path) -> None:
    with pytest.raises(ftlab_package.ConfigError, match="volume: found none"):
        ftlab_package.trace_stats(ftlab_package.Trace(spc, volume=[]))
    assert ftlab_package.trace_stats(str(spc)).summary["requests"] == 400
    assert ftlab_package.fit(spc, requests=50).recorded.summary["requests"] == 50
    for work in (ftlab_package.trace_stats, ftlab_package.fit):
        with pytest.raises(ftlab_package.ConfigError, match="requests = 0"):
            work(spc, requests=0)
    with pytest.raises(ftlab_package.ConfigError, match="requests = 0"):
        ftlab_package.convert(spc, tmp_path / "x.csv", requests=0)


def test_what_cannot_be_fitted_is_named(tmp_path: Path) -> None:
    trace = tmp_path / "long.csv"
    trace.write_text(f"arrival_ns,op,lba,sectors\n0,w,0,8\n{2**63},w,8,8\n")
    ran = inside("trace", "fit", trace, "-o", tmp_path / "w.toml")
    assert ran.status == 2
    assert ran.err.startswith("error: long.csv: cannot be fitted: "), ran.err


# Each takes seconds; the tests of the crates measure them as well.
LARGE = (
    "jesd219-client",
    "jesd219-enterprise",
    "like-financial",
    "like-gs3",
    "like-jedec",
    "like-oltp",
    "like-websearch",
    "tpcc-large-pool",
    "tpcc-small-pool",
)
# Statistics that calibrations state and a pass of the statistics does not tell.
UNTOLD = {"first_fifth", "first_twentieth", "journal_bytes_fraction"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name, text in _native.presets("workload") if "[calibration]" in text])
def test_statistics_find_calibrations_met(name: str) -> None:
    if name in LARGE and "FTLAB_LONG" not in os.environ:
        pytest.skip("takes seconds: FTLAB_LONG=1 runs it")
    stats = ftlab_package.trace_stats(ftlab_package.Workload.load(name), reuse="off")
    unmet = [row for row in stats.calibration_rows() if not row["met"]]
    assert {row["statistic"] for row in unmet if row["met"] is None} <= UNTOLD
    assert not [row for row in unmet if row["met"] is False]
    assert "uncalibrated" not in dict(stats.rows())


@pytest.mark.long
def test_stand_ins_are_marked_and_held_to_their_calibration(tmp_path: Path) -> None:
    ran = inside("trace", "stats", "--workload", "like-general", "--out", tmp_path / "s", "--reuse", "off")
    assert "stand-in for" in ran.out
    assert "GENERAL, everyday use of a PC" in ran.out
    assert "uncalibrated" not in ran.out
    assert "like-general beside its calibration" in ran.out
    rows = [line.split() for line in ran.out.splitlines() if line.startswith("hottest_fifth")]
    assert [row[-1] for row in rows] == ["yes"]
    document = json.loads((tmp_path / "s" / "stats.json").read_text())
    assert document["stand_in"] == {"stands_for": ANY, "uncalibrated": None}
    assert {row["statistic"]: row["met"] for row in document["calibration"]["targets"]}["requests"] is True

    # A file of one's own is marked as the preset is; what has been changed is named.
    own = tmp_path / "own.toml"
    own.write_text((ROOT / "workloads" / "like-general.toml").read_text())
    assert ftlab_package.Workload.load(own).uncalibrated is None
    assert ftlab_package.Workload.load(own, "seed=5").uncalibrated is None
    changed = ftlab_package.Workload.load(own, "pc_general.system=80")
    assert changed.uncalibrated == "workload.pc_general.system not as in like-general"
    result = ftlab_package.trace_stats(changed, reuse="off")
    assert result.to_dict()["stand_in"]["uncalibrated"].startswith("workload.pc_general.system not as in like-general")
    assert dict(result.rows())["uncalibrated"].startswith("workload.pc_general.system")
    cut = ftlab_package.trace_stats(ftlab_package.Workload.load("like-general"), requests=100, reuse="off")
    assert "requests" in cut.to_dict()["stand_in"]["uncalibrated"]
    ran = run_small("--workload", str(own), "--set", "workload.pc_general.system=80", "--requests", "9",
                    "--set", "host.out_of_range=wrap")  # fmt: skip
    told = "generated, not recorded; uncalibrated: workload.pc_general.system, workload.requests not as in like-general"
    assert told in " ".join(ran.out.split())
    plain = inside("trace", "stats", "--workload", "zipf", "--requests", "9", "--json").json
    assert not {"stand_in", "calibration"} & plain.keys()

    # What stands in for nothing is held to its numbers as well.
    assert ftlab_package.Workload.load("web-cache", "seed=3").uncalibrated is None
    changed = ftlab_package.Workload.load("web-cache", "web_cache.objects=90", "requests=2000")
    told = dict(ftlab_package.trace_stats(changed, reuse="off").rows())["uncalibrated"]
    assert told.startswith("workload.requests, workload.web_cache.objects not as in web-cache; requests")


def test_a_fit_replaces_no_trace_and_looks_for_its_folder_first(two_volumes: Path, tmp_path: Path) -> None:
    before = two_volumes.read_bytes()
    ran = inside("trace", "fit", two_volumes, "-o", two_volumes)
    assert (ran.status, two_volumes.read_bytes()) == (2, before)
    assert "is the trace" in ran.err
    ran = inside("trace", "fit", two_volumes, "-o", tmp_path / "nowhere" / "x.toml")
    assert (ran.status, "nowhere is no folder" in ran.err) == (2, True), ran.err


def test_a_calibration_of_ones_own_is_held_against_what_is_measured(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        '[workload]\nkind = "zipf"\nrequests = 2000\nread_fraction = 0.5\nfootprint_bytes = "1MiB"\n'
        '[calibration]\nsource = "measured last summer"\nrequests = 2000\nread_fraction = 0.5\n'
    )
    workload = ftlab_package.Workload.load(own)
    assert "uncalibrated" not in dict(ftlab_package.trace_stats(workload).rows())
    changed = ftlab_package.Workload.load(own, "read_fraction=0.6")
    told = dict(ftlab_package.trace_stats(changed).rows())["uncalibrated"]
    assert told == "read_fraction not as its calibration says"


def test_the_report_of_a_generator_has_everything() -> None:
    ran = inside("trace", "stats", "--workload", "web-cache", "--requests", "30000", "--reuse", "off")
    told = {line.split("  ")[0].strip() for line in ran.out.splitlines()}
    assert {
        "OS requests",
        "reads / writes",
        "read share: requests, bytes",
        "trims / flushes",
        "mean size: all, read, write",
        "sequential",
        "begin aligned to 4 KiB",
        "actual request range",
        "written pages of 4 KiB",
        "accesses to hottest 1/5/10/20 %",
        "distinct start addresses",
        "time between arrivals",
        "its coefficient of variation",
        "FTL requests per request",
        "web-cache beside its calibration",
        "uncalibrated",
    } <= told, ran.out
    # Mean and median of the gaps; sizes by direction.
    assert re.search(r"time between arrivals +mean .*, p50 ", ran.out)
    assert re.search(r"bytes +reads +writes", ran.out)


@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
def test_durations_are_not_taken_for_nanoseconds(tmp_path: Path, unit: Any) -> None:
    columns = {"arrival_ns": [0, 10**9], "op": ["write", "read"], "lba": [8, 16], "sectors": [8, 8]}
    frame = pl.DataFrame(columns).with_columns(pl.col("arrival_ns").cast(pl.Duration("ns")).cast(pl.Duration(unit)))
    frame.write_parquet(tmp_path / "t.parquet")
    (tmp_path / "w.toml").write_text('[workload]\ntrace = "t.parquet"\n')
    run = ("run", "ideal-page")
    for command in (("trace", "stats", "t.parquet"), (*run, "--trace", "t.parquet"), (*run, "--workload", "w.toml")):
        ran = inside(*command, cwd=tmp_path)
        assert ran.status == 2
        assert f"column 'arrival_ns' has type {unit} duration, expected plain numbers" in ran.err
    frame.with_columns(pl.col("arrival_ns").dt.total_nanoseconds()).write_parquet(tmp_path / "t.parquet")
    assert inside("trace", "stats", tmp_path / "t.parquet", "--json").json["duration_ns"] == 10**9


@pytest.mark.long
def test_statistics_in_a_folder_are_those_of_one_trace_and_of_any_time(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("arrival_ns,op,lba,sectors\n0,w,0,8\n10,w,0,8\n")
    (tmp_path / "late.csv").write_text("arrival_ns,op,lba,sectors\n0,r,0,8\n18000000000000000000,r,8,8\n")
    out = tmp_path / "stats"
    assert inside("trace", "stats", tmp_path / "w.csv", "--out", out).status == 0
    assert (out / "lifetime_ns.parquet").exists()
    ran = inside("trace", "stats", tmp_path / "late.csv", "--out", out)
    assert ran.status == 0, ran.err
    assert not (out / "lifetime_ns.parquet").exists()
    assert ftlab_package.trace_stats(tmp_path / "late.csv").frames["growth"]["time_ns"][-1] == 18 * 10**18


def test_a_fit_is_judged_by_mapping_locality_and_trims(tmp_path: Path) -> None:
    rounds = [("w", "t")[step % 2] for step in range(40) for _ in range(100)]
    places = [64 * ((7 * number) % 100) + 6400 * (step // 2 % 4) for step in range(40) for number in range(100)]
    rows = {"op": rounds, "lba": places, "sectors": [64] * 4000, "arrival_ns": list(range(0, 4_000_000, 1000))}
    found = ftlab_package.fit(rows)
    compared = {row["name"]: row for row in found.rows()}
    off = {name for name, row in compared.items() if row["off"]}
    # What is trimmed is written again, and not what is live.
    assert abs(compared["lifetime.overwritten / page_writes"]["fitted"]) < 0.03
    assert {"intra_distance: misses", "intra_distance.ahead_fraction", "lifetime.alive / page_writes"} <= set(compared)
    assert "intra_distance.ahead_fraction" not in off
    (tmp_path / "old.toml").write_text(found.text.replace("version = 2\n", ""))
    ran = inside("trace", "stats", "--workload", tmp_path / "old.toml")
    assert ran.status == 2
    assert "version" in ran.err, ran.err
    assert "fit the trace again" in ran.err, ran.err
    # Spans that are all the same are not called off for the width of their bin.
    assert "interarrival.coefficient_of_variation" not in off
    with pytest.raises(ftlab_package.InputError, match="row 1: sectors = 0"):
        ftlab_package.fit({"op": ["w", "r"], "lba": [0, 0], "sectors": [8, 0]})
