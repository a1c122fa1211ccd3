"""`ftlab trace record`. Where the system forbids watching processes, the tests say so and pass over."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

import ftlab
from conftest import FTLAB, ROOT
from conftest import ftlab as command

PHONE = ROOT / "examples" / "recording" / "phone.csv.zst"
LONG = "FTLAB_LONG" in os.environ


def _possible() -> bool:
    if sys.platform != "linux":
        return False
    ran = command("trace", "record", "-o", os.devnull, "--to", "csv", "--", "true")
    return ran.status == 0 or "ptrace" not in ran.err


recordable = pytest.mark.skipif(not _possible(), reason="this system does not let one process watch another")


def record(tmp_path: Path, program: str, *options: str) -> tuple[ftlab.Recording, list[tuple[str, int, int]]]:
    """Record a Python program that works in the folder `data`."""
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    cache = options[0] if options else None
    done = ftlab.record(
        [sys.executable, tmp_path / "program.py", str(data)], tmp_path / "r.csv", cache=cache, include=[data]
    )
    assert done.status == 0
    rows = (tmp_path / "r.csv").read_text().splitlines()[1:]
    fields = [row.split(",") for row in rows]
    return done, [(row[1], int(row[2]), int(row[3])) for row in fields]


@recordable
def test_exactly_what_a_program_does(tmp_path: Path) -> None:
    done, requests = record(
        tmp_path,
        """
        import os, sys, threading
        os.chdir(sys.argv[1])
        fd = os.open("a", os.O_RDWR | os.O_CREAT)
        os.write(fd, bytes(8192))
        os.pwrite(fd, b"x" * 600, 1000)
        other = os.dup(fd)
        os.lseek(other, 4096, os.SEEK_SET)
        os.read(fd, 1024)
        os.readv(other, [bytearray(512), bytearray(512)])
        os.preadv(fd, [bytearray(4096)], 0)
        os.fdatasync(other)
        more = os.open("a", os.O_WRONLY | os.O_APPEND | os.O_DSYNC)
        os.write(more, bytes(512))
        def child():
            os.pwritev(fd, [bytes(4096)], 12288)
        thread = threading.Thread(target=child); thread.start(); thread.join()
        os.read(fd, 0)
        os.pread(fd, 100, 1 << 40)
        os.unlink("a")
        os.pread(fd, 512, 0)
        os.close(fd); os.close(other); os.close(more)
        open("b", "wb").write(bytes(4096))
        os.rename("b", "c")
        open("d", "wb").write(bytes(12288))
        os.rename("c", "d")
        os.truncate("d", 10)
        os.copy_file_range(os.open("d", os.O_RDONLY), os.open("e", os.O_WRONLY | os.O_CREAT), 10)
        open("d", "wb").close()
        """,
    )
    place = requests[-1][1]
    b = [row for row in requests if row[0] == "write"][4]
    assert requests[:13] == [
        ("write", 0, 16),
        ("write", 1, 3),
        ("read", 8, 2),
        ("read", 10, 2),
        ("read", 0, 8),
        ("flush", 0, 0),
        ("write", 16, 1),
        ("flush", 0, 0),
        ("write", 24, 8),
        ("read", 0, 1),
        # The file is without a name while it is open, and gone when it is closed.
        ("trim", 0, 32),
        ("write", b[1], 8),
        ("write", requests[12][1], 24),
    ]
    assert [(op, sectors) for op, _, sectors in requests[13:]] == [("trim", 24), ("read", 1), ("write", 1), ("trim", 8)]
    assert place == b[1]
    assert (done.files, done.trims, done.flushes) == (4, 3, 2)


@recordable
def test_files_without_a_name_are_trimmed_when_they_are_closed(tmp_path: Path) -> None:
    done, requests = record(
        tmp_path,
        """
        import ctypes, os, sys
        os.chdir(sys.argv[1])
        null = os.open("/dev/null", os.O_RDWR)
        def nameless():
            fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
            os.write(fd, bytes(8192))
            return fd
        for _ in range(2):
            os.close(nameless())
        os.dup2(null, nameless())
        fd = nameless()
        os.closerange(fd, fd + 1)
        # One that gets a name stays.
        fd = nameless()
        path = f"/proc/self/fd/{fd}".encode()
        assert ctypes.CDLL(None).linkat(-100, path, -100, b"named", 0x400) == 0
        os.write(fd, bytes(4096))
        os.close(fd)
        os.pread(os.open("named", os.O_RDONLY), 4096, 0)
        """,
    )
    assert requests == [("write", 0, 16), ("trim", 0, 16)] * 4 + [("write", 0, 16), ("write", 16, 8), ("read", 0, 8)]
    assert done.files == 5


@recordable
def test_children_inherit_the_recording(tmp_path: Path) -> None:
    done, requests = record(
        tmp_path,
        """
        import os, subprocess, sys
        for number in range(4):
            if os.fork() == 0:
                with open(f"{sys.argv[1]}/{number}", "wb") as file:
                    file.write(bytes(4096))
                os._exit(0)
        for number in range(4):
            os.wait()
        subprocess.run(["dd", "if=/dev/zero", f"of={sys.argv[1]}/5", "bs=4096", "count=2"], stderr=subprocess.DEVNULL)
        """,
    )
    assert Counter(op for op, *_ in requests) == {"write": 6}
    assert len({lba for _, lba, _ in requests}) == 6
    assert done.files == 5


SQLITE = """
    import sqlite3, sys
    connection = sqlite3.connect(sys.argv[1] + "/a.db")
    connection.execute("pragma journal_mode = {journal}")
    connection.execute("pragma synchronous = full")
    connection.execute("create table t (k integer primary key, v blob)")
    for number in range(50):
        connection.execute("insert into t values (?, ?)", (number, bytes(200)))
        connection.commit()
    connection.close()
