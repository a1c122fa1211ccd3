"""LSB backup: what it costs, what request striping saves of it, and where the published numbers would hold."""

from __future__ import annotations

import json
import math
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ftlab import figures
from ftlab._device import Device
from ftlab._running import run
from ftlab.errors import ConfigError
from ftlab.papers.frame import Claim, Paper, Results, Size, Table, judge
from ftlab.papers.recordings import recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHIP = "flexonenand"
PAGE_BYTES, BLOCK_PAGES = 4096, 128
# Of a page read, a page program and a block erase, as published.
READ_US, PROGRAM_US, ERASE_US = 403, 994, 872
BACKUP_US = READ_US + PROGRAM_US
GROUPS = (1, 2, 4, 8, 16, 32, 64, 128)
# Blocks of the group in the text to figure 4, and in that to figures 5 and 7.
GS3_GROUP, RANDOM_GROUP = 64, 128
# KiB; 0 stands for no limit.
THRESHOLDS_KIB = (4, 8, 16, 32, 64, 0)
BEST_KIB = 8

# Performance lost to backup, backups left, execution time saved, execution time and write performance gained: percent.
LOSS, LEFT, SAVED, TIME_GAIN, WRITE_GAIN = -15.0, 51.0, 1.6, 17.0, 62.0
# Tolerances: points of performance, of the backups that are left, and of execution time saved.
_POINTS, _LEFT_POINTS, _SAVED_POINTS = 3.0, 10.0, 0.5
# Below a point nothing is gained; what is left whole is 100 %.
_SOME, _ALL = 1.0, 100.0
# Between formula and simulation: a share, or standard errors where these are more.
_CLOSE, _ERRORS = 0.01, 3.0

# Requests of the stand-in, of random writes, and of the runs that are held against the formula; seeds of the stand-in.
_REQUESTS: dict[Size, tuple[int, int, int]] = {
    "full": (1_000_000, 1_000_000, 200_000),
    "quick": (300_000, 100_000, 40_000),
    "test": (1_000, 1_000, 1_000),
}
_SEEDS: dict[Size, tuple[int, ...]] = {"full": (1, 2, 3, 4, 5), "quick": (1, 2), "test": (1,)}

# Drives -----------------------------------------------------------------------------------------------------------

_PUBLISHED: dict[str, dict[str, Any]] = {"timing": {"program_us": PROGRAM_US}, "cell": {"page_order": "tiles"}}
_COPY = {"kind": "copy"}
# Blocks of the drive under the stand-in, which addresses 7 GiB, and under random writes.
_LARGE, _SMALL = 16_384, 4_096
SPARES = (0.07, 0.15, 0.25, 0.5, 1.0)
_SPARE = 0.25
_NEW, _FILL, _AGED = {"kind": "none"}, {"kind": "fill"}, {"kind": "steady", "pattern": "workload", "tolerance": 0.02}


def _drive(label: str, blocks: int, base: Mapping[str, Any], **sections: Mapping[str, Any]) -> dict[str, Any]:
    """A drive of the published chip; ``base`` has what differs from the preset in all drives of a study."""
    drive: dict[str, Any] = {
        "extends": CHIP,
        "label": label,
        "geometry": {"blocks_per_plane": blocks},
        "ftl": {"gc_low_free_blocks": 2},
        "host": {"arrival": "closed"},
        "precondition": _FILL,
    }
    for changes in (base, sections):
        for name, keys in changes.items():
            drive[name] = {**drive.get(name, {}), **keys} if name != "precondition" else keys
    return drive


def _striped(group: int, kib: int | None = None) -> dict[str, Any]:
    keys: dict[str, Any] = {"placement": "rsftl", "group_blocks": group}
    if kib is not None:
        keys["small_request_bytes"] = kib << 10 if kib else 1 << 40
    return keys


def _name(group: int, kib: int | None = None) -> str:
    if kib is None:
        return f"RSFTL {group}"
    return f"RSFTL {group}, up to {kib} KiB" if kib else f"RSFTL {group}, all requests"


def _schemes(blocks: int, base: Mapping[str, Any], groups: Iterable[int]) -> list[dict[str, Any]]:
    """Page mapping without and with backup, and request striping with these groups."""
    ftl = base.get("ftl", {})
    drives = [_drive("FPM", blocks, base), _drive("FPM+B", blocks, base, lsb_backup=_COPY)]
    return drives + [
        _drive(_name(group), blocks, base, lsb_backup=_COPY, ftl={**ftl, **_striped(group)}) for group in groups
    ]


def _thresholds(blocks: int, base: Mapping[str, Any], kibs: Iterable[int]) -> list[dict[str, Any]]:
    ftl = base.get("ftl", {})
    return [
        _drive(_name(GS3_GROUP, kib), blocks, base, lsb_backup=_COPY, ftl={**ftl, **_striped(GS3_GROUP, kib)})
        for kib in kibs
    ]


# What the stand-in addresses. Its drive is new: to fill one page by page would lay pages out by the placement.
_GS3 = {**_PUBLISHED, "ftl": {"logical_bytes": "7GiB"}, "precondition": _NEW}
_RANDOM = {**_PUBLISHED, "ftl": {"over_provisioning": _SPARE}}


def largest_group() -> int:
    """The largest group that fits into the spare space of the chip's preset as it is, of ``GROUPS``; 0 if none does."""
    chip, fitting = Device.load(CHIP), 0
    for group in GROUPS:
        try:
            chip.with_(ftl=_striped(group), lsb_backup=_COPY)
        except ConfigError:
            break
        fitting = group
    return fitting


# Workloads --------------------------------------------------------------------------------------------------------

GS3_LABEL = "stand-in for GS3"
CHUNK_BYTES = 8192
# Chunks of 8 KiB that random writes go to.
CHUNKS = (32, 48, 64, 128, 256, 512, 1024, 4096)
_WHOLE = "whole drive"
_ZIPF = {"Zipf 0.99": 0.99, "Zipf 1.2": 1.2}
_GROUP_CHUNKS = (48, 256, 1024)


def _range(chunks: int) -> str:
    """What a working set is called.

    >>> _range(48), _range(4096)
    ('384 KiB', '32 MiB')
    """
    kib = chunks * CHUNK_BYTES >> 10
    return f"{kib} KiB" if kib < 1 << 10 else f"{kib >> 10} MiB"


def _uniform(chunks: int, requests: int) -> dict[str, Any]:
    keys = {"extends": "like-random8k", "label": _range(chunks), "requests": requests}
    return {**keys, "footprint_bytes": chunks * CHUNK_BYTES}


def _everywhere(requests: int) -> dict[str, Any]:
    return {"extends": "like-random8k", "label": _WHOLE, "requests": requests}


def _skewed(label: str, requests: int) -> dict[str, Any]:
    keys = {"kind": "zipf", "theta": _ZIPF[label], "request_bytes": CHUNK_BYTES, "read_fraction": 0.0}
    return {"label": label, "requests": requests, **keys}


def _gs3(requests: int) -> list[dict[str, Any]]:
    return [{"extends": "like-gs3", "label": GS3_LABEL, "requests": requests}]


# Studies ----------------------------------------------------------------------------------------------------------

_FORMULA_ORDERS, _FORMULA_PAGES, _FORMULA_CHUNKS, _FORMULA_GROUPS = (
    ("tiles", "shadow_pairs"), (1, 2), (48, 256), (1, 16, 64, 128),
)  # fmt: skip
_SIZES_KIB, _SIZES_CHUNKS = (4, 8, 12, 16, 32, 64), 256
# Cells, order, and pages of a block, which are whole word lines.
_ORDERS = (("mlc", "tiles", 128), ("mlc", "shadow_pairs", 128), ("tlc", "tlc_pairs", 192))


