"""Ask a retriever of this library, of LangChain or of LlamaIndex, and read the ids of its answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from agora_core.calling import acall_function, call_function
from agora_core.errors import InvalidArgumentError
from agora_core.steps import Steps, ask

# The methods of a core retriever, a LangChain and a LlamaIndex one, in the order in which they are looked for.
_METHODS = (("retrieve", "aretrieve"), ("invoke", "ainvoke"))


class Asker:
    """One retriever under its name, asked for the ids of what it finds, best first."""

    def __init__(self, name: str, retriever: Any) -> None:
        """Take any object with `retrieve` or `invoke`, or the async twin of one.

        Raises:
            InvalidArgumentError: it has none of them.
        """
        self.name = name
        self._type = type(retriever).__name__
        self._sync, self._async = self._methods(retriever)

    def _methods(self, retriever: Any) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
        for plain, twin in _METHODS:
            found = getattr(retriever, plain, None), getattr(retriever, twin, None)
            if callable(found[0]) or callable(found[1]):
                return found
        raise InvalidArgumentError(
            f"retrievers[{self.name!r}] must have a method retrieve, as those of this library and of LlamaIndex have, "
            f"or invoke, as LangChain's have; {self._type} has neither"
        )

    def ids(self, query: str, top_k: int) -> Steps[list[str]]:
        """Return the ids of at most `top_k` passages, each once.

        Raises:
            InvalidArgumentError: an answer has no id.
        """
        sync, twin = self._sync, self._async

        def now() -> Any:
            return call_function(sync or _only_async(self._type), query, what=self._type, **_options(sync, top_k))

        def awaited() -> Any:
            function: Any = twin or sync
            return acall_function(function, query, **_options(function, top_k))

        found: Iterable[Any] = yield from ask(now, awaited)
        return list(dict.fromkeys(self._id_of(one) for one in found))[:top_k]

    def _id_of(self, found: Any) -> str:
        # A LlamaIndex answer wraps its node.
        one = getattr(found, "node", found)
        for name in ("id", "node_id"):
            key = getattr(one, name, None)
            if isinstance(key, str) and key:
                return key
        raise InvalidArgumentError(
            f"retrievers[{self.name!r}] answered with a {type(found).__name__} without an id, so it cannot be compared "
            "with the judgements; index its documents under ids"
        )


def _options(method: Any, top_k: int) -> dict[str, int]:
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return {}
    # The frameworks' retrievers hold their number of results themselves.
    return {"top_k": top_k} if "top_k" in parameters else {}


def _only_async(kind: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise InvalidArgumentError(f"{kind} has only async methods; await aevaluate instead")

    return refuse
