"""The exceptions of ftlab: what went wrong, and whose fault it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ftlab.result import Result


class FtlabError(Exception):
    """Base of every error of ftlab.

    Attributes:
        result: What was measured before the error, marked partial; ``None`` when nothing was run.
    """

    result: Result | None = None


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
