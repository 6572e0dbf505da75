"""The lexical retriever: a store's own text search behind the seam of a retriever."""

from __future__ import annotations

from typing import Any

import pytest

from agora_core import InvalidArgumentError, LexicalRetriever, MemoryVectorStore, Passage, UnsupportedOperationError
from tests.unit.retrievers.doubles import passages


class LexicalStore:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def search_text(self, query: str, **options: Any) -> list[Passage]:
        self.calls.append((query, options))
        return passages("a", "b", "c")[: options["top_k"]]


class AsyncLexicalStore:
    async def asearch_text(self, query: str, **options: Any) -> list[Passage]:
        return passages("a", "b")


def retriever(store: Any) -> LexicalRetriever:
    return LexicalRetriever(store)


async def test_the_floor_stays_here_and_the_rest_reaches_the_store() -> None:
    store = LexicalStore()
    made = retriever(store)
    assert [one.id for one in made.retrieve("q", top_k=3, filter={"a": 1}, min_score=0.99)] == ["a", "b"]
    assert [one.id for one in await made.aretrieve("q")] == ["a", "b", "c"]
    assert store.calls == [("q", {"top_k": 3, "filter": {"a": 1}}), ("q", {"top_k": 5})]


async def test_an_async_store_serves_async_code() -> None:
    assert len(await retriever(AsyncLexicalStore()).aretrieve("q", min_score=1.0)) == 1
    with pytest.raises(UnsupportedOperationError, match=r"AsyncLexicalStore.asearch_text is async"):
        retriever(AsyncLexicalStore()).retrieve("q")


def test_a_store_without_text_search_is_refused_at_once() -> None:
    with pytest.raises(UnsupportedOperationError, match="MemoryVectorStore cannot search text"):
        retriever(MemoryVectorStore())


def test_refuses_bad_arguments() -> None:
    made = retriever(LexicalStore())
    with pytest.raises(InvalidArgumentError, match="top_k must be 1 or more, got 0"):
        made.retrieve("q", top_k=0)
    with pytest.raises(InvalidArgumentError, match="min_score is NaN"):
        made.retrieve("q", min_score=float("nan"))
    with pytest.raises(TypeError):
        made.retrieve("q", limit=3)  # type: ignore[call-arg]
