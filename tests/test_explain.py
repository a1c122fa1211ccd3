"""Where the time of slow requests went: `ftlab explain`, `Result.explain`, the section of reports, the event log."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ftlab
from conftest import inside, run_small
from ftlab import _explaining as explaining
from ftlab._units import time_text
from ftlab.cli import bars

Row = tuple[float, str, int, int]

# Pages of 4 KiB cross a bus in 10 us, are read in 50 and programmed in 200.
BASE = """
[geometry]
channels = 1
ways = 1
blocks_per_plane = 32
pages_per_block = 8
page_bytes = 4096
[timing]
read_us = 50
program_us = 200
erase_us = 1000
bus_mb_per_s = 409.6
copyback = false
[ftl]
over_provisioning = 0.33
striping = "static"
[precondition]
kind = "fill"
"""


def drive(**changes: Mapping[str, Any]) -> ftlab.Device:
    return ftlab.Device.parse(BASE, "base").with_(**changes)


def table(rows: Iterable[Row]) -> pl.DataFrame:
    """Requests: arrival in microseconds, operation, page, and sectors."""
    columns = list(zip(*rows, strict=True))
    return pl.DataFrame(
        {
            "arrival_ns": [round(us * 1000) for us in columns[0]],
            "op": columns[1],
            "lba": [8 * page for page in columns[2]],
            "sectors": columns[3],
        },
        schema_overrides={"arrival_ns": pl.UInt64, "lba": pl.UInt64, "sectors": pl.UInt32},
    )


def sparse(op: str, count: int, sectors: int = 8) -> list[Row]:
    """Pages all over the drive, each when the one before has long ended."""
    return [(at * 20_000, op, at * 61 % 160, sectors) for at in range(count)]


def hot(count: int) -> list[Row]:
    """Reads of one die of two, more than it can do, and of the other one now and then."""
    return [(at * 53, "read", 2 * (at * 7 % 60) + (at % 10 == 0), 8) for at in range(count)]


def strided(stride: int, count: int, gap_us: float) -> list[Row]:
    """Reads of every so many pages."""
    return [(at * gap_us, "read", at * stride % 12_288, 8) for at in range(count)]


# A drive as in MQSim: 8 channels with 8 dies each, and addresses that say at which one a page is.
MQSIM = drive(geometry={"channels": 8, "ways": 8}, host={"outstanding": 10_000})
EIGHT = drive(geometry={"channels": 2, "ways": 4})

PLANTED: dict[str, tuple[ftlab.Device, list[Row], str]] = {
    "long collection": (drive(), sparse("write", 300), "wait_gc"),
    "one hot die": (drive(geometry={"channels": 2}), hot(400), "wait_read"),
    "read behind program": (
        drive(),
        [(at * 1000 + late, op, page, 8) for at in range(40) for late, op, page in ((0, "write", 0), (9, "read", 9))],
        "wait_program",
    ),
    "chain of read-modify-writes": (
        drive(),
        [(at * 20_000, "write", 3, 1) for at in range(3) for _ in range(8)],
        "wait_program",
    ),
    "mapping misses": (drive(map_cache={"kind": "dftl", "bytes": 256}), sparse("read", 100), "wait_map"),
    "link": (drive(host={"link_mb_per_s": 4.0}), sparse("read", 50), "service_link"),
    "burst": (drive(), [(0, "read", at, 8) for at in range(60)], "wait_read"),
    "buses": (
        drive(geometry={"ways": 8}, timing={"bus_mb_per_s": 8.192}),
        [(0, "read", at, 8) for at in range(8)],
        "wait_bus",
    ),
    "eviction": (drive(buffer={"kind": "lru", "bytes": "64KiB"}), sparse("write", 40), "wait_cache_flush"),
    "a read that a program on another die holds up": (
        drive(geometry={"channels": 2}, ftl={"striping": "dynamic"}, timing={"read_us": 2000}),
        [(0, "read", 1, 8), (0, "write", 1, 4), (1, "read", 0, 8)],
        "wait_order",
    ),
}


# What the parts of the latency do not tell apart.
FOUND: dict[str, tuple[ftlab.Device, list[Row], str, str]] = {
    "one hot die": (*PLANTED["one hot die"][:2], "hot_die", "Die 0 (channel 0) is hot: "),
    "burst": (*PLANTED["burst"][:2], "burst", " in a burst: 59 others that were in the drive had come at"),
    "burst on 8 dies": (EIGHT, [(5_000, "read", at, 8) for at in range(160)], "burst", "spread over "),
    "stride on 64 dies": (MQSIM, strided(64, 300, 20), "hot_die", "Die 0 (channel 0) is hot: 100 % of the time"),
    "other stride on 64 dies": (
        MQSIM,
        [(us, op, page + 11, sectors) for us, op, page, sectors in strided(64, 300, 20)],
        "hot_die",
        "(channel 3) is hot: 100 % of the time",
    ),
    "chain of read-modify-writes": (
        *PLANTED["chain of read-modify-writes"][:2],
        "read_modify_write",
        "behind programs of other requests in read-modify-writes",
    ),
    "reads behind read-modify-writes": (
        drive(),
        [(at * 2000 + late, op, page, 8 if op == "read" else 1)
         for at in range(40) for late, op, page in ((0, "write", 0), (9, "read", 9))],
        "read_modify_write",
        "100 % of the time behind other requests was behind read-modify-writes",
    ),
    "read behind program": (*PLANTED["read behind program"][:2], "", "behind programs of other requests and"),
    "overload without a burst": (EIGHT, strided(1, 1_500, 6.0), "", "behind reads of other requests"),
    "long collection": (*PLANTED["long collection"][:2], "", ""),
    # A request comes when another one ends: as many are always there.
    "a closed loop": (
        EIGHT.with_(host={"arrival": "closed", "queue_depth": 64}),
        [(0, "read", at, 8) for at in range(160)],
        "",
        "behind reads of other requests",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_what_reads_the_same_is_told_apart(name: str) -> None:
    device, rows, code, words = FOUND[name]
    found = ftlab.run(device, table(rows), requests_log=True).explain(slowest=max(len(rows) // 20, 1))
    codes = [finding.code for finding in found.findings if finding.code]
    # A row of writes to one page is a burst as well.
    expected = ["burst", code] if name.startswith("chain") else [code] if code else []
    assert codes == expected, (codes, found.words)
    assert words in found.words
    assert [finding["code"] for finding in found.to_dict()["findings"]] == codes


def test_the_die_of_a_request_is_that_of_its_commands(tmp_path: Path) -> None:
    """Against the log of commands: who waits for one die waits for what that one did meanwhile."""
    path = tmp_path / "events.json"
    rows = [(at * 8.0, "read", (at * 2_654_435_761 >> 7) % 160, 8) for at in range(400)]
    log = ftlab.run(EIGHT, table(rows), events=path, requests_log=True).requests
    assert log is not None
    commands = [
        event["args"]
        for event in json.loads(path.read_text())["traceEvents"]
        if event["ph"] == "X" and "page" in event["args"]
    ]
    # Blocks of 32 on each die, pages of 8.
    die_of = {command["request"]: command["page"] // (32 * 8) for command in commands}
    waited = log.filter(pl.col("die_wait_ns") > 0)
    assert waited.height > 50
    assert len(set(waited["longest_wait_die"])) == 8
    assert waited["longest_wait_die"].to_list() == [die_of[index] for index in waited["index"]]
    waits = [
        f"{part.name}_ns" for part in explaining.parts() if part.name in {"wait_read", "wait_program", "wait_order"}
    ]
    # A die that holds data for the bus is waited for as well.
    behind, at_die = waited.select(pl.sum_horizontal(waits)).to_series(), waited["die_wait_ns"]
    assert ((behind <= at_die) & (at_die <= behind + waited["wait_bus_ns"])).all()
    assert ((behind < at_die).any(), (behind == at_die).any()) == (True, True)
    assert (log["update_wait_ns"] == 0).all()
    assert (log["longest_wait_die"].is_null() == (log["die_wait_ns"] == 0)).all()
    assert log["longest_wait_die"].null_count() > 0


def test_the_table_of_dies_is_printed(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ("--workload", "uniform", "--requests", "3000", "--set", "workload.read_fraction=0.4")
    ran = run_small(*words, "--set", "geometry.channels=4", "--set", "geometry.ways=2", "--out", out, "--requests-log")
    assert ran.status == 0, ran.err
    told = inside("explain", out, "--slowest", "200").out
    found = ftlab.explain(out, slowest=200)
    assert found.dies["share"].sum() == pytest.approx(1)
    assert found.dies["channel"].to_list() == [die // 2 for die in found.dies["die"]]
    top = found.dies.row(0, named=True)
    assert f"{top['share'] * 100:.1f} %" in told.split("longest, and how long:")[1]
    assert f"{found.dies.height - 5} others" in told
    # A log alone knows its dies, and no channels; one of an older ftlab knows neither.
    assert ftlab.explain(found.requests).dies["channel"].null_count() == ftlab.explain(found.requests).dies.height
    older = ftlab.explain(found.requests.drop("longest_wait_die", "die_wait_ns", "update_wait_ns"))
    assert (older.dies.height, older.findings) == (0, ())


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_cause_is_named(name: str) -> None:
    device, rows, cause = PLANTED[name]
    result = ftlab.run(device, table(rows), requests_log=True)
    count = max(len(rows) // 20, 1)
    request = {"request": 2} if "another die" in name else {"slowest": count}
    found = result.explain(**request)
    assert found.parts["part"][0] == cause, found.parts
    assert explaining._WORDS[cause] in found.words
    if cause == "wait_order":
        [row] = found.requests.iter_rows(named=True)
        assert row["update_wait_ns"] == pytest.approx(row["wait_order_ns"] + row["wait_program_ns"])


def test_merges_are_named() -> None:
    text = BASE.replace('striping = "static"', 'kind = "bast"')
    result = ftlab.run(ftlab.Device.parse(text, "layer"), table(sparse("write", 300)), requests_log=True)
    assert result.explain(slowest=10).parts["part"][0] == "wait_merge"


def test_parts_sum_to_the_latency_in_the_log(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ("--workload", "uniform", "--requests", "3000", "--set", "workload.read_fraction=0.4")
    small = ("--set", "geometry.channels=2", "--set", "host.arrival=open", "--set", "workload.rate_iops=2500")
    ran = run_small(*words, *small, "--out", out, "--requests-log", "--json")
    assert ran.status == 0, ran.err
    log = pl.read_parquet(out / "requests.parquet")
    columns = [f"{part.name}_ns" for part in explaining.parts()]
    sums = log.select(sum=pl.sum_horizontal(columns))["sum"].to_numpy()
    assert np.array_equal(np.floor(sums + 1e-6), log["latency_ns"].to_numpy())
    # Asking for the log changes nothing that was measured.
    plain = run_small(*words, *small, "--json").json
    for key in ("latency_ns", "flash", "write_amplification", "parallelism", "simulated_ns"):
        assert ran.json[key] == plain[key], key

    told = inside("explain", out)
    assert told.status == 0, told.err
    assert told.out.startswith("The 20 slowest of 3,000 requests took ")
    assert max(map(len, told.out.splitlines()[1:])) <= 140
    for word in ("service_transfer", "wait_gc", "up to p50", "p99 to p99.9", "latency"):
        assert word in told.out
    assert inside("explain", out / "requests.parquet").out == told.out
    tail = inside("explain", out, "--percentile", "99", "--op", "read", "--json").json
    reads = log.filter(pl.col("op") == "read").sort("latency_ns", "index", descending=[True, False])
    slow = reads.head(reads.height - int(np.ceil(0.99 * reads.height)))
    assert tail["requests"][0]["index"] == slow["index"][0]
    by_part = {row["part"]: row for row in tail["parts"]}
    assert by_part["wait_gc"]["mean_ns"] == pytest.approx(slow["wait_gc_ns"].mean())
    assert sum(row["share"] for row in tail["parts"]) == pytest.approx(1)
    assert sum(group["requests"] for group in tail["groups"]) == reads.height
    one = inside("explain", out, "--request", "17")
    assert "by percentile" in told.out
    assert "by percentile" not in one.out
    assert one.out.startswith("Request 17 (")

    page = ftlab.report(out)
    text = Path(page).read_text()
    assert "Why requests are slow" in text
    assert f"The {slow_count(log, 99)} requests above p99" in text


def slow_count(log: pl.DataFrame, percentile: int) -> int:
    return log.height - math.ceil(Fraction(percentile, 100) * log.height)


def slow_log(count: int) -> pl.DataFrame:
    """A log whose requests are the slower the later they came, all by the same part."""
    latency = np.arange(1, count + 1)
    zeros = {f"{part.name}_ns": np.zeros(count) for part in explaining.parts()}
    return pl.DataFrame({"index": latency - 1, "op": ["read"] * count, "latency_ns": latency, **zeros}).with_columns(
        service_read_ns=pl.col("latency_ns").cast(float)
    )


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_percentiles_are_exact(count: int) -> None:
    for tenths in range(1, 1000):
        expected = math.ceil(Fraction(tenths, 1000) * count)
        assert explaining._rank(tenths / 10, count) == expected, tenths
    log = slow_log(count)
    for tenths in (1, 70, 290, 553, 990, 999):
        found = ftlab.explain(log, percentile=tenths / 10)
        assert found.requests.height == count - math.ceil(Fraction(tenths, 1000) * count)
    sizes = [share * count // 1000 for share in (500, 400, 90, 9, 1)]
    found = ftlab.explain(log).groups.filter(pl.col("to") <= 99.9)["requests"].to_list()
    assert [*found, count - sum(found)] == sizes


def test_a_percentile_is_that_of_the_summary() -> None:
    rows = [(100.0 * at, "read", at % 100, 1 + at % 97) for at in range(2_000)]
    result = ftlab.run(drive(), table(rows), requests_log=True)
    log, summary = result.requests, result.summary["latency_ns"]["all"]
    assert log is not None
    for name, percentile in {"p50": 50, "p90": 90, "p99": 99, "p999": 99.9}.items():
        count = result.explain(percentile=percentile).requests.height
        below = np.sort(log["latency_ns"].to_numpy())[log.height - count - 1]
        # Those of the summary have three digits.
        assert below == pytest.approx(summary[name], rel=1e-3), name


def chart_of(log: pl.DataFrame, folder: Path, *options: str) -> list[str]:
    log.write_parquet(folder / "requests.parquet")
    told = inside("explain", folder, *options)
    assert told.status == 0, told.err
    found = told.out.split(":\n\n")[1].split("\n\n")[0].splitlines()
    assert max(map(len, found)) <= 100
    return found


def test_a_chart_has_a_bar_for_each_group(tmp_path: Path) -> None:
    # From 1 to 100 us, and what is above p99 waits for half of the time.
    log = (
        slow_log(10_000)
        .with_columns(latency_ns=pl.col("latency_ns") * 10)
        .with_columns(
            service_read_ns=pl.col("latency_ns") * pl.when(pl.col("index") < 9_900).then(1.0).otherwise(0.5),
            wait_gc_ns=pl.col("latency_ns") * pl.when(pl.col("index") < 9_900).then(0.0).otherwise(0.5),
        )
    )
    *bars, scale, legend = chart_of(log, tmp_path)
    assert [bar.split("  ")[0] for bar in bars] == list(explaining.group_names(ftlab.explain(log).groups))
    assert legend == "█ service_read   ▓ wait_gc"
    assert scale.split("|")[1:]
    drawn = ["".join(letter for letter in bar if letter in "█▓▒░·") for bar in bars]
    assert [set(bar) for bar in drawn] == [{"█"}] * 3 + [{"█", "▓"}] * 3
    assert all(abs(bar.count("█") - bar.count("▓")) <= 1 for bar in drawn[3:])
    assert sorted(map(len, drawn)) == list(map(len, drawn))
    # The longest has the width, and half of the requests have bars that can be seen.
    assert 5 < len(drawn[0]) < len(drawn[-1])
    assert "Mean latency by percentile" not in inside("explain", tmp_path, "--json").out


def test_lengths_are_logarithmic_where_ranges_differ_tenfold() -> None:
    def length(times: list[float]) -> list[int]:
        names = [str(time) for time in times]
        found = bars.lines(names, times, {"part": times}, width=80, ascii_only=True)
        return [line.count("#") for line in found][: len(times)]

    one, two = length([100.0, 400.0])
    assert two == pytest.approx(4 * one, abs=3)
    one, two, three = length([100.0, 10_000.0, 1_000_000.0])
    assert two - one == pytest.approx(three - two, abs=1)
    assert one >= 10
    assert length([0.0, 100.0])[0] == 0
    assert length([0.0]) == [0]


def test_a_linear_scale_has_times_whatever_the_longest_is() -> None:
    for longest in np.linspace(1_000.0, 10_000.0, 181):
        *_, scale, _ = bars.lines(["a", "b"], [longest / 2, longest], {"x": [1.0, 1.0]}, width=80, ascii_only=True)
        assert 2 <= scale.count("|") <= 5, longest


def test_a_single_request_is_explained_in_the_singular(tmp_path: Path) -> None:
    run_small("--workload", "uniform", "--requests", "9", "--out", tmp_path / "out", "--requests-log")
    asked = (("--slowest", "1"), ("--percentile", "99"))
    told = [inside("explain", tmp_path / "out", *options).out for options in asked]
    assert told[0].startswith("The slowest of 9 requests took ")
    assert told[1].startswith("The slowest of the requests above p99, of 9, took ")


def test_a_chart_fits_into_a_narrow_terminal_of_ascii() -> None:
    names, times = ["up to p50", "p99.9 to p99.99"], [123_456.0, 98_765_432.0]
    parts = {f"a_long_name_of_part_{place}": [time / 7 for time in times] for place in range(7)}
    lines = list(bars.lines(names, times, parts, width=80, ascii_only=True))
    assert max(map(len, lines)) <= 80
    assert all(line.isascii() for line in lines)
    # Seven parts, of which four have a sign of their own.
    assert {letter for line in lines[:2] for letter in line} >= set("#=+-.")
    assert lines[1].count(".") == pytest.approx(3 * lines[1].count("#"), abs=6)
    assert "other" in lines[-1]


def test_parts_of_no_share_are_left_out(tmp_path: Path) -> None:
    log = slow_log(1_000).with_columns(wait_bus_ns=pl.lit(0.0001), wait_link_ns=pl.col("latency_ns") * 0.01)
    log.write_parquet(tmp_path / "requests.parquet")
    told = inside("explain", tmp_path).out
    assert "wait_link" in told
    assert "wait_bus" not in told
    assert "wait_bus" in inside("explain", tmp_path, "--json").out


def test_a_long_wait_at_the_host_is_told() -> None:
    # A burst, and one request at a time: each is as fast as alone.
    burst: list[Row] = [(0, "read", at, 8) for at in range(100)]
    found = ftlab.run(drive(host={"outstanding": 1}), table(burst), requests_log=True).explain()
    assert found.host_wait_ns > found.requests["latency_ns"].mean()
    waited = (found.requests["start_ns"] - found.requests["arrival_ns"]).mean()
    assert found.to_dict()["host_wait_ns"] == pytest.approx(waited)
    assert f"they waited {time_text(found.host_wait_ns)} at the host on average. That is no part" in found.words
    alone = ftlab.explain(found.requests, request=7)
    assert "Before that, it waited" in alone.words
    # Inside the drive, waiting is latency.
    found = ftlab.run(drive(), table(burst), requests_log=True).explain()
    assert found.host_wait_ns == 0
    assert "at the host" not in found.words


def test_requests_that_took_no_time_have_no_reason(tmp_path: Path) -> None:
    """Trims of a drive that keeps them in memory, and writes that a buffer takes."""
    rows = [{"arrival_ns": 1000 * at, "op": "write", "lba": 8 * at, "sectors": 8} for at in range(60)]
    # The last to arrive, which has ended by its start.
    rows.append({"arrival_ns": 900_000_000, "op": "trim", "lba": 0, "sectors": 8})
    log = ftlab.run(drive(), pl.DataFrame(rows), requests_log=True).requests
    trim = ftlab.explain(log, op="trim")
    assert trim.words.endswith(" took 0 ns."), trim.words
    assert not trim.findings
    writes = [finding.code for finding in ftlab.explain(log, slowest=60).findings]
    assert [finding.code for finding in ftlab.explain(log, slowest=61).findings] == writes
    buffer = {"kind": "lru", "bytes": 1 << 20}
    out = tmp_path / "out"
    ftlab.run(drive(buffer=buffer), pl.DataFrame(rows[:50]), requests_log=True, out=out)
    ran = inside("explain", out)
    assert ran.status == 0
    assert "Traceback" not in ran.err
    assert "0 ns" in ran.out


def test_a_log_with_what_is_no_time_is_refused(tmp_path: Path) -> None:
    log = ftlab.run("ideal-page", "uniform", requests=10, requests_log=True).requests
    for wrong in (float("nan"), None, "long"):
        spoilt = log.with_columns(wait_gc_ns=pl.lit(wrong))
        spoilt.write_parquet(tmp_path / "requests.parquet")
        for given in (tmp_path, spoilt):
            with pytest.raises(ftlab.InputError, match="column wait_gc_ns has what is no time"):
                ftlab.explain(given)
    with pytest.raises(ftlab.InputError, match="the log has no column sectors"):
        ftlab.explain(log.drop("sectors"), request=0)
    with pytest.raises(ftlab.InputError, match="request 3 is there 2 times: the log is of several runs"):
        ftlab.explain(pl.concat([log, log]), request=3)


def test_one_die_is_said_without_contradiction() -> None:
    """All who wait do so at one die, at one time."""
    static = drive(geometry={"channels": 2, "ways": 2})
    rows: list[Row] = [(3000.0 * at, "read", at * 7 % 600, 8) for at in range(300)]
    rows += [(600_000.5, "read", 4 * at, 8) for at in range(60)]
    told = ftlab.run(static, table(sorted(rows)), requests_log=True).explain()
    [one_die] = [finding.text for finding in told.findings if finding.code == "one_die"]
    assert one_die.endswith("was at die 0 (channel 0). No request of the run waited longest at another.")


def test_what_may_mislead_about_the_run_is_said(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run_small("--workload", "uniform", "--requests", "50", "--out", out, "--requests-log").status == 0
    summary = json.loads((out / "summary.json").read_text())
    [warning] = summary["warnings"]
    assert warning["code"] == "few_samples"
    assert inside("explain", out).err == f"warning: {warning['text']} (few_samples)\n"
    assert json.loads(inside("explain", out, "--json").out)["warnings"] == summary["warnings"]
    (out / "summary.json").write_text(json.dumps({**summary, "partial": True}))
    assert inside("explain", out / "requests.parquet").err.startswith("warning: the run is partial: it ended before")
    found = ftlab.explain(out)
    assert found.partial
    assert found.to_dict()["partial"]
    # A log by itself says nothing of its run.
    assert not ftlab.explain(pl.read_parquet(out / "requests.parquet")).warnings
    result = ftlab.run("ideal-page", "uniform", requests=50, requests_log=True)
    found = result.explain()
    assert list(found.warnings) == result.warnings != []
    assert not found.partial
    for wrong in ("{", "[]", '{"warnings": [1]}'):
        (out / "summary.json").write_text(wrong)
        ran = inside("explain", out)
        assert (ran.status, ran.out) == (2, "")
        assert "summary.json: expected what `ftlab run --out` wrote" in ran.err


@pytest.mark.long
def test_what_cannot_be_explained(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run_small("--workload", "uniform", "--requests", "50", "--out", out).status == 0

    def refused(*arguments: str | Path) -> str:
        ran = inside("explain", *arguments)
        assert (ran.status, ran.out) == (2, "")
        assert "Traceback" not in ran.err
        return ran.err

    assert "has no requests.parquet: run it again with --out DIR --requests-log" in refused(out)
    assert "does not exist" in refused(tmp_path / "nowhere")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "store.json").write_text("{}")
    assert "is the store of a study, which keeps no request log" in refused(tmp_path / "store")
    pl.DataFrame({"index": [0], "op": ["read"], "latency_ns": [5]}).write_parquet(out / "requests.parquet")
    assert "has no column service_overhead_ns: run it again" in refused(out)
    (out / "requests.parquet").write_bytes(b"nothing")
    assert "cannot be read as a request log" in refused(out)
    assert run_small("--workload", "uniform", "--requests", "50", "--out", out, "--requests-log").status == 0
    assert "request 50 is not among the 50 requests that have completed: numbers are from 0 to 49" in refused(
        out, "--request", "50"
    )
    assert "percentile = 100.0: expected a number above 0 and below 100" in refused(out, "--percentile", "100")
    assert "slowest = 0: expected at least 1" in refused(out, "--slowest", "0")
    assert "give one of slowest, percentile, request" in refused(out, "--slowest", "5", "--request", "1")
    assert "no reads have completed" in refused(out, "--op", "read")
    log = out / "requests.parquet"
    for wrong in ({"request": "a"}, {"request": [1, 2]}, {"slowest": "3"}, {"slowest": True}, {"percentile": "99"}):
        with pytest.raises(ftlab.ConfigError, match=r"expected a (whole )?number"):
            ftlab.explain(log, **wrong)  # type: ignore[arg-type]  # what a user may write
    result = ftlab.run("ideal-page", "uniform", requests=10)
    with pytest.raises(ftlab.ConfigError, match="run it with requests_log=True"):
        result.explain()


def test_every_part_has_its_words() -> None:
    assert set(explaining._WORDS) == {part.name for part in explaining.parts()}


def test_events_have_requests_and_arrows(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    rows = [(0.0, "write", 0, 8), (30.0, "read", 9, 8), (35.0, "read", 10, 8)]
    ftlab.run(drive(), table(rows), events=path)
    events = json.loads(path.read_text())["traceEvents"]
    requests = [event for event in events if event["ph"] == "X" and event["cat"] == "request"]
    assert sorted((event["ts"], event["dur"]) for event in requests) == [(0, 210), (30, 240), (35, 295)]
    [first] = [event for event in requests if event["args"]["request"] == 1]
    shown = {key: value for key, value in first["args"].items() if key.endswith("_us")}
    assert shown == {"service_read_us": 50, "service_transfer_us": 10, "wait_program_us": 180}
    # No two requests overlap on a track.
    assert len({event["tid"] for event in requests}) == 3
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert set(starts) == set(ends)
    assert len(starts) == 3
    commands = [event for event in events if event["ph"] == "X" and "page" in event["args"]]
    assert {command["args"]["request"] for command in commands} == {0, 1, 2}
    counters = [event for event in events if event["ph"] == "C"]
    inside_drive = [(event["ts"], event["args"]["requests"]) for event in counters if "requests" in event["args"]]
    assert inside_drive == [(0, 1), (30, 2), (35, 3), (210, 2), (270, 1), (330, 0)]


def test_events_of_the_slowest_are_those_of_all_meanwhile(tmp_path: Path) -> None:
    aged = ftlab.Device.load("ideal-page").set("geometry.blocks_per_plane=64", "geometry.pages_per_block=16")
    aged = aged.set("precondition.kind=fill", "ftl.over_provisioning=0.2")
    work = ftlab.Workload(kind="uniform", requests=3_000, read_fraction=0.5, seed=3)
    everything, slowest = tmp_path / "all.json", tmp_path / "slowest.json"
    result = ftlab.run(aged, work, events=everything, requests_log=True)
    again = ftlab.run(aged, work, events=slowest, events_slowest=4)
    assert {**again.summary, "wall_seconds": 0} == {**result.summary, "wall_seconds": 0}
    assert result.requests is not None
    log = result.requests.sort("latency_ns", descending=True, maintain_order=True).head(4)
    spans = [(row["start_ns"] / 1e3, row["end_ns"] / 1e3) for row in log.iter_rows(named=True)]
    events = {path: json.loads(path.read_text())["traceEvents"] for path in (everything, slowest)}

    def meanwhile(event: Mapping[str, Any]) -> bool:
        # Whole nanoseconds, but for the numbers of JSON.
        return any(event["ts"] < end - 1e-4 and event["ts"] + event["dur"] > start + 1e-4 for start, end in spans)

    kept = [{key: each[key] for key in ("name", "ts", "dur", "cat")} for each in events[slowest] if each["ph"] == "X"]
    expected = [
        {key: each[key] for key in ("name", "ts", "dur", "cat")}
        for each in events[everything]
        if each["ph"] == "X" and meanwhile(each)
    ]
    assert kept == expected
    assert len(kept) < len([each for each in events[everything] if each["ph"] == "X"]) / 4
    ranks = {
        each["args"]["request"]: each["args"]["slowest"]
        for each in events[slowest]
        if "slowest" in each.get("args", {})
    }
    assert ranks == {index: rank for rank, index in enumerate(log["index"], 1)}
    # The last number of free blocks is that of the summary's series.
    free = [each["args"]["blocks"] for each in events[everything] if each["ph"] == "C" and "blocks" in each["args"]]
    assert result.series is not None
    assert free[-1] == result.series["free_blocks"][-1]


def test_events_of_the_slowest_need_events() -> None:
    with pytest.raises(ftlab.ConfigError, match="events_slowest = 3: says what events"):
        ftlab.run(drive(), table([(0.0, "write", 0, 8)]), events_slowest=3)
    assert "events_slowest = 2" in run_small("--workload", "uniform", "--events-slowest", "2").err


@pytest.mark.long
def test_planes_that_work_independently_are_called_planes(tmp_path: Path) -> None:
    planes = drive(geometry={"planes": 2}, timing={"independent_planes": True})
    rows: list[Row] = [(0, "read", at, 8) for at in range(60)]
    out = tmp_path / "run"
    ftlab.run(planes, table(rows), requests_log=True, out=out)
    assert ftlab.explain(out).die_name == "plane"
    told = inside("explain", out).out
    assert "\nThe plane that a request waited at longest, and how long:\n\nplane " in told


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ftl": {"kind": "bast"}},
        {"ftl": {"kind": "fast"}},
        {"ftl": {"kind": "last"}},
        {"cell": {"kind": "mlc"}, "lsb_backup": {"kind": "copy"}},
        {"power": {"trim": "flush"}},
        {"precondition": {"kind": "fill"}},
    ],
    ids=json.dumps,
)
def test_free_blocks_of_the_viewer_are_those_of_the_series(changes: dict[str, Any], tmp_path: Path) -> None:
    shape = {"blocks_per_plane": 64, "pages_per_block": 16, "page_bytes": 4096}
    ftl = {"over_provisioning": 0.6} | changes.get("ftl", {})
    device = ftlab.Device.load("ideal-page").with_(**changes | {"geometry": shape, "ftl": ftl})
    rng = np.random.default_rng(1)
    rows = {"op": rng.choice(["w"] * 9 + ["t"], 3000), "lba": 8 * rng.integers(0, 600, 3000), "sectors": [8] * 3000}
    path = tmp_path / "events.json"
    result = ftlab.run(device, rows, events=path, series=100)
    events = json.loads(path.read_text())["traceEvents"]
    counts = [event["args"]["blocks"] for event in events if event["ph"] == "C" and event["name"] == "free blocks"]
    assert result.series is not None
    assert all(0 <= count <= 64 for count in counts)
    assert counts[-1] == result.series["free_blocks"][-1]
