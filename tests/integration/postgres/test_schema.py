"""Making, adopting and checking the schema on a server."""

from __future__ import annotations

import asyncio
import multiprocessing
from typing import Any

import psycopg
import pytest
from psycopg import sql

from agora_core import PgLexicalVectorStore, PgVectorColumns, PgVectorStore, VectorRecord, field
from agora_core.errors import SchemaError
from agora_core.stores.postgres.catalog import Index

ROWS = [
    VectorRecord(f"d{n // 3}#{n % 3}", f"words of {n}", [1.0, n, 0.5], f"s{n}", {"n": n, "tags": ["a", n % 5]})
    for n in range(120)
]


def ensure(conninfo: str, table: str) -> None:
    with PgLexicalVectorStore(conninfo, table=table, schema=table, dimension=3, text_search="simple") as store:
        store.ensure_schema()
        store.upsert([ROWS[0]])


def test_eight_processes_at_once(pg_conninfo: str, fresh_name: str) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=ensure, args=(pg_conninfo, fresh_name)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * 8
    with PgVectorStore(pg_conninfo, table=fresh_name, schema=fresh_name, dimension=3) as store:
        assert store.count() == 1


def test_ensuring_twice_changes_nothing(make_store: Any, admin: Any) -> None:
    store = make_store(lexical=True)
    query = "SELECT array_agg(indexname ORDER BY indexname) FROM pg_indexes WHERE tablename = %s"
    before = admin.execute(query, (store.table,)).fetchone()
    store.ensure_schema()
    asyncio.run(store.aensure_schema())
    assert admin.execute(query, (store.table,)).fetchone() == before
    assert len(before[0]) == 6


def test_the_schema_statements_are_those_that_are_run(make_store: Any, admin: Any, fresh_name: str) -> None:
    byhand = fresh_name + "_hand"
    store = make_store(lexical=True)
    other = make_store(lexical=True, ensure=False, table=byhand)
    for statement in other.schema_statements():
        admin.execute(statement)
    query = "SELECT indexdef FROM pg_indexes WHERE tablename = %s"

    def definitions(table: str) -> set[str]:
        return {row[0].replace(byhand, fresh_name) for row in admin.execute(query, (table,))}

    assert definitions(byhand) == definitions(store.table)
    other.ensure_schema()
    assert other.upsert(ROWS) == 120


def adopted_table(admin: Any, name: str) -> None:
    admin.execute(
        sql.SQL(
            "CREATE TABLE {} "
            "(pk varchar PRIMARY KEY, body text, meta jsonb, vec vector(3), added timestamptz DEFAULT now())"
        ).format(sql.Identifier(name))
    )


COLUMNS = PgVectorColumns(id="pk", text="body", source=None, metadata="meta", embedding="vec")


def test_an_adopted_table_is_right_at_once_and_fast_after_one_statement(
    make_store: Any, admin: Any, fresh_name: str
) -> None:
    adopted_table(admin, fresh_name)
    options = {"lexical": True, "columns": COLUMNS, "index": None}
    plain = make_store(table=fresh_name + "_own", lexical=True)
    store = make_store(ensure=False, **options)

    def compare() -> None:
        for some in (plain, store):
            some.remove_where(field("n") >= 0)
            assert some.upsert(ROWS) == 120
            assert some.update_metadata("d1", {"n": None, "x": {"y": 1}}) == 3
            assert some.remove("d2") == 3
            assert some.replace_documents(["d3"], [VectorRecord("d3#0", "new words", [1, 1, 1], None, {"n": 9})]) == 1
        for filter in ({"tags": [1, "zz"]}, {"n": 20}, field(["x", "y"]) == 1, field("n") > 100, {"tags": ["a", 3]}):
            assert store.count(filter) == plain.count(filter) > 0
            assert store.list_documents(filter) == plain.list_documents(filter)
            assert [(p.id, p.score, p.metadata) for p in store.search([1, 1, 1], top_k=9, filter=filter)] == [
                (p.id, p.score, p.metadata) for p in plain.search([1, 1, 1], top_k=9, filter=filter)
            ]
        assert [p.id for p in store.search_text("new words 77", top_k=5)] == [
            p.id for p in plain.search_text("new words 77", top_k=5)
        ]
        assert [r.id for r in store.scan()] == [r.id for r in plain.scan()]

    compare()
    assert store._target[0].catalog.tokens is None
    admin.execute(sql.SQL("CREATE INDEX ON {} USING gin (meta jsonb_path_ops)").format(sql.Identifier(fresh_name)))
    store.ensure_schema()
    compare()
    assert store._target[0].catalog.has_containment_index("meta")
    admin.execute(store.adoption_statement())
    store.ensure_schema()
    compare()
    catalog = store._target[0].catalog
    assert (catalog.tokens, catalog.document_id, catalog.text_search) == ("tokens", "document_id", "text_search")
    # Columns that are none of ours keep their values.
    assert admin.execute(sql.SQL("SELECT count(added) FROM {}").format(sql.Identifier(fresh_name))).fetchone()[0] > 0


