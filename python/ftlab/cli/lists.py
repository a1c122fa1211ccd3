"""`ftlab devices`, `ftlab workloads`, `ftlab schemes` and `ftlab warnings`."""

from __future__ import annotations

import difflib
import textwrap

import click

from ftlab import _native
from ftlab._device import Device
from ftlab._listing import device_rows, workload_rows
from ftlab._units import bytes_text
from ftlab._workload import Workload
from ftlab.cli import completion
from ftlab.cli.output import json_option, print_json, print_lines, table

# Wide enough for sentences, and narrow enough to be read.
_COLUMNS = 100


def _preset(kind: str, name: str) -> str:
    texts = dict(_native.presets(kind))
    if name not in texts:
        near = difflib.get_close_matches(name, texts, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise click.UsageError(f"{name}: no {kind} preset of this name; presets: {', '.join(texts)}{hint}")
    return texts[name]


@click.command()
@click.argument("name", required=False, shell_complete=completion.device_presets)
@json_option
def devices(name: str | None, as_json: bool) -> None:
    """List the device presets, or show NAME in full, with the source of each value."""
    if name is not None:
        text = _preset("device", name)
        if as_json:
            print_json({"name": name, "toml": text, "device": Device.load(name).to_dict()})
        else:
            click.echo(text, nl=False)
        return
    rows = device_rows()
    if as_json:
        print_json(rows)
        return
    lines = [
        (
            row["name"],
            bytes_text(row["logical_bytes"]),
            " x ".join(str(row[key]) for key in ("channels", "ways", "dies", "planes")),
            bytes_text(row["page_bytes"]),
            row["cell"],
            row["description"],
        )
        for row in rows
    ]
    columns = ("device", "host sees", "C x W x D x P", "page", "cell", "what it is")
    print_lines(table(columns, lines, right=("host sees", "page")))


def _workload_kinds(as_json: bool) -> None:
    rows = _native.workload_kinds()
    if as_json:
        print_json(rows)
        return
    lines = [(row["name"], row["summary"], ", ".join(row["own_keys"])) for row in rows]
    print_lines(table(("kind", "what it does", "its own keys"), lines))


@click.command()
@click.argument("name", required=False, shell_complete=completion.workload_presets)
@click.option(
    "--kinds", is_flag=True, help="List the kinds of workloads that a workload file can name, with their keys."
)
@json_option
def workloads(name: str | None, kinds: bool, as_json: bool) -> None:
    """List the workload presets, or show NAME in full."""
    if kinds:
        if name is not None:
            message = "--kinds lists all kinds and takes no NAME"
            raise click.UsageError(message)
        _workload_kinds(as_json)
        return
    if name is not None:
        text = _preset("workload", name)
        if as_json:
            print_json({"name": name, "toml": text, "workload": Workload.load(name).to_dict()})
        else:
            click.echo(text, nl=False)
        return
    rows = workload_rows()
    if as_json:
        print_json(rows)
        return
    print_lines(table(("workload", "what it is"), [(str(row["name"]), str(row["description"])) for row in rows]))


@click.command()
@click.argument("name", required=False, shell_complete=completion.schemes)
@json_option
def schemes(name: str | None, as_json: bool) -> None:
    """List the schemes that a device file can name, with their sources, or show NAME with its keys and their defaults.

    NAME is a scheme (greedy) or a key and a scheme (ftl.gc.greedy).
    """
    rows = _native.schemes()
    if name is not None:
        rows = [row for row in rows if name in (row["name"], row["key"], f"{row['key']}.{row['name']}")]
        if not rows:
            near = difflib.get_close_matches(name, [row["name"] for row in _native.schemes()], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"{name}: no scheme of this name (ftlab schemes lists them){hint}")
    if as_json:
        print_json(rows)
        return
    if name is not None:
        for row in rows:
            click.echo(f'{row["key"]} = "{row["name"]}"\n  {row["summary"]}')
            if row["source"]:
                click.echo(f"  Source: {row['source']}")
            for key in row["keys"]:
                doc = " ".join(key["doc"].split())
                click.echo(f"  {key['name']} = {key['default']}\n    {doc}")
        return
    lines = [(row["key"], row["name"], row["summary"], row["source"]) for row in rows]
    print_lines(table(("key", "name", "what it does", "source"), lines))


@click.command()
@click.argument("name", required=False, shell_complete=completion.warnings)
@json_option
def warnings(name: str | None, as_json: bool) -> None:
    """List the warnings that a run may give, with when and why they are given, or show NAME alone."""
    rows = [{"name": code, "when": when, "why": why} for code, when, why in _native.warnings()]
    if name is not None:
        names = [row["name"] for row in rows]
        rows = [row for row in rows if row["name"] == name]
        if not rows:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"{name}: no warning of this name (ftlab warnings lists them){hint}")
    if as_json:
        print_json(rows)
        return
    for row in rows:
        for key, indent in (("name", ""), ("when", "  "), ("why", "  ")):
            click.echo(textwrap.fill(row[key], _COLUMNS, initial_indent=indent, subsequent_indent=indent))
