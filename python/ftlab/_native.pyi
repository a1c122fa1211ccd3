"""The engine of ftlab. Use the package `ftlab`, which is built on this module."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, final

__version__: str
__engine__: str

_Loss: TypeAlias = tuple[int, str, int, int, int, int, int | None]

class _WorkloadKind(TypedDict):
    name: str
    summary: str
    own_keys: list[str]
    common_keys: list[str]

class _Scheme(TypedDict):
    key: str
    name: str
    summary: str
    source: str
    keys: list[_Key]
    contrasts: list[tuple[str, str, list[str]]]

class _Key(TypedDict):
    name: str
    doc: str
    default: str

class _Step(TypedDict):
    name: str
    summary: str
    example: str

class _Argument(TypedDict):
    summary: str
    example: str
    required: bool

class _Format(TypedDict):
    name: str
    summary: str
    columns: str
    units: str
    cannot_say: str
    argument: _Argument | None
    writable: bool
    example: str

@final
class Device:
    """A drive whose description has been checked."""

    @staticmethod
    def load(source: str, overrides: Sequence[str] = ...) -> Device: ...
    @staticmethod
    def parse(text: str, name: str) -> Device: ...
    @staticmethod
    def from_json(json: str, label: str) -> Device: ...
    def set(self, overrides: Sequence[str]) -> Device: ...
    def merge(self, json: str, label: str) -> Device: ...
    def layered(self, layers: Sequence[tuple[str, str]]) -> Device: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def logical_bytes(self) -> int: ...
    @property
    def physical_bytes(self) -> int: ...
    @property
    def notes(self) -> list[str]: ...
    def memory_bytes(self, verify: bool) -> int: ...
    def memory_bytes_at_first(self, verify: bool) -> int | None: ...
    def fills_by_formula(self, verify: bool) -> bool: ...
    def to_json(self) -> str: ...
    def to_toml(self) -> str: ...

@final
class Workload:
    """A workload whose description has been checked."""

    @staticmethod
    def load(source: str, overrides: Sequence[str] = ...) -> Workload: ...
    @staticmethod
    def parse(text: str, name: str) -> Workload: ...
    @staticmethod
    def from_json(json: str, label: str, name: str | None = ...) -> Workload: ...
    def layered(self, layers: Sequence[tuple[str, str]]) -> Workload: ...
    def set(self, overrides: Sequence[str]) -> Workload: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def stand_in_json(self) -> str | None: ...
    @property
    def calibration_json(self) -> str | None: ...
    def to_json(self) -> str: ...
    def to_toml(self) -> str: ...
    def transform(self, transform: Sequence[str]) -> Workload: ...
    def source(
        self,
        device: Device,
        seed: int | None = ...,
        requests: int | None = ...,
        traces: TraceCache | None = ...,
        in_line: bool = ...,
        fleet: bool = ...,
    ) -> Source: ...
    def source_of_capacity(self, capacity: str, seed: int | None = ..., requests: int | None = ...) -> Source: ...

@final
class CrashRecording:
    """A run whose power can be cut at any of its points."""

    @staticmethod
    def record(
        device: Device,
        source: Source,
        *,
        seed: int = ...,
        requests: int | None = ...,
        at: str = ...,
        nested: int = ...,
        progress: Callable[[str, float | None, int], None] | None = ...,
    ) -> CrashRecording: ...
    @property
    def points(self) -> int: ...
    @property
    def summary_json(self) -> str: ...
    def spread(self, count: int) -> list[int]: ...
    def examine(
        self, points: Sequence[int], workers: int, progress: Callable[[int], None] | None = ...
    ) -> tuple[dict[str, list[Any]], list[_Loss], bool]: ...
    def second_points(self, point: int) -> list[int]: ...
    def examine_second(self, point: int, nested_at: int) -> tuple[dict[str, list[Any]], list[_Loss]]: ...
    def mount_ns(self, points: Sequence[int], workers: int) -> list[int | None]: ...

@final
class TraceCache:
    """Traces that are decoded once for all runs that name this."""

    @staticmethod
    def of(limit_bytes: int) -> TraceCache: ...
    @property
    def used_bytes(self) -> int: ...
    @property
    def passes(self) -> int: ...
    def volumes(
        self, path: str | PathLike[str], format: str | None = ..., skip_bad: int = ...
    ) -> tuple[list[tuple[int, str, int]], int]: ...

@final
class RunControl:
    """How a run goes on, seen and ended from another thread."""

    @staticmethod
    def of() -> RunControl: ...
    @property
    def fraction(self) -> float | None: ...
    def stop(self) -> None: ...

@final
class AgedFiles:
    """Aged drives in a folder, for runs of other processes."""

    @staticmethod
    def of(folder: str | PathLike[str], limit: int | str, least_seconds: float) -> AgedFiles: ...
    def take_trouble(self) -> str | None: ...

@final
class AgedDrives:
    """Aged drives that runs which name this use again."""

    @staticmethod
    def of(limit_bytes: int) -> AgedDrives: ...
    @property
    def reused(self) -> int: ...
    @property
    def used_bytes(self) -> int: ...

@final
class ReadOptions:
    """How a trace is read."""

    @staticmethod
    def of(
        format: str | None = ...,
        volume: Sequence[int] = ...,
        volumes: str = ...,
        volume_bytes: int | str | None = ...,
        skip_bad: int = ...,
        transform: Sequence[str] = ...,
    ) -> ReadOptions: ...

@final
class Source:
    """Requests to run: a trace file, a generated workload, or a table."""

    @staticmethod
    def from_columns(arrival_ns: Any, op: Any, lba: Any, sectors: Any, stream: Any, fua: Any, name: str) -> Source: ...
    @staticmethod
    def from_trace(path: str | PathLike[str], reading: ReadOptions | None = ...) -> Source: ...
    def transform(self, transform: Sequence[str]) -> Source: ...
    def head(self, count: int) -> tuple[list[tuple[int, str, int, int, int, bool]], int, list[str]]: ...
    def write(
        self,
        target: str | PathLike[str],
        target_format: str,
        *,
        requests: int | None = ...,
        progress: Callable[[float | None, int], None] | None = ...,
    ) -> tuple[int, int, list[str], list[str]]: ...
    def fit(self, requests: int, description: str) -> str: ...
    def stats(
        self,
        options: str,
        requests: int | None = ...,
        progress: Callable[[float | None, int], None] | None = ...,
    ) -> str: ...
    @property
    def name(self) -> str: ...

@final
class Outcome:
    """What a run leaves."""

    @property
    def summary_json(self) -> str: ...
    @property
    def series(self) -> dict[str, tuple[str, bytes]] | None: ...
    @property
    def coarse_series(self) -> dict[str, tuple[str, bytes]]: ...
    @property
    def error(self) -> tuple[str, str] | None: ...
    @property
    def interrupted(self) -> bool: ...

_Row: TypeAlias = tuple[int, int, int, int, int, float, float, float, bool]

@final
class Session:
    """A drive that stands still between calls."""

    def __new__(cls, device: Device, seed: int = ..., verify: bool = ...) -> Session: ...
    def submit(self, op: int, lba: int, sectors: int, stream: int, fua: bool, at_ns: int | None) -> int: ...
    def next_event(self) -> _Row | None: ...
    def wait(self, id: int) -> _Row: ...
    def advance(self, until_ns: int | None) -> dict[str, tuple[str, bytes]]: ...
    def send(self, source: Source, queue_depth: int | None, gap_ns: int) -> dict[str, tuple[str, bytes]]: ...
    def send_together(self, source: Source, together: int, gap_ns: int) -> dict[str, tuple[str, bytes]]: ...
    def serve(self, op: int, lba: int, sectors: int) -> _Row: ...
    def idle(self, span_ns: int) -> dict[str, tuple[str, bytes]]: ...
    def fork(self) -> Session: ...
    def outcome(self) -> tuple[str, str | None]: ...
    def close(self) -> tuple[str, str | None]: ...
    @property
    def now_ns(self) -> float: ...
    @property
    def outstanding(self) -> int: ...
    @property
    def sectors(self) -> int: ...

@final
class BlockDevice:
    """A file or block device, opened past the page cache. Linux only."""

    def __new__(
        cls,
        path: str,
        destroy: str | None,
        *,
        seed: int,
        verify: bool,
        wait: str,
        least_bytes: int,
        buffer_bytes: int,
    ) -> BlockDevice: ...
    def facts(self) -> dict[str, Any]: ...
    def send(
        self,
        op: bytes,
        lba: bytes,
        sectors: bytes,
        at_ns: bytes | None,
        queue_depth: int,
        gap_ns: int,
    ) -> tuple[bytes, bytes, bytes, str | None]: ...
    def idle(self, ns: int) -> None: ...
    def close(self) -> None: ...
    def cached_bytes(self, lba: int, sectors: int) -> int: ...
    @property
    def device_counts(self) -> dict[str, int] | None: ...
    @property
    def proofs(self) -> tuple[int, int]: ...
    @property
    def sectors(self) -> int: ...
    @property
    def unit_sectors(self) -> int: ...
    @property
    def can_trim(self) -> bool: ...

def run(
    device: Device,
    source: Source,
    *,
    seed: int = ...,
    requests: int | None = ...,
    verify: bool = ...,
    timing: bool = ...,
    series: tuple[str, int] | None = ...,
    request_log: str | PathLike[str] | None = ...,
    events: str | PathLike[str] | None = ...,
    events_slowest: int | None = ...,
    progress: Callable[[str, float | None, int], None] | None = ...,
    on_row: Callable[[dict[str, Any]], object] | None = ...,
    stand_in: tuple[str, str | None, str | None] | None = ...,
    aged: tuple[AgedDrives | None, str | None] | None = ...,
    aged_files: AgedFiles | None = ...,
    control: RunControl | None = ...,
    memory: int | None = ...,
) -> Outcome: ...
def latency_parts() -> list[tuple[str, str]]: ...
def places(text: str, name: str) -> dict[str, str]: ...
def presets(kind: str) -> list[tuple[str, str]]: ...
def schemes() -> list[_Scheme]: ...
def foreign_words() -> list[tuple[str, str, bool, str]]: ...
def warnings() -> list[tuple[str, str, str]]: ...
def schema(kind: str) -> str: ...
def record(
    command: Sequence[str],
    target: str | PathLike[str],
    target_format: str,
    *,
    cache: str = ...,
    include: Sequence[str] = ...,
    exclude: Sequence[str] = ...,
    output_to_stderr: bool = ...,
    asked: Callable[[], int | None] | None = ...,
) -> dict[str, Any]: ...
def formats() -> list[_Format]: ...
def workload_kinds() -> list[_WorkloadKind]: ...
def transform_step(text: str) -> str: ...
def transform_steps() -> list[_Step]: ...
def trace_files(path: str | PathLike[str], format: str | None = ...) -> list[Path]: ...
def trace_info(path: str | PathLike[str], format: str | None = ...) -> tuple[str, str, list[str]]: ...
def trace_volumes(
    path: str | PathLike[str],
    format: str | None = ...,
    skip_bad: int = ...,
    progress: Callable[[float | None, int], None] | None = ...,
) -> tuple[list[tuple[int, str, int]], int, list[str]]: ...
def trace_head(
    path: str | PathLike[str], count: int, reading: ReadOptions | None = ...
) -> tuple[list[tuple[int, str, int, int, int, bool]], int, list[str]]: ...
def trace_convert(
    path: str | PathLike[str],
    target: str | PathLike[str],
    target_format: str,
    *,
    reading: ReadOptions | None = ...,
    requests: int | None = ...,
    progress: Callable[[float | None, int], None] | None = ...,
) -> tuple[int, int, list[str], list[str]]: ...
def trace_merge(
    traces: Sequence[tuple[str | PathLike[str], ReadOptions | None]],
    target: str | PathLike[str],
    target_format: str,
    *,
    keep_streams: bool = ...,
    progress: Callable[[float | None, int], None] | None = ...,
) -> tuple[int, int, list[tuple[Path, int, int]], list[str], list[str]]: ...
def trace_split(
    path: str | PathLike[str],
    folder: str | PathLike[str],
    stem: str,
    suffix: str,
    target_format: str,
    *,
    reading: ReadOptions | None = ...,
    overwrite: bool = ...,
    progress: Callable[[float | None, int], None] | None = ...,
) -> tuple[list[tuple[int, Path, int]], int, list[str], list[str]]: ...
