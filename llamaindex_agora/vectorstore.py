"""A core store as a LlamaIndex vector store."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

from agora_core.adapting import RetrieverPort, Steps, arun, ask, offers, run, together
from agora_core.calling import is_async_function
from agora_core.coercion import coerce_metadata
from agora_core.errors import UnsafeRemovalError, UnsupportedOperationError
from agora_core.filters import Expression, field
from agora_core.fusion import fuse
from agora_core.metadata import MetadataPatch, effective_patch_keys
from agora_core.protocols import AnyFilter, SearchesTexts, SearchesVectors, SearchesVectorsAsync
from agora_core.records import Passage
from agora_core.retrievers.beside import StoreBesideKeyword
from agora_core.retrievers.embedding import EmbeddingRetriever
from agora_core.retrievers.hybrid import HybridRetriever
from agora_core.stores.base import OnWrite
from agora_core.stores.ports import StorePort
from agora_core.stores.run_scope import RunScopedStore, abound_store, bound_store
from agora_core.stores.scoped import ScopedVectorStore
from agora_core.validation import check_id
from llamaindex_agora.docstore import StoredNodes
from llamaindex_agora.filters import Filters, to_core_filter, to_removal_filter
from llamaindex_agora.inject import core_filter_hook
from llamaindex_agora.nodes import NODE_KEY, REF_DOC_KEY, record_to_node, refuse_private_keys, to_record
from llamaindex_agora.query import GivenEmbedding, QueryPlan, diversify, plan_query, to_result

T = TypeVar("T")

ScopeSource = Callable[[], Filters | Awaitable[Filters]]
"""Called for each call, without arguments; returns what bounds it."""

_OURS = field([NODE_KEY]).exists()
_KEYWORD_SUFFIX = ".keyword"


class AgoraVectorStore(BasePydanticVectorStore):
    """Any store of the core, natively sync and async.

    Args:
        store: a core store, or any object of its shape.
        keyword: a `KeywordRetriever` kept in step with the nodes, for text and hybrid queries where the store itself
            searches no text. What bounds the store (its `scope`) bounds it too; a store that does not say is refused.
        coerce: make JSON of what is nearly JSON in nodes: ISO dates, strings, numbers, no U+0000; see
            `agora_core.coercion`. It is told once. False refuses such nodes.

    Examples:
        >>> index = VectorStoreIndex.from_vector_store(AgoraVectorStore(store), embed_model=AgoraEmbedding(embedder))
        >>> index.as_retriever(similarity_top_k=1).retrieve("days of leave")[0].node.node_id
        'leave#0'
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    flat_metadata: ClassVar[bool] = False

    _store: Any = PrivateAttr()
    _keyword: Any = PrivateAttr()
    _coerce: bool = PrivateAttr()

    def __init__(
        self,
        store: SearchesVectors | SearchesVectorsAsync | RunScopedStore,
        *,
        keyword: SearchesTexts | None = None,
        coerce: bool = True,
    ) -> None:
        """Connect to nothing: `store` is used as it is.

        Raises:
            UnsupportedOperationError: there is a `keyword`, and `store` does not say what bounds it.
        """
        super().__init__(stores_text=True)
        self._store, self._keyword, self._coerce = store, keyword, coerce
        if keyword is not None and not isinstance(store, RunScopedStore):
            StoreBesideKeyword(store, keyword)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows this class."""
        return "AgoraVectorStore"

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> AgoraVectorStore:
        """Return another handle of the same store: a store and its connections are not copied."""
        return copy(self)

    @property
    def client(self) -> Any:
        """The core store."""
        return self._store

    @property
    def store(self) -> Any:
        """The core store."""
        return self._store

    @property
    def docstore(self) -> StoredNodes:
        """The nodes of this store as LlamaIndex's document store, for neighbours and parents of what was found."""
        return StoredNodes(self)

    @property
    def scope(self) -> Expression | None:
        """What bounds the store behind in the current call: None where nothing does, else the whole conjunction."""
        return StorePort(self._store).scope()

    def scoped(self, scope: Filters | ScopeSource, *, on_write: OnWrite = "check") -> AgoraVectorStore:
        """Return a view that no argument can widen: reads, writes and removals touch only what matches.

        Args:
            scope: a filter, or a function without arguments that returns one and is called anew for each call, for
                instance from a context variable of the request. What it returns is data; None or a raise fails the
                call. It may be async where only async methods are used.
            on_write: `check` refuses a node outside the scope, `stamp` writes the scope's plain values into it.

        Raises:
            InvalidFilterError: the filter could not be built.
        """
        view = copy(self)
        if callable(scope):
            view._store = RunScopedStore(self._store, _as_source(scope), on_write=on_write)
        else:
            view._store = ScopedVectorStore(self._store, to_core_filter(scope), on_write=on_write)
        return view

    # ---------------------------------------------------------------- adding

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Write nodes with their embeddings, replacing those with the same id; return their ids.

        Raises:
            TypeError: an unknown keyword.
            InvalidArgumentError: a node has no embedding, or its metadata is not storable; nothing is written.
        """
        return run(self._added(nodes, kwargs))

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Async twin of `add`."""
        return await arun(self._added(nodes, kwargs))

    def _added(self, nodes: Sequence[BaseNode], kwargs: dict[str, Any]) -> Steps[list[str]]:
        _refuse(kwargs)
        records = yield from _apart(lambda: [to_record(node, coerce=self._coerce) for node in nodes])
        pair = yield from self._bound()
        yield from pair.upsert(records)
        return [record.id for record in records]

    # ---------------------------------------------------------------- deleting

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes whose source is `ref_doc_id`; None deletes nothing."""
        _refuse(delete_kwargs)
        if ref_doc_id is not None:
            run(self._removed(_of_document(ref_doc_id)))

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Async twin of `delete`."""
        _refuse(delete_kwargs)
        if ref_doc_id is not None:
            await arun(self._removed(_of_document(ref_doc_id)))

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: Filters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete by ids, by filters, or by both together; an empty list of ids deletes nothing.

        Raises:
            UnsafeRemovalError: neither is given, or the filters bound nothing.
        """
        _refuse(delete_kwargs)
        run(self._deleted(node_ids, _removal(node_ids, filters)))

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: Filters | None = None, **delete_kwargs: Any
    ) -> None:
        """Async twin of `delete_nodes`."""
        _refuse(delete_kwargs)
        await arun(self._deleted(node_ids, _removal(node_ids, filters)))

    def clear(self) -> None:
        """Delete every node that was written through this adapter."""
        run(self._removed(_OURS))

    async def aclear(self) -> None:
        """Async twin of `clear`."""
        await arun(self._removed(_OURS))

    def _removed(self, filter: AnyFilter) -> Steps[None]:
        pair = yield from self._bound()
        yield from pair.remove_where(filter)

    def _deleted(self, node_ids: list[str] | None, chosen: AnyFilter | None) -> Steps[None]:
        if node_ids is None:
            yield from self._removed(chosen)  # type: ignore[arg-type] # one of both is there
            return
        pair = yield from self._bound()
        yield from pair.delete(node_ids, within=chosen)

    # ---------------------------------------------------------------- patching

    def update_metadata(self, ref_doc_id: str, patch: MetadataPatch) -> int:
        """Patch the metadata of every node whose source is `ref_doc_id`, without a new embedding.

        Return the number of nodes written. Filters and the nodes that come back see the new metadata alike.

        Raises:
            InvalidMetadataError: the patch is not JSON, or names a private key.
        """
        return run(self._patched(ref_doc_id, patch))

    async def aupdate_metadata(self, ref_doc_id: str, patch: MetadataPatch) -> int:
        """Async twin of `update_metadata`."""
        return await arun(self._patched(ref_doc_id, patch))

    def _patched(self, ref_doc_id: str, patch: MetadataPatch) -> Steps[int]:
        plain = coerce_metadata(patch) if self._coerce else patch
        effective_patch_keys(plain)
        refuse_private_keys(plain, where="the patch")
        mine, written = _of_document(ref_doc_id), 0
        pair = yield from self._bound()
        for document_id in (yield from pair.port.list_document_ids(mine)):
            written += yield from pair.port.update_metadata(document_id, plain, within=mine)
        if self._keyword is not None and written:
            yield from pair.index((yield from pair.scan(mine)))
        return written

    # ---------------------------------------------------------------- reading

    def get_nodes(self, node_ids: list[str] | None = None, filters: Filters | None = None) -> list[BaseNode]:
        """Return nodes with their embeddings, by ids in the order asked, by filters, or all; no ids give no nodes."""
        return run(self._nodes(node_ids, filters))

    async def aget_nodes(self, node_ids: list[str] | None = None, filters: Filters | None = None) -> list[BaseNode]:
        """Async twin of `get_nodes`."""
        return await arun(self._nodes(node_ids, filters))

    def _nodes(self, node_ids: list[str] | None, filters: Filters | None) -> Steps[list[BaseNode]]:
        chosen = None if filters is None else to_core_filter(filters)
        pair = yield from self._bound()
        if node_ids is None:
            records = yield from pair.scan(chosen)
        else:
            records = yield from pair.port.get(node_ids, within=chosen)
        return (yield from _apart(lambda: [record_to_node(record) for record in records]))

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Answer a query: DEFAULT, TEXT_SEARCH, SPARSE, HYBRID and MMR. Scores are higher-is-better.

        HYBRID is a reciprocal rank fusion of both rankings, 20 deep or more, with `alpha` and `1 - alpha` as weights,
        cut to `hybrid_top_k` or else `similarity_top_k`; where `sparse_top_k` is given, that and `similarity_top_k` are
        the depths. MMR takes `mmr_threshold` from the query or as a keyword (1 is relevance alone, 0 diversity alone).

        Raises:
            UnsupportedOperationError: another mode, or one that searches text where nothing here can.
            InvalidFilterError: the filters could not be translated.
        """
        return run(self._answer(query, kwargs))

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Async twin of `query`; both legs of HYBRID run at the same time."""
        return await arun(self._answer(query, kwargs))

    def _answer(self, query: VectorStoreQuery, kwargs: dict[str, Any]) -> Steps[VectorStoreQueryResult]:
        pair = yield from self._bound()
        plan = plan_query(query, lexical=pair.searches_text, **kwargs)
        if plan.dense_top_k and plan.lexical_top_k:
            return to_result((yield from _both(pair, plan)))
        if plan.lexical_top_k:
            return to_result((yield from _lexical(pair, plan, plan.top_k)))
        found = yield from pair.port.search(plan.embedding, top_k=plan.dense_top_k, filter=plan.filter)
        if plan.mode is VectorStoreQueryMode.MMR:
            records = yield from pair.port.get([passage.id for passage in found])
            found = yield from _apart(partial(diversify, plan, found, records))
        return to_result(found[: plan.top_k])

    # ---------------------------------------------------------------- files

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Write the store to a file by its own `save`, and the keyword index beside it.

        A store whose rows live in a server (Postgres, Qdrant) has nothing to write.

        Raises:
            UnsupportedOperationError: the store can neither be saved nor keeps its rows elsewhere, for instance a view.
        """
        if offers(self._store, "save"):
            _save(self._store, persist_path, fs)
        elif not (offers(self._store, "ensure_schema") or offers(self._store, "ensure_collection")):
            raise UnsupportedOperationError(
                f"{type(self._store).__name__} cannot be saved, so its vectors would be lost; "
                "persist the store behind a view, or use a store with save()"
            )
        if offers(self._keyword, "save"):
            _save(self._keyword, persist_path + _KEYWORD_SUFFIX, fs)

    @classmethod
    def from_persist_path(cls, persist_path: str, *, coerce: bool = True) -> AgoraVectorStore:
        """Return the memory store that `persist` wrote, with the keyword index that stood beside it."""
        from agora_core.retrievers.keyword import KeywordRetriever
        from agora_core.stores.memory import MemoryVectorStore

        beside = persist_path + _KEYWORD_SUFFIX
        keyword = KeywordRetriever.load(beside) if Path(beside).exists() else None
        return cls(MemoryVectorStore.load(persist_path), keyword=keyword, coerce=coerce)

    @classmethod
    def from_persist_dir(
        cls, persist_dir: str = "./storage", namespace: str = "default", *, coerce: bool = True
    ) -> AgoraVectorStore:
        """Return the memory store that `StorageContext.persist` wrote to a folder."""
        return cls.from_persist_path(str(Path(persist_dir) / f"{namespace}__vector_store.json"), coerce=coerce)

    def _bound(self) -> Steps[StoreBesideKeyword]:
        """Decide what bounds this call, once for all that it does."""
        store = yield from ask(bound_store, abound_store, self._store)
        return StoreBesideKeyword(store, self._keyword)


