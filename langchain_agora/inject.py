"""`InjectContext`: inject mode as a step of any chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.messages import convert_to_messages
from langchain_core.prompt_values import ChatPromptValue, PromptValue, StringPromptValue
from langchain_core.runnables import Runnable, RunnableConfig

from agora_core.errors import InvalidArgumentError
from agora_core.inject import ContextInjector, RetrievalFilter, fold_context, render_context
from agora_core.protocols import Retriever, Step
from agora_core.records import Passage
from langchain_agora.messages import fold_into_messages, question_in, text_of
from langchain_agora.retriever import as_core_retriever
from langchain_agora.scope import actor_of, translated


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
    """

    def __init__(
        self,
        retriever: Retriever | Runnable[str, Any],
        *,
        top_k: int = 5,
        retrieval_filter: RetrievalFilter | None = None,
        min_score: float | None = None,
        step: Step | None = None,
        key: str = "messages",
        output_key: str | None = None,
        name: str | None = None,
    ) -> None:
        """Take the arguments of `ContextInjector`, and where to look in a dict.

        Args:
            retriever: any retriever of the core or of LangChain.
            top_k: passages per call, 1 or more.
            retrieval_filter: called with the actor, returns the filter of what that actor may see; a raise, None or
                anything that is no filter fails the call. The actor is the call's `actor=`, else
                `config["configurable"]["actor"]`, else the context of the LangGraph run; None where there is none.
            min_score: a floor on the retriever's scores.
            step: the durable seam, see `ContextInjector`.
            key: the key of a dict that holds the messages or the question.
            output_key: where given, a dict gets the bare block under this key ("" without passages), for a prompt with
                a place of its own for it, and what stands under `key` is left alone.
            name: the name of the step in traces.
        """
        self._injector = ContextInjector(
            as_core_retriever(retriever),
            top_k=top_k,
            retrieval_filter=translated(retrieval_filter),
            min_score=min_score,
            step=step,
        )
        self.key, self.output_key = key, output_key
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
        self, input: Any, run_manager: CallbackManagerForChainRun, config: RunnableConfig, *, actor: Any = None
    ) -> Any:
        injection = self._injector.inject(self._query(input), actor=actor_of(config, actor))
        return self._folded(input, injection.passages)

    async def _ainject(
        self, input: Any, run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig, *, actor: Any = None
    ) -> Any:
        injection = await self._injector.ainject(self._query(input), actor=actor_of(config, actor))
        return self._folded(input, injection.passages)

    def _query(self, input: Any) -> str:
        return _query_of(self._inside(input) if isinstance(input, Mapping) else input)

    def _folded(self, input: Any, passages: list[Passage]) -> Any:
        if not isinstance(input, Mapping):
            return _fold(input, passages)
        if self.output_key is not None:
            return {**input, self.output_key: render_context(passages)}
        return {**input, self.key: _fold(self._inside(input), passages)}

    def _inside(self, input: Mapping[str, Any]) -> Any:
        if self.key not in input:
            raise InvalidArgumentError(
                f"InjectContext looks for the key {self.key!r} in a dict and got one with {sorted(map(str, input))}; "
                "name the key that holds the messages or the question: InjectContext(..., key=...)"
            )
        return input[self.key]


def _query_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, StringPromptValue):
        return value.text
    if isinstance(value, PromptValue):
        return text_of(question_in(value.to_messages()))
    return text_of(question_in(convert_to_messages(_messages(value))))


def _fold(value: Any, passages: list[Passage]) -> Any:
    if not passages:
        return value
    if isinstance(value, str):
        return f"{fold_context('', passages)}\n\n{value}"
    if isinstance(value, StringPromptValue):
        return StringPromptValue(text=_fold(value.text, passages))
    if isinstance(value, PromptValue):
        return ChatPromptValue(messages=fold_into_messages(value.to_messages(), passages))
    return fold_into_messages(convert_to_messages(_messages(value)), passages)


def _messages(value: Any) -> Sequence[Any]:
    if not isinstance(value, Sequence):
        raise InvalidArgumentError(
            "InjectContext takes a str, a list of messages, a prompt value or a dict with one of them, "
            f"got {type(value).__name__}"
        )
    return value
