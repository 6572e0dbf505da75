"""The smaller parts: retrievers both ways, rerankers both ways, embeddings, and the node parser."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.postprocessor import LongContextReorder, SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import Document, NodeRelationship, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from agora_core import HybridRetriever, MarkdownChunker, Passage, RerankingRetriever, VectorRecord, chunk_text
from agora_core.errors import (
    EmbeddingError,
    InvalidArgumentError,
    InvalidFilterError,
    RerankingError,
    UnsupportedOperationError,
)
from agora_core.testing import FakeReranker, in_memory_retriever
from llamaindex_agora import (
    AgoraEmbedding,
    AgoraNodeParser,
    AgoraReranker,
    AgoraRetriever,
    LlamaIndexEmbeddingProvider,
    LlamaIndexReranker,
    LlamaIndexRetriever,
)

COLOURS = pytest.mark.parametrize("colour", ["sync", "async"])
PASSAGES = [
    Passage("a", "red fox", 0.9, "a.md", {"acl": ["all"], "n": 1}),
    Passage("b", "blue fox", 0.8, None, {"acl": ["top"], "n": 2}),
    Passage("c", "hen", 0.1, None, None),
]


def call(target: Any, method: str, colour: str, /, *args: Any, **options: Any) -> Any:
    if colour == "sync":
        return getattr(target, method)(*args, **options)
    return asyncio.run(getattr(target, f"a{method}")(*args, **options))


def ids(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [found.node.node_id for found in nodes]


class Asked:
    """A retriever of the core that writes down how it was asked."""

    def __init__(self) -> None:
        self.options: list[dict[str, Any]] = []

    def retrieve(self, query: str, **options: Any) -> list[Passage]:
        self.options.append(options)
        return PASSAGES[: options.get("top_k")]


class Theirs(BaseRetriever):
    """A retriever of LlamaIndex's with fixed nodes."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(id_=p.id, text=p.text, metadata=dict(p.metadata or {})), score=p.score)
            for p in PASSAGES
        ]


# ------------------------------------------------------------------------------------------------ our retriever


@COLOURS
def test_what_was_not_given_is_not_passed_on(colour: str) -> None:
    core = Asked()
    found = call(AgoraRetriever(core), "retrieve", colour, "fox")
    assert core.options == [{"top_k": 5}]
    assert (found[0].node.node_id, found[0].score, found[0].node.get_content()) == ("a", 0.9, "red fox")
    assert found[0].node.metadata == {"acl": ["all"], "n": 1, "source": "a.md"}
    call(AgoraRetriever(retriever=core, similarity_top_k=1, filter={"n": 1}, min_score=0.5), "retrieve", colour, "fox")
    assert core.options[1] == {"top_k": 1, "filter": {"n": 1}, "min_score": 0.5}


@COLOURS
def test_a_filter_is_a_function_of_the_query(colour: str) -> None:
    core = Asked()
    theirs = MetadataFilters(filters=[MetadataFilter(key="n", value=1)])
    seen: list[QueryBundle] = []

    def bound(query: QueryBundle) -> Any:
        seen.append(query)
        return theirs if query.query_str == "theirs" else {"n": 2}

    retriever = AgoraRetriever(retriever=core, filter=bound)
    call(retriever, "retrieve", colour, "theirs")
    call(retriever, "retrieve", colour, "ours")
    assert [query.query_str for query in seen] == ["theirs", "ours"]
    assert core.options[1]["filter"] == {"n": 2}
    refused: list[Any] = [None, "all", []]
    for bad in refused:
        with pytest.raises(InvalidFilterError):
            call(AgoraRetriever(retriever=core, filter=lambda _, bad=bad: bad), "retrieve", colour, "x")
    assert len(core.options) == 2


def test_an_async_filter_serves_async_code_only() -> None:
    core = Asked()

    async def bound(query: QueryBundle) -> dict[str, Any]:
        return {"n": 2}

    retriever = AgoraRetriever(retriever=core, filter=bound)
    asyncio.run(retriever.aretrieve("x"))
    with pytest.raises(UnsupportedOperationError):
        retriever.retrieve("x")
    assert [options["filter"] for options in core.options] == [{"n": 2}]


@COLOURS
@pytest.mark.parametrize("own", [None, {"acl": ["all"]}, lambda _: {"acl": ["all"]}])
def test_a_scope_only_narrows(colour: str, own: Any) -> None:
    core = in_memory_retriever([])
    core.store.upsert(
        [VectorRecord(p.id, p.text, core.embedder.embed([p.text])[0], None, p.metadata) for p in PASSAGES]
    )
    retriever = AgoraRetriever(retriever=core, filter=own)
    scoped = retriever.scoped({"n": [1, 2]}).scoped(MetadataFilters(filters=[MetadataFilter(key="n", value=2)]))
    assert ids(call(scoped, "retrieve", colour, "fox")) == ([] if own else ["b"])
    assert ids(call(retriever.scoped({"n": []}), "retrieve", colour, "fox")) == []
    assert len(call(retriever, "retrieve", colour, "fox")) == (1 if own else 3)