def test_tables_of_peers_are_adopted_as_the_documentation_says(make_store: Any, admin: Any, fresh_name: str) -> None:
    admin.execute(
        f"CREATE TABLE {fresh_name}_lc (langchain_id uuid PRIMARY KEY DEFAULT gen_random_uuid(), "
        "content text NOT NULL, embedding vector(3) NOT NULL, langchain_metadata json)"
    )
    admin.execute(f"INSERT INTO {fresh_name}_lc (content, embedding) VALUES ('old', '[1,0,0]')")
    columns = PgVectorColumns(id="langchain_id", text="content", source=None, metadata="langchain_metadata")
    options = {"table": fresh_name + "_lc", "columns": columns, "index": None, "ensure": False}
    with pytest.raises(SchemaError, match=r"column 'langchain_id' of .* is uuid, and ids are texts"):
        make_store(**options).count()
    admin.execute(f"ALTER TABLE {fresh_name}_lc ALTER langchain_id TYPE text")
    with pytest.raises(SchemaError, match="is json, not jsonb"):
        make_store(**options).count()
    admin.execute(f"ALTER TABLE {fresh_name}_lc ALTER langchain_metadata TYPE jsonb USING langchain_metadata::jsonb")
    store = make_store(**options)
    assert store.upsert(ROWS) == 120
    assert store.count({"n": [3, 4]}) == 2
    admin.execute(
        f"CREATE TABLE {fresh_name}_li (id bigserial PRIMARY KEY, text varchar NOT NULL, metadata_ json, "
        "node_id varchar, embedding vector(3))"
    )
    admin.execute(f"ALTER TABLE {fresh_name}_li ALTER metadata_ TYPE jsonb USING metadata_::jsonb")
    admin.execute(f"ALTER TABLE {fresh_name}_li ADD CONSTRAINT {fresh_name}_key UNIQUE (node_id)")
    columns = PgVectorColumns(id="node_id", source=None, metadata="metadata_")
    store = make_store(table=fresh_name + "_li", columns=columns, index=None, ensure=False)
    assert store.upsert(ROWS) == store.upsert(ROWS) == 120
    assert store.count({"n": [3, 4]}) == 2


def test_a_column_that_only_bears_the_name_is_not_believed(make_store: Any, admin: Any, fresh_name: str) -> None:
    adopted_table(admin, fresh_name)
    admin.execute(
        sql.SQL("ALTER TABLE {} ADD COLUMN tokens text[] DEFAULT '{{}}', ADD COLUMN document_id text").format(
            sql.Identifier(fresh_name)
        )
    )
    store = make_store(columns=COLUMNS)
    store.upsert(ROWS)
    assert store.count({"n": [7]}) == 1
    assert store.remove("d2") == 3


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ("", {"dimension": 4}, r"is vector\(3\) and the store was opened for vector\(4\)"),
        ("", {"storage": "halfvec"}, r"is vector\(3\) and the store was opened for halfvec\(3\)"),
        ("", {"metric": "l2"}, r"is built for vector_cosine_ops and the store's metric is l2 \(vector_l2_ops"),
        (
            "ALTER TABLE {} RENAME source TO origin",
            {},
            r"has no column 'source'; name the column that holds the source",
        ),
        ("ALTER TABLE {} DROP tokens, ALTER metadata TYPE json", {}, r"column 'metadata' of .* is json, not jsonb"),
        ("ALTER TABLE {} DROP CONSTRAINT {}_pkey", {}, r"column 'id' of .* has no unique index"),
        ("DROP TABLE {}", {}, r"does not exist; call ensure_schema\(\) first"),
    ],
)
def test_what_differs_is_said_in_one_sentence(
    make_store: Any, admin: Any, fresh_name: str, change: str, options: Any, message: str
) -> None:
    make_store()
    if change:
        admin.execute(change.replace("{}", fresh_name))
    store = make_store(ensure=False, **options)
    with pytest.raises(SchemaError, match=message):
        store.count()
    if change != "DROP TABLE {}":
        with pytest.raises(SchemaError, match=message):
            store.ensure_schema()


def test_a_database_without_the_extension(admin: Any, pg_conninfo: str, fresh_name: str) -> None:
    database = sql.Identifier(fresh_name)
    admin.execute(sql.SQL("CREATE DATABASE {}").format(database))
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(database))
    conninfo = psycopg.conninfo.make_conninfo(pg_conninfo, dbname=fresh_name)
    with PgVectorStore(conninfo, dimension=3) as store:
        with pytest.raises(SchemaError, match=r"the extension 'vector' is missing.*CREATE EXTENSION vector"):
            store.count()
        limited = psycopg.conninfo.make_conninfo(conninfo, user=fresh_name)
        with PgVectorStore(limited, dimension=3) as other, pytest.raises(SchemaError, match="permission denied"):
            other.ensure_schema()
        store.ensure_schema()
        assert store.count() == 0
    admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(database))


