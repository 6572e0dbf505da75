"""Retrievers that hand the run's config on: what `as_retriever` returns, and the base that ours share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Final, TypeVar

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, patch_config
from langchain_core.vectorstores import VectorStoreRetriever
from pydantic import ConfigDict, model_validator

from agora_core.filters import Expression, conjoin
from agora_core.retrievers.base import conjoined, whole_scope
from agora_core.steps import Steps, ask
from agora_core.stores.run_scope import abound_store, bound_store
from langchain_agora.filters import to_core_filter
from langchain_agora.scope import Scope, bound_config

_OURS: Final = ("text", "hybrid")

RetrieverT = TypeVar("RetrieverT", bound="AgoraVectorStoreRetriever")


class ConfigAwareRetriever(BaseRetriever):
    """A retriever whose config reaches the scopes and the runnables inside it."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Retrieve; see `BaseRetriever.invoke`."""
        with bound_config(config):
            return super().invoke(input, config, **kwargs)

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Retrieve; see `BaseRetriever.ainvoke`."""
        with bound_config(config):
            return await super().ainvoke(input, config, **kwargs)


def child_config(
    run_manager: CallbackManagerForRetrieverRun | AsyncCallbackManagerForRetrieverRun,
) -> RunnableConfig:
    """Return the current config with the callbacks of a run, so that inner runs are traced as its children."""
    return patch_config(ensure_config(), callbacks=run_manager.get_child())


class AgoraVectorStoreRetriever(ConfigAwareRetriever, VectorStoreRetriever):
    """LangChain's vector store retriever, with a filter that a call can narrow and not replace.

    Its search types are LangChain's, and `text` and `hybrid`.
    """

    allowed_search_types: ClassVar[Collection[str]] = (*VectorStoreRetriever.allowed_search_types, *_OURS)

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    @property
    def scope(self) -> Expression | None:
        """All that bounds this retriever in the current call, its own filter included; None where nothing does."""
        own = self.search_kwargs.get("filter")
        return whole_scope(self.vectorstore, None if own is None else to_core_filter(own))

    def scope_now(self) -> Steps[Expression | None]:
        """Tell `scope` where an async function may decide what bounds the store."""
        vectorstore: Any = self.vectorstore
        store, own = (yield from ask(bound_store, abound_store, vectorstore.store)), self.search_kwargs.get("filter")
        return conjoined(getattr(store, "scope", None), None if own is None else to_core_filter(own))

    def scoped(self: RetrieverT, scope: Scope) -> RetrieverT:
        """Return a view in which `scope` always holds; see `AgoraVectorStore.scoped`."""
        vectorstore: Any = self.vectorstore
        return self.model_copy(update={"vectorstore": vectorstore.scoped(scope)})

    @model_validator(mode="before")
    @classmethod
    def _take_any_number(cls, values: dict[str, Any]) -> dict[str, Any]:
        # LangChain's own check, which runs after this one, takes a float only: a threshold of 1 would be refused.
        search_kwargs = values.get("search_kwargs") or {}
        threshold = search_kwargs.get("score_threshold")
        if isinstance(threshold, int) and not isinstance(threshold, bool):
            values = {**values, "search_kwargs": {**search_kwargs, "score_threshold": float(threshold)}}
        return values

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        narrowed = self._narrowed(kwargs)
        with bound_config(child_config(run_manager)):
            if self.search_type in _OURS:
                return self.vectorstore.search(query, self.search_type, **{**self.search_kwargs, **narrowed})
            return super()._get_relevant_documents(query, run_manager=run_manager, **narrowed)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        narrowed = self._narrowed(kwargs)
        with bound_config(child_config(run_manager)):
            if self.search_type in _OURS:
                return await self.vectorstore.asearch(query, self.search_type, **{**self.search_kwargs, **narrowed})
            return await super()._aget_relevant_documents(query, run_manager=run_manager, **narrowed)

    def _narrowed(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        if "filter" not in kwargs:
            return kwargs
        bound, own = self.search_kwargs.get("filter"), kwargs["filter"]
        if bound is None or own is None:
            return {**kwargs, "filter": bound if own is None else own}
        return {**kwargs, "filter": conjoin(to_core_filter(bound), to_core_filter(own))}
