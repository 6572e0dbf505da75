"""A core store as a LlamaIndex vector store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

from agora_core.calling import acall, call, given
from agora_core.concurrency import map_bounded
from agora_core.errors import UnsafeRemovalError
from agora_core.filters import field
from agora_core.metadata import MetadataPatch, effective_patch_keys
from agora_core.protocols import AnyFilter, is_lexical_vector_store
from agora_core.records import Passage, VectorRecord
from agora_core.retrievers.scoped import seen_from
from agora_core.stores.ports import StorePort
from agora_core.validation import check_id
from llamaindex_agora.filters import Filters, to_core_filter, to_removal_filter
from llamaindex_agora.nodes import NODE_KEY, REF_DOC_KEY, record_to_node, refuse_private_keys, to_record
from llamaindex_agora.query import QueryPlan, diversify, fuse, plan_query, to_result

_OURS = field([NODE_KEY]).exists()


class AgoraVectorStore(BasePydanticVectorStore):
    """Any store of the core, natively sync and async.

    Args:
        store: a core store, or any object of its shape.
        keyword: a `KeywordRetriever` kept in step with the nodes, for text and hybrid queries where the store itself
            searches no text. Where `store` is a scoped view, the scope holds for these as well.
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    flat_metadata: ClassVar[bool] = False

    _store: Any = PrivateAttr()
    _keyword: Any = PrivateAttr()

    def __init__(self, store: Any, *, keyword: Any = None) -> None:
        """Connect to nothing: `store` is used as it is."""
        super().__init__(stores_text=True)
        self._store = store
        self._keyword = keyword

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows this class."""
        return "AgoraVectorStore"

    @property
    def client(self) -> Any:
        """The core store."""
        return self._store

    @property
    def store(self) -> Any:
        """The core store."""
        return self._store

    # ---------------------------------------------------------------- adding

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Write nodes with their embeddings, replacing those with the same id; return their ids.

        Raises:
            TypeError: an unknown keyword.
            InvalidArgumentError: a node has no embedding, or its metadata is not storable; nothing is written.
        """
        records = _records(nodes, kwargs)
        call(self._store, "upsert", records)
        if self._keyword is not None:
            call(self._keyword, "add", _as_stored(self._store, records), **_within_scope(self._store))
        return _ids(records)

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Async twin of `add`."""
        records = _records(nodes, kwargs)
        await acall(self._store, "upsert", records)
        if self._keyword is not None:
            await acall(self._keyword, "add", _as_stored(self._store, records), **_within_scope(self._store))
        return _ids(records)

    # ---------------------------------------------------------------- deleting

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes whose source is `ref_doc_id`; None deletes nothing."""
        _refuse(delete_kwargs)
        if ref_doc_id is not None:
            self._remove(_of_document(ref_doc_id))

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Async twin of `delete`."""
        _refuse(delete_kwargs)
        if ref_doc_id is not None:
            await self._aremove(_of_document(ref_doc_id))

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: Filters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete by ids, by filters, or by both together; an empty list of ids deletes nothing.

        Raises:
            UnsafeRemovalError: neither is given, or the filters bound nothing.
        """
        _refuse(delete_kwargs)
        chosen = _removal(node_ids, filters)
        if node_ids is None:
            self._remove(chosen)
            return
        within = {} if chosen is None else {"within": chosen}
        known = [] if self._keyword is None else _ids(call(self._store, "get", node_ids, **within))
        call(self._store, "delete", node_ids, **within)
        # The store first: what it refuses to delete stays in both.
        if self._keyword is not None:
            call(self._keyword, "remove", _stored_ids(self._store, known), **_within_scope(self._store))

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: Filters | None = None, **delete_kwargs: Any
    ) -> None:
        """Async twin of `delete_nodes`."""
        _refuse(delete_kwargs)
        chosen = _removal(node_ids, filters)
        if node_ids is None:
            await self._aremove(chosen)
            return
        within = {} if chosen is None else {"within": chosen}
        known = [] if self._keyword is None else _ids(await acall(self._store, "get", node_ids, **within))
        await acall(self._store, "delete", node_ids, **within)
        if self._keyword is not None:
            await acall(self._keyword, "remove", _stored_ids(self._store, known), **_within_scope(self._store))

    def clear(self) -> None:
        """Delete every node that was written through this adapter."""
        self._remove(_OURS)

    async def aclear(self) -> None:
        """Async twin of `clear`."""
        await self._aremove(_OURS)

    def _remove(self, filter: AnyFilter | None) -> None:
        known = [] if self._keyword is None else _ids(call(self._store, "scan", filter))
        call(self._store, "remove_where", filter)
        if self._keyword is not None:
            call(self._keyword, "remove", _stored_ids(self._store, known), **_within_scope(self._store))

    async def _aremove(self, filter: AnyFilter | None) -> None:
        known = [] if self._keyword is None else _ids(await self._ascan(filter))
        await acall(self._store, "remove_where", filter)
        if self._keyword is not None:
            await acall(self._keyword, "remove", _stored_ids(self._store, known), **_within_scope(self._store))

    async def _ascan(self, filter: AnyFilter | None) -> list[VectorRecord]:
        if hasattr(self._store, "ascan"):
            return [record async for record in self._store.ascan(filter)]
        return await asyncio.to_thread(lambda: list(call(self._store, "scan", filter)))

    # ---------------------------------------------------------------- patching

    def update_metadata(self, ref_doc_id: str, patch: MetadataPatch) -> int:
        """Patch the metadata of every node whose source is `ref_doc_id`, without a new embedding.

        Return the number of nodes written. Filters and the nodes that come back see the new metadata alike.

        Raises:
            InvalidMetadataError: the patch is not JSON, or names a private key.
        """
        mine = _patch_target(ref_doc_id, patch)
        written = 0
        for document_id in call(self._store, "list_document_ids", mine):
            written += call(self._store, "update_metadata", document_id, patch, within=mine)
        if self._keyword is not None and written:
            call(
                self._keyword,
                "add",
                _as_stored(self._store, list(call(self._store, "scan", mine))),
                **_within_scope(self._store),
            )
        return written

    async def aupdate_metadata(self, ref_doc_id: str, patch: MetadataPatch) -> int:
        """Async twin of `update_metadata`."""
        mine = _patch_target(ref_doc_id, patch)
        written = 0
        for document_id in await acall(self._store, "list_document_ids", mine):
            written += await acall(self._store, "update_metadata", document_id, patch, within=mine)
        if self._keyword is not None and written:
            await acall(
                self._keyword, "add", _as_stored(self._store, await self._ascan(mine)), **_within_scope(self._store)
            )
        return written

    # ---------------------------------------------------------------- reading

    def get_nodes(self, node_ids: list[str] | None = None, filters: Filters | None = None) -> list[BaseNode]:
        """Return nodes with their embeddings, by ids in the order asked, by filters, or all; no ids give no nodes."""
        chosen = None if filters is None else to_core_filter(filters)
        if node_ids is None:
            return [record_to_node(record) for record in call(self._store, "scan", chosen)]
        within = {} if chosen is None else {"within": chosen}
        return [record_to_node(record) for record in call(self._store, "get", node_ids, **within)]

    async def aget_nodes(self, node_ids: list[str] | None = None, filters: Filters | None = None) -> list[BaseNode]:
        """Async twin of `get_nodes`."""
        chosen = None if filters is None else to_core_filter(filters)
        if node_ids is None:
            return [record_to_node(record) for record in await self._ascan(chosen)]
        within = {} if chosen is None else {"within": chosen}
        return [record_to_node(record) for record in await acall(self._store, "get", node_ids, **within)]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Answer a query: DEFAULT, TEXT_SEARCH, SPARSE, HYBRID and MMR. Scores are higher-is-better.

        HYBRID is a reciprocal rank fusion of `similarity_top_k` nodes by embedding and `sparse_top_k` by text, with
        `alpha` and `1 - alpha` as weights, cut to `hybrid_top_k`. MMR takes `mmr_threshold` from the query or as a
        keyword (1 is relevance alone, 0 diversity alone).

        Raises:
            UnsupportedOperationError: another mode, or one that searches text where nothing here can.
            InvalidFilterError: the filters could not be translated.
        """
        plan = self._plan(query, kwargs)
        dense, lexical = [], []
        if plan.dense_top_k:
            dense = list(call(self._store, "search", plan.embedding, top_k=plan.dense_top_k, **plan.options))
        if plan.lexical_top_k:
            target, method = self._text_search()
            lexical = list(call(target, method, plan.text, top_k=plan.lexical_top_k, **plan.options))
        if plan.mode is VectorStoreQueryMode.MMR:
            return to_result(diversify(plan, dense, call(self._store, "get", [p.id for p in dense])))
        return to_result(fuse(plan, dense, lexical))

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Async twin of `query`; both legs of HYBRID run at the same time."""
        plan = self._plan(query, kwargs)

        async def search() -> list[Passage]:
            if not plan.dense_top_k:
                return []
            return list(await acall(self._store, "search", plan.embedding, top_k=plan.dense_top_k, **plan.options))

        async def search_text() -> list[Passage]:
            if not plan.lexical_top_k:
                return []
            target, method = self._text_search()
            return list(await acall(target, method, plan.text, top_k=plan.lexical_top_k, **plan.options))

        if plan.dense_top_k and plan.lexical_top_k:
            dense, lexical = await map_bounded(lambda leg: leg(), (search, search_text), limit=2)
        else:
            dense, lexical = await search(), await search_text()
        if plan.mode is VectorStoreQueryMode.MMR:
            return to_result(diversify(plan, dense, await acall(self._store, "get", [p.id for p in dense])))
        return to_result(fuse(plan, dense, lexical))

    def _plan(self, query: VectorStoreQuery, kwargs: dict[str, Any]) -> QueryPlan:
        return plan_query(query, lexical=self._keyword is not None or is_lexical_vector_store(self._store), **kwargs)

    def _text_search(self) -> tuple[Any, str]:
        if self._keyword is None:
            return self._store, "search_text"
        # The keyword index may serve others too: the scope of the store holds in it as well.
        return seen_from(self._keyword, self._store), "retrieve"


