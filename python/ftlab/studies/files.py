"""The files of a store: written as a whole, and believed only as a whole.

Every file holds a checksum of its name in the store and of all its other bytes. So a file that is cut off, has a wrong
bit, or lies under the name of another is known when it is read. Such a file is moved into ``damaged/``, named once, and
then absent; nothing is deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import uuid
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_T = TypeVar("_T")

TEMPORARY = ".tmp"
DAMAGED = "damaged"

# Without a handler of the caller's, logging prints warnings on standard error, word for word.
LOG = logging.getLogger("ftlab.studies")

_DIGITS = 32
_JSON = re.compile(rb'\{"checksum": "([0-9a-f]{32})", ')
_PARQUET = re.compile(rb"ftlab checksum ([0-9a-f]{32})")
_PARQUET_BYTES = len(b"ftlab checksum ") + _DIGITS
# What reading raises where a content is not what it should be.
UNFIT = (ValueError, KeyError, TypeError)
# The end of a Parquet file: the length of what describes its columns, and four letters.
_LENGTH_BYTES, _PARQUET_END = 8, b"PAR1"


def write_atomically(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a file as a whole: nobody ever sees a part of it, whenever this process ends.

    Args:
        path: The file; its directory must exist.
        data: Its content.
        durable: Also survive a power cut that comes later: needed before anything else is deleted because of it.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{TEMPORARY}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable and hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _checksum(name: str, *parts: bytes) -> bytes:
    # The name as well: a file is wrong under the name of another.
    digest = hashlib.blake2b(f"{name}\n".encode(), digest_size=_DIGITS // 2)
    for part in parts:
        digest.update(part)
    return digest.hexdigest().encode()


def _before_footer(data: bytes) -> int:
    """Where the columns of a Parquet file have ended; readers never look between there and what describes them."""
    at = len(data) - _LENGTH_BYTES - int.from_bytes(data[-_LENGTH_BYTES : -len(_PARQUET_END)], "little")
    if not data.endswith(_PARQUET_END) or at < len(_PARQUET_END):
        raise ValueError("found no end of a Parquet file, expected one")
    return at


def sealed(name: str, data: bytes) -> bytes:
    """Give a file with its checksum: a JSON object as its first key, a Parquet file before its description.

    Args:
        name: Its path in the store.
        data: A Parquet file if it is called so, else a JSON object that is not empty.

    Raises:
        ValueError: It is no Parquet file although it is called so.
    """
    if name.endswith(".parquet"):
        at = _before_footer(data)
        return b"%sftlab checksum %s%s" % (data[:at], _checksum(name, data[:at], data[at:]), data[at:])
    return b'{"checksum": "%s", %s' % (_checksum(name, data[1:]), data[1:])


def unsealed(name: str, data: bytes) -> bytes:
    """Give the content of a file whose checksum is right: Parquet as it is, JSON without the checksum.

    Raises:
        ValueError: It is damaged; the message says what was found and what was expected.
    """
    if name.endswith(".parquet"):
        at = _before_footer(data)
        start = max(at - _PARQUET_BYTES, 0)
        found, parts = _PARQUET.fullmatch(data, start, at), (data[:start], data[at:])
    else:
        found = _JSON.match(data)
        parts = (b"", data[found.end() if found else 0 :])
    if found is None:
        raise ValueError("found no checksum, expected one")
    expected = _checksum(name, *parts)
    if found[1] != expected:
        raise ValueError(f"found the checksum {found[1].decode()}, expected {expected.decode()}")
    return data if name.endswith(".parquet") else b"{" + parts[1]


def _move_if_absent(place: Path, path: Path) -> None:
    """Move a file to where none is; where one is, that one stays."""
    try:
        os.link(place, path)
    except FileExistsError:
        pass
    except OSError:
        # A file system without links.
        place.rename(path)
        return
    place.unlink()


class Files:
    """The files of a store, by their paths in it."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of a store."""
        self.folder = folder
        # What is damaged and cannot be moved is named once.
        self._stuck: set[str] = set()

    def names(self, part: str, suffix: str) -> list[str]:
        """List the files of a part of the store, in order."""
        return sorted(f"{part}/{path.name}" for path in (self.folder / part).glob(f"*{suffix}"))

    def write(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Write a file with its checksum, as a whole."""
        write_atomically(self.folder / name, sealed(name, data), durable=durable)

    def now(self) -> float:
        """The time by the clock of the file system, whatever that of this machine says."""
        probe = self.folder / f".{uuid.uuid4().hex}{TEMPORARY}"
        try:
            probe.touch()
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)

    def create(self, name: str, data: bytes) -> None:
        """Write a file as a whole, unless it is there: of several processes, one does."""
        new = self.folder / f".{name}.{uuid.uuid4().hex}{TEMPORARY}"
        write_atomically(new, sealed(name, data))
        _move_if_absent(new, self.folder / name)

    def read(self, name: str, parse: Callable[[bytes], _T]) -> _T | None:
        """Read a file; ``None`` when it is damaged, which is then named and set aside.

        Args:
            name: Its path in the store.
            parse: What is made of its content; may raise ValueError, KeyError or TypeError where it is not what it
                should be.

        Raises:
            FileNotFoundError: There is none, or another process has just set it aside.
            PermissionError: It may not be read: that says nothing about its content.
        """
        path = self.folder / name

        def content(path: Path) -> _T:
            return parse(unsealed(name, path.read_bytes()))

        try:
            return content(path)
        except (FileNotFoundError, PermissionError):
            raise
        except OSError as error:
            self._set_aside(name, f"found {error.strerror or error}, expected a file that can be read", content)
        except ValueError as error:
            self._set_aside(name, str(error), content)
        except (KeyError, TypeError) as error:
            self._set_aside(name, f"found other keys, expected those of this version ({error})", content)
        return None

    def _place(self, name: str) -> Path:
        folder = self.folder / DAMAGED
        folder.mkdir(exist_ok=True)
        return folder / f"{name.replace('/', '.')}.{uuid.uuid4().hex[:8]}"

    def _set_aside(self, name: str, why: str, content: Callable[[Path], object]) -> None:
        path = self.folder / name
        try:
            place = self._place(name)
            path.rename(place)
        except FileNotFoundError:
            # Another process was quicker, and names it.
            return
        except OSError as error:
            if name not in self._stuck:
                self._stuck.add(name)
                reason = error.strerror or error
                LOG.warning("%s: is damaged: %s; what it held is missing; it cannot be moved: %s", path, why, reason)
            return
        with contextlib.suppress(OSError, *UNFIT):
            content(place)
            # Another process has put a whole one there since it was read: back it goes.
            _move_if_absent(place, path)
            return
        LOG.warning("%s: is damaged: %s; what it held is missing; moved to %s", path, why, place)

    def renew(self, name: str, found: bytes, why: str, data: bytes) -> None:
        """Write a damaged file anew and keep a copy: for one that must not be absent, not even for a moment."""
        try:
            place = self._place(name)
            write_atomically(place, found)
            self.write(name, data)
        except OSError as error:
            reason = error.strerror or error
            LOG.warning("%s: is damaged: %s; it cannot be written anew: %s", self.folder / name, why, reason)
        else:
            LOG.warning("%s: is damaged: %s; written anew, a copy is %s", self.folder / name, why, place)

    def lost(self, part: str) -> set[str]:
        """Name the files of a part that were damaged and are not there again."""
        start = f"{part}."
        gone = {path.name.rpartition(".")[0] for path in (self.folder / DAMAGED).glob(f"{start}*")}
        names = {f"{part}/{name.removeprefix(start)}" for name in gone}
        return {name for name in names if not (self.folder / name).exists()} | {
            name for name in self._stuck if name.startswith(f"{part}/")
        }
