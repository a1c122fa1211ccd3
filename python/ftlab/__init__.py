"""ftlab, the flash translation lab: describe a drive, give it a workload, see what its FTL does.

>>> import ftlab
>>> device = ftlab.Device("ideal-page").set("geometry.blocks_per_plane=64")
>>> result = ftlab.run(device, ftlab.Workload(kind="uniform", requests=1000, request_bytes=4096))
>>> result.summary["host"]["writes"]
1000
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ftlab._native import __version__
from ftlab.lazy import names_of

if TYPE_CHECKING:
    from ftlab import analysis, figures
    from ftlab.conversion import convert, merge, split
    from ftlab.crashing import CrashCase, CrashResult, crash
    from ftlab.device import Device
    from ftlab.errors import ConfigError, FtlabError, InputError, RunError, SessionError
    from ftlab.explaining import Explanation, explain
    from ftlab.listing import devices, workloads
    from ftlab.recording import Recording, record
    from ftlab.reporting import report
    from ftlab.result import Result
    from ftlab.running import run
    from ftlab.session import Completion, Session
    from ftlab.statistics import Fit, TraceStats, fit, trace_stats
    from ftlab.studies import Store, Study, study
    from ftlab.workload import Trace, Workload

__all__ = [
    "Completion",
    "ConfigError",
    "CrashCase",
    "CrashResult",
    "Device",
    "Explanation",
    "Fit",
    "FtlabError",
    "InputError",
    "Recording",
    "Result",
    "RunError",
    "Session",
    "SessionError",
    "Store",
    "Study",
    "Trace",
    "TraceStats",
    "Workload",
    "__version__",
    "analysis",
    "convert",
    "crash",
    "devices",
    "explain",
    "figures",
    "fit",
    "merge",
    "record",
    "report",
    "run",
    "split",
    "study",
    "trace_stats",
    "workloads",
]

__getattr__ = names_of(
    __name__,
    {
        "analysis": (),
        "conversion": ("convert", "merge", "split"),
        "crashing": ("CrashCase", "CrashResult", "crash"),
        "device": ("Device",),
        "errors": ("ConfigError", "FtlabError", "InputError", "RunError", "SessionError"),
        "explaining": ("Explanation", "explain"),
        "figures": (),
        "listing": ("devices", "workloads"),
        "recording": ("Recording", "record"),
        "reporting": ("report",),
        "result": ("Result",),
        "running": ("run",),
        "session": ("Completion", "Session"),
        "statistics": ("Fit", "TraceStats", "fit", "trace_stats"),
        "studies": ("Store", "Study", "study"),
        "workload": ("Trace", "Workload"),
    },
)


def __dir__() -> list[str]:
    return __all__
