"""`ftlab config`."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import click

from ftlab import _keys as keys
from ftlab import _native
from ftlab._device import Device
from ftlab._workload import Workload
from ftlab.cli import completion
from ftlab.cli.output import json_option, print_json, print_lines, table, tell_notes
from ftlab.errors import ConfigError, readable_lines


@click.group()
def config() -> None:
    """Check device and workload files; what their keys mean; schemas for editors."""


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
@click.argument("file", shell_complete=completion.devices)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=completion.overrides,
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


# Wide enough for sentences, and narrow enough to be read.
_COLUMNS = 100
_HEAD = 12


@config.command()
@click.argument("key", required=False, shell_complete=completion.explained)
@json_option
def explain(key: str | None, as_json: bool) -> None:
    """Say what KEY of device or workload files means: unit, default, limits, which choices read it, an example.

    KEY is dotted (ftl.gc), the last part alone where that is enough (striping), a section (ftl), or a word of another
    tool (iodepth). Without KEY, the sections are listed.
    """
    if key is None:
        _all_sections(as_json=as_json)
        return
    key, word = keys.translated(key)
    if word is not None:
        # Beside JSON, which has the word under `elsewhere`.
        click.echo(textwrap.fill(word, _COLUMNS) + ("" if as_json else "\n"), err=as_json)
    try:
        found = keys.find(key)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    if isinstance(found, keys.Key):
        if as_json:
            print_json(found.to_dict())
        else:
            _show_key(found)
    elif as_json:
        print_json([each.to_dict() for each in found])
    else:
        _show_section(key, found)


def _all_sections(*, as_json: bool) -> None:
    if as_json:
        print_json([each.to_dict() for each in (*keys.keys("device").values(), *keys.keys("workload").values())])
        return
    rows = [
        (f"{kind} file", name, text) for kind in ("device", "workload") for name, text in keys.sections(kind).items()
    ]
    print_lines(table(("of a", "section", "what it is"), rows))


def _show_section(name: str, found: list[keys.Key]) -> None:
    about = {**keys.sections("workload"), **keys.sections("device")}[name]
    click.echo(f"[{name}] of a {found[0].file} file: {about}\n")
    print_lines(
        table(("key", "default", "meaning"), [(each.name, each.default_text() or "-", each.meaning) for each in found])
    )


def _show_key(key: keys.Key) -> None:
    facts = key.to_dict()
    lines = [
        ("values", key.values_text().replace("`", "")),
        ("default", key.default_text() or "none"),
        ("reason", key.default_reason),
        ("limits", "; ".join(facts["limits"])),
        ("only with", key.readers_text()),
        ("example", facts["example"] and facts["example"] + _of_preset(facts["example_from"])),
        ("elsewhere", ", ".join(facts["elsewhere"])),
    ]
    click.echo(f"{key.name}, a key of {key.file} files")
    click.echo(textwrap.fill(key.meaning, _COLUMNS))
    click.echo()
    for head, text in lines:
        if text:
            _print_fact(head, text)
    width = max((len(name) for name in key.choices), default=0) + 2
    for name, meaning in key.choices.items():
        _print_fact(f"  {name}", meaning, width=max(_HEAD, width + 2))


def _of_preset(name: str | None) -> str:
    return "" if name is None else f"   (as in the preset {name})"


def _print_fact(head: str, text: str, *, width: int = _HEAD) -> None:
    click.echo(textwrap.fill(text, _COLUMNS, initial_indent=head.ljust(width), subsequent_indent=" " * width))
