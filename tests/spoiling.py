"""Inputs, spoilt by seed; and a program that runs commands on them, each case in a process with limits.

`python spoiling.py FILE` runs the cases of a file, a line of JSON each, and prints a line with what became of each.
"""

from __future__ import annotations

import bz2
import gc
import gzip
import importlib
import io
import json
import lzma
import os
import random
import re
import resource
import signal
import struct
import sys
import tomllib
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MEMORY_BYTES = 4 << 30
SECONDS = 60
# What a command may print before it is killed.
OUTPUT_BYTES = 16 << 20

VALUES = (
    *("0", "1", "-1", "2", "3", "255", "65536", "4294967296", "9223372036854775807", "-9223372036854775808"),
    *("99999999999999999999", "1e308", "1e-320", "0.5", "-0.0", "inf", "nan", "true", '""', '"none"', '"64KiB"'),
    *('"18446744073709551615GiB"', '"-1us"', '"\\u0000"', '"\\U0001F9E8"', "'''\n'''", "1979-05-27T07:32:00Z", "[]"),
    *("{}", '[1, "a", {}]', '{ kind = "x" }', "{ from = 1, to = 1e9, step = 1 }", '"{}"', '"../.."', "[[[]]]", '"%s"'),
)  # fmt: skip
PIECES = ("[", "]", "=", '"', "'''", "{", "}", ".", ",", "#", "\0", "\ufeff", "\r", "\u202e", "é", "\n[[ftl]]\n")


@dataclass
class Ended:
    """What became of a command."""

    status: int
    err: str
    seconds: float
    wrote: int


def value(draw: random.Random) -> str:
    """A value that nobody expects."""
    kind = draw.randrange(10)
    if kind == 0:
        depth = draw.choice([2, 60, 1000, 20_000])
        left, right = draw.choice([("[", "]"), ("{ a = ", " }")])
        return left * depth + "1" + right * depth
    if kind == 1:
        return '"' + "x" * draw.choice([10, 1000, 100_000]) + '"'
    if kind == 2:
        return str(draw.getrandbits(64))
    return draw.choice(VALUES)


def spoil_line(lines: list[str], others: list[str], draw: random.Random) -> None:
    """Change a line of a TOML file."""
    keyed = [at for at, line in enumerate(lines) if "=" in line and not line.startswith("#")]
    at, other = draw.choice(keyed or range(len(lines))), draw.randrange(len(lines))
    key, _, old = lines[at].partition("=")
    number = old.split("#")[0].strip().replace("_", "")
    match draw.randrange(12):
        case 0 | 1:
            lines[at] = f"{key}= {value(draw)}"
        case 2 | 3 | 4 if number.isdecimal():
            factor, share, step = draw.choice([0, 1, 1, 2, 3, 1000]), draw.choice([1, 2]), draw.choice([-1, 0, 1])
            lines[at] = f"{key}= {int(number) * factor // share + step}"
        case 5:
            del lines[at]
        case 6:
            lines.insert(other, lines[at])
        case 7:
            lines[at], lines[other] = lines[other], lines[at]
        case 8:
            lines.insert(other, draw.choice(draw.choice(others).splitlines()))
        case 9:
            table = draw.choice(["ftl", "geometry", "workload", "axes", "set", "a.b", '""'])
            lines.insert(other, f"[{table}]")
        case 10:
            wrong = [f"{key.strip()}x", f"{key.strip()}.a", key.upper(), "", "a." * draw.choice([1, 90, 2000]) + "a"]
            lines[at] = f"{draw.choice(wrong)} ={old}"
        case _:
            place = draw.randrange(len(lines[other]) + 1)
            lines[other] = lines[other][:place] + draw.choice(PIECES) + lines[other][place:]


def spoil_toml(text: str, others: list[str], draw: random.Random) -> bytes:
    """Change some lines of a TOML file, and seldom some bytes."""
    lines = text.splitlines() or [""]
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        spoil_line(lines, others, draw)
        lines = lines or [""]
    data = "\n".join(lines).encode()
    return spoil(data, draw) if draw.random() < 0.1 else data


