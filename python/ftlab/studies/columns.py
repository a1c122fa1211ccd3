"""Finished runs as columns: enough for tables and queries, without a document of JSON for each run."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from ftlab.studies.frame import NOT_RESULTS, column, flatten, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl

    from ftlab.studies.store import Record, StudyRecord

# Of a run; all other columns are keys of its summary.
OF_RUN = ("key", "status", "error", "error_kind", "elapsed_seconds", "finished", "engine")
# Documents of a run, which are read apart.
DOCUMENTS = ("description", "summary")
_COARSE = ["key", "coarse"]
# What parts a run that asked for a series from one that did not, in the text of its description.
_NO_SERIES = '"series": null'
# Few enough that one summary is read without all others.
_GROUP_ROWS = 2048

# Where a row came from, and whether it asked for a series.
_SOURCE, _ROW, _WANTS = "__source", "__row", "__wants_series"


def text_of(column: str) -> str:
    """Name the attribute of a record that a column of a table of runs holds."""
    return f"{column}_text" if column in DOCUMENTS else column


def wants_series(description: str) -> bool:
    """Whether a run asked for a time series, by the text of its description."""
    return _NO_SERIES not in description


def table_of(records: Mapping[str, Record]) -> bytes:
    """Write runs as a Parquet file, one row each, by key."""
    rows = []
    columns = (*OF_RUN, *DOCUMENTS)
    for key in sorted(records):
        record = records[key]
        # Not kept with the record: of many runs, documents take much more memory than their texts.
        summary = {} if record.summary_text is None else json.loads(record.summary_text)
        rows.append({**flatten(summary), **{name: getattr(record, text_of(name)) for name in columns}})
    buffer = io.BytesIO()
    table(rows, columns).write_parquet(buffer, row_group_size=_GROUP_ROWS)
    return buffer.getvalue()


def coarse_table(texts: Mapping[str, str | None]) -> bytes | None:
    """Write coarse time series, which are JSON by key, as a Parquet file. ``None`` where there are none."""
    import polars as pl

    kept = sorted((key, text) for key, text in texts.items() if text is not None)
    if not kept:
        return None
    buffer = io.BytesIO()
    pl.DataFrame(kept, schema=_COARSE, orient="row").write_parquet(buffer, row_group_size=_GROUP_ROWS)
    return buffer.getvalue()


def coarse_of(data: bytes, keys: Iterable[str] | None = None) -> pl.DataFrame:
    """Read what :func:`coarse_table` wrote: ``key`` and ``coarse`` of all runs, or of those asked for."""
    import polars as pl

    frame = pl.read_parquet(data, columns=_COARSE)
    return (
        frame if keys is None else frame.filter(pl.col("key").is_in(pl.Series(sorted(keys), dtype=pl.String).implode()))
    )


def keys_of_coarse(data: bytes) -> set[str]:
    """Name the runs in what :func:`coarse_table` wrote."""
    import polars as pl

    return set(pl.read_parquet(data, columns=_COARSE[:1])["key"].to_list())


class Runs:
    """The finished runs of some Parquet files: of several rows of a run, the one that counts."""

    def __init__(self, files: list[bytes], wanted: Iterable[str] | None = None, *, summaries: bool = True) -> None:
        """Read them.

        Args:
            files: As :func:`table_of` makes them.
            wanted: Keys of the runs. Default: all.
            summaries: Read the keys of summaries as well.
        """
        import polars as pl

        self._files = files
        keys = None if wanted is None else pl.Series(sorted(wanted), dtype=pl.String)
        parts = []
        for number, data in enumerate(files):
            lazy = pl.scan_parquet(io.BytesIO(data), row_index_name=_ROW)
            there = lazy.collect_schema().names()
            chosen = [name for name in there if name not in DOCUMENTS] if summaries else list(OF_RUN)
            asked = ~pl.col("description").str.contains(_NO_SERIES, literal=True)
            lazy = lazy.select(
                _ROW, *(name for name in chosen if name != _ROW), asked.alias(_WANTS), pl.lit(number).alias(_SOURCE)
            )
            part = lazy.collect()
            part = part if keys is None else part.filter(pl.col("key").is_in(keys.implode()))
            parts += [part] if part.height else []
        #: Whether columns have one type everywhere; the values of others must be looked at one by one.
        self.uniform = _agreed(parts)
        self.frame = pl.DataFrame(schema={"key": pl.String, "status": pl.String, "error": pl.String})
        if parts and self.uniform:
            self.frame = pl.concat(parts, how="diagonal")
            if self.frame["key"].n_unique() < self.frame.height:
                best = [pl.col("status") == "done", pl.col("finished")]
                self.frame = self.frame.sort(best, maintain_order=True).unique("key", keep="last", maintain_order=True)

    def without(self, keys: Iterable[str]) -> None:
        """Leave runs out."""
        import polars as pl

        self.frame = self.frame.filter(~pl.col("key").is_in(pl.Series(list(keys), dtype=pl.String).implode()))

    def with_series(self) -> set[str]:
        """Give the keys of finished runs that asked for a series."""
        import polars as pl

        if _WANTS not in self.frame.columns:
            return set()
        return set(self.frame.filter(pl.col(_WANTS) & (pl.col("status") == "done"))["key"].to_list())

    def summary(self, key: str) -> dict[str, Any]:
        """Give the summary document of a run."""
        import polars as pl

        [[source, row]] = self.frame.filter(pl.col("key") == key).select(_SOURCE, _ROW).rows()
        file = pl.scan_parquet(io.BytesIO(self._files[source])).select("summary").slice(row, 1)
        summary: dict[str, Any] = json.loads(file.collect()["summary"][0])
        return summary


def _agreed(parts: list[pl.DataFrame]) -> bool:
    """Give the columns of all parts one type each, where those without a value have any. False where they differ."""
    import polars as pl

    kinds: dict[str, set[pl.DataType]] = {}
    for part in parts:
        for name, kind in part.schema.items():
            if part[name].null_count() < part.height:
                kinds.setdefault(name, set()).add(kind)
    if any(len(found) > 1 for found in kinds.values()):
        return False
    for at, part in enumerate(parts):
        casts = [
            pl.lit(None, dtype=next(iter(kinds.get(name, {kind})))).alias(name)
            for name, kind in part.schema.items()
            if {kind} != kinds.get(name, {kind})
        ]
        # A column that no part fills is one of numbers.
        casts += [
            pl.lit(None, dtype=pl.Float64).alias(name)
            for name, kind in part.schema.items()
            if name not in kinds and name not in OF_RUN and kind != pl.Float64
        ]
        parts[at] = part.with_columns(casts)
        texts = [name for name in OF_RUN if name not in kinds and name in part.columns]
        parts[at] = parts[at].with_columns(pl.lit(None, dtype=pl.String).alias(name) for name in texts)
    return True


def frame_of(study: StudyRecord, runs: Runs) -> pl.DataFrame:
    """Make the table of a study, as :func:`ftlab.studies.frame.study_frame` does of documents."""
    import polars as pl

    joined = pl.DataFrame({"key": [run.key for run in study.runs]}, schema={"key": pl.String}).join(
        runs.frame, on="key", how="left", maintain_order="left"
    )
    refused = [run.error for run in study.runs]
    fixed: dict[str, list[Any]] = {name: [run.values[at] for run in study.runs] for at, name in enumerate(study.axes)}
    fixed.setdefault("seed", [run.seed for run in study.runs])
    fixed["status"] = [
        "error" if why is not None else status or "missing"
        for why, status in zip(refused, joined["status"].to_list(), strict=True)
    ]
    fixed["error"] = [why or error for why, error in zip(refused, joined["error"].to_list(), strict=True)]
    fixed["key"] = joined["key"].to_list()
    taken = {*OF_RUN, _SOURCE, _ROW, _WANTS}
    results = joined.select(name for name in joined.columns if name not in taken)
    names = [name for name in _order(joined, results, runs) if name not in fixed]
    return pl.DataFrame([*(column(*each) for each in fixed.items()), *(_typed(results[name]) for name in names)])


def _order(joined: pl.DataFrame, results: pl.DataFrame, runs: Runs) -> list[str]:
    """Names of results in the order in which they are met, run by run.

    Runs that have values in the same columns have them in the same order: one of each kind is looked at.
    """
    import polars as pl

    if not results.width:
        return []
    kinds = joined.select("key", "status").with_columns(results.select(pl.all().is_null()).hash_rows().alias("kind"))
    first = kinds.filter(pl.col("status") == "done").unique("kind", keep="first", maintain_order=True)
    names: dict[str, None] = {}
    for key in first["key"].to_list():
        names |= dict.fromkeys(flatten(runs.summary(key)))
    return [name for name in names if name not in NOT_RESULTS]


def _typed(values: pl.Series) -> pl.Series:
    """A column as it is by itself: its type must not depend on what else a store has."""
    import polars as pl

    if values.null_count() == len(values):
        return column(values.name, [None] * len(values))
    most = values.max() if values.dtype == pl.UInt64 else None
    if isinstance(most, int) and most < 1 << 63 and values.name.rsplit(".", 1)[-1] != "seed":
        return values.cast(pl.Int64)
    return values
