"""Workloads: traces, generators, and tables of requests."""

from __future__ import annotations

import copy
import functools
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ftlab import _native
from ftlab._checks import checked, utf8, whole, whole_or_none
from ftlab._plain import to_json
from ftlab._transform import Transformable
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ftlab._device import Device
    from ftlab._statistics import TraceStats


TRACES_VARIABLE = "FTLAB_TRACES"
"""The environment variable that names the folder of recordings."""

LAST_VOLUME = 2**16 - 1
"""The highest number of a volume."""


def _refuse_durations(path: Path) -> None:
    """Parquet keeps a duration as a plain number, and the engine would take it for nanoseconds."""
    if path.suffix != ".parquet":
        return
    import polars as pl

    try:
        schema = pl.read_parquet_schema(path)
    except (OSError, pl.exceptions.PolarsError):
        return  # The engine says what is wrong with it.
    for name, kind in schema.items():
        if isinstance(kind, pl.Duration) and name.startswith("arrival"):
            raise ConfigError(
                f"{path}: column {name!r} has type {kind.time_unit} duration, expected plain numbers:"
                f' such as polars.col("{name}").dt.total_nanoseconds()'
            )


class Trace(Transformable):
    """A recorded trace file.

    Formats are recognised by content; files may be compressed with gzip, bzip2, xz or zstd.

    >>> Trace("disk.csv").scale_time(0.5).slice(take=1000).transforms
    ({'step': 'scale_time', 'factor': 0.5}, {'step': 'slice', 'take': 1000})
    """

    __slots__ = ("_steps", "format", "path", "skip_bad", "volume", "volume_bytes", "volumes")

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        volume: int | Sequence[int] | None = None,
        *,
        volumes: Literal["overlay", "concat"] = "overlay",
        volume_bytes: int | str | None = None,
        skip_bad: int = 0,
    ) -> None:
        """Name a trace. The file is opened when it is run.

        Args:
            path: The file.
            format: Its format (``ftlab trace info`` lists them); recognised by content when absent.
            volume: Take only the requests of this volume (ASU, disk or device number), or of these.
            volumes: Where volumes lie: on top of each other, or concatenated.
            volume_bytes: With ``volumes="concat"``: size of the region of each, such as ``"64GiB"``. When absent, the
                trace is read once more to find how far each volume reaches.
            skip_bad: How many bad records are left out; the next one is an error.
        """
        self.path = Path(path)
        self.format = format
        self.volume = volume
        self.volumes = volumes
        self.volume_bytes = volume_bytes
        self.skip_bad = skip_bad
        self._steps: tuple[str, ...] = ()

    def _with_step(self, step: str) -> Trace:
        trace = copy.copy(self)
        trace._steps = (*self._steps, step)  # noqa: SLF001 - one package
        return trace

    @property
    def transforms(self) -> tuple[dict[str, Any], ...]:
        """The steps that its requests go through, in order."""
        return tuple(json.loads(step) for step in self._steps)

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    def keys(self) -> dict[str, Any]:
        """Give the keys of a workload with the same requests, without those that have their defaults."""
        _refuse_durations(self.path)
        volume = list(self.volume) if isinstance(self.volume, Iterable) else self.volume
        keys = {
            "trace": str(self.path.resolve()),
            "format": self.format,
            "volume": volume,
            "volumes": None if self.volumes == "overlay" else self.volumes,
            "volume_bytes": self.volume_bytes,
            "skip_bad": self.skip_bad or None,
            "transform": self.transforms or None,
        }
        return {key: value for key, value in keys.items() if value is not None}

    def to_toml(self) -> str:
        """The text of a workload file with the same requests."""
        return _native.Workload.from_json(to_json(self.keys()), "trace", self.name).to_toml()

    def reading(self) -> _native.ReadOptions:
        """How it is read, for the engine."""
        _refuse_durations(self.path)
        return reading_options(self.format, self.volume, self.volumes, self.volume_bytes, self.skip_bad, self._steps)

    def source(self) -> _native.Source:
        """Open it."""
        return _native.Source.from_trace(self.path, self.reading())

    def stats(self, **options: Any) -> TraceStats:
        """Describe its requests; the options are those of :func:`ftlab.trace_stats`."""
        from ftlab._statistics import trace_stats

        return trace_stats(self, **options)

    def __repr__(self) -> str:
        """Path, format and steps."""
        steps = "".join(f" | {step['step']}" for step in self.transforms)
        return f"<ftlab.Trace {self.path}{f' ({self.format})' if self.format else ''}{steps}>"


