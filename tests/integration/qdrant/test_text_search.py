"""BM25 on sparse vectors and the hybrid of both legs, on the engine and on local mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qdrant_client import models

from agora_core import (
    ChunkRecord,
    EmbeddingRetriever,
    HybridRetriever,
    InvalidArgumentError,
    KeywordRetriever,
    LexicalRetriever,
    QdrantLexicalVectorStore,
    SchemaError,
    VectorRecord,
    chunk_id_to_point_id,
    document_id_of,
    field,
)
from agora_core.fusion import reciprocal_rank_fusion
from agora_core.stores.per_document import cut_per_document
from agora_core.testing import FakeEmbeddingProvider
from tests.integration.qdrant.fix_clients import StoreMaker

pytestmark = pytest.mark.qdrant

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
EMBEDDER = FakeEmbeddingProvider(dimensions=16)


def corpus(count: int = 120) -> list[str]:
    rng = np.random.default_rng(1)
    return [" ".join(rng.choice(WORDS, rng.integers(0, 12))) for _ in range(count)]


def filled(make_store: StoreMaker, texts: list[str], **options: Any) -> Any:
    store = make_store(QdrantLexicalVectorStore, dimension=16, **options)
    vectors = EMBEDDER.embed(texts)
    records = [VectorRecord(f"d{n}", text, vectors[n], None, {"g": n % 3}) for n, text in enumerate(texts)]
    store.upsert(records)
    return store


def test_ids_and_scores_are_those_of_the_keyword_retriever(make_store: StoreMaker, qdrant_client: Any) -> None:
    texts = corpus()
    store = filled(make_store, texts, k1=1.1, b=0.6)
    keyword = KeywordRetriever(k1=1.1, b=0.6, tokenizer="unicode")
    chunks = [ChunkRecord(f"d{n}", text, None, {"g": n % 3}) for n, text in enumerate(texts)]
    # One that another writer made: it has neither a vector of terms nor a length.
    payload = {"id": "x", "documentId": "x", "text": "alpha foreign", "metadata": {"g": 1}}
    point = models.PointStruct(id=chunk_id_to_point_id("x"), vector=[1.0] * 16, payload=payload)
    qdrant_client.upsert(store._settings.collection, points=[point], wait=True)
    chunks.append(ChunkRecord("x", "alpha foreign", None, {"g": 1}))
    keyword.add(chunks)
    inside = KeywordRetriever(k1=1.1, b=0.6, tokenizer="unicode")
    inside.add([chunk for chunk in chunks if (chunk.metadata or {})["g"] == 1])

    def same(found: Any, expected: Any) -> None:
        assert [p.id for p in found] == [p.id for p in expected]
        assert [p.score for p in found] == pytest.approx([p.score for p in expected], rel=1e-5)

    for _ in range(2):
        for query in ("alpha", "beta gamma", "zeta zeta kappa unknown", "foreign alpha iota"):
            whole = keyword.retrieve(query, top_k=500)
            same(store.search_text(query, top_k=500), whole)
            same(store.search_text(query, top_k=7), whole[:7])
            for narrow in ({"g": [1, 2]}, field("g") > 0):
                expected = [p for p in whole if (p.metadata or {})["g"] > 0]
                same(store.search_text(query, top_k=7, filter=narrow), expected[:7])
            floor = whole[5].score
            least = [p for p in whole if p.score >= floor]
            same(store.search_text(query, top_k=500, min_score=floor - 1e-9), least)
            same(store.scoped({"g": 1}).search_text(query, top_k=9), inside.retrieve(query, top_k=9))
            odd = store.scoped(field("g") < 2).scoped({"g": [1, 2]})
            same(odd.search_text(query, top_k=9), inside.retrieve(query, top_k=9))
        # Statistics follow every write.
        store.remove_where({"g": 2})
        keyword.remove([chunk.id for chunk in chunks if (chunk.metadata or {})["g"] == 2])
        store.replace_documents(["d0"], [VectorRecord("d0", "alpha iota iota", [1.0] * 16, None, {"g": 1})])
        keyword.add([ChunkRecord("d0", "alpha iota iota", None, {"g": 1})])
        inside.add([ChunkRecord("d0", "alpha iota iota", None, {"g": 1})])


def test_at_most_so_many_of_a_document(make_store: StoreMaker) -> None:
    store = make_store(QdrantLexicalVectorStore, dimension=16)
    texts = corpus()
    vectors = EMBEDDER.embed(texts)
    store.upsert([VectorRecord(f"doc{n % 9}#{n}", text, vectors[n]) for n, text in enumerate(texts)])
    query, vector = "alpha beta", vectors[3]
    for each in (1, 2, 5):
        for top_k in (1, 4, 30):
            options: dict[str, Any] = {"top_k": top_k, "per_document": each}
            ranking = store.search_text(query, top_k=500)
            assert store.search_text(query, **options) == cut_per_document(ranking, each, top_k)
            ranking = store.search(vector, top_k=500)
            assert store.search(vector, **options) == cut_per_document(ranking, each, top_k)
    found = store.search_hybrid(query, vector, top_k=9, per_document=1, fetch_top_k=1, fusion="relative_score")
    assert sorted(document_id_of(p.id) for p in found) == [f"doc{n}" for n in range(9)]
    # A floor is on what the cut leaves, as in a HybridRetriever over two legs: it makes no list any longer.
    everything = store.scoped(field("none").exists() | ~field("none").exists())
    legs = HybridRetriever([EmbeddingRetriever(EMBEDDER, store), LexicalRetriever(everything)], fetch_top_k=2)
    for query in ("alpha beta", "gamma", "eta iota kappa", "zeta"):
        for floor in (0.0, 0.0164, 0.02, 0.03):
            options = {"top_k": 3, "per_document": 2, "min_score": floor}
            expected = legs.retrieve(query, **options)
            assert store.search_hybrid(query, EMBEDDER.embed([query])[0], fetch_top_k=2, **options) == expected


def test_another_tokenizer_is_refused_until_the_texts_are_indexed_with_it(
    make_store: StoreMaker, qdrant_client: Any
) -> None:
    store = make_store(QdrantLexicalVectorStore, collection="reindexed")
    store.upsert([VectorRecord("a", "déjà vu", [1, 0]), VectorRecord("b", "...", [1, 0])])
    other = QdrantLexicalVectorStore(qdrant_client, collection="reindexed", dimension=2, tokenizer="ascii")
    assert repr(store).endswith(", tokenizer=unicode)")
    assert repr(other).endswith(", tokenizer=ascii)")
    for act in (
        lambda: other.search_text("vu", top_k=1),
        lambda: other.upsert([VectorRecord("c", "t", [1, 0])]),
        other.ensure_collection,
    ):
        with pytest.raises(SchemaError, match=r"'unicode', the store has 'ascii'.*index_texts"):
            act()
    assert other.index_texts() == 2
    assert [p.id for p in other.search_text("vu", top_k=3)] == ["a"]
    assert other.search_text("déjà", top_k=3) == other.search_text("d j", top_k=3) != []
    with pytest.raises(SchemaError, match="'ascii', the store has 'unicode'"):
        make_store(QdrantLexicalVectorStore, collection="reindexed")


def test_what_finds_nothing(make_store: StoreMaker) -> None:
    store = filled(make_store, corpus(20))
    for query in ("", "  ", "...", "unknown"):
        assert store.search_text(query, top_k=3) == []
    assert store.search_text("alpha", top_k=3, filter={"g": []}) == []
    with pytest.raises(InvalidArgumentError, match="top_k"):
        store.search_text("alpha", top_k=0)
    with pytest.raises(InvalidArgumentError, match="query"):
        store.search_text(None, top_k=1)


def test_a_term_that_only_shares_a_place_is_not_found(make_store: StoreMaker, monkeypatch: Any) -> None:
    from agora_core.stores.qdrant import sparse

    # Eight places for all terms: every text collides with most others.
    places = sparse.term_index
    monkeypatch.setattr(sparse, "term_index", lambda term: places(term) % 8)
    texts = [f"w{n}" for n in range(100)]
    store = filled(make_store, texts, tokenizer="ascii")
    for n in (0, 41, 99):
        assert [p.id for p in store.search_text(f"w{n}", top_k=2)] == [f"d{n}"]


@pytest.mark.parametrize("filter", [None, {"g": [1, 2]}, {"g": 5}])
@pytest.mark.parametrize("query", ["alpha", "beta gamma", "zeta eta eta theta", "unknown"])
def test_the_hybrid_ranks_as_both_legs_fused(make_store: StoreMaker, query: str, filter: Any) -> None:
    store = filled(make_store, corpus())
    options = {} if filter is None else {"filter": filter}
    legs = [EmbeddingRetriever(EMBEDDER, store), LexicalRetriever(store)]
    embedding = EMBEDDER.embed([query])[0]
    for k, weights, fetched, top_k in ((60, (1.0, 1.0), 20, 10), (1, (0.2, 3.0), 5, 12), (10, (1.0, 0.0), 30, 4)):
        rankings = [leg.retrieve(query, top_k=max(fetched, top_k), **options) for leg in legs]
        expected = reciprocal_rank_fusion(rankings, k=k, weights=weights)[:top_k]
        found = store.search_hybrid(query, embedding, top_k=top_k, fetch_top_k=fetched, k=k, weights=weights, **options)
        assert found == expected
        hybrid = HybridRetriever(legs, k=k, weights=weights, fetch_top_k=fetched)
        assert hybrid.retrieve(query, top_k=top_k, **options) == expected


def test_the_hybrid_is_scoped(make_store: StoreMaker) -> None:
    store = filled(make_store, corpus())
    scope = store.scoped({"g": 1})
    found = scope.search_hybrid("alpha beta", EMBEDDER.embed(["alpha beta"])[0], top_k=10)
    assert found
    assert all(p.metadata["g"] == 1 for p in found)
    assert all(p.metadata["g"] == 1 for p in scope.search_text("alpha", top_k=50))


def test_a_wrong_fusion_is_refused_before_anything_is_asked(make_store: StoreMaker) -> None:
    store = make_store(QdrantLexicalVectorStore)
    for options in ({"weights": (1.0,)}, {"weights": (-1.0, 1.0)}, {"k": -1}, {"top_k": 0}, {"fetch_top_k": 0}):
        with pytest.raises(InvalidArgumentError):
            store.search_hybrid("a", [1, 0], **{"top_k": 3, **options})


def test_patches_and_replacements_keep_the_text_searchable(make_store: StoreMaker) -> None:
    store = filled(make_store, ["alpha", "beta alpha", "gamma"])
    assert store.update_metadata("d1", {"g": 9}) == 1
    assert [p.id for p in store.search_text("alpha", top_k=5, filter={"g": 9})] == ["d1"]
    store.replace_documents(["d0"], [VectorRecord("d0", "delta", EMBEDDER.embed(["delta"])[0])])
    assert [p.id for p in store.search_text("alpha", top_k=5)] == ["d1"]
    assert [p.id for p in store.search_text("delta", top_k=5)] == ["d0"]
    assert len(store.get(["d0"])[0].embedding) == 16


def test_a_collection_remembers_how_its_text_was_indexed(make_store: StoreMaker, qdrant_client: Any) -> None:
    store = make_store(QdrantLexicalVectorStore, collection="remembered")
    store.ensure_collection()
    with pytest.raises(SchemaError, match=r"text was indexed with tokenizer 'unicode', the store has 'ascii'"):
        QdrantLexicalVectorStore(
            qdrant_client, collection="remembered", dimension=2, tokenizer="ascii"
        ).ensure_collection()


def test_a_collection_without_sparse_vectors_is_refused(make_store: StoreMaker, qdrant_client: Any) -> None:
    make_store(collection="dense_only")
    with pytest.raises(SchemaError, match="no sparse vector 'text'"):
        QdrantLexicalVectorStore(qdrant_client, collection="dense_only", dimension=2).ensure_collection()


@pytest.mark.parametrize("options", [{"k1": -1}, {"b": 2}, {"syntax": "sql"}, {"tokenizer": "klingon"}])
def test_options_out_of_range_are_refused(options: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        QdrantLexicalVectorStore(":memory:", **options)


def test_other_scripts(make_store: StoreMaker) -> None:
    store = filled(make_store, ["検索は楽しい", "поиск по тексту", "déjà vu"])
    assert [p.id for p in store.search_text("検索", top_k=3)] == ["d0"]
    assert [p.id for p in store.search_text("ПОИСК", top_k=3)] == ["d1"]
    assert [p.id for p in store.search_text("DÉJÀ", top_k=3)] == ["d2"]


def test_phrases_and_exclusions_where_they_are_asked_for(make_store: StoreMaker) -> None:
    store = filled(make_store, ["red fox runs", "fox red", "red fox sleeps", "green"])
    assert [p.id for p in store.search_text('"red fox" -sleeps', top_k=5, syntax="web")] == ["d0"]
    assert len(store.search_text('"red fox" -sleeps', top_k=5)) == 3
    assert store.search_text("-fox", top_k=5, syntax="web") == []
