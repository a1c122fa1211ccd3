"""From findings to a device file: what is found, and what has to be assumed beside it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ftlab._device import Device
from ftlab.characterize.detect import Interval
from ftlab.characterize.scenarios.logs import LOGS_OF_PLANE, PLANES_OF_UNIT
from ftlab.characterize.scenarios.pairs import TOGETHER
from ftlab.characterize.scenarios.shared_logs import RANDOM_LOGS
from ftlab.characterize.scenarios.spare import RESERVE
from ftlab.characterize.target import SECTOR_BYTES
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from ftlab.characterize.flow import Characterization

# What is taken where nothing was found; times are those of a common SLC or MLC part.
_ASSUMED: dict[str, float] = {
    "page_bytes": 4096,
    "block_bytes": 1 << 20,
    "read_ns": 50_000,
    "program_ns": 600_000,
    "erase_ns": 3_000_000,
    "over_provisioning": 0.07,
    "log_blocks": 0,
    "hiding_percent": 0,
    "buffer_ns": 0,
    "host_overhead_ns": 0,
    "link_mb_per_s": 0,
    "bus_mb_per_s": 0,
}
_GROW, _TRIES = 1.02, 80
_LEAST_BLOCKS = 8


@dataclass
class Description:
    """A device file in the making.

    Attributes:
        sections: Keys of each section.
        notes: Where the value of a key comes from, by section and key.
        assumed: Parameters that were not found.
    """

    sections: dict[str, dict[str, Any]]
    notes: dict[tuple[str, str], str]
    assumed: list[str]

    def text(self, name: str) -> str:
        """The device file."""
        lines = [
            f"# Written by `ftlab characterize`: a model of {name}.",
            "# found: measured from outside; assumed: not.",
        ]
        if self.assumed:
            lines.append(f"# Not found, and assumed: {', '.join(self.assumed)}.")
        lines.append(f"description = {json.dumps(f'Model of {name}, as seen from outside')}")
        for section, keys in self.sections.items():
            if keys:
                lines += ["", f"[{section}]"]
            for key, value in keys.items():
                note = self.notes.get((section, key))
                lines.append(f"{key} = {json.dumps(value)}" + (f"  # {note}" if note else ""))
        return "\n".join(lines) + "\n"


class _Maker:
    def __init__(self, result: Characterization) -> None:
        self.result = result
        self.made = Description({}, {}, [])

    def put(self, section: str, key: str, value: Any, note: str = "") -> None:
        self.made.sections.setdefault(section, {})[key] = value
        if note:
            self.made.notes[section, key] = note

    def word(self, name: str, otherwise: str) -> str:
        value: Any = self.result.value(name)
        if value is None:
            value = self.result.known.get(name)
        if not isinstance(value, str):
            self.made.assumed.append(name)
            return otherwise
        return value

    def number(self, name: str) -> tuple[float, str]:
        """A value, and where it comes from: the findings, or what a scenario could say without being sure."""
        value = self.result.value(name)
        if isinstance(value, (int, float)):
            return float(value), "found"
        known = self.result.known.get(name)
        if known is None and name == "read_ns":
            known = self.result.known.get(TOGETHER)
        if isinstance(known, Interval):
            self.made.assumed.append(name)
            return known.value, "assumed: the best guess"
        self.made.assumed.append(name)
        return _ASSUMED[name], "assumed"


def _geometry(make: _Maker, size: int) -> int:
    """Geometry; gives the bytes of a block on all units."""
    page, of_page = make.number("page_bytes")
    while of_page != "found" and size % page:
        # Nothing that was assumed may refuse a size that is known.
        page /= 2
    block, of_block = make.number("block_bytes")
    unit = make.result.value("mapping_unit_bytes")
    known = make.result.known.get("units")
    units = int(known.value) if isinstance(known, Interval) else 1
    channels, ways = (make.result.value(name) for name in ("channels", "ways"))
    if isinstance(channels, (int, float)) and isinstance(ways, (int, float)):
        shape, note = (int(channels), int(ways)), "found"
    elif isinstance(channels, (int, float)):
        make.made.assumed.append("ways")
        shape, note = (int(channels), max(1, units // int(channels))), "ways are assumed"
    else:
        make.made.assumed += ["channels", "ways"]
        shape, note = (units, 1), "assumed: only their product is known" if known is not None else "assumed"
    pages = max(2, int(block / page))
    make.put("geometry", "channels", shape[0], note)
    make.put("geometry", "ways", shape[1], note)
    planes = _planes(make, shape[0] * shape[1] * pages * int(page))
    of_planes = "assumed: planes of a die cannot be told apart"
    make.put("geometry", "planes", planes, of_planes if planes == 1 else "by rounds of collection, or by logs")
    make.put("geometry", "pages_per_block", pages, of_block)
    make.put("geometry", "page_bytes", int(page), of_page)
    if isinstance(unit, (int, float)):
        make.put("geometry", "mapping_unit_bytes", int(unit), "found")
    elif size % int(page):
        # The largest one that the size allows: the page is known, and what it is divided into is not.
        make.made.assumed.append("mapping_unit_bytes")
        note = "assumed: the size is no multiple of a page"
        make.put("geometry", "mapping_unit_bytes", math.gcd(size, int(page)), note)
    return shape[0] * shape[1] * planes * pages * int(page)


def _planes(make: _Maker, row: int) -> int:
    """Planes of a unit, as far as rounds of collection show them; `row` is a block of each unit."""
    seen = make.result.known.get(PLANES_OF_UNIT)
    layer = make.result.known.get("translation")
    if layer in {"bast", "fast"} and isinstance(seen, Interval):
        return int(seen.value)
    unit = make.result.value("gc_unit_bytes")
    if layer != "page" or not isinstance(unit, (int, float)) or unit % row:
        return 1
    return int(unit // row)


def _timing(make: _Maker) -> None:
    for key, name in (("read_us", "read_ns"), ("program_us", "program_ns"), ("erase_us", "erase_ns")):
        value, note = make.number(name)
        make.put("timing", key, round(value / 1e3, 4), note)
    bus, note = make.number("bus_mb_per_s")
    make.put("timing", "bus_mb_per_s", round(bus, 4), note)
    form = make.result.known.get("program_form")
    if form == "included, copied inside":
        make.put("timing", "copyback", value=True)
        make.put("timing", "program_includes_transfer", value=True)
    elif form == "apart, copied inside":
        make.put("timing", "copyback", value=True)


def _layers(make: _Maker, capacity: int) -> None:
    kind = make.word("translation", "page")
    make.put("ftl", "kind", kind)
    make.put("ftl", "logical_bytes", capacity, "found")
    if kind == "page":
        placed = make.word("placement", "address")
        make.put("ftl", "striping", "dynamic" if placed == "write_order" else "static")
    if kind == "bast":
        logs, note = make.number("log_blocks")
        make.put("ftl", "log_blocks", int(logs), note)
    if kind == "fast":
        random = make.result.known.get(RANDOM_LOGS)
        geometry = make.made.sections["geometry"]
        units = geometry["channels"] * geometry["ways"] * geometry["planes"]
        if isinstance(random, Interval):
            # And one for sequences.
            make.put("ftl", "log_blocks", int(random.value + 1) * units, "found for a plane")
        else:
            make.made.assumed.append("log_blocks")
            make.put("ftl", "log_blocks", 0, "assumed: as many as there is room for")
    policy = make.word("write_policy", "none")
    size = make.result.value("buffer_bytes")
    if policy in {"back", "through"} and isinstance(size, (int, float)) and size:
        make.put("buffer", "kind", "lru", "assumed: what leaves first")
        make.put("buffer", "bytes", int(size), "found")
        make.put("buffer", "write", policy, "found")
        access, note = make.number("buffer_ns")
        make.put("buffer", "access_us", round(access / 1e3, 4), note)
        hidden, note = make.number("hiding_percent")
        make.put("buffer", "hiding", round(hidden / 100, 4), note)
    for key, name, scale in (("link_mb_per_s", "link_mb_per_s", 1.0), ("overhead_us", "host_overhead_ns", 1e-3)):
        value, note = make.number(name)
        make.put("host", key, round(value * scale, 4), note)


def _blocks(make: _Maker, size: int, row: int) -> tuple[int, str]:
    """Blocks of each plane; `row` is a block of all of them."""
    onset = make.result.value("gc_onset_bytes")
    if isinstance(onset, (int, float)):
        if make.result.value("over_provisioning") is None:
            make.made.assumed.append("over_provisioning")
        blocks = round((size + onset) / row) + RESERVE
        return blocks, f"found: {onset:,.0f} bytes of updates until it collects; assumed: {RESERVE} blocks beyond"
    logs = make.result.known.get(LOGS_OF_PLANE)
    if make.result.known.get("translation") == "bast" and isinstance(logs, Interval):
        make.made.assumed.append("over_provisioning")
        blocks = math.ceil(size / row + logs.value) + 1
        return max(_LEAST_BLOCKS, blocks), f"{logs.value:g} log blocks of a plane, and one for merges"
    spare, note = make.number("over_provisioning")
    return max(_LEAST_BLOCKS, -(-int(size * (1 + spare)) // row)), note


def describe(result: Characterization, capacity: int) -> tuple[str, Device, list[str]]:
    """Describe a drive by what was found.

    Args:
        result: What was found.
        capacity: Sectors of the target.

    Returns:
        The text of a device file, the device, and what had to be assumed.

    Raises:
        ConfigError: What was found makes no drive.
    """
    make = _Maker(result)
    size = capacity * SECTOR_BYTES
    row = _geometry(make, size)
    _timing(make)
    _layers(make, size)
    make.put("precondition", "kind", "fill", "assumed: a drive in use is full")
    blocks, note = _blocks(make, size, row)
    problem: ConfigError | None = None
    # A layer needs open blocks and log blocks beside what the host sees: as many more as it takes.
    for _ in range(_TRIES):
        make.put(
            "geometry", "blocks_per_plane", blocks, note if problem is None else f"{note}, and what the layer needs"
        )
        text = make.made.text(result.target)
        try:
            return text, Device.parse(text, f"model-of-{result.target}"), list(dict.fromkeys(make.made.assumed))
        except ConfigError as error:
            problem = error
            blocks = max(blocks + 1, int(blocks * _GROW))
    raise ConfigError(f"what was found makes no drive: {problem}")
