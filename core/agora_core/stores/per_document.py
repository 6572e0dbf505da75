"""At most so many passages of one document: the cut, and the loop that fills a list despite it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from agora_core.fusion import Fusion, fuse
from agora_core.records import Passage, document_id_of
from agora_core.steps import Steps
from agora_core.validation import check_min_score, check_top_k

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
    ranked = list(passages)
    if per_document is None:
        return ranked[:top_k]
    return [ranked[place] for place in places_per_document((one.id for one in ranked), per_document, top_k)]


def places_per_document(ids: Iterable[str], per_document: int, top_k: int | None = None) -> list[int]:
    """Return the first `top_k` places in a ranking, given by its ids, at most `per_document` of each document."""
    kept: list[int] = []
    counts: Counter[str] = Counter()
    for place, key in enumerate(ids):
        if top_k is not None and len(kept) >= top_k:
            break
        document_id = document_id_of(key)
        if counts[document_id] < per_document:
            counts[document_id] += 1
            kept.append(place)
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


Legs = Callable[[int], Steps[list[list[Passage]]]]
"""An operation that returns one list per leg, each of at most so many passages."""


def prepare_hybrid(
    *,
    top_k: int,
    fetch_top_k: int,
    k: float,
    weights: Sequence[float] | None,
    fusion: Fusion,
    min_score: float | None,
    per_document: int | None,
) -> Callable[[Legs], Steps[list[Passage]]]:
    """Check the arguments of a `search_hybrid`, and return what makes its answer of the two legs.

    Raises:
        InvalidArgumentError: an argument is not as `search_hybrid` describes it.
    """
    floor, most = check_min_score(min_score), check_per_document(per_document)
    wanted, fetched = check_top_k(top_k), check_top_k(fetch_top_k, argument="fetch_top_k")

    def fused(rankings: Sequence[Sequence[Passage]], count: int | None) -> list[Passage]:
        return fuse(rankings, fusion=fusion, k=k, weights=weights, top_k=count)

    # Fused once with nothing: a wrong k, weight or fusion is refused before anything is asked.
    fused([[], []], None)

    def answer(fetch: Legs) -> Steps[list[Passage]]:
        found = yield from grow_fused(fetch, fused, top_k=wanted, fetch_top_k=fetched, per_document=most)
        return [passage for passage in found if floor is None or passage.score >= floor]

    return answer
