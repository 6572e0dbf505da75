"""Stacked views and namespaces against one plain model: what lies outside a view changes nothing that is seen in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import pytest

from agora_core import (
    EmbeddingRetriever,
    HybridRetriever,
    IngestDocument,
    KeywordRetriever,
    LexicalRetriever,
    MemoryLexicalVectorStore,
    MemoryVectorStore,
    ScopedVectorStore,
    ScopeViolationError,
    UnsupportedOperationError,
    VectorRecord,
    document_id_of,
    ingest_documents,
    matches_filter,
)
from agora_core.retrievers.scoped import seen_from
from agora_core.stores.base import BaseVectorStore
from agora_core.testing import FakeEmbeddingProvider
from tests.contract.backends import open_backends

Layers = list[tuple[dict[str, Any], str | None]]
Seen = dict[str, tuple[str, VectorRecord]]

FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
VECTORS = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
IDS = ["a#0", "a#1", "b#0", "b", "n\x1fa#0", "m\x1fb#0", "zz#7"]
FILTERS: list[dict[str, Any]] = [{}, {"t": "x"}, {"t": ["x", "y"]}, {"k": 1}, {"t": []}]
STACKS: list[Layers] = [
    [({"t": "x"}, None)],
    [({}, "n")],
    [({"t": ["x", "y"]}, "n")],
    [({"t": ["x", "y"]}, "n"), ({"k": 1}, None)],
    [({"t": ["x", "y"]}, None), ({"k": [1, 2]}, "m")],
    [({}, "n"), ({"t": "y"}, "m")],
]


class Model:
    """All records under the ids they are kept with, and what a stack of views shows of them."""

    def __init__(self) -> None:
        self.records: dict[str, VectorRecord] = {}

    def seen(self, layers: Layers) -> Seen:
        # What any of the views leaves out hides nothing in another.
        shown: Seen = {key: (key, r) for key, r in self.records.items() if self.inside(layers, r.metadata)}
        for _, namespace in layers:
            if namespace is not None:
                prefix = f"{namespace}\x1f"
                own = {key[len(prefix) :]: value for key, value in shown.items() if key.startswith(prefix)}
                others = {key: value for key, value in shown.items() if not key.startswith(prefix)}
                shown = {**others, **own}
        return shown

    def kept(self, layers: Layers, key: str) -> str:
        return "".join(f"{namespace}\x1f" for _, namespace in layers if namespace is not None) + key

    def inside(self, layers: Layers, metadata: Any) -> bool:
        return all(matches_filter(metadata, filter) for filter, _ in layers)

    def upsert(self, layers: Layers, records: list[VectorRecord]) -> None:
        last = {record.id: record for record in records}
        for record in last.values():
            kept = self.records.get(self.kept(layers, record.id))
            if not self.inside(layers, record.metadata) or (kept and not self.inside(layers, kept.metadata)):
                raise ScopeViolationError("outside")
        for key, record in last.items():
            name = self.kept(layers, key)
            self.records[name] = VectorRecord(name, record.text, record.embedding, record.source, record.metadata)

    def drop(self, layers: Layers, matches: Callable[[str], bool]) -> int:
        doomed = [k for k, r in self.records.items() if matches(k) and self.inside(layers, r.metadata)]
        for key in doomed:
            del self.records[key]
        return len(doomed)


def views(store: Any, layers: Layers) -> Any:
    for filter, namespace in layers:
        store = store.scoped(filter, namespace=namespace)
    return store


def a_record(random: Random) -> VectorRecord:
    metadata = {"t": random.choice("xyz"), "k": random.choice([1, 2])}
    return VectorRecord(
        random.choice(IDS),
        random.choice(["heat", "heat pump", "heat heat", "cold"]),
        random.choice(VECTORS),
        None,
        metadata,
    )


def look(view: Any, model: Model, layers: Layers, random: Random) -> None:
    """Compare every reading of a view with the model's."""
    filter = random.choice(FILTERS)
    seen = model.seen(layers)
    matching = {key: value[1] for key, value in seen.items() if matches_filter(value[1].metadata, filter)}
    assert [record.id for record in view.scan(filter)] == sorted(matching)
    assert view.count(filter) == len(matching)
    documents = sorted({document_id_of(key) for key in matching})
    assert [entry.id for entry in view.list_documents(filter)] == documents
    assert view.list_document_ids(filter) == documents
    facets = {value: sum(r.metadata["t"] == value for r in matching.values() if r.metadata) for value in "xyz"}
    expected = sorted(((v, n) for v, n in facets.items() if n), key=lambda entry: (-entry[1], entry[0]))
    assert view.facets("t", filter=filter) == expected
    own = [key for key in IDS if (_full := model.kept(layers, key)) in model.records]
    own = [key for key in own if model.inside(layers, model.records[model.kept(layers, key)].metadata)]
    assert [record.id for record in view.get(IDS)] == own
    query, top_k, per_document = random.choice(VECTORS), random.choice([1, 2, 5]), random.choice([None, 1, 2])
    ranked = sorted(matching, key=lambda key: (-_dot(query, matching[key].embedding), key))
    kept = [
        key
        for n, key in enumerate(ranked)
        if per_document is None or [document_id_of(k) for k in ranked[:n]].count(document_id_of(key)) < per_document
    ]
    found = view.search(query, top_k=top_k, filter=filter, **({"per_document": per_document} if per_document else {}))
    assert [passage.id for passage in found] == kept[:top_k]
    again = EmbeddingRetriever(Fixed(query), view)
    hybrid = HybridRetriever([again, again]).retrieve("q", top_k=top_k, filter=filter, per_document=per_document)
    assert sorted(p.id for p in hybrid)[:0] == []
    assert {p.id for p in hybrid} <= set(matching)
    retrieved = again.retrieve("q", top_k=top_k, filter=filter, per_document=per_document)
    assert [passage.id for passage in retrieved] == kept[:top_k]
    if hasattr(view, "search_text"):
        look_for_words(view, model, layers, filter, matching, seen)


