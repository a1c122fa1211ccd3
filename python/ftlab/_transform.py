"""Steps between a trace or a generator and whoever takes its requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, Self

from ftlab import _native
from ftlab._checks import checked
from ftlab._plain import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

Op = Literal["read", "write", "trim", "flush"]
Size = int | str


class Transformable(ABC):
    """Requests that go through an ordered list of steps, each of which is applied as they are read.

    Every method gives a new object with one more step at the end. Sizes are bytes or strings such as ``"64KiB"``, times
    are microseconds or strings such as ``"1.5ms"``. ``docs/reference/transformations.md`` has each step in full.
    """

    __slots__ = ()

    @abstractmethod
    def _with_step(self, step: str) -> Self:
        """Give the same requests after one more step, which has been checked; it is JSON."""

    @checked
    def transform(self, step: str, **keys: Any) -> Self:
        """Add a step by name and keys, or as text: ``"scale_time factor=0.5"``.

        Args:
            step: Its name (``docs/reference/transformations.md`` lists them), or with keys as on the command line.
            keys: The keys of the step; those that are ``None`` are left out.

        Raises:
            ConfigError: There is no such step, or its keys are wrong.
        """
        text = to_json({"step": step, **keys}) if keys else step
        return self._with_step(_native.transform_step(text))

    @checked
    def scale_time(self, factor: float) -> Self:
        """Multiply arrival times: 0.5 is twice as fast."""
        return self.transform("scale_time", factor=factor)

    @checked
    def shift_time(
        self,
        *,
        start_us: float | str | None = None,
        later_us: float | str | None = None,
        earlier_us: float | str | None = None,
    ) -> Self:
        """Move all arrivals: the first to ``start_us``, or all ``later_us`` or ``earlier_us``."""
        return self.transform("shift_time", start_us=start_us, later_us=later_us, earlier_us=earlier_us)

    @checked
    def slice(
        self,
        *,
        skip: int | None = None,
        take: int | None = None,
        from_us: float | str | None = None,
        to_us: float | str | None = None,
    ) -> Self:
        """Take a part by number (``skip``, ``take``) or by time (``from_us``, ``to_us``)."""
        return self.transform("slice", skip=skip, take=take, from_us=from_us, to_us=to_us)

    @checked
    def filter(
        self,
        *,
        ops: Op | Sequence[Op] | None = None,
        streams: int | Sequence[int] | None = None,
        from_bytes: Size | None = None,
        to_bytes: Size | None = None,
        clip: bool = False,
        invert: bool = False,
    ) -> Self:
        """Keep what meets all criteria; ``clip`` cuts to the range of addresses, ``invert`` keeps the others."""
        return self.transform(
            "filter",
            ops=ops,
            streams=streams,
            from_bytes=from_bytes,
            to_bytes=to_bytes,
            clip=clip,
            invert=invert,
        )

    @checked
    def set_op(self, op: Op, of: Op | Sequence[Op] | None = None) -> Self:
        """Treat requests (only those ``of`` some operations) as another operation."""
        return self.transform("set_op", op=op, of=of)

    @checked
    def merge_streams(self, to: int = 0, stride_bytes: Size | None = None) -> Self:
        """Give all requests one stream; ``stride_bytes`` puts their address spaces side by side."""
        return self.transform("merge_streams", to=to, stride_bytes=stride_bytes)

    @checked
    def shift_address(self, *, up_bytes: Size | None = None, down_bytes: Size | None = None) -> Self:
        """Move all addresses up or down."""
        return self.transform("shift_address", up_bytes=up_bytes, down_bytes=down_bytes)

    @checked
    def wrap(self, bytes: Size) -> Self:
        """Take addresses modulo a size."""
        return self.transform("wrap", bytes=bytes)

    @checked
    def remap(
        self,
        *,
        size_bytes: Size,
        from_bytes: Size = 0,
        to_bytes: Size = 0,
        to_size_bytes: Size | None = None,
        align_bytes: Size | None = None,
        outside: Literal["keep", "drop", "refuse"] = "keep",
    ) -> Self:
        """Map a range of addresses to another one, larger or smaller."""
        return self.transform(
            "remap",
            from_bytes=from_bytes,
            size_bytes=size_bytes,
            to_bytes=to_bytes,
            to_size_bytes=to_size_bytes,
            align_bytes=align_bytes,
            outside=outside,
        )

    @checked
    def compact(self, chunk_bytes: Size = "1MiB", order: Literal["address", "first_touch"] = "address") -> Self:
        """Close the gaps between the chunks of the address space that are used."""
        return self.transform("compact", chunk_bytes=chunk_bytes, order=order)

    @checked
    def align(self, bytes: Size, round: Literal["out", "in"] = "out") -> Self:
        """Round begin and end of requests to multiples of a size."""
        return self.transform("align", bytes=bytes, round=round)

    @checked
    def sort(self) -> Self:
        """Put requests in the order of their arrival; all of them are in memory for it."""
        return self.transform("sort")

    @checked
    def repeat(self, times: int, gap_us: float | str | None = None) -> Self:
        """Repeat the whole sequence N times; time goes on."""
        return self.transform("repeat", times=times, gap_us=gap_us)

    @checked
    def cap_outstanding(self, outstanding: int, service_us: float | str) -> Self:
        """Delay arrivals so that at most ``outstanding`` requests are under way if each takes ``service_us``."""
        return self.transform("cap_outstanding", outstanding=outstanding, service_us=service_us)
