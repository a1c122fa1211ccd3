"""Ctrl-C, SIGTERM and SIGHUP at a time when nothing is left half done."""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


@contextlib.contextmanager
def held_back() -> Iterator[list[Callable[[], Any]]]:
    """Let no signal interrupt what is done within, which is short.

    Gives a list of those that came. Whoever asked calls them afterwards: each does what it would have done.
    """
    came: list[Callable[[], Any]] = []
    before: dict[int, Any] = {}
    # Other threads hear no signals.
    if threading.current_thread() is threading.main_thread():
        numbers = (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP"))
        before = {
            number: handler
            for number in numbers
            if number is not None and callable(handler := signal.getsignal(number))
        }

    def hold(number: int, frame: FrameType | None) -> None:
        came.append(functools.partial(before[number], number, frame))

    try:
        for number in before:
            signal.signal(number, hold)
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupts(came: list[Callable[[], Any]]) -> bool:
    """Whether one of the signals that were held back asks for the end."""
    try:
        for answer in came:
            answer()
    except KeyboardInterrupt:
        return True
    return False


def import_whole(name: str) -> None:
    """Import a package, and let Ctrl-C come after that: of one imported in part, a process keeps half for good."""
    import importlib

    with held_back() as came:
        importlib.import_module(name)
    for answer in came:
        answer()
