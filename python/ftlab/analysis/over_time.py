"""The time series of all runs of a study, as one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ftlab._checks import checked
from ftlab.analysis import tables
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    import polars as pl

    from ftlab.studies import Store


@checked
def series(store: Store, name: str | None = None) -> pl.DataFrame:
    """Put the time series of the runs of a study below each other, for :func:`ftlab.figures.series`.

    Every run has a coarse time series of 128 to 256 intervals; ``options.series = "auto"`` keeps a finer one, which
    has percentiles.

    Args:
        store: The store of results.
        name: The study. Default: the newest.

    Returns:
        A row for each interval of each run that is done: the axes, ``seed`` and ``key`` of the run, and the columns of
        its series. What a run does not have is null.

    Raises:
        ConfigError: There is no such study, or the time series of all runs are lost.
    """
    import polars as pl

    study = store.study(name)
    runs = tables.done(store.frame(study.name))
    names = [*dict.fromkeys([*study.axes, "seed"]), "key"]
    coarse = store.coarse_series(runs["key"].to_list())
    parts = []
    for at, key in enumerate(runs["key"]):
        found = coarse.get(key)
        found = store.series(key) if found is None else found
        if found is not None:
            found = found.drop([column for column in names if column in found.columns])
            parts.append(runs[at].select(names).join(found, how="cross"))
    if not parts:
        raise ConfigError(f"{store.folder}: the time series of all runs of {study.name} are lost: run it again")
    return pl.concat(parts, how="diagonal_relaxed")
