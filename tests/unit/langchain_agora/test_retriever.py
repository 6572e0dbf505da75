"""The core's retrievers in LangChain, and LangChain's in the core."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnableLambda, RunnableParallel
from pydantic import ValidationError

from agora_core import (
    ChunkRecord,
    EmbeddingRetriever,
    HybridRetriever,
    InvalidArgumentError,
    InvalidFilterError,
    KeywordRetriever,
    MemoryVectorStore,
    Passage,
    UnsupportedOperationError,
    all_of,
    field,
    filter_to_json,
)
from agora_core.testing import FakeEmbeddingProvider
from langchain_agora import AgoraEmbeddings, AgoraRetriever, AgoraVectorStore, LangChainRetriever
from tests.unit.langchain_agora.colours import Run


class Core:
    """A retriever of the core that remembers how it was called."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.passages = [
            Passage("faq#0", "Leave is 30 days.", 0.9, "faq.md", {"acl": ["all"], "year": 2024}),
            Passage("faq#1", "Notice is 3 months.", 0.4, None, None),
        ]

    def retrieve(self, query: str, **options: Any) -> list[Passage]:
        self.calls.append(options)
        return self.passages[: options["top_k"]]

    async def aretrieve(self, query: str, **options: Any) -> list[Passage]:
        return self.retrieve(query, **options)


def test_passages_become_documents_with_their_source_and_score(run: Run) -> None:
    first, second = run(AgoraRetriever(Core()), "invoke", "leave")
    assert (first.page_content, first.id) == ("Leave is 30 days.", "faq#0")
    assert first.metadata == {"acl": ["all"], "year": 2024, "source": "faq.md", "score": 0.9}
    assert set(second.metadata) == {"score"}
    bare = run(AgoraRetriever(Core(), score_key=None, source_key=None), "invoke", "leave")
    assert bare == [
        Document("Leave is 30 days.", id="faq#0", metadata={"acl": ["all"], "year": 2024}),
        Document("Notice is 3 months.", id="faq#1"),
    ]


def test_score_and_source_are_put_where_they_are_asked_for(run: Run) -> None:
    found = run(AgoraRetriever(retriever=Core(), score_key="score", source_key="source"), "invoke", "leave")
    assert [document.metadata for document in found] == [
        {"acl": ["all"], "year": 2024, "source": "faq.md", "score": 0.9},
        {"score": 0.4},
    ]


def test_what_was_not_given_is_not_passed_on(run: Run) -> None:
    core = Core()
    run(AgoraRetriever(retriever=core), "invoke", "x")
    run(AgoraRetriever(retriever=core, k=1), "invoke", "x", k=2)
    run(AgoraRetriever(retriever=core, min_score=0.1), "invoke", "x")
    run(AgoraRetriever(retriever=core, min_score=0.1), "invoke", "x", min_score=0.5)
    assert core.calls == [
        {"top_k": 5},
        {"top_k": 2},
        {"top_k": 5, "min_score": 0.1},
        {"top_k": 5, "min_score": 0.5},
    ]


@pytest.mark.parametrize(
    ("bound", "own", "passed"),
    [
        ({"acl": "a"}, None, {"acl": "a"}),
        (None, {"acl": "a"}, {"acl": "a"}),
        ({"acl": "a"}, {"year": 1}, {"acl": "a", "year": 1}),
        ({"acl": "a"}, {}, {"acl": "a"}),
        ({"year": {"$gte": 1}}, {"acl": "a"}, (field("year") >= 1, {"acl": "a"})),
        ({"acl": "a"}, {"acl": "b"}, ({"acl": "a"}, {"acl": "b"})),
    ],
)
def test_a_call_only_narrows_the_bound_filter(run: Run, bound: Any, own: Any, passed: Any) -> None:
    core = Core()
    run(AgoraRetriever(retriever=core, filter=bound), "invoke", "x", filter=own)
    assert core.calls[0]["filter"] == (all_of(*passed) if isinstance(passed, tuple) else passed)


def test_the_bound_filter_is_out_of_its_givers_reach(run: Run) -> None:
    core, bound = Core(), {"acl": ["a"]}
    retriever = AgoraRetriever(retriever=core, filter=bound)
    bound["acl"].append("b")
    bound.clear()
    run(retriever, "invoke", "x")
    assert core.calls[0]["filter"] == {"acl": ["a"]}


@pytest.mark.parametrize(
    "options",
    [{"kk": 3}, {"k": 0}, {"k": True}, {"k": "3"}, {"filter": {"a": object()}}, {"filter": 3}, {"min_score": "x"}],
)
def test_a_wrong_argument_of_the_constructor_is_refused(options: Any) -> None:
    with pytest.raises(ValidationError):
        AgoraRetriever(retriever=Core(), **options)


