"""The pgvector stores of LangChain and LlamaIndex, measured in an environment of their own; prints JSON.

Run by `bench_postgres` with the Python of that environment. It imports nothing of this library, for langchain-postgres
pins an older pgvector. Arguments: connection string, a .npz file with `vectors` and `queries`, a .json file with ids,
texts and audiences, the number of records, the filters as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from importlib import import_module
from typing import Any

import numpy as np

TOP_K = 10
BATCH = 500


class LangChain:
    """langchain-postgres's PGVectorStore. Its filters are on columns and compare scalars, so it has no list filter."""

    name = "langchain-postgres"

    def __init__(self, conninfo: str, dimension: int) -> None:
        peer = import_module("langchain_postgres")
        embeddings: Any = import_module("langchain_core.embeddings").Embeddings

        class Nothing(embeddings):  # type: ignore[misc]
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                raise NotImplementedError

            def embed_query(self, text: str) -> list[float]:
                raise NotImplementedError

        engine = peer.PGEngine.from_connection_string(conninfo.replace("postgresql://", "postgresql+psycopg://"))
        identity = {"name": "langchain_id", "data_type": "TEXT", "nullable": False}
        engine.init_vectorstore_table("peer_langchain", dimension, id_column=identity)
        self.store: Any = peer.PGVectorStore.create_sync(engine, Nothing(), "peer_langchain")
        self.store.apply_vector_index(import_module("langchain_postgres.v2.indexes").HNSWIndex())

    def add(self, ids: list[str], texts: list[str], vectors: Any, audiences: list[list[str]]) -> None:
        self.store.add_embeddings(texts, vectors.tolist(), [{"audience": a} for a in audiences], ids=ids)

    def search(self, query: Any, tokens: list[str] | None) -> list[str] | None:
        if tokens is not None:
            return None
        return [str(found.id) for found in self.store.similarity_search_by_vector(query.tolist(), k=TOP_K)]


class LlamaIndex:
    """llama-index-vector-stores-postgres with jsonb and an HNSW index."""

    name = "llama-index-vector-stores-postgres"

    def __init__(self, conninfo: str, dimension: int) -> None:
        peer = import_module("llama_index.vector_stores.postgres")
        self.store: Any = peer.PGVectorStore.from_params(
            connection_string=conninfo.replace("postgresql://", "postgresql+psycopg2://"),
            async_connection_string=conninfo.replace("postgresql://", "postgresql+asyncpg://"),
            table_name="peer_llamaindex",
            embed_dim=dimension,
            use_jsonb=True,
            hnsw_kwargs={
                "hnsw_m": 16,
                "hnsw_ef_construction": 64,
                "hnsw_ef_search": 40,
                "hnsw_dist_method": "vector_cosine_ops",
            },
        )

    def add(self, ids: list[str], texts: list[str], vectors: Any, audiences: list[list[str]]) -> None:
        node = import_module("llama_index.core.schema").TextNode
        self.store.add(
            [
                node(id_=key, text=text, embedding=vector, metadata={"audience": audience})
                for key, text, vector, audience in zip(ids, texts, vectors.tolist(), audiences, strict=True)
            ]
        )

    def search(self, query: Any, tokens: list[str] | None) -> list[str] | None:
        core = import_module("llama_index.core.vector_stores")
        filters = None
        if tokens is not None:
            one = core.MetadataFilter(key="audience", operator=core.FilterOperator.ANY, value=tokens)
            filters = core.MetadataFilters(filters=[one])
        query = core.VectorStoreQuery(query_embedding=query.tolist(), similarity_top_k=TOP_K, filters=filters)
        return list(self.store.query(query).ids or [])


def measure(peer: Any, data: dict[str, Any], vectors: Any, queries: Any, filters: dict[str, Any]) -> dict[str, Any]:
    """Return rows a second into the live index, and for each filter p50, p95 and what was found."""
    count = len(vectors)
    began = time.perf_counter()
    for start in range(0, count, BATCH):
        part = slice(start, start + BATCH)
        peer.add(data["ids"][part], data["texts"][part], vectors[part], data["audiences"][part])
    result: dict[str, Any] = {"rows_per_second": count / (time.perf_counter() - began), "search": {}}
    for name, tokens in filters.items():
        found, times = [], []
        for query in [queries[0], *queries]:
            began = time.perf_counter()
            ids = peer.search(query, tokens)
            times.append(time.perf_counter() - began)
            found.append(ids)
        if found[0] is None:
            continue
        times = sorted(times[1:])
        result["search"][name] = {
            "p50": statistics.median(times) * 1e3,
            "p95": times[int(len(times) * 0.95)] * 1e3,
            "ids": found[1:],
        }
    return result


def main() -> None:
    """Measure each peer; one that fails is reported with its error."""
    conninfo, arrays, texts, count, filters = sys.argv[1:]
    loaded = np.load(arrays)
    with open(texts) as file:
        data = json.load(file)
    vectors, queries = loaded["vectors"][: int(count)], loaded["queries"]
    results: dict[str, Any] = {}
    kinds: list[Any] = [LangChain, LlamaIndex]
    for kind in kinds:
        try:
            peer = kind(conninfo, vectors.shape[1])
            results[kind.name] = measure(peer, data, vectors, queries, json.loads(filters))
        except Exception as error:
            results[kind.name] = {"error": f"{type(error).__name__}: {error}"[:300]}
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
