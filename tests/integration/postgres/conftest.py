"""Fixtures of the Postgres tests: an administrator's connection, stores that are closed, a table of 60,000 rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from agora_core import PgLexicalVectorStore, PgVectorStore

MakeStore = Callable[..., Any]


@pytest.fixture
def admin(pg_conninfo: str) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's connection, in autocommit."""
    with psycopg.connect(pg_conninfo, autocommit=True) as connection:
        yield connection


@pytest.fixture
def make_store(pg_conninfo: str, fresh_name: str) -> Iterator[MakeStore]:
    """Open a store on a table of the test's own, its schema made; all are closed after the test."""
    opened: list[PgVectorStore] = []

    def make(
        source: Any = None, *, lexical: bool = False, ensure: bool = True, table: str = fresh_name, **options: Any
    ) -> PgVectorStore:
        kind = PgLexicalVectorStore if lexical else PgVectorStore
        if lexical and "tokenizer" not in options:
            # PostgreSQL's own analyser; that of this library has tests of its own.
            options = {"text_search": "simple", "syntax": "web", **options}
        store = kind(source or pg_conninfo, table=table, **{"dimension": 3, **options})
        opened.append(store)
        if ensure:
            store.ensure_schema()
        return store

    yield make
    for store in opened:
        store.close()


BIG = 60_000
BIG_DIMENSION = 8
BIG_TABLE = "big_table"


@pytest.fixture(scope="session")
def big_table(pg_conninfo: str) -> str:
    """A table of 60,000 rows, made by the server itself; `share` holds each selectivity that a row is part of."""
    options: dict[str, Any] = {
        "text_search": "simple",
        "table": BIG_TABLE,
        "dimension": BIG_DIMENSION,
        "hnsw_m": 10,
        "hnsw_ef_construction": 40,
    }
    store = PgLexicalVectorStore(pg_conninfo, **options)
    with psycopg.connect(pg_conninfo, autocommit=True) as connection:
        # The table first and its indexes after the rows, which takes half the time.
        for statement in store.schema_statements():
            if not statement.startswith("CREATE INDEX"):
                connection.execute(statement)
        connection.execute("SELECT setseed(0.5)")
        connection.execute(
            sql.SQL(
                "INSERT INTO {} (id, text, source, metadata, embedding) "
                "SELECT 'd' || n / 4 || '#' || n %% 4, "
                "'common w' || n %% 1000 || ' v' || n %% 77, 's', "
                "jsonb_build_object('n', n, 'share', (SELECT coalesce(jsonb_agg(p), '[]') FROM "
                "unnest(ARRAY[50, 20, 10, 5, 3, 1]) AS p WHERE (n * 7919) %% 100 < p), "
                "'rare', CASE WHEN n %% 1000 = 0 THEN 'yes' ELSE 'no' END), "
                "ARRAY(SELECT random() - 0.5 FROM generate_series(1, 8 + 0 * n))::vector(8) "
                "FROM generate_series(0, %s) AS n"
            ).format(sql.Identifier(BIG_TABLE)),
            (BIG - 1,),
        )
    store.ensure_schema()
    with psycopg.connect(pg_conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(BIG_TABLE)))
    store.close()
    return BIG_TABLE
