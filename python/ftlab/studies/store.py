"""The store of results: a directory of files that are only ever added or replaced as a whole.

``store.json`` marks it. ``runs/KEY.json`` is a finished run, written by one rename; ``tables/*.parquet`` hold finished
runs together. ``series/KEY.parquet`` is the time series of a run. ``studies/NAME.json`` says which runs a study has;
``traces/`` remembers hashes of traces. No file is ever changed, so several processes may write at a time, and any of
them may die at any moment. What was renamed into place is whole, and what was not is swept up later.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ftlab.errors import ConfigError, InputError
from ftlab.studies.frame import flatten, study_frame, table, to_pandas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import polars as pl

    from ftlab.studies.description import Description, Outcome

_T = TypeVar("_T")

_VERSION = 1
_MARK = "store.json"
_TEMPORARY = ".tmp"

# So many tables become one: each study adds one, and a query opens them all.
_MOST_TABLES = 16
# A file that a dead process left behind is nobody's after a day.
_ABANDONED_SECONDS = 86_400
# Files vanish while somebody joins them; whoever lists again finds what they became.
_ATTEMPTS = 10


def write_atomically(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a file as a whole: nobody ever sees a part of it, whenever this process ends.

    Args:
        path: The file; its directory must exist.
        data: Its content.
        durable: Also survive a power cut that comes later: needed before anything else is deleted because of it.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_TEMPORARY}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable and hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


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
        description: The run, all of it.
        summary: The summary document; ``None`` with an error.
    """

    key: str
    status: str
    error: str | None
    error_kind: str | None
    elapsed_seconds: float
    finished: str
    description: Description
    summary: dict[str, Any] | None

    def better_than(self, other: Record | None) -> bool:
        """Whether this one counts where both are stored: a result before an error, then the newer one."""
        return other is None or (self.status == "done", self.finished) > (other.status == "done", other.finished)


@dataclass(frozen=True)
class StudyRun:
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
    runs: tuple[StudyRun, ...]
    spec: dict[str, Any]
    saved: str