def _lexical(pair: StoreBesideKeyword, plan: QueryPlan, top_k: int) -> Steps[list[Passage]]:
    return RetrieverPort(pair.text_leg()).retrieve(plan.text, top_k=top_k, filter=plan.filter)


def _both(pair: StoreBesideKeyword, plan: QueryPlan) -> Steps[list[Passage]]:
    weights = [plan.alpha, 1 - plan.alpha]
    if plan.fetch_top_k is None:
        dense = pair.port.search(plan.embedding, top_k=plan.dense_top_k, filter=plan.filter)
        rankings = yield from together([dense, _lexical(pair, plan, plan.lexical_top_k)])
        return fuse(rankings, weights=weights)[: plan.top_k]
    store: Any = pair.port.store
    legs = [EmbeddingRetriever(GivenEmbedding(plan.embedding), store), pair.text_leg()]
    hybrid = RetrieverPort(HybridRetriever(legs, weights=weights, fetch_top_k=plan.fetch_top_k))
    return (yield from hybrid.retrieve(plan.text, top_k=plan.top_k, filter=plan.filter))


def _apart(work: Callable[[], T]) -> Steps[T]:
    """Do work that takes time for many nodes; async code does it in a thread, and its loop goes on."""
    return ask(work, partial(asyncio.to_thread, work))


def _as_source(scope: ScopeSource) -> Callable[[], Any]:
    async def later(_: Any) -> Any:
        return await scope()  # type: ignore[misc] # it is async

    hook: Any = core_filter_hook(later if is_async_function(scope) else lambda _: scope())
    if not is_async_function(scope):
        return lambda: hook(None)

    async def source() -> Any:
        return await hook(None)

    return source


def _save(target: Any, path: str, fs: Any) -> None:
    if fs is None:
        Path(path).resolve().parent.mkdir(parents=True, exist_ok=True)
        target.save(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        local = str(Path(folder) / "saved")
        target.save(local)
        fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        fs.put(local, path)


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
