"""The rows of a time series while the run goes on: all of them, in order, and a way to end the run."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import pytest

import ftlab

SMALL = ("geometry.blocks_per_plane=64", "geometry.pages_per_block=16", "precondition.kind=fill")


def drive(*more: str) -> ftlab.Device:
    return ftlab.Device("ideal-page").set(*SMALL, *more)


def workload(requests: int = 20_000) -> ftlab.Workload:
    return ftlab.Workload(kind="mix", requests=requests)


@pytest.mark.parametrize("every", [700, "1ms"])
@pytest.mark.parametrize(
    "device", [drive(), drive("map_cache.kind=dftl", "map_cache.bytes=4KiB")], ids=["ideal", "cached"]
)
def test_the_rows_are_those_of_the_series(device: ftlab.Device, every: int | str) -> None:
    rows: list[dict[str, Any]] = []
    result = ftlab.run(device, workload(), series=every, on_row=rows.append)
    series = result.series
    assert series is not None
    assert len(rows) == series.height > 10
    for told, row in zip(rows, series.to_dicts(), strict=True):
        # What comes up later than the first row is not there before.
        assert set(told) <= set(row)
        for name, value in row.items():
            same = told.get(name, 0)
            assert same == value or (math.isnan(same) and math.isnan(value)), name
    again = ftlab.run(device, workload(), series=every)
    assert again.summary | {"wall_seconds": 0} == result.summary | {"wall_seconds": 0}


@pytest.mark.parametrize("timing", [True, False])
def test_what_a_row_raises_ends_the_run(timing: bool, tmp_path: Path) -> None:
    class EnoughError(Exception):
        pass

    seen: list[int] = []

    def watch(row: dict[str, Any]) -> None:
        seen.append(row["requests"])
        if row["requests"] >= 3_000:
            raise EnoughError

    with pytest.raises(EnoughError):
        ftlab.run(
            drive(), workload(5_000_000), series=1_000, on_row=watch, timing=timing, out=tmp_path / "out", requests=None
        )
    # No row more, although the run was further by then.
    assert seen == [1_000, 2_000, 3_000]
    assert list(tmp_path.iterdir()) == []


def test_rows_come_while_the_run_goes_on() -> None:
    first, running = threading.Event(), threading.Event()

    def run() -> None:
        ftlab.run(drive(), workload(3_000_000), series=1_000, on_row=lambda _: first.set(), timing=False)
        running.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert first.wait(60)
    early = not running.is_set()
    thread.join()
    assert early


@pytest.mark.parametrize("series", ["auto", True, None, False])
def test_rows_that_would_be_joined_later_are_refused(series: Any) -> None:
    with pytest.raises(ftlab.ConfigError, match=r"series = .*: on_row needs an interval whose rows stay as they are"):
        ftlab.run(drive(), workload(), series=series, on_row=print)
