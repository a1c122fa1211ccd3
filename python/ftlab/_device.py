"""Devices: drives described by presets, files and changes to them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ftlab import _native
from ftlab._checks import checked, utf8
from ftlab._plain import to_json
from ftlab._units import bytes_text

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


class Device:
    """A drive whose description has been checked. Immutable: changes give a new device.

    >>> device = Device.load("msr-ssd").with_(ftl={"gc": "fifo"})
    >>> device.to_dict()["ftl"]["gc"]
    'fifo'
    """

    __slots__ = ("_native",)

    @checked
    def __init__(self, source: str | os.PathLike[str] | _native.Device) -> None:
        """Name a drive: as :meth:`load` does without changes.

        Args:
            source: A preset's name, or the path of a device file.

        Raises:
            ConfigError: The device cannot be read or is wrong; the message names every place.
        """
        self._native = source if isinstance(source, _native.Device) else _native.Device.load(utf8(source), [])

    @classmethod
    @checked
    def load(cls, source: str | os.PathLike[str], *overrides: str) -> Device:
        """Load a preset by name, or a TOML file by path.

        Args:
            source: A preset's name (``ftlab devices`` lists them) or a path: anything with a path separator or
                ending in ``.toml``.
            overrides: Changes such as ``"ftl.gc=fifo"``, as ``--set`` of the command line.

        Raises:
            ConfigError: The device cannot be read or is wrong; the message names every place.
        """
        return cls(_native.Device.load(utf8(source), list(overrides)))

    @classmethod
    @checked
    def parse(cls, text: str, name: str = "text") -> Device:
        """Read a device from the text of a device file.

        Args:
            text: TOML.
            name: What errors call it.

        Raises:
            ConfigError: The device is wrong.
        """
        return cls(_native.Device.parse(text, name))

    @checked
    def set(self, *overrides: str) -> Device:
        """Give a device with single values changed.

        Args:
            overrides: ``"key=value"`` with a dotted key; the value is TOML, or a bare string. Setting one of
                ``ftl.over_provisioning``, ``ftl.logical_bytes`` and ``ftl.logical_pages`` replaces the others.

        Raises:
            ConfigError: A change is wrong.
        """
        return Device(self._native.set(list(overrides)))

    def with_(self, **sections: Mapping[str, Any] | str) -> Device:
        """Give a device with sections changed, key by key.

        Args:
            sections: Sections of the device file, such as ``ftl={"gc": "fifo"}``; also ``name`` and ``description``.

        Raises:
            ConfigError: A change is wrong.
        """
        return Device(self._native.merge(to_json(sections), "with_(...)"))

    @property
    def name(self) -> str:
        """Its name in reports."""
        return self._native.name

    @property
    def description(self) -> str:
        """What it is."""
        return self._native.description

    @property
    def logical_bytes(self) -> int:
        """Bytes that the host sees."""
        return self._native.logical_bytes

    @property
    def physical_bytes(self) -> int:
        """Bytes of flash, spare areas not counted."""
        return self._native.physical_bytes

    @property
    def notes(self) -> tuple[str, ...]:
        """Keys that another one leaves without effect: a sentence for each, with its place and the reason.

        Empty for a preset as it is. Keys of a scheme that was not chosen, and values that contradict each other, are
        errors instead.

        >>> print(*Device.load("ideal-page").set("host.link_duplex=half").notes)
        --set host.link_duplex=half: has no effect with host.link_mb_per_s = 0: transfers over the link take no time
        """
        return tuple(self._native.notes)

    def to_dict(self) -> dict[str, Any]:
        """Every parameter, defaults included."""
        parameters: dict[str, Any] = json.loads(self._native.to_json())
        return parameters

    def to_toml(self) -> str:
        """Every parameter, defaults included, as the text of a device file."""
        return self._native.to_toml()

    def __repr__(self) -> str:
        """Name, size and shape."""
        shape = self.to_dict()["geometry"]
        return (
            f"<ftlab.Device {self.name}: {bytes_text(self.logical_bytes)} of {bytes_text(self.physical_bytes)} flash, "
            f"{shape['channels']} channels x {shape['ways']} ways x {shape['dies']} dies x {shape['planes']} planes>"
        )

    def _repr_html_(self) -> str:
        import html

        title = html.escape(repr(self)[1:-1])
        return f"<details><summary>{title}</summary><pre>{html.escape(self.to_toml())}</pre></details>"

    def __eq__(self, other: object) -> bool:
        """Devices are equal when all their parameters are."""
        return isinstance(other, Device) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """By parameters, as equality."""
        return hash(self._native.to_json())

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        """Pickle as a device file, so that devices can be sent to worker processes."""
        return (Device.parse, (self.to_toml(), self.name))
