"""What the LlamaIndex adapter adds to a call of the core, turn by turn in one process.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.bench_llamaindex [--rounds 60] [--records 1000]

Each figure is the median of the difference between the adapter's call and the call of the core beneath it, which take
turns, for 10 hits; the store is in memory, so that nothing hides the difference. Beside it stands the same question
asked of LlamaIndex's own in-memory store.
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
from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters, VectorStoreQuery

from agora_core import KeywordRetriever, MemoryVectorStore
from llamaindex_agora import AgoraRetriever, AgoraVectorStore, to_core_filter
from tests.benchmarks.bench_fusion import Row, measure, ratio
from tests.benchmarks.page import TABLE_HEAD, table_section, write_section

DIMENSION = 384
MOST_MS = 0.15


def bench_llamaindex(*, rounds: int = 60, records: int = 1_000) -> Iterator[Row]:
    """Yield every line of the table, as it is measured."""
    rng = np.random.default_rng(5)
    nodes = made_nodes(rng.standard_normal((records, DIMENSION), dtype=np.float32).tolist())
    embedding = rng.standard_normal(DIMENSION).tolist()
    store, keyword = MemoryVectorStore(), KeywordRetriever()
    vectors = AgoraVectorStore(store=store, keyword=keyword)
    vectors.add(nodes)
    theirs = MetadataFilters(filters=[MetadataFilter(key="acl", value=["all"], operator=FilterOperator.ANY)])
    bound = to_core_filter(theirs)
    plain = VectorStoreQuery(query_embedding=embedding, similarity_top_k=10)
    filtered = VectorStoreQuery(query_embedding=embedding, similarity_top_k=10, filters=theirs)
    retriever = AgoraRetriever(retriever=keyword, similarity_top_k=10)
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any], float | None]] = {
        "query": (lambda: store.search(embedding, top_k=10), lambda: vectors.query(plain), MOST_MS),
        "query, filtered": (
            lambda: store.search(embedding, top_k=10, filter=bound),
            lambda: vectors.query(filtered),
            MOST_MS,
        ),
        # LlamaIndex's events and spans, which every retriever of its passes through, are most of this one.
        "AgoraRetriever.retrieve": (
            lambda: keyword.retrieve("passage", top_k=10),
            lambda: retriever.retrieve("passage"),
            None,
        ),
    }
    for name, (core, adapted, most) in pairs.items():
        yield Row(f"{name} adds to the core's call", 1e3 * difference(core, adapted, rounds), "ms", most)
    yield Row(
        "aquery adds to the core's call", 1e3 * asyncio.run(async_difference(vectors, plain, rounds)), "ms", MOST_MS
    )
    yield from against_simple(vectors, nodes, plain, rounds)


def made_nodes(vectors: list[list[float]]) -> list[BaseNode]:
    """Return nodes as a parser makes them: metadata of their own, and a source."""
    return [
        TextNode(
            id_=f"doc{number}#0",
            text=f"passage {number}",
            embedding=vector,
            metadata={"n": number, "acl": ["all"], "title": "a title"},
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc{number}")},
        )
        for number, vector in enumerate(vectors)
    ]


def difference(core: Callable[[], Any], adapted: Callable[[], Any], rounds: int) -> float:
    """Return how many seconds the adapter's call takes beyond the core's, call by call."""
    spent = []
    for _ in range(rounds * 10):
        start = time.perf_counter()
        core()
        middle = time.perf_counter()
        adapted()
        spent.append(time.perf_counter() - middle - (middle - start))
    return statistics.median(spent)


async def async_difference(vectors: AgoraVectorStore, query: VectorStoreQuery, rounds: int) -> float:
    """Measure the async colour inside one event loop."""
    spent = []
    for _ in range(rounds * 10):
        start = time.perf_counter()
        await vectors.store.asearch(query.query_embedding, top_k=10)
        middle = time.perf_counter()
        await vectors.aquery(query)
        spent.append(time.perf_counter() - middle - (middle - start))
    return statistics.median(spent)


def against_simple(
    vectors: AgoraVectorStore, nodes: list[BaseNode], query: VectorStoreQuery, rounds: int
) -> Iterator[Row]:
    """Ask the same of LlamaIndex's own in-memory store, which gives ids and scores only."""
    theirs = SimpleVectorStore()
    theirs.add(nodes)
    seconds = measure(
        {"ours": lambda: vectors.query(query), "theirs": lambda: theirs.query(query)}, max(5, rounds // 10)
    )
    yield Row(f"SimpleVectorStore to it, {len(nodes):,} records", ratio(seconds, "theirs", "ours"), "×")


def main() -> None:
    """Print the table as Markdown, and write it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--write", type=Path, help="the page to put the table into")
    given = parser.parse_args()
    print("\n".join(TABLE_HEAD))
    lines = []
    for row in bench_llamaindex(rounds=given.rounds, records=given.records):
        lines.append(f"| {' | '.join(row.cells())} |")
        print(lines[-1], flush=True)
    if given.write:
        note = (
            "`make bench ARGS=llamaindex`. The median difference between a call of the adapter "
            "and the call of the core in it, ten hits, in turns."
        )
        write_section(
            given.write,
            "llamaindex",
            table_section("What the LlamaIndex adapter adds", note, lines, ("llama-index-core",)),
        )


if __name__ == "__main__":
    main()
