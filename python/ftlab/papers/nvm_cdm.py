"""Cooperative data management: what it saves that flash drops what a cache holds, and what of it is only put off."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ftlab import figures
from ftlab._workload import Workload
from ftlab.papers.frame import Claim, Paper, Results, Size, Table, judge
from ftlab.papers.recordings import CLOSED_UP, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ftlab._statistics import TraceStats

DRIVE = "msr-ssd-40g"
_CHANNELS, _PLANES, _DATA_PAGES, _PAGE_BYTES = 8, 8, 63, 4096
_GIB = 40
_BLOCKS_OF_A_GIB = 64
# Percent of the blocks: spare, and free when collection begins.
_SPARE, _FREE = 15, 5

NAMES = ("JEDEC", "OLTP")
_STAND_INS = {"JEDEC": "like-jedec", "OLTP": "like-oltp"}
# Only OLTP has times; the master trace is replayed one request after the other.
_HOST: dict[str, dict[str, Any]] = {"JEDEC": {"arrival": "closed", "queue_depth": 1}, "OLTP": {}}

# Published. Of Table 1: requests, percent of writes, reads, trims and flushes, and the footprint in GB.
TABLE_1 = {"JEDEC": (5_000_000, 89.0, 0.0, 6.0, 5.0, 31.2), "OLTP": (9_034_179, 48.0, 52.0, 0.0, 0.0, 30.7)}
RANDOM, OVERALL = 2.84, 2.07
# Percent by which CDM lowers what the cache alone has.
COPIES = {"JEDEC": 48.3, "OLTP": 54.4}
AMPLIFICATION = {"JEDEC": (2.1, 17.6), "OLTP": (4.3, 38.2)}
RESPONSE = {"JEDEC": 9.7, "OLTP": 20.3}
DEVIATION = {"JEDEC": 31.0, "OLTP": 39.0}
# Tolerances: points, and the part of the published saving that must be there, or nothing would be near a small one.
# Then the part of the price of random writes within which another is similar, and the part of a published count.
_POINTS, _LEAST, _SIMILAR, _CLOSE = 10.0, 0.5, 0.25, 0.05

BASIC, CDM, FREE, NONE = "NVM alone", "CDM", "CDM, removable pages free", "no cache"
_KINDS: dict[str, dict[str, Any]] = {
    BASIC: {"kind": "basic"},
    CDM: {"kind": "cdm"},
    FREE: {"kind": "cdm", "removable": "free"},
}


@dataclass(frozen=True)
class Part:
    """A part of the drive, under its part of the load: each plane collects for itself."""

    planes: int
    shrink: int = 1

    @property
    def share(self) -> Fraction:
        """Of the drive.

        >>> Part(1).share, Part(8).share
        (Fraction(1, 8), Fraction(1, 1))
        """
        return Fraction(self.planes, _PLANES * self.shrink)

    def of(self, number: float) -> int:
        """Its share of a number of requests."""
        return max(1, round(number * self.share))

    def bytes(self, number: float) -> int:
        """Its share of a number of bytes, in whole pages."""
        return max(1, round(number * self.share / _PAGE_BYTES)) * _PAGE_BYTES


_WHOLE = Part(_PLANES)
_PARTS: dict[Size, Part] = {"full": Part(1), "quick": Part(1), "test": Part(1, shrink=64)}
_SEEDS: dict[Size, int] = {"full": 10, "quick": 1, "test": 1}
_MIB: dict[Size, tuple[int, ...]] = {
    "full": (64, 128, 256, 512, 1024, 2048, 4096),
    "quick": (64, 256, 1024, 4096),
    "test": (64, 4096),
}
_WHOLE_MIB = (64, 512, 4096)
_MIDDLE_MIB = 1024
# In the smallest, the traces touch nearly all that the host sees.
CAPACITIES_GIB: dict[Size, tuple[int, ...]] = {
    "full": (40, 48, 64, 80), "quick": (40, 48, 64, 80), "test": (40, 80),
}  # fmt: skip
# Of the footprint.
FRACTIONS: dict[Size, tuple[float, ...]] = {
    "full": (0.001, 0.003, 0.01, 0.03, 0.1, 0.2), "quick": (0.001, 0.1), "test": (),
}  # fmt: skip
# What a message takes that tells the drive of a change in the host, in microseconds.
MESSAGES: dict[Size, tuple[int, ...]] = {"full": (0, 1, 5, 20), "quick": (0, 20), "test": ()}
# What the memory takes for a read and a write of a page, in microseconds.
MEMORIES = {"DRAM: 0, 0": (0, 0), "1, 1": (1, 1), "5, 10": (5, 10), "10, 50": (10, 50), "50, 250": (50, 250)}
# Percent of spare space in 32 GiB. 15 is published, and what the traces touch does not fit it.
SPARES: dict[Size, tuple[int, ...]] = {"full": (15, 11, 8), "quick": (15, 8), "test": ()}


# Drives -----------------------------------------------------------------------------------------------------------


def _drive(
    label: str,
    part: Part,
    host: Mapping[str, Any],
    nvm: Mapping[str, Any] | None = None,
    *,
    gib: int = _GIB,
    spare: int = _SPARE,
    sections: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    blocks = gib * _BLOCKS_OF_A_GIB // part.shrink
    exported = blocks - blocks * spare // 100
    drive: dict[str, Any] = {
        "extends": DRIVE,
        "label": label,
        "geometry": {"planes": part.planes, "blocks_per_plane": blocks},
        "ftl": {
            "logical_pages": exported * _DATA_PAGES * _CHANNELS * part.planes,
            "gc_low_free_blocks": blocks * _FREE // 100,
        },
        "host": dict(host),
    }
    for name, keys in (sections or {}).items():
        drive[name] = {**drive.get(name, {}), **keys}
    return drive if nvm is None else {**drive, "nvm": dict(nvm)}


def _cache(scheme: str, size: int, part: Part, **keys: Any) -> dict[str, Any]:
    return {**_KINDS[scheme], "bytes": part.bytes(size), **keys}


def _label(scheme: str, mib: int) -> str:
    return f"{scheme}, {mib} MiB"


def _sized(name: str, schemes: Iterable[str], sizes: Iterable[int], part: Part) -> list[dict[str, Any]]:
    """Drives with a cache of each scheme and size, named by what the whole drive would have."""
    return [
        _drive(_label(scheme, mib), part, _HOST[name], _cache(scheme, mib << 20, part))
        for scheme in schemes
        for mib in sizes
    ]


# Workloads --------------------------------------------------------------------------------------------------------


@functools.cache
def _keys(name: str) -> dict[str, Any]:
    return Workload.load(_STAND_INS[name]).to_dict()


def _stand_in(name: str, part: Part) -> dict[str, Any]:
    """The stand-in with its part of requests and addresses; its rate stays, since a part has as many channels."""
    keys = dict(_keys(name))
    keys |= {"requests": part.of(keys["requests"]), "footprint_bytes": part.bytes(keys["footprint_bytes"])}
    if name == "OLTP":
        keys["oltp_financial"] = dict(keys["oltp_financial"])
        keys["oltp_financial"]["working_set_bytes"] = part.bytes(keys["oltp_financial"]["working_set_bytes"])
    else:
        # Its addresses lie on more than it touches.
        keys["transform"] = [CLOSED_UP]
    return {**keys, "label": name}


def _whole(name: str) -> tuple[dict[str, Any], str]:
    """The recording, where it is at hand, or the whole stand-in; and which it is."""
    found = Workload.load(_STAND_INS[name]).recording()
    if found is None:
        return _stand_in(name, _WHOLE), "stand-in"
    keys = found.keys()
    return {**keys, "transform": [*keys.get("transform", ()), CLOSED_UP], "label": name}, "recording"


_RECORDED_PART, _RECORDED_MIB = Part(1, shrink=8), (64, 256, 1024)


# Studies ----------------------------------------------------------------------------------------------------------


def _studies(size: Size) -> list[dict[str, Any]]:
    part, sizes = _PARTS[size], _MIB[size]
    studies = [_sweep(name, part, sizes, _SEEDS[size]) for name in NAMES]
    studies.append(_capacity_study(part, _SEEDS[size], size))
    if size == "test":
        return studies
    # JEDEC has no reads, so that it is hardly ever clean in the cache: with --quick it is left out of these.
    for name in NAMES if size == "full" else NAMES[1:]:
        workload = _stand_in(name, part)
        studies += [
            {"name": f"free-{name}", "device": _sized(name, (FREE,), sizes, part), "workload": workload},
            {"name": f"fractions-{name}", "device": _of_fractions(name, part, size), "workload": workload},
            {"name": f"memories-{name}", "device": _of_memories(name, part, size), "workload": workload},
            {"name": f"spares-{name}", "device": _of_spares(name, part, size), "workload": workload},
        ]
        if size == "full":
            none = _drive(NONE, _WHOLE, _HOST[name])
            drives = [none, *_sized(name, (BASIC, CDM), _WHOLE_MIB, _WHOLE)]
            studies.append({"name": f"whole-{name}", "device": drives, "workload": _whole(name)[0]})
    # What the stand-in trims is not published, and decides what is left to save.
    kept = {**_stand_in("JEDEC", part), "transform": [{"step": "filter", "ops": ["write", "flush"]}, CLOSED_UP]}
    drives = _sized("JEDEC", (BASIC, CDM), sizes if size == "full" else _WHOLE_MIB, part)
    studies.append({"name": "untrimmed", "device": drives, "workload": {**kept, "label": "JEDEC without its trims"}})
    studies.append({"name": "messages", "device": _in_host(part, size), "workload": _stand_in("OLTP", part)})
    studies.append({"name": "together", "device": _together(part, size), "workload": _stand_in("OLTP", part)})
    if traces := recorded(without=("Nexus 5, starting",)):
        host = {"arrival": "closed", "queue_depth": 1, "out_of_range": "wrap"}
        drives = [
            _drive(_label(scheme, mib), _RECORDED_PART, host, _cache(scheme, mib << 20, _RECORDED_PART))
            for scheme in (BASIC, CDM)
            for mib in (_RECORDED_MIB if size == "full" else _RECORDED_MIB[::2])
        ]
        studies.append({"name": "recorded", "device": drives, "trace": traces})
    return studies


def _sweep(name: str, part: Part, sizes: Sequence[int], seeds: int) -> dict[str, Any]:
    drives = [_drive(NONE, part, _HOST[name]), *_sized(name, (BASIC, CDM), sizes, part)]
    return {"name": f"sweep-{name}", "device": drives, "workload": _stand_in(name, part), "repetitions": seeds}


_SYNTHETIC = {"random": {"kind": "uniform"}, "sequential": {"kind": "sequential"}}
_SYNTHETIC_WRITES, _SYNTHETIC_BYTES = 5_000_000, 20_000_000_000


def _capacity_study(part: Part, seeds: int, size: Size) -> dict[str, Any]:
    """Figure 1: no cache. Order decides write amplification, so that no clock is needed."""
    keys = {"requests": part.of(_SYNTHETIC_WRITES), "footprint_bytes": part.bytes(_SYNTHETIC_BYTES)}
    synthetic = [{**kind, **keys, "label": label} for label, kind in _SYNTHETIC.items()]
    return {
        "name": "capacity",
        "device": [_drive(f"{gib} GiB", part, {}, gib=gib) for gib in CAPACITIES_GIB[size]],
        "workload": [*synthetic, *(_stand_in(name, part) for name in NAMES)],
        "options": {"timing": False},
        "repetitions": seeds,
    }


def _of_fractions(name: str, part: Part, size: Size) -> list[dict[str, Any]]:
    touched = TABLE_1[name][-1] * 1e9
    return [
        _drive(f"{scheme}, {fraction:.1%}", part, _HOST[name], _cache(scheme, round(touched * fraction), part))
        for fraction in FRACTIONS[size]
        for scheme in (BASIC, CDM)
    ]


def _memories(size: Size) -> dict[str, tuple[int, int]]:
    return {name: times for at, (name, times) in enumerate(MEMORIES.items()) if size == "full" or at % 4 == 0}


def _of_memories(name: str, part: Part, size: Size) -> list[dict[str, Any]]:
    return [
        _drive(f"{scheme}, {memory}", part, _HOST[name],
               _cache(scheme, _MIDDLE_MIB << 20, part, read_us=read, write_us=write))
        for memory, (read, write) in _memories(size).items()
        for scheme in (BASIC, CDM)
    ]  # fmt: skip


def _in_host(part: Part, size: Size) -> list[dict[str, Any]]:
    """The cache in the host, whose changes of state are messages, beside the one in the drive."""
    inside = _drive(_INSIDE, part, _HOST["OLTP"], _cache(CDM, _MIDDLE_MIB << 20, part))
    keys = [{"place": "host", "message_us": us} for us in MESSAGES[size]]
    caches = [_cache(CDM, _MIDDLE_MIB << 20, part, **each) for each in keys]
    hosts = zip(MESSAGES[size], caches, strict=True)
    return [inside, *(_drive(_in_host_label(us), part, _HOST["OLTP"], cache) for us, cache in hosts)]


_INSIDE = "in the drive"


def _in_host_label(us: int) -> str:
    return f"in the host, messages of {us} us"


def _of_spares(name: str, part: Part, size: Size) -> list[dict[str, Any]]:
    """The published 32 GiB. With the published spare space, addresses beyond the drive are folded into it."""
    host = {**_HOST[name], "out_of_range": "wrap"}
    sizes = _MIB[size] if size == "full" else _WHOLE_MIB
    return [
        _drive(f"{_label(scheme, mib)}, {spare} %", part, host, _cache(scheme, mib << 20, part), gib=32, spare=spare)
        for spare in SPARES[size]
        for scheme in (BASIC, CDM)
        for mib in sizes
    ]


_MLC: dict[str, dict[str, Any]] = {
    # As many pages in blocks of twice as many, since those are what two bits make of a word line.
    "cell": {"kind": "mlc", "page_order": "tiles"},
    "precondition": {"kind": "free_blocks", "pattern": "sequential", "layout": "written"},
}
_PLACEMENTS: dict[str, dict[str, Any]] = {
    "stripe": {"plane_choice": "ordered"},
    "rsftl": {"placement": "rsftl", "group_blocks": 16},
    "sepbit": {"placement": "sepbit"},
}
_BACKUP = {"lsb_backup": {"kind": "copy"}}
_TABLE = {"map_cache": {"kind": "bsb"}}
TOGETHER: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "two bits a cell": ("stripe", {}),
    "with LSB backup": ("stripe", _BACKUP),
    "with bsb": ("stripe", _TABLE),
    "with sepbit": ("sepbit", {}),
    "with rsftl and LSB backup": ("rsftl", _BACKUP),
    "with rsftl, LSB backup and bsb": ("rsftl", {**_BACKUP, **_TABLE}),
    "with sepbit, LSB backup and bsb": ("sepbit", {**_BACKUP, **_TABLE}),
}
_TABLE_BYTES = 2 << 20


def _together(part: Part, size: Size) -> list[dict[str, Any]]:
    """Drives of two bits a cell with everything that other papers add, without and with a cache."""
    blocks = _GIB * _BLOCKS_OF_A_GIB // 2
    pages = (blocks - blocks * _SPARE // 100) * 2 * _DATA_PAGES * _CHANNELS * part.planes
    drives = []
    for label, (placement, sections) in list(TOGETHER.items())[:: 1 if size == "full" else 6]:
        ftl = {
            "logical_pages": pages,
            "gc_low_free_blocks": blocks * _FREE // 100,
            "summary_page": False,
            **_PLACEMENTS[placement],
        }
        keys = {**_MLC, **sections, "geometry": {"blocks_per_plane": blocks, "pages_per_block": 128}, "ftl": ftl}
        if "map_cache" in keys:
            keys["map_cache"] = {**keys["map_cache"], "bytes": part.bytes(_TABLE_BYTES)}
        for scheme in (NONE, BASIC, CDM):
            cache = None if scheme == NONE else _cache(scheme, _MIDDLE_MIB << 20, part)
            drives.append(_drive(f"{label}: {scheme}", part, _HOST["OLTP"], cache, sections=keys))
    return drives


def _statistics(size: Size) -> dict[str, TraceStats]:
    from ftlab._statistics import trace_stats

    part = _PARTS[size]
    found = {}
    for name in NAMES:
        keys = _stand_in(name, _WHOLE if size == "full" else part)
        workload = Workload(**{key: value for key, value in keys.items() if key != "label"})
        found[name] = trace_stats(workload, reuse="off")
    return found


# What was measured ------------------------------------------------------------------------------------------------

Row = dict[str, Any]


def _value(row: Mapping[str, Any], column: str) -> float:
    return float(row.get(column) or 0)


def _of(column: str, scale: float = 1.0) -> Callable[[Row], float]:
    return lambda row: scale * _value(row, column)


_HITS = "nvm.hit_ratio"


def _copies(row: Row) -> float:
    return _value(row, "gc.pages_copied")


def _waf(row: Row) -> float:
    """Pages programmed for data, for each page that was written back because the host had changed it."""
    return _value(row, "nvm.write_amplification_primary")


def _waf_host(row: Row) -> float:
    """Pages programmed for data, for each page that the host wrote."""
    return sum(_value(row, f"write_amplification.{cause}") for cause in ("host", "cache_flush", "gc"))


def _moments(row: Row) -> tuple[float, float]:
    """Mean and standard deviation of the response of reads and writes, in milliseconds."""
    parts = [
        [_value(row, f"latency_ns.{op}.{what}") for what in ("count", "mean", "stdev")] for op in ("read", "write")
    ]
    count = sum(part[0] for part in parts)
    if not count:
        return 0.0, 0.0
    mean = sum(part[0] * part[1] for part in parts) / count
    square = sum(part[0] * (part[1] ** 2 + part[2] ** 2) for part in parts) / count
    return mean / 1e6, math.sqrt(max(0.0, square - mean**2)) / 1e6


def _response(row: Row) -> float:
    return _moments(row)[0]


def _deviation(row: Row) -> float:
    return _moments(row)[1]


class _Runs:
    """The runs of a study, by drive (and trace) and seed."""

    def __init__(self, results: Results, study: str, *axes: str) -> None:
        self.rows: dict[tuple[str, ...], dict[int, Row]] = {}
        for row in results.rows(study).iter_rows(named=True):
            place = tuple(row[axis] for axis in ("device", *axes))
            self.rows.setdefault(place, {})[row["seed"]] = row

    def each(self, *place: str, of: Callable[[Row], float]) -> list[float]:
        return [of(row) for row in self.rows.get(place, {}).values()]

    def mean(self, *place: str, of: Callable[[Row], float], digits: int = 3) -> float | None:
        return _mean(self.each(*place, of=of), digits)

    def saved(self, before: Sequence[str], after: Sequence[str], of: Callable[[Row], float]) -> list[float]:
        """Percent by which a drive has less than another, for each seed that both have."""
        one, other = self.rows.get(tuple(before), {}), self.rows.get(tuple(after), {})
        pairs = [(of(one[seed]), of(other[seed])) for seed in one if seed in other]
        return [100 * (1 - after / before) for before, after in pairs if before]


def _mean(values: Sequence[float], digits: int = 3) -> float | None:
    return round(sum(values) / len(values), digits) if values else None


def _spread(values: Sequence[float], digits: int = 3) -> float | None:
    """Standard deviation of a sample; ``None`` of a single value."""
    if len(values) <= 1:
        return None
    mean = sum(values) / len(values)
    return round(math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1)), digits)


def _reductions(
    results: Results, name: str, of: Callable[[Row], float], study: str = "sweep", scheme: str = CDM
) -> list[list[float]]:
    """Percent that CDM saves of what the cache alone has: for each size, for each seed."""
    runs = _Runs(results, f"{study}-{name}")
    sizes = _MIB[results.size] if study == "sweep" else _WHOLE_MIB
    found = [runs.saved((_label(BASIC, mib),), (_label(scheme, mib),), of) for mib in sizes]
    return [values for values in found if values]


def _average(values: Sequence[Sequence[float]]) -> float | None:
    """Over sizes, of the means over seeds."""
    means = [sum(each) / len(each) for each in values]
    return sum(means) / len(means) if means else None


# Claims -----------------------------------------------------------------------------------------------------------

_MISSING = "was not run"
_WHY = {
    "JEDEC": "four of five pages that the stand-in writes were trimmed before, so that flash has no copy to drop; how "
    "much the recording trims is not published, and without trims CDM saves more, see the table",
    "OLTP": "cache sizes are not published, and small ones save little; in the published 32 GiB with less spare space "
    "CDM saves more, see the table of spare space",
}


def _missing(results: Results) -> str:
    return "a run failed, see the report" if results.errors else _MISSING


def _average_claims(results: Results) -> list[Claim]:
    claims = []
    for kind, published, of, text in (
        ("copies", COPIES, _copies, "Figure 4: pages copied by collection"),
        ("mean", RESPONSE, _response, "Figure 6: mean response of reads and writes"),
        ("deviation", DEVIATION, _deviation, "Figure 7: standard deviation of the response"),
    ):
        for name in NAMES:
            found = _average(_reductions(results, name, of))
            claims.append(
                judge(
                    f"{kind}-{name.lower()}",
                    f"{text}, stand-in for {name}: percent that CDM saves, mean over cache sizes",
                    published[name],
                    None if found is None else round(found, 1),
                    holds=found is not None
                    and abs(found - published[name]) <= _POINTS
                    and found >= _LEAST * published[name],
                    tolerance=f"within {_POINTS:.0f} points, and at least half of it",
                    direction=found is not None and found > 0,
                    otherwise=_missing(results) if found is None else _WHY[name],
                )
            )
    return claims


def _range_claims(results: Results) -> list[Claim]:
    claims = []
    for name in NAMES:
        means = [sum(each) / len(each) for each in _reductions(results, name, _waf)]
        ends = (min(means), max(means)) if means else (None, None)
        least, most = AMPLIFICATION[name]
        overlap = ends[0] is not None and ends[1] is not None and ends[0] <= most and ends[1] >= least
        for which, published, found in (("least", least, ends[0]), ("most", most, ends[1])):
            claims.append(
                judge(
                    f"waf-{name.lower()}-{which}",
                    f"Figure 5: write amplification, stand-in for {name}: {which} that CDM saves over cache sizes (%)",
                    published,
                    None if found is None else round(found, 1),
                    holds=overlap,
                    tolerance="the ranges overlap",
                    direction=ends[1] is not None and ends[1] > 0,
                    otherwise=_missing(results) if found is None else _WHY[name],
                )
            )
    return claims


def _falls(one: Sequence[float], two: Sequence[float]) -> bool:
    """Whether the mean falls by more than seeds differ."""
    apart = max(_spread(one) or 0.0, _spread(two) or 0.0)
    return sum(one) / len(one) - sum(two) / len(two) > apart


def _grows_claim(results: Results) -> Claim:
    series = [_reductions(results, name, _copies) for name in NAMES]
    steps = sum(len(values) - 1 for values in series if values)
    falls = sum(_falls(one, two) for values in series for one, two in pairwise(values))
    return judge(
        "copies-grow",
        "Figure 4: CDM saves more copies of the stand-ins in larger caches: steps at which it saves less",
        None,
        falls if steps else None,
        holds=steps > 0 and falls == 0,
        tolerance=f"at none of {steps}, by more than the standard deviation over seeds",
        direction=steps > 0 and all(_falls(values[-1], values[0]) for values in series if values),
        otherwise=f"at {falls} of {steps} steps" if steps else _missing(results),
    )


def _capacity_values(results: Results, workload: str) -> list[float | None]:
    runs = _Runs(results, "capacity", "workload")
    return [runs.mean(f"{gib} GiB", workload, of=_waf_host) for gib in CAPACITIES_GIB[results.size]]


def _over_capacities(results: Results, workload: str) -> float | None:
    values = [value for value in _capacity_values(results, workload) if value is not None]
    return sum(values) / len(values) if len(values) == len(CAPACITIES_GIB[results.size]) else None


def _capacity_claims(results: Results) -> list[Claim]:
    means = {name: _over_capacities(results, name) for name in (*_SYNTHETIC, *NAMES)}
    random, claims = means["random"], []
    why = {
        "JEDEC": "the stand-in trims as much as it writes: what is trimmed need not be copied",
        "OLTP": "the capacities are not published",
    }
    for name in NAMES:
        found = means[name]
        claims.append(
            judge(
                f"fig1-{name.lower()}",
                f"Figure 1: write amplification of the stand-in for {name} without a cache is like that of random "
                "writes (percent of it, means over capacities)",
                None,
                None if found is None or random is None else round(100 * found / random, 1),
                holds=found is not None and random is not None and abs(found / random - 1) <= _SIMILAR,
                tolerance=f"within {100 * _SIMILAR:.0f} %, our reading of similar",
                direction=found is not None and found > 1 + _SIMILAR,
                otherwise=_missing(results) if found is None or random is None else why[name],
            )
        )
    known = [value for value in means.values() if value is not None]
    overall = sum(known) / len(known) if len(known) == len(means) else None
    claims.append(
        judge(
            "fig1-overall",
            "Figure 1: pages written for each page requested, mean over capacities and workloads (two are stand-ins)",
            OVERALL,
            None if overall is None else round(overall, 2),
            holds=overall is not None and abs(overall / OVERALL - 1) <= _POINTS / 100,
            tolerance="within 10 %",
            direction=overall is not None and overall > 1,
            otherwise=_missing(results) if overall is None else "the capacities are not published",
        )
    )
    return claims


def _measured_table_1(results: Results, name: str) -> tuple[float, ...] | None:
    found = results.statistics.get(name)
    if found is None:
        return None
    share = 1 if results.size == "full" else _PARTS[results.size].share
    of = found.summary
    operations = [100 * of[op] / of["requests"] for op in ("writes", "reads", "trims", "flushes")]
    return float(of["requests"] / share), *operations, float(of["footprint_bytes"] / share / 1e9)


def _table_1_claims(results: Results) -> list[Claim]:
    claims = []
    for name in NAMES:
        found = _measured_table_1(results, name)
        off: list[float] = []
        if found is not None:
            (count, *shares, touched), (of_count, *of_shares, of_touched) = found, TABLE_1[name]
            off = [100 * abs(count / of_count - 1), 100 * abs(touched / of_touched - 1)]
            # In points, so that 0 is a number as well.
            off += [abs(one - other) for one, other in zip(shares, of_shares, strict=True)]
        claims.append(
            judge(
                f"table1-{name.lower()}",
                f"Table 1, stand-in for {name}: the farthest of its numbers (% off; shares in points)",
                0,
                round(max(off), 1) if off else None,
                holds=bool(off) and max(off) <= 100 * _CLOSE,
                tolerance=f"within {100 * _CLOSE:.0f}; the stand-in is made to have them",
                otherwise=_missing(results) if not off else "the part of the load has other numbers than the whole",
            )
        )
    return claims


def _claims(results: Results) -> list[Claim]:
    return [
        *_table_1_claims(results),
        *_capacity_claims(results),
        *_average_claims(results),
        _grows_claim(results),
        *_range_claims(results),
    ]


# Tables -----------------------------------------------------------------------------------------------------------

Cells = list["str | float | None"]


def _table_1(results: Results) -> Table:
    columns = ("workload", "", "requests", "writes (%)", "reads (%)", "trims (%)", "flushes (%)", "footprint (GB)")
    rows: list[Cells] = []
    for name in NAMES:
        found = _measured_table_1(results, name)
        rows.append([name, "published", *TABLE_1[name]])
        rows.append(
            [f"stand-in for {name}", "measured", *((round(value, 2) for value in found) if found else [None] * 6)]
        )
    return Table("Table 1", columns, rows)


def _capacity_table(results: Results) -> Table:
    names = (*_SYNTHETIC, *NAMES)
    values = [_capacity_values(results, name) for name in names]
    rows = [[f"{gib} GiB", *each] for gib, *each in zip(CAPACITIES_GIB[results.size], *values, strict=True)]
    columns = ("flash", *(name if name in _SYNTHETIC else f"stand-in for {name}" for name in names))
    return Table("Figure 1: write amplification without a cache", columns, rows)


_SWEPT: tuple[tuple[str, Callable[[Row], float], int], ...] = (
    ("pages copied", _copies, 0),
    ("write amplification", _waf, 3),
    ("the same, each host page", _waf_host, 3),
    ("mean response (ms)", _response, 4),
    ("deviation (ms)", _deviation, 4),
)


def _sweep_table(results: Results, name: str) -> Table:
    runs = _Runs(results, f"sweep-{name}")
    columns = ("MiB", "hits (%)", *(f"{what}, {scheme}" for what, _, _ in _SWEPT for scheme in (BASIC, CDM)))
    rows: list[Cells] = []
    for mib in _MIB[results.size]:
        row: Cells = [float(mib), runs.mean(_label(CDM, mib), of=_of(_HITS, 100))]
        for _, of, digits in _SWEPT:
            row += [runs.mean(_label(scheme, mib), of=of, digits=digits) for scheme in (BASIC, CDM)]
        rows.append(row)
    none: Cells = [NONE, None]
    for _, of, digits in _SWEPT:
        none += [None if of is _waf else runs.mean(NONE, of=of, digits=digits), None]
    return Table(f"Figures 4 to 7, stand-in for {name}: means over seeds", columns, [none, *rows])


def _reduction_table(results: Results) -> Table:
    columns = ["stand-in for", "MiB"]
    for what, _, _ in _SWEPT:
        columns += [f"{what} (%)", "+-"]
    rows: list[Cells] = []
    for name in NAMES:
        runs = _Runs(results, f"sweep-{name}")
        for mib in _MIB[results.size]:
            row: Cells = [name, float(mib)]
            for _, of, _ in _SWEPT:
                saved = runs.saved((_label(BASIC, mib),), (_label(CDM, mib),), of)
                row += [_mean(saved, 2), _spread(saved, 2)]
            rows.append(row)
    return Table("What CDM saves; +- is the standard deviation over seeds", columns, rows)


# Pages that collection has skipped; of those written back later; of those still in the cache alone at the end.
_DEFERRED = ("gc.pages_skipped", "nvm.evictions_collector_dirty", "nvm.collector_dirty_at_end")


def _data_programs(row: Row) -> float:
    return _waf_host(row) * _value(row, "host.write_pages")


def _deferred_table(results: Results) -> Table:
    """How much of what is not copied is work put off."""
    columns = (
        "stand-in for", "MiB", "copies saved", "pages skipped", "of those written back later",
        "still in the cache alone", "put off (% of copies saved)", "copies in flash dropped early",
        "programs saved in all",
    )  # fmt: skip
    rows: list[Cells] = []
    for name in NAMES:
        runs = _Runs(results, f"sweep-{name}")
        for mib in _MIB[results.size]:
            pairs = [
                [runs.mean(_label(scheme, mib), of=of, digits=0) for of in (_copies, _data_programs)]
                for scheme in (BASIC, CDM)
            ]
            skipped, later, left = (runs.mean(_label(CDM, mib), of=_of(each), digits=0) for each in _DEFERRED)
            dropped = runs.mean(_label(CDM, mib), of=_of("nvm.copies_dropped"), digits=0)
            (copied, programmed), (copied_by_cdm, programmed_by_cdm) = pairs
            saved = None if copied is None or copied_by_cdm is None else copied - copied_by_cdm
            gained = None if programmed is None or programmed_by_cdm is None else programmed - programmed_by_cdm
            part = None if not saved or later is None or left is None else round(100 * (later + left) / saved, 1)
            rows.append([name, float(mib), saved, skipped, later, left, part, dropped, gained])
    return Table("How much of the gain is work put off", columns, rows)


def _free_table(results: Results) -> Table:
    columns = ["stand-in for", "MiB"]
    columns += [f"{what}, removable pages {reading} (%)" for what, _, _ in _SWEPT for reading in ("count", "are free")]
    rows: list[Cells] = []
    for name in NAMES:
        frames = _Runs(results, f"sweep-{name}"), _Runs(results, f"free-{name}")
        for mib in _MIB[results.size]:
            before = frames[0].rows.get((_label(BASIC, mib),), {}).get(1)
            if not frames[1].rows:
                continue
            both = [
                of.rows.get((_label(scheme, mib),), {}).get(1) for of, scheme in zip(frames, (CDM, FREE), strict=True)
            ]
            row: Cells = [name, float(mib)]
            for _, of, _ in _SWEPT:
                row += [
                    None
                    if before is None or after is None or not of(before)
                    else round(100 * (1 - of(after) / of(before)), 2)
                    for after in both
                ]
            rows.append(row)
    return Table("What CDM saves by both readings of removable pages, seed 1", columns, rows)


def _whole_table(results: Results) -> Table:
    columns = ["workload", "MiB"]
    for what, _, _ in _SWEPT:
        columns += [f"{what}, saved in an eighth (%)", "in the whole (%)"]
    rows: list[Cells] = []
    for name in NAMES:
        runs = _Runs(results, f"sweep-{name}"), _Runs(results, f"whole-{name}")
        kind = _whole(name)[1]
        for mib in _WHOLE_MIB:
            row: Cells = [name if kind == "recording" else f"stand-in for {name}", float(mib)]
            for _, of, _ in _SWEPT:
                row += [_mean(each.saved((_label(BASIC, mib),), (_label(CDM, mib),), of), 2) for each in runs]
            rows.append(row)
    return Table("An eighth of the planes under an eighth of the load, and the whole drive", columns, rows)


def _spares_table(results: Results) -> Table:
    columns = ("stand-in for", "spare (%)", "MiB", *(f"{what} (%)" for what, _, _ in _SWEPT), "copies, NVM alone")
    rows: list[Cells] = []
    for name in NAMES:
        runs = _Runs(results, f"spares-{name}")
        for spare in SPARES[results.size]:
            for mib in _MIB[results.size] if results.size == "full" else _WHOLE_MIB:
                one, other = (f"{_label(scheme, mib)}, {spare} %" for scheme in (BASIC, CDM))
                if (one,) not in runs.rows:
                    continue
                saved = [_mean(runs.saved((one,), (other,), of), 2) for _, of, _ in _SWEPT]
                rows.append([name, float(spare), float(mib), *saved, runs.mean(one, of=_copies, digits=0)])
    return Table("What CDM saves in the published 32 GiB, by spare space; at 15 % addresses are folded", columns, rows)


def _untrimmed_table(results: Results) -> Table:
    runs = _Runs(results, "untrimmed")
    columns = (
        "MiB",
        *(f"{what} saved (%)" for what, _, _ in _SWEPT),
        "copies, NVM alone",
        "copies in flash dropped early",
    )
    rows: list[Cells] = []
    for mib in _MIB[results.size] if results.size == "full" else _WHOLE_MIB:
        one, other = _label(BASIC, mib), _label(CDM, mib)
        if (one,) not in runs.rows:
            continue
        saved = [_mean(runs.saved((one,), (other,), of), 2) for _, of, _ in _SWEPT]
        copied, dropped = runs.mean(one, of=_copies, digits=0), runs.mean(other, of=_of("nvm.copies_dropped"), digits=0)
        rows.append([float(mib), *saved, copied, dropped])
    return Table("What CDM saves on the stand-in for JEDEC without its trims, seed 1", columns, rows)


def _fractions_table(results: Results) -> Table:
    columns = (
        "stand-in for", "NVM (% of the footprint)", "hits (%)", *(f"{what} saved (%)" for what, _, _ in _SWEPT),
        "writes to a frame, NVM alone", "writes to a frame, CDM", "times the footprint written by the host",
    )  # fmt: skip
    rows: list[Cells] = []
    for name in NAMES:
        runs, touched = _Runs(results, f"fractions-{name}"), _PARTS[results.size].bytes(TABLE_1[name][-1] * 1e9)
        for fraction in FRACTIONS[results.size]:
            one, other = (f"{scheme}, {fraction:.1%}" for scheme in (BASIC, CDM))
            if (one,) not in runs.rows:
                continue
            saved = [_mean(runs.saved((one,), (other,), of), 2) for _, of, _ in _SWEPT]
            hits = runs.mean(other, of=_of(_HITS, 100))
            writes = [runs.mean(place, of=_of("nvm.writes_per_frame"), digits=1) for place in (one, other)]
            rounds = runs.mean(one, of=_of("host.write_pages", _PAGE_BYTES / touched))
            rows.append([name, round(100 * fraction, 1), hits, *saved, *writes, rounds])
    return Table("Beyond the paper: size of the NVM, and what it has to endure", columns, rows)


def _memories_table(results: Results) -> Table:
    columns = ["stand-in for", "read and write of a frame (us)"]
    columns += [f"{what}, {scheme} (ms)" for what in ("mean", "p99", "p99.9") for scheme in (BASIC, CDM)]
    rows: list[Cells] = []
    for name in NAMES:
        runs = _Runs(results, f"memories-{name}")
        for memory in MEMORIES:
            row: Cells = [name, memory]
            places = [f"{scheme}, {memory}" for scheme in (BASIC, CDM)]
            if (places[0],) not in runs.rows:
                continue
            row += [runs.mean(place, of=_response, digits=4) for place in places]
            for point in ("p99", "p999"):
                key = f"latency_ns.all.{point}"
                row += [runs.mean(place, of=_of(key, 1e-6), digits=4) for place in places]
            rows.append(row)
    return Table(f"Beyond the paper: from DRAM to slow NVM, {_MIDDLE_MIB} MiB", columns, rows)


def _messages_table(results: Results) -> Table:
    runs = _Runs(results, "messages")
    columns = ("NVM", "messages", "pages copied", "mean (ms)", "p99 (ms)", "p99.9 (ms)")
    rows: list[Cells] = []
    for label in (_INSIDE, *(_in_host_label(us) for us in MESSAGES[results.size])):
        for row in runs.rows.get((label,), {}).values():
            points = [round(_value(row, f"latency_ns.all.{point}") / 1e6, 4) for point in ("p99", "p999")]
            rows.append([label, row.get("nvm.messages"), _copies(row), round(_response(row), 4), *points])
    return Table(
        f"Chapter III, discussed only: the cache in the host, CDM, stand-in for OLTP, {_MIDDLE_MIB} MiB", columns, rows
    )


def _together_table(results: Results) -> Table:
    runs = _Runs(results, "together")
    columns = (
        "drive", "cache", "pages copied", "pages skipped", "programs for a host page", "backups", "map cache hits (%)",
        "mean (ms)", "p99 (ms)", "p99.9 (ms)",
    )  # fmt: skip
    rows: list[Cells] = []
    for label in TOGETHER:
        for scheme in (NONE, BASIC, CDM):
            for row in runs.rows.get((f"{label}: {scheme}",), {}).values():
                points = [round(_value(row, f"latency_ns.all.{point}") / 1e6, 4) for point in ("p99", "p999")]
                rows.append([
                    label, scheme, _copies(row), _value(row, "gc.pages_skipped"),
                    round(_value(row, "write_amplification.total"), 3), row.get("lsb_backup.pages"),
                    round(100 * _value(row, "map_cache.hit_ratio"), 2) if row.get("map_cache.hit_ratio") else None,
                    round(_response(row), 4), *points,
                ])  # fmt: skip
    return Table(
        f"Beyond the paper: schemes of four papers in one drive, stand-in for OLTP, {_MIDDLE_MIB} MiB", columns, rows
    )


def _recorded_table(results: Results) -> Table:
    runs = _Runs(results, "recorded", "trace")
    traces = list(dict.fromkeys(place[1] for place in runs.rows))
    part = _RECORDED_PART
    columns = (
        "recording", "MiB", "hits (%)", "copies, NVM alone", "copies, CDM",
        *(f"{what} saved (%)" for what, _, _ in _SWEPT),
    )  # fmt: skip
    rows: list[Cells] = []
    for trace in traces:
        for mib in _RECORDED_MIB:
            if (_label(CDM, mib), trace) not in runs.rows:
                continue
            one, other = ((_label(scheme, mib), trace) for scheme in (BASIC, CDM))
            hits = runs.mean(*other, of=_of(_HITS, 100))
            copies = [runs.mean(*place, of=_copies, digits=0) for place in (one, other)]
            saved = [_mean(runs.saved(one, other, of), 2) for _, of, _ in _SWEPT]
            rows.append([trace, float(part.bytes(mib << 20) >> 20), hits, *copies, *saved])
    return Table("Recordings at hand, on a drive of 640 MiB", columns, rows)


def _tables(results: Results) -> list[Table]:
    tables = [
        _table_1(results),
        _capacity_table(results),
        *(_sweep_table(results, name) for name in NAMES),
        _reduction_table(results),
        _deferred_table(results),
        _transitions_table(results),
    ]
    if results.size != "test":
        tables += [
            _free_table(results),
            _untrimmed_table(results),
            _spares_table(results),
            _fractions_table(results),
            _memories_table(results),
        ]
        tables += [_messages_table(results), _together_table(results), _recorded_table(results)]
    if results.size == "full":
        tables.append(_whole_table(results))
    return [table for table in tables if table.rows]


# Figures ----------------------------------------------------------------------------------------------------------

STATES = {
    "U": "nowhere",
    "S0": "only in flash",
    "S1": "in both, clean",
    "S2": "only in the cache",
}
# From, to, and what happens.
Move = tuple[str, str, str]


def transitions(row: Row) -> dict[Move, float]:
    """How often pages went from one state to another in a run with CDM, by what happened."""

    def of(key: str) -> float:
        return _value(row, f"nvm.{key}")

    new, unknown = of("write_misses_unmapped"), of("read_misses_unmapped")
    return {
        ("U", "U", "read"): unknown,
        ("U", "S2", "write"): new,
        ("S0", "S1", "read"): of("read_misses") - unknown,
        ("S0", "S2", "write"): of("write_misses") - new,
        ("S0", "S0", "copied"): _value(row, "gc.pages_copied"),
        ("S0", "U", "trim"): of("trimmed_in_flash"),
        ("S1", "S1", "read"): of("read_hits_clean"),
        ("S1", "S2", "write"): of("write_hits_clean"),
        ("S1", "S2", "collected"): _value(row, "gc.pages_skipped"),
        ("S1", "S0", "evicted"): of("clean_evicted"),
        ("S1", "U", "trim"): of("trimmed_clean"),
        ("S2", "S2", "read"): of("read_hits") - of("read_hits_clean"),
        ("S2", "S2", "write"): of("write_hits") - of("write_hits_clean"),
        ("S2", "S0", "evicted"): of("evictions_host_dirty") + of("evictions_collector_dirty"),
        ("S2", "U", "trim"): of("trimmed_dirty"),
    }


def _met(results: Results) -> dict[str, dict[Move, float]]:
    """The moves of the first run of each workload with the middle cache, or with the largest one that was run."""
    mib = min(_MIB[results.size], key=lambda each: abs(each - _MIDDLE_MIB))
    found = {}
    for name in NAMES:
        rows = _Runs(results, f"sweep-{name}").rows.get((_label(CDM, mib),), {})
        if rows:
            found[name] = transitions(rows[min(rows)])
    return found


def _transitions_table(results: Results) -> Table:
    met = _met(results)
    moves = [move for move in transitions({}) if any(of[move] for of in met.values())]
    rows: list[Cells] = [[*move, *(of[move] for of in met.values())] for move in moves]
    columns = ("from", "to", "event", *(f"pages, stand-in for {name}" for name in met))
    return Table("Figure 3: states and transitions that were met", columns, rows)


_PLACES = {"U": (0.0, 0.0), "S0": (3.4, 0.0), "S1": (3.4, 2.6), "S2": (0.0, 2.6)}


def _arrow(axis: Axes, start: str, end: str, text: str) -> None:
    (x, y), (to_x, to_y) = _PLACES[start], _PLACES[end]
    if start == end:
        side = -1 if x == 0 else 1
        axis.annotate(
            "", (x + 0.55 * side, y - 0.12), (x + 0.55 * side, y + 0.12),
            arrowprops={"arrowstyle": "->", "connectionstyle": f"arc3,rad={-1.6 * side}"},
        )  # fmt: skip
        axis.text(x + 1.0 * side, y, text, ha="right" if side < 0 else "left", va="center", fontsize="x-small")
        return
    length = math.hypot(to_x - x, to_y - y)
    along, across = ((to_x - x) / length, (to_y - y) / length), ((to_y - y) / length, -(to_x - x) / length)
    shift = 0.16
    ends = [
        (px + sign * 0.62 * along[0] + shift * across[0], py + sign * 0.42 * along[1] + shift * across[1])
        for (px, py), sign in (((x, y), 1), ((to_x, to_y), -1))
    ]
    axis.annotate("", ends[1], ends[0], arrowprops={"arrowstyle": "->"})
    part = 0.3 if x == to_x else 0.5 if y == to_y else 0.75
    place = [one + part * (other - one) for one, other in zip(*ends, strict=True)]
    # Beside the arrow, on its own side: the opposite arrow is on the other.
    upright = abs(across[0]) > abs(across[1]) / 2
    axis.text(place[0] + 0.08 * across[0], place[1] + (0.0 if upright else 0.2 * across[1]), text, fontsize="x-small",
              ha=("left" if across[0] > 0 else "right") if upright else "center", va="center")  # fmt: skip


def _states_figure(results: Results) -> Figure | None:
    """Figure 3, from what the runs met and nothing else."""
    from matplotlib.figure import Figure

    met = _met(results)
    if not met:
        return None
    figure = Figure(figsize=(9.0, 5.4), layout="constrained")
    axis = figure.subplots()
    together: dict[tuple[str, str], list[str]] = {}
    for move in transitions({}):
        counts = [of[move] for of in met.values()]
        if any(counts):
            text = f"{move[2]}: {' / '.join(f'{count:,.0f}' for count in counts)}"
            together.setdefault(move[:2], []).append(text)
    for (start, end), texts in together.items():
        _arrow(axis, start, end, "\n".join(texts))
    reached = {state for pair in together for state in pair}
    for state in reached:
        x, y = _PLACES[state]
        axis.text(x, y, f"{state}\n{STATES[state]}", ha="center", va="center", fontsize="small",
                  bbox={"boxstyle": "round,pad=0.5", "facecolor": "#dce9f5", "edgecolor": "black"})  # fmt: skip
    axis.set_title(f"Pages that went, stand-ins for {' / '.join(met)}", fontsize="medium")
    axis.set_xlim(-2.4, 5.8)
    axis.set_ylim(-0.8, 3.4)
    axis.set_axis_off()
    return figure


def _lines(results: Results, of: Callable[[Row], float], key: str, title: str, name: str) -> Figure | None:
    rows = [
        (float(mib << 20), scheme, f"stand-in for {workload}", seed, of(row))
        for workload in NAMES
        for scheme in (BASIC, CDM)
        for mib in _MIB[results.size]
        for seed, row in _Runs(results, f"sweep-{workload}").rows.get((_label(scheme, mib),), {}).items()
    ]
    if not rows:
        return None
    columns = ("nvm.bytes", "scheme", "workload", "seed", key)
    frame = {column: [row[at] for row in rows] for at, column in enumerate(columns)}
    names = {"scheme": "", "workload": "", "nvm.bytes": "NVM", key: name}
    return figures.line(
        frame, x="nvm.bytes", y=key, color="scheme", facet="workload", names=names, title=title,
        order={"scheme": [BASIC, CDM]},
    )  # fmt: skip


def _capacity_figure(results: Results) -> Figure | None:
    rows = [
        (float(gib << 30), name if name in _SYNTHETIC else f"stand-in for {name}", value)
        for name in (*_SYNTHETIC, *NAMES)
        for gib, value in zip(CAPACITIES_GIB[results.size], _capacity_values(results, name), strict=True)
        if value is not None
    ]
    if not rows:
        return None
    frame = {column: [row[at] for row in rows] for at, column in enumerate(("flash_bytes", "load", "amplification"))}
    names = {"flash_bytes": "capacity of flash", "load": "", "amplification": "write amplification"}
    title = "Write amplification by capacity, without a cache"
    return figures.line(frame, x="flash_bytes", y="amplification", color="load", names=names, title=title, note="")


def _fractions_figure(results: Results) -> Figure | None:
    rows = [
        (fraction, f"stand-in for {name}", saved)
        for name in NAMES
        for runs in [_Runs(results, f"fractions-{name}")]
        for fraction in FRACTIONS[results.size]
        for saved in runs.saved((f"{BASIC}, {fraction:.1%}",), (f"{CDM}, {fraction:.1%}",), _copies)
    ]
    if not rows:
        return None
    frame = {column: [row[at] for row in rows] for at, column in enumerate(("share", "workload", "saved"))}
    names = {"share": "NVM, part of the footprint", "saved": "copies saved (%)", "workload": ""}
    title = "Copies that CDM saves, by size of the NVM"
    return figures.line(frame, x="share", y="saved", color="workload", names=names, title=title, note="", log="x")


def _figures(results: Results) -> dict[str, Figure]:
    drawn = {
        "fig1-capacity": _capacity_figure(results),
        "fig3-states": _states_figure(results),
        "fig4-copies": _lines(results, _copies, "copies", "Pages copied by collection", "pages copied"),
    }
    # The others are drawn as figure 4 is: tests need not do it again.
    if results.size != "test":
        drawn |= _more_figures(results)
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _more_figures(results: Results) -> dict[str, Figure | None]:
    return {
        "fig5-write-amplification": _lines(
            results, _waf, "amplification", "Write amplification", "programs for a host-dirty eviction"
        ),
        "fig6-mean": _lines(results, _response, "mean_ms", "Mean response of reads and writes", "mean response"),
        "fig7-deviation": _lines(results, _deviation, "deviation_ms", "Deviation of the response", "deviation"),
        "beyond-size": _fractions_figure(results),
    }


_SETUP = (
    "Drive: preset msr-ssd-40g: the source's simulator at its defaults, with 40 GiB of flash, 15 % of it spare.",
    "Preparation: full, then sequential writes until 5 % of the blocks are free. The cache is empty at the start.",
    "One plane of each of the eight channels, under an eighth of requests, addresses and cache, at the same rate.",
    "Sizes of caches are those of the whole drive. The full run has the whole drive beside it, with one seed.",
    "Workloads are stand-ins, called so wherever their results stand.",
    "Recordings take their place in the runs of the whole drive, where the folder of traces has them.",
    "JEDEC: one request after the other. OLTP: at the times of the stand-in.",
    "Full: ten seeds of what is published, one seed of what is beyond it. With --quick: one seed and fewer sizes.",
    "Write amplification: pages programmed for data, for each page written back because the host had changed it.",
    "The other way, for each page that the host wrote, stands beside it. Summary pages are left out of both.",
)
_ASSUMED = (
    "Sizes of the cache: 64 MiB to 4 GiB. The source does not state them.",
    "Removable pages count as live when a victim is chosen; the other reading stands beside it.",
    "A flush is nothing to do for either cache: both are durable.",
    "The memory takes no time beside the link of the host. The table of memories has others.",
    "40 GiB, because what the traces touch does not fit the published 32 GiB with 15 % spare.",
    "The published capacity is in the table of spare space.",
    "Averages are over the sizes that are run, of the means over seeds.",
    "Responses are from hand-over to completion: in the sweep no request waits in the host before that.",
)

PAPER = Paper(
    name="nvm-cdm",
    title="Cooperative data management of a non-volatile cache and flash",
    source="Lee, Jeong, Bahn: NVM-based write amplification reduction to avoid performance fluctuation of flash "
    "storage, IIBC 16(4), 2016, chapters II to IV (table 1, figures 1 and 3 to 7)",
    setup=_SETUP,
    assumed=_ASSUMED,
    studies=_studies,
    claims=_claims,
    tables=_tables,
    figures=_figures,
    statistics=_statistics,
)
