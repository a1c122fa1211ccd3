"""Tables of requests, from whatever holds columns: NumPy, Arrow, Polars, pandas, dictionaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ftlab import _native
from ftlab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

OPERATIONS = ("read", "write", "trim", "flush")
_COLUMNS = {"arrival_ns": "<u8", "op": "u1", "lba": "<u8", "sectors": "<u4", "stream": "<u2", "fua": "u1"}
# Where it is not the largest number of the type.
_LIMITS = {"fua": 1}
# What stands for a missing value in columns of objects.
_GAPS = {"None", "<NA>", "nan"}
_REQUIRED = ("op", "lba", "sectors")


def _fields(value: object) -> tuple[str, ...]:
    """The fields of a structured array."""
    return getattr(getattr(value, "dtype", None), "names", None) or ()


def is_table(value: object) -> bool:
    """Whether a value has named columns."""
    # Asked of the type: a lazy frame computes its names.
    names = ("columns", "column_names")
    return bool(_fields(value)) or isinstance(value, dict) or any(hasattr(type(value), name) for name in names)


def _names(table: Any) -> list[str]:
    if fields := _fields(table):
        return list(fields)
    if isinstance(table, dict):
        return list(table)
    return [str(name) for name in getattr(table, "column_names", None) or table.columns]


def _values(name: str, column: Any) -> np.ndarray[Any, Any]:
    try:
        values = _array(column)
    except ValueError as error:
        raise InputError(f"column {name}: {error}") from error
    if values.ndim != 1:
        raise InputError(f"column {name}: expected one dimension, found {values.ndim}")
    return values


def _array(column: Any) -> np.ndarray[Any, Any]:
    import numpy as np

    if hasattr(column, "to_numpy"):
        try:
            return np.asarray(column.to_numpy(zero_copy_only=False))
        except TypeError:
            return np.asarray(column.to_numpy())
    return np.asarray(column)


def _operations(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    if values.dtype.kind in "iu":
        return values
    names, codes = np.unique(values.astype(str), return_inverse=True)
    table = {name: code for code, full in enumerate(OPERATIONS) for name in (full, full[0])}
    unknown = [at for at, name in enumerate(names) if name.lower() not in table]
    if unknown:
        row = int(np.flatnonzero(np.isin(codes, unknown))[0])
        found = f"op = {str(values[row])!r}" if isinstance(values[row], str) else "op has no name"
        raise InputError(f"row {row}: {found}, expected one of {', '.join(OPERATIONS)}, or codes 0 to 3")
    code_of = np.array([table[name.lower()] for name in names], dtype="u1")
    return code_of[codes]


def _checked(name: str, values: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    import numpy as np

    limit = _LIMITS.get(name, np.iinfo(np.dtype(kind)).max)
    if values.dtype.kind in "fO":
        # Columns of pandas that have gaps may be of objects.
        is_gap = np.isnan(values) if values.dtype.kind == "f" else [str(value) in _GAPS for value in values]
        gaps = np.flatnonzero(is_gap)
        if gaps.size:
            raise InputError(f"row {int(gaps[0])}: {name} is missing, expected a whole number from 0 to {limit}")
    # Yes and no are numbers where 0 and 1 are all that there is.
    if values.dtype.kind not in ("iubf" if limit == 1 else "iuf"):
        raise InputError(f"column {name}: expected whole numbers, found {values.dtype}")
    # The largest number may be none that has a fraction point, but the one after it is.
    too_large = values >= float(limit + 1) if values.dtype.kind == "f" else values > limit
    wrong = np.flatnonzero((values < 0) | too_large | (np.mod(values, 1) != 0))
    if wrong.size:
        row = int(wrong[0])
        raise InputError(f"row {row}: {name} = {values[row]}, expected a whole number from 0 to {limit}")
    return np.ascontiguousarray(values, dtype=kind)


def _settle_flushes(columns: dict[str, Any]) -> None:
    """A flush has no size, and no address whatever is in its column."""
    import numpy as np

    flushes = columns["op"] == OPERATIONS.index("flush")
    wrong = np.flatnonzero(flushes & (columns["sectors"] != 0))
    if wrong.size:
        row = int(wrong[0])
        raise InputError(f"row {row}: sectors = {columns['sectors'][row]}, expected 0: a flush has no size")
    if flushes.any():
        columns["lba"] = np.where(flushes, 0, columns["lba"]).astype("<u8")


def is_empty(table: Any) -> bool:
    """Whether a table has columns and no rows."""
    return not any(_values(column, table[column]).size for column in _names(table))


def source_of(table: Any, name: str = "table") -> _native.Source:
    """Make a source of requests from a table.

    Args:
        table: A structured NumPy array, a dictionary of arrays, or a Polars, pandas or Arrow table. Its columns are
            ``op`` (names, or codes 0 read, 1 write, 2 trim, 3 flush), ``lba`` and ``sectors`` of 512 bytes. Optional
            are ``arrival_ns`` and ``stream`` (default 0), and ``fua`` (0 or 1, default 0): a write must be durable
            before it completes. Flushes have the size 0, and their address does not count. Rows are in order of
            arrival.
        name: Its name in reports.

    Raises:
        InputError: A column is missing, unknown, or holds what it cannot hold.
    """
    import numpy as np

    if hasattr(type(table), "collect"):
        raise InputError("table of requests: it is not computed yet: give its .collect()")
    names = _names(table)
    unknown = [column for column in names if column not in _COLUMNS]
    missing = [column for column in _REQUIRED if column not in names]
    if unknown or missing:
        problem = f"unknown column {unknown[0]!r}" if unknown else f"column {missing[0]!r} is missing"
        raise InputError(f"table of requests: {problem}; columns are {', '.join(_COLUMNS)}")
    columns: Mapping[str, np.ndarray[Any, Any]] = {column: _values(column, table[column]) for column in names}
    rows = len(columns["lba"])
    filled: dict[str, Any] = {}
    for column, kind in _COLUMNS.items():
        values = columns.get(column, np.zeros(rows, dtype=kind))
        filled[column] = _checked(column, _operations(values) if column == "op" else values, kind)
    if all(values.size == rows for values in filled.values()):
        _settle_flushes(filled)
    return _native.Source.from_columns(**filled, name=name)
