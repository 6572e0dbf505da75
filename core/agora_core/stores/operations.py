"""Stores that state each operation once: a base class gives both twins of every method."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, Final, Literal

from agora_core.errors import UnsupportedOperationError
from agora_core.filters import Expression
from agora_core.fusion import Fusion
from agora_core.metadata import MetadataPatch
from agora_core.protocols import AnyFilter
from agora_core.records import JSON, Embedding, IndexedDocument, Passage, VectorRecord
from agora_core.stores.base import BaseVectorStore, Health, OnWrite
from agora_core.stores.fingerprints import Fingerprint

if TYPE_CHECKING:
    from agora_core.stores.scoped import ScopedLexicalVectorStore

_BUILT_IN_PLACE: Final = 16
"""Up to this many records, ids or values are checked and encoded on the event loop; more go to a worker thread."""

Operation = Any
"""What `_run` and `_arun` of a class run: a generator of requests, or an object around one."""

Syntax = Literal["plain", "web"]


class OperationRunner:
    """The two methods that run what an operation method returns."""

    @abstractmethod
    def _run(self, operation: Operation) -> Any:
        """Run an operation from sync code and return its result."""

    @abstractmethod
    async def _arun(self, operation: Operation) -> Any:
        """Async twin of `_run`."""

    async def _abuild(self, build: Callable[..., Operation], given: tuple[object, ...], *arguments: Any) -> Any:
        """Build an operation and run it. Where much was `given` to check and to encode, that is done in a thread."""
        return await self._arun(await self._abuilt(build, given, *arguments))

    async def _abuilt(self, build: Callable[..., Operation], given: tuple[object, ...], *arguments: Any) -> Operation:
        return await asyncio.to_thread(build, *arguments) if any(map(_is_long, given)) else build(*arguments)


def _is_long(given: object) -> bool:
    """Say whether there is much in records, ids or a filter; what only an iteration would tell counts as much."""
    if isinstance(given, (str, bytes)):
        return False
    if isinstance(given, Expression):
        parts = getattr(given, "children", None) or (getattr(given, "child", None), getattr(given, "operand", None))
        return len(parts) > _BUILT_IN_PLACE or any(map(_is_long, parts))
    if isinstance(given, Mapping):
        return len(given) > _BUILT_IN_PLACE or any(map(_is_long, given.values()))
    return len(given) > _BUILT_IN_PLACE if isinstance(given, Sized) else isinstance(given, Iterable)


class OperationStore(BaseVectorStore, OperationRunner):
    """A store whose subclass states each operation once, by a method with an underscore that returns it.

    What such a method returns is up to the class: `_run` and `_arun` run it. A method over records must validate and
    encode them before it returns, not when the operation is run, so that async code can do this in a worker thread.
    """

    @abstractmethod
    def _upsert(self, records: Iterable[VectorRecord], within: AnyFilter | None) -> Operation: ...

    @abstractmethod
    def _search(
        self,
        embedding: Embedding,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Operation: ...

    @abstractmethod
    def _get(self, ids: Sequence[str], within: AnyFilter | None) -> Operation: ...

    @abstractmethod
    def _delete(self, ids: Sequence[str], within: AnyFilter | None) -> Operation: ...

    @abstractmethod
    def _remove(self, document_id: str, within: AnyFilter | None) -> Operation: ...

    @abstractmethod
    def _remove_where(self, filter: AnyFilter) -> Operation: ...

    @abstractmethod
    def _replace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], within: AnyFilter | None
    ) -> Operation: ...

    @abstractmethod
    def _update_metadata(self, document_id: str, patch: MetadataPatch, within: AnyFilter | None) -> Operation: ...

    @abstractmethod
    def _list_documents(self, filter: AnyFilter | None) -> Operation: ...

    @abstractmethod
    def _list_document_ids(self, filter: AnyFilter | None) -> Operation: ...

    @abstractmethod
    def _count(self, filter: AnyFilter | None) -> Operation: ...

    @abstractmethod
    def _scan(self, filter: AnyFilter | None) -> Operation:
        """Read the first page of a scan. The result is a page and the operation of the next one, None after the last.

        The filter is compiled and checked here, not when the operation is run.
        """

    @abstractmethod
    def _facets(self, key: str | Sequence[str], filter: AnyFilter | None, limit: int) -> Operation: ...

    @abstractmethod
    def _check(self) -> Operation: ...

    def _check_model(self, model: str, fills: bool) -> Operation | None:
        return None

    def _fingerprints(self, document_ids: Sequence[str], digests: bool, within: AnyFilter | None) -> Operation:
        raise UnsupportedOperationError(f"{type(self).__name__} gives no fingerprints of its records")

    def check_model(self, model: str, *, fills: bool = False) -> None:
        """Refuse an embedding model that is not the one that filled this store; see `BaseVectorStore.check_model`."""
        if (operation := self._check_model(model, fills)) is not None:
            self._run(operation)

    async def acheck_model(self, model: str, *, fills: bool = False) -> None:
        """Async twin of `check_model`."""
        if (operation := self._check_model(model, fills)) is not None:
            await self._arun(operation)

    def fingerprints(
        self, document_ids: Sequence[str], *, digests: bool = True, within: AnyFilter | None = None
    ) -> list[Fingerprint]:
        """Return one small row for each chunk of these documents, in no order; digests are computed by the store.

        Args:
            document_ids: of the documents; what is missing is left out.
            digests: False leaves texts alone altogether, and gives None for their digests.
            within: chunks outside it are left out.
        """
        return list(self._run(self._fingerprints(document_ids, digests, within)))

    async def afingerprints(
        self, document_ids: Sequence[str], *, digests: bool = True, within: AnyFilter | None = None
    ) -> list[Fingerprint]:
        """Async twin of `fingerprints`."""
        return list(await self._abuild(self._fingerprints, (document_ids, within), document_ids, digests, within))

    def upsert(self, records: Iterable[VectorRecord], *, within: AnyFilter | None = None) -> int:
        """Insert the records, replacing those with the same id; see `BaseVectorStore.upsert`."""
        return int(self._run(self._upsert(records, within)))

    async def aupsert(self, records: Iterable[VectorRecord], *, within: AnyFilter | None = None) -> int:
        """Async twin of `upsert`."""
        return int(await self._abuild(self._upsert, (records, within), records, within))

    def search(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Passage]:
        """Return the `top_k` matching records of highest score, best first; see `BaseVectorStore.search`."""
        return list(self._run(self._search(embedding, top_k, filter, min_score, per_document)))

    async def asearch(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Passage]:
        """Async twin of `search`."""
        return list(await self._abuild(self._search, (filter,), embedding, top_k, filter, min_score, per_document))

    def get(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> list[VectorRecord]:
        """Return the records with these ids in the order asked; see `BaseVectorStore.get`."""
        return list(self._run(self._get(ids, within)))

    async def aget(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> list[VectorRecord]:
        """Async twin of `get`."""
        return list(await self._abuild(self._get, (ids, within), ids, within))

    def delete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> int:
        """Delete the records with these ids. Return how many there were."""
        return int(self._run(self._delete(ids, within)))

    async def adelete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> int:
        """Async twin of `delete`."""
        return int(await self._abuild(self._delete, (ids, within), ids, within))

    def remove(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        """Remove every chunk of a document. Return how many there were."""
        return int(self._run(self._remove(document_id, within)))

    async def aremove(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        """Async twin of `remove`."""
        return int(await self._abuild(self._remove, (within,), document_id, within))

    def remove_where(self, filter: AnyFilter) -> int:
        """Remove every record that matches; see `BaseVectorStore.remove_where`."""
        return int(self._run(self._remove_where(filter)))

    async def aremove_where(self, filter: AnyFilter) -> int:
        """Async twin of `remove_where`."""
        return int(await self._abuild(self._remove_where, (filter,), filter))

    def replace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], *, within: AnyFilter | None = None
    ) -> int:
        """Put `records` in the place of every chunk of `document_ids`; see `BaseVectorStore.replace_documents`."""
        return int(self._run(self._replace_documents(document_ids, records, within)))

    async def areplace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], *, within: AnyFilter | None = None
    ) -> int:
        """Async twin of `replace_documents`."""
        return int(
            await self._abuild(self._replace_documents, (document_ids, records, within), document_ids, records, within)
        )

    def update_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        """Patch the metadata of every chunk of a document; see `BaseVectorStore.update_metadata`."""
        return int(self._run(self._update_metadata(document_id, patch, within)))

    async def aupdate_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        """Async twin of `update_metadata`."""
        return int(await self._abuild(self._update_metadata, (patch, within), document_id, patch, within))

    def list_documents(self, filter: AnyFilter | None = None) -> list[IndexedDocument]:
        """Return the documents with a matching chunk; see `BaseVectorStore.list_documents`."""
        return list(self._run(self._list_documents(filter)))

    async def alist_documents(self, filter: AnyFilter | None = None) -> list[IndexedDocument]:
        """Async twin of `list_documents`."""
        return list(await self._abuild(self._list_documents, (filter,), filter))

    def list_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        """Return the ids of the documents with a matching chunk, in code-point order."""
        return list(self._run(self._list_document_ids(filter)))

    async def alist_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        """Async twin of `list_document_ids`."""
        return list(await self._abuild(self._list_document_ids, (filter,), filter))

    def count(self, filter: AnyFilter | None = None) -> int:
        """Return how many records match, exactly."""
        return int(self._run(self._count(filter)))

    async def acount(self, filter: AnyFilter | None = None) -> int:
        """Async twin of `count`."""
        return int(await self._abuild(self._count, (filter,), filter))

    def scan(self, filter: AnyFilter | None = None) -> Iterator[VectorRecord]:
        """Iterate over the matching records in code-point order of ids, in bounded memory."""
        return self._pages(self._scan(filter))

    def _pages(self, operation: Operation | None) -> Iterator[VectorRecord]:
        while operation is not None:
            page, operation = self._run(operation)
            yield from page

    async def ascan(self, filter: AnyFilter | None = None) -> AsyncIterator[VectorRecord]:
        """Async twin of `scan`."""
        operation = await self._abuilt(self._scan, (filter,), filter)
        while operation is not None:
            page, operation = await self._arun(operation)
            for record in page:
                yield record

    def facets(
        self, key: str | Sequence[str], *, filter: AnyFilter | None = None, limit: int = 20
    ) -> list[tuple[JSON, int]]:
        """Return how often each value of a key occurs; see `BaseVectorStore.facets`."""
        return list(self._run(self._facets(key, filter, limit)))

    async def afacets(
        self, key: str | Sequence[str], *, filter: AnyFilter | None = None, limit: int = 20
    ) -> list[tuple[JSON, int]]:
        """Async twin of `facets`."""
        return list(await self._abuild(self._facets, (filter,), key, filter, limit))

    def check(self) -> Health:
        """Say whether the store can be reached and is as it should be; see `Health`. Nothing is written."""
        health: Health = self._run(self._check())
        return health

    async def acheck(self) -> Health:
        """Async twin of `check`."""
        health: Health = await self._arun(self._check())
        return health


class LexicalOperations(OperationRunner):
    """Both twins of text search, for a store that states `_search_text` and `_search_hybrid` once."""

    @abstractmethod
    def _search_text(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
        syntax: Syntax | None,
    ) -> Operation: ...

    @abstractmethod
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
    ) -> Operation: ...

    def search_text(
        self,
        query: str,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
        syntax: Syntax | None = None,
    ) -> list[Passage]:
        """Return the `top_k` matching records whose text answers `query` best; a blank query finds nothing.

        Scores are above 0; equal ones are in code-point order of ids. A record without any term of the query is never
        returned.

        Args:
            query: what a user typed.
            top_k: 1 or more.
            filter: a mapping or an expression; None searches without one.
            min_score: keep `score >= min_score`; None keeps all.
            per_document: at most this many passages of one document, 1 or more; None bounds nothing.
            syntax: `plain` reads every character as text, `web` reads `"a phrase"` and `-word`; None is the store's.
        """
        return list(self._run(self._search_text(query, top_k, filter, min_score, per_document, syntax)))

    async def asearch_text(
        self,
        query: str,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
        syntax: Syntax | None = None,
    ) -> list[Passage]:
        """Async twin of `search_text`."""
        return list(
            await self._abuild(self._search_text, (filter,), query, top_k, filter, min_score, per_document, syntax)
        )

    def search_hybrid(
        self,
        query: str,
        embedding: Embedding,
        *,
        top_k: int,
        fetch_top_k: int = 20,
        k: float = 60,
        weights: Sequence[float] | None = None,
        fusion: Fusion = "rrf",
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
        syntax: Syntax | None = None,
    ) -> list[Passage]:
        """Search by embedding and by text in one call, and fuse both lists.

        The ranking is that of a `HybridRetriever` over an `EmbeddingRetriever` and a `LexicalRetriever` of this store.

        Args:
            query: the text.
            embedding: shape (dimension,).
            top_k: 1 or more.
            fetch_top_k: how many each list brings; raised to `top_k`.
            k: of `reciprocal_rank_fusion`; other fusions do not use it.
            weights: those of the embedding and of the text, 0 or more; None weighs both alike.
            fusion: how the lists become one; see `HybridRetriever`.
            filter: bounds both lists.
            min_score: a floor on the fused score.
            per_document: at most this many passages of one document in the fused list; None bounds nothing.
            syntax: how the query is read; see `search_text`.
        """
        operation = self._search_hybrid(
            query, embedding, top_k, fetch_top_k, k, weights, fusion, filter, min_score, per_document, syntax
        )
        return list(self._run(operation))

    async def asearch_hybrid(
        self,
        query: str,
        embedding: Embedding,
        *,
        top_k: int,
        fetch_top_k: int = 20,
        k: float = 60,
        weights: Sequence[float] | None = None,
        fusion: Fusion = "rrf",
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
        syntax: Syntax | None = None,
    ) -> list[Passage]:
        """Async twin of `search_hybrid`."""
        arguments = query, embedding, top_k, fetch_top_k, k, weights, fusion, filter, min_score, per_document, syntax
        return list(await self._abuild(self._search_hybrid, (filter,), *arguments))

    def scoped(
        self, filter: AnyFilter, *, on_write: OnWrite = "check", namespace: str | None = None
    ) -> ScopedLexicalVectorStore:
        """Return a view of this store that no argument can widen beyond `filter`; see `BaseVectorStore.scoped`."""
        from agora_core.stores.scoped import ScopedLexicalVectorStore

        return ScopedLexicalVectorStore(self, filter, on_write=on_write, namespace=namespace)
