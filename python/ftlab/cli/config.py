"""`ftlab config`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ftlab import _native
from ftlab._device import Device
from ftlab._workload import Workload
from ftlab.cli.output import json_option, print_json, tell_notes
from ftlab.errors import ConfigError, readable_lines


@click.group()
def config() -> None:
    """Check device and workload files; schemas for editors."""


def _kind_of(file: str) -> str:
    """Tell a workload file by its `workload` section; everything else is taken for a device."""
    try:
        keys = _native.places(Path(file).read_text(encoding="utf-8-sig"), file)
    except (OSError, ValueError):
        # Loading says what is wrong, with its place.
        return "device"
    return "workload" if "workload" in keys else "device"


def _notes_of(workload: Workload) -> tuple[str, ...]:
    # Another machine may have it: no error.
    trace = workload.to_dict().get("trace")
    return () if trace is None or Path(trace).exists() else (f"workload.trace = {trace!r}: no such file",)


@config.command()
@click.argument("file")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Check with a value changed. May be repeated.",
)
@click.option("--resolved", is_flag=True, help="Print every parameter, defaults included, as TOML.")
@json_option
def check(file: str, overrides: tuple[str, ...], resolved: bool, as_json: bool) -> int:
    """Check FILE (a device or workload file, or a preset's name).

    Errors name line, column, key and the nearest valid name; exit status 2 when there are any. Notes name values that
    have no effect because of others, and a trace that is not there.
    """
    kind = _kind_of(file)
    try:
        loaded: Device | Workload
        loaded = Workload.load(file, *overrides) if kind == "workload" else Device.load(file, *overrides)
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"file": file, "kind": kind, "valid": False, "errors": readable_lines(str(error.args[0]))})
        return 2
    notes = loaded.notes if isinstance(loaded, Device) else _notes_of(loaded)
    if not as_json:
        tell_notes(notes)
    if as_json:
        more = {"notes": list(notes), kind: loaded.to_dict()}
        print_json({"file": file, "kind": kind, "valid": True, "errors": [], **more})
    elif resolved:
        click.echo(loaded.to_toml(), nl=False)
    else:
        click.echo(f"{file}: a valid {kind}: {loaded!r}")
    return 0


@config.command()
@click.option("--workload", is_flag=True, help="The schema of workload files instead of device files.")
@json_option
def schema(workload: bool, as_json: bool) -> None:  # noqa: ARG001 - schemas are JSON anyway
    """Print the JSON schema of device files, for editors. It documents every key, with unit and default."""
    print_json(json.loads(_native.schema("workload" if workload else "device")))