def _records(nodes: Sequence[BaseNode], kwargs: dict[str, Any]) -> list[VectorRecord]:
    _refuse(kwargs)
    return [to_record(node) for node in nodes]


def _ids(records: Iterable[VectorRecord]) -> list[str]:
    return [record.id for record in records]


def _within_scope(store: Any) -> dict[str, AnyFilter]:
    """Return the option that bounds writes to the keyword index as those to the store are bound."""
    return given(within=StorePort(store).scope())


def _as_stored(store: Any, records: list[VectorRecord]) -> list[VectorRecord]:
    stamped = getattr(store, "stamped", None)
    return records if stamped is None else list(stamped(records))


def _stored_ids(store: Any, ids: list[str]) -> list[str]:
    stored_ids = getattr(store, "stored_ids", None)
    return ids if stored_ids is None else list(stored_ids(ids))


def _of_document(ref_doc_id: str) -> AnyFilter:
    return {REF_DOC_KEY: check_id(ref_doc_id, argument="ref_doc_id")}


def _refuse(kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise TypeError(f"unexpected keyword arguments: {', '.join(sorted(kwargs))}")


def _removal(node_ids: list[str] | None, filters: Filters | None) -> AnyFilter | None:
    if filters is not None:
        return to_removal_filter(filters)
    if node_ids is None:
        raise UnsafeRemovalError(
            "delete_nodes was given neither node_ids nor filters; name what to delete, or call clear()"
        )
    return None


def _patch_target(ref_doc_id: str, patch: MetadataPatch) -> AnyFilter:
    effective_patch_keys(patch)
    refuse_private_keys(patch, where="the patch")
    return _of_document(ref_doc_id)