def spoil(data: bytes, draw: random.Random) -> bytes:
    """Change bytes, whatever they mean."""
    width = draw.choice([1, 4, 8, 24, 32, 48])
    first, last = sorted(draw.choices(range(len(data) // width + 1), k=2))
    start, end = first * width, min(last * width, first * width + draw.choice([1, 4, 16, 64, 1 << 20]) * width)
    part = data[start:end]
    match draw.randrange(8):
        case 0:
            return data[:start]
        case 1:
            return data[:start] + draw.choice([b"\0", b"\xff", b"9"]) * len(part) + data[end:]
        case 2:
            return data[:start] + part + data[start:]
        case 3:
            return data[:start] + data[end:]
        case 4:
            return data[end:] + part + data[:start]
        case 5:
            return data[:start] + draw.randbytes(draw.randrange(40)) + data[start:]
        case 6:
            fields = re.split(rb"([,\s;])", data)
            odd = [b"0", b"-1", b"99999999999999999999", b"18446744073709551615", b"1e9", b"0.5", b"x", b"", b"65536"]
            fields[draw.randrange((len(fields) + 1) // 2) * 2] = draw.choice(odd)
            return b"".join(fields)
        case _:
            spoilt = bytearray(data)
            for _ in range(draw.randrange(1, 5)):
                if spoilt:
                    spoilt[draw.randrange(len(spoilt))] ^= 1 << draw.randrange(8)
            return bytes(spoilt)


def packed(data: bytes, draw: random.Random) -> bytes:
    """Compress."""
    return draw.choice([gzip.compress, bz2.compress, lzma.compress])(data)


def spoil_trace(data: bytes, draw: random.Random) -> bytes:
    """Damage a trace, in a compressed container or not."""
    for _ in range(draw.randrange(4)):
        data = spoil(data, draw)
    while draw.random() < 0.15:
        data = packed(data, draw)
        if draw.random() < 0.5:
            data = spoil(data, draw)
    return data


def binary_traces() -> dict[str, bytes]:
    """A valid file of each binary format that ftlab reads and does not write."""
    vscsi = [
        struct.pack("<IIIBBBBQQ", 17, 4096, 1, (0x28, 0x2A)[i % 2], 0, 3, 1, i * 64, 5_000_000_000 + i * 700)
        for i in range(60)
    ]
    dispatch = 7 | 1 << 22
    blktrace = [
        struct.pack("<IIQQI", 0x65617407, 1, 9000 + i * 1000, i * 16, 8192)
        + struct.pack("<IIIIHH", dispatch | 1 << (16 + i % 2), 1, 8 << 20, 0, 0, 0)
        for i in range(60)
    ]
    header = b'tracefile\t= "made up";\ntracedate\t= "Mon Jan 6 09:00:00 1992";\nsector size\t= 1024 bytes;\n\x0c'
    srt = [
        struct.pack(">14I", 56, 4 << 16 | 1, i, 250, 10, 9000, 8192, i * 32, 0x07000100, 1, 7, i % 2, 0, 2)
        for i in range(60)
    ]
    oracle = [struct.pack("<IQIq", i, i % 10 * 77, 4096, i + 10 if i + 10 < 60 else -1) for i in range(60)]
    return {
        "vscsi": b"".join(vscsi),
        "blktrace": b"".join(blktrace),
        "hp_srt": header + b"".join(srt),
        "oracle_general": b"".join(oracle),
    }


def sources(kind: str) -> list[str]:
    """The texts of valid files."""
    if kind != "study":
        return [path.read_text(encoding="utf-8") for path in sorted((ROOT / f"{kind}s").glob("*.toml"))]
    guides = [*sorted((ROOT / "docs" / "guides").glob("*.md")), *sorted((ROOT / "docs" / "reference").glob("*.md"))]
    blocks = [each for page in guides for each in re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)]
    shown = [block for block in blocks if "device" in tomllib.loads(block)]
    return [*shown, *(path.read_text() for path in sorted((ROOT / "examples").glob("*.toml")))]


def limited(commands: list[list[str]], folder: str, answer: int) -> None:
    """Run commands in this process, which ends with them, and write what became of each."""
    os.chdir(folder)
    # A session of its own, so that what it started can be ended with it.
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_BYTES, OUTPUT_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(SECONDS * len(commands))
    from ftlab.cli import status_of

    for number, command in enumerate(commands):
        out, err = (os.open(f"{name}.{number}", os.O_RDWR | os.O_CREAT | os.O_TRUNC) for name in ("out", "err"))
        os.dup2(out, 1)
        os.dup2(err, 2)
        # They stay open until the process ends.
        sys.stdout, sys.stderr = (io.TextIOWrapper(open(at, "wb", closefd=False)) for at in (1, 2))  # noqa: SIM115
        try:
            status = status_of(command)
        except BaseException:  # noqa: BLE001 - whatever it is, it is a finding
            traceback.print_exc()
            status = 99
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(answer, f"{status}\n".encode())
    os._exit(0)


def run_case(commands: list[list[str]], folder: str) -> list[Ended]:
    """Run commands in a process with limits; what a signal has ended has its number, below 0."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            limited(commands, folder, write)
        finally:
            os._exit(98)
    os.close(write)
    with os.fdopen(read) as file:
        statuses = [int(line) for line in file]
    _, how, usage = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(how)
    if code != 0 and len(statuses) < len(commands):
        statuses.append(code)
    texts = [Path(folder, f"err.{number}") for number in range(len(statuses))]
    errs = [path.read_bytes().decode(errors="replace") if path.exists() else "" for path in texts]
    wrote = sum(path.stat().st_size for path in Path(folder).iterdir())
    seconds = usage.ru_utime + usage.ru_stime
    return [Ended(status, err, seconds, wrote) for status, err in zip(statuses, errs, strict=True)]


def main() -> None:
    """Run the cases of a file."""
    # Modules are imported once, in the process that is copied for each case.
    for name in ("run", "config", "study", "trace", "short", "output", "reading"):
        importlib.import_module(f"ftlab.cli.{name}")
    for name in ("polars", "rich.console", "rich.table", "rich.progress", "ftlab.studies", "ftlab._running"):
        importlib.import_module(name)
    gc.freeze()
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        ended = run_case(case["commands"], case["folder"])
        print(json.dumps([asdict(each) for each in ended]), flush=True)  # noqa: T201 - the answer to the parent


if __name__ == "__main__":
    main()
