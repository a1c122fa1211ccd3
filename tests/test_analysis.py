"""Analysis of studies, held against textbook numbers, simulations with known answers, and naive computations."""

from __future__ import annotations

import csv
import io
import math
import random
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import ftlab
from conftest import Ran
from ftlab._keys import Tables
from ftlab.analysis import better, compare, improvement, pareto, sensitivity, steady_state, steady_states
from ftlab.analysis.intervals import Estimator
from ftlab.analysis.tables import _BETTER as BETTER
from ftlab.cli import status_of
from ftlab.cli.analysis import is_measured

Asked = Callable[..., Ran]

# Extra hours of sleep of ten patients with two drugs: the data with which Student introduced his distribution (1908).
SLEEP = {
    "1": [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
    "2": [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
}
# Breaks of yarn by wool and tension (J. W. Tukey, Exploratory data analysis, 1977).
BREAKS = {
    ("A", "L"): [26, 30, 54, 25, 70, 52, 51, 26, 67],
    ("A", "M"): [18, 21, 29, 17, 12, 18, 35, 30, 36],
    ("A", "H"): [36, 21, 24, 18, 10, 43, 28, 15, 26],
    ("B", "L"): [27, 14, 29, 19, 29, 31, 41, 20, 44],
    ("B", "M"): [42, 26, 19, 16, 39, 28, 21, 39, 29],
    ("B", "H"): [20, 21, 24, 17, 13, 15, 15, 16, 28],
}


def runs(cells: dict[Any, list[float]], axes: tuple[str, ...], metric: str = "y") -> pl.DataFrame:
    """A table as a study gives it: cells by values of the axes, a value for each seed."""
    rows = [
        {
            **dict(zip(axes, key if isinstance(key, tuple) else (key,), strict=True)),
            "seed": seed,
            "status": "done",
            "error": None,
            "key": f"{key}{seed}",
            metric: value,
        }
        for key, values in cells.items()
        for seed, value in enumerate(values, 1)
    ]
    return pl.DataFrame(rows)


def sleep() -> pl.DataFrame:
    return runs({drug: list(hours) for drug, hours in SLEEP.items()}, ("drug",), "hours")


def only(frame: pl.DataFrame, **values: Any) -> dict[str, Any]:
    return frame.filter(**values).row(0, named=True)


# Comparison


def test_means_and_paired_differences_are_those_of_the_textbook() -> None:
    row = only(compare(sleep(), "drug", "hours", baseline="1", better="larger"), drug="2")
    assert (row["n"], row["mean"], row["paired"], row["verdict"]) == (10, pytest.approx(2.33), True, "better")
    # Student's paired test, as every text and package prints it: t = 4.0621 with 9 degrees of freedom.
    assert row["difference"] == pytest.approx(1.58)
    assert (row["difference_low"], row["difference_high"]) == pytest.approx((0.7001142, 2.4598858), abs=1e-7)
    assert row["half_width"] == pytest.approx(2.262157 * row["stdev"] / math.sqrt(10), rel=1e-6)
    assert (row["low"], row["high"]) == pytest.approx(
        (row["mean"] - row["half_width"], row["mean"] + row["half_width"])
    )


def test_schemes_without_the_same_seeds_are_compared_by_welch() -> None:
    frame = sleep().with_columns(seed=pl.when(pl.col("drug") == "2").then(pl.col("seed") + 100).otherwise("seed"))
    row = only(compare(frame, "drug", "hours", baseline="1", better="larger"), drug="2")
    # Welch's test of the same data: 17.776 degrees of freedom.
    assert (row["difference_low"], row["difference_high"]) == pytest.approx((-0.2054832, 3.3654832), abs=1e-7)
    assert (row["paired"], row["differs"], row["verdict"]) == (False, False, "undecided")


@pytest.mark.parametrize(("common", "paired"), [(4, True), (3, True), (2, False), (0, False)])
def test_pairs_that_are_most_of_both_decide(common: int, paired: bool) -> None:
    # What a seed does is much, what the scheme does little.
    values = {seed: 10.0 * seed + 0.01 * (seed % 3) for seed in range(10)}
    ours = {seed: values[seed] + 1 + 0.01 * (seed % 2) for seed in range(5 - common, 10 - common)}
    cells = {"old": {seed: values[seed] for seed in range(5)}, "new": ours}
    rows = [{"scheme": name, "seed": seed, "y": y} for name, cell in cells.items() for seed, y in cell.items()]
    options = {"at": [], "baseline": "old", "better": "larger"}
    row = only(compare(pl.DataFrame(rows), "scheme", "y", **options), scheme="new")
    ratio = only(improvement(pl.DataFrame(rows), "scheme", "y", **options), scheme="new")
    assert (row["n"], row["paired"]) == (5, paired)
    assert (ratio["n"], ratio["paired"]) == (common if paired else 5, paired)
    if paired:
        assert (row["difference"], row["verdict"]) == (pytest.approx(1.005, abs=0.01), "better")
        base = np.mean([values[seed] for seed in ours if seed < 5])
        assert ratio["improvement"] == pytest.approx(1.005 / base, rel=0.01)


def test_one_seed_says_nothing_about_noise() -> None:
    frame = runs({"a": [1.0], "b": [2.0]}, ("scheme",))
    row = only(compare(frame, "scheme", "y", baseline="a", better="smaller"), scheme="b")
    assert (row["n"], row["mean"], row["difference"]) == (1, 2.0, 1.0)
    unknown = ("stdev", "half_width", "low", "high", "difference_low", "difference_high", "differs", "verdict")
    assert [row[name] for name in unknown] == [None] * len(unknown)
    assert improvement(frame, "scheme", "y", better="smaller")["low"].null_count() == 2


def test_a_failed_run_leaves_the_other_pairs() -> None:
    cells = {(gc, op): [1.0, 1.2, 1.1, 1.3] for gc in ("greedy", "fifo") for op in (0.1, 0.2)}
    frame = runs(cells, ("ftl.gc", "op")).with_row_index()
    failed = pl.col("index") == 2
    frame = frame.with_columns(
        status=pl.when(failed).then(pl.lit("error")).otherwise("status"), y=pl.when(failed).then(None).otherwise("y")
    ).drop("index")
    table = compare(frame, "ftl.gc", "y", baseline="greedy", better="smaller")
    assert only(table, **{"ftl.gc": "greedy", "op": 0.1})["n"] == 3
    others = only(table, **{"ftl.gc": "fifo", "op": 0.1})
    assert (others["n"], others["paired"], others["difference"], others["verdict"]) == (4, True, 0.0, "same")
    whole = only(table, **{"ftl.gc": "fifo", "op": 0.2})
    assert (whole["paired"], whole["difference"], whole["verdict"]) == (True, 0.0, "same")


def test_axes_that_are_zipped_with_the_schemes_belong_to_them() -> None:
    cells = {(gc, gc[0], op): [1.0, 2.0 + len(gc)] for gc in ("greedy", "fifo") for op in (1, 2)}
    table = compare(runs(cells, ("gc", "letter", "op")), "gc", "y", baseline="fifo")
    assert table.columns[:3] == ["gc", "letter", "op"]
    assert table.filter(gc="greedy")["difference"].to_list() == [1.0, 1.0]
    assert table["letter"].to_list() == ["g", "f", "g", "f"]


def test_several_axes_may_be_the_scheme_and_several_columns_the_repetition() -> None:
    cells = {(gc, op, trace): [float(len(gc) + op * 10)] * 2 for gc in ("a", "bb") for op in (1, 2) for trace in "xyz"}
    frame = runs(cells, ("gc", "op", "trace"))
    table = compare(frame, ["gc", "op"], "y", over=["trace", "seed"], baseline="a, 1")
    assert table.select("scheme", "n", "difference").rows() == [
        ("a, 1", 6, None),
        ("a, 2", 6, 10.0),
        ("bb, 1", 6, 1.0),
        ("bb, 2", 6, 11.0),
    ]


def test_a_cache_that_never_hits_was_measured_and_a_run_without_a_clock_was_not() -> None:
    never = pl.Series([None, None], dtype=pl.Float64)
    frame = pl.DataFrame({"map_cache.hit_ratio": [0.0] * 2, "host.iops": [0.0] * 2, "latency_ns.read.mean": never})
    assert [name for name in frame.columns if is_measured(frame, name)] == ["map_cache.hit_ratio"]


def test_what_is_named_twice_is_named() -> None:
    cells = {(gc, op): [float(len(gc) + op), op + 2.0] for gc in ("a", "bb") for op in (1, 2)}
    frame = runs(cells, ("gc", "op"))
    once = compare(frame, "gc", "y", at=["op"], over="seed", baseline="a")
    twice = compare(frame, ["gc", "gc"], ["y", "y"], at=["op", "op"], over=["seed", "seed"], baseline="a")
    assert_frame_equal(once, twice)


def test_intervals_of_many_differences_hold_together_on_demand() -> None:
    rng = np.random.default_rng(1)
    frame = runs({scheme: rng.normal(size=8).tolist() for scheme in "abcd"}, ("scheme",))
    one = compare(frame, "scheme", "y", baseline="a", better="smaller")
    all_ = compare(frame, "scheme", "y", baseline="a", better="smaller", simultaneous=True)
    width = (pl.col("difference_high") - pl.col("difference_low")).alias("width")
    ratio = (all_.select(width) / one.select(width))["width"].drop_nulls().to_list()
    # Quantiles of Student's distribution with 7 degrees of freedom at 1 - 0.025 / 3 and at 0.975.
    assert ratio == pytest.approx([3.127552 / 2.364624] * 3, rel=1e-5)
    assert_frame_equal(one.select("mean", "low"), all_.select("mean", "low"))


def test_rows_are_in_the_order_of_the_grid_whatever_the_frame_is_made_of() -> None:
    cells = {(gc, op): [op, op + 1.0] for gc in ("z", "a") for op in (3, 1)}
    frame = runs(cells, ("gc", "op"))
    table = compare(frame, "gc", ["y"], baseline="z")
    assert table.select("op", "gc").rows() == [(3, "z"), (3, "a"), (1, "z"), (1, "a")]
    as_dict = {name: frame[name].to_list() for name in frame.columns}
    others = [frame.lazy(), frame.to_pandas(), frame.to_arrow(), as_dict]
    for other in others:
        assert_frame_equal(compare(other, "gc", ["y"], baseline="z"), table, check_dtypes=False)


def test_what_no_run_of_a_scheme_has_is_null() -> None:
    frame = runs({"cached": [0.5, 0.6], "whole": [None, math.nan]}, ("map",))  # type: ignore[list-item] # as it comes
    row = only(compare(frame, "map", "y", baseline="cached"), map="whole")
    assert (row["n"], row["mean"], row["difference"]) == (0, None, None)
    assert improvement(frame, "map", "y", better="larger").height == 0


# Improvement


def test_improvements_are_shares_of_the_baseline() -> None:
    penalty = {("full", 16): [200.0], ("half", 16): [170.0], ("full", 32): [100.0], ("half", 32): [124.0]}
    table = improvement(
        runs(penalty, ("scheme", "kib"), "map_cache.mean_penalty_ns"), "scheme", "map_cache.mean_penalty_ns"
    )
    assert table.height == 4
    over_full = table.filter(baseline="full")
    assert over_full["improvement"].to_list() == pytest.approx([0.15, -0.24])
    wide = over_full.pivot(on="kib", index="scheme", values="improvement")
    assert wide.rows()[0] == ("half", pytest.approx(0.15), pytest.approx(-0.24))
    iops = improvement(runs({"a": [100.0], "b": [120.0]}, ("s",), "host.iops"), "s", "host.iops", baseline="a")
    assert iops["improvement"].to_list() == pytest.approx([0.2])


def test_ratio_intervals_end_where_a_test_of_the_ratio_would_reject() -> None:
    rng = np.random.default_rng(3)
    base = rng.normal(10, 2, size=6)
    ours = 0.8 * base + rng.normal(0, 0.5, size=6)
    frame = runs({"base": base.tolist(), "ours": ours.tolist()}, ("scheme",))
    row = improvement(frame, "scheme", "y", baseline="base", better="smaller").row(0, named=True)
    assert (row["paired"], row["n"]) == (True, 6)
    # Fieller: at the ends, `ours - ratio * base` is just t standard errors from 0 (5 degrees of freedom).
    for end in ("low", "high"):
        rest = ours - (1 - row[end]) * base
        assert abs(rest.mean()) / (rest.std(ddof=1) / math.sqrt(6)) == pytest.approx(2.570582, rel=1e-6)
    assert row["improvement"] == pytest.approx(1 - ours.mean() / base.mean())
    assert row["low"] < row["improvement"] < row["high"]


def test_ratio_intervals_hold_the_ratio_of_equal_schemes() -> None:
    rng = np.random.default_rng(4)
    for values in rng.uniform(1, 5, size=(50, 5)).round(3).tolist():
        frame = runs({"base": values, "ours": values}, ("scheme",))
        row = improvement(frame, "scheme", "y", baseline="base", better="smaller").row(0, named=True)
        assert row["low"] <= row["improvement"] == 0 <= row["high"], values


def test_ratios_that_cannot_be_known_are_null() -> None:
    frame = runs({"zero": [0.0, 0.0], "noise": [1.0, -0.0, 9.0], "ours": [1.0, 2.0, 3.0]}, ("scheme",))
    table = improvement(frame, "scheme", "y", scheme="ours", better="smaller")
    zero, noise = only(table, baseline="zero"), only(table, baseline="noise")
    assert (zero["improvement"], zero["low"]) == (None, None)
    assert (noise["improvement"], noise["low"], noise["high"]) == (pytest.approx(0.4), None, None)


# Intervals: what they promise


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(11)
    estimator = Estimator(confidence=0.95, method="t", resamples=100, seed=1)
    held: dict[str, int] = {}
    trials = 3000
    for _ in range(trials):
        common = rng.normal(0, 1, size=5)
        base, ours = 10 + common + rng.normal(0, 0.5, size=5), 8 + common + rng.normal(0, 0.5, size=5)
        alone = rng.normal(8, 1, size=7)
        found = {
            "mean": (estimator.mean(base), 10),
            "paired": (estimator.difference(ours, base, paired=True), -2),
            "unpaired": (estimator.difference(alone, base, paired=False), -2),
            "ratio of pairs": (estimator.ratio(ours, base, paired=True), 0.8),
            "ratio": (estimator.ratio(alone, base, paired=False), 0.8),
        }
        for kind, (interval, truth) in found.items():
            low, high = interval or (math.nan, math.nan)
            held[kind] = held.get(kind, 0) + (low <= truth <= high)
    shares = {kind: count / trials for kind, count in held.items()}
    assert all(0.93 < share < 0.97 for share in shares.values()), shares


@pytest.mark.long
def test_the_bootstrap_follows_skewed_values() -> None:
    rng = np.random.default_rng(12)
    estimator = Estimator(confidence=0.95, method="bootstrap", resamples=500, seed=1)
    held, below, above, trials = 0, 0.0, 0.0, 150
    for _ in range(trials):
        low, high = estimator.mean(values := rng.exponential(size=25)) or (math.nan, math.nan)
        held += low <= 1 <= high
        below, above = below + values.mean() - low, above + high - values.mean()
    # With 25 values of such a distribution the true coverage is 92 to 93 %.
    assert 0.86 < held / trials < 0.98
    assert above > 1.2 * below


def test_the_bootstrap_is_repeatable_and_knows_its_limits() -> None:
    rng = np.random.default_rng(2)
    frame = runs({scheme: rng.exponential(size=12).tolist() for scheme in "ab"}, ("scheme",))
    options: dict[str, Any] = {"baseline": "a", "better": "smaller", "method": "bootstrap", "resamples": 300}
    table = compare(frame, "scheme", "y", **options)
    assert_frame_equal(table, compare(frame, "scheme", "y", **options))
    # What else is in the table changes nothing.
    alone = compare(frame.filter(scheme="b"), "scheme", "y", method="bootstrap", resamples=300)
    assert only(alone, scheme="b")["low"] == only(table, scheme="b")["low"]
    assert (
        only(compare(frame, "scheme", "y", **options | {"seed": 2}), scheme="b")["low"]
        != only(table, scheme="b")["low"]
    )
    two = compare(frame.filter(pl.col("seed") < 3), "scheme", "y", method="bootstrap")
    assert two["low"].to_list() == [None, None]
    ratio = improvement(frame, "scheme", "y", **options).row(0, named=True)
    assert ratio["low"] < ratio["improvement"] < ratio["high"]
    unpaired = frame.with_columns(seed=pl.int_range(pl.len()))
    for result in (
        compare(unpaired, "scheme", "y", **options)["difference_low"],
        improvement(unpaired, "scheme", "y", **options)["low"],
    ):
        assert result.drop_nulls().len() == 1


# Sensitivity


def test_the_analysis_of_variance_is_that_of_the_textbook() -> None:
    frame = runs({key: list(map(float, values)) for key, values in BREAKS.items()}, ("wool", "tension"))
    frame = frame.with_columns(seed=pl.int_range(pl.len()))
    table = sensitivity(frame, "y")
    # Sums of squares and p values as every package prints them.
    known = {
        "tension": (2034.26, 2, 0.0006926),
        "wool": (450.67, 1, 0.0582130),
        "wool x tension": (1002.78, 2, 0.0210442),
        "noise": (5745.11, 48, None),
    }
    whole = sum(squares for squares, _, _ in known.values())
    assert table["effect"].to_list() == list(known)
    for row in table.to_dicts():
        squares, freedom, chance = known[row["effect"]]
        assert row["share"] == pytest.approx(squares / whole, abs=2e-6)
        assert row["df"] == freedom
        assert row["p"] == (None if chance is None else pytest.approx(chance, abs=5e-8))
    tension = only(table, effect="tension")
    assert tension["total"] == pytest.approx((2034.26 + 1002.78) / whole, abs=2e-6)
    assert (tension["lowest_at"], tension["lowest"]) == ("H", pytest.approx(21.6667, abs=1e-4))


def test_the_same_seeds_make_blocks() -> None:
    frame = sleep()
    table = sensitivity(frame, "hours")
    # Two schemes in blocks: the paired test, whose p value is 0.002833.
    assert only(table, effect="drug")["p"] == pytest.approx(0.002833, abs=5e-7)
    worse = frame.with_columns(hours=pl.col("hours") + 100 * pl.col("seed"))
    assert only(sensitivity(worse, "hours"), effect="drug")["p"] == pytest.approx(0.002833, abs=5e-7)
    apart = frame.with_columns(seed=pl.int_range(pl.len()))
    # Without blocks: the two-sample test with equal variances, t = -1.8608, 18 degrees of freedom.
    assert only(sensitivity(apart, "hours"), effect="drug")["p"] == pytest.approx(0.07919, abs=5e-6)


def test_shares_of_a_known_function_are_its_sobol_indices() -> None:
    cells = {(a, b, c): [a + 2 * b + 3 * a * b] for a, b, c in product((-1.0, 1.0), repeat=3)}
    table = sensitivity(runs(cells, ("a", "b", "c")), "y")
    by = {row["effect"]: row for row in table.to_dicts()}
    assert [by[name]["share"] for name in ("a", "b", "a x b", "c")] == pytest.approx([1 / 14, 4 / 14, 9 / 14, 0])
    assert [by[name]["total"] for name in "abc"] == pytest.approx([10 / 14, 13 / 14, 0])
    assert (by["noise"]["share"], by["noise"]["df"]) == (None, 0)
    assert table["effect"].to_list()[:3] == ["b", "a", "c"]


@pytest.mark.parametrize("method", ["anova", "regression"])
@pytest.mark.parametrize("seeds", [1, 3])
def test_shares_sum_to_one(method: Any, seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    cells = {key: rng.lognormal(size=seeds).tolist() for key in product("ab", (1, 2, 3), (True, False))}
    for log in (False, True):
        table = sensitivity(runs(cells, ("x", "y axis", "z")), "y", method=method, log=log)
        assert table["share"].sum() == pytest.approx(1)
        assert (table["share"].drop_nulls() >= 0).all()


def test_noise_alone_matters_little_and_is_called_noise() -> None:
    rng = np.random.default_rng(9)
    chances = []
    for _ in range(200):
        cells = {key: rng.normal(size=4).tolist() for key in product("abc", "uvw")}
        table = sensitivity(runs(cells, ("one", "two")), "y")
        chances.append(only(table, effect="one")["p"])
    # p is uniform where nothing matters.
    assert 0.01 < np.mean(np.array(chances) < 0.05) < 0.10
    assert 0.42 < np.mean(chances) < 0.58


def test_logarithms_make_products_additive() -> None:
    cells = {(a, b): [float(a * b)] for a in (1, 10, 100) for b in (1, 2, 4)}
    frame = runs(cells, ("a", "b"))
    table = sensitivity(frame, "y", log=True)
    assert only(table, effect="a x b")["share"] == 0
    assert only(table, effect="a")["highest"] == pytest.approx(200)
    assert only(sensitivity(frame, "y"), effect="a x b")["share"] > 0.05


def test_regression_shares_what_cannot_be_told_apart() -> None:
    rng = np.random.default_rng(4)
    points = [(0, 0)] * 6 + [(0, 1)] * 2 + [(1, 0)] * 3 + [(1, 1)] * 7
    values = [2 * a + b + rng.normal() for a, b in points]
    frame = pl.DataFrame({"a": [a for a, _ in points], "b": [b for _, b in points], "seed": range(18), "y": values})
    with pytest.raises(ftlab.ConfigError, match="3 of 4 points have fewer runs"):
        sensitivity(frame, "y", ["a", "b"])
    table = sensitivity(frame, "y", ["a", "b"], method="regression")
    # Lindeman, Merenda and Gold for two predictors, from their correlations.
    r = np.corrcoef([frame["y"], frame["a"], frame["b"]])
    both = (r[0, 1] ** 2 + r[0, 2] ** 2 - 2 * r[0, 1] * r[0, 2] * r[1, 2]) / (1 - r[1, 2] ** 2)
    assert only(table, effect="a")["share"] == pytest.approx((r[0, 1] ** 2 + both - r[0, 2] ** 2) / 2)
    assert only(table, effect="b")["share"] == pytest.approx((r[0, 2] ** 2 + both - r[0, 1] ** 2) / 2)
    rest = table.filter(pl.col("effect").is_in(["interactions", "noise"]))["share"].sum()
    assert rest == pytest.approx(1 - both)


def test_regression_agrees_with_the_analysis_of_variance_on_a_whole_grid() -> None:
    frame = runs({key: list(map(float, values)) for key, values in BREAKS.items()}, ("wool", "tension"))
    one, other = sensitivity(frame, "y"), sensitivity(frame, "y", method="regression")
    assert one["share"].to_list() == pytest.approx(other["share"].to_list())


def test_holes_are_told_with_their_place_and_zipped_axes_are_one() -> None:
    cells = {key: [float(len(str(key)))] for key in product("abc", (1, 22))}
    frame = runs(cells, ("x", "n"))
    with pytest.raises(ftlab.ConfigError, match=r"1 of 6 points have no run with a value, the first is x = b, n = 22"):
        sensitivity(frame.filter((pl.col("x") != "b") | (pl.col("n") != 22)), "y")
    zipped = frame.with_columns(mirror=pl.col("n") * 2).select("x", "n", "mirror", pl.exclude("x", "n", "mirror"))
    table = sensitivity(zipped, "y")
    assert set(table["effect"]) == {"x", "n, mirror", "x x n, mirror", "noise"}
    assert only(table, effect="n, mirror")["highest_at"] == "22, 44"


# Fronts


def naive_front(points: list[tuple[float, ...]]) -> list[bool]:
    return [
        not any(all(a <= b for a, b in zip(other, point, strict=True)) and other != point for other in points)
        for point in points
    ]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_front_is_that_of_the_definition(dimensions: int) -> None:
    source = random.Random(dimensions)  # noqa: S311 - not for secrets
    for _ in range(30):
        points = [tuple(float(source.randint(0, 6)) for _ in range(dimensions)) for _ in range(40)]
        frame = {f"m{place}": [point[place] for point in points] for place in range(dimensions)}
        frame["gain"] = [-value for value in frame.pop("m0")]
        names = [name for name in frame if name != "gain"]
        table = pareto(frame, minimize=names, maximize="gain", over=None)
        assert table["front"].to_list() == naive_front(points)
        for row in table.filter(~pl.col("front")).to_dicts():
            winner = only(table, point=row["dominated_by"])
            assert winner["front"]
            mine, its = points[row["point"]], points[winner["point"]]
            assert its != mine
            assert all(a <= b for a, b in zip(its, mine, strict=True))
            first = table.filter("front")["point"].to_list()
            beaten_by = [
                each for each in first if points[each] != mine and naive_front([points[each], mine]) == [True, False]
            ]
            assert row["dominated_by"] == beaten_by[0]


def test_each_workload_has_its_front_and_points_count_with_their_means() -> None:
    cells = {
        ("easy", 64): [1.0, 1.0],
        ("easy", 32): [3.0, 1.0],
        ("hard", 64): [9.0, 9.0],
        ("hard", 32): [5.0, 8.0],
        ("hard", 16): [8.0, 6.0],
    }
    frame = runs(cells, ("workload", "map_cache.bytes"))
    table = pareto(frame, minimize=["map_cache.bytes", "y"])
    assert table.columns == ["point", "workload", "map_cache.bytes", "n", "y", "front", "dominated_by", "front_share"]
    assert table["y"].to_list() == [1.0, 2.0, 9.0, 6.5, 7.0]
    assert table["front"].to_list() == [True, True, False, True, True]
    assert table["dominated_by"].to_list() == [None, None, 3, None, None]
    assert table["front_share"].to_list() == [0.5, 1.0, 0.0, 0.5, 1.0]
    together = pareto(frame, minimize=["map_cache.bytes", "y"], at=[])
    assert together["front"].to_list() == [True, True, False, False, True]


def test_points_without_a_metric_are_not_compared() -> None:
    frame = runs({"a": [1.0, 2.0], "b": [2.0, None], "c": [0.5, 3.0]}, ("scheme",))  # type: ignore[list-item] # as it comes
    table = pareto(frame.with_columns(cost=pl.lit(1.0)), minimize=["y", "cost"])
    assert table.select("front", "n").rows() == [(True, 2), (None, 2), (False, 2)]


# Steady states


def naive_mser(values: list[float]) -> int:
    """The cut of MSER-5 among those that leave a third, by its definition."""
    means = [sum(values[i : i + 5]) / 5 for i in range(0, len(values) - 4, 5)]

    def error(cut: int) -> float:
        rest = means[cut:]
        mean = sum(rest) / len(rest)
        return sum((value - mean) ** 2 for value in rest) / len(rest) ** 2

    return 5 * min(range(len(means) - len(means) // 3), key=error)


def test_the_cut_is_that_of_the_rule() -> None:
    rng = np.random.default_rng(8)
    for scale in (0.0, 2.0, 5.0):
        values = rng.normal(size=403) + scale * np.exp(-np.arange(403) / 30)
        found = steady_state(values)
        assert found.reached
        assert found.start == naive_mser(values.tolist())
        assert found.n == 403 - found.start


def test_a_step_is_found_where_it_is() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([np.full(120, 9.0), np.full(480, 3.0)]) + rng.normal(0, 0.2, size=600)
    for method in ("mser", "snia"):
        found = steady_state(values, method=method, rounds=30)  # type: ignore[arg-type] # of the list
        assert (found.reached, found.start, found.n) == (True, 120, 480)
        assert found.mean == pytest.approx(values[120:].mean())
        assert found.low < 3.0 < found.high  # type: ignore[operator] # reached


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("ramp", np.arange(500.0)),
        ("noisy ramp", np.arange(500.0) + np.random.default_rng(1).normal(0, 50, size=500)),
        ("slow rise", 1 - np.exp(-np.arange(500) / 400)),
        ("plateau, then a rise", np.concatenate([np.ones(450), np.linspace(1, 2, 50)])),
        ("few", np.ones(99)),
    ],
)
def test_what_is_not_steady_is_said_not_to_be(name: str, values: np.ndarray[Any, Any]) -> None:
    found = steady_state(values)
    assert (found.reached, found.start, found.mean, found.n) == (False, None, None, 0), name
    assert found.reason


def test_noise_is_steady_nearly_always() -> None:
    rng = np.random.default_rng(6)
    reached = [steady_state(rng.normal(5, 1, size=600)).reached for _ in range(300)]
    assert np.mean(reached) > 0.97


def test_the_mean_is_with_weights_and_skips_what_has_none() -> None:
    frame = pl.DataFrame(
        {
            "requests": [10 * i for i in range(1, 121)],
            "writes": [0] * 10 + [5] * 109 + [1],
            "write_amplification": [math.nan] * 10 + [2.0, 4.0] * 55,
        }
    )
    found = steady_state(frame)
    assert (found.reached, found.start, found.requests, found.simulated_ns) == (True, 10, 100, None)
    assert found.mean == pytest.approx((2 * 5 * 55 + 4 * (5 * 54 + 1)) / (5 * 109 + 1))
    assert steady_state(frame, weights=[1.0] * 120).mean == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("column", "weights"),
    [
        ("map_hit_ratio", "map_lookups"),
        ("map_penalty_mean_ns", "map_lookups"),
        ("map_penalty_fetch_mean_ns", "map_lookups"),
        ("map_fetch_mean_bytes", "map_fetches"),
        ("buffer_hit_ratio", "buffer_accesses"),
        ("nvm_hit_ratio", "nvm_accesses"),
    ],
)
def test_hit_ratios_are_means_over_what_was_looked_up(column: str, weights: str) -> None:
    frame = {"requests": np.arange(10, 1610, 10), weights: np.array([1, 7] * 80), column: np.array([0.25, 0.75] * 80)}
    found = steady_state(frame, column)
    assert (found.reached, found.n) == (True, 160)
    assert found.mean == pytest.approx((0.25 + 7 * 0.75) / 8)


def test_write_amplification_is_a_mean_over_the_pages_that_the_host_wrote() -> None:
    # Every other interval has four times the pages and half the writes; of some, no write has completed.
    pages, programs = np.array([1, 4] * 80), np.array([3, 8] * 80)
    frame = {
        "requests": np.arange(10, 1610, 10),
        "writes": np.array([2, 1, 2, 0] * 40),
        "write_pages": pages,
        "write_amplification": programs / pages,
    }
    found = steady_state(frame)
    assert (found.reached, found.start, found.n) == (True, 0, 160)
    assert found.mean == pytest.approx(programs.sum() / pages.sum())
    assert found.low is not None
    assert found.low <= 11 / 5 <= (found.high or 0)
    # Series of an older ftlab have writes only.
    older = {name: values for name, values in frame.items() if name != "write_pages"}
    assert steady_state(older).mean == pytest.approx((3 * 2 * 80 + 2 * 40) / (2 * 80 + 40))


def test_what_is_programmed_without_a_write_counts_with_the_writes_before() -> None:
    # A write into a buffer, and a flush, in turn; before the first write nothing is known.
    pages, programs = np.array([0, *[5, 0] * 80]), np.array([9, *[0, 10, 5, 10] * 40])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(pages > 0, programs / pages, np.nan)
    frame = {"requests": np.arange(161), "writes": pages, "write_pages": pages, "write_amplification": ratios}
    found = steady_state({**frame, "programmed_pages": programs}, method="snia", rounds=5)
    assert (found.reached, found.start) == (True, 1)
    assert found.mean == pytest.approx(programs[1:].sum() / pages.sum())


def test_the_mean_of_requests_of_several_sizes_is_that_of_the_request_log() -> None:
    device = ftlab.Device.parse(
        "[geometry]\nchannels = 1\nways = 1\nblocks_per_plane = 64\npages_per_block = 32\npage_bytes = 4096\n"
        "[ftl]\nover_provisioning = 0.3\n[host]\narrival = 'closed'\n[precondition]\nkind = 'steady'\n",
        "drive",
    )
    load = ftlab.Workload(kind="uniform", requests=6000, read_fraction=0, request_bytes={"4KiB": 30, "256KiB": 1})
    result = ftlab.run(device, load, seed=3, series=50, requests_log=True)
    log, series = result.requests, result.series
    assert log is not None
    assert series is not None
    # One request at a time: intervals have what they hand over. Sizes are whole pages.
    log = log.with_columns(pages=(pl.col("lba") + pl.col("sectors") - 1) // 8 - pl.col("lba") // 8 + 1)
    pages = np.add.reduceat(log["pages"].to_numpy(), [0, *series["requests"].to_numpy()[:-1]])
    if "write_pages" in series.columns:
        assert series["write_pages"].to_list() == pages.tolist()
    found = steady_state(series.with_columns(write_pages=pages))
    assert found.start is not None
    programs = series["write_amplification"].to_numpy() * pages
    assert programs.sum() / pages.sum() == pytest.approx(result.summary["write_amplification"]["total"])
    assert found.mean == pytest.approx(programs[found.start :].sum() / pages[found.start :].sum())


def test_the_rule_of_drive_tests_is_kept_to_the_letter() -> None:
    def rounds(values: list[float]) -> bool:
        return steady_state(values, method="snia", rounds=5).reached

    # Range 20 % of the average, no slope; a hair more.
    assert rounds([1.1, 0.9, 1.0, 0.9, 1.1])
    assert not rounds([1.1001, 0.9, 1.0, 0.9, 1.1])
    # A line that changes by 10 %; by a hair more.
    assert rounds([0.95, 0.975, 1.0, 1.025, 1.05])
    assert not rounds([0.949, 0.975, 1.0, 1.025, 1.051])
    # Every later window counts: the plateau at the beginning is none.
    # What is left over before the first round was not tested.
    left_over = steady_state([1.0] * 24 + [10.0] * 25, method="snia")
    assert (left_over.start, left_over.mean) == (24, 10.0)
    found = steady_state([1.0] * 8 + [2.0, 3.0, 4.0] + [4.0] * 9, method="snia", rounds=20)
    assert (found.reached, found.start) == (True, 10)
    assert not steady_state([1.0] * 15 + [2.0] * 3, method="snia", rounds=18).reached


def empty_drive(requests: int) -> ftlab.Result:
    device = ftlab.Device.load("ideal-page").set("geometry.blocks_per_plane=256", "precondition.kind=none")
    return ftlab.run(device, ftlab.Workload(kind="uniform", requests=requests), series="auto", timing=False)


def test_a_drive_is_steady_some_time_after_its_first_collection() -> None:
    found = steady_state(empty_drive(200_000))
    long = empty_drive(1_000_000).series
    assert long is not None
    last = long.tail(500)
    truth = (last["write_amplification"] * last["writes"]).sum() / last["writes"].sum()
    assert found.reached
    assert found.mean == pytest.approx(truth, rel=0.005)
    # Twice the drive's 14,246 pages at least.
    assert 28_000 < (found.requests or 0) < 100_000
    for requests in (20_000, 60_000):
        assert not steady_state(empty_drive(requests)).reached


# What is known of metrics


def test_directions_of_metrics() -> None:
    device = ftlab.Device.load("ideal-page").set("geometry.blocks_per_plane=64")
    summary = ftlab.run(device, ftlab.Workload(kind="uniform", requests=100)).summary
    assert {better(f"latency_ns.{op}.{name}") for op in summary["latency_ns"] for name in ("mean", "p99", "max")} == {
        "smaller"
    }
    assert better("latency_ns.all.count") is None
    assert {better(f"write_amplification.{cause}") for cause in summary["write_amplification"]} == {"smaller"}
    assert {better(f"wear.{name}") for name in summary["wear"]} == {"smaller"}
    assert [better(name) for name in ("host.iops", "map_cache.hit_ratio", "buffer.read_hits")] == ["larger"] * 3
    assert better("map_cache.mean_penalty_ns") == "smaller"
    assert better("nvm.write_amplification_primary") == better("buffer.mean_wait_ns") == "smaller"
    assert [better(f"host.{name}") for name in ("requests", "reads", "write_bytes")] == [None] * 3


def test_every_number_of_the_summary_has_a_direction_or_none() -> None:
    tables = Tables("summary")

    def numbers(name: str, schema: dict[str, Any]) -> Iterator[str]:
        inner = tables.resolved(schema)
        if "properties" in inner:
            for key, each in inner["properties"].items():
                yield from numbers(f"{name}.{key}" if name else key, each)
        elif isinstance(by_name := inner.get("additionalProperties"), dict):
            yield from numbers(f"{name}.any", by_name)
        elif tables.values(inner) in ("number", "whole number"):
            yield name

    found = list(numbers("", tables.root))
    assert len(found) > 150
    first = {name: next((pattern for pattern, _ in BETTER if fnmatchcase(name, pattern)), None) for name in found}
    assert [name for name, pattern in first.items() if pattern is None] == []
    # No line is left over, or hidden behind another.
    assert {pattern for pattern, _ in BETTER} == set(first.values())


MISTAKES: list[tuple[Any, str]] = [
    (lambda f: compare(f, "gcc", "y"), "by 'gcc': .* did you mean 'gc'"),
    (lambda f: compare(f, "gc", "yy"), "metric 'yy': .* did you mean 'y'"),
    (lambda f: compare(f, "gc", "op"), "more than one|^$"),
    (lambda f: compare(f, "gc", []), "metrics: expected"),
    (lambda f: compare(f, [], "y"), "by: expected"),
    (lambda f: compare(f, "gc", "key"), "metric 'key': expected numbers, found string"),
    (lambda f: compare(f, "gc", "y", over="sead"), "over 'sead': .* did you mean 'seed'"),
    (lambda f: compare(f, "gc", "y", at=["oop"]), "axis 'oop': .* did you mean 'op'"),
    (lambda f: compare(f, "gc", "y", at=[]), "more than one run has gc = greedy, seed = 1: name every axis"),
    (lambda f: compare(f, "gc", "y", over="op"), "they differ in seed"),
    (lambda f: compare(f, "gc", "y", baseline="gredy"), "baseline = 'gredy': .* did you mean 'greedy'"),
    (lambda f: compare(f, "gc", "y", confidence=95), "confidence = 95: expected a share"),
    (lambda f: compare(f, "gc", "y", method="bootstap"), "method = 'bootstap': .* did you mean 'bootstrap'"),
    (lambda f: compare(f, "gc", "y", resamples=5), "resamples = 5"),
    (lambda f: compare(f, "gc", "y", better="less"), "better = 'less': expected 'smaller' or 'larger'"),
    (lambda f: compare(f, "gc", "y", better={"yy": "smaller"}), "better: 'yy' is none of the metrics y"),
    (lambda f: compare(f.rename({"op": "mean"}), "gc", "y"), "axis 'mean': the result has a column"),
    (lambda f: compare(f.drop("status"), "gc", "y"), "no column 'status'"),
    (lambda f: compare(f.with_columns(status=pl.lit("error")), "gc", "y"), "of 8 runs none is done"),
    (lambda f: compare(f.with_columns(y=pl.lit(None, pl.Float64)), "gc", "y"), "no run has a value"),
    (lambda _: compare(7, "gc", "y"), "found int, expected a frame"),
    (lambda f: improvement(f, "gc", "y"), "which way is better"),
    (lambda f: improvement(f, "gc", "y", scheme="fifa", better="smaller"), "scheme = 'fifa': .* 'fifo'"),
    (lambda f: improvement(f.with_columns(y=-pl.col("y")), "gc", "y", better="smaller"), "negative"),
    (lambda f: sensitivity(f, "z"), "metric 'z'"),
    (lambda f: sensitivity(f.with_columns(y=1.0), "y"), "is 1 in all runs"),
    (lambda f: sensitivity(f.with_columns(y=2.5), "y", log=True), "is 2.5 in all runs"),
    (lambda f: sensitivity(f.with_columns(y=0.0), "y", log=True), "value 0, of which there is no logarithm"),
    (lambda f: sensitivity(f, "y", ["opp"]), "axis 'opp': .* did you mean 'op'"),
    (lambda f: sensitivity(f, "y", method="annova"), "did you mean 'anova'"),
    (lambda f: sensitivity(f, "op"), "metric 'op': is an axis"),
    (lambda f: sensitivity(f.filter(gc="fifo", op=1), "y"), "no axis has more than one value"),
    (lambda f: pareto(f, minimize="y"), "two metrics or more"),
    (lambda f: pareto(f, minimize=["y", "op"], maximize="y"), "minimized and maximized"),
    (lambda f: pareto(f, minimize=["y", "op"], axes=["gc"]), "more than one run has gc = greedy, seed = 1"),
    (lambda f: pareto(f, minimize=["y", "op"], at=["workloat"]), "at 'workloat'"),
    (lambda f: steady_state(f, "yy"), "column 'yy': .* did you mean 'y'"),
    (lambda f: steady_state(f, "gc"), "column 'gc': expected numbers"),
    (lambda _: steady_state(None), "kept no time series"),
    (lambda _: steady_state("abc"), "expected a time series"),
    (lambda f: steady_state(f, "y", rounds=4), "rounds = 4"),
    (lambda f: steady_state(f, "y", weights=[1.0]), "as many weights"),
    (lambda f: steady_state(f, "y", weights=[-1.0] * 8), "not negative"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_mistakes_are_told(mistake: Any, message: str) -> None:
    frame = runs({key: [1.0, 2.0 + len(str(key))] for key in product(("greedy", "fifo"), (1, 2))}, ("gc", "op"))
    if message.endswith("|^$"):
        # An axis is a column like any other.
        assert mistake(frame)["mean"].to_list() == [1.0, 1.0, 2.0, 2.0]
        return
    with pytest.raises(ftlab.ConfigError, match=message):
        mistake(frame)


# The command line


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store") / "results"
    ftlab.study(
        {
            "name": "gc",
            "device": "ideal-page",
            "set": {"geometry.blocks_per_plane": 64, "geometry.pages_per_block": 16},
            "workload": {"kind": "uniform", "requests": 3000},
            "axes": {"ftl.gc": ["greedy", "fifo", "random"], "ftl.over_provisioning": [0.15, 0.3]},
            "repetitions": 4,
            "options": {"series": "auto"},
        },
        out=folder,
    )
    return folder


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Asked:
    """Run `ftlab study`, without a process for each: many commands are tried."""

    def ask(name: str, store: Path, *arguments: str) -> Ran:
        status = status_of(["study", name, str(store), *arguments])
        done = capsys.readouterr()
        return Ran(status, done.out, done.err)

    return ask


def test_schemes_are_compared_on_the_command_line(store: Path, asked: Asked) -> None:
    given = ("--by", "ftl.gc", "--baseline", "greedy", "--even-unsteady")
    done = asked("compare", store, *given, "--metric", "write_amplification.total")
    lines = done.out.splitlines()
    assert lines[0] == "write_amplification.total: 95 % confidence, smaller is better"
    assert lines[1].split("  ")[0] == "ftl.gc"
    rows = asked("compare", store, *given, "--json").json
    frame = ftlab.Store(store).frame()
    metrics = ["write_amplification.total", "host.iops", "latency_ns.write.mean", "latency_ns.all.p99"]
    assert rows == compare(frame, "ftl.gc", metrics, baseline="greedy", even_unsteady=True).to_dicts()
    random_ = [row for row in rows if row["ftl.gc"] == "random" and row["metric"] == metrics[0]]
    assert [row["verdict"] for row in random_] == ["worse", "worse"]
    assert any(line.startswith("random") and line.endswith("worse") for line in lines)


def test_improvements_on_the_command_line(store: Path, asked: Asked) -> None:
    options = ("--by", "ftl.gc", "--metric", "latency_ns.write.mean")
    done = asked("improvement", store, *options, "--scheme", "greedy")
    assert "greedy over fifo" in done.out.splitlines()[1]
    assert len(done.out.splitlines()) == 5
    rows = list(csv.DictReader(io.StringIO(asked("improvement", store, *options, "--csv").out)))
    assert len(rows) == 12
    assert float(next(r["improvement"] for r in rows if r["ftl.gc"] == "greedy" and r["baseline"] == "random")) > 0.05


def test_sensitivity_on_the_command_line(store: Path, asked: Asked) -> None:
    done = asked("sensitivity", store, "--metric", "write_amplification.total")
    assert [line.split("  ")[0] for line in done.out.splitlines()[3:5]] == ["ftl.gc", "ftl.over_provisioning"]
    assert done.out.splitlines()[-1].startswith("noise")
    for method in ("anova", "regression"):
        rows = asked("sensitivity", store, "--metric", "host.iops", "--log", "--method", method, "--json").json
        assert sum(row["share"] for row in rows) == pytest.approx(1)


def test_fronts_on_the_command_line(store: Path, asked: Asked) -> None:
    options = ("--minimize", "ftl.over_provisioning", "--maximize", "host.iops")
    rows = asked("pareto", store, *options, "--json").json
    assert [row["ftl.over_provisioning"] for row in rows if row["front"]] == [0.15, 0.3]
    done = asked("pareto", store, *options)
    assert "front" in done.out
    assert "behind" in done.out
    assert "behind" not in asked("pareto", store, *options, "--front").out


def test_steady_states_on_the_command_line(store: Path, asked: Asked) -> None:
    rows = asked("steady", store, "--json").json
    assert rows == steady_states(ftlab.Store(store)).to_dicts()
    assert [row["seed"] for row in rows] == [1, 2, 3, 4] * 6
    assert sum(row["reached"] for row in rows) > 20
    done = asked("steady", store, "--column", "iops", "--method", "snia")
    assert "iops (" in done.out.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--by", "ftl.gv"], "did you mean 'ftl.gc'"),
        (["compare", "--by", "ftl.gc", "--csv", "--json"], "either --csv or --json"),
        (["compare", "--by", "ftl.gc", "--study", "gcs"], "did you mean 'gc'"),
        (["improvement", "--by", "ftl.gc", "--metric", "host.writes"], "which way is better"),
        (["sensitivity", "--metric", "host.iopps"], "did you mean 'host.iops'"),
        (["pareto", "--minimize", "host.iops"], "two metrics or more"),
        (["steady", "--column", "write_amplificaton"], "did you mean 'write_amplification'"),
    ],
)
def test_mistakes_on_the_command_line_end_with_status_2(
    store: Path, asked: Asked, arguments: list[str], message: str
) -> None:
    name, *rest = arguments
    done = asked(name, store, *rest)
    assert done.status == 2
    assert message in done.err


def test_combinations_and_single_seeds_on_the_command_line(store: Path, tmp_path: Path, asked: Asked) -> None:
    both = ("--by", "ftl.gc", "--by", "ftl.over_provisioning", "--metric", "gc.pages_copied")
    rows = asked("compare", store, *both, "--baseline", "greedy, 0.3", "--simultaneous", "--json").json
    assert [row["scheme"] for row in rows if row["verdict"] is None] == ["greedy, 0.3"]
    frame = ftlab.Store(store).frame()
    assert rows == compare(frame, list(both[1:4:2]), both[5], baseline="greedy, 0.3", simultaneous=True).to_dicts()
    single = {"device": "ideal-page", "workload": "uniform", "axes": {"ftl.gc": ["greedy", "fifo"]}}
    small = {"geometry.blocks_per_plane": 64, "workload.requests": 100}
    ftlab.study({"name": "one", "set": small, **single}, out=tmp_path / "results")
    for name, metric in (("compare", "host.iops"), ("improvement", "host.iops")):
        done = asked(name, tmp_path / "results", "--by", "ftl.gc", "--metric", metric, "--baseline", "greedy")
        assert "one seed says nothing about noise" in done.err
        assert "±" not in done.out


def test_runs_that_failed_are_left_out_and_counted(tmp_path: Path, asked: Asked) -> None:
    small = {"geometry.blocks_per_plane": 64, "geometry.pages_per_block": 16}
    axes = {"ftl.gc": ["greedy", "fifo"], "workload.footprint_bytes": ["64KiB", "1GiB"]}
    workload = {"kind": "uniform", "requests": 100}
    ftlab.study(
        {"name": "s", "device": "ideal-page", "set": small, "workload": workload, "axes": axes, "repetitions": 2},
        out=tmp_path / "results",
    )
    assert set(ftlab.Store(tmp_path / "results").frame()["status"]) == {"done", "error"}
    done = asked("compare", tmp_path / "results", "--by", "ftl.gc")
    assert done.status == 0
    assert "4 of 8 runs are left out: they failed or are missing" in done.err
    # Every run that is done has a series.
    assert "4 of 8 runs are left out" in asked("steady", tmp_path / "results").err
