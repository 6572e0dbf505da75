"""`create_retrieve_tool`: retrieval that the model asks for itself."""

from __future__ import annotations

from typing import Any, Final

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import StructuredTool

from agora_core.inject import TOOL_NAME, ContextInjector, Measure, RetrievalFilter
from agora_core.protocols import AsyncRetriever, SyncRetriever
from agora_core.records import Passage
from langchain_agora.documents import to_document
from langchain_agora.retriever import as_core_retriever
from langchain_agora.scope import actor_of

DESCRIPTION: Final = (
    "Search the knowledge base. Returns numbered passages; cite them by their number in brackets. "
    "Write the query as a full question or as the words that the answer will hold."
)
NOTHING: Final = "No passages were found. Try other words, or say that the knowledge base does not hold the answer."


def create_retrieve_tool(
    retriever: SyncRetriever | AsyncRetriever | Runnable[str, Any],
    *,
    name: str = TOOL_NAME,
    description: str = DESCRIPTION,
    top_k: int = 5,
    retrieval_filter: RetrievalFilter | None = None,
    min_score: float | None = None,
    max_chars: int | None = None,
    measure: Measure = len,
    source_key: str | None = "source",
    score_key: str | None = None,
) -> StructuredTool:
    """Return a tool that takes a `query` from the model and nothing else: what may be seen is not the model's choice.

    Its content is the fenced block of inject mode, which no passage can close; its artifact is the passages as
    documents, for citations.

    Args:
        retriever: any retriever of the core or of LangChain.
        name: what the model calls it by.
        description: when the model should, and how.
        top_k: passages per call, 1 or more.
        retrieval_filter: called with the actor, `config["configurable"]["actor"]` or else the context of the run, and
            returns the filter of what that actor may see, a filter of the core; a raise, None, anything else or a
            missing actor fails the call.
        min_score: a floor on the retriever's scores.
        max_chars: the room for the passages, see `agora_core.render_context`; None for no bound.
        measure: the unit of `max_chars`: characters, or a model's token counter.
        source_key: the metadata key of the artifact's documents under which the citation label is put.
        score_key: the metadata key under which the score is put; None leaves it out.

    Examples:
        >>> tool = create_retrieve_tool(retriever.scoped({"acl": ["staff"]}), top_k=1)
        >>> "[1] (leave.md)" in tool.invoke({"query": "days of leave"})
        True
    """
    injector = ContextInjector(
        as_core_retriever(retriever),
        top_k=top_k,
        retrieval_filter=retrieval_filter,
        min_score=min_score,
        max_chars=max_chars,
        measure=measure,
    )

    def answer(passages: list[Passage]) -> tuple[str, list[Document]]:
        documents = [to_document(passage, source_key=source_key, score_key=score_key) for passage in passages]
        return injector.render(passages) or NOTHING, documents

    def retrieve(query: str, config: RunnableConfig) -> Any:
        return answer(injector.inject(query, actor=actor_of(config)).passages)

    async def aretrieve(query: str, config: RunnableConfig) -> Any:
        return answer((await injector.ainject(query, actor=actor_of(config))).passages)

    return StructuredTool.from_function(
        func=retrieve,
        coroutine=aretrieve,
        name=name,
        description=description,
        response_format="content_and_artifact",
    )
