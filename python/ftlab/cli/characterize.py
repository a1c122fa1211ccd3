"""`ftlab characterize` and `ftlab compare`."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ftlab import _outputs as outputs
from ftlab._device import Device
from ftlab._progress import progress_bar
from ftlab.cli import INTERRUPTED, completion
from ftlab.cli.inputs import seed_option
from ftlab.cli.output import force_option, json_option, print_json, print_lines, table, tell_warnings
from ftlab.cli.reading import COUNT
from ftlab.errors import ConfigError, FtlabError, InputError, RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ftlab.characterize.flow import Characterization, Flow
    from ftlab.characterize.target import Target

_UNITS_NS = {"ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9}
_DEVICE = outputs.Kind("a model", lambda path: path.read_bytes().startswith(b"# Written by `ftlab characterize`"))
_TRANSCRIPT = outputs.Kind("a transcript", lambda path: path.read_bytes()[:2] == b'["')


class _Budget(click.ParamType["float"]):
    """A time such as ``2min``, in nanoseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Check."""
        match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(ms|s|min|h)", str(value))
        if match is None or not float(match[1]):
            self.fail(f"{value}: expected a time above 0, such as 30s, 2min or 1h", param, ctx)
        return float(match[1]) * _UNITS_NS[match[2]]


def _parameters(only: tuple[str, ...]) -> tuple[str, ...]:
    from ftlab.characterize.scenario import PARAMETERS

    for name in only:
        if name not in PARAMETERS:
            near = difflib.get_close_matches(name, PARAMETERS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(
                f"--only {name}: no parameter of this name{hint}; `ftlab characterize --list` has them"
            )
    return only


def _list(*, as_json: bool) -> None:
    from ftlab.characterize.scenario import PARAMETERS, facts
    from ftlab.characterize.scenarios import SCENARIOS

    if as_json:
        print_json([facts(scenario) for scenario in SCENARIOS])
        return
    rows = [
        (
            name,
            parameter.unit or "-",
            ", ".join(s.name for s in SCENARIOS if name in s.finds) or "none yet",
            parameter.text,
        )
        for name, parameter in PARAMETERS.items()
    ]
    print_lines(table(("parameter", "unit", "scenarios", "what it is"), rows))


@contextlib.contextmanager
def _transcript(path: Path | None, *, overwrite: bool) -> Iterator[Any]:
    if path is None:
        yield None
        return
    outputs.check(path, _TRANSCRIPT, overwrite=overwrite)
    with outputs.whole_file(path) as place, place.open("w", encoding="utf-8") as file:
        yield file


def _state(folder: Path) -> dict[str, Any]:
    from ftlab.characterize.report import unsealed

    path = folder / "state.json"
    try:
        return unsealed(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"--resume {folder}: found no state of a characterization: {error}") from error


def _show(result: Characterization, truth: dict[str, Any] | None) -> None:
    from ftlab.characterize.report import value_text

    click.echo(f"{result.target}: {result.requests:,} requests, {result.target_ns / 1e9:,.3f} s of the target")
    if result.ended:
        click.echo(f"partial: {result.ended}")
    heads = ["parameter", "value", "unit", "status", "reason"] + (["truth"] if truth is not None else [])
    rows = [
        (
            name,
            value_text(finding.value),
            finding.parameter.unit,
            finding.status,
            finding.reason if finding.status != "found" else "",
            *([str(truth.get(name, "-"))] if truth is not None else []),
        )
        for name, finding in result.findings.items()
    ]
    print_lines(table(heads, rows, right=("value",)))


def _noisy(target: Target, noise: str | None, seed: int) -> Target:
    from ftlab.characterize.target import Noise, NoiseLevel

    return target if noise is None else Noise(target, NoiseLevel.parse(noise, seed=seed))


def _truth(address: str) -> dict[str, Any]:
    from ftlab.characterize.target import OPENERS
    from ftlab.characterize.truth import truths

    if OPENERS.find(address) is not None:
        raise ConfigError(f"--truth: {address} is a real drive, of which nobody knows the truth")
    return truths(Device.load(address))


def _worked(flow: Flow) -> tuple[int, RunError | None]:
    """Work the plan off: the exit status, and what the target has failed with."""
    try:
        flow.run()
    except KeyboardInterrupt:
        return INTERRUPTED, None
    except RunError as error:
        flow.result.ended = f"the target has failed: {error}"
        return 1, error
    return 0, None


def _check_destroy(target: str, destroy: str | None) -> None:
    from ftlab.characterize.target import OPENERS

    if destroy is not None and OPENERS.find(target) is None:
        raise click.UsageError(
            f"--destroy-data-on {destroy}: {target} is simulated and has no data to lose: leave it out"
        )


def _watched(progress: Callable[[str, float | None, int], None] | None) -> Callable[[str, int, int], None] | None:
    if progress is None:
        return None
    return lambda name, place, count: progress(name, place / count, place)


def _identity(target: str, noise: str | None, seed: int) -> str:
    """What is measured and how, in words that differ whenever one of them does."""
    from ftlab.characterize.target import OPENERS

    real = OPENERS.find(target) is not None
    what = "" if real else hashlib.sha256(Device.load(target).to_toml().encode()).hexdigest()[:16]
    return ", ".join(filter(None, [what, f"seed {seed}", f"noise {noise or 'none'}"]))


def _write(flow: Flow, report: Path | None, truth: dict[str, Any] | None, *, overwrite: bool) -> None:
    from ftlab.characterize.report import write

    if report is not None:
        write(flow.result, report, truth, overwrite=overwrite)
        click.echo(f"written to {report}", err=True)


def _model(flow: Flow, out: Path | None) -> None:
    from ftlab.characterize.describe import describe

    result = flow.result
    if out is not None and result.known:
        text, _, assumed = describe(result, flow.target.capacity)
        outputs.write_whole(out, text.encode())
        click.echo(f"written to {out}" + (f"; assumed: {', '.join(assumed)}" if assumed else ""), err=True)


def _tell(result: Characterization, truth: dict[str, Any] | None, seconds: float, *, as_json: bool) -> None:
    if as_json:
        document = result.document() | {"wall_seconds": round(seconds, 3)}
        print_json(document | ({"truth": truth} if truth is not None else {}))
    else:
        _show(result, truth)


@click.command()
@click.argument("target", required=False, shell_complete=completion.devices)
@click.option("--list", "listed", is_flag=True, help="List parameters and their scenarios.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.toml", help="Write a device file."
)
@click.option(
    "--report", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write a report into DIR."
)
@click.option("--only", multiple=True, metavar="NAME", help="Find only this parameter. May be repeated.")
@click.option(
    "--budget", type=_Budget(), metavar="TIME", help="Time of the target after which no more is measured: 2min."
)
@click.option(
    "--noise", metavar="NAME=N,...", help="Disturb time stamps: sigma, outliers, lookup_every, lookup_ns, seed."
)
@click.option("--truth", "tell_truth", is_flag=True, help="Show what is true beside it, of a simulated drive.")
@click.option(
    "--transcript", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write every request."
)
@click.option("--resume", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Go on from a report.")
@click.option(
    "--destroy-data-on", "destroy", metavar="TARGET", help="The address again, of a drive that loses its data."
)
@seed_option
@json_option
@force_option
def characterize(
    target: str | None,
    listed: bool,
    out: Path | None,
    report: Path | None,
    only: tuple[str, ...],
    budget: float | None,
    noise: str | None,
    tell_truth: bool,
    transcript: Path | None,
    resume: Path | None,
    destroy: str | None,
    seed: int | None,
    as_json: bool,
    overwrite: bool,
) -> int:
    """Find the parameters of TARGET from outside: a simulated drive (a preset or a device file) or a real one.

    Data of the target are lost. Each parameter is found, unknown, in conflict, or not applicable, with a reason.
    Ctrl-C leaves a report of what is known; --resume goes on from it. Exit status 1 when the target has failed.
    """
    if listed:
        _list(as_json=as_json)
        return 0
    if target is None:
        raise click.UsageError("expected a TARGET, or --list")
    wanted = _parameters(only)
    from ftlab.characterize.flow import Flow
    from ftlab.characterize.report import FOLDER
    from ftlab.characterize.target import open_target

    _check_destroy(target, destroy)
    truth = _truth(target) if tell_truth else None
    for place, kind in ((out, _DEVICE), (report, FOLDER)):
        if place is not None:
            outputs.check(place, kind, inputs=[target] if Path(target).is_file() else [], overwrite=overwrite)
    state = None if resume is None else _state(resume)
    began = time.perf_counter()
    chosen = 1 if seed is None else seed
    opened = _noisy(open_target(target, destroy=destroy, seed=chosen), noise, chosen)
    with _transcript(transcript, overwrite=overwrite) as file, progress_bar(f"characterize {opened.name}") as progress:
        flow = Flow(
            opened,
            only=wanted,
            budget_ns=budget,
            seed=chosen,
            identity=_identity(target, noise, chosen),
            transcript=file,
            watch=_watched(progress),
        )
        if state is not None:
            flow.resume(state)
        try:
            status, failure = _worked(flow)
        except BaseException:
            # A defect: what is known is kept all the same.
            _write(flow, report, truth, overwrite=overwrite)
            raise
    seconds = time.perf_counter() - began
    _write(flow, report, truth, overwrite=overwrite)
    _tell(flow.result, truth, seconds, as_json=as_json)
    _model(flow, out)
    if failure is not None:
        raise failure
    return status


@click.command()
@click.argument("target", shell_complete=completion.devices)
@click.argument("device", shell_complete=completion.devices)
@click.option("--requests", type=COUNT, default=4000, show_default=True, metavar="N", help="Requests of each workload.")
@click.option("--noise", metavar="NAME=N,...", help="Disturb time stamps of the target, as for characterize.")
@click.option(
    "--destroy-data-on", "destroy", metavar="TARGET", help="The address again, of a drive that loses its data."
)
@seed_option
@json_option
def compare(
    target: str, device: str, requests: int, noise: str | None, destroy: str | None, seed: int | None, as_json: bool
) -> int:
    """Send the same workloads to TARGET and to the model DEVICE, and show the errors of latencies.

    The workloads are none that a scenario sends. Data of the target are lost. Runs of studies are compared with
    `ftlab study compare`.
    """
    from ftlab.characterize.compare import compare as compare_drives
    from ftlab.characterize.compare import unwritten
    from ftlab.characterize.target import SimulatedTarget, open_target

    _check_destroy(target, destroy)
    chosen = 1 if seed is None else seed
    described = Device.load(device)
    opened = _noisy(open_target(target, destroy=destroy, seed=chosen), noise, chosen)
    model = SimulatedTarget(described, seed=chosen)
    rows = compare_drives(opened, model, requests=requests, seed=chosen)
    said = list(dict.fromkeys(unwritten(opened) + unwritten(model)))
    if as_json:
        print_json([row.facts() for row in rows])
        tell_warnings(said)
        return 0
    cells = [
        (row.workload, row.quantity, f"{row.target_ns:,.0f}", f"{row.model_ns:,.0f}", f"{100 * row.error:+.2f}")
        for row in rows
    ]
    columns = ("workload", "latency", "target (ns)", "model (ns)", "error (%)")
    print_lines(table(columns, cells, right=columns[2:]))
    tell_warnings(said)
    return 0


__all__ = ["FtlabError", "characterize", "compare"]
