"""What every shipped retriever has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agora_core.protocols import AnyFilter
from agora_core.records import Passage

if TYPE_CHECKING:
    from agora_core.stores.scoped import ScopedRetriever


class BaseRetriever(ABC):
    """Finds passages for a query, in both colours."""

    @abstractmethod
    def retrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Return at most `top_k` passages, best first.

        Args:
            query: what is asked, in the words of who asks.
            top_k: 1 or more.
            filter: a mapping or an expression; None retrieves without one.
            min_score: keep `score >= min_score`, on the scale of this retriever's own scores; None keeps all.
        """

    @abstractmethod
    async def aretrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Async twin of `retrieve`."""

    def scoped(self, filter: AnyFilter) -> ScopedRetriever:
        """Return a view of this retriever in which `filter` always holds; a call's own filter only narrows it."""
        from agora_core.stores.scoped import ScopedRetriever

        return ScopedRetriever(self, filter)


def at_least(passages: Iterable[Passage], min_score: float | None) -> list[Passage]:
    """Return the passages that reach a floor, all where it is None."""
    if min_score is None:
        return list(passages)
    return [passage for passage in passages if passage.score >= min_score]
