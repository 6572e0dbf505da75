"""A store and what searches its texts: the store itself, or a keyword index kept in step beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agora_core.calling import Method
from agora_core.errors import UnsupportedOperationError
from agora_core.ingestion_plan import KeywordPort
from agora_core.metadata import MetadataPatch
from agora_core.protocols import AnyFilter, Retriever, is_lexical_vector_store
from agora_core.records import VectorRecord
from agora_core.retrievers.lexical import LexicalRetriever
from agora_core.retrievers.scoped import seen_from
from agora_core.steps import Steps
from agora_core.stores.ports import StorePort


class StoreBesideKeyword:
    """Writes to a store and to the keyword index beside it, in the store's whole scope; the store goes first.

    What the store refuses stays as it was in both. Where the index fails after the store, the call fails, and the store
    has the last word: an index that knows the store (`backed_by`) shows nothing that it lacks, `rebuild` repairs it.
    """

    def __init__(self, store: object, keyword: object | None = None) -> None:
        """Resolve both.

        Raises:
            UnsupportedOperationError: there is an index, and the store does not say what bounds it (`scope`), or the
                index cannot be bounded so.
        """
        self.port = StorePort(store)
        self._keyword = keyword
        self._index = None if keyword is None else KeywordPort(keyword, self.port)

    @property
    def searches_text(self) -> bool:
        """Whether there is anything that searches text."""
        return self._keyword is not None or is_lexical_vector_store(self.port.store)

    def text_leg(self) -> Retriever:
        """Return the retriever that searches the texts, bounded as the store is.

        Raises:
            UnsupportedOperationError: there is none.
        """
        store: Any = self.port.store
        if self._keyword is None:
            if not is_lexical_vector_store(store):
                raise UnsupportedOperationError(
                    f"{type(store).__name__} cannot search text; use a lexical store, "
                    "or give keyword=KeywordRetriever()"
                )
            return LexicalRetriever(store)
        keyword: Any = self._keyword
        # The index may serve others too: what bounds the store bounds it.
        return seen_from(keyword, store)

    def upsert(self, records: Sequence[VectorRecord]) -> Steps[None]:
        """Write records to both."""
        yield from self.port.upsert(records)
        yield from self.index(records)

    def index(self, records: Sequence[VectorRecord]) -> Steps[None]:
        """Write records that stand in the store already to the index."""
        if self._index is not None and records:
            yield from self._index.write(records, None)

    def delete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> Steps[int]:
        """Delete records by id, of those only what matches `within`. Return how many were deleted."""
        known = [] if self._keyword is None else [r.id for r in (yield from self.port.get(ids, within=within))]
        deleted = yield from self.port.delete(ids, within=within)
        yield from self._forget(known)
        return deleted

    def remove_where(self, filter: AnyFilter) -> Steps[int]:
        """Remove what matches. Return how many records were removed."""
        known = [] if self._keyword is None else [record.id for record in (yield from self.scan(filter))]
        removed = yield from self.port.remove_where(filter)
        yield from self._forget(known)
        return removed

    def update_metadata(self, document_id: str, patch: MetadataPatch) -> Steps[int]:
        """Patch the chunks of a document. Return how many were written."""
        written = yield from self.port.update_metadata(document_id, patch)
        if self._keyword is not None and written:
            kept = self._stored([document_id])[0]
            yield from Method(self._keyword, "update_metadata")(kept, patch, within=self.port.scope())
        return written

    def scan(self, filter: AnyFilter | None = None) -> Steps[list[VectorRecord]]:
        """Return all records that match."""
        reader, found = self.port.reader(filter), []
        while page := (yield from reader.page()):
            found += page
        return found

    def _forget(self, ids: Sequence[str]) -> Steps[None]:
        if self._keyword is not None and ids:
            yield from Method(self._keyword, "remove")(self._stored(ids), within=self.port.scope())

    def _stored(self, ids: Sequence[str]) -> list[str]:
        stored_ids = getattr(self.port.store, "stored_ids", None)
        return list(ids) if stored_ids is None else list(stored_ids(ids))
