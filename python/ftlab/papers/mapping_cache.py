"""Mapping caches: fetch windows that adapt to the locality of the accesses, and what the study leaves open."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ftlab import _native
from ftlab._device import Device
from ftlab._workload import Trace, Workload
from ftlab.errors import ConfigError
from ftlab.papers import window_regret as regret
from ftlab.papers.frame import Claim, Paper, Results, Size, Table, judge
from ftlab.papers.window_regret import CLOSED_UP, PENALTY, Measured

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ftlab._statistics import TraceStats

MODEL, CHIP = "map-cache-model", "map-cache-chip"
# Figures 3 and 4, and what the study proposes: Table 3 and figures 5 and 6.
LARGE_KIB, SMALL_KIB = (32, 64, 128, 256, 512), regret.SMALL_KIB
SIZES_KIB = tuple(sorted({*LARGE_KIB, *SMALL_KIB}))
_DRIVE_KIB = 32
# At most so many requests of a workload. A stand-in that is cut has no longer the statistics of its recording.
_REQUESTS: dict[Size, int] = {"full": 1 << 32, "quick": 300_000, "test": 300}
_DRIVE_REQUESTS: dict[Size, int] = {"full": 100_000, "quick": 10_000, "test": 200}

# Tolerances: of a cell of Table 3 in points, of a Table 2 number in percent, and of "falls nowhere".
_POINTS, _OFF, _FEW = 10.0, 5.0, 0.05
# Below half a percent the study would print 0 %; below a twentieth of a point two hit ratios are one.
_EQUAL, _SAME = 0.5, 0.05
# The penalties that Table 3 implies differ by that much through its rounding.
_ROUNDING = 0.04
# Up to here TPFTL is said to cost least on the stand-in for Financial.
_TPFTL_KIB = 128
# A ratio that Table 3 implies, and that of a stand-in; and of cells what "nearly everywhere" is.
_NEAR, _NEARLY = 0.1, 0.9


class Row(NamedTuple):
    """A row of Table 2; GB are GiB."""

    address_gib: float
    request_gib: float
    requests: int
    ftl_requests: int
    read_percent: float
    mean_kib: float


TABLE_2 = {
    "PC": Row(778.2, 11.7, 253_773, 1_537_515, 67.8, 21),
    "TPC-C 1": Row(32.0, 2.6, 271_707, 3_094_854, 7.9, 46),
    "TPC-C 2": Row(32.0, 2.6, 292_948, 2_677_233, 12, 37),
    "Financial": Row(3.7, 0.5, 5_334_946, 9_156_818, 0, 3),
}
# Percent by which the balanced score board lowers the mean penalty, at 16, 32 and 64 KiB.
TABLE_3 = {
    "PC": {"Half": (15, 3, 5), "Full": (11, -13, -24)},
    "TPC-C": {"Half": (19, -2, -40), "Full": (11, -6, -8)},
    "Financial": {"Half": (70, 66, 41), "Full": (69, 69, 63)},
}
_STAND_INS = {"PC": "like-pc", "TPC-C 1": "like-tpcc1", "TPC-C 2": "like-tpcc2", "Financial": "like-financial"}
# Of stand-ins, besides their own.
_SEEDS = (2, 3)
# In the size for tests.
_TESTED = ("PC",)


def _class(name: str) -> str:
    return name.removesuffix(" 1").removesuffix(" 2")


# Schemes ----------------------------------------------------------------------------------------------------------


def _scheme(label: str, **map_cache: Any) -> dict[str, Any]:
    # Room for every workload once it is closed up; schemes that look at addresses keep a table of all.
    return {"extends": MODEL, "label": label, "ftl": {"logical_bytes": "64GiB"}, "map_cache": map_cache}


WINDOWS = (8, 16, 32, 64, 128, 256)
FIXED = [
    _scheme("DFTL", kind="dftl"),
    *(_scheme(f"TaFP {window}", kind="tafp", window_bytes=window) for window in WINDOWS),
    _scheme("Half", kind="half_page"),
    _scheme("Full", kind="full_page"),
]
# Each window by its own origin, which text and outcome support best; and the text taken at its word.
BSB = _scheme("BSB", kind="bsb")
NEAREST = _scheme("BSB, nearest run", kind="bsb", board="nearest_run")
# What this project adds.
GHOSTS = [
    _scheme("Ghosts", kind="ghosts"),
    _scheme("Ghosts, requests", kind="ghosts", candidates=["r16", "r64", "r256", "half_page", "full_page"]),
    _scheme("Ghosts, whole rate", kind="ghosts", sampling=False, charge_ghosts=False),
]
LEARNING: list[str] = [scheme["label"] for scheme in [BSB, NEAREST, *GHOSTS]]
# What the study says of its board is judged for each of these; ids begin so.
CHOOSERS = {"BSB": "", "BSB, nearest run": "nearest-", "Ghosts": "ghosts-"}
_BOARDS = [*CHOOSERS][:2]
_FIXED_NAMES: list[str] = [scheme["label"] for scheme in FIXED]
# What BSB calls its candidates.
CANDIDATES = {**{f"tafp_{window}": f"TaFP {window}" for window in WINDOWS}, "half_page": "Half", "full_page": "Full"}
_WEIGHT = 0.999
_NAMES = {"sftl": "S-FTL", "tpftl": "TPFTL", "cdftl": "CDFTL", "leaftl": "LeaFTL", "cftl": "CFTL"}


def others() -> list[dict[str, Any]]:
    """Every kind of mapping cache that the study does not plot, at its defaults."""
    plotted = {"ideal", *(scheme["map_cache"]["kind"] for scheme in [*FIXED, BSB, *GHOSTS])}
    kinds = [row["name"] for row in _native.schemes() if row["key"] == "map_cache.kind"]
    return [_scheme(_NAMES.get(kind, kind), kind=kind) for kind in kinds if kind not in plotted]


VARIANTS: dict[str, dict[str, Any]] = {
    "weight 0.9": {"score_weight": 0.9},
    "weight 0.99": {"score_weight": 0.99},
    "weight 0.9999": {"score_weight": 0.9999},
    "a choice every 100 accesses": {"decision_interval": 100},
    "a choice every 10,000 accesses": {"decision_interval": 10_000},
    "window with the entry asked for": {"window_inclusive": True},
    "not balanced": {"balanced": False},
}
# These concern what BSB is compared with too.
SHARED_VARIANTS: dict[str, dict[str, Any]] = {
    "headers charged": {"charge_headers": True},
    "all changes of a page written": {"flush_coalesce": True},
}


def _variants() -> list[dict[str, Any]]:
    own = [_scheme(f"BSB, {name}", **BSB["map_cache"], **keys) for name, keys in VARIANTS.items()]
    shared = [
        _scheme(f"{scheme['label']}, {name}", **scheme["map_cache"], **keys)
        for name, keys in SHARED_VARIANTS.items()
        for scheme in [*FIXED[-2:], BSB]
        # Whole pages are written with all their changes anyway.
        if not (scheme["label"] == "Full" and "flush_coalesce" in keys)
    ]
    return own + shared


def _refused(schemes: Iterable[dict[str, Any]], sizes_kib: Iterable[int]) -> list[str]:
    """Conditions that leave out the sizes that a scheme cannot have."""
    conditions = []
    for scheme in schemes:
        for kib in sizes_kib:
            try:
                Device.load(MODEL).with_(map_cache={**scheme["map_cache"], "bytes": kib << 10})
            except ConfigError:
                conditions.append(f'device != "{scheme["label"]}" or map_cache.bytes != {kib << 10}')
    return conditions


# Workloads --------------------------------------------------------------------------------------------------------


_ON_THE_DRIVE = ("Financial1, first 50,000, own operations", "MSR prxy_0, first 20,000", "MSR rsrch_1", "MySQL server")


def _financial() -> Trace | None:
    """The whole recording of Financial1, where it is at hand."""
    recording = Workload.load(_STAND_INS["Financial"]).recording()
    if recording is None:
        return None
    return Trace(recording.path, recording.format, volumes="concat").set_op("write")


def _workload(name: str) -> Trace | Workload:
    return (_financial() if name == "Financial" else None) or Workload.load(_STAND_INS[name])


def _entry(name: str, size: Size) -> dict[str, Any]:
    recording = _financial() if name == "Financial" else None
    keys = {"extends": _STAND_INS[name]} if recording is None else recording.keys()
    # Only the addresses of PC need it; elsewhere it would read the source once more for nothing.
    steps = {"transform": [CLOSED_UP]} if name == "PC" else {}
    return {**keys, **steps, "requests": _requests(name, size), "label": name}


def _requests(name: str, size: Size) -> int:
    return min(_REQUESTS[size], TABLE_2[name].requests)


def _names(size: Size) -> tuple[str, ...]:
    return _TESTED if size == "test" else tuple(TABLE_2)


@lru_cache
def _statistics(size: Size) -> dict[str, TraceStats]:
    from ftlab._statistics import trace_stats

    return {name: trace_stats(_workload(name), requests=_requests(name, size), reuse="off") for name in _names(size)}


# Studies ----------------------------------------------------------------------------------------------------------


def _studies(size: Size) -> list[dict[str, Any]]:
    sizes = SIZES_KIB if size != "test" else (SMALL_KIB[0], SMALL_KIB[-1])
    small = [kib for kib in sizes if kib in SMALL_KIB]
    # At whole rate ghosts take longer than all else together.
    schemes = [*FIXED, BSB, NEAREST, *(GHOSTS if size == "full" else GHOSTS[:2]), *others()]
    windows = [*FIXED[1:], BSB, NEAREST, *GHOSTS]

    def study(name: str, devices: list[dict[str, Any]], kib: Sequence[int], **keys: Any) -> dict[str, Any]:
        axes = {"map_cache.bytes": [each << 10 for each in kib]}
        return {
            "name": name,
            "device": devices,
            "axes": axes,
            "where": _refused(devices, kib),
            "options": {"timing": False},
            # A few hundred requests need no more.
            "set": {"ftl.logical_bytes": "4GiB"} if size == "test" else {},
            **keys,
        }

    workloads = [_entry(name, size) for name in _names(size)]
    studies = [study("sweep", schemes, sizes, workload=workloads)]
    if size == "test":
        return [*studies, _drive(size)]
    studies.append(study("open-parameters", _variants(), small, workload=workloads))
    if size == "full":
        deciding = [*FIXED[-2:], BSB, NEAREST, GHOSTS[0]]
        studies.append(study("other-seeds", deciding, small, workload=workloads, seeds=list(_SEEDS)))
        cut = {"requests": regret.STAND_IN_REQUESTS, "transform": [CLOSED_UP]}
        elsewhere = [{"extends": name, **cut, "label": name} for name in regret.STAND_INS]
        studies.append(study("stand-ins", windows, sizes, workload=elsewhere))
    own = _own_operations("own operations", _requests("Financial", size))
    studies.append(study("own-operations", [*FIXED[-2:], BSB], small, workload=[own]))
    recordings = (*regret.RECORDINGS, *regret.MORE) if size == "full" else regret.RECORDINGS
    if traces := regret.recorded(recordings):
        # The MSN file server touches 82 GiB of translation pages.
        room = {"set": {"ftl.logical_bytes": "128GiB"}} if size == "full" else {}
        studies.append(study("recorded", schemes, sizes if size == "full" else small, trace=traces, **room))
    on_the_drive = _ON_THE_DRIVE if size == "full" else _ON_THE_DRIVE[:2]
    if at_hand := regret.recorded(each for each in recordings if each.label in on_the_drive):
        # What is longer is cut.
        traces = [{**trace, "requests": _DRIVE_REQUESTS[size]} for trace in at_hand]
        studies.append({**_drive(size), "name": "drive-recorded", "trace": traces})
        del studies[-1]["workload"]
    if size == "full" and (long := regret.recorded(each for each in recordings if regret.is_long(each.label))):
        # One request at a time: where requests queue, a mean is made by a few bursts.
        devices = [_full_drive(size, scheme, host={"arrival": "closed"}) for scheme in windows]
        axes = {"map_cache.bytes": [kib << 10 for kib in SMALL_KIB]}
        studies.append({"name": "drive-long", "device": devices, "axes": axes, "trace": long})
    return [*studies, _drive(size)]


def _own_operations(label: str, requests: int) -> dict[str, Any]:
    recording = Workload.load(_STAND_INS["Financial"]).recording()
    if recording is not None:
        own = Trace(recording.path, recording.format, volumes="concat")
        return {**own.keys(), "requests": requests, "label": label}
    keys = {"oltp_financial": {"all_writes": False}, "requests": requests}
    return {"extends": _STAND_INS["Financial"], **keys, "label": label}


def _full_drive(size: Size, scheme: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    """A drive of 1 GiB behind eight of the chips, full and in its steady state from the first write."""
    cache = {"kind": "ideal"} if scheme is None else {**scheme["map_cache"], "bytes": _DRIVE_KIB << 10}
    return {
        "extends": CHIP,
        "geometry": {"channels": 1 if size == "test" else 8, "blocks_per_plane": 128},
        "ftl": {"over_provisioning": 0.25, "gc_low_free_blocks": 7},
        "precondition": {"kind": "steady", "pattern": "uniform", "tolerance": 0.02, "max_drive_writes": 10},
        "label": "ideal" if scheme is None else scheme["label"],
        "map_cache": cache,
        **keys,
        "host": {"arrival": "open", "out_of_range": "wrap", **keys.get("host", {})},
    }


def _drive(size: Size) -> dict[str, Any]:
    plotted = [scheme for scheme in FIXED if scheme["label"] in ("DFTL", "TaFP 64", "Half", "Full")]
    schemes = [None, *plotted, BSB, NEAREST, GHOSTS[0], *others()]
    devices = [_full_drive(size, scheme) for scheme in schemes]
    return {
        "name": "drive",
        "device": devices[:2] if size == "test" else devices,
        "workload": [_own_operations("like-financial, own operations", _DRIVE_REQUESTS[size])],
    }


# What was measured ------------------------------------------------------------------------------------------------

_HITS = "map_cache.hit_ratio"


def _each_seed(results: Results, column: str) -> list[Measured]:
    """A column of the stand-ins as they are, and with each other seed that was run."""
    others = [Measured(results, "other-seeds", column, seed=seed) for seed in _SEEDS]
    return [Measured(results, "sweep", column), *(other for other in others if other.values)]


def _for_each(results: Results) -> str:
    """What a tolerance says of seeds: nothing where there is one."""
    seeds = len(_each_seed(results, PENALTY))
    return f", for each of {seeds} seeds" if seeds > 1 else ""


def _round(value: float | None, digits: int = 1) -> float | None:
    # Without the sign of a zero.
    return None if value is None else round(value, digits) + 0.0


def _missing(results: Results) -> str:
    if results.errors:
        return "not measured: a run failed, see the report"
    return "not part of this size" if results.size == "test" else "not run"


def _windows(results: Results, workload: str, kib: int, who: str = "BSB") -> dict[str, float]:
    """Shares of the misses at which each window was chosen."""
    counts = {
        name: Measured(results, "sweep", f"map_cache.windows.{window}").at(workload, who, kib) or 0.0
        for window, name in CANDIDATES.items()
    }
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()} if total else {}


def _chosen(results: Results, workload: str, kib: int, who: str = "BSB") -> str:
    shares = _windows(results, workload, kib, who)
    if not shares:
        return "nothing was chosen"
    most = max(shares, key=shares.__getitem__)
    return f"{who} chose {most} at {shares[most]:.1%} of the misses"


# Claims -----------------------------------------------------------------------------------------------------------


def _slug(name: str) -> str:
    return name.lower().replace(" ", "").replace("-", "")


def _cell(results: Results, name: str, over: str, at: int, who: str) -> Claim:
    kib, published = SMALL_KIB[at], TABLE_3[_class(name)][over][at]
    gains = [penalty.gain(name, over, kib, who) for penalty in _each_seed(results, PENALTY)]
    measured, known = gains[0], [gain for gain in gains if gain is not None]
    right = [gain for gain in known if abs(gain) >= _EQUAL and (gain > 0) == (published > 0)]
    text = f"Table 3, {name}, {kib} KiB: percent by which {who} lowers the penalty of {over}"
    agrees = measured in right and len(right) > len(known) / 2
    if measured is None:
        otherwise = _missing(results)
    else:
        how = "the same sign, another size" if agrees else "the other sign"
        how = "the sign depends on the seed" if measured in right and not agrees else how
        how = f"no difference, below {_EQUAL} %" if abs(measured) < _EQUAL else how
        other = ", ".join(f"{_round(gain, 0):.0f}" for gain in known[1:])
        otherwise = f"{how}: {_chosen(results, name, kib, who)}{f'; other seeds: {other}' if other else ''}"
    return judge(
        f"{CHOOSERS[who]}table3-{_slug(name)}-{over.lower()}-{kib}",
        text,
        published,
        _round(measured),
        holds=agrees and len(right) == len(known) and all(abs(gain - published) <= _POINTS for gain in right),
        tolerance=f"the same sign, and within {_POINTS:.0f} points{_for_each(results)}; "
        "open parameters move most by less",
        direction=agrees,
        otherwise=otherwise,
    )


def _sign(one: float, other: float, tolerance: float) -> int:
    return 0 if abs(one - other) <= tolerance * max(one, other) else (1 if one > other else -1)


def _order(results: Results, name: str, who: str) -> Claim:
    """Which of Half, Full and who chooses cost more than which, at each size."""
    published, seeds = TABLE_3[_class(name)], _each_seed(results, PENALTY)
    right, known = 0, True
    for at, kib in enumerate(SMALL_KIB):
        # In units of what chooses.
        told = {who: 1.0, **{over: 1 / (1 - published[over][at] / 100) for over in published}}
        ours = [costs for penalty in seeds if (costs := penalty.all(name, told, kib)) is not None]
        if len(ours) < len(seeds):
            known = False
            continue
        pairs = [
            pair for costs in ours for pair in zip(combinations(told.values(), 2), combinations(costs, 2), strict=True)
        ]
        # What differs by the rounding of the table has no order.
        right += all(_sign(*theirs, _ROUNDING) in (0, _sign(*mine, _EQUAL / 100)) for theirs, mine in pairs)
    measured = float(right) if known else None
    return judge(
        f"{CHOOSERS[who]}order-{_slug(name)}",
        f"Table 3, {name}: sizes at which the penalties of {who}, Half and Full stand in the published order",
        3,
        measured,
        holds=right == len(SMALL_KIB),
        tolerance=f"at all three sizes{_for_each(results)}",
        direction=right > 0,
        otherwise=_missing(results) if measured is None else f"at {right} of three sizes; see the cells for why",
    )


def _headline(results: Results, who: str) -> list[Claim]:
    penalty = Measured(results, "sweep", PENALTY)
    gains = [penalty.gain(name, over, SMALL_KIB[0], who) for name in TABLE_2 for over in ("Half", "Full")]
    known = [gain for gain in gains if gain is not None]
    whole = len(known) == len(gains)
    claims = []
    for what, published, extreme in (
        ("least", 7, min(known, default=None)),
        ("most", 70, max(known, default=None)),
    ):
        measured = extreme if whole else None
        positive = measured is not None and measured >= _EQUAL
        claims.append(
            judge(
                f"{CHOOSERS[who]}headline-{what}",
                f"At 16 KiB, {who} lowers the penalty of Half and Full by at {what} this, on all workloads (%)",
                published,
                _round(measured),
                holds=positive and measured is not None and abs(measured - published) <= _POINTS,
                tolerance=f"within {_POINTS:.0f} points",
                direction=positive,
                otherwise="lower or higher by more than the tolerance"
                if positive
                else (
                    _missing(results)
                    if measured is None
                    else f"on a workload {who} costs as much as one of them, or more"
                ),
            )
        )
    return claims


def _falls(hits: Measured) -> tuple[int, int]:
    """Steps from one size to the next at which a fixed scheme hits less, and all of them."""
    pairs = [
        (hits.at(name, scheme, one), hits.at(name, scheme, two))
        for name in TABLE_2
        for scheme in _FIXED_NAMES
        for one, two in pairwise(LARGE_KIB)
    ]
    known = [(one, two) for one, two in pairs if one is not None and two is not None]
    return sum(two < one for one, two in known), len(known) if len(known) == len(pairs) else 0


def _best(measured: Measured, name: str, kib: int, *, most: bool) -> str | None:
    values = measured.all(name, _FIXED_NAMES, kib)
    if values is None:
        return None
    return _FIXED_NAMES[values.index(max(values) if most else min(values))]


def _figure_claims(results: Results) -> list[Claim]:
    hits, penalty = Measured(results, "sweep", _HITS), Measured(results, "sweep", PENALTY)
    missing = _missing(results)
    falls, steps = _falls(hits)
    claims = [
        judge(
            "fig3-rises",
            "Figure 3: steps to a larger cache at which a fixed scheme hits less often",
            0,
            falls if steps else None,
            holds=falls == 0,
            tolerance="at none",
            direction=bool(steps) and falls / steps < _FEW,
            otherwise=missing if not steps else f"{falls} of {steps} steps",
        )
    ]
    for figure, what, measured, most in (
        (3, "hits most often", hits, True),
        (4, "has the lowest penalty", penalty, False),
    ):
        best = [[_best(measured, name, kib, most=most) for name in TABLE_2] for kib in LARGE_KIB]
        known = all(one is not None for row in best for one in row)
        least = min(len(set(row)) for row in best)
        claims.append(
            judge(
                f"fig{figure}-best",
                f"Figure {figure}: which fixed scheme {what} depends on the workload (how many, at least)",
                None,
                least if known else None,
                holds=least > 1,
                tolerance="at least two at every size",
                otherwise=missing if not known else "one scheme is the best on every workload",
            )
        )
    places = [(name, kib) for name in TABLE_2 for kib in LARGE_KIB]
    rankings = [(hits.all(name, _FIXED_NAMES, kib), penalty.all(name, _FIXED_NAMES, kib)) for name, kib in places]
    differ = [
        [name for _, name in sorted(zip([-ratio for ratio in one], _FIXED_NAMES, strict=True))]
        != [name for _, name in sorted(zip(two, _FIXED_NAMES, strict=True))]
        for one, two in rankings
        if one is not None and two is not None
    ]
    whole = len(differ) == len(places)
    claims.append(
        judge(
            "fig4-ranking",
            f"Figure 4: the ranking by penalty is not that by hit ratio (of {len(places)} workloads and sizes)",
            None,
            sum(differ) if whole else None,
            holds=sum(differ) > len(places) / 2,
            tolerance="in most of them",
            direction=any(differ),
            otherwise=missing if not whole else "the two rankings agree in most",
        )
    )
    return claims


def _figure_5_claims(results: Results, who: str) -> list[Claim]:
    hits, missing, claims = Measured(results, "sweep", _HITS), _missing(results), []
    both = [
        (hits.at(name, who, kib), hits.at(name, "Full", kib))
        for name in TABLE_2
        if name != "Financial"
        for kib in SMALL_KIB
    ]
    points = [100 * (one - two) for one, two in both if one is not None and two is not None]
    whole, lower = len(points) == len(both), sum(point < -_SAME for point in points)
    claims.append(
        judge(
            f"{CHOOSERS[who]}fig5-below-full",
            f"Figure 5: on PC and TPC-C, {who} hits less often than Full (points, mean)",
            None,
            _round(sum(points) / len(points), 3) if whole else None,
            holds=whole and lower == len(points),
            tolerance=f"by more than {_SAME} points at every size",
            direction=whole and lower > len(points) / 2,
            otherwise=missing
            if not whole
            else f"less often by {_SAME} points in {lower} of {len(points)}; PC: {_chosen(results, 'PC', 32, who)}",
        )
    )
    leads = []
    for kib in SMALL_KIB:
        rows = [each.all("Financial", (who, "Half", "Full"), kib) for each in _each_seed(results, _HITS)]
        leads += [min(100 * (row[0] - max(row[1:])) for row in rows if row is not None)] if all(rows) else []
    whole, first = len(leads) == len(SMALL_KIB), sum(lead > _SAME for lead in leads)
    claims.append(
        judge(
            f"{CHOOSERS[who]}fig5-financial",
            f"Figure 5: on Financial, {who} hits most often (points before the better of Half and Full, least)",
            None,
            _round(min(leads), 3) if whole else None,
            holds=whole and first == len(leads),
            tolerance=f"by more than {_SAME} points at every size{_for_each(results)}",
            direction=whole and first > 1,
            otherwise=missing
            if not whole
            else f"at {first} of three sizes{_for_each(results)}; at 64 KiB {_chosen(results, 'Financial', 64, who)}",
        )
    )
    return claims


def _text_claims(results: Results, who: str) -> list[Claim]:
    penalty, missing = Measured(results, "sweep", PENALTY), _missing(results)
    over_full = {name: penalty.gain(name, "Full", 64, who) for name in TABLE_2}
    known = {name: gain for name, gain in over_full.items() if gain is not None}
    whole = len(known) == len(TABLE_2)
    as_told = sum((gain >= _EQUAL) if name == "Financial" else (gain <= -_EQUAL) for name, gain in known.items())
    signs = [
        ((over, published[1] > 0), penalty.gain(name, over, 32, who))
        for name in TABLE_2
        if name != "Financial"
        for over, published in TABLE_3[_class(name)].items()
    ]
    agree = [abs(gain) >= _EQUAL and (gain > 0) == positive for (_, positive), gain in signs if gain is not None]
    return [
        judge(
            f"{CHOOSERS[who]}text-64",
            f"At 64 KiB, {who} costs more than Full, except on Financial (workloads of four)",
            4,
            as_told if whole else None,
            holds=as_told == len(TABLE_2),
            tolerance="on all four",
            direction=as_told > 1,
            otherwise=missing
            if not whole
            else "; ".join(f"{name} {_chosen(results, name, 64, who)}" for name in TABLE_2 if name != "Financial"),
        ),
        judge(
            f"{CHOOSERS[who]}text-32",
            f"At 32 KiB, {who} is better on PC in part (than Half) and not on TPC-C; on Financial it is, against the "
            f"text (signs that agree, of {len(signs)})",
            len(signs),
            sum(agree) if len(agree) == len(signs) else None,
            holds=all(agree),
            tolerance="every sign",
            direction=sum(agree) > len(signs) / 2,
            otherwise=missing if len(agree) < len(signs) else "see the cells of Table 3",
        ),
    ]


# Figure 2 and Table 2 ---------------------------------------------------------------------------------------------


def _distances(stats: TraceStats) -> dict[int, int]:
    """Hits by their distance from the access that brought their translation page in."""
    frame = stats.frames.get("intra_distance")
    if frame is None:
        return {}
    return dict(zip(frame["distance"].to_list(), frame["count"].to_list(), strict=True))


def _median(counts: dict[int, int]) -> int:
    half, seen = sum(counts.values()) / 2, 0
    for distance in sorted(counts):
        seen += counts[distance]
        if seen >= half:
            return distance
    return 0


def _distance_claims(results: Results) -> list[Claim]:
    spread = {name: _distances(results.statistics[name]) for name in TABLE_2 if name in results.statistics}
    spread = {name: counts for name, counts in spread.items() if counts}
    whole, missing = len(spread) == len(TABLE_2), _missing(results)
    built = "; the stand-ins are made to have it, so that it says nothing about the recordings"
    ahead = {name: {d: count for d, count in counts.items() if d > 0} for name, counts in spread.items()}
    share = {
        name: sum(ahead[name].values()) / max(sum(count for d, count in counts.items() if d), 1)
        for name, counts in spread.items()
    }
    zero = sum(counts.get(0, 0) == max(counts.values()) for counts in spread.values())
    least = min((share[name] for name in spread if name != "Financial"), default=0.0)
    within, beyond = _median(ahead.get("PC", {})), min((_median(ahead[n]) for n in ahead if n[0] == "T"), default=0)
    sides = share.get("Financial", 0.0)
    widest = WINDOWS[-1] // 4
    return [
        judge(
            "fig2-zero",
            "Figure 2: distance 0 is the most frequent (workloads of four)",
            4,
            zero if whole else None,
            holds=zero == len(TABLE_2),
            tolerance=f"on all four{built}",
            direction=zero > len(TABLE_2) / 2,
            otherwise=missing if not whole else "another distance is more frequent",
        ),
        judge(
            "fig2-forward",
            "Figure 2: PC and TPC-C reach forward (least share of distances other than 0)",
            None,
            _round(least, 3) if whole else None,
            holds=least > 2 / 3,
            tolerance=f"more than two thirds{built}",
            direction=least > 1 / 2,
            otherwise=missing if not whole else "less than two thirds",
        ),
        judge(
            "fig2-pc-near",
            "Figure 2: PC reaches little ahead (median entries)",
            None,
            within if whole else None,
            holds=within <= widest,
            tolerance=f"within {widest} entries, the widest forward window{built}",
            direction=within < beyond,
            otherwise=missing if not whole else f"beyond the widest forward window; TPC-C: {beyond}",
        ),
        judge(
            "fig2-tpcc-far",
            "Figure 2: TPC-C reaches far ahead (median entries, of the lower trace)",
            None,
            beyond if whole else None,
            holds=beyond > widest,
            tolerance=f"beyond {widest} entries, the widest forward window{built}",
            direction=beyond > within,
            otherwise=missing if not whole else f"within the widest forward window; PC: {within}",
        ),
        judge(
            "fig2-financial",
            "Figure 2: Financial lies on both sides (share of distances other than 0 that reach forward)",
            None,
            _round(sides, 3) if whole else None,
            holds=1 / 3 <= sides <= 2 / 3,
            tolerance=f"a third to two thirds{built}",
            otherwise=missing if not whole else "more on one side than on the other",
        ),
    ]


def _row(stats: TraceStats, name: str) -> Row:
    told = stats.summary
    # Of PC, the published range can only be counted in translation pages.
    pages = told["footprint_translation_pages"] * (4 << 20)
    return Row(
        round(told["address_range_bytes"] / 2**30, 2),
        round((pages if name == "PC" else told["footprint_bytes"]) / 2**30, 2),
        told["requests"],
        told["ftl_requests"],
        round(100 * told["read_fraction"], 2),
        round(told["mean_request_bytes"] / 1024, 2),
    )


_COLUMNS = ("address range (GiB)", "request range (GiB)", "requests", "FTL requests", "reads (%)", "mean size (KiB)")
# Half a unit of the last printed digit; sizes are printed in whole KB, cut.
_PRINTED = (0.05, 0.05, 0, 0, 0.5, 1)


def _table_2_claims(results: Results) -> list[Claim]:
    claims = []
    for name, published in TABLE_2.items():
        stats = results.statistics.get(name)
        off: dict[str, float] = {}
        if stats is not None and results.size != "test":
            for what, told, ours, half in zip(_COLUMNS, published, _row(stats, name), _PRINTED, strict=True):
                far = max(abs(ours - told) - half, 0.0)
                off[what] = 100 * far / told if told else 100 * far
        worst = max(off, key=lambda what: off[what], default="")
        measured = off.get(worst)
        claims.append(
            judge(
                f"table2-{_slug(name)}",
                f"Table 2, {name}: the number that is furthest off, beyond its last printed digit (%)",
                0,
                _round(measured),
                holds=measured is not None and measured <= _OFF,
                tolerance=f"within {_OFF:.0f} %; a stand-in is made to have these numbers",
                otherwise=_missing(results)
                if measured is None
                else f"{worst}{'; this size takes fewer requests' if results.size == 'quick' else ''}",
            )
        )
    return claims


def _ratio_claims(results: Results) -> list[Claim]:
    """What Table 3 implies of its workloads, whatever chooses: how Half stands to Full."""
    claims = []
    for name in TABLE_2:
        for at, kib in enumerate(SMALL_KIB):
            published = _ratio(name, at)
            ratios = [
                costs[0] / costs[1]
                for penalty in _each_seed(results, PENALTY)
                if (costs := penalty.all(name, ("Half", "Full"), kib))
            ]
            near = [abs(ratio - published) <= _NEAR for ratio in ratios]
            same = [(ratio > 1) == (published > 1) for ratio in ratios]
            claims.append(
                judge(
                    f"ratio-{_slug(name)}-{kib}",
                    f"Table 3, {name}, {kib} KiB: penalty of Half over that of Full, which it implies",
                    round(published, 2),
                    round(ratios[0], 2) if ratios else None,
                    holds=all(near),
                    tolerance=f"within {_NEAR}{_for_each(results)}",
                    direction=all(same),
                    otherwise=_missing(results)
                    if not ratios
                    else "the stand-in: another distance from 1"
                    if all(same)
                    else "the stand-in: on the other side of 1",
                )
            )
    return claims


def _ratio(name: str, at: int) -> float:
    """The penalty of Half over that of Full that the cells of Table 3 imply."""
    over = TABLE_3[_class(name)]
    return (1 - over["Full"][at] / 100) / (1 - over["Half"][at] / 100)


def _recorded_claims(results: Results) -> list[Claim]:
    """Table 3 with recordings in place of the study's own: another PC, and the head of the same Financial1."""
    penalty = Measured(results, "recorded", PENALTY, "trace")
    claims = []
    for short, recording, name in (
        ("desktop", "desktop", "PC"),
        ("financial1", "Financial1, first 50,000", "Financial"),
    ):
        for over, cells in TABLE_3[name].items():
            for published, kib in zip(cells, SMALL_KIB, strict=True):
                gain = penalty.gain(recording, over, kib)
                equal = gain is not None and (gain > 0) == (published > 0) and abs(gain) >= _EQUAL
                claims.append(
                    judge(
                        f"{short}-{over.lower()}-{kib}",
                        f"Table 3, {name}, with the recording {recording}, {kib} KiB: "
                        f"percent by which BSB lowers the penalty of {over}",
                        published,
                        _round(gain),
                        holds=equal and abs((gain or 0.0) - published) <= _POINTS,
                        tolerance=f"the same sign, and within {_POINTS:.0f} points",
                        direction=equal,
                        otherwise="not run: no recording is at hand"
                        if gain is None
                        else "the same sign, another size"
                        if equal
                        else "the other sign, or no difference",
                    )
                )
    return claims


