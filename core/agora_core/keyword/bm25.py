"""The BM25 formula with an idf that is never negative (that of Lucene), as pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from agora_core.errors import InvalidArgumentError

DEFAULT_K1 = 1.5
DEFAULT_B = 0.75


def bm25_idf(documents: int, document_frequency: int) -> float:
    """Return the weight of a term: ln(1 + (N - df + 0.5) / (df + 0.5)), above 0 for any df from 0 to N."""
    return math.log(1 + (documents - document_frequency + 0.5) / (document_frequency + 0.5))


def bm25_term_score(
    frequency: float, length: float, average_length: float, *, k1: float = DEFAULT_K1, b: float = DEFAULT_B
) -> float:
    """Return tf (k1 + 1) / (tf + k1 (1 - b + b length / average)): what a term of idf 1 adds to a passage's score.

    `frequency` is how often the passage holds the term, above 0; lengths count terms, repeats included.
    """
    return frequency * (k1 + 1) / (frequency + k1 * (1 - b + b * length / average_length))


def check_bm25_parameters(k1: Any, b: Any) -> tuple[float, float]:
    """Return `k1` and `b` as floats.

    Raises:
        InvalidArgumentError: k1 is negative, b is outside 0 to 1, or one of them is not a finite number.
    """
    for name, value in (("k1", k1), ("b", b)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise InvalidArgumentError(f"{name} must be a finite number, got {value!r}")
    if k1 < 0:
        raise InvalidArgumentError(f"k1 must be 0 or more, got {k1!r}; 1.2 to 2.0 suit most texts")
    if not 0 <= b <= 1:
        raise InvalidArgumentError(f"b must lie between 0 and 1, got {b!r}; 0.75 suits most texts")
    return float(k1), float(b)


def bm25_score(
    query: Sequence[str],
    passage: Sequence[str],
    corpus: Sequence[Sequence[str]],
    *,
    k1: float = DEFAULT_K1,
    b: float = DEFAULT_B,
) -> float:
    """Return the score of one passage straight from the formula, all given as terms, each of the query counted once."""
    average = sum(map(len, corpus)) / len(corpus)
    score = 0.0
    for term in dict.fromkeys(query):
        frequency = passage.count(term)
        if frequency:
            idf = bm25_idf(len(corpus), sum(term in other for other in corpus))
            score += idf * bm25_term_score(frequency, len(passage), average, k1=k1, b=b)
    return score
