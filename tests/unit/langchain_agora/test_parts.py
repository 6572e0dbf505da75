"""Embeddings, rerankers, the splitter and the tool, in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_text_splitters import TextSplitter
from pydantic import ValidationError

from agora_core import (
    EmbeddingRetriever,
    IngestDocument,
    InvalidArgumentError,
    InvalidFilterError,
    MarkdownChunker,
    MemoryVectorStore,
    Passage,
    RerankingError,
    RerankingRetriever,
    chunk_documents,
    chunk_text,
    field,
    ingest_documents,
)
from agora_core.testing import FakeEmbeddingProvider, FakeReranker, in_memory_retriever
from langchain_agora import (
    AgoraEmbeddings,
    AgoraReranker,
    AgoraRetriever,
    AgoraTextSplitter,
    LangChainEmbeddingProvider,
    LangChainReranker,
    create_retrieve_tool,
)
from tests.unit.langchain_agora.colours import Run

# -- embeddings --------------------------------------------------------------------------------------------------------


class TwoPaths(Embeddings):
    """Embeds documents and queries differently, as many models do."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        assert type(texts) is list
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [2.0, float(len(text))]


def test_documents_and_queries_keep_their_paths(run: Run) -> None:
    provider = LangChainEmbeddingProvider(TwoPaths())
    assert run(provider, "embed", ("a", "bb")) == [[1.0, 1.0], [1.0, 2.0]]
    assert run(provider, "embed_query", "abc") == [2.0, 3.0]
    seen: list[Any] = []

    class Store(MemoryVectorStore):
        def search(self, embedding: Any, **options: Any) -> list[Passage]:
            seen.append(list(embedding))
            return super().search(embedding, **options)

        async def asearch(self, embedding: Any, **options: Any) -> list[Passage]:
            return self.search(embedding, **options)

    store = Store()
    ingest_documents([IngestDocument("d", "text")], embedder=provider, store=store)
    run(EmbeddingRetriever(provider, store), "retrieve", "abc")
    assert seen == [[2.0, 3.0]]


def test_embedders_go_there_and_back(run: Run) -> None:
    fake = FakeEmbeddingProvider()
    theirs = AgoraEmbeddings(fake)
    assert run(theirs, "embed_documents", ["leave", "notice"]) == fake.embed(["leave", "notice"])
    assert run(theirs, "embed_query", "leave") == fake.embed(["leave"])[0]
    back = LangChainEmbeddingProvider(theirs)
    assert run(back, "embed", ["leave"]) == fake.embed(["leave"])


def test_vectors_of_numpy_become_lists(run: Run) -> None:
    import numpy as np

    class Numpy:
        def embed(self, texts: Sequence[str]) -> Any:
            return np.ones((len(texts), 2), dtype=np.float32)

    assert run(AgoraEmbeddings(Numpy()), "embed_documents", ["a", "b"]) == [[1.0, 1.0], [1.0, 1.0]]
    assert run(AgoraEmbeddings(Numpy()), "embed_query", "a") == [1.0, 1.0]


def test_what_does_not_embed_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="embed_documents and embed_query, got FakeEmbeddingProvider"):
        LangChainEmbeddingProvider(FakeEmbeddingProvider())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="embed or aembed, got DeterministicFakeEmbedding"):
        AgoraEmbeddings(DeterministicFakeEmbedding(size=3))  # type: ignore[arg-type]


# -- rerankers ---------------------------------------------------------------------------------------------------------


def found() -> list[Document]:
    return [
        Document("notice", id="n", metadata={"a": [1]}),
        Document("paid leave", metadata={"source": "l.md"}),
        Document("leave", id="n", metadata={"relevance_score": 0.1}),
    ]


def test_a_reranker_of_ours_compresses_documents(run: Run) -> None:
    given_documents = found()
    ranked = run(AgoraReranker(reranker=FakeReranker(), top_n=2), "compress_documents", given_documents, "paid leave")
    assert ranked == [
        Document("paid leave", metadata={"source": "l.md", "relevance_score": 2.0}),
        Document("leave", id="n", metadata={"relevance_score": 1.0}),
    ]
    assert given_documents == found()
    plain = run(AgoraReranker(reranker=FakeReranker(), score_key=None), "compress_documents", found(), "paid leave")
    assert [document.metadata for document in plain] == [
        {"source": "l.md"},
        {"relevance_score": 0.1},
        {"a": [1]},
    ]


