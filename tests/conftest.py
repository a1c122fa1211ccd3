"""What the tests share."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from browser import Browser

# A program of `browser.py`, which needs a library of its own.
collect_ignore = ["browse.py"]

# What the user's runs have left must not be used, nor what tests run be left there.
os.environ["FTLAB_CACHE"] = ""

ROOT = Path(__file__).resolve().parent.parent
FTLAB = Path(sys.executable).parent / "ftlab"

TERMINAL = {"COLUMNS": "110", "NO_COLOR": "1"}

# A drive that is small enough for a test and large enough to collect.
SMALL = ("--set", "geometry.blocks_per_plane=64", "--set", "geometry.pages_per_block=16")


# Files that take longest, begun first: at the end one processor would have nothing but them.
LONGEST = (
    "test_papers.py",
    "test_study.py",
    "test_docs.py",
    "test_cli_run.py",
    "test_outputs.py",
    "test_extend.py",
    "test_notebook.py",
    "test_figures.py",
    "test_characterize.py",
    "test_report.py",
    "test_messages.py",
    "test_sensitivity.py",
)


LONG = "FTLAB_LONG" in os.environ


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes long, and runs in `make test-long` only")
    config.addinivalue_line("markers", "sampled(n): each n-th of its cases in `make test`, all in `make test-long`")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
    if LONG:
        return
    seen: Counter[str] = Counter()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        name = f"{item.path}::{getattr(item, 'originalname', item.name)}"
        if item.get_closest_marker("long") or (sampled and seen[name] % sampled.args[0]):
            item.add_marker(pytest.mark.skip(reason="make test-long"))
        seen[name] += 1


@dataclass
class Ran:
    """A finished command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def ftlab(*arguments: str | Path, cwd: Path | None = None, timeout: float = 120) -> Ran:
    """Run the command line as a user does."""
    environment = {**os.environ, **TERMINAL}
    done = subprocess.run(
        [FTLAB, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=timeout,
        env=environment,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "panicked" not in done.stderr, done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)


def inside(*arguments: str | Path, cwd: Path | None = None) -> Ran:
    """Run the command line in this process, which need not start and import: for all but what only processes have."""
    from ftlab.cli import status_of

    out, err = io.StringIO(), io.StringIO()
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with contextlib.chdir(cwd or "."), patch.dict(os.environ, TERMINAL), streams[0], streams[1]:
        status = status_of([str(argument) for argument in arguments])
    return Ran(status, out.getvalue(), err.getvalue())


def run_small(*arguments: str | Path, cwd: Path | None = None) -> Ran:
    """Run a workload on a small `ideal-page`."""
    return inside("run", "ideal-page", *SMALL, *arguments, cwd=cwd)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Listen to signals: jobs in the background ignore SIGINT, those of nohup SIGHUP, and their children do too."""
    heard = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in heard.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """Give a browser, light if nothing else is asked for, to the long tests."""
    if not LONG:
        pytest.skip("opens a browser: part of the long tests")
    pytest.importorskip("PyQt6.QtWebEngineCore", reason="no browser is installed: `make looks` installs one")
    browser = Browser(getattr(request, "param", "light"))
    yield browser
    browser.close()


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace: dict[str, Any]) -> None:
    import numpy as np

    import ftlab as package

    doctest_namespace.update({name: getattr(package, name) for name in package.__all__}, ftlab=package, np=np)