def look_for_words(
    view: Any, model: Model, layers: Layers, filter: Any, matching: dict[str, VectorRecord], seen: Seen
) -> None:
    """Compare what words find in a view with an index of nothing but what is in its scope."""
    whole = KeywordRetriever()
    scoped = [record for record in model.records.values() if model.inside(layers, record.metadata)]
    whole.add(scoped)
    scores = {passage.id: passage.score for passage in whole.retrieve("heat", top_k=100)}
    expected = {key: scores[seen[key][0]] for key in matching if seen[key][0] in scores}
    for found in (
        view.search_text("heat", top_k=100, filter=filter),
        LexicalRetriever(view).retrieve("heat", top_k=100, filter=filter),
    ):
        assert {passage.id: passage.score for passage in found} == expected
    both = view.search_hybrid("heat", VECTORS[0], top_k=100, filter=filter)
    assert {passage.id for passage in both} == set(matching)


def _dot(one: Any, other: Any) -> float:
    return float(sum(a * b for a, b in zip(one, other, strict=True)))


class Fixed:
    """An embedder with one answer."""

    def __init__(self, vector: list[float]) -> None:
        self.vector = vector

    def embed(self, texts: Any) -> Any:
        return [self.vector for _ in texts]


def change(view: Any, model: Model, layers: Layers, random: Random) -> None:
    """Make one random change through a view, in the store and in the model, and compare the answers."""
    kind = random.choice(["upsert", "upsert", "upsert", "delete", "remove", "replace", "patch", "where"])
    key = random.choice(IDS)
    prefix = model.kept(layers, "")
    if kind == "upsert":
        records = [a_record(random) for _ in range(random.choice([1, 3]))]
        alike(lambda: model.upsert(layers, records), lambda: view.upsert(records), prefix)
    elif kind == "delete":
        assert view.delete([key]) == model.drop(layers, lambda k: k == prefix + key)
    elif kind == "remove":
        wanted = document_id_of(key)
        assert view.remove(wanted) == model.drop(layers, lambda k: document_id_of(k) == prefix + wanted)
    elif kind == "replace":
        wanted = document_id_of(key)
        records = [r for r in (a_record(random) for _ in range(4)) if document_id_of(r.id) == wanted]

        def replace() -> None:
            model.upsert(layers, records)
            new = {prefix + record.id for record in records}
            model.drop(layers, lambda k: document_id_of(k) == prefix + wanted and k not in new)

        alike(replace, lambda: view.replace_documents([wanted], records), prefix)
    elif kind == "patch":
        wanted, patch = document_id_of(key), {"t": random.choice("xyz")}

        def update() -> None:
            touched = {k: r for k, r in model.records.items() if document_id_of(k) == prefix + wanted}
            touched = {k: r for k, r in touched.items() if model.inside(layers, r.metadata)}
            changed = {k: {**(r.metadata or {}), **patch} for k, r in touched.items()}
            if not all(model.inside(layers, metadata) for metadata in changed.values()):
                raise ScopeViolationError("outside")
            for k, r in touched.items():
                model.records[k] = VectorRecord(k, r.text, r.embedding, r.source, changed[k])

        alike(update, lambda: view.update_metadata(wanted, patch), prefix)
    else:
        filters: list[dict[str, Any]] = [{"t": "z"}, {"t": "y", "k": 2}]
        filter = random.choice(filters)
        seen = model.seen(layers)
        doomed = {full for full, record in seen.values() if matches_filter(record.metadata, filter)}
        assert view.remove_where(filter) == len(doomed)
        for full in doomed:
            del model.records[full]