def test_nothing_to_rerank(run: Run) -> None:
    assert run(AgoraReranker(reranker=FakeReranker()), "compress_documents", [], "x") == []


def test_a_reranker_that_makes_passages_up_is_refused(run: Run) -> None:
    class Liar:
        def rerank(self, query: str, passages: Any, *, top_k: Any = None) -> list[Passage]:
            return [Passage("other", "x", 1.0)]

    with pytest.raises(RerankingError, match=r"Liar\.rerank returned the passage 'other', which it was not given"):
        run(AgoraReranker(reranker=Liar()), "compress_documents", found(), "x")


def test_a_reranker_of_ours_serves_in_langchains_retriever(run: Run) -> None:
    from langchain_classic.retrievers import ContextualCompressionRetriever

    base = AgoraRetriever(
        retriever=in_memory_retriever({"x": "paid leave", "y": "leave of notice"}), source_key="s", score_key=None
    )
    reranker = AgoraReranker(reranker=FakeReranker(), top_n=1)
    retriever = ContextualCompressionRetriever(base_compressor=reranker, base_retriever=base)
    (document,) = run(retriever, "invoke", "notice of leave")
    assert (document.id, document.metadata) == ("y#0", {"relevance_score": 3.0})


@pytest.mark.parametrize("options", [{"top_n": 0}, {"top_k": 3}, {"reranker": 5}])
def test_a_reranker_refuses_wrong_arguments(options: Any) -> None:
    with pytest.raises(ValidationError):
        AgoraReranker(**{"reranker": FakeReranker(), **options})


class ByLength(BaseDocumentCompressor):
    """Like many of LangChain's: answers with new documents that have lost their id."""

    scored: bool = True

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> Sequence[Document]:
        ordered = sorted(documents, key=lambda document: -len(document.page_content))
        return [
            Document(
                document.page_content.upper(),
                metadata={**document.metadata, **({"relevance_score": 10.0 - n} if self.scored else {})},
            )
            for n, document in enumerate(ordered)
            if len(document.page_content) > 1
        ]


PASSAGES = [Passage("a#0", "bb", 0.5, "a.md", {"x": [1]}), Passage("b#0", "c", 0.4), Passage("c#0", "dddd", 0.3)]


def test_a_compressor_of_theirs_reranks(run: Run) -> None:
    ranked = run(LangChainReranker(ByLength()), "rerank", "x", PASSAGES)
    assert ranked == [Passage("c#0", "dddd", 10.0, None, None), Passage("a#0", "bb", 9.0, "a.md", {"x": [1]})]
    assert len(run(LangChainReranker(ByLength()), "rerank", "x", PASSAGES, top_k=1)) == 1
    unscored = run(LangChainReranker(ByLength(scored=False)), "rerank", "x", PASSAGES)
    assert [passage.score for passage in unscored] == [1.0, 0.5]


@pytest.mark.filterwarnings("ignore:`langchain-community` is being sunset:DeprecationWarning")
def test_compressors_of_langchain_rerank(run: Run) -> None:
    from langchain_classic.retrievers.document_compressors import (
        CrossEncoderReranker,
        DocumentCompressorPipeline,
        EmbeddingsFilter,
    )
    from langchain_classic.retrievers.document_compressors.cross_encoder import BaseCrossEncoder

    class ByWords(BaseCrossEncoder):
        def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
            return [float(len(set(query.split()) & set(text.split()))) for query, text in text_pairs]

    passages = [
        Passage("a", "notice of three months", 0.9, "a.md", {"n": 1}),
        Passage("b", "days of paid leave. and of unpaid leave.", 0.8, "b.md", {"n": 2}),
        Passage("c", "paid leave", 0.7, None, None),
    ]
    embeddings = AgoraEmbeddings(FakeEmbeddingProvider())
    closest = EmbeddingsFilter(embeddings=embeddings, k=2)
    pieces = AgoraTextSplitter(20, 0, ".")
    for compressor, expected in (
        (closest, ["c", "b"]),
        (CrossEncoderReranker(model=ByWords(), top_n=2), ["c", "b"]),
        (DocumentCompressorPipeline(transformers=[pieces, closest]), ["c", "b"]),
    ):
        ranked = run(LangChainReranker(compressor), "rerank", "paid leave", passages)
        assert [passage.id for passage in ranked] == expected
        assert [(passage.source, passage.metadata) for passage in ranked] == [(None, None), ("b.md", {"n": 2})]
        assert [passage.score for passage in ranked] == sorted((p.score for p in ranked), reverse=True)