def _claims(results: Results) -> list[Claim]:
    claims = []
    for who in CHOOSERS:
        claims += _headline(results, who)
        places = [(name, over, at) for name in TABLE_2 for over in ("Half", "Full") for at in range(len(SMALL_KIB))]
        claims += [_cell(results, *place, who) for place in places]
        claims += [_order(results, name, who) for name in TABLE_2]
        claims += _figure_5_claims(results, who)
        claims += _text_claims(results, who)
    return [
        *claims,
        *_recorded_claims(results),
        *_ratio_claims(results),
        *_figure_claims(results),
        *_distance_claims(results),
        *_table_2_claims(results),
        *regret.claims(results, [*CANDIDATES.values()], _missing(results)),
    ]


# Tables -----------------------------------------------------------------------------------------------------------


def _us(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1000, 1)


def _table_2(results: Results) -> Table:
    rows: list[list[str | float | None]] = []
    for name, published in TABLE_2.items():
        rows.append([name, "published", *published])
        stats = results.statistics.get(name)
        ours: Sequence[float | None] = [None] * len(_COLUMNS) if stats is None else _row(stats, name)
        rows.append(["", stats.name if stats is not None else "not run", *ours])
    return Table("Table 2: workloads", ("workload", "", *_COLUMNS), rows)


