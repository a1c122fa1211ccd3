"""Files of traces on their way to the nodes of a cluster that do not have them: each file goes to each node once."""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ftlab._units import bytes_text
from ftlab.errors import ConfigError, InputError
from ftlab.studies.description import Contents

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 1 << 30
"""The files of a trace that are sent have at most so many bytes."""

# Small beside the object store of a node.
_PIECE_BYTES = 8 << 20


@dataclass(frozen=True)
class Shipped:
    """The files of a trace, in the object stores of a cluster.

    Attributes:
        paths: Where they lie on the machine that sent them.
        hashes: Of their content.
        pieces: References to the parts of each file, in order.
    """

    paths: list[str]
    hashes: list[str]
    pieces: list[list[Any]]


def ship(ray: Any, files: list[dict[str, Any]]) -> Shipped:
    """Put the files of a trace into a cluster; nothing is sent before a node asks.

    Raises:
        ConfigError: They are too large.
        InputError: One cannot be read.
    """
    size = sum(file["bytes"] for file in files)
    if size > MOST_BYTES:
        raise ConfigError(
            f"{files[0]['path']}: ship_traces (--ship-traces): found {bytes_text(size)}, expected at most "
            f"{bytes_text(MOST_BYTES)}: put it where every node sees it under this path"
        )
    pieces: list[list[Any]] = []
    for file in files:
        try:
            with Path(file["path"]).open("rb") as opened:
                pieces.append([ray.put(piece) for piece in iter(lambda: opened.read(_PIECE_BYTES), b"")])
        except OSError as error:
            raise InputError(f"{file['path']}: {error.strerror or error}") from error
    return Shipped([file["path"] for file in files], [file["hash"] for file in files], pieces)


def _home(hashes: list[str]) -> Path:
    """A folder of this user for the files of a trace. They stay: the next study need not send them again."""
    owner = os.getuid() if hasattr(os, "getuid") else 0
    top = Path(tempfile.gettempdir()) / f"ftlab-traces-{owner}"
    top.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and top.stat().st_uid != owner:
        raise OSError(None, "belongs to another user", str(top))
    home = top / hashes[0]
    home.mkdir(exist_ok=True)
    return home


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes of this machine waiting, as long as this one is at work or alive."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (folder / ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is(path: Path, wanted: str) -> bool:
    try:
        return Contents().hash_of(path) == wanted
    except OSError:
        return False


def receive(shipped: Shipped) -> list[str]:
    """Give the paths of the files of a trace on this node, and fetch those that are not there.

    Raises:
        OSError: They cannot be kept here.
    """
    if all(_is(Path(path), wanted) for path, wanted in zip(shipped.paths, shipped.hashes, strict=True)):
        return shipped.paths
    ray: Any = importlib.import_module("ray")
    home = _home(shipped.hashes)
    places: list[str] = []
    with _alone(home):
        for path, wanted, pieces in zip(shipped.paths, shipped.hashes, shipped.pieces, strict=True):
            place = home / Path(path).name
            places.append(os.fspath(place))
            if _is(place, wanted):
                continue
            temporary = place.with_name(f".{place.name}.tmp")
            with temporary.open("wb") as file:
                # One at a time: the node need not hold the file in memory.
                for piece in pieces:
                    file.write(ray.get(piece))
            temporary.replace(place)
            with (home / ".sent").open("a") as log:
                log.write(f"{place.name}\n")
    return places
