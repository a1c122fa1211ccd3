"""Python as people use it: names, completion, progress bars, what objects show of themselves."""

from __future__ import annotations

import inspect
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import ftlab
from conftest import ROOT
from ftlab import analysis, figures
from ftlab.cli import cli

# What Python calls otherwise, or does in another way, and why.
OTHERWISE = {
    "--json": "results are objects",
    "--csv": "tables are frames",
    "--force": "overwrite: as in other libraries",
    "--no-timing": "timing: a flag has no negation",
    "--set": "Device.set and Workload.set",
    "--transform": "Trace.transform and Workload.transform",
    "--explain": "says what the printed table means",
}
# The commands, the functions beside them, and the options that are elsewhere.
BESIDE: dict[str, tuple[list[Any], dict[str, str]]] = {
    "run": ([ftlab.run, ftlab.Trace], {"--trace": "the argument workload takes both"}),
    "crash": ([ftlab.crash, ftlab.Trace], {}),
    "trace convert": ([ftlab.convert, ftlab.Trace], {"--workload": "Workload.load"}),
    "trace merge": ([ftlab.merge, ftlab.Trace], {}),
    "trace split": ([ftlab.split, ftlab.Trace], {}),
    "trace stats": ([ftlab.trace_stats, ftlab.Trace], {"--out": "TraceStats.write"}),
    "trace fit": ([ftlab.fit, ftlab.Trace], {"--out": "Fit.write"}),
    "trace record": ([ftlab.record], {}),
    "explain": ([ftlab.explain], {}),
    "report": ([ftlab.report], {}),
    "study run": (
        [ftlab.study],
        {
            "--address": "RayExecutor",
            "--ship-traces": "RayExecutor",
            "--trace-memory": "ThreadExecutor",
            "--dry-run": "Study.runs",
        },
    ),
    "study compare": ([analysis.compare], {"--metric": "metrics, of several", "--study": "Store.frame"}),
    "study improvement": ([analysis.improvement], {"--study": "Store.frame"}),
    "study pareto": (
        [analysis.pareto],
        {"--axis": "axes, of several", "--front": "a filter of the frame", "--study": "Store.frame"},
    ),
    "study sensitivity": ([analysis.sensitivity], {"--axis": "axes, of several", "--study": "Store.frame"}),
    "study steady": ([analysis.steady_states], {"--study": "name, after the store"}),
    "study plot": (
        [figures.line, figures.bar, figures.cdf, figures.heatmap, figures.histogram, figures.series],
        {
            "--study": "Store.frame",
            "--kind": "the function",
            "--where": "a filter of the frame",
            "--name": "names, of several",
            "--out": "figures.save",
        },
    ),
    "study fleet": (
        [analysis.fleet, analysis.worst],
        {"--worst": "analysis.worst", "--study": "Store.frame"},
    ),
}


def command_of(words: str) -> click.Command:
    found: click.Command = cli
    for word in words.split():
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), word)
        assert inner is not None, words
        found = inner
    return found


@pytest.mark.parametrize("words", BESIDE)
def test_python_says_what_the_command_line_says(words: str) -> None:
    functions, elsewhere = BESIDE[words]
    names = {name for each in functions for name in inspect.signature(each).parameters}
    options = {
        option
        for parameter in command_of(words).params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--")
    }
    assert set(elsewhere) <= options
    missing = {each for each in options - {*OTHERWISE, *elsewhere} if each[2:].replace("-", "_") not in names}
    assert missing == set()


def test_completion_shows_what_people_call() -> None:
    shown = [name for name in dir(ftlab) if not name.startswith("_")]
    assert 18 <= len(shown) <= 24
    assert {"Device", "Workload", "Trace", "run", "study", "crash", "devices", "workloads", "errors"} <= set(shown)
    assert set(shown) <= set(ftlab.__all__)
    assert all(getattr(ftlab, name) is not None for name in ftlab.__all__)


