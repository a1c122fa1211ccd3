"""A run as data: everything that determines its result, the key made of that, and how it is executed."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ftlab import _limits as limits
from ftlab import _native
from ftlab._device import Device
from ftlab._running import measure, memory_bytes
from ftlab._units import bytes_text
from ftlab.errors import ConfigError, InputError, RunError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import polars as pl

    from ftlab._result import Result
    from ftlab.studies.files import Files

# A run as plain data, which may be sent anywhere as JSON:
#   format    version of this layout
#   engine    version of the package and a hash of the engine's sources
#   device    every key of the device
#   workload  {"name", "keys"}: its name in reports, the stated keys
#   trace     [{"path", "name", "bytes", "hash"}], the files that the workload reads, or None
#   stand_in  [what the workload stands for, the name of the recording that runs in its place or None], or None; a third
#             says why it is not calibrated, where it is not
#   seed      of all random choices; None for 1 and what the workload states
#   options   timing, verify, requests, series
#   fleet     true where other runs take other volumes of the trace; absent otherwise. No result depends on it
Description = dict[str, Any]

FORMAT = 1
OPTIONS: dict[str, Any] = {"timing": True, "verify": False, "requests": None, "series": None}
ENGINE: str = _native.__engine__

# A file that changed so recently may change again within the resolution of its time stamps.
_SETTLED_NS = 2_000_000_000


def canonical(value: Any) -> str:
    """JSON with one text for one value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def device_text(device: dict[str, Any]) -> str:
    """Give what the key of a run has of its device."""
    return canonical({key: value for key, value in device.items() if key != "description"})


