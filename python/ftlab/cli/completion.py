"""`ftlab completion`, and what the shell is offered for devices, workloads and keys."""

from __future__ import annotations

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
    from ftlab import _keys

    return [CompletionItem(f"{key}=") for key in _keys.settable() if key.startswith(incomplete)]


def explained(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Keys and sections."""
    from ftlab import _keys

    names = [name for kind in ("device", "workload") for name in (*_keys.sections(kind), *_keys.keys(kind))]
    return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(incomplete)]
