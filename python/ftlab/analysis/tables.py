"""What the analyses share: which runs and axes a table has, and which way a metric is better."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, get_args

from ftlab._checks import checked
from ftlab.errors import ConfigError
from ftlab.studies.frame import to_polars

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

Better = Literal["smaller", "larger"]

# Every key of the summary has a line, and the first pattern that fits counts. No direction by themselves have counts of
# what the host asked, what somebody chose, and what a good drive may have high or low, as the mean number of busy dies.
_BETTER: tuple[tuple[str, Better | None], ...] = (
    ("schema", None),
    ("seed", None),
    # It is of the machine that simulates.
    ("wall_seconds", None),
    ("simulated_ns", "smaller"),
    ("latency_ns.*.count", None),
    ("latency_ns.*", "smaller"),
    ("host_wait_ns.count", None),
    ("host_wait_ns.*", "smaller"),
    ("host.iops", "larger"),
    ("host.bytes_per_second", "larger"),
    ("host.rejected", "smaller"),
    ("host.unfinished", "smaller"),
    ("host.read_modify_writes", "smaller"),
    ("host.*", None),
    ("*hit_ratio", "larger"),
    ("*.hits", "larger"),
    ("*_hits", "larger"),
    ("*_misses", "smaller"),
    ("*.table_bytes", "smaller"),
    ("map_cache.mean_*penalty_ns", "smaller"),
    ("map_cache.penalty_ns.*", "smaller"),
    ("map_cache.flash_*", "smaller"),
    ("map_cache.fetch*", "smaller"),
    ("map_cache.rest_reads", "smaller"),
    ("map_cache.write_backs", "smaller"),
    ("map_cache.gc_updates", "smaller"),
    ("map_cache.mispredictions", "smaller"),
    ("map_cache.collections", "smaller"),
    ("map_cache.pages_copied", "smaller"),
    ("map_cache.*", None),
    ("buffer.mean_wait_ns", "smaller"),
    ("buffer.drain_ns", "smaller"),
    ("buffer.padding_*", "smaller"),
    ("buffer.*evict*", "smaller"),
    ("buffer.*", None),
    ("nvm.write_amplification_primary", "smaller"),
    ("nvm.evictions_*", "smaller"),
    ("nvm.frame_writes", "smaller"),
    ("nvm.writes_per_frame", "smaller"),
    ("nvm.*", None),
    ("write_amplification.*", "smaller"),
    # What had not ended is counted nowhere else.
    ("flash.unfinished", None),
    ("flash.*", "smaller"),
    ("busy_ns.*", "smaller"),
    ("parallelism.*_ns", "smaller"),
    ("parallelism.event_ns_mean", "smaller"),
    ("parallelism.gc_share", "smaller"),
    ("parallelism.*", None),
    ("gc.collections", "smaller"),
    ("gc.pages_copied", "smaller"),
    ("gc.pages_skipped", None),
    # A switch costs one erase, and a dead log block no copies.
    ("merges.switch", None),
    ("merges.dead", None),
    ("merges.log_blocks", None),
    ("merges.*", "smaller"),
    ("wear.*", "smaller"),
    ("lsb_backup.pages", "smaller"),
    ("lsb_backup.erases", "smaller"),
    ("lsb_backup.skipped_*", "larger"),
    ("journal.*", "smaller"),
    ("precondition.write_amplification", "smaller"),
    ("precondition.*", None),
    ("verify.mismatches", "smaller"),
    ("verify.reads_checked", None),
    ("memory.*", "smaller"),
)
# Without a clock, and where requests take no time, these are 0.
_RATES = ("host.iops", "host.bytes_per_second")
# Columns of a study's table that are neither axes nor measured.
_FIXED = ("status", "error", "key")


@checked
def better(metric: str) -> Better | None:
    """Say which values of a summary key are better; ``None`` where neither is by itself.

    Args:
        metric: Dotted key of the summary document.

    >>> better("latency_ns.read.p99"), better("host.iops"), better("host.reads")
    ('smaller', 'larger', None)
    """
    return next((way for pattern, way in _BETTER if fnmatchcase(metric, pattern)), None)


def direction(metric: str, stated: str | None) -> Better | None:
    """Give the direction that is stated, else the known one.

    Raises:
        ConfigError: What is stated is none.
    """
    if stated is None:
        return better(metric)
    for way in get_args(Better):
        if stated == way:
            return stated  # type: ignore[return-value] # it is one of the literals
    raise ConfigError(f"better = {stated!r}: expected 'smaller' or 'larger'")


def listed(names: str | Sequence[str] | None) -> list[str]:
    """Take one name for a list of one, and leave out what was named before."""
    return [names] if isinstance(names, str) else list(dict.fromkeys(names or ()))


def check_confidence(confidence: float) -> None:
    """Refuse what is no confidence.

    Raises:
        ConfigError: It is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence = {confidence}: expected a share between 0 and 1, such as 0.95")


def choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Refuse an option that is none of its choices.

    Raises:
        ConfigError: It is none.
    """
    if value not in choices:
        near = get_close_matches(value, choices, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"{name} = {value!r}: expected one of {', '.join(choices)}{hint}")


def columns(frame: pl.DataFrame, names: Iterable[str], what: str) -> None:
    """Refuse names that are no columns.

    Raises:
        ConfigError: One is none; the message has the nearest name.
    """
    for name in names:
        if name not in frame.columns:
            near = get_close_matches(name, frame.columns, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; the first columns are {', '.join(frame.columns[:8])}"
            raise ConfigError(f"{what} {name!r}: the table has no such column{hint}")


def done(frame: Any) -> pl.DataFrame:
    """Give the finished runs of a table; a table without ``status`` has only such.

    Raises:
        ConfigError: No run is done.
    """
    import polars as pl

    table = to_polars(frame)
    runs = table.filter(pl.col("status") == "done") if "status" in table.columns else table
    if runs.is_empty():
        raise ConfigError(f"nothing to analyse: of {table.height} runs none is done" if table.height else "no runs")
    return runs


def axes_of(frame: pl.DataFrame, over: Sequence[str], named: Sequence[str] | None) -> list[str]:
    """Give the axes: those named, else the columns of a study's table that stand before ``status``.

    Raises:
        ConfigError: They are not columns, or the results do not show them.
    """
    if named is not None:
        columns(frame, named, "axis")
        return [name for name in listed(named) if name not in over]
    if "status" not in frame.columns:
        raise ConfigError("the table has no column 'status', which parts axes from results: name the axes")
    before = frame.columns[: frame.columns.index("status")]
    return [name for name in before if name not in (*over, *_FIXED, "seed")]


def differing(frame: pl.DataFrame, one: int, other: int) -> list[str]:
    """Give the columns, of a study's table those that stand before ``status``, in which two rows differ."""
    end = frame.columns.index("status") if "status" in frame.columns else None
    names = [name for name in frame.columns[:end] if name not in _FIXED]
    return [name for name in names if frame[name][one] != frame[name][other]]


def varying(frame: pl.DataFrame, axes: Sequence[str]) -> list[str]:
    """Give the axes that have more than one value."""
    return [name for name in axes if frame[name].n_unique() > 1]


def numbers(frame: pl.DataFrame, metric: str) -> list[float | None]:
    """Give the values of a metric; what was not measured is ``None``.

    Raises:
        ConfigError: It is no column, holds no numbers, or no run has it.
    """
    import math

    columns(frame, [metric], "metric")
    if not frame[metric].dtype.is_numeric():
        raise ConfigError(f"metric {metric!r}: expected numbers, found {str(frame[metric].dtype).lower()}")
    values = [None if value is None or not math.isfinite(value) else float(value) for value in frame[metric].to_list()]
    if metric in _RATES:
        values = [value or None for value in values]
    if all(value is None for value in values):
        raise ConfigError(f"metric {metric!r}: no run has a value")
    return values


def hashable(value: Any) -> Any:
    """Give a value of an axis as one that can be a key."""
    return str(value) if isinstance(value, list | dict) else value


def keys(frame: pl.DataFrame, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Give what some columns hold, by row."""
    if not names:
        return [()] * frame.height
    return [tuple(map(hashable, row)) for row in frame.select(names).iter_rows()]


def named(names: Sequence[str], values: Sequence[Any]) -> str:
    """Name a point of the grid.

    >>> named(["ftl.gc", "seed"], ["greedy", 1])
    'ftl.gc = greedy, seed = 1'
    """
    return ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
