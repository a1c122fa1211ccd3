"""The interpreter: a recipe becomes a scenario that sends through the bench and sees time stamps only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab.characterize.automatic.estimators import READERS, NoJumpError, Read, Series, edge, exact, middle_of
from ftlab.characterize.automatic.grammar import ESTIMATORS, TIMES, UNITS, Amount, Recipe
from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import Effort, Estimate, Plot, Scenario, UndecidedError
from ftlab.characterize.target import FLUSH, READ, SECTOR_BYTES, TRIM, WRITE, Batch

if TYPE_CHECKING:
    from ftlab.characterize.bench import Array, Bench

_OPS = {"read": READ, "write": WRITE, "trim": TRIM, "flush": FLUSH}
# Requests of one try, at most; and by how much corrections may raise the steps.
_MOST_REQUESTS, _MOST_FACTOR = 1 << 14, 4
# Bytes that one try moves, at most, without and with what it warms up.
_MOST_BYTES, _MOST_WARM_BYTES = 128 << 20, 512 << 20
_SURE, _SHOWN = 0.97, 2000
# A jump is looked for again in as many parts, until they are as short as that, in sectors.
_PARTS, _FINEST = 32, 4


@dataclass(frozen=True)
class _Plan:
    """Lengths of a recipe on one drive, in sectors."""

    region: int
    stride: int
    offset: int
    size: int
    unit: int
    xs: Array

    @property
    def widest(self) -> int:
        """The largest length that is swept."""
        return int(self.xs.max()) if self.xs.size else 0


def _sectors(bench: Bench, amount: Amount) -> int:
    unit = UNITS[amount.unit]
    size = bench.number(unit) if isinstance(unit, str) else unit
    return int(amount.count * size) // SECTOR_BYTES


def _multiples(recipe: Recipe) -> Array:
    if recipe.points == "edges":
        return np.unique([1, recipe.most])
    if recipe.points == "powers":
        return 2 ** np.arange(recipe.most.bit_length())
    # What is zoomed into begins as a line.
    return np.arange(1, recipe.most + 1)


def _planned(bench: Bench, recipe: Recipe) -> _Plan:
    unit = _sectors(bench, recipe.unit)
    xs = np.empty(0, dtype=np.int64) if recipe.sweep == "none" else _multiples(recipe) * unit
    amounts = (recipe.region, recipe.stride, recipe.offset, recipe.size)
    region, stride, offset, size = (_sectors(bench, each) for each in amounts)
    if region * SECTOR_BYTES > bench.capacity_bytes:
        raise UndecidedError(f"needs a drive of {region * SECTOR_BYTES >> 20} MiB")
    return _Plan(region, stride, offset, size, unit, xs)


def _places(bench: Bench, recipe: Recipe, plan: _Plan, x: Array, extent: int) -> Array:
    """Where each step goes, in sectors of the region."""
    room = plan.region - plan.offset - extent
    if room < 0 or plan.offset + extent > plan.region:
        raise UndecidedError("a step is longer than the region")
    if recipe.sweep == "age":
        return np.asarray(plan.region - x)
    if recipe.address == "fixed":
        return np.full(x.size, plan.offset)
    if recipe.address == "sequential":
        lengths = x if recipe.sweep == "size" else np.full(x.size, plan.size)
        ends = np.cumsum(lengths * recipe.depth)
        return np.asarray(plan.offset + (ends - ends[0]) % (room + 1))
    count = room // plan.stride + 1
    turn = np.arange(x.size) % count
    if recipe.address == "random":
        turn = bench.random.permutation(count)[turn]
    return np.asarray(plan.offset + turn * plan.stride)


def _warm_up(bench: Bench, recipe: Recipe, base: int, plan: _Plan) -> None:
    size = plan.region * SECTOR_BYTES
    if recipe.warm_up == "trim":
        bench.trim(base, size)
    elif recipe.warm_up != "none":
        bench.fill(base, size)
        if recipe.warm_up == "fill_scrub":
            bench.scrub()


def _timed(recipe: Recipe, latency: Array) -> Array:
    match recipe.timed:
        case "sum":
            return np.asarray(latency.sum(axis=1))
        case "first":
            return np.asarray(latency[:, 0])
        case "last":
            return np.asarray(latency[:, -1])
        case _:
            return np.asarray(latency.max(axis=1))


def _sent(bench: Bench, recipe: Recipe, base: int, plan: _Plan, x: Array) -> Array:
    """Send the steps of these points; gives the latency of each that counts."""
    sizes = x if recipe.sweep == "size" else np.full(x.size, plan.size)
    distances = x if recipe.sweep == "distance" else sizes
    extent = int((sizes + distances * (recipe.depth - 1)).max())
    places = base + _places(bench, recipe, plan, x, extent)
    ops = np.array([_OPS[op] for op in recipe.ops])
    shape = (x.size, recipe.depth, ops.size)
    lba = places[:, None, None] + distances[:, None, None] * np.arange(recipe.depth)[None, :, None]
    sent = np.broadcast_to(ops, shape)
    keeps = sent != FLUSH
    lba = np.where(keeps, np.broadcast_to(lba, shape), 0)
    lengths = np.where(keeps, np.broadcast_to(sizes[:, None, None], shape), 0)
    gap = recipe.gap_us * 1000
    columns = (sent.ravel(), lba.ravel(), lengths.ravel())
    if recipe.depth > 1 and gap:
        at = np.repeat(np.arange(x.size) * gap, recipe.depth * ops.size)
        batch = Batch.of(*columns, at_ns=at)
    else:
        batch = Batch.of(*columns, queue_depth=recipe.depth, gap_ns=gap)
    return _timed(recipe, bench.send(batch).latency_ns.reshape(x.size, -1))


def measured(bench: Bench, recipe: Recipe, steps: int) -> Series:
    """Send a recipe.

    Raises:
        UndecidedError: The drive is too small for it, or it is too long.
    """
    return _measured(bench, recipe, _planned(bench, recipe), steps)


def _measured(bench: Bench, recipe: Recipe, plan: _Plan, steps: int) -> Series:
    x = np.tile(plan.xs, steps) if plan.xs.size else np.arange(steps)
    if x.size * recipe.depth * len(recipe.ops) > _MOST_REQUESTS:
        raise UndecidedError(f"needs more than {_MOST_REQUESTS:,} requests")
    lengths = int(x.sum()) if recipe.sweep == "size" else x.size * plan.size
    if lengths * recipe.depth * len(recipe.ops) * SECTOR_BYTES > _MOST_BYTES:
        raise UndecidedError(f"moves more than {_MOST_BYTES >> 20} MiB")
    base = bench.region(plan.region * SECTOR_BYTES)
    if recipe.sweep == "age":
        if plan.widest > plan.region:
            raise UndecidedError("the region is shorter than the largest age")
        # Reading again changes what is kept, so every round begins anew.
        turns = np.split(x, steps)
    else:
        turns = _turns(recipe, plan, x)
    if len(turns) * plan.region * SECTOR_BYTES > _MOST_WARM_BYTES:
        raise UndecidedError(f"writes more than {_MOST_WARM_BYTES >> 20} MiB to begin anew")
    y = []
    for turn in turns:
        _warm_up(bench, recipe, base, plan)
        y.append(_sent(bench, recipe, base, plan, turn))
    written = recipe.ops.count("write") * recipe.depth * plan.size * SECTOR_BYTES
    return Series(x, np.concatenate(y), plan.unit, written, recipe.threshold / 100)


def _zoomed(bench: Bench, recipe: Recipe, steps: int) -> tuple[Series, Read]:
    """The jump of a sweep, measured again between the points before and behind it, until it is between two neighbours.

    Raises:
        NoJumpError: There is none.
        UndecidedError: It is not clear, or has moved.
    """
    plan = _planned(bench, recipe)
    first = _measured(bench, recipe, plan, steps)
    middle = middle_of(first)
    low, high = edge(first, middle)
    while high - low > _FINEST:
        step = max(_FINEST, int(high - low) // _PARTS)
        # One point before and one behind: the jump may have been at either.
        xs = np.arange(max(step, int(low) - step), int(high) + step + 1, step)
        low, high = edge(_measured(bench, recipe, replace(plan, xs=xs), steps), middle)
    return first, exact(low if recipe.estimator == "last_before" else high)


def _turns(recipe: Recipe, plan: _Plan, x: Array) -> list[Array]:
    """Steps between one warm-up and the next: until each place of the region was used once."""
    if recipe.warm_up == "none" or recipe.address == "fixed" or recipe.estimator in {"rhythm", "height"}:
        return [x]
    size = plan.widest if recipe.sweep == "size" else plan.size
    distance = plan.widest if recipe.sweep == "distance" else size
    extent = size + distance * (recipe.depth - 1)
    step = size * recipe.depth if recipe.address == "sequential" else plan.stride
    places = max(1, (plan.region - plan.offset - extent) // max(1, step) + 1)
    # Whole rounds of the sweep, so that each point is in each turn.
    whole = max(1, places // max(1, plan.xs.size)) * max(1, plan.xs.size)
    return [x[first : first + whole] for first in range(0, x.size, whole)]


def _known_times(bench: Bench, recipe: Recipe, plan: _Plan) -> Interval | None:
    """What is taken off: known times, as often as they are in what was timed."""
    total: Interval | None = None
    every = recipe.ops * recipe.depth
    counted = every if recipe.timed == "sum" else every[:1] if recipe.timed == "first" else every[-1:]
    moves = sum(op in {"read", "write"} for op in counted)
    level, swept = recipe.estimator == "level", recipe.sweep == "size"
    # Fixed times are not in a difference; what goes by the sector is where the size is swept.
    span = {"slope": plan.unit, "rise": plan.widest - plan.unit}.get(recipe.estimator, 0) if swept else 0
    sectors = plan.size if level else span
    page = bench.number("page_bytes", 0.0) / SECTOR_BYTES
    pages = 1.0 if not sectors or not page else max(1.0, sectors / page)
    for each in recipe.less:
        time = bench.interval(TIMES[each])
        if time is None:
            raise KeyError(TIMES[each])
        match each:
            case "host":
                factor = float(len(counted)) if level else 0.0
            case "link" | "bus":
                factor = float(sectors * moves)
            case _:
                factor = pages if level or swept else 1.0
        part = time * factor
        total = part if total is None else total + part
    return total


def _run(bench: Bench, recipe: Recipe, steps: int) -> list[Estimate]:
    unit, series = ESTIMATORS[recipe.estimator][0], None
    try:
        if recipe.points == "zoom":
            series, read = _zoomed(bench, recipe, steps)
        else:
            series = measured(bench, recipe, steps)
            read = READERS[recipe.estimator](series)
        value, confidence = read.value, read.confidence
    except NoJumpError:
        value, confidence = _without_jump(bench, recipe), _SURE
    else:
        if unit == "byte":
            value = value * SECTOR_BYTES
    if unit == "ns":
        known = _known_times(bench, recipe, _planned(bench, recipe))
        value = value if known is None else value - known
    return [Estimate(recipe.parameter, value, confidence, _plot(recipe, series))]


def _plot(recipe: Recipe, series: Series | None) -> Plot | None:
    if series is None:
        return None
    step = max(1, series.x.size // _SHOWN)
    shown: dict[str, tuple[Any, Any]] = {recipe.estimator: (series.x[::step].tolist(), series.y[::step].tolist())}
    label = "step" if recipe.sweep == "none" else f"{recipe.sweep} (sectors)"
    return Plot(label, f"{recipe.timed} (ns)", shown)


def _without_jump(bench: Bench, recipe: Recipe) -> Interval:
    if recipe.otherwise == "unknown":
        raise UndecidedError("there is no jump")
    plain = {"zero": 0.0, "one": 1.0}
    value = plain[recipe.otherwise] if recipe.otherwise in plain else bench.number(f"{recipe.otherwise}_bytes")
    return Interval(value, value, value)


def scenario_of(recipe: Recipe, name: str = "automatic", *, corrected: bool = True) -> Scenario:
    """The scenario that a recipe is; the flow corrects it as any other.

    Args:
        recipe: The recipe.
        name: What reports call it.
        corrected: Whether more steps are tried where it cannot tell.
    """
    ops = ", ".join(recipe.ops)
    swept = "" if recipe.sweep == "none" else f"; {recipe.sweep} up to {recipe.most} times {recipe.unit}"
    return Scenario(
        name=name,
        finds=(recipe.parameter,),
        needs=recipe.needs,
        assumes="A search has found that this tells the parameter on drives that were drawn by a seed.",
        sends=f"{recipe.warm_up} of {recipe.region}; {ops}, {recipe.depth} at once, {recipe.address}{swept}",
        estimator=f"{recipe.estimator} of the {recipe.timed} of each step",
        drive_writes=f"{recipe.region}, and what its steps write",
        run=lambda bench, effort: _run(bench, recipe, effort.repetitions),
        least_bytes=1 << 20,
        effort=Effort(repetitions=recipe.steps),
        most_repetitions=recipe.steps * _MOST_FACTOR if corrected else 1,
        alone={recipe.parameter: "it was judged alone, on drives that the search never saw"},
    )