def _studies(size: Size) -> list[dict[str, Any]]:
    of_gs3, of_random, of_formula = _REQUESTS[size]
    if size == "test":
        chunks = {**_RANDOM, "precondition": _NEW}
        return [
            {"name": "gs3", "device": _schemes(_LARGE, _GS3, (GS3_GROUP,)), "workload": _gs3(of_gs3)},
            {
                "name": "groups",
                "device": _schemes(_SMALL, chunks, (RANDOM_GROUP,)),
                "workload": [_uniform(48, of_random)],
            },
            _formula_study(of_formula),
        ]
    small = [_uniform(chunks, of_random) for chunks in CHUNKS]
    grouped = [_uniform(chunks, of_random) for chunks in _GROUP_CHUNKS]
    aged = {**_RANDOM, "precondition": _AGED}
    outcomes = _thresholds(_SMALL, _RANDOM, (4, 8, 64))
    studies: list[dict[str, Any]] = [
        {
            "name": "gs3",
            "device": [*_schemes(_LARGE, _GS3, GROUPS), *_thresholds(_LARGE, _GS3, THRESHOLDS_KIB)],
            "workload": _gs3(of_gs3),
            "seeds": list(_SEEDS[size]),
        },
        {
            "name": "gs3-full",
            "device": _thresholds(_LARGE, {**_GS3, "precondition": _FILL}, THRESHOLDS_KIB),
            "workload": _gs3(of_gs3),
        },
        {
            "name": "gs3-drives",
            "device": _schemes(_LARGE, _GS3, (GS3_GROUP,)),
            "workload": _gs3(of_gs3),
            "axes": {
                "geometry.blocks_per_plane": [15_360, _LARGE, 21_504],
                "precondition.kind": ["none", "fill", {**_AGED, "max_drive_writes": 6, "label": "steady"}],
            },
        },
        {
            "name": "ranges",
            "device": _schemes(_SMALL, _RANDOM, (RANDOM_GROUP,)),
            "workload": small,
            "axes": {"ftl.over_provisioning": list(SPARES)},
        },
        {
            "name": "whole",
            "device": _schemes(_SMALL, aged, (RANDOM_GROUP,)),
            "workload": [_everywhere(of_random), *(_skewed(label, of_random) for label in _ZIPF)],
            "axes": {"ftl.over_provisioning": list(SPARES)},
        },
        {"name": "groups", "device": _schemes(_SMALL, _RANDOM, GROUPS), "workload": grouped},
        {"name": "groups-whole", "device": _schemes(_SMALL, aged, GROUPS), "workload": [_everywhere(of_random)]},
        {"name": "random-thresholds", "device": outcomes, "workload": [_uniform(48, of_random)]},
        _formula_study(of_formula),
        _sizes_study(of_random),
        *_chip_studies(of_gs3, of_random),
    ]
    if traces := recorded():
        drives = {**_RANDOM, "host": {"out_of_range": "wrap", "arrival": "closed"}, "precondition": _NEW}
        schemes = _schemes(_SMALL, drives, (GS3_GROUP, RANDOM_GROUP))
        studies.append({"name": "recorded", "device": schemes, "trace": traces})
    return studies


def _formula_study(requests: int) -> dict[str, Any]:
    """Enough blocks that nothing is collected, because the formula has no collection in it."""
    blocks = requests * max(_FORMULA_PAGES) // BLOCK_PAGES + 4 * max(_FORMULA_GROUPS) + 64
    base = {"timing": {"program_us": PROGRAM_US}, "precondition": _NEW, "lsb_backup": _COPY}
    drives = [
        _drive(f"{order}, {group}", blocks, base, cell={"page_order": order},
               ftl={"logical_bytes": "8MiB", **_striped(group)})
        for order in _FORMULA_ORDERS
        for group in _FORMULA_GROUPS
    ]  # fmt: skip
    workloads = [
        {
            "kind": "uniform",
            "label": f"{pages} pages, {chunks} chunks",
            "requests": requests,
            "read_fraction": 0.0,
            "request_bytes": pages * PAGE_BYTES,
            "footprint_bytes": chunks * pages * PAGE_BYTES,
        }
        for pages in _FORMULA_PAGES
        for chunks in _FORMULA_CHUNKS
    ]
    return {"name": "formula", "device": drives, "workload": workloads, "options": {"timing": False}}


def _sizes_study(requests: int) -> dict[str, Any]:
    """Requests of one size each, to a working set of as many requests; all of them go to the group."""
    drives = []
    for cell, order, pages in _ORDERS:
        base: dict[str, dict[str, Any]] = {
            "geometry": {"pages_per_block": pages},
            "timing": {"program_us": PROGRAM_US},
            "cell": {"kind": cell, "page_order": order},
            "ftl": {"over_provisioning": _SPARE},
            "precondition": _NEW,
        }
        group = {**base["ftl"], **_striped(GS3_GROUP, max(_SIZES_KIB))}
        drives += [
            _drive(f"{order}, FPM+B", _SMALL, base, lsb_backup=_COPY),
            _drive(f"{order}, RSFTL", _SMALL, base, lsb_backup=_COPY, ftl=group),
        ]
    workloads = [
        {
            "kind": "uniform",
            "label": f"{kib} KiB",
            "requests": requests // 4,
            "read_fraction": 0.0,
            "request_bytes": kib << 10,
            "footprint_bytes": _SIZES_CHUNKS * kib << 10,
        }
        for kib in _SIZES_KIB
    ]
    return {"name": "sizes", "device": drives, "workload": workloads}


def _chip_studies(of_gs3: int, of_random: int) -> list[dict[str, Any]]:
    """The chip with its own page order, and with its own times of LSB and MSB pages."""
    groups = (GS3_GROUP, RANDOM_GROUP)
    large = {"ftl": _GS3["ftl"], "precondition": _NEW}
    small = {"ftl": _RANDOM["ftl"]}
    aged = {**small, "precondition": _AGED}
    slc = {"lsb_backup": {**_COPY, "area": "slc"}}
    return [
        {
            "name": "chip-gs3",
            "device": [*_schemes(_LARGE, large, groups), _drive(_SLC, _LARGE, large, **slc)],
            "workload": _gs3(of_gs3),
        },
        {
            "name": "chip-random",
            "device": [*_schemes(_SMALL, small, groups), _drive(_SLC, _SMALL, small, **slc)],
            "workload": [_uniform(chunks, of_random) for chunks in _GROUP_CHUNKS],
        },
        {
            "name": "chip-whole",
            "device": [*_schemes(_SMALL, aged, groups), _drive(_SLC, _SMALL, aged, **slc)],
            "workload": [_everywhere(of_random)],
        },
    ]


_SLC = "FPM+B, backups in LSB pages only"

