"""Limits of memory count before anything is made, and where nobody could know, the end is a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ftlab
from conftest import FTLAB
from ftlab import _limits as limits
from ftlab.cli import inputs

resource = pytest.importorskip("resource")

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="who counts addresses is Linux")


def limited(mib: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command that may take so many addresses."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))

    return subprocess.run(arguments, preexec_fn=limit, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("mib", "arguments", "said"),
    [
        (100, ["devices"], "this command needs 128 MiB at least"),
        (600, ["study", "list"], "this command needs 1280 MiB at least"),
        (600, ["run", "ideal-page", "--workload", "uniform", "--out", "r"], "this command needs 1280 MiB at least"),
        (550, ["run", "tlc-256g", "--workload", "uniform"], "67,178,496 mapping units needs up to 531.2 MiB of memory"),
        (1600, ["run", "tlc-256g", "--workload", "uniform", "--out", "r"], "of that the plot of out (--out) needs"),
    ],
)
def test_what_needs_more_is_refused_at_once(tmp_path: Path, mib: int, arguments: list[str], said: str) -> None:
    ran = limited(mib, FTLAB, *(str(tmp_path / "r") if text == "r" else text for text in arguments))
    assert ran.returncode == 2, ran.stderr
    assert said in ran.stderr
    assert "ulimit -v" in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_what_fits_runs() -> None:
    ran = limited(1200, FTLAB, "run", "tlc-256g", "--workload", "uniform", "--requests", "10", "--no-timing")
    assert ran.returncode == 0, ran.stderr


def test_statistics_that_find_no_memory_say_so() -> None:
    code = """
import resource, ftlab
from ftlab import _limits as limits
from ftlab.cli import inputs
many = ftlab.Workload(kind="uniform", requests=4_000_000, request_bytes=4096)
ftlab.trace_stats(many.set("requests=10"), capacity="64GiB")
most = limits._taken()[0] + (24 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
ftlab.trace_stats(many, capacity="64GiB")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2, ran.stderr
    assert ran.stderr.startswith("error: out of memory: "), ran.stderr
    assert ran.stderr.count("\n") == 1


def test_the_smallest_limit_of_all_groups_counts(tmp_path: Path) -> None:
    def group(name: str, file: str, text: str) -> None:
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / file).write_text(text + "\n")

    def most(text: str) -> int | None:
        return limits.group_bytes(tmp_path, text)

    assert most("0::/jobs/mine\n") is None
    group("jobs/mine", "memory.max", "max")
    assert most("0::/jobs/mine\n") is None
    group("jobs", "memory.max", "5000")
    assert most("0::/jobs/mine\n") == 5000
    group("", "memory.max", "4000")
    # The name may be that outside of a container.
    assert most("0::/elsewhere\n") == most("0::/jobs/mine\n") == most("0::/\n") == 4000
    group("memory/a", "memory.limit_in_bytes", "3000")
    assert most("5:cpu,memory:/a\n0::/\n") == 3000
    assert most("5:cpu:/a\n") is None


def test_a_group_counts_in_python_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "group_bytes", lambda: 500 << 20)
    aged = ftlab.Device("tlc-256g").set("precondition.kind=steady")
    with pytest.raises(ftlab.ConfigError, match=r"needs up to 531\.2 MiB of memory, the control group of this process"):
        ftlab.run(aged, ftlab.Workload(kind="uniform", requests=10))
    with pytest.raises(ftlab.ConfigError, match="of memory with verification, the control group of this process"):
        ftlab.run("tlc-256g", ftlab.Workload(kind="uniform", requests=10), verify=True)


def terabyte(monkeypatch: pytest.MonkeyPatch) -> ftlab.Device:
    """A drive whose tables need more than this process may have, once all of it is touched."""
    monkeypatch.setattr(limits, "group_bytes", lambda: 3 * limits._taken()[1] + (256 << 20))
    return ftlab.Device("tlc-256g").set("geometry.ways=16")


def test_a_drive_of_which_little_is_touched_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    result = ftlab.run(terabyte(monkeypatch), ftlab.Workload(kind="uniform", requests=1000))
    assert result.summary["host"]["completed"] == 1000
    (said,) = caplog.messages
    assert "of memory at first, and up to 8.3 GiB as more of it is touched; the control group" in said
    # Nobody watches a session.
    with pytest.raises(ftlab.ConfigError, match=r"needs up to 8\.3 GiB of memory"):
        ftlab.Session(terabyte(monkeypatch))


def test_a_run_that_runs_out_of_memory_keeps_what_it_has_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ftlab.RunError, match="memory ran short: this process has") as ended:
        ftlab.run(terabyte(monkeypatch), ftlab.Workload(kind="uniform", requests=30_000_000), timing=False)
    result = ended.value.result
    assert result is not None
    assert result.partial
    assert 0 < result.summary["host"]["completed"] < 30_000_000


@pytest.mark.parametrize(("text", "does"), [("0\n", False), ("1\n", False), ("2\n", True), ("", False)])
def test_a_system_may_promise_all_memory_that_it_gives(tmp_path: Path, text: str, does: bool) -> None:
    (tmp_path / "overcommit_memory").write_text(text)
    assert limits.promises_all(tmp_path / "overcommit_memory") is does


def test_a_process_may_come_to_what_it_has_and_most_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = limits._taken()[1]
    monkeypatch.setattr(limits, "_taken", lambda: (0, taken, 0))
    monkeypatch.setattr(limits, "group_bytes", lambda: taken + 1000)
    assert limits.most_of_process() == taken + 900
    monkeypatch.setattr(limits, "group_bytes", lambda: None)
    most = limits.most_of_process()
    assert most is not None
    assert taken < most < taken + os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_what_a_formula_fills_is_not_said_to_take_long() -> None:
    large = ftlab.Device("tlc-256g").set("geometry.ways=4")
    assert inputs._waits(large) == []
    (said,) = inputs._waits(large.set("precondition.kind=steady"))
    assert "251,134,564 pages are written before the first request" in said
