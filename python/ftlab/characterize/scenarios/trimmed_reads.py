"""Rate of the host link and fixed time of a request, from reads of trimmed data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ftlab.characterize.detect import Interval, fit, location
from ftlab.characterize.scenario import Declined, Effort, Estimate, Plot, Scenario, UndecidedError
from ftlab.characterize.target import SECTOR_BYTES

if TYPE_CHECKING:
    from ftlab.characterize.bench import Bench

# A trimmed read that reads flash all the same is not faster than that.
_FASTER = 0.9
# Nanoseconds a sector below which the link is free: 512 GB/s.
_FREE_NS = 1.0
# Pages of a read of all sizes, at least.
_MEAN_PAGES = 10
# What pairs wait for and what sizes cost are the same, up to this share.
_SAME = 0.03
# Pairs of large reads.
_PAIRS = 32
# After that, a link that cannot be told from none is used with its error, and no rate is claimed.
_ENOUGH = 2048


def rate(ns_per_sector: Interval) -> Interval:
    """MB/s from nanoseconds a sector; 0 where transfers take no time, without an end where they may.

    >>> rate(Interval(2560, 2560, 2560)).value
    200.0
    """
    if ns_per_sector.high < _FREE_NS:
        return Interval(0.0, 0.0, 0.0)
    per = SECTOR_BYTES * 1e3
    if ns_per_sector.low <= 0:
        value = per / ns_per_sector.value if ns_per_sector.value > 0 else math.inf
        return Interval(value, per / ns_per_sector.high, math.inf)
    return Interval(per / ns_per_sector.value, per / ns_per_sector.high, per / ns_per_sector.low)


def _sizes(page: int) -> list[int]:
    """Sizes that tell what a sector costs from what a page costs."""
    return sorted({1, page, 8 * page + 1, 9 * page, 31 * page + 1, 32 * page})


def _answers_at_once(bench: Bench, region: int, size: int, step: int, count: int) -> bool:
    """Whether the second of two reads of a sector is faster where it was trimmed: the first may fetch its mapping."""
    spots = np.repeat(region + np.arange(count) * step, 2)
    trimmed = location(bench.reads(spots, 1)[1::2]).value
    bench.fill(region, size)
    return trimmed < _FASTER * location(bench.reads(spots, 1)[1::2]).value


def _beside_the_link(bench: Bench, region: int, most: int, slope: Interval) -> str:
    """What pairs of large reads say against the link being all that each sector takes; empty where they agree."""
    spots = np.full(_PAIRS, region)
    one, two = bench.together(spots, spots, (most, most))
    waits = location(np.maximum(one, two) - np.minimum(one, two)) * (1 / most)
    if waits.high >= (1 - _SAME) * slope.low:
        return ""
    took = f"a sector takes {slope.value:,.1f} ns, and one that waits for the link only {waits.value:,.1f}"
    return f"{took}: a memory takes time for each sector, too"


def _run(bench: Bench, effort: Effort) -> list[Estimate | Declined]:
    page = int(bench.number("page_bytes", 2048)) // SECTOR_BYTES
    sizes = _sizes(page)
    most = bench.capacity_bytes // 4 // SECTOR_BYTES
    step = max(sizes)
    # Each address once, or so late again that no buffer has it.
    kept = int(2 * bench.number("read_buffer_bytes", 0.0)) // SECTOR_BYTES
    spots = min(max(effort.repetitions * len(sizes), kept // (page * _MEAN_PAGES) + 1), most // step)
    region = bench.region(spots * step * SECTOR_BYTES)
    size = spots * step * SECTOR_BYTES
    bench.fill(region, size)
    bench.scrub()
    written = bench.reads(region + np.arange(min(effort.repetitions, spots)) * step, 1)
    bench.trim(region, size)
    chosen = np.tile(sizes, effort.repetitions)
    latency = bench.reads(region + np.arange(chosen.size) % spots * step, chosen)
    points = {s: latency[chosen == s] for s in sizes}
    design = np.array([[1.0, s, np.ceil(s / page)] for s in sizes])
    if not bench.number("read_buffer_bytes", 0.0):
        # Without a buffer, nothing costs by the page where no flash is read.
        design = design[:, :2]
    fitted = fit(design, [location(points[s]) for s in sizes])
    intercept, slope = fitted.coefficients[:2]
    effective = location(points[1]).value < _FASTER * location(written).value
    order = bench.random.permutation(chosen.size)[:2000]
    plot = Plot("sectors", "latency (ns)", {"trimmed": (chosen[order].tolist(), latency[order].tolist())})
    if not effective and not bench.number("read_buffer_bytes", 0.0):
        count = min(effort.repetitions, spots)
        bench.trim(region, size)
        if _answers_at_once(bench, region, size, step, count):
            reason = "reads of trimmed data are fast the second time only: the first fetches what tells it"
            words = (Declined(name, reason) for name in ("host_overhead_ns", "link_mb_per_s"))
            return [Estimate("trim_effective", "yes", plot=plot, note=reason), *words]
    found: list[Estimate | Declined] = [Estimate("trim_effective", "yes" if effective else "no", plot=plot)]
    if effective:
        found.append(Estimate("host_overhead_ns", intercept, plot=plot))
        reason = _beside_the_link(bench, region, step, slope)
        if reason:
            return [*found, Declined("link_mb_per_s", reason)]
        unclear = slope.low <= 0 < slope.high and slope.high > _FREE_NS
        if unclear and effort.repetitions < _ENOUGH:
            raise UndecidedError("the time of the link cannot be told from none", repetitions=8)
        if not unclear:
            found.append(Estimate("link_mb_per_s", rate(slope), plot=plot))
        found.append(Estimate("link_sector_ns", slope if slope.high > _FREE_NS else Interval(0.0, 0.0, 0.0)))
    return found


SCENARIO = Scenario(
    name="trimmed-reads",
    finds=("trim_effective", "host_overhead_ns", "link_mb_per_s"),
    needs=(),
    assumes="A read of trimmed data is answered without flash: it costs the fixed time and the transfer.",
    sends="a region that is written and trimmed; reads of 1 sector to 32 pages of it",
    estimator="weighted least squares over sectors and pages: the slope is the link, the intercept the fixed time",
    drive_writes="up to a quarter of the drive",
    run=_run,
    effort=Effort(repetitions=64),
    most_repetitions=8192,
    alone={"trim_effective": "one comparison of the same addresses before and after"},
)
