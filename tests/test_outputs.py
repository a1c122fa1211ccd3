"""Outputs: inputs and files of others are not written over, and an older output stays whole until the new one is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from matplotlib.figure import Figure

import ftlab as package
from conftest import FTLAB, SMALL, inside
from ftlab import _outputs as outputs
from ftlab.errors import ConfigError

LONG = "FTLAB_LONG" in os.environ
RUN = ("run", "my.toml", *SMALL, "--trace", "in.parquet")

# A command up to its output, what it reads, and the ending that its output needs.
COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "events": ((*RUN, "--events"), ("my.toml", "in.parquet"), ""),
    "report": (("report", "result", "--out"), ("result/summary.json", "result/device.toml"), ""),
    "convert": (("trace", "convert", "in.parquet", "--to", "parquet"), ("in.parquet",), ".parquet"),
    "text": (("trace", "convert", "in.parquet", "--to", "csv"), ("in.parquet",), ".csv"),
    "merge": (("trace", "merge", "in.parquet", "two.csv", "--to", "parquet"), ("in.parquet", "two.csv"), ""),
    "fit": (("trace", "fit", "in.parquet", "-o"), ("in.parquet",), ".toml"),
    "record": (("trace", "record", "--to", "csv", "--out"), (), ".csv"),
    "plot": (
        ("study", "plot", "store", "--kind", "bar", "--x", "ftl.gc", "--y", "host.requests", "--out"),
        ("store/store.json",),
        ".svg",
    ),
}
FOLDERS: dict[str, tuple[str, ...]] = {
    "run": (*RUN, "--requests-log", "--out"),
    "stats": ("trace", "stats", "in.parquet", "--out"),
}


def arguments(name: str, place: Path | str, *more: str) -> list[str]:
    command = [*COMMANDS[name][0], str(place), *more]
    return [*command, "--", "true"] if name == "record" else command


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an input for every command."""
    home = tmp_path_factory.mktemp("made")
    (home / "my.toml").write_text('extends = "ideal-page"\n')
    rows = "".join(f"{i * 1000},{'write' if i % 3 else 'read'},{i * 8 % 512},8\n" for i in range(300))
    (home / "two.csv").write_text("arrival_ns,op,lba,sectors\n" + rows)
    assert inside("trace", "convert", "two.csv", "in.parquet", cwd=home).status == 0
    assert inside(*RUN, "--out", "result", cwd=home).status == 0
    (home / "study.toml").write_text(
        'name = "s"\ndevice = "ideal-page"\nworkload = "uniform"\nseeds = [1]\n'
        '[axes]\n"ftl.gc" = ["greedy", "fifo"]\n[set]\n"geometry.blocks_per_plane" = 64\n'
        '"geometry.pages_per_block" = 16\n[options]\nrequests = 100\n'
    )
    assert inside("study", "run", "study.toml", "--out", "store", "--jobs", "1", cwd=home).status == 0
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "home")
    return tmp_path / "home"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(home: Path, command: list[str], place: str) -> None:
    before = tree(home)
    ran = inside(*command, cwd=home)
    assert (ran.status, tree(home)) == (2, before), ran.err
    lines = [line for line in ran.err.splitlines() if not line.startswith("warning: ")]
    assert len(lines) == 1
    assert place in lines[0]
    assert "--force" in lines[0]
    assert len(ran.err) < 2000


@pytest.mark.parametrize("name", [name for name, (_, inputs, _) in COMMANDS.items() if inputs])
@pytest.mark.parametrize("how", ["itself", "symlink", "hard link"])
def test_an_input_is_no_output(home: Path, name: str, how: str) -> None:
    for number, source in enumerate(COMMANDS[name][1]):
        place = source
        if how != "itself":
            place = f"link{number}{COMMANDS[name][2]}"
            link = {"symlink": Path.symlink_to, "hard link": Path.hardlink_to}[how]
            link(home / place, home / source)
        elif name == "plot":
            continue
        refused(home, arguments(name, place), place)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_of_others_is_written_over_only_when_told(home: Path, name: str) -> None:
    place = home / f"mine{COMMANDS[name][2]}"
    place.write_text("my notes\n")
    refused(home, arguments(name, place.name), place.name)
    ran = inside(*arguments(name, place.name, "--force"), cwd=home)
    assert ran.status == 0, ran.err
    assert place.read_bytes() != b"my notes\n"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", COMMANDS)
