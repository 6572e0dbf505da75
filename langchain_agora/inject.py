"""`InjectContext`: inject mode as a step of any chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langchain_core.prompt_values import ChatPromptValue, PromptValue, StringPromptValue
from langchain_core.runnables import Runnable, RunnableConfig

from agora_core.errors import InvalidArgumentError
from agora_core.inject import ContextInjector, Measure, QueryFrom, RetrievalFilter
from agora_core.metadata import UNSET
from agora_core.protocols import AsyncRetriever, Step, SyncRetriever
from agora_core.records import Passage
from langchain_agora.documents import to_document
from langchain_agora.messages import fold_into_messages, question_in, text_of
from langchain_agora.retriever import as_core_retriever
from langchain_agora.scope import actor_of


class InjectContext(Runnable[Any, Any]):
    """Retrieves for what is asked and folds the passages into the system message. The shape stays what it was.

    | input | asked is | output |
    | --- | --- | --- |
    | messages | the latest human message | messages; the block in the first system message, or in a new first one |
    | chat prompt value | the same | chat prompt value |
    | str, string prompt value | the whole text | the block, a blank line, the text |
    | dict | what stands under `key`, any of the above | a copy with what stands there folded |

    Without passages the input comes back as it is. Streams and batches pass through it.

    ```python
    chain = prompt | InjectContext(retriever, top_k=3) | model
    chain.invoke({"question": "..."}, config={"configurable": {"actor": user}})
    ```

    Examples:
        >>> chain = InjectContext(retriever, top_k=1) | FakeListChatModel(responses=["30 days [1]."])
        >>> chain.invoke("How much leave do I get?").content
        '30 days [1].'
    """

    def __init__(
        self,
        retriever: SyncRetriever | AsyncRetriever | Runnable[str, Any],
        *,
        top_k: int = 5,
        retrieval_filter: RetrievalFilter | None = None,
        min_score: float | None = None,
        step: Step | None = None,
        query_from: QueryFrom | None = None,
        max_chars: int | None = None,
        measure: Measure = len,
        key: str = "messages",
        output_key: str | None = None,
        passages_key: str | None = None,
        name: str | None = None,
    ) -> None:
        """Take the arguments of `ContextInjector`, and where to look in a dict.

        Args:
            retriever: any retriever of the core or of LangChain.
            top_k: passages per call, 1 or more.
            retrieval_filter: called with the actor, returns the filter of what that actor may see: one of the core,
                whose values are data. A raise, None or anything else fails the call. The actor is the call's
                `actor=`, else `config["configurable"]["actor"]`, else the context of the LangGraph run; without any
                the call fails.
            min_score: a floor on the retriever's scores.
            step: the durable seam, see `ContextInjector`.
            query_from: called with the messages, returns the query, for instance `condense_question(model)`; None asks
                with the latest human message.
            max_chars: the room for the passages, see `agora_core.render_context`; None for no bound.
            measure: the unit of `max_chars`: characters, or a model's token counter.
            key: the key of a dict that holds the messages or the question.
            output_key: where given, a dict gets the bare block under this key ("" without passages), for a prompt with
                a place of its own for it, and what stands under `key` is left alone.
            passages_key: where given, a dict gets the passages under this key too, as documents with their label under
                `source` and their score under `score`: an answer and its sources in one retrieval.
            name: the name of the step in traces.
        """
        self._injector = ContextInjector(
            as_core_retriever(retriever),
            top_k=top_k,
            retrieval_filter=retrieval_filter,
            min_score=min_score,
            step=step,
            query_from=query_from,
            max_chars=max_chars,
            measure=measure,
        )
        self.key, self.output_key, self.passages_key = key, output_key, passages_key
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._injector.retriever!r}, top_k={self._injector.top_k})"

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Return `input` with the context folded in. The only keyword is `actor`."""
        return self._call_with_config(self._inject, input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Async twin of `invoke`."""
        return await self._acall_with_config(self._ainject, input, config, **kwargs)

    def _inject(
        self, input: Any, run_manager: CallbackManagerForChainRun, config: RunnableConfig, *, actor: Any = UNSET
    ) -> Any:
        query, messages = self._asked(input)
        injection = self._injector.inject(query, actor=actor_of(config, actor), messages=messages)
        return self._folded(input, injection.passages)

    async def _ainject(
        self, input: Any, run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig, *, actor: Any = UNSET
    ) -> Any:
        query, messages = self._asked(input)
        injection = await self._injector.ainject(query, actor=actor_of(config, actor), messages=messages)
        return self._folded(input, injection.passages)

    def _asked(self, input: Any) -> tuple[str, list[BaseMessage]]:
        return _asked_in(self._inside(input) if isinstance(input, Mapping) else input)

    def _folded(self, input: Any, passages: list[Passage]) -> Any:
        block = self._injector.render(passages)
        if not isinstance(input, Mapping):
            return _fold(input, block)
        folded = dict(input)
        if self.passages_key is not None:
            folded[self.passages_key] = [
                to_document(passage, source_key="source", score_key="score") for passage in passages
            ]
        if self.output_key is not None:
            folded[self.output_key] = block
        else:
            folded[self.key] = _fold(self._inside(input), block)
        return folded

    def _inside(self, input: Mapping[str, Any]) -> Any:
        if self.key not in input:
            raise InvalidArgumentError(
                f"InjectContext looks for the key {self.key!r} in a dict and got one with {sorted(map(str, input))}; "
                "name the key that holds the messages or the question: InjectContext(..., key=...)"
            )
        return input[self.key]


def _asked_in(value: Any) -> tuple[str, list[BaseMessage]]:
    """Return what is asked, and the conversation that it stands in."""
    if isinstance(value, (str, StringPromptValue)):
        text = value if isinstance(value, str) else value.text
        return text, [HumanMessage(text)]
    if isinstance(value, PromptValue):
        messages = value.to_messages()
    else:
        messages = convert_to_messages(_messages(value))
    return text_of(question_in(messages)), messages


def _fold(value: Any, block: str) -> Any:
    if not block:
        return value
    if isinstance(value, str):
        return f"{block}\n\n{value}"
    if isinstance(value, StringPromptValue):
        return StringPromptValue(text=_fold(value.text, block))
    if isinstance(value, PromptValue):
        return ChatPromptValue(messages=fold_into_messages(value.to_messages(), block))
    return fold_into_messages(convert_to_messages(_messages(value)), block)


def _messages(value: Any) -> Sequence[Any]:
    if not isinstance(value, Sequence):
        raise InvalidArgumentError(
            "InjectContext takes a str, a list of messages, a prompt value or a dict with one of them, "
            f"got {type(value).__name__}"
        )
    return value
