"""Ctrl-C ends a run with what was measured so far."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

import ftlab
import ftlab.cli.trace  # what is first imported while a name of it is patched would keep the patch
from conftest import FTLAB, inside
from ftlab.studies import Run, Watch

if TYPE_CHECKING:
    from pathlib import Path

# Minutes of work, should an interruption be lost.
REQUESTS = 100_000_000
LONG = ftlab.Workload(kind="uniform", requests=REQUESTS)
SHORT = ftlab.Workload(kind="uniform", requests=100)
DEVICE = ftlab.Device.load("ideal-page").set("geometry.blocks_per_plane=256", "precondition.kind=fill")


pytestmark = pytest.mark.usefixtures("interruptible")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_command_line_prints_what_was_measured(number: signal.Signals) -> None:
    sets = ["--set", "geometry.blocks_per_plane=256", "--set", "precondition.kind=fill"]
    command = [FTLAB, "run", "ideal-page", *sets, "--workload", "uniform", "--requests", str(REQUESTS), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(2)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    assert "interrupted" in err
    summary = json.loads(out)
    assert summary["partial"] is True
    assert 0 < summary["host"]["completed"] < REQUESTS


def test_a_loop_stops_and_the_partial_result_is_at_hand() -> None:
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    begun: list[int] = []

    def loop() -> None:
        for number in range(1000):
            begun.append(number)
            ftlab.run(DEVICE, LONG, timing=False)

    with pytest.raises(KeyboardInterrupt) as caught:
        loop()
    assert begun == [0]
    assert isinstance(caught.value, ftlab.Interrupted)
    result = caught.value.result
    assert result.interrupted
    assert result.partial
    assert "partial" in repr(result)
    assert "partial" in result._repr_html_()


EARLY = """
import os, signal, sys, threading
import ftlab
ftlab.run
threading.Timer(float(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    ftlab.run("tlc-256g", "uniform", requests=100_000_000, progress=False)
except KeyboardInterrupt as error:
    print(type(error).__name__, error.result is None or error.result.partial)
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seconds", [0.05, 0.001, 0.02, 0.2, 0.5])
def test_an_interruption_has_a_result_whenever_it_comes(seconds: float) -> None:
    command = [sys.executable, "-c", EARLY, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "Interrupted True\n", done.stderr


HALF = """
import os, signal, sys, threading
import ftlab
ftlab.study
threading.Timer(float(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGINT)).start()
spec = {"device": "ideal-page", "workload": {"kind": "uniform", "requests": 100_000_000}}
try:
    ftlab.study(spec, watch=False)
except KeyboardInterrupt:
    print(ftlab.study({**spec, "workload": {"kind": "uniform", "requests": 100}}, watch=False).height)
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seconds", [0.1, 0.03, 0.2, 0.001])
def test_an_interruption_leaves_no_package_half_imported(seconds: float) -> None:
    command = [sys.executable, "-c", HALF, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "1\n", done.stderr


def early(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["run", "crash", "study", "record"])
def test_before_there_is_a_result_it_is_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ftlab._running.named", early)
    monkeypatch.setattr("ftlab._crashing.named", early)
    monkeypatch.setattr("ftlab.studies.drive.Study.load", early)
    monkeypatch.setattr("ftlab._recording.format_of", early)
    arguments = {"study": ("study.toml",), "record": ("true", "out.csv")}.get(name, ("ideal-page", "uniform"))
    with pytest.raises(ftlab.Interrupted, match="before anything was measured") as caught:
        getattr(ftlab, name)(*arguments)
    assert caught.value.result is None


@pytest.mark.parametrize("command", ["run", "crash", "record"])
def test_the_command_line_prints_nothing_of_no_result(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ftlab._running.source_for", early)
    monkeypatch.setattr("ftlab._crashing.source_for", early)
    monkeypatch.setattr("ftlab._recording.format_of", early)
    words = ["trace", "record", "--out", "out.csv", "--", "true"] if command == "record" else [command, "ideal-page"]
    ran = inside(*words, *(() if command == "record" else ("--workload", "uniform")))
    assert (ran.status, ran.out, ran.err) == (130, "", "\nerror: interrupted\n")


def test_what_was_measured_is_written_though_nothing_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ftlab._result.Result.plot", early)
    out = tmp_path / "out"
    with pytest.raises(ftlab.Interrupted, match=r"what was measured.*plot.png was not written") as caught:
        ftlab.run("ideal-page", SHORT, out=out, requests_log=True)
    result = caught.value.result
    assert (result.interrupted, result.partial, len(result.requests)) == (False, False, 100)
    assert caught.value.unwritten == out / "plot.png"
    files = ["device.toml", "requests.parquet", "run.json", "series.parquet", "summary.json", "workload.toml"]
    assert sorted(path.name for path in out.iterdir()) == files
    ran = inside("run", "ideal-page", "--workload", "uniform", "--requests", "100", "--json", "--out", str(out))
    assert ran.status == 130
    assert json.loads(ran.out)["host"]["completed"] == 100
    assert f"written to {out}, without a plot\ninterrupted after the run, which is whole\n" in ran.err


@pytest.mark.parametrize("when", ["_write_files", "_draw"])
def test_writing_goes_on_when_ctrl_c_comes(when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    then = getattr(ftlab.Result, when)

    def write(result: ftlab.Result, folder: Path) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        then(result, folder)

    monkeypatch.setattr(ftlab.Result, when, write)
    out = tmp_path / "out"
    with pytest.raises(ftlab.Interrupted) as caught:
        ftlab.run("ideal-page", SHORT, out=out)
    assert caught.value.unwritten == out / "plot.png"
    assert json.loads((out / "summary.json").read_text()) == caught.value.result.summary
    assert not (out / "plot.png").exists()
    assert list(tmp_path.iterdir()) == [out]


def test_what_a_session_had_done_is_told_by_its_next_call() -> None:
    session = ftlab.Session(DEVICE)
    count = 5_000_000
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        session.send(ftlab.Workload(kind="uniform", requests=count), queue_depth=4)
    done = session.advance()
    assert 0 < len(done) < count
    assert done["end_ns"].is_sorted()
    assert session.summary["host"]["completed"] == len(done)


def test_preconditioning_can_be_interrupted() -> None:
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    endless = ("precondition.kind=steady", "precondition.tolerance=1e-12", "precondition.max_drive_writes=1000000")
    with pytest.raises(ftlab.Interrupted) as caught:
        ftlab.run(DEVICE.set(*endless), LONG, timing=False)
    assert caught.value.result.partial


def test_an_interrupted_study_gives_the_runs_that_ended() -> None:
    # The first run is over in no time, the second never.
    loads = [{"kind": "uniform", "requests": 10}, {"kind": "uniform", "requests": REQUESTS}]
    spec = {"name": "two", "device": "ideal-page", "set": {"geometry": {"blocks_per_plane": 64}}}
    axes = {"workload": [{**load, "label": str(place)} for place, load in enumerate(loads)]}

    class Stop(Watch):
        def finished(self, run: Run, record: object) -> None:  # noqa: ARG002 - as Watch
            threading.Timer(0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

    with pytest.raises(ftlab.Interrupted) as caught:
        ftlab.study({**spec, "axes": axes, "options": {"timing": False}}, jobs=2, watch=Stop())
    assert sorted(caught.value.result["status"]) == ["done", "missing"]


def test_an_exception_of_the_progress_callback_ends_the_run() -> None:
    def stop(phase: str, fraction: float | None, requests: int) -> None:
        assert phase in {"precondition", "run"}
        assert fraction is None or 0 <= fraction <= 1
        raise LookupError(f"enough after {requests}")

    with pytest.raises(LookupError, match="enough"):
        ftlab.run(DEVICE, LONG, progress=stop)
