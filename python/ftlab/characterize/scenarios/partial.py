"""Mapping unit, from writes of growing size: only those of whole units read nothing first."""

from __future__ import annotations

import numpy as np

from ftlab.characterize.bench import MIB, Array, Bench
from ftlab.characterize.detect import BIC_MARGIN, Interval, best, location
from ftlab.characterize.scenario import Effort, Estimate, Plot, Scenario, UndecidedError
from ftlab.characterize.target import SECTOR_BYTES

# Of two sectors only one can be missing: its number says no more than that it is.
_PAIR = 2
_CANDIDATES = (2, 4, 8, 16, 32, 64)
_REGION, _STEP = 96 * MIB, 128
# Updates of one block from one filling to the next.
_UPDATES = 1536
# Some of these updates merge, so the margin of the criterion must be wider.
_LOGS = 3
_LEAST, _HOPELESS, _UNEXPLAINED = 0.004, 64, 5.0


def _middle(samples: np.ndarray) -> Interval:
    """The lower quarter: merges and collections among writes are not rare enough to be clipped."""
    low = np.sort(samples)[: max(2, samples.size // 2)]
    return Interval.around(float(np.quantile(samples, 0.25)), location(low).half * 2)


def _sizes(page: int) -> Array:
    """Up to two pages: what more pages cost depends on where they go."""
    within = [s for s in (*range(1, 10), 12, 15, 16, 17, 20, 24, 28, 31, 32) if s <= page]
    return np.unique([*within, page, page + 1, page + 2, 3 * page // 2, 2 * page - 1, 2 * page])


def _designs(sizes: Array, page: int) -> dict[int, Array]:
    """What explains the times, for each unit; 1: nothing is read first."""
    base = [np.ones(sizes.size), sizes.astype(float), (sizes > page).astype(float)]
    designs = {1: np.column_stack(base)}
    for g in _CANDIDATES:
        if g > page:
            continue
        missing = (-sizes) % g
        # What is read first is at most one unit, less what is written of it: for a whole page, another line in size.
        rest = [missing.astype(float)] if _PAIR < g < page else []
        designs[g] = np.column_stack([*base, *rest, missing > 0])
    return designs


def _spots(bench: Bench, page: int) -> tuple[int, Array]:
    """A region that was filled and is in no buffer, and the places in it that are updated."""
    if bench.known.get("translation") in {"bast", "fast"} and "block_bytes" in bench.known:
        # Of few blocks, or each update would merge; never from the first page on, as that begins a sequence.
        run = int(bench.number("block_bytes"))
        region = bench.region(2 * run)
        bench.fill(region, 2 * run)
        bench.scrub()
        pages = np.arange(1, run // SECTOR_BYTES // page - 1)
        return region, np.resize(bench.random.permutation(pages), max(pages.size, _UPDATES)) * page
    size = min(_REGION, bench.capacity_bytes // 4)
    region = bench.region(size)
    bench.fill(region, size)
    bench.scrub()
    return region, np.arange(size // SECTOR_BYTES // _STEP) * _STEP


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    page = int(bench.number("page_bytes")) // SECTOR_BYTES
    sizes = _sizes(page)
    points: dict[int, list[float]] = {int(s): [] for s in sizes}
    done = 0
    while done < effort.repetitions:
        region, spots = _spots(bench, page)
        rounds = max(1, min(effort.repetitions - done, spots.size // sizes.size))
        chosen = np.tile(sizes, rounds)
        # A log takes more updates than it has pages.
        spread = region + np.resize(bench.random.permutation(spots), chosen.size)
        for s, value in zip(chosen.tolist(), bench.durable_writes(spread, chosen).tolist(), strict=True):
            points[s].append(value)
        done += rounds
    places = [_middle(np.array(points[int(s)])) for s in sizes]
    designs = _designs(sizes, page)
    found, fitted, margin = best(designs, places)
    xs = [s for s in points for _ in points[s]]
    plot = Plot("sectors", "time until durable (ns)", {"writes": (xs, [y for s in points for y in points[s]])})
    known = bench.interval("read_ns")
    # The most that it may be: a rise must not be taken for a read because the read was taken for too short.
    read = 0.0 if known is None else known.high
    if found == 1:
        # Where a write moves many pages, it would take very many of them to see one read.
        hopeless = read and (10 * float(np.median([each.half for each in places])) / read) ** 2 > _HOPELESS
        raise UndecidedError("no size needs a read first", repetitions=1 if hopeless else 4)
    rise = fitted.coefficients[-1]
    logs = bench.known.get("translation") in {"bast", "fast"}
    if margin < (_LOGS if logs else 1) * BIC_MARGIN or rise.low < (_LEAST * places[0].value if not read else read / 3):
        # What the model leaves out does not go away with more of the same.
        helps = 1 if fitted.residual > _UNEXPLAINED else 4
        raise UndecidedError("no unit explains which sizes need a read first", repetitions=helps)
    value = float(found * SECTOR_BYTES)
    estimates = [Estimate("mapping_unit_bytes", Interval(value, value, value), 0.99, plot)]
    if found == page:
        # The array reads pages, so a unit that is read first as one lies in one page.
        estimates.append(Estimate("page_bytes", Interval(value, value, value), 0.97, plot))
    return estimates


SCENARIO = Scenario(
    name="partial-writes",
    finds=("mapping_unit_bytes", "page_bytes"),
    needs=("read_buffer_bytes", "page_bytes"),
    assumes="A write that covers a unit in part reads the rest of it first.",
    sends="a region written in order; writes of 1 sector to 2 pages at multiples of 64 KiB, each with a flush",
    estimator="a + b s + c [s > p] + [s mod g > 0] (d + e rest) for each power of two g; information criterion",
    drive_writes="96 MiB and the buffer, for each 66 repetitions",
    run=_run,
    most_repetitions=240,
    alone={"mapping_unit_bytes": "what is read first can be seen in writes alone"},
)