# What was measured ------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """What a run cost.

    Attributes:
        total_s: Execution time: all commands of host, backups and collections, one after the other.
        write_s: Time of the write path: programs of the host, and backups with their reads.
        collect_s: Time of collections.
        backups: Pages that were backed up.
        stale: Endangered pages that held nothing live: the paper's invalidated LSB pages.
        own: Endangered pages of the request that was being written.
        pages: Pages that the host wrote.
        copied: Pages that collections copied.
    """

    total_s: float
    write_s: float
    collect_s: float
    backups: float
    stale: float
    own: float
    pages: float
    copied: float


def _run_of(row: Mapping[str, Any]) -> Run:
    def value(column: str) -> float:
        return float(row.get(column) or 0)

    busy = value("busy_ns.host") - value("flash.reads.host") * READ_US * 1e3
    backups = value("busy_ns.lsb_backup") - value("flash.erases.lsb_backup") * ERASE_US * 1e3
    return Run(
        value("busy_ns.total") / 1e9,
        (busy + backups) / 1e9,
        value("busy_ns.gc") / 1e9,
        value("lsb_backup.pages"),
        value("lsb_backup.skipped_stale"),
        value("lsb_backup.skipped_same_request"),
        value("host.write_pages"),
        value("gc.pages_copied"),
    )


Place = tuple[Any, ...]


class _Measured:
    """Every run of a study, by scheme, workload, further axes, and seed."""

    def __init__(self, results: Results, study: str, *axes: str, source: str = "workload") -> None:
        frame = results.rows(study)
        self.runs: dict[Place, dict[int, Run]] = {}
        for row in frame.iter_rows(named=True):
            place = (row["device"], row[source], *(row[axis] for axis in axes))
            self.runs.setdefault(place, {})[row["seed"]] = _run_of(row)

    @property
    def places(self) -> list[Place]:
        """Workloads with their further axes, in the order of the study."""
        return list(dict.fromkeys(place[1:] for place in self.runs))

    def mean(self, scheme: str, *place: Any, of: Callable[[Run], float]) -> float | None:
        runs = self.runs.get((scheme, *place), {})
        return sum(map(of, runs.values())) / len(runs) if runs else None

    def each(self, base: str, scheme: str, *place: Any, of: Callable[[Run, Run], float]) -> list[float]:
        """What a scheme has over another, for each seed that both have."""
        bases, runs = self.runs.get((base, *place), {}), self.runs.get((scheme, *place), {})
        return [of(bases[seed], runs[seed]) for seed in runs if seed in bases]

    def compared(self, base: str, scheme: str, *place: Any, of: Callable[[Run, Run], float]) -> float | None:
        """Its mean over seeds; ``None`` where it was not measured."""
        values = self.each(base, scheme, *place, of=of)
        return sum(values) / len(values) if values else None


def gained(base: Run, run: Run) -> float:
    """Performance gained by execution time, in percent: T / T' - 1."""
    return 100 * (base.total_s / run.total_s - 1)


def saved(base: Run, run: Run) -> float:
    """Execution time saved, in percent: 1 - T' / T."""
    return 100 * (1 - run.total_s / base.total_s)


def write_gained(base: Run, run: Run) -> float:
    """Write performance gained, in percent, by the time of the write path: T / T' - 1."""
    return 100 * (base.write_s / run.write_s - 1)


def left(base: Run, run: Run) -> float:
    """Backups left, in percent; 100 where there were none."""
    return 100 * run.backups / base.backups if base.backups else 100.0


def _backups(run: Run) -> float:
    return run.backups


def _stale(run: Run) -> float:
    return run.stale


def _own(run: Run) -> float:
    return run.own


def _copied(run: Run) -> float:
    return run.copied


def _total(run: Run) -> float:
    return run.total_s


def _backed_up(run: Run) -> float:
    return run.backups / run.pages


def _write_rate(run: Run) -> float:
    """Bytes a second that the host writes, by the time of the write path."""
    return run.pages * PAGE_BYTES / run.write_s


def _collecting_rate(run: Run) -> float:
    return run.pages * PAGE_BYTES / (run.write_s + run.collect_s)


