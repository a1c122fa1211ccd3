"""What is said beside numbers: the warnings of summaries, of tables, and of comparisons."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import polars as pl

# The column of tables, and the warning for which a comparison gives no verdict.
COLUMN = "warnings"
UNSTEADY = "not_steady"
# What is about single numbers or a reason that is told elsewhere, and no news under a figure.
MINOR = ("few_samples", "little_spare", "stand_in")
SETTLES = (
    'age the drive by the workload itself (precondition.kind = "steady", precondition.pattern = "workload"), '
    "or let the host write more"
)
# What depends on how far a drive has aged: on what flash holds, on how often and how long it is collected, and on what
# is done within a time. Every key of the summary is here or below.
_OF_STATE = (
    "simulated_ns",
    "latency_ns.*",
    "host_wait_ns.*",
    "busy_ns.*",
    "parallelism.*",
    "write_amplification.*",
    "flash.*",
    "gc.*",
    "merges.*",
    "wear.*",
    "lsb_backup.*",
    # Collection waits for the trims of what it collects.
    "journal.*",
    "precondition.write_amplification",
    "precondition.free_blocks_max",
    # What was served, and the end of a run may depend on the clock.
    "host.iops",
    "host.bytes_per_second",
    "host.completed",
    "host.unfinished",
    "host.reads",
    "host.writes",
    "host.trims",
    "host.flushes",
    "host.read_bytes",
    "host.write_bytes",
    "host.trim_bytes",
    "host.read_pages",
    "host.write_pages",
    "host.unmapped_read_pages",
    "host.read_modify_writes",
    "buffer.mean_wait_ns",
    "buffer.drain_ns",
    # Whether flash has a page, and whether collection has left it to the cache.
    "nvm.write_amplification_primary",
    "nvm.*_unmapped",
    "nvm.*_clean",
    "nvm.clean_*",
    "nvm.*collector_dirty*",
    "nvm.copies_dropped",
    "nvm.trimmed_dirty",
    "nvm.trimmed_in_flash",
    "nvm.tombstones",
    "nvm.frame_writes",
    "nvm.writes_per_frame",
    "nvm.messages",
    # Collection changes entries, and translation pages that were never written are not read.
    "map_cache.flash_*",
    "map_cache.collections",
    "map_cache.pages_copied",
    "map_cache.gc_updates",
    "map_cache.write_backs",
    "map_cache.rest_reads",
    "map_cache.fetch*",
    "map_cache.mispredictions",
    "map_cache.penalty_ns.*",
    "map_cache.mean_*penalty_ns",
    "map_cache.windows.*",
    "map_cache.scores.*",
    "map_cache.content_bytes.*",
    "map_cache.used_bytes",
)
# What does not: names and sizes, what the host asks, and how well caches hold that.
_NOT_OF_STATE = (
    "schema",
    "version",
    "device",
    "workload",
    "seed",
    "partial",
    "wall_seconds",
    "warnings",
    "stand_in.*",
    "memory.*",
    "verify.*",
    "precondition.kind",
    "precondition.pages_written",
    "precondition.reached",
    "host.requests",
    "host.first_arrival_ns",
    "host.out_of_range",
    "host.rejected",
    "host.skipped_records",
    "host.unsorted",
    "buffer.frames",
    "buffer.table_bytes",
    "buffer.flushes",
    "buffer.*hit*",
    "buffer.*misses",
    "buffer.events",
    "buffer.victims*",
    "buffer.*_pages",
    "buffer.*evicted",
    "buffer.padding_*",
    "nvm.frames",
    "nvm.table_bytes",
    "nvm.flushes",
    "nvm.hit_ratio",
    "nvm.*_hits",
    "nvm.*_misses",
    "nvm.*host_dirty*",
    "nvm.pages_flushed",
    "map_cache.kind",
    "map_cache.bytes",
    "map_cache.translation_pages",
    "map_cache.lookups",
    "map_cache.hits",
    "map_cache.hit_ratio",
)


def _fits(metric: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(metric, pattern) for pattern in patterns)


def depends_on_state(metric: str) -> bool:
    """Whether a number of the summary depends on how far the drive has aged.

    >>> depends_on_state("write_amplification.total"), depends_on_state("map_cache.hit_ratio")
    (True, False)
    """
    return _fits(metric, _OF_STATE)


def joined(warnings: Iterable[Mapping[str, Any]]) -> str:
    """The names of warnings as a column of a table has them.

    >>> joined([{"code": "not_steady"}, {"code": "few_samples"}])
    'not_steady, few_samples'
    """
    return ", ".join(str(each["code"]) for each in warnings)


def short(cell: str | None) -> str:
    """A cell of the column in few letters: the first warning, and how many more there are.

    >>> short("not_steady, few_samples"), short("few_samples"), short("")
    ('not_steady +1', 'few_samples', '')
    """
    names = split(cell)
    return "" if not names else names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"


def split(cell: str | None) -> list[str]:
    """The names that a cell of the column has."""
    return cell.split(", ") if cell else []


def lines(summary: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The warnings of a summary: name, sentence, and what to do. A summary of an older ftlab has none."""
    return [
        (str(each["code"]), str(each["text"]), str(each.get("advice", ""))) for each in summary.get("warnings") or ()
    ]


def counted(frame: pl.DataFrame) -> dict[str, int]:
    """How many rows of a table have each warning, the most frequent first."""
    if COLUMN not in frame.columns:
        return {}
    found = Counter(name for cell in frame[COLUMN].to_list() for name in split(cell))
    return dict(found.most_common())


def of_table(frame: pl.DataFrame) -> str | None:
    """A sentence about the warnings of a table; ``None`` when it has none."""
    found = counted(frame)
    if not found:
        return None
    affected = sum(bool(cell) for cell in frame[COLUMN].to_list())
    told = ", ".join(f"{name} ({count})" for name, count in found.items())
    return f"{affected} of {frame.height} runs have warnings: {told}; `ftlab warnings` explains them"


def footnote(summaries: Sequence[Mapping[str, Any]]) -> str:
    """What stands under a plot; empty when there is nothing to say."""
    found = Counter(name for summary in summaries for name, _, _ in lines(summary))
    if not found:
        return ""
    if len(summaries) == 1:
        return f"Warnings: {', '.join(found)}."
    return f"Warnings: {', '.join(f'{name} ({count} of {len(summaries)} runs)' for name, count in found.items())}."
