"""Names and DDL, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from agora_core import PgLexicalVectorStore, PgVectorColumns, PgVectorStore
from agora_core.errors import InvalidArgumentError
from agora_core.stores.postgres.layout import Layout

NOWHERE = "postgresql://someone:s3cr3t@127.0.0.1:1/nothing"


def statements(**options: Any) -> str:
    return "\n".join(PgVectorStore(NOWHERE, **options).schema_statements())


def test_the_schema_is_readable_sql() -> None:
    ddl = statements(table="chunks", dimension=3)
    assert 'CREATE TABLE IF NOT EXISTS "chunks" (\n    "id" text COLLATE "C" PRIMARY KEY' in ddl
    assert '"embedding" vector(3) NOT NULL' in ddl
    assert '"chunks_cosine_hnsw_idx" ON "chunks" USING hnsw ("embedding" "vector_cosine_ops")' in ddl
    assert '"chunks_tokens_idx" ON "chunks" USING gin ("tokens")' in ddl
    assert "s3cr3t" not in ddl


def test_options_reach_the_schema() -> None:
    assert '"app"."chunks"' in statements(table="chunks", schema="app", dimension=3)
    assert 'WITH ("m" = 8, "ef_construction" = 32)' in statements(dimension=3, hnsw_m=8, hnsw_ef_construction=32)
    assert 'USING ivfflat ("embedding" "vector_l2_ops") WITH ("lists" = 50)' in statements(
        dimension=3, metric="l2", index="ivfflat", ivfflat_lists=50
    )
    for index in ("after", None):
        assert "USING hnsw" not in statements(dimension=3, index=index)
    assert '"embedding" halfvec(3)' in statements(dimension=3, storage="halfvec")
    assert '("embedding"::halfvec(3000))  "halfvec_cosine_ops"'.replace("  ", " ") in statements(dimension=3000)
    assert "zero_idx" not in statements(dimension=3, metric="inner")
    lexical = "\n".join(PgLexicalVectorStore(NOWHERE, dimension=3, text_search="english").schema_statements())
    assert "tsvector GENERATED ALWAYS AS (to_tsvector('english'::regconfig" in lexical


def test_index_names_differ_between_tables_and_are_never_cut() -> None:
    def layout(table: str) -> Layout:
        return Layout(table, None, PgVectorColumns(), 3, "cosine")

    assert layout("a").index_name("tokens_idx") == "a_tokens_idx"
    long, other = layout("t" * 62 + "a"), layout("t" * 62 + "b")
    names = {store.index_name(suffix) for store in (long, other) for suffix in ("tokens_idx", "cosine_ivfflat_idx")}
    assert len(names) == 4
    assert all(len(name) <= 63 for name in names)


@pytest.mark.parametrize(
    "name",
    ["", "1a", "a-b", "a b", 'a"b', "a;b", "a.b", "ä", "a\n", "%s", "a" * 64, None, 3, "x'; DROP TABLE y; --"],
)
@pytest.mark.parametrize("argument", ["table", "schema"])
def test_names_follow_the_strict_rule(name: Any, argument: str) -> None:
    if name is None and argument == "schema":
        return
    with pytest.raises(InvalidArgumentError, match=rf"{argument} must be a name of at most 63 ASCII letters"):
        PgVectorStore(NOWHERE, **{argument: name})


def test_columns_are_checked_too() -> None:
    with pytest.raises(InvalidArgumentError, match=r"columns\.id must be a name"):
        PgVectorColumns(id="a b")
    with pytest.raises(InvalidArgumentError, match=r"columns\.text must be a name"):
        PgVectorColumns(text=None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="columns must have names that differ"):
        PgVectorColumns(id="x", text="x")
    assert PgVectorColumns(source=None, tokens=None).source is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "dot"}, "metric must be one of cosine, l2, inner, got 'dot'"),
        ({"storage": "bit"}, "storage must be 'vector' or 'halfvec', got 'bit'"),
        ({"index": "flat"}, "index must be 'hnsw', 'ivfflat', 'after' or None, got 'flat'"),
        ({"dimension": 0}, "dimension must be 1 or more"),
        ({"dimension": 4001}, "pgvector indexes at most 4000 dimensions, got 4001; pass index=None"),
        ({"dimension": 16001, "index": None}, "dimension must be at most 16000"),
        ({"columns": {"id": "x"}}, "columns must be PgVectorColumns, got dict"),
        ({"upsert_batch_size": 0}, "upsert_batch_size must be 1 or more"),
        ({"hnsw_m": "x"}, "m must be an int"),
        ({"ef_search": 1001}, "ef_search must be at most 1000, which pgvector takes, got 1001"),
    ],
)
def test_options_out_of_range_are_refused(options: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        PgVectorStore(NOWHERE, **options)


def test_the_password_is_shown_nowhere() -> None:
    store = PgVectorStore(NOWHERE, table="chunks", schema="app", dimension=3)
    assert repr(store) == (
        "PgVectorStore('host=127.0.0.1 port=1 dbname=nothing', table='app.chunks', dimension=3, metric='cosine')"
    )
    for broken in ("postgresql://u:s3cr3t%zz@host/db", "password=s3cr3t oops", "s3cr3t"):
        with pytest.raises(InvalidArgumentError, match="could not be read") as caught:
            PgVectorStore(broken)
        assert "s3cr3t" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_what_is_no_connection_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="must be a connection string, or a psycopg pool or connection"):
        PgVectorStore(3)  # type: ignore[arg-type]
