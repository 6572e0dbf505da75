"""Retrievers in both directions: the core's wherever LangChain takes one, and any of theirs as a leg of ours."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import Runnable
from pydantic import field_validator

from agora_core.adapting import (
    RetrieverPort,
    arun,
    check_min_score,
    check_query,
    check_top_k,
    cut_answer,
    offers,
    run,
    scope_of,
)
from agora_core.errors import InvalidArgumentError, UnsupportedOperationError
from agora_core.filters import Expression, conjoin, frozen_filter
from agora_core.metadata import UNSET
from agora_core.protocols import AnyFilter, AsyncRetriever, Retriever, SyncRetriever
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever as CoreRetriever
from agora_core.retrievers.base import conjoined, known_scope, whole_scope
from agora_core.retrievers.run_scope import RunScopedRetriever
from agora_core.retrievers.scoped import ScopedRetriever
from agora_core.steps import Call, Steps
from agora_core.stores.per_document import check_per_document, cut_per_document, grow
from langchain_agora.documents import to_document, to_passages
from langchain_agora.filters import to_core_filter, to_scope
from langchain_agora.scope import Scope, bound_config, from_run
from langchain_agora.vectorstore_retriever import ConfigAwareRetriever, child_config


class AgoraRetriever(ConfigAwareRetriever):
    """Any retriever of the core (embedding, keyword, hybrid, reranking, your own) wherever LangChain takes one.

    ```python
    retriever = AgoraRetriever(hybrid, k=5, filter={"acl": ["all"]})
    retriever.invoke("leave")
    retriever.invoke("leave", k=3, filter={"year": {"$gte": 2020}}, min_score=0.2)
    ```

    Examples:
        >>> documents = AgoraRetriever(retriever=retriever, k=1, filter={"acl": ["board"]}).invoke("days of leave")
        >>> documents[0].id, documents[0].metadata["source"]
        ('board#0', 'board.md')
    """

    retriever: Any
    """Any object with `retrieve` or `aretrieve`."""

    k: int = 5
    """How many documents at most, 1 or more; a call's own `k` counts before it."""

    filter: Any = None
    """A bound: a mapping, an expression or an operator dict. A call's own `filter` only narrows it."""

    min_score: float | None = None
    """The least score, on the scale of the retriever; a call's own `min_score` counts before it."""

    per_document: int | None = None
    """At most this many documents that are chunks of one (`{document}#{n}`); a call's own counts before it."""

    score_key: str | None = "score"
    """The metadata key under which the score is put where there is none of that name; None leaves it out."""

    source_key: str | None = "source"
    """The metadata key under which the citation label is put where there is none of that name; None leaves it out."""

    def __init__(
        self,
        retriever: SyncRetriever | AsyncRetriever,
        *,
        k: int = 5,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
        score_key: str | None = "score",
        source_key: str | None = "source",
        **kwargs: Any,
    ) -> None:
        """Take a retriever of the core; each argument is described at its field. `kwargs` are LangChain's own fields.

        Raises:
            ValidationError: an argument is out of its range, or unknown.
        """
        fields: dict[str, Any] = {"retriever": retriever, "k": k, "filter": filter, "min_score": min_score}
        fields |= {"per_document": per_document, "score_key": score_key, "source_key": source_key}
        super().__init__(**fields, **kwargs)

    @field_validator("retriever")
    @classmethod
    def _check_retriever(cls, value: Any) -> Any:
        if not offers(value, "retrieve"):
            raise InvalidArgumentError(
                f"retriever must have retrieve or aretrieve, got {type(value).__name__}; "
                "a retriever of LangChain's becomes one of the core's through LangChainRetriever"
            )
        return value

    @field_validator("k", mode="before")
    @classmethod
    def _check_k(cls, value: Any) -> int:
        return check_top_k(value, argument="k")

    @field_validator("min_score", mode="before")
    @classmethod
    def _check_min_score(cls, value: Any) -> float | None:
        return check_min_score(value)

    @field_validator("per_document", mode="before")
    @classmethod
    def _check_per_document(cls, value: Any) -> int | None:
        return check_per_document(value)

    @field_validator("filter")
    @classmethod
    def _check_filter(cls, value: Any) -> Any:
        return None if value is None else to_core_filter(value)

    @property
    def scope(self) -> Expression | None:
        """All that bounds this retriever in the current call, `filter` included; None where nothing does."""
        return whole_scope(self.retriever, self.filter)

    def scope_now(self) -> Steps[Expression | None]:
        """Tell `scope` where an async function may decide what is behind; what does not say counts for nothing."""
        found = yield from scope_of(self.retriever)
        return conjoined(None if found is UNSET else found, self.filter)

    def scoped(self, scope: Scope) -> AgoraRetriever:
        """Return a view in which `scope` always holds: a filter of the core, or a function of the run's config.

        See `AgoraVectorStore.scoped` for what the function is given; None or a raise fails the call.
        """
        if callable(scope):
            return self.model_copy(update={"retriever": RunScopedRetriever(self.retriever, from_run(scope))})
        return self.model_copy(update={"retriever": ScopedRetriever(self.retriever, to_scope(scope))})

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Document]:
        with bound_config(child_config(run_manager)):
            return run(self._found(query, k, filter, min_score, per_document))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Document]:
        with bound_config(child_config(run_manager)):
            return await arun(self._found(query, k, filter, min_score, per_document))

    def _found(
        self,
        query: str,
        k: int | None,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Document]]:
        # A copy in any case: the retriever may do with it as it likes.
        narrowed = None if self.filter is None else frozen_filter(self.filter)
        if filter is not None:
            own = to_core_filter(filter)
            narrowed = own if narrowed is None else conjoin(narrowed, own)
        found = yield from RetrieverPort(self.retriever).retrieve(
            query,
            top_k=self.k if k is None else check_top_k(k, argument="k"),
            filter=narrowed,
            min_score=self.min_score if min_score is None else check_min_score(min_score),
            per_document=self.per_document if per_document is None else check_per_document(per_document),
        )
        return [self._document(passage) for passage in found]

    def _document(self, passage: Passage) -> Document:
        if (self.source_key, self.score_key) == _OWN_KEYS:
            # On the way back into the core: what stands under these names is ours, whatever a record says.
            metadata = {key: value for key, value in (passage.metadata or {}).items() if key not in _OWN_KEYS}
            passage = replace(passage, metadata=metadata)
        score_key = None if self.score_key in (passage.metadata or {}) else self.score_key
        return to_document(passage, source_key=self.source_key, score_key=score_key)

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        """Name the store and the embedder in traces, where the core's retriever shows them."""
        params = super()._get_ls_params(**kwargs)
        params["ls_retriever_name"] = "agora"
        core = self.retriever
        while not hasattr(core, "store") and hasattr(core, "_retriever"):
            core = core._retriever
        store, embedder = getattr(core, "store", None), getattr(core, "embedder", None)
        if store is not None:
            params["ls_vector_store_provider"] = type(store).__name__
        if embedder is not None:
            model = getattr(embedder, "model", None)
            params["ls_embedding_provider"] = type(embedder).__name__
            params["ls_embedding_model"] = model if isinstance(model, str) else type(embedder).__name__
        return params


