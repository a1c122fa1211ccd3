"""Speed of studies: how well cores are used, what a run costs beside itself, and how quickly stores are read.

Prints a line for each, with a hash of the table. Numbers make sense on a machine that does nothing else.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median
from typing import Any

import ftlab
from ftlab.studies import execute, run_study
from ftlab.studies.store import Record, StudyRun, now

# Runs of a tenth of a second.
RUNS, ROUNDS, MANY, STORED = 100, 5, 1000, 100_000


def _spec(requests: int, blocks: int, seeds: int, kind: str) -> dict[str, Any]:
    return {
        "name": "bench",
        "device": "ideal-page",
        "set": {"geometry.blocks_per_plane": blocks, "precondition.kind": kind},
        "workload": {"kind": "uniform", "requests": requests},
        "seeds": {"from": 1, "to": seeds, "step": 1},
    }


def _timed(spec: dict[str, Any], store: ftlab.Store, workers: int) -> float:
    began = time.perf_counter()
    run_study(ftlab.Study(spec), store, jobs=workers)
    return time.perf_counter() - began


def _alone(spec: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _timed(spec, ftlab.Store(folder), 1)


def _stored(store: ftlab.Store, runs: int) -> None:
    """Fill a store with one study of many runs, which all have the results of one."""
    study = ftlab.Study(_spec(10, 16, 1, "none"))
    [run] = study.runs()
    outcome = execute(run.description or {})
    there = []
    records = {}
    for seed in range(1, runs + 1):
        key = f"{seed:032x}"
        records[key] = Record(
            key=key,
            status="done",
            error=None,
            error_kind=None,
            elapsed_seconds=outcome.elapsed_seconds,
            finished=now(),
            engine=(run.description or {})["engine"],
            description_text=json.dumps({**(run.description or {}), "seed": seed}),
            summary_text=json.dumps({**(outcome.summary or {}), "seed": seed}),
            coarse_text=outcome.coarse_text,
        )
        there.append(StudyRun(key, (), seed))
        # As many tables as a store has at most, made as it makes them.
        if seed % (runs // 10) == 0:
            store.write_table(records)
            records = {}
    store.save_study(dataclasses.replace(study.record([run]), runs=tuple(there)))


def main() -> None:
    """Measure and print."""
    small = "--small" in sys.argv
    grid = _spec(20_000 if small else 500_000, 64 if small else 1024, RUNS, "fill")
    # Libraries are loaded before anything is timed.
    ftlab.study(_spec(10, 16, 1, "none"))
    took: dict[int, list[float]] = {1: [], 2: []}
    apart = []
    # What the machine gives: a core is slower while the other one is busy.
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        list(processes.map(_alone, [_spec(10, 16, 1, "none")] * 2))
        for _ in range(1 if small else ROUNDS):
            for workers, seconds in took.items():
                with tempfile.TemporaryDirectory() as folder:
                    store = ftlab.Store(folder)
                    seconds.append(_timed(grid, store, workers))
                    # Keys name the engine; results need not change with it.
                    table = store.frame().drop("key").write_csv()
            began = time.perf_counter()
            list(processes.map(_alone, [{**grid, "seeds": {**grid["seeds"], "to": RUNS // 2}}] * 2))
            apart.append(time.perf_counter() - began)
    digest = hashlib.blake2b(table.encode(), digest_size=8).hexdigest()
    rates = ", ".join(f"{60 * RUNS / median(seconds):.0f} runs/min with {workers}" for workers, seconds in took.items())
    # Round by round: a slow hour slows all.
    gained, limit = (median(one / two for one, two in zip(took[1], both, strict=True)) for both in (took[2], apart))
    print(f"workers   {rates}: {gained:.2f} times, two processes {limit:.2f} times; table {digest}")

    tiny = _spec(10, 16, MANY // 10 if small else MANY, "none")
    beside = again = 1e9
    for _ in range(1 if small else ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            store = ftlab.Store(folder)
            taken = _timed(tiny, store, 1)
            records = store.records().values()
            within = sum((record.summary or {})["wall_seconds"] for record in records)
            beside = min(beside, (taken - within) / len(records))
            again = min(again, _timed(tiny, store, 1))
    print(f"overhead  {1e3 * beside:.2f} ms a run beside the simulation")
    print(f"resume    {again:.2f} s for {len(records):,} finished runs, without the start of Python")

    with tempfile.TemporaryDirectory() as folder:
        count = MANY if small else STORED
        _stored(ftlab.Store(folder), count)
        began = time.perf_counter()
        store = ftlab.Store(folder, create=False)
        states = store.states()
        listed = time.perf_counter()
        rows = store.sql('SELECT count(*) AS n, avg("write_amplification.total") AS wa FROM study')["n"].to_list()
        queried = time.perf_counter()
        if (len(states), rows) != (count, [count]):
            raise SystemExit(f"found {len(states)} runs and {rows}, expected {count}")
        print(
            f"store     {count:,} finished runs: {listed - began:.2f} s to open and list, "
            f"{queried - listed:.2f} s for a query, without the start of Python"
        )


if __name__ == "__main__":
    main()
