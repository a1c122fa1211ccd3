"""Aged drives on disk: what one run has aged, the next one need not.

Everything that ages drives goes through :func:`files`. Results do not depend on it.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ftlab import _native
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "FTLAB_CACHE"
"""The environment variable that names the folder. Empty: no drive is kept."""

LIMIT_VARIABLE = "FTLAB_CACHE_LIMIT"
"""The environment variable that says how large all drives may be together, such as ``16GiB``. Empty: as by default."""

LIMIT_BYTES = 4 << 30
"""Dozens of the drives that the presets age, and one of several terabytes; little on any disk of today."""

LEAST_SECONDS = 0.2
"""What somebody notices. Drives that age faster would only push others out.

The drives that people begin with age for about a second: with that for a bound, some calls of a command kept them and
others did not.
"""


def folder() -> Path | None:
    """Where drives are kept: as ``FTLAB_CACHE`` says, or in the user's folder for what can be made again."""
    stated = os.environ.get(VARIABLE)
    if stated is not None:
        return Path(stated) / "aged" if stated else None
    return next((place / "ftlab" / "aged" for place in _places() if place.is_absolute()), None)


def _places() -> Iterator[Path]:
    if sys.platform == "win32":
        yield Path(os.environ.get("LOCALAPPDATA", ""))
    elif sys.platform != "darwin":
        yield Path(os.environ.get("XDG_CACHE_HOME", ""))
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises where there is none
    yield home / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def files() -> _native.AgedFiles | None:
    """Give the drives that are kept; ``None`` where nobody wants any.

    Raises:
        ConfigError: ``FTLAB_CACHE_LIMIT`` is no size.
    """
    place = folder()
    return None if place is None else _of(place, os.environ.get(LIMIT_VARIABLE) or LIMIT_BYTES, LEAST_SECONDS)


@functools.lru_cache(8)
def _of(place: Path, limit: int | str, least_seconds: float) -> _native.AgedFiles:
    # One for all runs of a process: trouble is told once.
    try:
        return _native.AgedFiles.of(place, limit, least_seconds)
    except ValueError as error:
        msg = f"{LIMIT_VARIABLE}: {error}"
        raise ConfigError(msg) from None


def tell(kept: _native.AgedFiles | None) -> None:
    """Log what went wrong with the drives that are kept. Without a handler, that is a line on standard error."""
    trouble = None if kept is None else kept.take_trouble()
    if trouble is not None:
        # It takes time to import, and is hardly ever needed.
        import logging

        logging.getLogger("ftlab.aged").warning("%s", trouble)


def name_of(keys: dict[str, Any], seed: int | None, requests: int | None) -> str | None:
    """Name the requests of a workload; ``None`` where a file decides, which may change under its name."""
    if "trace" in keys:
        return None
    # Sizes may be relative to the drive, which is named beside it.
    return json.dumps([keys, seed, requests], sort_keys=True)