class Workload(Transformable):
    """A generated workload: a preset, a file, or a kind with its keys. Immutable: changes give a new workload.

    >>> workload = Workload(kind="uniform", requests=1000)
    >>> workload.set("requests=500").to_dict()["requests"]
    500
    """

    __slots__ = ("_changes", "_native", "_steps")

    def __init__(self, **keys: Any) -> None:
        """Describe a workload by the keys of a ``[workload]`` section.

        Args:
            keys: ``kind`` and the keys of that kind, as ``ftlab config schema --workload`` documents them.

        Raises:
            ConfigError: The keys are wrong.
        """
        self._native = _native.Workload.from_json(to_json(keys), "Workload(...)")
        self._changes: tuple[str, ...] = ()
        self._steps: tuple[str, ...] = ()

    @classmethod
    def _of(cls, native: _native.Workload, changes: tuple[str, ...] = (), steps: tuple[str, ...] = ()) -> Workload:
        workload = cls.__new__(cls)
        workload._native = native  # noqa: SLF001 - one package
        workload._changes = changes  # noqa: SLF001 - one package
        workload._steps = steps  # noqa: SLF001 - one package
        return workload

    @classmethod
    @checked
    def load(cls, source: str | os.PathLike[str], *overrides: str) -> Workload:
        """Load a preset by name, or a TOML file by path.

        Args:
            source: A preset's name (``ftlab workloads`` lists them) or the path of a file.
            overrides: Changes such as ``"requests=1000"``.

        Raises:
            ConfigError: The workload cannot be read or is wrong; the message names every place.
        """
        return cls._of(_native.Workload.load(utf8(source), list(overrides)), overrides)

    @classmethod
    @checked
    def parse(cls, text: str, name: str = "text") -> Workload:
        """Read a workload from the text of a workload file.

        Args:
            text: TOML.
            name: What errors call it, and its name in reports when the text has none.

        Raises:
            ConfigError: The workload is wrong.
        """
        return cls._of(_native.Workload.parse(text, name))

    @checked
    def set(self, *overrides: str) -> Workload:
        """Give a workload with single values changed: ``"requests=1000"``.

        Raises:
            ConfigError: A change is wrong.
        """
        return Workload._of(self._native.set(list(overrides)), (*self._changes, *overrides), self._steps)

    def _with_step(self, step: str) -> Workload:
        return Workload._of(self._native.transform([step]), self._changes, (*self._steps, step))

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
        """What it stands for: ``for``, and ``traces`` that take its place; ``None`` when it is no stand-in."""
        text = self._native.stand_in_json
        return None if text is None else dict(json.loads(text))

    @property
    def calibration(self) -> dict[str, Any] | None:
        """The statistics that it must have: ``source``, ``targets`` and ``shape``; ``None`` when it states none.

        A target has ``statistic``, ``expected``, and the ``least`` and the ``most`` that meet it.
        """
        text = self._native.calibration_json
        return None if text is None else dict(json.loads(text))

    @property
    def uncalibrated(self) -> str | None:
        """Why it need not have the statistics that ftlab's tests hold it to: what differs from the preset.

        ``None`` when it is as the preset, except for the seed. Also when it is no stand-in and has no calibration, and
        when it has one that is no preset's.
        """
        # A calibration of the user's own is held against what is measured, and against nothing else.
        own = self.calibration is not None and all(held_as != self.held_as for _, held_as, _ in _calibrated())
        return None if self.held_as is None or own else uncalibrated(self.to_dict(), self.held_as)

    @property
    def held_as(self) -> str | None:
        """By what the preset is found whose statistics it must have.

        What it stands for, or else the source of its calibration; ``None`` when it has neither.
        """
        if self.stand_in is not None:
            return str(self.stand_in["for"])
        return None if self.calibration is None else str(self.calibration["source"])

    @checked
    def recording(self, trace_dir: str | os.PathLike[str] | None = None) -> Trace | None:
        """Look for the recording that the workload stands for.

        Args:
            trace_dir: The folder to look in, and in its subfolders; default: the one that the environment variable
                ``FTLAB_TRACES`` names.

        Returns:
            The trace, compressed or not, after the steps of the paper and those that were added to the workload.
            ``None`` when there is none, or the workload is no stand-in.

        Raises:
            ConfigError: ``trace_dir`` is no folder, or keys of the workload were changed, which the recording has not.
        """
        if trace_dir is not None and not Path(trace_dir).is_dir():
            raise ConfigError(f"{os.fspath(trace_dir)}: no such folder of traces")
        found = recording_of(self.stand_in, trace_dir)
        if found is None:
            return None
        if self._changes:
            key = self._changes[0].partition("=")[0].strip().removeprefix("workload.")
            raise ConfigError(
                f"workload.{key}: the recording {found.path} runs in place of {self.name}, and has no such key; "
                f"leave it out, or take away the folder of traces (--trace-dir, {TRACES_VARIABLE})"
            )
        return functools.reduce(Trace._with_step, self._steps, found)  # noqa: SLF001 - one package

    @checked
    def source(self, device: Device, seed: int | None = None, requests: int | None = None) -> _native.Source:
        """Make its requests for a device; ``seed`` and ``requests`` replace those that the workload states.

        Raises:
            ConfigError: The workload does not fit the device.
            InputError: Its trace cannot be opened.
        """
        seed, requests = whole_or_none("seed", seed), whole_or_none("requests", requests, 1)
        _refuse_durations(Path(self.to_dict().get("trace", "")))
        return self._native.source(device._native, seed, requests)  # noqa: SLF001 - one package

    @checked
    def source_of_capacity(
        self, capacity: str | int, seed: int | None = None, requests: int | None = None
    ) -> _native.Source:
        """Make its requests for a drive of a size such as ``"64GiB"``; the rest is as for :meth:`source`.

        Raises:
            ConfigError: The workload does not fit.
            InputError: Its trace cannot be opened.
        """
        seed, requests = whole_or_none("seed", seed), whole_or_none("requests", requests, 1)
        _refuse_durations(Path(self.to_dict().get("trace", "")))
        size = capacity if isinstance(capacity, str) else str(whole("capacity", capacity))
        return self._native.source_of_capacity(size, seed, requests)

    def stats(self, **options: Any) -> TraceStats:
        """Describe its requests; the options are those of :func:`ftlab.trace_stats`."""
        from ftlab._statistics import trace_stats

        return trace_stats(self, **options)

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

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        """Pickle as a workload file, so that workloads can be sent to worker processes."""
        return (Workload.parse, (self.to_toml(), self.name))


