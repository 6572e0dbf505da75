"""A LlamaIndex query engine and an index of theirs, both over one store of ours.

python examples/llamaindex_query_engine.py
"""

from __future__ import annotations

from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine

from agora_core import (
    EmbeddingRetriever,
    IngestDocument,
    MemoryVectorStore,
    WordLlamaEmbeddingProvider,
    ingest_documents,
)
from llamaindex_agora import AgoraRetriever, AgoraVectorStore

DOCUMENTS = [
    IngestDocument("leave", "Everyone has 30 days of paid leave a year.", "leave.md", {"acl": ["all"]}),
    IngestDocument("notice", "The period of notice is three months.", "contract.md", {"acl": ["all"]}),
    IngestDocument("bonus", "The leave of directors is 40 days a year.", "board.md", {"acl": ["board"]}),
]


def main() -> None:
    """Ask a query engine over our retriever, then an index of LlamaIndex over our store."""
    embedder = WordLlamaEmbeddingProvider()
    store = MemoryVectorStore()
    ingest_documents(DOCUMENTS, embedder=embedder, store=store)

    retriever = AgoraRetriever(
        retriever=EmbeddingRetriever(embedder, store), similarity_top_k=2, filter={"acl": ["all"]}
    )
    # Any language model stands here; this one repeats what it was given to read.
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    response = engine.query("How much leave do I get?")
    print("Sources:", [item.node.node_id for item in response.source_nodes])
    print("\nWhat the model read:\n")
    print(response)

    # Documents that LlamaIndex ingests itself; its own embedding model takes the place of ours.
    index = VectorStoreIndex.from_documents(
        [Document(text="The canteen opens at noon.", doc_id="canteen", metadata={"acl": ["all"]})],
        storage_context=StorageContext.from_defaults(vector_store=AgoraVectorStore(store=MemoryVectorStore())),
        embed_model=MockEmbedding(embed_dim=8),
    )
    nodes = index.as_retriever(similarity_top_k=1).retrieve("When is lunch?")
    print("\nFrom an index of LlamaIndex:", [item.node.get_content() for item in nodes])


if __name__ == "__main__":
    main()
