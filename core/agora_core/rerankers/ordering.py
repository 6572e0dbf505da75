"""What all rerankers share: how a request is checked, and how scores become an order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from agora_core.errors import InvalidArgumentError, RerankingError
from agora_core.metadata import check_text, with_score
from agora_core.records import Passage
from agora_core.validation import check_top_k


def check_request(query: Any, passages: Any, top_k: Any) -> list[Passage]:
    """Return the passages as a list, the query and `top_k` checked.

    Raises:
        InvalidArgumentError: the query is not a str, `top_k` is neither None nor an int from 1, or `passages` holds
            something that is no passage.
    """
    check_text(query, where="rerank", what="query")
    if top_k is not None:
        check_top_k(top_k)
    if isinstance(passages, (str, bytes)) or not isinstance(passages, Iterable):
        raise InvalidArgumentError(f"passages must be a sequence of Passage, got {type(passages).__name__}")
    checked = list(passages)
    for number, passage in enumerate(checked):
        if not isinstance(passage, Passage):
            raise InvalidArgumentError(f"passages[{number}] must be a Passage, got {type(passage).__name__}")
    return checked


def check_max_chars(value: Any) -> int | None:
    """Return `max_passage_chars`, None or an int of 1 or more; refuse anything else."""
    if value is not None and (type(value) is not int or value < 1):
        raise InvalidArgumentError(f"max_passage_chars must be None or an int of 1 or more, got {value!r}")
    return None if value is None else int(value)


def in_order(passages: Sequence[Passage], scores: Sequence[float], top_k: int | None) -> list[Passage]:
    """Return fresh passages with these scores, best first, equal ones in the order given, the first `top_k` of them.

    Raises:
        RerankingError: a score is NaN or infinite, which has no place in an order.
    """
    values = [float(score) for score in scores]
    for number, value in enumerate(values):
        if not math.isfinite(value):
            raise RerankingError(f"the score of passages[{number}] is {value!r}; a reranker must give finite numbers")
    # Python's sort is stable, so `-value` keeps the order of equals where `reverse=True` would as well.
    order = sorted(range(len(values)), key=lambda position: -values[position])
    if top_k is not None:
        order = order[:top_k]
    return [with_score(passages[position], values[position]) for position in order]


def trusted_order(ranked: Iterable[Any], candidates: Sequence[Passage], reranker: object) -> list[Passage]:
    """Return the candidates in a reranker's order with its scores; nothing else of its answer is used.

    Raises:
        RerankingError: the answer names a passage that was not given. It has not passed the filter.
    """
    known = {candidate.id: candidate for candidate in candidates}
    chosen: dict[str, Passage] = {}
    for passage in ranked:
        name = getattr(passage, "id", None)
        if not isinstance(name, str) or name not in known:
            raise RerankingError(
                f"{type(reranker).__name__}.rerank returned the passage {name!r}, "
                "which it was not given; it must return passages of its candidates"
            )
        if name not in chosen:
            chosen[name] = with_score(known[name], passage.score)
    return list(chosen.values())
