"""Recording what a command does to files, as a trace."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from ftlab import _native
from ftlab import _outputs as outputs
from ftlab._checks import checked
from ftlab._workload import Trace
from ftlab.errors import ConfigError, Interrupted, interruptible

if TYPE_CHECKING:
    from collections.abc import Sequence

EXTENSIONS = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".disksim": "disksim",
    ".mqsim": "mqsim",
    ".blkparse": "blkparse",
    ".iolog": "fio_iolog",
}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")


def format_of(path: Path) -> str | None:
    """Tell the format of traces that an extension names, before that of a compression; ``None`` if it names none."""
    inner = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    return EXTENSIONS.get(inner.suffix)


@dataclass(frozen=True)
class Recording:
    """A command that was recorded.

    Attributes:
        trace: What it did to files, as a trace.
        status: Its exit status; 128 and the number of the signal that ended it.
        reads, writes, trims, flushes: Requests of the trace.
        calls: System calls that led to them.
        files: Files that were accessed.
        space_bytes: Size of the flat address space in which the files lie.
        duration_ns: How long it ran.
        shared_mappings: Mappings of files that it could write through, which is not seen.
        asynchronous_calls: Batches of asynchronous calls (``io_uring``, ``io_submit``), which are not seen.
        lost: What the format could not hold, in sentences, such as trims.
    """

    trace: Trace
    status: int
    reads: int
    writes: int
    trims: int
    flushes: int
    calls: int
    files: int
    space_bytes: int
    duration_ns: int
    shared_mappings: int
    asynchronous_calls: int
    lost: tuple[str, ...] = ()

    @property
    def requests(self) -> int:
        """All requests of the trace."""
        return self.reads + self.writes + self.trims + self.flushes

    def counts(self) -> dict[str, int]:
        """Give all numbers by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in {"trace", "lost"}}

    def unseen(self) -> list[str]:
        """Say in sentences what the command did that is not in the trace."""
        said = []
        if self.shared_mappings:
            said.append(f"{self.shared_mappings} writable mappings of files: what was written through them is not seen")
        if self.asynchronous_calls:
            said.append(f"{self.asynchronous_calls} asynchronous calls (io_uring, io_submit), which are not seen")
        return said


def _patterns(patterns: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    several = [patterns] if isinstance(patterns, (str, os.PathLike)) else patterns
    return [os.fspath(pattern) for pattern in several]


@interruptible()
@checked
def record(
    command: str | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    to: str | None = None,
    cache: int | str | None = None,
    include: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    exclude: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    output_to_stderr: bool = False,
    overwrite: bool = False,
) -> Recording:
    """Run a command and record what it and all that it starts do to files, as a trace. Linux only.

    It sees system calls, by ``ptrace``; ``docs/concepts/recording.md`` says what that means. Ctrl-C ends the command,
    and what was recorded until then is kept; SIGTERM and SIGHUP are passed on to it, to the same end.

    Args:
        command: The command and its arguments; a text is a command without arguments, as no shell takes it apart.
        out: The trace to write; ``.gz``, ``.bz2``, ``.xz`` and ``.zst`` compress it.
        to: Its format. Default: by the extension of ``out``.
        cache: Size of a page cache that stands between the command and the device, such as ``"256MiB"``. Default:
            ``None`` or ``"none"``, every call is a request.
        include: Only files in these folders, or whose whole path matches these patterns: one or several. Default: all.
        exclude: Not these.
        output_to_stderr: Send the standard output of the command to standard error.
        overwrite: Also write over a file that is no trace of ftlab's.

    Raises:
        ConfigError: An argument is wrong, or the file would be missed.
        InputError: The command cannot be started, watching it is not allowed, or the trace cannot be written.
        Interrupted: Ctrl-C, a ``KeyboardInterrupt``. Its ``result`` is what was recorded.
    """
    words = [command] if isinstance(command, str) else list(command)
    if not words or not words[0]:
        raise ConfigError("command: found nothing, expected a command and its arguments")
    target = Path(out)
    chosen = to or format_of(target)
    if chosen is None:
        raise ConfigError(f"{target}: the extension names no format; state one, or use one of {', '.join(EXTENSIONS)}")
    outputs.check(target, outputs.TRACE, overwrite=overwrite)
    ours = threading.current_thread() is threading.main_thread()
    asked: list[int] = []
    interrupted: list[bool] = []
    before = {}
    if ours:
        # Ctrl-C reaches the command as well: it ends, and the recording is finished first.
        before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: interrupted.append(True))
        for number in (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")):
            # What is ignored (as by nohup) stays so.
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, lambda came, _: asked.append(came))
    try:
        done = _native.record(
            [os.fspath(word) for word in words],
            target,
            chosen,
            cache="0" if cache in {None, "none"} else str(cache),
            include=_patterns(include),
            exclude=_patterns(exclude),
            output_to_stderr=output_to_stderr,
            asked=lambda: asked.pop(0) if asked else None,
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    outputs.mark(target)
    recording = Recording(trace=Trace(target, chosen), **{**done, "lost": tuple(done["lost"])})
    if interrupted:
        raise Interrupted(recording)
    return recording
