"""`ftlab completion`, and what the shell is offered for devices, workloads and keys."""

from __future__ import annotations

import json
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_FTLAB_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the script with which SHELL completes commands, presets and keys.

    Such as, in ~/.bashrc: eval "$(ftlab completion bash)"
    """
    from ftlab.cli import cli

    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"click has no completion for {shell}")
    click.echo(made(cli, {}, "ftlab", _VARIABLE).source())


def _presets(kind: str, incomplete: str) -> list[CompletionItem]:
    from ftlab import _native

    names = [CompletionItem(name) for name, _ in _native.presets(kind) if name.startswith(incomplete)]
    # Files of one's own too.
    return [*names, CompletionItem(incomplete, type="file")]


def devices(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Presets of drives, and files."""
    return _presets("device", incomplete)


def workloads(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Presets of workloads, and files."""
    return _presets("workload", incomplete)


def overrides(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Keys of devices, and of workloads with ``workload.`` before them."""
    return [CompletionItem(f"{key}=") for key in keys() if key.startswith(incomplete)]


def keys() -> list[str]:
    """Every key that ``--set`` takes, dotted, in order."""
    from ftlab import _native

    found: set[str] = set()
    for kind in ("device", "workload"):
        schema = json.loads(_native.schema(kind))
        _collect(schema, schema["$defs"], "", found, depth=0)
    return sorted(found)


_DEEPEST = 3


def _collect(schema: dict[str, Any], definitions: dict[str, Any], prefix: str, found: set[str], *, depth: int) -> None:
    """Gather the keys of a table, and of tables in it."""
    while "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[1]]
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        _collect(choice, definitions, prefix, found, depth=depth)
    for name, inner in schema.get("properties", {}).items():
        before = len(found)
        if depth < _DEEPEST:
            _collect(inner, definitions, f"{prefix}{name}.", found, depth=depth + 1)
        is_value_too = any(choice.get("type") != "object" and "$ref" not in choice for choice in inner.get("anyOf", ()))
        if prefix and (is_value_too or len(found) == before):
            found.add(f"{prefix}{name}")
