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
# What depends on how far a drive has aged. Hits of caches and counts of what the host asked do not.
_OF_STATE = (
    "write_amplification.*",
    "latency_ns.*",
    "host_wait_ns.*",
    "host.iops",
    "host.bytes_per_second",
    "simulated_ns",
    "flash.*",
    "busy_ns.*",
    "gc.*",
    "merges.*",
    "wear.*",
    "parallelism.*",
    "lsb_backup.*",
)


def depends_on_state(metric: str) -> bool:
    """Whether a number of the summary depends on how far the drive has aged.

    >>> depends_on_state("write_amplification.total"), depends_on_state("map_cache.hit_ratio")
    (True, False)
    """
    return any(fnmatchcase(metric, pattern) for pattern in _OF_STATE)


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
    return f"{affected} of {frame.height} runs have warnings: {told}; docs/reference/warnings.md explains them"


def footnote(summaries: Sequence[Mapping[str, Any]]) -> str:
    """What stands under a plot; empty when there is nothing to say."""
    found = Counter(name for summary in summaries for name, _, _ in lines(summary))
    if not found:
        return ""
    if len(summaries) == 1:
        return f"Warnings: {', '.join(found)}."
    return f"Warnings: {', '.join(f'{name} ({count} of {len(summaries)} runs)' for name, count in found.items())}."
