"""What is true of a simulated drive, by its device file: for judging, never for scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ftlab._device import Device
    from ftlab.characterize.flow import Finding

_US = 1e3
# Orders of a buffer that keep nothing of what is read.
_WRITES_ONLY = frozenset({"bplru", "clc", "fab", "ref"})


def truths(device: Device) -> dict[str, float | str]:
    """The true value of each parameter that a device file states; what it does not have is absent."""
    all_keys = device.to_dict()
    geometry, timing, ftl, host = (all_keys[name] for name in ("geometry", "timing", "ftl", "host"))
    buffer = all_keys.get("buffer", {})
    page, pages = geometry["page_bytes"], geometry["pages_per_block"]
    unit = geometry.get("mapping_unit_bytes") or page
    planes = geometry["planes"] if timing.get("independent_planes") else 1
    size = buffer.get("bytes", 0) if buffer.get("kind", "none") != "none" else 0
    keeps_reads = buffer.get("kind") not in _WRITES_ONLY and buffer.get("keep_reads", True)
    kind = ftl["kind"]
    # Spare bytes that cross the bus look like a slower one.
    crossing = page + (geometry["spare_bytes"] if timing["transfer_spare"] else 0)
    true: dict[str, float | str] = {
        "block_bytes": page * pages,
        "page_bytes": page,
        "mapping_unit_bytes": unit,
        "channels": geometry["channels"],
        "ways": geometry["ways"] * geometry.get("dies", 1) * planes,
        "bus_mb_per_s": timing["bus_mb_per_s"] * page / crossing,
        # Whatever the rate of a link that takes no time, a buffer's is the first that data meet.
        "link_mb_per_s": host["link_mb_per_s"] or (buffer.get("mb_per_s", 0.0) if size else 0.0),
        "host_overhead_ns": host.get("overhead_us", 0.0) * _US,
        "buffer_bytes": size,
        "read_buffer_bytes": size if keeps_reads else 0,
        "write_policy": buffer.get("write", "back") if size else "none",
        "translation": kind,
        "trim_effective": "yes",
        "placement": "write_order" if kind == "page" and ftl.get("striping") == "dynamic" else "address",
        "over_provisioning": device.physical_bytes / device.logical_bytes - 1,
    }
    true |= _collection(device, all_keys)
    # Each command begins with its own time, which nobody can see apart; a transfer is seen apart from a program.
    apart = page * _US / timing["bus_mb_per_s"] if _includes_transfer(timing) else 0.0
    for command, less in (("read", 0.0), ("program", apart), ("erase", 0.0)):
        each = timing[f"{command}_us"]
        if isinstance(each, (int, float)):
            true[f"{command}_ns"] = (each + timing["command_us"]) * _US - less
    if size:
        true["buffer_ns"] = buffer.get("access_us", 0.0) * _US
        if buffer.get("hiding") is not None:
            true["hiding_percent"] = 100 * buffer["hiding"]
    if true["placement"] == "address":
        true["chunk_bytes"] = page if kind == "page" else page * pages
    if ftl.get("log_blocks") and kind == "bast":
        true["log_blocks"] = ftl["log_blocks"]
    return true


def _includes_transfer(timing: dict[str, Any]) -> bool:
    """Whether the time of a program has a transfer in it that shows: not where copies stay inside flash."""
    return bool(timing["program_includes_transfer"] and timing["bus_mb_per_s"] and not timing["copyback"])


def _collection(device: Device, keys: dict[str, Any]) -> dict[str, float]:
    """What collection does to a drive that was filled in order."""
    geometry, ftl = keys["geometry"], keys["ftl"]
    block = geometry["page_bytes"] * geometry["pages_per_block"]
    if ftl["kind"] in {"bast", "fast"}:
        return {"gc_unit_bytes": block}
    striped = ftl.get("placement", "stripe") == "stripe" and ftl.get("streams", 1) == 1
    if ftl["kind"] != "page" or not striped or ftl.get("allocation", "CWDP") != "CWDP":
        return {}
    dies = geometry["channels"] * geometry["ways"] * geometry.get("dies", 1)
    unit = block * dies * geometry["planes"]
    true: dict[str, float] = {"gc_unit_bytes": unit}
    # A plane collects when the block that it opens leaves as few as that, and the next page is written.
    opened = geometry["blocks_per_plane"] - ftl["gc_low_free_blocks"] - 1
    onset = opened * unit - device.logical_bytes
    if keys["precondition"]["kind"] == "fill" and onset > 0:
        true["gc_onset_bytes"] = onset
        # One unit has no parts.
        true |= {"volumes": 1 if ftl.get("striping") == "dynamic" else dies} if dies > 1 else {}
    return true


def is_right(finding: Finding, truth: float | str) -> bool:
    """Whether a value that is found holds the truth."""
    value = finding.value
    if isinstance(value, str) or value is None or isinstance(truth, str):
        return value == truth
    if finding.parameter.exact:
        return value.value == truth
    return value.holds(truth)
