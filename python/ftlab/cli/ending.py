"""Ends that others ask for: a file that is being written must not stay behind in part."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@contextlib.contextmanager
def orderly() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end what is done within as Ctrl-C does; the exit status is 128 and the signal's number."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        click.echo(f"error: interrupted by {signal.Signals(number).name}", err=True)
        raise SystemExit(128 + number)

    before = {}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # What is ignored (as by nohup) stays so.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
