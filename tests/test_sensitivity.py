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


# key -> another value, and what else it needs to matter
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
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
    "timing.transfer_spare": (False, {}),
    "timing.independent_planes": (True, {}),
    "cell.rated_pe_cycles": (2000, {}),
    "ftl.kind": ("map_only", {**cached("bsb"), "precondition.kind": "none"}),
    "ftl.over_provisioning": (0.8, {}),
    "ftl.logical_bytes": (16 << 20, {"ftl.over_provisioning": None}),
    "ftl.logical_pages": (5000, {"ftl.over_provisioning": None}),
    "ftl.gc": ("fifo", {}),
    "ftl.gc_low_free_blocks": (3, {}),
    "ftl.gc_high_free_blocks": (5, {}),
    "ftl.gc_choices": (2, {"ftl.gc": "d_choices"}),
    "ftl.gc_window": (3, {"ftl.gc": "windowed_greedy"}),
    "ftl.gc_tie": ("highest", {}),
    "ftl.gc_open_block": ("shared", {}),
    "ftl.gc_when": ("on_access", {}),
    "ftl.allocation": ("PDWC", {}),
    "ftl.striping": ("dynamic", {}),
    "ftl.streams": (2, {}),
    "ftl.summary_page": (True, {}),
    "ftl.wear_leveling": ("none", {}),
    "ftl.wear_leveling_threshold": (5, {}),
    "ftl.free_block": ("next_fit", {"ftl.wear_leveling": "none"}),
    "ftl.plane_choice": ("most_free", {"ftl.gc_open_block": "shared"}),
    "map_cache.kind": ("half_page", cached("full_page")),
    "map_cache.bytes": (8192, cached("full_page")),
    "map_cache.entry_bytes": (8, cached("dftl", bytes=4096)),
    "map_cache.protected_fraction": (0.5, cached("dftl", bytes=4096)),
    "map_cache.window_bytes": (32, cached("tafp", bytes=4096)),
    "map_cache.window_inclusive": (True, cached("tafp", bytes=4096)),
    "map_cache.charge_headers": (True, cached("tafp", bytes=4096)),
    "map_cache.flush_coalesce": (True, cached("tafp", bytes=4096)),
    "map_cache.candidates": (["tafp_16", "half_page"], cached("bsb")),
    "map_cache.score_weight": (0.9, cached("bsb")),
    "map_cache.decision_interval": (50, cached("bsb")),
    "map_cache.balanced": (False, cached("bsb")),
    "map_cache.rank": ("units", cached("bsb")),
    "map_cache.leaftl_gamma": (8, cached("leaftl")),
    "map_cache.leaftl_batch_pages": (20, cached("leaftl")),
    "map_cache.leaftl_compaction_writes": (50, cached("leaftl")),
    "map_cache.sparse_fraction": (0.2, cached("sftl")),
    "map_cache.sparse_entries": (4, cached("sftl")),
    "map_cache.selective_threshold": (1, cached("tpftl", bytes=600)),
    "map_cache.entry_fraction": (0.7, cached("cdftl", bytes=24000)),
    "map_cache.cftl_block_pages": (2, cached("cftl", bytes=3072)),
    "host.arrival": ("closed", {"host.outstanding": 0}),
    "host.queue_depth": (8, {"host.arrival": "closed", "host.outstanding": 0}),
    "host.time_scale": (0.5, {}),
    "host.outstanding": (2, {}),
    "host.link_mb_per_s": (200, {}),
    "host.link_duplex": ("half", {}),
    "host.stop": ("last_arrival", {}),
    "precondition.kind": ("fill", {}),
    "precondition.pattern": ("sequential", {}),
    "precondition.free_blocks": (6, {}),
    "precondition.tolerance": (0.2, {"precondition.kind": "steady"}),
    "precondition.max_drive_writes": (1.5, {"precondition.kind": "steady", "precondition.tolerance": 1e-9}),
}
# Decide something that this trace does not ask for; each has a test of its own.
ELSEWHERE = {"cell.kind", "cell.page_order", "host.out_of_range", "host.unsorted_times", "precondition.layout"}
# One value so far.
SINGLE = {"buffer.kind", "nvm.kind", "name", "description"}


def sections(keys: dict[str, Any]) -> dict[str, dict[str, Any]]:
    tree: dict[str, dict[str, Any]] = {}
    for key, value in keys.items():
        section, name = key.split(".")
        tree.setdefault(section, {})[name] = value
    return tree


def summary(device: ftlab.Device) -> str:
    result = ftlab.run(device, ftlab.Workload(**LOAD)).to_dict()
    for key in ("wall_seconds", "device"):
        del result[key]
    return json.dumps(result)


def test_every_key_is_looked_after() -> None:
    schema = json.loads(ftlab._native.schema("device"))
    keys = set()
    for section, about in schema["properties"].items():
        name = str(about.get("$ref", "")).rsplit("/", 1)[-1]
        inner = schema["$defs"].get(name, {}).get("properties")
        keys |= {f"{section}.{key}" for key in inner} if inner else {section}
    assert keys - {"extends"} == set(CHANGES) | ELSEWHERE | SINGLE


@pytest.mark.parametrize("key", CHANGES)
def test_changing_it_changes_the_summary(key: str) -> None:
    value, needs = CHANGES[key]
    device = ftlab.Device.parse(BASE, "base")
    before = device.with_(**sections({name: other for name, other in needs.items() if other is not None}))
    after = before.with_(**sections({key: value}))
    assert summary(before) != summary(after)
