"""Tables of other makers and other times: earlier layouts, creators beside us, options that differ, broken indexes."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from psycopg import sql

from agora_core import MemoryVectorStore, PgLexicalVectorStore, PgVectorStore, VectorRecord, field
from agora_core.errors import SchemaError
from tests.integration.postgres.layouts import PATCH, TABLES, load, records


@pytest.fixture
def layout_1(pg_conninfo: str, admin: Any, fresh_name: str) -> Any:
    load(pg_conninfo, "layout_1.sql", fresh_name)
    yield fresh_name
    admin.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(fresh_name)))


@pytest.mark.parametrize("ensured", [False, True])
@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_the_first_layout_goes_on(pg_conninfo: str, layout_1: str, table: str, ensured: bool) -> None:
    """As it is, and after `ensure_schema`, which is the whole migration."""
    metric: Any = "l2" if table == "english" else "cosine"
    options: dict[str, Any] = {"table": table, "schema": layout_1, "dimension": 3, "metric": metric}
    kind = PgVectorStore if table == "plain" else PgLexicalVectorStore
    if table != "plain":
        options["text_search"] = {"lexical": "simple"}.get(table, table)
    model = MemoryVectorStore(metric=metric)
    model.upsert(records())
    model.update_metadata("d3", PATCH)
    model.remove("d5")
    with kind(pg_conninfo, **options) as store:
        if ensured:
            store.ensure_schema()
            store.ensure_schema()
        assert list(store.scan()) == list(model.scan())
        for filter in ({"acl": ["board"]}, {"year": 2021}, field(["nested", "z"]) > 20, {"acl": ["team-1", "x"]}):
            assert store.count(filter) == model.count(filter)
            found, expected = (some.search([1, 2, 0], top_k=9, filter=filter) for some in (store, model))
            assert [p.id for p in found] == [p.id for p in expected]
        if isinstance(store, PgLexicalVectorStore):
            assert store.search_text("invoice", top_k=2)
        health = store.check()
        assert health.ok
        assert health.counts.get("records", 0) >= 0
        new = [VectorRecord("new#0", "words", [1, 0, 0], None, {"z": 1, "a": 2}, "of a context" if ensured else None)]
        assert store.upsert(new) == 1
        assert store.get(["new#0"]) == [VectorRecord("new#0", "words", [1.0, 0.0, 0.0], *_rest(new[0]))]
        assert store.remove("new") == 1


def _rest(record: VectorRecord) -> tuple[Any, ...]:
    return record.source, record.metadata, record.context


@pytest.mark.parametrize("made", ["CREATE EXTENSION IF NOT EXISTS vector", "CREATE SCHEMA IF NOT EXISTS s"])
def test_somebody_else_makes_the_same_at_the_same_time(
    admin: Any, pg_conninfo: str, fresh_name: str, made: str
) -> None:
    """Kind: a lock only among friends. The other commits while the store waits for what it makes."""
    database = sql.Identifier(fresh_name)
    admin.execute(sql.SQL("CREATE DATABASE {}").format(database))
    conninfo = psycopg.conninfo.make_conninfo(pg_conninfo, dbname=fresh_name)
    failed: list[BaseException] = []

    def ensure() -> None:
        try:
            with PgVectorStore(conninfo, table="t", schema="s", dimension=3) as store:
                store.ensure_schema()
        except BaseException as error:
            failed.append(error)

    if "EXTENSION" not in made:
        with psycopg.connect(conninfo, autocommit=True) as other:
            other.execute("CREATE EXTENSION vector")
    with psycopg.connect(conninfo) as other:
        other.execute(made.encode())
        thread = threading.Thread(target=ensure)
        thread.start()
        thread.join(0.7)
        assert thread.is_alive()
        other.commit()
    thread.join(60)
    assert not failed
    admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(database))


def test_a_second_application_with_another_metric_is_refused_and_harms_nothing(make_store: Any) -> None:
    first = make_store(index="after")
    first.upsert(records())
    with pytest.raises(SchemaError, match="was made for the metric cosine and the store's is l2"):
        make_store(metric="l2")
    assert first.remove("d1") == 4
    # Who searches exactly needs no index.
    assert len(make_store(metric="l2", index=None, ensure=False).search([1, 0, 0], top_k=3)) == 3
    make_store()
    assert len(make_store(metric="l2", index=None).search([1, 0, 0], top_k=3)) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [({"hnsw_m": 32}, "m is 16, not 32"), ({"index": "ivfflat"}, "index is 'hnsw', not 'ivfflat'")],
)
def test_options_that_differ_are_named(make_store: Any, options: Any, said: str) -> None:
    make_store()
    make_store(hnsw_m=16)
    with pytest.raises(SchemaError, match=said):
        make_store(**options)


def test_an_invalid_index_counts_as_absent(make_store: Any, admin: Any) -> None:
    store = make_store()
    store.upsert(records())
    for suffix in ("cosine_hnsw_idx", "tokens_idx"):
        name = f"{store.table}_{suffix}"
        admin.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", (name,))
        assert name in store.check().detail
        store.ensure_schema()
        assert admin.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = %s::regclass", (name,)).fetchone()[0]
        assert store.check().ok


def test_a_newer_layout_is_not_touched(make_store: Any, admin: Any) -> None:
    store = make_store()
    admin.execute(
        sql.SQL("COMMENT ON TABLE {} IS {}").format(sql.Identifier(store.table), '{"agora": {"version": 99}}')
    )
    with pytest.raises(SchemaError, match="made by a newer version"):
        make_store(ensure=False).count()


def test_a_comment_of_somebody_else_stays(make_store: Any, admin: Any) -> None:
    store = make_store()
    admin.execute(sql.SQL("COMMENT ON TABLE {} IS 'ours'").format(sql.Identifier(store.table)))
    store.ensure_schema()
    query = "SELECT obj_description(%s::regclass, 'pg_class')"
    assert admin.execute(query, (store.table,)).fetchone() == ("ours",)
