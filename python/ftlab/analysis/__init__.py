"""What a study says: schemes compared, improvements, which axis matters, fronts, and where a run becomes steady.

The functions take the tidy table of a study (:func:`ftlab.study`, :meth:`ftlab.Store.frame`) and give tidy tables, with
``mean``, ``low``, ``high`` and ``n`` where something is estimated. ``low`` and ``high`` are null where they cannot be
known, as with one seed; they are never made up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ftlab._lazy import names_of

if TYPE_CHECKING:
    from ftlab.analysis.comparison import compare, improvement
    from ftlab.analysis.front import pareto
    from ftlab.analysis.over_time import series
    from ftlab.analysis.steady import Steady, steady_state, steady_states
    from ftlab.analysis.tables import better
    from ftlab.analysis.variance import sensitivity
    from ftlab.analysis.volumes import fleet, worst

__all__ = [
    "Steady",
    "better",
    "compare",
    "fleet",
    "improvement",
    "pareto",
    "sensitivity",
    "series",
    "steady_state",
    "steady_states",
    "worst",
]

__getattr__ = names_of(
    __name__,
    {
        "comparison": ("compare", "improvement"),
        "over_time": ("series",),
        "volumes": ("fleet", "worst"),
        "front": ("pareto",),
        "steady": ("Steady", "steady_state", "steady_states"),
        "tables": ("better",),
        "variance": ("sensitivity",),
    },
)


def __dir__() -> list[str]:
    return __all__
