"""How many cores there are, and how much memory: of the machine, its control group, and the limits of this process."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ftlab._units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_GROUPS = Path("/sys/fs/cgroup")
# Of Linux, in proc(5).
_NEVER_OVERCOMMIT = 2


@dataclass(frozen=True)
class Limit:
    """Bytes that may be taken yet, and what says so."""

    bytes: int
    owner: str
    """A clause with a verb, such as ``"this machine has"``."""

    def __str__(self) -> str:
        """What it is and how much, for a sentence."""
        return f"{self.owner} {bytes_text(self.bytes)}"


def _number(path: Path) -> int | None:
    """The number in a file; `None` when there is none."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _taken() -> tuple[int, int, int]:
    """Bytes of addresses, of memory, and of data that this process has; 0 where the system does not say."""
    try:
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
        page = os.sysconf("SC_PAGE_SIZE")
        return int(fields[0]) * page, int(fields[1]) * page, int(fields[5]) * page
    except (OSError, ValueError, IndexError):
        return 0, 0, 0


def _group_files(groups: Path, text: str) -> Iterator[Path]:
    """Files with the memory limits of the control groups that ``text`` names, and of those above them.

    ``text`` is that of ``/proc/self/cgroup``. Inside a container the names may be those outside: then only the topmost
    folder is there, which is the container's.
    """
    for line in text.splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers == "":
            folder, file = groups, "memory.max"
        elif "memory" in controllers.split(","):
            folder, file = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        path = PurePosixPath(name.lstrip("/"))
        for part in (path, *path.parents):
            yield folder / part / file


def group_bytes(groups: Path = _GROUPS, text: str | None = None) -> int | None:
    """The smallest memory limit of the control groups of this process; `None` without one."""
    if text is None:
        try:
            text = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    found = [_number(file) for file in _group_files(groups, text)]
    return min((number for number in found if number is not None), default=None)


def _resource_limits() -> Iterator[Limit]:
    try:
        import resource
    except ImportError:
        return
    addresses, _, data = _taken()
    for name, taken, owner in (
        ("RLIMIT_AS", addresses, "the limit of this process (ulimit -v) leaves"),
        ("RLIMIT_DATA", data, "the limit of this process (ulimit -d) leaves"),
    ):
        most = resource.getrlimit(getattr(resource, name))[0]
        if most != resource.RLIM_INFINITY:
            yield Limit(max(0, most - taken), owner)


def most_of_process() -> int | None:
    """Bytes of memory that this process may come to, a tenth of the rest kept back; `None` where that is not known."""
    taken, found = _taken()[1], []
    group = group_bytes()
    if group is not None:
        found.append(taken + max(0, group - taken) // 10 * 9)
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        kib = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        found.append(taken + int(kib) * 1024 // 10 * 9)
    return min(found, default=None)


def limits() -> list[Limit]:
    """What limits the memory of this process, as far as it is known."""
    found = list(_resource_limits())
    with contextlib.suppress(AttributeError, ValueError, OSError):
        found.append(Limit(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "this machine has"))
    group = group_bytes()
    if group is not None:
        found.append(Limit(max(0, group - _taken()[1]), "the control group of this process (cgroup) leaves"))
    return found


def least() -> Limit | None:
    """The smallest limit of memory; `None` where none is known."""
    return min(limits(), key=lambda limit: limit.bytes, default=None)


def promises_all(file: Path = Path("/proc/sys/vm/overcommit_memory")) -> bool:
    """Whether the system has room for all memory that it gives, touched or not."""
    return _number(file) == _NEVER_OVERCOMMIT


def least_of_addresses() -> Limit | None:
    """The smallest limit that counts addresses, whether or not they are used; `None` without one."""
    return min(_resource_limits(), key=lambda limit: limit.bytes, default=None)


def cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
