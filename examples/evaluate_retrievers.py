"""Is the hybrid better than keywords alone? Measured over Python's own language reference, offline.

python examples/evaluate_retrievers.py
"""

from __future__ import annotations

import json
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from agora_core import (
    EmbeddingRetriever,
    HybridRetriever,
    IngestDocument,
    LexicalRetriever,
    MemoryLexicalVectorStore,
    WordLlamaEmbeddingProvider,
    ingest_documents,
)
from agora_core.evaluation import evaluate


def main() -> None:
    """Index, ask the judged questions, compare."""
    embedder, store = WordLlamaEmbeddingProvider(), MemoryLexicalVectorStore(tokenizer="english")
    documents = [IngestDocument(name, text) for name, text in sorted(topics.items()) if text.strip()]
    ingest_documents(documents, embedder=embedder, store=store)

    judged: list[dict[str, Any]] = json.loads((Path(__file__).parent / "questions.json").read_text(encoding="utf-8"))
    questions = {f"q{number}": entry["question"] for number, entry in enumerate(judged)}
    answers = {f"q{number}": dict.fromkeys(entry["topics"], 1) for number, entry in enumerate(judged)}

    keyword, dense = LexicalRetriever(store), EmbeddingRetriever(embedder, store)
    systems = {
        "keyword": keyword,
        "dense": dense,
        "hybrid": HybridRetriever([dense, keyword], fusion="adaptive", fetch_top_k=100),
    }
    found = evaluate(systems, questions, answers, by="document")
    print(found)
    difference = found.compare("hybrid", "keyword")
    print(f"\nhybrid against keyword: {difference}")
    worst = sorted(found.scores["hybrid"]["nDCG@10"].items(), key=lambda item: item[1])[:3]
    print("\nRead the worst three before you believe anything:")
    for query, score in worst:
        print(f"  {score:.2f}  {questions[query]}")


if __name__ == "__main__":
    main()
