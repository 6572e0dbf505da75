"""BM25 on sparse vectors and the hybrid of both legs, on the engine and on local mode."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from agora_core import (
    EmbeddingRetriever,
    HybridRetriever,
    InvalidArgumentError,
    LexicalRetriever,
    QdrantLexicalVectorStore,
    SchemaError,
    VectorRecord,
)
from agora_core.fusion import reciprocal_rank_fusion
from agora_core.keyword.bm25 import bm25_idf, bm25_term_score
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


def test_scores_are_bm25(make_store: StoreMaker) -> None:
    texts = corpus()
    store = filled(make_store, texts)
    split = [text.split() for text in texts]
    indexed = sum(map(bool, split))
    for query in ("alpha", "beta gamma", "zeta zeta kappa unknown"):
        expected = {}
        for n, terms in enumerate(split):
            score = 0.0
            for term in dict.fromkeys(query.split()):
                if term in terms:
                    frequency = sum(term in other for other in split)
                    weight = bm25_term_score(terms.count(term), len(terms), 128.0)
                    weight *= math.sqrt(query.split().count(term))
                    score += bm25_idf(indexed, frequency) * weight
            if score:
                expected[f"d{n}"] = score
        found = store.search_text(query, top_k=500)
        assert {p.id: p.score for p in found} == pytest.approx(expected, rel=1e-5)
        assert found == sorted(found, key=lambda p: (-p.score, p.id))
        assert store.search_text(query, top_k=7) == found[:7]
        narrowed = store.search_text(query, top_k=7, filter={"g": [1, 2]})
        assert narrowed == [p for p in found if p.metadata["g"] > 0][:7]


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
    store = filled(make_store, texts)
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
    with pytest.raises(SchemaError, match=r"average_length"):
        QdrantLexicalVectorStore(
            qdrant_client, collection="remembered", dimension=2, average_length=50
        ).ensure_collection()


def test_a_collection_without_sparse_vectors_is_refused(make_store: StoreMaker, qdrant_client: Any) -> None:
    make_store(collection="dense_only")
    with pytest.raises(SchemaError, match="no sparse vector 'text'"):
        QdrantLexicalVectorStore(qdrant_client, collection="dense_only", dimension=2).ensure_collection()


@pytest.mark.parametrize(
    "options", [{"k1": -1}, {"b": 2}, {"average_length": 0}, {"average_length": math.inf}, {"tokenizer": "klingon"}]
)
def test_options_out_of_range_are_refused(options: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        QdrantLexicalVectorStore(":memory:", **options)


def test_other_scripts(make_store: StoreMaker) -> None:
    store = filled(make_store, ["検索は楽しい", "поиск по тексту", "déjà vu"])
    assert [p.id for p in store.search_text("検索", top_k=3)] == ["d0"]
    assert [p.id for p in store.search_text("ПОИСК", top_k=3)] == ["d1"]
    assert [p.id for p in store.search_text("DÉJÀ", top_k=3)] == ["d2"]