def key_of(description: Description, device: str | None = None) -> str:
    """Give the key of a run: a hash of everything that determines its result, and of nothing else.

    Traces count by name and content, wherever they lie.

    Args:
        description: The run.
        device: Its :func:`device_text`, of runs that share one. Default: made here.
    """
    keys = dict(description["workload"]["keys"])
    if description["trace"] is not None:
        keys["trace"] = [[file["name"], file["hash"]] for file in description["trace"]]
    essence = {
        "format": description["format"],
        "engine": description["engine"],
        "workload": {"name": description["workload"]["name"], "keys": keys},
        "stand_in": description["stand_in"],
        "seed": description["seed"],
        "options": description["options"],
    }
    # One object of JSON, whose first key is the device.
    text = f'{{"device":{device_text(description["device"]) if device is None else device},{canonical(essence)[1:]}'
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class _Sign(NamedTuple):
    """What a file is known by without reading it.

    Tools that copy or unpack set the time of change to what it was elsewhere. The system alone sets ``status_ns``, when
    content or attributes last changed, and the inode.
    """

    path: str
    bytes: int
    changed_ns: int
    status_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> _Sign:
        """That of a file.

        Raises:
            OSError: There is none.
        """
        stat = path.stat()
        return cls(str(path), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


# Hashes known in this process.
_KNOWN: dict[_Sign, str] = {}


class Contents:
    """Hashes of files, remembered by path, size, times and inode, so that a study is resumed without reading them.

    A file that has just changed is read again each time: it may change once more without showing it. The volumes of a
    trace are remembered too, by its content.
    """

    def __init__(self, files: Files | None = None, traces: _native.TraceCache | None = None) -> None:
        """Remember in memory, and in the files of a store as well when there is one.

        Args:
            files: Those of the store.
            traces: Where volumes are kept that were read to know them, for the runs that follow.
        """
        self._files = files
        self._traces = traces

    def volumes_of(self, path: str, format: str, skip_bad: int) -> list[tuple[int, int]]:
        """Give the volumes of a trace with the number of requests of each, in the order of their numbers.

        Raises:
            InputError: The trace cannot be read to its end.
        """
        files = files_of(path, format, self)
        sign = {"files": [[file["name"], file["hash"]] for file in files], "format": format, "skip_bad": skip_bad}
        name = f"traces/{hashlib.blake2b(canonical(sign).encode(), digest_size=16).hexdigest()}.volumes.json"

        def parse(data: bytes) -> list[tuple[int, int]]:
            return [(int(number), int(requests)) for number, requests in json.loads(data)["volumes"]]

        if self._files is not None:
            try:
                kept = self._files.read(name, parse)
            except OSError:
                kept = None
            if kept is not None:
                return kept
        if self._traces is None:
            found, *_ = _native.trace_volumes(path, format, skip_bad)
        else:
            found, _ = self._traces.volumes(path, format, skip_bad)
        volumes = [(number, requests) for number, _, requests in found]
        if self._files is not None:
            self._files.write(name, json.dumps({"volumes": volumes}).encode())
        return volumes

    def hash_of(self, path: Path) -> str:
        """Give the hash of a file's bytes.

        Raises:
            OSError: It cannot be read.
        """
        now = time.time_ns()
        sign = _Sign.of(path.resolve())
        found = _KNOWN.get(sign) or self._stored(sign)
        settled = now - sign.status_ns >= _SETTLED_NS
        if found is None:
            with Path(sign.path).open("rb") as file:
                found = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
            if settled:
                self._store(sign, found)
        if settled:
            _KNOWN[sign] = found
        return found

    def _stored(self, sign: _Sign) -> str | None:
        def parse(data: bytes) -> tuple[dict[str, Any], str]:
            kept: dict[str, Any] = json.loads(data)
            return kept, str(kept.pop("hash"))

        if self._files is None:
            return None
        try:
            kept = self._files.read(_place(sign), parse)
        except OSError:
            return None
        return kept[1] if kept is not None and kept[0] == sign._asdict() else None

    def _store(self, sign: _Sign, found: str) -> None:
        if self._files is not None:
            self._files.write(_place(sign), json.dumps({**sign._asdict(), "hash": found}).encode())


def _place(sign: _Sign) -> str:
    return f"traces/{hashlib.blake2b(sign.path.encode(), digest_size=16).hexdigest()}.json"


@dataclass(frozen=True)
class Outcome:
    """What became of a run, as plain data.

    Attributes:
        status: ``"done"`` or ``"error"``.
        summary_text: The summary document as JSON; ``None`` with an error.
        error: What went wrong.
        error_kind: ``"config"``, ``"input"`` and ``"run"`` belong to the run and come again with it; ``"machine"`` and
            ``"internal"`` may not, and are tried again when the study is resumed.
        elapsed_seconds: How long it took on the machine where it ran.
        series: The time series as a Parquet file, when one was asked for.
        coarse_text: The one that every run keeps, by column, as JSON, when none was asked for: no number is null.
    """

    status: str
    summary_text: str | None
    error: str | None
    error_kind: str | None
    elapsed_seconds: float
    series: bytes | None = None
    coarse_text: str | None = None

    @property
    def summary(self) -> dict[str, Any] | None:
        """The summary document, read anew each time; ``None`` with an error."""
        return None if self.summary_text is None else json.loads(self.summary_text)


SETTLED_ERRORS = ("config", "input", "run")


class MachineError(Exception):
    """This machine cannot do the run; another might."""


def _check_contents(description: Description) -> None:
    for file in description["trace"] or ():
        try:
            found = Contents().hash_of(Path(file["path"]))
        except OSError as error:
            raise MachineError(f"{file['path']}: {error.strerror or error}") from error
        if found != file["hash"]:
            raise MachineError(f"{file['path']}: its content has changed since the study was described")


@functools.lru_cache(64)
def _device(text: str) -> Device:
    return Device(_native.Device.from_json(text, "device"))


# The last one of each thread, with its description. Runs of a study often share it, and each asks for it twice.
_LAST = threading.local()


def device_of(description: Description) -> Device:
    """Make the device of a run."""
    keys = description["device"]
    if getattr(_LAST, "keys", None) is not keys:
        _LAST.keys, _LAST.device = keys, _device(canonical(keys))
    device: Device = _LAST.device
    return device


@functools.lru_cache(64)
def _workload(text: str, name: str) -> _native.Workload:
    return _native.Workload.from_json(text, "workload", name)


def workload_of(description: Description) -> _native.Workload:
    """Make the workload of a run."""
    workload = description["workload"]
    return _workload(canonical(workload["keys"]), workload["name"])


def memory_of(description: Description) -> int:
    """Memory that a run needs at most, decoded traces not counted."""
    return memory_bytes(device_of(description), verify=description["options"]["verify"])


@functools.cache
def _limit() -> limits.Limit | None:
    """What there is before any run has taken its part: runs beside each other wait for room."""
    return limits.least()


def _requests_of(description: Description) -> str:
    """A text that tells the requests of a run from all others."""
    trace = description["trace"]
    files = None if trace is None else [file["hash"] for file in trace]
    keys, seed, requests = description["workload"]["keys"], description["seed"], description["options"]["requests"]
    parts = [keys, files, description.get("fleet", False), seed, requests]
    # Sizes may be relative to the drive, which is named beside it.
    return canonical(parts)


def _measured(
    description: Description,
    traces: _native.TraceCache | None,
    tell: Callable[[str, float | None, int], None] | None,
    aged: _native.AgedDrives | None,
    control: _native.RunControl | None,
) -> Result:
    if description["engine"] != ENGINE:
        raise MachineError(f"the run is for engine {description['engine']}, this one is {ENGINE}")
    _check_contents(description)
    device, options = device_of(description), description["options"]
    needed, limit = memory_bytes(device, verify=options["verify"]), _limit()
    if limit is not None and needed > limit.bytes:
        raise MachineError(f"needs up to {bytes_text(needed)} of memory, {limit}")
    workload = workload_of(description)
    source = workload.source(
        device._native,  # noqa: SLF001 - one package
        description["seed"],
        options["requests"],
        traces,
        in_line=True,
        fleet=description.get("fleet", False),
    )
    stand_in = description["stand_in"] and (*description["stand_in"], None)[:3]
    shared = None if aged is None else (aged, _requests_of(description))
    result = measure(
        device,
        source,
        None,
        seed=description["seed"],
        progress=tell,
        stand_in=stand_in,
        aged=shared,
        control=control,
        **options,
    )
    _check_contents(description)
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def _plain(values: np.ndarray[Any, Any]) -> list[float | None]:
    """Values as a list, where what is no number is ``None``."""
    plain: list[float | None] = values.tolist()
    if values.dtype.kind == "f":
        # Only what is no number differs from itself.
        return [value if value == value else None for value in plain]  # noqa: PLR0124 - see above
    return plain


def execute(
    description: Description,
    traces: _native.TraceCache | None = None,
    tell: Callable[[str, float | None, int], None] | None = None,
    aged: _native.AgedDrives | None = None,
    control: _native.RunControl | None = None,
) -> Outcome:
    """Execute a run.

    The description is all that is needed, besides the files of its trace at their paths: an executor may call this in
    another process or on another machine. Errors of the run are part of the outcome.

    Args:
        description: The run.
        traces: Decodes traces once for several runs of this process.
        tell: Called about ten times a second, as the ``progress`` of :func:`ftlab.run`; what it raises ends the run.
        aged: Aged drives that several runs of this process use again.
        control: Tells another thread how the run goes on, and lets it end the run; in place of ``tell``. The run then
            needs no thread beside this one, which takes as long as a short run.

    Raises:
        KeyboardInterrupt: ``control`` has ended it.
    """
    began = time.perf_counter()
    summary: str | None = None
    series: bytes | None = None
    coarse: str | None = None
    error: str | None = None
    kind: str | None = None
    try:
        result = _measured(description, traces, tell, aged, control)
        summary, asked = result.summary_json, result.series
        if asked is None:
            columns = {name: _plain(values) for name, values in result.coarse_series_arrays().items()}
            coarse = json.dumps(columns)
        else:
            series = _parquet(asked)
    except ConfigError as problem:
        error, kind = str(problem), "config"
    except InputError as problem:
        error, kind = str(problem), "input"
    except RunError as problem:
        error, kind = str(problem), "run"
    except MachineError as problem:
        error, kind = str(problem), "machine"
    except Exception as problem:  # noqa: BLE001 - one run must not end the others
        error, kind = f"{type(problem).__name__}: {problem}", "internal"
    elapsed = time.perf_counter() - began
    return Outcome("done" if error is None else "error", summary, error, kind, elapsed, series, coarse)


def describe(
    device: dict[str, Any],
    workload: tuple[str, dict[str, Any]],
    trace: list[dict[str, Any]] | None,
    stand_in: list[str | None] | None,
    seed: int | None,
    options: dict[str, Any],
    *,
    fleet: bool = False,
) -> Description:
    """Put the parts of a run together."""
    name, keys = workload
    # What is said in two ways is one run: the seed of a workload that states none is 1.
    if seed is None and keys.get("seed") is None:
        seed = 1
    mark = {"fleet": True} if fleet else {}
    return {
        "format": FORMAT,
        "engine": ENGINE,
        "device": device,
        "workload": {"name": name, "keys": keys},
        "trace": trace,
        "stand_in": stand_in,
        "seed": seed,
        "options": {**OPTIONS, **options},
        **mark,
    }


def files_of(path: str, format: str | None, contents: Contents) -> list[dict[str, Any]]:
    """Describe the files that are read as a trace.

    Raises:
        InputError: They cannot be read.
    """
    try:
        return [
            {"path": os.fspath(file), "name": file.name, "bytes": file.stat().st_size, "hash": contents.hash_of(file)}
            for file in _native.trace_files(path, format)
        ]
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror or error}") from error
