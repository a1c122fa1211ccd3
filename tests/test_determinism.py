"""The same inputs give the same bytes, whatever else happens."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ftlab
from conftest import run_small

DEVICE = ftlab.Device.load("ideal-page").set("geometry.blocks_per_plane=128", "ftl.gc=d_choices")
LOAD = ftlab.Workload(kind="zipf", requests=20_000, read_fraction=0.3)


def document(result: ftlab.Result) -> str:
    summary = result.to_dict()
    del summary["wall_seconds"]
    return json.dumps(summary)


def test_repeated_runs_are_byte_identical() -> None:
    options = ("--workload", "mix", "--requests", "3000", "--json", "--set", "ftl.gc=random")
    first, second = (run_small(*options).out.splitlines() for _ in range(2))
    different = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    assert all("wall_seconds" in line for line, _ in different)
    assert len(different) <= 1


def test_seeds_make_a_difference() -> None:
    assert document(ftlab.run(DEVICE, LOAD, seed=1)) != document(ftlab.run(DEVICE, LOAD, seed=2))


def test_logs_do_not_change_the_run(tmp_path: Path) -> None:
    plain = ftlab.run(DEVICE, LOAD, series=None)
    logged = ftlab.run(DEVICE, LOAD, events=tmp_path / "events.json", requests_log=tmp_path / "log.parquet", series=100)
    assert document(plain) == document(logged)


def test_threads_beside_a_run_do_not_change_it() -> None:
    alone = document(ftlab.run(DEVICE, LOAD))
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: document(ftlab.run(DEVICE, LOAD)), range(8)))
    assert set(together) == {alone}


@pytest.mark.long
def test_the_interpreter_goes_on_while_a_run_is_simulated() -> None:
    long = ftlab.Workload(kind="uniform", requests=3_000_000)
    ticks = 0
    done = threading.Event()

    def run() -> None:
        ftlab.run("ideal-page", long, timing=False, series=None)
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not done.is_set():
        ticks += 1
        time.sleep(0.001)
    thread.join()
    assert ticks > 20


def test_a_workload_states_its_own_seed() -> None:
    seeded = LOAD.set("seed=5")
    stated = ftlab.run(DEVICE, seeded)
    assert document(stated) == document(ftlab.run(DEVICE, seeded))
    assert stated.summary["host"]["reads"] != ftlab.run(DEVICE, LOAD).summary["host"]["reads"]


@pytest.mark.parametrize("name", ["uniform", "zipf"])
def test_devices_and_workloads_survive_a_round_trip(name: str) -> None:
    workload = ftlab.Workload.load(name)
    assert workload.set("requests=10").to_dict()["requests"] == 10
    assert ftlab.Device.parse(DEVICE.to_toml(), "again") == DEVICE


def test_the_files_of_a_run_are_byte_identical(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        ftlab.run(DEVICE, LOAD, out=tmp_path / folder, requests_log=True)
    for path in (tmp_path / "one").iterdir():
        if path.name != "summary.json":
            assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
