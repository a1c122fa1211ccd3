"""Where the time of slow requests went.

The request log of a run has a column for each part of a request's latency. Parts do not overlap and sum to the latency,
so their means over some requests say what these requests were slow for.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ftlab import _native
from ftlab import _waiting as waiting
from ftlab._checks import checked, shown, whole
from ftlab._units import count_text, time_text
from ftlab.errors import ConfigError, InputError

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import polars as pl

    from ftlab._device import Device

# What requests are divided by, from the fastest to the slowest; the last group is what is left.
_LEVELS = (50.0, 90.0, 99.0, 99.9, 99.99)
# Parts that a sentence names: the largest ones until they make this share of the time, but no more than so many.
_TOLD_SHARE, _MOST_TOLD = 0.9, 3
# Slowest requests that a table has a line for.
_ROWS = 20

# What a request does or waits for, as the end of "spent 40 % of their time ...".
_WORDS = {
    "service_overhead": "in host and firmware",
    "wait_link": "waiting for the host link",
    "service_link": "on the host link",
    "service_buffer": "in memory beside flash",
    "wait_buffer": "waiting for memory beside flash",
    "service_read": "reading their own pages",
    "service_program": "programming their own pages",
    "service_transfer": "moving their own pages over a channel",
    "wait_bus": "waiting for the bus of a channel",
    "wait_read": "behind reads of other requests",
    "wait_program": "behind programs of other requests",
    "wait_order": "on a free die, behind a command that had to wait for another die",
    "wait_cache_flush": "on evictions from the buffer or cache",
    "wait_gc": "waiting for garbage collection",
    "wait_merge": "waiting for merges of log blocks",
    "wait_map": "on translation pages",
    "wait_metadata": "on metadata",
    "wait_lsb_backup": "on backups of LSB pages",
    "wait_wear_level": "waiting for wear levelling",
    "wait_recovery": "waiting for recovery",
}


class Part(NamedTuple):
    """A part of the latency.

    Attributes:
        name: As in the column ``<name>_ns`` of the request log. What is done for the request itself begins with
            ``service``, all else with ``wait``.
        meaning: What it is, in a sentence.
    """

    name: str
    meaning: str


def parts() -> list[Part]:
    """All parts of the latency, in the order of the columns."""
    return [Part(*part) for part in _native.latency_parts()]


@dataclass(frozen=True)
class Explanation:
    """Where the time of some requests of a run went.

    Attributes:
        chosen: Which requests these are, in words.
        requests: Their rows of the request log, the slowest first.
        parts: A row for each part that took time in the run: ``part``, ``meaning``, ``mean_ns`` over the requests,
            ``share`` of their latency, and ``all_ns``, the mean over all requests. The largest share first.
        groups: All requests from the fastest to the slowest, by percentile: ``from``, ``to``, ``requests``,
            ``latency_ns`` (mean) and the mean of each part in nanoseconds.
        dies: A row for each die that some of the requests waited at longest, the largest first. It has ``die``,
            ``channel``, ``requests``, ``mean_ns`` over all of the requests, and ``share`` of the waits at dies;
            ``all_share`` is that of all requests of the run.
        die_name: What one of them is: ``plane`` where planes work independently, and else ``die``.
        findings: What is behind it, each with a ``code`` and a ``text``. ``hot_die``: most of the waits are at a die
            where more requests wait than at others, all the time. ``one_die``: at one where that is not so. ``burst``:
            the requests came together, and wait for each other. ``read_modify_write``: they wait for writes of a part
            of a page.
        partial: Whether the run ended before its workload did. ``False`` where only a log is known.
        warnings: What may mislead about the run, as in ``Result.warnings``. Empty where only a log is known.
    """

    chosen: str
    requests: pl.DataFrame
    parts: pl.DataFrame
    groups: pl.DataFrame
    dies: pl.DataFrame
    die_name: str
    findings: tuple[waiting.Finding, ...]
    partial: bool = False
    warnings: tuple[dict[str, Any], ...] = ()

    @property
    def host_wait_ns(self) -> float:
        """How long the requests waited at the host before they were handed over: a mean, and no part of the latency."""
        if not {"arrival_ns", "start_ns"} <= set(self.requests.columns):
            return 0.0
        # Times of a log have no sign.
        return _number(self.requests["start_ns"].mean()) - _number(self.requests["arrival_ns"].mean())

    @property
    def words(self) -> str:
        """What took the time, in some sentences, and what the latency does not say where that is more."""
        return " ".join([self._latency_words(), *(finding.text for finding in self.findings)]) + self._host_words()

    def _host_words(self) -> str:
        waited, latency = self.host_wait_ns, self.requests["latency_ns"]
        if waited <= _number(latency.mean()):
            return ""
        how_long = f" Before that, {'it' if latency.len() == 1 else 'they'} waited {time_text(waited)} at the host"
        mean = "" if latency.len() == 1 else " on average"
        return f"{how_long}{mean}. That is no part of the latency, which begins at the hand-over."

    def _latency_words(self) -> str:
        latency = self.requests["latency_ns"]
        if latency.len() == 1:
            took = f"{self.chosen} took {time_text(_number(latency[0]))}"
        else:
            took = f"{self.chosen} took {time_text(_number(latency.min()))} to {time_text(_number(latency.max()))}"
        told: list[str] = []
        shares = 0.0
        for row in self.parts.iter_rows(named=True):
            if shares < _TOLD_SHARE and len(told) < _MOST_TOLD and row["share"] > 0:
                told.append(f"{row['share'] * 100:.0f} % {self._part_words(row['part'])}")
                shares += row["share"]
        if not told:
            return f"{took}."
        *most, last = told
        spent = f"{', '.join(most)} and {last}" if most else last
        return f"{took}. {'Of this, ' if latency.len() == 1 else 'Of their time, '}{spent}."

    def _part_words(self, part: str) -> str:
        is_update = part in {"wait_read", "wait_program"} and any(
            finding.code == "read_modify_write" for finding in self.findings
        )
        return _WORDS[part] + (" in read-modify-writes" if is_update else "")

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "chosen": self.chosen,
            "words": self.words,
            "host_wait_ns": self.host_wait_ns,
            "parts": self.parts.to_dicts(),
            "groups": self.groups.to_dicts(),
            "dies": self.dies.to_dicts(),
            "die_name": self.die_name,
            "findings": [finding._asdict() for finding in self.findings],
            "partial": self.partial,
            "warnings": list(self.warnings),
            "requests": self.requests.head(_ROWS).to_dicts(),
        }

    def __repr__(self) -> str:
        """The words, and the parts."""
        return f"<ftlab.Explanation: {self.words}>"


def _number(value: Any) -> float:
    return float(value)


def read(log: str | os.PathLike[str]) -> pl.DataFrame:
    """The request log of a run: the file, or the directory that ``ftlab run --out`` wrote.

    Raises:
        InputError: There is none, or it has no parts.
    """
    import polars as pl

    path = Path(log)
    if path.is_dir():
        folder, path = path, path / "requests.parquet"
        if (folder / "store.json").is_file():
            raise InputError(f"{folder}: is the store of a study, which keeps no request log: do one of its runs alone")
        if not path.is_file():
            raise InputError(f"{folder}: has no requests.parquet: run it again with --out DIR --requests-log")
    try:
        # Polars takes names that are text only, and files of any name.
        with path.open("rb") as file:
            frame = pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: cannot be read as a request log: {error}") from error
    return _checked(frame, f"{path}: ")


def _has_columns(frame: pl.DataFrame, names: Sequence[str], where: str) -> None:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise InputError(f"{where}has no column {missing[0]}: run it again with --out DIR --requests-log")


def _checked(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    _has_columns(frame, ("index", "op", "latency_ns", *_columns()), where)
    for name in ("latency_ns", *_columns()):
        column = frame[name]
        if not column.dtype.is_numeric() or not column.is_finite().fill_null(value=False).all():
            raise InputError(f"{where}cannot be read as a request log: column {name} has what is no time")
    return frame


def _columns() -> list[str]:
    return [f"{part.name}_ns" for part in parts()]


def _one_given(given: dict[str, Any]) -> None:
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ConfigError(f"give one of {', '.join(given)}, not {' and '.join(names)}")


@checked
def explain(
    log: pl.DataFrame | str | os.PathLike[str],
    *,
    slowest: int | None = None,
    percentile: float | None = None,
    request: int | None = None,
    op: str | None = None,
    device: Device | None = None,
) -> Explanation:
    """Say where the time of slow requests went.

    Args:
        log: The request log (``Result.requests``), or the file or directory that has it.
        slowest: How many of the slowest requests. Default: 20, or all if there are fewer.
        percentile: The slowest, above this percentile of latency, one at least: above 0 and below 100. Of equal
            ones, the first.
        request: The one with this ``index``.
        op: Of the requests of this operation only: ``read``, ``write``, ``trim`` or ``flush``.
        device: The drive, whose dies are named by their channel. Default: the one in the directory of the log.

    Raises:
        ConfigError: More than one choice, or one out of range.
        InputError: There is no such request, or no request log.
    """
    import polars as pl

    everything = frame = _checked(log, "the frame ") if isinstance(log, pl.DataFrame) else read(log)
    _one_given({"slowest": slowest, "percentile": percentile, "request": request})
    of = "requests"
    if op is not None:
        known = ("read", "write", "trim", "flush")
        if op not in known:
            raise ConfigError(f"op = {op!r}: expected one of {', '.join(known)}")
        frame, of = frame.filter(pl.col("op") == op), f"{op}s" if op != "flush" else "flushes"
    if frame.height == 0:
        raise InputError(f"no {of} have completed")
    ordered = frame.sort("latency_ns", "index", descending=[True, False])
    if request is not None:
        chosen, rows = _one(ordered, whole("request", request), of)
    elif percentile is not None:
        if not (isinstance(percentile, Real) and 0 < percentile < 100):  # noqa: PLR2004 - per cent
            raise ConfigError(
                f"percentile = {shown(percentile)}: expected a number above 0 and below 100, such as 99.9"
            )
        count = max(frame.height - _rank(percentile, frame.height), 1)
        rows = ordered.head(count)
        those = f"{count_text(count)} {of}" if count > 1 else f"slowest of the {of}"
        chosen = f"The {those} above p{percentile:.12g}, of {count_text(frame.height)},"
    else:
        count = 20 if slowest is None else whole("slowest", slowest)
        if count < 1:
            raise ConfigError(f"slowest = {count}: expected at least 1")
        rows = ordered.head(count)
        those = f"{count_text(rows.height)} slowest" if rows.height > 1 else "slowest"
        chosen = f"The {those} of {count_text(frame.height)} {of}"
    dies = _dies(log, everything, device)
    table = waiting.by_die(rows, everything, dies)
    findings = tuple(waiting.findings(rows, everything, table, dies))
    partial, warnings = (False, ()) if isinstance(log, pl.DataFrame) else _said_of_run(_folder(log))
    return Explanation(
        chosen, rows, _parts(rows, frame), _groups(ordered.reverse()), table, dies.name, findings, partial, warnings
    )


def _one(ordered: pl.DataFrame, request: int, of: str) -> tuple[str, pl.DataFrame]:
    """Say what a request is, and give its row."""
    _has_columns(ordered, ("lba", "sectors"), "the log ")
    rows = ordered.filter(ordered["index"] == request)
    if rows.height == 0:
        first, last = ordered["index"].min(), ordered["index"].max()
        raise InputError(
            f"request {request} is not among the {count_text(ordered.height)} {of} that have completed:"
            f" numbers are from {first!r} to {last!r}"
        )
    if rows.height > 1:
        raise InputError(f"request {request} is there {rows.height} times: the log is of several runs")
    [row] = rows.iter_rows(named=True)
    return f"Request {request} ({row['op']} of {row['sectors']} sectors at sector {row['lba']})", rows


def _dies(log: pl.DataFrame | str | os.PathLike[str], frame: pl.DataFrame, device: Device | None) -> waiting.Dies:
    import polars as pl

    if device is not None:
        return waiting.Dies.of(device.to_dict())
    if isinstance(log, pl.DataFrame):
        return waiting.Dies.of_log(frame)
    return waiting.Dies.beside(_folder(log), frame)


def _folder(log: str | os.PathLike[str]) -> Path:
    path = Path(log)
    return path if path.is_dir() else path.parent


def _said_of_run(folder: Path) -> tuple[bool, tuple[dict[str, Any], ...]]:
    """Whether a run is partial, and its warnings, by the summary beside the log, if there is one."""
    file = folder / "summary.json"
    if not file.is_file():
        return False, ()
    try:
        summary = json.loads(file.read_text(encoding="utf-8"))
        return bool(summary.get("partial")), tuple(map(dict, summary.get("warnings") or ()))
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{file}: expected what `ftlab run --out` wrote: {error}") from error


def _rank(percentile: float, count: int) -> int:
    """How many of ``count`` values a percentile has up to and with its own, as the percentiles of the summary.

    The percentile is the decimal that was written: 99.9 % of 10,000 are 9,990, and not one more because the nearest
    binary number is a bit larger.
    """
    return math.ceil(Fraction(str(percentile)) * count / 100)


def _parts(rows: pl.DataFrame, frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    latency = sum(_number(rows[name].mean()) for name in _columns())
    table = [
        {
            "part": part.name,
            "meaning": part.meaning,
            "mean_ns": (mean := _number(rows[f"{part.name}_ns"].mean())),
            "share": mean / latency if latency else 0.0,
            "all_ns": _number(frame[f"{part.name}_ns"].mean()),
        }
        for part in parts()
    ]
    kept = [row for row in table if row["mean_ns"] or row["all_ns"]]
    schema = {"part": pl.String, "meaning": pl.String, "mean_ns": pl.Float64, "share": pl.Float64, "all_ns": pl.Float64}
    return pl.DataFrame(kept, schema=schema).sort("mean_ns", descending=True, maintain_order=True)


def _groups(ascending: pl.DataFrame) -> pl.DataFrame:
    """Mean parts of requests between percentiles."""
    import polars as pl

    bounds = [0.0, *_LEVELS, 100.0]
    table = []
    for low, high in itertools.pairwise(bounds):
        first, last = (_rank(level, ascending.height) for level in (low, high))
        rows = ascending.slice(first, last - first)
        if rows.height == 0:
            continue
        means = {name: _number(rows[name].mean()) for name in _columns()}
        row: dict[str, Any] = {"from": low, "to": high, "requests": rows.height}
        table.append({**row, "latency_ns": _number(rows["latency_ns"].mean()), **means})
    return pl.DataFrame(table)


def group_names(groups: pl.DataFrame) -> Sequence[str]:
    """How the groups of an explanation are called, such as ``p99 to p99.9``."""
    return [
        f"up to p{high:g}" if low == 0 else f"above p{low:g}" if high == 100 else f"p{low:g} to p{high:g}"  # noqa: PLR2004 - ends of the scale
        for low, high in groups.select("from", "to").iter_rows()
    ]
