"""A keyword index beside a store, whatever happened to either: it finds what the store's own text search finds."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

import llamaindex_agora as li
from agora_core import (
    IngestDocument,
    KeywordRetriever,
    MemoryLexicalVectorStore,
    MemoryVectorStore,
    ScopeViolationError,
    ingest_documents,
    sync_documents,
    sync_permissions,
)
from agora_core.retrievers.scoped import seen_from
from agora_core.stores.run_scope import RunScopedStore
from agora_core.testing import FakeEmbeddingProvider
from tests.contract.test_walls import STACKS, Layers, Wrapper, views

ROUNDS = 2_000 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 40
EMBEDDER = FakeEmbeddingProvider(dimensions=8)
NAMES = ["a", "b", "c"]


def some_documents(random: Random) -> list[IngestDocument]:
    """Documents with some label each, a blank one among them at times."""
    chosen = random.sample(NAMES, random.choice([1, 2]))
    texts = ["heat", "heat pump", "cold", "", "heat heat"]
    return [
        IngestDocument(name, random.choice(texts), None, {"t": random.choice("xyz"), "k": random.choice([1, 2])})
        for name in chosen
    ]


def change(store: Any, keyword: KeywordRetriever, layers: Layers, random: Random) -> str:
    """Make one change through a view, in both or in the store alone; return what it was."""
    view = views(store, layers)
    view = Wrapper(view) if random.random() < 0.3 else view
    kind = random.choice(["ingest", "ingest", "ingest", "sync", "labels", "patch", "remove", "where", "rebuild"])
    both: dict[str, Any] = {"store": view, "keyword": keyword}
    patch = {"t": random.choice("xyz")}
    if kind == "ingest":
        ingest_documents(some_documents(random), embedder=EMBEDDER, **both)
    elif kind == "sync":
        sync_documents(some_documents(random), embedder=EMBEDDER, **both)
    elif kind == "labels":
        sync_permissions([(random.choice(NAMES), patch)], **both)
    elif kind == "patch":
        view.update_metadata(random.choice(NAMES), patch)
    elif kind == "remove":
        view.remove(random.choice(NAMES))
    elif kind == "where":
        view.remove_where(patch)
    else:
        keyword.rebuild(store)
    return f"{kind} {layers}"


@pytest.mark.parametrize("seed", range(4))
def test_an_index_beside_a_store_finds_what_the_store_finds(seed: int) -> None:
    """Kind: two copies of a label or a text, one of them changed; through stacked views, wrappers and namespaces."""
    for round in range(ROUNDS // 4):
        random = Random(seed * 100_000 + round)
        store, keyword = MemoryLexicalVectorStore("cosine", 8), KeywordRetriever()
        ingest_documents(some_documents(random), embedder=EMBEDDER, store=store, keyword=keyword)
        assert keyword.backed_by is store
        history = []
        for _ in range(10):
            before = sorted((r.id, r.text, r.metadata) for r in store.scan())
            layers = random.choice([*STACKS, []])
            try:
                history.append(change(store, keyword, layers, random))
            except ScopeViolationError:
                history.append(f"refused {layers}")
                assert sorted((r.id, r.text, r.metadata) for r in store.scan()) == before, history
            for stack in [*STACKS, []]:
                view = views(store, stack)
                found = {passage.id: passage for passage in seen_from(keyword, view).retrieve("heat", top_k=100)}
                expected = {passage.id: passage for passage in view.search_text("heat", top_k=100)}
                assert found.keys() == expected.keys(), (history, stack)
                assert all(found[k].metadata == expected[k].metadata for k in found), (history, stack)
                assert all(found[k].text == expected[k].text for k in found), (history, stack)
        keyword.rebuild(store)
        again = [(p.id, round_(p.score)) for p in keyword.retrieve("heat", top_k=100)]
        assert again == [(p.id, round_(p.score)) for p in store.search_text("heat", top_k=100)]


def test_a_scope_of_the_run_bounds_what_is_kept_beside_the_store() -> None:
    """Kind: a type test that fails open; the bound is decided by who asks, at each call."""
    store, keyword, who = MemoryVectorStore("cosine", 8), KeywordRetriever(), {"tenant": "b"}
    bounded: Any = RunScopedStore(store, lambda: {"tenant": who["tenant"]}, on_write="stamp")
    both: dict[str, Any] = {"store": bounded, "keyword": keyword}
    nodes = li.AgoraVectorStore(store=bounded, keyword=keyword)
    modes = (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.HYBRID)

    def found() -> list[list[str] | None]:
        vector = list(EMBEDDER.embed(["heat"])[0])
        return [
            nodes.query(VectorStoreQuery(query_embedding=vector, query_str="heat", similarity_top_k=9, mode=mode)).ids
            for mode in modes
        ]

    ingest_documents([IngestDocument("shared", "heat of b")], embedder=EMBEDDER, **both)
    assert keyword.backed_by is None
    assert found() == [["shared#0"]] * 2
    who["tenant"] = "a"
    ingest_documents([IngestDocument("shared", ""), IngestDocument("own", "heat of a")], embedder=EMBEDDER, **both)
    sync_documents([IngestDocument("own", "heat of a")], embedder=EMBEDDER, **both)
    assert found() == [["own#0"]] * 2
    assert {p.id: p.metadata for p in keyword.retrieve("heat")} == {
        "shared#0": {"tenant": "b"},
        "own#0": {"tenant": "a"},
    }
    del who["tenant"]
    for call in (found, lambda: ingest_documents([IngestDocument("shared", "")], embedder=EMBEDDER, **both)):
        with pytest.raises(KeyError):
            call()


def round_(score: float) -> float:
    return round(score, 6)
