"""Damaged stores: no file is believed that is not whole, no command ends with a traceback, and `study run` repairs."""

from __future__ import annotations

import errno
import io
import os
import random
import re
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

import ftlab
from conftest import Ran, inside
from conftest import ftlab as command
from ftlab.studies import execute, run_study
from ftlab.studies.files import Files, sealed, unsealed

LONG = 2000
CASES = LONG if "FTLAB_LONG" in os.environ else 30

# Two studies: with series, a trace and two tables; and one whose runs lie alone.
STUDIES = {
    "tabled": """
name = "tabled"
device = { extends = "ideal-page", geometry = { blocks_per_plane = 32, pages_per_block = 8 } }
trace = "TRACE"
seeds = SEEDS
axes.ftl.gc = ["greedy", "fifo"]
options.series = 20
""",
    "loose": """
name = "loose"
device = { extends = "ideal-page", geometry = { blocks_per_plane = 32, pages_per_block = 8 } }
workload = { kind = "uniform", requests = 50 }
seeds = SEEDS
axes.ftl.gc = ["greedy", "fifo"]
""",
}
# What reads a store, in many ways.
READERS: dict[str, tuple[str, ...]] = {
    "show": ("study", "show", "store", "--study", "tabled", "--csv"),
    "show loose": ("study", "show", "store", "--study", "loose", "--csv"),
    "newest": ("study", "show", "store", "--csv"),
    "sql": (
        *("study", "show", "store", "--study", "loose", "--csv", "--sql"),
        'SELECT key, "host.writes", "write_amplification.total" FROM runs ORDER BY key',
    ),
    "sql of a study": (
        *("study", "show", "store", "--study", "tabled", "--csv", "--sql"),
        'SELECT "ftl.gc", avg(tabled."host.writes") FROM tabled JOIN loose USING ("ftl.gc") GROUP BY ALL ORDER BY 1',
    ),
    "steady": ("study", "steady", "store", "--study", "tabled", "--csv"),
    "compare": ("study", "compare", "store", "--study", "tabled", "--by", "ftl.gc", "--metric", "gc.collections"),
    "dry": ("study", "run", "tabled.toml", "--out", "store", "--dry-run"),
    "list": ("study", "list", "store", "--json"),
}
SQL = [name for name in READERS if name.startswith("sql")]
QUICK = [name for name in READERS if name not in SQL]
# The files of each study.
CONCERNS = {
    "tabled": r"store\.json|coarse/|series/|tables/|traces/|tabled\.json",
    "loose": r"store\.json|runs/|loose\.json",
}