def _table_3(results: Results) -> Table:
    penalty = Measured(results, "sweep", PENALTY)
    whose = ("published", *CHOOSERS)
    columns = ("workload", "over", *(f"{kib} KiB, {what}" for kib in SMALL_KIB for what in whose))
    rows: list[list[str | float | None]] = []
    for name in TABLE_2:
        for over, published in TABLE_3[_class(name)].items():
            cells: list[float | None] = []
            for told, kib in zip(published, SMALL_KIB, strict=True):
                cells += [told, *(_round(penalty.gain(name, over, kib, who)) for who in CHOOSERS)]
            rows.append([name, over, *cells])
    return Table("Table 3: percent by which the mean penalty is lowered", columns, rows)


def _ratios_table(results: Results) -> Table:
    penalty, recorded = Measured(results, "sweep", PENALTY), Measured(results, "recorded", PENALTY, "trace")
    columns = ("workload", *(f"{kib} KiB, {what}" for kib in SMALL_KIB for what in ("published", "ours")))
    rows: list[list[str | float | None]] = []
    counterparts = (("desktop", "PC"), ("Financial1, first 50,000", "Financial"))
    for measured, name, published in (
        *((penalty, name, name) for name in TABLE_2),
        *((recorded, recording, name) for recording, name in counterparts),
    ):
        cells: list[float | None] = []
        for at, kib in enumerate(SMALL_KIB):
            costs = measured.all(name, ("Half", "Full"), kib)
            cells += [_round(_ratio(published, at), 2), _round(costs[0] / costs[1], 2) if costs else None]
        if any(cells[1::2]):
            rows.append([name, *cells])
    return Table("Penalty of Half over that of Full, which Table 3 implies", columns, rows)


