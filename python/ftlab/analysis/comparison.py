"""Schemes against each other: means with intervals, differences, and relative improvements."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab import _warned as warned
from ftlab._checks import checked
from ftlab.analysis import tables
from ftlab.analysis.intervals import Estimator, Method
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl
    from numpy.typing import NDArray

    from ftlab.analysis.tables import Better

_Key = tuple[Any, ...]


@dataclass(frozen=True)
class _Grid:
    """The runs of a table by scheme and point, each with its repetitions."""

    by: str
    # Axes that belong to the scheme, and those of the points.
    along: list[str]
    at: list[str]
    schemes: dict[Any, _Key]
    points: list[_Key]
    # By scheme and point: rows of the table by repetition.
    rows: dict[tuple[Any, _Key], dict[_Key, int]]
    table: pl.DataFrame

    def scheme(self, name: str, value: Any) -> Any:
        """Find a scheme by value or, as from a command line, by the text of it."""
        for scheme in self.schemes:
            if scheme == value:
                return scheme
        texts = {str(scheme): scheme for scheme in self.schemes}
        if str(value) not in texts:
            near = get_close_matches(str(value), texts, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(texts)}"
            raise ConfigError(f"{name} = {value!r}: no such value of {self.by}{hint}")
        return texts[str(value)]

    def warnings(self, scheme: Any, point: _Key) -> list[list[str]]:
        """The names of warnings of each run of a cell, as far as the table says them."""
        if warned.COLUMN not in self.table.columns:
            return []
        cells = self.table[warned.COLUMN]
        return [warned.split(cells[row]) for row in self.rows.get((scheme, point), {}).values()]

    def unsteady(self, scheme: Any, point: _Key) -> int:
        """How many runs of a cell are not steady."""
        return sum(warned.UNSTEADY in names for names in self.warnings(scheme, point))

    def values(self, scheme: Any, point: _Key, numbers: Sequence[float | None]) -> dict[_Key, float]:
        """Give what was measured of a metric, by repetition."""
        found = ((rep, numbers[row]) for rep, row in self.rows.get((scheme, point), {}).items())
        return {rep: value for rep, value in found if value is not None}

    def labels(self, scheme: Any, point: _Key) -> dict[str, Any]:
        """The columns that say which cell of the table it is."""
        along = dict(zip(self.along, self.schemes[scheme], strict=True))
        return {self.by: scheme, **along, **dict(zip(self.at, point, strict=True))}


def _joined(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    names = [", ".join(map(str, key)) for key in tables.keys(frame, by)]
    return frame.drop("scheme", strict=False).with_columns(pl.Series("scheme", names))


def _grid(frame: Any, by: str | Sequence[str], at: Sequence[str] | None, over: str | Sequence[str]) -> _Grid:
    table = tables.done(frame)
    names, repeated = tables.listed(by), tables.listed(over)
    if not names:
        raise ConfigError("by: expected the name of an axis")
    tables.columns(table, names, "by")
    tables.columns(table, repeated, "over")
    others = [name for name in tables.axes_of(table, repeated, at) if name not in names]
    if len(names) > 1:
        table = _joined(table, names)
        names = ["scheme"]
    (one,) = names
    schemes = [tables.hashable(value) for value in table[one].to_list()]
    along = [name for name in others if at is None and _follows(schemes, tables.keys(table, [name]))]
    points_at = [name for name in tables.varying(table, others) if name not in along]
    along = tables.varying(table, along)
    rows: dict[tuple[Any, _Key], dict[_Key, int]] = {}
    points = tables.keys(table, points_at)
    for row, (scheme, point, rep) in enumerate(zip(schemes, points, tables.keys(table, repeated), strict=True)):
        cell = rows.setdefault((scheme, point), {})
        if rep in cell:
            where = tables.named([one, *points_at, *repeated], [scheme, *point, *rep])
            apart = ", ".join(tables.differing(table, row, cell[rep]))
            apart = f"they differ in {apart}" if apart else "these do not differ"
            raise ConfigError(
                f"more than one run has {where}: name every axis that distinguishes runs in `at`, and what repeats "
                f"them in `over` ({apart})"
            )
        cell[rep] = row
    return _Grid(
        by=one,
        along=along,
        at=points_at,
        schemes=dict(zip(schemes, tables.keys(table, along), strict=True)),
        points=list(dict.fromkeys(points)),
        rows=rows,
        table=table,
    )


def _follows(schemes: Sequence[Any], values: Sequence[_Key]) -> bool:
    """Whether each scheme has a single value, as axes that are zipped with it have."""
    return len(set(zip(schemes, values, strict=True))) == len(set(schemes))


def _pair(one: dict[_Key, float], other: dict[_Key, float]) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Values of two cells to compare: of the repetitions that both have, in one order, if these are most of both."""
    both = [rep for rep in one if rep in other]
    if 2 * len(both) > max(len(one), len(other)):
        return np.array([one[rep] for rep in both]), np.array([other[rep] for rep in both]), True
    return np.array(list(one.values())), np.array(list(other.values())), False


