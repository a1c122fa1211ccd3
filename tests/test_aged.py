"""Aged drives on disk: they save time, change no result, and are never trusted."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ftlab
from conftest import Ran, inside
from conftest import ftlab as ftlab_command
from ftlab import _aged
from ftlab.studies import run_study

# It is never steady, and ages for many times as long as it is written.
DRIVE = (
    "geometry.blocks_per_plane=64",
    "geometry.pages_per_block=64",
    "precondition.kind=steady",
    "precondition.pattern=uniform",
    "precondition.tolerance=1e-9",
    "precondition.max_drive_writes=100",
)
OLD = 1_000_000_000


def drive(*changes: str) -> ftlab.Device:
    return ftlab.Device.load("ideal-page", *DRIVE, *changes)


def told(device: ftlab.Device, seed: int = 1, kind: str = "uniform", **options: Any) -> dict[str, Any]:
    """What a run tells, but how long it took."""
    workload = ftlab.Workload(kind=kind, requests=2000)
    summary = ftlab.run(device, workload, seed=seed, **options).summary
    return {key: value for key, value in summary.items() if key != "wall_seconds"}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep every drive that is aged, in a folder of the test."""
    monkeypatch.setenv(_aged.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(_aged, "LEAST_SECONDS", 0.0)
    return tmp_path / "cache" / "aged"


def the_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def uses(file: Path, run: Callable[[], object]) -> bool:
    """Whether a run starts from the drive in a file: it says so by the file's time."""
    os.utime(file, (OLD, OLD))
    inode = file.stat().st_ino
    run()
    after = file.stat()
    return after.st_mtime > OLD and after.st_ino == inode


@pytest.mark.parametrize("options", [{}, {"timing": False, "verify": True}])
def test_a_second_run_starts_from_the_drive_of_the_first(
    kept: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    first = told(drive(), **options)
    found = []
    assert uses(the_file(kept), lambda: found.append(told(drive(), **options)))
    # What the host does and the name of the drive come after the ageing.
    other = drive("host.queue_depth=4", "host.arrival=closed", "buffer.kind=lru", "buffer.bytes=64KiB")
    assert uses(the_file(kept), lambda: found.append(told(other, kind="zipf", **options)))
    monkeypatch.setenv(_aged.VARIABLE, "")
    assert [first, first, told(other, kind="zipf", **options)] == [told(drive(), **options), *found]


@pytest.mark.long
def test_a_drive_that_ages_for_half_a_second_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The drives that people begin with age for about a second: they must not be kept by chance."""
    monkeypatch.setenv(_aged.VARIABLE, "")
    blocks, seconds = 64.0, 0.0
    # However fast the machine is: from 0.4 s to a second, with what the run itself takes.
    while seconds < 0.4:
        blocks *= 1.4
        device = drive(f"geometry.blocks_per_plane={blocks:.0f}")
        began = time.perf_counter()
        told(device)
        seconds = time.perf_counter() - began
    folder = tmp_path / "cache" / "aged"
    monkeypatch.setenv(_aged.VARIABLE, str(folder.parent))
    told(device)
    assert uses(the_file(folder), lambda: told(device))


def test_other_drives_are_other_files(kept: Path) -> None:
    told(drive())
    for count, run in enumerate(
        (
            lambda: told(drive(), seed=2),
            lambda: told(drive("ftl.gc=fifo")),
            lambda: told(drive(), verify=True),
            # The workload is part of what it has aged, with its seed and its length.
            lambda: told(drive("precondition.pattern=workload")),
            lambda: told(drive("precondition.pattern=workload"), kind="zipf"),
            lambda: told(drive("precondition.pattern=workload"), requests=1000),
        ),
        2,
    ):
        run()
        assert len(list(kept.iterdir())) == count
    files = set(kept.iterdir())
    told(drive("precondition.pattern=workload"))
    told(ftlab.Device.load("ideal-page", *DRIVE[:2], "precondition.kind=fill"))
    assert set(kept.iterdir()) == files


def test_a_trace_may_change_under_its_name(kept: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_ns,op,lba,sectors\n" + "".join(f"{at},write,{8 * at},8\n" for at in range(0, 9000, 7)))
    device = drive("precondition.pattern=workload", "host.out_of_range=wrap")
    for workload in (ftlab.Trace(trace), ftlab.Workload(trace=str(trace))):
        ftlab.run(device, workload, series=None)
        assert not kept.exists()


def test_studies_and_runs_share_their_drives(kept: Path, tmp_path: Path) -> None:
    told(drive(), seed=3)
    described = {"device": drive(), "workload": {"kind": "uniform", "requests": 2000}, "seeds": [3]}

    def run(changes: dict[str, Any]) -> None:
        assert run_study(ftlab.Study(described | changes), ftlab.Store(tmp_path / "store")).executed == 1

    assert uses(the_file(kept), lambda: run({}))
    the_file(kept).unlink()
    run({"workload": {"kind": "zipf", "requests": 2000}})
    assert uses(the_file(kept), lambda: told(drive(), seed=3))


def test_the_command_line_never_trusts_a_file(kept: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    changes = [part for change in DRIVE for part in ("--set", change)]
    command = ["run", "ideal-page", "--workload", "uniform", "--requests", "2000", *changes, "--json"]

    def summary(run: Callable[..., Ran] = inside) -> dict[str, Any]:
        done = run(*command, cwd=tmp_path)
        assert done.status == 0
        # Without a handler, as pytest has one, logs are lines on standard error.
        assert [line for line in done.err.splitlines() if "damaged" not in line] == []
        assert done.err.count("damaged") == (run is ftlab_command)
        return {key: value for key, value in done.json.items() if key != "wall_seconds"}

    first = summary()
    file = the_file(kept)
    assert uses(file, lambda: None if summary() == first else pytest.fail("another result"))
    assert caplog.records == []
    whole = file.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:-20] + bytes(20), b"no drive at all"):
        _aged._of.cache_clear()
        caplog.clear()
        file.write_bytes(damaged)
        assert summary() == first
        (record,) = caplog.records
        assert f"{file}: this aged drive is damaged" in record.getMessage()
        assert file.read_bytes() == whole
        # Trouble once, however many runs have it.
        file.write_bytes(damaged)
        assert summary() == first
        assert len(caplog.records) == 1
    file.write_bytes(whole[:-1])
    assert summary(ftlab_command) == first


@pytest.mark.skipif(sys.platform == "win32", reason="files are no folders, but another error")
def test_a_folder_that_cannot_be_used_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = told(drive())
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(_aged.VARIABLE, str(tmp_path / "file"))
    monkeypatch.setattr(_aged, "LEAST_SECONDS", 0.0)
    assert told(drive()) == told(drive()) == first
    (record,) = caplog.records
    assert record.name == "ftlab.aged"
    assert str(tmp_path / "file") in record.getMessage()


def test_the_limit_holds_for_all_drives_together(
    kept: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    results = [told(drive(), seed=seed) for seed in (1, 2)]
    first, second = sorted(kept.iterdir(), key=lambda file: file.stat().st_mtime)
    os.utime(first, (OLD, OLD))
    # There is room for two: the oldest goes for a third.
    most = max(first.stat().st_size, second.stat().st_size)
    monkeypatch.setenv(_aged.LIMIT_VARIABLE, f"{2.5 * most / 1024:.0f}KiB")
    told(drive(), seed=3)
    assert len(list(kept.iterdir())) == 2
    assert not first.exists()
    monkeypatch.setenv(_aged.LIMIT_VARIABLE, "0")
    told(drive(), seed=4)
    assert list(kept.iterdir()) == []
    # Empty: as by default.
    monkeypatch.setenv(_aged.LIMIT_VARIABLE, "")
    assert [told(drive(), seed=seed) for seed in (1, 2)] == results
    assert len(list(kept.iterdir())) == 2
    assert caplog.records == []


@pytest.mark.parametrize("limit", ["4 bananas", "-1", "4gb", "much", "1e400", "1e3MB", "0.5"])
def test_a_limit_that_is_no_size_is_told_at_once(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setenv(_aged.LIMIT_VARIABLE, limit)
    said = re.escape(f'FTLAB_CACHE_LIMIT: "{limit}" is not a ')
    with pytest.raises(ftlab.errors.ConfigError, match=said) as raised:
        told(drive())
    assert "\n" not in str(raised.value)
    study = ftlab.Study({"device": drive(), "workload": {"kind": "uniform", "requests": 2000}})
    with pytest.raises(ftlab.errors.ConfigError, match=said):
        run_study(study, ftlab.Store(tmp_path / "store"))
    assert ftlab.Store(tmp_path / "store").records() == {}
    done = inside("run", "ideal-page", "--workload", "uniform", "--requests", "20", cwd=tmp_path)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert not kept.exists()
    # Nobody asks how large what is not kept may be.
    monkeypatch.setenv(_aged.VARIABLE, "")
    told(drive())


def test_where_drives_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_aged.VARIABLE, "")
    assert _aged.folder() is None
    assert _aged.files() is None
    monkeypatch.setenv(_aged.VARIABLE, "/somewhere")
    assert _aged.folder() == Path("/somewhere/aged")
    monkeypatch.delenv(_aged.VARIABLE)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", "/home/me")
    for stated, place in (
        ("/cache", "/cache/ftlab/aged"),
        ("", "/home/me/.cache/ftlab/aged"),
        ("relative", "/home/me/.cache/ftlab/aged"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", stated)
        assert _aged.folder() == Path(place)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert _aged.folder() == Path("/home/me/Library/Caches/ftlab/aged")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert _aged.folder() == Path("/local/ftlab/aged")


@pytest.mark.long
def test_reads_do_not_change_what_writes_cost_on_the_drive_to_begin_with() -> None:
    found = [
        ftlab.run("tlc-aged", ftlab.Workload(kind="uniform", requests=60_000, read_fraction=share)).write_amplification
        for share in (0.0, 0.9)
    ]
    assert found[1] == pytest.approx(found[0], rel=0.1)