def test_what_is_no_retriever_of_the_core_is_refused() -> None:
    with pytest.raises(ValidationError, match="retriever must have retrieve or aretrieve, got str"):
        AgoraRetriever(retriever="x")  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="through LangChainRetriever"):
        AgoraRetriever(retriever=AgoraRetriever(retriever=Core()))  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"k": 0}, {"k": 1.5}, {"min_score": float("nan")}, {"filter": {"a": {"$x": 1}}}])
def test_a_wrong_argument_of_a_call_is_refused(run: Run, options: Any) -> None:
    core = Core()
    with pytest.raises(ValueError, match=r"k must|min_score|unknown operator"):
        run(AgoraRetriever(retriever=core), "invoke", "x", **options)
    assert core.calls == []


def test_a_misspelt_keyword_of_a_call_raises(run: Run) -> None:
    with pytest.raises(TypeError, match="fitler"):
        run(AgoraRetriever(retriever=Core()), "invoke", "x", fitler={})


def test_the_twins_take_the_same_arguments() -> None:
    def arguments(function: Any) -> list[str]:
        return list(inspect.signature(function).parameters)

    own = AgoraRetriever
    assert arguments(own._get_relevant_documents) == arguments(own._aget_relevant_documents)


def test_a_retriever_with_one_colour(run: Run) -> None:
    class SyncOnly:
        def retrieve(self, query: str, *, top_k: int) -> list[Passage]:
            return [Passage("x", query, 1.0)]

    class AsyncOnly:
        async def aretrieve(self, query: str, *, top_k: int) -> list[Passage]:
            return [Passage("x", query, 1.0)]

    assert run(AgoraRetriever(retriever=SyncOnly()), "invoke", "q")[0].id == "x"
    assert asyncio.run(AgoraRetriever(retriever=AsyncOnly()).ainvoke("q"))[0].id == "x"
    with pytest.raises(UnsupportedOperationError, match=r"AsyncOnly\.aretrieve is async"):
        AgoraRetriever(retriever=AsyncOnly()).invoke("q")


# -- scope -------------------------------------------------------------------------------------------------------------


def by_config(config: dict[str, Any]) -> dict[str, Any]:
    return {"tenant": config["configurable"]["tenant"]}


def test_one_retriever_serves_all_tenants(run: Run) -> None:
    core = Core()
    retriever = AgoraRetriever(retriever=core).scoped(by_config)
    run(retriever, "invoke", "x", {"configurable": {"tenant": "a"}}, filter={"tenant": "b"})
    assert filter_to_json(core.calls[0]["filter"]) == filter_to_json(all_of({"tenant": "a"}, {"tenant": "b"}))
    chain = RunnableParallel(found=retriever, again=RunnableLambda(str.upper) | retriever)
    run(chain, "invoke", "x", {"configurable": {"tenant": "c"}})
    assert [call["filter"] for call in core.calls[1:]] == [{"tenant": "c"}] * 2


def test_no_copy_of_a_retriever_is_without_its_scope(run: Run) -> None:
    """LangChain makes retrievers anew from their fields where one of them is configurable."""
    core = Core()
    for scoped in (
        AgoraRetriever(retriever=core).scoped(by_config),
        AgoraRetriever(retriever=core).scoped({"tenant": "a"}),
    ):
        configurable = scoped.configurable_fields(k=ConfigurableField(id="k"))
        run(configurable, "invoke", "x", {"configurable": {"k": 3, "tenant": "a"}})
        run(scoped.model_copy(deep=False), "invoke", "x", {"configurable": {"tenant": "a"}})
        again = AgoraRetriever(**{name: getattr(scoped, name) for name in AgoraRetriever.model_fields})
        run(again, "invoke", "x", {"configurable": {"tenant": "a"}})
    assert [call["top_k"] for call in core.calls] == [3, 5, 5] * 2
    assert [call["filter"] in ({"tenant": "a"}, field("tenant") == "a") for call in core.calls] == [True] * 6
    vectors = AgoraVectorStore(MemoryVectorStore(), FakeEmbeddingProvider())
    vectors.add_texts(["leave a", "leave b"], [{"tenant": "a"}, {"tenant": "b"}], ids=["a", "b"])
    retriever = vectors.scoped(by_config).as_retriever()
    spare = retriever.configurable_fields(search_kwargs=ConfigurableField(id="search"))
    config = {"configurable": {"search": {"k": 9, "filter": {"tenant": ["a", "b"]}}, "tenant": "a"}}
    assert [document.id for document in run(spare, "invoke", "leave", config)] == ["a"]


def test_a_fixed_scope(run: Run) -> None:
    core = Core()
    run(AgoraRetriever(retriever=core, k=1).scoped({"tenant": "a"}), "invoke", "x", filter={"year": 1})
    assert core.calls == [{"top_k": 1, "filter": {"tenant": "a", "year": 1}}]


