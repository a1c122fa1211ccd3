"""The words of `ftlab explain` judged on drives and hosts whose state is known by how they were made."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

import ftlab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

WORDS = ("hot_die", "one_die", "burst", "read_modify_write")
# At most so many of a hundred answers may be wrong, either way.
MOST_WRONG = 0.02
BLOCKS = 32
# What was planted is what slow requests waited for if so many of them are such.
MOST = 0.8


@dataclass
class Drive:
    """A small drive, drawn: pages of two sectors or more, and times of every kind of flash."""

    rng: np.random.Generator
    striping: str = "dynamic"
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shapes = [(1, 2), (2, 1), (2, 2), (4, 1), (4, 2), (2, 4), (8, 1), (4, 4), (8, 2), (8, 4)]
        self.channels, self.ways = shapes[self.rng.integers(len(shapes))]
        self.dies = self.channels * self.ways
        self.pages_per_block = int(self.rng.choice([8, 16, 32]))
        self.page_bytes = int(self.rng.choice([4096, 8192, 16384]))
        self.read_us = float(self.rng.uniform(20, 100))
        self.program_us = self.read_us * float(self.rng.uniform(4, 15))
        self.erase_us = float(self.rng.uniform(1000, 6000))
        # A bus carries a page of each of its dies in a third of a read.
        self.transfer_us = self.read_us / 3 / self.ways
        self.pages = int(self.dies * BLOCKS * self.pages_per_block / 1.4)
        self.sectors = self.page_bytes // 512

    @property
    def read_capacity_us(self) -> float:
        """Time between reads that the drive can just do."""
        return (self.read_us + self.transfer_us) / self.dies

    @property
    def write_capacity_us(self) -> float:
        """The same of writes, without collection."""
        return (self.program_us + self.transfer_us) / self.dies

    def device(self) -> ftlab.Device:
        text = f"""
