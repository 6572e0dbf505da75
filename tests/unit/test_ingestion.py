"""Ingestion: embedding first, whole documents, nothing lost when something fails. On the real memory store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import (
    ChunkRecord,
    EmbeddingError,
    IndexedDocument,
    IngestDocument,
    InvalidArgumentError,
    InvalidMetadataError,
    KeywordRetriever,
    MemoryVectorStore,
    Passage,
    UnsupportedOperationError,
    VectorRecord,
    aingest_chunks,
    aingest_documents,
    chunk_documents,
    document_id_of,
    ingest_chunks,
    ingest_documents,
)
from agora_core.testing import FakeEmbeddingProvider

LONG = "Ship torque bridge warranty; free boat closes manual. " * 10


class Embedder(FakeEmbeddingProvider):
    """Counts what it is paid for, and fails at one call."""

    def __init__(self, fails_at: int | None = None, answer: Callable[[Any], Any] | None = None) -> None:
        super().__init__(16)
        self.batches: list[list[str]] = []
        self.fails_at = fails_at
        self.answer = answer

    def embed(self, texts: Sequence[str]) -> Any:
        if self.fails_at == len(self.batches):
            raise ConnectionError("the model went away")
        self.batches.append(list(texts))
        vectors = super().embed(texts)
        return vectors if self.answer is None else self.answer(vectors)

    async def aembed(self, texts: Sequence[str]) -> Any:
        await asyncio.sleep(0)
        return self.embed(texts)


class MinimalStore:
    """The least that serves as a store: the four methods of the protocol, over a dict."""

    def __init__(self) -> None:
        self.records: dict[str, VectorRecord] = {}
        self.log: list[str] = []
        self.fails_at: str | None = None

    def _enter(self, name: str) -> None:
        self.log.append(name)
        if self.fails_at == name:
            raise ConnectionError("the store went away")

    def upsert(self, records: Any) -> None:
        self._enter("upsert")
        self.records.update({record.id: record for record in records})

    def search(self, embedding: Any, *, top_k: int, filter: Any = None, min_score: Any = None) -> list[Passage]:
        return []

    def remove(self, document_id: str) -> None:
        self._enter("remove")
        self.records = {key: record for key, record in self.records.items() if document_id_of(key) != document_id}

    def list_documents(self, filter: Any = None) -> list[IndexedDocument]:
        return [IndexedDocument(key) for key in sorted({document_id_of(key) for key in self.records})]


class DeletingStore(MinimalStore):
    """A store that deletes by id and cannot replace in one step."""

    def delete(self, ids: Sequence[str]) -> int:
        self._enter("delete")
        return sum(self.records.pop(key, None) is not None for key in ids)


def ids(store: Any) -> list[str]:
    return sorted(store.records) if isinstance(store, MinimalStore) else [record.id for record in store.scan()]


def content(store: MemoryVectorStore) -> dict[str, tuple[Any, ...]]:
    return {one.id: (one.text, one.source, one.metadata, tuple(one.embedding)) for one in store.scan()}


def documents(*keys: str, text: str = LONG) -> list[IngestDocument]:
    return [IngestDocument(key, f"{key} {text}", f"{key}.md", {"key": key}) for key in keys]


@pytest.mark.parametrize("make", [MemoryVectorStore, MinimalStore, DeletingStore])
def test_a_shrunken_document_leaves_no_tail(make: Callable[[], Any]) -> None:
    store, embedder = make(), Embedder()
    assert ingest_documents(documents("a", "b"), embedder=embedder, store=store, chunk_size=100) == 14
    before = [key for key in ids(store) if key.startswith("b#")]
    assert ingest_documents(documents("a", text="short"), embedder=embedder, store=store, chunk_size=100) == 1
    assert ids(store) == ["a#0", *before]


@pytest.mark.parametrize("make", [MemoryVectorStore, MinimalStore, DeletingStore])
def test_a_document_that_became_blank_loses_its_chunks(make: Callable[[], Any]) -> None:
    store, keyword = make(), KeywordRetriever()
    options: dict[str, Any] = {"embedder": Embedder(), "store": store, "keyword": keyword}
    ingest_documents(documents("a", "b", text="torque"), **options)
    assert ingest_documents([IngestDocument("a", " \n\x00\ufeff")], **options) == 0
    assert ids(store) == ["b#0"]
    assert [passage.id for passage in keyword.retrieve("torque")] == ["b#0"]


def test_the_keyword_index_holds_the_same_chunks() -> None:
    store, keyword = MemoryVectorStore(), KeywordRetriever()
    options: dict[str, Any] = {"embedder": Embedder(), "store": store, "keyword": keyword, "chunk_size": 100}
    ingest_documents(documents("a", "b"), **options)
    ingest_documents(documents("a", text="torque"), **options)
    found = keyword.retrieve(LONG, top_k=100)
    assert sorted(passage.id for passage in found) == ids(store)
    assert {(passage.id, passage.text, passage.source) for passage in found} == {
        (record.id, record.text, record.source) for record in store.scan()
    }


def test_embeds_in_full_batches_across_documents() -> None:
    embedder, store = Embedder(), MemoryVectorStore()
    count = ingest_documents(documents("a", "b", "c"), embedder=embedder, store=store, chunk_size=100, batch_size=4)
    assert count == store.count() == 21
    assert [len(batch) for batch in embedder.batches] == [4, 4, 4, 4, 4, 1]
    assert ingest_documents([], embedder=embedder, store=store) == 0
    assert len(embedder.batches) == 6


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


def test_stale_chunks_are_found_behind_many_numbers_and_in_gaps() -> None:
    store = DeletingStore()
    vector = [1.0] * 16
    stale = ["a#0", "a#3", "a#255", "a#256", "a#300", "a#511", "a"]
    store.records = {key: VectorRecord(key, "old", vector) for key in [*stale, "b#7"]}
    ingest_chunks([ChunkRecord("a#1", "new")], embedder=Embedder(), store=store)
    assert sorted(store.records) == ["a#1", "b#7"]


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


def test_vectors_may_come_as_an_array_or_an_iterator() -> None:
    for answer in (np.asarray, iter, tuple):
        store = MemoryVectorStore()
        embedder = Embedder(answer=answer)
        assert ingest_documents(documents("a", "b"), embedder=embedder, store=store) == 2
        assert np.allclose(store.get(["b#0"])[0].embedding, FakeEmbeddingProvider(16).embed(["b " + LONG.strip()])[0])


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


def test_an_iterator_is_taken_up_bit_by_bit() -> None:
    embedder, store, taken = Embedder(), MemoryVectorStore(), 0

    def source() -> Iterator[IngestDocument]:
        nonlocal taken
        for number in range(40):
            taken += 1
            # At most one batch and the document that filled it are waiting.
            assert taken - store.count() <= 5
            yield IngestDocument(f"d{number:02}", "torque")

    assert ingest_documents(source(), embedder=embedder, store=store, batch_size=4) == 40
    assert {len(batch) for batch in embedder.batches} == {4}


def test_blank_documents_of_an_iterator_do_not_pile_up() -> None:
    class Counting(MinimalStore):
        most = 0

        def remove(self, document_id: str) -> None:
            super().remove(document_id)

    store = MemoryVectorStore()
    ingest_documents(documents(*(f"d{number}" for number in range(30))), embedder=Embedder(), store=store)
    left: list[int] = []

    def source() -> Iterator[IngestDocument]:
        for number in range(30):
            left.append(store.count())
            yield IngestDocument(f"d{number}", "")

    assert ingest_documents(source(), embedder=Embedder(), store=store, batch_size=5) == 0
    assert store.count() == 0
    assert left[0] == 30
    assert left[-1] <= 5


def test_of_documents_with_one_id_the_last_wins() -> None:
    given_now = [IngestDocument("a", LONG), IngestDocument("b", "torque"), IngestDocument("a", "last")]
    embedder, store = Embedder(), MemoryVectorStore()
    assert ingest_documents(given_now, embedder=embedder, store=store, chunk_size=100) == 2
    assert [len(batch) for batch in embedder.batches] == [2]
    for source in (given_now, iter(given_now)):
        for batch_size in (1, 3, 100):
            store = MemoryVectorStore()
            ingest_documents(source, embedder=Embedder(), store=store, chunk_size=100, batch_size=batch_size)
            assert {one.id: one.text for one in store.scan()} in ({"a#0": "last", "b#0": "torque"}, {})


def test_chunks_of_one_document_are_that_document() -> None:
    store, options = MemoryVectorStore(), {"embedder": Embedder()}
    chunks = [ChunkRecord(f"{key}#{number}", "torque") for number in range(3) for key in "ab"]
    assert ingest_chunks(chunks, store=store, **options) == 6  # type: ignore[arg-type]
    assert ids(store) == ["a#0", "a#1", "a#2", "b#0", "b#1", "b#2"]
    assert ingest_chunks([ChunkRecord("a#0", "copper")], store=store, **options) == 1  # type: ignore[arg-type]
    assert ids(store) == ["a#0", "b#0", "b#1", "b#2"]
    assert ingest_chunks([], store=store, **options) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_chunks_of_an_iterator_may_be_mixed(batch_size: int) -> None:
    store, keyword = MemoryVectorStore(), KeywordRetriever()
    old = [ChunkRecord(f"a#{number}", "torque") for number in range(9)]
    options: dict[str, Any] = {"embedder": Embedder(), "store": store, "keyword": keyword, "batch_size": batch_size}
    ingest_chunks(old, **options)
    chunks = [ChunkRecord(f"{key}#{number}", "copper") for number in range(3) for key in "ab"]
    assert ingest_chunks(iter(chunks), **options) == 6
    assert ids(store) == ["a#0", "a#1", "a#2", "b#0", "b#1", "b#2"]
    assert sorted(one.id for one in keyword.retrieve("copper", top_k=20)) == ids(store)
    assert keyword.retrieve("torque") == []


async def test_the_async_twins_do_the_same() -> None:
    options: dict[str, Any] = {"chunk_size": 100, "batch_size": 4}
    wanted = MemoryVectorStore()
    count = ingest_documents(documents("a", "b"), embedder=Embedder(), store=wanted, **options)

    async def slowly() -> AsyncIterator[IngestDocument]:
        for document in documents("a", "b"):
            await asyncio.sleep(0)
            yield document

    for source in (documents("a", "b"), iter(documents("a", "b")), slowly()):
        store, keyword = MemoryVectorStore(), KeywordRetriever()
        embedder = Embedder()
        assert count == await aingest_documents(source, embedder=embedder, store=store, keyword=keyword, **options)
        assert content(store) == content(wanted)
        assert [len(batch) for batch in embedder.batches] == [4, 4, 4, 2]
        assert len(await keyword.aretrieve(LONG, top_k=50)) == count
    store = MemoryVectorStore()
    chunks = chunk_documents(documents("a", "b"), chunk_size=100)
    assert await aingest_chunks(chunks, embedder=Embedder(), store=store) == count
    assert content(store) == content(wanted)


async def test_an_async_embedder_is_refused_from_sync_code() -> None:
    class AsyncOnly:
        async def aembed(self, texts: Sequence[str]) -> list[list[float]]:
            return FakeEmbeddingProvider(16).embed(texts)

    store, embedder = MemoryVectorStore(), AsyncOnly()
    with pytest.raises(UnsupportedOperationError, match=r"AsyncOnly.aembed is async and was used from sync code"):
        ingest_documents(documents("a"), embedder=embedder, store=store)  # type: ignore[arg-type]
    assert await aingest_documents(documents("a"), embedder=embedder, store=store) == 1  # type: ignore[arg-type]


def test_what_the_caller_holds_is_not_shared_with_the_store() -> None:
    metadata = {"tags": ["a"]}
    store = MemoryVectorStore()
    ingest_documents([IngestDocument("a", "text", None, metadata)], embedder=Embedder(), store=store)
    metadata["tags"].append("b")
    assert store.get(["a#0"])[0].metadata == {"tags": ["a"]}


def test_progress_is_shown_only_when_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    ingest_documents(documents("a"), embedder=Embedder(), store=MemoryVectorStore())
    assert capfd.readouterr() == ("", "")
    pytest.importorskip("tqdm")
    ingest_documents(documents("a", "b"), embedder=Embedder(), store=MemoryVectorStore(), show_progress=True)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "2/2" in shown.err


def test_refuses_bad_options() -> None:
    options: dict[str, Any] = {"embedder": Embedder(), "store": MemoryVectorStore()}
    for batch_size in (0, -1, 2.5, True, None):
        with pytest.raises(InvalidArgumentError, match="batch_size must be"):
            ingest_documents([], batch_size=batch_size, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="chunk_size must be 1 or more, got 0"):
        ingest_documents([], chunk_size=0, **options)
    with pytest.raises(InvalidArgumentError, match="overlap must be"):
        ingest_documents([], overlap=800, **options)
    with pytest.raises(InvalidArgumentError, match="documents must be a list of IngestDocument, got str"):
        ingest_documents("text", **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="chunks must be a list of ChunkRecord, got ChunkRecord"):
        ingest_chunks(ChunkRecord("a#0", "text"), **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"chunks\[0\] must be a ChunkRecord, got str"):
        ingest_chunks(["text"], **options)  # type: ignore[list-item]
    with pytest.raises(TypeError):
        ingest_documents([], batchsize=3, **options)  # type: ignore[call-arg]


def test_progress_of_chunks_counts_documents(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    chunks = [ChunkRecord(f"a#{number}", "torque") for number in range(3)]
    ingest_chunks(chunks, embedder=Embedder(), store=MemoryVectorStore(), show_progress=True)
    assert "1 documents" in capfd.readouterr().err


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
