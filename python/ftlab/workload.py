"""Workloads: traces, generators, and tables of requests."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ftlab import _native
from ftlab.errors import ConfigError
from ftlab.plain import to_json

if TYPE_CHECKING:
    from ftlab.device import Device


TRACES_VARIABLE = "FTLAB_TRACES"
"""The environment variable that names the folder of recordings."""


class Trace:
    """A recorded trace file.

    Formats are recognised by content; files may be compressed with gzip, bzip2, xz or zstd.
    """

    __slots__ = ("format", "path", "volume")

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        volume: int | None = None,
    ) -> None:
        """Name a trace. The file is opened when it is run.

        Args:
            path: The file.
            format: Its format (``ftlab trace info`` lists them); recognised by content when absent.
            volume: Take only the requests of this volume (ASU, disk or device number).
        """
        self.path = Path(path)
        self.format = format
        self.volume = volume

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    def source(self) -> _native.Source:
        """Open it."""
        return _native.Source.from_trace(self.path, self.format, self.volume)

    def __repr__(self) -> str:
        """Path and format."""
        return f"<ftlab.Trace {self.path}{f' ({self.format})' if self.format else ''}>"


class Workload:
    """A generated workload: a preset, a file, or a kind with its keys. Immutable: changes give a new workload.

    >>> workload = Workload(kind="uniform", requests=1000)
    >>> workload.set("requests=500").to_dict()["requests"]
    500
    """

    __slots__ = ("_native",)

    def __init__(self, **keys: Any) -> None:
        """Describe a workload by the keys of a ``[workload]`` section.

        Args:
            keys: ``kind`` and the keys of that kind, as ``ftlab config schema --workload`` documents them.

        Raises:
            ConfigError: The keys make no sense.
        """
        self._native = _native.Workload.from_json(to_json(keys), "Workload(...)")

    @classmethod
    def _of(cls, native: _native.Workload) -> Workload:
        workload = cls.__new__(cls)
        workload._native = native  # noqa: SLF001
        return workload

    @classmethod
    def load(cls, source: str | os.PathLike[str], *overrides: str) -> Workload:
        """Load a preset by name, or a TOML file by path.

        Args:
            source: A preset's name (``ftlab workloads`` lists them) or the path of a file.
            overrides: Changes such as ``"requests=1000"``.

        Raises:
            ConfigError: The workload cannot be read or makes no sense; the message names every place.
        """
        return cls._of(_native.Workload.load(os.fspath(source), list(overrides)))

    def set(self, *overrides: str) -> Workload:
        """Give a workload with single values changed: ``"requests=1000"``.

        Raises:
            ConfigError: A change makes no sense.
        """
        return Workload._of(self._native.set(list(overrides)))

    @property
    def name(self) -> str:
        """Its name in reports."""
        return self._native.name

    def to_dict(self) -> dict[str, Any]:
        """The parameters that are stated; what is left out has the default of its documentation."""
        parameters: dict[str, Any] = json.loads(self._native.to_json())
        return parameters

    def to_toml(self) -> str:
        """The text of a workload file with the parameters that are stated."""
        return self._native.to_toml()

    @property
    def description(self) -> str:
        """What it is."""
        return self._native.description

    @property
    def stand_in(self) -> dict[str, Any] | None:
        """What the workload stands for: ``for``, and ``traces`` that take its place; ``None`` when it is no stand-in."""
        text = self._native.stand_in_json
        return None if text is None else dict(json.loads(text))

    def recording(self, traces: str | os.PathLike[str] | None = None) -> Trace | None:
        """Look for the recording that the workload stands for.

        Args:
            traces: The folder to look in, and in its subfolders; default: the one that the environment variable
                ``FTLAB_TRACES`` names.

        Returns:
            The trace, compressed or not; ``None`` when there is none, or the workload is no stand-in.

        Raises:
            ConfigError: ``traces`` is no folder.
        """
        stand_in = self.stand_in
        named = traces if traces is not None else os.environ.get(TRACES_VARIABLE)
        if traces is not None and not Path(traces).is_dir():
            raise ConfigError(f"{os.fspath(traces)}: no such folder of traces")
        if stand_in is None or not named:
            return None
        folder = Path(named)
        folders = [folder, *sorted(path for path in folder.glob("*") if path.is_dir())]
        for name in stand_in.get("traces", ()):
            for place in folders:
                for suffix in ("", ".gz", ".bz2", ".xz", ".zst"):
                    if (place / f"{name}{suffix}").is_file():
                        return Trace(place / f"{name}{suffix}", stand_in.get("format"))
        return None

    def source(self, device: Device, seed: int | None = None, requests: int | None = None) -> _native.Source:
        """Make its requests for a device; ``seed`` and ``requests`` replace those that the workload states.

        Raises:
            ConfigError: The workload does not fit the device.
            InputError: Its trace cannot be opened.
        """
        return self._native.source(device._native, seed, requests)  # noqa: SLF001

    def __repr__(self) -> str:
        """Name and parameters."""
        keys = ", ".join(f"{key}={value!r}" for key, value in self.to_dict().items())
        return f"<ftlab.Workload {self.name}: {keys}>"

    def __eq__(self, other: object) -> bool:
        """Workloads are equal when all their parameters are."""
        return isinstance(other, Workload) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """By parameters, as equality."""
        return hash(self._native.to_json())
