"""Tables of results: a row a run, a column a value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ftlab import _warned as warned
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

    from ftlab.studies.store import Record, StudyRecord

# Of the machine, not of the run: the same study gives the same table everywhere.
NOT_RESULTS = ("wall_seconds",)


def flatten(document: Mapping[str, Any]) -> dict[str, Any]:
    """Give the values of a document by dotted key. Lists, such as the busy time of every die, are no columns.

    Of warnings, the names are one. Where nothing was counted, as with the latency of reads where nothing read, mean and
    percentiles are ``None``.

    >>> flatten({"seed": 1, "gc": {"collections": 7}, "parallelism": {"die_busy_ns": [1, 2]}})
    {'seed': 1, 'gc.collections': 7}
    """
    flat: dict[str, Any] = {}
    _flatten(document, "", flat)
    return flat


def _flatten(document: Mapping[str, Any], prefix: str, flat: dict[str, Any]) -> None:
    for key, value in document.items():
        kind = type(value)
        if kind is dict:
            # Of nothing there is no mean and no percentile: 0 would be taken for one.
            is_of_nothing = value.get("count") == 0 and "mean" in value
            _flatten(dict.fromkeys(value) | {"count": 0} if is_of_nothing else value, f"{prefix}{key}.", flat)
        elif key == warned.COLUMN and not prefix:
            flat[key] = warned.joined(value)
        elif kind is not list:
            flat[prefix + key] = value


def column(name: str, values: list[Any]) -> pl.Series:
    """Make a column, whose type follows from the values."""
    import polars as pl

    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool}:
        # A column that nobody fills is one of numbers.
        return pl.Series(name, values, dtype=pl.Boolean if kinds else pl.Float64)
    if kinds <= {int}:
        # Seeds have 64 bits; a type that depended on the values would make tables of different studies differ.
        unsigned = name.rsplit(".", 1)[-1] == "seed" or max(value for value in values if value is not None) >= 1 << 63
        return pl.Series(name, values, dtype=pl.UInt64 if unsigned else pl.Int64)
    if kinds <= {int, float}:
        return pl.Series(name, [None if value is None else float(value) for value in values], dtype=pl.Float64)
    plain = (value if value is None or isinstance(value, str) else json.dumps(value) for value in values)
    return pl.Series(name, list(plain), dtype=pl.String)


def table(rows: Sequence[Mapping[str, Any]], first: Iterable[str] = ()) -> pl.DataFrame:
    """Make a frame of rows; columns are in the order in which they are met, those named ``first`` ahead."""
    import polars as pl

    names: dict[str, None] = dict.fromkeys(first)
    for row in rows:
        names |= dict.fromkeys(row)
    return pl.DataFrame([column(name, [row.get(name) for row in rows]) for name in names])


def study_frame(study: StudyRecord, records: Mapping[str, Record]) -> pl.DataFrame:
    """Make the tidy table of a study: a row a run, in the order of the grid.

    Columns: the axes; ``seed``; ``status`` (``done``, ``error``, or ``missing`` before it was run); ``error``; ``key``
    of the run in the store; and the summary document by dotted key. A key of the summary that is also an axis is left
    out. Nothing depends on the number of workers or the order of completion.
    """
    rows: list[dict[str, Any]] = []
    for run in study.runs:
        record = records.get(run.key)
        row: dict[str, Any] = dict(zip(study.axes, run.values, strict=True))
        row.setdefault("seed", run.seed)
        row |= {"status": "missing", "error": None, "key": run.key}
        if run.error is not None:
            row |= {"status": "error", "error": run.error}
        elif record is not None:
            row |= {"status": record.status, "error": record.error}
        if record is not None and record.summary is not None:
            flat = flatten(record.summary)
            row |= {key: value for key, value in flat.items() if key not in row and key not in NOT_RESULTS}
        rows.append(row)
    fixed = list(dict.fromkeys([*study.axes, "seed", "status", "error", "key"]))
    return table(rows, fixed)


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Give a frame whose values fit into text files: what is nested becomes JSON."""
    import polars as pl

    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    texts = [
        pl.Series(name, [None if value is None else json.dumps(value, default=str) for value in frame[name].to_list()])
        for name in nested
    ]
    return frame.with_columns(texts)


def to_pandas(frame: pl.DataFrame) -> Any:
    """Give a frame as one of pandas, without Arrow."""
    import pandas as pd

    return pd.DataFrame({name: frame[name].to_numpy() for name in frame.columns})


def to_polars(frame: Any) -> pl.DataFrame:
    """Take a frame of Polars, pandas or Arrow, a dictionary of columns, or a structured array of NumPy.

    Raises:
        ConfigError: It is none of these, or its columns cannot be read.
    """
    import numpy as np
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pl.DataFrame):
        return frame
    try:
        if isinstance(frame, Mapping):
            return pl.DataFrame([pl.Series(str(name), values, strict=False) for name, values in frame.items()])
        if isinstance(frame, np.ndarray) and frame.dtype.names is not None:
            return pl.DataFrame([pl.Series(name, np.ascontiguousarray(frame[name])) for name in frame.dtype.names])
        if hasattr(frame, "column_names"):
            arrow = pl.from_arrow(frame)
            return arrow if isinstance(arrow, pl.DataFrame) else arrow.to_frame()
        if hasattr(frame, "columns") and hasattr(frame, "to_numpy"):
            return pl.DataFrame([_from_pandas(str(name), frame[name]) for name in frame.columns])
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise ConfigError(f"the frame cannot be read: {error}") from error
    kind = type(frame).__name__
    raise ConfigError(f"found {kind}, expected a frame of Polars or pandas, an Arrow table, or a dictionary of columns")


def _from_pandas(name: str, column: Any) -> pl.Series:
    import numpy as np
    import polars as pl

    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iufb":
        return pl.Series(name, column.to_numpy())
    return pl.Series(name, list(column.to_numpy(dtype=object, na_value=None)), strict=False)
