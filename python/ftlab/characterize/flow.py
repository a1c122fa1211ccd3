"""The flow of the paper's Figure 2: scenario after scenario, corrected until two agree or the budget ends."""

from __future__ import annotations

import math
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ftlab.characterize.bench import Account, Bench, BudgetSpentError
from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import (
    PARAMETERS,
    Declined,
    Effort,
    Estimate,
    NotApplicableError,
    Parameter,
    Plot,
    Scenario,
    Status,
    UndecidedError,
)
from ftlab.characterize.scenarios import SCENARIOS
from ftlab.characterize.target import SECTOR_BYTES
from ftlab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TextIO

    from ftlab.characterize.target import Target

# Corrections of a scenario, and by how much one may raise its repetitions at once and in all.
_CORRECTIONS, _STEP = 5, 16
# Multiples of it spread evenly over an interval.
_GOLDEN = 0.6180339887498949
_SURE = 0.95
# What intervals of times have at least: rounding of two time stamps, and a share for what models leave out.
# A rate follows from a short time, of which the rounding is a larger share.
_MODEL_NS, _MODEL, _MODEL_RATE = 2.0, 2e-4, 1e-3


@dataclass(frozen=True)
class Correction:
    """A try of a scenario, and what became of it.

    Attributes:
        scenario: Its name.
        attempt: The try, from 1.
        repetitions: Its repetitions.
        span: Its span.
        outcome: What it found, or why it was tried again or given up.
    """

    scenario: str
    attempt: int
    repetitions: int
    span: float
    outcome: str


@dataclass(frozen=True)
class Finding:
    """What is known of a parameter.

    Attributes:
        parameter: The parameter.
        status: ``found``, ``unknown``, ``conflict`` or ``not_applicable``.
        value: The value: a number with its interval, a word, or ``None``.
        confidence: From 0 to 1.
        scenarios: Who speaks of it.
        reason: Why the status is what it is.
    """

    parameter: Parameter
    status: Status
    value: Interval | str | None = None
    confidence: float = 0.0
    scenarios: tuple[str, ...] = ()
    reason: str = ""

    def row(self) -> dict[str, Any]:
        """As JSON has it."""
        number = self.value if isinstance(self.value, Interval) else None
        return {
            "name": self.parameter.name,
            "unit": self.parameter.unit,
            "value": _rounded(number.value) if number is not None else self.value,
            "low": None if number is None else _rounded(number.low),
            "high": None if number is None else _rounded(number.high),
            "confidence": round(self.confidence, 4),
            "status": self.status,
            "scenarios": list(self.scenarios),
            "reason": self.reason,
        }


def _rounded(value: float) -> float | int:
    """Six digits behind the point are more than any time stamp has."""
    rounded = round(float(value), 6)
    return int(rounded) if rounded == int(rounded) else rounded


@dataclass
class Characterization:
    """What is known of a target.

    Attributes:
        target: Its name.
        features: What the system says of it.
        findings: What is known, by parameter.
        estimates: What each scenario said, by scenario.
        path: Every try of every scenario.
        requests: Requests sent.
        written_bytes: Bytes written.
        target_ns: Time that the target took.
        ended: Why it ended before its plan did; empty if it did not.
        done: Scenarios that were run to their end.
        absent: Why a parameter does not apply, by its name.
        silent: Why a scenario that was run to its end says nothing of a parameter, by scenario and parameter.
        known: The best value so far of what scenarios build on.
        identity: What was measured and how, so that nothing else is gone on from.
    """

    target: str
    features: Mapping[str, Any]
    findings: dict[str, Finding] = field(default_factory=dict)
    estimates: dict[str, list[Estimate]] = field(default_factory=dict)
    path: list[Correction] = field(default_factory=list)
    requests: int = 0
    written_bytes: int = 0
    target_ns: float = 0.0
    ended: str = ""
    done: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    silent: dict[str, dict[str, str]] = field(default_factory=dict)
    known: dict[str, Interval | str] = field(default_factory=dict)
    identity: str = ""

    def value(self, name: str) -> float | str | None:
        """The value of a parameter that is found; otherwise ``None``."""
        finding = self.findings.get(name)
        if finding is None or finding.status != "found" or finding.value is None:
            return None
        return finding.value.value if isinstance(finding.value, Interval) else finding.value

    def document(self) -> dict[str, Any]:
        """The document of ``ftlab characterize --json``, without what the wall clock says."""
        return {
            "target": self.target,
            "parameters": [finding.row() for finding in self.findings.values()],
            "requests": self.requests,
            "target_ns": _rounded(self.target_ns),
            **({"partial": self.ended} if self.ended else {}),
        }


