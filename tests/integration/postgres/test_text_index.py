"""Text search by the library's own analysers: equal to `KeywordRetriever`, whoever writes, whatever fails."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from agora_core import (
    ChunkRecord,
    KeywordRetriever,
    PgLexicalVectorStore,
    SchemaError,
    VectorRecord,
    document_id_of,
)
from agora_core.stores.postgres.text import index as text_index

WORDS = [
    "alpha",
    "beta",
    "Straße",
    "算法设计",
    "config.yaml",
    "CVE-2024-1234",
    "naïve",
    "HTTPServer2",
    "กินข้าว",
    "서버를",
]
ASKED = [*WORDS, "config", "2024", "http", "算法", "strasse", "서버", "nothing", "-", '"']


def record(number: int, generator: random.Random) -> VectorRecord:
    text = " ".join(generator.choices(WORDS, k=generator.randint(0, 8)))
    metadata = {"n": number % 7, "acl": [["a", "b"][number % 2]]}
    context = "config guide" if number % 11 == 0 else None
    return VectorRecord(f"d{number % 30}#{number}", text, [1.0, number, 0.0], None, metadata, context)


def keyword(records: Any, **options: Any) -> KeywordRetriever:
    made = KeywordRetriever(**options)
    made.add([ChunkRecord(one.id, one.text, one.source, one.metadata, one.context) for one in records])
    return made


def assert_same(found: Any, expected: Any) -> None:
    assert [one.id for one in found] == [one.id for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], rel=1e-9)


@pytest.fixture
def store(make_store: Any) -> PgLexicalVectorStore:
    made: PgLexicalVectorStore = make_store(lexical=True, tokenizer="unicode", index=None)
    return made


@pytest.mark.parametrize("seed", range(2))
def test_any_history_finds_what_a_fresh_keyword_index_finds(store: PgLexicalVectorStore, seed: int) -> None:
    """Writes, replacements, removals, patches and upkeep in any order; filters, floors, scopes, one a document."""
    generator = random.Random(seed)
    known: dict[str, VectorRecord] = {}
    for _ in range(25):
        step = generator.choice(["upsert", "upsert", "delete", "patch", "maintain", "replace"])
        fresh = [record(generator.randrange(150), generator) for _ in range(generator.randint(1, 20))]
        document = f"d{generator.randrange(30)}"
        own = [key for key in known if document_id_of(key) == document]
        if step == "upsert":
            store.upsert(fresh)
            known.update({one.id: one for one in fresh})
        elif step == "delete":
            gone = generator.sample(sorted(known), min(4, len(known)))
            assert store.delete(gone) == len(gone)
            for key in gone:
                del known[key]
        elif step == "patch":
            assert store.update_metadata(document, {"n": 3}) == len(own)
            for key in own:
                one = known[key]
                changed = {**(one.metadata or {}), "n": 3}
                known[key] = VectorRecord(one.id, one.text, one.embedding, None, changed, one.context)
        elif step == "replace":
            new = [one for one in fresh if document_id_of(one.id) == document]
            store.replace_documents([document], new)
            for key in own:
                del known[key]
            known.update({one.id: one for one in new})
        else:
            store.maintain()
        fresh_index = keyword(known.values())
        visible = keyword(one for one in known.values() if (one.metadata or {})["acl"] == ["b"])
        for _ in range(3):
            query = " ".join(generator.choices(ASKED, k=generator.randint(1, 4)))
            options: dict[str, Any] = {"top_k": generator.choice([1, 3, 300])}
            if generator.random() < 0.5:
                options["filter"] = generator.choice([{"n": 3}, {"acl": ["a"]}, {"n": [1, 2, 3]}])
            if generator.random() < 0.3:
                options["min_score"] = 1.0
            if generator.random() < 0.3:
                options["per_document"] = 1
            assert_same(store.search_text(query, **options), fresh_index.retrieve(query, **options))
            # Through a scope everything is as if the records outside did not exist.
            assert_same(store.scoped({"acl": ["b"]}).search_text(query, **options), visible.retrieve(query, **options))


def test_a_floor_keeps_what_reaches_it_and_equal_scores_are_cut_by_id(store: PgLexicalVectorStore) -> None:
    """The kind: a cut through equal scores, by the floor or by `top_k`, that goes by the order of writing."""
    for n in reversed(range(9)):
        store.upsert([VectorRecord(f"t{n}", "a fox", [1.0, n, 0.0])])
    found = store.search_text("fox", top_k=3)
    assert [one.id for one in found] == ["t0", "t1", "t2"]
    assert store.search_text("fox", top_k=3, min_score=found[0].score) == found


def test_a_writer_that_merges_keeps_every_segment(store: PgLexicalVectorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind: a merge that only some writers happen to do, and that loses what stood beside."""
    monkeypatch.setattr("agora_core.stores.postgres.text.index._MERGED_ONE_IN", 1)
    records = [VectorRecord(f"t{n}", f"fox {n}", [1.0, n, 0.0]) for n in range(5)]
    for one in records:
        store.upsert([one])
    assert_same(store.search_text("fox 3", top_k=9), keyword(records).retrieve("fox 3", top_k=9))


