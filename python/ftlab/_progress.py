"""Progress bars of runs that take a while: in terminals and in notebooks, and never in pipes."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ftlab._checks import shown
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

Progress = Callable[[str, float | None, int], None]
Reading = Callable[[float | None, int], None]
Wanted = Progress | Literal[False] | None

# What ends sooner needs no bar: a loop of short runs would flicker.
_PATIENCE_SECONDS = 0.5

# Two bars in one terminal would write over each other.
_free = threading.Lock()


class _Bar(Protocol):
    def show(self, text: str, fraction: float | None, done: str) -> None: ...
    def close(self) -> None: ...


class _Terminal:
    """A bar on standard error."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True, highlight=False, soft_wrap=False),
            transient=True,
            # What the caller prints goes where it sends it.
            redirect_stdout=False,
        )
        self._task = self._bars.add_task("", total=None, done="")
        self._bars.start()

    def show(self, text: str, fraction: float | None, done: str) -> None:
        # Square brackets in names are no markup.
        name = text.replace("[", "\\[")
        total = None if fraction is None else 1
        self._bars.update(self._task, description=name, total=total, completed=fraction or 0, done=done)

    def close(self) -> None:
        self._bars.stop()


class _Notebook:
    """A bar below the cell that runs; it leaves nothing there."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str, fraction: float | None, done: str) -> None:
        import html

        value = "" if fraction is None else f" value='{fraction:.4f}'"
        words = f"{text} {done}".rstrip()
        page = f"<progress max='1'{value}></progress> {html.escape(words)}"
        self._put({"text/html": page, "text/plain": words})

    def close(self) -> None:
        if self._handle is not None:
            self._put({"text/plain": ""})

    def _put(self, data: dict[str, str]) -> None:
        if self._handle is None:
            display = importlib.import_module("IPython.display").display
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def in_notebook() -> bool:
    """Whether this is the process of a notebook, which shows what is displayed."""
    # Not imported here: where nobody has, there is no notebook.
    loaded = sys.modules.get("IPython")
    shell = None if loaded is None else loaded.get_ipython()
    return hasattr(shell, "kernel")


def _kind() -> type[_Terminal | _Notebook] | None:
    if threading.current_thread() is not threading.main_thread():
        return None
    if in_notebook():
        return _Notebook
    return _Terminal if sys.stderr is not None and sys.stderr.isatty() else None


@contextmanager
def progress_bar(label: str, noun: str = "requests") -> Iterator[Progress | None]:
    """Show progress from half a second on, where somebody sees it; gives the callback of :func:`ftlab.run`.

    Args:
        label: What goes on.
        noun: What is counted; the cuts of a crash test are points.
    """
    kind = _kind()
    if kind is None or not _free.acquire(blocking=False):
        yield None
        return
    began = time.monotonic()
    made: list[_Bar] = []

    def tell(phase: str, fraction: float | None, count: int) -> None:
        if not made:
            if time.monotonic() - began < _PATIENCE_SECONDS:
                return
            made.append(kind())
        what = "points" if phase == "cuts" else noun
        made[0].show(f"{label}: {phase}" if phase else label, fraction, f"{count:,} {what}" if count else "")

    try:
        yield tell
    finally:
        for bar in made:
            bar.close()
        _free.release()


@contextmanager
def wanted(progress: Wanted, label: str) -> Iterator[Progress | None]:
    """Give what is called of a run: the caller's function, a bar by default, or nothing.

    Raises:
        ConfigError: ``progress`` is no function.
    """
    if progress is False:
        yield None
    elif progress is None:
        with progress_bar(label) as tell:
            yield tell
    elif callable(progress):
        yield progress
    else:
        raise ConfigError(f"progress = {shown(progress)}: expected a function, or False for no bar")


@contextmanager
def wanted_reading(progress: Reading | Literal[False] | None, label: str) -> Iterator[Reading | None]:
    """As :func:`wanted`, of what reads a trace: it has no phases."""
    if progress is None:
        with progress_bar(label) as tell:
            yield None if tell is None else lambda fraction, count: tell("", fraction, count)
        return
    if progress is not False and not callable(progress):
        raise ConfigError(f"progress = {shown(progress)}: expected a function, or False for no bar")
    yield progress or None
