"""The store of results: a directory of files that are only ever added or replaced as a whole.

``store.json`` marks it. ``runs/*.json`` are runs that finished within a moment, written by one rename;
``tables/*.parquet`` hold finished runs together, ``coarse/*.parquet`` the coarse time series that they keep.
``series/KEY.parquet`` is the time series that a run was asked for. ``studies/NAME.json`` says which runs a study has;
``traces/`` remembers hashes of traces. No file is ever changed, so several processes may write at a time, and any of
them may die at any moment. What was renamed into place is whole, and what was not is swept up later. Files that were
damaged afterwards are known by their checksums and lie in ``damaged/``.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import html
import itertools
import json
import os
import platform
import re
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ftlab._checks import checked
from ftlab.errors import ConfigError
from ftlab.studies.columns import (
    DOCUMENTS,
    OF_RUN,
    Runs,
    coarse_of,
    coarse_table,
    frame_of,
    keys_of_coarse,
    table_of,
    text_of,
    wants_series,
)
from ftlab.studies.files import DAMAGED, LOG, TEMPORARY, UNFIT, Files, unsealed
from ftlab.studies.frame import study_frame, to_pandas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import polars as pl

    from ftlab.studies.description import Description, Outcome

_T = TypeVar("_T")

# Files of version 1 had no checksums; version 2 had a file for each run.
_VERSION = 3
_MARK = "store.json"
_PARTS = ("runs", "tables", "coarse", "series", "studies", "traces")

# So many tables become one: each study adds one, and a query opens them all.
_MOST_TABLES = 16
# Tables of coarse series that are larger stay as they are.
_SMALL_BYTES = 1 << 26
# A file that a dead process left behind is nobody's after a day.
_ABANDONED_SECONDS = 86_400
# Files vanish while somebody joins them; whoever lists again finds what they became.
_ATTEMPTS = 10


@dataclass(frozen=True)
class Record:
    """A finished run in a store.

    Attributes:
        key: Hash of everything that determines the result.
        status: ``"done"`` or ``"error"``.
        error: What went wrong.
        error_kind: See :class:`ftlab.studies.Outcome`.
        elapsed_seconds: How long it took where it ran.
        finished: When it ended (UTC, ISO 8601).
        engine: What ran it.
        description_text: The run, all of it, as JSON.
        summary_text: The summary document as JSON; ``None`` with an error.
        coarse_text: The time series that every run keeps, by column, as JSON. ``None`` where another was asked for, and
            in records that come from tables.
    """

    key: str
    status: str
    error: str | None
    error_kind: str | None
    elapsed_seconds: float
    finished: str
    engine: str
    description_text: str
    summary_text: str | None
    coarse_text: str | None = None

    # Documents stay texts until somebody looks: most are only passed on.
    @functools.cached_property
    def description(self) -> Description:
        """The run, all of it."""
        found: Description = json.loads(self.description_text)
        return found

    @functools.cached_property
    def summary(self) -> dict[str, Any] | None:
        """The summary document; ``None`` with an error."""
        return None if self.summary_text is None else json.loads(self.summary_text)

    def better_than(self, other: Record | None) -> bool:
        """Whether this one counts where both are stored: a result before an error, then the newer one."""
        return other is None or (self.status == "done", self.finished) > (other.status == "done", other.finished)


class StudyRun(NamedTuple):
    """A run of a study: its key, its values of the axes, its seed, and why it cannot be described, if so."""

    key: str
    values: tuple[Any, ...]
    seed: int | None
    error: str | None = None


@dataclass(frozen=True)
class StudyRecord:
    """What a store knows of a study: enough to make its table.

    Attributes:
        name: Its name.
        description: What it is about.
        axes: Names of the axes.
        runs: Its runs, in the order of the grid.
        spec: The description that it was made from, as plain data.
        saved: When it was last begun (UTC, ISO 8601).
    """

    name: str
    description: str
    axes: tuple[str, ...]
    runs: tuple[StudyRun, ...] = field(repr=False)
    spec: dict[str, Any] = field(repr=False)
    saved: str


def now() -> str:
    """The time as it is stored."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _mark_of(identity: str) -> bytes:
    return json.dumps({"ftlab_store": _VERSION, "id": identity}).encode() + b"\n"