def test_a_role_that_may_not_create_opens_what_is_complete(
    make_store: Any, admin: Any, pg_conninfo: str, fresh_name: str
) -> None:
    make_store(schema=fresh_name)
    role, schema, table = (sql.Identifier(name) for name in (fresh_name, fresh_name, fresh_name))
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
    limited = psycopg.conninfo.make_conninfo(pg_conninfo, user=fresh_name)
    admin.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, role))
    store = make_store(limited, schema=fresh_name, ensure=False)
    with pytest.raises(SchemaError, match="may not read the table"):
        store.count()
    admin.execute(sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON {}.{} TO {}").format(schema, table, role))
    store.ensure_schema()
    assert store.upsert(ROWS) == 120
    assert store.upsert(ROWS) == 120
    other = make_store(limited, schema=fresh_name, table=fresh_name + "_new", ensure=False)
    with pytest.raises(
        SchemaError, match=r"permission denied for schema .*call ensure_schema\(\) with a role that may"
    ):
        other.ensure_schema()


HOSTILE = ["'; DROP TABLE x; --", '"', "\\", "%s", "%", "%(f0)s", ":x", "$1", "{}", "/*", "💥", "x" * 2_000]


def test_hostile_input_is_never_executed_and_never_in_a_statement(
    make_store: Any, pg_conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every statement that is sent is the same for hostile values and for harmless ones."""
    from agora_core.stores.postgres import session

    store = make_store(lexical=True)
    original = session.execute
    sent: list[str] = []

    def listen(cursor: Any, request: Any) -> Any:
        if not isinstance(request, session.Work):
            sent.append(request.text)
        return original(cursor, request)

    monkeypatch.setattr(session, "execute", listen)

    def everything(word: str) -> list[str]:
        sent.clear()
        record = VectorRecord(f"{word}#0", word, [1, 0, 0], word, {word: [word, {word: word}], "k": word})
        assert store.upsert([record, *ROWS]) == 121
        assert store.upsert([record]) == 1
        assert store.get([record.id]) == [VectorRecord(record.id, word, [1.0, 0.0, 0.0], word, record.metadata)]
        for filter in ({word: [word]}, {"k": word}, field([word]).exists(), field("k").matches_text(word)):
            assert [p.id for p in store.search([1, 0, 0], top_k=500, filter=filter)] == [record.id]
            assert store.list_document_ids(filter) == [word]
        store.search_text(word, top_k=3, filter={"k": word})
        store.search_text(f'"{word}" -{word} {word}', top_k=3)
        store.search_hybrid(word, [1, 0, 0], top_k=3, filter={"k": word})
        assert store.update_metadata(word, {word: None, "k": word}) == 1
        assert store.scoped({"k": word}).upsert([VectorRecord(f"{word}#0", word, [1, 0, 0], None, {"k": word})]) == 1
        assert store.replace_documents([word], [VectorRecord(f"{word}#1", word, [1, 0, 0])]) == 1
        assert store.remove(word) == 1
        return [text for text in sent if "pg_catalog" not in text]

    def shapes(word: str) -> set[str]:
        return {text for text in everything(word) if "to_tsvector" not in text}

    # Afterwards the other rows are there, and all runs do the same.
    everything("first")
    harmless = shapes("word")
    for word in HOSTILE:
        assert shapes(word) <= harmless
    assert store.count() == 120


def index_of(store: Any) -> Index | None:
    found: Index | None = store._target[0].catalog.vector_index
    return found


def test_the_index_after_a_load_with_progress(make_store: Any) -> None:
    store = make_store(index="after")
    store.upsert(VectorRecord(f"r{n}", "", [1.0, n % 97, n % 89]) for n in range(3_000))
    assert index_of(store) is None
    seen: list[tuple[str, int, int]] = []
    assert store.build_index(progress=lambda *state: seen.append(state), memory_mb=64) is True
    assert seen[-1] == ("done", 1, 1)
    assert store.build_index() is False
    assert len(store.search([1, 1, 1], top_k=5)) == 5
    index = index_of(store)
    assert index is not None
    assert index.name.endswith("_cosine_hnsw_idx")


def test_an_index_beside_writers_and_what_an_interruption_leaves(make_store: Any, admin: Any) -> None:
    store = make_store(index="after")
    store.upsert(ROWS)
    assert asyncio.run(store.abuild_index(concurrently=True, progress=lambda *state: None)) is True
    name = f"{store.table}_cosine_hnsw_idx"
    admin.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", (name,))
    store._recheck()
    assert [p.id for p in store.search([1, 0, 0], top_k=1)] == ["d0#0"]
    assert store.build_index(concurrently=True) is True
    with pytest.raises(SchemaError, match="opened with index=None"):
        make_store(index=None, ensure=False).build_index()
