"""The retrievers that are compared: keyword analysers, dense, and hybrids of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agora_core import (
    ChunkRecord,
    EmbeddingRetriever,
    HybridRetriever,
    KeywordRetriever,
    MemoryVectorStore,
    Passage,
    VectorRecord,
    tune_hybrid,
)
from agora_core.keyword.registry import suggest_tokenizer
from tests.benchmarks.quality_data import Collection, Run, evenly

DEPTH = 100
DEFAULT_DEPTH = 20
SPLITS = tuple(round(0.1 * n, 1) for n in range(11))


class Remembering:
    """A retriever asked once per query for `DEPTH` passages; the hybrids share its answers."""

    def __init__(self, retriever: Any) -> None:
        self.retriever = retriever
        self.answers: dict[str, list[Passage]] = {}

    def retrieve(self, query: str, *, top_k: int = 5) -> list[Passage]:
        if query not in self.answers:
            self.answers[query] = self.retriever.retrieve(query, top_k=DEPTH)
        return self.answers[query][:top_k]


def keyword_leg(collection: Collection, tokenizer: str) -> Remembering:
    """Index the collection's texts with one analyser."""
    retriever = KeywordRetriever(tokenizer=tokenizer)
    retriever.add([ChunkRecord(key, text) for key, text in zip(collection.ids, collection.texts, strict=True)])
    return Remembering(retriever)


def dense_leg(collection: Collection, embedder: Any, cache: Path | None) -> Remembering:
    """Embed the collection's texts, or read their vectors from `cache`, and keep them in a memory store."""
    store = MemoryVectorStore()
    vectors = embed_cached(collection, embedder, cache)
    store.upsert(map(VectorRecord, collection.ids, collection.texts, vectors))
    return Remembering(EmbeddingRetriever(embedder, store))


def embed_cached(collection: Collection, embedder: Any, cache: Path | None) -> Sequence[Any]:
    """Return one vector per text; with a `cache` folder they are kept there for the next run."""
    if cache is None:
        vectors: Sequence[Any] = embedder.embed(collection.texts)
        return vectors
    file = cache / f"{type(embedder).__name__}.{collection.name.replace('/', '.')}.npy"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        np.save(file, np.stack(embedder.embed(collection.texts)))
    matrix: Sequence[Any] = np.load(file)
    return matrix


def analysers(collection: Collection) -> dict[str, str]:
    """Return the analysers to compare by what they are called here; the suggested one is what a user would take."""
    return {"ascii": "ascii", "unicode": "unicode", "suggested": suggest_tokenizer(collection.texts[:300])}


def hybrids(dense: Remembering, plain: Remembering, keyword: Remembering) -> Iterator[tuple[str, Any]]:
    """Yield the hybrids by name. `plain` is the keyword leg with the ASCII analyser, `keyword` that of the language."""
    ensemble = langchain_ensemble([dense, plain])
    if ensemble is not None:
        yield "LangChain ensemble (ascii, 20)", ensemble
    legs: list[Any] = [dense, keyword]
    for mode in ("reciprocal_rerank", "relative_score", "dist_based_score"):
        fusion = llamaindex_fusion(legs, mode)
        if fusion is not None:
            yield f"LlamaIndex {mode} ({DEPTH})", fusion
    yield "rrf", HybridRetriever(legs, fetch_top_k=DEPTH)
    for share in (0.3, 0.5):
        weights = [share, round(1 - share, 1)]
        name = f"relative_score {weights[0]}/{weights[1]}"
        yield name, HybridRetriever(legs, fusion="relative_score", weights=weights, fetch_top_k=DEPTH)
    yield "adaptive", HybridRetriever(legs, fusion="adaptive", fetch_top_k=DEPTH)


