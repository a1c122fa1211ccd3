"""Rate of the host link and fixed time of a request, from reads of trimmed data."""

from __future__ import annotations

import numpy as np

from ftlab.characterize.bench import MIB, Bench
from ftlab.characterize.detect import Interval, line, location
from ftlab.characterize.scenario import Effort, Estimate, Plot, Scenario, UndecidedError
from ftlab.characterize.target import SECTOR_BYTES

_SIZES = (1, 64, 256, 1024)
# A trimmed read that reads flash all the same is not faster than that.
_FASTER = 0.9
# Nanoseconds a sector below which the link is free: 50 GB/s.
_FREE_NS = 0.01


def rate(ns_per_sector: Interval) -> Interval:
    """MB/s from nanoseconds a sector; 0 where transfers take no time.

    >>> rate(Interval(2.56, 2.56, 2.56)).value
    200.0
    """
    if ns_per_sector.high < _FREE_NS:
        return Interval(0.0, 0.0, 0.0)
    per = SECTOR_BYTES * 1e3
    if ns_per_sector.low <= 0:
        raise UndecidedError("the time of a transfer cannot be told from none", repetitions=4)
    return Interval(per / ns_per_sector.value, per / ns_per_sector.high, per / ns_per_sector.low)


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    count = effort.repetitions
    largest = max(_SIZES)
    size = largest * SECTOR_BYTES * count * len(_SIZES)
    region = bench.region(min(size, bench.capacity_bytes // 4))
    size = min(size, bench.capacity_bytes // 4) // (largest * SECTOR_BYTES) * largest * SECTOR_BYTES
    places = region + np.arange(size // (largest * SECTOR_BYTES)) * largest
    bench.fill(region, size)
    bench.scrub()
    written = bench.reads(places[: min(count, places.size)], 1)
    bench.trim(region, size)
    points = {}
    for index, sectors in enumerate(_SIZES):
        # Each address once: a buffer may keep what was read.
        points[float(sectors)] = bench.reads(places[index :: len(_SIZES)] + index, sectors)
    # A transfer that ends at the end of a region reads the sector behind it.
    fitted = line(points)
    intercept, slope = fitted.coefficients
    trimmed = location(points[1.0])
    effective = trimmed.value < _FASTER * location(written).value
    xs = [x for x in points for _ in points[x]]
    plot = Plot("sectors", "latency (ns)", {"trimmed": (xs, [float(y) for x in points for y in points[x]])})
    found = [Estimate("trim_effective", "yes" if effective else "no", plot=plot)]
    if effective:
        found += [Estimate("host_overhead_ns", intercept, plot=plot), Estimate("link_mb_per_s", rate(slope), plot=plot)]
        bench.known["link_sector_ns"] = slope
    return found


SCENARIO = Scenario(
    name="trimmed-reads",
    finds=("trim_effective", "host_overhead_ns", "link_mb_per_s"),
    needs=(),
    assumes="A read of trimmed data is answered without flash: it costs the fixed time and the transfer.",
    sends="a region that is written and trimmed; reads of 1 to 1,024 sectors of it, each address once",
    estimator="weighted least squares over sizes: the slope is the link, the intercept the fixed time",
    drive_writes=f"up to {_SIZES[-1] * SECTOR_BYTES * 15 * len(_SIZES) // MIB} MiB",
    run=_run,
    alone={"trim_effective": "one comparison of the same addresses before and after"},
)
