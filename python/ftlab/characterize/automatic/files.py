"""Scenarios that were found, as files have them: the recipe, and what it did on drives that the search never saw."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ftlab.characterize.automatic.grammar import AUTOMATIC, Recipe
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ftlab.characterize.automatic.judge import Comparison
    from ftlab.characterize.automatic.search import Result, Settings


@dataclass(frozen=True)
class Found:
    """A scenario of a file.

    Attributes:
        recipe: The recipe.
        search: What the search was: seed, drives, random recipes, rounds.
        training: What the recipe did on the drives of the search.
        held_out: What each scenario did on drives that it never saw.
        beats: Whether it was better than each hand-made one there.
    """

    recipe: Recipe
    search: Mapping[str, Any]
    training: Mapping[str, Any]
    held_out: Mapping[str, Any]
    beats: bool

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"{AUTOMATIC}{self.recipe.parameter.replace('_', '-')}"


def text(settings: Settings, winner: Result, comparison: Comparison) -> str:
    """The text of a file with one scenario."""
    import tomli_w

    cost = winner.cost
    document = comparison.document()
    return tomli_w.dumps(
        {
            "scenario": [
                {
                    **{key: document[key] for key in ("beats", "separated", "twins")},
                    "recipe": winner.recipe.document(),
                    "search": {
                        key: getattr(settings, key) for key in ("seed", "train", "confirm", "candidates", "rounds")
                    },
                    "training": {
                        "drives": winner.drives[0],
                        **{word: winner.count(word) for word in ("right", "wrong", "unknown")},
                        "twins": winner.drives[1],
                        "separated": winner.separated,
                        "requests": cost.requests,
                        "target_ms": round(cost.target_ns / 1e6, 1),
                    },
                    "held_out": document["scenarios"],
                }
            ]
        }
    )


def recipes(content: str, name: str) -> tuple[Recipe, ...]:
    """The recipes of a file that a search has written, or the one that a person has.

    Raises:
        ConfigError: It has none.
    """
    try:
        listed = "scenario" in tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: {error}") from None
    return tuple(each.recipe for each in read(content, name)) if listed else (Recipe.parse(content),)


def read(content: str, name: str) -> tuple[Found, ...]:
    """The scenarios of a file.

    Args:
        content: Its text.
        name: What messages call it.

    Raises:
        ConfigError: It is no list of scenarios.
    """
    try:
        document = tomllib.loads(content)
        rows = document["scenario"]
        return tuple(
            Found(
                Recipe.from_document(row["recipe"]),
                row["search"],
                row["training"],
                row["held_out"],
                row["beats"],
            )
            for row in rows
        )
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: {error}") from None
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{name}: {error!r}: expected scenarios as a search writes them") from None
