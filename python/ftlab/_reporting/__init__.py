"""Reports: one self-contained page of HTML about a run or a study.

``data`` reads what was run. ``run`` and ``study`` say what stands on the page. ``drawing`` draws the drive, and
``page`` puts it together with the templates and the scripts in ``assets``. A page loads nothing from anywhere.
"""

from ftlab._reporting.write import report

__all__ = ["report"]