def _axes_tables(results: Results, study: str, source: str, sizes: Sequence[int], what: str) -> list[Table]:
    """Penalty and hit ratio of every scheme, by workload and size."""
    tables = []
    for title, column, scale, digits in (
        ("mean penalty (us for each FTL request)", PENALTY, 1e-3, 1),
        ("hit ratio (%)", _HITS, 100, 2),
    ):
        measured = Measured(results, study, column, source)
        if not measured.values:
            continue
        workloads = dict.fromkeys(key[0] for key in measured.values)
        schemes = dict.fromkeys(key[1] for key in measured.values)
        rows: list[list[str | float | None]] = []
        for workload in workloads:
            for kib in sizes:
                values = [measured.at(workload, scheme, kib) for scheme in schemes]
                cells = [None if value is None else round(value * scale, digits) for value in values]
                if any(cell is not None for cell in cells):
                    rows.append([workload, f"{kib} KiB", *cells])
        tables.append(Table(f"{what}: {title}", ("workload", "cache", *schemes), rows))
    return tables


def _windows_table(results: Results) -> Table:
    rows: list[list[str | float | None]] = []
    for who in CHOOSERS:
        for name in TABLE_2:
            for kib in SIZES_KIB:
                shares = [round(100 * share, 1) for share in _windows(results, name, kib, who).values()]
                rows += [[who, name, f"{kib} KiB", *shares]] if shares else []
    return Table("What was chosen (% of misses)", ("by", "workload", "cache", *CANDIDATES.values()), rows)


