"""Ends that others ask for: what was measured is kept, and no file stays behind in part."""

from __future__ import annotations

import contextlib
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@dataclass
class Ending:
    """Who has asked for the end, if it was not Ctrl-C."""

    number: int | None = None

    def status(self, of_ctrl_c: int) -> int:
        """Exit status of a command that was ended: 128 and the signal's number."""
        return of_ctrl_c if self.number is None else 128 + self.number


@contextlib.contextmanager
def orderly() -> Iterator[Ending]:
    """Let SIGTERM and SIGHUP end what is done within as Ctrl-C does."""
    ending = Ending()

    def end(number: int, _: FrameType | None) -> NoReturn:
        ending.number = number
        raise KeyboardInterrupt

    before = {}
    # Others than the main thread hear no signals.
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            # What is ignored (as by nohup) stays so.
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, end)
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
