"""Retrieval by words, answered by a store that searches text itself."""

from __future__ import annotations

from agora_core.calling import acall, call, given
from agora_core.embedding import check_query
from agora_core.errors import UnsupportedOperationError
from agora_core.protocols import AnyFilter, LexicalVectorStore, is_lexical_vector_store
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever, at_least
from agora_core.validation import check_min_score, check_top_k


class LexicalRetriever(BaseRetriever):
    """Searches the text of a store's records by its `search_text`. Scores are the store's."""

    def __init__(self, store: LexicalVectorStore) -> None:
        """Stand on any object with `search_text` or `asearch_text`.

        Raises:
            UnsupportedOperationError: the store has neither.
        """
        if not is_lexical_vector_store(store):
            raise UnsupportedOperationError(
                f"{type(store).__name__} cannot search text: it has no search_text; "
                "use a store that has, or a KeywordRetriever beside it"
            )
        self.store = store

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.store).__name__})"

    def retrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Return the `top_k` passages whose words answer the query best; see `BaseRetriever.retrieve`."""
        check_query(query)
        floor = check_min_score(min_score)
        options = {"top_k": check_top_k(top_k), **given(filter=filter)}
        # Rows come ordered by the score the floor is on, so that flooring after the cut keeps the same rows.
        return at_least(call(self.store, "search_text", query, **options), floor)

    async def aretrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Async twin of `retrieve`."""
        check_query(query)
        floor = check_min_score(min_score)
        options = {"top_k": check_top_k(top_k), **given(filter=filter)}
        return at_least(await acall(self.store, "search_text", query, **options), floor)
