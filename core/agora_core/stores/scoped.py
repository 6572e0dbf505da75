"""Views of a store or a retriever that AND a bound filter into everything. No argument can widen them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from agora_core.calling import acall, call
from agora_core.errors import InvalidArgumentError, UnsupportedOperationError
from agora_core.filters import (
    Expression,
    assert_removal_filter,
    compile_filter,
    conjoin,
    frozen_filter,
)
from agora_core.filters.expressions import And, Leaf
from agora_core.filters.operators import EQUALS
from agora_core.metadata import MetadataPatch, clone_json, copy_metadata
from agora_core.protocols import AnyFilter
from agora_core.records import JSON, Embedding, IndexedDocument, Passage, VectorRecord
from agora_core.stores.base import BaseVectorStore, OnWrite
from agora_core.validation import checked_record, iterate_records, named_record


class ScopedVectorStore(BaseVectorStore):
    """A store seen through a bound filter: reads and removals touch only what matches, writes may not leave it.

    Any object with the methods of a vector store serves. By-id and by-document calls need its `within` argument;
    a store without one refuses those calls here, and still searches, lists and counts in scope.
    """

    def __init__(self, store: Any, filter: AnyFilter, *, on_write: OnWrite = "check") -> None:
        """Bind `filter` to `store`; see `BaseVectorStore.scoped`.

        Raises:
            InvalidFilterError: the filter could not be built.
            InvalidArgumentError: `on_write` is neither `check` nor `stamp`.
        """
        if on_write not in ("check", "stamp"):
            raise InvalidArgumentError(f"on_write must be 'check' or 'stamp', got {on_write!r}")
        self._store = store
        self._scope = frozen_filter(filter)
        self._stamp = plain_values(self.scope) if on_write == "stamp" else {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self._store).__name__})"

    @property
    def metric(self) -> str:  # type: ignore[override]
        """The metric of the store behind."""
        return str(self._store.metric)

    @property
    def dimension(self) -> int | None:  # type: ignore[override]
        """The dimension of the store behind."""
        dimension: int | None = self._store.dimension
        return dimension

    @property
    def scope(self) -> Expression:
        """The bound filter, in its internal form."""
        return compile_filter(self._scope)

    def scoped(self, filter: AnyFilter, *, on_write: OnWrite = "check") -> ScopedVectorStore:
        """Return a narrower view: both filters hold."""
        return ScopedVectorStore(self, filter, on_write=on_write)

    def _narrow(self, filter: AnyFilter | None) -> AnyFilter:
        return conjoin(self._scope, filter)

    def _within(self, method: str, within: AnyFilter | None, *, awaited: bool = False) -> dict[str, AnyFilter]:
        # The one of both colours that will be called is looked at.
        names = (f"a{method}", method) if awaited else (method, f"a{method}")
        name = names[0] if hasattr(self._store, names[0]) else names[1]
        function = getattr(self._store, name, None)
        if function is None:
            raise UnsupportedOperationError(f"{type(self._store).__name__} has no {method}, which this call needs")
        if "within" not in inspect.signature(function).parameters:
            raise UnsupportedOperationError(
                f"{type(self._store).__name__}.{method} takes no `within`, so it cannot be kept in scope; "
                "add the argument (see BaseVectorStore), or call by filter"
            )
        return {"within": self._narrow(within)}

    def stamped(self, records: Iterable[VectorRecord]) -> list[VectorRecord]:
        """Return records as a write through this view stores them: with the scope's plain values, where it stamps.

        For whoever keeps something else in step with the store, a keyword index for instance.
        """
        own = self._stamped(records)
        return self._store.stamped(own) if isinstance(self._store, ScopedVectorStore) else own

    def _stamped(self, records: Iterable[VectorRecord]) -> list[VectorRecord]:
        # A list, because a store may read its records twice and a generator would be spent.
        if not self._stamp:
            return list(iterate_records(records))
        stamped = []
        for position, record in enumerate(iterate_records(records)):
            plain = checked_record(record, position)
            metadata = copy_metadata(plain.metadata, where=named_record(plain.id)) or {}
            stamped.append(replace(plain, metadata={**metadata, **clone_json(self._stamp)}))
        return stamped

    def _removal(self, filter: AnyFilter) -> AnyFilter:
        # Judged before the scope is added: a caller who names nothing to remove has made a mistake in any scope.
        given = frozen_filter(filter)
        assert_removal_filter(given)
        return self._narrow(given)

    def upsert(self, records: Iterable[VectorRecord], *, within: AnyFilter | None = None) -> int:
        """Upsert in scope; see `BaseVectorStore.upsert`.

        Raises:
            ScopeViolationError: a record, or the one it would replace, does not match the scope.
        """
        bound = self._within("upsert", within)
        return int(call(self._store, "upsert", self._stamped(records), **bound))

    async def aupsert(self, records: Iterable[VectorRecord], *, within: AnyFilter | None = None) -> int:
        """Async twin of `upsert`."""
        bound = self._within("upsert", within, awaited=True)
        return int(await acall(self._store, "upsert", self._stamped(records), **bound))

    def search(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[Passage]:
        """Search in scope; see `BaseVectorStore.search`."""
        floor = {} if min_score is None else {"min_score": min_score}
        return list(call(self._store, "search", embedding, top_k=top_k, filter=self._narrow(filter), **floor))

    async def asearch(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[Passage]:
        """Async twin of `search`."""
        floor = {} if min_score is None else {"min_score": min_score}
        found = await acall(self._store, "search", embedding, top_k=top_k, filter=self._narrow(filter), **floor)
        return list(found)

    def get(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> list[VectorRecord]:
        """Get in scope; see `BaseVectorStore.get`."""
        return list(call(self._store, "get", ids, **self._within("get", within)))

    async def aget(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> list[VectorRecord]:
        """Async twin of `get`."""
        return list(await acall(self._store, "get", ids, **self._within("get", within, awaited=True)))

    def delete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> int:
        """Delete in scope; see `BaseVectorStore.delete`."""
        return int(call(self._store, "delete", ids, **self._within("delete", within)))

    async def adelete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> int:
        """Async twin of `delete`."""
        return int(await acall(self._store, "delete", ids, **self._within("delete", within, awaited=True)))

    def remove(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        """Remove the chunks of a document that are in scope; see `BaseVectorStore.remove`."""
        return int(call(self._store, "remove", document_id, **self._within("remove", within)))

    async def aremove(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        """Async twin of `remove`."""
        return int(await acall(self._store, "remove", document_id, **self._within("remove", within, awaited=True)))

    def remove_where(self, filter: AnyFilter) -> int:
        """Remove what matches in scope; the filter must bound the removal by itself."""
        return int(call(self._store, "remove_where", self._removal(filter)))

    async def aremove_where(self, filter: AnyFilter) -> int:
        """Async twin of `remove_where`."""
        return int(await acall(self._store, "remove_where", self._removal(filter)))

    def replace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], *, within: AnyFilter | None = None
    ) -> int:
        """Replace in scope; chunks of the documents that lie outside it stay."""
        bound = self._within("replace_documents", within)
        return int(call(self._store, "replace_documents", document_ids, self._stamped(records), **bound))

    async def areplace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], *, within: AnyFilter | None = None
    ) -> int:
        """Async twin of `replace_documents`."""
        bound = self._within("replace_documents", within, awaited=True)
        written = await acall(self._store, "replace_documents", document_ids, self._stamped(records), **bound)
        return int(written)

    def update_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        """Patch the chunks of a document that are in scope.

        Raises:
            ScopeViolationError: the patch would move one of them out.
        """
        bound = self._within("update_metadata", within)
        return int(call(self._store, "update_metadata", document_id, patch, **bound))

    async def aupdate_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        """Async twin of `update_metadata`."""
        bound = self._within("update_metadata", within, awaited=True)
        return int(await acall(self._store, "update_metadata", document_id, patch, **bound))

    def list_documents(self, filter: AnyFilter | None = None) -> list[IndexedDocument]:
        """List the documents with a matching chunk in scope."""
        return list(call(self._store, "list_documents", self._narrow(filter)))

    async def alist_documents(self, filter: AnyFilter | None = None) -> list[IndexedDocument]:
        """Async twin of `list_documents`."""
        return list(await acall(self._store, "list_documents", self._narrow(filter)))

    def list_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        """List the ids of the documents with a matching chunk in scope."""
        return list(call(self._store, "list_document_ids", self._narrow(filter)))

    async def alist_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        """Async twin of `list_document_ids`."""
        return list(await acall(self._store, "list_document_ids", self._narrow(filter)))

    def count(self, filter: AnyFilter | None = None) -> int:
        """Count what matches in scope."""
        return int(call(self._store, "count", self._narrow(filter)))

    async def acount(self, filter: AnyFilter | None = None) -> int:
        """Async twin of `count`."""
        return int(await acall(self._store, "count", self._narrow(filter)))

    def facets(
        self, key: str | Sequence[str], *, filter: AnyFilter | None = None, limit: int = 20
    ) -> list[tuple[JSON, int]]:
        """Count the values of a metadata key in scope; see `BaseVectorStore.facets`."""
        if not hasattr(self._store, "facets") and not hasattr(self._store, "afacets"):
            return super().facets(key, filter=filter, limit=limit)
        return list(call(self._store, "facets", key, filter=self._narrow(filter), limit=limit))

    async def afacets(
        self, key: str | Sequence[str], *, filter: AnyFilter | None = None, limit: int = 20
    ) -> list[tuple[JSON, int]]:
        """Async twin of `facets`."""
        if not hasattr(self._store, "facets") and not hasattr(self._store, "afacets"):
            return await super().afacets(key, filter=filter, limit=limit)
        return list(await acall(self._store, "facets", key, filter=self._narrow(filter), limit=limit))

    def scan(self, filter: AnyFilter | None = None) -> Iterator[VectorRecord]:
        """Iterate over what matches in scope."""
        records: Iterator[VectorRecord] = call(self._store, "scan", self._narrow(filter))
        return records

    async def ascan(self, filter: AnyFilter | None = None) -> AsyncIterator[VectorRecord]:
        """Async twin of `scan`."""
        if not hasattr(self._store, "ascan"):
            async for record in super().ascan(filter):
                yield record
            return
        async for record in self._store.ascan(self._narrow(filter)):
            yield record

    def close(self) -> None:
        """Do nothing: the store belongs to whoever opened it."""

    async def aclose(self) -> None:
        """Do nothing: the store belongs to whoever opened it."""

    def __getattr__(self, name: str) -> Any:
        # Only reached for what is not defined above: text search exists in a view exactly where the store has it.
        if name in _LEXICAL and hasattr(self._store, name):
            return _bound_filter(getattr(self._store, name), self._scope)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_LEXICAL = ("search_text", "asearch_text", "search_hybrid", "asearch_hybrid", "search_many", "asearch_many")


def _bound_filter(method: Any, scope: AnyFilter) -> Any:
    def bound(*args: Any, filter: AnyFilter | None = None, **options: Any) -> Any:
        return method(*args, filter=conjoin(scope, filter), **options)

    return bound


def plain_values(scope: Expression) -> dict[str, JSON]:
    """Return the top-level keys that a scope fixes to one value each: what stamping writes."""
    children = scope.children if isinstance(scope, And) else (scope,)
    values: dict[str, JSON] = {}
    for child in children:
        if isinstance(child, Leaf) and child.operator is EQUALS and len(child.path) == 1:
            values[child.path[0]] = child.operand.value
    return values


class ScopedRetriever:
    """A retriever seen through a bound filter; a call's own filter only narrows."""

    def __init__(self, retriever: Any, filter: AnyFilter) -> None:
        """Bind `filter` to anything with `retrieve` or `aretrieve`."""
        self._retriever = retriever
        self._scope = frozen_filter(filter)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self._retriever).__name__})"

    @property
    def scope(self) -> Expression:
        """The bound filter, in its internal form."""
        return compile_filter(self._scope)

    def scoped(self, filter: AnyFilter) -> ScopedRetriever:
        """Return a narrower view: both filters hold."""
        return ScopedRetriever(self, filter)

    def retrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Retrieve in scope; see `Retriever.retrieve`."""
        floor = {} if min_score is None else {"min_score": min_score}
        narrowed = conjoin(self._scope, filter)
        return list(call(self._retriever, "retrieve", query, top_k=top_k, filter=narrowed, **floor))

    async def aretrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Async twin of `retrieve`."""
        floor = {} if min_score is None else {"min_score": min_score}
        narrowed = conjoin(self._scope, filter)
        return list(await acall(self._retriever, "retrieve", query, top_k=top_k, filter=narrowed, **floor))