def _board_table(results: Results) -> Table:
    hits = Measured(results, "sweep", _HITS)
    scores = {name: Measured(results, "sweep", f"map_cache.scores.{window}") for window, name in CANDIDATES.items()}
    rows: list[list[str | float | None]] = []
    for name in TABLE_2:
        for kib in SMALL_KIB:
            for who in _BOARDS:
                believed = [scores[window].at(name, who, kib) for window in CANDIDATES.values()]
                if any(believed):
                    shares = [None if score is None else round(100 * score * (1 - _WEIGHT), 1) for score in believed]
                    rows.append([name, f"{kib} KiB", f"believed by {who}", *shares])
            alone = [hits.at(name, window, kib) for window in CANDIDATES.values()]
            if any(alone):
                cells = [None if ratio is None else round(100 * ratio, 1) for ratio in alone]
                rows.append([name, f"{kib} KiB", "alone", *cells])
    title = "What boards believe of each window at the end (% of accesses served), and what each does alone (%)"
    return Table(title, ("workload", "cache", "", *CANDIDATES.values()), rows)


def _parameters_table(results: Results) -> Table:
    swept, varied = Measured(results, "sweep", PENALTY), Measured(results, "open-parameters", PENALTY)
    columns = ("workload", "changed", *(f"over {over}, {kib} KiB" for over in ("Half", "Full") for kib in SMALL_KIB))
    rows: list[list[str | float | None]] = []
    gains: list[float | None]
    for name in TABLE_2 if varied.values else ():
        rows.append(
            [name, "nothing", *(_round(swept.gain(name, over, kib)) for over in ("Half", "Full") for kib in SMALL_KIB)]
        )
        for seed in _SEEDS:
            other = Measured(results, "other-seeds", PENALTY, seed=seed)
            if not other.values:
                continue
            gains = [_round(other.gain(name, over, kib)) for over in ("Half", "Full") for kib in SMALL_KIB]
            rows.append(["", f"seed {seed} of the stand-in", *gains])
        for variant in [*VARIANTS, *SHARED_VARIANTS]:
            gains = []
            for over in ("Half", "Full"):
                for kib in SMALL_KIB:
                    ours = varied.at(name, f"BSB, {variant}", kib)
                    base = varied.at(name, f"{over}, {variant}", kib) if variant in SHARED_VARIANTS else None
                    base = base or swept.at(name, over, kib)
                    gains.append(None if ours is None or not base else _round(100 * (1 - ours / base)))
            rows.append(["", variant, *gains])
    own = Measured(results, "own-operations", PENALTY)
    if own.values:
        gains = [_round(own.gain("own operations", over, kib)) for over in ("Half", "Full") for kib in SMALL_KIB]
        rows.append(["Financial", "its own operations, not all writes", *gains])
    return Table("Open parameters: percent by which BSB lowers the mean penalty", columns, rows)


