"""Retrieval by words, answered by a store that searches text itself."""

from __future__ import annotations

from agora_core.errors import UnsupportedOperationError
from agora_core.filters import Expression
from agora_core.protocols import AnyFilter, LexicalVectorStore, is_lexical_vector_store
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever, shared_scope
from agora_core.steps import Steps
from agora_core.stores.operations import Syntax
from agora_core.stores.ports import StorePort


class LexicalRetriever(BaseRetriever):
    """Searches the text of a store's records by its `search_text`. Scores are the store's.

    Examples:
        >>> [passage.id for passage in LexicalRetriever(store).retrieve("directors")]
        ['board#0']
    """

    def __init__(self, store: LexicalVectorStore, *, syntax: Syntax | None = None) -> None:
        """Accept any object with `search_text` or `asearch_text`.

        Args:
            store: answers the queries.
            syntax: how the store reads queries, `plain` or `web`; None leaves it to the store.

        Raises:
            UnsupportedOperationError: the store has neither method.
        """
        if not is_lexical_vector_store(store):
            raise UnsupportedOperationError(
                f"{type(store).__name__} cannot search text: it has no search_text; "
                "use a store that has, or a KeywordRetriever beside it"
            )
        self.store = store
        self.syntax = syntax
        self._store = StorePort(store)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.store).__name__})"

    @property
    def scope(self) -> Expression | None:
        """The scope of the store."""
        return shared_scope([self.store])

    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        found = self._store.search_text(
            query,
            top_k=top_k,
            filter=filter,
            min_score=min_score,
            per_document=per_document,
            syntax=self.syntax,
        )
        return (yield from found)

    def _holds(self, ids: list[str], scope: AnyFilter) -> Steps[set[str]]:
        return {record.id for record in (yield from self._store.get(ids, within=scope))}
