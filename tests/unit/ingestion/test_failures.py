"""Ingestion when something fails: each document is as it was, or as it should be. On the real memory store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import (
    ChunkRecord,
    EmbeddingError,
    IngestDocument,
    InvalidMetadataError,
    KeywordRetriever,
    MemoryVectorStore,
    chunk_documents,
    document_id_of,
    ingest_chunks,
    ingest_documents,
    sync_documents,
)
from agora_core.testing import FakeEmbeddingProvider
from tests.unit.ingestion.doubles import LONG, DeletingStore, Embedder, MinimalStore, content, documents


def test_a_failing_embedder_leaves_each_document_old_or_new() -> None:
    old = documents("a", "b", "c")
    new = [IngestDocument(one.id, one.text.replace("torque", "copper"), one.source, one.metadata) for one in old]
    kept, wanted = MemoryVectorStore(), MemoryVectorStore()
    options: dict[str, Any] = {"chunk_size": 100, "batch_size": 4}
    ingest_documents(old, embedder=Embedder(), store=kept, **options)
    ingest_documents(new, embedder=Embedder(), store=wanted, **options)
    before, after = content(kept), content(wanted)
    for fails_at in range(6):
        store = MemoryVectorStore()
        ingest_documents(old, embedder=Embedder(), store=store, **options)
        with pytest.raises(ConnectionError):
            ingest_documents(new, embedder=Embedder(fails_at), store=store, **options)
        found = content(store)
        for key in "abc":
            mine = {chunk: value for chunk, value in found.items() if document_id_of(chunk) == key}
            sides = [{c: v for c, v in side.items() if document_id_of(c) == key} for side in (before, after)]
            assert mine in sides
        # A batch that failed is not written: with four chunks a batch and seven a document, these are whole.
        assert sum(found[f"{key}#0"] == after[f"{key}#0"] for key in "abc") == fails_at * 4 // 7


keys = st.sampled_from("abcd")
texts = st.sampled_from(["", "one", LONG[:90], LONG, "copper " * 40])
batches = st.lists(st.tuples(keys, texts), max_size=8)


@given(batches, batches, st.integers(1, 6), st.integers(0, 6), st.booleans())
def test_whatever_fails_each_document_is_whole(
    first: list[tuple[str, str]], second: list[tuple[str, str]], batch_size: int, fails_at: int, as_list: bool
) -> None:
    """After a failure the store holds, of each document, exactly the chunks of its old text or of its new one."""
    store, options = MemoryVectorStore(), {"chunk_size": 60, "overlap": 5, "batch_size": batch_size}
    ingest_documents([IngestDocument(*one) for one in first], embedder=Embedder(), store=store, **options)  # type: ignore[arg-type]
    given_now = [IngestDocument(*one) for one in second]
    source: Any = given_now if as_list else iter(given_now)
    failed = False
    try:
        ingest_documents(source, embedder=Embedder(fails_at), store=store, **options)  # type: ignore[arg-type]
    except ConnectionError:
        failed = True
    found = {key: [(one.id, one.text) for one in store.scan() if document_id_of(one.id) == key] for key in "abcd"}
    for key, chunks in found.items():
        old = [text for name, text in first if name == key][-1:] or [""]
        new = [text for name, text in second if name == key]
        # A list is checked first, so only its last text of an id is ever written.
        allowed = (old if failed or not new else []) + (new[-1:] if as_list or not failed else new)
        expected = [chunk_documents([IngestDocument(key, text)], chunk_size=60, overlap=5) for text in allowed]
        assert sorted(chunks) in [sorted((one.id, one.text) for one in side) for side in expected]


@pytest.mark.parametrize("make", [MinimalStore, DeletingStore])
@pytest.mark.parametrize("fails_at", ["upsert", "remove", "delete"])
def test_a_store_that_fails_never_holds_neither(make: Callable[[], MinimalStore], fails_at: str) -> None:
    store = make()
    ingest_documents(documents("a"), embedder=Embedder(), store=store, chunk_size=100)
    store.fails_at = fails_at
    store.log.clear()
    try:
        ingest_documents(documents("a", text="short"), embedder=Embedder(), store=store)
    except ConnectionError:
        assert "a#0" in store.records
    else:
        assert fails_at not in store.log


@pytest.mark.parametrize(
    "answer",
    [lambda vectors: vectors[:-1], lambda vectors: [*vectors, vectors[0]], lambda vectors: [], lambda vectors: 7,
     lambda vectors: None],
)  # fmt: skip
def test_a_wrong_number_of_vectors_writes_nothing(answer: Callable[[Any], Any]) -> None:
    store, keyword = MemoryVectorStore(), KeywordRetriever()
    options: dict[str, Any] = {"embedder": Embedder(answer=answer), "store": store, "keyword": keyword}
    with pytest.raises(EmbeddingError, match=r"Embedder.embed (returned \d+ vectors for 2 texts|must return one)"):
        ingest_documents([IngestDocument("a", "torque"), IngestDocument("b", "torque")], **options)
    with pytest.raises(EmbeddingError):
        ingest_chunks([ChunkRecord("a#0", "torque"), ChunkRecord("a#1", "torque")], **options)
    assert store.count() == 0
    assert keyword.retrieve("torque") == []


BAD: list[tuple[IngestDocument, str]] = [
    (IngestDocument("", "text"), "id must not be empty"),
    (IngestDocument("a\x00", "text"), "id contains U\\+0000"),
    (IngestDocument("a", "\ud800"), "document 'a': text contains a lone surrogate"),
    (IngestDocument("a", "text", "\udfff"), "document 'a': source contains a lone surrogate"),
    (IngestDocument("a", "text", None, {"when": object()}), r"document 'a': metadata\['when'\] is a object"),
    (IngestDocument("a", "text", None, {"n": float("nan")}), r"document 'a': metadata\['n'\] is the float nan"),
    (IngestDocument("a", "text", None, {1: 2}), "document 'a': metadata has the key 1 of type int"),  # type: ignore[dict-item]
    (IngestDocument("a", "text", None, [1]), "document 'a': metadata must be a mapping or None, got list"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_a_list_is_checked_whole_before_anything_is_paid_for(bad: IngestDocument, message: str) -> None:
    store, embedder = MemoryVectorStore(), Embedder()
    with pytest.raises(InvalidMetadataError, match=message):
        ingest_documents([*documents("x", "y"), bad], embedder=embedder, store=store, batch_size=1)
    assert embedder.batches == []
    assert store.count() == 0


@pytest.mark.parametrize(
    ("bad", "message"),
    [(ChunkRecord("", "text"), "id must not be empty"),
     (ChunkRecord("a#0", "a\x00b"), r"chunk 'a#0': text contains U\+0000"),
     (ChunkRecord("a#0", "text", None, {"when": object()}), r"chunk 'a#0': metadata\['when'\]")],
)  # fmt: skip
def test_chunks_are_checked_before_anything_is_paid_for(bad: ChunkRecord, message: str) -> None:
    store, embedder = MemoryVectorStore(), Embedder()
    with pytest.raises(InvalidMetadataError, match=message):
        ingest_chunks([ChunkRecord("x#0", "text"), bad], embedder=embedder, store=store, batch_size=1)
    assert embedder.batches == []
    assert store.count() == 0


@pytest.mark.parametrize("spoil", [lambda row: [float("nan")] * 16, lambda row: row[:-1], lambda row: ["x"] * 16])
@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_a_vector_the_store_refuses_loses_nothing(spoil: Callable[[Any], Any], batch_size: int) -> None:
    store, keyword = MemoryVectorStore(), KeywordRetriever()
    options: dict[str, Any] = {"store": store, "keyword": keyword, "batch_size": batch_size}
    ingest_documents(documents("a", "b", text="torque"), embedder=Embedder(), **options)
    before = content(store)

    def answer(vectors: list[list[float]]) -> list[Any]:
        return [*vectors[:-1], spoil(vectors[-1])]

    with pytest.raises(ValueError, match="embedding"):
        ingest_documents(documents("a", "b", text="copper"), embedder=Embedder(answer=answer), **options)
    assert content(store) == before
    assert keyword.retrieve("copper") == []
    assert len(keyword.retrieve("torque")) == 2


class Failing(KeywordRetriever):
    """An index whose next write fails."""

    fails = False

    def replace_documents(self, *arguments: Any, **options: Any) -> Any:
        if self.fails:
            self.fails = False
            raise OSError("the disk is full")
        return super().replace_documents(*arguments, **options)


@pytest.mark.parametrize("again", [ingest_documents, sync_documents])
def test_an_index_that_failed_is_repaired_by_the_next_run(again: Callable[..., Any]) -> None:
    """Kind: two copies, one of them behind. The store is the truth; the failure is told and the next run repairs."""
    store, index = MemoryVectorStore(), Failing()
    options: dict[str, Any] = {"embedder": FakeEmbeddingProvider(8), "store": store, "keyword": index}
    ingest_documents([IngestDocument("a", "salary falcon"), IngestDocument("b", "budget")], **options)
    index.fails = True
    changed = [IngestDocument("a", "merger eagle"), IngestDocument("b", "budget")]
    with pytest.raises(OSError, match="disk is full"):
        ingest_documents(changed, **options)
    assert [record.text for record in store.get(["a#0"])] == ["merger eagle"]
    assert index.retrieve("eagle") == []
    again(changed, **options)
    assert [passage.id for passage in index.retrieve("eagle")] == ["a#0"]
    assert index.retrieve("falcon") == []