class Store:
    """A store of results.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = Store(folder.name)
    >>> frame = ftlab.study(
    ...     {"name": "tiny", "device": "ideal-page", "set": {"geometry": {"blocks_per_plane": 64}},
    ...      "workload": {"kind": "uniform", "requests": 100}, "axes": {"ftl.gc": ["greedy", "fifo"]}},
    ...     out=store)
    >>> store.sql('SELECT "ftl.gc", "host.writes" FROM study').rows()
    [('greedy', 100), ('fifo', 100)]
    >>> folder.cleanup()
    """

    @checked
    def __init__(self, folder: str | os.PathLike[str], *, create: bool = True) -> None:
        """Open a store.

        Args:
            folder: Its directory.
            create: Make it when it does not exist; otherwise that is an error.

        Raises:
            ConfigError: The directory is no store: it holds something else, or belongs to another version.
        """
        self.folder = Path(folder)
        self.files = Files(self.folder)
        mark = self.folder / _MARK
        if not mark.is_file():
            if not create:
                raise ConfigError(f"{self.folder}: no store of results: it has no {_MARK}")
            self._make(mark)
        self._id = self._identity()
        if create:
            for part in _PARTS:
                (self.folder / part).mkdir(exist_ok=True)

    def _make(self, mark: Path) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            foreign = sorted(entry.name for entry in self.folder.iterdir() if not entry.name.startswith("."))
            if foreign and not mark.is_file():
                raise ConfigError(
                    f"{self.folder}: holds {foreign[0]} and is no store of results; name a new or an empty directory"
                )
            self.files.create(_MARK, _mark_of(uuid.uuid4().hex))
        except OSError as error:
            raise ConfigError(f"{self.folder}: cannot be a store of results: {error.strerror or error}") from error

    def _identity(self) -> str:
        """What distinguishes this store from others, of which studies may have the same names."""
        mark = self.folder / _MARK
        try:
            found = mark.read_bytes()
        except OSError as error:
            raise ConfigError(f"{mark}: marks no store of results: {error.strerror or error}") from error
        why = ""
        try:
            marked = json.loads(unsealed(_MARK, found))
            version, identity = int(marked["ftlab_store"]), str(marked.get("id"))
        except UNFIT as error:
            version, why = _VERSION, str(error)
            with contextlib.suppress(ValueError):
                version = 1 if json.loads(found) == {"ftlab_store": 1} else _VERSION
        if version != _VERSION:
            raise ConfigError(
                f"{mark}: found a store of version {version}, expected version {_VERSION}: run its studies again in a "
                "new directory"
            )
        if not why:
            return identity
        # A file of that name may be anybody's; with these beside it, it was a mark.
        if not all((self.folder / part).is_dir() for part in _PARTS):
            raise ConfigError(f"{mark}: marks no store of results: {why}")
        # Its studies know; without any, all processes that find the same say the same.
        known = (
            self._found(name, lambda data: str(json.loads(data)["store"]))
            for name in self.files.names("studies", ".json")
        )
        identity = next(
            (each for each in known if each is not None), hashlib.blake2b(found, digest_size=16).hexdigest()
        )
        self.files.renew(_MARK, found, why, _mark_of(identity))
        return identity

    # Finished runs

    @checked
    def put(self, description: Description, key: str, outcome: Outcome) -> Record:
        """Keep a finished run: it is there for every reader when this returns, whatever happens then."""
        [record] = self.put_all([(description, key, outcome)])
        return record

    def put_all(self, finished: Sequence[tuple[Description, str, Outcome]]) -> list[Record]:
        """Keep finished runs in one file: they are there for every reader when this returns, whatever happens then.

        Args:
            finished: Of each run its description, its key and what became of it.

        Returns:
            What is there now of each, without coarse series.
        """
        ended = now()
        records, kept = [], []
        for description, key, outcome in finished:
            if outcome.series is not None:
                # A damaged one is set aside, not replaced.
                self._found(_series(key), len)
                # First, so that a run that is there has its series.
                self.files.write(_series(key), outcome.series)
            record = Record(
                key=key,
                status=outcome.status,
                error=outcome.error,
                error_kind=outcome.error_kind,
                elapsed_seconds=outcome.elapsed_seconds,
                finished=ended,
                engine=description["engine"],
                description_text=json.dumps(description),
                summary_text=outcome.summary_text,
            )
            records.append(record)
            kept.append({**vars(record), "coarse_text": outcome.coarse_text})
        data = json.dumps({"runs": kept}).encode()
        self.files.write(f"runs/{hashlib.blake2b(data, digest_size=16).hexdigest()}.json", data)
        return records

    def _loose(self) -> tuple[dict[str, Record], list[str]]:
        """Finished runs that are in no table yet, and the files that they were read from."""
        best: dict[str, Record] = {}
        read = []
        for name in self.files.names("runs", ".json"):
            # Gone: it is in a table by now, and tables are read later.
            with contextlib.suppress(FileNotFoundError):
                found = self.files.read(name, lambda data: [Record(**run) for run in json.loads(data)["runs"]])
                read += [] if found is None else [name]
                for record in found or ():
                    if record.better_than(best.get(record.key)):
                        best[record.key] = record
        return best, read

    def _tables(self, parse: Callable[[bytes], _T], part: str = "tables") -> dict[str, _T]:
        """Read all tables, again if one of them was joined with others meanwhile."""
        for attempt in range(_ATTEMPTS):
            try:
                read = {name: self.files.read(name, parse) for name in self.files.names(part, ".parquet")}
            except FileNotFoundError:
                if attempt + 1 == _ATTEMPTS:
                    raise
                time.sleep(0.01 * attempt)
            else:
                return {name: found for name, found in read.items() if found is not None}
        raise AssertionError

    def _stored(self, wanted: set[str] | None = None) -> tuple[dict[str, Record], list[str]]:
        """Finished runs by key, and the tables that they were read from."""
        import polars as pl

        # Before the tables: what leaves this directory has entered a table.
        loose, _ = self._loose()
        best = {key: record for key, record in loose.items() if wanted is None or key in wanted}

        def rows(data: bytes) -> list[dict[str, Any]]:
            columns = [*OF_RUN, *DOCUMENTS]
            frame = pl.read_parquet(data, columns=columns).rename({name: text_of(name) for name in columns})
            if wanted is not None:
                frame = frame.filter(pl.col("key").is_in(list(wanted)))
            return frame.to_dicts()

        tables = self._tables(rows)
        for row in (row for found in tables.values() for row in found):
            record = Record(**row)
            if record.better_than(best.get(record.key)):
                best[record.key] = record
        return best, list(tables)

    def _without_series(self, records: dict[str, Record], *, read: bool = False) -> set[str]:
        """Keys of runs whose series is lost."""
        wanted = {
            key for key, record in records.items() if record.status == "done" and wants_series(record.description_text)
        }
        if read:
            lost = {key for key in wanted if self._found(_series(key), lambda _: True) is None}
            coarse = {key for key, record in records.items() if record.status == "done"} - wanted
            return lost | (coarse - self._with_coarse() if coarse else set())
        there = set(self.files.names("series", ".parquet")) if wanted else set()
        return {key for key in wanted if _series(key) not in there}

    @checked
    def records(self, keys: Iterable[str] | None = None, *, read_series: bool = False) -> dict[str, Record]:
        """Give finished runs by key: all of them, or those asked for that are there.

        A run that asked for a time series and has lost it is not there.

        Args:
            keys: Keys of the runs.
            read_series: Read every series to know whether it is damaged, not only whether it is there.
        """
        records, _ = self._stored(None if keys is None else set(keys))
        for key in self._without_series(records, read=read_series):
            del records[key]
        return records

    @checked
    def series(self, key: str) -> pl.DataFrame | None:
        """Give the time series of a run, the coarse one when no other was asked for; ``None`` when it is lost."""
        import polars as pl

        found = self._found(_series(key), pl.read_parquet)
        return self.coarse_series({key}).get(key) if found is None else found

    @checked
    def coarse_series(self, keys: Iterable[str]) -> dict[str, pl.DataFrame]:
        """Give the time series that runs keep without being asked to, by key; runs that were asked to have none."""
        import polars as pl

        chosen = set(keys)
        texts: dict[str, str] = {}
        # Before the tables: what leaves this directory has entered a table.
        loose, _ = self._loose()
        for frame in self._tables(lambda data: coarse_of(data, chosen), "coarse").values():
            texts.update(frame.iter_rows())
        texts |= {key: text for key in chosen & loose.keys() if (text := loose[key].coarse_text) is not None}
        found = {}
        for key, text in texts.items():
            columns: dict[str, list[float | None]] = json.loads(text)
            whole = {name: all(isinstance(value, int) for value in values) for name, values in columns.items()}
            schema = {name: pl.Int64 if whole[name] else pl.Float64 for name in columns}
            found[key] = pl.DataFrame(columns, schema=schema)
        return found

    def _with_coarse(self) -> set[str]:
        """Keys of runs whose coarse series can be read."""
        loose, _ = self._loose()
        keys = {key for key, record in loose.items() if record.coarse_text is not None}
        return keys.union(*self._tables(keys_of_coarse, "coarse").values())

    def compact(self) -> None:
        """Put finished runs that lie alone into a table, and many tables into one.

        May be called at any time by anybody: what is deleted is in a table that is safe on disk before.
        """
        loose, files = self._loose()
        if loose:
            self.write_table(loose)
            for name in files:
                (self.folder / name).unlink(missing_ok=True)
        if len(self.files.names("tables", ".parquet")) > _MOST_TABLES:
            records, tables = self._stored()
            joined = self.write_table(records)
            for name in tables:
                if name != joined:
                    (self.folder / name).unlink(missing_ok=True)
        self._join_coarse()
        self._sweep()

    def _join_coarse(self) -> None:
        """Put many small tables of coarse series into one: they take thousands of bytes for each run."""
        names = self.files.names("coarse", ".parquet")
        small = [name for name in names if (self.folder / name).stat().st_size < _SMALL_BYTES]
        if len(small) > _MOST_TABLES:
            read = {name: self._found(name, coarse_of) for name in small}
            found = {name: frame for name, frame in read.items() if frame is not None}
            texts = {key: text for frame in found.values() for key, text in frame.iter_rows()}
            joined = self._write_coarse(texts)
            for name in found:
                if name != joined:
                    (self.folder / name).unlink(missing_ok=True)

    def _write_coarse(self, texts: Mapping[str, str | None]) -> str | None:
        data = coarse_table(texts)
        if data is None:
            return None
        name = f"coarse/{hashlib.blake2b(data, digest_size=16).hexdigest()}.parquet"
        self.files.write(name, data, durable=True)
        return name

    def write_table(self, records: Mapping[str, Record]) -> str:
        """Keep finished runs as a table that is safe on disk when this returns, and name it."""
        # First, so that a run that is there has its series.
        self._write_coarse({key: record.coarse_text for key, record in records.items()})
        data = table_of(records)
        name = f"tables/{hashlib.blake2b(data, digest_size=16).hexdigest()}.parquet"
        self.files.write(name, data, durable=True)
        return name

    def _sweep(self) -> None:
        """Delete what processes left behind that died while they wrote."""
        left = [path for part in ("", *_PARTS, DAMAGED) for path in (self.folder / part).glob(f".*{TEMPORARY}")]
        if not left:
            return
        now = self.files.now()
        for path in left:
            with contextlib.suppress(OSError):
                if now - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()

    # Studies

    def save_study(self, study: StudyRecord) -> None:
        """Keep which runs a study has; a study of the same name is replaced, its results stay.

        Raises:
            ConfigError: Its name cannot be that of a file.
        """
        check_name(study.name)
        name = f"studies/{study.name}.json"
        # One that is damaged is set aside, not replaced.
        self._read_study(name)
        # The mark may have been damaged and written anew since it was read.
        self._id = self._identity()
        kept = {**vars(study), "runs": [run._asdict() for run in study.runs], "store": self._id}
        self.files.write(name, json.dumps(kept).encode())

    @contextlib.contextmanager
    @checked
    def claim(self, name: str) -> Iterator[None]:
        """Be the only one who drives a study, as long as this lasts or the process is alive.

        Where the file system has no locks nobody is refused: results are right all the same.

        Args:
            name: The study, and the part of it if there is one.

        Raises:
            ConfigError: Another process does; the message names it.
        """
        try:
            import fcntl
        except ImportError:
            yield
            return
        with (self.folder / f"studies/.{name}.driver").open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise ConfigError(
                    f"{self.folder}: study {name!r} is driven by {file.read(200) or 'another process'}: wait for it, "
                    "or name another store"
                ) from None
            except OSError as error:
                LOG.debug("%s: no locks: %s", self.folder, error)
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}")
            file.flush()
            yield

    def _read_study(self, name: str) -> StudyRecord | None:
        def parse(data: bytes) -> StudyRecord:
            kept = json.loads(data)
            owner = kept.pop("store")
            if owner != self._id:
                self._id = self._identity()
            if owner != self._id:
                raise ValueError("found the study of another store, expected one of this")
            runs = tuple(
                StudyRun(run["key"], tuple(run["values"]), run["seed"], run.get("error")) for run in kept["runs"]
            )
            return StudyRecord(**{**kept, "axes": tuple(kept["axes"]), "runs": runs})

        return self._found(name, parse)

    def _found(self, name: str, parse: Callable[[bytes], _T]) -> _T | None:
        """A file's content; ``None`` when it is absent or damaged."""
        try:
            return self.files.read(name, parse)
        except FileNotFoundError:
            return None

    def studies(self) -> dict[str, StudyRecord]:
        """Give its studies by name, the newest first."""
        read = (self._read_study(name) for name in self.files.names("studies", ".json"))
        found = [study for study in read if study is not None]
        return {study.name: study for study in sorted(found, key=lambda study: (study.saved, study.name), reverse=True)}

    def __repr__(self) -> str:
        """Where it is, and its newest study."""
        studies = self.studies()
        if not studies:
            return f"<ftlab.Store {self.folder}: no study>"
        newest = next(iter(studies.values()))
        many = f"{len(studies)} studies, the newest " if len(studies) > 1 else ""
        return f"<ftlab.Store {self.folder}: {many}{newest.name} with {len(newest.runs):,} runs>"

    def _repr_html_(self) -> str:
        left = "style='text-align:left'"
        heads = "".join(f"<th {left}>{name}</th>" for name in ("study", "runs", "axes", "saved", "what it is"))
        rows = "".join(
            "<tr>" + "".join(f"<td {left}>{html.escape(text)}</td>" for text in cells) + "</tr>"
            for each in self.studies().values()
            for cells in [(each.name, f"{len(each.runs):,}", ", ".join(each.axes) or "-", each.saved, each.description)]
        )
        return f"<table><caption>{html.escape(str(self.folder))}</caption><tr>{heads}</tr>{rows}</table>"

    def lost_studies(self) -> list[str]:
        """Name the studies that were damaged and have not been run again."""
        return [name.removeprefix("studies/").removesuffix(".json") for name in sorted(self.files.lost("studies"))]

    @checked
    def study(self, name: str | None = None) -> StudyRecord:
        """Give a study by name; without one, the newest.

        Raises:
            ConfigError: There is none.
        """
        return self._chosen(self.studies(), name)

    def _chosen(self, studies: dict[str, StudyRecord], name: str | None) -> StudyRecord:
        from difflib import get_close_matches

        lost = self.lost_studies()
        # Which of them is the newest is not known where one is lost.
        if lost and (name is None or name in lost):
            raise ConfigError(
                f"{self.folder}: study {(name or lost[0])!r} was damaged and set aside: run it again"
                + (" or name another study" if studies and name is None else "")
            )
        if not studies:
            raise ConfigError(f"{self.folder}: no study has been run here")
        if name is None:
            return next(iter(studies.values()))
        if name not in studies:
            near = get_close_matches(name, studies, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; studies: {', '.join(studies)}"
            raise ConfigError(f"{self.folder}: no study {name!r}{hint}")
        return studies[name]

    @checked
    def frame(self, name: str | None = None) -> pl.DataFrame:
        """Give the tidy table of a study (without a name: of the newest): see :func:`ftlab.study`.

        Raises:
            ConfigError: There is no such study.
        """
        study = self.study(name)
        keys = {run.key for run in study.runs}
        if not self.files.names("tables", ".parquet"):
            # They would have to be put into a table first.
            return study_frame(study, self.records(keys))
        return self._frame(study, self._runs(keys))

    def _runs(self, wanted: set[str] | None = None, *, summaries: bool = True) -> Runs:
        """Finished runs as columns, without those whose series is lost."""
        # Before the tables: what leaves this directory has entered a table.
        loose, _ = self._loose()
        tables = list(self._tables(lambda data: data).values())
        return self._whole(Runs([table_of(loose), *tables] if loose else tables, wanted, summaries=summaries))

    def _whole(self, runs: Runs) -> Runs:
        asked = runs.with_series()
        there = set(self.files.names("series", ".parquet")) if asked else set()
        runs.without(key for key in asked if _series(key) not in there)
        return runs

    def _frame(self, study: StudyRecord, runs: Runs) -> pl.DataFrame:
        if runs.uniform:
            return frame_of(study, runs)
        # A column that has numbers in one table and names in another: every value counts by itself.
        return study_frame(study, self.records(run.key for run in study.runs))

    def states(self) -> dict[str, str]:
        """Give the status of every finished run by key, ``done`` or ``error``: quicker than :meth:`records`."""
        runs = self._runs(summaries=False).frame
        return dict(zip(runs["key"].to_list(), runs["status"].to_list(), strict=True))

    @checked
    def pandas(self, name: str | None = None) -> Any:
        """Give the tidy table of a study as a frame of pandas, which must be installed.

        Raises:
            ConfigError: There is no such study.
        """
        return to_pandas(self.frame(name))

    # Queries

    @checked
    def sql(self, query: str, name: str | None = None) -> pl.DataFrame:
        """Ask DuckDB.

        Args:
            query: SQL over these views. ``runs`` has every finished run of the store: ``key``, ``status``, ``error``,
                ``engine``, ``description`` (JSON) and the summary by dotted key in double quotes, such as
                ``"write_amplification.total"``. ``study`` is the tidy table of the requested study, and each study has
                a view of its own name.
            name: Which study is ``study``. Default: the newest.

        Raises:
            ConfigError: There is no such study.
            InputError: DuckDB refuses the query. It must be one statement that changes nothing and reads only the
                views, within 1 GiB of memory and 60 seconds, and its answer has at most 10 million values.
        """
        import tempfile

        from ftlab.studies.query import ask

        with tempfile.TemporaryDirectory(prefix="ftlab-") as temporary:
            return ask(query, *self._views(Path(temporary).resolve(), name))

    def _views(self, folder: Path, name: str | None) -> tuple[dict[str, list[Path]], set[str]]:
        """Write what a query may see into a folder: files of each view, and keys of runs that are not to be seen."""
        studies = self.studies()
        chosen = self._chosen(studies, name) if studies or name is not None else None
        # What lies alone is put into a table for this query only: asking changes nothing.
        loose, _ = self._loose()
        tables = list(self._tables(lambda data: data).values())
        if loose:
            tables.insert(0, table_of(loose))
        numbers = itertools.count()
        # Copies are what was checked, whatever becomes of the files meanwhile.
        files = [folder / f"runs-{next(numbers)}.parquet" for _ in tables]
        for path, data in zip(files, tables, strict=True):
            path.write_bytes(data)
        views = {"runs": files}
        runs = Runs(tables, summaries=bool(studies))
        light = runs if runs.uniform else Runs(tables, summaries=False)
        asked = light.with_series()
        lost = asked - self._whole(light).with_series()
        missing = total = 0
        for each, study in studies.items():
            path = folder / f"study-{next(numbers)}.parquet"
            frame = self._frame(study, runs)
            # For a moment only: packing it would take longer than reading it.
            frame.write_parquet(path, compression="uncompressed")
            missing, total = missing + frame["status"].to_list().count("missing"), total + frame.height
            # To DuckDB, names that differ only in case are one: the newest study has it.
            if each.lower() not in {name.lower() for name in views} | {"study"}:
                views[each] = [path]
            if study is chosen:
                views["study"] = [path]
        if missing:
            LOG.warning(
                "%s: %d of %d runs of its studies are missing: their rows have no results", self.folder, missing, total
            )
        for each in self.lost_studies():
            LOG.warning("%s: study %r was damaged and set aside; no query sees it", self.folder, each)
        return views, lost


def _series(key: str) -> str:
    return f"series/{key}.parquet"


def check_name(name: str) -> None:
    """Refuse names of studies that cannot be those of files.

    Raises:
        ConfigError: It is such a name.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", name):
        raise ConfigError(
            f"name = {name!r}: expected letters, digits, hyphens, dots and underscores (100 at most), for it is "
            "the name of a file in the store"
        )
