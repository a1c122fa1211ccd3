"""The grammar of scenarios: what is sent and how a value follows, as plain data that a file can hold."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ftlab.characterize.scenario import PARAMETERS
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# How the names of scenarios begin that a search has found.
AUTOMATIC = "automatic-"
# Bytes of each unit, or the value that an earlier scenario found.
UNITS: dict[str, int | str] = {
    "sector": 512,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "page": "page_bytes",
    "run": "run_bytes",
}
OPERATIONS = ("read", "write", "trim", "flush")
ADDRESSES = ("fixed", "sequential", "stride", "random")
SWEEPS = ("none", "size", "distance", "age")
POINTS = ("linear", "powers", "edges", "zoom")
ZOOMED = ("first_after", "last_before")
WARM_UPS = ("none", "fill", "fill_scrub", "trim")
TIMED = ("sum", "first", "last", "longest")
# What the value may be where there is no jump, by the unit of the estimator.
OTHERWISE = {"byte": ("unknown", "zero", "page", "run"), "ns": ("unknown",), "count": ("unknown", "one")}
# Times that may be taken off, and the values that they are.
TIMES = {
    "host": "host_overhead_ns",
    "link": "link_sector_ns",
    "bus": "bus_sector_ns",
    "read": "read_ns",
    "buffer": "buffer_ns",
}
# Estimators by the unit of what they give, with the sweeps that they understand.
ESTIMATORS: dict[str, tuple[str, tuple[str, ...]]] = {
    "steps": ("byte", ("size", "distance")),
    "dips": ("byte", ("size", "distance")),
    "last_before": ("byte", ("size", "distance", "age")),
    "first_after": ("byte", ("size", "distance", "age")),
    "rhythm": ("byte", ("none",)),
    "level": ("ns", ("none",)),
    "height": ("ns", ("none",)),
    "rise": ("ns", ("size", "distance")),
    "slope": ("ns", ("size",)),
    "classes": ("ns", ("distance",)),
    "fine": ("count", ("distance",)),
    "coarse": ("count", ("distance",)),
    "ratio": ("count", ("distance",)),
}
_MOST_GAP_US, _MOST_DEPTH, _MOST_STEPS, _MOST_POINTS = 1_000_000, 64, 1 << 17, 1 << 17
_MOST_OPS = 4


def unit_of(parameter: str) -> str:
    """The unit of estimators that a parameter needs: ``byte``, ``ns`` or ``count``.

    Raises:
        ConfigError: There is no such parameter, or no estimator gives its unit.

    >>> unit_of("page_bytes"), unit_of("channels")
    ('byte', 'count')
    """
    _one_of("parameter", parameter, PARAMETERS)
    known = PARAMETERS[parameter]
    if known.kind == "size":
        return known.unit or "count"
    if known.unit == "ns":
        return "ns"
    possible = ", ".join(name for name, each in PARAMETERS.items() if each.kind == "size" or each.unit == "ns")
    raise ConfigError(f"parameter = {parameter!r}: no estimator of the grammar gives it; expected one of {possible}")


def _one_of(key: str, found: Any, expected: Collection[str]) -> None:
    if isinstance(found, str) and found in expected:
        return
    near = difflib.get_close_matches(str(found), expected, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"{key} = {found!r}: expected {', '.join(expected)}{hint}")


def _whole(key: str, found: Any, low: int, high: int) -> None:
    if not isinstance(found, int) or isinstance(found, bool) or not low <= found <= high:
        raise ConfigError(f"{key} = {found!r}: expected a whole number from {low} to {high}")


@dataclass(frozen=True)
class Amount:
    """A length: a number of a unit.

    Attributes:
        count: How many.
        unit: Of what; a key of :data:`UNITS`.

    >>> Amount.parse("3 page")
    Amount(count=3, unit='page')
    """

    count: int
    unit: str

    @classmethod
    def parse(cls, text: Any, key: str = "amount") -> Amount:
        """Read a number and a unit.

        Raises:
            ConfigError: It is none, or the unit is unknown.
        """
        match = re.fullmatch(r"([0-9]{1,9}) ([a-z]+)", str(text))
        if match is None:
            raise ConfigError(f"{key} = {text!r}: expected a number and a unit, such as '4 page'")
        _one_of(f"{key}: unit", match[2], UNITS)
        return cls(int(match[1]), match[2])

    def __str__(self) -> str:
        """As files have it."""
        return f"{self.count} {self.unit}"


@dataclass(frozen=True)
class Recipe:
    """A scenario of the grammar.

    A step sends ``ops`` at one place, ``depth`` times, ``distance`` apart. Places of steps follow ``address``.

    Attributes:
        parameter: What it finds.
        warm_up: What is done to the region first: ``fill``, ``fill_scrub`` (the buffer is emptied after it), ``trim``.
        region: How much of the drive it works on.
        ops: Operations of a step, one after the other; flushes have no place.
        address: Where steps go: ``fixed``, ``sequential``, ``stride``, ``random`` (each multiple of ``stride`` once).
        stride: From one step to the next.
        offset: Where the first step goes.
        size: Length of a request, unless it is swept.
        sweep: What grows: ``size``, ``distance`` in a step, ``age`` (bytes written after it), or nothing.
        points: Multiples of ``unit``: ``linear`` (all), ``powers`` of two, ``edges`` (the first and the last),
            ``zoom`` (all, then ever finer around the jump).
        unit: Of what the sweep has multiples.
        most: The largest multiple.
        depth: Requests that are outstanding together: with a gap, all of a step begin at one instant.
        gap_us: Idle time between steps.
        steps: Steps of each point; without a sweep, of all.
        timed: Which latency of a step counts.
        estimator: How times become a value; a key of :data:`ESTIMATORS`.
        threshold: Share of an ordinary time that a jump has at least, in percent.
        otherwise: What the value is where there is no jump.
        less: Known times that are taken off.
    """

    parameter: str
    warm_up: str
    region: Amount
    ops: tuple[str, ...]
    address: str
    stride: Amount
    offset: Amount
    size: Amount
    sweep: str
    points: str
    unit: Amount
    most: int
    depth: int
    gap_us: int
    steps: int
    timed: str
    estimator: str
    threshold: int
    otherwise: str
    less: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ConfigError: A field is none of the grammar, or two of them do not go together.
        """
        for key, options in _WORDS.items():
            _one_of(key, getattr(self, key), options)
        if not self.ops:
            raise ConfigError(f"ops = []: expected one to {_MOST_OPS} of {', '.join(OPERATIONS)}")
        _whole("ops: number", len(self.ops), 1, _MOST_OPS)
        for op in self.ops:
            _one_of("ops", op, OPERATIONS)
        for each in self.less:
            _one_of("less", each, TIMES)
        for key, low, high in _NUMBERS:
            _whole(key, getattr(self, key), low, high)
        for key in ("region", "size", "unit", "stride"):
            _whole(key, getattr(self, key).count, 1, 10**9)
        self._check_pairs()

    def _check_pairs(self) -> None:
        """Check what must go together."""
        unit, sweeps = ESTIMATORS[self.estimator]
        wanted = unit_of(self.parameter)
        if unit != wanted:
            fit = ", ".join(name for name, (each, _) in ESTIMATORS.items() if each == wanted)
            raise ConfigError(f"estimator = {self.estimator!r}: gives {unit}, {self.parameter} is {wanted}: {fit}")
        _one_of("otherwise", self.otherwise, OTHERWISE[unit])
        _one_of(f"sweep of {self.estimator}", self.sweep, sweeps)
        if self.points == "zoom" and self.estimator not in ZOOMED:
            raise ConfigError(f"estimator = {self.estimator!r}: expected {' or '.join(ZOOMED)} with points = 'zoom'")
        if self.sweep == "distance" and self.depth == 1:
            raise ConfigError("depth = 1: expected 2 or more for a sweep of the distance within a step")
        if self.sweep == "age" and self.depth > 1:
            raise ConfigError(f"depth = {self.depth}: expected 1 for a sweep of the age")
        if all(op == "flush" for op in self.ops) and self.sweep != "none":
            raise ConfigError(f"sweep = {self.sweep!r}: expected 'none', as flushes have no size and no place")

    @property
    def needs(self) -> tuple[str, ...]:
        """What must be known before it can begin."""
        amounts = (self.region, self.stride, self.offset, self.size, self.unit)
        found = {name for amount in amounts if isinstance(name := UNITS[amount.unit], str)}
        found |= {TIMES[each] for each in self.less}
        if self.warm_up == "fill_scrub":
            found.add("read_buffer_bytes")
        if self.otherwise in {"page", "run"}:
            found.add(f"{self.otherwise}_bytes")
        return tuple(sorted(found))

    def document(self) -> dict[str, Any]:
        """As TOML and JSON have it."""
        return {
            key: str(value) if isinstance(value, Amount) else list(value) if isinstance(value, tuple) else value
            for key, value in ((field.name, getattr(self, field.name)) for field in fields(self))
        }

    def to_toml(self) -> str:
        """The text of a file."""
        import tomli_w

        return tomli_w.dumps(self.document())

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Recipe:
        """Read what :meth:`document` gave.

        Raises:
            ConfigError: A key is missing or unknown, or a value is wrong.
        """
        names = [field.name for field in fields(cls)]
        for key in document:
            _one_of("key", key, names)
        missing = [name for name in names if name not in document]
        if missing:
            raise ConfigError(f"{missing[0]}: is missing; a scenario has {', '.join(names)}")
        values: dict[str, Any] = dict(document)
        for key in _AMOUNTS:
            values[key] = Amount.parse(document[key], key)
        for key in ("ops", "less"):
            if not isinstance(document[key], list):
                raise ConfigError(f"{key} = {document[key]!r}: expected a list of words")
            values[key] = tuple(document[key])
        return cls(**values)

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """Read the text of a file.

        Raises:
            ConfigError: It is no TOML, or no scenario of the grammar.
        """
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"scenario: {error}") from None
        if not document:
            raise ConfigError("scenario: found nothing, expected the keys of a scenario, such as ops = ['read']")
        return cls.from_document(document)


_AMOUNTS = ("region", "stride", "offset", "size", "unit")
_WORDS: dict[str, Collection[str]] = {
    "warm_up": WARM_UPS,
    "address": ADDRESSES,
    "sweep": SWEEPS,
    "points": POINTS,
    "timed": TIMED,
    "estimator": ESTIMATORS,
}
_NUMBERS = (
    ("most", 1, _MOST_POINTS),
    ("depth", 1, _MOST_DEPTH),
    ("gap_us", 0, _MOST_GAP_US),
    ("steps", 1, _MOST_STEPS),
    ("threshold", 1, 100),
)

__all__ = ["Amount", "Recipe", "unit_of"]
