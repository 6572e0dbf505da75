"""What the memory store is measured beside; each takes a corpus and answers a query with ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.vector_data import Corpus

_BLOCK = 256


def _unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _rows_by_token(data: Corpus) -> dict[str, Any]:
    rows: dict[str, list[int]] = {}
    for row, tokens in enumerate(data.audiences):
        for token in tokens:
            rows.setdefault(token, []).append(row)
    return {token: np.asarray(some, dtype=np.int64) for token, some in rows.items()}


class NumpyLimit:
    """A script for one question: no updates, no ties, no copies."""

    name = "numpy"

    def __init__(self, data: Corpus) -> None:
        self.ids = np.array([record.id for record in data.records], dtype=object)
        self.matrix = _unit(data.vectors)
        self.rows = _rows_by_token(data)

    def search(self, query: Any, top_k: int, tokens: list[str] | None) -> Any:
        query = query / np.linalg.norm(query)
        if tokens is None:
            return self._best(self.matrix @ query, None, top_k)
        mask = np.zeros(len(self.matrix), dtype=bool)
        for token in tokens:
            if token in self.rows:
                mask[self.rows[token]] = True
        rows = np.flatnonzero(mask)
        if not len(rows):
            return []
        if len(rows) >= len(self.matrix) // 4:
            return self._best((self.matrix @ query)[rows], rows, top_k)
        scores = np.empty(len(rows), dtype=np.float32)
        for first in range(0, len(rows), _BLOCK):
            block = rows[first : first + _BLOCK]
            scores[first : first + len(block)] = self.matrix.take(block, axis=0, mode="clip") @ query
        return self._best(scores, rows, top_k)

    def _best(self, scores: Any, rows: Any, top_k: int) -> Any:
        top_k = min(top_k, len(scores))
        top = np.argpartition(scores, len(scores) - top_k)[-top_k:]
        top = top[np.argsort(-scores[top])]
        return self.ids[top if rows is None else rows[top]].tolist()

    def search_many(self, queries: Any, top_k: int) -> Any:
        scores = _unit(queries) @ self.matrix.T
        top = np.argpartition(scores, scores.shape[1] - top_k, axis=1)[:, -top_k:]
        return [self.ids[row[np.argsort(-scores[n, row])]].tolist() for n, row in enumerate(top)]


class Faiss:
    """IndexFlatIP of faiss; the bitmap of a filter is worked out as the numpy limit works out its mask."""

    name = "faiss with a bitmap"

    def __init__(self, data: Corpus) -> None:
        import importlib

        # What faiss says of its types is not so.
        faiss: Any = importlib.import_module("faiss")
        faiss.omp_set_num_threads(1)
        self.faiss = faiss
        self.ids = np.array([record.id for record in data.records], dtype=object)
        self.index = faiss.IndexFlatIP(data.vectors.shape[1])
        self.index.add(_unit(data.vectors))
        self.rows = _rows_by_token(data)

    def search(self, query: Any, top_k: int, tokens: list[str] | None) -> Any:
        parameters = None
        if tokens is not None:
            mask = np.zeros(self.index.ntotal, dtype=bool)
            for token in tokens:
                if token in self.rows:
                    mask[self.rows[token]] = True
            selector = self.faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
            parameters = self.faiss.SearchParameters(sel=selector)
        _, top = self.index.search((query / np.linalg.norm(query))[None], top_k, params=parameters)
        return self.ids[top[0][top[0] >= 0]].tolist()


class LangChain:
    """InMemoryVectorStore of langchain-core, with a function as its filter."""

    name = "LangChain's InMemoryVectorStore"

    def __init__(self, data: Corpus) -> None:
        from langchain_core.embeddings import Embeddings
        from langchain_core.vectorstores import InMemoryVectorStore

        ready: list[Any] = []

        class Ready(Embeddings):
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                vectors: list[list[float]] = ready.pop()
                return vectors

            def embed_query(self, text: str) -> list[float]:
                raise NotImplementedError

        self.store = InMemoryVectorStore(Ready())
        for first in range(0, len(data.records), 1000):
            some = data.records[first : first + 1000]
            ready.append(data.vectors[first : first + 1000].tolist())
            self.store.add_texts(
                [record.text for record in some],
                metadatas=[dict(record.metadata or {}) for record in some],
                ids=[record.id for record in some],
            )

    def search(self, query: Any, top_k: int, tokens: list[str] | None) -> Any:
        allowed = frozenset(tokens or ())
        keep = None if tokens is None else lambda document: not allowed.isdisjoint(document.metadata["audience"])
        return self.store.similarity_search_by_vector(query.tolist(), k=top_k, filter=keep)


class LlamaIndex:
    """SimpleVectorStore of llama-index-core, with its operator ANY."""

    name = "LlamaIndex's SimpleVectorStore"

    def __init__(self, data: Corpus) -> None:
        from llama_index.core.schema import TextNode
        from llama_index.core.vector_stores import SimpleVectorStore

        self.store = SimpleVectorStore()
        self.store.add(
            [
                TextNode(
                    id_=record.id, text=record.text, embedding=vector.tolist(), metadata=dict(record.metadata or {})
                )
                for record, vector in zip(data.records, data.vectors, strict=True)
            ]
        )

    def search(self, query: Any, top_k: int, tokens: list[str] | None) -> Any:
        from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters, VectorStoreQuery

        filters = None
        if tokens is not None:
            wanted = MetadataFilter(key="audience", operator=FilterOperator.ANY, value=tokens)
            filters = MetadataFilters(filters=[wanted])
        asked = VectorStoreQuery(query_embedding=query.tolist(), similarity_top_k=top_k, filters=filters)
        return self.store.query(asked).ids
