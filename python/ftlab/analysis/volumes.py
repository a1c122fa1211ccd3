"""Many volumes on one drive each: how a metric is distributed over them, and which of them are worst."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ftlab._checks import checked, whole
from ftlab.analysis import tables
from ftlab.errors import ConfigError
from ftlab.studies.frame import to_polars
from ftlab.studies.spec import VOLUME

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

_QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99}
# What a volume asks for, which explains much of what it gets.
_ASKED = ("host.requests", "host.writes", "host.write_bytes")


def _by_volume(
    frame: Any, metric: str, volume: str, over: str | Sequence[str], by: Sequence[str] | None
) -> tuple[pl.DataFrame, list[str]]:
    """The mean of a metric for each volume and scheme, and the axes that tell schemes apart."""
    import polars as pl

    table = tables.done(frame)
    tables.columns(table, [volume], "volume")
    repeated = tables.listed(over)
    tables.columns(table, repeated, "over")
    values = tables.numbers(table, metric)
    axes = [name for name in tables.axes_of(table, repeated, by) if name != volume]
    schemes = axes if by is not None else tables.varying(table, axes)
    asked = [name for name in _ASKED if name in table.columns and name != metric]
    means = (
        table.with_columns(pl.Series("value", values, dtype=pl.Float64), pl.int_range(pl.len()).alias("place"))
        .group_by([*schemes, volume], maintain_order=True)
        # A volume without a value has a null, which no mean hides.
        .agg(pl.col("value").mean(), *(pl.col(name).mean() for name in asked), pl.col("place").min())
        .sort("place")
        .drop("place")
    )
    return means, schemes


@checked
def fleet(
    frame: Any,
    metric: str = "write_amplification.total",
    *,
    by: Sequence[str] | None = None,
    volume: str = VOLUME,
    over: str | Sequence[str] = "seed",
) -> pl.DataFrame:
    """Say how a metric is distributed over the volumes of a fleet.

    Args:
        frame: The table of a study with an axis of volumes; runs that are not done are left out.
        metric: A column of numbers.
        by: Axes whose combinations are schemes, with a row each. Default: all other axes that vary.
        volume: The axis of volumes.
        over: What repeats a run; a volume counts once, with its mean.

    Returns:
        A row for each scheme: its axes, ``volumes`` with a value, ``missing`` without one, ``mean``, ``min``, ``p10``,
        ``p50``, ``p90``, ``p99`` and ``max`` over the volumes. Missing is a volume of which no run is done, too.

    Raises:
        ConfigError: A name is none of the table, or no run has a value.

    >>> table = {"workload.volume": [0, 1, 2], "write_amplification.total": [1.0, 4.0, 2.0], "seed": [1, 1, 1]}
    >>> ftlab.analysis.fleet(table, by=[]).select("volumes", "min", "p50", "max").rows()
    [(3, 1.0, 2.0, 4.0)]
    """
    import polars as pl

    means, schemes = _by_volume(frame, metric, volume, over, by)
    value = pl.col("value")
    numbers = [
        value.count().alias("volumes"),
        pl.lit(0, pl.UInt32).alias("missing"),
        value.mean().alias("mean"),
        value.min().alias("min"),
        *(value.quantile(share, "linear").alias(name) for name, share in _QUANTILES.items()),
        value.max().alias("max"),
    ]
    found = means.group_by(schemes, maintain_order=True).agg(numbers) if schemes else means.select(numbers)
    # Of all runs: a volume of which none is done is missing, too.
    every, all_of = to_polars(frame), pl.col(volume).n_unique().alias("all")
    if schemes:
        counts = every.group_by(schemes).agg(all_of)
        found = found.join(counts, on=schemes, how="left", nulls_equal=True, maintain_order="left")
    else:
        found = found.with_columns(every.select(all_of))
    return found.with_columns((pl.col("all") - pl.col("volumes")).alias("missing")).drop("all")


@checked
def worst(
    frame: Any,
    metric: str = "write_amplification.total",
    *,
    count: int = 10,
    better: str | None = None,
    by: Sequence[str] | None = None,
    volume: str = VOLUME,
    over: str | Sequence[str] = "seed",
) -> pl.DataFrame:
    """Name the volumes of a fleet with the worst values of a metric.

    Args:
        frame: As for :func:`fleet`.
        metric: A column of numbers.
        count: How many of each scheme.
        better: ``"smaller"`` or ``"larger"``. Default: what is known of the metric.
        by: As for :func:`fleet`.
        volume: As for :func:`fleet`.
        over: As for :func:`fleet`.

    Returns:
        Rows by scheme, the worst first: the axes of the scheme, ``rank`` from 1, the volume, the metric, and what the
        volume asked for.

    Raises:
        ConfigError: As for :func:`fleet`; or nobody knows which values are better.

    >>> table = {"workload.volume": [0, 1, 2], "write_amplification.total": [1.0, 4.0, 2.0], "seed": [1, 1, 1]}
    >>> ftlab.analysis.worst(table, by=[], count=2).rows()
    [(1, 1, 4.0), (2, 2, 2.0)]
    """
    import polars as pl

    whole("count", count, 1)
    way = tables.direction(metric, better)
    if way is None:
        raise ConfigError(f"metric {metric!r}: neither way is better by itself: state better = 'smaller' or 'larger'")
    means, schemes = _by_volume(frame, metric, volume, over, by)
    ranked = means.drop_nulls("value").sort("value", descending=way == "smaller", maintain_order=True)
    # Schemes as the table of the study has them.
    places = means.select(schemes).unique(maintain_order=True).with_row_index("place") if schemes else None
    if places is not None:
        ranked = ranked.join(places, on=schemes, how="left", nulls_equal=True, maintain_order="left")
        ranked = ranked.sort("place", maintain_order=True)
    rank = pl.int_range(1, pl.len() + 1).alias("rank")
    ranked = ranked.with_columns(rank.over("place") if places is not None else rank)
    asked = [name for name in _ASKED if name in ranked.columns and name != metric]
    chosen = ranked.filter(pl.col("rank") <= count)
    return chosen.select(*schemes, "rank", volume, pl.col("value").alias(metric), *asked)
