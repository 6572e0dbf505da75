"""At most so many passages of one document: the cut, and the loop that fills a list despite it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
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