def make(folder: Path, seeds: str) -> Path:
    """A folder with a store and the files of its studies."""
    folder.mkdir()
    trace = folder.with_suffix(".csv")
    lines = [f"{index * 1000},w,{index * 7 % 100 * 8},8" for index in range(60)]
    trace.write_text("\n".join(["arrival_ns,op,lba,sectors", *lines, ""]))
    for name, text in STUDIES.items():
        (folder / f"{name}.toml").write_text(text.replace("SEEDS", seeds).replace("TRACE", str(trace)))
    store = ftlab.Store(folder / "store")
    run_study(ftlab.Study({**ftlab.Study.load(folder / "tabled.toml").spec, "seeds": [1]}), store)
    run_study(ftlab.Study.load(folder / "tabled.toml"), store)
    loose = ftlab.Study.load(folder / "loose.toml")
    store.save_study(loose.record(loose.runs()))
    # A file for each.
    for each in loose.runs():
        store.put(each.description or {}, each.key, execute(each.description or {}))
    return folder


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store, and another whose studies have the same names."""
    base = tmp_path_factory.mktemp("stores")
    # Hashes of files that have just changed are not kept otherwise.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ftlab.studies.description._SETTLED_NS", 0)
        return make(base / "one", "[1, 2]"), make(base / "two", "[1, 3]")


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in (folder / "store").rglob("*") if path.is_file())


def spoil(kind: str, name: str, folder: Path, other: Path, draw: random.Random) -> dict[str, bytes]:
    """Damage a file; gives the files that are wrong now, and what they hold."""
    data, wrong = (folder / name).read_bytes(), {}
    if kind == "truncated":
        wrong[name] = data[: draw.randrange(len(data))]
    elif kind == "bit":
        at = draw.randrange(len(data))
        wrong[name] = data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    elif kind == "zeros":
        start, end = draw.choice([(0, len(data)), sorted(draw.sample(range(len(data) + 1), 2))])
        wrong[name] = data[:start] + bytes(end - start) + data[end:]
    elif kind == "swapped":
        partner = draw.choice([each for each in files_of(folder) if each != name])
        wrong = {name: (folder / partner).read_bytes(), partner: data}
    else:
        part = [each for each in files_of(other) if Path(each).parent == Path(name).parent]
        wrong[name] = (other / (name if name in part and draw.random() < 0.5 else draw.choice(part))).read_bytes()
    for each, found in wrong.items():
        # Files are links to those of other cases.
        (folder / each).unlink()
        (folder / each).write_bytes(found)
    return {} if wrong[name] == data else wrong


KINDS = ("truncated", "bit", "zeros", "swapped", "another's")


def run(study: str, work: Path) -> Ran:
    return inside("study", "run", f"{study}.toml", "--out", "store", "--jobs", "1", "--json", cwd=work)


def read_twice(reader: str, whole: Ran, work: Path, caplog: pytest.LogCaptureFixture) -> int:
    """Read as found, and again when the file has been set aside; how often it was told that the table is not whole."""
    for times in range(2):
        before = len(caplog.messages)
        ran = inside(*READERS[reader], cwd=work)
        assert ran.status in {0, 2}, (reader, ran)
        assert (ran.status == 2) == ("error: " in ran.err), (reader, ran)
        if ran.status == 0 and ran.out == whole.out:
            return times
        if ran.status == 0:
            told = "\n".join([ran.out.replace('"missing": 0', ""), ran.err, *caplog.messages[before:]])
            assert re.search("missing|set aside|is damaged", told), (reader, ran)
    return 2


def check_aside(wrong: dict[str, bytes], work: Path, messages: list[str]) -> int:
    """Nothing damaged is lost, and everything that lies aside was told once."""
    aside = {path: path.read_bytes() for path in (work / "store" / "damaged").glob("*")}
    for path in aside:
        assert sum(path.name in message for message in messages) == 1, (path, messages)
    for name, found in wrong.items():
        # What is not aside was right under its name after all.
        assert found in aside.values() or (work / name).read_bytes() == found, name
    return len(aside)


@pytest.mark.long
def test_damage_is_told_and_repaired(
    pristine: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, other = pristine
    work = tmp_path / "one"
    shutil.copytree(first, work)
    whole = {name: inside(*arguments, cwd=work) for name, arguments in READERS.items()}
    assert [ran.status for ran in whole.values()] == [0] * len(whole)
    tables = {study: run(study, work).out for study in STUDIES}
    names = files_of(first)
    parts = sorted({Path(name).parent for name in names})
    assert [part.name for part in parts] == ["store", "runs", "series", "studies", "tables", "traces"]
    draw = random.Random(7)  # noqa: S311 - the same cases every time
    seen: Counter[str] = Counter()

    for case in range(CASES):
        kind, part = KINDS[case % len(KINDS)], parts[case // len(KINDS) % len(parts)]
        shutil.rmtree(work)
        shutil.copytree(first, work, copy_function=os.link)
        wrong = spoil(kind, draw.choice([name for name in names if Path(name).parent == part]), work, other, draw)
        seen[kind] += bool(wrong)
        caplog.clear()
        # Queries are slow.
        readers = draw.choices([*QUICK, *SQL], [4] * len(QUICK) + [1] * len(SQL), k=2)
        seen["told"] += read_twice(readers[0], whole[readers[0]], work, caplog)
        for study, rows in tables.items():
            if CASES == LONG or any(re.search(CONCERNS[study], name) for name in wrong):
                ran = run(study, work)
                assert (ran.status, ran.out) == (0, rows), (case, kind, list(wrong), ran)
        # The coarse series of a run is looked at when somebody asks for it, and never believed when it is damaged.
        for name in (name for name in wrong if Path(name).parent.name == "series"):
            key = Path(name).stem
            read, kept = (ftlab.Store(folder / "store").series(key) for folder in (work, first))
            assert read is None or kept is None or read.equals(kept, null_equal=True), (case, kind, name)
        if CASES == LONG and readers[1] not in {"list", "newest"}:
            assert inside(*READERS[readers[1]], cwd=work).out == whole[readers[1]].out, (case, kind, list(wrong))
        seen["aside"] += check_aside(wrong, work, caplog.messages)
    assert min(seen[kind] for kind in KINDS) > CASES / len(KINDS) * 0.8
    assert seen["aside"] > CASES * 0.9
    assert seen["told"] > CASES * 0.3


def test_every_bit_of_a_file_counts() -> None:
    buffer = io.BytesIO()
    pl.DataFrame({"key": ["a"]}).write_parquet(buffer)
    for name, content in {"runs/k.json": b'{"key": "k"}', "series/k.parquet": buffer.getvalue()}.items():
        data = sealed(name, content)
        assert unsealed(name, data) == (data if name.endswith(".parquet") else content)
        for at in range(8 * len(data)):
            spoilt = bytearray(data)
            spoilt[at // 8] ^= 1 << at % 8
            with pytest.raises(ValueError, match=r"found .*, expected"):
                unsealed(name, bytes(spoilt))
        for length in range(len(data)):
            with pytest.raises(ValueError, match=r"found .*, expected"):
                unsealed(name, data[:length])
        with pytest.raises(ValueError, match="found the checksum"):
            unsealed(f"x{name}", data)
    assert pl.read_parquet(sealed("series/k.parquet", buffer.getvalue())).rows() == [("a",)]


@pytest.mark.long
def test_the_command_names_a_damaged_file_once(pristine: tuple[Path, Path], tmp_path: Path) -> None:
    work = shutil.copytree(pristine[0], tmp_path / "one")
    spoilt = min((work / "store" / "runs").iterdir())
    spoilt.write_bytes(spoilt.read_bytes()[:-1] + b"?")
    told = command("study", "show", "store", "--study", "loose", cwd=work).err.splitlines()
    # Runs have warnings of their own.
    told = [line for line in told if not line.startswith("warning: ")]
    assert len(told) == 1
    found = r"found the checksum [0-9a-f]{32}, expected [0-9a-f]{32}"
    assert re.fullmatch(
        rf"store/runs/{spoilt.name}: is damaged: {found}; what it held is missing; "
        rf"moved to store/damaged/runs\.{spoilt.name}\.[0-9a-f]{{8}}",
        told[0],
    )
    told = command("study", "show", "store", "--study", "loose", cwd=work).err.splitlines()
    assert [line for line in told if not line.startswith("warning: ")] == []
    again = command("study", "run", "loose.toml", "--out", "store", cwd=work)
    assert "4 runs, 1 executed now" in again.err


def test_a_store_that_cannot_be_written_is_read_all_the_same(
    pristine: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    work = shutil.copytree(pristine[0], tmp_path / "one")
    names = [*sorted((work / "store" / "runs").iterdir())[:1], work / "store" / "store.json"]
    for name in names:
        name.write_bytes(name.read_bytes()[:-1])
    before = {name: (work / name).read_bytes() for name in files_of(work)}

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for each in ("mkdir", "rename", "replace"):
        monkeypatch.setattr(Path, each, refuse)
    store = ftlab.Store(work / "store", create=False)
    assert [store.frame("loose")["status"].to_list().count("missing") for _ in range(2)] == [1, 1]
    assert [sum(str(name) in message for message in caplog.messages) for name in names] == [1, 1]
    assert all("Read-only file system" in message for message in caplog.messages)
    assert {name: (work / name).read_bytes() for name in files_of(work)} == before


def test_a_whole_file_that_came_meanwhile_is_put_back(pristine: tuple[Path, Path], tmp_path: Path) -> None:
    work = shutil.copytree(pristine[0], tmp_path / "one")
    name = next(each for each in files_of(work) if "/runs/" in each).removeprefix("store/")
    files, before = Files(work / "store"), (work / "store" / name).read_bytes()
    files._set_aside(name, "seen before it was replaced", lambda path: unsealed(name, path.read_bytes()))
    assert (work / "store" / name).read_bytes() == before
    assert list((work / "store" / "damaged").iterdir()) == []


def test_of_many_readers_one_sets_aside(
    pristine: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    work = shutil.copytree(pristine[0], tmp_path / "one")
    for path in (work / "store" / "runs").iterdir():
        path.write_bytes(b"")
    with ThreadPoolExecutor(8) as pool:
        stores = pool.map(lambda _: ftlab.Store(work / "store").frame("loose"), range(16))
        assert all(frame["status"].to_list() == ["missing"] * 4 for frame in stores)
    assert len(caplog.messages) == len(list((work / "store" / "damaged").iterdir())) == 4


def test_a_mark_written_anew_parts_no_studies_from_their_store(pristine: tuple[Path, Path], tmp_path: Path) -> None:
    work = shutil.copytree(pristine[0], tmp_path / "one")
    shutil.rmtree(work / "store" / "studies")
    before = ftlab.Store(work / "store")
    (work / "store" / "store.json").write_text("{}")
    after = ftlab.Store(work / "store")
    for store, study in ((before, "loose"), (after, "tabled")):
        run_study(ftlab.Study.load(work / f"{study}.toml"), store)
    assert set(before.studies()) == set(after.studies()) == set(STUDIES)


def test_a_mark_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text('{"shop": "open"}')
    for create in (True, False):
        with pytest.raises(ftlab.ConfigError, match=r"store\.json: marks no store of results: found no checksum"):
            ftlab.Store(tmp_path, create=create)
    assert [path.name for path in tmp_path.iterdir()] == ["store.json"]


def test_a_file_with_other_keys_is_set_aside(
    pristine: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    work = shutil.copytree(pristine[0], tmp_path / "one")
    (work / "store" / "runs" / "k.json").write_bytes(sealed("runs/k.json", b'{"key": "k"}'))
    assert len(ftlab.Store(work / "store").records()) == 8
    assert "k.json: is damaged: found other keys, expected those of this version" in caplog.text
