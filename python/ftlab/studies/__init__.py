"""Studies: grids of runs, executed in parallel, stored, resumed, and read as one tidy table.

``spec`` turns a description into fully determined runs, and ``description`` is what such a run is. ``executor`` runs
them, behind an interface that a cluster can have too. ``store`` keeps what they measured, ``drive`` puts these
together, and ``frame`` makes tables of it.
"""

from ftlab.studies.description import Description, Outcome, execute, key_of
from ftlab.studies.drive import Part, Watch, run_study, study
from ftlab.studies.executor import Executor, ThreadExecutor
from ftlab.studies.spec import Run, Study
from ftlab.studies.store import Store, StudyRecord

__all__ = [
    "Description",
    "Executor",
    "Outcome",
    "Part",
    "Run",
    "Store",
    "Study",
    "StudyRecord",
    "ThreadExecutor",
    "Watch",
    "execute",
    "key_of",
    "run_study",
    "study",
]
