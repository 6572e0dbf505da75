"""The Qdrant store: each operation validates its arguments and returns its steps; the base class runs both twins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from agora_core.errors import EmbeddingModelError, InvalidArgumentError
from agora_core.filters import removal_filter
from agora_core.metadata import MetadataPatch, validate_patch
from agora_core.protocols import AnyFilter
from agora_core.records import JSON, Embedding, Passage, VectorRecord
from agora_core.steps import Steps
from agora_core.stores.facets import Facets, check_facets
from agora_core.stores.fingerprints import Fingerprint
from agora_core.stores.per_document import check_per_document
from agora_core.stores.qdrant import programs, ranking
from agora_core.stores.qdrant.collection import keep_model, model_of
from agora_core.stores.qdrant.filters import CompiledFilter, compile_for_qdrant
from agora_core.stores.qdrant.handle import QdrantCollection
from agora_core.validation import (
    RecordBatch,
    check_id,
    check_ids,
    check_min_score,
    check_top_k,
    prepare_embedding,
    prepare_records,
)

T = TypeVar("T")

_SCAN_BATCH = 128
_QUERY_BATCH = 32


class QdrantStore(QdrantCollection):
    """A vector store in one Qdrant collection: in this process (`":memory:"`, a path), on a server or on a cluster.

    Nothing is opened before the first use, and only what the store opened itself is closed with it. Async methods are
    native where a URL or an `async_client` was given; with a sync client, and in local mode, they run in a worker
    thread. Writes wait until they can be read. An upsert goes in batches: where one fails, earlier ones stay, and
    repeating the call completes it. Under cosine embeddings come back with length 1.

    Examples:
        >>> with QdrantStore(":memory:", collection="faq", dimension=2) as points:
        ...     points.ensure_collection()
        ...     points.upsert([VectorRecord("faq#0", "Returns are free.", [1.0, 0.0])])
        ...     points.count()
        1
        1
    """

    _model: str | None = None

    def _upsert(self, records: Iterable[VectorRecord], within: AnyFilter | None) -> Steps[int]:
        return self._write(prepare_records(records, dimension=self.dimension), _bound(within, self._settings.local))

    def _write(self, batch: RecordBatch, bound: CompiledFilter | None) -> Steps[int]:
        if not len(batch):
            return 0
        yield from self._index(batch.metadata)
        conditional = yield from self._conditions(bound)
        return (yield from programs.upsert(self._settings, batch, bound, conditional=conditional))

    def _search(
        self,
        embedding: Embedding,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        vector = prepare_embedding(embedding, dimension=self.dimension)
        most, floor, compiled = (
            check_top_k(top_k),
            check_min_score(min_score),
            compile_for_qdrant(filter, local=self._settings.local),
        )
        each = check_per_document(per_document)
        if compiled.denies:
            return _nothing([])
        return ranking.search(self._settings, vector, compiled, most, floor, each)

    def search_many(
        self,
        embeddings: Iterable[Embedding],
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[list[Passage]]:
        """Return what `search` returns for each of `embeddings`, in their order; 32 queries travel in one request.

        Raises:
            DimensionMismatchError, InvalidEmbeddingError, InvalidFilterError, InvalidArgumentError: an argument is
                not as described.
        """
        return self._run(self._search_many(embeddings, top_k, filter, min_score))

    async def asearch_many(
        self,
        embeddings: Iterable[Embedding],
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[list[Passage]]:
        """Async twin of `search_many`."""
        return await self._arun(self._search_many(embeddings, top_k, filter, min_score))

    def _search_many(
        self, embeddings: Iterable[Embedding], top_k: int, filter: AnyFilter | None, min_score: float | None
    ) -> Steps[list[list[Passage]]]:
        most, floor, compiled = (
            check_top_k(top_k),
            check_min_score(min_score),
            compile_for_qdrant(filter, local=self._settings.local),
        )
        if isinstance(embeddings, (str, bytes, Mapping)) or not isinstance(embeddings, Iterable):
            raise InvalidArgumentError(f"embeddings must be a list of vectors, got {type(embeddings).__name__}")
        vectors = [
            prepare_embedding(value, dimension=self.dimension, where=f"embeddings[{n}]")
            for n, value in enumerate(embeddings)
        ]
        found: list[list[Passage]] = []
        for part in programs.batched(vectors, _QUERY_BATCH):
            if compiled.denies:
                found += [[] for _ in part]
                continue
            searches = [ranking.search(self._settings, vector, compiled, most, floor) for vector in part]
            found += yield from programs.in_one_request(self._settings, searches)
        return found

    def _get(self, ids: Sequence[str], within: AnyFilter | None) -> Steps[list[VectorRecord]]:
        return programs.get(self._settings, check_ids(ids), _bound(within, self._settings.local))

    def _delete(self, ids: Sequence[str], within: AnyFilter | None) -> Steps[int]:
        return programs.delete(self._settings, check_ids(ids), _bound(within, self._settings.local))

    def _remove(self, document_id: str, within: AnyFilter | None) -> Steps[int]:
        document = check_id(document_id, argument="document_id")
        compiled = compile_for_qdrant(within, local=self._settings.local)
        if compiled.denies:
            return _nothing(0)
        return programs.remove(self._settings, compiled, document)

    def _remove_where(self, filter: AnyFilter) -> Steps[int]:
        compiled = compile_for_qdrant(removal_filter(filter), local=self._settings.local)
        return _nothing(0) if compiled.denies else programs.remove(self._settings, compiled)

    def _replace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], within: AnyFilter | None
    ) -> Steps[int]:
        documents = check_ids(document_ids, argument="document_ids")
        return self._replace(
            documents, prepare_records(records, dimension=self.dimension), _bound(within, self._settings.local)
        )

    def _replace(self, documents: list[str], batch: RecordBatch, bound: CompiledFilter | None) -> Steps[int]:
        if len(batch):
            yield from self._index(batch.metadata)
        conditional = yield from self._conditions(bound)
        replaced = programs.replace_documents(self._settings, documents, batch, bound, conditional=conditional)
        return (yield from replaced)

    def _update_metadata(self, document_id: str, patch: MetadataPatch, within: AnyFilter | None) -> Steps[int]:
        document = check_id(document_id, argument="document_id")
        effective, bound = validate_patch(patch), _bound(within, self._settings.local)
        if not effective or (bound is not None and bound.denies):
            return _nothing(0)
        return self._patch(document, effective, bound)

    def _patch(self, document: str, effective: Mapping[str, JSON], bound: CompiledFilter | None) -> Steps[int]:
        yield from self._index([{key: value for key, value in effective.items() if value is not None}])
        return (yield from programs.update_metadata(self._settings, document, effective, bound))

    def _list_documents(self, filter: AnyFilter | None) -> Steps[Any]:
        return self._read(programs.documents, filter, [])

    def _list_document_ids(self, filter: AnyFilter | None) -> Steps[list[str]]:
        return self._read(programs.document_ids, filter, [])

    def _check_model(self, model: str, fills: bool) -> Steps[None] | None:
        return None if self._model == model else self._ask_model(model, fills)

    def _ask_model(self, model: str, fills: bool) -> Steps[None]:
        found = yield from model_of(self._settings)
        if found is None and fills:
            yield from keep_model(self._settings, model)
            found = model
        if found not in (None, model):
            raise EmbeddingModelError(filled_by=str(found), given=model)
        self._model = found

    def _fingerprints(
        self, document_ids: Sequence[str], digests: bool, within: AnyFilter | None
    ) -> Steps[list[Fingerprint]]:
        documents = check_ids(document_ids, argument="document_ids")
        bound = None if within is None else compile_for_qdrant(within, local=self._settings.local)
        if not documents or (bound is not None and bound.denies):
            return _nothing([])
        return programs.fingerprints(self._settings, documents, bound, digests=digests)

    def _count(self, filter: AnyFilter | None) -> Steps[int]:
        return self._read(programs.count, filter, 0)

    def _read(self, program: Callable[..., Steps[T]], filter: AnyFilter | None, denied: T) -> Steps[T]:
        compiled = compile_for_qdrant(filter, local=self._settings.local)
        return _nothing(denied) if compiled.denies else program(self._settings, compiled)

    def _scan(self, filter: AnyFilter | None) -> Steps[Any]:
        compiled = compile_for_qdrant(filter, local=self._settings.local)
        return _nothing(([], None)) if compiled.denies else self._first_page(compiled)

    def _first_page(self, compiled: CompiledFilter) -> Steps[Any]:
        # Only the ids are held in memory at once.
        ids = yield from programs.matching_ids(self._settings, compiled)
        return (yield from self._page(ids, compiled))

    def _page(self, ids: list[str], compiled: CompiledFilter) -> Steps[Any]:
        page = yield from programs.get(self._settings, ids[:_SCAN_BATCH], compiled)
        rest = ids[_SCAN_BATCH:]
        return page, self._page(rest, compiled) if rest else None

    def _facets(self, key: str | Sequence[str], filter: AnyFilter | None, limit: int) -> Steps[Facets]:
        path, most = check_facets(key, limit)
        compiled = compile_for_qdrant(filter, local=self._settings.local)
        return _nothing([]) if compiled.denies else programs.facets(self._settings, compiled, path, most)


def _bound(within: AnyFilter | None, local: bool) -> CompiledFilter | None:
    return None if within is None else compile_for_qdrant(within, local=local)


def _nothing(answer: T) -> Steps[T]:
    """Return an answer that is known without asking."""
    yield from ()
    return answer
