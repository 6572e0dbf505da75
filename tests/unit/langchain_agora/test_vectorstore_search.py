"""How an `AgoraVectorStore` is searched, and the retrievers made of it, in both colours."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import pytest
from langchain_core.documents import Document

from agora_core import (
    InvalidArgumentError,
    InvalidFilterError,
    MemoryVectorStore,
    field,
)
from agora_core.testing import FakeEmbeddingProvider
from langchain_agora import AgoraVectorStore
from tests.unit.langchain_agora.angles import Angles, filled, ids_of
from tests.unit.langchain_agora.colours import Run


def test_k_filter_and_floor_reach_the_store(run: Run) -> None:
    vectors = filled(run, "0", "10", "80")
    assert ids_of(run(vectors, "similarity_search", "0", k=2)) == ["0", "10"]
    assert ids_of(run(vectors, "similarity_search", "0", 4, {"n": [1, 2]})) == ["10", "80"]
    assert ids_of(run(vectors, "similarity_search", "0", filter={"n": {"$gte": 1}})) == ["10", "80"]
    assert ids_of(run(vectors, "similarity_search", "0", filter=field("n") < 1)) == ["0"]
    assert ids_of(run(vectors, "similarity_search", "0", min_score=0.5)) == ["0", "10"]
    assert ids_of(run(vectors, "similarity_search_by_vector", Angles.at(90), k=1)) == ["80"]
    scored = run(vectors, "similarity_search_with_score", "0", k=1)
    assert [(document.id, score) for document, score in scored] == [("0", 1.0)]


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "4"])
def test_a_k_below_one_is_refused_before_anything_is_embedded(run: Run, k: Any) -> None:
    vectors = AgoraVectorStore(MemoryVectorStore(), FakeEmbeddingProvider())
    vectors.embedding = None  # type: ignore[assignment]
    for name in ("similarity_search", "similarity_search_with_relevance_scores", "max_marginal_relevance_search"):
        with pytest.raises(InvalidArgumentError, match="k must be"):
            run(vectors, name, "x", k=k)


def test_a_filter_that_cannot_be_built_is_refused_before_anything_is_embedded(run: Run) -> None:
    vectors = AgoraVectorStore(MemoryVectorStore(), FakeEmbeddingProvider())
    vectors.embedding = None  # type: ignore[assignment]
    for filter in ({"a": object()}, {"a": {"$x": 1}}, 5):
        with pytest.raises(InvalidFilterError):
            run(vectors, "similarity_search", "x", filter=filter)


RELEVANCE: list[tuple[str, list[float]]] = [
    # identical, 60 degrees, a right angle, opposite
    ("cosine", [1.0, 0.5, 0.0, 0.0]),
    ("inner", [1.0, 0.5, 0.0, 0.0]),
    ("l2", [1.0, 1 / (1 + 1.0), 1 / (1 + 2**0.5), 1 / 3]),
]


@pytest.mark.parametrize(("metric", "expected"), RELEVANCE, ids=[metric for metric, _ in RELEVANCE])
def test_relevance_is_right_under_every_metric(run: Run, metric: str, expected: list[float]) -> None:
    vectors = filled(run, "0", "60", "90", "180", metric=metric)
    found = run(vectors, "similarity_search_with_relevance_scores", "0")
    assert ids_of(found) == ["0", "60", "90", "180"]
    assert [relevance for _, relevance in found] == pytest.approx(expected, abs=1e-6)
    assert found[0][1] == pytest.approx(1.0, abs=1e-7)
    assert all(0.0 <= relevance <= 1.0 for _, relevance in found)


@pytest.mark.parametrize("metric", ["cosine", "inner", "l2"])
@pytest.mark.parametrize("threshold", [0, 0.0, 0.2, 0.4, 0.45, 0.6, 0.99, 1, 1.5])
def test_the_threshold_is_a_floor_that_the_store_answers(run: Run, metric: str, threshold: float) -> None:
    degrees = [str(n) for n in range(0, 181, 15)]
    vectors = filled(run, *degrees, metric=metric)
    everything = run(vectors, "similarity_search_with_relevance_scores", "0", k=20)
    assert len(everything) == len(degrees)
    expected = [document.id for document, relevance in everything if relevance >= threshold]
    floors: list[Any] = []
    search = vectors.store.search

    def watched(embedding: Any, **options: Any) -> Any:
        floors.append(options["min_score"])
        return search(embedding, **options)

    vectors.store.search, vectors.store.asearch = watched, None
    found = run(vectors, "similarity_search_with_relevance_scores", "0", k=20, score_threshold=threshold)
    assert ids_of(found) == expected
    assert len(floors) == 1


def test_a_threshold_that_is_no_number_is_refused(run: Run) -> None:
    for threshold in ("0.5", True, float("nan")):
        with pytest.raises(InvalidArgumentError, match="score_threshold"):
            run(filled(run, "0"), "similarity_search_with_relevance_scores", "0", score_threshold=threshold)


def test_mmr_prefers_what_is_new(run: Run) -> None:
    vectors = filled(run, "0", "1", "2", "40")
    assert ids_of(run(vectors, "similarity_search", "0", k=2)) == ["0", "1"]
    assert ids_of(run(vectors, "max_marginal_relevance_search", "0", k=2, lambda_mult=0.3)) == ["0", "40"]
    assert ids_of(run(vectors, "max_marginal_relevance_search", "0", k=2, fetch_k=3, lambda_mult=0.3)) == ["0", "2"]
    assert ids_of(run(vectors, "max_marginal_relevance_search", "0", k=4, fetch_k=1, lambda_mult=1.0)) == [
        "0",
        "1",
        "2",
        "40",
    ]
    narrowed = run(vectors, "max_marginal_relevance_search", "0", k=2, lambda_mult=0.3, filter={"n": {"$lt": 3}})
    assert ids_of(narrowed) == ["0", "2"]
    assert ids_of(run(vectors, "max_marginal_relevance_search_by_vector", Angles.at(40), k=1)) == ["40"]
    assert run(vectors, "max_marginal_relevance_search", "0", filter={"n": []}) == []


@pytest.mark.parametrize("name", ["similarity", "similarity_score_threshold", "mmr"])
def test_search_dispatches(run: Run, name: str) -> None:
    assert ids_of(run(filled(run, "0", "30"), "search", "0", name, k=1)) == ["0"]


@pytest.mark.parametrize(
    ("search_type", "search_kwargs", "expected"),
    [
        ("similarity", {"k": 2}, ["0", "10"]),
        ("similarity", {"k": 3, "filter": {"n": [1, 2]}}, ["10", "80"]),
        ("similarity", {"k": 3, "min_score": 0.9}, ["0", "10"]),
        ("mmr", {"k": 2, "lambda_mult": 0.2}, ["0", "80"]),
        ("similarity_score_threshold", {"score_threshold": 0.9}, ["0", "10"]),
        ("similarity_score_threshold", {"score_threshold": 1}, ["0"]),
        ("similarity_score_threshold", {"score_threshold": 0, "k": 2}, ["0", "10"]),
    ],
)
def test_as_retriever_in_its_three_types(
    run: Run, search_type: str, search_kwargs: dict[str, Any], expected: list[str]
) -> None:
    vectors = filled(run, "0", "10", "80")
    retriever = vectors.as_retriever(search_type=search_type, search_kwargs=search_kwargs, tags=["mine"])
    assert ids_of(run(retriever, "invoke", "0")) == expected
    assert retriever.tags == ["mine", "AgoraVectorStore", "Angles"]


def test_a_call_narrows_the_filter_of_the_retriever_and_never_replaces_it(run: Run) -> None:
    retriever = filled(run, "0", "10", "80").as_retriever(search_kwargs={"filter": {"n": {"$lte": 1}}})
    assert ids_of(run(retriever, "invoke", "0")) == ["0", "10"]
    assert ids_of(run(retriever, "invoke", "0", filter={"n": {"$gte": 1}})) == ["10"]
    assert ids_of(run(retriever, "invoke", "0", filter={"n": 2})) == []
    assert ids_of(run(retriever, "invoke", "0", filter={})) == ["0", "10"]
    assert ids_of(run(retriever, "invoke", "0", filter=None)) == ["0", "10"]
    assert ids_of(run(retriever, "invoke", "0", k=1)) == ["0"]


def test_a_retriever_refuses_what_it_does_not_know(run: Run) -> None:
    vectors = filled(run, "0")
    with pytest.raises(ValueError, match="kk"):
        vectors.as_retriever(kk=3)
    with pytest.raises(ValueError, match="search_type of nearest not allowed"):
        vectors.as_retriever(search_type="nearest")
    with pytest.raises(TypeError, match="fitler"):
        run(vectors.as_retriever(search_kwargs={"fitler": {}}), "invoke", "0")


def test_documents_are_added_through_the_retriever_too(run: Run) -> None:
    retriever = filled(run, "0").as_retriever()
    assert run(retriever, "add_documents", [Document("5", id="five")]) == ["five"]
    assert ids_of(run(retriever, "invoke", "5", k=1)) == ["five"]


def test_every_method_has_a_twin_with_the_same_arguments() -> None:
    names = [name for name in dir(AgoraVectorStore) if not name.startswith("_")]
    twins = [name for name in names if f"a{name}" in names and name not in ("dd_documents", "dd_texts")]
    assert len(twins) >= 14
    for name in twins:
        if name == "search":
            continue
        sync, twin = getattr(AgoraVectorStore, name), getattr(AgoraVectorStore, f"a{name}")
        assert inspect.signature(sync) == inspect.signature(twin), name
        assert twin.__module__.startswith("langchain_agora"), f"a{name} is LangChain's, in a worker thread"


def test_the_async_colour_uses_no_thread_where_store_and_model_are_async() -> None:
    here = threading.get_ident()

    class AsyncOnly:
        metric = "cosine"

        def __init__(self, store: MemoryVectorStore) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("a"):
                raise AttributeError(name)
            method = getattr(self._store, name[1:])

            async def call(*args: Any, **options: Any) -> Any:
                assert threading.get_ident() == here
                return method(*args, **options)

            return call

    class AsyncAngles(Angles):
        async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
            assert threading.get_ident() == here
            return super().embed_documents(texts)

        async def aembed_query(self, text: str) -> list[float]:
            assert threading.get_ident() == here
            return super().embed_query(text)

    async def use() -> list[Document]:
        vectors = AgoraVectorStore(AsyncOnly(MemoryVectorStore()), AsyncAngles())
        await vectors.aadd_texts(["0", "90"], ids=["x", "y"])
        await vectors.aget_by_ids(["x"])
        await vectors.amax_marginal_relevance_search("0")
        await vectors.adelete(["y"])
        await vectors.asimilarity_search_with_relevance_scores("0", score_threshold=0.1)
        return await vectors.as_retriever().ainvoke("0")

    assert ids_of(asyncio.run(use())) == ["x"]


def test_a_store_without_a_capability_says_so(run: Run) -> None:
    class SearchOnly:
        def search(self, embedding: Any, *, top_k: int) -> list[Any]:
            return []

    vectors = AgoraVectorStore(SearchOnly(), Angles())
    assert run(vectors, "similarity_search", "0") == []
    with pytest.raises(TypeError, match="SearchOnly has neither 'get'"):
        run(vectors, "get_by_ids", ["x"])
    with pytest.raises(TypeError, match="SearchOnly has no attribute metric"):
        run(vectors, "similarity_search_with_relevance_scores", "0")


def test_what_is_no_store_or_no_embedding_model_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="store must have search or asearch, got str"):
        AgoraVectorStore("postgresql://user:secret@host/db", Angles())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="must have embed or aembed, got int"):
        AgoraVectorStore(MemoryVectorStore(), 5)  # type: ignore[arg-type]


def test_an_embedder_of_the_core_serves_as_well(run: Run) -> None:
    vectors = AgoraVectorStore(MemoryVectorStore(), FakeEmbeddingProvider())
    run(vectors, "add_texts", ["paid leave", "notice"], ids=["x", "y"])
    assert ids_of(run(vectors, "similarity_search", "leave", k=1)) == ["x"]
