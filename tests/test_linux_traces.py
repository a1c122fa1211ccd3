"""Recordings of Linux' block layer, from the command line: what `perf script` and its like print."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

import ftlab
from conftest import inside, run_small

if TYPE_CHECKING:
    from pathlib import Path


def lines(count: int) -> list[str]:
    """As `perf script` prints issues and completions; the fields are those of Linux' include/trace/events/block.h."""
    found = []
    for at in range(count):
        rwbs, sector, command = "RA" if at % 3 else "WS", 8 * (at * 7 % 400), "Web Content" if at % 2 else "fio"
        for event, size, tail, later in (("issue", "4096 ", command, 0), ("complete", "", "0", 90)):
            frame = f"{command:>16} {1811:>5} [{at % 4:03}] {6011 + at * 1e-3 + later * 1e-6:12.6f}"
            found.append(f"{frame}: block:block_rq_{event}: 259,{at % 2} {rwbs} {size}() {sector} + 8 [{tail}]\n")
    return found


@pytest.fixture
def perf(tmp_path: Path) -> Path:
    path = tmp_path / "disk.txt"
    path.write_text("".join(lines(400)))
    return path


def test_it_is_recognised_described_and_run(perf: Path, tmp_path: Path) -> None:
    assert inside("trace", "info", perf, "--json").json["format"] == "perf_script"
    stats = inside("trace", "stats", perf, "--json")
    assert (stats.json["requests"], stats.json["volumes"]) == (400, 2)
    told = "of the events, 400 block_rq_issue were read; there are 400 block_rq_complete as well"
    assert stats.json["remarks"] == [told]
    assert f"disk.txt: {told}" in stats.err
    assert ftlab.trace_stats(perf).remarks == (told,)
    volumes = inside("trace", "info", perf, "--volumes", "--json").json["volumes"]
    assert [each["name"] for each in volumes] == ["259,0", "259,1"]
    ran = run_small("--trace", perf, "--json")
    assert ran.status == 0, ran.err
    assert ran.json["host"]["requests"] == 400
    head = inside("trace", "head", perf, "--format", "perf_script:complete", "-n", "1", "--json").json
    assert head == [{"arrival_ns": 0, "op": "write", "lba": 0, "sectors": 8, "stream": 0}]
    converted = ftlab.convert(perf, tmp_path / "a.csv")
    assert (converted.requests, converted.remarks) == (400, (told,))


def test_compressed(perf: Path) -> None:
    packed = perf.with_suffix(".gz")
    packed.write_bytes(gzip.compress(perf.read_bytes()))
    assert inside("trace", "stats", packed, "--json").json["requests"] == 400


def test_broken_lines_in_the_middle_and_an_empty_file(perf: Path) -> None:
    rows = lines(400)
    rows[100] = rows[100][:70] + "\n"
    rows[200] = "nonsense\n"
    perf.write_text("".join(rows))
    ran = inside("trace", "stats", perf)
    assert ran.status == 2
    assert "disk.txt:101:71" in ran.err
    ran = inside("trace", "stats", perf, "--skip-bad", "2", "--json")
    assert (ran.json["requests"], ran.json["skipped_records"]) == (398, 2)
    perf.write_text("")
    assert "the file is empty" in inside("trace", "stats", perf).err
    perf.write_text("# no event was recorded\n")
    assert "expected a trace in one of the formats" in inside("trace", "stats", perf).err


def test_losses_stand_beside_the_numbers(perf: Path) -> None:
    lost = "         swapper     0 [006]  6011.100000: PERF_RECORD_LOST lost 9\n"
    perf.write_text(perf.read_text() + lost)
    stats = inside("trace", "stats", perf)
    assert "warning: the recording lost 9 events in 1 place; record again with larger buffers" in stats.err
    summary = run_small("--trace", perf, "--json").json
    warning = next(each for each in summary["warnings"] if each["code"] == "lost_events")
    assert warning["found"] == {"lost_events": 9, "places": 1}
    assert "the recording lost 9 events" in run_small("--trace", perf).out


def test_what_blkparse_skipped_is_lost(tmp_path: Path) -> None:
    rows = "".join(f"8,0 1 {at} {at}.000000000 7 D R {8 * at} + 8 [fio]\n" for at in range(1, 25))
    summary = "\nThroughput (R/W): 0KiB/s / 0KiB/s\nEvents (8,0): 24 entries\n"
    (tmp_path / "some.txt").write_text(f"{rows}{summary}Skips: 3 forward (1,120 -  83.3%)\n")
    (tmp_path / "none.txt").write_text(f"{rows}{summary}Skips: 0 forward (0 -   0.0%)\n")
    stats = inside("trace", "stats", tmp_path / "some.txt")
    assert "warning: the recording lost 1120 events in 3 places" in stats.err
    assert inside("trace", "stats", tmp_path / "none.txt").err == ""


def test_blkparse_says_which_actions_there_are_and_which_was_read(tmp_path: Path) -> None:
    """The queue of a device above, such as LVM, has nearly all of the recording."""

    def event(action: str, at: int, device: str) -> str:
        return f"{device:>7} {0:>4} {at:>8} {at / 1000:>12.9f} {697:>5}  {action}   W {8 * at} + 8 [fio]\n"

    path = tmp_path / "lvm.blkparse"
    queued = [event("Q", at, "253,0") for at in range(1, 1000)]
    path.write_text("".join(queued) + event("D", 1000, "8,0") + event("C", 1001, "8,0"))
    text = "1 D were read; there are 999 Q, 1 C as well, and Q moves more than 4 times as much data"
    ran = inside("trace", "stats", path)
    assert text in ran.err
    assert "--format blkparse:Q" in ran.err
    warnings = run_small("--trace", path, "--json", "--set", "precondition.kind=none").json["warnings"]
    assert "unused_events" in [each["code"] for each in warnings]
    assert inside("trace", "stats", path, "--format", "blkparse:Q", "--json").json["requests"] == 999


def test_bytes_are_never_taken_for_sectors(tmp_path: Path) -> None:
    """A cut as storage replayers take it: milliseconds, disk, offset in bytes, size in bytes, 1 for a read."""
    path = tmp_path / "heimdall.trace"
    path.write_text("".join(f"{at * 3}.5 0 {23_979_941_888 + at * 8192} 4096 {at % 2}\n" for at in range(50)))
    ran = inside("trace", "info", path)
    assert ran.status == 2
    advised = ran.err.split("--format '")[1].split("'")[0]
    stats = inside("trace", "stats", path, "--format", advised, "--json").json
    assert stats["lowest_byte"] == 23_979_941_888
    assert json.dumps(stats["mean_request_bytes"]) in {"4096", "4096.0"}
