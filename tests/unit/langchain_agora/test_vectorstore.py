"""`AgoraVectorStore` beyond LangChain's standard suite, in both colours."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from agora_core import (
    EmbeddingRetriever,
    InvalidArgumentError,
    InvalidFilterError,
    InvalidMetadataError,
    MemoryVectorStore,
    ScopeViolationError,
    UnsafeRemovalError,
    VectorRecord,
    field,
)
from agora_core.testing import FakeEmbeddingProvider
from langchain_agora import AgoraVectorStore, LangChainEmbeddingProvider
from tests.unit.langchain_agora.colours import Run


class Angles(Embeddings):
    """Embeds a number of degrees as that direction in the plane; a query is turned by half a degree."""

    def __init__(self) -> None:
        self.texts: list[list[str]] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.texts.append(texts)
        return [self.at(float(text)) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.at(float(text))

    @staticmethod
    def at(degrees: float) -> list[float]:
        import math

        return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def angles(metric: Any = "cosine", **options: Any) -> AgoraVectorStore:
    return AgoraVectorStore(MemoryVectorStore(metric=metric), Angles(), **options)


def filled(run: Run, *degrees: str, **options: Any) -> AgoraVectorStore:
    vectors = angles(**options)
    run(vectors, "add_texts", degrees, [{"n": n} for n in range(len(degrees))], ids=list(degrees))
    return vectors


def ids_of(found: Sequence[Any]) -> list[str | None]:
    return [item[0].id if isinstance(item, tuple) else item.id for item in found]


# -- adding ------------------------------------------------------------------------------------------------------------


def test_ids_are_kept_as_given_and_filled_where_none_is(run: Run) -> None:
    vectors = angles()
    documents = [Document("1", id="faq#0"), Document("2"), Document("3", id="own"), Document("4", id="lost")]
    ids = run(vectors, "add_documents", documents, ids=[None, None, None, "kept"])
    assert (ids[0], ids[2], ids[3]) == ("faq#0", "own", "kept")
    assert len(ids[1]) == 36
    assert [document.page_content for document in run(vectors, "get_by_ids", ids)] == ["1", "2", "3", "4"]
    assert documents[1].id is None


@pytest.mark.parametrize("ids", [["1"], ["1", "2", "3", "4"], [], "abc"])
def test_a_wrong_number_of_ids_is_refused_and_nothing_is_stored(run: Run, ids: Any) -> None:
    vectors = angles()
    with pytest.raises(ValueError, match=r"ids must be a list with one id for each document.*3 documents"):
        run(vectors, "add_texts", ["1", "2", "3"], ids=ids)
    assert vectors.store.count() == 0
    assert vectors.embedding.texts == []  # type: ignore[attr-defined]


def test_a_wrong_number_of_metadatas_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="metadatas must hold one mapping for each text: got 1 for 2 texts"):
        run(angles(), "add_texts", ["1", "2"], [{}])


METADATA = {"s": "x", "i": 1, "f": 1.5, "b": True, "none": None, "list": [1, "a", [2]], "object": {"a": {"b": 1}}}


def test_metadata_comes_back_equal_with_nothing_of_ours(run: Run) -> None:
    vectors = angles()
    (id,) = run(vectors, "add_documents", [Document("1", metadata=METADATA)])
    (found,) = run(vectors, "similarity_search", "1")
    assert found == Document("1", id=id, metadata=METADATA)
    assert [type(value) for value in found.metadata.values()] == [type(value) for value in METADATA.values()]


def test_what_is_found_shares_nothing_with_the_store(run: Run) -> None:
    vectors = angles()
    given = {"tags": ["a"]}
    run(vectors, "add_documents", [Document("1", id="x", metadata=given)])
    given["tags"].append("mine")
    for name, argument in (("similarity_search", "1"), ("get_by_ids", ["x"])):
        (found,) = run(vectors, name, argument)
        found.metadata["tags"].append("changed")
    assert run(vectors, "get_by_ids", ["x"])[0].metadata == {"tags": ["a"]}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"when": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)}, r"document 'x'.*\['when'\].*datetime"),
        ({"tags": {"a"}}, r"\['tags'\].*set"),
        ({"score": float("nan")}, r"\['score'\].*nan"),
        ({1: "a"}, "key 1"),
    ],
)
def test_metadata_that_is_not_json_is_refused_before_anything_is_embedded(
    run: Run, metadata: Any, message: str
) -> None:
    vectors = angles()
    document = Document.model_construct(page_content="1", id="x", metadata=metadata)
    with pytest.raises(InvalidMetadataError, match=message):
        run(vectors, "add_documents", [Document("2"), document])
    assert vectors.embedding.texts == []  # type: ignore[attr-defined]
    assert vectors.store.count() == 0


def test_text_vector_and_metadata_are_replaced(run: Run) -> None:
    vectors = filled(run, "0", "90")
    run(vectors, "add_documents", [Document("180", id="0", metadata={"new": True})])
    (first, _) = run(vectors, "similarity_search", "180", k=2)
    assert first == Document("180", id="0", metadata={"new": True})


def test_batches_are_embedded_one_by_one_and_stored_together(run: Run) -> None:
    vectors = angles()
    writes: list[int] = []
    upsert = vectors.store.upsert

    def counted(records: Sequence[VectorRecord], **options: Any) -> int:
        writes.append(len(records))
        return int(upsert(records, **options))

    vectors.store.upsert = counted
    vectors.store.aupsert = None
    run(vectors, "add_texts", ["1", "2", "3", "4", "5"], batch_size=2)
    assert vectors.embedding.texts == [["1", "2"], ["3", "4"], ["5"]]  # type: ignore[attr-defined]
    assert writes == [5]


def test_nothing_is_asked_for_nothing(run: Run) -> None:
    vectors = angles()
    assert run(vectors, "add_documents", []) == []
    assert vectors.embedding.texts == []  # type: ignore[attr-defined]


def test_an_embedding_model_that_answers_too_little_is_refused(run: Run) -> None:
    class Short(Angles):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return super().embed_documents(texts[1:])

    vectors = AgoraVectorStore(MemoryVectorStore(), Short())
    with pytest.raises(RuntimeError, match="1 vectors for 2 texts"):
        run(vectors, "add_texts", ["1", "2"])
    assert vectors.store.count() == 0


def test_the_constructors_fill_a_store(run: Run) -> None:
    store = MemoryVectorStore()
    made = run(AgoraVectorStore, "from_texts", ["1", "2"], Angles(), [{"a": 1}, None], ids=["x", "y"], store=store)
    assert type(made) is AgoraVectorStore
    assert made.store is store
    assert run(made, "get_by_ids", ["x", "y"]) == [Document("1", id="x", metadata={"a": 1}), Document("2", id="y")]
    fresh = run(AgoraVectorStore, "from_documents", [Document("1", id="z")], Angles())
    assert ids_of(run(fresh, "similarity_search", "1")) == ["z"]


MISSPELT: list[tuple[str, list[Any]]] = [
    ("add_documents", [[]]),
    ("add_texts", [[]]),
    ("delete", [["x"]]),
    ("similarity_search", ["1"]),
    ("similarity_search_with_score", ["1"]),
    ("similarity_search_with_relevance_scores", ["1"]),
    ("similarity_search_by_vector", [[1.0, 0.0]]),
    ("max_marginal_relevance_search", ["1"]),
    ("max_marginal_relevance_search_by_vector", [[1.0, 0.0]]),
    ("update_metadata", ["x", {}]),
]


@pytest.mark.parametrize(("name", "arguments"), MISSPELT, ids=[name for name, _ in MISSPELT])
def test_a_misspelt_keyword_raises(run: Run, name: str, arguments: list[Any]) -> None:
    with pytest.raises(TypeError, match="fitler"):
        run(filled(run, "1"), name, *arguments, fitler={"n": 0})


def test_the_source_is_kept_apart_unless_a_key_is_named_for_it(run: Run) -> None:
    store = MemoryVectorStore()
    store.upsert([VectorRecord("core", "1", Angles.at(1), "core.md", {"a": 1})])
    plain = AgoraVectorStore(store, Angles())
    named = AgoraVectorStore(store, Angles(), source_key="source")
    run(plain, "add_documents", [Document("2", id="plain", metadata={"source": "plain.md"})])
    run(named, "add_documents", [Document("3", id="named", metadata={"source": "named.md"})])
    run(named, "add_documents", [Document("4", id="odd", metadata={"source": 4})])
    assert [record.source for record in store.get(["core", "plain", "named", "odd"])] == [
        "core.md",
        None,
        "named.md",
        None,
    ]
    assert [document.metadata for document in run(plain, "get_by_ids", ["core", "named"])] == [
        {"a": 1},
        {"source": "named.md"},
    ]
    assert run(named, "get_by_ids", ["core"])[0].metadata == {"a": 1, "source": "core.md"}


# -- searching ---------------------------------------------------------------------------------------------------------


def test_k_filter_and_floor_reach_the_store(run: Run) -> None:
    vectors = filled(run, "0", "10", "80")
    assert ids_of(run(vectors, "similarity_search", "0", k=2)) == ["0", "10"]
    assert ids_of(run(vectors, "similarity_search", "0", 4, {"n": [1, 2]})) == ["10", "80"]
    assert ids_of(run(vectors, "similarity_search", "0", filter={"n": {"$gte": 1}})) == ["10", "80"]
    assert ids_of(run(vectors, "similarity_search", "0", filter=field("n") < 1)) == ["0"]
    assert ids_of(run(vectors, "similarity_search", "0", min_score=0.5)) == ["0", "10"]
    assert ids_of(run(vectors, "similarity_search_by_vector", Angles.at(90), k=1)) == ["80"]
    scored = run(vectors, "similarity_search_with_score", "0", k=1)
    assert [(document.id, score) for document, score in scored] == [("0", 1.0)]


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "4"])
def test_a_k_below_one_is_refused_before_anything_is_embedded(run: Run, k: Any) -> None:
    vectors = AgoraVectorStore(MemoryVectorStore(), FakeEmbeddingProvider())
    vectors.embedding = None  # type: ignore[assignment]
    for name in ("similarity_search", "similarity_search_with_relevance_scores", "max_marginal_relevance_search"):
        with pytest.raises(InvalidArgumentError, match="k must be"):
            run(vectors, name, "x", k=k)


def test_a_filter_that_cannot_be_built_is_refused_before_anything_is_embedded(run: Run) -> None:
    vectors = AgoraVectorStore(MemoryVectorStore(), FakeEmbeddingProvider())
    vectors.embedding = None  # type: ignore[assignment]
    for filter in ({"a": object()}, {"a": {"$x": 1}}, 5):
        with pytest.raises(InvalidFilterError):
            run(vectors, "similarity_search", "x", filter=filter)


RELEVANCE: list[tuple[str, list[float]]] = [
    # identical, 60 degrees, a right angle, opposite
    ("cosine", [1.0, 0.5, 0.0, 0.0]),
    ("inner", [1.0, 0.5, 0.0, 0.0]),
    ("l2", [1.0, 1 / (1 + 1.0), 1 / (1 + 2**0.5), 1 / 3]),
]


@pytest.mark.parametrize(("metric", "expected"), RELEVANCE, ids=[metric for metric, _ in RELEVANCE])
def test_relevance_is_right_under_every_metric(run: Run, metric: str, expected: list[float]) -> None:
    vectors = filled(run, "0", "60", "90", "180", metric=metric)
    found = run(vectors, "similarity_search_with_relevance_scores", "0")
    assert ids_of(found) == ["0", "60", "90", "180"]
    assert [relevance for _, relevance in found] == pytest.approx(expected, abs=1e-6)
    assert found[0][1] == pytest.approx(1.0, abs=1e-7)
    assert all(0.0 <= relevance <= 1.0 for _, relevance in found)


@pytest.mark.parametrize("metric", ["cosine", "inner", "l2"])
@pytest.mark.parametrize("threshold", [0, 0.0, 0.2, 0.4, 0.45, 0.6, 0.99, 1, 1.5])
def test_the_threshold_is_a_floor_that_the_store_answers(run: Run, metric: str, threshold: float) -> None:
    degrees = [str(n) for n in range(0, 181, 15)]
    vectors = filled(run, *degrees, metric=metric)
    everything = run(vectors, "similarity_search_with_relevance_scores", "0", k=20)
    assert len(everything) == len(degrees)
    expected = [document.id for document, relevance in everything if relevance >= threshold]
    floors: list[Any] = []
    search = vectors.store.search

    def watched(embedding: Any, **options: Any) -> Any:
        floors.append(options["min_score"])
        return search(embedding, **options)

    vectors.store.search, vectors.store.asearch = watched, None
    found = run(vectors, "similarity_search_with_relevance_scores", "0", k=20, score_threshold=threshold)
    assert ids_of(found) == expected
    assert len(floors) == 1


def test_a_threshold_that_is_no_number_is_refused(run: Run) -> None:
    for threshold in ("0.5", True, float("nan")):
        with pytest.raises(InvalidArgumentError, match="score_threshold"):
            run(filled(run, "0"), "similarity_search_with_relevance_scores", "0", score_threshold=threshold)


def test_mmr_prefers_what_is_new(run: Run) -> None:
    vectors = filled(run, "0", "1", "2", "40")
    assert ids_of(run(vectors, "similarity_search", "0", k=2)) == ["0", "1"]
    assert ids_of(run(vectors, "max_marginal_relevance_search", "0", k=2, lambda_mult=0.3)) == ["0", "40"]
    assert ids_of(run(vectors, "max_marginal_relevance_search", "0", k=2, fetch_k=3, lambda_mult=0.3)) == ["0", "2"]
    assert ids_of(run(vectors, "max_marginal_relevance_search", "0", k=4, fetch_k=1, lambda_mult=1.0)) == [
        "0",
        "1",
        "2",
        "40",
    ]
    narrowed = run(vectors, "max_marginal_relevance_search", "0", k=2, lambda_mult=0.3, filter={"n": {"$lt": 3}})
    assert ids_of(narrowed) == ["0", "2"]
    assert ids_of(run(vectors, "max_marginal_relevance_search_by_vector", Angles.at(40), k=1)) == ["40"]
    assert run(vectors, "max_marginal_relevance_search", "0", filter={"n": []}) == []


@pytest.mark.parametrize("name", ["similarity", "similarity_score_threshold", "mmr"])
def test_search_dispatches(run: Run, name: str) -> None:
    assert ids_of(run(filled(run, "0", "30"), "search", "0", name, k=1)) == ["0"]


# -- the three retrievers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("search_type", "search_kwargs", "expected"),
    [
        ("similarity", {"k": 2}, ["0", "10"]),
        ("similarity", {"k": 3, "filter": {"n": [1, 2]}}, ["10", "80"]),
        ("similarity", {"k": 3, "min_score": 0.9}, ["0", "10"]),
        ("mmr", {"k": 2, "lambda_mult": 0.2}, ["0", "80"]),
        ("similarity_score_threshold", {"score_threshold": 0.9}, ["0", "10"]),
        ("similarity_score_threshold", {"score_threshold": 1}, ["0"]),
        ("similarity_score_threshold", {"score_threshold": 0, "k": 2}, ["0", "10"]),
    ],
)
def test_as_retriever_in_its_three_types(
    run: Run, search_type: str, search_kwargs: dict[str, Any], expected: list[str]
) -> None:
    vectors = filled(run, "0", "10", "80")
    retriever = vectors.as_retriever(search_type=search_type, search_kwargs=search_kwargs, tags=["mine"])
    assert ids_of(run(retriever, "invoke", "0")) == expected
    assert retriever.tags == ["mine", "AgoraVectorStore", "Angles"]


def test_a_call_narrows_the_filter_of_the_retriever_and_never_replaces_it(run: Run) -> None:
    retriever = filled(run, "0", "10", "80").as_retriever(search_kwargs={"filter": {"n": {"$lte": 1}}})
    assert ids_of(run(retriever, "invoke", "0")) == ["0", "10"]
    assert ids_of(run(retriever, "invoke", "0", filter={"n": {"$gte": 1}})) == ["10"]
    assert ids_of(run(retriever, "invoke", "0", filter={"n": 2})) == []
    assert ids_of(run(retriever, "invoke", "0", filter={})) == ["0", "10"]
    assert ids_of(run(retriever, "invoke", "0", filter=None)) == ["0", "10"]
    assert ids_of(run(retriever, "invoke", "0", k=1)) == ["0"]


def test_a_retriever_refuses_what_it_does_not_know(run: Run) -> None:
    vectors = filled(run, "0")
    with pytest.raises(ValueError, match="kk"):
        vectors.as_retriever(kk=3)
    with pytest.raises(ValueError, match="search_type of nearest not allowed"):
        vectors.as_retriever(search_type="nearest")
    with pytest.raises(TypeError, match="fitler"):
        run(vectors.as_retriever(search_kwargs={"fitler": {}}), "invoke", "0")


def test_documents_are_added_through_the_retriever_too(run: Run) -> None:
    retriever = filled(run, "0").as_retriever()
    assert run(retriever, "add_documents", [Document("5", id="five")]) == ["five"]
    assert ids_of(run(retriever, "invoke", "5", k=1)) == ["five"]


# -- deleting and patching ---------------------------------------------------------------------------------------------


def test_delete_by_ids_by_filter_and_by_both(run: Run) -> None:
    vectors = filled(run, "0", "1", "2", "3")
    assert run(vectors, "delete", ["0", "missing"]) is True
    assert run(vectors, "delete", ["1", "2"], filter={"n": 2}) is True
    assert ids_of(run(vectors, "get_by_ids", ["0", "1", "2", "3"])) == ["1", "3"]
    assert run(vectors, "delete", filter={"n": {"$gte": 3}}) is True
    assert run(vectors, "delete", []) is True
    assert run(vectors, "delete", filter={"n": []}) is True
    assert ids_of(run(vectors, "get_by_ids", ["1", "3"])) == ["1"]


@pytest.mark.parametrize("filter", [None, {}, {"$not": {"n": 0}}, {"n": {"$nin": []}}])
def test_a_delete_that_bounds_nothing_is_refused(run: Run, filter: Any) -> None:
    vectors = filled(run, "0", "1")
    with pytest.raises(UnsafeRemovalError):
        run(vectors, "delete", filter=filter)
    assert vectors.store.count() == 2


def test_a_patch_costs_no_embedding(run: Run) -> None:
    vectors = angles()
    run(vectors, "add_texts", ["1", "2"], [{"a": 1}, {"a": 1}], ids=["doc#0", "doc#1"])
    asked = len(vectors.embedding.texts)  # type: ignore[attr-defined]
    assert run(vectors, "update_metadata", "doc", {"a": None, "b": [1]}) == 2
    assert run(vectors, "update_metadata", "unknown", {"a": 1}) == 0
    assert [document.metadata for document in run(vectors, "get_by_ids", ["doc#0", "doc#1"])] == [{"b": [1]}] * 2
    assert len(vectors.embedding.texts) == asked  # type: ignore[attr-defined]


# -- scope -------------------------------------------------------------------------------------------------------------


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
    {"tenant": {"$eq": "b"}},
    lambda config: {"tenant": {"$in": ["b"]}},
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


# -- shape -------------------------------------------------------------------------------------------------------------


def test_every_method_has_a_twin_with_the_same_arguments() -> None:
    names = [name for name in dir(AgoraVectorStore) if not name.startswith("_")]
    twins = [name for name in names if f"a{name}" in names and name not in ("dd_documents", "dd_texts")]
    assert len(twins) >= 14
    for name in twins:
        if name == "search":
            continue
        sync, twin = getattr(AgoraVectorStore, name), getattr(AgoraVectorStore, f"a{name}")
        assert inspect.signature(sync) == inspect.signature(twin), name
        assert twin.__module__.startswith("langchain_agora"), f"a{name} is LangChain's, in a worker thread"


def test_the_async_colour_uses_no_thread_where_store_and_model_are_async() -> None:
    here = threading.get_ident()

    class AsyncOnly:
        metric = "cosine"

        def __init__(self, store: MemoryVectorStore) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("a"):
                raise AttributeError(name)
            method = getattr(self._store, name[1:])

            async def call(*args: Any, **options: Any) -> Any:
                assert threading.get_ident() == here
                return method(*args, **options)

            return call

    class AsyncAngles(Angles):
        async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
            assert threading.get_ident() == here
            return super().embed_documents(texts)

        async def aembed_query(self, text: str) -> list[float]:
            assert threading.get_ident() == here
            return super().embed_query(text)

    async def use() -> list[Document]:
        vectors = AgoraVectorStore(AsyncOnly(MemoryVectorStore()), AsyncAngles())
        await vectors.aadd_texts(["0", "90"], ids=["x", "y"])
        await vectors.aget_by_ids(["x"])
        await vectors.amax_marginal_relevance_search("0")
        await vectors.adelete(["y"])
        await vectors.asimilarity_search_with_relevance_scores("0", score_threshold=0.1)
        return await vectors.as_retriever().ainvoke("0")

    assert ids_of(asyncio.run(use())) == ["x"]


def test_a_store_without_a_capability_says_so(run: Run) -> None:
    class SearchOnly:
        def search(self, embedding: Any, *, top_k: int) -> list[Any]:
            return []

    vectors = AgoraVectorStore(SearchOnly(), Angles())
    assert run(vectors, "similarity_search", "0") == []
    with pytest.raises(TypeError, match="SearchOnly has neither 'get'"):
        run(vectors, "get_by_ids", ["x"])
    with pytest.raises(TypeError, match="SearchOnly has no attribute metric"):
        run(vectors, "similarity_search_with_relevance_scores", "0")


def test_what_is_no_store_or_no_embedding_model_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="store must have search or asearch, got str"):
        AgoraVectorStore("postgresql://user:secret@host/db", Angles())
    with pytest.raises(InvalidArgumentError, match="must have embed or aembed, got int"):
        AgoraVectorStore(MemoryVectorStore(), 5)  # type: ignore[arg-type]


def test_an_embedder_of_the_core_serves_as_well(run: Run) -> None:
    vectors = AgoraVectorStore(MemoryVectorStore(), FakeEmbeddingProvider())
    run(vectors, "add_texts", ["paid leave", "notice"], ids=["x", "y"])
    assert ids_of(run(vectors, "similarity_search", "leave", k=1)) == ["x"]
