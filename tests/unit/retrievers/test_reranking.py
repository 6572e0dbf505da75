"""The reranking retriever: candidates from one, order from the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agora_core import InvalidArgumentError, Passage, RerankingError, RerankingRetriever, UnsupportedOperationError
from agora_core.testing import FakeReranker
from tests.unit.retrievers.doubles import AsyncStatic, Static, passages

WORDS = [Passage("a", "alpha", 0.9), Passage("b", "alpha beta", 0.8), Passage("c", "gamma", 0.7)]


class Answers:
    def __init__(self, answer: Sequence[Passage]) -> None:
        self.answer = answer
        self.top_ks: list[Any] = []

    def rerank(self, query: str, candidates: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        self.top_ks.append(top_k)
        return list(self.answer)


class AsyncReranker:
    async def arerank(self, query: str, candidates: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        return FakeReranker().rerank(query, candidates, top_k=top_k)


async def test_the_floor_is_on_the_rerankers_score() -> None:
    base = Static(WORDS)
    made = RerankingRetriever(base, FakeReranker())
    assert [one.id for one in made.retrieve("alpha beta", min_score=1)] == ["b", "a"]
    assert [one.id for one in await made.aretrieve("alpha beta", min_score=2)] == ["b"]
    assert all("min_score" not in call for call in base.calls)


async def test_fetches_at_least_top_k() -> None:
    base = Static(passages(*(f"p{number:02}" for number in range(40))))
    made = RerankingRetriever(base, FakeReranker(), fetch_top_k=4)
    assert len(made.retrieve("q")) == 5
    assert len(await made.aretrieve("q", top_k=30, filter={"a": 1})) == 30
    made.retrieve("q", top_k=2)
    assert [call["top_k"] for call in base.calls] == [5, 30, 4]
    assert [call.get("filter") for call in base.calls] == [None, {"a": 1}, None]


async def test_a_reranker_that_does_not_cut_is_cut() -> None:
    made = RerankingRetriever(Static(WORDS), Answers(WORDS))
    assert made.retrieve("q", top_k=2) == WORDS[:2]
    assert await made.aretrieve("q", top_k=1) == WORDS[:1]


async def test_a_passage_from_elsewhere_is_refused() -> None:
    """It has not passed the filter that the base was given."""
    made = RerankingRetriever(Static(WORDS), Answers([Passage("secret", "text", 9.0)]))
    with pytest.raises(RerankingError, match=r"Answers\.rerank returned the passage 'secret', which it was not given"):
        made.retrieve("q")
    with pytest.raises(RerankingError):
        await made.aretrieve("q")


async def test_parts_of_either_colour() -> None:
    for base in (Static(WORDS), AsyncStatic(WORDS)):
        for reranker in (FakeReranker(), AsyncReranker(), Answers(WORDS)):
            made = RerankingRetriever(base, reranker)  # type: ignore[arg-type]
            assert (await made.aretrieve("alpha beta"))[0].id in ("a", "b")
    with pytest.raises(UnsupportedOperationError, match=r"AsyncReranker.arerank is async"):
        RerankingRetriever(Static(WORDS), AsyncReranker()).retrieve("q")  # type: ignore[arg-type]


def test_refuses_bad_arguments() -> None:
    for fetch_top_k in (0, -1, 1.5, True, None):
        with pytest.raises(InvalidArgumentError, match="fetch_top_k must be"):
            RerankingRetriever(Static([]), FakeReranker(), fetch_top_k=fetch_top_k)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="top_k must be 1 or more, got -2"):
        RerankingRetriever(Static([]), FakeReranker()).retrieve("q", top_k=-2)
    with pytest.raises(TypeError):
        RerankingRetriever(Static([]), FakeReranker(), top_n=3)  # type: ignore[call-arg]


def test_composes() -> None:
    inner = RerankingRetriever(Static(WORDS), FakeReranker())
    assert [one.id for one in RerankingRetriever(inner, FakeReranker()).retrieve("gamma", top_k=1)] == ["c"]


class Rewriting:
    """Returns what it was given with another text, source and metadata, and one passage twice."""

    def rerank(self, query: str, passages: Any, *, top_k: int | None = None) -> list[Passage]:
        return [
            Passage(p.id, "other text", float(n), "evil.md", {"tenant": "b"})
            for n, p in enumerate([*passages, passages[0]])
        ]


def test_only_order_and_scores_are_the_rerankers() -> None:
    """Kind: an object trusted with all of a record because it named the id."""
    given = [Passage("a", "one", 0.9, "a.md", {"tenant": "a"}), Passage("b", "two", 0.8, None, {"tenant": "a"})]

    class Base:
        def retrieve(self, query: str, *, top_k: int = 5, filter: Any = None, min_score: Any = None) -> list[Passage]:
            return given

    found = RerankingRetriever(Base(), Rewriting()).retrieve("q")
    assert [(p.id, p.text, p.source, p.metadata, p.score) for p in found] == [
        ("a", "one", "a.md", {"tenant": "a"}, 0.0),
        ("b", "two", None, {"tenant": "a"}, 1.0),
    ]
    blended = RerankingRetriever(Base(), Rewriting(), blend=0.25).retrieve("q")
    assert [(p.id, p.score) for p in blended] == [("a", 0.75), ("b", 0.25)]
    assert [p.id for p in RerankingRetriever(Base(), Rewriting(), blend=0).retrieve("q")] == ["a", "b"]
