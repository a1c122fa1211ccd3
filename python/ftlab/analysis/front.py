"""Pareto fronts: points that no other point beats in everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab._checks import checked
from ftlab.analysis import tables
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from numpy.typing import NDArray

_Key = tuple[Any, ...]
# Nobody chooses what the host asks: a scheme is not better because its requests were easier.
_GIVEN = ("workload", "trace")


def is_given(axis: str) -> bool:
    """Whether an axis is what the host asks.

    >>> is_given("workload.read_fraction"), is_given("ftl.gc")
    (True, False)
    """
    return axis in _GIVEN or axis.startswith("workload.")


def _dominators(costs: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each row the first row of the front that dominates it (-1 on the front), and which rows are on the front."""
    by = np.full(len(costs), -1)
    front = np.zeros(len(costs), dtype=bool)
    # What dominates a row comes before it in this order, and whatever is dominated is so by a row of the front.
    kept = np.empty_like(costs)
    count = 0
    for row in np.lexsort(costs.T[::-1]):
        if not _dominating(kept[:count], costs[row]).any():
            kept[count], front[row] = costs[row], True
            count += 1
    rows = np.flatnonzero(front)
    for row in np.flatnonzero(~front):
        by[row] = rows[_dominating(costs[rows], costs[row]).argmax()]
    return by, front


