"""Text in the memory store: the scores of the keyword retriever over the same rows, at every moment of any history."""

from __future__ import annotations

import asyncio
import copy
import pickle
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import (
    ChunkRecord,
    EmbeddingRetriever,
    HybridRetriever,
    InvalidArgumentError,
    KeywordRetriever,
    LexicalRetriever,
    MemoryLexicalVectorStore,
    MemoryVectorStore,
    Passage,
    VectorRecord,
    document_id_of,
    field,
    matches_filter,
)
from agora_core.testing import FakeEmbeddingProvider

WORDS = ["red", "fox", "foxes", "camelCase", "case", "東京都", "한국어", "v2"]
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
ids = st.sampled_from([f"{d}#{n}" for d in "abc" for n in range(3)])
teams = st.sampled_from(["x", "y"])
operations = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.lists(st.tuples(ids, texts, teams), min_size=1, max_size=4)),
        st.tuples(st.just("replace"), st.sampled_from("abc"), st.lists(st.tuples(ids, texts, teams), max_size=3)),
        st.tuples(st.just("remove"), st.sampled_from("abc")),
        st.tuples(st.just("delete"), ids),
        st.tuples(st.just("patch"), st.sampled_from("abc"), teams),
        st.tuples(st.just("where"), teams),
    ),
    max_size=12,
)


def record(key: str, text: str, team: str) -> VectorRecord:
    return VectorRecord(key, text, [float(len(text)), 1.0], None, {"team": team})


def pairs(passages: list[Passage]) -> list[tuple[str, float]]:
    return [(passage.id, passage.score) for passage in passages]


def apply(store: Any, operation: tuple[Any, ...]) -> None:
    kind, *rest = operation
    if kind == "upsert":
        store.upsert([record(*one) for one in rest[0]])
    elif kind == "replace":
        own = [record(*one) for one in rest[1]]
        store.replace_documents([rest[0]], own)
    elif kind == "remove":
        store.remove(rest[0])
    elif kind == "delete":
        store.delete([rest[0]])
    elif kind == "patch":
        store.update_metadata(rest[0], {"team": rest[1]})
    else:
        store.remove_where({"team": rest[0]})


def fresh(store: MemoryVectorStore, only: Any = None) -> KeywordRetriever:
    index = KeywordRetriever()
    index.add([one for one in store.scan() if only is None or matches_filter(one.metadata, only)])
    return index


@given(operations, texts, st.integers(1, 6), st.none() | st.integers(1, 2), st.booleans())
def test_any_history_answers_as_a_fresh_keyword_index(
    history: list[Any], query: str, top_k: int, most: int | None, swept: bool
) -> None:
    store = MemoryLexicalVectorStore()
    for operation in history:
        apply(store, operation)
        store.search_text(query or "red", top_k=1, filter={"team": "x"})  # fills what a write must forget
    if swept:
        # Enough writes that the table moves its rows together.
        for n in range(70):
            store.upsert([record("swept", f"red {n}", "x")])
        store.delete(["swept"])
    everything = fresh(store).retrieve(query, top_k=1000)
    own = [one for one in everything if (one.metadata or {}).get("team") == "x"]
    for expected, found in (
        (everything, store.search_text(query, top_k=1000)),
        (own, store.search_text(query, top_k=1000, filter={"team": "x"})),
        # Through a scope it is as if there were no others.
        (
            fresh(store, {"team": "x"}).retrieve(query, top_k=1000),
            store.scoped({"team": "x"}).search_text(query, top_k=1000),
        ),
    ):
        assert pairs(found) == pairs(expected)
    counts: Counter[str] = Counter()
    kept = []
    for one in everything:
        counts[document_id_of(one.id)] += 1
        if most is None or counts[document_id_of(one.id)] <= most:
            kept.append(one)
    assert pairs(store.search_text(query, top_k=top_k, per_document=most)) == pairs(kept[:top_k])


@given(operations, texts, st.sampled_from(["rrf", "relative_score", "adaptive"]), st.none() | st.integers(1, 2))
def test_hybrid_is_that_of_its_two_legs(history: list[Any], query: str, fusion: Any, most: int | None) -> None:
    store, embedder = MemoryLexicalVectorStore(dimension=2), FakeEmbeddingProvider(2)
    for operation in history:
        apply(store, operation)
    whole = HybridRetriever([EmbeddingRetriever(embedder, store), LexicalRetriever(store)], fusion=fusion)
    apart = HybridRetriever([EmbeddingRetriever(embedder, store), fresh(store)], fusion=fusion)
    asked: dict[str, Any] = {"top_k": 4, "per_document": most, "filter": {"team": "x"}}
    assert pairs(whole.retrieve(query or "q", **asked)) == pairs(apart.retrieve(query or "q", **asked))
    vector = embedder.embed([query or "q"])[0]
    options: dict[str, Any] = {"top_k": 4, "fusion": fusion, "per_document": most, "filter": {"team": "x"}}
    assert pairs(store.search_hybrid(query or "q", vector, **options)) == pairs(whole.retrieve(query or "q", **asked))


def filled(**options: Any) -> MemoryLexicalVectorStore:
    store = MemoryLexicalVectorStore(**options)
    store.upsert(
        [
            VectorRecord("plan#0", "the falcon flies at dawn", [1.0, 0.0], None, {"acl": ["all"]}),
            VectorRecord("pay#0", "falcon pay is forty", [0.0, 1.0], "pay.md", {"acl": ["all"]}, "salaries"),
        ]
    )
    return store


