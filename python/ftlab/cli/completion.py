"""`ftlab completion`, and what the shell is offered for presets, keys and their values, papers and axes of studies."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from ftlab.errors import FtlabError

if TYPE_CHECKING:
    from collections.abc import Iterable

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


class _Bash(BashComplete):
    """Bash, which takes ``KEY=VALUE`` for three words and completes the last of them alone."""

    # A value follows the key at once.
    source_template = BashComplete.source_template.replace(
        "    return 0\n",
        "    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n\n    return 0\n",
    )
    # What is there before the word that bash completes.
    _before = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Join what bash has taken apart."""
        found = split_arg_string(os.environ["COMP_WORDS"])
        at = int(os.environ["COMP_CWORD"])
        words: list[str] = []
        joined = False
        for word in [*found, ""][: at + 1]:
            option = bool(words) and words[-1].startswith("--") and "=" not in words[-1]
            if (word == "=" and words and not option) or joined:
                words[-1] += word
            elif word != "=":
                words.append(word)
            else:
                # Of an option and its value, which are two words.
                words.append("")
            joined = word == "="
        if found[at : at + 1] != words[-1:]:
            self._before = words[-1][: words[-1].rfind("=") + 1]
        return words[1:-1], words[-1]

    def format_completion(self, item: CompletionItem) -> str:
        """Offer what comes behind the last ``=``."""
        return f"{item.type},{item.value.removeprefix(self._before)}"


add_completion_class(_Bash)


def _offered(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(incomplete)]


def _presets(kind: str, incomplete: str) -> list[CompletionItem]:
    # Files of one's own too; first, as bash forgets at this word what came before it.
    return [CompletionItem(incomplete, type="file"), *_preset_names(kind, incomplete)]


def _preset_names(kind: str, incomplete: str) -> list[CompletionItem]:
    from ftlab import _native

    return _offered((name for name, _ in _native.presets(kind)), incomplete)


def devices(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Presets of drives, and files."""
    return _presets("device", incomplete)


def workloads(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Presets of workloads, and files."""
    return _presets("workload", incomplete)


def device_presets(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Presets of drives."""
    return _preset_names("device", incomplete)


def workload_presets(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Presets of workloads."""
    return _preset_names("workload", incomplete)


def schemes(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Schemes, and with their keys before them."""
    from ftlab import _native

    rows = _native.schemes()
    return _offered([*(row["name"] for row in rows), *(f"{row['key']}.{row['name']}" for row in rows)], incomplete)


def warnings(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of warnings."""
    from ftlab import _native

    return _offered((code for code, _, _ in _native.warnings()), incomplete)


def papers(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Papers whose results can be repeated."""
    from ftlab.papers import PAPERS

    return _offered(PAPERS, incomplete)


def overrides(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Keys of devices, of workloads with ``workload.`` before them, and behind ``=`` the values that have names."""
    from ftlab import _keys

    name, equals, value = incomplete.partition("=")
    if not equals:
        return [CompletionItem(f"{key}=") for key in _keys.settable() if key.startswith(incomplete)]
    key = {**_keys.keys("workload"), **_keys.keys("device")}.get(name)
    if key is None:
        return []
    names = key.choices or (("true", "false") if "`true`" in key.values else ())
    return [CompletionItem(f"{name}={each}") for each in names if each.startswith(value)]


def _study_of(ctx: click.Context) -> tuple[list[str], list[str]]:
    """The axes and all columns of the study that the words before name; none if there is no such study."""
    from ftlab.studies import Store

    # Where the value of the last option is what is missing, arguments are left over.
    folder = ctx.params.get("folder") or next(iter(ctx.args), None)
    named = ctx.params.get("name", ctx.params.get("study_name"))
    if folder is None:
        return [], []
    try:
        store = Store(folder, create=False)
        axes = list(store.study(named).axes)
        return axes, store.frame(named).columns
    except (FtlabError, OSError):
        # Whoever types is told when the command runs.
        return [], []


def axes(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Axes of the study in DIR."""
    found, _columns = _study_of(ctx)
    return _offered([*found, "seed"] if found else [], incomplete)


def columns(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Columns of the table of the study in DIR."""
    return _offered(_study_of(ctx)[1], incomplete)


def explained(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Keys and sections."""
    from ftlab import _keys

    names = [name for kind in ("device", "workload") for name in (*_keys.sections(kind), *_keys.keys(kind))]
    return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(incomplete)]
