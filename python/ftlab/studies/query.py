"""Queries: SQL over the tables of a store, which reads nothing else and changes nothing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ftlab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    import duckdb
    import polars as pl

MEMORY_BYTES = 1 << 30
SECONDS = 60
# Values of an answer become objects of Python, which DuckDB does not count.
MOST_VALUES = 10_000_000
# Between two looks at how many values there are.
_ROWS_AT_A_TIME = 2048


def _quoted(text: str, quote: str) -> str:
    return f"{quote}{text.replace(quote, quote * 2)}{quote}"


def _listed(texts: Collection[str]) -> str:
    return ", ".join(_quoted(text, "'") for text in texts)


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of columns, of which a join may have two alike."""
    found: dict[str, None] = {}
    for name in names:
        count, other = 1, name
        while other in found:
            count, other = count + 1, f"{name}_{count}"
        found[other] = None
    return list(found)


def _open(connection: duckdb.DuckDBPyConnection, views: Mapping[str, Sequence[Path]], hidden: Collection[str]) -> None:
    """Make the views, and lock everything else."""
    for view, files in views.items():
        if not files:
            continue
        source = f"SELECT * FROM read_parquet([{_listed([str(file) for file in files])}], union_by_name = true)"  # noqa: S608 - quoted
        if view == "runs":
            # Tables may overlap where two processes joined runs at a time.
            source += f" WHERE key NOT IN ({_listed(hidden)})" if hidden else ""
            source += " QUALIFY row_number() OVER (PARTITION BY key ORDER BY status = 'done' DESC, finished DESC) = 1"
        connection.execute(f"CREATE VIEW {_quoted(view, chr(34))} AS {source}")
    paths = _listed([str(file) for files in views.values() for file in files])
    connection.execute(f"SET allowed_paths = [{paths}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _check(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    import duckdb

    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise InputError(f"SQL: found {len(statements)} statements, expected one")
    kind = statements[0].type
    # What DuckDB makes several statements of is a PIVOT.
    if kind not in {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.MULTI}:
        raise InputError(f"SQL: found {kind.name}, expected a query such as SELECT")


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    answer = connection.execute(query)
    names = [column[0] for column in answer.description or ()]
    rows: list[tuple[Any, ...]] = []
    while more := answer.fetchmany(_ROWS_AT_A_TIME):
        rows += more
        if len(rows) * len(names) > MOST_VALUES:
            raise InputError(f"SQL: the answer has more than {MOST_VALUES:,} values; add a LIMIT or name columns")
    return names, rows


def ask(query: str, views: Mapping[str, Sequence[Path]], hidden: Collection[str] = ()) -> pl.DataFrame:
    """Ask DuckDB about Parquet files.

    Args:
        query: One statement, which can see the views and nothing else.
        views: The files of each view.
        hidden: Keys of runs that the view ``runs`` leaves out.

    Raises:
        InputError: It cannot be answered, or needs more memory or time than it may have.
    """
    import duckdb
    import polars as pl

    # Nothing is written to disk either, and variables of the caller are no tables.
    config: dict[str, Any] = {
        "memory_limit": f"{MEMORY_BYTES}B",
        "temp_directory": "",
        "python_enable_replacements": "false",
    }
    with duckdb.connect(config=config) as connection:
        late = threading.Event()

        def interrupt() -> None:
            late.set()
            connection.interrupt()

        timer = threading.Timer(SECONDS, interrupt)
        timer.daemon = True
        timer.start()
        try:
            _open(connection, views, hidden)
            _check(connection, query)
            names, rows = _rows(connection, query)
        except duckdb.InterruptException:
            if not late.is_set():
                raise KeyboardInterrupt from None
            raise InputError(f"SQL: the query took more than {SECONDS:g} s and was ended") from None
        except duckdb.OutOfMemoryException:
            raise InputError(f"SQL: the query needs more than {MEMORY_BYTES >> 20:,} MiB of memory") from None
        except duckdb.Error as error:
            raise InputError(f"SQL: {error}") from error
        finally:
            timer.cancel()
    return pl.DataFrame(rows, schema=_distinct(names), orient="row", infer_schema_length=None)