def named(source: str | os.PathLike[str]) -> Trace | Workload:
    """What a name or a path stands for: a preset, a workload file (``.toml``), or else the file of a trace.

    Raises:
        ConfigError: It is none of them; the message has the nearest preset.
    """
    text = os.fspath(source)
    names = [name for name, _ in _native.presets("workload")]
    if text in names or text.endswith(".toml") or not Path(source).exists():
        return Workload.load(source)
    return Trace(source)


def reading_options(
    format: str | None,
    volume: int | Sequence[int] | None,
    volumes: str,
    volume_bytes: int | str | None,
    skip_bad: int,
    steps: Sequence[str],
) -> _native.ReadOptions:
    """Say how a trace is read, for the engine.

    Raises:
        ConfigError: A number is out of range.
        InputError: The layout of volumes is wrong.
    """
    each = [] if volume is None else list(volume) if isinstance(volume, Iterable) else [volume]
    if volume is not None and not each:
        raise ConfigError("volume: found none, expected some; leave it out for all volumes")
    return _native.ReadOptions.of(
        format,
        [whole("volume", number, 0, LAST_VOLUME) for number in each],
        volumes,
        volume_bytes if volume_bytes is None or isinstance(volume_bytes, str) else whole("volume_bytes", volume_bytes),
        whole("skip_bad", skip_bad),
        steps,
    )


def recording_of(stand_in: dict[str, Any] | None, traces: str | os.PathLike[str] | None = None) -> Trace | None:
    """Look for the recording that a stand-in stands for; see :meth:`Workload.recording`."""
    named = traces if traces is not None else os.environ.get(TRACES_VARIABLE)
    if stand_in is None or not named:
        return None
    folder = Path(named)
    folders = [folder, *sorted(path for path in folder.glob("*") if path.is_dir())]
    for name in stand_in.get("traces", ()):
        for place in folders:
            for suffix in ("", ".gz", ".bz2", ".xz", ".zst"):
                if (place / f"{name}{suffix}").is_file():
                    trace = Trace(place / f"{name}{suffix}", stand_in.get("format"))
                    steps = (to_json(step) for step in stand_in.get("transform", ()))
                    return functools.reduce(Trace.transform, steps, trace)
    return None


def _flat(keys: dict[str, Any], prefix: str = "workload") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in keys.items():
        name = f"{prefix}.{key}"
        flat |= _flat(value, name) if isinstance(value, dict) else {name: value}
    return flat


@functools.cache
def _calibrated() -> tuple[tuple[str, str, dict[str, Any]], ...]:
    """The presets that are held to statistics: name, as what, and their keys."""
    loaded = [Workload.load(name) for name, text in _native.presets("workload") if "[calibration]" in text]
    return tuple((each.name, each.held_as, _flat(each.to_dict())) for each in loaded if each.held_as)


def uncalibrated(keys: dict[str, Any], held_as: str) -> str | None:
    """Say what makes the keys of a workload others than those of the preset that is held to its statistics.

    ``held_as`` is what it stands for, or the source of its calibration (:attr:`Workload.held_as`).
    """
    own = _flat(keys)
    found: list[tuple[str, list[str]]] = []
    for name, other, theirs in _calibrated():
        if other == held_as:
            both = sorted((own.keys() | theirs.keys()) - {"workload.seed"})
            found.append((name, [key for key in both if own.get(key) != theirs.get(key)]))
    if not found:
        return "no calibrated workload of ftlab is for this"
    name, different = min(found, key=lambda each: len(each[1]))
    return f"{', '.join(different)} not as in {name}" if different else None
