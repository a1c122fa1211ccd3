"""Damaged inputs: every command ends soon, with a table or with one short message, and never with a traceback."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import spoiling
from conftest import SMALL, inside
from ftlab import _native
from spoiling import Ended

LONG = "FTLAB_LONG" in os.environ
FILES, TRACES = (2000, 2000) if LONG else (24, 24)
PROGRAMS = len(os.sched_getaffinity(0)) if LONG else 1
FIRST = int(os.environ.get("FTLAB_FIRST_CASE", "0"))

KINDS = ("device", "workload", "study")
# Drives that are made in a moment.
QUICK = ("ideal-page", "tlc-small")
REQUESTS = ("--requests", "200")


def file_case(seed: int, folder: Path) -> list[list[str]]:
    """Write a damaged file; gives what to do with it."""
    draw = random.Random(seed)  # noqa: S311 - the same cases every time
    kind = KINDS[seed % len(KINDS)]
    others = spoiling.sources(kind)
    quick = draw.random() < 0.5
    text = draw.choice(others)
    if kind == "device" and quick:
        text = (spoiling.ROOT / "devices" / f"{draw.choice(QUICK)}.toml").read_text()
    (folder / "file.toml").write_bytes(spoiling.spoil_toml(text, others, draw))
    if kind == "study":
        return [["study", "run", "file.toml", "--dry-run", "--out", "store"]]
    check = ["config", "check", "file.toml"]
    if kind == "workload":
        return [check, ["run", "ideal-page", "--workload", "file.toml", *REQUESTS, "--json"]]
    run = ["run", "file.toml", *(() if quick else SMALL), "--workload", "uniform", *REQUESTS, "--json"]
    return [check, run]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A valid trace in every format."""
    folder = tmp_path_factory.mktemp("traces")
    rows = [f"{i * 1000},{'read' if i % 3 else 'write'},{i * 7919 % 4096 * 8},8,{i % 3}" for i in range(300)]
    (folder / "trace.csv").write_text("\n".join(["arrival_ns,op,lba,sectors,stream", *rows, ""]))
    found = spoiling.binary_traces()
    for row in _native.formats():
        name = row["name"]
        if row["writable"]:
            ran = inside("trace", "convert", "trace.csv", f"as.{name}", "--to", name, cwd=folder)
            assert ran.status == 0, ran.err
            found[name] = (folder / f"as.{name}").read_bytes()
        elif name not in found:
            found[name] = row["example"].encode()
    assert set(found) == {row["name"] for row in _native.formats()}
    return found


def trace_case(seed: int, folder: Path, traces: dict[str, bytes]) -> list[list[str]]:
    """Write a damaged trace; gives what to do with it."""
    draw = random.Random(seed)  # noqa: S311 - the same cases every time
    rows = _native.formats()
    row = rows[seed % len(rows)]
    (folder / "file").write_bytes(spoiling.spoil_trace(traces[row["name"]], draw))
    argument = row["argument"] or {}
    told = f"{row['name']}:{argument['example']}" if argument.get("required") else row["name"]
    read = ["file", *(["--format", told] if argument.get("required") or draw.random() < 0.8 else [])]
    read += ["--skip-bad", "3"] if draw.random() < 0.3 else []
    return [
        ["trace", "stats", *read, "--json"],
        ["trace", "convert", *read, "out.csv", "--to", "csv"],
        *([["run", "ideal-page", *SMALL, "--trace", *read, *REQUESTS, "--json"]] if seed % 4 == 0 else []),
    ]


def run_all(cases: list[tuple[list[list[str]], Path]], folder: Path) -> list[list[Ended]]:
    """Run every case in a process of its own."""
    lines = [json.dumps({"commands": commands, "folder": str(place)}) for commands, place in cases]

    def program(number: int) -> list[list[Ended]]:
        (folder / f"cases{number}").write_text("\n".join(lines[number::PROGRAMS]))
        done = subprocess.run(
            [sys.executable, spoiling.__file__, folder / f"cases{number}"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "COLUMNS": "110", "NO_COLOR": "1"},
        )
        return [[Ended(**each) for each in json.loads(line)] for line in done.stdout.splitlines()]

    with ThreadPoolExecutor(PROGRAMS) as pool:
        parts = list(pool.map(program, range(PROGRAMS)))
    return [parts[index % PROGRAMS][index // PROGRAMS] for index in range(len(lines))]


def wrong_with(ended: Ended) -> str:
    """What should not have been."""
    lines = ended.err.splitlines()
    told = [line for line in lines if line.startswith("error: ")]
    if ended.status not in {0, 2}:
        return f"status {ended.status}"
    if "Traceback" in ended.err or "panicked" in ended.err:
        return "a traceback"
    if len(ended.err.encode()) > 2048:
        return "a long message"
    if any(ord(letter) < ord(" ") for line in ended.err.split("\n") for letter in line):
        return "control characters"
    if (ended.status == 2) != bool(told):
        return "a message and a status that do not agree"
    # Mistakes of a file are told together, each in a line.
    if ended.status == 2 and told != lines:
        return "more than a message"
    return "it took long" if ended.seconds > spoiling.SECONDS else ""


def hold(cases: list[tuple[list[list[str]], Path]], folder: Path) -> Counter[int]:
    """Run all cases; gives how many ended with which status."""
    found, statuses = [], Counter[int]()
    for (commands, place), ended in zip(cases, run_all(cases, folder), strict=True):
        for command, each in zip(commands, ended, strict=False):
            statuses[each.status] += 1
            if wrong := wrong_with(each):
                found.append(f"{place.name}: ftlab {' '.join(command)}: {wrong}: {each.err[-600:]}")
        if not found or not found[-1].startswith(f"{place.name}: "):
            shutil.rmtree(place)
    assert not found, f"{len(found)} findings, in {folder}:\n" + "\n".join(found)
    return statuses


def prepared(folder: Path, seed: int) -> Path:
    place = folder / f"case-{seed}"
    place.mkdir()
    return place


@pytest.mark.long
def test_damaged_files_are_told_in_a_sentence(tmp_path: Path) -> None:
    places = {seed: prepared(tmp_path, seed) for seed in range(FIRST, FIRST + FILES)}
    statuses = hold([(file_case(seed, place), place) for seed, place in places.items()], tmp_path)
    assert statuses[0] > FILES / 8
    assert statuses[2] > FILES / 8


@pytest.mark.long
def test_damaged_traces_are_told_in_a_sentence(tmp_path: Path, traces: dict[str, bytes]) -> None:
    places = {seed: prepared(tmp_path, seed) for seed in range(FIRST, FIRST + TRACES)}
    statuses = hold([(trace_case(seed, place, traces), place) for seed, place in places.items()], tmp_path)
    assert statuses[0] > TRACES / 8
    assert statuses[2] > TRACES / 8
