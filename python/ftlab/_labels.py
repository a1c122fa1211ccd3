"""Names and units of keys, as people read them on axes, in legends and in tables.

Units come from the suffix of a key (``latency_ns.read.p99``, ``request_bytes``), names from its words; only what would
read badly has a name of its own in ``_NAMES``. So a key that is new has a decent label at once.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Label(NamedTuple):
    """How the values of a key are shown.

    Attributes:
        text: Its name.
        unit: Of the values times ``scale``; empty for ratios, counts and words.
        scale: What values are multiplied by to be in ``unit``.
    """

    text: str
    unit: str
    scale: float

    @property
    def axis(self) -> str:
        """Name and unit, as on an axis."""
        return f"{self.text} ({self.unit})" if self.unit else self.text


# Full keys, and last parts of keys, whose words would read badly or say too little.
_NAMES = {
    "arrival_ns": "arrival time",
    "bytes_per_second": "throughput",
    "busy_ns.total": "die time",
    "cache_pages": "cache size",
    "buffer.drain_ns": "write buffer, time of the last evictions",
    "buffer.hit_ratio": "write buffer hit ratio",
    "buffer.mean_wait_ns": "wait for a frame, mean",
    "buffer_accesses": "accesses of the write buffer",
    "buffer_dirty_pages": "dirty pages in the write buffer",
    "buffer_events": "evictions of the write buffer",
    "buffer_hit_ratio": "write buffer hit ratio",
    "cell.kind": "cell",
    "distance": "distance from the miss",
    "end_ns": "completion time",
    "ftl.gc": "victim policy",
    "ftl.gc_choices": "blocks drawn for a victim",
    "ftl.gc_high_free_blocks": "free blocks at which collection ends",
    "ftl.gc_low_free_blocks": "free blocks at which collection begins",
    "ftl.gc_pace": "pace of collection",
    "ftl.gc_tie": "tie between victims",
    "ftl.gc_when": "time of collection",
    "ftl.gc_window": "window of victims",
    "ftl.kind": "FTL",
    "ftl.logical_bytes": "capacity",
    "ftl.logical_pages": "capacity",
    "ftl.over_provisioning": "over-provisioning",
    "gc.collections": "GC victims",
    "gc.pages_copied": "pages copied by GC",
    "gc.pages_skipped": "pages skipped by GC",
    "geometry.mapping_unit_bytes": "mapping unit",
    "host.bytes_per_second": "throughput",
    "host.completed": "completed requests",
    "host.first_arrival_ns": "first arrival",
    "host.iops": "throughput",
    "host.link_mb_per_s": "host link",
    "host.outstanding": "outstanding requests",
    "host.out_of_range": "requests out of range",
    "host.read_bytes": "data read",
    "host.read_modify_writes": "pages written in part",
    "host.read_pages": "pages read",
    "host.rejected": "rejected requests",
    "host.trim_bytes": "data trimmed",
    "host.unfinished": "unfinished requests",
    "host.unmapped_read_pages": "unmapped pages read",
    "host.unsorted": "unsorted requests",
    "host.write_bytes": "data written",
    "host.write_pages": "pages written",
    "iops": "throughput",
    "latency_max_ns": "latency, largest",
    "latency_mean_ns": "latency, mean",
    "lba": "logical address",
    "map_cache.fetch_bytes": "entries fetched into the mapping cache",
    "map_cache.kind": "mapping cache",
    "map_cache.mean_miss_penalty_ns": "mapping penalty of a miss, mean",
    "map_cache.mean_penalty_ns": "mapping penalty, mean",
    "map_cache.used_bytes": "mapping cache memory in use",
    "map_fetch_mean_bytes": "size of a fetch, mean",
    "map_fetches": "fetches for the mapping cache",
    "map_hit_ratio": "mapping cache hit ratio",
    "map_lookups": "mapping lookups",
    "map_penalty_mean_ns": "mapping penalty, mean",
    "memory.bytes_per_page": "memory for each page",
    "memory.table_bytes": "memory of tables",
    "op": "operation",
    "parallelism.event_channels_mean": "channels of an eviction, mean",
    "parallelism.event_dies_mean": "dies of an eviction, mean",
    "parallelism.event_ns_mean": "time of an eviction, mean",
    "parallelism.execution_ns": "time of evictions",
    "parallelism.gc_ns": "time of evictions, collection",
    "parallelism.gc_share": "time of evictions, share of collection",
    "parallelism.write_ns": "time of evictions, writes",
    "parallelism.mean_busy_channels": "busy channels, mean",
    "parallelism.mean_busy_dies": "busy dies, mean",
    "precondition.free_blocks_max": "preconditioning, most free blocks",
    "read_p50_ns": "read latency, p50",
    "read_p90_ns": "read latency, p90",
    "read_p99_ns": "read latency, p99",
    "read_p999_ns": "read latency, p99.9",
    "requests": "requests",
    "simulated_ns": "simulated time",
    "start_ns": "start time",
    "timing.bus_mb_per_s": "channel bus",
    "timing.command_us": "command time",
    "timing.erase_us": "block erase time",
    "timing.program_us": "page program time",
    "timing.read_us": "page read time",
    "wall_seconds": "wall time",
    "wear.erase_max": "erases of a block, largest",
    "wear.erase_mean": "erases of a block, mean",
    "wear.erase_min": "erases of a block, smallest",
    "wear.erase_stdev": "erases of a block, standard deviation",
    "wear.rated_share_used": "share of rated erases used",
    "write_p50_ns": "write latency, p50",
    "write_p90_ns": "write latency, p90",
    "write_p99_ns": "write latency, p99",
    "write_p999_ns": "write latency, p99.9",
    "workload.kind": "workload",
    "workload.mean_interarrival_us": "mean time between arrivals",
    "workload.rate_iops": "request rate",
    "workload.theta": "Zipf theta",
}
_UNITS = {"distance": "pages", "cache_pages": "pages", "ftl.logical_pages": "pages", "lba": "sectors"}

# Sections whose keys say enough without them have no name here.
_SECTIONS = {
    "buffer": "write buffer",
    "flash": "flash",
    "map_cache": "mapping cache",
    "memory": "memory",
    "nvm": "NVM",
    "precondition": "preconditioning",
    "verify": "verification",
    "wear": "wear",
}
# First parts of keys that have parts of their own: by operation and statistic, or by cause.
_GROUPS = {
    "latency_ns": "latency",
    "host_wait_ns": "wait in the host",
    "busy_ns": "die time",
    "write_amplification": "write amplification",
}
_WORDS = {
    "cv": "CV",
    "db": "DB",
    "gc": "GC",
    "iops": "IOPS",
    "lba": "LBA",
    "lsb": "LSB",
    "nvm": "NVM",
    "pe": "P/E",
    "stdev": "standard deviation",
    "wal": "WAL",
    "leveling": "levelling",
    "p999": "p99.9",
}
# What stands last behind a comma: statistics and causes.
_LAST = {"max": "largest", "min": "smallest", "count": "requests", "wear_level": "wear levelling"}

# Suffix of a part of a key, what it is measured in, and how much of it that is.
_SUFFIXES: tuple[tuple[str, str, float], ...] = (
    ("_bytes_per_second", "B/s", 1),
    ("bytes_per_second", "B/s", 1),
    ("_mb_per_s", "B/s", 1e6),
    ("bytes_per_page", "B", 1),
    ("iops", "IOPS", 1),
    ("_ns", "ns", 1),
    ("_us", "ns", 1e3),
    ("_ms", "ns", 1e6),
    ("_seconds", "ns", 1e9),
    ("_bytes", "B", 1),
    ("bytes", "B", 1),
    ("_ratio", "ratio", 1),
    ("_fraction", "ratio", 1),
    ("_share", "ratio", 1),
)
# How a quantity is shown: size and name of its units, the largest first.
STEPS: dict[str, tuple[tuple[float, str], ...]] = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")),
    "B": ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
    "B/s": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")),
    "IOPS": ((1e6, "MIOPS"), (1e3, "kIOPS"), (1, "IOPS")),
    "": ((1e9, "billions"), (1e6, "millions"), (1, "")),
}


def quantity(key: str) -> tuple[str, float]:
    """What the values of a key are, and how many of its unit a value of 1 is.

    ``"ns"``, ``"B"``, ``"B/s"``, ``"IOPS"``, ``"ratio"``, or ``""`` for counts, words and what has no unit.

    >>> quantity("latency_ns.read.p99"), quantity("timing.read_us"), quantity("map_cache.hit_ratio")
    (('ns', 1), ('ns', 1000.0), ('ratio', 1))
    """
    parts = key.split(".")
    if key in _UNITS or parts[-1] in {*_UNITS, "count"}:
        return "", 1
    for part in reversed(parts):
        for suffix, base, factor in _SUFFIXES:
            if part.endswith(suffix):
                return base, factor
    return "", 1


# Amounts that need no "size" behind them.
_AMOUNTS = ("footprint", "working_set", "capacity")


def _words(part: str) -> str:
    for suffix, base, _ in _SUFFIXES:
        stem = part.removesuffix(suffix)
        if stem not in {"", part} and base in {"ns", "B", "B/s"} and suffix.startswith("_"):
            # What is measured in bytes is called a size.
            part = f"{stem}_size" if base == "B" and not stem.endswith(_AMOUNTS) else stem
            break
    return " ".join(_WORDS.get(word, word) for word in part.split("_") if word)


def _last(parts: list[str]) -> list[str]:
    return [_LAST.get(part) or _words(part) for part in parts if part != "total"]


def _grouped(parts: list[str]) -> str:
    """A key of times by operation and statistic, or of work by cause."""
    head, *rest = parts
    text = _GROUPS[head]
    if head in {"latency_ns", "host_wait_ns"} and rest:
        op, *rest = rest
        if op not in {"all", ""}:
            text = f"{op} {text}" if head == "latency_ns" else f"{text}, {op}"
    return ", ".join([text, *_last(rest)])


def name(key: str) -> str:
    """Give the name of a key, without its unit.

    >>> name("latency_ns.read.p99"), name("write_amplification.total"), name("flash.programs.gc")
    ('read latency, p99', 'write amplification', 'flash programs, GC')
    >>> name("workload.request_bytes"), name("ftl.over_provisioning"), name("map_cache.penalty_ns.fetch")
    ('request size', 'over-provisioning', 'mapping cache penalty, fetch')
    """
    if key in _NAMES:
        return _NAMES[key]
    parts = key.split(".")
    if parts[0] in _GROUPS:
        return _grouped(parts)
    section = _SECTIONS.get(parts[0]) if len(parts) > 1 else None
    if section is None and parts[-1] in _NAMES:
        return _NAMES[parts[-1]]
    if parts[-1] == "kind" and len(parts) > 1:
        return section or _words(parts[0])
    if section and len(parts) > 2:  # noqa: PLR2004 - such as a command and a cause
        return ", ".join([f"{section} {_words(parts[1])}", *_last(parts[2:])])
    last = _words(parts[-1])
    if last == "bytes" and len(parts) > 1:
        last = "size"
    return f"{section} {last}" if section else last or key


def label(key: str, largest: float | None = None) -> Label:
    """Give name, unit and scale of a key's values.

    Args:
        key: A key of the summary, of a device or a workload, or a column of a table.
        largest: The largest of the values to be shown: the unit is chosen for it. Default: the unit of the key
            (nanoseconds, bytes, bytes a second, IOPS).

    >>> label("latency_ns.read.p99", 132511)
    Label(text='read latency, p99', unit='µs', scale=0.001)
    >>> label("host.bytes_per_second", 40e6).axis, label("latency_ns.all.mean").axis
    ('throughput (MB/s)', 'latency, mean (ns)')
    """
    unit = _UNITS.get(key, _UNITS.get(key.rsplit(".", 1)[-1]))
    if unit is not None:
        return Label(name(key), unit, 1.0)
    base, factor = quantity(key)
    if base == "ratio":
        return Label(name(key), "", 1.0)
    steps = STEPS[base]
    size, unit = steps[-1]
    if largest is not None:
        # Four digits of requests a second read better than a broken thousand of them.
        least = 10 if base == "IOPS" else 1
        size, unit = next((step for step in steps if abs(largest) * factor >= step[0] * least), steps[-1])
    return Label(name(key), unit, factor / size)


def value_text(key: str, value: Any) -> str:
    """A value of a key as in a legend: sizes and times with units, names as they are.

    >>> value_text("map_cache.bytes", 32768), value_text("timing.read_us", 50), value_text("ftl.gc", "greedy")
    ('32 KiB', '50 µs', 'greedy')
    >>> value_text("ftl.over_provisioning", 0.07), value_text("timing.copyback", True), value_text("seed", 20000)
    ('0.07', 'on', '20,000')
    >>> value_text("latency_ns.read.mean", 0.01617), value_text("latency_ns.read.mean", 0.001)
    ('0.02 ns', 'below 0.01 ns')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if not isinstance(value, (int, float)):
        return str(value)
    base = quantity(key)[0]
    shown = label(key, value)
    if shown.unit == "ns" and 0 < abs(value * shown.scale) < 1:
        # Only means are that short, and more digits of them say nothing.
        text = f"{value * shown.scale:.2f}"
        return f"{text} ns" if float(text) else "below 0.01 ns"
    if base in {"ns", "B", "B/s", "IOPS"} and value:
        return f"{_number(value * shown.scale)} {shown.unit}"
    return _number(value)


def _number(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e15:  # noqa: PLR2004 - exact as a float
        # Years, block numbers and the like have four digits: no separator.
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.0f}"  # noqa: PLR2004 - four digits need no commas
    return f"{value:.4g}"


def common_key(keys: Sequence[str]) -> str:
    """The leading parts that keys have in common; the first key when there are none.

    >>> common_key(["write_amplification.host", "write_amplification.gc"])
    'write_amplification'
    """
    columns = zip(*(key.split(".") for key in keys), strict=False)
    shared = [parts[0] for parts in itertools.takewhile(lambda parts: len(set(parts)) == 1, columns)]
    return ".".join(shared) or keys[0]


def part_text(key: str, common: str) -> str:
    """What a key says beyond the leading parts that it has in common with others.

    >>> part_text("write_amplification.gc", "write_amplification"), part_text("host.reads", "host.writes")
    ('GC', 'reads')
    """
    rest = key.removeprefix(f"{common}.")
    if rest == key:
        return name(key)
    return ", ".join(_LAST.get(part) or _words(part) for part in rest.split("."))
