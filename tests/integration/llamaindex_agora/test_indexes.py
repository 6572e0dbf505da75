"""Indexes, pipelines and fusion over every store: what LlamaIndex's documentation shows, with our store in it."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import Document
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters

from agora_core import HybridRetriever
from llamaindex_agora import AgoraNodeParser, AgoraRetriever, LlamaIndexRetriever
from tests.contract.llamaindex.stores import Colour
from tests.integration.llamaindex_agora.scripted import Counted, WordEmbedding, documents, llm

FOR_ALL = MetadataFilters(filters=[MetadataFilter(key="acl", value=["all"], operator=FilterOperator.ANY)])


def index_of(store: Colour, **options: Any) -> VectorStoreIndex:
    return VectorStoreIndex.from_documents(
        documents(),
        storage_context=StorageContext.from_defaults(vector_store=store.target),
        embed_model=WordEmbedding(texts=[]),
        transformations=[AgoraNodeParser()],
        **options,
    )


def stored(store: Colour) -> dict[str, str]:
    return {node.node_id: node.get_content() for node in store.get_nodes()}


def ids(found: Any) -> list[str]:
    return [node.node.node_id for node in found]


def test_from_documents(store: Colour) -> None:
    index = index_of(store)
    assert list(stored(store)) == ["board#0", "leave#0", "notice#0", "office#0"]
    found = store.of(index.as_retriever(similarity_top_k=2)).retrieve("30 days of paid leave")
    assert ids(found) == ["leave#0", "board#0"]
    assert found[0].score >= found[1].score
    assert found[0].node.metadata == {"acl": ["all"], "year": 2024}
    assert found[0].node.ref_doc_id == "leave"


def test_from_documents_with_use_async(store: Colour) -> None:
    """The index opens event loops of its own; the store serves in each of them."""
    index = index_of(store, use_async=True)
    assert ids(store.of(index.as_retriever(similarity_top_k=1)).retrieve("notice three months")) == ["notice#0"]


def test_from_documents_with_their_own_splitter(store: Colour) -> None:
    VectorStoreIndex.from_documents(
        [Document(id_="long", text="One sentence here. " * 40)],
        storage_context=StorageContext.from_defaults(vector_store=store.target),
        embed_model=WordEmbedding(texts=[]),
        transformations=[SentenceSplitter(chunk_size=60, chunk_overlap=0)],
    )
    assert len(stored(store)) > 1
    store.delete("long")
    assert stored(store) == {}


def test_from_vector_store_as_retriever_filtered_and_hybrid(store: Colour) -> None:
    index_of(store)
    index = VectorStoreIndex.from_vector_store(store.target, embed_model=WordEmbedding(texts=[]))
    plain = index.as_retriever(similarity_top_k=10, filters=FOR_ALL)
    assert set(ids(store.of(plain).retrieve("paid leave"))) == {"leave#0", "notice#0", "office#0"}
    for alpha in (0.0, 0.5, 1.0):
        hybrid = index.as_retriever(
            similarity_top_k=4, filters=FOR_ALL, vector_store_query_mode="hybrid", alpha=alpha, sparse_top_k=4
        )
        found = ids(store.of(hybrid).retrieve("paid leave"))
        assert found[0] == "leave#0"
        assert "board#0" not in found
    cut = index.as_retriever(similarity_top_k=4, vector_store_query_mode="hybrid", hybrid_top_k=1)
    assert len(store.of(cut).retrieve("paid leave")) == 1
    text = index.as_retriever(similarity_top_k=4, vector_store_query_mode="text_search", sparse_top_k=4)
    assert set(ids(store.of(text).retrieve("leave"))) == {"leave#0", "board#0"}


def test_doc_ids_restrict_a_retriever(store: Colour) -> None:
    """11602, 22966: other stores drop `doc_ids` in silence, and what they restrict is an access rule to some."""
    index_of(store)
    index = VectorStoreIndex.from_vector_store(store.target, embed_model=WordEmbedding(texts=[]))
    own = index.as_retriever(similarity_top_k=10, doc_ids=["board"])
    assert ids(store.of(own).retrieve("paid leave")) == ["board#0"]
    none = index.as_retriever(similarity_top_k=10, doc_ids=[])
    assert ids(store.of(none).retrieve("paid leave")) == []


def test_insert_and_delete_ref_doc(store: Colour) -> None:
    index = store.of(index_of(store))
    index.insert(Document(id_="new", text="Bicycles are parked outside."))
    assert stored(store)["new#0"] == "Bicycles are parked outside."
    index.delete_ref_doc("leave", delete_from_docstore=True)
    assert "leave#0" not in stored(store)
    assert len(stored(store)) == 4
    index.delete_ref_doc("nobody")
    index.delete_nodes(["new#0"])
    assert list(stored(store)) == ["board#0", "notice#0", "office#0"]


def test_refresh_ref_docs_embeds_only_what_changed(store: Colour) -> None:
    embedding = WordEmbedding(texts=[])
    index = VectorStoreIndex.from_documents(
        documents(),
        storage_context=StorageContext.from_defaults(vector_store=store.target, docstore=SimpleDocumentStore()),
        embed_model=embedding,
        transformations=[AgoraNodeParser()],
    )
    embedding.texts.clear()
    changed = documents()
    changed[1] = Document(id_="notice", text="Notice is six months.", metadata={"acl": ["all"]})
    changed.append(Document(id_="new", text="Bicycles are parked outside."))
    assert store.of(index).refresh_ref_docs(changed) == [False, True, False, False, True]
    assert len(embedding.texts) == 2
    assert stored(store)["notice#0"] == "Notice is six months."
    assert len(stored(store)) == 5
    assert store.of(index).refresh_ref_docs(changed) == [False] * 5


def long_document(words: int) -> Document:
    return Document(id_="long", text=" ".join(f"word{n}." for n in range(words)), metadata={"acl": ["all"]})


def pipeline(store: Colour, strategy: DocstoreStrategy = DocstoreStrategy.UPSERTS) -> IngestionPipeline:
    return IngestionPipeline(
        transformations=[AgoraNodeParser(chunk_size=40, overlap=0), WordEmbedding(texts=[])],
        vector_store=store.target,
        docstore=SimpleDocumentStore(),
        docstore_strategy=strategy,
    )


def run(store: Colour, made: IngestionPipeline, given: list[Document]) -> list[Any]:
    """`run` and `arun`, whose names are no pair of the usual kind."""
    return list(store.of(made).run(documents=given))


def test_a_pipeline_run_twice_writes_nothing_twice(store: Colour) -> None:
    made = pipeline(store)
    chunks = len(run(store, made, [long_document(30)]))
    assert chunks > 5
    assert len(stored(store)) == chunks
    assert run(store, made, [long_document(30)]) == []
    assert len(stored(store)) == chunks


def test_a_pipeline_replaces_a_document_whole(store: Colour) -> None:
    """Every chunk of the new version, and no tail of the old one."""
    made = pipeline(store)
    run(store, made, [long_document(30), *documents()])
    run(store, made, [long_document(12), *documents()])
    chunks = {id: text for id, text in stored(store).items() if id.startswith("long#")}
    assert len(chunks) == 3
    assert sum(text.count("word") for text in chunks.values()) == 12
    assert {"leave#0", "board#0"} <= set(stored(store))


def test_a_pipeline_deletes_what_is_gone(store: Colour) -> None:
    made = pipeline(store, DocstoreStrategy.UPSERTS_AND_DELETE)
    run(store, made, [long_document(12), *documents()])
    run(store, made, documents()[:2])
    assert {id.rpartition("#")[0] for id in stored(store)} == {"leave", "notice"}


@pytest.mark.parametrize("mode", FUSION_MODES)
@pytest.mark.parametrize("ours_first", [True, False])
def test_query_fusion_of_ours_and_theirs(store: Colour, mode: FUSION_MODES, ours_first: bool) -> None:
    """Each node once, the same answer every time: the legs agree on ids, texts and metadata, and share no objects."""
    index = index_of(store)
    theirs = VectorStoreIndex.from_documents(
        documents(), embed_model=WordEmbedding(texts=[]), transformations=[AgoraNodeParser()]
    ).as_retriever(similarity_top_k=4)
    ours = [
        index.as_retriever(similarity_top_k=4),
        AgoraRetriever(retriever=Counted(store.target.store), similarity_top_k=4),
    ]
    legs = [*ours, theirs] if ours_first else [theirs, *ours]
    fusion = QueryFusionRetriever(legs, llm=MockLLM(), mode=mode, num_queries=1, similarity_top_k=4, use_async=False)
    first = store.of(fusion).retrieve("30 days of paid leave")
    again = store.of(fusion).retrieve("30 days of paid leave")
    assert ids(first)[:2] == ["leave#0", "board#0"]
    assert sorted(ids(first)) == ["board#0", "leave#0", "notice#0", "office#0"]
    assert [(n.node.node_id, n.score) for n in first] == [(n.node.node_id, n.score) for n in again]


def test_query_fusion_in_event_loops_of_its_own(store: Colour) -> None:
    """`use_async=True`, its default, in sync code: each query runs in a loop that is new."""
    retriever = AgoraRetriever(retriever=Counted(store.target.store), similarity_top_k=4)
    index_of(store)
    fusion = QueryFusionRetriever([retriever], llm=llm("paid leave\ndays"), num_queries=3, similarity_top_k=2)
    for _ in range(2):
        assert ids(fusion.retrieve("30 days of paid leave"))[0] == "leave#0"


def test_theirs_as_a_leg_of_ours(store: Colour) -> None:
    index_of(store)
    theirs = VectorStoreIndex.from_documents(
        documents(), embed_model=WordEmbedding(texts=[]), transformations=[AgoraNodeParser()]
    ).as_retriever(similarity_top_k=4)
    hybrid = HybridRetriever([Counted(store.target.store), LlamaIndexRetriever(theirs)])
    found = store.of(hybrid).retrieve("30 days of paid leave", top_k=4)
    assert [passage.id for passage in found][:2] == ["leave#0", "board#0"]
    bounded = store.of(hybrid).retrieve("30 days of paid leave", top_k=4, filter={"acl": ["all"]})
    assert {passage.id for passage in bounded} == {"leave#0", "notice#0", "office#0"}


def test_their_keyword_retriever_finds_the_nodes_of_a_store(store: Colour) -> None:
    """`BM25Retriever(nodes=store.get_nodes())` needs ids, texts and metadata; so does a second index of them."""
    index_of(store)
    copy = VectorStoreIndex(nodes=store.get_nodes(), embed_model=WordEmbedding(texts=[]))
    assert ids(copy.as_retriever(similarity_top_k=1).retrieve("three months")) == ["notice#0"]
