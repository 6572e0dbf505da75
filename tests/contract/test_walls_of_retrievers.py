"""Every retriever over every store: hidden records change nothing in a scope; `per_document` cuts the whole ranking."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest

from agora_core import (
    AuthorizedRetriever,
    EmbeddingRetriever,
    HybridRetriever,
    LexicalRetriever,
    MemoryLexicalVectorStore,
    Passage,
    PgLexicalVectorStore,
    QdrantLexicalVectorStore,
    RerankingRetriever,
    VectorRecord,
    document_id_of,
    matches_filter,
)
from agora_core.testing import FakeEmbeddingProvider

WORDS = ["heat", "pump", "boiler", "valve", "pipe", "leave", "board", "salary"]
EMBEDDER = FakeEmbeddingProvider(dimensions=16)
SCOPE = {"tenant": "a"}


class Longest:
    """A reranker by the length of texts."""

    def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        ranked = sorted(passages, key=lambda p: (-len(p.text), p.id))[:top_k]
        return [Passage(p.id, p.text, float(len(p.text)), p.source, p.metadata) for p in ranked]


def some(random: Random, count: int, tenant: str, start: int = 0) -> list[VectorRecord]:
    texts = [" ".join(random.choices(WORDS, k=random.randint(1, 6))) for _ in range(count)]
    vectors = EMBEDDER.embed(texts)
    owners = [f"{random.choice('pqrs')}{tenant}" for _ in range(count)]
    return [
        VectorRecord(f"{owner}#{start + n}", text, vector, None, {"tenant": tenant})
        for n, (owner, text, vector) in enumerate(zip(owners, texts, vectors, strict=True))
    ]


def retrievers_over(store: Any) -> dict[str, Any]:
    dense = EmbeddingRetriever(EMBEDDER, store)
    made: dict[str, Any] = {"dense": dense, "reranked": RerankingRetriever(dense, Longest(), fetch_top_k=8)}
    made["authorized"] = AuthorizedRetriever(dense, lambda ids: [key for key in ids if not key.startswith("q")])
    if hasattr(store, "search_text"):
        lexical = LexicalRetriever(store)
        made["lexical"] = lexical
        for fusion in ("rrf", "relative_score", "adaptive"):
            made[fusion] = HybridRetriever([dense, lexical], fusion=fusion, fetch_top_k=50)
        made["short lists"] = HybridRetriever([dense, lexical], fetch_top_k=3)
    return made


@pytest.fixture(scope="module")
def stores(pg_conninfo: str) -> Iterator[dict[str, Callable[[], Any]]]:
    postgres = PgLexicalVectorStore(pg_conninfo, table="walls_of_retrievers", dimension=16)
    postgres.ensure_schema()

    def qdrant() -> QdrantLexicalVectorStore:
        store = QdrantLexicalVectorStore(":memory:", collection="walls", dimension=16)
        store.ensure_collection()
        return store

    def emptied() -> PgLexicalVectorStore:
        postgres.delete([record.id for record in postgres.scan()])
        return postgres

    yield {"memory": lambda: MemoryLexicalVectorStore("cosine", 16), "postgres": emptied, "qdrant": qdrant}
    postgres.close()


def _changed(before: dict[Any, Any], after: dict[Any, Any]) -> dict[Any, Any]:
    return {key: (before[key], after[key]) for key in before if before[key] != after[key]}


@pytest.mark.parametrize("name", ["memory", "postgres", "qdrant"])
def test_hidden_records_change_nothing_that_a_scoped_retriever_says(
    stores: dict[str, Callable[[], Any]], name: str
) -> None:
    """Kind: statistics, order or length of a list that tell of records outside the bound."""
    random, store = Random(1), stores[name]()
    own = some(random, 25, "a")
    store.upsert(own)

    def answers() -> dict[tuple[str, str, int | None], list[tuple[str, float]]]:
        views = retrievers_over(store.scoped(SCOPE))
        views |= {f"view of {kind}": made.scoped(SCOPE) for kind, made in retrievers_over(store).items()}
        return {
            (kind, query, most): [(p.id, round(p.score, 6)) for p in made.retrieve(query, top_k=4, per_document=most)]
            for kind, made in views.items()
            for query in ("heat pump", "salary board leave")
            for most in (None, 1)
        }

    before = answers()
    store.upsert(some(random, 40, "b"))
    assert _changed(before, answers()) == {}
    store.update_metadata("pb", {"tenant": "c"})
    store.upsert(some(random, 10, "b", start=5))
    assert _changed(before, answers()) == {}
    store.remove_where({"tenant": ["b", "c"]})
    assert _changed(before, answers()) == {}


@pytest.mark.parametrize("name", ["memory", "postgres", "qdrant"])
def test_per_document_is_the_cut_of_the_whole_ranking(stores: dict[str, Callable[[], Any]], name: str) -> None:
    random, store = Random(2), stores[name]()
    records = some(random, 40, "a") + some(random, 10, "b")
    store.upsert(records)
    for kind, made in retrievers_over(store).items():
        for query, filter in (("heat pump", None), ("salary board leave", SCOPE)):
            for most, top_k in ((1, 3), (2, 5), (3, 50)):
                found = made.retrieve(query, top_k=top_k, filter=filter, per_document=most)
                owners = [document_id_of(p.id) for p in found]
                assert all(owners.count(owner) <= most for owner in owners), kind
                assert all(filter is None or matches_filter(p.metadata, filter) for p in found)
                if kind in ("reranked", "short lists"):
                    # Their whole ranking is not one list; the bound and the length hold all the same.
                    possible = {document_id_of(p.id) for p in made.retrieve(query, top_k=50, filter=filter)}
                    assert kind == "reranked" or len(found) == min(top_k, most * len(possible)) or top_k == 50
                    continue
                whole = made.retrieve(query, top_k=50, filter=filter)
                documents = [document_id_of(p.id) for p in whole]
                cut = [p for n, p in enumerate(whole) if documents[:n].count(documents[n]) < most][:top_k]
                assert [p.id for p in found] == [p.id for p in cut], (kind, query, most)