def test_one_truth_for_both_legs() -> None:
    store = filled()
    assert {p.id for p in store.search_text("falcon", top_k=5)} == {"plan#0", "pay#0"}
    assert [p.id for p in store.search_text("salaries", top_k=5)] == ["pay#0"]
    store.update_metadata("plan", {"acl": ["board"]})
    store.remove("pay")
    mine = store.scoped({"acl": ["all"]})
    assert mine.search_text("falcon", top_k=5) == []
    assert mine.search_hybrid("falcon", [1.0, 0.0], top_k=5) == []


@pytest.mark.parametrize("hidden", [0, 1, 5, 50])
def test_no_score_tells_how_many_hidden_records_hold_a_word(hidden: int) -> None:
    own = [record("me#0", "zeus and hera", "x"), record("me#1", "hera", "x")]
    others = [record(f"o{n}#0", "zeus" if n < hidden else "else", "y") for n in range(100)]
    store, index = MemoryLexicalVectorStore(), KeywordRetriever()
    store.upsert(own + others)
    index.add(own + others)
    alone = KeywordRetriever()
    alone.add(own)
    expected = pairs(alone.retrieve("zeus hera"))
    assert pairs(store.scoped({"team": "x"}).search_text("zeus hera", top_k=5)) == expected
    for scope in ({"team": "x"}, field("team") == "x"):
        assert pairs(index.scoped(scope).retrieve("zeus hera")) == expected
    backed = KeywordRetriever(backed_by=store)
    backed.add([ChunkRecord(one.id, one.text) for one in own + others])
    assert pairs(backed.scoped({"team": "x"}).retrieve("zeus hera")) == expected


def test_phrases_and_exclusions() -> None:
    store = filled(syntax="web")
    index = KeywordRetriever(syntax="web")
    index.add(store.scan())

    def of_store(query: str) -> list[str]:
        return [passage.id for passage in store.search_text(query, top_k=5)]

    def of_index(query: str) -> list[str]:
        return [passage.id for passage in index.retrieve(query)]

    for found in (of_store, of_index):
        assert found('"falcon flies" pay') == ["plan#0"]
        assert found("falcon -dawn") == ["pay#0"]
        assert found('falcon -"flies at"') == ["pay#0"]
        assert found("-dawn") == []
        assert found('"flies falcon"') == []
    assert {p.id for p in store.search_text("falcon -dawn", top_k=5, syntax="plain")} == {"plan#0", "pay#0"}


def test_the_tokenizer_is_kept_with_the_store(tmp_path: Path) -> None:
    store = filled(tokenizer="english", k1=1.2, b=0.5)
    assert "tokenizer=english" in repr(store)
    store.save(tmp_path / "store")
    for again in (
        MemoryLexicalVectorStore.load(tmp_path / "store"),
        asyncio.run(MemoryLexicalVectorStore.aload(tmp_path / "store", tokenizer="english")),
        copy.deepcopy(store),
        pickle.loads(pickle.dumps(store)),
    ):
        assert pairs(again.search_text("flying falcons", top_k=5)) == pairs(
            store.search_text("flying falcons", top_k=5)
        )
        assert (again.k1, again.b, repr(again)) == (1.2, 0.5, repr(store))
        again.remove("pay")
        assert len(again) == 1
        assert len(again.search_text("falcon", top_k=5)) == 1
        assert len(store.search_text("falcon", top_k=5)) == 2
    with pytest.raises(InvalidArgumentError, match=r"'english'.*'german'"):
        MemoryLexicalVectorStore.load(tmp_path / "store", tokenizer="german")
    with pytest.raises(InvalidArgumentError, match=r"'english'.*'german'"):
        asyncio.run(MemoryLexicalVectorStore.aload(tmp_path / "store", tokenizer="german"))
    assert len(MemoryVectorStore.load(tmp_path / "store")) == 2
    assert store.index_texts(tokenizer="ascii") == 2
    assert store.search_text("flying", top_k=5) == []


def test_a_store_without_texts_is_indexed_as_it_is_read(tmp_path: Path) -> None:
    plain = MemoryVectorStore()
    plain.upsert(list(filled().scan()))
    plain.save(tmp_path / "store")
    assert len(MemoryLexicalVectorStore.load(tmp_path / "store").search_text("falcon", top_k=5)) == 2


def test_texts_are_searched_whole_beside_a_writer() -> None:
    """Kind: a list that is changed outside its lock. A word stands in every text or in none."""
    store = MemoryLexicalVectorStore()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    stop, failures = threading.Event(), list[Any]()

    def write() -> None:
        for n in range(150):
            store.replace_documents(["d"], [record(f"d#{i}", f"word{'ab'[n % 2]} all", "x") for i in range(5)])
            store.update_metadata("d", {"team": "xy"[n % 2]})
        stop.set()

    def read() -> None:
        try:
            while not stop.is_set():
                found = store.search_hybrid("all", [1.0, 1.0], top_k=10)
                if found:
                    assert len(found) == 5
                    assert len({passage.text for passage in found}) == 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)] + [threading.Thread(target=write)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failures == []


def test_wrong_arguments_are_refused() -> None:
    store = filled()
    with pytest.raises(InvalidArgumentError, match="query must be a str"):
        store.search_text(3, top_k=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="syntax must be"):
        MemoryLexicalVectorStore(syntax="fuzzy")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="per_document"):
        store.search_text("x", top_k=1, per_document=0)


def test_a_document_that_fills_the_ranking_does_not_hide_the_others() -> None:
    store = MemoryLexicalVectorStore()
    store.upsert([record(f"big#{n}", "fox", "x") for n in range(200)])
    store.upsert([record("small#0", "fox and hound", "x")])
    found = store.search_text("fox", top_k=2, per_document=1)
    assert [document_id_of(passage.id) for passage in found] == ["big", "small"]
