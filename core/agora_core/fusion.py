"""Merge ranked lists into one. Pure functions: what they are given is never written to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Literal

from agora_core.errors import InvalidArgumentError
from agora_core.records import Passage

DEFAULT_K: Final = 60

FusionName = Literal["rrf", "relative_score", "adaptive"]
FUSIONS: Final[tuple[FusionName, ...]] = ("rrf", "relative_score", "adaptive")

Ranking = Sequence[Passage]

Fusion = FusionName | Callable[[Sequence[Ranking]], Sequence[Passage]]
"""The name of a fusion, or a function that makes one list of the legs' lists, best first."""


def reciprocal_rank_fusion(
    rankings: Sequence[Ranking], *, k: float = DEFAULT_K, weights: Sequence[float] | None = None
) -> list[Passage]:
    """Fuse ranked lists by `sum(weight / (k + rank))`, rank from 1 (Cormack, Clarke and Büttcher, SIGIR 2009).

    The passages returned are new, with the fused score; text, source and metadata are those of the first list that
    holds the id (the metadata object is shared with it). Equal scores keep first-seen order: list by list, then rank.
    An id that occurs twice in one list counts once, at its better rank: a list is one vote, and a retriever that
    repeats itself must not outvote the others. (The original counts both ranks.)

    Args:
        rankings: lists of passages, best first; their scores are not looked at.
        k: 0 or more; the larger, the less the first ranks stand out.
        weights: one per list, 0 or more; None gives every list 1.

    Raises:
        InvalidArgumentError: `k` or a weight is out of range, or there are not as many weights as lists.

    Examples:
        >>> fused = reciprocal_rank_fusion([passages, passages[::-1]])
        >>> [passage.id for passage in fused]
        ['leave#0', 'board#0']
    """
    return fuse(rankings, k=k, weights=weights)


def relative_score_fusion(rankings: Sequence[Ranking], *, weights: Sequence[float] | None = None) -> list[Passage]:
    """Fuse ranked lists by the weighted sum of their scores, each list scaled to 0..1 (its worst to its best).

    A list whose scores are all equal counts 1 for each of its passages; a passage that a list lacks gets 0 from it.
    Weights are divided by their sum, so that fused scores lie in 0..1. Everything else is as in
    `reciprocal_rank_fusion`.

    Raises:
        InvalidArgumentError: a weight is out of range, there are not as many weights as lists, or a score is not
            finite.

    Examples:
        >>> [passage.id for passage in relative_score_fusion([passages, passages[:1]])]
        ['leave#0', 'board#0']
    """
    return fuse(rankings, fusion="relative_score", weights=weights)


def adaptive_fusion(rankings: Sequence[Ranking]) -> list[Passage]:
    """Fuse ranked lists by `relative_score_fusion` with the weights of `adaptive_weights`; none are asked for."""
    return fuse(rankings, fusion="adaptive")


def fuse(
    rankings: Sequence[Ranking],
    *,
    fusion: Fusion = "rrf",
    k: float = DEFAULT_K,
    weights: Sequence[float] | None = None,
    top_k: int | None = None,
) -> list[Passage]:
    """Fuse ranked lists by the way named, see the function of each, and return the best `top_k`; None returns all."""
    lists = check_rankings(rankings)
    if not isinstance(fusion, str):
        return list(fusion(lists))[:top_k]
    return _merge(lists, fusion_gains(lists, fusion=fusion, k=k, weights=weights)[0], top_k)


def fusion_gains(
    rankings: Sequence[Ranking],
    *,
    fusion: FusionName,
    k: float = DEFAULT_K,
    weights: Sequence[float] | None = None,
) -> tuple[Sequence[Sequence[float]], list[float]]:
    """Return what each place of each list adds to the fused score, and the weight of each list.

    A list's gains may be longer than the list.

    Raises:
        InvalidArgumentError: the fusion is not one of `FUSIONS`.
    """
    if fusion == "relative_score":
        used = check_weights(weights, len(rankings))
        return _relative_gains(rankings, used), used
    if fusion == "adaptive":
        used = adaptive_weights(rankings)
        return _relative_gains(rankings, used), used
    if fusion != "rrf":
        raise InvalidArgumentError(f"fusion must be one of {', '.join(FUSIONS)}, got {fusion!r}")
    used = check_weights(weights, len(rankings))
    return _reciprocal_gains(rankings, check_k(k), used), used


def adaptive_weights(rankings: Sequence[Ranking]) -> list[float]:
    """Return weights read off the lists themselves, adding up to 1: a list that falls steeply is trusted more.

    A retriever that knows the answer gives a few passages scores far above the rest; one that guesses gives all of
    them about the same. So the weight of a list is the square of how far its scores, scaled to 0..1, have fallen at
    the tenth passage. A list of less than ten counts half, for it had little to choose from; an empty one gets 0.

    The square, the tenth and the 0.05 that keeps a flat list from weighing nothing were chosen on some collections
    and kept for others; docs/evaluation.md says which, and what they give there.

    Raises:
        InvalidArgumentError: a score is not finite.
    """
    trust = [_trust(ranking, f"rankings[{place}]") for place, ranking in enumerate(check_rankings(rankings))]
    total = sum(trust)
    # Empty lists share alike; any weights would do for them.
    return [value / total if total else 1.0 / len(trust) for value in trust]


def _trust(ranking: Ranking, where: str) -> float:
    if not ranking:
        return 0.0
    scores = sorted(scaled_scores(ranking, where=where), reverse=True)
    fall = (1.0 - scores[min(_TENTH, len(scores)) - 1] if len(scores) > 1 else 1.0) + _LEAST_FALL
    return fall * fall if len(scores) >= _TENTH else fall * fall / 2


