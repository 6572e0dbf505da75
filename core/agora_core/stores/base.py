"""What every shipped store has in common: async twins, context managers, and scoped views."""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from agora_core.events import watch_methods
from agora_core.metadata import MetadataPatch
from agora_core.protocols import AnyFilter
from agora_core.records import JSON, Embedding, IndexedDocument, Passage, VectorRecord
from agora_core.stores.facets import check_facets, count_facets, most_frequent

if TYPE_CHECKING:
    from typing_extensions import Self

    from agora_core.filters import Expression
    from agora_core.stores.scoped import ScopedVectorStore

StoreT = TypeVar("StoreT", bound="BaseVectorStore")

_EVENTS: Final = {
    **dict.fromkeys(("search", "asearch", "search_text", "asearch_text"), "search"),
    **dict.fromkeys(("search_hybrid", "asearch_hybrid"), "search"),
    **dict.fromkeys(("upsert", "aupsert", "replace_documents", "areplace_documents"), "upsert"),
}
OnWrite = Literal["check", "stamp"]


@dataclass(frozen=True, slots=True)
class Health:
    """What `check` found out about a store. No secret is in it: no password, no value of a record.

    Examples:
        >>> store.check().ok, store.check().counts["records"]
        (True, 2)
    """

    ok: bool
    """Whether the store answers and is as it was told to be."""
    detail: str
    """One sentence: what is wrong, or that nothing is."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The versions of what is behind the store, by name (`server`, `pgvector`, ...)."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Numbers that the store can tell cheaply, by name (`records`, ...)."""