def fixed_weights(dense: Remembering, keyword: Remembering) -> Iterator[tuple[str, Any]]:
    """Yield `relative_score` hybrids of every split of the weights in tenths, dense share first."""
    legs: list[Any] = [dense, keyword]
    for share in SPLITS:
        weights = [share, round(1 - share, 1)]
        hybrid = HybridRetriever(legs, fusion="relative_score", weights=weights, fetch_top_k=DEPTH)
        yield f"{weights[0]}/{weights[1]}", hybrid


def tuned(
    dense: Remembering, keyword: Remembering, collection: Collection, judged: int
) -> tuple[str, Collection, Any] | None:
    """Tune a hybrid on `judged` queries; return its weights, the collection without those queries, and the hybrid.

    None where that would leave fewer queries to measure on than were tuned on.
    """
    if len(collection.queries) < 2 * judged:
        return None
    sample = set(evenly(list(collection.queries), judged))
    judgements = {collection.queries[key]: collection.qrels[key] for key in sample}
    legs: list[Any] = [dense, keyword]
    hybrid = tune_hybrid(HybridRetriever(legs, fetch_top_k=DEPTH), judgements)
    rest = Collection(
        name=collection.name,
        ids=collection.ids,
        texts=collection.texts,
        queries={key: query for key, query in collection.queries.items() if key not in sample},
        qrels={key: docs for key, docs in collection.qrels.items() if key not in sample},
    )
    return "/".join(f"{weight:.1f}" for weight in hybrid.weights or ()), rest, hybrid


def langchain_ensemble(legs: Sequence[Remembering]) -> Callable[[str], list[str]] | None:
    """Return LangChain's `EnsembleRetriever` with its defaults over the same lists, 20 deep; None if not installed."""
    try:
        from langchain_classic.retrievers import EnsembleRetriever
        from langchain_core.documents import Document
        from langchain_core.retrievers import BaseRetriever
    except ImportError:
        return None

    class Leg(BaseRetriever):
        leg: Any

        def _get_relevant_documents(self, query: str, **_options: Any) -> list[Document]:
            found = self.leg.retrieve(query, top_k=DEFAULT_DEPTH)
            return [Document(page_content=passage.id, metadata={"id": passage.id}) for passage in found]

    settings: dict[str, Any] = {"retrievers": [Leg(leg=leg) for leg in legs], "id_key": "id"}
    ensemble = EnsembleRetriever(**settings)
    return lambda query: [document.metadata["id"] for document in ensemble.invoke(query)]


def llamaindex_fusion(legs: Sequence[Remembering], mode: str) -> Callable[[str], list[str]] | None:
    """Return LlamaIndex's `QueryFusionRetriever` over the same lists, `DEPTH` deep; None if it is not installed."""
    try:
        from llama_index.core.base.base_retriever import BaseRetriever
        from llama_index.core.llms import MockLLM
        from llama_index.core.retrievers import QueryFusionRetriever
        from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
        from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    except ImportError:
        return None

    class Leg(BaseRetriever):
        def __init__(self, leg: Remembering) -> None:
            super().__init__()
            self.leg = leg

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            # Its fusion joins nodes by the hash of their text.
            return [
                NodeWithScore(node=TextNode(id_=passage.id, text=passage.id), score=passage.score)
                for passage in self.leg.retrieve(query_bundle.query_str, top_k=DEPTH)
            ]

    # No query is generated, so the model is never asked.
    fusion = QueryFusionRetriever(
        [Leg(leg) for leg in legs],
        llm=MockLLM(),
        mode=FUSION_MODES(mode),
        similarity_top_k=DEPTH,
        num_queries=1,
        use_async=False,
    )
    return lambda query: [found.node.node_id for found in fusion.retrieve(query)]


def run_system(system: Any, collection: Collection) -> Run:
    """Ask every query and return the ids found, at most `DEPTH` each."""
    if hasattr(system, "retrieve"):
        return {
            key: [passage.id for passage in system.retrieve(query, top_k=DEPTH)]
            for key, query in collection.queries.items()
        }
    return {key: system(query)[:DEPTH] for key, query in collection.queries.items()}