@pytest.mark.parametrize("scope", [lambda config: None, by_config, lambda config: "tenant"])
def test_a_scope_that_gives_no_filter_fails_the_call(run: Run, scope: Any) -> None:
    core = Core()
    with pytest.raises((InvalidFilterError, KeyError)):
        run(AgoraRetriever(retriever=core).scoped(scope), "invoke", "x")
    assert core.calls == []


def test_a_scope_of_an_outer_retriever_is_seen_by_the_legs_inside(run: Run) -> None:
    """A scoped vector store as a leg of a hybrid as a LangChain retriever: the config goes all the way down."""
    vectors = AgoraVectorStore(MemoryVectorStore(), FakeEmbeddingProvider())
    vectors.add_texts(["leave a", "leave b"], [{"tenant": "a"}, {"tenant": "b"}], ids=["a", "b"])
    inner = vectors.scoped(by_config).as_retriever()
    outer = AgoraRetriever(retriever=HybridRetriever([LangChainRetriever(inner)]))
    assert [document.id for document in run(outer, "invoke", "leave", {"configurable": {"tenant": "b"}})] == ["b"]
    with pytest.raises(RuntimeError, match=r"leg 0 .* failed with KeyError"):
        run(outer, "invoke", "leave")


def test_the_config_of_a_call_ends_with_the_call(run: Run) -> None:
    core = Core()
    retriever = AgoraRetriever(retriever=core).scoped(by_config)
    run(retriever, "invoke", "x", {"configurable": {"tenant": "a"}})
    with pytest.raises(KeyError):
        run(retriever, "invoke", "x")

    async def abandoned() -> None:
        class Slow:
            async def aretrieve(self, query: str, **options: Any) -> list[Passage]:
                await asyncio.sleep(60)
                return []

        task = asyncio.ensure_future(AgoraRetriever(retriever=Slow()).ainvoke("x", {"configurable": {"tenant": "a"}}))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(KeyError):
            await retriever.ainvoke("x")

    asyncio.run(abandoned())


# -- tracing -----------------------------------------------------------------------------------------------------------


class Trace(BaseCallbackHandler):
    def __init__(self) -> None:
        self.starts: list[dict[str, Any]] = []

    def on_retriever_start(self, serialized: Any, query: str, **details: Any) -> None:
        self.starts.append({"query": query, **details})


def test_traces_name_store_and_embedder() -> None:
    retriever = AgoraRetriever(retriever=EmbeddingRetriever(FakeEmbeddingProvider(), MemoryVectorStore()))
    for each in (retriever, retriever.scoped(by_config), retriever.scoped(by_config).scoped({"tenant": "a"})):
        assert each._get_ls_params() == {
            "ls_retriever_name": "agora",
            "ls_vector_store_provider": "MemoryVectorStore",
            "ls_embedding_provider": "FakeEmbeddingProvider",
            "ls_embedding_model": "FakeEmbeddingProvider",
        }
    assert AgoraRetriever(retriever=Core())._get_ls_params(k=3) == {"ls_retriever_name": "agora"}


def test_inner_runs_are_children_of_the_outer_one(run: Run) -> None:
    trace = Trace()
    inner = AgoraRetriever(retriever=Core())
    outer = AgoraRetriever(retriever=HybridRetriever([LangChainRetriever(inner)]))
    run(outer, "invoke", "q", {"callbacks": [trace], "tags": ["mine"]})
    first, second = trace.starts
    assert second["parent_run_id"] == first["run_id"]
    assert "mine" in first["tags"]
    assert first["metadata"]["ls_retriever_name"] == "agora"


# -- theirs as ours ----------------------------------------------------------------------------------------------------


class Theirs(BaseRetriever):
    """Like many of LangChain's: knows neither `k` nor filters."""

    documents: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self.documents


def documents() -> list[Document]:
    return [
        Document("one", id="1", metadata={"source": "a.md", "acl": ["a"], "score": 0.9}),
        Document("two", metadata={"key": "2", "acl": ["b"], "score": 0.5}),
        Document("three", metadata={"acl": ["a", "b"], "source": 3}),
        Document("one", id="4", metadata={"acl": ["a"]}),
    ]


def test_any_retriever_of_langchain_gives_passages(run: Run) -> None:
    found = run(LangChainRetriever(Theirs(documents=documents()), id_key="key"), "retrieve", "x")
    assert [(passage.id, passage.source, passage.score) for passage in found[:2] + found[3:]] == [
        ("1", "a.md", 1.0),
        ("2", None, 0.5),
        ("4", None, 0.25),
    ]
    assert found[2].id.startswith("content-")
    assert found[2].source is None
    again = run(LangChainRetriever(Theirs(documents=documents())), "retrieve", "x")
    assert again[2].id == found[2].id
    assert again[1].id != found[1].id