def alike(expected: Callable[[], Any], actual: Callable[[], Any], prefix: str) -> None:
    try:
        expected()
    except ScopeViolationError:
        with pytest.raises(ScopeViolationError) as told:
            actual()
        # An error shows ids as `repr` writes them.
        assert not prefix or repr(prefix)[1:-1] not in str(told.value)
        return
    actual()


@pytest.fixture(scope="module")
def stores(pg_conninfo: str) -> Iterator[dict[str, Callable[[], Any]]]:
    with open_backends(pg_conninfo) as opened:
        sync = [backend for backend in opened.all if backend.colour == "sync"]
        made = {backend.name: partial(backend.empty, "cosine") for backend in sync}
        yield {**made, "memory with texts": partial(MemoryLexicalVectorStore, "cosine", 3)}


@pytest.mark.parametrize("name", ["memory", "memory with texts", "postgres", "qdrant"])
def test_views_show_what_the_model_shows_and_nothing_outside_matters(
    stores: dict[str, Callable[[], Any]], name: str
) -> None:
    """Kind: a hidden record that shows in an id, a score, an order, a count, a facet or an error of a view."""

    for seed in range((2000 if FUZZ else 16) if "memory" in name else (200 if FUZZ else 5)):
        random, store, model = Random(seed), stores[name](), Model()
        for _ in range(12):
            layers = random.choice(STACKS)
            change(views(store, layers), model, layers, random)
            look(views(store, layers), model, layers, random)
            change(store, model, [], random)
            layers = random.choice(STACKS)
            look(views(store, layers), model, layers, random)