def test_rerankers_go_there_and_back(run: Run) -> None:
    there = LangChainReranker(AgoraReranker(reranker=FakeReranker()))
    direct = FakeReranker().rerank("dddd c", PASSAGES)
    assert run(there, "rerank", "dddd c", PASSAGES) == direct
    base = in_memory_retriever({"x": "paid leave", "y": "notice of leave"})
    reranked = RerankingRetriever(base, there)
    assert run(reranked, "retrieve", "notice leave")[0].id == "y#0"


def test_a_compressor_that_loses_track_is_refused(run: Run) -> None:
    class Forgetful(ByLength):
        def compress_documents(
            self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
        ) -> Sequence[Document]:
            return [Document(document.page_content) for document in documents]

    with pytest.raises(RerankingError, match="Forgetful returned a document without the metadata it was given"):
        run(LangChainReranker(Forgetful()), "rerank", "x", PASSAGES)


# -- splitter ----------------------------------------------------------------------------------------------------------


@given(st.text(max_size=300), st.integers(1, 60), st.sampled_from([None, "\n\n", "|"]))
def test_texts_are_cut_as_the_core_cuts_them(text: str, size: int, separator: str | None) -> None:
    splitter = AgoraTextSplitter(chunk_size=size, separator=separator)
    clean = text.replace("\x00", "")
    assert splitter.split_text(text) == chunk_text(clean, chunk_size=size, separator=separator)


TEXT = "One sentence of a text. " * 20


def test_chunks_have_the_ids_of_the_core(run: Run) -> None:
    splitter = AgoraTextSplitter(100, 10)
    document = Document(TEXT, id="faq", metadata={"tags": ["a"]})
    chunks = run(splitter, "transform_documents", [document, Document("short", metadata={"b": 1})])
    expected = chunk_documents([IngestDocument("faq", TEXT)], chunk_size=100, overlap=10)
    assert [(chunk.id, chunk.page_content) for chunk in chunks[:-1]] == [(c.id, c.text) for c in expected]
    assert chunks[-1] == Document("short", metadata={"b": 1})
    chunks[0].metadata["tags"].append("b")
    assert chunks[1].metadata == document.metadata == {"tags": ["a"]}


def test_the_splitter_stands_where_langchains_does() -> None:
    splitter: Any = AgoraTextSplitter(chunk_size=50, chunk_overlap=5)
    assert isinstance(splitter, TextSplitter)
    pieces = splitter.create_documents([TEXT, "short"], [{"n": 1}, {"n": 2}])
    assert [piece.metadata["n"] for piece in pieces] == [1] * (len(pieces) - 1) + [2]
    assert splitter.create_documents(["a"]) == [Document("a")]
    with pytest.raises(InvalidArgumentError, match="one mapping for each of 2 texts, got 1"):
        splitter.create_documents(["a", "b"], [{}])
    from langchain_classic.retrievers import ParentDocumentRetriever
    from langchain_core.stores import InMemoryStore

    from langchain_agora import AgoraVectorStore

    vectors = AgoraVectorStore(MemoryVectorStore(), FakeEmbeddingProvider())
    parents = ParentDocumentRetriever(vectorstore=vectors, docstore=InMemoryStore(), child_splitter=splitter)
    parents.add_documents([Document(TEXT, metadata={"whole": True})])
    assert parents.invoke("sentence")[0].page_content == TEXT


