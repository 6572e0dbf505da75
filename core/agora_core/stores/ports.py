"""Somebody's vector store as views, retrievers and ingestion ask it: typed steps, known options, nothing unasked."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from agora_core.calling import Method, acall_function, call, offers
from agora_core.errors import AgoraError, UnsupportedOperationError
from agora_core.filters import Expression
from agora_core.metadata import MetadataPatch
from agora_core.protocols import AnyFilter
from agora_core.records import JSON, Embedding, IndexedDocument, Metadata, Passage, VectorRecord, document_id_of
from agora_core.steps import Call, Steps
from agora_core.stores.fingerprints import Patched, is_effective
from agora_core.stores.per_document import grow

_PAGE: Final = 256


class StorePort:
    """A vector store: any object with some of the methods of one, sync or async. Each is resolved at its first use.

    What is None is not passed on. A method or an option that the store lacks is refused where it is asked for.
    """

    def __init__(self, store: object) -> None:
        self.store = store
        self._methods: dict[str, Method] = {}

    def offers(self, name: str) -> bool:
        """Say whether the store has the method, sync or async."""
        return offers(self.store, name)

    def method(self, name: str) -> Method:
        """Return a method.

        Raises:
            UnsupportedOperationError: the store lacks it.
        """
        method = self._methods.get(name)
        if method is None:
            method = self._methods[name] = Method(self.store, name)
        return method

    def scope(self) -> Expression | None:
        """Return what bounds the store.

        Raises:
            UnsupportedOperationError: the store does not say, so that nothing may be kept beside it.
        """
        try:
            scope: Expression | None = self.store.scope  # type: ignore[attr-defined]
        except AttributeError:
            raise UnsupportedOperationError(
                f"{type(self.store).__name__} has no attribute 'scope', so what bounds it is not known and nothing can "
                "be kept in step beside it; give it one: None where nothing bounds it, else the bounding filter"
            ) from None
        return scope

    def _bounded(self, name: str, within: AnyFilter | None, *arguments: Any) -> Steps[Any]:
        method = self.method(name)
        if within is not None and not method.knows("within"):
            raise UnsupportedOperationError(
                f"{type(self.store).__name__}.{name} takes no `within`, so it cannot be kept in scope; "
                "add the argument (see BaseVectorStore), or call by filter"
            )
        return method(*arguments, within=within)

    def upsert(self, records: Iterable[VectorRecord], *, within: AnyFilter | None = None) -> Steps[Any]:
        """Upsert records."""
        return self._bounded("upsert", within, records)

    def get(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> Steps[list[VectorRecord]]:
        """Get records by id."""
        return list((yield from self._bounded("get", within, ids)))

    def delete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> Steps[int]:
        """Delete records by id."""
        return int((yield from self._bounded("delete", within, ids)) or 0)

    def remove(self, document_id: str, *, within: AnyFilter | None = None) -> Steps[int]:
        """Remove a document."""
        return int((yield from self._bounded("remove", within, document_id)) or 0)

    def replace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], *, within: AnyFilter | None = None
    ) -> Steps[int]:
        """Replace documents."""
        return int((yield from self._bounded("replace_documents", within, document_ids, records)) or 0)

    def check_model(self, model: str | None, *, fills: bool = False) -> Steps[None]:
        """Refuse a model that did not fill the store; one without a name, and a store that remembers none, pass."""
        if model is not None and self.offers("check_model"):
            yield from self.method("check_model")(model, fills=fills)

    def update_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> Steps[int]:
        """Patch a document."""
        return int((yield from self._bounded("update_metadata", within, document_id, patch)) or 0)

    def patch_documents(
        self, patches: Mapping[str, MetadataPatch], *, within: AnyFilter | None = None
    ) -> Steps[dict[str, Patched | Exception]]:
        """Patch many documents; what became of each that there is, in one statement where the store can.

        A document whose patch is refused has the error in its place, or is `refused`; the others are patched.
        """
        if self.offers("patch_documents"):
            return dict((yield from self._bounded("patch_documents", within, patches)))
        known: dict[str, list[Metadata | None]] | None = None
        if self.offers("fingerprints"):
            known = {}
            for one in (yield from self.method("fingerprints")(list(patches), digests=False, within=within)):
                known.setdefault(document_id_of(one.id), []).append(one.metadata)
        done: dict[str, Patched | Exception] = {}
        for key, patch in patches.items():
            found = None if known is None else known.get(key, [])
            if found is not None and not any(is_effective(patch, metadata) for metadata in found):
                if found:
                    done[key] = Patched(len(found), 0)
                continue
            try:
                changed = yield from self.update_metadata(key, patch, within=within)
            except AgoraError as error:
                done[key] = error
            else:
                if changed or found:
                    done[key] = Patched(len(found or ()) or changed, changed)
        return done

    def remove_where(self, filter: AnyFilter) -> Steps[int]:
        """Remove what matches."""
        return int((yield from self.method("remove_where")(filter)) or 0)

    def _filtered(self, name: str, filter: AnyFilter | None, **options: Any) -> Steps[Any]:
        return self.method(name)(*(() if filter is None else (filter,)), **options)

    def list_documents(self, filter: AnyFilter | None = None) -> Steps[list[IndexedDocument]]:
        """List documents."""
        return list((yield from self._filtered("list_documents", filter)))

    def list_document_ids(self, filter: AnyFilter | None = None) -> Steps[list[str]]:
        """List the ids of documents, from `list_documents` where the store has nothing better."""
        if self.offers("list_document_ids"):
            return list((yield from self._filtered("list_document_ids", filter)))
        return [entry.id for entry in (yield from self.list_documents(filter))]

    def count(self, filter: AnyFilter | None = None) -> Steps[int]:
        """Count what matches."""
        return int((yield from self._filtered("count", filter)))

    def facets(
        self, key: str | Sequence[str], *, filter: AnyFilter | None = None, limit: int = 20
    ) -> Steps[list[tuple[JSON, int]]]:
        """Count the values of a key."""
        return list((yield from self.method("facets")(key, filter=filter, limit=limit)))

    def search(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> Steps[list[Passage]]:
        """Search by embedding. A store that knows no `per_document` is asked for a longer list."""
        method = self.method("search")
        return self._ranked(method, embedding, top_k, per_document, filter=filter, min_score=min_score)

    def search_text(
        self,
        query: str,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
        syntax: str | None = None,
    ) -> Steps[list[Passage]]:
        """Search by text. What the store knows no option for, floor and cut by document, is done here."""
        method = self.method("search_text")
        if min_score is None or method.names("min_score"):
            options = {"filter": filter, "min_score": min_score, "syntax": syntax}
            return (yield from self._ranked(method, query, top_k, per_document, **options))
        # Rows come ordered by the score the floor is on, so that flooring after the cut keeps the same rows.
        found = yield from self._ranked(method, query, top_k, per_document, filter=filter, syntax=syntax)
        return [passage for passage in found if passage.score >= min_score]

    def _ranked(
        self, method: Method, query: Any, top_k: int, per_document: int | None, **options: Any
    ) -> Steps[list[Passage]]:
        def fetch(count: int) -> Steps[list[Passage]]:
            return list((yield from method(query, top_k=count, **options)))

        if per_document is not None and method.names("per_document"):
            return list((yield from method(query, top_k=top_k, per_document=per_document, **options)))
        if per_document is None:
            return (yield from fetch(top_k))
        return (yield from grow(fetch, top_k=top_k, per_document=per_document))

    def reader(self, filter: AnyFilter | None = None) -> Reader:
        """Begin a scan, to be read page by page."""
        return Reader(self.store, filter)


class Reader:
    """A scan under way: `page = yield from reader.page()`, empty at the end. Reading stops with `close` or `aclose`."""

    def __init__(self, store: object, filter: AnyFilter | None) -> None:
        """Prepare a scan; a store without `scan` and `ascan` is refused.

        A filter that could not be built is refused at once by a store that checks it at the call, as those here do.
        """
        method = Method(store, "scan")
        self._store, self._arguments = store, () if filter is None else (filter,)
        self._name = method.name
        self._sync: Any = None
        self._async: Any = None

    def page(self) -> Steps[list[VectorRecord]]:
        """Return the next records, up to 256."""
        answer: list[VectorRecord] = yield Call(self._next, self._anext)
        return answer

    def _next(self) -> list[VectorRecord]:
        if self._sync is None:
            self._sync = iter(call(self._store, self._name, *self._arguments))
        return list(itertools.islice(self._sync, _PAGE))

    async def _anext(self) -> list[VectorRecord]:
        if self._async is None and not callable(getattr(self._store, "ascan", None)):
            return list(await acall_function(partial(self._next)))
        if self._async is None:
            self._async = self._store.ascan(*self._arguments)  # type: ignore[attr-defined]
        page: list[VectorRecord] = []
        async for record in self._async:
            page.append(record)
            if len(page) == _PAGE:
                break
        return page
