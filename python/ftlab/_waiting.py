"""Where slow requests waited, among how many others, and behind which writes: what parts of the latency do not say."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ftlab._reporting.drawing import Shape
from ftlab._units import count_text, time_text
from ftlab.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

# Columns of the request log; an older ftlab has not written them.
COLUMNS = ("longest_wait_die", "die_wait_ns", "update_wait_ns")
# What requests wait for at a die or its bus because of each other.
_BEHIND = ("read", "program", "bus", "order", "link", "buffer", "cache_flush")
_SECTOR_BYTES = 512
# A wait below this share of the latency is not worth a sentence.
_LEAST_WAIT = 0.3
# A die is hot when this many times as many requests waited there as at others, in most parts of the run. Requests are
# counted, and not how long they waited: queues are longest somewhere, and where is chance. So is which of several dies
# a request waited at longest, so that those on one die are counted.
_HOT = 1.5
# Parts of a run, and how many standard errors of their mean the excess must be.
_PARTS_OF_RUN, _SURE = 16, 3.0
# Requests came together when so many of those ahead, and half of these, came within this share of the time that they
# took, and so many times as fast as requests came around that time.
_LEAST_AHEAD, _TOGETHER, _FASTER = 4, 0.25, 2.0
# Waits behind other requests are those of read-modify-writes when these have this share of them.
_MOSTLY = 0.5


class Finding(NamedTuple):
    """Something that explains the latency of the requests.

    Attributes:
        code: ``hot_die``, ``one_die``, ``burst`` or ``read_modify_write``.
        text: In words.
    """

    code: str
    text: str


@dataclass(frozen=True)
class Dies:
    """The dies of a drive, or its planes where these work independently: what ``longest_wait_die`` numbers.

    Attributes:
        count: How many there are; of a log without its device, as many as are named.
        on_channel: How many on each channel; 0 if that is not known.
        name: What one is called.
        by_address: Whether the address alone says at which one a page is.
        unit_sectors: Sectors of a mapping unit; of a log without its device, those of 4 KiB.
        is_closed: Whether the host has a fixed number of requests in the drive: a new one comes when another has ended.
    """

    count: int
    on_channel: int = 0
    name: str = "die"
    by_address: bool = False
    unit_sectors: int = 4096 // _SECTOR_BYTES
    is_closed: bool = False

    @classmethod
    def of(cls, device: dict[str, Any]) -> Dies:
        """Take them from a device file."""
        shape = Shape.of(device)
        on_channel = shape.dies_per_channel * (shape.planes if shape.planes_apart else 1)
        by_address = device.get("ftl", {}).get("striping") == "static"
        name = "plane" if shape.planes_apart else "die"
        is_closed = device.get("host", {}).get("arrival") == "closed"
        unit = device["geometry"].get("mapping_unit_bytes") or device["geometry"]["page_bytes"]
        return cls(shape.channels * on_channel, on_channel, name, by_address, unit // _SECTOR_BYTES, is_closed)

    @classmethod
    def of_log(cls, log: pl.DataFrame) -> Dies:
        """As far as a request log alone tells."""
        return cls(
            int(log["longest_wait_die"].fill_null(0).to_numpy().max(initial=0)) + 1
            if "longest_wait_die" in log.columns
            else 1
        )

    @classmethod
    def beside(cls, path: Path, log: pl.DataFrame) -> Dies:
        """Take them from the device file beside a log, if there is one.

        Raises:
            InputError: It is damaged.
        """
        file = path / "device.toml"
        if not file.is_file():
            return cls.of_log(log)
        try:
            return cls.of(tomllib.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{file}: expected what `ftlab run --out` wrote: {error}") from error

    def is_on_one(self, log: pl.DataFrame) -> pl.Series:
        """Which requests lie in a mapping unit."""
        last = log["lba"] + log["sectors"].cast(log["lba"].dtype) - 1
        return last // self.unit_sectors == log["lba"] // self.unit_sectors

    def named(self, die: int) -> str:
        """The name of one.

        >>> Dies(8, on_channel=2).named(3), Dies(4).named(3)
        ('die 3 (channel 1)', 'die 3')
        """
        return f"{self.name} {die}" + (f" (channel {die // self.on_channel})" if self.on_channel else "")


def by_die(rows: pl.DataFrame, log: pl.DataFrame, dies: Dies) -> pl.DataFrame:
    """A row for each die that one of the requests waited at longest, the longest waits first.

    Returns:
        ``die``, ``channel`` (null if it is not known), ``requests``, ``mean_ns`` over all of ``rows``, ``share`` of the
        waits of ``rows`` at dies, and ``all_share``, the same of all requests.
    """
    import polars as pl

    schema = {
        "die": pl.Int64, "channel": pl.Int64, "requests": pl.Int64, "mean_ns": pl.Float64, "share": pl.Float64,
        "all_share": pl.Float64,
    }  # fmt: skip
    if not set(COLUMNS) <= set(log.columns):
        return pl.DataFrame(schema=schema)
    (waits, counts), (everything, _) = _sums(rows, dies.count), _sums(log, dies.count)
    whole, of_all = float(waits.sum()), float(everything.sum())
    order = sorted(np.flatnonzero(waits), key=lambda die: (-waits[die], die))
    table = [
        {
            "die": int(die),
            "channel": int(die) // dies.on_channel if dies.on_channel else None,
            "requests": int(counts[die]),
            "mean_ns": float(waits[die]) / rows.height,
            "share": float(waits[die]) / whole,
            "all_share": float(everything[die]) / of_all,
        }
        for die in order
    ]
    return pl.DataFrame(table, schema=schema)


def _sums(rows: pl.DataFrame, count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """By die: the longest waits of the requests, and how many requests these are of."""
    waits = rows["die_wait_ns"].to_numpy()
    # What waited nowhere names no die.
    at = rows["longest_wait_die"].to_numpy()[waits > 0].astype(np.int64)
    waits = waits[waits > 0]
    return np.bincount(at, waits, count), np.bincount(at, minlength=count)


def findings(rows: pl.DataFrame, log: pl.DataFrame, table: pl.DataFrame, dies: Dies) -> list[Finding]:
    """What explains the latency of some requests of a log.

    Args:
        rows: The requests.
        log: All requests, of all operations.
        table: As :func:`by_die` gives it.
        dies: Those of the drive.
    """
    if not set(COLUMNS) <= set(log.columns):
        return []
    latency = float(rows["latency_ns"].to_numpy().mean())
    if latency == 0:
        return []
    at_a_die = _at_a_die(rows, log, table, dies, latency)
    found = [at_a_die]
    if at_a_die is None or at_a_die.code != "hot_die":
        found.append(_burst(rows, log, table, dies, latency))
    found.append(_updates(rows, latency))
    return [each for each in found if each is not None]


def _at_a_die(rows: pl.DataFrame, log: pl.DataFrame, table: pl.DataFrame, dies: Dies, latency: float) -> Finding | None:
    """Most of the waits were at one die, of several."""
    if dies.count == 1 or table.height == 0 or table["mean_ns"].sum() < _LEAST_WAIT * latency:
        return None
    top = table.row(0, named=True)
    if not _is_most(top["die"], rows, dies):
        return None
    name, share = dies.named(top["die"]), f"{100 * top['share']:.0f} %"
    if rows.height == 1:
        waited = time_text(top["mean_ns"])
        return Finding("one_die", f"It waited longest at {name}, for {waited}.")
    # Evictions are of other pages, and in a row the first of several dies holds up all: that is no load of it.
    on_one_die = log.filter(dies.is_on_one(log) & (log["wait_cache_flush_ns"] == 0))
    if not _is_hot(*_counts(top["die"], on_one_die), dies):
        there, elsewhere = _counts(top["die"], log)
        if _is_hot(there, elsewhere, dies) or not _is_most(top["die"], _meanwhile(top["die"], rows, log), dies):
            return None
        text = f"{share} of the time that they waited at a {dies.name} was at {name}."
        if elsewhere.sum() == 0:
            return Finding("one_die", f"{text} No request of the run waited longest at another.")
        of_all = f"{100 * there.sum() / (there.sum() + elsewhere.sum()):.0f} %"
        more = f"It was not so all the time: of all requests that waited, {of_all} did there."
        return Finding("one_die", f"{text} {more}")
    how = 'set ftl.striping = "dynamic", or spread' if dies.by_address else "spread"
    of = f"of {count_text(dies.count)} {dies.name}s"
    return Finding(
        "hot_die",
        f"{name.capitalize()} is hot: {share} of the time that they waited at a {dies.name} was there, {of}. "
        f"To avoid that, {how} what the host reads and writes over more addresses.",
    )


def _is_most(die: int, of: pl.DataFrame, dies: Dies) -> bool:
    """Whether most of the waits of requests were there. Of two dies, chance gives one of them more than half."""
    waits, _ = _sums(of, dies.count)
    there, everywhere = float(waits[die]), float(waits.sum())
    return there >= (0.5 + 0.5 / dies.count) * everywhere


def _meanwhile(die: int, rows: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """All requests that were handed over while one of some that waited at a die was in the drive.

    Of a row of requests on every die, chance has the slowest ones on one.
    """
    there = rows.filter((rows["die_wait_ns"] > 0) & (rows["longest_wait_die"] == die))
    begins, ends = (np.sort(there[column].to_numpy()) for column in ("start_ns", "end_ns"))
    starts = log["start_ns"].to_numpy()
    return log.filter(np.searchsorted(begins, starts, "right") > np.searchsorted(ends, starts, "left"))


def _counts(die: int, log: pl.DataFrame) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """By part of the run, with as many requests each: how many waited longest at a die, and how many elsewhere."""
    order = np.argsort(log["start_ns"].to_numpy(), kind="stable")
    has_waited = log["die_wait_ns"].to_numpy()[order] > 0
    is_there = has_waited & (log["longest_wait_die"].to_numpy()[order] == die)
    part = np.arange(log.height) * _PARTS_OF_RUN // log.height
    there = np.bincount(part, is_there, _PARTS_OF_RUN)
    return there, np.bincount(part, has_waited, _PARTS_OF_RUN) - there


def _is_hot(there: np.ndarray[Any, Any], elsewhere: np.ndarray[Any, Any], dies: Dies) -> bool:
    """Whether a die has more than others on average, and not only now and then, as by a long collection."""
    of_another = elsewhere / (dies.count - 1)
    if there.sum() == 0 or there.sum() < _HOT * of_another.sum():
        return False
    excess = there - of_another
    error = float(excess.std(ddof=1)) / math.sqrt(_PARTS_OF_RUN)
    return float(excess.mean()) >= _SURE * error


def _burst(rows: pl.DataFrame, log: pl.DataFrame, table: pl.DataFrame, dies: Dies, latency: float) -> Finding | None:
    """Requests came together, and wait for each other."""
    waited = sum(float(rows[f"wait_{what}_ns"].to_numpy().mean()) for what in _BEHIND)
    if dies.is_closed or waited < _LEAST_WAIT * latency:
        return None

    def times(of: pl.DataFrame, column: str) -> np.ndarray[Any, Any]:
        return of[column].to_numpy().astype(np.int64)

    starts, came, ends = (np.sort(times(log, f"{column}_ns")) for column in ("start", "arrival", "end"))
    own = times(rows, "start_ns")
    # One that took no time has ended by then, too.
    ended = np.searchsorted(ends, own, "right") - (times(rows, "end_ns") <= own)
    ahead = np.searchsorted(starts, own, "right") - 1 - ended
    # When a request came says its arrival: some are handed over together when others have ended.
    own_came = times(rows, "arrival_ns")
    took = times(rows, "end_ns") - own_came
    last = np.searchsorted(came, own_came, "right") - 1
    others = np.minimum(last - np.searchsorted(came, own_came - _TOGETHER * took, "left"), ahead)
    within = own_came - came[last - others]
    # As long before and after, as far as the run goes.
    begin, end = np.maximum(own_came - took, came[0]), np.minimum(own_came + took, ends[-1])
    around = np.searchsorted(came, end, "right") - np.searchsorted(came, begin, "left")
    is_faster = others * (end - begin) >= _FASTER * around * within
    if np.median((others >= _LEAST_AHEAD) & (2 * others >= ahead) & is_faster) < 1:
        return None
    count, span = float(np.median(others)), float(np.median(within))
    text = f"{'It' if rows.height == 1 else 'They'} came in a burst: {count:.0f} others that were in the drive had come"
    text += " at the same time." if span == 0 else f" within {time_text(span)}."
    if dies.count > 1 and table.height > 1:
        text += f" The waits are spread over {count_text(table.height)} of {count_text(dies.count)} {dies.name}s."
    return Finding("burst", text)


def _updates(rows: pl.DataFrame, latency: float) -> Finding | None:
    """The waits were behind writes of a part of a page, or the requests are such writes."""
    behind = sum(float(rows[f"wait_{what}_ns"].to_numpy().mean()) for what in ("read", "program", "order"))
    updates = float(rows["update_wait_ns"].to_numpy().mean())
    if behind < _LEAST_WAIT * latency or updates < _MOSTLY * behind:
        return None
    return Finding(
        "read_modify_write",
        f"{100 * updates / behind:.0f} % of the time behind other requests was behind read-modify-writes: they write a "
        "part of a page, and read the rest of it first. Writes of whole pages, or smaller mapping units, need none.",
    )
