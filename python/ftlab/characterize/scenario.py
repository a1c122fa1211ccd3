"""What a scenario is, and what it says of a parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ftlab.errors import FtlabError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ftlab.characterize.bench import Bench
    from ftlab.characterize.detect import Interval

Kind = Literal["size", "time", "word", "share"]
Status = Literal["found", "unknown", "conflict", "not_applicable"]
STATUSES: tuple[Status, ...] = ("found", "unknown", "conflict", "not_applicable")


@dataclass(frozen=True)
class Parameter:
    """What is to be found.

    Attributes:
        name: Its name.
        unit: Unit of its value; empty for words and counts.
        text: What it is.
        kind: ``size`` (a whole number that must be exact), ``time``, ``share`` or ``word``.
        tolerance: Half of the widest interval of a value that is found, as a share of it; of a ``share``, in its unit.
        floor: Half of an interval that is narrow enough whatever the value is.
    """

    name: str
    unit: str
    text: str
    kind: Kind
    tolerance: float = 0.0
    floor: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether its value is one of separate candidates."""
        return self.kind in {"size", "word"}


PARAMETERS: dict[str, Parameter] = {
    parameter.name: parameter
    for parameter in (
        Parameter("block_bytes", "byte", "unit that is erased", "size"),
        Parameter("page_bytes", "byte", "unit that is programmed", "size"),
        Parameter("program_ns", "ns", "time to program a page", "time", 0.01),
        Parameter("buffer_ns", "ns", "time of an access to the buffer", "time", 0.02),
        Parameter("write_policy", "", "through, back, or none", "word"),
        Parameter("hiding_percent", "%", "share of the buffer's time that is hidden behind flash", "share", 2.0),
        Parameter("host_overhead_ns", "ns", "fixed time of a request", "time", 0.05, 100),
        Parameter("link_mb_per_s", "MB/s", "rate of the host link; 0: transfers take no time", "time", 0.03),
        Parameter("channels", "", "buses that move one transfer at a time", "size"),
        Parameter("ways", "", "units on a channel that read at the same time", "size"),
        Parameter("placement", "", "address or write_order: what decides where a page goes", "word"),
        Parameter("chunk_bytes", "byte", "consecutive bytes on one unit", "size"),
        Parameter("read_ns", "ns", "time of the array to read a page", "time", 0.02),
        Parameter("bus_mb_per_s", "MB/s", "rate of a channel; 0: transfers take no time", "time", 0.03),
        Parameter("erase_ns", "ns", "time to erase a block", "time", 0.03),
        Parameter("mapping_unit_bytes", "byte", "bytes that one mapping entry covers", "size"),
        Parameter("buffer_bytes", "byte", "memory for data that were written", "size"),
        Parameter("read_buffer_bytes", "byte", "memory for data that can be read again", "size"),
        Parameter("translation", "", "page, block, bast or fast: how updates are kept", "word"),
        Parameter("log_blocks", "", "logical blocks that can be updated without a merge", "size"),
        Parameter("gc_unit_bytes", "byte", "bytes that are written from one round of collection to the next", "size"),
        Parameter(
            "gc_onset_bytes", "byte", "bytes of updates that a full drive takes without collecting", "time", 0.05
        ),
        Parameter("over_provisioning", "", "spare space as a share of the logical space", "share", 0.02),
        Parameter("trim_effective", "", "yes if trimmed data are forgotten", "word"),
        Parameter("volumes", "", "parts of the drive that are collected for themselves", "size"),
    )
}


@dataclass(frozen=True)
class Effort:
    """How much a scenario sends; corrections change it.

    Attributes:
        repetitions: Of every measurement.
        span: How far sizes, distances and bursts go, as a factor.
    """

    repetitions: int = 15
    span: float = 1.0


@dataclass(frozen=True)
class Plot:
    """The picture that convinces: points or lines over one axis.

    Attributes:
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        series: Points of each series, by name.
    """

    x: str
    y: str
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]]


@dataclass(frozen=True)
class Estimate:
    """What a scenario says of a parameter.

    Attributes:
        parameter: Its name.
        value: The value with its interval; a word for parameters that are words.
        confidence: From 0 to 1.
        plot: The picture that convinces.
        note: What the reader should know of it.
    """

    parameter: str
    value: Interval | str
    confidence: float = 1.0
    plot: Plot | None = None
    note: str = ""

    @property
    def impossible(self) -> str:
        """Why the value cannot be; empty where it can."""
        value = self.value
        if isinstance(value, str):
            return ""
        low, middle, high = value.low, value.value, value.high
        parameter = PARAMETERS.get(self.parameter)
        timed = parameter is not None and parameter.kind == "time"
        if timed and math.isinf(high) and low <= middle:
            return f"{self.parameter} from {low:,.6g} on: the time that it follows from cannot be told from none"
        if not all(math.isfinite(each) for each in (low, middle, high)) or not low <= middle <= high:
            return f"{self.parameter} = {middle:,.6g} in {low:,.6g} to {high:,.6g} is no interval"
        # A rate of 0 says that transfers take no time; a time that is surely 0 or less is an error of the model.
        if timed and (high < 0 or (high == 0 and parameter is not None and parameter.unit == "ns")):
            return f"{self.parameter} = {middle:,.6g}: a time that it follows from is wrong"
        return ""


@dataclass(frozen=True)
class Declined:
    """Why a scenario that speaks of other parameters says nothing of this one.

    Attributes:
        parameter: Its name.
        reason: Why.
    """

    parameter: str
    reason: str


class UndecidedError(FtlabError):
    """A scenario cannot say; what would help is part of it.

    Attributes:
        repetitions: Factor on the repetitions that would help.
        span: Factor on the span that would help.
    """

    def __init__(self, reason: str, *, repetitions: int = 1, span: float = 1.0) -> None:
        """Say why, and what would help."""
        super().__init__(reason)
        self.repetitions, self.span = repetitions, span


class NotApplicableError(FtlabError):
    """The drive has no such part."""


@dataclass(frozen=True)
class Scenario:
    """A way to find parameters.

    Attributes:
        name: Its name.
        finds: The parameters that it speaks of.
        needs: Parameters without which it cannot begin.
        assumes: What must be so for it to be right.
        sends: What it sends.
        estimator: How values follow from times.
        drive_writes: Bytes that it writes at the usual effort, at most; with a word of what they destroy.
        run: Sends and estimates.
        least_bytes: The smallest drive that it works on.
        effort: Its usual effort.
        most_repetitions: Its largest effort.
        alone: Why one of its parameters needs no second scenario, by parameter.
    """

    name: str
    finds: tuple[str, ...]
    needs: tuple[str, ...]
    assumes: str
    sends: str
    estimator: str
    drive_writes: str
    run: Callable[[Bench, Effort], Sequence[Estimate | Declined]]
    least_bytes: int = 32 << 20
    effort: Effort = Effort()
    most_repetitions: int = 1024
    alone: Mapping[str, str] = field(default_factory=dict)


def facts(scenario: Scenario) -> dict[str, Any]:
    """A scenario, as ``ftlab characterize --list --json`` shows it."""
    names = ("name", "finds", "needs", "assumes", "sends", "estimator", "drive_writes")
    return {name: getattr(scenario, name) for name in names}
