"""Every numeric parameter of a device does something: changing it changes the summary."""

from __future__ import annotations

import json
from typing import Any

import pytest

import ftlab

# A drive on which every parameter has work to do.
BASE = """
[geometry]
channels = 2
ways = 2
dies = 2
planes = 2
blocks_per_plane = 24
pages_per_block = 12
page_bytes = 8192
spare_bytes = 256
mapping_unit_bytes = 4096
[timing]
read_us = { lsb = 40, msb = 60 }
program_us = { lsb = 300, msb = 900 }
erase_us = 2000
bus_mb_per_s = 100
command_us = 0.5
transfer_spare = true
[cell]
kind = "mlc"
rated_pe_cycles = 1000
[ftl]
over_provisioning = 0.6
gc_low_free_blocks = 2
gc_high_free_blocks = 4
streams = 1
wear_leveling = "static"
wear_leveling_threshold = 2
[host]
arrival = "open"
outstanding = 4
link_mb_per_s = 300
[precondition]
kind = "free_blocks"
free_blocks = 5
"""
LOAD: dict[str, Any] = {
    "kind": "zipf", "requests": 6000, "read_fraction": 0.4, "trim_fraction": 0.05, "flush_fraction": 0.01,
    "request_bytes": {"4KiB": 1, "16KiB": 1}, "mean_interarrival_us": 700, "streams": 2,
}  # fmt: skip


def cached(kind: str, **keys: Any) -> dict[str, Any]:
    """A small mapping cache, which misses."""
    return {f"map_cache.{key}": value for key, value in {"kind": kind, "bytes": 16384, **keys}.items()}


def buffered(**keys: Any) -> dict[str, Any]:
    """A small write buffer, which evicts."""
    return {f"buffer.{key}": value for key, value in {"kind": "lru", "bytes": 131072, **keys}.items()}


SAVED = {"ftl.over_provisioning": 1.0, "lsb_backup.kind": "copy"}

# key -> another value, and what else it needs to matter; the keys of schemes come from their files
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "power.atomic": ("request", {"ftl.over_provisioning": 1.0}),
    "power.trim": ("flush", {"ftl.over_provisioning": 1.0}),
    "lsb_backup.kind": ("copy", {"ftl.over_provisioning": 1.0}),
    "lsb_backup.read": (False, SAVED),
    "lsb_backup.invalidate_at": ("page", SAVED),
    "lsb_backup.area": ("slc", SAVED),
    "lsb_backup.exempt_same_request": (False, SAVED),
    "geometry.channels": (4, {}),
    "geometry.ways": (1, {}),
    "geometry.dies": (1, {}),
    "geometry.planes": (1, {}),
    "geometry.blocks_per_plane": (30, {}),
    "geometry.pages_per_block": (16, {}),
    "geometry.page_bytes": (16384, {}),
    "geometry.spare_bytes": (512, {}),
    "geometry.mapping_unit_bytes": (8192, {}),
    "timing.read_us": (45, {}),
    "timing.program_us": (500, {}),
    "timing.erase_us": (2500, {}),
    "timing.bus_mb_per_s": (150, {}),
    "timing.command_us": (1.5, {}),
    "timing.copyback": (True, {}),
    "timing.program_includes_transfer": (True, {}),
    "timing.transfer_spare": (False, {}),
    "timing.independent_planes": (True, {}),
    "cell.rated_pe_cycles": (2000, {}),
    "model": ("mapping_cache", cached("bsb")),
    "ftl.over_provisioning": (0.8, {}),
    "ftl.logical_bytes": (16 << 20, {"ftl.over_provisioning": None}),
    "ftl.logical_pages": (5000, {"ftl.over_provisioning": None}),
    "ftl.gc": ("fifo", {}),
    "ftl.gc_low_free_blocks": (3, {}),
    "ftl.gc_high_free_blocks": (5, {}),
    "ftl.gc_open_block": ("shared", {}),
    "ftl.gc_when": ("on_access", {}),
    "ftl.gc_pace": ("even", {}),
    "ftl.allocation": ("PDWC", {}),
    "ftl.summary_page": (True, {}),
    "ftl.wear_leveling": ("none", {}),
    "ftl.wear_leveling_threshold": (5, {}),
    "ftl.free_block": ("next_fit", {"ftl.wear_leveling": "none"}),
    "map_cache.kind": ("half_page", cached("full_page")),
    "map_cache.bytes": (8192, cached("full_page")),
    "buffer.bytes": (65536, buffered()),
    "buffer.write": ("through", buffered()),
    "buffer.rate": ("cave", buffered()),
    "buffer.select": ("distinct", {**buffered(rate="cave"), "ftl.striping": "static"}),
    "buffer.wait": ("frame", buffered(rate="cave")),
    "buffer.access_us": (2.5, buffered()),
    "buffer.mb_per_s": (400, buffered()),
    "buffer.hiding": (0.5, buffered(access_us=2.5)),
    "buffer.drain_at_end": (False, buffered()),
    "buffer.bypass_bytes": (16384, buffered()),
    "buffer.prefetch_pages": (4, buffered()),
    "buffer.rate_unit": ("pages", buffered(kind="bplru", rate=4)),
    "buffer.block_pages": (8, buffered(kind="bplru")),
    "power.capacitor": (True, buffered()),
    "host.arrival": ("closed", {}),
    "host.queue_depth": (8, {"host.arrival": "closed"}),
    "host.time_scale": (0.5, {}),
    "host.outstanding": (2, {}),
    "host.scheduler": ("c_look", {}),
    "host.link_mb_per_s": (200, {}),
    "host.link_duplex": ("half", {}),
    "host.overhead_us": (10, {}),
    "host.stop": ("last_arrival", {}),
    "precondition.kind": ("fill", {}),
    "precondition.pattern": ("sequential", {}),
    "precondition.free_blocks": (6, {}),
    "precondition.tolerance": (0.2, {"precondition.kind": "steady"}),
    "precondition.max_drive_writes": (1.5, {"precondition.kind": "steady", "precondition.tolerance": 1e-9}),
}
# Decide something that this trace does not ask for; each has a test of its own.
ELSEWHERE = {
    "buffer.kind", "cell.kind", "cell.page_order", "host.out_of_range", "host.unsorted_times", "precondition.layout",
}  # fmt: skip
# Keys that every mapping cache, or every order of a buffer, has.
SHARED = {"map_cache.bytes", *(key for key in CHANGES if key.startswith("buffer."))}
# One value so far, or others that take keys away which these runs have.
SINGLE = {"ftl.kind", "ftl.placement", "nvm.kind", "name", "description"}


