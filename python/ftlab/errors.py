"""The exceptions of ftlab: what went wrong, and whose fault it is."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ftlab._result import Result


# Characters of a word, of a line and of a whole message that are shown.
_WORD, _LINE, _MESSAGE = 256, 1_200, 1_900


def _cut(text: str, most: int) -> str:
    """Leave out the middle of a text that is too long."""
    part = most // 4
    return text if len(text) <= most else f"{text[:part]}...{text[-part:]} ({len(text):,} characters)"


def readable_lines(message: str) -> list[str]:
    """Give the lines of a message, with what is too long in them shortened: whoever gave a value knows it."""
    lines = [" ".join(_cut(word, _WORD) for word in line.split(" ")) for line in message.splitlines()]
    return [_cut(line, _LINE) for line in lines]


def readable(message: str) -> str:
    """Shorten a message to what a person reads: below 2 KB."""
    lines = readable_lines(message)
    shown: list[str] = []
    room = _MESSAGE
    for line in lines:
        room -= len(line.encode(errors="replace")) + len("error: \n")
        if room < 0 and shown:
            shown.append(f"... and {len(lines) - len(shown):,} more")
            break
        shown.append(line)
    return "\n".join(shown)


class FtlabError(Exception):
    """Base of every error of ftlab.

    Attributes:
        result: What was measured before the error, marked partial; ``None`` when nothing was run.
    """

    result: Result | None = None

    def __str__(self) -> str:
        """The message, of a length that a person reads: long values are shortened, and many lines counted."""
        return readable("\n".join(map(str, self.args)))


class ConfigError(FtlabError, ValueError):
    """A device, a workload or an option is wrong. The message names file, line, key and nearest name."""


class InputError(FtlabError, ValueError):
    """A trace or a table of requests cannot be used. The message names the place."""


class SessionError(InputError):
    """A session cannot do what it was asked: a time that has passed, an unknown request, a closed session.

    Nothing has changed then, and the session goes on.
    """


class RunError(FtlabError, RuntimeError):
    """The run failed: the drive is full, a rule of flash was broken, or verification found a mismatch."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a run, a crash test, a study or a recording: a loop around it stops as well.

    Attributes:
        result: What was measured until then: a partial result, the table of a study, or a recording; ``None`` when
            there is nothing yet.
        unwritten: The file that is missing beside what was written, since Ctrl-C came before it; else ``None``.
    """

    def __init__(self, result: Any, unwritten: Any = None) -> None:
        """Keep what was measured."""
        told = (
            "before anything was measured"
            if result is None
            else "the attribute result has what was measured until then"
        )
        super().__init__(f"interrupted: {told}" + ("" if unwritten is None else f"; {unwritten} was not written"))
        self.result = result
        self.unwritten = unwritten


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C be :class:`Interrupted` whenever it comes, also before there is a result and while files are read."""
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(None) from None