"""


@recordable
def test_sqlite_with_a_rollback_journal_and_with_a_log(tmp_path: Path) -> None:
    (tmp_path / "delete").mkdir()
    done, requests = record(tmp_path / "delete", SQLITE.format(journal="delete"), "64MiB")
    # Every transaction makes a journal, synchronises it, writes the database, synchronises it, and deletes the journal.
    assert done.trims == 51
    assert 2 * 51 <= done.flushes <= 4 * 51
    assert all(sectors % 8 == 0 for _, _, sectors in requests)
    assert done.unseen() == []
    (tmp_path / "wal").mkdir()
    log, requests = record(tmp_path / "wal", SQLITE.format(journal="wal"), "64MiB")
    assert log.flushes < done.flushes / 2
    assert log.flushes >= 50
    # The log grows in order: nearly all its pages are written right behind the ones before.
    assert log.writes < done.writes
    assert log.unseen() == ["1 writable mappings of files: what was written through them is not seen"]


@recordable
def test_status_json_and_standard_output(tmp_path: Path) -> None:
    out = tmp_path / "o.parquet"
    arguments = ("trace", "record", "-o", out, "--include", tmp_path, "--json", "--")
    ran = command(*arguments, "sh", "-c", f"echo hello; echo x >{tmp_path}/f; exit 7")
    assert ran.status == 7
    assert ran.err.startswith("hello\n")
    assert (ran.json["requests"], ran.json["writes"], ran.json["status"]) == (1, 1, 7)
    assert command("trace", "head", out, "--json").json[0]["op"] == "write"


def test_what_cannot_be_recorded_is_told(tmp_path: Path) -> None:
    for arguments, expected in [
        (("-o", "x.unknown", "--", "true"), "the extension names no format"),
        (("-o", "x.csv", "--cache", "much", "--", "true"), "is not a size"),
        (("-o", "x.csv", "--", "/no/such/program"), "/no/such/program"),
        (("-o", "/no/such/folder/x.csv", "--", "true"), "cannot be created"),
    ]:
        ran = command("trace", "record", *arguments, cwd=tmp_path)
        assert ran.status == 2, ran.err
        assert expected in ran.err or "ptrace" in ran.err
    assert list(tmp_path.iterdir()) == [], "nothing is left of what failed"


@recordable
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_command_and_keeps_the_recording(tmp_path: Path) -> None:
    loop = f"while :; do dd if=/dev/zero of={tmp_path}/f bs=4096 count=1 2>/dev/null; sleep 0.02; done"
    arguments = ["trace", "record", "-o", tmp_path / "r.csv", "--include", tmp_path / "f", "--", "sh", "-c", loop]
    running = subprocess.Popen([FTLAB, *arguments], start_new_session=True, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not (tmp_path / "f").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert "write" in (tmp_path / "r.csv").read_text()


@recordable
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_stops_a_loop_of_recordings(tmp_path: Path) -> None:
    loop = f"while :; do dd if=/dev/zero of={tmp_path}/f bs=4096 count=1 2>/dev/null; sleep 0.02; done"
    program = (
        "import ftlab\nbegun = 0\ntry:\n    for number in range(9):\n        begun += 1\n"
        f"        ftlab.record(['sh', '-c', {loop!r}], f'{tmp_path}/{{number}}.csv')\n"
        "except ftlab.Interrupted as ended:\n    print(begun, ended.result.status, ended.result.requests > 0)\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", program], start_new_session=True, stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 20
    while not (tmp_path / "f").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    out, _ = running.communicate(timeout=20)
    assert out == "1 130 True\n"


def test_the_recording_that_comes_along_is_what_its_page_says() -> None:
    assert PHONE.stat().st_size < 400_000
    stats = command("trace", "stats", PHONE, "--json").json
    page = (PHONE.parent / "README.md").read_text()
    for key in ("requests", "reads", "writes", "trims", "flushes"):
        assert f"{stats[key]:,} {key}" in page, key
    assert stats["highest_byte"] < 412 << 20, "the drive of the demonstration is large enough"


@pytest.mark.long
@recordable
def test_the_program_behind_it_makes_such_recordings(tmp_path: Path) -> None:
    program = PHONE.parent / "phone.py"
    done = ftlab.record(
        [sys.executable, program, tmp_path / "phone", "60"],
        tmp_path / "r.csv.zst",
        cache="64MiB",
        include=[tmp_path / "phone"],
    )
    assert done.status == 0
    assert min(done.writes, done.trims, done.flushes) > 20


@recordable
@pytest.mark.long
@pytest.mark.skipif(shutil.which("initdb") is None, reason="PostgreSQL is not installed")
def test_postgresql(tmp_path: Path) -> None:
    binaries = Path(shutil.which("initdb") or "").resolve().parent
    # PostgreSQL refuses to run as root, and another user may not enter the folders of pytest: each session of pytest
    # that starts closes them again.
    with tempfile.TemporaryDirectory(prefix="ftlab-postgresql-") as folder:
        script = textwrap.dedent(f"""
            set -e
            export PATH={binaries}:$PATH
            cd {folder}
            initdb -D data -A trust -U tester >/dev/null
            pg_ctl -D data -w -l log -o "-k {folder} -h ''" start >/dev/null
            pgbench -h {folder} -U tester -i -s 2 postgres >/dev/null 2>&1
            pgbench -h {folder} -U tester -c 4 -j 2 -t 200 postgres
            pg_ctl -D data -w stop >/dev/null
        """)
        run = ["sh", "-c", script]
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
            run = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *run]
        done = ftlab.record(run, tmp_path / "pg.csv.zst", cache="64MiB", include=[folder])
        log = Path(folder, "log")
        assert done.status == 0, log.read_text() if log.exists() else "PostgreSQL did not start"
    # Four clients with 200 transactions each: each is durable, some together.
    assert done.flushes > 200
    assert done.writes > 1000
    assert done.files > 500


@recordable
@pytest.mark.parametrize("extension", ["mqsim", "disksim"])
def test_what_the_format_cannot_express_costs_nothing_else(tmp_path: Path, extension: str) -> None:
    script = f"cd {tmp_path}; dd if=/dev/zero of=f bs=4096 count=3 conv=fsync 2>/dev/null; rm f; exit 3"
    ran = command("trace", "record", "-o", tmp_path / f"r.{extension}", "--include", tmp_path, "--", "sh", "-c", script)
    assert ran.status == 3
    assert "1 trim and 1 flush left out" in ran.err, ran.err
    rows = (tmp_path / f"r.{extension}").read_text().splitlines()
    assert [row.split()[2:] for row in rows] == [["0", "8", "0"], ["8", "8", "0"], ["16", "8", "0"]]


@pytest.mark.sampled(2)
@recordable
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_recording_that_is_ended_from_outside_is_kept(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "r.csv"
    script = f"cd {tmp_path}; dd if=/dev/zero of=f bs=4096 count=3 2>/dev/null; sleep 100; echo over"
    with subprocess.Popen(
        [FTLAB, "trace", "record", "-o", out, "--include", tmp_path, "--", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 30
        while not (tmp_path / "f").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(number)
        said, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number, err
    assert (said, "3 writes" in err) == ("", True), err
    assert len(out.read_text().splitlines()) == 4
    assert not list(tmp_path.glob("*.partial"))


@recordable
def test_a_text_is_a_command_of_one_word(tmp_path: Path) -> None:
    assert ftlab.record("true", tmp_path / "r.csv").status == 0
    with pytest.raises(ftlab.InputError, match="sleep 5: cannot be executed"):
        ftlab.record("sleep 5", tmp_path / "r.csv")
    for nothing in ("", [], [""]):
        with pytest.raises(ftlab.ConfigError, match="found nothing"):
            ftlab.record(nothing, tmp_path / "r.csv")


@recordable
def test_one_pattern_needs_no_list(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    script = f"cd {tmp_path}; mkdir -p link/new; echo a >link/new/a; echo b >link/b"
    for include in (f"{tmp_path}/link/new", tmp_path / "link" / "new"):
        shutil.rmtree(tmp_path / "real" / "new", ignore_errors=True)
        done = ftlab.record(["sh", "-c", script], tmp_path / "r.csv", include=include, exclude="*/b")
        assert (done.files, done.writes) == (1, 1)


@recordable
def test_appending_whatever_the_offset(tmp_path: Path) -> None:
    _, requests = record(
        tmp_path,
        """
        import os, sys
        fd = os.open(sys.argv[1] + "/a", os.O_RDWR | os.O_CREAT)
        os.write(fd, bytes(8192))
        os.pwritev(fd, [bytes(512)], 0, os.RWF_APPEND)
        """,
    )
    assert requests == [("write", 0, 16), ("write", 16, 1)]
