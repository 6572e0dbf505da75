"""Views of a store that AND a bound filter into everything. No argument can widen them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agora_core.errors import InvalidArgumentError, ScopeViolationError
from agora_core.filters import Expression, assert_removal_filter, bound_by, compile_filter, conjoin, frozen_filter
from agora_core.filters.expressions import And, Leaf
from agora_core.filters.matching import predicate
from agora_core.filters.operators import EQUALS
from agora_core.fusion import Fusion
from agora_core.metadata import MetadataPatch, clone_json, copy_metadata
from agora_core.protocols import AnyFilter, is_lexical_vector_store
from agora_core.records import (
    JSON,
    Embedding,
    IndexedDocument,
    Passage,
    VectorRecord,
    chunk_order_key,
    document_id_of,
)
from agora_core.steps import Steps, arun, run, together
from agora_core.stores.base import Health, OnWrite
from agora_core.stores.facets import Facets, check_facets, count_facets, most_frequent
from agora_core.stores.fingerprints import Fingerprint, Patched
from agora_core.stores.namespaces import Namespace, check_namespace, hiding_scope, joined_namespace
from agora_core.stores.operations import LexicalOperations, OperationStore, Syntax
from agora_core.stores.per_document import check_per_document, prepare_hybrid
from agora_core.stores.ports import StorePort
from agora_core.validation import (
    check_id,
    check_ids,
    check_top_k,
    checked_record,
    iterate_records,
    named_record,
)


class ScopedVectorStore(OperationStore):
    """A store seen through a bound filter: reads and removals touch only what matches, writes may not leave it.

    Any object with the methods of a vector store serves. By-id and by-document calls need its `within` argument;
    a store without one refuses those calls here, and still searches, lists and counts in scope.

    Examples:
        >>> mine = store.scoped({"acl": ["staff"]})
        >>> mine.count(), mine.count({"acl": ["board"]}), mine.remove("board")
        (1, 0, 0)
    """

    def __new__(cls, store: Any, *arguments: Any, **options: Any) -> ScopedVectorStore:
        """Make a view that searches texts where the store does."""
        made = ScopedLexicalVectorStore if cls is ScopedVectorStore and is_lexical_vector_store(store) else cls
        return super().__new__(made)

    def __init__(
        self, store: Any, filter: AnyFilter, *, on_write: OnWrite = "check", namespace: str | None = None
    ) -> None:
        """Bind `filter` to `store`; see `BaseVectorStore.scoped`.

        Raises:
            InvalidFilterError: the filter could not be built.
            InvalidArgumentError: `on_write` is neither `check` nor `stamp`, or the namespace is not one.
        """
        if on_write not in ("check", "stamp"):
            raise InvalidArgumentError(f"on_write must be 'check' or 'stamp', got {on_write!r}")
        self._store = store
        self._port = StorePort(store)
        self._scope = frozen_filter(filter)
        self._stamp = plain_values(compile_filter(self._scope)) if on_write == "stamp" else {}
        self._namespace = None if namespace is None else Namespace(check_namespace(namespace))

    def __getnewargs__(self) -> tuple[Any]:
        """Return what a copy is made with."""
        return (self._store,)

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
        """The whole conjunction of what bounds this view and every store behind it."""
        # An object that does not say what bounds it has no such attribute, and then neither has a view of it.
        behind: Expression | None = self._store.scope
        return compile_filter(self._scope if behind is None else conjoin(behind, self._scope))

    @property
    def namespace(self) -> str | None:
        """The namespace of the ids seen here, those of views behind first, joined by U+001F; None for none."""
        return joined_namespace(getattr(self._store, "namespace", None), self._namespace)

    def stamped(self, records: Iterable[VectorRecord]) -> list[VectorRecord]:
        """Return records as a write through this view stores them: stamped values in, under the ids that are kept."""
        own = self._outward(records)
        behind = getattr(self._store, "stamped", None)
        return own if behind is None else list(behind(own))

    def stored_ids(self, ids: Iterable[str]) -> list[str]:
        """Return the ids that are kept for ids of records or documents as they are seen here."""
        own = [key if self._namespace is None else self._namespace.stored(key) for key in ids]
        behind = getattr(self._store, "stored_ids", None)
        return own if behind is None else list(behind(own))

    def _run(self, operation: Steps[Any]) -> Any:
        return run(operation)

    async def _arun(self, operation: Steps[Any]) -> Any:
        return await arun(operation)

    def _narrow(self, filter: AnyFilter | None) -> AnyFilter:
        return bound_by(self._scope, filter)

    def _kept(self, key: str, argument: str) -> str:
        return key if self._namespace is None else self._namespace.stored(check_id(key, argument=argument))

    def _kept_ids(self, ids: Sequence[str], argument: str) -> Sequence[str]:
        if self._namespace is None:
            return ids
        return [self._namespace.stored(key) for key in check_ids(ids, argument=argument)]

    def _told(self, steps: Steps[Any]) -> Steps[Any]:
        """Run a write whose errors name ids as they are seen here."""
        try:
            return (yield from steps)
        except ScopeViolationError as error:
            if self._namespace is None:
                raise
            raise self._namespace.told(error) from None

    def _outward(self, records: Iterable[VectorRecord]) -> list[VectorRecord]:
        # A list, because a store may read its records twice and a generator would be spent.
        if not self._stamp and self._namespace is None:
            return list(iterate_records(records))
        outward = []
        for position, record in enumerate(iterate_records(records)):
            plain = checked_record(record, position)
            if self._stamp:
                metadata = copy_metadata(plain.metadata, where=named_record(plain.id)) or {}
                plain = replace(plain, metadata={**metadata, **clone_json(self._stamp)})
            outward.append(plain if self._namespace is None else self._namespace.in_it(plain))
        return outward

    # Writing --------------------------------------------------------------------------------------------------------

    def _upsert(self, records: Iterable[VectorRecord], within: AnyFilter | None) -> Steps[int]:
        return self._told(self._port.upsert(self._outward(records), within=self._narrow(within)))

    def _replace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], within: AnyFilter | None
    ) -> Steps[int]:
        kept = self._kept_ids(document_ids, "document_ids")
        return self._told(self._port.replace_documents(kept, self._outward(records), within=self._narrow(within)))

    def _update_metadata(self, document_id: str, patch: MetadataPatch, within: AnyFilter | None) -> Steps[int]:
        kept = self._kept(document_id, "document_id")
        return self._told(self._port.update_metadata(kept, patch, within=self._narrow(within)))

    def _delete(self, ids: Sequence[str], within: AnyFilter | None) -> Steps[int]:
        return self._port.delete(self._kept_ids(ids, "ids"), within=self._narrow(within))

    def _remove(self, document_id: str, within: AnyFilter | None) -> Steps[int]:
        return self._port.remove(self._kept(document_id, "document_id"), within=self._narrow(within))

    def _remove_where(self, filter: AnyFilter) -> Steps[int]:
        # Judged before the scope is added: a caller who names nothing to remove has made a mistake in any scope.
        given = frozen_filter(filter)
        assert_removal_filter(given)
        return self._removed(given)

    def _removed(self, filter: AnyFilter) -> Steps[int]:
        if not (yield from self._has_twins(filter)):
            return (yield from self._port.remove_where(self._narrow(filter)))
        doomed = []
        merged = self._merged(filter)
        while page := (yield from merged.page()):
            doomed += [key for key, _ in page]
        return (yield from self._delete_kept(doomed, filter))

    def _delete_kept(self, kept: Sequence[str], within: AnyFilter | None) -> Steps[int]:
        """Delete records by the ids that the store behind all views keeps."""
        behind = getattr(self._store, "_delete_kept", self._port.delete)
        return int((yield from behind(kept, within=self._narrow(within))))

    # Reading --------------------------------------------------------------------------------------------------------

    def _get(self, ids: Sequence[str], within: AnyFilter | None) -> Steps[list[VectorRecord]]:
        return self._seen(self._port.get(self._kept_ids(ids, "ids"), within=self._narrow(within)))

    def _seen(self, steps: Steps[list[VectorRecord]]) -> Steps[list[VectorRecord]]:
        records = yield from steps
        return records if self._namespace is None else [self._namespace.stripped(record) for record in records]

    def _holds(self, kept: list[str], scope: AnyFilter) -> Steps[set[str]]:
        return {record.id for record in (yield from self._port.get(kept, within=scope))}

    def _search(
        self,
        embedding: Embedding,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        narrowed = self._narrow(filter)

        def ask(count: int, most: int | None = None) -> Steps[list[Passage]]:
            search = self._port.search
            return search(embedding, top_k=count, filter=narrowed, min_score=min_score, per_document=most)

        return self._ranked(ask, narrowed, top_k, per_document)

    def _ranked(self, ask: Any, narrowed: AnyFilter, top_k: int, per_document: int | None) -> Steps[list[Passage]]:
        if self._namespace is None:
            found: Steps[list[Passage]] = ask(top_k, per_document)
            return found
        wanted, most = check_top_k(top_k), check_per_document(per_document)
        holds = partial(self._holds, scope=hiding_scope(narrowed, self._scope))
        return self._namespace.ranked(ask, holds, top_k=wanted, per_document=most)

    def search_many(
        self,
        embeddings: Iterable[Embedding],
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[list[Passage]]:
        """Return what `search` returns for each of `embeddings`, in their order."""
        return run(self._search_many(embeddings, top_k, filter, min_score))

    async def asearch_many(
        self,
        embeddings: Iterable[Embedding],
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[list[Passage]]:
        """Async twin of `search_many`."""
        return await arun(self._search_many(embeddings, top_k, filter, min_score))

    def _search_many(
        self, embeddings: Iterable[Embedding], top_k: int, filter: AnyFilter | None, min_score: float | None
    ) -> Steps[list[list[Passage]]]:
        if self._namespace is None and self._port.offers("search_many"):
            method = self._port.method("search_many")
            options = {"top_k": top_k, "filter": self._narrow(filter), "min_score": min_score}
            return list((yield from method(embeddings, **options)))
        return (yield from together([self._search(one, top_k, filter, min_score, None) for one in embeddings], limit=8))

    def _list_documents(self, filter: AnyFilter | None) -> Steps[list[IndexedDocument]]:
        if not (yield from self._has_twins(filter)):
            listed = yield from self._port.list_documents(self._narrow(filter))
            if self._namespace is None:
                return listed
            return sorted((self._namespace.stripped(entry) for entry in listed), key=lambda entry: entry.id)
        first: dict[str, tuple[tuple[int, str, str], VectorRecord]] = {}
        merged = self._merged(filter)
        while page := (yield from merged.page()):
            for _, record in page:
                document_id, order = document_id_of(record.id), chunk_order_key(record.id)
                if document_id not in first or order < first[document_id][0]:
                    first[document_id] = (order, record)
        return [IndexedDocument(key, copy_metadata(first[key][1].metadata, where=key)) for key in sorted(first)]

    def _list_document_ids(self, filter: AnyFilter | None) -> Steps[list[str]]:
        if (yield from self._has_twins(filter)):
            return [entry.id for entry in (yield from self._list_documents(filter))]
        ids = yield from self._port.list_document_ids(self._narrow(filter))
        return ids if self._namespace is None else sorted({self._namespace.shown(key) for key in ids})

    def _check_model(self, model: str, fills: bool) -> Steps[None] | None:
        return self._port.method("check_model")(model, fills=fills) if self._port.offers("check_model") else None

    def _fingerprints(
        self, document_ids: Sequence[str], digests: bool, within: AnyFilter | None
    ) -> Steps[list[Fingerprint]]:
        method = self._port.method("fingerprints")
        kept = [self._kept(key, "document_ids") for key in document_ids]
        found = yield from method(kept, digests=digests, within=self._narrow(within))
        if self._namespace is None:
            return list(found)
        return [one._replace(id=self._namespace.shown(one.id)) for one in found]

    def patch_documents(
        self, patches: Mapping[str, MetadataPatch], *, within: AnyFilter | None = None
    ) -> dict[str, Patched | Exception]:
        """Patch many documents in scope; what became of each that there is. One that is refused is left as it is."""
        return run(self._patch_documents(patches, within))

    async def apatch_documents(
        self, patches: Mapping[str, MetadataPatch], *, within: AnyFilter | None = None
    ) -> dict[str, Patched | Exception]:
        """Async twin of `patch_documents`."""
        return await arun(self._patch_documents(patches, within))

    def _patch_documents(
        self, patches: Mapping[str, MetadataPatch], within: AnyFilter | None
    ) -> Steps[dict[str, Patched | Exception]]:
        shown = {self._kept(key, "document_id"): key for key in patches}
        kept = {key: patches[own] for key, own in shown.items()}
        done = yield from self._port.patch_documents(kept, within=self._narrow(within))
        # An error tells ids as they are kept; that it was refused is all there is to say.
        return {
            shown[key]: Patched(1, 0, True) if isinstance(one, ScopeViolationError) else one
            for key, one in done.items()
        }

    def _count(self, filter: AnyFilter | None) -> Steps[int]:
        if not (yield from self._has_twins(filter)):
            return (yield from self._port.count(self._narrow(filter)))
        total, merged = 0, self._merged(filter)
        while page := (yield from merged.page()):
            total += len(page)
        return total

    def _facets(self, key: str | Sequence[str], filter: AnyFilter | None, limit: int) -> Steps[Facets]:
        path, most = check_facets(key, limit)
        if self._port.offers("facets") and not (yield from self._has_twins(filter)):
            return (yield from self._port.facets(key, filter=self._narrow(filter), limit=limit))
        found: list[Any] = []
        merged = self._merged(filter)
        while page := (yield from merged.page()):
            found += [record.metadata for _, record in page]
        return most_frequent(count_facets(found, path).items(), most)

    def _scan(self, filter: AnyFilter | None) -> Steps[Any]:
        return self._page_of(self._merged(None if filter is None else frozen_filter(filter)))

    def _page_of(self, merged: _Merged) -> Steps[Any]:
        page = yield from merged.page()
        return [record for _, record in page], self._page_of(merged) if page else None

    def _merged(self, filter: AnyFilter | None) -> _Merged:
        return _Merged(self._store, self._namespace, self._scope, filter)

    def _has_twins(self, filter: AnyFilter | None) -> Steps[bool]:
        """Say whether a document of the namespace is shown under the same id as another in scope."""
        if self._namespace is None:
            return False
        hiding = bound_by(hiding_scope(self._narrow(filter), self._scope), None)
        ids = yield from self._port.list_document_ids(hiding)
        own = {shown for key in ids if (shown := self._namespace.own(key)) is not None}
        return any(key in own for key in ids if self._namespace.own(key) is None)

    def _check(self) -> Steps[Health]:
        health: Health = yield from self._port.method("check")()
        return health

    def close(self) -> None:
        """Do nothing: the store belongs to whoever opened it."""

    async def aclose(self) -> None:
        """Do nothing: the store belongs to whoever opened it."""


class ScopedLexicalVectorStore(LexicalOperations, ScopedVectorStore):
    """A view of a store that searches texts as well."""

    def _search_text(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
        syntax: Syntax | None,
    ) -> Steps[list[Passage]]:
        narrowed = self._narrow(filter)

        def ask(count: int, most: int | None = None) -> Steps[list[Passage]]:
            options = {"top_k": count, "min_score": min_score, "per_document": most, "syntax": syntax}
            return self._port.search_text(query, filter=narrowed, **options)  # type: ignore[arg-type]

        return self._ranked(ask, narrowed, top_k, per_document)

    def _search_hybrid(
        self,
        query: str,
        embedding: Embedding,
        top_k: int,
        fetch_top_k: int,
        k: float,
        weights: Sequence[float] | None,
        fusion: Fusion,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
        syntax: Syntax | None,
    ) -> Steps[list[Passage]]:
        options: dict[str, Any] = {"top_k": top_k, "fetch_top_k": fetch_top_k, "k": k, "weights": weights}
        options |= {"fusion": None if fusion == "rrf" else fusion, "filter": self._narrow(filter)}
        options |= {"min_score": min_score, "per_document": per_document, "syntax": syntax}
        if self._namespace is None and self._port.offers("search_hybrid"):
            method = self._port.method("search_hybrid")
            if all(value is None or method.names(name) for name, value in options.items()):
                return list((yield from method(query, embedding, **options)))
        answer = prepare_hybrid(
            top_k=top_k,
            fetch_top_k=fetch_top_k,
            k=k,
            weights=weights,
            fusion=fusion,
            min_score=min_score,
            per_document=per_document,
        )

        def fetch(count: int) -> Steps[list[list[Passage]]]:
            dense = self._search(embedding, count, filter, None, None)
            return together([dense, self._search_text(query, count, filter, None, None, syntax)])

        return (yield from answer(fetch))


_Pairs = list[tuple[str, VectorRecord]]


class _Merged:
    """A scan as it is seen through a view, in bounded memory, by the ids shown.

    A page holds pairs: the id that the store behind all views keeps, and the record as it is seen.
    """

    def __init__(self, store: Any, namespace: Namespace | None, scope: AnyFilter, filter: AnyFilter | None) -> None:
        narrowed = bound_by(scope, filter)
        self._namespace = namespace
        self._others = _Side(_source(store, narrowed))
        # What hides is asked of the scope, not of the filter: an id means one record, whether that matches or not.
        hiding = bound_by(hiding_scope(narrowed, scope), None)
        self._own = None if namespace is None else _Side(_source(store, hiding))
        self._matches = predicate(compile_filter(narrowed))

    def page(self) -> Steps[_Pairs]:
        """Return the next records, none at the end."""
        namespace, own, others = self._namespace, self._own, self._others
        if namespace is None or own is None:
            return (yield from others.read())
        page: _Pairs = []
        while len(page) < _PAGE:
            yield from own.fill(lambda key: namespace.own(key) is not None)
            yield from others.fill(lambda key: namespace.own(key) is None)
            mine, other = own.head, others.head
            if mine is None and other is None:
                break
            if mine is not None and (other is None or namespace.shown(mine[1].id) <= other[1].id):
                shown = namespace.stripped(mine[1])
                own.head = None
                if other is not None and shown.id == other[1].id:
                    others.head = None
                if self._matches(shown.metadata or {}):
                    page.append((mine[0], shown))
            elif other is not None:
                others.head = None
                page.append(other)
        return page


_PAGE = 256


def _source(store: Any, filter: AnyFilter) -> Callable[[], Steps[_Pairs]]:
    """Return what reads the next page of a store: of a view as it is seen there."""
    merged = getattr(store, "_merged", None)
    if merged is not None:
        page: Callable[[], Steps[_Pairs]] = merged(filter).page
        return page
    reader = StorePort(store).reader(filter)

    def plain() -> Steps[_Pairs]:
        return [(record.id, record) for record in (yield from reader.page())]

    return plain


class _Side:
    """One of the scans that are merged."""

    def __init__(self, read: Callable[[], Steps[_Pairs]]) -> None:
        self.read = read
        self._waiting: _Pairs = []
        self._ended = False
        self.head: tuple[str, VectorRecord] | None = None

    def fill(self, takes: Callable[[str], bool]) -> Steps[None]:
        """Put the next record that is taken, by the id seen behind, at the head, where none is."""
        while self.head is None and not self._ended:
            if not self._waiting:
                self._waiting = (yield from self.read())[::-1]
                self._ended = not self._waiting
            elif takes((pair := self._waiting.pop())[1].id):
                self.head = pair


def plain_values(scope: Expression) -> dict[str, JSON]:
    """Return the top-level keys that a scope fixes to one value each: what stamping writes."""
    children = scope.children if isinstance(scope, And) else (scope,)
    values: dict[str, JSON] = {}
    for child in children:
        if isinstance(child, Leaf) and child.operator is EQUALS and len(child.path) == 1:
            values[child.path[0]] = child.operand.value
    return values
