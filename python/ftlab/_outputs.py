"""Where output goes: what ftlab did not make is not written over, and what it writes appears whole.

A file or folder is made in a staging folder beside its place and renamed. Whenever this process ends, the place has the
older output or the new one. The staging folder of a process that was killed is swept by the next one with that place.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
import stat
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ftlab.errors import ConfigError, FtlabError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

# Of a file whose mark stands near its beginning.
_HEAD_BYTES = 4096
# Bytes of a name that the one of its staging folder repeats: a name has at most 255.
_NAME_BYTES = 200
_ATTEMPTS = 5
_MARK = "user.ftlab.made"
_AT_CWD, _EXCHANGE = -100, 2


@dataclass(frozen=True)
class Kind:
    """A kind of output.

    Attributes:
        what: What it is, in words.
        made: Whether ftlab made what is there.
        names: Of a folder: the files that it may have, which a new one replaces.
    """

    what: str
    made: Callable[[Path], bool]
    names: tuple[str, ...] = ()


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def _footer(path: Path) -> bytes:
    """The footer of a Parquet file; empty for any other."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        end = file.read()
        length = int.from_bytes(end[:4], "little")
        if not end.endswith(b"PAR1") or length > size - 8:
            return b""
        file.seek(size - 8 - length)
        return file.read(length)


def has_keys(path: Path, *keys: str) -> bool:
    """Whether a file is a JSON object with these keys."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and set(keys) <= document.keys()


def _mark_of(path: Path) -> bytes:
    about = path.stat()
    return f"{about.st_size} {about.st_mtime_ns}".encode()


def mark(path: str | os.PathLike[str]) -> None:
    """Mark a file whose format has no place for it, beside its content, where the file system can.

    The mark ends when the content changes. Without it the file is taken for somebody else's.
    """
    with contextlib.suppress(OSError, AttributeError):
        os.setxattr(path, _MARK, _mark_of(Path(path)))


def _is_marked(path: Path) -> bool:
    try:
        return os.getxattr(path, _MARK) == _mark_of(path)
    except (OSError, AttributeError):
        return False


def _is_figure(path: Path) -> bool:
    marks = {
        ".png": b"Software\0ftlab",
        ".svg": b"<dc:title>ftlab</dc:title>",
        ".pdf": b"/Creator (ftlab)",
    }
    mark = marks.get(path.suffix.lower())
    return mark is not None and mark in path.read_bytes()


EVENTS = Kind(
    "an event log",
    lambda path: (
        _head(path).startswith(b'{"displayTimeUnit":"ns","traceEvents":[\n{"ph":"M","name":"process_name","pid":1,')
        and b'"args":{"name":"channels"}' in _head(path)
    ),
)
REQUEST_LOG = Kind(
    "a request log",
    lambda path: all(name in _footer(path) for name in (b"index", b"start_ns", b"latency_ns", b"parquet-rs")),
)
PAGE = Kind("a report", lambda path: b'<meta name="generator" content="ftlab' in _head(path))
FIGURE = Kind("a figure", _is_figure)
FIT = Kind(
    "a fitted workload", lambda path: _head(path).startswith(b"# Fitted to a trace: counts and distributions only")
)
TRACE = Kind("a trace", lambda path: b"ftlab.schema" in _footer(path) or _is_marked(path))
RESULT = Kind(
    "a result",
    lambda path: has_keys(path / "summary.json", "schema", "device", "host", "flash", "wear"),
    (
        "summary.json",
        "run.json",
        "device.toml",
        "workload.toml",
        "trace.txt",
        "series.parquet",
        "plot.png",
        "plot.svg",
        "requests.parquet",
    ),
)

CRASH = Kind(
    "a crash test",
    lambda path: has_keys(path / "summary.json", "cuts", "lost_cuts", "violations", "mount"),
    ("summary.json", "run.json", "device.toml", "workload.toml", "trace.txt", "cuts.parquet"),
)


def _is_stream(path: Path) -> bool:
    """Whether a path is written as it goes: a device, a pipe, or what others have open, such as ``/dev/stdout``."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return True
    while path.is_symlink():
        folder = Path(os.path.realpath(path.parent))
        if folder == Path("/dev") or Path("/proc") in (folder, *folder.parents):
            return True
        path = folder / path.readlink()
    return False


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def check(
    path: str | os.PathLike[str],
    kind: Kind,
    *,
    inputs: Iterable[str | os.PathLike[str]] = (),
    called: str = "is an input of this command",
    overwrite: bool = False,
) -> None:
    """Refuse a place for output whose content would be missed.

    Args:
        path: The place.
        kind: What goes there.
        inputs: What the command reads. Links are known: files are compared, not names.
        called: What an error says that these are.
        overwrite: Refuse nothing.

    Raises:
        ConfigError: The place is an input, or has something that ftlab did not make as this kind of output.
    """
    path = Path(path)
    if overwrite:
        return
    try:
        if _is_stream(path):
            return
        there = path.exists()
        parts = [path, *(path / name for name in kind.names)]
        for source, part in itertools.product(map(Path, inputs), parts):
            if there and _same(source, part):
                raise ConfigError(
                    f"{part}: {called}, which {kind.what} would replace: "
                    "choose another place, or write over it (--force, overwrite=True)"
                )
        if not there or (kind.names and path.is_dir() and not any(path.iterdir())):
            return
        # Whoever writes says what is wrong with a folder in place of a file, and the other way round.
        if path.is_dir() == bool(kind.names) and not kind.made(path):
            raise ConfigError(
                f"{path}: is there, and nothing marks it as {kind.what} made by ftlab: "
                "choose another place, or write over it (--force, overwrite=True)"
            )
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