def test_top_k_is_obeyed_whatever_the_retriever_does(run: Run) -> None:
    assert len(run(LangChainRetriever(Theirs(documents=documents())), "retrieve", "x", top_k=2)) == 2


def test_a_filter_holds_whatever_the_retriever_does(run: Run) -> None:
    leg = LangChainRetriever(Theirs(documents=documents()))
    assert [passage.id for passage in run(leg, "retrieve", "x", filter={"acl": ["b"]})][1:] != []
    assert all("b" in passage.metadata["acl"] for passage in run(leg, "retrieve", "x", filter={"acl": ["b"]}))
    assert run(leg, "retrieve", "x", filter={"acl": []}) == []
    with pytest.raises(InvalidFilterError):
        run(leg, "retrieve", "x", filter={"acl": object()})


def test_scores_under_a_key_serve_a_floor(run: Run) -> None:
    leg = LangChainRetriever(Theirs(documents=documents()[:2]), score_key="score")
    assert [passage.score for passage in run(leg, "retrieve", "x", min_score=0.6)] == [0.9]
    with pytest.raises(UnsupportedOperationError, match="score_key"):
        run(LangChainRetriever(Theirs(documents=[])), "retrieve", "x", min_score=0.6)


def test_a_retriever_of_ours_comes_back_as_it_went_in(run: Run) -> None:
    core = Core()
    there = AgoraRetriever(retriever=core, score_key="mine")
    first, second = run(LangChainRetriever(there), "retrieve", "x")
    assert first == core.passages[0]
    assert second == Passage("faq#1", "Notice is 3 months.", 0.4, None, {})
    assert run(LangChainRetriever(there), "retrieve", "x", min_score=0.5)[0].id == "faq#0"
    assert len(run(LangChainRetriever(there), "retrieve", "x", min_score=0.5)) == 1


def test_a_retriever_over_vectors_is_scoped_like_the_store(run: Run) -> None:
    vectors = AgoraVectorStore(MemoryVectorStore(), FakeEmbeddingProvider())
    vectors.add_texts(["leave a", "leave b"], [{"tenant": "a"}, {"tenant": "b"}], ids=["a", "b"])
    retriever = vectors.as_retriever(search_kwargs={"k": 5}).scoped(by_config)
    assert type(retriever) is type(vectors.as_retriever())
    for tenant in "ab":
        found = run(retriever, "invoke", "leave", {"configurable": {"tenant": tenant}}, filter={})
        assert [document.id for document in found] == [tenant]


def test_k_and_filter_are_pushed_down_where_they_are_obeyed(run: Run) -> None:
    core = Core()
    run(LangChainRetriever(AgoraRetriever(retriever=core)), "retrieve", "x", top_k=2, filter={"acl": ["all"]})
    assert core.calls == [{"top_k": 2, "filter": {"acl": ["all"]}}]
    vectors = AgoraVectorStore(MemoryVectorStore(), FakeEmbeddingProvider())
    vectors.add_texts([f"leave {n}" for n in range(9)], [{"even": n % 2 == 0} for n in range(9)])
    leg = LangChainRetriever(vectors.as_retriever(search_kwargs={"k": 1}))
    found = run(leg, "retrieve", "leave", top_k=4, filter={"even": False})
    assert len(found) == 4


def test_a_chain_that_ends_in_documents_serves(run: Run) -> None:
    chain = RunnableLambda(str.upper) | RunnableLambda(lambda query: [Document(str(query), id="x")])
    assert run(LangChainRetriever(chain), "retrieve", "abc") == [Passage("x", "ABC", 1.0, None, {})]


def test_theirs_and_ours_meet_in_one_hybrid(run: Run) -> None:
    keyword = KeywordRetriever()
    keyword.add([ChunkRecord("1", "one leave"), ChunkRecord("9", "nine")])
    hybrid = HybridRetriever([LangChainRetriever(Theirs(documents=documents())), keyword])
    found = run(AgoraRetriever(retriever=hybrid, k=10), "invoke", "leave")
    assert found[0].id == "1"
    assert len({document.id for document in found}) == len(found) == 4


def test_what_cannot_be_invoked_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="retriever must be a Runnable, got Core"):
        LangChainRetriever(Core())  # type: ignore[arg-type]


def test_embeddings_of_the_core_trace_too() -> None:
    vectors = AgoraVectorStore(MemoryVectorStore(), FakeEmbeddingProvider())
    assert isinstance(vectors.embeddings, AgoraEmbeddings)
    assert vectors.as_retriever()._get_ls_params()["ls_vector_store_provider"] == "AgoraVectorStore"
