"""Sessions: a drive that is fed by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

import ftlab

DEVICE = ftlab.Device.load("ideal-page").set(
    "geometry.channels=2",
    "geometry.ways=2",
    "geometry.blocks_per_plane=32",
    "host.link_mb_per_s=600",
    "precondition.kind=fill",
)


def _table(device: ftlab.Device, rows: int, seed: int = 1) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    units = device.logical_bytes // 4096
    return {
        "arrival_ns": np.cumsum(random.integers(0, 200_000, rows)),
        "op": random.integers(0, 3, rows),
        "lba": random.integers(0, units - 8, rows) * 8,
        "sectors": random.integers(1, 64, rows),
    }


@pytest.mark.parametrize("depth", [1, 4, 32])
def test_a_closed_loop_is_a_run(depth: int) -> None:
    table = _table(DEVICE, 500)
    device = DEVICE.with_(host={"arrival": "closed", "queue_depth": depth})
    run = ftlab.run(device, table, requests_log=True, verify=True)
    with ftlab.Session(device, verify=True) as session:
        sent = session.send(table, queue_depth=depth)
    assert run.requests is not None
    expected = run.requests.rename({"index": "id"})
    # A session does not say what requests wait for.
    assert sent.columns == [name for name in expected.columns if "service_" not in name and "wait_" not in name]
    for column in sent.columns:
        assert sent[column].to_list() == expected[column].to_list(), column
    differing = {key for key, value in session.summary.items() if run.summary[key] != value}
    assert differing <= {"workload", "wall_seconds", "memory"}


def test_own_times_are_a_run() -> None:
    device = DEVICE.with_(host={"arrival": "open", "outstanding": 4})
    table = _table(device, 500)
    run = ftlab.run(device, table, requests_log=True)
    assert run.requests is not None
    sent = ftlab.Session(device).send(table, queue_depth=None)
    assert sent["end_ns"].to_list() == run.requests["end_ns"].to_list()

    # Fed one by one, each completion fetched as it comes.
    session = ftlab.Session(device)
    ends: list[int] = []
    names = ("read", "write", "trim")
    for at, op, lba, sectors in zip(*(np.asarray(table[key]).tolist() for key in table), strict=True):
        ends += session.advance(at)["end_ns"].to_list()
        session.submit(names[op], lba, sectors, at_ns=at)
    while (completion := session.next_event()) is not None:
        ends.append(round(completion.end_ns))
    assert ends == run.requests["end_ns"].to_list()


def test_fua_is_told_back() -> None:
    session = ftlab.Session(DEVICE)
    done = [session.wait(session.submit(op, 0, 8, fua=True)) for op in ("write", "read")]
    assert [each.fua for each in done] == [True, False]
    assert session.wait(session.submit("write", 0, 8)).fua is False


def test_a_gap_follows_each_completion() -> None:
    table = _table(DEVICE, 20)
    sent = ftlab.Session(DEVICE).send(pl.DataFrame(table), gap_ns=5000)
    assert (sent["arrival_ns"][1:] - sent["end_ns"][:-1]).to_list() == [5000] * 19


def test_forks_go_on_alike() -> None:
    session = ftlab.Session(DEVICE)
    session.send(_table(DEVICE, 200), queue_depth=4)
    forks = [session.fork(), session.fork()]
    session.send(_table(DEVICE, 300, seed=2), queue_depth=8)
    one, other = (fork.send(_table(DEVICE, 200, seed=3), queue_depth=4) for fork in forks)
    assert one.equals(other)
    assert forks[0].now_ns == forks[1].now_ns
    assert forks[0].close() == forks[1].close()


def test_groups_arrive_at_one_instant() -> None:
    session = ftlab.Session(DEVICE)
    table = {key: column[:40] for key, column in _table(DEVICE, 40).items() if key != "arrival_ns"}
    sent = session.send_together(table, 4, gap_ns=1_000_000)
    groups = sent.with_columns(group=pl.col("id") // 4).group_by("group", maintain_order=True)
    arrival, end = pl.col("arrival_ns"), pl.col("end_ns")
    spans = groups.agg(arrival.n_unique().alias("arrivals"), arrival.min(), end.max())
    assert spans["arrivals"].to_list() == [1] * 10
    gaps = (spans["arrival_ns"].shift(-1) - spans["end_ns"]).drop_nulls()
    assert all(abs(gap - 1_000_000) <= 1 for gap in gaps)


def test_idle_time_passes() -> None:
    session = ftlab.Session(DEVICE)
    session.submit("write", 0, 8)
    assert session.idle(5_000_000).height == 1
    assert session.now_ns == 5_000_000
    flushed, trimmed = session.flush(), session.trim(0, 8)
    assert (flushed.op, flushed.sectors, trimmed.op, trimmed.sectors) == ("flush", 0, "trim", 8)
    assert session.idle(1).height == 0


def test_a_batch_on_forks_takes_the_same_again() -> None:
    device = ftlab.Device.load("white-box-64g").set("geometry.blocks_per_plane=64")
    session = ftlab.Session(device)
    batch = {key: column for key, column in _table(device, 300).items() if key != "arrival_ns"}
    session.send(batch, queue_depth=4)
    once, again = (session.fork().send_together(batch, 3, gap_ns=500) for _ in range(2))
    assert once.equals(again)
    assert once.equals(session.send_together(batch, 3, gap_ns=500))


def test_the_white_box_drive_takes_what_its_paper_says() -> None:
    device = ftlab.Device.load("white-box-64g").set("geometry.blocks_per_plane=64", "host.link_mb_per_s=0")
    session = ftlab.Session(device)
    host, buffer, program, read, transfer = 10_000, 1_440, 200_100, 25_000, 51_200
    for block, pages in enumerate((1, 7, 64)):
        address = {"lba": [256 * block], "sectors": [4 * pages]}
        missed, written, hit = (
            session.send({"op": [op], **address})["latency_ns"].item() for op in ("read", "write", "read")
        )
        assert missed == host + pages * (read + transfer)
        assert written == host + pages * program
        assert hit == host + pages * buffer


REFUSED: dict[str, Callable[[ftlab.Session], object]] = {
    "arrive at 9000": lambda session: session.submit("write", 0, 8, at_ns=9000),
    "beyond the end of the drive": lambda session: session.submit("read", session.sectors - 1, 2),
    "needs at least one sector": lambda session: session.submit("read", 0, 0),
    "request 7 does not exist": lambda session: session.wait(7),
    "cannot go back to 9999 ns": lambda session: session.advance(9999),
    "reach beyond": lambda session: session.send({"op": ["read"], "lba": [session.sectors], "sectors": [1]}),
    "after more than 106 days": lambda session: session.advance(2**63),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused_changes_nothing(message: str) -> None:
    session = ftlab.Session(DEVICE)
    session.advance(10_000)
    first = session.submit("write", 0, 8, at_ns=20_000)
    with pytest.raises(ftlab.SessionError, match=message) as raised:
        REFUSED[message](session)
    assert isinstance(raised.value, ftlab.InputError)
    assert (session.now_ns, session.outstanding) == (10_000, 1)
    assert session.submit("write", 8, 8) == first + 1
    assert session.wait(first).arrival_ns == 20_000
    assert session.outstanding == 1
    assert session.close()["host"]["completed"] == 2


def test_a_closed_session_says_so() -> None:
    session = ftlab.Session(DEVICE)
    session.submit("flush")
    summary = session.close()
    assert session.summary is summary
    calls: list[Callable[[], object]] = [
        lambda: session.submit("write", 0, 8),
        session.next_event,
        session.advance,
        session.fork,
        session.close,
        lambda: session.send({"op": ["read"], "lba": [0], "sectors": [1]}),
        lambda: session.send_together({"op": ["read"], "lba": [0], "sectors": [1]}, 1),
        lambda: session.idle(1),
        session.flush,
        lambda: session.trim(0, 8),
        lambda: session.now_ns,
    ]
    for call in calls:
        with pytest.raises(ftlab.SessionError, match="closed"):
            call()


def test_devices_without_a_clock_have_no_session() -> None:
    with pytest.raises(ftlab.ConfigError, match=r"model.*mapping_cache.*session"):
        ftlab.Session("map-cache-model")
    with pytest.raises(ftlab.ConfigError, match=r"precondition\.pattern"):
        ftlab.Session(DEVICE.set("precondition.kind=steady", "precondition.pattern=workload"))


def test_options_are_checked() -> None:
    session = ftlab.Session(DEVICE)
    table = {"op": ["read"], "lba": [0], "sectors": [1]}
    with pytest.raises(ftlab.ConfigError, match="queue_depth = 0"):
        session.send(table, queue_depth=0)
    with pytest.raises(ftlab.ConfigError, match="gap_ns = -1"):
        session.send(table, gap_ns=-1)
    with pytest.raises(ftlab.ConfigError, match="count = 0"):
        session.send_together(table, 0)
    with pytest.raises(ftlab.ConfigError, match="span_ns = -1"):
        session.idle(-1)
    with pytest.raises(ftlab.InputError, match="op = 'erase'"):
        session.submit("erase", 0, 8)
    with pytest.raises(ftlab.InputError, match="column 'lba' is missing"):
        session.send({"op": ["read"], "sectors": [1]})
    assert session.send({"op": [], "lba": [], "sectors": []}).height == 0


def test_two_threads_do_not_feed_one_session_at_once() -> None:
    session = ftlab.Session(DEVICE)
    table, refused, done = _table(DEVICE, 200_000), list[str](), threading.Event()

    def send() -> None:
        session.send(table, queue_depth=8)
        done.set()

    thread = threading.Thread(target=send)
    thread.start()
    while not done.is_set():
        try:
            assert session.now_ns >= 0
        except ftlab.SessionError as error:
            refused.append(str(error))
    thread.join()
    assert set(refused) == {"the session is in use by another thread"}
    assert session.summary["host"]["completed"] == 200_000


def test_a_drive_that_would_never_end_raises_run_errors() -> None:
    drive = ftlab.Device.load("ideal-page").set(
        "geometry.blocks_per_plane=64", "precondition.kind=none", "timing.program_us=3.6e9"
    )
    session = ftlab.Session(drive)
    with pytest.raises(ftlab.RunError, match="213 days"):
        session.send({"op": ["write"] * 6000, "lba": [0] * 6000, "sectors": [8] * 6000})
    assert 5000 < session.advance().height < 6000
    for call in (session.next_event, session.advance, lambda: session.submit("write", 0, 8), session.close):
        with pytest.raises(ftlab.RunError, match="213 days"):
            call()