def _best_table(results: Results) -> Table:
    """How far BSB is from the best of its own candidates, and of all schemes."""
    rows: list[list[str | float | None]] = []
    for study, source in (("sweep", "workload"), ("recorded", "trace")):
        penalty = Measured(results, study, PENALTY, source)
        for workload in dict.fromkeys(key[0] for key in penalty.values):
            for kib in SMALL_KIB:
                at = {
                    scheme: cost
                    for (name, scheme, size), cost in penalty.values.items()
                    if (name, size) == (workload, kib)
                }
                own = [name for name in CANDIDATES.values() if name in at]
                if not own or "BSB" not in at:
                    continue
                best, first = min(own, key=at.__getitem__), min(at, key=at.__getitem__)
                ratio = round(at["BSB"] / at[best], 2) if at[best] else None
                rows.append([workload, f"{kib} KiB", best, _us(at[best]), _us(at["BSB"]), ratio, first, _us(at[first])])
    columns = ("workload", "cache", "best candidate", "us", "BSB, us", "BSB / best", "best of all", "us")
    return Table("BSB beside the best of its candidates, and the best of all schemes (mean penalty)", columns, rows)


_DRIVE = {
    "hit ratio (%)": (_HITS, 100, 2),
    "write amplification": ("write_amplification.total", 1, 3),
    "of it host": ("write_amplification.host", 1, 3),
    "of it gc": ("write_amplification.gc", 1, 3),
    "of it map": ("write_amplification.map", 1, 3),
    "pages of the table by gc": ("map_cache.gc_updates", 1, 0),
    # A few reads of one burst may all wait for one collection.
    "reads": ("host.reads", 1, 0),
    "read mean (us)": ("latency_ns.read.mean", 1e-3, 0),
    "read p99 (us)": ("latency_ns.read.p99", 1e-3, 0),
    "writes": ("host.writes", 1, 0),
    "write mean (us)": ("latency_ns.write.mean", 1e-3, 0),
    "write p99 (us)": ("latency_ns.write.p99", 1e-3, 0),
}


def _drive_table(results: Results) -> Table:
    rows: list[list[str | float | None]] = []
    for study, source in (("drive-recorded", "trace"), ("drive", "workload")):
        frame = results.rows(study)
        if not frame.height:
            continue
        names = frame[source].unique(maintain_order=True).to_list()
        # All schemes of a workload together.
        runs = sorted(frame.iter_rows(named=True), key=lambda run: names.index(run[source]))
        for run in runs:
            cells: list[float | None] = []
            for column, scale, digits in _DRIVE.values():
                value = run.get(column)
                cells.append(None if value is None else round(value * scale, digits))
            rows.append([run[source], run["device"], *cells])
    return Table(f"In a full drive, {_DRIVE_KIB} KiB of cache", ("workload", "scheme", *_DRIVE), rows)


# What the documentation says beside the claims ---------------------------------------------------------------------


class Finding(NamedTuple):
    """A sentence of docs/papers.md that the tables of a run bear out, or do not."""

    said: str
    here: str
    holds: bool


def _span(values: Sequence[float], digits: int = 1) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def _within(said: str, values: Sequence[float | None], low: float, high: float, digits: int = 1) -> list[Finding]:
    """All values, as far as they were measured, lie between two."""
    known = [value for value in values if value is not None]
    return [Finding(said, _span(known, digits), low <= min(known) and max(known) <= high)] if known else []


def _cheaper(penalty: Measured, scheme: str, names: Iterable[str]) -> list[bool]:
    """At each workload and size, whether a scheme costs less than BSB."""
    return [
        penalty.values[name, scheme, kib] < cost
        for (name, ours, kib), cost in penalty.values.items()
        if ours == "BSB" and name in names and (name, scheme, kib) in penalty.values
    ]


def _count(said: str, cells: Sequence[bool], *, holds: bool) -> list[Finding]:
    return [Finding(said, f"{sum(cells)} of {len(cells)}", holds)] if cells else []


