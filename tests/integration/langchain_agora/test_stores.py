"""The adapter says the same over every store: filters, floors, MMR, scopes, patches, and LangChain's `index`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index

from agora_core import ScopeViolationError, UnsafeRemovalError, field
from agora_core.testing import FakeEmbeddingProvider
from langchain_agora import AgoraVectorStore
from tests.contract.langchain.stores import open_store
from tests.unit.langchain_agora.colours import Run

DIMENSION = 64


class CountingProvider(FakeEmbeddingProvider):
    """Remembers every text it was paid for."""

    def __init__(self) -> None:
        super().__init__(DIMENSION)
        self.paid: list[str] = []

    def embed(self, texts: Any) -> list[list[float]]:
        self.paid += texts
        return super().embed(texts)


@pytest.fixture
def vectors(kind: str, conninfo: Any) -> Iterator[AgoraVectorStore]:
    with open_store(kind, conninfo, dimension=DIMENSION) as store:
        yield AgoraVectorStore(store, CountingProvider())


DOCUMENTS = [
    Document("paid leave thirty days", id="faq#0", metadata={"tenant": "a", "year": 2020, "acl": ["x", "y"]}),
    Document("paid leave forty days", id="faq#1", metadata={"tenant": "a", "year": 2021.5, "acl": ["z"]}),
    Document("notice three months", id="b", metadata={"tenant": "b", "year": "2020", "null": None}),
    Document("holiday house", id="ü/c?d", metadata={"tenant": "b", "a.b": {"c": [1, {"d": None}]}}),
]

FILTERS: list[tuple[Any, list[str]]] = [
    ({"tenant": "a"}, ["faq#0", "faq#1"]),
    ({"acl": ["y", "z"]}, ["faq#0", "faq#1"]),
    ({"acl": []}, []),
    ({}, ["b", "faq#0", "faq#1", "ü/c?d"]),
    ({"year": 2020.0}, ["faq#0"]),
    ({"year": {"$gte": 2020}}, ["faq#0", "faq#1"]),
    ({"year": {"$between": [2021, 2022]}}, ["faq#1"]),
    ({"year": {"$ne": 2020}}, ["b", "faq#1", "ü/c?d"]),
    ({"year": {"$in": ["2020", 2021.5]}}, ["b", "faq#1"]),
    ({"year": {"$nin": [2020, "2020"]}}, ["faq#1", "ü/c?d"]),
    ({"year": {"$exists": False}}, ["ü/c?d"]),
    ({"null": {"$exists": True}}, ["b"]),
    ({"acl": {"$eq": ["x", "y"]}}, ["faq#0"]),
    ({"acl": {"$in": ["x"]}}, []),
    ({"a.b": {"$exists": True}}, ["ü/c?d"]),
    ({"a.b": {"c": [1, {"d": None}]}}, ["ü/c?d"]),
    ({"$or": [{"tenant": "b"}, {"year": {"$lt": 2021}}]}, ["b", "faq#0", "ü/c?d"]),
    ({"$not": {"tenant": "a"}}, ["b", "ü/c?d"]),
    ({"tenant": "a", "$not": [{"year": 2020}]}, ["faq#1"]),
    (field("acl").contains_all(["x", "y"]), ["faq#0"]),
]


def test_every_store_gives_the_same_answer_to_a_filter(run: Run, vectors: AgoraVectorStore) -> None:
    run(vectors, "add_documents", DOCUMENTS)
    for filter, expected in FILTERS:
        found = run(vectors, "similarity_search", "leave", k=10, filter=filter)
        assert sorted(document.id for document in found) == expected, filter
    originals = {document.id: document for document in DOCUMENTS}
    for document in run(vectors, "similarity_search", "leave", k=10):
        assert document == originals[document.id]


def test_floors_and_mmr(run: Run, vectors: AgoraVectorStore) -> None:
    run(vectors, "add_documents", DOCUMENTS)
    found = run(vectors, "similarity_search_with_relevance_scores", "paid leave thirty days", k=10)
    assert all(0.0 <= relevance <= 1.0 for _, relevance in found)
    assert found[0][1] == pytest.approx(1.0, abs=1e-6)
    threshold = (found[0][1] + found[1][1]) / 2
    options: dict[str, Any] = {"search_kwargs": {"score_threshold": threshold, "k": 10}}
    retriever = vectors.as_retriever(search_type="similarity_score_threshold", **options)
    assert [document.id for document in run(retriever, "invoke", "paid leave thirty days")] == ["faq#0"]
    diverse = run(vectors, "max_marginal_relevance_search", "paid leave", k=2, lambda_mult=0.1)
    nearest, other = (document.id for document in diverse)
    assert nearest in ("faq#0", "faq#1")
    assert other in ("b", "ü/c?d")


def test_patches_deletes_and_scopes(run: Run, vectors: AgoraVectorStore) -> None:
    run(vectors, "add_documents", DOCUMENTS)
    paid = len(vectors.embedding.provider.paid)  # type: ignore[attr-defined]
    mine = vectors.scoped(lambda config: {"tenant": "a"})
    assert run(mine, "update_metadata", "faq", {"year": None, "tenant": "a"}) == 2
    assert run(mine, "update_metadata", "b", {"stolen": True}) == 0
    with pytest.raises(ScopeViolationError):
        run(mine, "update_metadata", "faq", {"tenant": "b"})
    with pytest.raises(UnsafeRemovalError):
        run(mine, "delete", filter={})
    run(mine, "delete", ["b", "faq#1"])
    assert [document.id for document in run(vectors, "get_by_ids", ["b", "faq#1", "faq#0"])] == ["b", "faq#0"]
    run(vectors, "delete", filter={"tenant": {"$in": ["b"]}})
    assert len(vectors.embedding.provider.paid) == paid  # type: ignore[attr-defined]
    assert run(vectors, "similarity_search", "x", k=10) == [
        Document("paid leave thirty days", id="faq#0", metadata={"tenant": "a", "acl": ["x", "y"]})
    ]


# -- LangChain's indexing ----------------------------------------------------------------------------------------------


def source(name: str, *texts: str) -> list[Document]:
    return [Document(text, metadata={"source": name, "part": n}) for n, text in enumerate(texts)]


def indexed(run: Run, vectors: AgoraVectorStore, records: Any, documents: Any, **options: Any) -> dict[str, int]:
    arguments: dict[str, Any] = {"source_id_key": "source", "key_encoder": "sha256", "batch_size": 2, **options}

    def sync() -> Any:
        return index(documents, records, vectors, **arguments)

    async def colour() -> Any:
        return await aindex(documents, records, vectors, **arguments)

    # `run` calls either of two functions by name, as it does with methods.
    twins = type("Twins", (), {"index": staticmethod(sync), "aindex": staticmethod(colour)})
    result: dict[str, int] = dict(run(twins, "index"))
    return {key.removeprefix("num_"): value for key, value in result.items() if value}


def texts_in(vectors: AgoraVectorStore) -> list[str]:
    return sorted(record.text for record in vectors.store.scan())


@pytest.mark.parametrize("cleanup", [None, "incremental", "full", "scoped_full"])
def test_index_run_twice_with_batches_smaller_than_a_source(run: Run, vectors: AgoraVectorStore, cleanup: Any) -> None:
    """lc #28447, #22135, #32612: cleaning up across batches deletes or embeds again. What is stored is right."""
    records = InMemoryRecordManager("test")
    records.create_schema()
    corpus = [*source("a", "a one", "a two", "a three", "a four", "a five"), *source("b", "b one", "b two")]
    texts = sorted(document.page_content for document in corpus)

    assert indexed(run, vectors, records, corpus, cleanup=cleanup) == {"added": 7}
    assert texts_in(vectors) == texts
    paid = vectors.embedding.provider.paid  # type: ignore[attr-defined]
    paid.clear()
    again = indexed(run, vectors, records, corpus, cleanup=cleanup)
    assert texts_in(vectors) == texts
    if cleanup != "incremental":
        # "incremental" cleans up after each batch, and takes what later batches will bring for gone.
        assert again == {"skipped": 7}
        assert paid == []

    changed = [*source("a", "a one", "a TWO", "a three"), *source("b", "b one", "b two")]
    indexed(run, vectors, records, changed, cleanup=cleanup)
    kept = ["a TWO", "a one", "a three", "b one", "b two"]
    assert texts_in(vectors) == (sorted({*texts, "a TWO"}) if cleanup is None else kept)

    indexed(run, vectors, records, source("b", "b one"), cleanup=cleanup)
    if cleanup == "full":
        assert texts_in(vectors) == ["b one"]
    elif cleanup is not None:
        assert texts_in(vectors) == ["a TWO", "a one", "a three", "b one"]


