"""An answer with footnotes, its quotations checked, from one retrieval and streamed.

python examples/answer_with_sources.py
"""

from __future__ import annotations

from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from agora_core import (
    EmbeddingRetriever,
    HybridRetriever,
    IngestDocument,
    LexicalRetriever,
    MemoryLexicalVectorStore,
    Passage,
    WordLlamaEmbeddingProvider,
    ingest_documents,
    parse_citations,
    verify_quotes,
)
from langchain_agora import InjectContext

DOCUMENTS = [
    IngestDocument("leave", "Everyone has 30 days of paid leave a year.", "leave.md", {"acl": ["all"]}),
    IngestDocument("notice", "The period of notice is three months.", "contract.md", {"acl": ["all"]}),
    IngestDocument("bonus", "The leave of directors is 40 days a year.", "board.md", {"acl": ["board"]}),
]
QUESTION = "How much leave do I get, and how long is the notice?"
# Any chat model stands here; this one answers from a script, and makes one quotation up.
ANSWER = 'You have "30 days of paid leave" [1]. Notice is three months [2], "as everybody surely knows" [7].'


def footnotes(answer: str, passages: list[Passage]) -> str:
    """Return an answer with its sources below, numbered in the order of their first use."""
    found = parse_citations(answer, passages)
    numbers = {passages.index(passage) + 1: place for place, passage in enumerate(found.cited, 1)}
    text = answer
    for start, end, number in reversed(found.spans):
        text = text[:start] + (f"[{numbers[number]}]" if number in numbers else "[no such source]") + text[end:]
    notes = [f"[{place}] {passage.source}: {passage.text}" for place, passage in enumerate(found.cited, 1)]
    doubts = [f'not in any passage: "{quote.text}"' for quote in verify_quotes(answer, passages) if not quote.passage]
    return "\n".join([text, "", *notes, *doubts])


def main() -> None:
    """Ask as someone who may read two of three documents."""
    embedder, store = WordLlamaEmbeddingProvider(), MemoryLexicalVectorStore()
    ingest_documents(DOCUMENTS, embedder=embedder, store=store)
    hybrid = HybridRetriever([EmbeddingRetriever(embedder, store), LexicalRetriever(store)])

    prompt = ChatPromptTemplate.from_messages([("system", "You help staff.\n\n{context}"), ("human", "{question}")])
    inject = InjectContext(
        hybrid.scoped({"acl": ["all"]}),
        key="question",
        output_key="context",  # the block, for its place in the prompt
        passages_key="sources",  # the passages, for the reader
    )
    answer = prompt | FakeListChatModel(responses=[ANSWER]) | StrOutputParser()
    chain = inject | RunnablePassthrough.assign(answer=answer)

    text, sources = "", list[Document]()
    for piece in chain.stream({"question": QUESTION}):
        text += piece.get("answer", "")
        sources = piece.get("sources", sources)
    passages = [Passage(str(d.id), d.page_content, d.metadata["score"], d.metadata.get("source")) for d in sources]
    print(footnotes(text, passages))


if __name__ == "__main__":
    main()
