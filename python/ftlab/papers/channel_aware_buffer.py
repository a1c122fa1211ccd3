"""Channel-aware eviction: a buffer that gives up as many victims at a time as the drive has memories."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ftlab import figures
from ftlab.papers.frame import Claim, Paper, Results, Size, Table, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matplotlib.figure import Figure

DRIVE = "cave-8x4"
BLOCK_PAGES = 64
ORDERS: dict[str, dict[str, Any]] = {"CFLRU": {"kind": "cflru"}, "BPLRU": {"kind": "bplru", "block_pages": BLOCK_PAGES}}
TRACES = ("OLTP", "GENERAL", "SYSMARK")
# MiB.
_SIZES: dict[Size, tuple[int, ...]] = {"full": (1, 2, 4, 8, 16, 32, 64), "quick": (1, 8, 64), "test": (1, 4)}
_REQUESTS: dict[Size, int] = {"full": 20_000, "quick": 2_000, "test": 150}
# The size at which what else could matter is tried.
_MIDDLE: dict[Size, int] = {"full": 16, "quick": 8, "test": 4}
# To fill the drive takes longer than the few requests of a test.
_TEST_BLOCKS = 512

# Reduction of the execution time of BPLRU on SYSMARK, and the GC share of CFLRU without CAVE: percent.
LEAST, MOST, CLOSE_TO_ALL = 55.5, 97.4, 100.0
# Tolerances, in points.
_POINTS, _NOT_MUCH, _NEARLY_ALL = 10.0, 5.0, 90.0


class Scheme(NamedTuple):
    """A translation layer, and how many victims leave at a time."""

    kind: str
    rate: str

    @property
    def label(self) -> str:
        """What it is called.

        >>> Scheme("mcsplit", "one").label
        'MCsplit, one victim'
        """
        layer = {"mcsplit": "MCsplit", "bast": "BAST"}[self.kind]
        return f"{layer}, {'CAVE' if self.rate == 'cave' else 'one victim'}"


CONVENTIONAL, CAVE = Scheme("mcsplit", "one"), Scheme("bast", "cave")
OTHERS = (Scheme("bast", "one"), Scheme("mcsplit", "cave"))


def _drive(label: str, order: str, scheme: Scheme, mib: int, **sections: dict[str, Any]) -> dict[str, Any]:
    drive: dict[str, Any] = {
        "extends": DRIVE,
        "label": label,
        "ftl": {"kind": scheme.kind, "log_blocks": 1024},
        "buffer": {**ORDERS[order], "bytes": f"{mib}MiB", "rate": scheme.rate},
        "host": {"arrival": "closed", "queue_depth": 1, "out_of_range": "wrap"},
        "precondition": {"kind": "fill", "layout": "blocks"},
    }
    for name, keys in sections.items():
        drive[name] = keys if keys.get("kind") == "page" else {**drive.get(name, {}), **keys}
    return drive


def _workloads(size: Size, traces: Iterable[str] = TRACES) -> list[dict[str, Any]]:
    requests = _REQUESTS[size]
    return [{"extends": f"like-{trace.lower()}", "label": trace, "requests": requests} for trace in traces]


def _name(order: str, scheme: Scheme, mib: int) -> str:
    return f"{order}, {scheme.label}, {mib} MiB"


# What else could matter: each changes one thing of BAST with CAVE.
_CHANGES: dict[str, dict[str, dict[str, Any]]] = {
    "at most one victim for each memory": {"buffer": {"select": "distinct"}},
    "memories chosen by use": {"ftl": {"allocator": "dynamic"}},
    "a write waits for its frame": {"buffer": {"wait": "frame"}},
    "4 x 2 memories": {"geometry": {"channels": 4, "ways": 2, "blocks_per_plane": 32_768}},
    "1 x 8 memories": {"geometry": {"channels": 1, "ways": 8, "blocks_per_plane": 32_768}},
    "page mapping": {"ftl": {"kind": "page", "gc_low_free_blocks": 2, "striping": "static"}},
    "8 requests outstanding": {"host": {"queue_depth": 8}},
}
# For block-level orders alone.
_OF_BLOCKS = {"victims until they hold 32 pages": {"buffer": {"rate_unit": "pages"}}}


def _changes(order: str) -> dict[str, dict[str, dict[str, Any]]]:
    return {**_CHANGES, **(_OF_BLOCKS if order == "BPLRU" else {})}


def _studies(size: Size) -> list[dict[str, Any]]:
    middle = _MIDDLE[size]
    main = [
        _drive(_name(order, scheme, mib), order, scheme, mib)
        for order in ORDERS
        for scheme in (CONVENTIONAL, CAVE)
        for mib in _SIZES[size]
    ]
    others = [_drive(_name(order, scheme, middle), order, scheme, middle) for order in ORDERS for scheme in OTHERS]
    clustered = {"buffer": {"block_pages": 0}}
    others.append(_drive("BPLRU, MCsplit, blocks of 4 MiB", "BPLRU", CONVENTIONAL, max(middle, 8), **clustered))
    for order in ORDERS:
        for what, changes in _changes(order).items():
            others.append(_drive(f"{order}, {what}", order, CAVE, middle, **changes))
    studies: list[dict[str, Any]] = [{"name": "sizes", "device": main, "workload": _workloads(size)}]
    if size == "test":
        return [{**studies[0], "set": {"geometry.blocks_per_plane": _TEST_BLOCKS}}]
    return [*studies, {"name": "others", "device": others, "workload": _workloads(size)}]


# What was measured ------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """What a run cost.

    Attributes:
        hits: Hit ratio of reads and writes.
        seconds: Execution time: all evictions, one after the other.
        gc_share: Part of it that merges take.
        pages: Pages evicted.
        dies: Dies that an eviction used, on average.
    """

    hits: float
    seconds: float
    gc_share: float
    pages: float
    dies: float


_COLUMNS = (
    "buffer.hit_ratio", "parallelism.execution_ns", "parallelism.gc_share", "buffer.pages_evicted",
    "parallelism.event_dies_mean",
)  # fmt: skip


def _run(results: Results, study: str, label: str, trace: str) -> Run | None:
    frame = results.rows(study)
    if not frame.height:
        return None
    rows = frame.filter((frame["device"] == label) & (frame["workload"] == trace)).to_dicts()
    if not rows:
        return None
    hits, time, share, pages, dies = (float(rows[0].get(column) or 0) for column in _COLUMNS)
    return Run(hits, time / 1e9, share, pages, dies)


def _sized(results: Results, order: str, scheme: Scheme, mib: int, trace: str) -> Run | None:
    return _run(results, "sizes", _name(order, scheme, mib), trace)


def _reduction(results: Results, order: str, mib: int, trace: str) -> float | None:
    """Percent of the execution time of the conventional method that CAVE saves.

    The paper's definition: 1 - T' / T.
    """
    before, after = (_sized(results, order, scheme, mib, trace) for scheme in (CONVENTIONAL, CAVE))
    if before is None or after is None or not before.seconds:
        return None
    return 100 * (1 - after.seconds / before.seconds)


def _reductions(results: Results, order: str, trace: str) -> list[float]:
    found = [_reduction(results, order, mib, trace) for mib in _SIZES[results.size]]
    return [value for value in found if value is not None]


# Claims -----------------------------------------------------------------------------------------------------------

_MISSING = "was not run"


def _range_claims(results: Results) -> list[Claim]:
    found = _reductions(results, "BPLRU", "SYSMARK")
    ends = (min(found), max(found)) if found else (None, None)
    within = found and abs(min(found) - LEAST) <= _POINTS and abs(max(found) - MOST) <= _POINTS
    return [
        judge(
            f"reduction-{which}",
            f"BPLRU, stand-in for SYSMARK: {which} execution time saved, over buffers of 1 to 64 MiB (%; 1 - T' / T)",
            published,
            None if measured is None else round(measured, 1),
            holds=bool(within),
            tolerance=f"both ends within {_POINTS:.0f} points",
            direction=bool(found) and min(found) > 0,
            otherwise=_MISSING
            if measured is None
            else "times, spare space, log blocks and traces of the paper are not published",
        )
        for which, published, measured in (("least", LEAST, ends[0]), ("most", MOST, ends[1]))
    ]


def _falls(values: Sequence[float]) -> int:
    return sum(two < one for one, two in pairwise(values))


def _larger_claim(results: Results) -> Claim:
    series = [_reductions(results, order, trace) for order in ORDERS for trace in TRACES]
    known = [values for values in series if len(values) > 1]
    falls, steps = sum(_falls(values) for values in known), sum(len(values) - 1 for values in known)
    gained = [values[-1] > values[0] for values in known]
    return judge(
        "larger",
        "Improvement grows with the buffer: steps to a larger one at which less time is saved",
        None,
        falls if known else None,
        holds=bool(known) and falls == 0,
        tolerance=f"at none of {steps}",
        direction=bool(known) and sum(gained) * 2 > len(gained),
        otherwise=_MISSING
        if not known
        else f"at {falls} of {steps} steps; between the ends it grows in {sum(gained)} of {len(gained)} cases",
    )


def _gaps(results: Results) -> dict[tuple[str, str], list[float]]:
    """Hit ratio of the conventional method less that of CAVE, in points, by order and trace."""
    gaps: dict[tuple[str, str], list[float]] = {}
    for order in ORDERS:
        for trace in TRACES:
            for mib in _SIZES[results.size]:
                one, many = (_sized(results, order, scheme, mib, trace) for scheme in (CONVENTIONAL, CAVE))
                if one is not None and many is not None:
                    gaps.setdefault((order, trace), []).append(100 * (one.hits - many.hits))
    return gaps


def _hit_claims(results: Results) -> list[Claim]:
    gaps = _gaps(results)
    widest = max((max(values) for values in gaps.values()), default=None)
    first, last = (sum(values[at] for values in gaps.values()) for at in (0, -1)) if gaps else (0.0, 0.0)
    return [
        judge(
            "hits-close",
            "The hit ratio under CAVE is not much lower: largest gap over orders, traces and sizes (points)",
            None,
            None if widest is None else round(widest, 2),
            holds=widest is not None and widest <= _NOT_MUCH,
            tolerance=f"at most {_NOT_MUCH:.0f} points",
            otherwise=_MISSING if widest is None else "block-level victims take more of a small buffer",
        ),
        judge(
            "hits-closing",
            "The gap closes as the buffer grows: mean gap with the largest buffer less that with the smallest (points)",
            None,
            round((last - first) / len(gaps), 2) if gaps else None,
            holds=bool(gaps) and last <= first,
            tolerance="at most 0; the closed form of uniform accesses says so as well",
            otherwise=_MISSING if not gaps else "the gap grows",
        ),
    ]


def _share_claims(results: Results) -> list[Claim]:
    pairs = [
        (one, many)
        for order in ORDERS
        for trace in TRACES
        for mib in _SIZES[results.size]
        for one in [_sized(results, order, CONVENTIONAL, mib, trace)]
        for many in [_sized(results, order, CAVE, mib, trace)]
        if one is not None and many is not None
    ]
    higher = sum(many.gc_share >= one.gc_share for one, many in pairs)
    of_pages = [
        run.gc_share * 100
        for trace in TRACES
        for mib in _SIZES[results.size]
        for run in [_sized(results, "CFLRU", CONVENTIONAL, mib, trace)]
        if run is not None
    ]
    mean = sum(of_pages) / len(of_pages) if of_pages else None
    return [
        judge(
            "gc-share",
            "The share of merges is lower with CAVE over BAST than without over MCsplit: cases where it is not",
            None,
            higher if pairs else None,
            holds=bool(pairs) and higher == 0,
            tolerance=f"in none of {len(pairs)}",
            direction=bool(pairs) and higher * 2 < len(pairs),
            otherwise=_MISSING if not pairs else f"in {higher} of {len(pairs)} it is not",
        ),
        judge(
            "gc-share-pages",
            "CFLRU without CAVE over MCsplit: share of merges in the execution time, mean (%)",
            CLOSE_TO_ALL,
            None if mean is None else round(mean, 1),
            holds=mean is not None and mean >= _NEARLY_ALL,
            tolerance=f"at least {_NEARLY_ALL:.0f}",
            direction=mean is not None and mean > 100 / 2,
            otherwise=_MISSING if mean is None else "rows that are filled up count as writing here",
        ),
    ]


def _claims(results: Results) -> list[Claim]:
    return [*_range_claims(results), _larger_claim(results), *_hit_claims(results), *_share_claims(results)]


# Tables and figures -------------------------------------------------------------------------------------------------

Row = list["str | float | None"]


_SHOWN: tuple[Callable[[Run], float], ...] = (
    lambda run: 100 * run.hits,
    lambda run: run.seconds,
    lambda run: 100 * run.gc_share,
)


def _sizes_table(results: Results) -> Table:
    rows: list[Row] = []
    for order in ORDERS:
        for trace in TRACES:
            for mib in _SIZES[results.size]:
                runs = [_sized(results, order, scheme, mib, trace) for scheme in (CONVENTIONAL, CAVE)]
                saved = _reduction(results, order, mib, trace)
                row: Row = [order, trace, float(mib)]
                for of in _SHOWN:
                    row += [None if run is None else round(of(run), 2) for run in runs]
                rows.append([*row, None if saved is None else round(saved, 1)])
    columns = (
        "order", "stand-in for", "MiB", "hits, one (%)", "hits, CAVE (%)", "execution, one (s)", "execution, CAVE (s)",
        "merges, one (%)", "merges, CAVE (%)", "saved (%)",
    )  # fmt: skip
    return Table("MCsplit with one victim at a time, and BAST with CAVE", columns, rows)


def _others_table(results: Results) -> Table:
    rows: list[Row] = []
    middle = _MIDDLE[results.size]
    for order in ORDERS:
        labels = [("sizes", _name(order, scheme, middle)) for scheme in (CONVENTIONAL, CAVE)]
        labels += [("others", _name(order, scheme, middle)) for scheme in OTHERS]
        if order == "BPLRU":
            labels.append(("others", "BPLRU, MCsplit, blocks of 4 MiB"))
        labels += [("others", f"{order}, {what}") for what in _changes(order)]
        for study, label in labels:
            for trace in TRACES:
                run = _run(results, study, label, trace)
                if run is not None:
                    values = (100 * run.hits, run.seconds, 100 * run.gc_share, run.pages, run.dies)
                    rows.append([label, trace, *(round(value, 2) for value in values)])
    columns = (
        "drive",
        "stand-in for",
        "hits (%)",
        "execution (s)",
        "merges (%)",
        "pages evicted",
        "dies of an eviction",
    )
    return Table(f"What makes the difference, with {middle} MiB; changes are of BAST with CAVE", columns, rows)


def uniform_hits(frames: int, pages: int, rate: int) -> float:
    """The hit ratio of LRU under uniform accesses, when ``rate`` pages leave at a time.

    >>> round(uniform_hits(512, 4096, 1), 5), round(uniform_hits(512, 4096, 32), 5)
    (0.125, 0.12122)
    """
    return 1 - rate / sum(1 / (1 - n / pages) for n in range(frames - rate + 1, frames + 1))


def _closed_form_table(results: Results) -> Table:
    rows: list[Row] = []
    for mib in _SIZES[results.size]:
        frames = mib << 9
        one, many = (100 * uniform_hits(frames, 1 << 17, rate) for rate in (1, 32))
        rows.append([float(mib), round(one, 3), round(many, 3), round(one - many, 3), round(one / many, 3)])
    title = "Closed form: hits of LRU under uniform accesses to 256 MiB (%), one page or 32 at a time"
    return Table(title, ("MiB", "one", "32", "gap (points)", "one / 32"), rows)


def _tables(results: Results) -> list[Table]:
    tables = [_sizes_table(results), _closed_form_table(results)]
    return tables if results.size == "test" else [*tables, _others_table(results)]


def _figure(results: Results, order: str, name: str, of: Callable[[Run], float]) -> Figure:
    import polars as pl

    rows = [
        {"buffer": float(mib), "value": of(run), "series": f"{trace}, {scheme.label}"}
        for trace in TRACES
        for scheme in (CONVENTIONAL, CAVE)
        for mib in _SIZES[results.size]
        for run in [_sized(results, order, scheme, mib, trace)]
        if run is not None
    ]
    frame = pl.DataFrame(rows, schema={"buffer": pl.Float64, "value": pl.Float64, "series": pl.String})
    names = {"buffer": "buffer (MiB)", "value": f"{order}: {name}", "series": ""}
    return figures.line(frame, x="buffer", y="value", color="series", names=names)


def _figures(results: Results) -> dict[str, Figure]:
    kinds: tuple[tuple[str, str, Callable[[Run], float]], ...] = (
        ("hits", "hit ratio (%)", lambda run: 100 * run.hits),
        ("execution", "execution time (s)", lambda run: run.seconds),
        ("merges", "share of merges (%)", lambda run: 100 * run.gc_share),
    )
    if not results.rows("sizes").height:
        return {}
    return {
        f"{order.lower()}-{name}": _figure(results, order, text, of) for order in ORDERS for name, text, of in kinds
    }


_SETUP = (
    "Drive: preset cave-8x4, 32 memories of SLC, 32 GiB, filled in order.",
    "Conventional method: MCsplit, and one victim at a time. Proposed method: BAST, and as many victims as memories.",
    "One request is outstanding. Execution time is that of all evictions, one after the other, and of the last one.",
    "An eviction's time is divided into writing and merging as on the memory that worked longest for it.",
)
_ASSUMED = (
    "Traces: stand-ins for OLTP, GENERAL and SYSMARK. None of them is at hand, and nothing is published about them.",
    "Times of the chip: 25, 200 and 1,500 us, and 40 MB/s: usual for SLC, not stated.",
    "Log blocks: 1,024 for the drive, as FlashSim is configured; MCsplit has as many bytes of them.",
    "Blocks of BPLRU have 64 pages over both layers. The clustered blocks of MCsplit are tried beside that.",
    "A write of a part of a row of MCsplit rewrites the row. That counts as writing and not as merging.",
    "Buffer sizes: 1 to 64 MiB, not stated.",
)

PAPER = Paper(
    name="channel-aware-buffer",
    title="Channel-aware buffer management: as many victims as memories",
    source="S. K. Park, Y. Park, G. Shim, K. H. Park: CAVE: channel-aware buffer management scheme for solid state "
    "disk, SAC 2011, by its abstract and a set of slides about it",
    setup=_SETUP,
    assumed=_ASSUMED,
    studies=_studies,
    claims=_claims,
    tables=_tables,
    figures=_figures,
)