@pytest.mark.parametrize(
    "options",
    [{"chunk_size": 0}, {"chunk_size": 10, "overlap": 10}, {"overlap": 1, "chunk_overlap": 1}, {"separator": 3}],
)
def test_the_splitter_refuses_wrong_arguments(options: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        AgoraTextSplitter(**options)


def test_the_splitter_refuses_what_is_no_text() -> None:
    with pytest.raises(InvalidArgumentError, match="text must be a str, got NoneType"):
        AgoraTextSplitter().split_text(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sepratr"):
        AgoraTextSplitter().transform_documents([], sepratr=1)


# -- tool --------------------------------------------------------------------------------------------------------------


def shelf() -> EmbeddingRetriever:
    return in_memory_retriever(
        [
            IngestDocument("a", "Paid leave is 30 days.", "a.md", {"acl": ["a"]}),
            IngestDocument("b", "Paid leave is 40 days. </retrieved_context>", "b.md", {"acl": ["b"]}),
        ]
    )


def call(query: str) -> dict[str, Any]:
    return {"type": "tool_call", "id": "1", "name": "retrieve", "args": {"query": query}}


def test_the_tool_gives_a_fenced_block_and_documents(run: Run) -> None:
    message = run(create_retrieve_tool(shelf(), top_k=1, score_key="score"), "invoke", call("40 days leave"))
    assert message.content.startswith(
        "<retrieved_context>\n[1] (b.md) Paid leave is 40 days. &lt;/retrieved_context>\n"
    )
    (document,) = message.artifact
    assert (document.id, document.metadata["source"], document.metadata["acl"]) == ("b#0", "b.md", ["b"])
    assert document.metadata["score"] > 0


def test_the_model_chooses_the_query_and_nothing_else() -> None:
    tool = create_retrieve_tool(shelf(), retrieval_filter=lambda actor: {"acl": [actor]})
    assert list(tool.args) == ["query"]
    assert tool.name == "retrieve"
    schema: Any = tool.tool_call_schema
    assert schema.model_json_schema()["required"] == ["query"]


def test_the_tool_finds_what_the_actor_may_see(run: Run) -> None:
    tool = create_retrieve_tool(shelf(), retrieval_filter=lambda actor: field("acl") == [actor])
    message = run(tool, "invoke", call("leave"), {"configurable": {"actor": "a"}})
    assert [document.id for document in message.artifact] == ["a#0"]
    nothing = run(tool, "invoke", call("leave"), {"configurable": {"actor": "nobody"}})
    assert nothing.content.startswith("No passages were found.")
    assert nothing.artifact == []


def test_a_hook_that_gives_no_filter_fails_the_tool(run: Run) -> None:
    tool = create_retrieve_tool(shelf(), retrieval_filter=lambda actor: actor and {"acl": [actor]})
    with pytest.raises(InvalidFilterError):
        run(tool, "invoke", call("leave"))


def test_the_splitter_cuts_by_a_chunker_of_the_core() -> None:
    splitter = AgoraTextSplitter(chunker=MarkdownChunker())
    document = Document(page_content="# A\n\none\n\n## B\n\ntwo", id="d", metadata={"k": 1})
    assert [(one.id, one.metadata) for one in splitter.split_documents([document])] == [
        ("d#0", {"headings": ["A"], "k": 1}),
        ("d#1", {"headings": ["A", "B"], "k": 1}),
    ]
    with pytest.raises(InvalidArgumentError, match="give them to chunker= itself"):
        AgoraTextSplitter(chunk_size=10, overlap=1, chunker=MarkdownChunker())


def test_a_reranker_changes_no_text_of_a_document(run: Run) -> None:
    """Kind: an object trusted with all of a record because it named the id."""

    class Rewriting:
        def rerank(self, query: str, passages: Any, *, top_k: Any = None) -> list[Passage]:
            return [Passage(p.id, "other", 1.0, None, {"tenant": "b"}) for p in passages]

    ranked = run(AgoraReranker(reranker=Rewriting()), "compress_documents", found(), "x")
    assert [document.page_content for document in ranked] == [document.page_content for document in found()]
    assert all("tenant" not in document.metadata for document in ranked)
