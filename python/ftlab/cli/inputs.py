"""What is run on what: the device, the workload or trace, and the options that change them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ftlab import _limits as limits
from ftlab._device import Device
from ftlab._running import fills_by_formula, memory_bytes, unit_bytes
from ftlab._units import bytes_text
from ftlab._workload import Trace, Workload
from ftlab.cli import completion
from ftlab.cli.output import tell_notes, transform_option
from ftlab.cli.reading import SEED, SKIPPED, Volumes, size

if TYPE_CHECKING:
    from collections.abc import Callable

_PREFIX = "workload."
# Written in some seconds.
_MANY_PAGES = 200_000_000

_OPTIONS = (
    click.argument("device", shell_complete=completion.devices),
    click.option("--trace", type=click.Path(path_type=Path), metavar="FILE", help="Run a recorded trace."),
    click.option(
        "--workload",
        metavar="NAME|FILE.toml",
        help="Run a generated workload.",
        shell_complete=completion.workloads,
    ),
    click.option(
        "--trace-dir",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Directory of original traces; if the trace a stand-in imitates is found here, it runs instead. "
        "Default: $FTLAB_TRACES.",
    ),
    click.option(
        "--format", "trace_format", metavar="FMT", help="Format of the trace. Default: recognised by content."
    ),
    click.option("--volume", type=Volumes(), metavar="N[,N...]", help="Take only these volumes of the trace."),
    click.option(
        "--volumes",
        type=click.Choice(["overlay", "concat"]),
        help="Where the volumes of the trace lie: on top of each other (default), or concatenated.",
    ),
    click.option("--volume-bytes", metavar="SIZE", help="With --volumes concat: size of the region of each volume."),
    click.option("--skip-bad", type=SKIPPED, metavar="N", help="Leave out up to N bad records of the trace."),
    transform_option,
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        shell_complete=completion.overrides,
        help="Change a value of the device (ftl.gc=fifo) or of the workload (workload.seed=2). May be repeated. "
        "Setting ftl.over_provisioning, ftl.logical_bytes or ftl.logical_pages replaces the other two.",
    ),
)

seed_option = click.option(
    "--seed",
    type=SEED,
    metavar="N",
    help="Seed of every random choice. Default: 1, or what the workload states.",
)


# Keys of workloads, and steps of transformations, that say when requests arrive.
_RATES = ("rate_iops", "mean_interarrival_us")
_OF_TIME = ("scale_time", "shift_time")
_CHOOSING = {"from_us", "to_us"}
_PHASES = "phases"


def _waits(device: Device) -> list[str]:
    """What is said of a drive that takes long before its first request."""
    keys = device.to_dict()
    pages = device.logical_bytes // unit_bytes(device)
    if pages < _MANY_PAGES or keys.get("model") == "mapping_cache" or keys["precondition"]["kind"] == "none":
        return []
    if keys["precondition"]["kind"] == "fill" and fills_by_formula(device, verify=False):
        return []
    memory, limit = memory_bytes(device, verify=False), limits.least()
    if limit is not None and memory > limit.bytes:
        return []
    said = f"its {pages:,} pages are written before the first request: that takes a while, and up to"
    return [f'{device.name}: {said} {bytes_text(memory)} of memory; precondition.kind = "none" leaves it out']


def unused_times(device: Device, source: Workload | Trace) -> list[str]:
    """What is said of times of arrival that nobody looks at."""
    if device.to_dict()["host"]["arrival"] != "closed":
        return []
    why = 'no effect with host.arrival = "closed", where a request arrives when one before it has ended'
    keys = source.keys() if isinstance(source, Trace) else source.to_dict()
    steps = keys.get("transform") or ()
    if any(_CHOOSING & set(step) for step in steps) or _PHASES in keys:
        # Times say which requests there are.
        return []
    said = [f"workload.{key}: {why}" for key in _RATES if key in keys]
    changed = sorted({step["step"] for step in steps if step["step"] in _OF_TIME})
    if changed or "trace" in keys:
        said.append(f"{' and '.join(changed) or 'times of the trace'}: {why}; --set host.arrival=open keeps them")
    return said


def tell_about(device: Device) -> None:
    """Say on standard error what a device says to no effect, and what it takes long for."""
    tell_notes([*device.notes, *_waits(device)])


@dataclass(frozen=True)
class Inputs:
    """What the options say about the device and its requests."""

    device: str
    trace: Path | None
    workload: str | None
    trace_dir: Path | None
    trace_format: str | None
    volume: tuple[int, ...] | None
    volumes: Literal["overlay", "concat"] | None
    volume_bytes: str | None
    skip_bad: int | None
    transforms: tuple[str, ...]
    overrides: tuple[str, ...]

    def refuse_contradictions(self) -> None:
        """Refuse what does not go together, before anything is read."""
        if (self.trace is None) == (self.workload is None):
            raise click.UsageError("give either --trace FILE or --workload NAME (ftlab workloads lists them)")
        of_trace = {
            "--format": self.trace_format,
            "--volume": self.volume,
            "--volumes": self.volumes,
            "--volume-bytes": self.volume_bytes,
            "--skip-bad": self.skip_bad,
        }
        of_workload = {"--trace-dir": self.trace_dir}
        owner, useless = ("--trace", of_trace) if self.trace is None else ("--workload", of_workload)
        for option in (option for option, value in useless.items() if value is not None):
            raise click.UsageError(f"{option} belongs to {owner}")

    def load(self) -> tuple[Device, Workload | Trace]:
        """Read device and workload, or name the trace."""
        mine = [text for text in self.overrides if text.startswith(_PREFIX)]
        if mine and self.workload is None:
            raise click.UsageError(f"--set {mine[0]}: there is no --workload")
        drive = Device.load(self.device, *(text for text in self.overrides if not text.startswith(_PREFIX)))
        if self.trace is None:
            source: Workload | Trace = Workload.load(str(self.workload), *mine)
        else:
            source = Trace(
                self.trace,
                self.trace_format,
                self.volume,
                volumes=self.volumes or "overlay",
                volume_bytes=size(self.volume_bytes),
                skip_bad=self.skip_bad or 0,
            )
        return drive, functools.reduce(type(source).transform, self.transforms, source)

    @property
    def files(self) -> list[str]:
        """What is read, beside a trace; names of presets are among it."""
        return [self.device, *([self.workload] if self.workload else [])]

    def words(self) -> list[str]:
        """The words of a command with these inputs."""
        options = {
            "--trace": self.trace,
            "--workload": self.workload,
            "--trace-dir": self.trace_dir,
            "--format": self.trace_format,
            "--volume": None if self.volume is None else ",".join(map(str, self.volume)),
            "--volumes": self.volumes,
            "--volume-bytes": self.volume_bytes,
            "--skip-bad": self.skip_bad,
        }
        words = [self.device]
        words += [word for name, value in options.items() if value is not None for word in (name, str(value))]
        words += [word for step in self.transforms for word in ("--transform", step)]
        return words + [word for text in self.overrides for word in ("--set", text)]


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument and the options, which arrive as one argument `inputs`."""
    names = Inputs.__dataclass_fields__

    @functools.wraps(command)
    def with_inputs(**given: Any) -> Any:
        inputs = Inputs(**{name: given.pop(name) for name in names})
        inputs.refuse_contradictions()
        return command(inputs=inputs, **given)

    wrapped: Callable[..., Any] = with_inputs
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped
