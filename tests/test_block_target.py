"""Real drives as targets: files, and loop devices. Where the system has none, the tests say so and pass over."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ftlab.characterize.block import BlockTarget, TargetError, open_block
from ftlab.characterize.target import FLUSH, READ, TRIM, WRITE, Batch, Target, open_target
from ftlab.errors import ConfigError, InputError, SessionError

MIB = 1 << 20
# What a system may lack, in the words of its refusal.
LACKING = ("io_uring", "O_DIRECT", "Linux only")


def opened(path: Path, **options: Any) -> BlockTarget:
    """Open a target, or pass over the test where this system has no way to."""
    try:
        return BlockTarget(path, destroy=path, **options)
    except ConfigError as error:
        if any(word in str(error) for word in LACKING):
            pytest.skip(str(error))
        raise


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give a file of 8 MiB, beside another one."""
    (tmp_path / "neighbour").write_bytes(b"untouched" * 1000)
    file = tmp_path / "target"
    file.write_bytes(b"\x11" * 8 * MIB)
    return file


@contextmanager
def loop_device(file: Path) -> Iterator[Path]:
    """Show a file as a block device."""
    losetup = shutil.which("losetup") or shutil.which("losetup", path="/usr/sbin:/sbin")
    if losetup is None:
        pytest.skip("no losetup: no loop device was measured")
    made = subprocess.run(
        [losetup, "--find", "--show", "--direct-io=on", file], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"no loop device: {made.stderr}")
    try:
        yield Path(made.stdout.strip())
    finally:
        subprocess.run([losetup, "--detach", made.stdout.strip()], check=False)


def mixed(target: BlockTarget, rows: int, seed: int) -> Batch:
    """Give random reads and writes, some of several blocks, and a flush now and then."""
    random = np.random.default_rng(seed)
    unit = max(target.features["unit_sectors"], 8)
    op = random.choice([READ, WRITE], rows)
    op[::25] = FLUSH
    sectors = random.integers(1, 9, rows) * unit
    lba = random.integers(0, target.capacity // unit - 9, rows) * unit
    return Batch.of(op, lba, np.where(op == FLUSH, 0, sectors), queue_depth=4)


def test_a_file_is_a_target(path: Path) -> None:
    target = opened(path)
    assert isinstance(target, Target)
    assert target.capacity == 8 * MIB // 512
    assert target.features["kind"] == "file"
    assert target.features["file_system"]
    assert any("file" in text for text in target.features["warnings"])
    times = target.send(mixed(target, 200, 1))
    assert (times.latency_ns > 0).all()
    assert target.flush() > 0
    assert target.trim(0, target.features["unit_sectors"] * 8) > 0
    with pytest.raises(ConfigError, match="cannot be copied"):
        target.fork()
    assert target.features["fork"] is False
    assert target.device_counts is None
    assert len(target.send(Batch.of(READ, [], 8)).start_ns) == 0


def test_requests_of_one_instant_start_together(path: Path) -> None:
    target = opened(path)
    at = np.repeat(np.arange(5) * 10_000_000, 2)
    begin = time.perf_counter()
    times = target.send(Batch.of(READ, np.arange(10) * 64, 8, at_ns=at))
    assert time.perf_counter() - begin >= 0.04
    starts = times.start_ns.reshape(-1, 2)
    assert (starts[:, 0] == starts[:, 1]).all()
    assert (starts[:, 0] >= at[::2]).all()
    gaps = target.send(Batch.of(READ, [0, 8, 16], 8, gap_ns=1_000_000))
    assert (gaps.start_ns[1:] - gaps.end_ns[:-1] >= 1_000_000).all()
    begin = time.perf_counter()
    target.idle(5_000_000)
    assert time.perf_counter() - begin >= 0.005


def test_requests_do_not_come_from_the_page_cache(path: Path) -> None:
    target = opened(path)
    unit = max(target.features["unit_sectors"], 8)
    lba = np.arange(0, target.capacity, unit)
    target.send(Batch.of(READ, lba[:500], unit, queue_depth=8))
    target.send(Batch.of(WRITE, lba[500:700], unit, queue_depth=8))
    assert target.cached_bytes(0, target.capacity) == 0
    # The same question finds what another program has read into the cache.
    with path.open("rb") as other:
        other.read(64 << 10)
    assert target.cached_bytes(0, target.capacity) >= 64 << 10


def test_what_is_written_is_proven_and_nothing_else_is_touched(path: Path) -> None:
    others = {file: file.read_bytes() for file in path.parent.iterdir() if file != path}
    target = opened(path, seed=7)
    half, unit = target.capacity // 2, max(target.features["unit_sectors"], 8)
    lba = np.random.default_rng(3).permutation(np.arange(0, half, unit))
    target.send(Batch.of(WRITE, lba, unit, queue_depth=16))
    target.send(Batch.of(READ, [0, half], half, queue_depth=1))
    assert (target.verified_sectors, target.unknown_sectors) == (half, half)
    target.send(mixed(target, 300, 2))
    assert target.verified_sectors > half
    target.close()
    data = np.frombuffer(path.read_bytes(), dtype="<u8").reshape(-1, 64)
    assert (data[:half, 0] == int.from_bytes(b"ftlabsec", "little")).all()
    assert (data[:half, 1] == 7).all()
    assert (data[:half, 2] == np.arange(half)).all()
    assert {file: file.read_bytes() for file in path.parent.iterdir() if file != path} == others
    assert path.stat().st_size == 8 * MIB


def test_changed_data_are_told(path: Path) -> None:
    target = opened(path)
    target.send(Batch.of(WRITE, [0, 64], 64))
    with path.open("r+b") as other:
        other.seek(70 * 512)
        other.write(bytes(8))
        os.fsync(other.fileno())
    with pytest.raises(TargetError, match="sector 70 holds nothing that was written") as told:
        target.send(Batch.of(READ, [0, 64], 64))
    assert told.value.done.all()
    # Without comparison nobody sees it.
    target.close()
    with opened(path, verify=False) as unverified:
        unverified.send(Batch.of(READ, [64], 64))
        assert (unverified.verified_sectors, unverified.unknown_sectors) == (0, 0)
    with pytest.raises(SessionError, match="the target is closed"):
        unverified.send(Batch.of(READ, [64], 64))


def test_a_target_that_fails_midway_keeps_what_was_measured(path: Path) -> None:
    target = opened(path)
    os.truncate(path, 4 * MIB)
    lba = np.arange(8) * 2048
    with pytest.raises(TargetError, match=r"the target has become shorter \(4 of 8 requests were measured\)") as told:
        target.send(Batch.of(READ, lba, 8))
    assert told.value.done.tolist() == [True] * 4 + [False] * 4
    assert (told.value.times.latency_ns[:4] > 0).all()
    assert np.isnan(told.value.times.latency_ns[4:]).all()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (Batch.of(READ, [0, 1 << 40], 8), "request 1: lba = 1099511627776, sectors = 8: expected to end by 16384"),
        (Batch.of(9, [0], 8), "request 0: op = 9: expected 0 to 3"),
        (Batch.of(1 << 40, [0], 8), "request 0: op = 255: expected 0 to 3"),
        (Batch.of(READ, [0], 0), "request 0: sectors = 0: expected 1 or more for a read"),
        (Batch.of(READ, [0], 1 << 33), "request 0: sectors = 8589934592: expected below 2^32"),
        (Batch.of(READ, [0], 8, queue_depth=2000), "queue_depth = 2000: expected 1 to 1024"),
        (Batch.of(READ, [0, 8], 8, at_ns=[5, 4]), "request 1: at_ns = 4: expected 5 or later"),
    ],
)
def test_wrong_batches_are_refused(path: Path, batch: Batch, message: str) -> None:
    target = opened(path)
    with pytest.raises(InputError) as told:
        target.send(batch)
    assert message in str(told.value)
    assert target.cached_bytes(0, 8) == 0


def test_only_the_target_that_was_named_is_opened(path: Path, tmp_path: Path) -> None:
    opened(path)
    link = tmp_path / "link"
    link.symlink_to(path)
    for other in (None, link, tmp_path / "." / "x", str(tmp_path) + "//target"):
        with pytest.raises(ConfigError, match="--destroy-data-on: found"):
            BlockTarget(path, destroy=other)
    address = f"file:{path}"
    for wrong in (None, str(path), f"file:{link}"):
        with pytest.raises(ConfigError, match="--destroy-data-on: found"):
            open_block(address, destroy=wrong)
    target = open_target(address, destroy=address)
    assert target.capacity == 8 * MIB // 512
    with pytest.raises(ConfigError, match="in use: another program has it open"):
        BlockTarget(path, destroy=path)
    with pytest.raises(ConfigError, match="too small: found 8388608 bytes, expected at least 1073741824"):
        BlockTarget(path, destroy=path, least_bytes=1 << 30)
    with pytest.raises(ConfigError, match='wait = "nap": expected spin or sleep'):
        BlockTarget(path, destroy=path, wait="nap")
    with pytest.raises(ConfigError, match="expected a block device or a regular file"):
        BlockTarget(tmp_path, destroy=tmp_path)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_a_pause(path: Path) -> None:
    target = opened(path)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        target.idle(60_000_000_000)
    assert time.perf_counter() - begin < 10
    assert target.send(Batch.of(READ, [0], 8)).latency_ns[0] > 0


def test_a_loop_device_is_a_target_and_its_settings_stay(path: Path) -> None:
    with loop_device(path) as device:
        queue = Path("/sys/block") / device.name / "queue"

        def settings() -> dict[str, str]:
            found = {}
            for file in queue.iterdir():
                try:
                    found[file.name] = file.read_text()
                except OSError:
                    continue
            return found

        before = settings()
        target = opened(device)
        counts = target.device_counts
        assert counts is not None
        target.send(Batch.of(READ, np.arange(20) * 8, 8, queue_depth=2))
        # As they were sent: none merged, none cut, none out of the page cache.
        assert target.device_counts == counts | {
            "reads": counts["reads"] + 20, "read_sectors": counts["read_sectors"] + 160
        }  # fmt: skip
        assert target.features["kind"] == "block"
        assert target.features["device"] == device.name
        assert target.features["logical_block_bytes"] == int(before["logical_block_size"])
        assert target.features["rotational"] == bool(int(before["rotational"]))
        assert f"[{target.features['scheduler']}]" in before["scheduler"] or len(before["scheduler"].split()) == 1
        assert target.features["write_cache"] == before["write_cache"].strip()
        times = target.send(mixed(target, 200, 5))
        assert (times.latency_ns > 0).all()
        target.send(Batch.of([WRITE, READ], [0, 0], 2048))
        assert target.verified_sectors >= 2048
        assert target.cached_bytes(0, target.capacity) == 0
        if target.features["trim"]:
            assert target.trim(0, 2048) > 0
        else:
            with pytest.raises(InputError, match="cannot trim"):
                target.trim(0, 2048)
        assert settings() == before
        # The file below is in use as long as the device shows it.
        with pytest.raises(ConfigError, match=f"in use by {device.name}"):
            BlockTarget(path, destroy=path)
        os.truncate(path, 4 * MIB)
        with pytest.raises(TargetError, match="read of 8 sectors at sector 8192: Input/output error"):
            target.send(Batch.of([READ, READ], [0, 8192], 8))
        target.close()


def test_trims_may_stand_in_a_batch(path: Path) -> None:
    target = opened(path)
    times = target.send(Batch.of([WRITE, TRIM, READ, WRITE, READ], [0, 0, 0, 0, 0], 64, queue_depth=4))
    # They wait for what is outstanding, and what follows waits for them.
    assert times.start_ns[1] >= times.end_ns[0]
    assert (times.start_ns[2:] >= times.end_ns[1]).all()


def _fio_median(fio: str, path: Path) -> float:
    command = [
        fio, "--name=read", f"--filename={path}", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=io_uring",
        "--iodepth=1", "--number_ios=1000", "--lat_percentiles=1", "--output-format=json", "--randrepeat=1",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        pytest.skip(f"fio cannot read through io_uring here: {done.stderr}")
    document = json.loads(done.stdout[done.stdout.index("{") :])
    return float(document["jobs"][0]["read"]["lat_ns"]["percentile"]["50.000000"])


def test_a_median_of_small_reads_is_that_of_fio(path: Path) -> None:
    fio = shutil.which("fio")
    if fio is None:
        pytest.skip("fio is not installed: nothing was compared with it")
    random = np.random.default_rng(1)
    ours, theirs = [], []
    # In turn: what else the machine does passes over both. It waits for an end as fio does, by sleeping.
    for _ in range(10):
        theirs.append(_fio_median(fio, path))
        target = opened(path, wait="sleep")
        batch = Batch.of(READ, random.integers(0, target.capacity // 8, 1000) * 8, 8)
        ours.append(float(np.median(target.send(batch).latency_ns)))
        target.close()
    assert np.median(ours) == pytest.approx(np.median(theirs), rel=0.15), (ours, theirs)
