"""Which axis matters: the variance of a metric over a grid, taken apart by axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ftlab._checks import checked
from ftlab.analysis import tables
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from numpy.typing import NDArray

_Key = tuple[Any, ...]
# 2^k effects: a table of more would tell nobody anything.
_MOST_FACTORS = 10
_NOISE, _INTERACTIONS = "noise", "interactions"


@dataclass(frozen=True)
class _Data:
    """The runs by factor.

    Attributes:
        factors: Names of the axes of each factor: axes that move together are one.
        levels: Values of each factor, in the order of the table.
        codes: For each run the number of its level, by factor.
        values: The metric, or its logarithm.
        reps: The repetition of each run.
    """

    factors: list[tuple[str, ...]]
    levels: list[list[_Key]]
    codes: NDArray[np.int64]
    values: NDArray[np.float64]
    reps: list[_Key]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(levels) for levels in self.levels)

    def cells(self) -> dict[_Key, list[int]]:
        """Runs by point of the grid."""
        cells: dict[_Key, list[int]] = {}
        for run, code in enumerate(self.codes.tolist()):
            cells.setdefault(tuple(code), []).append(run)
        return cells


@dataclass(frozen=True)
class _Effect:
    """A part of the variance: a sum of squares with its degrees of freedom."""

    name: str
    order: int
    squares: float
    freedom: int
    factors: tuple[int, ...] = ()


@checked
def sensitivity(
    frame: Any,
    metric: str,
    axes: Sequence[str] | None = None,
    *,
    over: str | Sequence[str] = "seed",
    log: bool = False,
    method: Literal["anova", "regression"] = "anova",
) -> pl.DataFrame:
    """Say which axis matters: what share of the variance of a metric over the grid each axis causes.

    ``"anova"`` needs the whole grid, with equally many runs at each point. The variance then falls apart into that of
    each axis alone (main effects), of axes together (interactions), and of the noise over seeds, without remainder. On
    a grid these are the indices of Sobol' with each value of an axis equally likely (I. M. Sobol', Sensitivity
    estimates for nonlinear mathematical models, 1993; total effects: T. Homma and A. Saltelli, Importance measures in
    global sensitivity analysis of nonlinear models, 1996).

    ``"regression"`` takes any grid, also with holes. Shares are the gain in R² of an additive model by each axis,
    averaged over all orders in which axes can be added (R. H. Lindeman, P. F. Merenda and R. Z. Gold, Introduction to
    bivariate and multivariate analysis, 1980). What no additive model explains is one row, ``interactions``. Where
    holes make axes go together, they share what cannot be separated.

    Args:
        frame: The table of a study; runs that are not done are left out.
        metric: The column.
        axes: The axes. Default: all axes of the study that have more than one value. Axes that move together (zipped
            ones) are one. Runs that differ in an axis which is not named count as noise.
        over: What repeats a run.
        log: Take the logarithm of the metric first: for metrics whose values differ by factors. All must be above 0.
        method: See above.

    Returns:
        A row for each effect. ``effect`` is the axis; axes of an interaction are joined by `` x ``, axes that move
        together by ``, ``. ``order`` is 1 for an axis, 2 or more for an interaction, 0 for noise. ``share`` is that of
        the variance; shares sum to 1. For axes also ``total``, the share with all interactions that the axis is in.
        ``lowest`` and ``highest`` are the least and the greatest mean over the runs of one value of the axis. They are
        in the unit of the metric (with ``log`` geometric means), and the values are ``lowest_at`` and ``highest_at``.
        ``df`` are the degrees of freedom. ``p`` is how likely such a share is by noise alone: an F test, in blocks
        where every point has the same seeds; not with ``"regression"``. With one run a point, noise cannot be separated
        from the interaction of all axes: its ``share`` is null, and so is ``p``.
        Axes come first, by total; then interactions, by share; then noise.

    Raises:
        ConfigError: A name is none of the table, the grid has holes, the metric is the same everywhere, or an option
            is wrong.

    >>> runs = {"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "seed": [1] * 4, "y": [0.0, 1.0, 3.0, 4.0]}
    >>> ftlab.analysis.sensitivity(runs, "y", ["a", "b"]).select("effect", "share", "total").rows()
    [('a', 0.9, 0.9), ('b', 0.1, 0.1), ('a x b', 0.0, None), ('noise', None, None)]
    """
    tables.choice("method", method, ("anova", "regression"))
    data = _data(frame, metric, axes, over, log=log)
    if data.values.min() == data.values.max():
        value = np.exp(data.values[0]) if log else data.values[0]
        raise ConfigError(f"metric {metric!r}: is {value:g} in all runs; there is nothing to explain")
    if len(data.factors) > _MOST_FACTORS:
        raise ConfigError(f"{len(data.factors)} axes: name {_MOST_FACTORS} or fewer of them")
    effects, error = _anova(data) if method == "anova" else _regression(data)
    return _report(data, effects, error, log=log)


def _data(frame: Any, metric: str, axes: Sequence[str] | None, over: str | Sequence[str], *, log: bool) -> _Data:
    import polars as pl

    table = tables.done(frame)
    repeated = tables.listed(over)
    tables.columns(table, repeated, "over")
    numbers = tables.numbers(table, metric)
    names = tables.axes_of(table, repeated, axes)
    if metric in names:
        raise ConfigError(f"metric {metric!r}: is an axis")
    kept = [number is not None for number in numbers]
    table = table.filter(pl.Series(kept))
    values = np.array([number for number in numbers if number is not None])
    if log:
        if values.min() <= 0:
            raise ConfigError(f"metric {metric!r}: has the value {values.min():g}, of which there is no logarithm")
        values = np.log(values)
    factors: list[tuple[str, ...]] = []
    columns: list[list[_Key]] = []
    for name in tables.varying(table, names):
        column = [value for (value,) in tables.keys(table, [name])]
        for place, other in enumerate(columns):
            pairs = len(set(zip(column, other, strict=True)))
            if pairs == len(set(column)) == len(set(other)):
                factors[place] += (name,)
                columns[place] = [(*key, value) for key, value in zip(other, column, strict=True)]
                break
        else:
            factors.append((name,))
            columns.append([(value,) for value in column])
    if not factors:
        raise ConfigError("no axis has more than one value")
    levels = [list(dict.fromkeys(column)) for column in columns]
    numbers_of = [{value: number for number, value in enumerate(column)} for column in levels]
    codes = np.array([[of[value] for value in column] for of, column in zip(numbers_of, columns, strict=True)]).T
    reps = tables.keys(table, repeated)
    return _Data(factors, levels, codes, values, reps)


def _name(data: _Data, factors: Sequence[int]) -> str:
    return " x ".join(", ".join(data.factors[factor]) for factor in factors)


def _balanced(data: _Data) -> dict[_Key, list[int]]:
    """The runs of each point, equally many, or an error that says where they are not."""
    cells = data.cells()

    def where(code: _Key) -> str:
        levels = (data.levels[factor][level] for factor, level in enumerate(code))
        names = [name for factor in data.factors for name in factor]
        return tables.named(names, [value for level in levels for value in level])

    hint = "; leave values or axes out, or use method 'regression'"
    missing = [code for code in product(*map(range, data.shape)) if code not in cells]
    if missing:
        raise ConfigError(
            f"the grid has holes: {len(missing)} of {math.prod(data.shape)} points have no run with a value, "
            f"the first is {where(missing[0])}{hint}"
        )
    most = max(len(runs) for runs in cells.values())
    fewer = [code for code, runs in cells.items() if len(runs) < most]
    if fewer:
        raise ConfigError(
            f"{len(fewer)} of {len(cells)} points have fewer runs with a value than the others, which have {most}: "
            f"the first is {where(fewer[0])} with {len(cells[fewer[0]])}{hint}"
        )
    return cells


def _anova(data: _Data) -> tuple[list[_Effect], tuple[float, int]]:
    """Sums of squares of all effects and of noise, and the sum of squares that effects are tested against."""
    cells = _balanced(data)
    runs = len(next(iter(cells.values())))
    codes = list(product(*map(range, data.shape)))
    means = np.array([data.values[cells[code]].mean() for code in codes]).reshape(data.shape)
    factors = range(len(data.factors))
    parts: dict[tuple[int, ...], NDArray[np.float64]] = {}
    effects = []
    for order in range(len(data.factors) + 1):
        for subset in combinations(factors, order):
            others = tuple(factor for factor in factors if factor not in subset)
            part = means.mean(axis=others, keepdims=True) if others else means.copy()
            for below in range(order):
                for smaller in combinations(subset, below):
                    part = part - parts[smaller]
            parts[subset] = part
            if order:
                repeats = runs * math.prod(data.shape[factor] for factor in others)
                freedom = math.prod(data.shape[factor] - 1 for factor in subset)
                effects.append(_Effect(_name(data, subset), order, repeats * float((part**2).sum()), freedom, subset))
    within = sum(float(((data.values[rows] - data.values[rows].mean()) ** 2).sum()) for rows in cells.values())
    freedom = len(cells) * (runs - 1)
    effects.append(_Effect(_NOISE, 0, within, freedom))
    error = within, freedom
    seeds = {tuple(sorted(map(str, (data.reps[row] for row in rows)))) for rows in cells.values()}
    if runs > 1 and len(seeds) == 1 and len(set(*seeds)) == runs:
        # The same seeds everywhere: what a seed does to all points alike hides no effect.
        by_seed: dict[_Key, list[float]] = {}
        for rep, value in zip(data.reps, data.values.tolist(), strict=True):
            by_seed.setdefault(rep, []).append(value)
        centre = float(data.values.mean())
        blocks = len(cells) * sum((float(np.mean(values)) - centre) ** 2 for values in by_seed.values())
        error = max(within - blocks, 0.0), (len(cells) - 1) * (runs - 1)
    return effects, error


def _explained(data: _Data, factors: Sequence[int]) -> float:
    """Sum of squares that an additive model of some factors explains."""
    indicators = (np.eye(data.shape[factor])[data.codes[:, factor]][:, 1:] for factor in factors)
    design = np.hstack([np.ones((data.values.size, 1)), *indicators])
    solution = np.linalg.lstsq(design, data.values, rcond=None)[0]
    return float(((design @ solution - data.values.mean()) ** 2).sum())


def _regression(data: _Data) -> tuple[list[_Effect], tuple[float, int]]:
    count = len(data.factors)
    subsets = [subset for order in range(count + 1) for subset in combinations(range(count), order)]
    explained = {subset: _explained(data, subset) if subset else 0.0 for subset in subsets}
    effects = []
    for factor in range(count):
        share = 0.0
        for subset in subsets:
            if factor not in subset:
                # The share of orders in which just these axes come before.
                weight = math.factorial(len(subset)) * math.factorial(count - 1 - len(subset)) / math.factorial(count)
                share += weight * (explained[tuple(sorted((*subset, factor)))] - explained[subset])
        effects.append(_Effect(_name(data, (factor,)), 1, share, data.shape[factor] - 1, (factor,)))
    cells = data.cells()
    within = sum(float(((data.values[rows] - data.values[rows].mean()) ** 2).sum()) for rows in cells.values())
    freedom = data.values.size - len(cells)
    between = float(((data.values - data.values.mean()) ** 2).sum()) - within
    additive = explained[tuple(range(count))]
    left = len(cells) - 1 - sum(size - 1 for size in data.shape)
    effects.append(_Effect(_INTERACTIONS, 2, max(between - additive, 0.0), max(left, 0)))
    effects.append(_Effect(_NOISE, 0, within, freedom))
    return effects, (within, 0)


def _report(data: _Data, effects: list[_Effect], error: tuple[float, int], *, log: bool) -> pl.DataFrame:
    import polars as pl

    whole = sum(effect.squares for effect in effects)
    # What is left of zeros after so many additions.
    dust = 1e-12 * whole
    together = {
        effect.name: sum(other.squares for other in effects if set(effect.factors) <= set(other.factors))
        for effect in effects
        if effect.order == 1
    }
    # A row that sums interactions up does not say whose they are.
    split = all(effect.factors for effect in effects if effect.order)

    def place(effect: _Effect) -> tuple[int, float]:
        return (2 if effect.order == 0 else effect.order > 1), -together.get(effect.name, effect.squares)

    rows = []
    for effect in sorted(effects, key=place):
        squares = effect.squares if effect.squares > dust else 0.0
        row: dict[str, Any] = {"effect": effect.name, "order": effect.order}
        row["share"] = squares / whole if effect.order or effect.freedom else None
        row |= dict.fromkeys(("total", "lowest", "highest", "lowest_at", "highest_at"))
        if effect.order == 1:
            row |= _marginal(data, effect.factors[0], log=log)
            row["total"] = together[effect.name] / whole if split else None
        row["df"] = effect.freedom
        row["p"] = _chance(squares, effect.freedom, error, dust) if effect.order else None
        rows.append(row)
    floats = dict.fromkeys(("share", "total", "lowest", "highest", "p"), pl.Float64)
    texts = dict.fromkeys(("effect", "lowest_at", "highest_at"), pl.String)
    return pl.DataFrame(rows, schema_overrides=floats | texts | {"order": pl.Int64, "df": pl.Int64})


def _marginal(data: _Data, factor: int, *, log: bool) -> dict[str, Any]:
    means = [float(data.values[data.codes[:, factor] == level].mean()) for level in range(data.shape[factor])]
    result: dict[str, Any] = {}
    for name, level in (("lowest", int(np.argmin(means))), ("highest", int(np.argmax(means)))):
        result[name] = math.exp(means[level]) if log else means[level]
        result[f"{name}_at"] = ", ".join(map(str, data.levels[factor][level]))
    return result


def _chance(squares: float, freedom: int, error: tuple[float, int], dust: float) -> float | None:
    """How likely an effect of this size is by noise alone."""
    from scipy.special import fdtrc

    if not error[1]:
        return None
    if error[0] <= dust:
        # No noise at all: whatever is there is no chance.
        return 0.0 if squares > 0 else 1.0
    return float(fdtrc(freedom, error[1], (squares / freedom) / (error[0] / error[1])))