_OWN_KEYS: Final = ("agora_source", "agora_score")
"""The metadata keys under which a label and a score pass through LangChain's documents, and are taken out again."""


class LangChainRetriever(CoreRetriever):
    """Any retriever of LangChain's as one of the core's: a leg of a hybrid, or the base of a reranking.

    A filter holds whatever the retriever does with it: what comes back is matched against the document's metadata, by
    the core's rules. Where the retriever takes filters of its own under `filter_key`, it is given them too, so that
    the top-k are full. An `AgoraRetriever` comes back as it went in, with its scores and labels.

    Examples:
        >>> theirs = AgoraRetriever(retriever=retriever)  # any retriever of LangChain's
        >>> LangChainRetriever(theirs).retrieve("days of leave", filter={"acl": ["board"]})[0].id
        'board#0'
    """

    def __init__(
        self,
        retriever: Runnable[str, Any],
        *,
        id_key: str | None = None,
        source_key: str | None = "source",
        score_key: str | None = None,
        filter_key: str | None = None,
    ) -> None:
        """Stand on anything that is invoked with a query and returns documents.

        Args:
            retriever: a `BaseRetriever`, or a chain that ends in documents.
            id_key: the metadata key that holds the id of a document without one; a hash of its content otherwise.
            source_key: the metadata key that holds the citation label.
            score_key: the metadata key that holds the score, higher is better; 1 / rank otherwise.
            filter_key: the keyword under which a call's filter is passed on. Retrievers of this package take theirs
                under `filter` without being told.

        Raises:
            InvalidArgumentError: `retriever` cannot be invoked.
        """
        if not callable(getattr(retriever, "invoke", None)):
            raise InvalidArgumentError(f"retriever must be a Runnable, got {type(retriever).__name__}")
        if isinstance(retriever, AgoraRetriever):
            source_key, score_key = _OWN_KEYS
            retriever = retriever.model_copy(update={"source_key": source_key, "score_key": score_key})
        self.retriever = retriever
        self.id_key, self.source_key, self.score_key = id_key, source_key, score_key
        self._filter_key = filter_key or ("filter" if isinstance(retriever, ConfigAwareRetriever) else None)
        self._takes_k = _takes(retriever, "k")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.retriever).__name__})"

    @property
    def scope(self) -> Expression | None:
        """What bounds a retriever of this package, also behind `bind` and the like; None for any other of theirs."""
        return known_scope(self.retriever)

    def scope_now(self) -> Steps[Expression | None]:
        """Tell `scope` where an async function may decide it."""
        found = yield from scope_of(self.retriever)
        return found if isinstance(found, Expression) else None

    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        """Retrieve; a floor needs a `score_key`, for ranks are no scores.

        Raises:
            UnsupportedOperationError: `min_score` is given and no `score_key`.
        """
        bound = None if filter is None else frozen_filter(filter)

        def fetch(count: int) -> Steps[list[Passage]]:
            options = self._options(query, count, bound, min_score)
            invoke, ainvoke = partial(self.retriever.invoke, query), partial(self.retriever.ainvoke, query)
            found = yield Call(partial(invoke, **options), partial(ainvoke, **options))
            return self._passages(found, bound, min_score)

        if self._takes_k:
            return (yield from grow(fetch, top_k=top_k, per_document=per_document))
        return cut_per_document((yield from fetch(top_k)), per_document, top_k)

    def _options(self, query: str, top_k: int, filter: AnyFilter | None, min_score: float | None) -> dict[str, Any]:
        check_query(query)
        check_top_k(top_k)
        if min_score is not None and self.score_key is None:
            raise UnsupportedOperationError(
                f"{self!r} has no scores to hold against min_score; name the metadata key of the scores: score_key=..."
            )
        check_min_score(min_score)
        options: dict[str, Any] = {"k": top_k} if self._takes_k else {}
        if filter is not None and self._filter_key is not None:
            # A copy: what the retriever does with it changes nothing of what is matched afterwards.
            options[self._filter_key] = frozen_filter(filter)
        return options

    def _passages(self, documents: Any, filter: AnyFilter | None, min_score: float | None) -> list[Passage]:
        found = to_passages(documents, id_key=self.id_key, source_key=self.source_key, score_key=self.score_key)
        if self.score_key in _OWN_KEYS:
            for passage in found:
                for key in _OWN_KEYS:
                    (passage.metadata or {}).pop(key, None)
        return cut_answer(found, filter=filter, min_score=min_score)


def as_core_retriever(retriever: Any) -> Retriever:
    """Return a retriever of the core as it is, and one of LangChain's behind `LangChainRetriever`."""
    if offers(retriever, "retrieve") or not callable(getattr(retriever, "invoke", None)):
        return cast("Retriever", retriever)
    return LangChainRetriever(retriever)


def _takes(retriever: Any, name: str) -> bool:
    """Say whether a LangChain retriever obeys the keyword `name` of a call, and does not silently drop it."""
    if not isinstance(retriever, BaseRetriever):
        return False
    parameters = inspect.signature(retriever._get_relevant_documents).parameters
    return name in parameters or any(kind.kind is kind.VAR_KEYWORD for kind in parameters.values())