[geometry]
channels = {self.channels}
ways = {self.ways}
blocks_per_plane = {BLOCKS}
pages_per_block = {self.pages_per_block}
page_bytes = {self.page_bytes}
[timing]
read_us = {self.read_us:.3f}
program_us = {self.program_us:.3f}
erase_us = {self.erase_us:.3f}
bus_mb_per_s = {self.page_bytes / self.transfer_us:.3f}
[ftl]
logical_pages = {self.pages}
striping = "{self.striping}"
[precondition]
kind = "fill"
"""
        return ftlab.Device.parse(text, "drawn").with_(**self.changes)

    def anywhere(self, count: int) -> np.ndarray[Any, Any]:
        return self.rng.integers(0, self.pages, count)

    def at(self, die: int, count: int) -> np.ndarray[Any, Any]:
        """Pages of one die, with static striping: channels vary fastest."""
        channel, way = divmod(die, self.ways)
        pages: np.ndarray[Any, Any] = self.rng.integers(0, self.pages // self.dies - 1, count) * self.dies
        return channel + way * self.channels + pages

    def die_of(self, pages: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return pages % self.channels * self.ways + pages // self.channels % self.ways


@dataclass
class Case:
    """Requests for a drive, and what must be said of the slow ones."""

    drive: Drive
    us: np.ndarray[Any, Any]
    pages: np.ndarray[Any, Any]
    # Of each word whether it must be said; a word that is not here is not judged.
    truth: dict[str, bool]
    # What was planted: it must be said where most of the chosen requests are such.
    planted: np.ndarray[Any, Any] | bool = True
    is_write: np.ndarray[Any, Any] | bool = False
    # Whole pages if it is not given.
    sectors: np.ndarray[Any, Any] | int = 0
    # The die that must be named.
    die: int | None = None

    def run(self) -> pl.DataFrame:
        """Its log, with a column for what was planted."""
        order = np.argsort(self.us, kind="stable")

        def column(values: np.ndarray[Any, Any] | int) -> np.ndarray[Any, Any]:
            return np.broadcast_to(values, len(order))[order]

        sectors = self.drive.sectors if isinstance(self.sectors, int) and not self.sectors else self.sectors
        table = pl.DataFrame(
            {
                "arrival_ns": np.round(column(self.us) * 1000).astype(np.uint64),
                "op": np.where(column(self.is_write), "write", "read").tolist(),
                "lba": (column(self.pages) * self.drive.sectors).astype(np.uint64),
                "sectors": column(sectors).astype(np.uint32),
            }
        )
        log = ftlab.run(self.drive.device(), table, requests_log=True).requests
        assert log is not None
        return log.with_columns(planted=pl.Series(column(self.planted))[log["index"]])


NONE = {"hot_die": False, "burst": False, "read_modify_write": False}


def regular(gap_us: float, count: int) -> np.ndarray[Any, Any]:
    return np.arange(count) * gap_us


def calm_reads(rng: np.random.Generator) -> Case:
    drive = Drive(rng)
    count = int(rng.integers(1_000, 6_000))
    gap = drive.read_capacity_us / rng.uniform(0.1, 0.65)
    return Case(drive, regular(gap, count), drive.anywhere(count), NONE)


def calm_mixed(rng: np.random.Generator) -> Case:
    """Reads and writes of whole pages, and collections."""
    drive = Drive(rng)
    count = int(rng.integers(2_000, 6_000))
    share = rng.uniform(0.1, 1.0)
    work = share * 3.5 * drive.write_capacity_us + (1 - share) * drive.read_capacity_us
    gap = work / rng.uniform(0.15, 0.6)
    return Case(drive, regular(gap, count), drive.anywhere(count), NONE, is_write=rng.random(count) < share)


def idle_collections(rng: np.random.Generator) -> Case:
    """So few writes that nothing but a collection now and then keeps one waiting."""
    drive = Drive(rng)
    count = int(rng.integers(1_000, 4_000))
    gap = drive.write_capacity_us * rng.uniform(8, 20)
    return Case(drive, regular(gap, count), drive.anywhere(count), NONE, is_write=True)


def overloaded(rng: np.random.Generator) -> Case:
    drive = Drive(rng)
    count = int(rng.integers(2_000, 6_000))
    gap = drive.read_capacity_us / rng.uniform(1.05, 1.6)
    return Case(drive, regular(gap, count), drive.anywhere(count), NONE)


def faster_half(rng: np.random.Generator) -> Case:
    """Requests come faster after a while, and the drive is able to do them."""
    drive = Drive(rng)
    count = int(rng.integers(2_000, 5_000))
    gap = drive.read_capacity_us / rng.uniform(0.4, 0.7)
    gaps = np.where(np.arange(count) < count * rng.uniform(0.3, 0.8), gap * rng.uniform(5, 20), gap)
    return Case(drive, np.cumsum(gaps), drive.anywhere(count), NONE)


def random_arrivals(rng: np.random.Generator) -> Case:
    """Chance brings some requests together: whether these are a burst is not judged."""
    case = calm_reads(rng)
    case.us = np.cumsum(rng.exponential(case.us[1], len(case.us)))
    case.truth = {"hot_die": False, "read_modify_write": False}
    return case


def large(rng: np.random.Generator) -> Case:
    """Requests of several pages, far fewer than the drive can do."""
    case = calm_mixed(rng)
    pages = int(rng.integers(2, 9))
    case.sectors, case.us = pages * case.drive.sectors, case.us * pages
    case.pages = np.minimum(case.pages, case.drive.pages - pages)
    case.truth = {"hot_die": False, "read_modify_write": False}
    return case


def closed(rng: np.random.Generator) -> Case:
    drive = Drive(rng)
    depth = int(rng.choice([4, 16, 64]))
    drive.changes = {"host": {"arrival": "closed", "queue_depth": depth}}
    count = int(rng.integers(2_000, 5_000))
    share = rng.choice([0.0, 0.3, 1.0])
    return Case(drive, np.zeros(count), drive.anywhere(count), NONE, is_write=rng.random(count) < share)


def limited(rng: np.random.Generator) -> Case:
    """Few may be in the drive, and the rest waits at the host when collections hold it up."""
    drive = Drive(rng)
    drive.changes = {"host": {"outstanding": int(rng.choice([8, 32]))}}
    count = int(rng.integers(2_000, 5_000))
    gap = 3.5 * drive.write_capacity_us / rng.uniform(0.3, 0.8)
    return Case(drive, regular(gap, count), drive.anywhere(count), NONE, is_write=rng.random(count) < 0.8)


def hot_reads(rng: np.random.Generator) -> Case:
    """One die has most of what it can do, or more, and the others little."""
    drive = Drive(rng, "static")
    hot, is_regular = int(rng.integers(drive.dies)), rng.random() < 0.5
    load = rng.uniform(1.0 if is_regular else 0.75, 1.3)
    more = rng.uniform(2.2, 6)
    share = (more - 1) / (drive.dies + more - 1)
    count = int(rng.integers(2_000, 6_000))
    gap = (drive.read_us + drive.transfer_us) * more / (drive.dies + more - 1) / load
    to_hot = rng.random(count) < share
    pages = np.where(to_hot, drive.at(hot, count), drive.anywhere(count))
    us = regular(gap, count) if is_regular else np.cumsum(rng.exponential(gap, count))
    truth = {"hot_die": True, "one_die": False, "read_modify_write": False}
    return Case(drive, us, pages, truth, drive.die_of(pages) == hot, die=hot)


def hot_writes(rng: np.random.Generator) -> Case:
    """As reads, with collections meanwhile."""
    case = hot_reads(rng)
    drive = case.drive
    factor = 4 * (drive.program_us + drive.transfer_us) / (drive.read_us + drive.transfer_us)
    case.is_write = True
    case.us = case.us * factor
    return case


def hot_closed(rng: np.random.Generator) -> Case:
    case = hot_reads(rng)
    case.drive.changes = {"host": {"arrival": "closed", "queue_depth": int(rng.choice([16, 64]))}}
    return case


def bursts(rng: np.random.Generator) -> Case:
    """Far fewer than the drive can do, and now and then very many at once, wherever they are."""
    drive = Drive(rng)
    count = int(rng.integers(1_000, 3_000))
    return bursts_of(drive, count, drive.read_capacity_us / rng.uniform(0.05, 0.4))


def bursts_of(drive: Drive, count: int, gap: float) -> Case:
    """Bursts among ``count`` requests, of which one comes each ``gap`` microseconds."""
    rng = drive.rng
    each = int(drive.dies * rng.integers(8, 30))
    bursts = int(rng.integers(1, 6))
    times = (np.arange(bursts) + rng.uniform(0.2, 0.8, bursts)) / bursts * gap * count
    spread = rng.choice([0.0, 0.1]) * each * drive.read_capacity_us
    came = [regular(gap, count)] + [at + np.sort(rng.random(each)) * spread for at in times]
    us = np.concatenate(came)
    # Those of a burst are a run of addresses, as a large file has them, or anywhere.
    planted = np.arange(len(us)) >= count
    truth = {"hot_die": False, "burst": True, "read_modify_write": False}
    if rng.random() < 0.5:
        where = [drive.anywhere(count)]
        where += [(np.arange(each) + int(rng.integers(drive.pages))) % drive.pages for _ in times]
        return Case(drive, us, np.concatenate(where), {**truth, "one_die": False}, planted)
    return Case(drive, us, drive.anywhere(len(us)), truth, planted)


def limited_bursts(rng: np.random.Generator) -> Case:
    """The same, and few of them are in the drive at once."""
    case = bursts(rng)
    case.drive.changes = {"host": {"outstanding": int(4 * case.drive.dies)}}
    return case


def one_at_a_time(rng: np.random.Generator) -> Case:
    """Each die has as many as the others, in rows that come to one die after the other. One row is longer."""
    while (drive := Drive(rng, "static")).dies < 4:
        pass
    each, rounds, longest = int(rng.integers(25, 40)), int(rng.integers(2, 4)), int(rng.integers(drive.dies))
    span = 3 * each * (drive.read_us + drive.transfer_us)
    us, pages, planted = [], [], []
    for turn in range(rounds):
        for place, die in enumerate(rng.permutation(drive.dies)):
            is_planted = turn == 0 and die == longest
            # What is more in this row is less in others.
            more = 25 if is_planted else -25 // (rounds - 1) if die == longest else 0
            planted.append(np.full(each + more, is_planted))
            us.append(np.full(each + more, (turn * drive.dies + place) * span))
            pages.append(drive.at(int(die), each + more))
    truth = {"hot_die": False, "one_die": True, "read_modify_write": False}
    return Case(drive, np.concatenate(us), np.concatenate(pages), truth, np.concatenate(planted), die=longest)


def with_spare(rng: np.random.Generator) -> Drive:
    """A drive that has no collection for hundreds of writes."""
    while (drive := Drive(rng)).pages < 2_000:
        pass
    return drive


def partial(rng: np.random.Generator) -> Case:
    """Parts of pages are written, more at a time than the dies can do at once."""
    drive = with_spare(rng)
    count, batch = drive.pages // 4, 6 * drive.dies
    gap = 3.5 * drive.write_capacity_us / rng.uniform(0.2, 0.5)
    us = np.arange(count) // batch * gap * batch
    truth = {"hot_die": False, "read_modify_write": True}
    return Case(drive, us, np.arange(count), truth, is_write=True, sectors=drive.sectors // 2)


def reads_behind_partial(rng: np.random.Generator) -> Case:
    drive = with_spare(rng)
    count = drive.pages // 4
    gap = 4 * (drive.program_us + drive.read_us + 2 * drive.transfer_us) / drive.dies / 0.9
    writes = regular(gap, count)
    pages = drive.anywhere(count)
    reads = writes + drive.read_us * 0.5
    # A read of the same page waits for it, wherever that is.
    us, where = np.concatenate([writes, reads]), np.concatenate([pages, pages])
    is_write = np.concatenate([np.ones(count, bool), np.zeros(count, bool)])
    sectors = np.where(is_write, drive.sectors // 2, drive.sectors)
    return Case(drive, us, where, {"hot_die": False, "read_modify_write": True}, ~is_write, is_write, sectors)


def few_partial(rng: np.random.Generator) -> Case:
    """Parts of pages are written when nobody else is there. What waits, waits for others."""
    drive = with_spare(rng)
    gap = 8 * drive.program_us
    quiet = regular(gap, drive.pages // 10)
    each = 10 * drive.dies
    bursts_at = quiet[-1] + gap + np.arange(5) * each * drive.read_us * 2
    us = np.concatenate([quiet, np.repeat(bursts_at, each)])
    is_write = us <= quiet[-1]
    sectors = np.where(is_write, drive.sectors // 2, drive.sectors)
    truth = {"hot_die": False, "burst": True, "read_modify_write": False}
    return Case(drive, us, drive.anywhere(len(us)), truth, us > quiet[-1], is_write, sectors)


def linked(case: Case) -> Case:
    """The same behind a link of the host, which is busy for less than all of the time."""
    drive, rng = case.drive, case.drive.rng
    gap = float(case.us[1] - case.us[0])
    drive.changes = {"host": {"link_mb_per_s": drive.page_bytes / (gap * rng.uniform(0.1, 0.6))}}
    return case


def buffered(drive: Drive) -> float:
    """Put a buffer on a drive. Returns the time between writes that it can just do with collections, in microseconds.

    Evictions go one after the other. It has half as many frames as a burst, so that writes wait for them.
    """
    wait = str(drive.rng.choice(["event", "frame"]))
    frames = int(drive.rng.integers(4, 4 * drive.dies + 1))
    drive.changes = {"buffer": {"kind": "lru", "bytes": frames * drive.page_bytes, "access_us": 1.0, "wait": wait}}
    return 5 * drive.program_us


def calm_linked(rng: np.random.Generator) -> Case:
    return linked(calm_reads(rng))


def linked_bursts(rng: np.random.Generator) -> Case:
    return linked(bursts(rng))


def calm_buffered(rng: np.random.Generator) -> Case:
    """Writes into a buffer that is full, so that each waits for an eviction, and collections."""
    drive = Drive(rng)
    count = int(rng.integers(1_000, 6_000))
    gap = buffered(drive) / rng.uniform(0.2, 0.7)
    return Case(drive, regular(gap, count), drive.anywhere(count), NONE, is_write=True)


def buffered_bursts(rng: np.random.Generator) -> Case:
    """The same with bursts, on a drive that has room for all that is written."""
    drive = Drive(rng)
    count = int(rng.integers(1_000, 3_000))
    case = bursts_of(drive, count, buffered(drive) / rng.uniform(0.2, 0.7))
    case.is_write = True
    more = len(case.us) // (drive.dies * drive.pages_per_block) + 8
    drive.changes["geometry"] = {"blocks_per_plane": BLOCKS + more}
    return case


KINDS: list[Callable[[np.random.Generator], Case]] = [
    calm_reads, calm_mixed, idle_collections, overloaded, faster_half, random_arrivals, large, closed, limited,
    hot_reads, hot_writes, hot_closed, bursts, limited_bursts, one_at_a_time,
    partial, reads_behind_partial, few_partial,
    calm_linked, linked_bursts, calm_buffered, buffered_bursts,
]  # fmt: skip
# Which requests are explained.
CHOICES: list[dict[str, Any]] = [{"slowest": 20}, {"percentile": 99}, {"percentile": 90}]


@dataclass
class Judged:
    """Answers of one kind, and those that are wrong."""

    count: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "".join([f"{len(self.wrong)} of {self.count}", *(f"\n    {case}" for case in self.wrong)])


def judged(seeds: Iterable[int]) -> dict[str, Judged]:
    """Words that were said in vain, and those that were missed."""
    found = {f"{word} {wrong}": Judged() for word in WORDS for wrong in ("in vain", "missed")}
    for seed, (number, kind) in itertools.product(seeds, enumerate(KINDS)):
        case = kind(np.random.default_rng([seed, number]))
        log, device = case.run(), case.drive.device()
        for choice in CHOICES:
            told = ftlab.explain(log, device=device, **choice)
            said = {finding.code: finding.text for finding in told.findings}
            is_planted = np.mean(told.requests["planted"].to_numpy()) >= MOST
            for word, must in case.truth.items():
                # Requests that were not planted may be at one die by chance.
                if not is_planted and (must or word == "one_die"):
                    continue
                of = found[f"{word} {'missed' if must else 'in vain'}"]
                of.count += 1
                is_right = (word in said) == must
                if must and is_right and case.die is not None:
                    is_right = f"ie {case.die} (channel" in said[word]
                if not is_right:
                    of.wrong.append(f"{kind.__name__}, seed {seed}, {choice}, {case.drive.dies} dies: {sorted(said)}")
    return found


def assert_right(seeds: Iterable[int]) -> None:
    found = judged(seeds)
    told = "\n".join(f"{name}: {of}" for name, of in found.items())
    assert all(of.count > 0 and len(of.wrong) <= MOST_WRONG * of.count for of in found.values()), told


def test_words_are_right_on_a_run_of_each_kind() -> None:
    assert_right(range(2_000, 2_001))


@pytest.mark.long
def test_words_are_right_on_runs_that_no_bound_was_chosen_on() -> None:
    assert_right(range(1_000, 1_020))
