"""Drives of known truth: those to search on, those to judge on, twins that differ in one parameter; and references."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ftlab import _outputs as outputs
from ftlab.characterize.automatic.grammar import AUTOMATIC
from ftlab.characterize.detect import Interval
from ftlab.characterize.flow import Finding, Flow, judged
from ftlab.characterize.population import Drawn, draw
from ftlab.characterize.scenario import PARAMETERS
from ftlab.characterize.scenarios import SCENARIOS
from ftlab.characterize.target import Noise, SimulatedTarget
from ftlab.characterize.truth import is_right, truths
from ftlab.errors import ConfigError, RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ftlab.characterize.scenario import Scenario
    from ftlab.characterize.target import Target

# Seeds of one search are apart from those of any other.
_STRIDE = 1_000_000
# A scenario that takes this many times as long as the hand-made ones is of no use.
_PATIENCE, _LEAST_NS = 2.0, 1e9


def training_seed(seed: int, number: int) -> int:
    """The seed of a drive to search on: always even.

    >>> training_seed(1, 0), held_out_seed(1, 0)
    (1000000, 1000001)
    """
    return seed * _STRIDE + 2 * number


def held_out_seed(seed: int, number: int) -> int:
    """The seed of a drive to judge on: always odd, so no search has seen it."""
    return seed * _STRIDE + 2 * number + 1


@dataclass(frozen=True)
class Cost:
    """What scenarios have sent.

    Attributes:
        requests: Requests.
        target_ns: Time that the drive took.
        written_bytes: Bytes that were written.
    """

    requests: int = 0
    target_ns: float = 0.0
    written_bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        """Both together."""
        written = self.written_bytes + other.written_bytes
        return Cost(self.requests + other.requests, self.target_ns + other.target_ns, written)


@dataclass(frozen=True)
class Verdict:
    """What was said of a parameter, beside what is true.

    Attributes:
        word: ``right``, ``wrong`` or ``unknown``.
        value: What was said; ``None``: nothing.
        cost: What it took.
    """

    word: str
    value: float | str | None
    cost: Cost

    def document(self) -> list[Any]:
        """As lines of a state file have it."""
        cost = self.cost
        return [self.word, self.value, cost.requests, round(cost.target_ns, 3), cost.written_bytes]

    @classmethod
    def of(cls, row: list[Any]) -> Verdict:
        """Read what :meth:`document` gave."""
        word, value, requests, target_ns, written = row
        return cls(str(word), value, Cost(int(requests), float(target_ns), int(written)))


def _word(finding: Finding, truth: float | str) -> str:
    if finding.status != "found":
        return "unknown"
    return "right" if is_right(finding, truth) else "wrong"


def _value(finding: Finding) -> float | str | None:
    if finding.status != "found":
        return None
    return finding.value.value if isinstance(finding.value, Interval) else finding.value


def hand_made(parameter: str = "") -> tuple[Scenario, ...]:
    """The scenarios of the plan that a search has not found: all, or those that speak of a parameter."""
    made = tuple(each for each in SCENARIOS if not each.name.startswith(AUTOMATIC))
    return tuple(each for each in made if not parameter or parameter in each.finds)


class _Recorded(Flow):
    """A flow that remembers what was known before each scenario, and what each has cost."""

    def __init__(self, target: Target, *, seed: int, scenarios: tuple[Scenario, ...]) -> None:
        super().__init__(target, seed=seed, scenarios=scenarios)
        self.before: dict[str, dict[str, Interval | str]] = {}
        self.costs: dict[str, Cost] = {}

    def _cost(self) -> Cost:
        account = self.account
        return Cost(account.requests, account.target_ns, account.written_bytes)

    def _work(self, scenario: Scenario, place: int) -> None:
        self.before[scenario.name] = dict(self.result.known)
        before = self._cost()
        super()._work(scenario, place)
        after = self._cost()
        requests, written = after.requests - before.requests, after.written_bytes - before.written_bytes
        self.costs[scenario.name] = Cost(requests, after.target_ns - before.target_ns, written)


@dataclass(frozen=True)
class Reference:
    """What the hand-made plan says of a drive.

    Attributes:
        before: What was known before each scenario began.
        verdicts: What each scenario alone says, by parameter and scenario; that of all together is ``""``.
        clock_ns: The step of the clock.
    """

    before: Mapping[str, Mapping[str, Interval | str]]
    verdicts: Mapping[str, Mapping[str, Verdict]]
    clock_ns: float

    def document(self) -> dict[str, Any]:
        """As a file has it."""
        plain = {
            scenario: {name: asdict(value) if isinstance(value, Interval) else value for name, value in known.items()}
            for scenario, known in self.before.items()
        }
        said = {
            parameter: {name: each.document() for name, each in verdicts.items()}
            for parameter, verdicts in self.verdicts.items()
        }
        return {"clock_ns": self.clock_ns, "before": plain, "verdicts": said}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Reference:
        """Read what :meth:`document` gave."""
        before = {
            scenario: {name: value if isinstance(value, str) else Interval(**value) for name, value in known.items()}
            for scenario, known in document["before"].items()
        }
        verdicts = {
            parameter: {name: Verdict.of(row) for name, row in each.items()}
            for parameter, each in document["verdicts"].items()
        }
        return cls(before, verdicts, float(document["clock_ns"]))


@dataclass(frozen=True)
class Start:
    """Where a scenario begins.

    Attributes:
        known: What the flow knows before it looks for the parameter.
        clock_ns: The step of the clock.
        patience_ns: How long the scenario may take.
    """

    known: Mapping[str, Interval | str]
    clock_ns: float
    patience_ns: float

    @classmethod
    def of(cls, reference: Reference, parameter: str) -> Start:
        """Where the first hand-made scenario of a parameter began."""
        patience_ns = max(_LEAST_NS, _PATIENCE * reference.verdicts[parameter][""].cost.target_ns)
        return cls(reference.before[hand_made(parameter)[0].name], reference.clock_ns, patience_ns)


@dataclass
class Drive:
    """A drive of known truth.

    Attributes:
        drawn: The drive.
        true: What is true of it.
        base: The drive in its first state, without noise.
    """

    drawn: Drawn
    true: Mapping[str, float | str]
    base: SimulatedTarget

    @classmethod
    def of(cls, drawn: Drawn) -> Drive:
        """Put it together."""
        return cls(drawn, truths(drawn.device), SimulatedTarget(drawn.device, seed=drawn.seed))

    def target(self) -> Target:
        """A fresh copy, whose noise is the same each time."""
        copy = self.base.fork()
        return Noise(copy, self.drawn.noise) if self.drawn.noise.sigma else copy

    def reference(self, plan: tuple[Scenario, ...] | None = None) -> Reference:
        """Work off the hand-made plan, or its beginning."""
        plan = hand_made() if plan is None else plan
        flow = _Recorded(self.target(), seed=self.drawn.seed, scenarios=plan)
        result = flow.run()
        # For a scenario that is not in it, all of it was before.
        before = flow.before | {"": result.known}
        verdicts: dict[str, dict[str, Verdict]] = {}
        for parameter, truth in self.true.items():
            said: dict[str, Verdict] = {}
            together = Cost()
            scenarios = hand_made(parameter)
            if any(scenario not in plan for scenario in scenarios):
                continue
            for scenario in scenarios:
                own = [(scenario, e) for e in result.estimates.get(scenario.name, []) if e.parameter == parameter]
                finding = judged(PARAMETERS[parameter], own, {})
                cost = flow.costs[scenario.name]
                said[scenario.name] = Verdict(_word(finding, truth), _value(finding), cost)
                together += cost
            finding = result.findings[parameter]
            said[""] = Verdict(_word(finding, truth), _value(finding), together)
            verdicts[parameter] = said
        return Reference(before, verdicts, flow.account.clock_ns)

    def start(self, parameter: str, patience_ns: float) -> Start:
        """Where the first hand-made scenario of a parameter begins, without working off what comes after it."""
        plan = hand_made()
        first = plan.index(hand_made(parameter)[0])
        reference = self.reference(plan[:first])
        return Start(reference.before[""], reference.clock_ns, patience_ns)

    def judge(self, scenario: Scenario, start: Start) -> Verdict:
        """What a scenario says of its parameter, beginning with what is known."""
        (parameter,) = scenario.finds
        flow = Flow(
            self.target(), only=(parameter,), budget_ns=start.patience_ns, seed=self.drawn.seed, scenarios=(scenario,)
        )
        flow.result.known = dict(start.known)
        # The plan has looked at the clock before.
        flow.account.clock_ns = start.clock_ns
        account = flow.account
        try:
            finding = flow.run().findings[parameter]
        except RunError:
            # A drive that has failed says nothing.
            finding = Finding(PARAMETERS[parameter], "unknown")
        cost = Cost(account.requests, account.target_ns, account.written_bytes)
        return Verdict(_word(finding, self.true[parameter]), _value(finding), cost)


@cache
def fingerprint(*, whole: bool = False) -> str:
    """What references depend on: the sources of the plan; a search depends on its own sources as well."""
    folder = Path(__file__).parent.parent
    paths = [*folder.glob("*.py"), *folder.glob("scenarios/*.py"), Path(__file__)]
    digest = hashlib.sha256()
    for path in sorted({*paths, *(folder.glob("automatic/*.py") if whole else ())}):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _file(drive: Drive, folder: Path) -> Path:
    return folder / f"drive-{drive.drawn.seed}.json"


def keep(drive: Drive, reference: Reference, folder: Path) -> None:
    """Keep what the plan says of a drive in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"plan": fingerprint()} | reference.document())
    outputs.write_whole(_file(drive, folder), text.encode())


