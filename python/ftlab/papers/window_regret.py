"""Regret of what learns its window: how much more it costs than the best fixed window in hindsight.

In the model by the mean penalty, over every recording at hand and every stand-in; in a full drive by the mean latency.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

from ftlab._workload import TRACES_VARIABLE
from ftlab.papers.frame import Claim, Results, Table, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SMALL_KIB, LARGE_KIB = (16, 32, 64), (128, 256, 512)
# Below so many requests nothing that learns can know which window is best.
LONG = 100_000
# What is asked of ghosts, in percent.
MEAN_WHOLE, WORST_WHOLE, MEAN_SAMPLED, DRIVE = 1.0, 8.0, 10.0, 5.0

PENALTY = "map_cache.mean_penalty_ns"

AS_WRITES = {"step": "set_op", "op": "write"}
# No gap between translation pages that are touched: the same translation pages, in fewer addresses.
CLOSED_UP = {"step": "compact", "chunk_bytes": "4MiB"}
_PAGES = "columns:arrival_ms stream lba pages_4k op[read=1 write=0]"
_ALIBABA = "columns:arrival_ms,-,op[read=1 write=0],bytes,offset_bytes,..."
_WISCSEE = "columns:- =D op offset_bytes bytes arrival_s ..."
_CONCAT: dict[str, Any] = {"volumes": "concat"}


class Recording(NamedTuple):
    """A recording, where the folder of traces has it."""

    label: str
    path: str
    form: str
    keys: dict[str, Any]
    requests: int


_FINANCIAL = "umass-spc/flashsim-fin1.trace.zst"
RECORDINGS = (
    Recording("Financial1, first 50,000", _FINANCIAL, _PAGES, {"transform": [AS_WRITES]}, 50_000),
    Recording("Financial1, first 50,000, own operations", _FINANCIAL, _PAGES, {}, 50_000),
    Recording(
        "Financial1, first 10,000, to the sector",
        "umass-spc/ssdsim-example.ascii",
        "ssdsim",
        {**_CONCAT, "transform": [AS_WRITES]},
        10_000,
    ),
    Recording("TPC-C, 7,000", "microsoft-enterprise/mqsim-tpcc-small.trace", "mqsim", _CONCAT, 7_000),
    Recording("MSR prxy_0, first 20,000", "msr-cambridge/prxy_0-sample20k.csv.zst", "msr", {}, 20_000),
    Recording("MSR web_3", "msr-cambridge/web_3.csv.zst", "msr", {}, 31_380),
    Recording("MSR rsrch_1", "msr-cambridge/rsrch_1.csv.zst", "msr", {}, 13_780),
    Recording("MySQL server", "1and1-datacentre/linux-mysql.load.gz", "blkreplay", {}, 80_794),
    Recording("CloudPhysics disk", "cloudphysics/cloudPhysicsIO.vscsi", "vscsi", {}, 113_872),
    Recording("desktop", "desktop-misc/flashsim-desktop.trace.zst", _PAGES, {}, 32_527),
)
# In the full size alone.
MORE = (
    Recording("MSN file server", "microsoft-enterprise/MSN-FS-30s-ms.trace.zst", "disksim", _CONCAT, 149_999),
    Recording("HP", "disksim-hp/ascii.trace.zst", "disksim", _CONCAT, 100_000),
    Recording("IOzone", "disksim-ssd-valid/ssd-iozone-aligned2-100K.trace.zst", "disksim", _CONCAT, 100_000),
    Recording("WebSearch1, first 50,000", "umass-spc/flashsim-web1.trace.zst", _PAGES, {}, 50_000),
    Recording("Nexus 5, starting", "nexus5-mobile/Booting_log176.txt.zst", "biotracer", {}, 18_417),
    Recording("Nexus 5, installing", "nexus5-mobile/Installing_log181.txt.zst", "biotracer", {}, 17_952),
    Recording("YCSB on ext4", "ycsb-filesystems/blkparseout_ext4.txt.zst", "blkparse", {"skip_bad": 1}, 9_887),
    Recording("Alibaba", "alibaba/alibaba_replaylog_gc_i10000.log.zst", _ALIBABA, {"skip_bad": 1}, 52_248),
    Recording(
        "YCSB on RocksDB, XFS",
        "opencas-sample/ycsb-a-rocksdb-xfs_2020-07-02_085251.csv.zst",
        "opencas",
        _CONCAT,
        64_420,
    ),
    Recording("LevelDB", "leveldb-sqlite-wiscsee/leveldb-fillrandom-10M.blkparse-events.txt.zst", _WISCSEE, {}, 53_755),
)
# Stand-ins of other studies. Of those that are longer, the first requests.
STAND_INS = (
    "like-gs3",
    "like-random8k",
    "like-jedec",
    "like-oltp",
    "like-general",
    "like-desktop",
    "like-android",
    "like-websearch",
    "like-sysmark",
)
STAND_IN_REQUESTS = 300_000


def recorded(recordings: Iterable[Recording]) -> list[dict[str, Any]]:
    """Give the recordings that are at hand, each moved together to the translation pages that it touches."""
    folder = Path(os.environ.get(TRACES_VARIABLE) or Path("..", "shared", "traces"))
    found = []
    for label, path, form, keys, _ in recordings:
        if (folder / path).is_file():
            steps = [*keys.get("transform", ()), CLOSED_UP]
            found.append({"path": str(folder / path), "format": form, "label": label, **keys, "transform": steps})
    return found


def is_long(label: str) -> bool:
    """Whether a workload has enough requests to learn the best window from."""
    return any(each.label == label and each.requests >= LONG for each in (*RECORDINGS, *MORE))


class Measured:
    """One number of every run of a study, by workload, scheme and size of the cache in KiB."""

    def __init__(
        self, results: Results, study: str, column: str, source: str = "workload", seed: int | None = None
    ) -> None:
        """Take a column of a study, whose axis of workloads is ``source``; of one seed, if there are several."""
        frame = results.rows(study, **({} if seed is None else {"seed": seed}))
        self.values: dict[tuple[str, str, int], float] = {}
        if frame.height and column in frame.columns:
            rows = frame.select(source, "device", "map_cache.bytes", column).iter_rows()
            self.values = {(one, two, size >> 10): value for one, two, size, value in rows if value is not None}

    def at(self, workload: str, scheme: str, kib: int) -> float | None:
        """One number; ``None`` if it was not measured."""
        return self.values.get((workload, scheme, kib))

    def all(self, workload: str, schemes: Iterable[str], kib: int) -> list[float] | None:
        """Of each scheme; ``None`` when one was not measured."""
        values = [self.at(workload, scheme, kib) for scheme in schemes]
        known = [value for value in values if value is not None]
        return known if len(known) == len(values) else None

    def gain(self, workload: str, over: str, kib: int, scheme: str = "BSB") -> float | None:
        """By how many percent a scheme lowers it."""
        ours, base = self.at(workload, scheme, kib), self.at(workload, over, kib)
        return None if ours is None or not base else 100 * (1 - ours / base)

    def regret(self, workload: str, scheme: str, kib: int, fixed: Sequence[str]) -> float | None:
        """By how many percent a scheme costs more than the best of ``fixed``."""
        ours, best = self.at(workload, scheme, kib), min(self.all(workload, fixed, kib) or [0.0])
        return None if ours is None or not best else 100 * (ours / best - 1)

    def places(self) -> list[tuple[str, int]]:
        """The workloads and sizes, as they were run."""
        return list(dict.fromkeys((workload, kib) for workload, _, kib in self.values))


# Where penalties are: the study, and its axis of workloads.
_SOURCES = (("sweep", "workload"), ("stand-ins", "workload"), ("recorded", "trace"))


def table(results: Results, fixed: Sequence[str], schemes: Sequence[str]) -> Table:
    """Regret for every workload and size."""
    rows: list[list[str | float | None]] = []
    for study, source in _SOURCES:
        penalty = Measured(results, study, PENALTY, source)
        counted = Measured(results, study, "map_cache.scores.regret", source)
        for workload, kib in sorted(penalty.places()):
            costs = penalty.all(workload, fixed, kib)
            if not costs:
                continue
            over = [penalty.regret(workload, scheme, kib, fixed) for scheme in schemes]
            told = counted.at(workload, "Ghosts", kib)
            rows.append([
                workload,
                f"{kib} KiB",
                round(min(costs) / 1000, 1),
                *(None if each is None else round(each, 1) for each in over),
                None if told is None else round(100 * told, 1),
            ])  # fmt: skip
    columns = ("workload", "cache", "best window, us", *schemes, "Ghosts, by their own count")
    return Table("Regret: percent above the best of the study's windows in hindsight (mean penalty)", columns, rows)


def summary(results: Results, fixed: Sequence[str], schemes: Sequence[str]) -> Table:
    """Mean, median and worst regret over kinds of workloads."""
    penalties = [Measured(results, study, PENALTY, source) for study, source in _SOURCES]
    groups: dict[str, list[tuple[Measured, Callable[[str], bool]]]] = {
        f"recordings of at least {LONG:,} requests": [(penalties[2], is_long)],
        "shorter recordings": [(penalties[2], lambda label: not is_long(label))],
        "stand-ins": [(penalties[0], lambda _: True), (penalties[1], lambda _: True)],
    }
    rows: list[list[str | float | None]] = []
    for group, members in groups.items():
        for scheme in schemes:
            cells: list[float | None] = []
            counts = []
            for sizes in (SMALL_KIB, LARGE_KIB):
                regrets = [
                    regret
                    for penalty, wanted in members
                    for workload, kib in penalty.places()
                    if kib in sizes and wanted(workload)
                    and (regret := penalty.regret(workload, scheme, kib, fixed)) is not None
                ]  # fmt: skip
                counts.append(len(regrets))
                cells += [round(how(regrets), 1) + 0.0 for how in (fmean, median, max)] if regrets else [None] * 3
            if any(counts):
                rows.append([group, scheme, *cells])
    spans = [f"{sizes[0]} to {sizes[-1]} KiB" for sizes in (SMALL_KIB, LARGE_KIB)]
    columns = ("workloads", "scheme", *(f"{span}, {how}" for span in spans for how in ("mean", "median", "worst")))
    return Table("Regret over workloads: percent above the best of the study's windows (mean penalty)", columns, rows)


def _latency(results: Results) -> Measured:
    """Mean latency of the requests of long recordings in the full drive."""
    return Measured(results, "drive-long", "latency_ns.all.mean", "trace")


def drive_table(results: Results, fixed: Sequence[str], schemes: Sequence[str]) -> Table:
    """Regret in a full drive, by the mean latency."""
    latency = _latency(results)
    rows: list[list[str | float | None]] = []
    for workload, kib in latency.places():
        costs = latency.all(workload, fixed, kib)
        if costs:
            over = [latency.regret(workload, scheme, kib, fixed) for scheme in schemes]
            cells = [None if each is None else round(each, 1) + 0.0 for each in over]
            best = fixed[costs.index(min(costs))]
            rows.append([workload, f"{kib} KiB", best, round(min(costs) / 1000), *cells])
    columns = ("recording", "cache", "best window", "its mean latency, us", *schemes)
    return Table("Regret in a full drive: percent above the best of the study's windows (mean latency)", columns, rows)


def claims(results: Results, fixed: Sequence[str], missing: str) -> list[Claim]:
    """What is asked of ghosts over recordings that are long enough to learn from."""
    penalty, latency = Measured(results, "recorded", PENALTY, "trace"), _latency(results)

    def regrets(measured: Measured, scheme: str) -> list[float]:
        found = [
            measured.regret(workload, scheme, kib, fixed)
            for workload, kib in measured.places()
            if kib in SMALL_KIB and is_long(workload)
        ]
        return [regret for regret in found if regret is not None]

    whole, sampled = regrets(penalty, "Ghosts, whole rate"), regrets(penalty, "Ghosts")
    over = f"over recordings of at least {LONG:,} requests, 16 to 64 KiB"
    asked: list[tuple[str, str, Callable[[list[float]], float], list[float], float]] = [
        ("regret-whole-mean", f"ghosts at whole rate, regret {over}: mean, %", fmean, whole, MEAN_WHOLE),
        ("regret-whole-worst", f"ghosts at whole rate, regret {over}: worst, %", max, whole, WORST_WHOLE),
        ("regret-sampled-mean", f"ghosts, sampled and charged, regret {over}: mean, %", fmean, sampled, MEAN_SAMPLED),
        (
            "regret-drive-whole",
            f"ghosts at whole rate, mean latency in a full drive above the best window's, {over}: worst, %",
            max,
            regrets(latency, "Ghosts, whole rate"),
            DRIVE,
        ),
        (
            "regret-drive",
            f"ghosts, sampled and charged, mean latency in a full drive above the best window's, {over}: worst, %",
            max,
            regrets(latency, "Ghosts"),
            DRIVE,
        ),
    ]
    found = []
    for key, text, how, values, most in asked:
        measured = how(values) if values else math.nan
        found.append(
            judge(
                key,
                text,
                None,
                round(measured, 1) + 0.0 if values else None,
                holds=measured <= most,
                tolerance=f"at most {most:.0f} %, asked of this project and not of the study",
                otherwise="more than is asked" if values else missing,
            )
        )
    return found
