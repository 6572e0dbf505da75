"""A keyword index whose hits a store has the last word on: what it lacks, hides or has changed is so here too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from inspect import getattr_static
from typing import Any, Final

from agora_core.errors import InvalidArgumentError
from agora_core.filters import conjoin, scope_of
from agora_core.keyword.analysis import AnyTokenizer, passage_terms
from agora_core.keyword.querying import TextQuery
from agora_core.protocols import AnyFilter
from agora_core.records import ChunkRecord, Passage, VectorRecord, indexed_text
from agora_core.steps import Steps, ask
from agora_core.stores.ports import StorePort
from agora_core.stores.run_scope import abound_store, bound_store

_FILTERED: Final = 4
_GROWTH: Final = 8


def check_backing(store: object) -> None:
    """Refuse a store that cannot back an index, which keeps whole ids: it must say what bounds it, and show whole ids.

    Raises:
        UnsupportedOperationError: it has no `scope`.
        InvalidArgumentError: it is a view of a namespace.
    """
    # What is decided at each call cannot be asked now: that there is such an attribute is enough.
    if getattr_static(store, "scope", None) is None:
        StorePort(store).scope()
    namespace: str | None = getattr(store, "namespace", None)
    if namespace is not None:
        raise InvalidArgumentError(
            f"backed_by shows the ids of the namespace {namespace!r} alone, and an index keeps whole ids; give the "
            "store behind the view, and ask the index through index.scoped(view.scope, namespace=...)"
        )


Ranked = list[tuple[float, str]]
Search = Callable[[int, "set[str] | None"], Ranked]
"""Returns scores and ids of the best passages, best first, of all or as if there were only those of a set."""


def backed_passages(
    store: object, search: Search, query: TextQuery, tokenizer: AnyTokenizer, count: int, filter: AnyFilter | None
) -> Steps[list[Passage]]:
    """Return the `count` best hits that the store has within `filter`, as it has them.

    One `get` in all, and another for more where some fall out. Through a scope, the call's or the store's own, the ids
    in it are read from the store before, so that no statistics are taken from elsewhere.
    """
    port = StorePort((yield from ask(bound_store, abound_store, store)))
    behind, called = port.scope(), None if filter is None else scope_of(filter)
    scope = called if behind is None else conjoin(behind, called)
    visible: set[str] | None = None
    if scope is not None:
        visible, reader = set(), port.reader(scope)
        while page := (yield from reader.page()):
            visible.update(record.id for record in page)
    asked = count if filter is None else count * _FILTERED
    judged: set[str] = set()
    kept: list[Passage] = []
    while True:
        one = partial(search, asked, visible)
        ranked = yield from ask(one, partial(asyncio.to_thread, one))
        fresh = [(score, key) for score, key in ranked if key not in judged]
        judged.update(key for _, key in fresh)
        found = (yield from port.get([key for _, key in fresh], within=filter)) if fresh else []
        records = {record.id: record for record in found}
        for score, key in fresh:
            record = records.get(key)
            if record is not None and _still_found(record, query, tokenizer):
                kept.append(Passage(key, record.text, score, record.source, _plain(record.metadata)))
        if len(kept) >= count or len(ranked) < asked:
            return kept[:count]
        asked *= _GROWTH


def stored_chunks(store: object) -> Steps[list[ChunkRecord]]:
    """Read everything in a store, without its embeddings, under the ids that are kept."""
    stored_ids: Any = getattr(store, "stored_ids", None)
    reader, chunks = StorePort(store).reader(), list[ChunkRecord]()
    while page := (yield from reader.page()):
        keys = [record.id for record in page]
        for key, record in zip(keys if stored_ids is None else stored_ids(keys), page, strict=True):
            chunks.append(ChunkRecord(key, record.text, record.source, record.metadata, record.context))
    return chunks


def _still_found(record: VectorRecord, query: TextQuery, tokenizer: AnyTokenizer) -> bool:
    text = indexed_text(record.text, record.context)
    return not query.weights.keys().isdisjoint(passage_terms(tokenizer, text)[0]) and query.admits(tokenizer, text)


def _plain(metadata: Any) -> Any:
    return None if metadata is None else dict(metadata)
