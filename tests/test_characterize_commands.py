"""`ftlab characterize` as a command: what it keeps, what it goes on from, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from conftest import ftlab
from ftlab import Device
from ftlab.characterize import Flow, SimulatedTarget
from ftlab.characterize.detect import Interval
from ftlab.characterize.report import state
from ftlab.characterize.scenario import Estimate, Scenario
from ftlab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEVICE = """
[geometry]
channels = 2
ways = 1
planes = 1
blocks_per_plane = 400
pages_per_block = 64
page_bytes = 4096
[timing]
read_us = 50
program_us = 600
erase_us = 3000
bus_mb_per_s = 200
[precondition]
kind = "none"
"""
ASKED = ("--only", "host_overhead_ns")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("characterize")
    (folder / "drive.toml").write_text(DEVICE)
    done = ftlab("characterize", folder / "drive.toml", *ASKED, "--report", folder / "report")
    assert done.status == 0, done.err
    return folder


def _documents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "report").iterdir()}


@pytest.mark.long
def test_the_same_seed_gives_the_same_report_to_the_byte(measured: Path, tmp_path: Path) -> None:
    (tmp_path / "drive.toml").write_text(DEVICE)
    ftlab("characterize", tmp_path / "drive.toml", *ASKED, "--report", tmp_path / "report")
    assert _documents(tmp_path) == _documents(measured)
    assert any(name.endswith(".svg") for name in _documents(measured))


def test_what_does_not_apply_is_gone_on_from() -> None:
    def flow() -> Flow:
        return Flow(SimulatedTarget(Device.parse(DEVICE)), only=("buffer_ns",))

    first, again = flow().run(), flow()
    again.resume(json.loads(json.dumps(state(first))))
    assert again.run().document()["parameters"] == first.document()["parameters"]
    assert first.findings["buffer_ns"].status == "not_applicable"


@pytest.mark.long
@pytest.mark.parametrize("changed", [("--noise", "sigma=0.05"), ("--seed", "2")])
def test_a_state_of_something_else_is_refused(measured: Path, changed: tuple[str, str]) -> None:
    done = ftlab("characterize", measured / "drive.toml", *ASKED, "--resume", measured / "report", *changed)
    assert done.status == 2
    assert "found the state of drive" in done.err


@pytest.mark.long
@pytest.mark.parametrize("content", ["[]", "{}", '{"state": {}, "sha256": "0"}', "no JSON"])
def test_a_damaged_state_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "drive.toml").write_text(DEVICE)
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "state.json").write_text(content)
    done = ftlab("characterize", tmp_path / "drive.toml", "--resume", tmp_path / "report")
    assert done.status == 2
    assert "found no state of a characterization" in done.err
    assert "Traceback" not in done.err


@pytest.mark.long
def test_a_simulated_drive_has_no_data_to_lose(measured: Path) -> None:
    done = ftlab("characterize", measured / "drive.toml", "--destroy-data-on", "drive.toml")
    assert done.status == 2
    assert "is simulated" in done.err


def _flow(run: Callable[[], list[Estimate]]) -> Flow:
    """A flow of one scenario, which says what `run` does."""
    made = Scenario(
        name="made",
        finds=("read_ns",),
        needs=(),
        assumes="",
        sends="",
        estimator="",
        drive_writes="",
        run=lambda _bench, _effort: run(),
    )
    return Flow(SimulatedTarget(Device.parse(DEVICE)), only=("read_ns",), scenarios=(made,))


@pytest.mark.parametrize(
    ("value", "status"),
    [
        (Interval(50_000, 49_999, 50_001), "found"),
        (Interval(50_000, 50_100, 49_900), "unknown"),
        (Interval(-20_477, -20_481, -20_473), "unknown"),
        (Interval(float("nan"), 0, 1), "unknown"),
    ],
)
def test_what_is_no_time_is_not_found(value: Interval, status: str) -> None:
    assert _flow(lambda: [Estimate("read_ns", value, 1.0, None, "")]).run().findings["read_ns"].status == status


def test_a_number_that_cannot_be_made_leaves_a_parameter_unknown() -> None:
    flow = _flow(lambda: [Estimate("read_ns", Interval.around(1 / 0, 1), 1.0, None, "")])
    finding = flow.run().findings["read_ns"]
    assert finding.status == "unknown"
    assert "gives no number" in finding.reason


def test_the_state_of_another_target_is_refused() -> None:
    with pytest.raises(InputError, match="found the state of None"):
        _flow(list).resume({})
