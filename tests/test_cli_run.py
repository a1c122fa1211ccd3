"""`ftlab run`: what it prints and writes."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest
from click.shell_completion import _resolve_context, _resolve_incomplete

import ftlab
from conftest import FTLAB, ROOT, SMALL, inside, run_small
from conftest import ftlab as ftlab_command
from ftlab import _native
from ftlab.cli import cli, short

WORK = ("--workload", "uniform", "--requests", "5000")


def test_times_that_nobody_looks_at_are_told(tmp_path: Path) -> None:
    why = ': no effect with host.arrival = "closed", where a request arrives when one before it has ended'
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_us,op,lba,sectors\n0,write,0,8\n9,write,8,8\n")
    closed = ("--set", "precondition.kind=none", "--set", "host.arrival=closed")
    uniform = ("--workload", "uniform", "--set", "workload.requests=9")
    scaled = ("--trace", str(trace), "--transform", "scale_time factor=2", "--transform", "slice take=1")
    for options, what in [
        ((*uniform, "--set", "workload.rate_iops=5"), "workload.rate_iops"),
        (("--trace", str(trace)), "times of the trace"),
        (scaled, "scale_time"),
    ]:
        ran = ftlab_command("run", "ideal-page", *options, *closed)
        assert ran.status == 0
        assert f"note: {what}{why}" in ran.err.replace("\n", " "), ran.err
        opened = ftlab_command("run", "ideal-page", *options, *closed[:2], "--set", "host.arrival=open")
        assert "no effect" not in opened.err
    assert "no effect" not in ftlab_command("run", "ideal-page", *uniform, *closed).err
    # Times that choose the requests have one.
    chosen = (*uniform, "--set", "workload.rate_iops=1000", "--transform", "slice from_us=0 to_us=5000")
    assert "no effect" not in ftlab_command("run", "ideal-page", *chosen, *closed).err


def test_a_run_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    few = ("--workload", "zipf", "--set", "workload.requests=2000", "--set", "workload.read_fraction=0.9999")
    ran = ftlab_command("run", "tlc-aged", *few, "--out", str(out))
    assert ran.status == 2
    assert "aging needs" in ran.err
    assert not out.exists()
    # What was measured before a failure stays.
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_us,op,lba,sectors\n0,write,0,8\n9,write,9999999999,8\n")
    ran = ftlab_command(
        "run", "ideal-page", "--trace", str(trace), "--out", str(out), "--set", "precondition.kind=none"
    )
    assert ran.status == 2
    assert (out / "summary.json").exists()


def test_requests_that_a_thread_makes_need_no_clock() -> None:
    """From 262,144 requests on they are made ahead of the drive, some of them before it says that it has no clock."""
    ran = run_small("--workload", "uniform", "--requests", "270000", "--no-timing", "--json")
    assert (ran.status, ran.err) == (0, "")
    assert ran.json["host"]["completed"] == 270_000


def test_json_alone_on_standard_output() -> None:
    ran = run_small(*WORK, "--json")
    assert (ran.status, ran.err) == (0, "")
    summary = ran.json
    assert summary["schema"] == 1
    assert summary["device"] == "ideal-page"
    assert summary["workload"] == "uniform"
    assert summary["host"]["requests"] == summary["host"]["completed"] == 5000
    assert summary["wall_seconds"] > 0
    assert summary["partial"] is False


def test_the_table_says_what_a_person_asks() -> None:
    ran = run_small(*WORK, "--verify", "--set", "workload.read_fraction=0.5")
    assert ran.status == 0
    for word in ("IOPS", "p99.9", "write amplification", "host 1.000 + gc", "wear", "die time", "verified", "read"):
        assert word in ran.out, ran.out
    assert max(map(len, ran.out.splitlines())) <= 110
    explained = run_small(*WORK, "--explain")
    assert "Flash cannot overwrite" in explained.out


def test_parts_sum_to_the_whole() -> None:
    summary = run_small(*WORK, "--json").json
    parts = [value for name, value in summary["write_amplification"].items() if name != "total"]
    assert sum(parts) == pytest.approx(summary["write_amplification"]["total"], rel=1e-12)
    for counts in (*summary["flash"].values(), summary["busy_ns"]):
        assert sum(value for name, value in counts.items() if name != "total") == counts["total"]
    host = summary["host"]
    assert host["requests"] == host["completed"] + host["rejected"] + host["unfinished"]


def test_out_has_everything_to_repeat_the_run(tmp_path: Path) -> None:
    out = tmp_path / "result"
    ran = run_small(*WORK, "--out", out, "--requests-log", "--seed", "7", "--json")
    assert ran.status == 0, ran.err
    names = {path.name for path in out.iterdir()}
    expected = {
        "summary.json",
        "run.json",
        "series.parquet",
        "device.toml",
        "workload.toml",
        "requests.parquet",
        "plot.png",
        "plot.svg",
    }
    assert names == expected
    summary = json.loads((out / "summary.json").read_text())
    assert summary == ran.json
    assert pl.read_parquet(out / "requests.parquet").height == 5000
    assert pl.read_parquet(out / "series.parquet").height > 100
    again = inside(
        "run", out / "device.toml", "--workload", out / "workload.toml", *WORK[2:], "--seed", "7", "--json"
    ).json
    for result in (summary, again):
        del result["wall_seconds"]
    assert again == summary


@pytest.mark.long
def test_a_log_that_does_not_fit_does_not_stay(tmp_path: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    arguments = [*SMALL, "--workload", "uniform", "--requests", "150000", "--out", "out", "--requests-log"]
    done = subprocess.run(
        [FTLAB, "run", "ideal-page", *arguments],
        cwd=tmp_path,
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "error: out/requests.parquet: cannot be written: " in done.stderr
    # Nothing that was computed is lost, and nothing stays that cannot be read.
    assert json.loads((tmp_path / "out/summary.json").read_text())["host"]["requests"] == 150_000
    assert not (tmp_path / "out/requests.parquet").exists()


def test_what_cannot_be_written_whole_replaces_nothing(tmp_path: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    def run(requests: int, *places: str, seed: int = 1) -> subprocess.CompletedProcess[str]:
        words = [*SMALL, "--workload", "uniform", "--requests", str(requests), "--seed", str(seed), *places]
        command = [FTLAB, "run", "ideal-page", *words]
        return subprocess.run(command, cwd=tmp_path, preexec_fn=limit, capture_output=True, text=True, check=False)

    for places, name in (
        (("--out", "out", "--requests-log"), "out/requests.parquet"),
        (("--events", "ev.json"), "ev.json"),
    ):
        assert run(50, *places).returncode == 0
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        failed = run(150_000, *places, seed=2)
        assert failed.returncode == 2
        assert f"error: {name}: cannot be written: " in failed.stderr
        assert "150,000 requests, 150,000 writes" in failed.stdout
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
        if places[0] == "--out":
            assert "; out has the older result" in failed.stderr
    # A new folder has all but what was cut, though other logs are whole.
    failed = run(30_000, "--out", "new", "--requests-log", "--events", "new/ev.json")
    assert (failed.returncode, "error: new/ev.json: cannot be written: " in failed.stderr) == (2, True)
    assert not (tmp_path / "new/ev.json").exists()
    assert pl.read_parquet(tmp_path / "new/requests.parquet").height == 30_000


@pytest.mark.long
def test_out_forgets_the_run_before(tmp_path: Path) -> None:
    recording = ROOT / "examples/recording/phone.csv.zst"
    wrapped = ("--set", "host.out_of_range=wrap", "--requests", "200")
    assert run_small(*WORK, "--out", tmp_path, "--requests-log").status == 0
    (tmp_path / "notes.txt").write_text("mine")
    assert run_small("--trace", recording, *wrapped, "--out", tmp_path).status == 0
    common = {"notes.txt", "summary.json", "run.json", "device.toml", "series.parquet", "plot.png", "plot.svg"}
    assert {path.name for path in tmp_path.iterdir()} == {*common, "trace.txt"}
    assert run_small(*WORK, "--out", tmp_path, "--requests-log").status == 0
    assert {path.name for path in tmp_path.iterdir()} == {*common, "workload.toml", "requests.parquet"}
    # The run before may be the input of the next one, but not be replaced by it.
    log = tmp_path / "requests.parquet"
    ran = run_small("--trace", log, *wrapped, "--out", tmp_path)
    assert (ran.status, log.exists()) == (2, True), ran.err
    assert f"{log}: the trace of the run" in ran.err


def test_what_has_no_effect_is_noted_once(tmp_path: Path) -> None:
    idle = ("--set", "host.link_duplex=half")
    ran = run_small(*WORK, *idle, "--json")
    assert ran.status == 0
    notes = [line for line in ran.err.splitlines() if line.startswith("note: ")]
    why = "has no effect with host.link_mb_per_s = 0: transfers over the link take no time"
    assert notes == [f"note: --set host.link_duplex=half: {why}"]
    assert "note" not in run_small(*WORK).err
    (tmp_path / "my.toml").write_text("extends = 'ideal-page'\n[host]\nlink_duplex = 'half'\n")
    checked = inside("config", "check", "my.toml", cwd=tmp_path)
    assert (checked.status, len(checked.err.splitlines())) == (0, 1)
    assert checked.err.startswith('note: my.toml:3:1: host.link_duplex = "half": has no effect'), checked.err
    assert len(inside("config", "check", "my.toml", "--json", cwd=tmp_path).json["notes"]) == 1


@pytest.mark.long
def test_the_interval_of_the_series(tmp_path: Path) -> None:
    for interval, rows in (("1000", 5), ("auto", None), ("100ms", None)):
        ran = run_small(*WORK, "--out", tmp_path, "--series", interval)
        assert ran.status == 0, ran.err
        height = pl.read_parquet(tmp_path / "series.parquet").height
        assert height == rows if rows else height > 1


def test_no_timing_counts_the_same_and_times_nothing() -> None:
    timed, counted = (run_small(*WORK, *more, "--json").json for more in ((), ("--no-timing",)))
    assert counted["flash"] == timed["flash"]
    assert counted["write_amplification"] == timed["write_amplification"]
    assert counted["simulated_ns"] == 0
    assert "latency_ns" not in counted
    assert run_small(*WORK, "--no-timing").status == 0


def test_events_open_as_json(tmp_path: Path) -> None:
    events = tmp_path / "events.json"
    assert run_small("--workload", "uniform", "--requests", "50", "--events", events).status == 0
    spans = [event for event in json.loads(events.read_text())["traceEvents"] if event["ph"] == "X"]
    assert {span["name"] for span in spans} >= {"program"}


def test_a_workload_file_and_its_overrides(tmp_path: Path) -> None:
    (tmp_path / "load.toml").write_text("extends = 'zipf'\n[workload]\nrequests = 300\n")
    ran = run_small("--workload", "load.toml", "--set", "workload.theta=0.5", "--json", cwd=tmp_path)
    assert (ran.json["workload"], ran.json["host"]["requests"]) == ("load", 300)


def test_a_trace_is_recognised(tmp_path: Path) -> None:
    rows = [f"0,{8 * index},4096,{'R' if index % 2 else 'W'},{index / 1000}\n" for index in range(200)]
    (tmp_path / "some.spc").write_text("".join(rows))
    ran = run_small("--trace", tmp_path / "some.spc", "--set", "precondition.kind=fill", "--json")
    assert ran.status == 0, ran.err
    assert (ran.json["workload"], ran.json["host"]["reads"]) == ("some.spc", 100)


def test_a_drive_that_would_fill_up_is_refused_with_the_size_that_works() -> None:
    # One sector to a page of eight: pages stay nearly empty until collection packs them.
    tight = (
        "run", "ideal-page", "--workload", "uniform", "--requests", "20000", "--no-timing", "--json",
        "--set", "geometry.blocks_per_plane=32", "--set", "geometry.pages_per_block=2",
        "--set", "geometry.mapping_unit_bytes=512", "--set", "workload.request_bytes=512",
        "--set", "precondition.kind=none",
    )  # fmt: skip
    ran = inside(*tight, "--set", "ftl.over_provisioning=0.3")
    assert ran.status == 2, ran.err
    most = re.search(r"at most (\d+) of the 512 physical mapping units can be logical", ran.err)
    assert most, ran.err
    assert inside(*tight, "--set", f"ftl.logical_pages={most[1]}").json["host"]["completed"] == 20000
    assert inside(*tight, "--set", f"ftl.logical_pages={int(most[1]) + 1}").status == 2


def test_a_full_drive_with_a_mapping_cache_writes_its_translation_pages_in_bounded_time() -> None:
    # Once collected blocks that gained nothing, for ever: each moved entries of all translation pages.
    ran = inside(
        "run", "ideal-page", "--workload", "uniform", "--requests", "100", "--no-timing", "--json",
        "--set", "geometry.channels=4", "--set", "geometry.ways=3", "--set", "geometry.planes=2",
        "--set", "geometry.blocks_per_plane=29", "--set", "geometry.pages_per_block=8",
        "--set", "timing.independent_planes=true", "--set", "ftl.gc=windowed_greedy", "--set", "ftl.gc_window=1000",
        "--set", "ftl.gc_tie=highest", "--set", "ftl.allocation=PDCW", "--set", "ftl.striping=dynamic",
        "--set", "ftl.logical_pages=4986", "--set", "ftl.gc_low_free_blocks=1", "--set", "ftl.gc_open_block=shared",
        "--set", "ftl.gc_when=on_access", "--set", "map_cache.kind=tafp", "--set", "map_cache.bytes=275",
        "--set", "map_cache.window_bytes=256", "--set", "precondition.kind=fill",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    assert ran.json["host"]["completed"] == 100
    assert ran.json["flash"]["programs"]["total"] + ran.json["flash"]["copybacks"]["total"] < 20_000


@pytest.mark.parametrize(
    ("workload", "mean_ms", "stdev_ms"),
    [
        ("sr250k", 0.132511, 0.000072),
        ("sw250k", 0.310895, 0.026646),
        ("rr250k", 0.136118, 0.015205),
        ("rw250k", 0.329458, 0.068898),
    ],
)
def test_the_reference_simulator_is_met_to_the_printed_digit(workload: str, mean_ms: float, stdev_ms: float) -> None:
    published = ("--set", "host.stop=last_arrival")
    latency = inside("run", "msr-ssd", "--workload", f"disksim-{workload}", *published, "--json").json["latency_ns"][
        "all"
    ]
    assert round(latency["mean"] / 1e6, 6) == mean_ms
    assert round(latency["stdev"] / 1e6, 6) == stdev_ms


def test_lists() -> None:
    devices = inside("devices", "--json").json
    assert {device["name"] for device in devices} >= {"msr-ssd", "ideal-page", "tlc-256g"}
    assert {workload["name"] for workload in inside("workloads", "--json").json} >= {"zipf", "disksim-rw5m"}
    schemes = inside("schemes", "--json").json
    assert {scheme["name"] for scheme in schemes if scheme["key"] == "ftl.gc"} >= {"greedy", "d_choices"}
    assert all(scheme["summary"] for scheme in schemes)
    algorithms = {"ftl.kind", "ftl.gc", "ftl.placement", "map_cache.kind"}
    assert all(scheme["source"] for scheme in schemes if scheme["key"] in algorithms)
    assert algorithms <= {scheme["key"] for scheme in schemes}
    for command in ("devices", "workloads", "schemes"):
        ran = inside(command)
        assert ran.status == 0
        assert max(map(len, ran.out.splitlines())) <= 110
    assert inside("devices", "msr-ssd").out == (ROOT / "devices" / "msr-ssd.toml").read_text()
    assert inside("devices", "msr-ssd", "--json").json["device"]["geometry"]["planes"] == 8
    assert 'ftl.gc = "greedy"' in inside("schemes", "greedy").out


def test_the_package_is_the_command() -> None:
    for arguments in (["--version"], ["schemes", "gredy"]):
        ran = [
            subprocess.run(program + arguments, capture_output=True, text=True, check=False)
            for program in ([str(FTLAB)], [sys.executable, "-m", "ftlab"])
        ]
        assert ran[0].stdout == ran[1].stdout
        assert ran[0].stderr == ran[1].stderr
        assert ran[0].returncode == ran[1].returncode


def test_the_model_of_a_mapping_cache_runs_at_its_own_size() -> None:
    # It has as many pages as a drive that takes long to prepare, and nothing to prepare.
    ran = inside("run", "map-cache-model", "--workload", "zipf", "--requests", "100")
    assert (ran.status, ran.err) == (0, "")


@pytest.mark.long
def test_every_device_preset_runs() -> None:
    for device in inside("devices", "--json").json:
        described = inside("devices", device["name"], "--json").json["device"]
        changes = ["geometry.blocks_per_plane=64", "ftl.over_provisioning=0.2"]
        # The model of the mapping cache alone has no collection, and holds no data that could be verified.
        alone = described.get("model") == "mapping_cache"
        if not alone and described["ftl"]["kind"] == "page":
            changes.append("ftl.gc_low_free_blocks=2")
        elif not alone:
            changes.append("ftl.log_blocks=0")
        if described.get("precondition", {}).get("kind") == "free_blocks":
            changes.append("precondition.free_blocks=4")
        if described.get("ftl", {}).get("gc") == "d_choices":
            changes.append("ftl.gc_choices=4")
        options = [word for change in changes for word in ("--set", change)]
        checked = () if alone else ("--verify",)
        ran = inside("run", device["name"], *options, "--workload", "uniform", "--requests", "500", *checked, "--json")
        assert ran.status == 0, (device["name"], ran.err)
        if alone:
            assert ran.json["map_cache"]["lookups"] == 500
        else:
            assert ran.json["verify"]["mismatches"] == 0


@pytest.mark.long
def test_every_workload_preset_runs() -> None:
    for workload in inside("workloads", "--json").json:
        # Stand-ins have the address range of what they stand for, as recordings do.
        wrap = ("--set", "host.out_of_range=wrap") if workload["stand_in"] else ()
        ran = inside("run", "msr-ssd", "--workload", workload["name"], "--requests", "500", "--json", *wrap)
        assert ran.status == 0, (workload["name"], ran.err)
        assert ran.json["host"]["requests"] == 500
        assert ("stand_in" in ran.json) == (workload["stand_in"] is not None)


@pytest.mark.long
def test_stand_ins_say_so_and_give_way_to_recordings(tmp_path: Path) -> None:
    options = ("--workload", "like-financial", "--requests", "200", "--set", "host.out_of_range=wrap")
    ran = run_small(*options)
    assert "stand-in for: the UMass trace Financial1" in ran.out
    assert "generated" in ran.out
    (tmp_path / "umass").mkdir()
    # The paper takes all accesses as writes, and so does the stand-in.
    lines = (f"0,{sector * 8},512,{'rw'[sector % 2]},{sector}.0" for sector in range(50))
    (tmp_path / "umass" / "Financial1.spc").write_text("\n".join(lines) + "\n")
    ran = run_small(*options, "--trace-dir", tmp_path, "--json")
    assert (ran.json["workload"], ran.json["host"]["requests"]) == ("Financial1.spc", 50)
    assert (ran.json["host"]["reads"], ran.json["host"]["writes"]) == (0, 50)
    assert ran.json["stand_in"]["recording"].endswith("Financial1.spc")
    assert "recording: the UMass trace Financial1" in run_small(*options, "--trace-dir", tmp_path).out
    ran = run_small(*options, "--transform", "slice take=7", "--trace-dir", tmp_path, "--json")
    assert ran.json["host"]["requests"] == 7
    ran = run_small(*options, "--set", "workload.oltp_financial.all_writes=false", "--trace-dir", tmp_path)
    assert ran.status == 2
    assert "workload.oltp_financial.all_writes: the recording" in ran.err
    assert run_small(*options, "--trace-dir", tmp_path / "none").status == 2
    assert run_small("--workload", "like-pc", "--trace-dir", tmp_path, "--requests", "9", "--json").status == 2


@pytest.mark.long
def test_recordings_and_what_commands_in_stand_ins_make_of_them_run(tmp_path: Path) -> None:
    (tmp_path / "Client_128_GB_Master_Trace.txt").write_bytes(
        b" Write 64 8\r\n Trims 64 16\r\n Flush\r\n Write 8 24\r\n"
    )
    (tmp_path / "Financial1.spc").write_text("0,8,512,r,0.0\n1,16,512,w,43720.0\n")
    (tmp_path / "Financial2.spc").write_text("0,8,512,w,0.5\n")
    for name, counts in (("like-jedec", (0, 2, 1, 1)), ("like-oltp", (1, 2, 0, 0))):
        text = (ROOT / "workloads" / f"{name}.toml").read_text()
        script = "\n".join(line[4:] for line in text.splitlines() if line.startswith("#   "))
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        subprocess.run(["/bin/sh", "-ec", script], cwd=tmp_path, check=True, env={**os.environ, "PATH": path})
        ran = run_small("--workload", name, "--trace-dir", tmp_path, "--json")
        host = ran.json["host"]
        assert tuple(host[kind] for kind in ("reads", "writes", "trims", "flushes")) == counts, (name, ran.json["host"])


@pytest.mark.parametrize("kind", ["device", "workload"])
def test_the_schema_accepts_every_shipped_file(kind: str) -> None:
    import jsonschema

    schema = json.loads(_native.schema(kind))
    validator = jsonschema.validators.validator_for(schema)(schema)
    files = sorted((ROOT / f"{kind}s").glob("*.toml"))
    assert files
    for file in files:
        assert [error.message for error in validator.iter_errors(tomllib.loads(file.read_text()))] == [], file.name
    assert list(validator.iter_errors({"geometry": {"channels": "two"}, "workload": {"kind": 3}}))


def test_the_schema_covers_every_key() -> None:
    for option, sections in (((), ("geometry", "ftl", "host")), (("--workload",), ("workload",))):
        schema = inside("config", "schema", *option).json
        assert set(sections) <= set(schema["properties"])
        undocumented = [
            f"{name}.{key}"
            for name, definition in schema["$defs"].items()
            for key, value in definition.get("properties", {}).items()
            if "description" not in value and name != "LatencySchema"
        ]
        assert undocumented == []


def test_help_does_not_import_the_heavy_libraries() -> None:
    import subprocess
    import sys

    for arguments in (
        ["--help"],
        ["run", "--help"],
        ["run", "ideal-page", "--workload", "uniform", "--requests", "1", "--json"],
    ):
        code = (
            "import sys\nfrom ftlab.cli import status_of\n"
            f"status = status_of({arguments!r})\n"
            "heavy = {'polars', 'matplotlib', 'pandas', 'pyarrow', 'rich', 'scipy'} & set(sys.modules)\n"
            "sys.exit(str(heavy) if heavy else status)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_version_is_told_without_the_command_line() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "ftlab", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == inside("--version").out
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "ftlab._native" in imported
    assert not {"click", "typing", "ftlab.cli"} & imported
    if Path("/dev/full").exists():
        with Path("/dev/full").open("w") as full:
            told = subprocess.run([*command[:1], *command[3:]], stdout=full, stderr=subprocess.PIPE, check=False)
        assert (told.returncode, told.stderr) == (2, b"error: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("arguments", [["--version"], ["devices"], ["devices", "tlc-aged"], ["run", "--help"]])
def test_a_reader_that_has_gone_is_no_failure(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        told = subprocess.run([str(FTLAB), *arguments], stdout=write, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(write)
    assert (told.returncode, told.stderr) == (0, b"")


@pytest.mark.long
@pytest.mark.parametrize(
    ("most_seconds", "arguments"),
    [
        (0.1, ["-c", "import ftlab"]),
        (0.1, ["--version"]),
        (0.2, ["run", "ideal-page", *SMALL, "--workload", "uniform", "--requests", "100", "--json"]),
    ],
    ids=["import", "version", "run"],
)
def test_short_commands_take_little_processor_time(most_seconds: float, arguments: list[str]) -> None:
    import resource
    import subprocess

    if arguments[0] != "-c":
        arguments = ["-m", "ftlab", *arguments]
    # As installed: with what the first of them compiles.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(5)) < most_seconds


def test_numbers_as_people_write_them() -> None:
    words = (
        "--set",
        "ftl.over_provisioning=25%",
        "--set",
        "workload.request_bytes=16k",
        "--set",
        "workload.requests=1e3",
    )
    ran = run_small("--workload", "uniform", *words, "--json")
    assert ran.status == 0, ran.err
    assert ran.json["host"]["requests"] == 1000
    assert ran.json["host"]["write_bytes"] == 1000 * 16384
    assert run_small("--workload", "uniform", "--requests", "2k", "--json").json["host"]["requests"] == 2000


@pytest.mark.parametrize(("spare", "status"), [("28%", 0), ("1.5", 0), ("7", 2), ("28", 2), ("700%", 2)])
def test_spare_space_above_the_whole_asks_whether_per_cent_was_meant(spare: str, status: int) -> None:
    ran = run_small("--workload", "uniform", "--requests", "10", "--set", f"ftl.over_provisioning={spare}")
    assert ran.status == status
    # As a note where such a drive may be.
    assert ('per cent meant, such as "7%"?' in ran.err) == (spare != "28%")
    if status:
        assert f"over_provisioning={spare}: must be above 0 and below 5: a fraction of the logical size" in ran.err


def test_words_of_others_are_answered_with_ours(tmp_path: Path) -> None:
    for key, ours in (
        ("host.iodepth=32", 'fio\'s word: ftlab has host.queue_depth, with host.arrival = "closed"'),
        ("workload.bs=4k", "fio's word: ftlab has workload.request_bytes"),
        ("geometry.Flash_Channel_Count=8", "MQSim's word: ftlab has geometry.channels"),
        ("ftl.op_ratio=7", "DiskSim's word: ftlab has ftl.over_provisioning"),
        ("timing.Flash_Channel_Width=1", "MQSim's word: ftlab has timing.bus_mb_per_s, which is its bytes times"),
        (
            "geometry.secs_per_pg=8",
            "FEMU's word: ftlab has geometry.page_bytes: so many sectors of 512 bytes, or of secsz",
        ),
        ("workload.numjobs=4", "fio's word, and no key here: requests come from one source, and host.queue_depth"),
        ("workload.size=1g", "fio's word, and no key here: workload.footprint_bytes says where requests go"),
        ("host.runtime=60", "fio's word, and no key here: a run ends after workload.requests"),
    ):
        ran = run_small("--workload", "uniform", "--requests", "10", "--set", key)
        assert (ran.status, ran.out) == (2, "")
        assert ours in ran.err
        assert len(ran.err) < 2000
    # Of memory nobody means fio's.
    assert "fio" not in run_small("--workload", "uniform", "--set", "buffer.size=1m").err
    (tmp_path / "ssd.toml").write_text("<?xml version='1.0'?>\n<Device_Parameter_Set/>\n")
    (tmp_path / "job.toml").write_text("[global]\nioengine=libaio\nrw=randread\nbs=4k\n")
    assert "is XML, as MQSim takes it" in inside("config", "check", "ssd.toml", cwd=tmp_path).err
    assert "is a fio job file" in inside("config", "check", "job.toml", cwd=tmp_path).err


@pytest.mark.parametrize(("count", "marked"), [(15, 4), (20, 3), (99, 3), (100, 2), (1000, 1), (10_000, 0)])
def test_percentiles_of_few_requests_are_marked(count: int, marked: int) -> None:
    ran = run_small("--workload", "uniform", "--requests", str(count))
    [row] = [line for line in ran.out.splitlines() if line.startswith("write  ")]
    cells = re.split(r"\s{2,}", row)
    assert [cell.startswith("~") for cell in cells] == [False] * (7 - marked) + [True] * marked + [False]
    assert ("\n~ fewer than ten requests were slower" in ran.out) == (marked > 0)
    # The warning says of the same ones why.
    told = re.search(r"percentiles with fewer than ten samples beyond them: (.*?) of ", " ".join(ran.out.split()))
    assert (told[1].count("p") if told else 0) == marked


def test_bash_is_offered_presets_beside_files(tmp_path: Path) -> None:
    """It forgets what came before the word that stands for files."""
    (tmp_path / "script").write_text(inside("completion", "bash").out)
    words = 'source ./script; COMP_WORDS=(ftlab run tl); COMP_CWORD=2; _ftlab_completion "$0" 2> /dev/null; '
    command = ["bash", "--norc", "-c", words + 'echo "${COMPREPLY[@]}"', FTLAB]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [name for name, _ in _native.presets("device") if name.startswith("tl")]


def test_the_shell_completes_axes_and_columns_of_a_study(tmp_path: Path) -> None:
    axes = {"ftl.gc": ["greedy", "fifo"], "workload.requests": [10, 20]}
    store = tmp_path / "store"
    ftlab.study({"name": "one", "device": "ideal-page", "workload": "uniform", "axes": axes}, out=store)

    def offered(*words: str | Path) -> list[str]:
        context = _resolve_context(cli, {}, "ftlab", list(map(str, words[:-1])))
        found, incomplete = _resolve_incomplete(context, list(map(str, words[:-1])), str(words[-1]))
        return [item.value for item in found.shell_complete(context, incomplete)]

    assert offered("study", "compare", store, "--by", "") == ["ftl.gc", "workload.requests", "seed"]
    assert offered("study", "compare", store, "--by", "ftl.gc", "--at", "w") == ["workload.requests"]
    assert "latency_ns.all.p99" in offered("study", "compare", store, "--by", "ftl.gc", "--metric", "latency_ns.all.p")
    assert offered("study", "sensitivity", store, "--metric", "host.iops", "--axis", "f") == ["ftl.gc"]
    assert offered("study", "compare", tmp_path / "none", "--by", "") == []


def test_the_shell_completes_presets_and_keys() -> None:
    def offered(words: str, at: int, shell: str = "bash") -> list[str]:
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(at), "_FTLAB_COMPLETE": f"{shell}_complete"}
        done = subprocess.run(
            [Path(sys.executable).parent / "ftlab"],
            env={**os.environ, **asked},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stdout.split()

    assert "plain,tlc-small" in offered("ftlab run tl", 2)
    assert "plain,zipf" in offered("ftlab run tlc-small --workload zi", 4)
    assert offered("ftlab run tlc-small --set host.queue", 4) == ["plain,host.queue_depth="]
    assert "plain,workload.request_bytes=" in offered("ftlab run tlc-small --set workload.request", 4)
    assert "plain,tlc-small" in offered("ftlab devices tl", 2)
    assert "plain,zipf" in offered("ftlab workloads zi", 2)
    assert "plain,tlc-small" in offered("ftlab characterize tl", 2)
    assert offered("ftlab schemes cost", 2) == ["plain,cost_benefit"]
    assert offered("ftlab papers lsb", 2) == ["plain,lsb-backup"]
    # Bash makes three words of a key and its value, and wants the end of the third; the others have one word.
    assert offered("ftlab run tlc-small --set ftl.gc = co", 6) == ["plain,cost_benefit"]
    assert offered("ftlab run tlc-small --set = ftl.gc = co", 7) == ["plain,cost_benefit"]
    assert "plain,greedy" in offered("ftlab run tlc-small --set ftl.gc =", 5)
    assert offered("ftlab run tlc-small --set ftl.gc=co", 4) == ["plain,ftl.gc=cost_benefit"]
    assert offered("ftlab run tlc-small --set ftl.gc=co", 4, "zsh")[:2] == ["plain", "ftl.gc=cost_benefit"]
    assert offered("ftlab run tlc-small --set timing.copyback = t", 6) == ["plain,true"]
    assert offered("ftlab run tlc-small --set no.such = t", 6) == []
    for shell in ("bash", "zsh", "fish"):
        assert "_FTLAB_COMPLETE" in inside("completion", shell).out
    refused = inside("completion", "csh")
    assert (refused.status, refused.out) == (2, "")
    assert "'bash', 'zsh', 'fish'" in refused.err


def _drives() -> list[tuple[str, ...]]:
    """Keys of a small drive for each translation layer, buffer, non-volatile cache and mapping cache that there is."""
    sizes = {
        "ftl.kind": (),
        "buffer.kind": ("buffer.bytes=256KiB",),
        "nvm.kind": ("nvm.bytes=256KiB",),
        "map_cache.kind": ("map_cache.bytes=64KiB",),
    }
    rows = [row for row in _native.schemes() if row["key"] in sizes]
    assert {row["key"] for row in rows} == set(sizes)
    plain = ("none", "ideal")
    return [(f"{row['key']}={row['name']}", *(() if row["name"] in plain else sizes[row["key"]])) for row in rows]


@pytest.mark.parametrize("keys", _drives(), ids=lambda keys: keys[0])
def test_each_line_of_the_table_is_explained(keys: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    small = ("geometry.blocks_per_plane=64", "geometry.pages_per_block=16", "precondition.kind=none")
    result = ftlab.run(ftlab.Device.load("ideal-page").set(*small, *keys), "uniform", requests=200)
    short.show(result, explain=True)
    lines = capsys.readouterr().out.splitlines()
    headings = {heading for heading, _ in short.facts(result)}
    for heading in headings:
        assert any(line.startswith(heading) for line in lines)
    assert ("merges" in headings) == ("merges" in result.summary)
    assert ("write buffer" in headings) == ("buffer" in result.summary)
    assert ("non-volatile cache" in headings) == ("nvm" in result.summary)


def test_what_padding_does_not_find_is_no_read_of_the_host() -> None:
    keys = ("buffer.kind=bplru", "buffer.bytes=64KiB", "precondition.kind=none", "geometry.pages_per_block=8")
    device = ftlab.Device.load("ideal-page").set("geometry.blocks_per_plane=64", "buffer.padding=always", *keys)
    requests = {"op": ["write", "flush"], "lba": [0, 0], "sectors": [8, 0]}
    summary = ftlab.run(device, requests, verify=True).summary
    assert summary["buffer"]["padding_writes"] == 7
    assert summary["host"]["unmapped_read_pages"] == 0
    requests = {"op": ["write", "read"], "lba": [0, 8], "sectors": [8, 8]}
    assert ftlab.run(device, requests, verify=True).summary["host"]["unmapped_read_pages"] == 1
