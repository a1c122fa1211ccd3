"""Where slow requests waited, among how many others, and behind which writes: what parts of the latency do not say."""

from __future__ import annotations

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
_BEHIND = ("read", "program", "bus", "order")
# A wait below this share of the latency is not worth a sentence.
_LEAST_WAIT = 0.3
# A die is hot when it has this many times its share of the waits of all requests.
_HOT = 1.5
# Requests came together when so many were ahead, and all of these came within this share of the latency.
_LEAST_AHEAD, _TOGETHER = 4, 0.25
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
        is_closed: Whether the host has a fixed number of requests in the drive: a new one comes when another has ended.
    """

    count: int
    on_channel: int = 0
    name: str = "die"
    by_address: bool = False
    is_closed: bool = False

    @classmethod
    def of(cls, device: dict[str, Any]) -> Dies:
        """Take them from a device file."""
        shape = Shape.of(device)
        on_channel = shape.dies_per_channel * (shape.planes if shape.planes_apart else 1)
        by_address = device.get("ftl", {}).get("striping") == "static"
        name = "plane" if shape.planes_apart else "die"
        is_closed = device.get("host", {}).get("arrival") == "closed"
        return cls(shape.channels * on_channel, on_channel, name, by_address, is_closed)

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
    found = [_at_a_die(rows, table, dies, latency)]
    if found == [None]:
        found = [_burst(rows, log, table, dies, latency)]
    found.append(_updates(rows, latency))
    return [each for each in found if each is not None]


def _at_a_die(rows: pl.DataFrame, table: pl.DataFrame, dies: Dies, latency: float) -> Finding | None:
    """Most of the waits were at one die, of several."""
    if dies.count == 1 or table.height == 0 or table["mean_ns"].sum() < _LEAST_WAIT * latency:
        return None
    top = table.row(0, named=True)
    # Of two dies, chance gives one of them more than half.
    if top["share"] < 0.5 + 0.5 / dies.count:
        return None
    name, share = dies.named(top["die"]), f"{100 * top['share']:.0f} %"
    if rows.height == 1:
        waited = time_text(top["mean_ns"])
        return Finding("one_die", f"It waited longest at {name}, for {waited}.")
    if top["all_share"] < _HOT / dies.count:
        text = f"{share} of the time that they waited at a {dies.name} was at {name}"
        return Finding("one_die", f"{text}. Of all requests, it has no more than others.")
    how = 'set ftl.striping = "dynamic", or spread' if dies.by_address else "spread"
    of = f"of {count_text(dies.count)} {dies.name}s"
    return Finding(
        "hot_die",
        f"{name.capitalize()} is hot: {share} of the time that they waited at a {dies.name} was there, {of}. "
        f"To avoid that, {how} what the host reads and writes over more addresses.",
    )


def _burst(rows: pl.DataFrame, log: pl.DataFrame, table: pl.DataFrame, dies: Dies, latency: float) -> Finding | None:
    """Requests came together, and wait for each other."""
    waited = sum(float(rows[f"wait_{what}_ns"].to_numpy().mean()) for what in _BEHIND)
    if dies.is_closed or waited < _LEAST_WAIT * latency:
        return None
    starts, ends = (np.sort(log[column].to_numpy().astype(np.int64)) for column in ("start_ns", "end_ns"))
    own = rows["start_ns"].to_numpy().astype(np.int64)
    last = np.searchsorted(starts, own, "right") - 1
    ahead = last - np.searchsorted(ends, own, "right")
    within = own - starts[last - ahead]
    others, span = float(np.median(ahead)), float(np.median(within))
    if others < _LEAST_AHEAD or span > _TOGETHER * latency:
        return None
    text = (
        f"{'It' if rows.height == 1 else 'They'} came in a burst: {others:.0f} others that were in the drive had come"
    )
    text += " at the same time." if span == 0 else f" within {time_text(span)}."
    if dies.count > 1:
        text += f" The waits are spread over {count_text(table.height)} of {count_text(dies.count)} {dies.name}s."
    return Finding("burst", text)


def _updates(rows: pl.DataFrame, latency: float) -> Finding | None:
    """The waits were behind writes of a part of a page, or the requests are such writes."""
    behind = sum(float(rows[f"wait_{what}_ns"].to_numpy().mean()) for what in ("read", "program"))
    updates = float(rows["update_wait_ns"].to_numpy().mean())
    if behind < _LEAST_WAIT * latency or updates < _MOSTLY * behind:
        return None
    return Finding(
        "read_modify_write",
        f"{100 * updates / behind:.0f} % of the time behind other requests was behind read-modify-writes: they write a "
        "part of a page, and read the rest of it first. Writes of whole pages, or smaller mapping units, need none.",
    )