class Wrapper:
    """Somebody's wrapper round a view, which is no view by its class."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Silent:
    """A wrapper that does not say what bounds it."""

    def __init__(self, store: BaseVectorStore) -> None:
        self.upsert, self.search = store.upsert, store.search
        self.remove, self.list_documents = store.remove, store.list_documents


def stacks(store: Any) -> list[Any]:
    stacked = store.scoped({"tenant": "a"}).scoped({"year": 2024}, on_write="stamp")
    return [stacked, Wrapper(stacked), ScopedVectorStore(Wrapper(store.scoped({"tenant": "a"})), {"year": 2024})]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_keyword_index_beside_a_store_is_bounded_by_the_whole_scope(which: int) -> None:
    """Kind: a bound restated outside the object that enforces it; a type test that fails open."""
    store, keyword, embedder = MemoryVectorStore(), KeywordRetriever(), FakeEmbeddingProvider(dimensions=16)
    b = IngestDocument("handbook", "salary of b", None, {"tenant": "b", "year": 2024})
    ingest_documents([b], embedder=embedder, store=store, keyword=keyword)
    view = stacks(store)[which]
    assert [p.id for p in seen_from(keyword, view).retrieve("salary")] == []
    ingest_documents([IngestDocument("handbook", "")], embedder=embedder, store=view, keyword=keyword)
    assert [p.id for p in keyword.retrieve("salary")] == ["handbook#0"]
    assert [record.id for record in store.scan()] == ["handbook#0"]


def test_a_store_that_does_not_say_what_bounds_it_keeps_nothing_beside_it() -> None:
    store = Silent(MemoryVectorStore().scoped({"tenant": "a"}))
    with pytest.raises(UnsupportedOperationError, match="'scope'"):
        ingest_documents([], embedder=FakeEmbeddingProvider(), store=store, keyword=KeywordRetriever())
    assert not hasattr(ScopedVectorStore(store, {"x": 1}), "scope")


def test_scopes_of_composed_retrievers() -> None:
    store, embedder = MemoryVectorStore(), FakeEmbeddingProvider()
    a, b = (EmbeddingRetriever(embedder, store.scoped({"tenant": t})) for t in "ab")
    free = EmbeddingRetriever(embedder, store)
    assert HybridRetriever([a, a]).scope == a.scope
    both = HybridRetriever([a, b]).scope
    assert both is not None
    assert [matches_filter({"tenant": t}, both) for t in "abc"] == [True, True, False]
    assert HybridRetriever([a, free]).scope is None is free.scope
    assert a.scoped({"year": 2024}).scope == store.scoped({"tenant": "a"}).scoped({"year": 2024}).scope


def test_two_tenants_have_documents_of_one_name_in_store_and_index() -> None:
    store, keyword, embedder = MemoryVectorStore(), KeywordRetriever(), FakeEmbeddingProvider(dimensions=16)
    for tenant in "ab":
        view = store.scoped({"tenant": tenant}, on_write="stamp", namespace=tenant)
        document = IngestDocument("README.md", f"words of {tenant}")
        ingest_documents([document], embedder=embedder, store=view, keyword=keyword)
    shared = IngestDocument("LICENSE", "words for all", None, {"tenant": ["a", "b"]})
    ingest_documents(
        [shared, IngestDocument("README.md", "words", None, {"tenant": "b"})], embedder=embedder, store=store
    )
    view = store.scoped({"tenant": "a"}, namespace="a")
    assert view.namespace == "a"
    assert view.list_document_ids() == ["README.md"]
    assert [(p.id, p.text) for p in seen_from(keyword, view).retrieve("words")] == [("README.md#0", "words of a")]
    assert sorted(p.id for p in keyword.retrieve("words")) == ["a\x1fREADME.md#0", "b\x1fREADME.md#0"]
    ingest_documents([IngestDocument("README.md", " ")], embedder=embedder, store=view, keyword=keyword)
    assert view.count() == 0
    assert store.scoped({"tenant": "b"}, namespace="b").count() == 1
    assert [p.id for p in keyword.retrieve("words")] == ["b\x1fREADME.md#0"]


def test_nested_namespaces_join_and_async_means_the_same() -> None:
    store = MemoryVectorStore("cosine", 3)
    view = store.scoped({}, namespace="n").scoped({}, namespace="m")
    assert view.namespace == "n\x1fm"

    async def write() -> list[str]:
        await view.aupsert([VectorRecord("a#0", "", [1, 0, 0])])
        return [record.id async for record in view.ascan()]

    assert asyncio.run(write()) == ["a#0"]
    assert [record.id for record in store.scan()] == ["n\x1fm\x1fa#0"]


@pytest.mark.parametrize("name", ["", "a\x1fb", 3, "\ud800"])
def test_a_bad_namespace_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="namespace"):
        MemoryVectorStore().scoped({}, namespace=name)
