"""Queries of a store: they read it and nothing else, change nothing, and have a budget."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import ftlab
from conftest import inside
from ftlab.studies import query
from ftlab.studies.asking import QueryError, answer

SPEC = {
    "name": "small",
    "device": {"extends": "ideal-page", "geometry": {"blocks_per_plane": 32, "pages_per_block": 8}},
    "workload": {"kind": "uniform", "requests": 50},
    "axes": {"ftl.gc": ["greedy", "fifo"]},
    "repetitions": 2,
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ftlab.Store:
    store = ftlab.Store(tmp_path_factory.mktemp("sql") / "store")
    ftlab.study(SPEC, out=store)
    return store


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("FROM study SELECT count(*)", [(4,)]),
        ("SELECT 1 -- and; a comment\n;", [(1,)]),
        ("WITH a AS (FROM runs) SELECT count(*) FROM a", [(4,)]),
        ("SELECT name FROM (SHOW TABLES) ORDER BY name", [("runs",), ("small",), ("study",)]),
        ('PIVOT small ON "ftl.gc" USING count(*) GROUP BY status', [("done", 2, 2)]),
        ("SELECT description->>'$.device.ftl.gc' AS gc FROM runs GROUP BY gc ORDER BY gc", [("fifo",), ("greedy",)]),
        ("SELECT max(length(description)) > 100 FROM runs", [(True,)]),
    ],
)
def test_queries(store: ftlab.Store, text: str, rows: list[tuple[object, ...]]) -> None:
    assert store.sql(text).rows() == rows


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "text", ["DESCRIBE runs", "SUMMARIZE study", "EXPLAIN SELECT * FROM runs", "EXPLAIN ANALYZE FROM study"]
)
def test_what_describes_is_a_query_too(store: ftlab.Store, text: str) -> None:
    assert store.sql(text).height > 0


@pytest.mark.long
def test_names_that_differ_in_case_only_are_one_view(tmp_path: Path) -> None:
    store = ftlab.Store(tmp_path)
    for number, name in enumerate(("Runs", "Study", "STUDY", "mine", "Mine"), start=1):
        ftlab.study({**SPEC, "axes": {}, "name": name, "repetitions": number}, out=store)
    counts = [store.sql(f"FROM {view} SELECT count(*)").item() for view in ("runs", "study", "mine")]
    assert counts == [5, 5, 5]
    assert store.sql("SELECT count(*) FROM study", "STUDY").item() == 3


# {secret} is a file beside the store, {table} one of its own, {out} one that does not exist.
READING = [
    "SELECT * FROM '{secret}'",
    "FROM read_csv('{secret}')",
    "FROM read_csv_auto('{secret}')",
    "FROM read_text('{secret}')",
    "FROM read_blob('{secret}')",
    "FROM read_json('{secret}')",
    "FROM sniff_csv('{secret}')",
    "FROM glob('/*')",
    "FROM read_parquet('{table}')",
    "FROM parquet_metadata('{table}')",
    "FROM parquet_schema('{table}')",
    "FROM read_parquet('https://example.org/a.parquet')",
    "FROM query('FROM read_text(''{secret}'')')",
    "FROM query_table('{secret}')",
    "SELECT (SELECT content FROM read_text('{secret}'))",
    "SELECT getenv('HOME')",
    "FROM frame",
    "EXPLAIN ANALYZE FROM read_text('{secret}')",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}'",
    "PIVOT (FROM read_csv('{secret}')) ON a",
]
CHANGING = [
    ("COPY runs TO '{out}'", "COPY"),
    ("COPY (SELECT 1) TO '{table}'", "COPY"),
    ("EXPORT DATABASE '{out}'", "EXPORT"),
    ("ATTACH '{out}'", "ATTACH"),
    ("ATTACH '{out}' AS other (TYPE sqlite)", "ATTACH"),
    ("USE memory", ""),
    ("INSTALL httpfs", "LOAD"),
    ("LOAD json", "LOAD"),
    ("SET enable_external_access = true", "SET"),
    ("SET memory_limit = '1TB'", "SET"),
    ("RESET lock_configuration", ""),
    ("PRAGMA memory_limit = '1TB'", "SET"),
    ("PRAGMA database_list", "PRAGMA"),
    ("CALL pragma_version()", "CALL"),
    ("CREATE TABLE mine AS SELECT 1", "CREATE"),
    ("CREATE SECRET (TYPE s3)", ""),
    ("DROP VIEW runs", "DROP"),
    ("INSERT INTO runs SELECT * FROM runs", "INSERT"),
    ("UPDATE runs SET key = 1", "UPDATE"),
    ("DELETE FROM runs", "DELETE"),
    ("BEGIN", "TRANSACTION"),
    ("CHECKPOINT", ""),
    ("PREPARE p AS SELECT 1", "PREPARE"),
]
COUNTS = [("", 0), (" ; -- nothing", 0), ("SELECT 1; SELECT 2", 2), ("SELECT 1; COPY runs TO '{out}'; SELECT 2", 3)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, r"^(?!found)") for text in READING),
        *((text, f"^found {kind}.*, expected a query such as SELECT") for text, kind in CHANGING),
        *((text, f"^found {count} statements, expected one") for text, count in COUNTS),
        ("SELEC 1", "Parser Error"),
    ],
)
def test_queries_read_the_store_and_nothing_else(store: ftlab.Store, tmp_path: Path, text: str, message: str) -> None:
    frame = store.frame()
    assert frame.height == 4
    secret, out = tmp_path / "secret.csv", tmp_path / "out.parquet"
    secret.write_text("a,b\n1,2\n")
    (table,) = (store.folder / "tables").iterdir()
    before = {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}
    views = {view: [str(path) for path in paths] for view, paths in store._views(tmp_path, None)[0].items()}
    # In this process: the cases are many.
    with pytest.raises(QueryError, match=message) as caught:
        answer(text.format(secret=secret, table=table, out=out), views, (), query.MEMORY_BYTES, query.MOST_VALUES)
    assert "a,b" not in str(caught.value)
    assert not out.exists()
    assert {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()} == before


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM range(1000000000) AS a ORDER BY hash(a.range)",
        "SELECT list(range) FROM range(100000000)",
        "SELECT count(DISTINCT a.range * 100000 + b.range) FROM range(100000) a, range(100000) b",
        "SELECT * FROM range(1000000000)",
        "SELECT * FROM range(100000)",
        "SELECT length(repeat('x', 4000000000))",
    ],
)
def test_queries_have_a_budget_of_memory(store: ftlab.Store, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(query, "MEMORY_BYTES", 64 << 20)
    monkeypatch.setattr(query, "MOST_VALUES", 50_000)
    with pytest.raises(
        ftlab.InputError, match=r"SQL: (the query needs more than 64 MiB|the answer has more than 50,000)"
    ):
        store.sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM range(100000000) a, range(100000000) b",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
        "SELECT levenshtein(repeat('a', 60000), repeat('b', 60000))",
    ],
)
def test_queries_have_a_budget_of_time(store: ftlab.Store, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(query, "SECONDS", 0.2)
    began = time.monotonic()
    with pytest.raises(ftlab.InputError, match=r"SQL: the query took more than 0\.2 s and was ended"):
        store.sql(text)
    assert time.monotonic() - began < 5


def test_the_command_says_what_is_wrong_with_a_query(store: ftlab.Store) -> None:
    ran = inside("study", "show", "store", "--sql", "SELECT 1; SELECT 2", cwd=store.folder.parent)
    assert (ran.status, ran.out, ran.err) == (2, "", "error: SQL: found 2 statements, expected one\n")