def test_arguments_are_checked() -> None:
    refused: list[dict[str, Any]] = [{"similarity_top_k": 0}, {"min_score": float("nan")}]
    for bad in refused:
        with pytest.raises(InvalidArgumentError):
            AgoraRetriever(retriever=Asked(), **bad)
    with pytest.raises(InvalidFilterError):
        AgoraRetriever(retriever=Asked(), filter="all")  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ theirs for the core


@COLOURS
def test_their_retriever(colour: str) -> None:
    inward = LlamaIndexRetriever(Theirs())
    found = call(inward, "retrieve", colour, "fox", top_k=2)
    assert [(p.id, p.text, p.score) for p in found] == [("a", "red fox", 0.9), ("b", "blue fox", 0.8)]
    assert [p.id for p in call(inward, "retrieve", colour, "fox", min_score=0.5)] == ["a", "b"]
    assert [p.id for p in call(inward, "retrieve", colour, "fox", filter={"acl": ["top"]})] == ["b"]
    assert call(inward, "retrieve", colour, "fox", filter={"acl": []}) == []
    assert [p.id for p in call(inward.scoped({"n": 1}), "retrieve", colour, "fox", filter={"n": [1, 2]})] == ["a"]
    for bad in ({"top_k": 0}, {"filter": "all"}):
        with pytest.raises(ValueError):
            call(inward, "retrieve", colour, "fox", **bad)


@COLOURS
def test_their_retriever_composes(colour: str) -> None:
    composed = RerankingRetriever(HybridRetriever([LlamaIndexRetriever(Theirs()), Asked()]), FakeReranker())
    assert call(composed, "retrieve", colour, "blue fox", top_k=1)[0].id == "b"


@COLOURS
def test_a_node_goes_through_the_core_and_comes_back(colour: str) -> None:
    through = call(AgoraRetriever(retriever=LlamaIndexRetriever(Theirs())), "retrieve", colour, "fox")
    assert [n.node for n in through] == [n.node for n in Theirs().retrieve("fox")]


# ------------------------------------------------------------------------------------------------ rerankers


def nodes() -> list[NodeWithScore]:
    return Theirs().retrieve("x")


@COLOURS
def test_our_reranker(colour: str) -> None:
    given = nodes()
    given[0].node.embedding = [1.0]
    found = call(AgoraReranker(FakeReranker(), top_n=2), "postprocess_nodes", colour, given, query_str="blue fox")
    assert [(n.node.node_id, n.score) for n in found] == [("b", 2.0), ("a", 1.0)]
    assert found[1].node.embedding == [1.0]
    assert [n.score for n in given] == [0.9, 0.8, 0.1]
    assert len(call(AgoraReranker(reranker=FakeReranker()), "postprocess_nodes", colour, given, query_str="x")) == 3
    assert call(AgoraReranker(reranker=FakeReranker()), "postprocess_nodes", colour, [], query_str="x") == []
    with pytest.raises(RerankingError, match="query"):
        call(AgoraReranker(reranker=FakeReranker()), "postprocess_nodes", colour, given)


def test_our_reranker_checks_its_arguments() -> None:
    with pytest.raises(InvalidArgumentError):
        AgoraReranker(reranker=FakeReranker(), top_n=0)
    with pytest.raises(TypeError, match="topn"):
        AgoraReranker(reranker=FakeReranker(), topn=3)


@COLOURS
def test_a_reranker_that_takes_no_top_k_or_invents_a_passage(colour: str) -> None:
    class Plain:
        def rerank(self, query: str, passages: Sequence[Passage]) -> list[Passage]:
            return list(reversed(passages))

    class Inventor:
        def rerank(self, query: str, passages: Sequence[Passage]) -> list[Passage]:
            return [Passage("invented", "x", 1.0)]

    assert ids(call(AgoraReranker(Plain()), "postprocess_nodes", colour, nodes(), query_str="x")) == ["c", "b", "a"]
    with pytest.raises(RerankingError, match="invented"):
        call(AgoraReranker(Inventor()), "postprocess_nodes", colour, nodes(), query_str="x")


@COLOURS
def test_their_reranker(colour: str) -> None:
    inward = LlamaIndexReranker(SimilarityPostprocessor(similarity_cutoff=0.5))
    assert [p.id for p in call(inward, "rerank", colour, "x", PASSAGES)] == ["a", "b"]
    assert call(inward, "rerank", colour, "x", PASSAGES, top_k=1) == [PASSAGES[0]]
    reordered = call(LlamaIndexReranker(LongContextReorder()), "rerank", colour, "x", PASSAGES)
    assert sorted(p.id for p in reordered) == ["a", "b", "c"]
    assert all(p in PASSAGES for p in reordered)


def test_their_reranker_may_not_invent_a_node() -> None:
    class Inventor(BaseNodePostprocessor):
        def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> list[NodeWithScore]:
            return [NodeWithScore(node=TextNode(id_="invented"), score=1.0)]

    with pytest.raises(RerankingError, match="invented"):
        LlamaIndexReranker(Inventor()).rerank("x", PASSAGES)