# What makes keys idle, and the keys with other values than their defaults.
IDLE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"timing.bus_mb_per_s": 0}, {"timing.transfer_spare": True}),
    ({"host.link_mb_per_s": 0}, {"host.link_duplex": "half"}),
    ({"timing.bus_mb_per_s": 0, "timing.command_us": 0}, {"timing.program_includes_transfer": True}),
    (buffered(access_us=0), {"buffer.hiding": 0.5}),
    (
        buffered(write="through"),
        {"buffer.bypass_bytes": "4KiB", "buffer.wait": "frame", "buffer.drain_at_end": False},
    ),
]


def of_schemes() -> list[tuple[str, str, str, list[str]]]:
    """For each key of each scheme that has a file: scheme, key, another value as TOML, and what else it needs."""
    return [
        (f"{row['key']}={row['name']}", key, value, needs)
        for row in ftlab._native.schemes()
        for key, value, needs in row["contrasts"]
    ]


def sections(keys: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in keys.items():
        section, _, name = key.partition(".")
        if name:
            tree.setdefault(section, {})[name] = value
        else:
            tree[section] = value
    return tree


def summary(device: ftlab.Device, **load: Any) -> str:
    result = ftlab.run(device, ftlab.Workload(**{**LOAD, **load})).to_dict()
    for key in ("wall_seconds", "device"):
        del result[key]
    return json.dumps(result)


def test_every_key_is_looked_after() -> None:
    schema = json.loads(ftlab._native.schema("device"))
    keys = {"model"}
    for section, about in schema["properties"].items():
        name = str(about.get("$ref", "")).rsplit("/", 1)[-1]
        inner = schema["$defs"].get(name, {}).get("properties")
        keys |= {f"{section}.{key}" for key in inner} if inner else {section}
    assert keys - {"extends"} == set(CHANGES) | {key for _, key, _, _ in of_schemes()} | ELSEWHERE | SINGLE


def test_every_key_of_a_scheme_has_a_contrast() -> None:
    for row in ftlab._native.schemes():
        if row["contrasts"]:
            own = [key["name"] for key in row["keys"] if key["name"] not in SHARED]
            assert own == sorted(key for key, _, _ in row["contrasts"]), row["name"]


def test_a_note_tells_the_truth() -> None:
    base = ftlab.Device.parse(BASE.replace("transfer_spare = true", ""), "base")
    for context, keys in IDLE:
        before = base.with_(**sections(context))
        told = summary(before, requests=1500)
        for key, value in keys.items():
            after = before.with_(**sections({key: value}))
            assert not [note for note in before.notes if f": {key} = " in note], (context, key)
            assert [note for note in after.notes if f": {key} = " in note], (context, key)
            assert summary(after, requests=1500) == told, (context, key)


def test_presets_say_nothing_to_no_effect() -> None:
    for name, _ in ftlab._native.presets("device"):
        assert ftlab.Device.load(name).notes == (), name


@pytest.mark.sampled(3)
@pytest.mark.parametrize("key", CHANGES)
def test_changing_it_changes_the_summary(key: str) -> None:
    value, needs = CHANGES[key]
    device = ftlab.Device.parse(BASE, "base")
    before = device.with_(**sections({name: other for name, other in needs.items() if other is not None}))
    after = before.with_(**sections({key: value}))
    assert summary(before) != summary(after)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("scheme", "key", "value", "needs"), of_schemes())
def test_changing_a_key_of_a_scheme_changes_the_summary(scheme: str, key: str, value: str, needs: list[str]) -> None:
    before = ftlab.Device.parse(BASE, "base").set(scheme, *needs)
    after = before.set(f"{key}={value}")
    assert summary(before) != summary(after)