def test_an_older_output_of_ftlab_is_replaced(home: Path, name: str) -> None:
    (home / "other").mkdir()
    place = f"other/new{COMMANDS[name][2]}"
    for _ in range(2):
        ran = inside(*arguments(name, place), cwd=home)
        assert ran.status == 0, ran.err
    assert len(list((home / "other").iterdir())) == 1
    # A link stays a link.
    (home / f"link{COMMANDS[name][2]}").symlink_to(place)
    assert inside(*arguments(name, f"link{COMMANDS[name][2]}"), cwd=home).status == 0
    assert (home / f"link{COMMANDS[name][2]}").is_symlink()
    # Output of another kind is that of somebody else.
    shutil.copy(home / "result" / "device.toml", home / place)
    refused(home, arguments(name, place), place)


def test_a_trace_in_text_is_ours_until_it_is_changed(home: Path) -> None:
    convert = arguments("text", "new.csv")
    assert inside(*convert, cwd=home).status == 0
    with (home / "new.csv").open("a") as file:
        file.write("9999999,read,0,8,0\n")
    refused(home, convert, "new.csv")


@pytest.mark.long
@pytest.mark.parametrize("name", FOLDERS)
def test_folders(home: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = FOLDERS[name]
    # What is drawn does not matter here, and to draw it takes longer than all else.
    for drawing in ("plot", "plot_stats"):
        monkeypatch.setattr(f"ftlab._plot.{drawing}", lambda _: Figure())
    for _ in range(2):
        assert inside(*command, "new", cwd=home).status == 0
    names = {path.name for path in (home / "new").iterdir()}
    # What others put beside a result stays.
    (home / "new" / "notes.txt").write_text("mine")
    (home / "new" / "deep").mkdir()
    (home / "new" / "deep" / "more").symlink_to("nowhere")
    assert inside(*command, "new", cwd=home).status == 0
    assert {path.name for path in (home / "new").iterdir()} == names | {"notes.txt", "deep"}
    assert (home / "new" / "notes.txt").read_text() == "mine"
    assert (home / "new" / "deep" / "more").is_symlink()
    # A folder of others.
    (home / "mine").mkdir()
    (home / "mine" / "summary.json").write_text("{}")
    refused(home, [*command, "mine"], "mine")
    refused(home, [*command, "store"], "store")
    assert inside(*command, "mine", "--force", cwd=home).status == 0
    assert {path.name for path in (home / "mine").iterdir()} == names | {"summary.json"}
    if name == "run":
        assert (home / "mine" / "summary.json").read_text() != "{}"
    (home / "link").symlink_to("mine")
    assert inside(*command, "link", cwd=home).status == 0
    assert (home / "link").is_symlink()
    assert not [path.name for path in home.iterdir() if path.name.startswith(".")]
    # Whoever stands in a folder stays in it.
    here = [str(home / each) if (home / each).is_file() else each for each in command]
    assert inside(*here, ".", cwd=home / "new").status == 0
    assert {path.name for path in (home / "new").iterdir()} == names | {"notes.txt", "deep"}
    ran = inside(*command, "my.toml", cwd=home)
    assert (ran.status, "my.toml" in ran.err) == (2, True)


def test_a_result_does_not_replace_what_it_is_run_from(home: Path) -> None:
    again = ["run", "result/device.toml", "--trace", "in.parquet", "--out"]
    refused(home, [*again, "result"], "result/device.toml")
    (home / "link.toml").hardlink_to(home / "result" / "device.toml")
    refused(home, ["run", "link.toml", *again[2:], "result"], "result/device.toml")
    (home / "result" / "requests.parquet").hardlink_to(home / "in.parquet")
    refused(home, [*RUN, "--out", "result"], "result/requests.parquet")
    with pytest.raises(ConfigError, match="is an input"), contextlib.chdir(home):
        package.run(str(home / "result" / "device.toml"), package.Workload.load("uniform"), out="result")
    assert inside(*again, "result", "--force", cwd=home).status == 0


@pytest.mark.long
def test_events_may_lie_beside_a_result(home: Path) -> None:
    for _ in range(2):
        assert inside(*RUN, "--out", "new", "--events", "new/events.json", cwd=home).status == 0
    assert json.loads((home / "new" / "events.json").read_text())["traceEvents"]
    ran = inside(*RUN, "--out", "other", "--events", "other/run.json", cwd=home)
    assert (ran.status, "other/run.json: is a file of the result" in ran.err) == (2, True), ran.err


def test_a_paper_goes_into_no_folder_of_others(home: Path) -> None:
    (home / "p" / "reference").mkdir(parents=True)
    (home / "p" / "reference" / "report.md").write_text("mine")
    refused(home, ["papers", "reference", "--quick", "--out", "p"], "p/reference")


@pytest.mark.parametrize("name", ["events", "report", "fit"])
def test_devices_and_pipes_are_written_directly(home: Path, name: str) -> None:
    assert inside(*arguments(name, "/dev/null"), cwd=home).status == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    os.mkfifo(home / "pipe")
    with (
        (home / "read").open("wb") as read,
        subprocess.Popen([shutil.which("cat") or "cat", home / "pipe"], stdout=read) as reader,
    ):
        assert inside(*arguments(name, "pipe"), cwd=home).status == 0
        assert reader.wait(timeout=20) == 0
    assert (home / "read").stat().st_size > 0
    assert stat.S_ISFIFO((home / "pipe").stat().st_mode)


def test_standard_output_is_written_directly(home: Path) -> None:
    command = [FTLAB, *arguments("report", "/dev/stdout")]
    done = subprocess.run(command, cwd=home, stdout=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == 0
    assert done.stdout.startswith(b"<!doctype html>")


def test_after_an_error_the_older_output_is_there(home: Path) -> None:
    assert inside(*RUN, "--out", "new", "--events", "events", cwd=home).status == 0
    before = tree(home)
    (home / "bad.csv").write_text("arrival_ns,op,lba,sectors\n0,write,0,8\n0,what,0,8\n")
    ran = inside("run", "my.toml", "--trace", "in.parquet", "--out", "new", "--events", "no/where", cwd=home)
    assert (ran.status, "no/where: cannot be written" in ran.err, ".ftlab-" in ran.err) == (2, True, False), ran.err
    (home / "bad.csv").unlink()
    assert tree(home) == before


def leave(home: Path, name: str) -> Path:
    left = home / f".{name}.ftlab-0123456789ab"
    left.mkdir()
    (left / "part").write_text("part")
    return left


@pytest.mark.long
def test_what_killed_processes_leave_is_swept(home: Path) -> None:
    left, other = leave(home, "new"), leave(home, "other")
    held = os.open(other, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    for name in ("new", "other"):
        assert inside(*RUN, "--out", name, cwd=home).status == 0
    assert (left.exists(), other.exists()) == (False, True)
    os.close(held)
    assert inside(*RUN, "--out", "other", cwd=home).status == 0
    assert not other.exists()


def test_where_folders_cannot_be_exchanged(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "_exchange", lambda *_: False)
    (home / "result" / "notes.txt").write_text("mine")
    names = {path.name for path in (home / "result").iterdir()}
    assert inside(*RUN, "--out", "result", "--seed", "7", cwd=home).status == 0
    assert {path.name for path in (home / "result").iterdir()} == names
    assert json.loads((home / "result" / "run.json").read_text())["seed"] == 7
    # Killed between the two renames, the older one is found again.
    (home / "result").rename(home / ".result.ftlab-0123456789abold")
    assert inside("report", "result", cwd=home).status == 0
    assert (home / "result" / "notes.txt").read_text() == "mine"
    assert not [path.name for path in home.iterdir() if path.name.startswith(".")]


def whole(folder: Path) -> int:
    """The seed of a result, every file of which is there and its own."""
    names = {"summary.json", "run.json", "device.toml", "workload.toml", "series.parquet", "requests.parquet"}
    assert {path.name for path in folder.iterdir()} == {*names, "plot.png", "plot.svg"}
    summary = json.loads((folder / "summary.json").read_text())
    seed = json.loads((folder / "run.json").read_text())["seed"]
    requests = pl.read_parquet(folder / "requests.parquet")
    assert summary["seed"] == seed
    assert (requests.height, requests["end_ns"].max()) == (summary["host"]["completed"], summary["simulated_ns"])
    assert pl.read_parquet(folder / "series.parquet").height > 0
    assert (folder / "plot.png").read_bytes().endswith(b"IEND\xaeB`\x82")
    assert (folder / "plot.svg").read_text().rstrip().endswith("</svg>")
    return int(seed)


@pytest.mark.long
def test_killed_at_any_moment_one_whole_result_is_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    base = [FTLAB, "run", "ideal-page", *SMALL, "--workload", "uniform", "--requests", "3000", "--requests-log"]

    def start(seed: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*base, "--seed", str(seed), "--out", out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    began = time.monotonic()
    assert start(0).wait(timeout=60) == 0
    span = time.monotonic() - began
    draw, last = random.Random(5), 0  # noqa: S311 - moments, no secrets
    killed = seed = 0
    while killed < (150 if LONG else 2):
        seed += 1
        began = time.monotonic()
        process = start(seed)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=draw.uniform(0, 1.1 * span))
            # It takes as long as the machine lets it.
            span = time.monotonic() - began
        killed += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=20)
        found = whole(out)
        assert found in {last, seed}
        last = found
    assert start(999).wait(timeout=60) == 0
    assert whole(out) == 999
    assert list(tmp_path.iterdir()) == [out]


@pytest.fixture
def small_result() -> Callable[[], package.Result]:
    device = package.Device.load("ideal-page", "geometry.blocks_per_plane=64", "geometry.pages_per_block=16")
    return lambda: package.run(device, package.Workload.load("uniform", "requests=200"), series=100)


def test_a_result_is_written_with_its_request_log(tmp_path: Path) -> None:
    device = package.Device.load("ideal-page", "geometry.blocks_per_plane=64", "geometry.pages_per_block=16")
    result = package.run(device, package.Workload.load("uniform", "requests=200"), requests_log=True)
    for _ in range(2):
        result.write(tmp_path / "mine")
        kept = pl.read_parquet(tmp_path / "mine" / "requests.parquet")
        assert result.requests is not None
        assert kept.equals(result.requests)
    assert package.explain(tmp_path / "mine", slowest=1).partial is False


@pytest.mark.long
def test_in_python_as_on_the_command_line(tmp_path: Path, small_result: Callable[[], package.Result]) -> None:
    result = small_result()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    for write in (
        lambda **told: result.write(tmp_path / "mine", **told),
        lambda **told: package.report(result, out=tmp_path / "mine" / "notes.txt", **told),
        lambda **told: package.figures.save(result.plot(), tmp_path / "mine" / "a.png", **told),
    ):
        (tmp_path / "mine" / "a.png").write_text("mine")
        with pytest.raises(ConfigError, match="overwrite=True"):
            write()
        write(overwrite=True)
        write()
