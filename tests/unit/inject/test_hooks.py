"""A turn of inject mode with hooks, steps and passages that mean harm: it fails, or stays inside its fence."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agora_core import ContextInjector, InvalidFilterError, Passage, UnsupportedOperationError, field
from agora_core.metadata import UNSET


class Recorder:
    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def retrieve(self, query: str, **options: Any) -> list[Passage]:
        self.calls.append(options)
        return [Passage("a", "text", 1.0)]


async def _later(value: Any) -> Any:
    return value


class Promise:
    """Awaitable, and no coroutine."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        return self._value


NO_FILTERS = [None, [], [("a", 1)], (), "tenant = 'a'", b"", 0, 1, False, True, object(), UNSET, field("a"), field]
NO_FILTERS += [
    {"a": UNSET},
    {"a": {1, 2}},
    {1: "a"},
    {"a": field("b")},
    {"a": [field("b") == 1]},
    iter([]),
    Promise({}),
]


@pytest.mark.parametrize("answer", NO_FILTERS, ids=range(len(NO_FILTERS)))
@pytest.mark.parametrize("wrap", [None, _later, Promise], ids=["plain", "coroutine", "awaitable"])
def test_a_hook_without_a_filter_retrieves_nothing(answer: Any, wrap: Any) -> None:
    retriever = Recorder()
    injector = ContextInjector(retriever, retrieval_filter=lambda actor: answer if wrap is None else wrap(answer))
    with pytest.raises((InvalidFilterError, UnsupportedOperationError)):
        injector.inject("q", actor=None)
    if not (wrap is None and isinstance(answer, Promise)):
        with pytest.raises(InvalidFilterError):
            asyncio.run(injector.ainject("q", actor=None))
    assert retriever.calls == []


def test_an_awaited_filter_serves_async_code_only() -> None:
    for hook in (lambda actor: _later({"t": actor}), lambda actor: Promise({"t": actor})):
        retriever = Recorder()
        injector = ContextInjector(retriever, retrieval_filter=hook)
        with pytest.raises(UnsupportedOperationError):
            injector.inject("q", actor="a")
        assert retriever.calls == []
        asyncio.run(injector.ainject("q", actor="a"))
        assert retriever.calls == [{"top_k": 5, "filter": {"t": "a"}}]
