"""Every numeric parameter of a device does something: changing it changes the summary."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import ftlab
from conftest import ROOT

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


# What makes keys idle, and the keys with other values than their defaults. `BASE` would already note some.
IDLE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"ftl.gc": "random"}, {"ftl.gc_choices": 3, "ftl.gc_window": 3, "ftl.gc_tie": "lowest"}),
    ({"ftl.gc": "cost_benefit"}, {"ftl.gc_choices": 3, "ftl.gc_window": 3, "ftl.gc_tie": "lowest"}),
    ({"ftl.gc": "d_choices"}, {"ftl.gc_window": 3, "ftl.gc_tie": "lowest"}),
    ({"ftl.gc": "greedy"}, {"ftl.gc_choices": 3, "ftl.gc_window": 3}),
    ({"ftl.wear_leveling": "dynamic", "ftl.wear_leveling_threshold": 100}, {"ftl.wear_leveling_threshold": 7}),
    ({"cell.kind": "slc", "timing.read_us": 40, "timing.program_us": 300}, {"cell.page_order": "shadow_pairs"}),
    ({"timing.bus_mb_per_s": 0}, {"timing.transfer_spare": True}),
    (
        {"host.arrival": "closed", "host.outstanding": 0, "host.queue_depth": 4},
        {"host.time_scale": 0.25, "host.unsorted_times": "clamp"},
    ),
    ({"host.link_mb_per_s": 0}, {"host.link_duplex": "half"}),
    (
        {"precondition.kind": "none", "precondition.free_blocks": 0, "geometry.mapping_unit_bytes": 8192},
        {
            "precondition.layout": "blocks", "precondition.pattern": "workload", "precondition.free_blocks": 5,
            "precondition.tolerance": 0.1, "precondition.max_drive_writes": 3,
        },
    ),
    (
        {"precondition.kind": "fill", "precondition.free_blocks": 0},
        {
            "precondition.pattern": "workload", "precondition.free_blocks": 5, "precondition.tolerance": 0.1,
            "precondition.max_drive_writes": 0.5,
        },
    ),
    ({"precondition.kind": "free_blocks"}, {"precondition.tolerance": 0.1}),
    ({"precondition.kind": "steady", "precondition.free_blocks": 0}, {"precondition.free_blocks": 5}),
    (
        {
            **cached("bsb"), "ftl.kind": "map_only", "precondition.kind": "none", "precondition.free_blocks": 0,
            "ftl.gc_low_free_blocks": 2, "ftl.gc_high_free_blocks": 0, "ftl.wear_leveling": "none",
            "ftl.wear_leveling_threshold": 100, "timing.erase_us": 1500,
            "host.outstanding": 0, "host.link_mb_per_s": 0,
        },
        {
            "ftl.gc": "fifo", "ftl.gc_low_free_blocks": 3, "ftl.gc_high_free_blocks": 9, "ftl.gc_choices": 3,
            "ftl.gc_window": 3, "ftl.gc_tie": "lowest", "ftl.gc_open_block": "shared", "ftl.gc_when": "on_access",
            "ftl.allocation": "PDWC", "ftl.striping": "dynamic", "ftl.streams": 3, "ftl.free_block": "next_fit",
            "ftl.wear_leveling": "static", "ftl.wear_leveling_threshold": 7, "timing.erase_us": 2000,
            "timing.copyback": True, "timing.transfer_spare": True, "timing.independent_planes": True,
            "cell.page_order": "shadow_pairs", "host.time_scale": 0.25,
            "host.outstanding": 3, "host.link_mb_per_s": 100, "host.link_duplex": "half",
        },
    ),
    (
        {
            **cached("bsb"), "ftl.kind": "map_only", "precondition.kind": "none", "host.arrival": "closed",
            "host.outstanding": 0,
        },
        {"host.queue_depth": 9},
    ),
]  # fmt: skip
# Needs a drive without a mapping cache, which this kind of translation layer refuses: it can never be set there.
NEVER_SET = {"ftl.plane_choice"}


def sections(keys: dict[str, Any]) -> dict[str, dict[str, Any]]:
    tree: dict[str, dict[str, Any]] = {}
    for key, value in keys.items():
        section, name = key.split(".")
        tree.setdefault(section, {})[name] = value
    return tree


def summary(device: ftlab.Device, **load: Any) -> str:
    result = ftlab.run(device, ftlab.Workload(**{**LOAD, **load})).to_dict()
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


def test_a_note_tells_the_truth() -> None:
    base = ftlab.Device.parse(BASE.replace("transfer_spare = true", ""), "base")
    noted = set()
    for context, keys in IDLE:
        before = base.with_(**sections(context))
        told = summary(before, requests=1500)
        for key, value in keys.items():
            after = before.with_(**sections({key: value}))
            assert not [note for note in before.notes if f": {key} = " in note], (context, key)
            assert [note for note in after.notes if f": {key} = " in note], (context, key)
            assert summary(after, requests=1500) == told, (context, key)
            noted.add(key)
    table = (ROOT / "crates/ftlab-core/src/config_notes.rs").read_text().split("const RULES")[1].split("\n];")[0]
    listed = set(re.findall(r'^\s*(?:keys: &\[)?"(\w+\.\w+)"', table, re.MULTILINE))
    listed |= set(re.findall(r'"(\w+\.\w+)"', " ".join(re.findall(r"keys: &\[.*\]", table))))
    assert listed - NEVER_SET == noted


def test_presets_say_nothing_to_no_effect() -> None:
    for name, _ in ftlab._native.presets("device"):
        assert ftlab.Device.load(name).notes == (), name


@pytest.mark.parametrize("key", CHANGES)
def test_changing_it_changes_the_summary(key: str) -> None:
    value, needs = CHANGES[key]
    device = ftlab.Device.parse(BASE, "base")
    before = device.with_(**sections({name: other for name, other in needs.items() if other is not None}))
    after = before.with_(**sections({key: value}))
    assert summary(before) != summary(after)