def referenced(drive: Drive, parameter: str, folder: Path | None) -> Reference:
    """What the plan says of a drive, as far as a parameter needs; it takes seconds unless a folder has it."""
    if folder is not None and (path := _file(drive, folder)).is_file():
        try:
            kept = json.loads(path.read_bytes())
            if kept["plan"] == fingerprint() and parameter in kept["verdicts"]:
                return Reference.of(kept)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path}: {error!r}: expected a reference; delete it to make it anew") from error
    plan = hand_made()
    made = drive.reference(plan[: plan.index(hand_made(parameter)[-1]) + 1])
    if folder is not None:
        keep(drive, made, folder)
    return made


def _other(keys: Mapping[str, Any], section: str, key: str, factor: float) -> list[str]:
    value = keys[section].get(key)
    return [] if not value else [f"{section}.{key}={round(value * factor, 3)}"]


def _sizes(section: str, key: str, *factors: float) -> Callable[[Mapping[str, Any]], list[list[str]]]:
    def made(keys: Mapping[str, Any]) -> list[list[str]]:
        value = keys.get(section, {}).get(key)
        return [[f"{section}.{key}={int(value * factor)}"] for factor in factors] if value else []

    return made


def _times(section: str, key: str, factor: float) -> Callable[[Mapping[str, Any]], list[list[str]]]:
    return lambda keys: [each] if (each := _other(keys, section, key, factor)) else []


