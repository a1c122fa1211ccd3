"""The process that asks DuckDB: a program of its own, because only a process can be held to its memory and time.

It reads a question from standard input and writes an answer to standard output, both pickled. See :mod:`.query`.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

# Between two looks at how many values there are.
_ROWS_AT_A_TIME = 2048
# Threads and libraries take addresses that are no memory.
_ROOM_BYTES = 1 << 30
_MOST_THREADS = 4


class QueryError(Exception):
    """The query cannot be answered; the message says why."""


def _quoted(text: str, quote: str) -> str:
    return f"{quote}{text.replace(quote, quote * 2)}{quote}"


def _listed(texts: Collection[str]) -> str:
    return ", ".join(_quoted(text, "'") for text in texts)


def _limit(memory_bytes: int) -> None:
    """Hold this process to its memory: DuckDB does not count what its functions take."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource
        from pathlib import Path

        # Pages that are mapped already; 0 where the system does not say.
        mapped = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        most = mapped + memory_bytes + _ROOM_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _open(connection: duckdb.DuckDBPyConnection, views: Mapping[str, Sequence[str]], hidden: Collection[str]) -> None:
    """Make the views, and lock everything else."""
    for view, files in views.items():
        if not files:
            continue
        source = f"SELECT * FROM read_parquet([{_listed(files)}], union_by_name = true)"  # noqa: S608 - quoted
        if view == "runs":
            # Tables may overlap where two processes joined runs at a time.
            source += f" WHERE key NOT IN ({_listed(hidden)})" if hidden else ""
            source += " QUALIFY row_number() OVER (PARTITION BY key ORDER BY status = 'done' DESC, finished DESC) = 1"
        connection.execute(f"CREATE VIEW {_quoted(view, chr(34))} AS {source}")
    connection.execute(f"SET allowed_paths = [{_listed([file for files in views.values() for file in files])}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _check(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise QueryError(f"found {len(statements)} statements, expected one")
    kind = statements[0].type
    # What DuckDB makes several statements of is a PIVOT.
    if kind not in {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.MULTI}:
        raise QueryError(f"found {kind.name}, expected a query such as SELECT")


def _rows(
    connection: duckdb.DuckDBPyConnection, query: str, most_values: int
) -> tuple[list[str], list[tuple[Any, ...]]]:
    answer = connection.execute(query)
    names = [column[0] for column in answer.description or ()]
    rows: list[tuple[Any, ...]] = []
    while more := answer.fetchmany(_ROWS_AT_A_TIME):
        rows += more
        if len(rows) * len(names) > most_values:
            raise QueryError(f"the answer has more than {most_values:,} values; add a LIMIT or name columns")
    return names, rows


def answer(
    query: str, views: Mapping[str, Sequence[str]], hidden: Collection[str], memory_bytes: int, most_values: int
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Give names of columns, and rows.

    Raises:
        QueryError: There is no answer.
        MemoryError: It needs more memory.
    """
    # Nothing is written to disk either, and variables of this program are no tables.
    config: dict[str, Any] = {
        "memory_limit": f"{memory_bytes}B",
        "temp_directory": "",
        "python_enable_replacements": "false",
    }
    try:
        with duckdb.connect(config=config) as connection:
            connection.execute(f"SET threads = least(current_setting('threads')::INT, {_MOST_THREADS})")
            _open(connection, views, hidden)
            _check(connection, query)
            return _rows(connection, query, most_values)
    except duckdb.OutOfMemoryException as error:
        raise MemoryError from error
    except duckdb.Error as error:
        if "bad_alloc" in str(error) or "bad allocation" in str(error):
            raise MemoryError from error
        raise QueryError(str(error)) from error


def main() -> None:
    """Answer the question on standard input."""
    question = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the process that started this one
    _limit(question["memory_bytes"])
    try:
        said = pickle.dumps(answer(**question))
    except QueryError as error:
        said = pickle.dumps(str(error))
    except MemoryError:
        said = pickle.dumps(None)
    sys.stdout.buffer.write(said)


if __name__ == "__main__":
    main()