def _locked(folder: Path) -> int | None:
    """Hold a folder, which ends with this process; ``None`` if somebody else does, or it is gone."""
    import fcntl

    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _removed(folder: Path) -> None:
    """Remove a folder, as far as it can be."""
    # With the libraries of all archives: a run without output does not wait for it.
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _sweep(target: Path, prefix: str) -> None:
    """Remove what killed processes left beside a place, and give an older output its name again."""
    with contextlib.suppress(OSError):
        left = [
            each
            for each in target.parent.iterdir()
            if re.fullmatch(re.escape(prefix) + "[0-9a-f]{12}(old)?", each.name)
        ]
        for each in sorted(left, key=lambda each: not each.name.endswith("old")):
            held = _locked(each)
            if held is None:
                continue
            if each.name.endswith("old") and not target.exists():
                each.rename(target)
            else:
                _removed(each)
            os.close(held)


def _prefix(target: Path) -> str:
    return f".{os.fsdecode(os.fsencode(target.name)[:_NAME_BYTES])}.ftlab-"


@contextlib.contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """Give a folder beside a place, for as long as what goes there is being made."""
    prefix = _prefix(target)
    _sweep(target, prefix)
    for _ in range(_ATTEMPTS):
        folder = target.with_name(f"{prefix}{uuid.uuid4().hex[:12]}")
        folder.mkdir()
        held = _locked(folder)
        # Somebody who sweeps may have been quicker; some file systems hold nothing.
        if held is not None and folder.exists():
            break
    try:
        yield folder
    finally:
        _removed(folder)
        if held is not None:
            os.close(held)


@contextlib.contextmanager
def _told_of(path: Path, staged: Path) -> Iterator[None]:
    """Let errors name the place of output instead of where it is made."""
    try:
        yield
    except FtlabError as error:
        error.args = tuple(str(text).replace(str(staged), str(path)) for text in error.args)
        raise
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the path to write a file to, which gets its own name at the end; after an error it does not appear.

    A link stays one: the file that it means is replaced. Devices and pipes are written directly.

    Raises:
        ConfigError: The place cannot be written.
    """
    path = Path(path)
    with contextlib.ExitStack() as ends:
        ends.enter_context(_told_of(path, path))
        if _is_stream(path):
            yield path
            return
        target = Path(os.path.realpath(path))
        staged = ends.enter_context(_staging(target)) / target.name
        with _told_of(path, staged):
            yield staged
        if staged.exists():
            staged.replace(target)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file as a whole.

    Raises:
        ConfigError: It cannot be written.
    """
    with whole_file(path) as place:
        place.write_bytes(data)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step; false where the system cannot."""
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    if rename(_AT_CWD, os.fsencode(one), _AT_CWD, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
        return False
    raise OSError(number, os.strerror(number), str(other))


def _put(folder: Path, target: Path) -> None:
    """Give a folder its name, in place of the one that has it."""
    if not target.exists():
        folder.rename(target)
    elif not _exchange(folder, target):
        # Killed in between, the next command with this place gives the old one its name again.
        old = folder.with_name(f"{folder.name}old")
        target.rename(old)
        folder.rename(target)
        _removed(old)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        import shutil

        shutil.copy2(source, target, follow_symlinks=False)


def _keep(folder: Path, target: Path, names: Collection[str]) -> None:
    """Take over what is no part of the older output: nothing of others is lost, whichever folder is deleted."""
    import shutil

    for entry in target.iterdir():
        place = folder / entry.name
        if entry.name in names or os.path.lexists(place):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, place, symlinks=True, copy_function=_link)
        else:
            _link(str(entry), str(place))
    shutil.copymode(target, folder)


def _must_stay(target: Path) -> bool:
    """Whether a folder cannot be exchanged: somebody stands in it, it is a mount, or nothing can be made beside it."""
    here = Path.cwd()
    return target.exists() and (
        target in (here, *here.parents) or target.is_mount() or not os.access(target.parent, os.W_OK)
    )


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike[str], kind: Kind) -> Iterator[Path]:
    """Give the folder to write output into, which gets its own name at the end, in place of an older one.

    Other files in the older one are kept. Where folders cannot be exchanged, files are, one by one.

    Raises:
        ConfigError: The place cannot be written.
    """
    path = Path(path)
    with contextlib.ExitStack() as ends:
        ends.enter_context(_told_of(path, path))
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_dir():
            raise ConfigError(f"{path}: is a file, expected a folder for {kind.what}")
        target.parent.mkdir(parents=True, exist_ok=True)
        stays = _must_stay(target)
        folder = ends.enter_context(_staging(target / target.name if stays else target))
        with _told_of(path, folder):
            yield folder
        if stays:
            new = {entry.name for entry in folder.iterdir()}
            for name in sorted(new):
                (folder / name).replace(target / name)
            for name in set(kind.names) - new:
                (target / name).unlink(missing_ok=True)
            return
        if target.exists():
            _keep(folder, target, kind.names)
        _put(folder, target)


def restore(path: str | os.PathLike[str]) -> None:
    """Give a folder its name again that a killed process had set aside, where folders cannot be exchanged."""
    target = Path(os.path.realpath(path))
    if not target.exists():
        _sweep(target, _prefix(target))