def test_phrases_and_exclusions_with_web_syntax(store: PgLexicalVectorStore) -> None:
    texts = ["git commit -m sets the message", "commit a git message", "tar -xvf archive", "the message of a commit"]
    store.upsert([VectorRecord(f"t{n}", text, [1.0, n, 0.0]) for n, text in enumerate(texts)])

    def ids(query: str, **options: Any) -> list[str]:
        return sorted(one.id for one in store.search_text(query, top_k=9, **options))

    assert ids("what does git commit -m do") == ["t0", "t1", "t3"]
    assert ids("what does tar -xvf do")[0] == "t2"
    assert ids('"git commit"', syntax="web") == ["t0"]
    assert ids("message -git", syntax="web") == ["t3"]
    assert ids("-git", syntax="web") == []
    assert ids('"git commit"') == ["t0", "t1", "t3"]


async def test_the_twins_and_the_hybrid_of_both_legs(store: PgLexicalVectorStore) -> None:
    from agora_core import reciprocal_rank_fusion

    generator = random.Random(5)
    store.upsert([record(n, generator) for n in range(60)])
    vector = [1.0, 7.0, 0.0]
    legs = [store.search(vector, top_k=20), store.search_text("alpha config", top_k=20)]
    assert await store.asearch_text("alpha config", top_k=20) == legs[1]
    expected = reciprocal_rank_fusion(legs)[:5]
    assert store.search_hybrid("alpha config", vector, top_k=5) == expected
    assert await store.asearch_hybrid("alpha config", vector, top_k=5) == expected
    for fusion in ("relative_score", "adaptive"):
        found = store.search_hybrid("alpha config", vector, top_k=5, fusion=fusion, per_document=1, min_score=0.1)
        assert len({document_id_of(one.id) for one in found}) == len(found) > 0
        assert all(one.score >= 0.1 for one in found)


def test_what_others_write_by_sql_is_found_too(store: PgLexicalVectorStore, admin: Any) -> None:
    store.upsert([VectorRecord("a", "alpha beta", [1, 0, 0]), VectorRecord("b", "beta", [0, 1, 0])])
    table = psycopg.sql.Identifier(store.table)
    admin.execute(
        psycopg.sql.SQL("INSERT INTO {} (id, text, embedding) VALUES ('c', 'alpha', '[1,1,0]')").format(table)
    )
    admin.execute(psycopg.sql.SQL("UPDATE {} SET text = 'gamma alpha' WHERE id = 'b'").format(table))
    rows = [("a", "alpha beta"), ("b", "gamma alpha"), ("c", "alpha")]

    def same() -> None:
        expected = keyword([VectorRecord(key, text, []) for key, text in rows])
        for query in ("alpha", "beta gamma"):
            assert_same(store.search_text(query, top_k=5), expected.retrieve(query, top_k=5))

    same()
    assert store.index_texts() == 2
    same()
    admin.execute(psycopg.sql.SQL("DELETE FROM {} WHERE id = 'a'").format(table))
    rows.pop(0)
    same()
    assert store.maintain() > 0
    same()
    admin.execute(psycopg.sql.SQL("TRUNCATE {}").format(table))
    assert store.search_text("alpha", top_k=5) == []


def test_another_tokenizer_is_refused_and_index_texts_changes_it(store: PgLexicalVectorStore, make_store: Any) -> None:
    rows = [VectorRecord("a", "the running dogs", [1, 0, 0]), VectorRecord("b", "a dog runs", [0, 1, 0])]
    store.upsert(rows)
    other = make_store(lexical=True, tokenizer="english", index=None, ensure=False)
    assert repr(store).endswith(", tokenizer=unicode)")
    assert repr(other).endswith(", tokenizer=english)")
    for call in (other.ensure_schema, lambda: other.search_text("dog", top_k=1), lambda: other.upsert(rows)):
        with pytest.raises(SchemaError, match=r"was made by the tokenizer 'unicode'.*opened with 'english'"):
            call()
    done: list[tuple[int, int]] = []
    assert other.index_texts(batch_size=1, progress=lambda *state: done.append(state)) == 2
    assert done == [(1, 2), (2, 2)]
    assert_same(other.search_text("dogs run", top_k=5), keyword(rows, tokenizer="english").retrieve("dogs run"))