@pytest.mark.parametrize("jedi", [False, True])
def test_a_notebook_completes_these_names(jedi: bool) -> None:
    completer = pytest.importorskip("IPython.core.completer")
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell(user_ns={"ftlab": ftlab})
    shell.Completer.use_jedi = jedi
    with completer.provisionalcompleter():
        found = {each.text.lstrip(".") for each in shell.Completer.completions("ftlab.", len("ftlab."))}
    assert found == {name for name in dir(ftlab) if not name.startswith("_")}


def test_an_editor_sees_no_internal_module() -> None:
    jedi = pytest.importorskip("jedi")
    found = {each.name for each in jedi.Script("import ftlab\nftlab.").complete() if not each.name.startswith("_")}
    packages = {"characterize", "cli", "papers", "studies"}
    assert found <= {*ftlab.__all__, *packages}


SLOW = """
import time
import ftlab
from ftlab import _progress
_progress._PATIENCE_SECONDS = {patience}
device = ftlab.Device("ideal-page").set("geometry.blocks_per_plane=64")
began = time.monotonic()
def stop(row):
    if time.monotonic() - began > {seconds}:
        raise StopIteration
try:
    ftlab.run(device, ftlab.Workload(kind="uniform", requests=10**9), series=1000, on_row=stop, timing=False{more})
except StopIteration:
    pass
"""