def _parameter_findings(results: Results) -> list[Finding]:
    swept, varied = Measured(results, "sweep", PENALTY), Measured(results, "open-parameters", PENALTY)
    others = [name for name in TABLE_2 if name != "Financial"]

    def gain(name: str, over: str, kib: int, variant: str) -> float | None:
        ours = varied.at(name, f"BSB, {variant}", kib)
        base = varied.at(name, f"{over}, {variant}", kib) if variant in SHARED_VARIANTS else swept.at(name, over, kib)
        return None if ours is None or not base else 100 * (1 - ours / base)

    def cells(variant: str, names: Iterable[str], overs: Sequence[str] = ("Half", "Full")) -> list[float | None]:
        return [gain(name, over, kib, variant) for name in names for over in overs for kib in SMALL_KIB]

    def moved(variants: Sequence[str], names: Sequence[str]) -> list[float | None]:
        found: list[float | None] = []
        for variant in variants:
            before = [swept.gain(name, over, kib) for name in names for over in ("Half", "Full") for kib in SMALL_KIB]
            pairs = zip(before, cells(variant, names), strict=True)
            found += [None if one is None or two is None else abs(one - two) for one, two in pairs]
        return found

    late = [
        (gain(name, "Full", kib, "a choice every 10,000 accesses"), TABLE_3[_class(name)]["Full"][at])
        for name in TABLE_2
        for at, kib in enumerate(SMALL_KIB)
        if kib > SMALL_KIB[0]
    ]
    signs = [(ours > 0) == (published > 0) for ours, published in late if ours is not None]
    return [
        *_within(
            "on PC and TPC-C, points by which weights 0.99 and 0.9999 move the cells of Table 3: 3 at most",
            moved(("weight 0.99", "weight 0.9999"), others), 0, 3,
        ),
        *_within(
            "points by which the readings of N move the cells: 1 at most",
            moved(("window with the entry asked for",), list(TABLE_2)), 0, 1,
        ),
        *_within(
            "on TPC-C at 16 KiB, points by which headers lower what BSB gains over Half: 1 at most",
            [
                None if one is None or two is None else one - two
                for name in others[1:]
                for one, two in [(swept.gain(name, "Half", 16), gain(name, "Half", 16, "headers charged"))]
            ], -1, 1,
        ),
        *_count(
            "a choice every 10,000 accesses: published signs against Full at 32 and 64 KiB", signs, holds=all(signs)
        ),
        *_within(
            "all changes of a page written: BSB gains 55 to 63 % on Financial",
            cells("all changes of a page written", ["Financial"]), 54.5, 63.5,
        ),
    ]  # fmt: skip


def _scheme_findings(results: Results) -> list[Finding]:
    swept, recorded = Measured(results, "sweep", PENALTY), Measured(results, "recorded", PENALTY, "trace")
    traces = list(dict.fromkeys(key[0] for key in recorded.values))
    found = []
    for scheme in ("S-FTL", "LeaFTL"):
        cells = _cheaper(swept, scheme, list(TABLE_2))
        said = f"{scheme} costs less than BSB on {', '.join(TABLE_2)}: nearly everywhere"
        found += _count(said, cells, holds=bool(cells) and sum(cells) >= _NEARLY * len(cells))
        without = "TPC-C, 7,000" if scheme == "S-FTL" else ""
        cells = _cheaper(recorded, scheme, [name for name in traces if name != without])
        said = f"{scheme} costs less than BSB on recordings{' other than TPC-C' if without else ''}: nearly everywhere"
        found += _count(said, cells, holds=bool(cells) and sum(cells) >= _NEARLY * len(cells))
    least = [
        cost == min(other for (name, _, size), other in swept.values.items() if (name, size) == ("Financial", kib))
        for (name, scheme, kib), cost in swept.values.items()
        if (name, scheme) == ("Financial", "TPFTL") and kib <= _TPFTL_KIB
    ]
    found += _count(
        f"TPFTL costs least of all on Financial, up to {_TPFTL_KIB} KiB: everywhere", least, holds=all(least)
    )
    for said, name, kibs, low, high in (
        ("BSB / its best window on MSR prxy_0: 7 times", "MSR prxy_0, first 20,000", SMALL_KIB, 6.5, 7.5),
        (
            "BSB / its best window on Financial1 at 32 and 64 KiB: 1.9 to 11.2 times",
            "Financial1",
            SMALL_KIB[1:],
            1.85,
            11.25,
        ),
    ):
        ratios = []
        for trace in (trace for trace in traces if trace.startswith(name)):
            for kib in kibs:
                own = recorded.all(trace, [*CANDIDATES.values(), "BSB"], kib)
                ratios += [own[-1] / min(own[:-1])] if own and min(own) else []
        found += _within(said, ratios, low, high)
    return found


def _drive_findings(results: Results) -> list[Finding]:
    amplification: dict[tuple[str, str], float] = {}
    hits: dict[tuple[str, str], float] = {}
    for study, source in (("drive-recorded", "trace"), ("drive", "workload")):
        for run in results.rows(study).iter_rows(named=True):
            if run["device"] != "ideal" and run["write_amplification.total"] is not None:
                amplification[run[source], run["device"]] = run["write_amplification.total"]
                hits[run[source], run["device"]] = run[_HITS]
    needed = (*_BOARDS, "Full", "Half", "S-FTL", "TPFTL")
    at = [name for name in dict.fromkeys(key[0] for key in hits) if all((name, scheme) in hits for scheme in needed)]
    if not at or results.size == "test":
        return []
    best = {name: min(value for (one, _), value in amplification.items() if one == name) for name in at}
    most = {name: max(value for (one, _), value in hits.items() if one == name) for name in at}
    low = [amplification[name, "TPFTL"] / best[name] - 1 for name in at]
    lead = [hits[name, "TPFTL"] == most[name] for name in at]
    same = [amplification[name, _BOARDS[1]] == amplification[name, "Full"] for name in at]
    apart = [100 * abs(hits[name, "S-FTL"] - hits[name, "Half"]) for name in at]
    return [
        *_count(
            "in the full drive, by the nearest run, BSB does what Full does: on each workload", same, holds=all(same)
        ),
        *_within("in the full drive, points between the hits of S-FTL and of Half: 7 at most", apart, 0, 7),
        *_within(
            "in the full drive, percent by which TPFTL writes more than the scheme that writes least: 1 at most",
            [100 * share for share in low], 0, 1,
        ),
        *_count("in the full drive TPFTL hits most often: nowhere", lead, holds=not any(lead)),
    ]  # fmt: skip


def findings(results: Results) -> list[Finding]:
    """What docs/papers.md says beside the claims, as far as it was measured."""
    penalty = Measured(results, "sweep", PENALTY)
    if results.size == "test":
        return []
    financial = [penalty.gain("Financial", over, kib) for over in ("Half", "Full") for kib in SMALL_KIB[:2]]
    places = [(name, kib) for name in TABLE_2 if name != "Financial" for kib in SMALL_KIB]
    locked = [shares["Full"] for name, kib in places if (shares := _windows(results, name, kib, _BOARDS[1]))]
    scores = Measured(results, "sweep", "map_cache.scores.tafp_256")
    alone = Measured(results, "sweep", _HITS).at("TPC-C 1", "TaFP 256", 16)

    def believed(who: str) -> list[float | None]:
        score = scores.at("TPC-C 1", who, 16)
        return [None if score is None else 100 * score * (1 - _WEIGHT)]

    return [
        *_within("on Financial at 16 and 32 KiB, BSB costs 48 to 60 % less than Half and Full", financial, 47.5, 60.5),
        *_within(
            "by the nearest run, on PC and TPC-C, BSB chooses Full at 99.9 % of the misses",
            [100 * share for share in locked], 99.85, 100, 2,
        ),
        *_within("by the nearest run, on TPC-C 1, BSB believes TaFP 256 to serve 4 %", believed(_BOARDS[1]), 3.5, 4.5),
        *_within("on TPC-C 1, BSB believes TaFP 256 to serve 98 to 99 %", believed(_BOARDS[0]), 97.5, 99.5),
        *_within("on TPC-C 1, TaFP 256 serves 92 % alone", [None if alone is None else 100 * alone], 91.5, 93.5, 2),
        *_parameter_findings(results),
        *_scheme_findings(results),
        *_drive_findings(results),
    ]  # fmt: skip


def _findings_table(results: Results) -> Table:
    rows: list[list[str | float | None]] = [
        [found.said, found.here, "yes" if found.holds else "no"] for found in findings(results)
    ]
    return Table("What docs/papers.md says beside the claims", ("said", "here", "holds"), rows)