def test_a_table_without_an_index_is_searched_and_migrated(make_store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = make_store(index=None)
    generator = random.Random(3)
    rows = [record(n, generator) for n in range(40)]
    plain.upsert(rows)
    store = make_store(lexical=True, tokenizer="unicode", index=None, ensure=False)
    expected = keyword(rows)

    def same() -> None:
        assert_same(store.search_text("alpha config", top_k=50), expected.retrieve("alpha config", top_k=50))

    same()
    store.ensure_schema()
    same()
    monkeypatch.setattr(text_index, "MOST_PENDING", 10)
    with pytest.raises(SchemaError, match=r"more than 10 texts .* call ensure_schema\(\) and index_texts\(\)"):
        store.search_text("alpha", top_k=1)
    assert store.index_texts(batch_size=15) == 40
    assert store.index_texts() == 0
    same()


def test_writers_beside_a_merger_leave_nothing_wrong(store: PgLexicalVectorStore, make_store: Any) -> None:
    """Writers replace and remove each other's documents while the index is joined and swept."""
    failures: list[BaseException] = []
    stop = threading.Event()

    def write(seed: int) -> None:
        generator = random.Random(seed)
        try:
            for _ in range(15):
                fresh = [record(generator.randrange(60), generator) for _ in range(4)]
                if generator.random() < 0.2:
                    store.remove(document_id_of(fresh[0].id))
                else:
                    store.replace_documents(sorted({document_id_of(one.id) for one in fresh}), fresh)
        except BaseException as error:
            failures.append(error)

    def merge() -> None:
        while not stop.is_set():
            store.maintain()
            store.search_text("alpha beta config", top_k=5)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(8)]
    merger = threading.Thread(target=merge)
    for thread in (*writers, merger):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    merger.join()
    assert failures == []
    expected = keyword(list(store.scan()))
    for query in ("alpha", "config 2024", "算法 서버 straße"):
        assert_same(store.search_text(query, top_k=100), expected.retrieve(query, top_k=100))
    assert store.index_texts() == 0


def test_a_write_that_fails_leaves_the_index_as_it_was(store: PgLexicalVectorStore) -> None:
    store.upsert([VectorRecord("a", "alpha", [1, 0, 0], None, {"acl": "x"})])

    def broken() -> Iterator[VectorRecord]:
        yield from (VectorRecord(f"r{n}", "alpha", [1, 0, 0], None, {"acl": "x"}) for n in range(6_000))
        raise RuntimeError("source ended")

    with pytest.raises(RuntimeError, match="source ended"):
        store.upsert(broken())
    assert_same(store.search_text("alpha", top_k=5), keyword(list(store.scan())).retrieve("alpha"))
    assert store.count() == 1
    assert (
        store.upsert([VectorRecord(f"r{n}", "alpha " + "xyz" * (n == 4321), [1, 0, 0]) for n in range(6_000)]) == 6_000
    )
    assert [one.id for one in store.search_text("xyz", top_k=5)] == ["r4321"]


def test_a_text_of_any_size_is_indexed_whole(store: PgLexicalVectorStore) -> None:
    text = " ".join(f"w{n}-x" for n in range(200_000)) + " tail " + "z" * 4_000
    store.upsert([VectorRecord("long", text, [1, 0, 0]), VectorRecord("empty", "", [1, 0, 0])])
    assert [one.id for one in store.search_text("tail", top_k=5)] == ["long"]
    assert [one.id for one in store.search_text("z" * 4_000, top_k=5)] == ["long"]


@pytest.mark.parametrize("restarted", [False, True])
def test_an_index_beside_a_table_follows_what_others_do_to_it(make_store: Any, restarted: bool) -> None:
    """Kind: two copies of a label, of which one is updated: here by another process, or while this one was down."""
    mine = make_store(index=None)
    other = make_store(index=None, ensure=False)
    rows = [VectorRecord(f"{key}#0", f"falcon {key}", [1.0, 0.0, 0.0], None, {"acl": ["all"]}) for key in "abc"]
    mine.upsert(rows)
    index = keyword(rows, backed_by=mine)
    other.update_metadata("a", {"acl": ["board"]})
    other.remove("b")
    other.upsert([VectorRecord("d#0", "falcon d", [0.0, 1.0, 0.0], None, {"acl": ["all"]})])
    if restarted:
        index = KeywordRetriever(backed_by=mine)
        assert index.rebuild(mine) == 3
    assert [one.id for one in index.scoped({"acl": ["all"]}).retrieve("falcon")] == ["c#0", "d#0"][: 1 + restarted]
    assert index.retrieve("a")[0].metadata == {"acl": ["board"]}
    assert index.retrieve("b") == []
