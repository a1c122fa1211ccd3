"""What files and names may look like, and how long messages get: marks of Windows, names that are no text."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import ftlab as package
from conftest import FTLAB, ROOT, SMALL, inside
from ftlab import _native
from ftlab.errors import ConfigError

MARK = b"\xef\xbb\xbf"
LONG = "9" * 100_000
MANY = "".join(f"key{number} = 1\n" for number in range(3000))
# In another place of the alphabet than the first letters: no such file name is text.
ODD = os.fsdecode(b"odd-\xff")

GENERATED = ["run", "ideal-page", *SMALL, "--workload", "uniform", "--requests", "20"]
TRACE = "arrival_ns,op,lba,sectors\n0,write,0,8\n1000,read,0,8\n"
STUDY = 'name = "s"\ndevice = "ideal-page"\nworkload = "uniform"\n'


@pytest.mark.parametrize("name", ["device", "workload", "study"])
def test_files_may_begin_with_a_mark(tmp_path: Path, name: str) -> None:
    texts = {
        "device": (ROOT / "devices" / "ideal-page.toml").read_text(),
        "workload": '[workload]\nkind = "uniform"\nrequests = 20\n',
        "study": STUDY,
    }
    command = ["study", "run", "file.toml", "--dry-run"] if name == "study" else ["config", "check", "file.toml"]
    said = []
    for mark in (b"", MARK):
        (tmp_path / "file.toml").write_bytes(mark + texts[name].encode())
        ran = inside(*command, cwd=tmp_path)
        assert ran.status == 0, ran.err
        said.append(ran.out)
    assert said[0] == said[1]
    assert f"a valid {name}" in said[0] or name == "study"
    # Errors count columns without it.
    (tmp_path / "file.toml").write_bytes(MARK + b"what = 1\n" + texts[name].encode())
    ran = inside(*command, cwd=tmp_path)
    assert (ran.status, "file.toml:1:1: what" in ran.err) == (2, True), ran.err


def test_tables_in_braces_over_several_lines(tmp_path: Path) -> None:
    (tmp_path / "workload.toml").write_text('workload = { kind = "uniform",\n  requests = 20 }\n')
    assert "a valid workload" in inside("config", "check", "workload.toml", cwd=tmp_path).out
    # What reads studies knows TOML 1.0 only.
    (tmp_path / "study.toml").write_text(STUDY.replace('"uniform"', '{ kind =\n  "uniform" }'))
    ran = inside("study", "run", "study.toml", "--dry-run", cwd=tmp_path)
    if ran.status != 0:
        assert ran.err.startswith("error: study.toml:3:20: is not TOML 1.0"), ran.err


@pytest.mark.parametrize(
    "row", [row for row in _native.formats() if row["example"].isascii()], ids=lambda row: row["name"]
)
def test_traces_may_begin_with_a_mark(tmp_path: Path, row: dict[str, str]) -> None:
    name = row["name"]
    said = []
    for mark in (b"", MARK):
        (tmp_path / "trace").write_bytes(mark + row["example"].encode())
        ran = inside("trace", "head", "trace", "--format", name, "--json", cwd=tmp_path)
        if ran.status != 0 and not mark:
            pytest.skip(f"the example of {name} is no text")
        assert ran.status == 0, ran.err
        said.append(ran.json)
    assert said[0] == said[1]
    plain, marked = (inside("trace", "info", "trace", "--json", cwd=tmp_path) for _ in range(2))
    assert plain.out == marked.out


def test_results_may_be_edited_where_marks_are_written(tmp_path: Path) -> None:
    assert inside(*GENERATED, "--out", "r", cwd=tmp_path).status == 0
    for name in ("summary.json", "run.json", "device.toml", "workload.toml"):
        (tmp_path / "r" / name).write_bytes(MARK + (tmp_path / "r" / name).read_bytes())
    ran = inside("report", "r", cwd=tmp_path)
    assert ran.status == 0, ran.err
    assert inside(*GENERATED, "--out", "r", cwd=tmp_path).status == 0


def odd(home: Path, *arguments: str, status: int = 0) -> str:
    done = subprocess.run([FTLAB, *arguments], cwd=home, capture_output=True, check=False, timeout=60)
    assert b"Traceback" not in done.stderr, done.stderr
    assert done.returncode == status, done.stderr
    return os.fsdecode(done.stdout + done.stderr)


@pytest.mark.long
def test_names_need_not_be_text(tmp_path: Path) -> None:
    home = tmp_path / ODD
    home.mkdir()
    (home / f"{ODD}.csv").write_text(TRACE)
    run = ("run", "ideal-page", *SMALL, "--trace", f"{ODD}.csv")
    assert f"written to {ODD}-out" in odd(home, *run, "--out", f"{ODD}-out", "--requests-log", "--events", f"{ODD}-e")
    assert (home / f"{ODD}-out" / "trace.txt").read_bytes() == os.fsencode(home / f"{ODD}.csv") + b"\n"
    assert odd(home, "report", f"{ODD}-out") == f"{ODD}-out/report.html\n"
    odd(home, "report", f"{ODD}-out", "--out", f"{ODD}.html")
    odd(home, "trace", "info", f"{ODD}.csv")
    if "FTLAB_LONG" in os.environ:
        odd(home, "trace", "stats", f"{ODD}.csv", "--out", f"{ODD}-s")
    odd(home, "trace", "convert", f"{ODD}.csv", f"{ODD}.parquet")
    odd(home, "trace", "fit", f"{ODD}.csv", "-o", f"{ODD}-fit.toml")
    odd(home, "trace", "split", f"{ODD}.csv", f"{ODD}-parts")
    # What has to be text says so.
    shutil.copy(ROOT / "devices" / "ideal-page.toml", home / f"{ODD}.toml")
    (home / "study.toml").write_text(STUDY)
    commands: tuple[tuple[str, ...], ...] = (
        ("run", f"{ODD}.toml", "--workload", "uniform"),
        ("config", "check", f"{ODD}.toml"),
        (*GENERATED[:4], "--workload", f"{ODD}.toml"),
        ("study", "run", f"{ODD}.toml"),
        ("study", "run", "study.toml", "--out", ODD),
        ("study", "show", ODD),
        ("papers", "reference", "--out", ODD),
        ("run", ODD, "--workload", "uniform"),
        ("devices", ODD),
        ("run", "ideal-page", "--workload", "uniform", "--set", f"name={ODD}"),
        ("trace", "head", f"{ODD}.csv", "--format", ODD),
        ("run", "ideal-page", "--workload", "uniform", "--transform", ODD),
        (ODD,),
    )
    # Each is a process that has to start.
    for command in commands if "FTLAB_LONG" in os.environ else commands[::4]:
        assert "error: " in odd(home, *command, status=2), command
    with pytest.raises(ConfigError, match="not UTF-8"):
        package.Device.load(home / f"{ODD}.toml")


FILES = {
    "value.toml": f'name = "x"\n[ftl]\ngc = "{LONG}"\n',
    "key.toml": f"{LONG} = 3\n",
    "many.toml": f"[ftl]\n{MANY}",
    "words.toml": f'[ftl]\ngc = "{"a " * 50_000}"\n',
    "workload.toml": f'[workload]\nkind = "uniform"\n{MANY}',
    "size.toml": f'[workload]\nkind = "uniform"\nrequest_bytes = "{LONG}"\n',
    "trace.toml": f'[workload]\ntrace = "{LONG}"\n',
    "extends.toml": f'extends = "{LONG}"\n',
    "syntax.toml": f"[{LONG}\n",
    "line.csv": LONG,
    "field.csv": f"arrival_ns,op,lba,sectors\n0,{LONG},0,8\n",
    "s-device.toml": f'name = "s"\ndevice = "{LONG}"\nworkload = "zipf"\n',
    "s-key.toml": f'{LONG} = "s"\n',
    "s-name.toml": f'name = "{LONG}"\ndevice = "ideal-page"\nworkload = "zipf"\n',
    "s-axis.toml": f'{STUDY}[axes]\n"ftl.g{LONG}" = [1]\n',
    "s-where.toml": f'{STUDY}where = ["{LONG}"]\n[axes]\n"ftl.gc" = ["greedy"]\n',
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "command",
    [
        *(["config", "check", name] for name in FILES if name.endswith(".toml") and not name.startswith("s-")),
        *(["study", "run", name, "--dry-run"] for name in FILES if name.startswith("s-")),
        *(["trace", "head", name] for name in FILES if name.endswith(".csv")),
        [*GENERATED, "--set", "workload.iodepth=32"],
        [*GENERATED, "--set", f"ftl.gc={LONG}"],
        [*GENERATED, "--set", f"workload.kind={LONG}"],
        [*GENERATED, "--set", f"{LONG}=1"],
        [*GENERATED, "--seed", LONG],
        [*GENERATED, "--requests", LONG],
        [*GENERATED, "--transform", LONG],
        [*GENERATED, "--transform", f"scale_time factor={LONG}"],
        [*GENERATED, "--series", LONG],
        [*GENERATED, "--out", LONG],
        [*GENERATED, "--events", LONG],
        ["run", LONG, "--workload", "uniform"],
        ["run", "ideal-page", "--workload", LONG],
        ["run", "ideal-page", "--trace", LONG],
        ["run", f"--{LONG}"],
        ["trace", "head", "ok.csv", "--format", LONG],
        ["trace", "head", "ok.csv", "--volume", LONG],
        ["trace", "stats", "ok.csv", "--reuse", LONG],
        ["trace", "convert", "ok.csv", f"o.{LONG}"],
        ["trace", "convert", "ok.csv", "o", "--to", LONG],
        ["report", LONG],
        ["study", "show", LONG],
        ["devices", LONG],
        ["schemes", LONG],
        ["papers", LONG],
        [LONG],
    ],
    ids=lambda command: " ".join(command).replace(LONG, "LONG")[-50:],
)
def test_messages_are_short(tmp_path: Path, command: list[str]) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "ok.csv").write_text(TRACE)
    ran = inside(*command, cwd=tmp_path)
    assert ran.status == 2, ran.err
    assert ran.err.startswith("error: ")
    assert len(ran.err.encode()) < 2048


@pytest.mark.long
def test_of_many_keys_the_nearest_are_named(tmp_path: Path) -> None:
    ran = inside(*GENERATED, "--set", "workload.io_jobs=32", cwd=tmp_path)
    assert "--set workload.io_jobs=32: unknown key: most like it of" in ran.err
    assert ran.err.count(",") < 8
    (tmp_path / "many.toml").write_text(FILES["many.toml"])
    ran = inside("config", "check", "many.toml", cwd=tmp_path)
    assert ran.err.splitlines()[-1].endswith(" more")
    # JSON has all of them.
    assert len(inside("config", "check", "many.toml", "--json", cwd=tmp_path).json["errors"]) > 3000


@pytest.mark.long
def test_exceptions_are_short() -> None:
    with pytest.raises(ConfigError) as caught:
        package.Device.parse(f'[ftl]\ngc = "{LONG}"\n{MANY}')
    assert len(str(caught.value)) < 2048
    assert "key1" in str(caught.value)