def expected(order: str, pages: int, group: int, chunks: float) -> float:
    """Backups for each page written, of uniform random writes without collections.

    A page needs none if one of the requests rewrites it that come between it and its partner (notes on the paper,
    section 5).

    Args:
        order: ``"tiles"``, or ``"shadow_pairs"`` with 128 pages in a block.
        pages: Pages of each request: 1 or 2.
        group: Blocks of the group.
        chunks: How many requests the working set has room for.

    >>> round(expected("tiles", 2, 64, 256), 4), round(expected("shadow_pairs", 2, 64, 48), 4)
    (0.3907, 0.0106)
    """
    distances = {"tiles": ((1.0, 1),), "shadow_pairs": ((60 / 64, 3), (4 / 64, 2))}[order]
    stays = 1 - 1 / chunks
    return sum(0.5 * share * stays ** (distance * 2 * group // pages - 1) for share, distance in distances)


def expected_gain(group: int, chunks: float) -> float:
    """Write performance that striping gains by the formula on writes of 8 KiB in the order of the paper, in percent.

    >>> round(expected_gain(128, 48), 1)
    62.4
    """
    return 100 * ((PROGRAM_US + BACKUP_US / 2) / (PROGRAM_US + BACKUP_US * expected("tiles", 2, group, chunks)) - 1)


def crossing(points: Sequence[tuple[float, float | None]], value: float) -> float | None:
    """Where a measured line passes a value, between neighbours on a logarithmic axis; ``None`` if it does not.

    >>> crossing([(32, 70.0), (128, 50.0), (512, 20.0)], 60.0)
    64.0
    """
    known = [(place, height) for place, height in points if height is not None]
    for (one, low), (two, high) in pairwise(known):
        if min(low, high) <= value <= max(low, high) and low != high:
            part = (value - low) / (high - low)
            return float(round(one * (two / one) ** part, 3))
    return None


def _round(value: float | None, digits: int = 1) -> float | None:
    # Without the sign of a zero.
    return None if value is None else round(value, digits) + 0.0


def _missing(results: Results) -> str:
    if results.errors:
        return "not measured: a run failed, see the report"
    return "not part of this size" if results.size == "test" else "not run"


# Figures 2 and 3: requests that are run one by one ----------------------------------------------------------------

# Requests of the drawing: their name, their pages, and the first page of each.
_LETTERS = "ABCDEFIGH"
DRAWN = (("W1", "AB"), ("W2", "CDEF"), ("W3", "AB"), ("W4", "GH"), ("W5", "CDEFI"))
_DRAWN_GROUP, _DRAWN_PAGES = 3, 8
# Counted by hand: programs, backups and microseconds.
BY_HAND = {"FPM+B": (15, 6, 23_292), "RSFTL": (15, 0, 14_910)}


def _logs() -> dict[str, pl.DataFrame]:
    """Every command of the five requests: its kind, cause, page, and start and time in microseconds."""
    import polars as pl

    requests = {
        "op": ["write"] * len(DRAWN),
        "lba": [_LETTERS.index(pages[0]) * PAGE_BYTES // 512 for _, pages in DRAWN],
        "sectors": [len(pages) * PAGE_BYTES // 512 for _, pages in DRAWN],
    }
    logs = {}
    placements: dict[str, dict[str, Any]] = {"FPM+B": {}, "RSFTL": _striped(_DRAWN_GROUP)}
    for name, keys in placements.items():
        drive = Device.load(CHIP).with_(
            geometry={"blocks_per_plane": 16, "pages_per_block": _DRAWN_PAGES},
            **_PUBLISHED,
            ftl={"logical_pages": 32, "gc_low_free_blocks": 1, **keys},
            host={"arrival": "closed"},
            precondition={"kind": "none"},
            lsb_backup=_COPY,
        )
        with tempfile.TemporaryDirectory(prefix="ftlab-") as folder:
            path = Path(folder, "events.json")
            run(drive, pl.DataFrame(requests), events=path, series=None)
            # Requests are events as well.
            every = json.loads(path.read_text())["traceEvents"]
            events = [event for event in every if event["ph"] == "X" and "cause" in event["args"]]
        logs[name] = pl.DataFrame({
            "command": [event["name"] for event in events],
            "cause": [event["args"]["cause"] for event in events],
            "page": [event["args"]["page"] for event in events],
            "start_us": [event["ts"] for event in events],
            "time_us": [event["dur"] for event in events],
        })  # fmt: skip
    return logs


def _counted(results: Results, name: str) -> tuple[int, int, float] | None:
    """Programs of the host, backups, and microseconds in all."""
    log = results.logs.get(name)
    if log is None:
        return None
    programs = log.filter(log["command"] == "program")["cause"].to_list()
    return programs.count("host"), programs.count("lsb_backup"), float(log["time_us"].sum())


# Claims -----------------------------------------------------------------------------------------------------------


def _gs3_runs(results: Results) -> _Measured:
    return _Measured(results, "gs3")


def _ranges(results: Results) -> _Measured:
    """Uniform random writes to working sets of a few chunks, by spare space."""
    return _Measured(results, "ranges", "ftl.over_provisioning")


def _whole(results: Results) -> _Measured:
    """Random writes to the whole drive, uniform or by Zipf's law, by spare space."""
    return _Measured(results, "whole", "ftl.over_provisioning")


def _for_seeds(measured: _Measured) -> str:
    seeds = max((len(runs) for runs in measured.runs.values()), default=0)
    return f", for each of {seeds} seeds" if seeds > 1 else ""


def _loss_claim(results: Results) -> Claim:
    measured = _gs3_runs(results)
    losses = measured.each("FPM", "FPM+B", GS3_LABEL, of=gained)
    mean = measured.compared("FPM", "FPM+B", GS3_LABEL, of=gained)
    return judge(
        "fig1-loss",
        "Figure 1: performance that backup costs FPM, on the stand-in for GS3 (%; by execution time, T / T' - 1)",
        LOSS,
        _round(mean),
        holds=bool(losses) and all(abs(loss - LOSS) <= _POINTS for loss in losses),
        tolerance=f"within {_POINTS:.0f} points{_for_seeds(measured)}; the trace of the figure is not named",
        direction=mean is not None and mean < 0,
        otherwise=_missing(results) if mean is None else "the trace of the figure is not named",
    )


def _drawn_claims(results: Results) -> list[Claim]:
    claims = []
    for figure, name in ((2, "FPM+B"), (3, "RSFTL")):
        counted, by_hand = _counted(results, name), BY_HAND[name]
        for what, text, at in (("backups", "backups", 1), ("time", "execution time (us)", 2)):
            measured = None if counted is None else counted[at]
            claims.append(
                judge(
                    f"fig{figure}-{what}",
                    f"Figure {figure}: W1 to W5 in blocks of {_DRAWN_PAGES} pages under {name}, {text}",
                    None,
                    measured,
                    holds=counted == by_hand,
                    tolerance=f"equal to the count by hand, {by_hand[at]:,}; so are the {by_hand[0]} programs",
                    otherwise=_missing(results) if counted is None else f"{by_hand[at]:,} by hand",
                )
            )
    return claims


def _gs3_claims(results: Results) -> list[Claim]:
    measured, striped = _gs3_runs(results), _name(GS3_GROUP)
    missing = _missing(results)
    rest = measured.each("FPM+B", striped, GS3_LABEL, of=left)
    less = measured.each("FPM+B", striped, GS3_LABEL, of=saved)
    mean_rest = measured.compared("FPM+B", striped, GS3_LABEL, of=left)
    mean_less = measured.compared("FPM+B", striped, GS3_LABEL, of=saved)
    share = _backup_share(measured)
    claims = [
        judge(
            "fig4-backups",
            f"Figure 4: backups left at G = {GS3_GROUP}, on the stand-in for GS3 (% of FPM+B)",
            LEFT,
            _round(mean_rest),
            holds=bool(rest) and all(abs(one - LEFT) <= _LEFT_POINTS for one in rest),
            tolerance=f"within {_LEFT_POINTS:.0f} points{_for_seeds(measured)}",
            direction=bool(rest) and all(one < _ALL for one in rest),
            otherwise=missing
            if mean_rest is None
            else f"fewer, but few small writes of the stand-in are rewritten within {GS3_GROUP} others",
        ),
        judge(
            "fig4-time",
            f"Figure 4: execution time saved at G = {GS3_GROUP}, on the stand-in for GS3 (%; 1 - T' / T)",
            SAVED,
            _round(mean_less),
            holds=bool(less) and all(abs(one - SAVED) <= _SAVED_POINTS for one in less),
            tolerance=f"within {_SAVED_POINTS} points{_for_seeds(measured)}",
            direction=bool(less) and all(one > 0 for one in less),
            otherwise=missing
            if mean_less is None or share is None
            else f"by seed {', '.join(f'{one:.1f}' for one in less)}; backups take {share:.1f} % of the time here, "
            f"and by the published numbers about {SAVED / (1 - LEFT / _ALL):.1f} %",
        ),
    ]
    return claims + _threshold_claims(results) + [_rising_claim(results)]


def _backup_share(measured: _Measured) -> float | None:
    """Percent of the execution time of FPM+B that backups take."""
    return measured.compared("FPM+B", "FPM", GS3_LABEL, of=saved)


def _by_threshold(measured: _Measured, of: Callable[[Run], float]) -> list[float | None]:
    return [measured.mean(_name(GS3_GROUP, kib), GS3_LABEL, of=of) for kib in THRESHOLDS_KIB]


def _threshold_text(kib: int) -> str:
    return f"{kib} KiB" if kib else "no limit"


def _threshold_claims(results: Results) -> list[Claim]:
    backups = _by_threshold(_gs3_runs(results), _backups)
    copied = _by_threshold(_Measured(results, "gs3-full"), _copied)
    known = [value for value in backups if value is not None]
    whole = len(known) == len(THRESHOLDS_KIB)
    best = THRESHOLDS_KIB[known.index(min(known))] if whole else None
    at, all_in = (copied[THRESHOLDS_KIB.index(kib)] for kib in (BEST_KIB, 0))
    grows = None if at is None or all_in is None or not at else 100 * (all_in / at - 1)
    missing = _missing(results)
    return [
        judge(
            "threshold",
            f"Figures 4 and 5: the threshold with fewest backups at G = {GS3_GROUP}, on the stand-in for GS3 (KiB)",
            BEST_KIB,
            best,
            holds=best == BEST_KIB,
            tolerance="the same",
            otherwise=missing
            if best is None
            else f"{_threshold_text(best)}: the stand-in rewrites rollback journals of 12 KiB, which a group of larger "
            "requests catches",
        ),
        judge(
            "filter",
            f"Without a threshold, collections copy more pages than with {BEST_KIB} KiB, stand-in, full drive (% more)",
            None,
            _round(grows),
            holds=grows is not None and grows > 0,
            tolerance="more than 0",
            otherwise=missing if grows is None else "collections do not copy more",
        ),
    ]


def _rising_claim(results: Results) -> Claim:
    measured = _gs3_runs(results)
    rates = [measured.mean(_name(group), GS3_LABEL, of=_write_rate) for group in GROUPS]
    known = [rate for rate in rates if rate is not None]
    whole = len(known) == len(GROUPS)
    falls = sum(two < one for one, two in pairwise(known))
    return judge(
        "fig6-rises",
        "Figure 6: steps to a larger group at which write performance falls, on the stand-in for GS3",
        0,
        falls if whole else None,
        holds=whole and falls == 0,
        tolerance="at none",
        direction=whole and known[-1] > known[0],
        otherwise=_missing(results) if not whole else f"at {falls} of {len(GROUPS) - 1} steps",
    )


class _Published(NamedTuple):
    """A published gain on random writes.

    Attributes:
        id: Of its claims.
        text: What is gained.
        value: How many percent.
        of: How it is computed of two runs.
    """

    id: str
    text: str
    value: float
    of: Callable[[Run, Run], float]


_GAINS = (
    _Published("fig5-time", "Figure 5: performance by execution time", TIME_GAIN, gained),
    _Published("fig7-write", "Figure 7: write performance", WRITE_GAIN, write_gained),
)


def _by_range(measured: _Measured, spare: float, of: Callable[[Run, Run], float]) -> list[tuple[float, float | None]]:
    """What the largest group gains, by chunks of the working set."""
    striped = _name(RANDOM_GROUP)
    return [(chunks, measured.compared("FPM+B", striped, _range(chunks), spare, of=of)) for chunks in CHUNKS]


def _range_text(chunks: float | None) -> str:
    if chunks is None:
        return "none of the sweep"
    kib = chunks * CHUNK_BYTES / 1024
    return f"{kib:,.0f} KiB"


def _random_claims(results: Results) -> list[Claim]:
    ranges, whole = _ranges(results), _whole(results)
    striped, missing = _name(RANDOM_GROUP), _missing(results)
    claims = []
    for gain in _GAINS:
        everywhere = whole.compared("FPM+B", striped, _WHOLE, _SPARE, of=gain.of)
        place = crossing(_by_range(ranges, _SPARE, gain.of), gain.value)
        claims += [
            judge(
                gain.id,
                f"{gain.text} gained at G = {RANDOM_GROUP}, random writes of 8 KiB to the whole drive (%; T / T' - 1)",
                gain.value,
                _round(everywhere),
                holds=everywhere is not None and abs(everywhere - gain.value) <= _POINTS,
                tolerance=f"within {_POINTS:.0f} points",
                direction=everywhere is not None and everywhere >= _SOME,
                otherwise=missing
                if everywhere is None
                else "hardly a page is rewritten before its partner is programmed, and open blocks take spare space; "
                f"a working set of {_range_text(place)} would have it",
            ),
            judge(
                f"{gain.id}-range",
                f"{gain.text}: the working set on which {gain.value:.0f} % are gained, {_SPARE:.0%} spare (KiB)",
                None,
                _round(None if place is None else place * CHUNK_BYTES / 1024, 0),
                holds=place is not None,
                tolerance="some working set has it; the published one is not known",
                otherwise=missing if not ranges.runs else "none of the sweep has it",
            ),
        ]
    return claims


class Together(NamedTuple):
    """How many published numbers one choice of workload and spare space has.

    Attributes:
        place: Workload and spare space.
        loss: Performance that backup costs, in percent.
        time: Performance by execution time that striping gains.
        write: Write performance that it gains.
    """

    place: Place
    loss: float
    time: float
    write: float

    @property
    def met(self) -> int:
        """Published numbers that it has, within the tolerance."""
        pairs = ((self.loss, LOSS), (self.time, TIME_GAIN), (self.write, WRITE_GAIN))
        return sum(abs(value - published) <= _POINTS for value, published in pairs)


def together(results: Results) -> list[Together]:
    """The three numbers at every choice of working set and spare space."""
    striped, found = _name(RANDOM_GROUP), []
    for measured in (_ranges(results), _whole(results)):
        for place in measured.places:
            loss = measured.compared("FPM", "FPM+B", *place, of=gained)
            time = measured.compared("FPM+B", striped, *place, of=gained)
            write = measured.compared("FPM+B", striped, *place, of=write_gained)
            if loss is not None and time is not None and write is not None:
                found.append(Together(place, loss, time, write))
    return found


def _together_claim(results: Results) -> Claim:
    choices = together(results)
    best = max(choices, key=lambda each: each.met, default=None)
    ours = "" if best is None else f"most on {best.place[0]}, {best.place[1]:.0%} spare: "
    values = "" if best is None else f"{best.loss:.1f}, {best.time:.1f} and {best.write:.1f} %"
    return judge(
        "together",
        f"Random writes: of {LOSS:.0f} %, {TIME_GAIN:.0f} % and {WRITE_GAIN:.0f} %, how many one choice of working set "
        "and spare space has",
        3,
        None if best is None else best.met,
        holds=best is not None and best.met == 3,  # noqa: PLR2004 - the three that the text names
        tolerance=f"within {_POINTS:.0f} points each",
        otherwise=_missing(results) if best is None else f"{ours}{values}; -15 % needs much collection, 62 % none",
    )


def _trend_claims(results: Results) -> list[Claim]:
    claims = []
    for name, text, study, places in (
        ("trend-gs3", "the stand-in for GS3", "gs3", [GS3_LABEL]),
        (
            "trend-random",
            "random writes of 8 KiB to at most 8 MiB",
            "groups",
            [_range(chunks) for chunks in _GROUP_CHUNKS],
        ),
    ):
        measured = _Measured(results, study)
        rows = [[measured.mean(_name(group), place, of=_backups) for group in GROUPS] for place in places]
        known = [[value for value in row if value is not None] for row in rows]
        whole = all(len(row) == len(GROUPS) for row in known)
        steps = [two >= one for row in known for one, two in pairwise(row)]
        claims.append(
            judge(
                name,
                f"More blocks in the group, fewer backups: steps at which there are no fewer, on {text}",
                0,
                sum(steps) if whole else None,
                holds=whole and not any(steps),
                tolerance=f"at none of {len(steps)}",
                direction=whole and all(row[-1] < row[0] for row in known),
                otherwise=_missing(results) if not whole else f"at {sum(steps)} of {len(steps)}",
            )
        )
    return claims


def _stale_claims(results: Results) -> list[Claim]:
    claims = []
    for name, text, study, place, group in (
        ("stale-gs3", f"the stand-in for GS3, G = {GS3_GROUP}", "gs3", GS3_LABEL, GS3_GROUP),
        ("stale-random", f"random writes of 8 KiB to 384 KiB, G = {RANDOM_GROUP}", "groups", _range(48), RANDOM_GROUP),
    ):
        measured = _Measured(results, study)
        stale = measured.mean(_name(group), place, of=_stale)
        without = measured.mean("FPM+B", place, of=_stale)
        more = stale is not None and without is not None and stale > without
        claims.append(
            judge(
                name,
                f"Conclusion: striping leaves more LSB pages stale before their MSB programs, on {text} (pages)",
                None,
                _round(stale, 0),
                holds=more,
                tolerance="" if without is None else f"{without:,.0f} under FPM+B",
                otherwise=_missing(results) if stale is None else f"{without or 0:,.0f} under FPM+B",
            )
        )
    return claims


class _Held(NamedTuple):
    """A run that is held against the formula: backups for each page, and the standard error of the formula's."""

    order: str
    pages: int
    chunks: int
    group: int
    measured: float
    due: float
    error: float

    @property
    def holds(self) -> bool:
        return abs(self.measured - self.due) <= max(_CLOSE * self.due, _ERRORS * self.error)


def _formula_rows(results: Results) -> list[_Held]:
    measured, rows = _Measured(results, "formula"), []
    requests = _REQUESTS[results.size][2]
    for order in _FORMULA_ORDERS:
        for pages in _FORMULA_PAGES:
            for chunks in _FORMULA_CHUNKS:
                for group in _FORMULA_GROUPS:
                    of = measured.runs.get((f"{order}, {group}", f"{pages} pages, {chunks} chunks"))
                    if of is None:
                        continue
                    run_of = next(iter(of.values()))
                    # Half of the pages of full blocks endanger another; blocks that are not full have fewer.
                    endangered = run_of.backups + run_of.stale + run_of.own
                    due = expected(order, pages, group, chunks)
                    # A pair of requests needs its backups or not.
                    error = 0.5 * math.sqrt(max(0.0, 2 * due * (1 - 2 * due)) * 2 / requests)
                    share = 0.5 * run_of.backups / endangered if endangered else 0.0
                    rows.append(_Held(order, pages, chunks, group, share, due, error))
    return rows


def _formula_claim(results: Results) -> Claim:
    rows = _formula_rows(results)
    bad = [row for row in rows if not row.holds]
    return judge(
        "formula",
        f"Notes on the paper: runs of {len(rows)} whose backups for each page are not those of the formula",
        None,
        len(bad) if rows else None,
        holds=not bad,
        tolerance=f"within {_CLOSE:.0%} or {_ERRORS:.0f} standard errors",
        otherwise=_missing(results) if not rows else f"not so in {len(bad)}, see the table",
    )


def _claims(results: Results) -> list[Claim]:
    return [
        _loss_claim(results),
        *_drawn_claims(results),
        *_gs3_claims(results),
        *_random_claims(results),
        _together_claim(results),
        *_trend_claims(results),
        *_stale_claims(results),
        _formula_claim(results),
    ]


# Tables -----------------------------------------------------------------------------------------------------------

Row = list["str | float | None"]


def _gs3_table(results: Results) -> Table:
    measured, rows = _gs3_runs(results), []
    for scheme, *place in measured.runs:
        counted = [measured.mean(scheme, *place, of=of) for of in (_backups, _stale, _own, _copied)]
        backups, stale, own, copied = (_round(value, 0) for value in counted)
        total = _round(measured.mean(scheme, *place, of=_total))
        rates = [measured.mean(scheme, *place, of=of) for of in (_write_rate, _collecting_rate)]
        rate, collecting = (_round(None if each is None else each / 1e6, 3) for each in rates)
        over = [measured.compared("FPM+B", scheme, *place, of=of) for of in (left, saved, write_gained)]
        rest, less, more = map(_round, over)
        row = [scheme, backups, None if scheme == "FPM" else rest, stale, own, copied, total, less, rate, more]
        rows.append([*row, collecting])
    columns = (
        "scheme", "backups", "backups left (%)", "invalidated LSB pages", "pairs inside a request",
        "pages copied by collections", "execution time (s)", "time saved (%)", "write performance (MB/s)", "gained (%)",
        "with the time of collections (MB/s)",
    )  # fmt: skip
    return Table("The stand-in for GS3, by scheme; saved and gained are against FPM+B", columns, rows)


def _full_table(results: Results) -> Table:
    measured, rows = _Measured(results, "gs3-full"), []
    for scheme, *place in measured.runs:
        counted = [_round(measured.mean(scheme, *place, of=of), 0) for of in (_backups, _stale, _copied)]
        rows.append([scheme, *counted, _round(measured.mean(scheme, *place, of=_total))])
    columns = ("scheme", "backups", "invalidated LSB pages", "pages copied by collections", "execution time (s)")
    return Table("The stand-in for GS3 on a drive that is full at the start, by threshold, seed 1", columns, rows)


def _drives_table(results: Results) -> Table:
    measured = _Measured(results, "gs3-drives", "geometry.blocks_per_plane", "precondition.kind")
    striped, rows = _name(GS3_GROUP), []
    for place in measured.places:
        _, blocks, state = place
        # Blocks of 512 KiB, of which the host sees 7 GiB.
        spare = blocks * BLOCK_PAGES * PAGE_BYTES / (7 << 30) - 1
        loss = _round(measured.compared("FPM", "FPM+B", *place, of=gained))
        counted = [_round(measured.mean("FPM+B", *place, of=of), 0) for of in (_backups, _own)]
        counted += [_round(measured.mean(striped, *place, of=of), 0) for of in (_backups, _own)]
        over = [_round(measured.compared("FPM+B", striped, *place, of=of)) for of in (left, saved)]
        rows.append([f"{spare:.1%}", str(state), loss, *counted, *over])
    columns = (
        "spare space", "preconditioning", "backup costs (%)", "backups", "pairs inside a request",
        f"backups at G = {GS3_GROUP}", "pairs inside a request", "backups left (%)", "time saved (%)",
    )  # fmt: skip
    return Table("The stand-in for GS3 on other drives, seed 1", columns, rows)


def _ranges_table(results: Results) -> Table:
    striped, rows = _name(RANDOM_GROUP), []
    for measured in (_ranges(results), _whole(results)):
        for place in measured.places:
            loss = _round(measured.compared("FPM", "FPM+B", *place, of=gained))
            over = [_round(measured.compared("FPM+B", striped, *place, of=of)) for of in (left, gained, write_gained)]
            chunks = next((each for each in CHUNKS if _range(each) == place[0]), None)
            formula = None if chunks is None else _round(expected_gain(RANDOM_GROUP, chunks))
            share = measured.compared("FPM+B", striped, *place, of=lambda _, run: 100 * run.collect_s / run.total_s)
            rows.append([place[0], f"{place[1]:.0%}", loss, *over, formula, _round(share)])
    columns = (
        "working set", "spare space", "backup costs (%)", f"backups left at G = {RANDOM_GROUP} (%)",
        "performance gained by time (%)", "write performance gained (%)", "by the formula (%)",
        "collections' share of the time (%)",
    )  # fmt: skip
    return Table("Random writes of 8 KiB, by working set and spare space", columns, rows)


def places(results: Results) -> list[Row]:
    """Where each published number of random writes would hold: on which working set, or with how much spare space."""
    ranges, whole = _ranges(results), _whole(results)
    rows: list[Row] = []
    for gain in _GAINS:
        for spare in SPARES:
            points = _by_range(ranges, spare, gain.of)
            if all(value is None for _, value in points):
                continue
            place = crossing(points, gain.value)
            rows.append([f"{gain.value:.0f} %: {gain.text}", f"{spare:.0%} spare", _range_text(place)])
    for label in (_WHOLE, *_ZIPF):
        losses = [(spare, whole.compared("FPM", "FPM+B", label, spare, of=gained)) for spare in SPARES]
        if any(value is not None for _, value in losses):
            least = crossing(losses, LOSS)
            found = "none of the sweep" if least is None else f"{least:.1%} spare"
            rows.append([f"{LOSS:.0f} %: Figure 1: performance lost to backup", label, found])
    if rows:
        chunks = next(each / 10 for each in range(10, 10**6) if expected_gain(RANDOM_GROUP, each / 10) <= WRITE_GAIN)
        rows.append([f"{WRITE_GAIN:.0f} %: Figure 7: write performance", "by the formula", _range_text(chunks)])
    return rows


def _groups_table(results: Results) -> Table:
    rows: list[Row] = []
    for measured in (_Measured(results, "groups"), _Measured(results, "groups-whole")):
        for (place,) in measured.places:
            for group in GROUPS:
                scheme = _name(group)
                over = [_round(measured.compared("FPM+B", scheme, place, of=of)) for of in (left, gained, write_gained)]
                if None in over:
                    continue
                stale = _round(measured.mean(scheme, place, of=_stale), 0)
                rows.append([place, str(group), *over, stale])
    columns = (
        "working set", "G", "backups left (%)", "performance gained by time (%)", "write performance gained (%)",
        "invalidated LSB pages",
    )  # fmt: skip
    return Table(f"Random writes of 8 KiB, by blocks of the group, {_SPARE:.0%} spare", columns, rows)


def _outcomes_table(results: Results) -> Table:
    measured = _Measured(results, "random-thresholds")
    rows: list[Row] = [
        [scheme, measured.mean(scheme, place, of=_backups), _round(measured.mean(scheme, place, of=_total), 3)]
        for scheme, place in measured.runs
    ]
    outcomes = len({tuple(row[1:]) for row in rows})
    title = f"Random writes of 8 KiB to 384 KiB, by threshold: {outcomes} outcomes, because all requests have one size"
    return Table(title, ("scheme", "backups", "execution time (s)"), rows)


def _formula_table(results: Results) -> Table:
    rows: list[Row] = [
        [row.order, str(row.pages), str(row.chunks), str(row.group), round(row.due, 5), round(row.measured, 5),
         round(abs(row.measured - row.due), 5), round(row.error, 5), "yes" if row.holds else "no"]
        for row in _formula_rows(results)
    ]  # fmt: skip
    columns = (
        "page order", "pages of a request", "requests in the working set", "G", "formula", "measured", "difference",
        "standard error", "holds",
    )  # fmt: skip
    return Table("Backups for each page written: formula (notes, section 5) and simulation", columns, rows)


def _sizes_table(results: Results) -> Table:
    measured, rows = _Measured(results, "sizes"), []
    for (place,) in measured.places:
        for _, order, _ in _ORDERS:
            appended, striped = f"{order}, FPM+B", f"{order}, RSFTL"
            shares = [measured.mean(scheme, place, of=_backed_up) for scheme in (appended, striped)]
            gain = measured.compared(appended, striped, place, of=write_gained)
            rows.append([place, order, *(_round(share, 4) for share in shares), _round(gain)])
    columns = (
        "requests", "page order", "FPM+B", f"RSFTL, G = {GS3_GROUP}, all requests", "write performance gained (%)",
    )  # fmt: skip
    title = f"Backups for each page written, by size of the requests, to a working set of {_SIZES_CHUNKS} of them"
    return Table(title, columns, rows)


def _chip_table(results: Results) -> Table:
    rows: list[Row] = []
    for study in ("chip-gs3", "chip-random", "chip-whole"):
        measured = _Measured(results, study)
        for (place,) in measured.places:
            for scheme in ("FPM+B", _SLC, _name(GS3_GROUP), _name(RANDOM_GROUP)):
                cost = _round(measured.compared("FPM", scheme, place, of=gained))
                over = [_round(measured.compared("FPM+B", scheme, place, of=of)) for of in (left, saved, write_gained)]
                stale = _round(measured.mean(scheme, place, of=_stale), 0)
                rows.append([place, scheme, cost, *over, stale])
    columns = (
        "workload", "scheme", "against FPM (%)", "backups left (%)", "time saved (%)", "write performance gained (%)",
        "invalidated LSB pages",
    )  # fmt: skip
    room = f"the preset itself has spare space for G = {largest_group()} at most" if rows else ""
    return Table(f"With the chip's own page order and times of LSB and MSB pages; {room}", columns, rows)


def _recorded_table(results: Results) -> Table:
    measured, rows = _Measured(results, "recorded", source="trace"), []
    for place in measured.places:
        loss = _round(measured.compared("FPM", "FPM+B", *place, of=gained))
        for group in (GS3_GROUP, RANDOM_GROUP):
            scheme = _name(group)
            over = [_round(measured.compared("FPM+B", scheme, *place, of=of)) for of in (left, saved, write_gained)]
            stale = _round(measured.mean(scheme, *place, of=_stale), 0)
            rows.append([*place, loss, str(group), *over, stale])
    columns = (
        "recording", "backup costs (%)", "G", "backups left (%)", "time saved (%)",
        "write performance gained (%)", "invalidated LSB pages",
    )  # fmt: skip
    return Table("Recordings", columns, rows)


def _tables(results: Results) -> list[Table]:
    where = Table(
        f"Where each published number of random writes would hold, G = {RANDOM_GROUP}",
        ("published", "setting", "holds at"),
        places(results),
    )
    tables = [
        _gs3_table(results),
        _full_table(results),
        _drives_table(results),
        where,
        _ranges_table(results),
        _groups_table(results),
        _outcomes_table(results),
        _formula_table(results),
        _sizes_table(results),
        _chip_table(results),
        _recorded_table(results),
    ]
    return [table for table in tables if table.rows]


# Figures ----------------------------------------------------------------------------------------------------------

_COLORS = ("#6baed6", "#fd8d3c", "#bdd7e7", "#74c476", "#fdd0a2")


def _drawn(name: str, log: pl.DataFrame, axis: Axes) -> None:
    """Where each page of W1 to W5 lies, from the log of commands; what was backed up has a thick edge."""
    from matplotlib.patches import Rectangle

    programs = log.filter(log["command"] == "program")
    hosts = programs.filter(programs["cause"] == "host")["page"].to_list()
    letters = [(at, letter) for at, (_, pages) in enumerate(DRAWN) for letter in pages]
    owner = dict(zip(hosts, letters, strict=True))
    saved_pages = log.filter((log["command"] == "read") & (log["cause"] == "lsb_backup"))["page"].to_list()
    copies = programs.filter(programs["cause"] == "lsb_backup")["page"].to_list()
    owner |= {copy: owner[page] for page, copy in zip(saved_pages, copies, strict=True)}
    blocks = list(dict.fromkeys(page // _DRAWN_PAGES for page in [*hosts, *copies]))
    for row, block in enumerate(blocks):
        backups = block * _DRAWN_PAGES in copies
        for index in range(_DRAWN_PAGES):
            page = block * _DRAWN_PAGES + index
            at, letter = owner.get(page, (None, ""))
            cell = Rectangle((index, -row), 0.92, -0.8, edgecolor="black", linestyle="--" if backups else "-")
            cell.set_facecolor("white" if at is None else _COLORS[at])
            cell.set_linewidth(2.4 if page in saved_pages else 0.8)
            axis.add_patch(cell)
            axis.text(index + 0.46, -row - 0.4, letter, ha="center", va="center")
        kind = "backup block" if backups else f"block {block}"
        axis.text(-0.2, -row - 0.4, kind, ha="right", va="center", fontsize="small")
    for index in range(_DRAWN_PAGES):
        # Tiles of four: two LSB pages, and their MSB partners.
        axis.text(index + 0.46, 0.25, ("LSB", "LSB", "MSB", "MSB")[index % 4], ha="center", fontsize="x-small")
    count = f"{len(hosts)} programs, {len(copies)} backups, {log['time_us'].sum():,.0f} us"
    axis.set_title(f"{name}: {count}", fontsize="medium")
    axis.set_xlim(-1.6, _DRAWN_PAGES)
    axis.set_ylim(-len(blocks), 0.8)
    axis.set_axis_off()


def _layout_figure(results: Results) -> Figure | None:
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    if not results.logs:
        return None
    figure = Figure(figsize=(10.0, 3.4), layout="constrained")
    axes = figure.subplots(1, len(results.logs), squeeze=False)[0]
    for (name, log), axis in zip(results.logs.items(), axes, strict=True):
        _drawn(name, log, axis)
    handles = [Patch(facecolor=color, edgecolor="black", label=f"{name} = {{{', '.join(pages)}}}")
               for (name, pages), color in zip(DRAWN, _COLORS, strict=True)]  # fmt: skip
    handles.append(Patch(facecolor="white", edgecolor="black", linewidth=2.4, label="was backed up"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize="small")
    return figure


def _line(
    key: str,
    value: str,
    places: Sequence[float],
    series: Mapping[str, Sequence[float | None]],
    names: Mapping[str, str],
    title: str,
) -> Figure | None:
    rows = [
        (place, name, height)
        for name, heights in series.items()
        for place, height in zip(places, heights, strict=True)
        if height is not None
    ]
    measured = {name for _, name, _ in rows if not name.startswith("published")}
    if not measured:
        return None
    frame = {name: [row[at] for row in rows] for at, name in enumerate((key, "series", value))}
    order = {"series": [name for name in series if name in {row[1] for row in rows}]}
    return figures.line(
        frame, x=key, y=value, color="series", log="x", order=order, names={**names, "series": ""}, title=title, note=""
    )


_GROUP_NAMES = {"group_blocks": "blocks of the group (G)"}


def _loss_figure(results: Results) -> Figure | None:
    gs3, ranges, whole = _gs3_runs(results), _ranges(results), _whole(results)
    rows = [("stand-in for GS3", gs3.compared("FPM", "FPM+B", GS3_LABEL, of=gained))]
    rows += [
        (f"random, {label}", measured.compared("FPM", "FPM+B", label, _SPARE, of=gained))
        for measured, label in ((ranges, _range(48)), (whole, _WHOLE))
    ]
    known = [(name, 100 + loss) for name, loss in rows if loss is not None]
    if not known:
        return None
    known.append(("published, at most", 100 + LOSS))
    labels = [name for name, _ in known]
    frame = {"workload": labels, "performance": [value for _, value in known]}
    names = {"performance": "performance of FPM+B (% of FPM)", "workload": ""}
    order = {"workload": labels}
    return figures.bar(
        frame, x="workload", y="performance", names=names, order=order, title="Figure 1: what backup costs", note=""
    )


def _gs3_figures(results: Results) -> dict[str, Figure | None]:
    measured = _gs3_runs(results)

    def over(of: Callable[[Run, Run], float]) -> list[float | None]:
        return [measured.compared("FPM+B", _name(group), GS3_LABEL, of=of) for group in GROUPS]

    def published(value: float) -> list[float | None]:
        return [value if group == GS3_GROUP else None for group in GROUPS]

    rates = [measured.mean(_name(group), GS3_LABEL, of=_write_rate) for group in GROUPS]
    level = [measured.mean(name, GS3_LABEL, of=_write_rate) for name in ("FPM", "FPM+B")]
    shown = {"RSFTL": rates, "FPM": level[:1] * len(GROUPS), "FPM+B": level[1:] * len(GROUPS)}
    return {
        "figure-4-backups": _line(
            "group_blocks", "left", GROUPS, {"RSFTL": over(left), "published": published(LEFT)},
            {**_GROUP_NAMES, "left": "backups (% of FPM+B)"}, "Figure 4: backups left on the stand-in for GS3",
        ),
        "figure-4-time": _line(
            "group_blocks", "saved", GROUPS, {"RSFTL": over(saved), "published": published(SAVED)},
            {**_GROUP_NAMES, "saved": "execution time saved (%)"}, "Figure 4: time saved on the stand-in for GS3",
        ),
        "figure-6-write-performance": _line(
            "group_blocks", "write_bytes_per_second", GROUPS, shown,
            {**_GROUP_NAMES, "write_bytes_per_second": "write performance"},
            "Figure 6: write performance on the stand-in for GS3",
        ),
    }  # fmt: skip


def _group_figures(results: Results) -> dict[str, Figure | None]:
    groups, whole = _Measured(results, "groups"), _Measured(results, "groups-whole")
    drawn: dict[str, Figure | None] = {}
    for name, gain, what in (
        ("figure-5-time", _GAINS[0], "performance gained by time (%)"),
        ("figure-7-write-performance", _GAINS[1], "write performance gained (%)"),
    ):
        series: dict[str, list[float | None]] = {
            _range(chunks): [groups.compared("FPM+B", _name(each), _range(chunks), of=gain.of) for each in GROUPS]
            for chunks in _GROUP_CHUNKS
        }
        series[_WHOLE] = [whole.compared("FPM+B", _name(each), _WHOLE, of=gain.of) for each in GROUPS]
        series["published"] = [gain.value if each == RANDOM_GROUP else None for each in GROUPS]
        names = {**_GROUP_NAMES, "gain": what}
        drawn[name] = _line("group_blocks", "gain", GROUPS, series, names, f"{gain.text}, random writes of 8 KiB")
    return drawn


def _range_figures(results: Results) -> dict[str, Figure | None]:
    ranges, drawn = _ranges(results), {}
    for name, gain, what in (
        ("working-set-time", _GAINS[0], "performance gained by time (%)"),
        ("working-set-write-performance", _GAINS[1], "write performance gained (%)"),
    ):
        series: dict[str, list[float | None]] = {
            f"{spare:.0%} spare": [value for _, value in _by_range(ranges, spare, gain.of)] for spare in SPARES
        }
        if gain is _GAINS[1]:
            series["formula"] = [expected_gain(RANDOM_GROUP, chunks) for chunks in CHUNKS] if ranges.runs else []
            series["formula"] = series["formula"] or [None] * len(CHUNKS)
        series["published"] = [gain.value] * len(CHUNKS)
        names = {"range_bytes": "working set", "gain": what}
        title = f"{gain.text} gained at G = {RANDOM_GROUP}, by working set"
        drawn[name] = _line("range_bytes", "gain", [each * CHUNK_BYTES for each in CHUNKS], series, names, title)
    return drawn


def _figures(results: Results) -> dict[str, Figure]:
    drawn = {
        "figure-1-cost-of-backup": _loss_figure(results),
        "figures-2-and-3-layout": _layout_figure(results),
        **_gs3_figures(results),
        **_group_figures(results),
        **_range_figures(results),
    }
    return {name: figure for name, figure in drawn.items() if figure is not None}


_SETUP = (
    "Chip: preset flexonenand, with the published times: 403 us a page read, 994 us a page program, 872 us an erase.",
    "Pages of 4 KiB, 128 in a block, of which n and n + 2 share a word line (order tiles). One plane.",
    "One command after the other, without time on a bus; one request at a time.",
    "FPM is page mapping with one open block for the host, FPM+B the same with backup, RSFTL the same with striping.",
    "A backup is a read and a program, 1,397 us, unless the page holds nothing live or the same request wrote it.",
    "Execution time is the time of all commands: reads, programs, backups, copies of collections, erases.",
    "Write performance is bytes written by the host over the time of its programs and of all backups.",
    "Performance is gained by T / T' - 1, and time is saved by 1 - T' / T; each table says which.",
    "GS3: a stand-in for the trace of a Galaxy S3, on 8 GiB of new flash, of which the host sees 7 GiB.",
    "Random: writes of 8 KiB on 2 GiB of flash, full at the start.",
    "Where they go to the whole drive, the same writes have made write amplification steady before.",
    "Figures 2 and 3 are drawn from the log of commands of five requests.",
    "Recordings: those that the folder of traces has, moved together to what they touch.",
    "They run on the flash of random writes, which is new.",
    "The stand-in has 1,000,000 requests and five seeds. Random writes are 1,000,000, and 200,000 against the formula.",
    "With --quick these are 300,000, two seeds, 100,000 and 40,000.",
)
_ASSUMED = (
    "The trace of the Galaxy S3 is not published, nor any statistics of it. The stand-in follows other Android phones.",
    "Working set, spare space, capacity and the state of the drive are not published: they are swept.",
    "The number of block groups in the text is read as the blocks of the one group.",
    "A threshold of 8 KiB includes requests of 8 KiB.",
    "The stand-in and recordings start on a new drive. To fill it page by page would scatter files over the group.",
    "Overwritten data are stale when the whole request that overwrites them has been written.",
    "Collection takes the block with fewest live pages when two blocks are free; each victim is a request of its own.",
    "Pages that collections copy go to an open block of their own.",
    "The time of backups includes those before copies of collections, which the summary does not tell apart.",
    "Figures 2 and 3: pages A to I of five requests, of which two are large, because the drawing has no sizes.",
    "TLC blocks have 192 pages, and the times of the MLC chip.",
)

PAPER = Paper(
    name="lsb-backup",
    title="Backup of LSB pages, and request striping",
    source="Hwang, Shin: RSFTL: Request Striping Flash Translation Layer for Reducing LSB Backup in MLC Flash Memory "
    "(Sungkyunkwan University)",
    setup=_SETUP,
    assumed=_ASSUMED,
    studies=_studies,
    claims=_claims,
    tables=_tables,
    figures=_figures,
    logs=_logs,
)