def _frame(rows: Sequence[dict[str, Any]], grid: _Grid, extra: dict[str, Any]) -> pl.DataFrame:
    import polars as pl

    kinds: dict[str, Any] = {name: grid.table[name].dtype for name in (grid.by, *grid.along, *grid.at)}
    kinds = {name: pl.String if kind.is_nested() else kind for name, kind in kinds.items()}
    taken = [name for name in kinds if name in extra]
    if taken:
        raise ConfigError(f"axis {taken[0]!r}: the result has a column of this name; rename the axis")
    return pl.DataFrame([list(row.values()) for row in rows], schema=kinds | extra, orient="row")


def _verdict(interval: tuple[float, float] | None, way: Better | None) -> tuple[bool | None, str | None]:
    """Whether an interval excludes 0, and what that says."""
    if interval is None:
        return None, None
    low, high = interval
    if low == high == 0:
        return False, "same"
    if low <= 0 <= high:
        return False, "undecided"
    side = "larger" if low > 0 else "smaller"
    if way is None:
        return True, side
    return True, "better" if side == way else "worse"


@checked
def compare(
    frame: Any,
    by: str | Sequence[str],
    metrics: str | Sequence[str],
    *,
    baseline: Any = None,
    at: Sequence[str] | None = None,
    over: str | Sequence[str] = "seed",
    confidence: float = 0.95,
    simultaneous: bool = False,
    method: Method = "t",
    resamples: int = 9999,
    seed: int = 1,
    better: Better | Mapping[str, Better] | None = None,
    even_unsteady: bool = False,
) -> pl.DataFrame:
    """Compare schemes at each point of the other axes, with confidence intervals over repetitions.

    Runs of the same seed have the same requests on drives of the same size, so schemes are compared seed by seed. The
    interval of a difference is that of the paired differences, mostly much narrower than the intervals of the means
    suggest. Where some seeds are missing because runs failed, both difference and interval are of the seeds that both
    schemes have. Unless these are more than half of each, it is Welch's, of all. What no run of a scheme has (the hit
    ratio of an absent cache) is null.

    Where a run is not steady (column ``warnings``), what depends on the state of the drive says nothing about the long
    run. The verdict is then withheld.

    Args:
        frame: The table of a study; runs that are not done are left out.
        by: The axis that holds the schemes. With several axes, each combination is a scheme, in the column ``scheme``.
        metrics: Columns to compare, dotted keys of the summary.
        baseline: The scheme that the others are compared with. Default: none, only means.
        at: Axes of the points. Default: all other axes of the study that have more than one value. One that is zipped
            with ``by`` (each scheme has a single value of it) belongs to the scheme.
        over: What repeats a run. Several columns may be named, such as ``["workload", "seed"]``.
        confidence: Share of intervals that hold the truth.
        simultaneous: Widen the intervals of differences, by Bonferroni, so that the share is that of tables which are
            right in every difference. Without it, one of 20 true equalities is called a difference.
        method: ``"t"`` (Student) or ``"bootstrap"`` (BCa, whose intervals are skewed as the values are). The bootstrap
            needs 25 seeds or more; with few it promises more than Student does.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.
        better: ``"smaller"`` or ``"larger"``, or which by metric. Default: what is known of it
            (:func:`ftlab.analysis.better`).
        even_unsteady: Give verdicts also where runs are not steady.

    Returns:
        A row for each metric, point and scheme: the axes, ``metric``, ``n`` (repetitions), ``mean``, and ``stdev`` (of
        the sample). ``unsteady`` counts the runs that are not steady, and ``warnings`` has the names of all warnings.
        ``half_width``, ``low`` and ``high`` are the interval, in the unit of the metric, null with one
        repetition. With a baseline also ``difference`` (scheme minus baseline) with ``difference_low`` and
        ``difference_high``, ``paired``, and ``differs``, whether that interval excludes 0. ``verdict`` is ``better``,
        ``worse``, ``undecided`` (the interval includes 0), ``same`` (equal in every repetition), or ``smaller`` and
        ``larger`` where neither way is better. It is ``withheld`` where a run of either scheme is not steady.

    Raises:
        ConfigError: A name is none of the table, a point has two runs of one seed, or an option is wrong.

    >>> runs = {"gc": ["greedy"] * 3 + ["fifo"] * 3, "seed": [1, 2, 3] * 2, "wa": [2.0, 2.5, 3.0, 3.0, 3.5, 4.0]}
    >>> table = ftlab.analysis.compare(runs, "gc", "wa", at=[], baseline="greedy", better="smaller")
    >>> table.select("gc", "n", "mean", "difference", "verdict").rows()
    [('greedy', 3, 2.5, None, None), ('fifo', 3, 3.5, 1.0, 'worse')]
    """
    import polars as pl

    estimator = Estimator(confidence, method, resamples, seed)
    grid = _grid(frame, by, at, over)
    reference = None if baseline is None else grid.scheme("baseline", baseline)
    others = [scheme for scheme in grid.schemes if baseline is not None and scheme != reference]
    measured = {metric: tables.numbers(grid.table, metric) for metric in tables.listed(metrics)}
    stated = dict.fromkeys(measured, better) if isinstance(better, str) else dict(better or {})
    unknown = [metric for metric in stated if metric not in measured]
    if unknown:
        raise ConfigError(f"better: {unknown[0]!r} is none of the metrics {', '.join(measured)}")
    ways = {metric: tables.direction(metric, stated.get(metric)) for metric in measured}
    if not measured:
        raise ConfigError("metrics: expected the name of a column")
    cells = [
        (metric, point, scheme)
        for metric in measured
        for point in grid.points
        for scheme in grid.schemes
        if (scheme, point) in grid.rows
    ]
    values = {cell: grid.values(cell[2], cell[1], measured[cell[0]]) for cell in cells}

    differing = estimator
    if simultaneous:
        repeated = {cell for cell in cells if len(values[cell]) > 1}
        compared = sum(
            scheme in others and (metric, point, reference) in repeated for metric, point, scheme in repeated
        )
        differing = Estimator(1 - (1 - confidence) / max(compared, 1), method, resamples, seed)

    rows = []
    for cell in cells:
        metric, point, scheme = cell
        found = np.array(list(values[cell].values()))
        low, high = estimator.mean(found) or (None, None)
        row = grid.labels(scheme, point) | {
            "metric": metric,
            "n": found.size,
            "unsteady": grid.unsteady(scheme, point),
            warned.COLUMN: ", ".join(dict.fromkeys(itertools.chain.from_iterable(grid.warnings(scheme, point)))),
            "mean": float(found.mean()) if found.size else None,
            "stdev": float(found.std(ddof=1)) if found.size > 1 else None,
            "half_width": None if low is None or high is None else (high - low) / 2,
            "low": low,
            "high": high,
        }
        if baseline is not None:
            row |= dict.fromkeys(_DIFFERENCE)
            base = values.get((metric, point, reference), {})
            if scheme in others and found.size and base:
                one, other, paired = _pair(values[cell], base)
                interval = differing.difference(one, other, paired=paired)
                differs, verdict = _verdict(interval, ways[metric])
                unsteady = row["unsteady"] + grid.unsteady(reference, point)
                if verdict is not None and unsteady and not even_unsteady and warned.depends_on_state(metric):
                    verdict = WITHHELD
                between = (float(one.mean() - other.mean()), *(interval or (None, None)))
                row |= dict(zip(_DIFFERENCE, (*between, differs, paired, verdict), strict=True))
        rows.append(row)
    schema = {"metric": pl.String, "n": pl.Int64, "unsteady": pl.Int64, warned.COLUMN: pl.String}
    schema |= dict.fromkeys(_MEAN, pl.Float64)
    if baseline is not None:
        schema |= dict(zip(_DIFFERENCE, (*[pl.Float64] * 3, pl.Boolean, pl.Boolean, pl.String), strict=True))
    return _frame(rows, grid, schema)


