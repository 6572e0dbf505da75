"""A reranker that prefers what is new, and what has a label, without a model and without touching the index."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timezone
from typing import Any

from agora_core.errors import InvalidArgumentError
from agora_core.filters import compile_filter, predicate
from agora_core.protocols import AnyFilter
from agora_core.records import Passage
from agora_core.rerankers.ordering import check_request, in_order


class BoostingReranker:
    """Multiplies the scores of passages: by 0.5 for each half-life of their age, and by the boosts they match.

    The scores of the passages are first moved and stretched to 0..1 (all 1 where they are equal), so that they may be
    negative, as those of `l2` are. A passage without a readable date is neither new nor old: its score stays.

    Examples:
        >>> newest = BoostingReranker(boosts=[({"year": 2025}, 3.0)])
        >>> [(passage.id, passage.score) for passage in newest.rerank("days of leave", passages)]
        [('leave#0', 1.0), ('board#0', 0.0)]
    """

    def __init__(
        self,
        *,
        half_life: float | None = None,
        field: str = "date",
        boosts: Sequence[tuple[AnyFilter, float]] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        """Check the options.

        Args:
            half_life: days after which a passage's score is halved, above 0; None lets age count nothing.
            field: the metadata key with the date: ISO 8601 text, or seconds since 1970.
            boosts: filters and the factors, 0 or more, for passages that match them.
            now: the time now, in seconds since 1970.

        Raises:
            InvalidArgumentError: an option is out of its range.
            InvalidFilterError: a filter could not be built.
        """
        if half_life is not None and (not _is_number(half_life) or half_life <= 0):
            raise InvalidArgumentError(f"half_life must be a number of days above 0, or None, got {half_life!r}")
        self.half_life, self.field, self._now = half_life, field, now
        self._boosts = []
        for bound, factor in boosts:
            if not _is_number(factor) or factor < 0:
                raise InvalidArgumentError(f"boosts must hold factors of 0 or more, got {factor!r}")
            self._boosts.append((predicate(compile_filter(bound)), float(factor)))

    def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Return the best `top_k` passages by their boosted scores; see `Reranker.rerank`."""
        checked = check_request(query, passages, top_k)
        scores = [passage.score for passage in checked]
        low, high = min(scores, default=0.0), max(scores, default=0.0)
        now = self._now()
        boosted = [
            (1.0 if high == low else (passage.score - low) / (high - low)) * self._factor(passage.metadata or {}, now)
            for passage in checked
        ]
        return in_order(checked, boosted, top_k)

    def _factor(self, metadata: Mapping[str, Any], now: float) -> float:
        factor = 1.0
        if self.half_life is not None:
            when = _seconds(metadata.get(self.field))
            if when is not None:
                factor *= 0.5 ** (max(0.0, now - when) / (86_400 * self.half_life))
        for matches, boost in self._boosts:
            if matches(dict(metadata)):
                factor *= boost
        return factor


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _seconds(value: Any) -> float | None:
    if _is_number(value):
        return float(value)
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        try:
            when = datetime.combine(date.fromisoformat(value[:10]), datetime.min.time())
        except ValueError:
            return None
    return (when if when.tzinfo is not None else when.replace(tzinfo=timezone.utc)).timestamp()