# ------------------------------------------------------------------------------------------------ embeddings


class TwoSided(BaseEmbedding):
    """A model that embeds a query otherwise than a text."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [1.0, float(len(text))]

    def _get_query_embedding(self, query: str) -> list[float]:
        return [2.0, float(len(query))]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return [3.0, float(len(query))]


def test_queries_and_texts_are_embedded_apart() -> None:
    provider = LlamaIndexEmbeddingProvider(TwoSided(model_name="two"))
    assert provider.embed(["a", "bb"]) == [[1.0, 1.0], [1.0, 2.0]]
    assert provider.embed_query("ccc") == [2.0, 3.0]
    assert asyncio.run(provider.aembed(["a"])) == [[1.0, 1.0]]
    assert asyncio.run(provider.aembed_query("ccc")) == [3.0, 3.0]
    assert "two" in repr(provider)


# ------------------------------------------------------------------------------------------------ node parser


def test_node_parser() -> None:
    text = "word " * 100
    document = Document(
        id_="doc", text=text, metadata={"k": [1]}, excluded_llm_metadata_keys=["k"], excluded_embed_metadata_keys=["k"]
    )
    parser = AgoraNodeParser(chunk_size=120, overlap=10)
    found = parser.get_nodes_from_documents([document])
    assert [n.node_id for n in found] == [f"doc#{n}" for n in range(len(found))]
    assert [n.get_content() for n in found] == chunk_text(text, chunk_size=120, overlap=10)
    for n in found:
        assert (n.ref_doc_id, n.metadata, n.excluded_llm_metadata_keys) == ("doc", {"k": [1]}, ["k"])
    assert found[0].relationships[NodeRelationship.NEXT].node_id == "doc#1"  # type: ignore[union-attr]
    found[0].metadata["k"] = 2
    assert document.metadata == {"k": [1]}
    assert parser.get_nodes_from_documents([document])[1].node_id == "doc#1"


def test_node_parser_on_records_and_its_arguments() -> None:
    parser = AgoraNodeParser(chunk_size=8, overlap=0, separator="\n")
    found = parser.get_nodes_from_documents([Document(id_="d", text="one\ntwo\nthree\x00")])
    assert [n.get_content() for n in found] == ["one\ntwo", "three"]
    with pytest.raises(InvalidArgumentError):
        AgoraNodeParser(chunk_size=10, overlap=10)
    with pytest.raises(InvalidArgumentError, match="chunk_overlap"):
        AgoraNodeParser(chunk_overlap=10)
    again = pickle.loads(pickle.dumps(parser))
    assert (again.chunk_size, again.overlap, again.separator) == (8, 0, "\n")


def test_the_node_parser_cuts_by_a_chunker_of_the_core() -> None:
    document = Document(id_="d", text="# A\n\none\n\n## B\n\ntwo", metadata={"k": 1})
    nodes = AgoraNodeParser(chunker=MarkdownChunker()).get_nodes_from_documents([document])
    assert [(node.node_id, node.metadata) for node in nodes] == [
        ("d#0", {"headings": ["A"], "k": 1}),
        ("d#1", {"headings": ["A", "B"], "k": 1}),
    ]
    with pytest.raises(InvalidArgumentError, match="give them to chunker= itself"):
        AgoraNodeParser(chunk_size=10, overlap=1, chunker=MarkdownChunker())


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_an_embedder_of_the_core_serves_as_their_model(colour: str) -> None:
    """Texts and queries keep their own paths, and one that answers wrongly is refused."""

    class Apart:
        model = "apart"

        def embed(self, texts: Any) -> Any:
            return np.array([[float(len(text)), 1.0] for text in texts], dtype=np.float32)

        def embed_query(self, text: str) -> list[float]:
            return [float(len(text)), 2.0]

    class Short(Apart):
        def embed(self, texts: Any) -> Any:
            return []

    made = AgoraEmbedding(Apart(), embed_batch_size=2)
    assert (made.model_name, made.embed_batch_size, made.class_name()) == ("apart", 2, "AgoraEmbedding")
    if colour == "sync":
        assert made.get_text_embedding_batch(["a", "bb", "ccc"]) == [[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]
        assert made.get_query_embedding("ab") == [2.0, 2.0]
        assert made.get_text_embedding("a") == [1.0, 1.0]
    else:
        assert asyncio.run(made.aget_text_embedding_batch(["a", "bb", "ccc"])) == [[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]
        assert asyncio.run(made.aget_query_embedding("ab")) == [2.0, 2.0]
        assert asyncio.run(made.aget_text_embedding("a")) == [1.0, 1.0]
    with pytest.raises(EmbeddingError):
        AgoraEmbedding(Short()).get_text_embedding("a")
    with pytest.raises(UnsupportedOperationError):
        AgoraEmbedding(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="batch"):
        AgoraEmbedding(Apart(), batch=2)
