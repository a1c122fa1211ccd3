"""What a report of a run is made from: a result in memory, a folder of `ftlab run --out`, or a run of a store."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ftlab.errors import ConfigError, InputError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import polars as pl

    from ftlab._result import Result
    from ftlab.studies import Store


@dataclass(frozen=True)
class RunData:
    """A run.

    Attributes:
        summary: The summary document.
        device: Every parameter of the device, as TOML.
        workload: The workload, as TOML.
        trace: The path of the trace that was run.
        options: Seed and options as they were stated, where that is known.
        series: The time series by column.
        requests: The request log, a Parquet file.
        key: Its key, for a run of a store.
        study: The study that it was found in, for a run of a store.
    """

    summary: dict[str, Any]
    device: str
    workload: str | None = None
    trace: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    series: dict[str, np.ndarray[Any, Any]] | None = None
    requests: Path | None = None
    key: str | None = None
    study: str | None = None


def from_result(result: Result) -> RunData:
    """Take a result in memory."""
    files = result.files()
    return RunData(
        summary=result.summary,
        device=files["device.toml"],
        workload=files.get("workload.toml"),
        trace=files["trace.txt"].rstrip("\n") if "trace.txt" in files else None,
        options=json.loads(files["run.json"]),
        series=result.series_arrays(),
        requests=result.requests_log,
    )


def _text(path: Path) -> str | None:
    if not path.is_file():
        return None
    try:
        # A path need not be text.
        return path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(_text(path) or "{}")
    except ValueError as error:
        raise InputError(f"{path}: expected JSON, as `ftlab run --out` writes it: {error}") from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected a JSON object, as `ftlab run --out` writes it")
    return document


def _toml(path: Path) -> str | None:
    text = _text(path)
    try:
        tomllib.loads(text or "")
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: expected TOML, as `ftlab run --out` writes it: {error}") from error
    return text


def _columns(frame: pl.DataFrame | None) -> dict[str, np.ndarray[Any, Any]] | None:
    return None if frame is None else {name: frame[name].to_numpy() for name in frame.columns}


def _series(path: Path) -> dict[str, np.ndarray[Any, Any]] | None:
    import polars as pl

    if not path.is_file():
        return None
    try:
        return _columns(pl.read_parquet(path.read_bytes()))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


def from_folder(folder: Path) -> RunData:
    """Take what `ftlab run --out` wrote.

    Raises:
        InputError: A file cannot be read.
        ConfigError: A file is missing that a report needs.
    """
    summary = _document(folder / "summary.json")
    missing = [key for key in ("schema", "device", "host", "flash", "wear") if key not in summary]
    if missing:
        raise InputError(f"{folder / 'summary.json'}: no summary document: it has no {missing[0]!r}")
    device = _toml(folder / "device.toml")
    if device is None:
        raise ConfigError(f"{folder}: has summary.json but no device.toml, which `ftlab run --out` writes beside it")
    trace, requests = _text(folder / "trace.txt"), folder / "requests.parquet"
    return RunData(
        summary=summary,
        device=device,
        workload=_toml(folder / "workload.toml"),
        trace=None if trace is None else trace.strip(),
        options=_document(folder / "run.json"),
        series=_series(folder / "series.parquet"),
        requests=requests if requests.is_file() else None,
    )


def from_store(store: Store, key: str) -> RunData:
    """Take a run of a store.

    Args:
        store: The store.
        key: The key of the run, or how it begins.

    Raises:
        ConfigError: There is no such run, or more than one, or it ended with an error.
    """
    from ftlab.studies.description import device_of, workload_of

    found = {name: record for name, record in store.records().items() if name.startswith(key)}
    if len(found) != 1:
        what = f"{len(found)} runs have keys that begin" if found else "no run has a key that begins"
        raise ConfigError(f"{store.folder}: {what} with {key!r}; the column key of the study's table has the keys")
    (record,) = found.values()
    if record.summary is None:
        raise ConfigError(f"{store.folder}: run {record.key} ended with an error: {record.error}")
    description = record.description
    study = next(
        (name for name, study in store.studies().items() if any(run.key == record.key for run in study.runs)), None
    )
    return RunData(
        summary=record.summary,
        device=device_of(description).to_toml(),
        workload=workload_of(description).to_toml(),
        options={"engine": description["engine"], "seed": description["seed"], **description["options"]},
        series=_columns(store.series(record.key)),
        key=record.key,
        study=study,
    )
