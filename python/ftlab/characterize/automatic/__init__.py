"""Scenarios that a search makes: a grammar, its interpreter, the search, and the judgement on drives never seen."""

from ftlab.characterize.automatic.grammar import Amount, Recipe
from ftlab.characterize.automatic.interpret import scenario_of
from ftlab.characterize.automatic.judge import Comparison, compare
from ftlab.characterize.automatic.search import Result, Search, Settings

__all__ = ["Amount", "Comparison", "Recipe", "Result", "Search", "Settings", "compare", "scenario_of"]