def _tables(results: Results) -> list[Table]:
    tables = [
        _table_2(results),
        _table_3(results),
        _ratios_table(results),
        _windows_table(results),
        _best_table(results),
        regret.summary(results, [*CANDIDATES.values()], [*LEARNING, "Full"]),
        regret.table(results, [*CANDIDATES.values()], [*LEARNING, "Full"]),
        regret.drive_table(results, [*CANDIDATES.values()], LEARNING),
        _board_table(results),
        _parameters_table(results),
        *_axes_tables(results, "sweep", "workload", SIZES_KIB, "The study's workloads"),
        *_axes_tables(results, "recorded", "trace", SMALL_KIB, "Recordings"),
        _drive_table(results),
        _findings_table(results),
    ]
    return [table for table in tables if table.rows]


# Figures ----------------------------------------------------------------------------------------------------------

_COLORS = {
    "DFTL": "#999999",
    **dict(zip([f"TaFP {window}" for window in WINDOWS],
               ("#fdd0a2", "#fdae6b", "#fd8d3c", "#f16913", "#d94801", "#8c2d04"), strict=True)),
    "Half": "#6baed6",
    "Full": "#08519c",
    "BSB": "#238b45",
    "BSB, nearest run": "#a1d99b",
    "Ghosts": "#756bb1",
}  # fmt: skip


def _panels(results: Results, schemes: Sequence[str], sizes: Sequence[int]) -> Figure | None:
    """Hit ratios above penalties, a column for each workload."""
    from matplotlib.figure import Figure

    hits, penalty = Measured(results, "sweep", _HITS), Measured(results, "sweep", PENALTY)
    names = [name for name in _names(results.size) if any(key[0] == name for key in hits.values)]
    if not names:
        return None
    width = 2.7 * len(names) + 0.6
    figure = Figure(figsize=(width, 5.4), layout="constrained")
    above, below = figure.subplots(2, len(names), squeeze=False, sharex=True)
    for name, upper, lower in zip(names, above, below, strict=True):
        _lines(upper, hits, name, schemes, sizes, 100)
        _lines(lower, penalty, name, schemes, sizes, 1e-3)
        upper.set_title(name, fontsize="medium")
        lower.set_yscale("log")
        lower.set_xlabel("mapping cache (KiB)")
    above[0].set_ylabel("hit ratio (%)")
    below[0].set_ylabel("mean penalty (us)")
    handles, labels = above[0].get_legend_handles_labels()
    # An entry takes an inch.
    figure.legend(handles, labels, loc="outside lower center", ncols=min(5, int(width)), fontsize="small")
    return figure


def _lines(
    axis: Axes, measured: Measured, name: str, schemes: Sequence[str], sizes: Sequence[int], scale: float
) -> None:
    for scheme in schemes:
        values = [measured.at(name, scheme, kib) for kib in sizes]
        heights = [float("nan") if value is None else value * scale for value in values]
        style = "s--" if scheme in CHOOSERS else "o-"
        axis.plot([str(kib) for kib in sizes], heights, style, label=scheme, color=_COLORS[scheme], markersize=4)
    axis.grid(visible=True, alpha=0.3)


def _distances_figure(results: Results) -> Figure | None:
    from matplotlib.figure import Figure

    spread = {name: _distances(stats) for name, stats in results.statistics.items()}
    spread = {name: counts for name, counts in spread.items() if counts}
    if not spread:
        return None
    figure = Figure(figsize=(2.9 * len(spread), 3.0), layout="constrained")
    for (name, counts), axis in zip(spread.items(), figure.subplots(1, len(spread), squeeze=False)[0], strict=True):
        total = sum(counts.values())
        places = sorted(counts)
        axis.plot(places, [100 * counts[place] / total for place in places], color="#1f77b4", linewidth=0.8)
        axis.set_yscale("log")
        axis.set_title(name, fontsize="medium")
        axis.set_xlabel("intra-distance (entries)")
        axis.grid(visible=True, alpha=0.3)
    figure.axes[0].set_ylabel("share of hits (%)")
    return figure


def _figures(results: Results) -> dict[str, Figure]:
    figures = {
        "figure-2-intra-distance": _distances_figure(results),
        "figures-3-and-4-fixed-windows": _panels(results, _FIXED_NAMES, LARGE_KIB),
        "figures-5-and-6-score-board": _panels(results, ("Half", "Full", *CHOOSERS), SMALL_KIB),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


_SETUP = (
    "Model: preset map-cache-model, the study's own: the cache, and what its misses cost, one access after the other.",
    "Penalty: equations 1 to 4 of the study, as a mean over all FTL requests, hits included.",
    "Workloads: stand-ins (docs/concepts/stand-ins.md) with the statistics of Table 2, not the study's recordings.",
    "Financial1 itself is run where the folder of traces has all of it; all its accesses as writes.",
    "Figure 2: hits in a cache of 4 MiB of whole translation pages, from ftlab trace stats.",
    "BSB, the balanced score board, chooses among TaFP 8 to 256, Half and Full.",
    "It asks what each window would have in memory, had all misses been its own.",
    "BSB, nearest run goes by the distance from the nearest run in memory, which is the text taken at its word.",
    "Ghosts choose a window by what sampled caches without entries would have paid; they are charged to the memory.",
    "Ghosts at whole rate see every access and are not charged, as the boards are not.",
    "What the study says of its board is judged for both boards and for ghosts.",
    "Regret is how much more a scheme costs than the best of the study's eight windows, each run alone.",
    "Improvement is 1 - penalty of BSB / penalty of the other; negative where BSB is worse.",
    "Recordings: those that the folder of traces has, moved together to the translation pages that they touch.",
    "Full drive: eight of the chips, 1 GiB with 25 % spare, aged by random writes until write amplification is steady.",
    "It serves the first 100,000 requests at their own times; addresses beyond the drive are wrapped.",
    "Regret in it is of recordings of at least 100,000 requests, one request after the other.",
    "Other stand-ins, for regret alone: the first 300,000 requests of each.",
    "With --quick: the first 300,000 requests of Financial, no other seeds, and 10,000 requests in the drive;",
    "ten recordings at 16 to 64 KiB, no other stand-ins, no ghosts at whole rate.",
)
_ASSUMED = (
    "Windows of N bytes come in addition to the entry asked for; overlaps are cut (TaFP) or absorbed (Half, Full).",
    "The bus is 8 bits wide; writing a run back reads the rest of its translation page first.",
    "Capacity counts entries of 4 bytes, without headers; one changed bit for each run.",
    "A distance is taken from the origin of each window of its own; by the nearest run, from what fetched that run.",
    "Scores age by 0.999 at each access; a choice at every miss; of equal scores the smallest window.",
    "The source gives none of the numbers above.",
    "Table 3 names its traces PC 2, TPC-C 3 and Financial 1. Table 2 has one PC and two TPC-C: both TPC-C are judged.",
    "Financial1 is taken as writes only, as Table 2 prints it; its own operations are a row of the open parameters.",
    "Figures 2 to 6 have no printed numbers: their claims are what the text says about them.",
    "DFTL has segments of 80 and 20 % in LRU order, and entries of 4 bytes.",
    "Schemes that the study does not plot run at their defaults here; no parameter was chosen for a result.",
)

PAPER = Paper(
    name="mapping-cache",
    title="Mapping caches with windows that adapt",
    source="Adaptive mapping information management scheme for high performance large scale flash memory storages, "
    "Journal of the IEEK 50(3), 2012 (paper 2012-50-3-10)",
    setup=_SETUP,
    assumed=_ASSUMED,
    studies=_studies,
    claims=_claims,
    tables=_tables,
    figures=_figures,
    statistics=_statistics,
)