def _pages(keys: Mapping[str, Any]) -> list[list[str]]:
    """Pages of another size in blocks of the same one, with units that stay where that is possible."""
    geometry = keys["geometry"]
    page, pages, unit = geometry["page_bytes"], geometry["pages_per_block"], geometry.get("mapping_unit_bytes")
    made = []
    for factor in (0.5, 2):
        size = int(page * factor)
        unit_bytes = size if keys["ftl"]["kind"] != "page" else min(size, unit or page)
        made.append(
            [
                f"geometry.page_bytes={size}",
                f"geometry.pages_per_block={int(pages / factor)}",
                f"geometry.mapping_unit_bytes={unit_bytes}",
            ]
        )
    return made


def _chunks(keys: Mapping[str, Any]) -> list[list[str]]:
    """A run is a page or a block, so what makes the other makes runs of another length."""
    return _pages(keys) if keys["ftl"]["kind"] == "page" else _BLOCKS(keys)


def _units(keys: Mapping[str, Any]) -> list[list[str]]:
    geometry = keys["geometry"]
    page, unit = geometry["page_bytes"], geometry.get("mapping_unit_bytes") or geometry["page_bytes"]
    return (
        []
        if keys["ftl"]["kind"] != "page"
        else [[f"geometry.mapping_unit_bytes={page if unit != page else page // 2}"]]
    )


def _more(key: str) -> Callable[[Mapping[str, Any]], list[list[str]]]:
    return lambda keys: [[f"geometry.{key}={keys['geometry'][key] + more}"] for more in (1, -1)]


_BLOCKS = _sizes("geometry", "pages_per_block", 2, 0.5)
# What makes a drive that differs in one parameter, as near as a device file can.
_TWINS: dict[str, Callable[[Mapping[str, Any]], list[list[str]]]] = {
    "page_bytes": _pages,
    "mapping_unit_bytes": _units,
    "block_bytes": _BLOCKS,
    "gc_unit_bytes": _BLOCKS,
    "chunk_bytes": _chunks,
    "channels": _more("channels"),
    "ways": _more("ways"),
    "buffer_bytes": _sizes("buffer", "bytes", 1.5, 2),
    "read_buffer_bytes": _sizes("buffer", "bytes", 1.5, 2),
    "log_blocks": _sizes("ftl", "log_blocks", 2, 0.5),
    "read_ns": _times("timing", "read_us", 1.1),
    "program_ns": _times("timing", "program_us", 1.1),
    "erase_ns": _times("timing", "erase_us", 1.1),
    "buffer_ns": _times("buffer", "access_us", 1.2),
    "host_overhead_ns": _times("host", "overhead_us", 1.2),
}


def twin(drive: Drive, parameter: str) -> Drive | None:
    """A drive that differs from another in one parameter, as near as that is possible; ``None`` where none is."""
    made = _TWINS.get(parameter)
    for changes in [] if made is None else made(drive.drawn.device.to_dict()):
        try:
            device = drive.drawn.device.set(*changes)
        except ConfigError:
            continue
        other = Drive.of(replace(drive.drawn, device=device))
        if parameter in other.true and other.true[parameter] != drive.true[parameter]:
            return other
    return None


def drawn(seeds: list[int]) -> list[Drive]:
    """The drives of seeds."""
    return [Drive.of(draw(seed)) for seed in seeds]
