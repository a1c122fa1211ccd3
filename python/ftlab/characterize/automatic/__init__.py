"""Scenarios that a search makes: a grammar, its interpreter, the search, and the judgement on drives never seen.

``search`` and ``judge`` stand on the flow, and the flow may have scenarios that were found: they are imported alone.
"""

from ftlab.characterize.automatic.grammar import Amount, Recipe
from ftlab.characterize.automatic.interpret import scenario_of

__all__ = ["Amount", "Recipe", "scenario_of"]
