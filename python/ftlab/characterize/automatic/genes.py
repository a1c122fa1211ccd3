"""Recipes as whole numbers, which an optimiser can draw, mix and change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ftlab.characterize.automatic.grammar import (
    ESTIMATORS,
    OTHERWISE,
    TIMED,
    TIMES,
    UNITS,
    WARM_UPS,
    Amount,
    Recipe,
    unit_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

# A gene is below it; many numbers of options divide it.
ALLELES = 60
# What is there more than once is drawn more often.
_OPS = (
    *(("read",),) * 4,
    *(("write",),) * 2,
    *(("write", "flush"),) * 3,
    ("trim", "write"),
    ("trim", "write", "flush"),
    ("write", "read"),
    ("trim", "read"),
    ("flush",),
)
_SWEPT = tuple(ops for ops in _OPS if ops != ("flush",))
_REGIONS = tuple(Amount(count, "mib") for count in (4, 8, 16, 32, 64, 96, 160))
_STRIDES = (
    *(Amount(count, "page") for count in (1, 2, 3)),
    Amount(1, "run"),
    *(Amount(count, "kib") for count in (4, 16, 64, 256)),
    *(Amount(count, "mib") for count in (1, 4)),
)
_OFFSETS = (*(Amount(0, "sector"),) * 3, Amount(1, "sector"), Amount(1, "page"), Amount(3, "page"))
_LENGTHS = (
    *(Amount(count, "sector") for count in (1, 2, 8)),
    *(Amount(1, "page"),) * 2,
    Amount(2, "page"),
    Amount(1, "run"),
)
_SWEEP_UNITS = (
    *(Amount(count, "sector") for count in (1, 2, 4)),
    Amount(1, "page"),
    Amount(1, "run"),
    Amount(4, "kib"),
    Amount(64, "kib"),
    Amount(1, "mib"),
)
_LINEAR = (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 512, 2048)
_POWERS = tuple(1 << power for power in range(3, 17))
_STEPS_ALONE = (9, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
_STEPS_SWEPT = (1, 3, 5, 9, 15, 24, 32, 48, 64)
_GAPS_US = (0, 1000, 10_000, 100_000)
# What a request passes on its way, one part after the other; and what goes by the sector alone.
_LESS = (
    (),
    ("host",),
    ("host", "link"),
    ("host", "link", "bus"),
    ("host", "link", "bus", "read"),
    ("host", "link", "bus", "buffer"),
    ("link",),
    ("bus",),
    ("link", "bus"),
)


def _most(chosen: Mapping[str, Any]) -> Sequence[int]:
    return _POWERS if chosen["points"] == "powers" else _LINEAR


def _sweeps(chosen: Mapping[str, Any]) -> Sequence[str]:
    """Steps and dips are of sizes more often than of distances."""
    return ("size", "size", "size", "distance") if chosen["estimator"] in {"steps", "dips"} else _of(chosen)


def _of(chosen: Mapping[str, Any]) -> Sequence[str]:
    return ESTIMATORS[chosen["estimator"]][1]


def _points(chosen: Mapping[str, Any]) -> Sequence[str]:
    """Lines and periods need neighbours, differences two points, and jumps may be far away."""
    wide = ("linear", "powers", "zoom")
    return {"rise": ("edges",), "slope": ("linear", "powers", "edges"), "first_after": wide, "last_before": wide}.get(
        chosen["estimator"], ("linear",)
    )


def _steps(chosen: Mapping[str, Any]) -> Sequence[int]:
    return _STEPS_ALONE if chosen["sweep"] == "none" else _STEPS_SWEPT


def _depths(chosen: Mapping[str, Any]) -> Sequence[int]:
    return {"distance": (2, 3, 4), "age": (1,)}.get(chosen["sweep"], (1, 1, 1, 2, 4))


class Genome:
    """What may be chosen for a parameter, one gene for each field.

    Attributes:
        parameter: What is searched for.
        names: The genes, in the order in which they are read.
    """

    def __init__(self, parameter: str, known: Collection[str]) -> None:
        """Leave out what uses a value that is not known.

        Args:
            parameter: What is searched for.
            known: Values that the flow has before it looks for the parameter.
        """
        self.parameter = parameter
        unit = unit_of(parameter)
        estimators = [name for name, (each, _) in ESTIMATORS.items() if each == unit]
        less = [each for each in _LESS if unit == "ns" and all(TIMES[name] in known for name in each)] or [()]
        otherwise = [each for each in OTHERWISE[unit] if each not in {"page", "run"} or f"{each}_bytes" in known]

        def lengths(options: Sequence[Amount]) -> Sequence[Amount]:
            return [each for each in options if isinstance(UNITS[each.unit], int) or UNITS[each.unit] in known]

        self._options: dict[str, Callable[[Mapping[str, Any]], Sequence[Any]]] = {
            "estimator": lambda _: estimators,
            "sweep": _sweeps,
            "ops": lambda chosen: _OPS if chosen["sweep"] == "none" else _SWEPT,
            "warm_up": lambda _: WARM_UPS,
            "address": lambda _: ("fixed", "sequential", "stride", "random"),
            "unit": lambda _: lengths(_SWEEP_UNITS),
            "points": _points,
            "most": _most,
            "depth": _depths,
            "size": lambda _: lengths(_LENGTHS),
            "stride": lambda _: lengths(_STRIDES),
            "offset": lambda _: lengths(_OFFSETS),
            "region": lambda _: _REGIONS,
            "gap_us": lambda _: _GAPS_US,
            "steps": _steps,
            "timed": lambda chosen: TIMED if chosen["depth"] > 1 or len(chosen["ops"]) > 1 else ("sum",),
            "threshold": lambda _: (2, 5, 10, 20, 40),
            "otherwise": lambda _: (*otherwise[:1] * 3, *otherwise),
            "less": lambda _: less,
        }
        self.names = tuple(self._options)

    def recipe(self, genes: Sequence[int]) -> Recipe:
        """The recipe of genes."""
        chosen: dict[str, Any] = {"parameter": self.parameter}
        for gene, (name, options) in zip(genes, self._options.items(), strict=True):
            possible = options(chosen)
            chosen[name] = possible[int(gene) * len(possible) // ALLELES]
        return Recipe(**_plain(chosen))


def _plain(chosen: dict[str, Any]) -> dict[str, Any]:
    """Fields that change nothing are at their first value, so that one scenario has one text."""
    if chosen["sweep"] == "none":
        chosen |= {"points": "linear", "most": 1, "unit": Amount(1, "sector")}
    if chosen["sweep"] == "size" or set(chosen["ops"]) == {"flush"}:
        chosen["size"] = Amount(1, "sector")
    if chosen["sweep"] == "age":
        chosen["address"] = "fixed"
    if chosen["address"] in {"fixed", "sequential"}:
        chosen["stride"] = Amount(1, "sector")
    if chosen["estimator"] in {"level", "rise", "slope"}:
        chosen["threshold"] = 2
    if set(chosen["ops"]) == {"flush"}:
        chosen |= {"warm_up": "none", "address": "fixed", "stride": Amount(1, "sector"), "offset": Amount(0, "sector")}
    return chosen
