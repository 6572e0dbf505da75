"""Nothing reaches out of a scope, in both colours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.documents import Document

from agora_core import (
    EmbeddingRetriever,
    InvalidFilterError,
    MemoryVectorStore,
    ScopeViolationError,
    VectorRecord,
    field,
)
from langchain_agora import AgoraVectorStore, LangChainEmbeddingProvider, to_core_filter
from tests.unit.langchain_agora.angles import Angles, angles, ids_of
from tests.unit.langchain_agora.colours import Run


def two_tenants(run: Run) -> AgoraVectorStore:
    vectors = angles()
    metadata = [{"tenant": "a"}, {"tenant": "b"}, {"tenant": "b"}]
    run(vectors, "add_texts", ["0", "1", "2"], metadata, ids=["a0", "b1", "b2"])
    return vectors


def by_config(config: dict[str, Any]) -> dict[str, str]:
    return {"tenant": config["configurable"]["tenant"]}


SCOPES: list[Any] = [
    {"tenant": "b"},
    field("tenant") == "b",
    to_core_filter({"tenant": {"$eq": "b"}}),
    lambda config: field("tenant").in_(["b"]),
]


@pytest.mark.parametrize("scope", SCOPES, ids=["mapping", "expression", "operators", "function"])
def test_nothing_reaches_out_of_a_scope(run: Run, scope: Any) -> None:
    whole = two_tenants(run)
    view = whole.scoped(scope)
    assert type(view) is AgoraVectorStore
    assert ids_of(run(view, "similarity_search", "0")) == ["b1", "b2"]
    for filter in ({}, {"tenant": "a"}, {"$or": [{"tenant": "a"}, {"tenant": "b"}]}, field("tenant").exists()):
        assert set(ids_of(run(view, "similarity_search", "0", filter=filter))) <= {"b1", "b2"}
        assert set(ids_of(run(view, "max_marginal_relevance_search", "0", filter=filter))) <= {"b1", "b2"}
        assert set(ids_of(run(view.as_retriever(), "invoke", "0", filter=filter))) <= {"b1", "b2"}
    assert run(view, "get_by_ids", ["a0"]) == []
    assert run(view, "update_metadata", "a0", {"stolen": True}) == 0
    run(view, "delete", ["a0"])
    run(view, "delete", filter={"tenant": ["a", "b"]})
    assert ids_of(run(whole, "get_by_ids", ["a0", "b1", "b2"])) == ["a0"]
    for document in (Document("5", metadata={"tenant": "a"}), Document("5"), Document("5", id="a0")):
        with pytest.raises(ScopeViolationError):
            run(view, "add_documents", [document])
    # An id of another tenant cannot be taken over either.
    with pytest.raises(ScopeViolationError):
        run(view, "add_documents", [Document("5", id="a0", metadata={"tenant": "b"})])
    run(view, "add_documents", [Document("5", id="new", metadata={"tenant": "b"})])
    with pytest.raises(ScopeViolationError):
        run(view, "update_metadata", "new", {"tenant": "a"})


def test_a_scope_may_stamp_what_is_written(run: Run) -> None:
    whole = two_tenants(run)
    scopes: list[Any] = [{"tenant": "c"}, lambda config: {"tenant": "c"}]
    for scope in scopes:
        view = whole.scoped(scope, on_write="stamp")
        run(view, "add_documents", [Document("5", id="c5", metadata={"tenant": "a", "x": 1})])
    assert run(whole, "get_by_ids", ["c5"])[0].metadata == {"tenant": "c", "x": 1}


def test_a_scoped_view_keeps_what_a_subclass_keeps(run: Run) -> None:
    class Named(AgoraVectorStore):
        def __init__(self, name: str) -> None:
            super().__init__(MemoryVectorStore(), Angles())
            self.title = name

    for scope in ({"tenant": "a"}, lambda config: {"tenant": "a"}):
        view = Named("mine").scoped(scope)
        assert (type(view), view.title) == (Named, "mine")
        with pytest.raises(ScopeViolationError):
            run(view, "add_texts", ["0"])


def test_whoever_takes_a_view_apart_still_holds_something_scoped(run: Run) -> None:
    """The store behind a view is the scoped one, and serves wherever a store of the core does."""
    asked: list[int] = []

    def scope(config: Any) -> dict[str, str]:
        asked.append(1)
        return {"tenant": "b"}

    whole = two_tenants(run)
    view = whole.scoped(scope)
    store, embedder = view.store, LangChainEmbeddingProvider(view.embedding)
    found = run(EmbeddingRetriever(embedder, store), "retrieve", "0", filter={"tenant": ["a", "b"]})
    assert [passage.id for passage in found] == ["b1", "b2"]
    assert run(store, "count") == 2
    assert run(store, "list_document_ids") == ["b1", "b2"]
    assert run(store, "delete", ["a0"]) == 0
    assert run(store, "remove_where", {"tenant": "a"}) == 0
    assert (store.metric, store.dimension) == ("cosine", 2)
    assert [record.id for record in store.scan()] == ["b1", "b2"]
    assert [record.id for record in asyncio.run(collect(store.ascan()))] == ["b1", "b2"]
    assert not hasattr(store, "search_text")
    with pytest.raises(ScopeViolationError):
        run(store, "upsert", [VectorRecord("x", "0", [1.0, 0.0], None, {"tenant": "a"})])
    narrower = AgoraVectorStore(store.scoped({"tenant": ["a", "b"]}), view.embedding)
    assert ids_of(run(narrower, "similarity_search", "0")) == ["b1", "b2"]
    assert run(narrower, "get_by_ids", ["a0"]) == []
    asked.clear()
    run(view, "max_marginal_relevance_search", "0")
    assert len(asked) == 1


async def collect(items: Any) -> list[Any]:
    return [item async for item in items]


def test_scopes_narrow_each_other(run: Run) -> None:
    view = two_tenants(run).scoped(lambda config: {"tenant": "b"}).scoped({"tenant": ["a", "b"]})
    assert ids_of(run(view, "similarity_search", "0")) == ["b1", "b2"]
    assert run(view.scoped({"tenant": "a"}), "similarity_search", "0") == []


def test_a_scope_is_a_function_of_the_config_of_each_run(run: Run) -> None:
    retriever = two_tenants(run).scoped(by_config).as_retriever()
    for tenant, expected in (("a", ["a0"]), ("b", ["b1", "b2"]), ("c", [])):
        assert ids_of(run(retriever, "invoke", "0", {"configurable": {"tenant": tenant}})) == expected
    configs: Any = [{"configurable": {"tenant": tenant}} for tenant in "abab"]
    assert [ids_of(found) for found in run(retriever, "batch", ["0"] * 4, configs)] == [["a0"], ["b1", "b2"]] * 2


def raising(config: Any) -> Any:
    raise PermissionError("nobody asked")


@pytest.mark.parametrize(
    ("scope", "error"),
    [(lambda config: None, InvalidFilterError), (lambda config: [], InvalidFilterError), (raising, PermissionError)],
)
def test_a_scope_that_gives_no_filter_fails_every_call(run: Run, scope: Any, error: type[Exception]) -> None:
    whole = two_tenants(run)
    view = whole.scoped(scope)
    calls: list[tuple[str, list[Any]]] = [
        ("similarity_search", ["0"]),
        ("get_by_ids", [["a0"]]),
        ("delete", [["a0"]]),
        ("update_metadata", ["a0", {"x": 1}]),
        ("add_texts", [["5"]]),
        ("max_marginal_relevance_search", ["0"]),
        ("similarity_search_with_relevance_scores", ["0"]),
    ]
    for name, arguments in calls:
        with pytest.raises(error):
            run(view, name, *arguments)
    with pytest.raises(error):
        run(view.as_retriever(), "invoke", "0")
    with pytest.raises(error):
        view.store.count()
    assert whole.store.count() == 3


def test_an_async_scope_is_awaited() -> None:
    async def scope(config: dict[str, Any]) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"tenant": "a"}

    vectors = angles()
    vectors.add_texts(["0", "1"], [{"tenant": "a"}, {"tenant": "b"}], ids=["a", "b"])
    view = vectors.scoped(scope)
    assert ids_of(asyncio.run(view.asimilarity_search("0"))) == ["a"]
    with pytest.raises(TypeError, match="the scope function is async"):
        view.similarity_search("0")
