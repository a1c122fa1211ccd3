"""The command line: thin commands over the package.

Data go to standard output, everything else to standard error. Exit status: 0 done; 1 the run failed; 2 bad usage,
configuration or input; 130 interrupted, or 128 and the number of the signal that ended it.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import TYPE_CHECKING

import click

from ftlab import __version__
from ftlab import _limits as limits
from ftlab.cli.ending import orderly
from ftlab.errors import FtlabError, RunError, readable

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

# What shells ask by, once they have the script of `ftlab completion`.
_COMPLETING = "_FTLAB_COMPLETE"

# Below this, libraries fail to load with messages of their own: those of every command, and those for tables and plots.
_LEAST_BYTES = 128 << 20
_TABLES_BYTES = 5 << 28

# Imported when they are asked for: `ftlab --help` stays quick.
_COMMANDS = {
    "run": "ftlab.cli.run",
    "crash": "ftlab.cli.crash",
    "devices": "ftlab.cli.lists",
    "workloads": "ftlab.cli.lists",
    "schemes": "ftlab.cli.lists",
    "warnings": "ftlab.cli.lists",
    "config": "ftlab.cli.config",
    "trace": "ftlab.cli.trace",
    "study": "ftlab.cli.study",
    "papers": "ftlab.cli.papers",
    "explain": "ftlab.cli.explain",
    "report": "ftlab.cli.report",
    "characterize": "ftlab.cli.characterize",
    "compare": "ftlab.cli.characterize",
    "completion": "ftlab.cli.completion",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(_COMMANDS[cmd_name]), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            # Of all commands only a typing error needs it.
            import difflib

            near = difflib.get_close_matches(args[0], _COMMANDS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"no command {args[0]!r}; commands: {', '.join(_COMMANDS)}{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "terminal_width": 100},
)
@click.version_option(__version__, prog_name="ftlab")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Describe a solid-state drive, give it a workload, see what its translation layer does.

    Start with: ftlab run tlc-aged --workload zipf --explain
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    if _COMPLETING in os.environ:
        # How bash takes words apart is known there.
        importlib.import_module("ftlab.cli.completion")
    sys.exit(status_of(arguments))


def status_of(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit status."""
    if sys.stdout is None:
        # Started with `>&-`: what is asked for cannot be said.
        complain("standard output is closed")
        return BAD_INPUT
    _print_names_as_they_are()
    words = sys.argv[1:] if arguments is None else arguments
    draws = {"study", "papers", "report", "characterize"} & set(words[:1]) or any(
        word.startswith("--out") for word in words
    )
    needed = _TABLES_BYTES if draws else _LEAST_BYTES
    addresses = limits.least_of_addresses()
    if addresses is not None and addresses.bytes < needed:
        complain(f"{addresses} of addresses, and this command needs {needed >> 20} MiB at least: raise it")
        return BAD_INPUT
    with orderly() as ending:
        status = _status_of(arguments)
        return ending.status(status) if status == INTERRUPTED else status


def _status_of(arguments: Sequence[str] | None) -> int:
    try:
        status = cli.main(args=arguments, prog_name="ftlab", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        complain(error.format_message())
        if error.ctx is not None:
            click.echo(f"{error.ctx.get_usage()}\nSee `{error.ctx.command_path} --help`.", err=True)
        return BAD_INPUT
    except click.ClickException as error:
        complain(error.format_message())
        return BAD_INPUT
    except RunError as error:
        complain(str(error))
        return FAILED
    except FtlabError as error:
        complain(str(error))
        return BAD_INPUT
    except MemoryError:
        complain("out of memory: the machine or a limit (ulimit -v, cgroup) gives no more")
        return BAD_INPUT
    except (KeyboardInterrupt, click.Abort):
        complain("interrupted")
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader (`| head`) has what it wants; click exits then. Python must not complain at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, UnicodeEncodeError) as error:
        complain(_sentence(error))
        return BAD_INPUT
    return status if isinstance(status, int) else 0


def _print_names_as_they_are() -> None:
    """Let names of files that are no text be printed, byte by byte."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")


def _sentence(error: OSError | UnicodeEncodeError) -> str:
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object}: is not UTF-8, and this name has to be: rename it"
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def complain(message: str) -> None:
    """Tell what is wrong, on standard error."""
    for line in readable(message).splitlines() or [""]:
        click.echo(f"error: {line}", err=True)