# Factors on the requests that somebody would try.
_LEAST_HELP, _MOST_HELP = 2, 10_000


def narrow(parameter: Parameter, value: Interval) -> bool:
    """Whether an interval is inside the tolerance of its parameter."""
    if parameter.kind == "share":
        return value.half <= max(parameter.tolerance, parameter.floor)
    return value.half <= max(parameter.tolerance * abs(value.value), parameter.floor)


def _agree(parameter: Parameter, one: Interval | str, other: Interval | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    if parameter.exact:
        return one.value == other.value
    # Two ways may differ by what each leaves out, up to what is promised of the value.
    room = parameter.tolerance * (1.0 if parameter.kind == "share" else abs(one.value))
    return one.meets(other) or abs(one.value - other.value) <= max(room, parameter.floor)


def judged(parameter: Parameter, said: list[tuple[Scenario, Estimate]], why_not: Mapping[str, str]) -> Finding:
    """The finding that estimates make together."""
    usable = [
        (scenario, each)
        for scenario, each in said
        if (each.confidence >= _SURE if parameter.exact else isinstance(each.value, Interval))
    ]
    names = tuple(scenario.name for scenario, _ in said)
    if not usable:
        reasons = [
            *(f"{s.name}: confidence {e.confidence:.2f}" for s, e in said),
            *(f"{n}: {r}" for n, r in why_not.items()),
        ]
        return Finding(parameter, "unknown", scenarios=names, reason="; ".join(reasons) or "no scenario speaks of it")
    # The narrowest interval is the value; a tie goes to the plan's order.
    chosen, first = min(usable, key=lambda pair: pair[1].value.half if isinstance(pair[1].value, Interval) else 0.0)
    confidence = min(each.confidence for _, each in usable)
    for scenario, each in usable:
        if not _agree(parameter, first.value, each.value):
            reason = f"{chosen.name} says {_text(first.value)}, {scenario.name} says {_text(each.value)}"
            return Finding(parameter, "conflict", None, 0.0, names, reason)
    if not parameter.exact and isinstance(first.value, Interval) and not narrow(parameter, first.value):
        wide = first.value.half if parameter.kind == "share" else first.value.relative
        factor = (wide / parameter.tolerance) ** 2 if parameter.tolerance and math.isfinite(wide) else math.inf
        helps = _LEAST_HELP <= factor <= _MOST_HELP
        more = f"; about {factor:,.0f} times the requests would do" if helps else ""
        reason = f"the interval {_text(first.value)} is wider than the tolerance{more}"
        return Finding(parameter, "unknown", None, 0.0, names, reason)
    reason = first.note
    if len(usable) == 1:
        others = "; ".join(f"{n}: {r}" for n, r in why_not.items() if n != chosen.name)
        alone = chosen.alone.get(parameter.name) or others or "no other scenario speaks of it here"
        reason = "; ".join(filter(None, [reason, f"one scenario: {alone}"]))
    return Finding(parameter, "found", first.value, confidence, tuple(s.name for s, _ in usable), reason)


def _text(value: Interval | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value.value:,.6g}" if value.low == value.high else f"{value.low:,.6g} to {value.high:,.6g}"


class Flow:
    """A plan of scenarios over a target.

    Attributes:
        result: What is known so far; it is whole at any moment.
    """

    def __init__(
        self,
        target: Target,
        *,
        only: Iterable[str] = (),
        budget_ns: float | None = None,
        seed: int = 1,
        identity: str = "",
        transcript: TextIO | None = None,
        watch: Callable[[str, int, int], None] | None = None,
        scenarios: tuple[Scenario, ...] = SCENARIOS,
    ) -> None:
        """Make a plan.

        Args:
            target: The target.
            only: Parameters that are asked for; none: all. What they need is measured as well.
            budget_ns: How long the target may work.
            seed: Seed of every choice.
            identity: What is measured and how; only a state with the same is gone on from.
            transcript: Where every request goes, as lines of JSON.
            watch: Called with a scenario's name, its place in the plan, and the number of scenarios.
            scenarios: The scenarios.
        """
        self.target, self.seed, self.watch = target, seed, watch
        self.account = Account(budget_ns, transcript)
        self.only = tuple(only)
        self.plan = _planned(scenarios, self.only)
        self.result = Characterization(target.name, target.features, identity=identity)
        self._why_not: dict[str, dict[str, str]] = {name: {} for name in PARAMETERS}
        self._said: dict[str, list[tuple[Scenario, Estimate]]] = {name: [] for name in PARAMETERS}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Take what an earlier flow of this target found.

        Raises:
            InputError: It is of another target, seed or noise, or not what `--report` wrote.
        """
        found, expected = state.get("identity"), self.result.identity
        if (state.get("target"), found) != (self.target.name, expected):
            theirs, ours = f"{state.get('target')} ({found})", f"{self.target.name} ({expected})"
            raise InputError(f"resume: found the state of {theirs}, expected {ours}")
        try:
            self._take(state)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"resume: {error!r}: expected what --report wrote") from error

    def _take(self, state: Mapping[str, Any]) -> None:
        named = {scenario.name: scenario for scenario in self.plan}
        result = self.result
        result.known = {name: _valued(value) for name, value in state["known"].items()}
        result.path = [Correction(**each) for each in state["path"]]
        for name, rows in state["said"].items():
            said = [
                Estimate(each["parameter"], _valued(each["value"]), each["confidence"], None, each["note"])
                for each in rows
            ]
            result.estimates[name] = said
            for each in said:
                if name in named and each.parameter in PARAMETERS:
                    self._said[each.parameter].append((named[name], each))
        result.absent = dict(state["absent"])
        # In the order in which they ended, as reasons are told in it.
        for name, reason in state["done"].items():
            result.done[name] = reason
            if name in state["silent"]:
                result.silent[name] = dict(state["silent"][name])
            reasons = dict.fromkeys(named[name].finds, reason) if name in named and reason else {}
            for parameter, why in (reasons or result.silent.get(name, {})).items():
                if name in named:
                    self._why_not[parameter][name] = why
        account = self.account
        account.requests, account.target_ns = int(state["requests"]), float(state["target_ns"])
        account.written_bytes = int(state["written_bytes"])

    def run(self) -> Characterization:
        """Work the plan off.

        Raises:
            KeyboardInterrupt: Ctrl-C; :attr:`result` has what is known.
        """
        try:
            for place, scenario in enumerate(self.plan):
                if self.watch is not None:
                    self.watch(scenario.name, place, len(self.plan))
                if scenario.name in self.result.done:
                    continue
                self.account.check()
                self._work(scenario, place)
        except BudgetSpentError as error:
            self.result.ended = str(error)
        except KeyboardInterrupt:
            self.result.ended = "interrupted"
            raise
        finally:
            self._settle()
        return self.result

    def _settle(self) -> None:
        """Judge all parameters by what was said so far."""
        asked = self.only or tuple(PARAMETERS)
        for name in PARAMETERS:
            if name in asked:
                self.result.findings[name] = self._finding(PARAMETERS[name])
        account = self.account
        self.result.requests, self.result.target_ns = account.requests, account.target_ns
        self.result.written_bytes = account.written_bytes

    def _finding(self, parameter: Parameter) -> Finding:
        said = self._said[parameter.name]
        absent = self.result.absent
        others = set(self._why_not[parameter.name].values()) - {absent.get(parameter.name)}
        if not said and parameter.name in absent and not others:
            return Finding(parameter, "not_applicable", reason=absent[parameter.name])
        why = self._why_not[parameter.name]
        if not said and not why and self.result.ended:
            why = {"plan": self.result.ended}
        return judged(parameter, said, why)

    def _bench(self, scenario: Scenario, attempt: int) -> Bench:
        """A bench in the state from which every scenario begins."""
        fresh = Bench.copies(self.target)
        target = self.target.fork() if fresh else self.target
        # Without copies each try has a part of the drive of its own, as far as there is room.
        share = 0.0 if fresh else (attempt * _GOLDEN) % 1.0
        first = int(share * (target.capacity * 7 // 8))
        return Bench(
            target, self.result.known, self.account, scenario=scenario.name, seed=self.seed + attempt, first=first
        )

    def _work(self, scenario: Scenario, place: int) -> None:
        """Run a scenario until it is certain enough, or cannot be."""
        missing = [name for name in scenario.needs if name not in self.result.known]
        if missing:
            self._give_up(scenario, f"needs {', '.join(missing)}")
            return
        if self.target.capacity * SECTOR_BYTES < scenario.least_bytes:
            self._give_up(scenario, f"needs a drive of {scenario.least_bytes >> 20} MiB at least")
            return
        effort = scenario.effort
        for attempt in range(1, _CORRECTIONS + 1):
            last = attempt == _CORRECTIONS
            try:
                # In a context of its own: the step of a clock is that of this drive.
                said = copy_context().run(scenario.run, self._bench(scenario, place * 16 + attempt), effort)
            except UndecidedError as error:
                helps = error.repetitions > 1 or error.span != 1
                self._note(scenario, attempt, effort, str(error))
                if last or not helps or effort.repetitions >= scenario.most_repetitions:
                    self._give_up(scenario, str(error))
                    return
                repetitions = min(scenario.most_repetitions, effort.repetitions * error.repetitions)
                effort = replace(effort, repetitions=repetitions, span=effort.span * error.span)
                continue
            except (InputError, KeyError, ArithmeticError) as error:
                reason = _refused(error)
                self._note(scenario, attempt, effort, reason)
                self._give_up(scenario, reason)
                return
            except NotApplicableError as error:
                self._note(scenario, attempt, effort, str(error))
                for name in scenario.finds:
                    self.result.absent[name] = str(error)
                    self._why_not[name][scenario.name] = str(error)
                self.result.done[scenario.name] = str(error)
                return
            estimates = [each for each in said if isinstance(each, Estimate)]
            # Those that cannot be say nothing against those beside them.
            silent = {each.parameter: each.reason for each in said if isinstance(each, Declined)}
            silent |= {each.parameter: each.impossible for each in estimates if each.impossible}
            factor = _more(estimates)
            estimates = [each for each in estimates if not each.impossible]
            told = ", ".join([*(f"{e.parameter} = {_text(e.value)}" for e in estimates), *silent.values()])
            if factor > 1 and not last and effort.repetitions < scenario.most_repetitions:
                self._note(scenario, attempt, effort, f"{told}: wider than the tolerance")
                repetitions = min(scenario.most_repetitions, effort.repetitions * factor)
                effort = replace(effort, repetitions=repetitions)
                continue
            self._note(scenario, attempt, effort, told)
            self._keep(scenario, estimates, silent)
            return

    def _note(self, scenario: Scenario, attempt: int, effort: Effort, outcome: str) -> None:
        self.result.path.append(Correction(scenario.name, attempt, effort.repetitions, effort.span, outcome))

    def _give_up(self, scenario: Scenario, reason: str) -> None:
        for name in scenario.finds:
            self._why_not[name][scenario.name] = reason
        self.result.done[scenario.name] = reason

    def _keep(self, scenario: Scenario, estimates: list[Estimate], silent: Mapping[str, str]) -> None:
        """Keep what was said, and let later scenarios build on it."""
        estimates = [_with_model_error(each) for each in estimates]
        self.result.estimates[scenario.name] = estimates
        self.result.done[scenario.name] = ""
        for each in estimates:
            if each.parameter in PARAMETERS:
                self._said[each.parameter].append((scenario, each))
            before = self.result.known.get(each.parameter)
            if isinstance(each.value, str) or not isinstance(before, Interval) or each.value.half < before.half:
                self.result.known[each.parameter] = each.value
        told = {each.parameter for each in estimates}
        kept = {name: silent.get(name, "it cannot tell on this drive") for name in scenario.finds if name not in told}
        self.result.silent[scenario.name] = kept
        for name, reason in kept.items():
            self._why_not[name][scenario.name] = reason


def _valued(value: Any) -> Interval | str:
    return value if isinstance(value, str) else Interval(**value)


def _refused(error: Exception) -> str:
    """Why a scenario did not come to its end."""
    if isinstance(error, KeyError):
        # A value that an earlier scenario left open.
        return f"needs {error.args[0]}"
    if isinstance(error, ArithmeticError):
        return f"what was measured gives no number: {error}"
    # Such as a drive that takes no single sectors.
    return f"the drive refuses it: {error}"


def _with_model_error(estimate: Estimate) -> Estimate:
    """An interval of a time is never narrower than rounding and what the models leave out."""
    parameter, value = PARAMETERS.get(estimate.parameter), estimate.value
    if parameter is None or parameter.kind != "time" or isinstance(value, str) or not value.value:
        return estimate
    least = _MODEL_NS if parameter.unit == "ns" else _MODEL_RATE * abs(value.value)
    half = max(value.half, least, _MODEL * abs(value.value))
    return replace(estimate, value=Interval.around(value.value, half))


def _more(estimates: list[Estimate]) -> int:
    """By how much repetitions must grow until every interval is narrow enough."""
    factor = 1.0
    for each in estimates:
        parameter = PARAMETERS.get(each.parameter)
        if parameter is None or parameter.exact or isinstance(each.value, str):
            continue
        if math.isinf(each.value.high):
            factor = _STEP
        if narrow(parameter, each.value):
            continue
        wide = each.value.half if parameter.kind == "share" else each.value.relative
        room = parameter.tolerance
        factor = max(factor, (wide / room) ** 2 * 1.5 if math.isfinite(wide) else _STEP)
    return min(_STEP, math.ceil(factor))


def _planned(scenarios: tuple[Scenario, ...], only: tuple[str, ...]) -> tuple[Scenario, ...]:
    """The scenarios that speak of the parameters, and those that they need, in the order of the plan."""
    if not only:
        return scenarios
    wanted, chosen = set(only), set[str]()
    for scenario in reversed(scenarios):
        if wanted & set(scenario.finds) or any(name in wanted for name in _INTERNAL.get(scenario.name, ())):
            chosen.add(scenario.name)
            wanted |= set(scenario.needs) | set(_HELPS.get(scenario.name, ()))
    return tuple(scenario for scenario in scenarios if scenario.name in chosen)


# Values that are no parameters, and who finds them.
_INTERNAL = {
    "runs": ("run_bytes",),
    "trimmed-reads": ("link_sector_ns",),
    "read-slope": ("bus_sector_ns", "bus_unseen_ns", "miss_page_ns"),
    "first-writes": ("write_flash_ns", "program_guess_ns"),
    "updates-of-one-place": ("updates",),
    "merges-of-k-pages": ("program_form", "copy_ns"),
    "pairs-page-and-sector": ("wait_unit_ns", "units", "bus_sector_ns"),
    "pairs-of-pages": ("units",),
    "updates-until-merge": ("random_logs_of_plane",),
    "updates-until-merge-of-a-unit": ("planes_of_unit",),
}
# What makes a scenario better without being needed.
_HELPS = {
    "pairs-page-and-sector": ("bus_sector_ns", "page_bytes"),
    "pairs-of-pages": ("bus_sector_ns",),
    "partial-writes": ("translation", "read_ns", "block_bytes"),
    "writes-of-one-unit": ("placement", "units"),
    "updates-of-one-place": ("program_guess_ns", "units", "placement"),
    "trimmed-writes": ("program_form",),
    "read-slope": ("page_bytes",),
    "trimmed-reads": ("read_buffer_bytes",),
    "runs": ("buffer_bytes",),
    "updates-until-collection": ("gc_unit_bytes", "erase_ns", "host_overhead_ns", "link_sector_ns"),
    "spare-by-onset": ("gc_onset_bytes", "gc_unit_bytes"),
    "updates-of-one-unit": ("gc_onset_bytes",),
}


def characterize(target: Target, **options: Any) -> Characterization:
    """Find what can be found of a target; the options are those of :class:`Flow`."""
    return Flow(target, **options).run()


__all__ = ["Characterization", "Correction", "Finding", "Flow", "Plot", "characterize", "narrow"]
