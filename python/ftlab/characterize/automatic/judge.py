"""A scenario that was found, beside the hand-made ones, on drives that the search never saw."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ftlab.characterize.automatic.drives import (
    Cost,
    Start,
    Verdict,
    drawn,
    hand_made,
    held_out_seed,
    referenced,
    twin,
)
from ftlab.characterize.automatic.interpret import scenario_of
from ftlab.characterize.automatic.search import separates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ftlab.characterize.automatic.grammar import Recipe

# Pairs of twins that are looked at, and the share that must be separated.
_TWINS, _APART = 6, 0.75
TOGETHER, FOUND = "all hand-made together", "found by the search"


@dataclass(frozen=True)
class Row:
    """What a scenario said of all held-out drives.

    Attributes:
        name: The scenario.
        verdicts: One for each drive.
        finds: How many parameters it speaks of: its cost is for all of them.
    """

    name: str
    verdicts: tuple[Verdict, ...]
    finds: int = 1

    def count(self, word: str) -> int:
        """How many verdicts are as the word says."""
        return sum(each.word == word for each in self.verdicts)

    @property
    def cost(self) -> Cost:
        """What it took on an average drive."""
        total, count = sum((each.cost for each in self.verdicts), Cost()), max(1, len(self.verdicts))
        return Cost(round(total.requests / count), total.target_ns / count, round(total.written_bytes / count))

    def beats(self, other: Row) -> bool:
        """Whether it is better: no more wrong values, and either more right ones, or as many at less cost throughout.

        A scenario that is dearer in one of requests, time and bytes written is not cheaper.
        """
        if self.count("wrong") > other.count("wrong") or self.count("right") < other.count("right"):
            return False
        if self.count("right") > other.count("right"):
            return True
        mine, theirs = self.cost, other.cost
        return (
            mine.target_ns < theirs.target_ns
            and mine.requests <= theirs.requests
            and mine.written_bytes <= theirs.written_bytes
        )

    def document(self) -> dict[str, Any]:
        """As JSON and TOML have it."""
        words, cost = Counter(each.word for each in self.verdicts), self.cost
        return {
            "drives": len(self.verdicts),
            **{word: words[word] for word in ("right", "wrong", "unknown")},
            "requests": cost.requests,
            "target_ms": round(cost.target_ns / 1e6, 1),
            "written_mib": round(cost.written_bytes / (1 << 20), 1),
        }


@dataclass(frozen=True)
class Comparison:
    """A recipe beside the hand-made scenarios, on the same drives.

    Attributes:
        found: The recipe.
        alone: Each hand-made scenario for itself.
        together: What all of them say together, as the flow has it.
        separated: Pairs of twins of which the recipe said different things.
        twins: How many pairs there were.
    """

    found: Row
    alone: tuple[Row, ...]
    together: Row
    separated: int
    twins: int

    @property
    def beats(self) -> bool:
        """Whether the recipe is better than each of them, and than all of them together.

        A recipe that says the same of twins guesses what is frequent, and beats nothing.
        """
        if self.separated < _APART * self.twins:
            return False
        return all(self.found.beats(each) for each in (*self.alone, self.together))

    @property
    def rows(self) -> tuple[Row, ...]:
        """All of them."""
        return (self.found, *self.alone, self.together)

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "beats": self.beats,
            "separated": self.separated,
            "twins": self.twins,
            "scenarios": {row.name: {"finds": row.finds} | row.document() for row in self.rows},
        }


def compare(
    recipe: Recipe,
    *,
    seed: int,
    held_out: int,
    folder: Path | None = None,
    watch: Callable[[str, float | None, int], None] | None = None,
) -> Comparison:
    """Hold a recipe against the hand-made scenarios, on drives of odd seeds that have the parameter.

    Args:
        recipe: The recipe.
        seed: Seed of the search, which decides which drives there are.
        held_out: How many.
        folder: Where what the plan says of a drive is kept.
        watch: Called with what goes on, the share that is done, and the number of drives.
    """
    parameter, scenarios = recipe.parameter, hand_made(recipe.parameter)
    scenario = scenario_of(recipe)
    said: list[Mapping[str, Verdict]] = []
    number, twins, separated = 0, 0, 0
    while len(said) < held_out:
        if watch is not None:
            watch("held-out drives", len(said) / held_out, len(said))
        (drive,) = drawn([held_out_seed(seed, number)])
        number += 1
        if parameter not in drive.true:
            continue
        reference = referenced(drive, parameter, folder)
        start = Start.of(reference, parameter)
        said.append({FOUND: drive.judge(scenario, start)} | dict(reference.verdicts[parameter]))
        other = twin(drive, parameter) if twins < _TWINS else None
        if other is not None:
            twins += 1
            own = other.start(parameter, start.patience_ns)
            separated += separates(recipe, (drive, start, other, own))
    return Comparison(
        Row(FOUND, _column(said, FOUND)),
        tuple(Row(each.name, _column(said, each.name), len(each.finds)) for each in scenarios),
        Row(TOGETHER, _column(said, ""), len({name for each in scenarios for name in each.finds})),
        separated,
        twins,
    )


def _column(said: Sequence[Mapping[str, Verdict]], name: str) -> tuple[Verdict, ...]:
    return tuple(each[name] for each in said)