def now() -> str:
    """The time as it is stored."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


_COLUMNS = ("key", "status", "error", "error_kind", "elapsed_seconds", "finished", "engine")


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

    def __init__(self, folder: str | os.PathLike[str], *, create: bool = True) -> None:
        """Open a store.

        Args:
            folder: Its directory.
            create: Make it when it does not exist; otherwise that is an error.

        Raises:
            ConfigError: The directory is no store: it holds something else, or belongs to another version.
        """
        self.folder = Path(folder)
        mark = self.folder / _MARK
        if not mark.is_file():
            if not create:
                raise ConfigError(f"{self.folder}: no store of results: it has no {_MARK}")
            self._make(mark)
        try:
            version = json.loads(mark.read_text(encoding="utf-8"))["ftlab_store"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{mark}: marks no store of results: {error}") from error
        if version != _VERSION:
            raise ConfigError(f"{mark}: a store of version {version}, this ftlab knows version {_VERSION}")
        self._runs, self._tables = self.folder / "runs", self.folder / "tables"
        self._series, self._studies = self.folder / "series", self.folder / "studies"
        self.traces = self.folder / "traces"
        if create:
            for part in (self._runs, self._tables, self._series, self._studies, self.traces):
                part.mkdir(exist_ok=True)

    def _make(self, mark: Path) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            foreign = sorted(entry.name for entry in self.folder.iterdir() if not entry.name.startswith("."))
            if foreign and not mark.is_file():
                raise ConfigError(
                    f"{self.folder}: holds {foreign[0]} and is no store of results; name a new or an empty directory"
                )
            write_atomically(mark, json.dumps({"ftlab_store": _VERSION}).encode() + b"\n")
        except OSError as error:
            raise ConfigError(f"{self.folder}: cannot be a store of results: {error.strerror or error}") from error

    # Finished runs

    def put(self, description: Description, key: str, outcome: Outcome) -> Record:
        """Keep a finished run: it is there for every reader when this returns, whatever happens then."""
        record = Record(
            key=key,
            status=outcome.status,
            error=outcome.error,
            error_kind=outcome.error_kind,
            elapsed_seconds=outcome.elapsed_seconds,
            finished=now(),
            description=description,
            summary=outcome.summary,
        )
        if outcome.series is not None:
            # First, so that a run that is there has its series.
            write_atomically(self._series / f"{key}.parquet", outcome.series)
        write_atomically(self._runs / f"{key}.json", json.dumps(asdict(record)).encode())
        return record

    def _loose(self) -> dict[str, Record]:
        """Finished runs that are in no table yet. A file that a power cut spoilt is a run that has not finished."""
        found: dict[str, Record] = {}
        for path in sorted(self._runs.glob("*.json")):
            # Gone: it is in a table by now, and tables are read later.
            with contextlib.suppress(OSError, ValueError, TypeError):
                record = Record(**json.loads(path.read_text(encoding="utf-8")))
                if record.key == path.stem:
                    found[record.key] = record
        return found

    def _table_files(self) -> list[Path]:
        return sorted(self._tables.glob("*.parquet"))

    def _retried(self, read: Callable[[list[Path]], _T]) -> _T:
        """Read tables, again if one of them was joined with others meanwhile."""
        for attempt in range(_ATTEMPTS):
            files = self._table_files()
            try:
                return read(files)
            except Exception:
                if attempt + 1 == _ATTEMPTS or all(file.exists() for file in files):
                    raise
                time.sleep(0.01 * attempt)
        raise AssertionError

    def records(self, keys: Iterable[str] | None = None) -> dict[str, Record]:
        """Give finished runs by key: all of them, or those asked for that are there."""
        import polars as pl

        wanted = None if keys is None else set(keys)
        # Before the tables: what leaves this directory has entered a table.
        best = {key: record for key, record in self._loose().items() if wanted is None or key in wanted}

        def read(files: list[Path]) -> list[dict[str, Any]]:
            columns = [*_COLUMNS[:-1], "description", "summary"]
            frames = [pl.read_parquet(file, columns=columns) for file in files]
            if wanted is not None:
                frames = [frame.filter(pl.col("key").is_in(list(wanted))) for frame in frames]
            return [row for frame in frames for row in frame.iter_rows(named=True)]

        for row in self._retried(read):
            summary = None if row["summary"] is None else json.loads(row["summary"])
            record = Record(**{**row, "description": json.loads(row["description"]), "summary": summary})
            if record.better_than(best.get(record.key)):
                best[record.key] = record
        return best

    def series(self, key: str) -> pl.DataFrame | None:
        """Give the time series of a run; ``None`` when none was asked for."""
        import polars as pl

        path = self._series / f"{key}.parquet"
        return pl.read_parquet(path) if path.is_file() else None

    def compact(self) -> None:
        """Put finished runs that lie alone into a table, and many tables into one.

        May be called at any time by anybody: what is deleted is in a table that is safe on disk before.
        """
        loose = self._loose()
        if loose:
            self._write_table(loose)
            for key in loose:
                (self._runs / f"{key}.json").unlink(missing_ok=True)
        files = self._table_files()
        if len(files) > _MOST_TABLES:
            joined = self._write_table(self.records())
            for file in files:
                if file != joined:
                    file.unlink(missing_ok=True)
        self._sweep()

    def _write_table(self, records: dict[str, Record]) -> Path:
        import hashlib
        import io

        rows = []
        for key in sorted(records):
            record = records[key]
            row = {name: getattr(record, name) for name in _COLUMNS[:-1]}
            row["engine"] = record.description["engine"]
            texts = {
                "description": json.dumps(record.description),
                "summary": None if record.summary is None else json.dumps(record.summary),
            }
            rows.append({**flatten(record.summary or {}), **row, **texts})
        buffer = io.BytesIO()
        table(rows, (*_COLUMNS, "description", "summary")).write_parquet(buffer)
        data = buffer.getvalue()
        path = self._tables / f"{hashlib.blake2b(data, digest_size=16).hexdigest()}.parquet"
        write_atomically(path, data, durable=True)
        return path

    def _sweep(self) -> None:
        """Delete what processes left behind that died while they wrote."""
        for folder in (self.folder, self._runs, self._tables, self._series, self._studies, self.traces):
            for path in folder.glob(f".*{_TEMPORARY}"):
                with contextlib.suppress(OSError):
                    if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                        path.unlink()

    # Studies

    def save_study(self, study: StudyRecord) -> None:
        """Keep which runs a study has; a study of the same name is replaced, its results stay.

        Raises:
            ConfigError: Its name cannot be that of a file.
        """
        check_name(study.name)
        data = json.dumps(asdict(study)).encode()
        write_atomically(self._studies / f"{study.name}.json", data)

    def studies(self) -> dict[str, StudyRecord]:
        """Give its studies by name, the newest first."""
        found = []
        for path in self._studies.glob("*.json"):
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                kept = json.loads(path.read_text(encoding="utf-8"))
                runs = tuple(StudyRun(**{**run, "values": tuple(run["values"])}) for run in kept["runs"])
                found.append(StudyRecord(**{**kept, "axes": tuple(kept["axes"]), "runs": runs}))
        return {study.name: study for study in sorted(found, key=lambda study: (study.saved, study.name), reverse=True)}

    def study(self, name: str | None = None) -> StudyRecord:
        """Give a study by name; without one, the newest.

        Raises:
            ConfigError: There is none.
        """
        return self._chosen(self.studies(), name)

    def _chosen(self, studies: dict[str, StudyRecord], name: str | None) -> StudyRecord:
        from difflib import get_close_matches

        if not studies:
            raise ConfigError(f"{self.folder}: no study has been run here")
        if name is None:
            return next(iter(studies.values()))
        if name not in studies:
            near = get_close_matches(name, studies, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; studies: {', '.join(studies)}"
            raise ConfigError(f"{self.folder}: no study {name!r}{hint}")
        return studies[name]

    def frame(self, name: str | None = None) -> pl.DataFrame:
        """Give the tidy table of a study (without a name: of the newest): see :func:`ftlab.study`.

        Raises:
            ConfigError: There is no such study.
        """
        study = self.study(name)
        return study_frame(study, self.records(run.key for run in study.runs))

    def pandas(self, name: str | None = None) -> Any:
        """Give the tidy table of a study as a frame of pandas, which must be installed.

        Raises:
            ConfigError: There is no such study.
        """
        return to_pandas(self.frame(name))

    # Queries

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
            InputError: DuckDB refuses the query.
        """
        # Before the tables, as in `records`.
        loose = self._loose()
        return self._retried(lambda files: self._ask(query, name, files, loose))

    def _ask(self, query: str, name: str | None, files: list[Path], loose: dict[str, Record]) -> pl.DataFrame:
        import tempfile

        import duckdb
        import polars as pl

        studies = self.studies()
        chosen = self._chosen(studies, name) if studies or name is not None else None
        with tempfile.TemporaryDirectory(prefix="ftlab-") as folder, duckdb.connect() as connection:
            # What lies alone is put into a table for this query only: asking changes nothing.
            if loose:
                aside = Store(folder)
                files = [*files, aside._write_table(loose)]
            if files:
                listed = ", ".join(_quoted(str(file), "'") for file in files)
                # Tables may overlap where two processes joined runs at a time.
                connection.execute(
                    f"CREATE VIEW runs AS SELECT * FROM read_parquet([{listed}], union_by_name = true) "  # noqa: S608 - quoted
                    "QUALIFY row_number() OVER (PARTITION BY key ORDER BY status = 'done' DESC, finished DESC) = 1"
                )
            records = self.records() if studies else {}
            views = {each: each for each in studies if each != "runs"}
            if chosen is not None:
                views["study"] = chosen.name
            for view, each in views.items():
                path = Path(folder) / f"study-{each}.parquet"
                if not path.exists():
                    study_frame(studies[each], records).write_parquet(path)
                table_of = _quoted(str(path), "'")
                connection.execute(f"CREATE VIEW {_quoted(view, chr(34))} AS SELECT * FROM read_parquet({table_of})")  # noqa: S608 - quoted
            try:
                answer = connection.execute(query)
                names = [column[0] for column in answer.description or ()]
                rows = answer.fetchall()
            except duckdb.Error as error:
                if not all(file.exists() for file in files):
                    raise
                raise InputError(f"SQL: {error}") from error
        return pl.DataFrame(rows, schema=_distinct(names), orient="row", infer_schema_length=None)


def _distinct(names: list[str]) -> list[str]:
    """Names of columns, of which a join may have two alike."""
    found: dict[str, None] = {}
    for name in names:
        count, other = 1, name
        while other in found:
            count, other = count + 1, f"{name}_{count}"
        found[other] = None
    return list(found)


def _quoted(text: str, quote: str) -> str:
    return f"{quote}{text.replace(quote, quote * 2)}{quote}"


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
