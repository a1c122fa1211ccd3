"""The validation of DiskSim with the Microsoft SSD extension: six synthetic runs, and a trace of IOzone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ftlab import figures
from ftlab._workload import TRACES_VARIABLE
from ftlab.papers.frame import Claim, Paper, Results, Size, Table, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class _Run(NamedTuple):
    """What the reference prints: response times in ms, requests handled, collections and pages moved."""

    about: str
    mean: float
    stdev: float
    max: float
    handled: int
    collections: int
    moved: int


PUBLISHED = {
    "disksim-sr250k": _Run("250,000 sequential reads", 0.132511, 0.000072, 0.135805, 249_999, 0, 0),
    "disksim-sw250k": _Run("250,000 sequential writes", 0.310895, 0.026646, 0.522476, 249_999, 0, 0),
    "disksim-rr250k": _Run("250,000 random reads", 0.136118, 0.015205, 0.485446, 249_999, 0, 0),
    "disksim-rw250k": _Run("250,000 random writes", 0.329458, 0.068898, 1.579052, 249_999, 0, 0),
    "disksim-sw5m": _Run("5,000,000 sequential writes", 0.334365, 0.184392, 2.100248, 4_999_999, 77_493, 0),
    "disksim-rw5m": _Run("5,000,000 random writes", 0.593438, 0.970446, 6.518651, 4_999_999, 143_179, 1_929_239),
    "iozone": _Run("trace of IOzone", 6.394276, 23.417493, 852.5772, 99_997, 129_772, 0),
}
_SHORT = ("disksim-sr250k", "disksim-sw250k", "disksim-rr250k", "disksim-rw250k")
_TRACE = "disksim-ssd-valid/ssd-iozone-aligned2-100K.trace.zst"

# Half a unit of the sixth digit behind the point, and as much again for the rounding of arrivals to nanoseconds.
_TOLERANCE_MS = 1e-6
_COLUMNS = {
    "mean": ("mean response (ms)", "latency_ns.all.mean"),
    "stdev": ("standard deviation of response (ms)", "latency_ns.all.stdev"),
    "max": ("maximum response (ms)", "latency_ns.all.max"),
    "handled": ("requests handled", "latency_ns.all.count"),
    "collections": ("blocks collected", "gc.collections"),
    "moved": ("pages moved", "gc.pages_copied"),
}
_TIMES = ("mean", "stdev", "max")


def trace() -> Path | None:
    """The trace of IOzone, where the folder of traces has it."""
    path = Path(os.environ.get(TRACES_VARIABLE) or Path("..", "shared", "traces")) / _TRACE
    return path if path.is_file() else None


def _studies(size: Size) -> list[dict[str, Any]]:
    names = [name for name in PUBLISHED if name != "iozone" and (size != "test" or name in _SHORT)]
    common = {"device": "msr-ssd", "set": {"host.stop": "last_arrival"}}
    studies: list[dict[str, Any]] = [{"name": "synthetic", "axes": {"workload": names}, **common}]
    if size != "test" and (path := trace()) is not None:
        studies.append({"name": "iozone", "trace": {"path": str(path), "format": "disksim"}, **common})
    return studies


def _mean(results: Results, run: str, column: str) -> float | None:
    where = {} if run == "iozone" else {"workload": run}
    return results.mean("iozone" if run == "iozone" else "synthetic", column, **where)


def _measured(results: Results, run: str, what: str) -> float | None:
    column = _COLUMNS[what][1]
    value = _mean(results, run, column)
    return value if value is None or what not in _TIMES else round(value / 1e6, 6)


def _missing(results: Results, run: str) -> str:
    if results.errors:
        return "the run failed"
    if run == "iozone" and results.size != "test":
        return f"not run: the trace is not at hand; {TRACES_VARIABLE} names the folder that has {_TRACE}"
    return "not part of this size"


def _claim(results: Results, run: str, what: str) -> Claim:
    published, measured = float(getattr(PUBLISHED[run], what)), _measured(results, run, what)
    text, name = f"{PUBLISHED[run].about}: {_COLUMNS[what][0]}", f"{run.removeprefix('disksim-')}-{what}"
    if measured is None:
        return judge(name, text, published, None, holds=False, tolerance="", otherwise=_missing(results, run))
    if what in _TIMES:
        holds, tolerance = abs(measured - published) <= 1.01 * _TOLERANCE_MS, "to one unit of the last printed digit"
    elif what == "collections" and measured != published:
        unfinished = _unfinished(results, run)
        holds = 0 <= measured - published <= unfinished
        tolerance = (
            f"within the {unfinished:.0f} requests unfinished at the end: their collections are decided at "
            "hand-over here, at service in the reference"
        )
    else:
        holds, tolerance = measured == published, "equal"
    return judge(name, text, published, measured, holds=holds, tolerance=tolerance, otherwise="outside the tolerance")


def _unfinished(results: Results, run: str) -> float:
    return _mean(results, run, "host.unfinished") or 0


def _claims(results: Results) -> list[Claim]:
    return [_claim(results, run, what) for run in PUBLISHED for what in _COLUMNS]


def _tables(results: Results) -> list[Table]:
    rows: list[list[str | float | None]] = []
    for run, published in PUBLISHED.items():
        rows.append([run, "published", *(getattr(published, what) for what in _COLUMNS)])
        rows.append(["", "measured", *(_measured(results, run, what) for what in _COLUMNS)])
    return [Table("Published and measured", ("run", "", *(name for name, _ in _COLUMNS.values())), rows)]


def _figures(results: Results) -> dict[str, Figure]:
    runs = [run for run in PUBLISHED if _measured(results, run, "mean") is not None]
    rows = [
        (run.removeprefix("disksim-"), source, mean)
        for run in runs
        for source, mean in (("published", PUBLISHED[run].mean), ("measured", _measured(results, run, "mean")))
    ]
    if not rows:
        return {}
    frame = {name: [row[at] for row in rows] for at, name in enumerate(("run", "source", "mean_response_ms"))}
    names = {"mean_response_ms": "mean response", "source": ""}
    title = "Validation runs of the reference drive"
    return {
        "mean-response": figures.bar(
            frame, x="run", y="mean_response_ms", color="source", log="y", names=names, title=title
        )
    }


PAPER = Paper(
    name="reference",
    title="The validation runs of DiskSim's solid-state drive model",
    source="DiskSim 4.0 with the Microsoft SSD extension, its validation configuration and printed results "
    "(Agrawal et al., Design tradeoffs for SSD performance, USENIX ATC 2008)",
    setup=(
        "Drive: preset msr-ssd, whose keys are those of the reference's configuration (docs/notes/reference-drive.md).",
        "Workloads: presets disksim-*, the reference's requests one by one; IOzone where the folder of traces has it.",
        "Runs end at the arrival of the last request, which is not served (host.stop = last_arrival), as there.",
    ),
    assumed=("Nothing is left open: configuration, requests and statistics are known to the digit.",),
    studies=_studies,
    claims=_claims,
    tables=_tables,
    figures=_figures,
)
