"""The folder of a characterization: the document, a page to read, pictures, and a state to go on from."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ftlab import _outputs as outputs
from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import PARAMETERS

if TYPE_CHECKING:
    from pathlib import Path

    from ftlab.characterize.flow import Characterization
    from ftlab.characterize.scenario import Plot

_DOCUMENT, _STATE, _PAGE = "characterization.json", "state.json", "report.md"
FOLDER = outputs.Kind("a characterization", lambda path: (path / _STATE).is_file(), (_DOCUMENT, _STATE, _PAGE))
_MOST_POINTS = 4000


def value_text(value: Interval | str | None) -> str:
    """A value with its interval."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    text = f"{value.value:,.7g}"
    return text if value.low == value.high else f"{text} ± {value.half:,.3g}"


def page(result: Characterization, truth: dict[str, Any] | None = None) -> str:
    """The report as Markdown."""
    lines = [f"# {result.target}", ""]
    if result.ended:
        lines += [f"This report is partial: {result.ended}.", ""]
    lines += [
        f"{result.requests:,} requests, {result.target_ns / 1e9:,.3f} s of the target.",
        f"{result.written_bytes / 2**20:,.0f} MiB were written.",
        "",
    ]
    heads = ["parameter", "value", "unit", "status", "scenarios", "reason"] + (["truth"] if truth is not None else [])
    lines += [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for name, finding in result.findings.items():
        cells = [
            name,
            value_text(finding.value),
            finding.parameter.unit,
            finding.status,
            ", ".join(finding.scenarios),
            finding.reason,
        ]
        if truth is not None:
            cells.append(str(truth.get(name, "-")))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += ["", "## Corrections", "", "| scenario | try | repetitions | outcome |", "|---|---|---|---|"]
    lines += [f"| {each.scenario} | {each.attempt} | {each.repetitions} | {each.outcome} |" for each in result.path]
    lines += ["", "## Features", "", *(f"- {key}: {value}" for key, value in result.features.items())]
    for scenario, estimates in result.estimates.items():
        if any(each.plot is not None for each in estimates):
            lines += ["", f"![{scenario}]({scenario}.svg)"]
    return "\n".join(lines) + "\n"


def picture(plot: Plot, title: str) -> Any:
    """The picture of a plot."""
    from ftlab.figures.canvas import new_figure, styled

    with styled("page"):
        figure = new_figure(7, 3)
        axis = figure.subplots()
        for name, (x, y) in plot.series.items():
            step = max(1, len(x) // _MOST_POINTS)
            axis.plot(list(x)[::step], list(y)[::step], ".", markersize=3, label=name)
        axis.set_xlabel(plot.x)
        axis.set_ylabel(plot.y)
        axis.set_title(title)
        axis.legend(loc="best")
    return figure


def _plain(value: Interval | str | None) -> Any:
    return asdict(value) if isinstance(value, Interval) else value


def state(result: Characterization) -> dict[str, Any]:
    """What `--resume` goes on from."""
    return {
        "target": result.target,
        "identity": result.identity,
        "absent": result.absent,
        "silent": result.silent,
        "known": {name: _plain(value) for name, value in result.known.items()},
        "done": result.done,
        "said": {
            scenario: [
                {"parameter": e.parameter, "value": _plain(e.value), "confidence": e.confidence, "note": e.note}
                for e in estimates
            ]
            for scenario, estimates in result.estimates.items()
        },
        "path": [asdict(each) for each in result.path],
        "requests": result.requests,
        "written_bytes": result.written_bytes,
        "target_ns": result.target_ns,
    }


def sealed(result: Characterization) -> bytes:
    """The state as a file, with a checksum of it."""
    text = json.dumps(state(result), indent=2)
    return json.dumps({"sha256": _checksum(text), "state": json.loads(text)}, indent=2).encode() + b"\n"


def unsealed(content: bytes) -> dict[str, Any]:
    """The state of such a file.

    Raises:
        ValueError: It is damaged.
    """
    document = json.loads(content)
    kept = document.get("state") if isinstance(document, dict) else None
    if not isinstance(kept, dict) or document.get("sha256") != _checksum(json.dumps(kept, indent=2)):
        raise ValueError("it has no state with the checksum of it: it is damaged, or was changed")
    return kept


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write(result: Characterization, folder: Path, truth: dict[str, Any] | None, *, overwrite: bool = False) -> None:
    """Write the report into a folder.

    Raises:
        ConfigError: The folder has what ftlab did not make.
    """
    from ftlab.figures.saving import write as save

    outputs.check(folder, FOLDER, overwrite=overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    document = result.document() | ({"truth": truth} if truth is not None else {})
    outputs.write_whole(folder / _STATE, sealed(result))
    outputs.write_whole(folder / _DOCUMENT, json.dumps(document, indent=2).encode() + b"\n")
    outputs.write_whole(folder / _PAGE, page(result, truth).encode())
    for scenario, estimates in result.estimates.items():
        plot = next((each.plot for each in estimates if each.plot is not None), None)
        if plot is not None:
            names = ", ".join(each.parameter for each in estimates if each.parameter in PARAMETERS)
            save(picture(plot, f"{scenario}: {names}"), [folder / f"{scenario}.svg"])
