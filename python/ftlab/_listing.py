"""What ftlab brings along: presets of devices and workloads, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ftlab import _native
from ftlab._device import Device
from ftlab._workload import Workload

if TYPE_CHECKING:
    import polars as pl

_GEOMETRY = ("channels", "ways", "dies", "planes", "page_bytes")


def device_rows() -> list[dict[str, Any]]:
    """A row for each device preset."""
    drives = [Device(name) for name, _ in _native.presets("device")]
    return [
        {
            "name": drive.name,
            "description": drive.description,
            "logical_bytes": drive.logical_bytes,
            "physical_bytes": drive.physical_bytes,
            **{key: drive.to_dict()["geometry"][key] for key in _GEOMETRY},
            "cell": drive.to_dict()["cell"]["kind"],
        }
        for drive in drives
    ]


def devices() -> pl.DataFrame:
    """Give the device presets, a row each: name, description, sizes in bytes, geometry and cells.

    >>> "tlc-small" in devices()["name"]
    True
    """
    import polars as pl

    return pl.DataFrame(device_rows())


def workload_rows() -> list[dict[str, Any]]:
    """A row for each workload preset."""
    loads = [Workload.load(name) for name, _ in _native.presets("workload")]
    return [
        {"name": load.name, "description": load.description, "stand_in": load.stand_in, "workload": load.to_dict()}
        for load in loads
    ]


def workloads() -> pl.DataFrame:
    """Give the workload presets, a row each: name, description, kind, and what a stand-in stands for.

    >>> "zipf" in workloads()["name"]
    True
    """
    import polars as pl

    rows = [
        {
            "name": row["name"],
            "description": row["description"],
            "kind": row["workload"].get("kind"),
            "stands_for": None if row["stand_in"] is None else row["stand_in"]["for"],
        }
        for row in workload_rows()
    ]
    return pl.DataFrame(rows, schema_overrides={"kind": pl.String, "stands_for": pl.String})
