"""ftlab, the flash translation lab: describe a drive, give it a workload, see what its FTL does.

>>> import ftlab
>>> device = ftlab.Device("ideal-page").set("geometry.blocks_per_plane=64")
>>> result = ftlab.run(device, ftlab.Workload(kind="uniform", requests=1000, request_bytes=4096))
>>> result.summary["host"]["writes"]
1000
"""

from ftlab import _lazy
from ftlab._native import __version__

if _lazy.TYPE_CHECKING:
    from ftlab import analysis, errors, figures
    from ftlab._conversion import convert, merge, split
    from ftlab._crashing import CrashCase, CrashResult, crash
    from ftlab._device import Device
    from ftlab._explaining import Explanation, explain
    from ftlab._listing import devices, workloads
    from ftlab._recording import Recording, record
    from ftlab._reporting import report
    from ftlab._result import Result
    from ftlab._running import run
    from ftlab._session import Completion, Session
    from ftlab._statistics import Fit, TraceStats, fit, trace_stats
    from ftlab._workload import Trace, Workload
    from ftlab.errors import ConfigError, FtlabError, InputError, Interrupted, RunError, SessionError
    from ftlab.studies import Store, Study, study

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
    "Interrupted",
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
    "errors",
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

__getattr__ = _lazy.names_of(
    __name__,
    {
        "_conversion": ("convert", "merge", "split"),
        "_crashing": ("CrashCase", "CrashResult", "crash"),
        "_device": ("Device",),
        "_explaining": ("Explanation", "explain"),
        "_listing": ("devices", "workloads"),
        "_recording": ("Recording", "record"),
        "_reporting": ("report",),
        "_result": ("Result",),
        "_running": ("run",),
        "_session": ("Completion", "Session"),
        "_statistics": ("Fit", "TraceStats", "fit", "trace_stats"),
        "_workload": ("Trace", "Workload"),
        "analysis": (),
        "errors": ("ConfigError", "FtlabError", "InputError", "Interrupted", "RunError", "SessionError"),
        "figures": (),
        "studies": ("Store", "Study", "study"),
    },
)

# Made by what is called, never by the user: completion leaves them out. All errors are in `errors`.
_MADE = {"Completion", "CrashCase", "CrashResult", "Explanation", "Fit", "Recording", "Result", "TraceStats"}


def __dir__() -> list[str]:
    return [name for name in __all__ if name not in _MADE and not name.endswith("Error") and name != "Interrupted"]
