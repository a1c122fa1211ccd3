"""The search: random recipes, then differential evolution around the best; the cheapest that is right wins."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ftlab.characterize.automatic.drives import (
    Cost,
    Drive,
    Start,
    Verdict,
    drawn,
    fingerprint,
    hand_made,
    referenced,
    training_seed,
    twin,
)
from ftlab.characterize.automatic.genes import ALLELES, Genome
from ftlab.characterize.automatic.grammar import Recipe, unit_of
from ftlab.characterize.automatic.interpret import scenario_of
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

# Drives on some of which a recipe must be right, on how many, and the share of wrong values that gives it up.
_FIRST, _TRIED, _DISTINCT, _TOO_WRONG = 4, 2, 2, 0.15
# A wrong value is as bad as that many missing ones.
_WRONG = 3
# What cost and nearness weigh in the score of the optimiser: each less than one drive.
_CHEAP, _NEAR = 0.005, 0.03
# What is left of the accuracy of what separates no twins, and the share of them that it must separate.
_GUESS, _APART = 0.25, 0.5
# The logarithm of a device time that nothing takes.
_LONG = 13
# Twins of as many drives, and a share of drives on which a value must be known to be built on.
_TWINS, _KNOWN = 4, 0.8
_FINALISTS = 24
_POPULATION, _RECOMBINED, _MUTATED = 20, 0.25, (0.3, 0.9)


@dataclass(frozen=True)
class Settings:
    """What a search is: the same settings give the same winner.

    Attributes:
        parameter: What is searched for.
        seed: Seed of drives and of choices.
        train: Drives to search on.
        confirm: More of them, on which only the best recipes are tried before one wins.
        candidates: Recipes that are drawn at random.
        rounds: Generations of the refinement.
    """

    parameter: str
    seed: int = 1
    train: int = 8
    confirm: int = 8
    candidates: int = 1200
    rounds: int = 10

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ConfigError: The parameter is none that can be searched for, or a number is too small.
        """
        unit_of(self.parameter)
        if not hand_made(self.parameter):
            raise ConfigError(f"parameter = {self.parameter!r}: expected one that a scenario of the plan finds")
        for name, least in (("seed", 0), ("train", 1), ("confirm", 0), ("candidates", 1), ("rounds", 0)):
            found = getattr(self, name)
            if found < least:
                raise ConfigError(f"{name} = {found}: expected a whole number from {least}")


