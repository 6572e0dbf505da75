"""Retrieval behind a permission check: checkers that are slow, wrong, raising, revoking midway, sync and async."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import (
    AuthorizedRetriever,
    ExpandingRetriever,
    HybridRetriever,
    InvalidArgumentError,
    MemoryVectorStore,
    Passage,
    RerankingRetriever,
    UnsupportedOperationError,
    document_id_of,
)
from agora_core.errors import AuthorizationError
from agora_core.retrievers.run_scope import RunScopedRetriever


class Ranking:
    """A retriever with one ranking; it tells how long lists it was asked for."""

    def __init__(self, owners: Sequence[str]) -> None:
        self.scope = None
        self.passages = [Passage(f"{owner}#{n}", "text", -float(n)) for n, owner in enumerate(owners)]
        self.asked: list[int] = []

    def retrieve(self, query: str, *, top_k: int = 5, filter: Any = None, min_score: Any = None) -> list[Passage]:
        self.asked.append(top_k)
        return self.passages[:top_k]


class Checker:
    """Allows some documents, and tells what it was asked."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self.allowed = set(allowed)
        self.asked: list[list[str]] = []

    def __call__(self, ids: Sequence[str]) -> list[str]:
        self.asked.append(list(ids))
        return [key for key in ids if key in self.allowed]


owners = st.lists(st.sampled_from("abcdefgh"), max_size=60)


@given(
    owners, st.sets(st.sampled_from("abcdefgh")), st.integers(1, 8), st.integers(1, 5), st.none() | st.integers(1, 3)
)
def test_what_is_allowed_comes_in_the_order_of_the_base(
    owners: list[str], allowed: set[str], top_k: int, batch_size: int, per_document: int | None
) -> None:
    base, checker = Ranking(owners), Checker(list(allowed))
    made = AuthorizedRetriever(base, checker, batch_size=batch_size)
    expected = [p for p in base.passages if document_id_of(p.id) in allowed]
    kept: list[Passage] = []
    for passage in expected:
        same = [p for p in kept if document_id_of(p.id) == document_id_of(passage.id)]
        if per_document is None or len(same) < per_document:
            kept.append(passage)
    assert made.retrieve("q", top_k=top_k, per_document=per_document) == kept[:top_k]
    seen = [key for batch in checker.asked for key in batch]
    assert len(seen) == len(set(seen))
    assert all(len(batch) <= batch_size for batch in checker.asked)

    async def check(ids: Sequence[str]) -> list[str]:
        await asyncio.sleep(0)
        return [key for key in ids if key in allowed]

    awaited = AuthorizedRetriever(base, check, batch_size=batch_size).aretrieve(
        "q", top_k=top_k, per_document=per_document
    )
    assert asyncio.run(awaited) == kept[:top_k]


def test_no_more_documents_are_asked_for_than_allowed() -> None:
    base, checker = Ranking([f"d{n}" for n in range(100)]), Checker(["d0", "d9", "d50"])
    made = AuthorizedRetriever(base, checker, batch_size=4, max_checks=10)
    assert [p.id for p in made.retrieve("q", top_k=3)] == ["d0#0", "d9#9"]
    assert sum(map(len, checker.asked)) == 10


@pytest.mark.parametrize(
    "answer", [None, True, "d0", b"d0", {"d0": False}, ["d0", "other"], ["d0", 3], [["d0"]], object(), 1]
)
async def test_an_answer_that_is_no_list_of_ids_that_were_asked_for_fails_the_call(answer: Any) -> None:
    """Kind: an answer that is not understood read as consent."""
    made = AuthorizedRetriever(Ranking(["d0", "d1"]), lambda ids: answer)
    with pytest.raises(AuthorizationError):
        made.retrieve("q")
    with pytest.raises(AuthorizationError):
        await made.aretrieve("q")


async def test_whatever_the_check_raises_fails_the_call() -> None:
    def late(ids: Sequence[str]) -> Any:
        yield ids[0]
        raise TimeoutError

    async def slow(ids: Sequence[str]) -> list[str]:
        return await asyncio.wait_for(asyncio.sleep(60, list(ids)), 0.01)

    base = Ranking(["d0", "d1"])
    with pytest.raises(TimeoutError):
        AuthorizedRetriever(base, late).retrieve("q")
    with pytest.raises((TimeoutError, asyncio.TimeoutError)):
        await AuthorizedRetriever(base, slow).aretrieve("q")
    with pytest.raises(UnsupportedOperationError, match="check is async"):
        AuthorizedRetriever(base, slow).retrieve("q")


def test_a_failure_after_good_batches_returns_nothing_of_them() -> None:
    calls = []

    def check(ids: Sequence[str]) -> Sequence[str]:
        calls.append(ids)
        if len(calls) == 2:
            raise PermissionError
        return ids[:1]

    with pytest.raises(PermissionError):
        AuthorizedRetriever(Ranking(["a", "b", "c", "d"]), check, batch_size=2).retrieve("q", top_k=4)


def test_a_right_that_is_revoked_is_gone_at_the_next_call() -> None:
    checker = Checker(["a", "b"])
    made = AuthorizedRetriever(Ranking(["a", "b"]), checker)
    assert len(made.retrieve("q")) == 2
    checker.allowed.remove("a")
    assert [p.id for p in made.retrieve("q")] == ["b#1"]


def _windows(base: Any) -> ExpandingRetriever:
    return ExpandingRetriever(base, MemoryVectorStore(), before=0, after=0)


WRAPS: dict[str, Callable[[Any], Any]] = {
    "alone": lambda base: base,
    "view": lambda base: base.scoped({}),
    "view of a run": lambda base: RunScopedRetriever(base, dict),
    "leg": lambda base: HybridRetriever([base]),
    "leg beside another": lambda base: HybridRetriever([Ranking([]), base.scoped({})]),
    "windows": _windows,
    "checked already": lambda base: AuthorizedRetriever(base, Checker(["a", "b", "c"])),
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_a_reranker_sees_only_what_is_allowed(wrap: Callable[[Any], Any]) -> None:
    """Kind: a rule that knows one way to compose and not the others."""
    seen: list[str] = []

    class Reranker:
        def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
            seen.extend(p.id for p in passages)
            return list(reversed(passages))[:top_k]

    base: Any = RerankingRetriever(Ranking(["a", "b", "a", "c"]), Reranker(), fetch_top_k=10)
    found = AuthorizedRetriever(wrap(base), Checker(["a", "c"])).retrieve("q", top_k=2)
    assert [p.id for p in found] == ["c#3", "a#2"]
    assert sorted(seen) == ["a#0", "a#2", "c#3"]


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"max_checks": 0}, {"check": 3}])
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        AuthorizedRetriever(Ranking([]), **{"check": Checker([]), **options})
