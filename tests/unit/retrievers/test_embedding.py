"""The embedding retriever: what reaches the embedder and the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agora_core import (
    EmbeddingError,
    EmbeddingRetriever,
    IngestDocument,
    InvalidArgumentError,
    InvalidFilterError,
    Passage,
    UnsupportedOperationError,
    field,
)
from agora_core.testing import FakeEmbeddingProvider, in_memory_retriever


class RecordingStore:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def search(self, embedding: Any, **options: Any) -> list[Passage]:
        self.calls.append((embedding, options))
        return [Passage("a#0", "text", 1.0)]


class Answers:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def embed(self, texts: Sequence[str]) -> Any:
        return self.answer


class QueryEmbedder(Answers):
    """Embeds queries differently from passages."""

    def embed_query(self, text: str) -> list[float]:
        return [9.0, float(len(text))]


class AsyncQueryEmbedder:
    async def aembed_query(self, text: str) -> list[float]:
        return [7.0, float(len(text))]


def retriever(embedder: Any, store: Any) -> EmbeddingRetriever:
    return EmbeddingRetriever(embedder, store)


async def test_a_query_embedder_is_used_where_there_is_one() -> None:
    store = RecordingStore()
    made = retriever(QueryEmbedder([[1.0, 2.0]]), store)
    made.retrieve("abc")
    await made.aretrieve("abcd")
    await retriever(AsyncQueryEmbedder(), store).aretrieve("ab")
    assert [embedding for embedding, _ in store.calls] == [[9.0, 3.0], [9.0, 4.0], [7.0, 2.0]]


async def test_only_given_options_are_passed_on() -> None:
    store = RecordingStore()
    made = retriever(Answers([[1.0]]), store)
    made.retrieve("q")
    made.retrieve("q", top_k=3, filter={}, min_score=0)
    await made.aretrieve("q", min_score=-1.5)
    assert [options for _, options in store.calls] == [
        {"top_k": 5},
        {"top_k": 3, "filter": {}, "min_score": 0.0},
        {"top_k": 5, "min_score": -1.5},
    ]


@pytest.mark.parametrize("answer", [[[1.0], [2.0]], 7, [1.0, 2.0]])
async def test_more_than_one_vector_is_an_error(answer: Any) -> None:
    store = RecordingStore()
    with pytest.raises(EmbeddingError, match=r"Answers.embed"):
        retriever(Answers(answer), store).retrieve("q")
    with pytest.raises(EmbeddingError):
        await retriever(Answers(answer), store).aretrieve("q")
    assert store.calls == []


async def test_no_vector_finds_nothing() -> None:
    store = RecordingStore()
    assert retriever(Answers([]), store).retrieve("q") == []
    assert await retriever(Answers([]), store).aretrieve("q") == []
    assert store.calls == []


def test_an_async_embedder_is_refused_from_sync_code() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"AsyncQueryEmbedder.aembed_query is async"):
        retriever(AsyncQueryEmbedder(), RecordingStore()).retrieve("q")


@pytest.mark.parametrize("top_k", [0, -1, 1.5, True, "5", None])
async def test_refuses_a_top_k_that_is_no_int_of_1_or_more(top_k: Any) -> None:
    made = retriever(Answers([[1.0]]), RecordingStore())
    with pytest.raises(InvalidArgumentError, match="top_k must be"):
        made.retrieve("q", top_k=top_k)
    with pytest.raises(ValueError, match="top_k must be"):
        await made.aretrieve("q", top_k=top_k)


def test_refuses_other_bad_arguments() -> None:
    made = retriever(Answers([[1.0]]), RecordingStore())
    with pytest.raises(InvalidArgumentError, match="min_score is NaN"):
        made.retrieve("q", min_score=float("nan"))
    with pytest.raises(InvalidArgumentError, match="query must be a str, got list"):
        made.retrieve(["q"])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        made.retrieve("q", topk=3)  # type: ignore[call-arg]


async def test_over_a_real_store() -> None:
    documents = [
        IngestDocument("faq", "refund within five days", "faq.md", {"audience": "public", "year": 2020}),
        IngestDocument("memo", "refund budget is secret", "memo.md", {"audience": "staff", "year": 2024}),
    ]
    made = in_memory_retriever(documents)
    assert [passage.id for passage in made.retrieve("refund budget secret")] == ["memo#0", "faq#0"]
    assert [passage.id for passage in made.retrieve("refund", filter={"audience": ["public"]})] == ["faq#0"]
    assert [passage.id for passage in await made.aretrieve("refund", filter=field("year") > 2022)] == ["memo#0"]
    assert made.retrieve("refund budget", min_score=0.9) == []
    with pytest.raises(InvalidFilterError):
        made.retrieve("refund", filter={"audience": object()})
    scoped = made.scoped({"audience": "public"})
    assert [passage.id for passage in scoped.retrieve("refund")] == ["faq#0"]
    assert scoped.retrieve("refund", filter={"audience": "staff"}) == []


def test_in_memory_retriever_takes_texts() -> None:
    assert [one.id for one in in_memory_retriever(["red fox", "blue sea"]).retrieve("sea", top_k=1)] == ["doc1#0"]
    by_id = in_memory_retriever({"a": "red fox", "b": "blue sea"}, embedder=FakeEmbeddingProvider(8))
    assert [one.id for one in by_id.retrieve("fox", top_k=1)] == ["a#0"]
    assert in_memory_retriever().retrieve("anything") == []