@dataclass(frozen=True)
class Result:
    """What a recipe did on training drives.

    Attributes:
        recipe: The recipe.
        verdicts: One for each drive, until it was given up.
        separated: Pairs of twins for which it said different things.
        drives: Drives and pairs of twins that there are.
        near: How near it came on the first drives, from 0 to 1: a direction for what is not right anywhere.
    """

    recipe: Recipe
    verdicts: tuple[Verdict, ...]
    separated: int
    drives: tuple[int, int]
    near: float

    def count(self, word: str) -> int:
        """How many verdicts are as the word says."""
        return sum(each.word == word for each in self.verdicts)

    @property
    def accuracy(self) -> float:
        """Right ones less three times the wrong ones, as a share of all drives."""
        return (self.count("right") - _WRONG * self.count("wrong")) / self.drives[0]

    @property
    def apart(self) -> float:
        """The share of twins that it separates; 1 where there are none."""
        return self.separated / self.drives[1] if self.drives[1] else 1.0

    @property
    def worth(self) -> float:
        """Accuracy, of which little is left where it says the same of twins: then it is a guess of what is frequent."""
        return self.accuracy * (_GUESS + (1 - _GUESS) * self.apart) if self.accuracy > 0 else self.accuracy

    @property
    def cost(self) -> Cost:
        """What it took on an average drive."""
        total = sum((each.cost for each in self.verdicts), Cost())
        count = max(1, len(self.verdicts))
        return Cost(total.requests // count, total.target_ns / count, total.written_bytes // count)

    @property
    def useful(self) -> bool:
        """Whether it is right more often than it is harmful."""
        return self.accuracy > 0 and self.apart >= _APART

    @property
    def score(self) -> float:
        """What the optimiser makes as small as it can."""
        if not self.verdicts:
            return -_NEAR * self.near
        cheap = _CHEAP * (_LONG - math.log10(1 + self.cost.target_ns))
        return -self.worth - cheap - _NEAR * self.near

    @property
    def rank(self) -> tuple[Any, ...]:
        """The order of winners: by accuracy and the twins that it separates, then the cheapest."""
        cost = self.cost
        return (not self.useful, -self.worth, cost.target_ns, cost.requests, json.dumps(self.recipe.document()))


def _nearness(value: float | str | None, true: float | str) -> float:
    """From 0 to 1: 1 for the truth, 0 for less than half or more than twice of it.

    >>> _nearness(100.0, 100.0), _nearness(None, 100.0), _nearness(25.0, 100.0)
    (1.0, 0.0, 0.0)
    """
    if isinstance(value, str) or isinstance(true, str) or value is None:
        return float(value is not None and value == true)
    if value <= 0 or true <= 0:
        return float(value == true)
    return max(0.0, 1 - abs(math.log2(value / true)))


def separates(recipe: Recipe, pair: tuple[Drive, Start, Drive, Start]) -> bool:
    """Whether a recipe says different things of two drives that differ in its parameter alone."""
    scenario = scenario_of(recipe)
    drive, start, other, own = pair
    one, two = drive.judge(scenario, start).value, other.judge(scenario, own).value
    return one is not None and two is not None and one != two


@dataclass
class Search:
    """A search under way.

    Attributes:
        settings: What it is.
        folder: Where references and the state are kept; ``None``: nowhere.
        watch: Called with what goes on, the share that is done, and the number of recipes.
        results: What every recipe did, by its text.
        confirmed: What the best ones did on all drives.
    """

    settings: Settings
    folder: Path | None = None
    watch: Callable[[str, float | None, int], None] | None = None
    results: dict[str, Result] = field(default_factory=dict)
    confirmed: dict[str, Result] = field(default_factory=dict)

    def _tell(self, what: str, share: float | None) -> None:
        if self.watch is not None:
            self.watch(what, share, len(self.results))

    def _prepare(self) -> None:
        """Draw drives and twins, and learn what the flow knows of them before it looks for the parameter."""
        settings = self.settings
        found: list[tuple[Drive, Start]] = []
        number, wanted = 0, settings.train + settings.confirm
        # Drives of which the parameter has no truth are no drives to learn it on.
        while len(found) < wanted:
            self._tell("drives", len(found) / wanted)
            (drive,) = drawn([training_seed(settings.seed, number)])
            number += 1
            if settings.parameter in drive.true:
                start = Start.of(referenced(drive, settings.parameter, self.folder), settings.parameter)
                found.append((drive, start))
        self._drives, self._others = found[: settings.train], found[settings.train :]
        self._first = self._chosen()
        self._distinct = min(_DISTINCT, len({drive.true[settings.parameter] for drive, _ in self._drives}))
        self._twins: list[tuple[Drive, Start, Drive, Start]] = []
        for drive, start in found:
            other = twin(drive, settings.parameter) if len(self._twins) < _TWINS else None
            if other is not None:
                own = other.start(settings.parameter, start.patience_ns)
                self._twins.append((drive, start, other, own))
        counts: dict[str, int] = {}
        for _, start in self._drives:
            for name in start.known:
                counts[name] = counts.get(name, 0) + 1
        enough = _KNOWN * settings.train
        self._genome = Genome(settings.parameter, {name for name, count in counts.items() if count >= enough})

    def evaluate(self, recipe: Recipe) -> Result:
        """What a recipe does on the training drives; one that is hopeless is given up early."""
        key = json.dumps(recipe.document())
        if key in self.results:
            return self.results[key]
        hopeful, near = self._hope(recipe)
        verdicts = self._verdicts(recipe, self._drives, len(self._drives)) if hopeful else []
        separated = 0
        for pair in self._twins if len(verdicts) == len(self._drives) else []:
            separated += separates(recipe, pair)
        result = Result(recipe, tuple(verdicts), separated, (len(self._drives), len(self._twins)), near)
        self.results[key] = result
        self._keep(key, result, "searched")
        return result

    def _verdicts(self, recipe: Recipe, on: list[tuple[Drive, Start]], drives: int) -> list[Verdict]:
        """What a recipe says of drives, until it was wrong too often."""
        scenario = scenario_of(recipe)
        verdicts: list[Verdict] = []
        for drive, start in on:
            verdicts.append(drive.judge(scenario, start))
            if sum(verdict.word == "wrong" for verdict in verdicts) > _TOO_WRONG * drives:
                break
        return verdicts

    def _confirm(self, result: Result) -> Result:
        """What a recipe does on all drives: few of them let many a recipe look good by chance."""
        key = json.dumps(result.recipe.document())
        if key in self.confirmed:
            return self.confirmed[key]
        more = self._verdicts(result.recipe, self._others, len(self._others))
        drives = (len(self._drives) + len(self._others), result.drives[1])
        made = replace(result, verdicts=(*result.verdicts, *more), drives=drives)
        self.confirmed[key] = made
        self._keep(key, made, "confirmed")
        return made

    def _hope(self, recipe: Recipe) -> tuple[bool, float]:
        """Whether a recipe is right on drives that differ in the parameter, without corrections; and how near it is."""
        scenario = scenario_of(recipe, corrected=False)
        seen: set[float | str] = set()
        near = 0.0
        for place, (drive, start) in enumerate(self._first):
            verdict = drive.judge(scenario, start)
            true = drive.true[self.settings.parameter]
            near += _nearness(verdict.value, true) / len(self._first)
            if verdict.word == "right":
                seen.add(true)
            # What says nothing on the first ones is given up.
            if place == _TRIED - 1 and not near:
                return False, 0.0
        return len(seen) >= self._distinct, near

    def _chosen(self) -> list[tuple[Drive, Start]]:
        """Drives that differ in the parameter, without noise where that is possible: it hides what is hopeful."""
        calm = sorted(self._drives, key=lambda each: each[0].drawn.noise.sigma)
        seen: dict[float | str, tuple[Drive, Start]] = {}
        for each in calm:
            seen.setdefault(each[0].true[self.settings.parameter], each)
        first = list(seen.values())[:_FIRST]
        return first + [each for each in calm if each not in first][: _FIRST - len(first)]

    # The state ----------------------------------------------------------------------------------------------------

    @property
    def _path(self) -> Path | None:
        settings = self.settings
        name = f"{settings.parameter}-{settings.seed}.jsonl"
        return None if self.folder is None else self.folder / name

    def _keep(self, key: str, result: Result, stage: str) -> None:
        if self._path is not None:
            row = [stage, key, [each.document() for each in result.verdicts], result.separated, result.near]
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def _identity(self) -> dict[str, Any]:
        return asdict(self.settings) | {"sources": fingerprint(whole=True)}

    def _resume(self) -> None:
        """Take what an earlier search with the same settings has evaluated; the optimiser goes the same way again.

        Raises:
            ConfigError: The file is of another search, or none.
        """
        path = self._path
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file():
            path.write_text(json.dumps(self._identity()) + "\n", encoding="utf-8")
            return
        lines = path.read_bytes().split(b"\n")
        try:
            head = json.loads(lines[0])
        except ValueError:
            raise ConfigError(f"{path}: expected the state of a search; delete it to begin anew") from None
        if head != self._identity():
            theirs = ", ".join(f"{key} {value}" for key, value in head.items())
            ours = ", ".join(f"{key} {value}" for key, value in self._identity().items())
            raise ConfigError(f"{path}: found the state of {theirs}; expected {ours}; delete it to begin anew")
        # What was being written when it ended has no end of line.
        whole = lines[1:-1]
        for line in whole:
            stage, key, rows, separated, near = json.loads(line)
            recipe, verdicts = Recipe.from_document(json.loads(key)), tuple(Verdict.of(row) for row in rows)
            searched = stage == "searched"
            drives = len(self._drives) + (0 if searched else len(self._others))
            result = Result(recipe, verdicts, int(separated), (drives, len(self._twins)), float(near))
            (self.results if searched else self.confirmed)[key] = result
        path.write_bytes(b"\n".join([lines[0], *whole, b""]))

    # The optimiser --------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Search; gives the winner.

        Raises:
            ConfigError: The state is of another search.
            KeyboardInterrupt: Ctrl-C; what was evaluated is in the state.
        """
        from scipy import optimize

        self._prepare()
        self._resume()
        settings = self.settings
        random = np.random.default_rng([settings.seed, *settings.parameter.encode()])
        genome, count = self._genome, len(self._genome.names)
        pool = random.integers(ALLELES, size=(settings.candidates, count))
        pool = pool[self._usable(pool)]
        done = 0
        # Rounds of the refinement cost more than random recipes, most of which are given up early.
        total = settings.candidates + _POPULATION * (settings.rounds + 1)
        scores = np.empty(len(pool))
        for place, genes in enumerate(pool):
            scores[place] = self.evaluate(genome.recipe(genes)).score
            self._tell("random recipes", place / total)
        if settings.rounds:
            best = pool[np.argsort(scores, kind="stable")[: max(5, _POPULATION)]]

            def score(genes: Sequence[float]) -> float:
                nonlocal done
                done += 1
                self._tell("refinement", min(1.0, (settings.candidates + done) / total))
                recipe = self._recipe(np.asarray(genes))
                return math.inf if recipe is None else self.evaluate(recipe).score

            optimize.differential_evolution(
                score,
                [(0, ALLELES - 1)] * count,
                strategy="best1bin",
                init=best.astype(float),
                maxiter=settings.rounds,
                mutation=_MUTATED,
                recombination=_RECOMBINED,
                integrality=np.ones(count, dtype=bool),
                polish=False,
                tol=0,
                rng=random,
            )
        best_first = sorted(self.results.values(), key=lambda result: result.rank)
        finalists = [result for result in best_first if result.useful][:_FINALISTS] or best_first[:1]
        return min((self._confirm(result) for result in finalists), key=lambda result: result.rank)

    def _recipe(self, genes: np.ndarray[Any, Any]) -> Recipe | None:
        try:
            return self._genome.recipe([round(gene) for gene in genes])
        except ConfigError:
            return None

    def _usable(self, pool: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Which genes make a recipe."""
        usable = np.array([self._recipe(genes) is not None for genes in pool], dtype=bool)
        if np.count_nonzero(usable) < 1:
            raise ConfigError("candidates: none of them is a scenario; expected more of them")
        return usable


__all__ = ["Result", "Search", "Settings"]