_TENTH: Final = 10
_LEAST_FALL: Final = 0.05


def check_rankings(rankings: Any) -> list[Ranking]:
    """Return the lists as a list; an iterator is taken up once."""
    lists: list[Ranking] = []
    for position, ranking in enumerate(rankings):
        if isinstance(ranking, Passage) or not isinstance(ranking, Iterable):
            raise InvalidArgumentError(f"rankings[{position}] must be a list of passages, got {type(ranking).__name__}")
        lists.append(ranking if isinstance(ranking, (list, tuple)) else list(ranking))
    return lists


def check_k(k: Any) -> float:
    """Return `k` as it is.

    Raises:
        InvalidArgumentError: it is not a finite number of 0 or more.
    """
    if isinstance(k, bool) or not isinstance(k, (int, float)) or not math.isfinite(k) or k < 0:
        raise InvalidArgumentError(f"k must be a finite number of 0 or more, got {k!r}")
    return k


def check_weights(weights: Any, lists: int) -> list[float]:
    """Return one weight per list, each 1 where none are given.

    Raises:
        InvalidArgumentError: there are more or fewer than `lists`, or one is negative, not finite or no number.
    """
    if weights is None:
        return [1.0] * lists
    if isinstance(weights, (str, bytes)) or not isinstance(weights, Iterable):
        raise InvalidArgumentError(f"weights must be a list of numbers or None, got {type(weights).__name__}")
    values = list(weights)
    if len(values) != lists:
        raise InvalidArgumentError(f"weights must hold one number per list ({lists}), got {len(values)}")
    for position, weight in enumerate(values):
        try:
            usable = not isinstance(weight, (bool, str)) and math.isfinite(weight) and weight >= 0
        except TypeError:
            usable = False
        if not usable:
            raise InvalidArgumentError(
                f"weights[{position}] must be a finite number of 0 or more, got {weight!r}; 0 ignores a list"
            )
    return [float(weight) for weight in values]


def _reciprocal_gains(lists: Sequence[Ranking], k: float, weights: Sequence[float]) -> list[Sequence[float]]:
    # Tables come in few lengths, so that nearly every fusion finds its own ready.
    length = 1 << max(map(len, lists), default=0).bit_length()
    return [_reciprocal_table(weight, k, length) for weight in weights]


@lru_cache(maxsize=64)
def _reciprocal_table(weight: float, k: float, length: int) -> tuple[float, ...]:
    return tuple([weight / (k + rank) for rank in range(1, length + 1)])


def _relative_gains(lists: Sequence[Ranking], weights: Sequence[float]) -> list[list[float]]:
    total = sum(weights)
    gains = []
    for position, (weight, ranking) in enumerate(zip(weights, lists, strict=True)):
        share = weight / total if total else 0.0
        scaled = scaled_scores(ranking, where=f"rankings[{position}]")
        gains.append([share * score for score in scaled])
    return gains


def scaled_scores(ranking: Ranking, *, where: str = "ranking") -> list[float]:
    """Return the scores of a list scaled to 0..1, its worst to its best; all 1 where they are equal.

    Raises:
        InvalidArgumentError: a score is not finite.
    """
    scores = [float(passage.score) for passage in ranking]
    if not scores:
        return []
    low, high = min(scores), max(scores)
    span = high - low
    # The sum is NaN or infinite where a score is; min and max do not see every NaN.
    if not math.isfinite(span) or (not math.isfinite(sum(scores)) and not all(map(math.isfinite, scores))):
        raise InvalidArgumentError(f"{where} holds a score that is not finite; fuse it by rank instead (fusion='rrf')")
    return [(score - low) / span for score in scores] if span > 0 else [1.0] * len(scores)


def _merge(lists: Sequence[Ranking], gains: Sequence[Sequence[float]], most: int | None) -> list[Passage]:
    """Sum the gains by id, and return at most `most` new passages by falling sum, equal ones in first-seen order.

    Each gain is at least as long as its list.
    """
    sums: dict[str, float] = {}
    firsts: dict[str, Passage] = {}
    for ranking, gain in zip(lists, gains, strict=True):
        votes = dict(zip(map(_ID, ranking), gain, strict=False))
        if len(votes) < len(ranking):
            ranking, votes = _without_repeats(ranking, gain)
        if not sums:
            sums, firsts = votes, dict(zip(votes, ranking, strict=True))
            continue
        for (key, value), passage in zip(votes.items(), ranking, strict=True):
            if key in sums:
                sums[key] += value
            else:
                sums[key] = value
                firsts[key] = passage
    fused: list[Any] = []
    for key in sorted(sums, key=sums.__getitem__, reverse=True)[:most]:
        passage = firsts[key]
        # Filled and then frozen: the constructor of a frozen dataclass takes four times as long.
        copy: Any = _Draft()
        copy.id = key
        copy.text = passage.text
        copy.score = sums[key]
        copy.source = passage.source
        copy.metadata = passage.metadata
        copy.__class__ = Passage
        fused.append(copy)
    return fused


_ID: Final = attrgetter("id")


def _without_repeats(ranking: Ranking, gain: Sequence[float]) -> tuple[list[Passage], dict[str, float]]:
    best: dict[str, Passage] = {}
    votes: dict[str, float] = {}
    for passage, value in zip(ranking, gain, strict=False):
        if passage.id not in best:
            best[passage.id] = passage
            votes[passage.id] = value
    return list(best.values()), votes


class _Draft:
    """A passage before it is frozen. The slots are those of `Passage`, so that an instance can become one."""

    __slots__ = ("id", "metadata", "score", "source", "text")
