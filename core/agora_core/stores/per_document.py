"""At most so many passages of one document: the cut, and the loop that fills a list despite it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from agora_core.records import Passage, document_id_of
from agora_core.steps import Steps
from agora_core.validation import check_top_k

_FIRST_FACTOR: Final = 4
_GROWTH: Final = 4


def check_per_document(value: Any) -> int | None:
    """Return `per_document` as it is: None, or an int of 1 or more.

    Raises:
        InvalidArgumentError: it is neither.
    """
    return None if value is None else check_top_k(value, argument="per_document")


def cut_per_document(passages: Iterable[Passage], per_document: int | None, top_k: int | None = None) -> list[Passage]:
    """Return the first `top_k` of the passages, at most `per_document` of each document, in their order."""
    kept: list[Passage] = []
    counts: Counter[str] = Counter()
    for passage in passages:
        if top_k is not None and len(kept) >= top_k:
            break
        if per_document is not None:
            document_id = document_id_of(passage.id)
            if counts[document_id] >= per_document:
                continue
            counts[document_id] += 1
        kept.append(passage)
    return kept


def grow(
    fetch: Callable[[int], Steps[list[Passage]]], *, top_k: int, per_document: int | None, first: int | None = None
) -> Steps[list[Passage]]:
    """Ask for a longer and longer ranking until `top_k` passages stand after the cut, or the ranking ends.

    The answer is that of cutting the whole ranking: the cut of a ranking's beginning is the beginning of its cut.

    Args:
        fetch: an operation that returns the `n` best passages, best first; fewer say that there are no more.
        top_k: how many passages are wanted.
        per_document: how many of each document; None asks once, for `top_k`.
        first: how many to ask for first; None chooses.
    """
    if per_document is None:
        return (yield from fetch(top_k))[:top_k]
    wanted = max(top_k, first if first is not None else top_k * _FIRST_FACTOR)
    while True:
        passages = yield from fetch(wanted)
        kept = cut_per_document(passages, per_document, top_k)
        if len(kept) >= top_k or len(passages) < wanted:
            return kept
        wanted *= _GROWTH


def grow_fused(
    fetch: Callable[[int], Steps[list[list[Passage]]]],
    fuse: Callable[[Sequence[Sequence[Passage]], int | None], list[Passage]],
    *,
    top_k: int,
    fetch_top_k: int,
    per_document: int | None,
) -> Steps[list[Passage]]:
    """Fuse the lists of several legs and cut the result; ask for longer lists until it is filled or the legs end.

    Args:
        fetch: returns one list per leg, each of at most `n` passages; shorter ones say that a leg has no more.
        fuse: makes one ranking of the lists, cut to so many where a number is given.
        top_k: how many passages are wanted.
        fetch_top_k: how long the first lists are; raised to `top_k`.
        per_document: how many of each document; None asks once.
    """
    wanted = max(fetch_top_k, top_k)
    while True:
        rankings = yield from fetch(wanted)
        fused = fuse(rankings, top_k if per_document is None else None)
        kept = cut_per_document(fused, per_document, top_k)
        if per_document is None or len(kept) >= top_k or all(len(ranking) < wanted for ranking in rankings):
            return kept
        wanted *= _GROWTH
