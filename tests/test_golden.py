"""Texts that people read, kept word for word.

`FTLAB_UPDATE_GOLDEN=1 pytest tests/test_golden.py` writes them anew; the difference is for the reviewer to read.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from conftest import ROOT, ftlab

GOLDEN = ROOT / "tests" / "golden"
SMALL = ["--set", "geometry.blocks_per_plane=64", "--set", "geometry.pages_per_block=16"]
RUN = ["run", "ideal-page", *SMALL, "--workload", "mix", "--requests", "2000", "--verify"]

CASES = {
    "help": ["--help"],
    "run-table": RUN,
    "run-explained": [*RUN, "--explain"],
    "run-no-timing": [*RUN, "--no-timing"],
    "run-json": [*RUN, "--json"],
    "run-reference": ["run", "msr-ssd", "--workload", "disksim-rw250k", "--set", "host.stop=last_arrival", "--json"],
    "devices": ["devices"],
    "workloads": ["workloads"],
    "scheme": ["schemes", "d_choices"],
    "unknown-preset": ["run", "msr-sdd", "--workload", "uniform"],
    "unknown-key": ["run", "msr-ssd", "--workload", "uniform", "--set", "ftl.gcc=1", "--set", "ftl.gc=gredy"],
    "unknown-command": ["rum"],
    "no-workload": ["run", "msr-ssd"],
}


def cleaned(text: str) -> str:
    text = re.sub(r"simulated in [\d.]+ s", "simulated in # s", text)
    # Memory is watched by tests of the core; here it would only make every change of a table visible.
    return re.sub(r'"(wall_seconds|version|table_bytes|bytes_per_page)": .*', r'"\1": #', text)


@pytest.mark.parametrize("name", CASES)
def test_words(name: str, tmp_path: Path) -> None:
    ran = ftlab(*CASES[name], cwd=tmp_path)
    found = f"$ ftlab {' '.join(CASES[name])}\n{cleaned(ran.out)}--- stderr, status {ran.status}\n{cleaned(ran.err)}"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("FTLAB_UPDATE_GOLDEN"):
        path.write_text(found)
    assert found == path.read_text(), f"{path} differs"
