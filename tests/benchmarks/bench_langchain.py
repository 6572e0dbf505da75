"""What the LangChain adapter adds to a call of the core, turn by turn in one process.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.bench_langchain [--rounds 60] [--records 1000]

Each figure is the median of the differences between a call of the adapter and the call of the core beneath it, which
take turns, for 10 hits; the store is in memory, so that nothing hides the difference. Beside it stands the same
question asked of LangChain's own in-memory store.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from agora_core import EmbeddingRetriever, MemoryVectorStore
from langchain_agora import AgoraRetriever, AgoraVectorStore, LangChainEmbeddingProvider
from tests.benchmarks.bench_fusion import Row, measure, ratio
from tests.benchmarks.page import TABLE_HEAD, table_section, write_section

DIMENSION = 384
MOST_MS = 0.15


class Known(Embeddings):
    """Vectors that cost nothing, so that the embedding is not what is measured."""

    def __init__(self, records: int) -> None:
        rng = np.random.default_rng(5)
        self.vectors = rng.standard_normal((records, DIMENSION), dtype=np.float32).tolist()
        self.query = rng.standard_normal(DIMENSION).tolist()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.vectors[: len(texts)]  # type: ignore[no-any-return]

    def embed_query(self, text: str) -> list[float]:
        return self.query  # type: ignore[no-any-return]

    async def aembed_query(self, text: str) -> list[float]:
        return self.query  # type: ignore[no-any-return]


def bench_langchain(*, rounds: int = 60, records: int = 1_000) -> Iterator[Row]:
    """Yield every line of the table, as it is measured."""
    embeddings, store = Known(records), MemoryVectorStore()
    vectors = AgoraVectorStore(store, embeddings)
    texts = [f"passage {number}" for number in range(records)]
    metadata: list[dict[str, Any]] = [{"n": number, "acl": ["all"], "title": "a title"} for number in range(records)]
    vectors.add_texts(texts, metadata, ids=texts)
    filter = {"acl": ["all"]}
    core = EmbeddingRetriever(LangChainEmbeddingProvider(embeddings), store)
    retriever = AgoraRetriever(retriever=core, k=10)
    lists = vectors.as_retriever(search_kwargs={"k": 10})
    query = embeddings.query
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any], float | None]] = {
        "similarity_search": (
            lambda: store.search(query, top_k=10),
            lambda: vectors.similarity_search("x", k=10),
            MOST_MS,
        ),
        "similarity_search, filtered": (
            lambda: store.search(query, top_k=10, filter=filter),
            lambda: vectors.similarity_search("x", k=10, filter=filter),
            MOST_MS,
        ),
        "similarity_search_with_relevance_scores": (
            lambda: store.search(query, top_k=10, min_score=-1.0),
            lambda: vectors.similarity_search_with_relevance_scores("x", k=10, score_threshold=0.0),
            MOST_MS,
        ),
        # LangChain's callbacks and config, which every retriever of its passes through, are most of these two.
        "AgoraRetriever.invoke": (lambda: core.retrieve("x", top_k=10), lambda: retriever.invoke("x"), None),
        "as_retriever().invoke": (lambda: store.search(query, top_k=10), lambda: lists.invoke("x"), None),
    }
    for name, (plain, adapted, most) in pairs.items():
        yield Row(f"{name} adds to the core's call", 1e3 * difference(plain, adapted, rounds), "ms", most)
    yield Row(
        "asimilarity_search adds to the core's call",
        1e3 * asyncio.run(async_difference(vectors, rounds)),
        "ms",
        MOST_MS,
    )
    yield from against_langchain(embeddings, vectors, texts, metadata, rounds)


def difference(plain: Callable[[], Any], adapted: Callable[[], Any], rounds: int) -> float:
    """Return how many seconds the adapter takes beyond the core: the median over single calls that take turns."""
    spent = []
    for _ in range(rounds * 20):
        start = time.perf_counter()
        plain()
        middle = time.perf_counter()
        adapted()
        spent.append(time.perf_counter() - middle - (middle - start))
    return statistics.median(spent)


async def async_difference(vectors: AgoraVectorStore, rounds: int) -> float:
    """Measure the async colour inside one event loop."""
    embeddings: Any = vectors.embedding
    spent = []
    for _ in range(rounds * 20):
        start = time.perf_counter()
        await vectors.store.asearch(embeddings.query, top_k=10)
        middle = time.perf_counter()
        await vectors.asimilarity_search("x", k=10)
        spent.append(time.perf_counter() - middle - (middle - start))
    return statistics.median(spent)


def against_langchain(
    embeddings: Known, vectors: AgoraVectorStore, texts: list[str], metadata: list[dict[str, Any]], rounds: int
) -> Iterator[Row]:
    """Ask the same of LangChain's own in-memory store."""
    theirs = InMemoryVectorStore(embeddings)
    rows = zip(texts, metadata, strict=True)
    theirs.add_documents([Document(text, id=text, metadata=row) for text, row in rows])
    seconds = measure(
        {
            "ours": lambda: vectors.similarity_search("x", k=10),
            "theirs": lambda: theirs.similarity_search("x", k=10),
        },
        max(5, rounds // 10),
    )
    yield Row(f"InMemoryVectorStore to it, {len(texts):,} records", ratio(seconds, "theirs", "ours"), "×")


def main() -> None:
    """Print the table as Markdown, and write it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--write", type=Path, help="the page to put the table into")
    given = parser.parse_args()
    print("\n".join(TABLE_HEAD))
    lines = []
    for row in bench_langchain(rounds=given.rounds, records=given.records):
        lines.append(f"| {' | '.join(row.cells())} |")
        print(lines[-1], flush=True)
    if given.write:
        note = (
            "`make bench ARGS=langchain`. The median difference between a call of the adapter "
            "and the call of the core in it, ten hits, in turns."
        )
        write_section(
            given.write, "langchain", table_section("What the LangChain adapter adds", note, lines, ("langchain-core",))
        )


if __name__ == "__main__":
    main()