def on_a_terminal(program: str, prints: str = "") -> str:
    """What a program writes to standard error, which is a terminal. Its standard output is a pipe."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        written = b"".join(chunks(ours))
        assert process.stdout is not None
        assert process.stdout.read().decode() == prints
        assert process.wait(30) == 0, written
    os.close(ours)
    return written.decode(errors="replace")


def chunks(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            # The program has ended.
            return
        if not data:
            return
        yield data


def test_a_long_run_shows_a_bar_on_a_terminal() -> None:
    slow = SLOW.format(seconds=0.4, patience=0.1, more="")
    # What the program prints meanwhile is its own.
    prints = slow.replace("raise StopIteration", "print('enough')\n        raise StopIteration")
    assert "uniform on ideal-page" in on_a_terminal(prints, "enough\n")


@pytest.mark.long
def test_a_short_run_and_an_unwanted_bar_show_nothing() -> None:
    assert on_a_terminal(SLOW.format(seconds=0.3, patience=60, more="")) == ""
    assert on_a_terminal(SLOW.format(seconds=0.3, patience=0.1, more=", progress=False")) == ""


def test_there_is_no_bar_in_a_pipe() -> None:
    program = SLOW.format(seconds=0.3, patience=0.1, more="")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_notebook_shows_a_bar_that_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shells = pytest.importorskip("IPython.core.interactiveshell")
    publisher = pytest.importorskip("IPython.core.displaypub").CapturingDisplayPublisher()
    shell = shells.InteractiveShell.instance()
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    monkeypatch.setattr(shell, "display_pub", publisher)
    try:
        exec(SLOW.format(seconds=0.5, patience=0.1, more=""), {})  # noqa: S102 - our own program
    finally:
        shells.InteractiveShell.clear_instance()
    assert len(publisher.outputs) >= 3
    first, *_, last = publisher.outputs
    assert first["data"]["text/plain"].startswith("uniform on ideal-page: run")
    assert "<progress max='1' value='0." in first["data"]["text/html"]
    assert [each["update"] for each in publisher.outputs] == [False] + [True] * (len(publisher.outputs) - 1)
    assert last["data"] == {"text/plain": ""}


@pytest.mark.parametrize("wrong", [True, 3, "often"])
def test_a_wrong_progress_is_named(wrong: Any) -> None:
    for call in (
        lambda: ftlab.run("ideal-page", ftlab.Workload(kind="uniform", requests=1), progress=wrong),
        lambda: ftlab.trace_stats(ftlab.Workload(kind="uniform", requests=1), progress=wrong),
    ):
        with pytest.raises(ftlab.ConfigError, match=r"^progress = .*: expected a function, or False for no bar"):
            call()


def test_times_have_their_unit_in_the_name_of_their_column() -> None:
    device = ftlab.Device("ideal-page").set("geometry.blocks_per_plane=64", "precondition.kind=none")
    load = ftlab.Workload(kind="uniform", requests=50)
    result = ftlab.run(device, load, requests_log=True, series=10)
    assert result.series is not None
    assert result.requests is not None
    statistics = ("mean", "stdev", "min", "p50", "p90", "p99", "p999", "max")
    assert result.latency.columns == ["op", "count", *(f"{name}_ns" for name in statistics)]
    crashed = {at: ftlab.crash(device, load, requests=5, at=at) for at in ("command", "time")}
    found = result.explain()
    frames = [
        result.latency, result.series, result.coarse_series, result.requests, found.parts, found.groups,
        *(each.frame for each in crashed.values()), ftlab.devices(), ftlab.Session(device).send(
            {"op": ["write"], "lba": [0], "sectors": [8]}
        ),
    ]  # fmt: skip
    assert "at_command" in crashed["command"].frame.columns
    assert "at_ns" in crashed["time"].frame.columns
    for frame in frames:
        for name in frame.columns:
            assert not re.search(r"(time|latency|wait|mean|p99|bytes_\w*second$)$", name) or name == "bytes_per_second"


def test_a_store_says_what_it_has(tmp_path: Path) -> None:
    store = ftlab.Store(tmp_path / "store")
    assert repr(store) == f"<ftlab.Store {tmp_path / 'store'}: no study>"
    spec = {
        "name": "tiny", "description": "a <study>", "device": "ideal-page",
        "set": {"geometry": {"blocks_per_plane": 64}},
        "workload": {"kind": "uniform", "requests": 10}, "axes": {"ftl.gc": ["greedy", "fifo"]},
    }  # fmt: skip
    ftlab.study(spec, out=store)
    assert repr(store) == f"<ftlab.Store {tmp_path / 'store'}: tiny with 2 runs>"
    ftlab.study(spec | {"name": "other", "seeds": [1, 2]}, out=store)
    assert repr(store) == f"<ftlab.Store {tmp_path / 'store'}: 2 studies, the newest other with 4 runs>"
    page = store._repr_html_()
    assert "<td style='text-align:left'>tiny</td>" in page
    assert "a &lt;study&gt;" in page


def test_a_crash_test_takes_the_name_of_a_workload() -> None:
    device = ftlab.Device("ideal-page").set("geometry.blocks_per_plane=64", "precondition.kind=none")
    assert ftlab.crash(device, "zipf", requests=5).summary["workload"] == "zipf"
    with pytest.raises(ftlab.ConfigError, match='did you mean "zipf"'):
        ftlab.crash(device, "zip")


def test_docs_use_the_names_of_today() -> None:
    # The changelog has the names of before, too.
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    gone = re.compile(r"request_log=|--series-every|--workers\b|\btraces=DIR")
    assert [page.name for page in pages if gone.search(page.read_text())] == []


@pytest.mark.parametrize("stop", ["drained", "last_arrival"])
def test_a_series_ends_alike_whatever_its_interval(stop: str) -> None:
    device = ftlab.Device("ideal-page").set(
        "geometry.blocks_per_plane=64", "precondition.kind=none", "buffer.kind=lru", "buffer.bytes=1MiB"
    )
    if stop == "last_arrival":
        device = device.set("host.arrival=open", "host.stop=last_arrival")
    workload = ftlab.Workload.parse('[workload]\nkind = "uniform"\nrequests = 1000\nrate_iops = 9000\n')
    sums, lasts = set(), set()
    for every in (100, 101, 300, "10ms"):
        series = ftlab.run(device, workload, series=every).series
        sums.add((series["programmed_pages"].sum(), series["write_pages"].sum(), series["erases"].sum()))
        lasts.add(series.tail(1).select("simulated_ns", "requests", "free_blocks").row(0))
    assert len(sums) == len(lasts) == 1
    [(programmed, written, _)] = sums
    # What the buffer still holds is drained after the last completion.
    assert 0 < programmed < written
