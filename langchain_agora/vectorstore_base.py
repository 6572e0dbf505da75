"""What a vector store over the core stands on, and the scopes that bound it."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from agora_core.errors import InvalidArgumentError
from agora_core.filters import Expression
from agora_core.protocols import (
    AsyncEmbeddingProvider,
    EmbeddingProvider,
    SearchesTexts,
    SearchesVectors,
    SearchesVectorsAsync,
)
from agora_core.retrievers.beside import StoreBesideKeyword
from agora_core.steps import Steps, ask
from agora_core.stores.base import OnWrite
from agora_core.stores.ports import StorePort
from agora_core.stores.run_scope import RunScopedStore, abound_store, bound_store
from agora_core.stores.scoped import ScopedVectorStore
from langchain_agora.embeddings import as_embeddings
from langchain_agora.filters import to_scope
from langchain_agora.scope import Scope, from_run

SelfT = TypeVar("SelfT", bound="BoundVectorStore")


class BoundVectorStore(VectorStore):
    """A store of the core, an embedding model, and the scopes that hold for every call."""

    def __init__(
        self,
        store: SearchesVectors | SearchesVectorsAsync | RunScopedStore,
        embedding: Embeddings | EmbeddingProvider | AsyncEmbeddingProvider,
        *,
        source_key: str | None = None,
        keyword: SearchesTexts | None = None,
        coerce: bool = True,
    ) -> None:
        """Take a store of the core and an embedding model, LangChain's or the core's.

        Args:
            store: any object with `upsert` and `search` (or their async twins) and, where those methods are used,
                `get`, `delete`, `remove_where` and `update_metadata`. Closed by who opened it.
            embedding: embeds documents and queries.
            source_key: the metadata key whose text is kept as the citation label (`Passage.source`) too, and under
                which a label that was stored otherwise is shown. None keeps labels and metadata apart.
            keyword: a `KeywordRetriever` kept in step with the documents, for `text_search` and `hybrid_search` where
                the store itself searches no text. What bounds the store (its `scope`) bounds it too; a store that does
                not say is refused.
            coerce: make JSON of what is nearly JSON in documents: ISO dates, strings, numbers, no U+0000; see
                `agora_core.coercion`. It is told once. False refuses such documents.

        Raises:
            InvalidArgumentError: `store` cannot be searched, or `embedding` embeds nothing.
            UnsupportedOperationError: there is a `keyword`, and `store` does not say what bounds it.
        """
        if not callable(getattr(store, "search", None)) and not callable(getattr(store, "asearch", None)):
            raise InvalidArgumentError(f"store must have search or asearch, got {type(store).__name__}")
        if keyword is not None and not isinstance(store, RunScopedStore):
            StoreBesideKeyword(store, keyword)
        self.store: Any = store
        self.embedding = as_embeddings(embedding)
        self.source_key = source_key
        self.keyword = keyword
        self.coerce = coerce

    def _bound(self) -> Steps[StoreBesideKeyword]:
        """Decide what bounds this call, once for all that it does."""
        store = yield from ask(bound_store, abound_store, self.store)
        return StoreBesideKeyword(store, self.keyword)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r}, {type(self.embedding).__name__})"

    @property
    def embeddings(self) -> Embeddings:
        """The embedding model."""
        return self.embedding

    @property
    def scope(self) -> Expression | None:
        """What bounds the store behind in the current call: None where nothing does, else the whole conjunction."""
        return StorePort(self.store).scope()

    def scoped(self: SelfT, scope: Scope, *, on_write: OnWrite = "check") -> SelfT:
        """Return a view that no argument can widen: reads, writes and removals touch only what matches `scope`.

        Args:
            scope: a filter of the core, whose values are data: an operator dict is refused, `to_core_filter` makes a
                filter of one that the application itself writes. Or a function that takes the run's config and
                returns one. The function is called anew for each call, with the config as a dict;
                `config["configurable"]` holds what `invoke(..., config=...)` was given, `config["context"]` the
                context of a LangGraph run, None outside of one. An operator dict, None or a raise fails the call.
            on_write: `check` refuses a document outside the scope, `stamp` writes the scope's plain values into it.

        Raises:
            InvalidFilterError: the filter could not be built.
        """
        # A copy and not a new one, so that whatever a subclass keeps is kept.
        view = copy.copy(self)
        if callable(scope):
            view.store = RunScopedStore(self.store, from_run(scope), on_write=on_write)
        else:
            view.store = ScopedVectorStore(self.store, to_scope(scope), on_write=on_write)
        return view
