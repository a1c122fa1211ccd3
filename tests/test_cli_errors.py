"""What is wrong with an input is told in a sentence that names the place, with exit status 2."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from pathlib import Path

import polars as pl
import pytest

from conftest import FTLAB, Ran, ftlab, inside, run_small

GENERATED = ("run", "ideal-page", "--workload", "uniform")
RECORDED = ("run", "ideal-page", "--trace", "in.spc")
MAP_ONLY = tuple(f"--set={key}" for key in ("model=mapping_cache", "map_cache.kind=dftl", "map_cache.bytes=4096"))

DRIVE = """[geometry]
channels = 1
ways = 1
blocks_per_plane = 64
pages_per_block = 16
page_bytes = 4096
"""


def refused(ran: Ran, *parts: str) -> None:
    assert ran.status == 2, (ran.status, ran.out, ran.err)
    assert ran.out == "", ran.out
    for part in parts:
        assert part in ran.err, ran.err
    assert ran.err.startswith("error: ")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (DRIVE + "dies = 'two'\n", ["drive.toml:7:1: geometry.dies", "expected a whole number"]),
        (DRIVE + "[ftl]\ngc = 'gredy'\n", ["drive.toml:8:1: ftl.gc", 'did you mean "greedy"?']),
        (DRIVE + "[fttl]\n", ["drive.toml:7:2: fttl: unknown key", 'did you mean "ftl"?']),
        (DRIVE + "[ftl]\nover_provisioning = 0\n", ["drive.toml:8:1", "must be above 0"]),
        (DRIVE + "[ftl]\ngc_low_free_blocks = 20\n", ["ftl.over_provisioning", "mapping units", "ftl.gc_low"]),
        (
            DRIVE + "[ftl]\ngc_low_free_blocks = 63\n",
            ["drive.toml:8:1: ftl.gc_low_free_blocks", "at most 62 with the 64 blocks"],
        ),
        (
            DRIVE + "[ftl]\ngc_high_free_blocks = 255\n",
            ["drive.toml:8:1: ftl.gc_high_free_blocks = 255", "the 64 blocks"],
        ),
        (DRIVE + "[ftl]\ngc_high_free_blocks = 30\n", ["ftl.over_provisioning", "ftl.gc_high_free_blocks"]),
        (DRIVE + "[host]\narrival = 'closed'\noutstanding = 3\n", ["drive.toml:9:1: host.outstanding", "no effect"]),
        (DRIVE + "[ftl]\ngc_window = 8\n", ["drive.toml:8:1: ftl.gc_window", "it is a key of windowed_greedy"]),
        (DRIVE + "[ftl]\nkind = 'map_only'\n", ["drive.toml:8:1: ftl.kind", 'is model = "mapping_cache" now']),
        (DRIVE + "[timing]\nbus_mb_per_s = -1\n", ["drive.toml:8:1: timing.bus_mb_per_s"]),
        ("[geometry\n", ["drive.toml:1:10: "]),
        (
            DRIVE + "[buffer]\nbypass_bytes = 99999999999999999999\n",
            ["drive.toml:8:16: bypass_bytes = 99999999999999999999: a whole number is from -9223372036854775808 to"],
        ),
        (DRIVE + "channels = 2\n", ["drive.toml:7:1: duplicate key channels: it is stated above already"]),
        (
            DRIVE + "[ftl]\nkind = 'bast'\n[map_cache]\nkind = 'dftl'\n",
            ["drive.toml:10:1: map_cache.kind", 'the table of ftl.kind = "bast" is in memory: must be "ideal"'],
        ),
        ("", ["drive.toml: geometry: missing"]),
        (DRIVE.replace("blocks_per_plane = 64", "blocks_per_plane = 4000000000"), ["mapping units"]),
        (DRIVE.replace("channels = 1", "channels = 0"), ["drive.toml:2:1: geometry.channels = 0: must be from 1"]),
        ("extends = 'msr-sdd'\n", ["drive.toml:1:1: extends", 'did you mean "msr-ssd"?']),
    ],
)
def test_a_wrong_device_file(tmp_path: Path, text: str, parts: list[str]) -> None:
    (tmp_path / "drive.toml").write_text(text)
    refused(inside("run", "drive.toml", "--workload", "uniform", cwd=tmp_path), *parts)
    refused(inside("config", "check", "drive.toml", cwd=tmp_path), *parts)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[workload]\nkind = 'unifrom'\n", ["load.toml:2:1: workload.kind", 'did you mean "uniform"?']),
        (
            "[workload]\nkind = 'uniform'\ntheta = 1.0\n",
            ["load.toml:3:1: workload.theta", 'has no effect with workload.kind = "uniform": it is a key of zipf'],
        ),
        ("[workload]\nkind = 'uniform'\nrequest_bytes = 100\n", ["load.toml:3:1: workload.request_bytes", "512"]),
        ("[workload]\nkind = 'uniform'\nread_fraction = 2\n", ["load.toml:3:1: workload.read_fraction", "0 to 1"]),
        ("[workload]\nrequests = 10\n", ["workload.kind", "state a kind"]),
        (
            "[workload]\nkind = 'uniform'\nfootprint_bytes = '1TiB'\n",
            ["load.toml:3:1: workload.footprint_bytes", "only"],
        ),
        ("[workload]\ntrace = 'no-such-file'\n", ["no-such-file"]),
    ],
)
def test_a_wrong_workload_file(tmp_path: Path, text: str, parts: list[str]) -> None:
    (tmp_path / "load.toml").write_text(text)
    refused(run_small("--workload", "load.toml", cwd=tmp_path), *parts)


def test_every_mistake_of_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "drive.toml").write_text(DRIVE + "plane = 1\n[ftl]\ngc = 1\nstreams = 'x'\n")
    ran = inside("config", "check", "drive.toml", cwd=tmp_path)
    assert ran.status == 2
    assert len(ran.err.splitlines()) == 3, ran.err
    as_json = inside("config", "check", "drive.toml", "--json", cwd=tmp_path)
    assert as_json.status == 2
    assert len(as_json.json["errors"]) == 3


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["run"], ["DEVICE"]),
        (["run", "ideal-page"], ["--trace FILE", "--workload NAME"]),
        (["run", "ideal-page", "--workload", "uniform", "--trace", "x"], ["either"]),
        (["run", "ideal-pag", "--workload", "uniform"], ["ideal-pag", "ideal-page", "did you mean"]),
        (["run", "./nowhere.toml", "--workload", "uniform"], ["./nowhere.toml: no such file"]),
        (["run", "ideal-page", "--workload", "unifrom"], ["did you mean", "uniform"]),
        (["run", "ideal-page", "--workload", "uniform", "--set", "ftl.gc"], ["--set ftl.gc", "KEY=VALUE"]),
        (["run", "ideal-page", "--workload", "uniform", "--set", "ftl.gcc=1"], ["--set ftl.gcc=1", '"gc"']),
        (["run", "ideal-page", "--workload", "uniform", "--set", "workload.sed=1"], ["workload.sed=1", '"seed"']),
        (["run", "ideal-page", "--trace", "x", "--set", "workload.seed=1"], ["no --workload"]),
        (["run", "ideal-page", "--workload", "uniform", "--requests", "0"], ["--requests"]),
        (["run", "ideal-page", "--workload", "uniform", "--seed", "-1"], ["--seed"]),
        (["run", "ideal-page", "--workload", "uniform", "--format", "spc"], ["--trace"]),
        (["run", "ideal-page", "--workload", "uniform", "--requests-log"], ["--out"]),
        (["run", "ideal-page", "--workload", "uniform", "--out", "o", "--series", "fast"], ["series", "auto"]),
        (["run", "ideal-page", "--workload", "uniform", "--series", "banana"], ["series", "auto"]),
        (["run", "ideal-page", "--workload", "uniform", "--series", "1000"], ["--series needs --out"]),
        (["run", "ideal-page", "--workload", "uniform", "--no-timing", "--events", "e.json"], ["--events", "--no-tim"]),
        (
            ["run", "ideal-page", "--workload", "uniform", "--no-timing", "--out", "o", "--requests-log"],
            ["--requests-log", "--no-timing"],
        ),
        (
            ["run", "ideal-page", "--workload", "uniform", "--no-timing", "--out", "o", "--series", "10ms"],
            ["--series", "--no-timing", "number of requests"],
        ),
        ([*GENERATED, *MAP_ONLY, "--out", "o", "--series", "10ms"], ["--series", "mapping_cache"]),
        (
            [*GENERATED, *MAP_ONLY, "--events", "e.json"],
            ["--events", "mapping_cache"],
        ),
        (["run", "ideal-page", "--workload", "uniform", "--unknown"], ["--unknown"]),
        (["rum"], ["rum", "did you mean 'run'?"]),
        (["devices", "msr"], ["msr", "msr-ssd"]),
        (["schemes", "gredy"], ["gredy", "did you mean 'greedy'?"]),
        (["trace", "info", "no-such-file"], ["no-such-file"]),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], parts: list[str]) -> None:
    refused(inside(*arguments, cwd=tmp_path), *parts)


BIG = str(2**64)
# Python makes no number of so many digits.
VAST = "9" * 5000
SPC_FILE = ("in.spc", "0,20941264,8192,W,0.551706\n0,20939840,8192,W,0.554041\n")


@pytest.mark.parametrize(
    ("keys", "logical"),
    [
        ("gc_low_free_blocks = 20", "mapping units can be logical"),
        ("kind = 'bast'\nlog_blocks = 30", "logical pages"),
        ("kind = 'bast'\nover_provisioning = 0.001", "at most"),
    ],
)
def test_a_refused_size_says_what_to_state(tmp_path: Path, keys: str, logical: str) -> None:
    path = tmp_path / "drive.toml"
    path.write_text(f"{DRIVE}[ftl]\n{keys}\n")
    ran = inside("config", "check", path)
    refused(ran, logical)
    stated = re.search(r"\(ftl\.over_provisioning of ([0-9.]+) or more\)", ran.err)
    assert stated is not None, ran.err
    least = float(stated[1])
    assert inside("config", "check", path, "--set", f"ftl.over_provisioning={least}").status == 0
    assert inside("config", "check", path, "--set", f"ftl.over_provisioning={least - 0.01}").status == 2


def test_times_of_classes_that_cells_do_not_have_are_noted() -> None:
    for key in ("read_us", "program_us"):
        checked = inside("config", "check", "ideal-page", "--set", f"timing.{key}={{lsb=1, msb=2}}")
        assert "has entries of page classes that these cells do not have" in checked.err
    assert inside("config", "check", "tlc-small").err == ""


@pytest.mark.parametrize("number", [BIG, VAST], ids=["2^64", "5,000 digits"])
@pytest.mark.parametrize(
    "arguments",
    [
        [*GENERATED, "--requests"],
        [*GENERATED, "--seed"],
        [*GENERATED, "--series"],
        [*GENERATED, "--out", "o", "--series"],
        [*RECORDED, "--skip-bad"],
        [*RECORDED, "--volume"],
        [*RECORDED, "--volumes", "concat", "--volume-bytes"],
        ["trace", "head", "in.spc", "-n"],
        ["trace", "head", "in.spc", "--skip-bad"],
        ["trace", "head", "in.spc", "--volumes", "concat", "--volume-bytes"],
        ["trace", "convert", "in.spc", "out.csv", "--requests"],
        ["trace", "stats", "in.spc", "--requests"],
        ["trace", "stats", "--workload", "uniform", "--seed"],
        ["trace", "stats", "in.spc", "--page-bytes"],
        ["trace", "stats", "in.spc", "--map-cache"],
        ["trace", "stats", "--workload", "uniform", "--capacity"],
        ["trace", "fit", "in.spc", "-o", "fitted.toml", "--requests"],
        ["crash", *GENERATED[1:], "--point"],
        ["crash", *GENERATED[1:], "--cuts"],
        ["crash", *GENERATED[1:], "--jobs"],
        ["study", "run", "study.toml", "--jobs"],
        ["study", "run", "study.toml", "--trace-memory"],
    ],
    ids=" ".join,
)
def test_a_number_that_is_too_large(tmp_path: Path, arguments: list[str], number: str) -> None:
    (tmp_path / SPC_FILE[0]).write_text(SPC_FILE[1])
    (tmp_path / "study.toml").write_text("device = 'ideal-page'\nworkload = 'uniform'\n")
    # In this process: nothing may come out as a traceback, and there are many.
    refused(inside(*arguments, number, cwd=tmp_path))


@pytest.mark.parametrize("interval", ["99999999999999999999s", "20000000s", "٣"])
def test_an_interval_that_no_run_has(tmp_path: Path, interval: str) -> None:
    refused(inside(*GENERATED, "--out", "o", "--series", interval, cwd=tmp_path), "series = ")
    assert not (tmp_path / "o" / "summary.json").exists()


def test_a_file_of_brackets(tmp_path: Path) -> None:
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    for command in (["config", "check"], ["study", "run"], ["run"]):
        more = ["--workload", "uniform"] if command == ["run"] else []
        refused(ftlab(*command, "deep.toml", *more, cwd=tmp_path), "deep.toml")


def test_a_pipe_is_no_trace(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for command in (["trace", "info", "pipe"], ["run", "ideal-page", "--trace", "pipe"]):
        refused(ftlab(*command, cwd=tmp_path, timeout=20), "pipe: is a pipe or device; a trace is a regular file")


def test_a_parquet_file_without_times(tmp_path: Path) -> None:
    pl.DataFrame({"op": ["read"], "lba": [0], "sectors": [8]}).write_parquet(tmp_path / "t.parquet")
    refused(inside("trace", "stats", "t.parquet", cwd=tmp_path), "t.parquet: expected a column for an arrival time")


def test_nothing_is_shown_where_nothing_was_run(tmp_path: Path) -> None:
    (tmp_path / "far.csv").write_text("arrival_ns,op,lba,sectors\n0,read,99999999999,8\n")
    refused(run_small("--trace", "far.csv", cwd=tmp_path), "beyond")


def test_a_missing_trace_is_noted(tmp_path: Path) -> None:
    (tmp_path / "load.toml").write_text("[workload]\ntrace = 'gone.csv'\n")
    ran = inside("config", "check", "load.toml", cwd=tmp_path)
    assert (ran.status, "valid workload" in ran.out) == (0, True)
    assert "note: workload.trace = " in ran.err
    assert "gone.csv': no such file" in ran.err


@pytest.mark.skipif(os.name != "posix", reason="closes descriptors as a POSIX shell does")
def test_closed_standard_streams(tmp_path: Path) -> None:
    def closed(arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            ["/bin/sh", "-c", f"{FTLAB} {arguments}"], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        return done.returncode, done.stderr

    assert closed("schemes greedy >&-") == (2, "error: standard output is closed\n")
    assert closed("run ideal-page --workload uniform --requests 10 --json 2>&-")[0] == 0


MSR = "128166372003061629,src1,0,Write,8192,4096,100\n"
SPC = "0,20941264,8192,W,0.551706\n0,20939840,8192,W,0.554041\n"


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("empty.spc", b"", ["empty.spc"]),
        ("garbage", bytes(range(256)) * 40, ["garbage"]),
        ("words.txt", b"this is no trace\nat all\n", ["words.txt"]),
        ("bad.spc", (SPC * 100 + "0,zzz,8192,W,0.6\n").encode(), ["bad.spc:201", "zzz"]),
        ("zero.spc", (SPC * 100 + "0,8,0,W,0.6\n").encode(), ["zero.spc:201"]),
        ("short.spc", (SPC * 100 + "0,8").encode(), ["short.spc:201"]),
        ("bad.csv", (MSR * 50 + MSR.replace("Write", "Wirte")).encode(), ["bad.csv:51", "Wirte"]),
        ("cut.spc.gz", gzip.compress(SPC.encode() * 50_000)[:-400], ["cut.spc.gz"]),
        ("notgz.gz", b"\x1f\x8b\x08" + b"garbage" * 20, ["notgz.gz"]),
    ],
)
def test_a_wrong_trace(tmp_path: Path, name: str, content: bytes, parts: list[str]) -> None:
    (tmp_path / name).write_bytes(content)
    options = ["--set", "host.out_of_range=wrap", "--set", "host.arrival=closed", "--set", "precondition.kind=fill"]
    ran = run_small("--trace", name, *options, "--json", cwd=tmp_path)
    assert ran.status == 2, (ran.out, ran.err)
    for part in parts:
        assert part in ran.err, ran.err
    if ran.out:
        assert ran.json["partial"] is True
    assert inside("trace", "stats", name, cwd=tmp_path).status == 2


def test_times_that_go_backwards_are_an_error_unless_clamped(tmp_path: Path) -> None:
    (tmp_path / "back.spc").write_text("0,8,4096,W,2.0\n0,16,4096,W,1.0\n")
    options = ("--trace", "back.spc", "--set", "host.arrival=open", "--set", "precondition.kind=fill", "--json")
    ran = run_small(*options, cwd=tmp_path)
    assert ran.status == 2
    assert ran.json["partial"] is True
    assert "host.unsorted_times" in ran.err or "before" in ran.err, ran.err
    ran = run_small(*options, "--set", "host.unsorted_times=clamp", cwd=tmp_path)
    assert ran.status == 0, ran.err
    assert ran.json["host"]["unsorted"] == 1


def test_requests_beyond_the_drive(tmp_path: Path) -> None:
    (tmp_path / "far.spc").write_text("0,8,4096,W,1.0\n0,99999999,4096,W,2.0\n")
    options = ("--trace", "far.spc", "--set", "precondition.kind=fill", "--json")
    ran = run_small(*options, cwd=tmp_path)
    assert ran.status == 2
    assert "99999999" in ran.err or "beyond" in ran.err, ran.err
    assert ran.json["host"]["completed"] == 1
    wrapped = run_small(*options, "--set", "host.out_of_range=wrap", cwd=tmp_path)
    assert (wrapped.status, wrapped.json["host"]["out_of_range"]) == (0, 1)
    clipped = run_small(*options, "--set", "host.out_of_range=clip", cwd=tmp_path)
    assert (clipped.status, clipped.json["host"]["rejected"]) == (0, 1)


def test_a_drive_that_does_not_fit_into_memory() -> None:
    sets = ("--set", "geometry.blocks_per_plane=65000000", "--set", "geometry.channels=1")
    ran = inside("run", "ideal-page", *sets, "--workload", "uniform", "--verify")
    refused(ran, "memory", "geometry.blocks_per_plane")


def test_results_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    base = ("--workload", "uniform", "--requests", "10")
    refused(run_small(*base, "--out", tmp_path / "file" / "x"), "file")
    refused(run_small(*base, "--events", tmp_path / "no" / "events.json"), "events.json")
