"""Queries: SQL over the tables of a store, which reads nothing else and changes nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ftlab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import polars as pl

MEMORY_BYTES = 1 << 30
SECONDS = 60
# Values of an answer become objects of Python, which take more memory than in DuckDB.
MOST_VALUES = 10_000_000


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of columns, of which a join may have two alike."""
    found: dict[str, None] = {}
    for name in names:
        count, other = 1, name
        while other in found:
            count, other = count + 1, f"{name}_{count}"
        found[other] = None
    return list(found)


def ask(query: str, views: Mapping[str, Sequence[Path]], hidden: Collection[str] = ()) -> pl.DataFrame:
    """Ask DuckDB about Parquet files.

    Args:
        query: One statement, which can see the views and nothing else.
        views: The files of each view.
        hidden: Keys of runs that the view ``runs`` leaves out.

    Raises:
        InputError: It cannot be answered, or needs more memory or time than it may have.
    """
    import pickle

    import polars as pl

    question = {
        "query": query,
        "views": {view: [str(file) for file in files] for view, files in views.items()},
        "hidden": sorted(hidden),
        "memory_bytes": MEMORY_BYTES,
        "most_values": MOST_VALUES,
    }
    program = Path(__file__).with_name("asking.py")
    try:
        # -P: files beside the program are no libraries.
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-P", program],
            input=pickle.dumps(question),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"SQL: the query took more than {SECONDS:g} s and was ended") from None
    if done.returncode > 0:
        why = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise InputError(f"SQL: the process of the query ended with status {done.returncode}: {why}")
    # A process that gets no memory may be ended by a signal, without a word.
    said = pickle.loads(done.stdout) if done.returncode == 0 else None  # noqa: S301 - of our own program
    if said is None:
        raise InputError(f"SQL: the query needs more than {MEMORY_BYTES >> 20:,} MiB of memory")
    if isinstance(said, str):
        raise InputError(f"SQL: {said}")
    names, rows = said
    return pl.DataFrame(rows, schema=_distinct(names), orient="row", infer_schema_length=None)
