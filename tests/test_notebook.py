"""The notebook of examples: executed, and compared with what it shows.

`FTLAB_UPDATE_GOLDEN=1 pytest tests/test_notebook.py` writes its outputs anew.
"""

from __future__ import annotations

import os
import re
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from conftest import ROOT

NOTEBOOK = ROOT / "examples" / "study.ipynb"
MOST_BYTES = 300_000


def shown(notebook: Any) -> list[dict[str, Any]]:
    """What its cells show, by kind of content."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert [output.output_type for output in outputs if output.output_type == "error"] == []
    found = [dict(output.get("data", {"text/plain": output.get("text")})) for output in outputs]
    # A bar that has ended shows nothing.
    return [each for each in found if each != {"text/plain": ""}]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    home = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch:
        # Neither what the user has set up nor what was here before plays a part.
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(home / name.lower()))
        client = NotebookClient(notebook, timeout=120, kernel_name="python3", record_timing=False)
        client.execute(cwd=str(tmp_path_factory.mktemp("cwd")))
    for cell in notebook.cells:
        cell.metadata = {}
    notebook.metadata["language_info"] = {"name": "python"}
    if os.environ.get("FTLAB_UPDATE_GOLDEN"):
        nbformat.write(notebook, NOTEBOOK)
    return notebook


@pytest.mark.long
def test_the_notebook_shows_what_it_computes(executed: Any) -> None:
    kept = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(kept)
    for found, shows in zip(shown(executed), shown(kept), strict=True):
        assert set(found) == set(shows)
        assert found["text/plain"] == shows["text/plain"]


@pytest.mark.long
def test_the_notebook_goes_from_study_to_figure(executed: Any) -> None:
    outputs = shown(executed)
    assert sum("image/png" in output for output in outputs) == 5
    saved = re.findall(r"'([\w-]+)\.(\w+)'", outputs[-1]["text/plain"])
    names = {"by-space", "by-cause", "improvement", "tail", "latency"}
    assert set(saved) == {(name, form) for name in names for form in ("pdf", "svg", "png")}
    [table] = [output["text/plain"] for output in outputs if "cost_benefit" in output["text/plain"]]
    gains: dict[str, list[float]] = {}
    for name, numbers in re.findall(r"│ (\w+) +┆([\d.┆ -]+)│", table):
        _, count, gain, low, high = (float(number) for number in numbers.split("┆"))
        assert count == 3
        # Choosing victims pays, and that is no chance.
        assert 0.2 < low < gain < high < 0.9
        gains.setdefault(name, []).append(gain)
    assert set(gains) == {"greedy", "cost_benefit"}
    # It pays most where spare space is short.
    assert all(values == sorted(values, reverse=True) and len(values) == 4 for values in gains.values())


def test_the_notebook_is_small_and_of_no_machine() -> None:
    assert NOTEBOOK.stat().st_size < MOST_BYTES
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert not re.search(r"/(tmp|home|root|var|Users)/", text)
    assert str(ROOT) not in text
