"""Power cuts: what is lost, how it is reported, and that each case can be done again."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ftlab
from conftest import FTLAB, ROOT, Ran, inside

DRIVE = """
[geometry]
channels = 1
ways = 1
blocks_per_plane = 16
pages_per_block = 8
page_bytes = 4096

[timing]
read_us = 25
program_us = 200
erase_us = 1500

[cell]
kind = "mlc"
page_order = "tiles"

[ftl]
logical_pages = 64
"""
MLC = ftlab.Device.parse(DRIVE, "mlc")
SLC = MLC.set("cell.kind=slc")
# Mounts write translation pages: they can be cut as well.
CACHED = SLC.set("geometry.blocks_per_plane=24", "map_cache.kind=dftl", "map_cache.bytes=4KiB")
TWO_DIES = MLC.set("geometry.ways=2", "host.arrival=closed", "host.queue_depth=8", "ftl.logical_pages=100")
UNIFORM = ftlab.Workload(kind="uniform", request_bytes=4096)


def pages(count: int) -> dict[str, Any]:
    return {"op": ["write"] * count, "lba": list(range(0, 8 * count, 8)), "sectors": [8] * count}


def test_an_interrupted_program_takes_the_first_page_of_its_word_line_along() -> None:
    result = ftlab.crash(MLC, pages(8))
    assert result.frame["at_command"].to_list() == list(range(9))
    assert result.frame["lost_pages"].to_list() == [0, 0, 1, 1, 0, 0, 1, 1, 0]
    assert result.frame["torn"].to_list() == [1] * 8 + [0]
    # A mount reads what was programmed, and what is torn.
    assert result.frame["mount_reads"].to_list() == [1, 2, 3, 4, 5, 6, 7, 8, 8]
    summary = result.summary
    counts = ("requests", "commands", "points", "cuts", "lost_cuts", "lost_pages", "lost_sectors", "failed_cuts")
    assert [summary[name] for name in counts] == [8, 8, 9, 9, 4, 4, 32, 0]
    # Pages 0, 1, 4 and 5 of the block are what the requests of these numbers wrote.
    found = [(each["cut"], each["lba"], each["sectors"], each["request"]) for each in summary["violations"]]
    assert found == [(2, 0, 8, 0), (3, 8, 8, 1), (6, 32, 8, 4), (7, 40, 8, 5)]
    assert {each["guarantee"] for each in summary["violations"]} == {"a completed write is found"}
    # Eight pages of 25 us, at most.
    assert (summary["mount"]["commands"], summary["mount"]["max_ns"], summary["mount"]["timed"]) == (8, 200_000, 9)
    assert not result.survived
    assert "5 of 9" in repr(result)
    assert "4 pages" in result._repr_html_()


def test_cells_of_one_bit_lose_nothing() -> None:
    result = ftlab.crash(SLC, pages(24))
    assert (result.summary["cuts"], result.survived, result.cases) == (25, True, ())


def test_cells_of_three_bits_lose_one_page_or_two() -> None:
    tlc = MLC.set("cell.kind=tlc", "cell.page_order=tlc_pairs", "geometry.pages_per_block=48")
    result = ftlab.crash(tlc, pages(24))
    assert (result.summary["cuts"], result.summary["lost_cuts"], result.summary["lost_pages"]) == (25, 12, 16)
    assert set(result.frame["lost_pages"]) == {0, 1, 2}


def test_a_backup_saves_what_a_torn_program_takes() -> None:
    backup = MLC.set("lsb_backup.kind=copy")
    result = ftlab.crash(backup, pages(8))
    # Four of the pages are read and copied.
    assert (result.summary["commands"], result.summary["cuts"], result.survived) == (16, 17, True)
    twice = {"op": ["write", "write"], "lba": [0, 0], "sectors": [16, 16]}
    assert ftlab.crash(backup, twice).survived
    # A test that finds nothing has no teeth: here the old version counts as stale too early.
    early = ftlab.crash(backup.set("lsb_backup.invalidate_at=page"), twice)
    assert (early.summary["commands"], [case.point for case in early.cases]) == (4, [2, 3])


def test_trims_promise_nothing_and_are_counted_apart() -> None:
    table = {"op": ["write", "trim", "write"], "lba": [0, 0, 8], "sectors": [8, 8, 8]}
    result = ftlab.crash(SLC, table)
    assert result.frame["untrimmed_sectors"].to_list() == [0, 8, 8]
    assert (result.survived, result.summary["untrimmed_sectors"]) == (True, 16)


def test_a_flush_promises_trims_where_the_drive_says_so() -> None:
    table = {"op": ["write", "trim", "flush", "write"], "lba": [0, 0, 0, 8], "sectors": [8, 8, 0, 8]}
    result = ftlab.crash(SLC.set("geometry.blocks_per_plane=18", "power.trim=flush"), table)
    # A write, a page of the journal, a write; only while that page is programmed, the data are there again.
    assert result.frame["untrimmed_sectors"].to_list() == [0, 8, 0, 0]
    assert (result.survived, result.summary["returned_sectors"]) == (True, 0)
    promised = {each["guarantee"]: each["cuts"] for each in result.summary["guarantees"]}
    assert promised["what was promised to be trimmed stays so"] == 0


def test_a_non_volatile_cache_keeps_trims() -> None:
    table = {"op": ["write", "write", "trim", "write"], "lba": [0, 8, 0, 16], "sectors": [8, 8, 8, 8]}
    result = ftlab.crash(SLC.set("nvm.kind=cdm", "nvm.bytes=4096"), table)
    # One frame: the second write sends the first page to flash, and the last one the second.
    assert result.frame["untrimmed_sectors"].to_list() == [0, 0, 0]
    assert (result.survived, result.summary["returned_sectors"]) == (True, 0)
    promised = {each["guarantee"]: each["cuts"] for each in result.summary["guarantees"]}
    assert promised["what was promised to be trimmed stays so"] == 0


def test_requests_survive_as_a_whole_where_the_drive_says_so() -> None:
    whole = SLC.set("geometry.blocks_per_plane=18", "power.atomic=request")
    table = {"op": ["write"] * 6, "lba": [0, 16, 8, 0, 24, 4], "sectors": [32] * 6}
    for device in (whole, whole.set("geometry.ways=2", "host.arrival=closed", "host.queue_depth=4")):
        for at in ("command", "time"):
            result = ftlab.crash(device, table, at=at)
            assert (result.survived, result.summary["torn_writes"]) == (True, 0)
    # What cannot be kept is refused, with what could be.
    large = {"op": ["write"], "lba": [0], "sectors": [512]}
    with pytest.raises(ftlab.InputError, match=r"can keep the old data of \d+ at most, as power\.atomic"):
        ftlab.crash(whole, large)


@pytest.mark.parametrize(
    ("device", "options"),
    [
        (MLC, {}),
        (MLC, {"cuts": 37}),
        (CACHED, {"nested": 2, "cuts": 60}),
        (TWO_DIES, {"at": "time", "cuts": 150}),
        (MLC, {"cuts": 2}),
    ],
    ids=["all", "some", "nested", "time", "two"],
)
def test_the_number_of_workers_changes_nothing(device: ftlab.Device, options: dict[str, Any]) -> None:
    one, two, three = (ftlab.crash(device, UNIFORM, requests=150, jobs=n, **options) for n in (1, 2, 3))
    assert one.frame.equals(two.frame)
    assert one.frame.equals(three.frame)
    assert one.summary == two.summary == three.summary
    assert [case.violations for case in one.cases] == [case.violations for case in three.cases]
    rows = one.frame.select("point", "nested_at").rows()
    assert rows == sorted(rows, key=lambda row: (row[0], -1 if row[1] is None else row[1]))
    assert one.summary["nested_cuts"] == sum(again is not None for _, again in rows)
    assert (one.summary["nested_cuts"] > 0) == ("nested" in options)


def test_points_are_spread_evenly() -> None:
    assert ftlab.crash(SLC, pages(20), cuts=3).frame["point"].to_list() == [6, 13, 20]
    assert ftlab.crash(SLC, pages(20), cuts=21).frame.equals(ftlab.crash(SLC, pages(20)).frame)


def test_a_case_is_done_again() -> None:
    result = ftlab.crash(MLC, UNIFORM, requests=40, seed=3)
    assert result.cases
    for number, case in enumerate(result.cases):
        again = result.replay(case)
        assert again["violations"] == list(case.violations)
        frame = result.frame.filter(pl.col("point") == case.point)
        assert {name: again[name] for name in frame.columns} == frame.row(0, named=True)
        if number < 2:
            # Alone, as from the command line, and as a case of another test.
            assert ftlab.crash(case.device, case.workload, **case.options()).row(0) == again
            assert ftlab.crash(SLC, pages(2)).replay(case) == again


def test_a_second_cut_is_done_again() -> None:
    # With cells of two bits, so that there is something to lose.
    device = CACHED.set("cell.kind=mlc", "cell.page_order=tiles")
    result = ftlab.crash(device, UNIFORM, requests=100, nested=2, cuts=50)
    cases = [case for case in result.cases if case.nested_at is not None]
    assert cases
    for case in cases[:5]:
        again = result.replay(case)
        assert (again["point"], again["nested_at"]) == (case.point, case.nested_at)
        assert again["violations"] == list(case.violations)
    alone = ftlab.crash(device, UNIFORM, requests=100, point=cases[0].point, nested_at=cases[0].nested_at)
    assert alone.summary["violations"] == list(cases[0].violations)
    with pytest.raises(ftlab.ConfigError, match=r"nested_at = 99999 .*command \d+ is the nearest that does"):
        ftlab.crash(device, UNIFORM, requests=100, point=cases[0].point, nested_at=99_999)


def test_points_in_time() -> None:
    result = ftlab.crash(TWO_DIES, UNIFORM, requests=100, at="time")
    # Both dies at work, and at some instants none.
    assert set(result.frame["torn"]) == {0, 1, 2}
    assert result.frame["at_ns"].is_sorted()
    assert result.summary["at"] == "time"
    case = result.cases[-1]
    assert result.replay(case)["violations"] == list(case.violations)


def test_traces_and_tables_are_taken_as_by_a_run(tmp_path: Path) -> None:
    rows = "".join(f"{1000 * number},write,{8 * number},8\n" for number in range(8))
    (tmp_path / "t.csv").write_text(f"arrival_ns,op,lba,sectors\n{rows}")
    expected = ftlab.crash(MLC, pages(8)).frame
    assert ftlab.crash(MLC, ftlab.Trace(tmp_path / "t.csv")).frame.equals(expected)
    assert ftlab.crash(MLC, trace=tmp_path / "t.csv").frame.equals(expected)
    assert ftlab.crash(MLC, pages(8), requests=3).summary["points"] == 4
    # What states no number runs 2,000 requests.
    assert ftlab.crash(SLC, UNIFORM, cuts=1).summary["requests"] == 2_000
    for wrong in ({}, {"workload": UNIFORM, "trace": "t.csv"}):
        with pytest.raises(ftlab.ConfigError, match=r"workload, trace: found (neither|both)"):
            ftlab.crash(MLC, **wrong)  # type: ignore[arg-type]  # what a user may write


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"cuts": 0}, r'cuts = 0 \(--cuts\): expected "all", or a whole number from 1$'),
        ({"cuts": "every"}, r"cuts = 'every' .*expected \"all\""),
        ({"cuts": 1.5}, "cuts = 1.5: expected 'all' or a whole number"),
        ({"cuts": 10}, r"cuts = 10 \(--cuts\): this run has 9 points, expected at most as many, or \"all\""),
        ({"cuts": 3, "point": 1}, "drop one"),
        ({"point": 9}, r"point = 9 \(--point\): this run has 9 points, expected at most 8"),
        ({"point": -1}, "point = -1: expected a whole number from 0"),
        ({"nested_at": 3}, r"nested_at = 3 .*needs the point"),
        ({"nested_at": 3, "nested": 2, "point": 1}, "drop one"),
        ({"nested_at": 3, "point": 1}, "the mount changes nothing in flash"),
        ({"nested": -1}, "nested = -1: expected a whole number from 0"),
        ({"at": "commands"}, r'at = .commands. \(--at\): expected "command" or "time"'),
        ({"jobs": 0}, "jobs = 0: expected a whole number from 1"),
        ({"jobs": 10**12}, r"1000000000000 jobs needs up to .* take fewer jobs"),
        ({"requests": 0}, "requests = 0: expected a whole number from 1"),
    ],
    ids=str,
)
def test_what_is_refused(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ftlab.ConfigError, match=expected):
        ftlab.crash(MLC, pages(8), **options)


def test_requests_are_needed() -> None:
    with pytest.raises(ftlab.InputError, match="table: has no requests, and a crash test needs one at least"):
        ftlab.crash(MLC, pages(0))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "mlc.toml").write_text(DRIVE)
    load = '[workload]\nkind = "sequential"\nrequests = 8\nrequest_bytes = "4KiB"\nread_fraction = 0\n'
    (tmp_path / "load.toml").write_text(load)
    return tmp_path


COMMAND = ("crash", "mlc.toml", "--workload", "load.toml")


def test_the_exit_status_says_whether_a_promise_was_broken(home: Path) -> None:
    assert inside(*COMMAND, cwd=home).status == 1
    assert inside(*COMMAND, "--set", "cell.kind=slc", cwd=home).status == 0
    assert inside(*COMMAND, "--point", "2", cwd=home).status == 1
    assert inside(*COMMAND, "--point", "4", cwd=home).status == 0


def test_the_last_line_does_the_first_case_again(home: Path) -> None:
    ran = inside(*COMMAND, "--set", "ftl.gc=fifo", "--set", "workload.seed=4", "--transform", "shift by=0s", cwd=home)
    assert (ran.status, ran.err) == (2, ran.err)
    ran = inside(*COMMAND, "--set", "ftl.gc=fifo", "--requests", "7", "--seed", "5", cwd=home)
    assert "survived     5 of 8 cuts" in ran.out
    assert "point 2 (command 2): sectors 0 to 7 hold nothing, promised: what request 0 wrote" in ran.out
    last = ran.out.splitlines()[-1].removeprefix("replay").strip()
    words = shlex.split(last)
    assert words == ["ftlab", *COMMAND, "--set", "ftl.gc=fifo", "--requests", "7", "--seed", "5", "--point", "2"]
    again = inside(*words[1:], cwd=home)
    assert (again.status, "survived     0 of 1 cut\n" in again.out, "replay" in again.out) == (1, True, False)


def refused(ran: Ran, *parts: str) -> None:
    assert (ran.status, ran.out) == (2, ""), ran.err
    assert ran.err.startswith("error: ")
    for part in parts:
        assert part in ran.err, ran.err


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--cuts", "0"], ["--cuts", "expected all, or a whole number from 1"]),
        (["--cuts", "9" * 5000], ["--cuts"]),
        (["--cuts", "10"], ["cuts = 10 (--cuts): this run has 9 points, expected at most as many"]),
        (["--point", "9"], ["--point", "expected at most 8"]),
        (["--nested-at", "1"], ["--point"]),
        (["--at", "tim"], ["--at", "command"]),
        (["--nested", "-1"], ["--nested"]),
        (["--jobs", "0"], ["--jobs"]),
        (["--requests", "0"], ["--requests"]),
        (["--trace", "x"], ["either"]),
        (["--volume", "1"], ["--volume belongs to --trace"]),
        (["--transform", "filter ops=read"], ["leaves none of 8"]),
        (["--set", "model=mapping_cache", "--set", "map_cache.kind=dftl", "--set", "map_cache.bytes=4096"],
         ["model=mapping_cache", 'choose "drive"']),
        (["--set", "ftl.gcc=1"], ["--set ftl.gcc=1", '"gc"']),
        (["--out", "mlc.toml"], ["mlc.toml"]),
    ],
    ids=lambda value: " ".join(value)[:40],
)  # fmt: skip
def test_bad_input(home: Path, options: list[str], parts: list[str]) -> None:
    refused(inside(*COMMAND, *options, cwd=home), *parts)


def test_the_document(home: Path) -> None:
    ran = inside(*COMMAND, "--json", cwd=home)
    document = ran.json
    kinds = {
        "device": str, "workload": str, "seed": int, "at": str, "requests": int, "commands": int, "points": int,
        "cuts": int, "nested": int, "nested_cuts": int, "lost_cuts": int, "failed_cuts": int, "lost_pages": int,
        "lost_sectors": int, "torn_writes": int, "returned_sectors": int, "untrimmed_sectors": int,
        "untrimmed_older_sectors": int, "unflushed_sectors": int, "guarantees": list, "mount": dict,
        "partial": bool, "violations": list,
    }  # fmt: skip
    assert {name: type(value) for name, value in document.items()} == kinds
    assert set(document["mount"]) == {"mean_ns", "max_ns", "timed", "commands"}
    keys = {"cut", "nested_at", "at", "guarantee", "lba", "sectors", "found", "promised", "request"}
    assert all(set(each) == keys for each in document["violations"])
    page = (Path(__file__).parent.parent / "docs" / "reference" / "commands" / "crash.md").read_text()
    for name in (*(document.keys() - {"mount"}), *keys, *(f"mount.{each}" for each in document["mount"])):
        assert f"`{name}`" in page, name


def test_a_folder_has_all_that_repeats_the_test(home: Path) -> None:
    ran = inside(*COMMAND, "--json", "--out", "result", "--seed", "6", cwd=home)
    assert "written to result" in ran.err
    folder = home / "result"
    names = {"summary.json", "run.json", "device.toml", "workload.toml", "cuts.parquet"}
    assert {path.name for path in folder.iterdir()} == names
    assert json.loads((folder / "summary.json").read_text()) == ran.json
    frame = pl.read_parquet(folder / "cuts.parquet")
    assert frame["lost_pages"].to_list() == [0, 0, 1, 1, 0, 0, 1, 1, 0]
    options = json.loads((folder / "run.json").read_text())
    assert (options["seed"], options["requests"], options["cuts"]) == (6, None, "all")
    again = inside(
        "crash", "result/device.toml", "--workload", "result/workload.toml", "--seed", "6", "--out", "again", cwd=home
    )
    assert again.status == 1
    assert pl.read_parquet(home / "again" / "cuts.parquet").equals(frame)
    # An older test is replaced; anything else is not.
    assert inside(*COMMAND, "--out", "result", "--requests", "2", cwd=home).status == 0
    assert pl.read_parquet(folder / "cuts.parquet").height == 3
    (home / "mine").mkdir()
    (home / "mine" / "notes.txt").write_text("mine")
    refused(inside(*COMMAND, "--out", "mine", cwd=home), "mine: is there")
    refused(inside("crash", "result/device.toml", *COMMAND[2:], "--out", "result", cwd=home), "result/device.toml")
    refused(inside("report", "result", cwd=home), "result")
    result = ftlab.crash(MLC, pages(8))
    with pytest.raises(ftlab.ConfigError, match="overwrite=True"):
        result.write(home / "mine")
    result.write(home / "mine", overwrite=True)
    assert (home / "mine" / "cuts.parquet").exists()


# Minutes of work, should an interruption be lost.
LARGE = ("ideal-page", "--set", "geometry.blocks_per_plane=64", "--set", "precondition.kind=fill")


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_line_keeps_what_was_examined(number: signal.Signals, tmp_path: Path) -> None:
    options = ["--workload", "uniform", "--requests", "100000", "--json", "--out", str(tmp_path / "out")]
    command = [FTLAB, "crash", *LARGE, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(5)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    assert "interrupted" in err
    summary = json.loads(out)
    assert summary["partial"] is True
    assert 0 < summary["cuts"] < summary["points"]
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == summary


@pytest.mark.usefixtures("interruptible")
def test_the_package_returns_what_was_examined() -> None:
    device = ftlab.Device.load("ideal-page").set("geometry.blocks_per_plane=64", "precondition.kind=fill")
    phases = set()

    def progress(phase: str, fraction: float | None, done: int) -> None:
        phases.add(phase)
        if phase == "cuts" and done:
            assert fraction is not None
            assert 0 < fraction <= 1
            threading.Timer(0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt) as caught:
        ftlab.crash(device, UNIFORM, requests=20_000, progress=progress)
    assert isinstance(caught.value, ftlab.Interrupted)
    result = caught.value.result
    assert (result.interrupted, result.partial, result.summary["partial"]) == (True, True, True)
    assert 0 < result.summary["cuts"] < result.summary["points"]
    assert "cuts" in phases
    assert "partial" in repr(result)
    assert "partial" in result._repr_html_()


def test_an_exception_of_the_progress_callback_ends_the_test() -> None:
    device = ftlab.Device.load("ideal-page").set("geometry.blocks_per_plane=64", "precondition.kind=fill")

    def stop(phase: str, fraction: float | None, done: int) -> None:
        if phase == "cuts":
            raise LookupError(f"enough after {done} ({fraction})")

    with pytest.raises(LookupError, match="enough"):
        ftlab.crash(device, UNIFORM, requests=20_000, progress=stop)


# Drives and requests that the fuzzer has found: after some cuts they did not come back, or seemed to have lost data.
FOUND = {
    "units-that-stray": ("--seed", "2026114055", "--at", "time", "--cuts", "all"),
    "backup-of-an-earlier-life": ("--seed", "2026116800", "--point", "1336"),
    "trim-before-the-cache": ("--cuts", "all", "--nested", "1"),
    "trim-under-way": ("--seed", "2026166639", "--at", "time", "--cuts", "all"),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_the_fuzzer_has_found_survives(name: str) -> None:
    case = ROOT / "tests" / "cuts" / name
    told = inside("crash", f"{case}.toml", "--trace", f"{case}.csv", "--json", *FOUND[name])
    found = json.loads(told.out)
    assert told.status == 0
    assert {found[name] for name in ("failed_cuts", "lost_cuts", "returned_sectors", "torn_writes")} == {0}