# The verdict where there is none to give.
WITHHELD = "withheld"
_MEAN = ("mean", "stdev", "half_width", "low", "high")
_DIFFERENCE = ("difference", "difference_low", "difference_high", "differs", "paired", "verdict")


@checked
def improvement(
    frame: Any,
    by: str | Sequence[str],
    metric: str,
    *,
    baseline: Any = None,
    scheme: Any = None,
    at: Sequence[str] | None = None,
    over: str | Sequence[str] = "seed",
    confidence: float = 0.95,
    method: Method = "t",
    resamples: int = 9999,
    seed: int = 1,
    better: Better | None = None,
) -> pl.DataFrame:
    """Say by which share schemes are better than others, at each point of the other axes.

    ``1 - mean / mean of the baseline`` where smaller is better, ``mean / mean of the baseline - 1`` where larger is:
    0.15 is 15 % better, -0.2 is 20 % worse. It is the ratio of means over repetitions, not the mean of ratios.

    Args:
        frame: The table of a study; runs that are not done are left out.
        by: The axis that holds the schemes, as in :func:`ftlab.analysis.compare`.
        metric: The column, of numbers that are not negative.
        baseline: What to improve on. Default: every other scheme.
        scheme: What improves. Default: every scheme.
        at: Axes of the points, as in :func:`ftlab.analysis.compare`.
        over: What repeats a run.
        confidence: Share of intervals that hold the truth.
        method: ``"t"``: Fieller's theorem, on pairs of runs with the same seed, else with Welch's degrees of freedom.
            ``"bootstrap"``: BCa, which resamples such pairs together.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.
        better: ``"smaller"`` or ``"larger"``. Default: what is known of the metric.

    Returns:
        A row for each baseline, point and scheme: the axes, ``baseline``, ``metric``, ``n`` (pairs, or repetitions of
        the scheme that has fewer), ``improvement``, ``low``, ``high``, ``paired``. The interval is null with one
        repetition, and where the baseline is so uncertain that no finite interval has the ratio. All are null where the
        baseline is 0.
        ``table.pivot(on="ftl.gc", index=[...], values="improvement")`` is the table as papers print it.

    Raises:
        ConfigError: As :func:`ftlab.analysis.compare`; or it is not known which way the metric is better; or it is
            negative.

    >>> runs = {"scheme": ["full", "half"], "seed": [1, 1], "penalty_ns": [200.0, 170.0]}
    >>> table = ftlab.analysis.improvement(runs, "scheme", "penalty_ns", at=[], baseline="full", better="smaller")
    >>> table.select("scheme", "improvement", "low").rows()
    [('half', 0.15..., None)]
    """
    import polars as pl

    estimator = Estimator(confidence, method, resamples, seed)
    grid = _grid(frame, by, at, over)
    way = tables.direction(metric, better)
    measured = tables.numbers(grid.table, metric)
    if way is None:
        raise ConfigError(f"metric {metric!r}: which way is better? State better as 'smaller' or 'larger'")
    if min(value for value in measured if value is not None) < 0:
        raise ConfigError(f"metric {metric!r}: has negative values, of which there are no shares")
    references = list(grid.schemes) if baseline is None else [grid.scheme("baseline", baseline)]
    ours = list(grid.schemes) if scheme is None else [grid.scheme("scheme", scheme)]

    rows = []
    for reference in references:
        for point in grid.points:
            base = grid.values(reference, point, measured)
            for each in ours:
                values = grid.values(each, point, measured)
                if each == reference or not base or not values:
                    continue
                one, other, paired = _pair(values, base)
                ratio = float(one.mean() / other.mean()) if other.mean() > 0 else None
                shares = [_share(bound, way) for bound in estimator.ratio(one, other, paired=paired) or ()]
                rows.append(
                    {
                        **grid.labels(each, point),
                        "baseline": reference,
                        "metric": metric,
                        "n": min(one.size, other.size),
                        "improvement": None if ratio is None else _share(ratio, way),
                        "low": min(shares, default=None),
                        "high": max(shares, default=None),
                        "paired": paired,
                    }
                )
    kinds: dict[str, Any] = {"baseline": grid.table[grid.by].dtype, "metric": pl.String, "n": pl.Int64}
    kinds |= dict.fromkeys(("improvement", "low", "high"), pl.Float64) | {"paired": pl.Boolean}
    return _frame(rows, grid, kinds)


def _share(ratio: float, way: Better) -> float:
    return 1 - ratio if way == "smaller" else ratio - 1