def test_index_with_ids_of_ones_own_keeps_them(run: Run, vectors: AgoraVectorStore) -> None:
    records = InMemoryRecordManager("test")
    documents = [Document("one", id="faq#0", metadata={"source": "a"}), Document("two", id="faq#1", metadata={})]
    indexed(run, vectors, records, documents, key_encoder=lambda document: document.id, source_id_key=None)
    assert [document.id for document in run(vectors, "get_by_ids", ["faq#0", "faq#1"])] == ["faq#0", "faq#1"]
    assert run(vectors, "update_metadata", "faq", {"acl": ["x"]}) == 2


def test_one_vector_store_serves_several_loops_and_threads(vectors: AgoraVectorStore) -> None:
    """Frameworks open new loops; nothing may be bound to the first."""
    asyncio.run(vectors.aadd_documents(DOCUMENTS))
    for _ in range(3):
        assert len(asyncio.run(vectors.asimilarity_search("leave"))) == 4

    async def many() -> list[int]:
        found = await asyncio.gather(
            *(vectors.asimilarity_search("leave", k=2) for _ in range(5)),
            *(asyncio.to_thread(vectors.similarity_search, "leave", k=2) for _ in range(5)),
        )
        return [len(documents) for documents in found]

    assert asyncio.run(many()) == [2] * 10
