"""A store that states each operation once gets both twins of every method, and keeps heavy work off the event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from agora_core.filters import all_of, field, not_
from agora_core.records import VectorRecord
from agora_core.steps import Steps, arun, ask, run
from agora_core.stores.base import BaseVectorStore
from agora_core.stores.memory import MemoryVectorStore
from agora_core.stores.operations import LexicalOperations, OperationStore


class ForwardingStore(OperationStore):
    """Each operation asks a memory store; pages of a scan hold two records."""

    metric = "cosine"
    dimension = 2

    def __init__(self) -> None:
        self.behind = MemoryVectorStore("cosine", 2)
        self.built_in: list[int] = []

    def _run(self, operation: Any) -> Any:
        return run(operation)

    async def _arun(self, operation: Any) -> Any:
        return await arun(operation)

    def _upsert(self, records: Iterable[VectorRecord], within: Any) -> Steps[int]:
        self.built_in.append(threading.get_ident())
        kept = list(records)
        return ask(self.behind.upsert, self.behind.aupsert, kept, within=within)

    def _search(self, embedding: Any, top_k: Any, filter: Any, min_score: Any, per_document: Any) -> Steps[Any]:
        return ask(self.behind.search, self.behind.asearch, embedding, top_k=top_k, filter=filter, min_score=min_score)

    def _get(self, ids: Any, within: Any) -> Steps[Any]:
        return ask(self.behind.get, self.behind.aget, ids, within=within)

    def _delete(self, ids: Any, within: Any) -> Steps[int]:
        return ask(self.behind.delete, self.behind.adelete, ids, within=within)

    def _remove(self, document_id: Any, within: Any) -> Steps[int]:
        return ask(self.behind.remove, self.behind.aremove, document_id, within=within)

    def _remove_where(self, filter: Any) -> Steps[int]:
        return ask(self.behind.remove_where, self.behind.aremove_where, filter)

    def _replace_documents(self, document_ids: Any, records: Any, within: Any) -> Steps[int]:
        kept = list(records)
        return ask(self.behind.replace_documents, self.behind.areplace_documents, document_ids, kept, within=within)

    def _update_metadata(self, document_id: Any, patch: Any, within: Any) -> Steps[int]:
        return ask(self.behind.update_metadata, self.behind.aupdate_metadata, document_id, patch, within=within)

    def _list_documents(self, filter: Any) -> Steps[Any]:
        return ask(self.behind.list_documents, self.behind.alist_documents, filter)

    def _list_document_ids(self, filter: Any) -> Steps[Any]:
        return ask(self.behind.list_document_ids, self.behind.alist_document_ids, filter)

    def _count(self, filter: Any) -> Steps[int]:
        self.built_in.append(threading.get_ident())
        return ask(self.behind.count, self.behind.acount, filter)

    def _scan(self, filter: Any) -> Any:
        records = list(self.behind.scan(filter))
        return self._page(records, 0)

    def _page(self, records: list[VectorRecord], start: int) -> Steps[Any]:
        yield from ()
        following = self._page(records, start + 2) if start + 2 < len(records) else None
        return records[start : start + 2], following

    def _facets(self, key: Any, filter: Any, limit: Any) -> Steps[Any]:
        def count() -> Any:
            return self.behind.facets(key, filter=filter, limit=limit)

        async def acount() -> Any:
            return count()

        return ask(count, acount)

    def _check(self) -> Any:
        raise NotImplementedError


def records(count: int) -> list[VectorRecord]:
    return [VectorRecord(f"d#{n:03}", "text", [1.0, float(n)], None, {"n": n}) for n in range(count)]


def test_both_twins_answer_alike() -> None:
    async def asked() -> list[Any]:
        store = ForwardingStore()
        return [
            await store.aupsert(records(5)),
            [r.id async for r in store.ascan()],
            await store.acount({"n": 1}),
            [p.id for p in await store.asearch([1, 0], top_k=2)],
            await store.afacets("n", limit=1),
            await store.adelete(["d#001"]),
        ]

    store = ForwardingStore()
    assert asyncio.run(asked()) == [
        store.upsert(records(5)),
        [r.id for r in store.scan()],
        store.count({"n": 1}),
        [p.id for p in store.search([1, 0], top_k=2)],
        store.facets("n", limit=1),
        store.delete(["d#001"]),
    ]


@pytest.mark.parametrize(("count", "on_the_loop"), [(3, True), (500, False)])
def test_many_records_are_prepared_beside_the_event_loop(count: int, on_the_loop: bool) -> None:
    """Kind: the validation of a large batch holding every other task of the loop."""
    store = ForwardingStore()
    asyncio.run(store.aupsert(records(count)))
    asyncio.run(store.aupsert(iter(records(count))))
    assert [thread == threading.get_ident() for thread in store.built_in] == [on_the_loop, False]


@pytest.mark.parametrize(("values", "on_the_loop"), [(3, True), (500, False)])
def test_a_long_filter_is_compiled_beside_the_event_loop(values: int, on_the_loop: bool) -> None:
    """Kind: a list of groups of thousands, made into tokens while every other task of the loop waits."""
    store, many = ForwardingStore(), list(range(values))
    for filter in ({"n": many}, all_of(field("n").in_(many), field("m") == 1), not_({"n": many})):
        asyncio.run(store.acount(filter))
    assert [thread == threading.get_ident() for thread in store.built_in] == [on_the_loop] * 3


@pytest.mark.parametrize("kind", [BaseVectorStore, OperationStore, LexicalOperations])
def test_twins_have_one_signature_and_every_public_method_is_documented(kind: type) -> None:
    for name, method in vars(kind).items():
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        assert method.__doc__, f"{kind.__name__}.{name} has no docstring"
        twin = vars(kind).get(f"a{name}")
        if twin is not None:
            assert inspect.signature(twin).parameters == inspect.signature(method).parameters, name
