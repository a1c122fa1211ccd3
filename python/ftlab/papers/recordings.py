"""Recordings that several papers run beside their stand-ins, where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ftlab._workload import TRACES_VARIABLE

# Moves what a trace touches together, so that a small drive holds it.
CLOSED_UP = {"step": "compact", "chunk_bytes": "64KiB"}

# By the name in tables: the file below the folder of traces, and its format.
_FILES = {
    "Nexus 5, starting": ("nexus5-mobile/Booting_log176.txt.zst", "biotracer"),
    "Nexus 5, installing": ("nexus5-mobile/Installing_log181.txt.zst", "biotracer"),
    "MySQL server": ("1and1-datacentre/linux-mysql.load.gz", "blkreplay"),
    "MSR prxy_0, first 20,000": ("msr-cambridge/prxy_0-sample20k.csv.zst", "msr"),
    "MSR rsrch_1": ("msr-cambridge/rsrch_1.csv.zst", "msr"),
    "Financial1, first 10,000": ("umass-spc/ssdsim-example.ascii", "ssdsim"),
    "CloudPhysics disk": ("cloudphysics/cloudPhysicsIO.vscsi", "vscsi"),
}


def recorded(without: tuple[str, ...] = (), folder: Path | None = None) -> list[dict[str, Any]]:
    """Give the recordings that are at hand as workloads, each moved together to the chunks of 64 KiB that it touches.

    Args:
        without: Names of those that are left out.
        folder: Where they are. Default: the folder that ``FTLAB_TRACES`` names, or the one beside a clone.
    """
    folder = folder or Path(os.environ.get(TRACES_VARIABLE) or Path("..", "shared", "traces"))
    return [
        {"path": str(folder / path), "format": form, "label": label, "volumes": "concat", "transform": [CLOSED_UP]}
        for label, (path, form) in _FILES.items()
        if label not in without and (folder / path).is_file()
    ]