def _dominating(costs: NDArray[np.float64], cost: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray((costs <= cost).all(axis=1) & (costs < cost).any(axis=1))


@checked
def pareto(
    frame: Any,
    *,
    minimize: str | Sequence[str] = (),
    maximize: str | Sequence[str] = (),
    axes: Sequence[str] | None = None,
    at: Sequence[str] | None = None,
    over: str | Sequence[str] | None = "seed",
) -> pl.DataFrame:
    """Say which points are on the Pareto front, and what dominates the others.

    A point dominates another if it is nowhere worse and somewhere better. Points that are equal in everything are both
    on the front or both off it.

    Args:
        frame: The table of a study; runs that are not done are left out.
        minimize: Columns of which less is better.
        maximize: Columns of which more is better.
        axes: What distinguishes points. Default: the axes of the study that have more than one value.
        at: Axes whose values have a front each. Default: what the host asks for, that is ``workload``, ``trace`` and
            the keys of workloads.
        over: What repeats a point, which then counts with its means. ``None``: every row is a point by itself.

    Returns:
        A row for each point, in the order of the table: ``point`` (its number), the axes, ``n``, the means of the
        metrics, and ``front``. ``dominated_by`` is the first ``point`` of the front that dominates it, and null on the
        front. ``front_share`` is the share of repetitions for which the point is on the front of that repetition alone.
        A front whose shares are near 1 is not one of chance. The share is null with one repetition, or where points
        do not have the same ones. A point without all of its metrics is not compared: its ``front`` is null.

    Raises:
        ConfigError: A name is none of the table, or fewer than two metrics are named.

    >>> points = {"memory": [1, 2, 2, 4], "latency": [9.0, 5.0, 6.0, 5.0]}
    >>> table = ftlab.analysis.pareto(points, minimize=["memory", "latency"], over=None)
    >>> table.select("memory", "latency", "front", "dominated_by").rows()
    [(1.0, 9.0, True, None), (2.0, 5.0, True, None), (2.0, 6.0, False, 1), (4.0, 5.0, False, 1)]
    """
    import polars as pl

    table = tables.done(frame)
    signs = _signs(tables.listed(minimize), tables.listed(maximize))
    measured = np.array(
        [[np.nan if value is None else value for value in tables.numbers(table, metric)] for metric in signs]
    ).T
    repeated = tables.listed(over)
    tables.columns(table, repeated, "over")
    names = _axes(table, axes, at, repeated)
    given = [name for name in names if is_given(name)] if at is None else tables.listed(at)
    tables.columns(table, given, "at")
    shown = list(dict.fromkeys([*given, *names]))
    points, cells = _cells(table, shown, repeated, alone=over is None)
    means = np.array([measured[list(cell.values())].mean(axis=0) for cell in cells])
    groups: dict[_Key, list[int]] = {}
    for number, point in enumerate(points):
        groups.setdefault(tuple(point[shown.index(name)] for name in given), []).append(number)

    costs, sign = measured * list(signs.values()), np.array(list(signs.values()))
    front: list[bool | None] = [None] * len(cells)
    by: list[int | None] = [None] * len(cells)
    shares: list[float | None] = [None] * len(cells)
    for members in groups.values():
        known = [number for number in members if not np.isnan(means[number]).any()]
        dominators, on_front = _dominators(means[known] * sign)
        for place, share in enumerate(_shares(costs, [cells[number] for number in known])):
            number = known[place]
            front[number], shares[number] = bool(on_front[place]), share
            by[number] = None if on_front[place] else known[dominators[place]]
    columns: dict[str, Any] = {"point": pl.Series(range(len(cells)), dtype=pl.Int64)}
    for place, name in enumerate(shown):
        kind = pl.String if table[name].dtype.is_nested() else table[name].dtype
        columns[name] = pl.Series(name, [point[place] for point in points], dtype=kind)
    columns["n"] = pl.Series([len(cell) for cell in cells], dtype=pl.Int64)
    for place, metric in enumerate(signs):
        # A metric may be an axis, such as the size of a cache.
        columns.setdefault(metric, pl.Series(metric, means[:, place]).fill_nan(None))
    columns["front"] = pl.Series(front, dtype=pl.Boolean)
    columns["dominated_by"] = pl.Series(by, dtype=pl.Int64)
    columns["front_share"] = pl.Series(shares, dtype=pl.Float64)
    return pl.DataFrame(columns)


def _signs(minimize: list[str], maximize: list[str]) -> dict[str, float]:
    """What makes a cost of each metric."""
    both = [metric for metric in maximize if metric in minimize]
    if both:
        raise ConfigError(f"metric {both[0]!r}: is to be minimized and maximized")
    signs = dict.fromkeys(minimize, 1.0) | dict.fromkeys(maximize, -1.0)
    if len(signs) < 2:  # noqa: PLR2004 - a spread takes two
        raise ConfigError("a front needs two metrics or more in minimize and maximize")
    return signs


def _cells(
    table: pl.DataFrame, shown: list[str], repeated: list[str], *, alone: bool
) -> tuple[list[_Key], list[dict[_Key, int]]]:
    """The points, and the rows of each by repetition; ``alone``: every row is a point."""
    points, reps = tables.keys(table, shown), tables.keys(table, repeated)
    if alone:
        return points, [{(): row} for row in range(table.height)]
    cells: dict[_Key, dict[_Key, int]] = {}
    for row, (point, rep) in enumerate(zip(points, reps, strict=True)):
        cell = cells.setdefault(point, {})
        if rep in cell:
            where = tables.named([*shown, *repeated], [*point, *rep])
            raise ConfigError(f"more than one run has {where}: name every axis that distinguishes points in `axes`")
        cell[rep] = row
    return list(cells), list(cells.values())


def _axes(
    table: pl.DataFrame, axes: Sequence[str] | None, at: Sequence[str] | None, repeated: Sequence[str]
) -> list[str]:
    if axes is not None:
        return tables.axes_of(table, repeated, axes)
    if "status" not in table.columns and not repeated:
        return []
    names = tables.axes_of(table, repeated, None)
    return [name for name in names if name in tables.listed(at) or name in tables.varying(table, names)]


def _shares(costs: NDArray[np.float64], cells: Sequence[dict[_Key, int]]) -> list[float | None]:
    """In what share of the repetitions each point is on the front."""
    repetitions = list(cells[0]) if cells else []
    if len(repetitions) < 2 or any(cell.keys() != cells[0].keys() for cell in cells):  # noqa: PLR2004 - a spread takes two
        return [None] * len(cells)
    fronts = [_dominators(costs[[cell[rep] for cell in cells]])[1] for rep in repetitions]
    return [float(share) for share in np.mean(fronts, axis=0)]
