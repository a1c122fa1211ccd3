"""The Python package."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ftlab
from ftlab._running import memory_bytes

DEVICE = ftlab.Device.load("ideal-page").set("geometry.blocks_per_plane=64", "precondition.kind=fill")
COLUMNS: dict[str, Any] = {
    "arrival_ns": [0, 100, 200, 300],
    "op": ["write", "read", "trim", "flush"],
    "lba": [0, 0, 8, 0],
    "sectors": [8, 8, 8, 0],
    "stream": [0, 0, 0, 0],
}


def test_changes_make_new_devices() -> None:
    fifo = DEVICE.with_(ftl={"gc": "fifo"}, host={"queue_depth": 4})
    assert (fifo.to_dict()["ftl"]["gc"], DEVICE.to_dict()["ftl"]["gc"]) == ("fifo", "greedy")
    assert DEVICE.set("ftl.logical_pages=3000").logical_bytes == 3000 * 4096
    with pytest.raises(ftlab.ConfigError, match=r"with_\(\.\.\.\): ftl\.gc = .*did you mean \"greedy\""):
        DEVICE.with_(ftl={"gc": "gredy"})
    with pytest.raises(ValueError, match="unknown key"):
        DEVICE.set("ftl.nothing=1")


def test_sections_take_what_python_has() -> None:
    assert DEVICE.with_(timing={"erase_us": np.float32(2000)}).to_dict()["timing"]["erase_us"] == 2000
    for nonsense in (float("nan"), object(), 1j):
        with pytest.raises(ftlab.ConfigError):
            DEVICE.with_(timing={"erase_us": nonsense})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -np.inf, np.float32("nan")])
def test_numbers_that_are_not_finite_are_named(number: float) -> None:
    expected = f"= {float(number)}: expected a finite number$"
    with pytest.raises(ftlab.ConfigError, match=f"^oltp_financial.rewrite_fraction {expected}"):
        ftlab.Workload(kind="oltp_financial", oltp_financial={"theta": 0.9, "rewrite_fraction": number})
    with pytest.raises(ftlab.ConfigError, match=f"^timing.erase_us {expected}"):
        DEVICE.with_(host={"queue_depth": 4}, timing={"erase_us": number})
    with pytest.raises(ftlab.ConfigError, match=rf"^zones\[1\].access_fraction {expected}"):
        ftlab.Workload(kind="zoned", zones=[{"access_fraction": 1}, {"access_fraction": number}])
    with pytest.raises(ftlab.ConfigError, match=rf"^zones\[1\] {expected}"):
        ftlab.Workload(kind="zoned", zones=np.array([0.5, number]))


def test_devices_show_compare_and_travel() -> None:
    assert "64" in repr(DEVICE) or "MiB" in repr(DEVICE)
    assert "<details>" in DEVICE._repr_html_()
    copy = pickle.loads(pickle.dumps(DEVICE))  # noqa: S301 - our own bytes
    assert copy == DEVICE
    assert hash(copy) == hash(DEVICE)
    assert copy != DEVICE.set("ftl.gc=fifo")


def test_workloads_travel() -> None:
    for workload in (
        ftlab.Workload.load("zipf").set("requests=500"),
        ftlab.Workload(kind="uniform", requests=10).scale_time(0.5),
        *(ftlab.Workload.load(name) for name, _ in ftlab._native.presets("workload")),
    ):
        copy = pickle.loads(pickle.dumps(workload))  # noqa: S301 - our own bytes
        assert (copy, copy.name, copy.stand_in) == (workload, workload.name, workload.stand_in)


def test_memory_is_announced_with_the_mapping_cache() -> None:
    drive = ftlab.Device.load("tlc-256g")
    plain = memory_bytes(drive, verify=False)
    units = drive.physical_bytes // 4096
    # A map entry, a spare area, and two bits; blocks and levels of victims take little.
    assert 8.25 * units < plain < 8.5 * units
    assert memory_bytes(drive, verify=True) > plain + 64 * units
    cached = memory_bytes(drive.with_(map_cache={"kind": "dftl", "bytes": "256MiB"}), verify=False)
    # Measured once: 35.7 bytes a unit.
    assert 35.7 * units < cached < 48 * units


def test_what_was_not_measured_is_absent() -> None:
    load = ftlab.Workload(kind="uniform", requests=100, read_fraction=1.0)
    aged = ftlab.run(DEVICE, load).summary["precondition"]
    assert aged["reached"]
    assert "write_amplification" not in aged
    steady = ftlab.run(DEVICE.set("precondition.kind=steady", "precondition.pattern=uniform"), load).summary
    assert steady["precondition"]["write_amplification"] > 1
    assert "write_amplification" not in steady


def test_results_are_frames() -> None:
    result = ftlab.run(DEVICE, ftlab.Workload(kind="uniform", requests=500, read_fraction=0.5), requests_log=True)
    assert result.latency["op"].to_list() == ["all", "read", "write", "trim", "flush"]
    series, requests = result.series, result.requests
    assert series is not None
    assert requests is not None
    assert requests.height == 500
    assert set(requests["op"]) == {"read", "write"}
    latency = requests["end_ns"] - requests["start_ns"]
    assert latency.mean() == pytest.approx(result.summary["latency_ns"]["all"]["mean"], rel=1e-3)
    assert latency.max() == result.summary["latency_ns"]["all"]["max"]
    assert series["requests"][-1] == 500
    assert series["reads"].sum() + series["writes"].sum() == 500
    assert isinstance(requests.to_pandas(), pd.DataFrame)
    assert "write amplification" in repr(result)
    assert "<table>" in result._repr_html_()
    assert result.to_dict() == result.summary
    assert result.to_dict() is not result.summary


def test_without_a_series_there_is_nothing_to_plot() -> None:
    result = ftlab.run(DEVICE, ftlab.Workload(kind="uniform", requests=10), series=None, timing=False)
    assert result.series is None
    assert result.requests is None
    assert result.latency.height == 0
    with pytest.raises(ftlab.ConfigError, match="series"):
        result.plot()


def structured() -> Any:
    kinds = [("arrival_ns", "u8"), ("op", "u1"), ("lba", "u8"), ("sectors", "u4"), ("stream", "u2")]
    return np.array([(0, 1, 0, 8, 0), (100, 0, 0, 8, 0), (200, 2, 8, 8, 0), (300, 3, 0, 0, 0)], dtype=kinds)


@pytest.mark.parametrize(
    "table",
    [
        COLUMNS,
        {name: np.array(values) for name, values in COLUMNS.items()},
        {name: COLUMNS[name] for name in ("op", "lba", "sectors")},
        pl.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS),
        pa.table(COLUMNS),
        structured(),
    ],
    ids=["lists", "arrays", "required", "polars", "pandas", "arrow", "structured"],
)
def test_tables_are_workloads(table: Any) -> None:
    summary = ftlab.run(DEVICE, table, verify=True).summary
    counts = [summary["host"][op] for op in ("writes", "reads", "trims", "flushes")]
    assert (counts, summary["workload"]) == ([1, 1, 1, 1], "table")
    assert summary["verify"]["mismatches"] == 0


@pytest.mark.parametrize("flags", [[1, 1, 0, 0], [True, True, False, False], np.array([1.0, 1.0, 0, 0])])
@pytest.mark.parametrize("made", [dict, pl.DataFrame, pd.DataFrame, pa.table])
def test_tables_say_which_writes_are_fua(made: Any, flags: Any) -> None:
    table = made(COLUMNS | {"fua": flags})
    result = ftlab.run(DEVICE, table, requests_log=True)
    # Drives without a buffer have nothing to do for it.
    plain = ftlab.run(DEVICE, COLUMNS)
    assert result.latency.equals(plain.latency)
    assert result.requests is not None
    assert result.requests.sort("index")["fua"].to_list() == [True, False, False, False]
    sent = ftlab.Session(DEVICE).send(table)
    assert sent.sort("id")["fua"].to_list() == [True, False, False, False]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fua": [0, 2, 0, 0]}, "row 1: fua = 2, expected a whole number from 0 to 1"),
        ({"fua": [0, -1, 0, 0]}, "row 1: fua = -1"),
        ({"fua": ["a", "b", "c", "d"]}, "column fua: expected whole numbers"),
        ({"op": ["write", "raed", "trim", "flush"]}, "raed"),
        ({"op": [1, 0, 2, 9]}, "row 3: op = 9"),
        ({"lba": [0, -8, 0, 0]}, "row 1: lba = -8"),
        ({"lba": [0, 0.5, 0, 0]}, "row 1: lba = 0.5"),
        ({"lba": [0.0, float("nan"), 0, 0]}, "row 1: lba is missing, expected a whole number from 0 to"),
        ({"lba": [0, None, 0, 0]}, "row 1: lba is missing"),
        ({"lba": pl.Series([0, None, 0, 0])}, "row 1: lba is missing"),
        ({"lba": pd.Series([0, 0, None, 0], dtype="Int64")}, "row 2: lba is missing"),
        ({"lba": pa.array([0, 0, 0, None])}, "row 3: lba is missing"),
        ({"op": ["write", None, "trim", "flush"]}, "row 1: op has no name, expected one of read, write"),
        ({"op": np.array(["write", "read", "wrote", "flush"])}, "row 2: op = 'wrote', expected one of read, write"),
        ({"lba": ["a", "b", "c", "d"]}, "lba: expected whole numbers"),
        ({"sectors": [8, 2**33, 8, 0]}, "row 1: sectors"),
        ({"sectors": [8, 8, 8]}, "differ in length"),
        ({"sectors": [[8], [8], [8], [0]]}, "one dimension"),
        ({"sector": [8, 8, 8, 0]}, "unknown column 'sector'"),
        ({"sectors": [0, 8, 8, 0]}, "0"),
        ({"op": "read", "lba": 0, "sectors": 8}, "op: expected one dimension, found 0"),
        ({"lba": [[0], [0, 8], 0, 0]}, "column lba"),
        ({"sectors": [8, 8, 8, 8]}, "row 3: sectors = 8, expected 0: a flush has no size"),
        ({"arrival_ns": [0.0, 1.0, 2.0, 2.0**64]}, r"row 3: arrival_ns = 1\.8446744073709552e\+19, expected"),
        ({"lba": [True, False, True, False]}, "column lba: expected whole numbers, found bool"),
        ({"sectors": np.array([True, True, True, False])}, "column sectors: expected whole numbers, found bool"),
        ({"op": [True, False, True, True]}, "row 0: op has no name"),
    ],
)
def test_wrong_tables_name_the_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ftlab.InputError, match=message):
        ftlab.run(DEVICE, {**COLUMNS, **changes})


@pytest.mark.filterwarnings("error")
def test_a_lazy_frame_is_to_be_computed_first() -> None:
    with pytest.raises(ftlab.InputError, match=r"not computed yet: give its \.collect\(\)"):
        ftlab.run(DEVICE, pl.DataFrame(COLUMNS).lazy())


def test_a_missing_column_and_a_wrong_type() -> None:
    with pytest.raises(ftlab.InputError, match="'lba' is missing"):
        ftlab.run(DEVICE, {"op": ["read"], "sectors": [8]})
    with pytest.raises(ftlab.InputError, match="found int"):
        ftlab.run(DEVICE, 3)


def test_errors_carry_what_was_measured() -> None:
    far = {"op": ["write", "write"], "lba": [0, 10**12], "sectors": [8, 8]}
    with pytest.raises(ftlab.InputError) as caught:
        ftlab.run(DEVICE, far)
    assert caught.value.result is not None
    assert caught.value.result.summary["host"]["completed"] == 1
    assert caught.value.result.partial


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("seed", [-1, 2**64, 10**5000, 1.5, "1", True]),
        ("requests", [0, 2**64, 10**5000, 1.5, "1", True]),
        ("series", ["often", 0, "0ms", 2**65, 10**5000, "9" * 400, "9" * 30 + "s", -5, [1]]),
    ],
)
def test_wrong_options(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ftlab.ConfigError, match=f"^{name} = .*expected"):
            ftlab.run(DEVICE, ftlab.Workload(kind="uniform", requests=10), **{name: value})


def test_wrong_numbers_of_traces(tmp_path: Path) -> None:
    path = tmp_path / "in.spc"
    path.write_text("0,20941264,8192,W,0.551706\n")
    for huge in (2**64, -1, 0.5):
        for reading in ({"skip_bad": huge}, {"volume": huge}, {"volume": [huge]}, {"volume_bytes": huge}):
            with pytest.raises(ftlab.ConfigError, match=f"^{next(iter(reading))} = .*expected a whole number"):
                ftlab.Trace(path, **reading).stats()  # type: ignore[arg-type]  # what users pass
        with pytest.raises(ftlab.ConfigError, match=r"^requests = "):
            ftlab.trace_stats(ftlab.Trace(path), requests=huge)  # type: ignore[arg-type]  # what users pass
        with pytest.raises(ftlab.ConfigError, match=r"^requests = "):
            ftlab.fit(ftlab.Trace(path), requests=huge)  # type: ignore[arg-type]  # what users pass
        with pytest.raises(ftlab.ConfigError, match=r"^seed = "):
            ftlab.Workload(kind="uniform").stats(seed=huge)
        with pytest.raises(ftlab.ConfigError, match=r"^capacity = "):
            ftlab.Workload(kind="uniform").stats(capacity=huge)
    assert ftlab.run(DEVICE, COLUMNS, requests=np.uint64(2)).summary["host"]["requests"] == 2  # type: ignore[arg-type]  # what users pass


def test_workload_by_name_or_path(tmp_path: Path) -> None:
    by_name = ftlab.run(DEVICE, "zipf", requests=50)
    assert by_name.summary == ftlab.run(DEVICE, ftlab.Workload.load("zipf"), requests=50).summary | {
        "wall_seconds": by_name.summary["wall_seconds"]
    }
    file, trace = tmp_path / "mine.toml", tmp_path / "mine.csv"
    file.write_text('[workload]\nkind = "uniform"\nrequests = 30\n')
    trace.write_text("arrival_ns,op,lba,sectors\n0,write,0,8\n5,read,0,8\n")
    assert [ftlab.run(DEVICE, path).summary["host"]["completed"] for path in (file, str(trace))] == [30, 2]
    with pytest.raises(ftlab.ConfigError, match=r'zip: no workload preset .*did you mean "zipf"'):
        ftlab.run(DEVICE, "zip")
    with pytest.raises(ftlab.ConfigError, match="the trace of the run, which a request log would replace"):
        ftlab.run(DEVICE, trace, requests_log=trace)


def test_presets_are_frames() -> None:
    drives, loads = ftlab.devices(), ftlab.workloads()
    assert set(drives["name"]) == {name for name, _ in ftlab._native.presets("device")}
    assert (drives["logical_bytes"] <= drives["physical_bytes"]).all()
    assert ftlab.Device(drives["name"][0]) == ftlab.Device.load(drives["name"][0])
    assert loads.filter(pl.col("name") == "like-financial")["stands_for"][0] is not None


def test_write_amplification_is_absent_where_nothing_was_written() -> None:
    load = ftlab.Workload(kind="uniform", requests=100)
    assert ftlab.run(DEVICE, load).write_amplification == 1.0
    assert ftlab.run(DEVICE, load.set("read_fraction=1.0")).write_amplification is None


def test_device_by_name_or_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(DEVICE.to_toml())
    load = ftlab.Workload(kind="sequential", requests=10)
    assert ftlab.run(path, load).summary["host"]["writes"] == 10
    assert ftlab.run("flexonenand", load).summary["device"] == "flexonenand"
    with pytest.raises(ftlab.ConfigError, match="no device preset"):
        ftlab.run("nothing", load)


def test_an_erase_waits_for_newer_data_on_other_dies_and_for_nothing_else() -> None:
    """Times by hand: both dies are free at 900 us, erase a victim without live pages in 1,000 us, and program."""
    device = ftlab.Device.parse("""
        geometry = { channels = 2, ways = 1, blocks_per_plane = 6, pages_per_block = 4, page_bytes = 512 }
        timing = { bus_mb_per_s = 0, read_us = 10, program_us = 100, erase_us = 1000 }
        ftl = { logical_pages = 8, striping = "dynamic" }
        precondition = { kind = "fill" }
    """)
    lba = [7, 4, 4, 7, 1, 6, 1, 1, 3, 4, 1, 4, 0, 3, 2, 5, 3, 4, 0, 0]
    table = {"op": ["write"] * len(lba), "lba": lba, "sectors": [1] * len(lba), "arrival_ns": [0] * len(lba)}
    result = ftlab.run(device, table, requests_log=True)
    assert result.requests is not None
    ends = result.requests.sort("index")["end_ns"].to_list()
    assert ends[-4:] == [900_000, 900_000, 2_000_000, 2_000_000]


def test_write_amplification_of_a_run_that_drains_is_told_with_and_without_that() -> None:
    result = ftlab.run("tlc-aged", ftlab.Workload.load("zipf"), requests=20_000)
    (told,) = (warning for warning in result.warnings if warning["code"] == "not_steady")
    first, later, course, whole = map(float, re.findall(r"[0-9]+\.[0-9]{3}", told["text"])[:4])
    assert first < course < later < whole
    assert whole == pytest.approx(result.summary["write_amplification"]["total"], abs=5e-4)


@pytest.mark.parametrize("change", ["timing.read_us=-5", "host.overhead_us=-1.5", "geometry.page_bytes=-4096"])
def test_what_cannot_be_negative_says_so(change: str) -> None:
    with pytest.raises(ftlab.ConfigError, match="must be 0 or more"):
        ftlab.Device("ideal-page").set(change)
