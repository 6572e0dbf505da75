"""A keyword index beside a store: the store has the last word on what there is, who may see it, and how it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agora_core import (
    ChunkRecord,
    HybridRetriever,
    IngestDocument,
    InvalidArgumentError,
    KeywordRetriever,
    MemoryVectorStore,
    UnsupportedOperationError,
    VectorRecord,
    ingest_documents,
)
from agora_core.testing import FakeEmbeddingProvider


class Counting(MemoryVectorStore):
    """A store that counts what it is asked for by id."""

    asked = 0

    def get(self, ids: Sequence[str], *, within: Any = None) -> list[VectorRecord]:
        """Count, and answer."""
        self.asked += 1
        return super().get(ids, within=within)


def pair() -> tuple[Counting, KeywordRetriever]:
    store, keyword = Counting(), KeywordRetriever()
    documents = [
        IngestDocument("plan", "the falcon flies", None, {"acl": ["all"]}),
        IngestDocument("pay", "falcon pay", None, {"acl": ["all"]}),
    ]
    ingest_documents(documents, embedder=FakeEmbeddingProvider(8), store=store, keyword=keyword)
    return store, keyword


def found(keyword: Any, query: str = "falcon", **options: Any) -> list[str]:
    answer = [passage.id for passage in keyword.retrieve(query, **options)]
    assert [p.id for p in asyncio.run(keyword.aretrieve(query, **options))] == answer
    return answer


def test_ingestion_backs_the_index_by_its_store() -> None:
    store, keyword = pair()
    assert keyword.backed_by is store


def test_what_the_store_relabels_removes_or_rewrites_is_so_for_words_too() -> None:
    """Kind: two copies of a label, of which one is updated."""
    store, keyword = pair()
    assert set(found(keyword)) == {"plan#0", "pay#0"}
    store.update_metadata("plan", {"acl": ["board"]})
    assert found(keyword, filter={"acl": ["all"]}) == ["pay#0"]
    assert found(keyword.scoped({"acl": ["all"]})) == ["pay#0"]
    assert keyword.retrieve("flies")[0].metadata == {"acl": ["board"]}
    store.remove("pay")
    assert found(keyword) == ["plan#0"]
    assert found(keyword.scoped({"acl": ["all"]})) == []
    store.upsert([VectorRecord("plan#0", "the hawk walks", [1.0] * 8)])
    assert found(keyword) == []
    assert found(keyword, "the") == ["plan#0"]
    assert keyword.retrieve("the")[0].text == "the hawk walks"


def test_the_metadata_of_the_index_decides_nothing() -> None:
    store, _ = pair()
    keyword = KeywordRetriever(backed_by=store)
    keyword.add([ChunkRecord("plan#0", "the falcon flies", None, {"acl": ["none"]}), ChunkRecord("x#0", "falcon")])
    assert found(keyword, filter={"acl": ["all"]}) == ["plan#0"]
    assert found(keyword, filter={"acl": ["none"]}) == []


def test_one_get_a_query_and_another_only_to_refill() -> None:
    store, keyword = pair()
    keyword.retrieve("falcon", top_k=1)
    assert store.asked == 1
    keyword.add([ChunkRecord(f"gone{n}#0", "falcon") for n in range(5)])
    store.asked = 0
    assert len(keyword.retrieve("falcon", top_k=1)) == 1
    assert store.asked == 2


def test_rebuild_fills_an_index_from_what_a_store_holds() -> None:
    store, _ = pair()
    keyword = KeywordRetriever()
    keyword.add([ChunkRecord("old", "falcon")])
    assert keyword.rebuild(store, tokenizer="english") == 2
    assert set(found(keyword, "falcons")) == {"plan#0", "pay#0"}
    assert asyncio.run(keyword.arebuild(store.scoped({"acl": ["none"]}))) == 0
    assert found(keyword) == []
    keyword.rebuild(store)
    assert keyword.delete("pay#0") == 1
    assert found(keyword) == ["plan#0"]


@pytest.mark.parametrize("per_document", [None, 1])
def test_top_k_is_filled_despite_what_falls_out(per_document: int | None) -> None:
    store = MemoryVectorStore()
    chunks = [ChunkRecord(f"d{n % 20}#{n}", "word " * (n % 7 + 1)) for n in range(300)]
    keyword = KeywordRetriever(backed_by=store)
    keyword.add(chunks)
    kept = [chunk for n, chunk in enumerate(chunks) if n % 3]
    store.upsert([VectorRecord(chunk.id, chunk.text, [1.0]) for chunk in kept])
    plain = KeywordRetriever()
    plain.add(chunks)
    there = {chunk.id for chunk in kept}
    whole = [p.id for p in plain.retrieve("word", top_k=1000) if p.id in there]
    if per_document:
        first: dict[str, str] = {}
        for key in whole:
            first.setdefault(key.split("#")[0], key)
        whole = list(first.values())
    assert found(keyword, "word", top_k=15, per_document=per_document) == whole[:15]


def test_an_index_backed_by_a_view_is_bounded_as_the_view_is() -> None:
    """Kind: a bound that is enforced and not told, and statistics taken from outside of it."""
    store, whole, own = MemoryVectorStore(), KeywordRetriever(), KeywordRetriever()
    records = [VectorRecord(f"a{n}#0", "zeus" if n == 0 else "x", [1.0], None, {"t": "a"}) for n in range(5)]
    hidden = [VectorRecord(f"b{n}#0", "zeus", [1.0], None, {"t": "b"}) for n in range(30)]
    store.upsert([*records, *hidden])
    whole.rebuild(store)
    own.add(records)
    view = store.scoped({"t": "a"})
    whole.backed_by = view
    assert whole.scope == view.scope
    assert HybridRetriever([whole, whole]).scope == view.scope
    assert [(p.id, p.score) for p in whole.retrieve("zeus")] == [(p.id, p.score) for p in own.retrieve("zeus")]


def test_what_does_not_say_what_bounds_it_or_shows_other_ids_backs_no_index() -> None:
    class Silent:
        def get(self, ids: list[str]) -> list[VectorRecord]:
            return []

    with pytest.raises(UnsupportedOperationError, match="'scope'"):
        KeywordRetriever(backed_by=Silent())
    with pytest.raises(InvalidArgumentError, match="namespace"):
        KeywordRetriever().backed_by = MemoryVectorStore().scoped({}, namespace="acme")
