"""How the commands read traces: the options that they share."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ftlab._checks import LARGEST, shown, utf8
from ftlab._units import count_text
from ftlab._workload import LAST_VOLUME, Trace
from ftlab._workload import reading_options as native_options
from ftlab.cli.output import transform_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ftlab import _native


class _Count(click.IntRange):
    """A number, also as in 1e6, 100k or 1M."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read and check."""
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(e[0-9]{1,2})?([kKMG]?)", str(value).replace("_", ""))
        if found is None or not (found[2] or found[3]):
            return super().convert(value, param, ctx)
        from decimal import Decimal

        number = (
            Decimal(found[1] + (found[2] or ""))
            * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[found[3].replace("K", "k")]
        )
        if number != int(number):
            self.fail(f"{value!r} is not a whole number", param, ctx)
        return super().convert(int(number), param, ctx)


COUNT = _Count(1, LARGEST)
"""How many of something."""

SEED = click.IntRange(0, LARGEST)
SKIPPED = click.IntRange(0, LARGEST)


class StoreFolder(click.Path):
    """A store of results, whose tables are found by names that are text."""

    def __init__(self) -> None:
        """Make it a folder."""
        super().__init__(path_type=Path, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check."""
        return Path(utf8(os.fsdecode(super().convert(value, param, ctx))))


class Volumes(click.ParamType[tuple[int, ...]]):
    """Numbers of volumes with commas between them."""

    name = "volumes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Split and check."""
        if isinstance(value, tuple):
            return value
        numbers = str(value).split(",")
        if not all(re.fullmatch("[0-9]{1,9}", number) and int(number) <= LAST_VOLUME for number in numbers):
            self.fail(f"{shown(value)}: expected numbers from 0 to {LAST_VOLUME}, as in 3 or 0,3", param, ctx)
        return tuple(map(int, numbers))


_OPTIONS = (
    click.option(
        "--format",
        "trace_format",
        metavar="FMT",
        help="Format of the trace, with an argument behind a colon where it takes one. Default: recognised by content.",
    ),
    click.option(
        "--volume",
        type=Volumes(),
        metavar="N[,N...]",
        help="Take only these volumes (ASU, disk or device numbers).",
    ),
    click.option(
        "--volumes",
        type=click.Choice(["overlay", "concat"]),
        default="overlay",
        show_default=True,
        help="Where volumes lie: on top of each other, or concatenated.",
    ),
    click.option(
        "--volume-bytes",
        metavar="SIZE",
        help="With --volumes concat: size of the region of each volume (64GiB). Default: the trace is read once more, "
        "to find how far each reaches.",
    ),
    click.option(
        "--skip-bad",
        type=SKIPPED,
        default=0,
        show_default=True,
        metavar="N",
        help="Leave out up to N bad lines or records, and count them.",
    ),
    transform_option,
)


def size(text: str | None) -> int | str | None:
    """Give a size of the command line to the engine: bytes or a number with a unit."""
    return int(text) if text is not None and re.fullmatch("[0-9]{1,18}", text) else text


@dataclass(frozen=True)
class Reading:
    """What the options say about reading a trace."""

    trace_format: str | None
    volume: tuple[int, ...] | None
    volumes: Literal["overlay", "concat"]
    volume_bytes: int | str | None
    skip_bad: int
    transforms: tuple[str, ...]

    def refuse_without_trace(self) -> None:
        """Refuse options that say how a trace is read, where there is none."""
        of_trace = {
            "--format": self.trace_format,
            "--volume": self.volume,
            "--volumes": self.volumes != "overlay",
            "--volume-bytes": self.volume_bytes,
            "--skip-bad": self.skip_bad,
        }
        for option in (option for option, value in of_trace.items() if value):
            raise click.UsageError(f"{option} belongs to FILE")

    def native(self) -> _native.ReadOptions:
        """Give it to the engine."""
        return native_options(
            self.trace_format, self.volume, self.volumes, self.volume_bytes, self.skip_bad, self.transforms
        )

    def trace(self, file: Path) -> Trace:
        """Name a trace that is read so."""
        trace = Trace(
            file,
            self.trace_format,
            self.volume,
            volumes=self.volumes,
            volume_bytes=self.volume_bytes,
            skip_bad=self.skip_bad,
        )
        return functools.reduce(Trace.transform, self.transforms, trace)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, which arrive as one argument `reading`."""

    @functools.wraps(command)
    def with_reading(
        *args: Any,
        trace_format: str | None,
        volume: tuple[int, ...] | None,
        volumes: Literal["overlay", "concat"],
        volume_bytes: str | None,
        skip_bad: int,
        transforms: tuple[str, ...],
        **others: Any,
    ) -> Any:
        reading = Reading(trace_format, volume, volumes, size(volume_bytes), skip_bad, transforms)
        return command(*args, reading=reading, **others)

    wrapped: Callable[..., Any] = with_reading
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def tell_lost(target: Path, lost: tuple[str, ...]) -> None:
    """Say on standard error what a written format could not hold."""
    for text in lost:
        click.echo(f"{target}: {text}", err=True)


def tell_remarks(file: Path | str, remarks: Iterable[str]) -> None:
    """Say on standard error what a trace says of itself."""
    for text in remarks:
        click.echo(f"{file}: {text}", err=True)


def tell_skipped(file: Path | str, skipped: int) -> None:
    """Say on standard error that records were left out."""
    if skipped:
        noun = "record" if skipped == 1 else "records"
        click.echo(f"{file}: {count_text(skipped)} bad {noun} skipped", err=True)
