"""A LangChain chain whose first step puts retrieved passages into the system message.

python examples/langchain_chain.py
"""

from __future__ import annotations

from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

from agora_core import (
    EmbeddingRetriever,
    HybridRetriever,
    IngestDocument,
    KeywordRetriever,
    MemoryVectorStore,
    WordLlamaEmbeddingProvider,
    ingest_documents,
)
from langchain_agora import AgoraRetriever, InjectContext

DOCUMENTS = [
    IngestDocument("leave", "Everyone has 30 days of paid leave a year.", "leave.md", {"acl": ["all"]}),
    IngestDocument("notice", "The period of notice is three months.", "contract.md", {"acl": ["all"]}),
    IngestDocument("bonus", "The leave of directors is 40 days a year.", "board.md", {"acl": ["board"]}),
]


def main() -> None:
    """Index three documents and ask as someone who may read two of them."""
    embedder = WordLlamaEmbeddingProvider()
    store, keyword = MemoryVectorStore(), KeywordRetriever()
    ingest_documents(DOCUMENTS, embedder=embedder, store=store, keyword=keyword)
    hybrid = HybridRetriever([EmbeddingRetriever(embedder, store), keyword])

    # Who asks decides what can be found. The filter is bound here and no later argument can widen it.
    mine = hybrid.scoped({"acl": ["all"]})

    prompt = ChatPromptTemplate.from_messages([("system", "You answer questions of staff."), ("human", "{question}")])
    # Any chat model stands here; this one answers from a script.
    model = FakeListChatModel(responses=["You have 30 days of leave a year [1]."])
    inject = InjectContext(retriever=mine, top_k=2)

    messages = (prompt | inject).invoke({"question": "How much leave do I get?"})
    print("What the model reads:\n")
    print(messages.to_string() if hasattr(messages, "to_string") else messages)

    chain = prompt | inject | model | StrOutputParser()
    print("\nWhat it answers:\n")
    print(chain.invoke({"question": "How much leave do I get?"}))

    # The same retriever wherever LangChain expects one of its own.
    documents = AgoraRetriever(retriever=mine, k=2).invoke("notice")
    print("\nAs LangChain documents:\n")
    print([document.id for document in documents])


if __name__ == "__main__":
    main()