class BaseVectorStore(ABC):
    """The full contract of a store. Subclasses give the sync methods; each async twin runs them in a worker thread
    until it is overridden by a native one.

    `filter` selects records. `within` bounds what a call by id or by document may touch: records outside it are left
    alone by reads and removals, and make a write fail with `ScopeViolationError` before anything is written.

    Examples:
        >>> isinstance(store, BaseVectorStore), issubclass(PgVectorStore, BaseVectorStore)
        (True, True)
    """

    metric: str
    """`cosine`, `l2` or `inner`."""
    dimension: int | None
    """The length of embeddings; None until the first record tells it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        watch_methods(cls, _EVENTS, root=BaseVectorStore)

    @property
    def scope(self) -> Expression | None:
        """What bounds this store: None where nothing does, else the whole conjunction of all views stacked here.

        Whoever keeps something beside a store takes its bound from here.
        """
        return None

    @property
    def namespace(self) -> str | None:
        """The namespace that ids seen through this store live in; None for none."""
        return None

    @abstractmethod
    def upsert(self, records: Iterable[VectorRecord], *, within: AnyFilter | None = None) -> int:
        """Insert the records, replacing those with the same id; all or nothing. Return how many were written.

        Of records with one id the last wins.

        Raises:
            InvalidMetadataError, InvalidEmbeddingError, DimensionMismatchError: a record is not storable.
            ScopeViolationError: a record, or the one it would replace, does not match `within`.
        """

    @abstractmethod
    def search(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Passage]:
        """Return the `top_k` matching records of highest score, best first, equal scores in code-point order of ids.

        Args:
            embedding: shape (dimension,).
            top_k: 1 or more; fewer come back only where fewer match.
            filter: a mapping or an expression; None retrieves without one, `{}` matches everything.
            min_score: keep `score >= min_score`; None keeps all.
            per_document: at most this many of one document, exactly as a cut of the whole ranking; None bounds nothing.
        """

    @abstractmethod
    def get(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> list[VectorRecord]:
        """Return the records with these ids in the order asked, each once; what is missing is left out."""

    @abstractmethod
    def delete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> int:
        """Delete the records with these ids. Return how many there were."""

    @abstractmethod
    def remove(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        """Remove every chunk whose `document_id_of` is `document_id`. Return how many there were."""

    @abstractmethod
    def remove_where(self, filter: AnyFilter) -> int:
        """Remove every record that matches. Return how many there were; a filter that denies all removes none.

        Raises:
            UnsafeRemovalError: the filter bounds nothing.
        """

    @abstractmethod
    def replace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], *, within: AnyFilter | None = None
    ) -> int:
        """Put `records` in the place of every chunk of `document_ids`, in one step. Return how many were written.

        A record of a document that is not listed is upserted. An empty `records` removes the documents.
        """

    @abstractmethod
    def update_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        """Patch the metadata of every chunk of a document (see `apply_metadata_patch`); text and embedding stay.

        Return the number of chunks written: 0 for an unknown document or a patch without effective keys.

        Raises:
            InvalidMetadataError: the patch holds something that is not JSON.
            ScopeViolationError: the patch would move a chunk out of `within`.
        """

    @abstractmethod
    def list_documents(self, filter: AnyFilter | None = None) -> list[IndexedDocument]:
        """Return the documents with a matching chunk, in code-point order of ids.

        Each reports the metadata of its matching chunk with the smallest number.
        """

    @abstractmethod
    def list_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        """Return the ids of the documents with a matching chunk, in code-point order."""

    @abstractmethod
    def count(self, filter: AnyFilter | None = None) -> int:
        """Return how many records match, exactly."""

    @abstractmethod
    def scan(self, filter: AnyFilter | None = None) -> Iterator[VectorRecord]:
        """Iterate over the matching records in code-point order of ids, in bounded memory."""

    def facets(
        self, key: str | Sequence[str], *, filter: AnyFilter | None = None, limit: int = 20
    ) -> list[tuple[JSON, int]]:
        """Return the values of a metadata key with the number of matching records that have each, exactly.

        Most frequent first, equal counts in code-point order of the values' JSON (sorted keys, no spaces, not
        escaped). Each distinct member of a list counts once a record; `1` and `1.0` are one value, given as `1`.

        Args:
            key: as `field` reads it: a dot steps into an object, a list of str is one segment an item.
            filter: a mapping or an expression; None counts over all records.
            limit: the most values to return, 1 or more.

        Raises:
            InvalidFilterError, InvalidArgumentError: an argument is not as described.
        """
        path, most = check_facets(key, limit)
        return most_frequent(count_facets((record.metadata for record in self.scan(filter)), path).items(), most)

    def check(self) -> Health:
        """Say whether the store answers, and how many records it holds; never raises, and touches nothing."""
        try:
            return Health(True, "the store answers", {}, {"records": self.count()})
        except Exception as error:
            # What a backend says may hold an address with a password; its class does not.
            return Health(False, f"the store does not answer: {type(error).__name__}")

    async def acheck(self) -> Health:
        """Async twin of `check`."""
        return await asyncio.to_thread(self.check)

    def check_model(self, model: str, *, fills: bool = False) -> None:  # noqa: B027 - a store may remember no model
        """Refuse an embedding model that is not the one that filled this store.

        Args:
            model: the name of the embedder's model, its attribute `model`.
            fills: remember it, where no model is known yet.

        Raises:
            EmbeddingModelError: another model filled the store; both are named.
        """

    async def acheck_model(self, model: str, *, fills: bool = False) -> None:
        """Async twin of `check_model`."""
        await asyncio.to_thread(self.check_model, model, fills=fills)

    def close(self) -> None:  # noqa: B027 - a store that opened nothing has nothing to do
        """Release what this store opened itself. Closing twice is allowed."""

    async def aupsert(self, records: Iterable[VectorRecord], *, within: AnyFilter | None = None) -> int:
        """Async twin of `upsert`."""
        return await asyncio.to_thread(self.upsert, records, within=within)

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
        # A store of an older contract may not know the last one.
        options: dict[str, Any] = {} if per_document is None else {"per_document": per_document}
        return await asyncio.to_thread(
            self.search, embedding, top_k=top_k, filter=filter, min_score=min_score, **options
        )

    async def aget(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> list[VectorRecord]:
        """Async twin of `get`."""
        return await asyncio.to_thread(self.get, ids, within=within)

    async def adelete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> int:
        """Async twin of `delete`."""
        return await asyncio.to_thread(self.delete, ids, within=within)

    async def aremove(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        """Async twin of `remove`."""
        return await asyncio.to_thread(self.remove, document_id, within=within)

    async def aremove_where(self, filter: AnyFilter) -> int:
        """Async twin of `remove_where`."""
        return await asyncio.to_thread(self.remove_where, filter)

    async def areplace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], *, within: AnyFilter | None = None
    ) -> int:
        """Async twin of `replace_documents`."""
        return await asyncio.to_thread(self.replace_documents, document_ids, records, within=within)

    async def aupdate_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        """Async twin of `update_metadata`."""
        return await asyncio.to_thread(self.update_metadata, document_id, patch, within=within)

    async def alist_documents(self, filter: AnyFilter | None = None) -> list[IndexedDocument]:
        """Async twin of `list_documents`."""
        return await asyncio.to_thread(self.list_documents, filter)

    async def alist_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        """Async twin of `list_document_ids`."""
        return await asyncio.to_thread(self.list_document_ids, filter)

    async def acount(self, filter: AnyFilter | None = None) -> int:
        """Async twin of `count`."""
        return await asyncio.to_thread(self.count, filter)

    async def afacets(
        self, key: str | Sequence[str], *, filter: AnyFilter | None = None, limit: int = 20
    ) -> list[tuple[JSON, int]]:
        """Async twin of `facets`."""
        return await asyncio.to_thread(self.facets, key, filter=filter, limit=limit)

    async def ascan(self, filter: AnyFilter | None = None) -> AsyncIterator[VectorRecord]:
        """Async twin of `scan`."""
        records = self.scan(filter)
        while batch := await asyncio.to_thread(_take, records, 256):
            for record in batch:
                yield record

    async def aclose(self) -> None:
        """Async twin of `close`."""
        await asyncio.to_thread(self.close)

    def scoped(
        self, filter: AnyFilter, *, on_write: OnWrite = "check", namespace: str | None = None
    ) -> ScopedVectorStore:
        """Return a view of this store that no argument can widen beyond `filter`.

        Args:
            filter: what the view may see and touch.
            on_write: `check` refuses a record outside the scope, `stamp` writes the scope's plain values into it.
            namespace: the ids of records and documents written and named through the view live in this namespace, so
                that others may have the same ones. They are kept with it (`name`, U+001F, id) and shown without it.
                Records in scope without it are shown under their full ids, where none of the namespace has the same.
        """
        from agora_core.stores.scoped import ScopedVectorStore

        return ScopedVectorStore(self, filter, on_write=on_write, namespace=namespace)

    def stamped(self, records: Iterable[VectorRecord]) -> list[VectorRecord]:
        """Return records as a write through this object stores them; a view may stamp them and change their ids.

        For whoever keeps something else in step with the store, a keyword index for instance.
        """
        return list(records)

    def stored_ids(self, ids: Iterable[str]) -> list[str]:
        """Return the ids that are kept for ids as they are seen here; a view of a namespace changes them."""
        return list(ids)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


def _take(records: Iterator[VectorRecord], most: int) -> list[VectorRecord]:
    return list(itertools.islice(records, most))
