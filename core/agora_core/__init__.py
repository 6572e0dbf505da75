"""Retrieval with one meaning on every backend: stores, filters as access control, fusion, reranking, inject mode.

Everything public is importable from here and is loaded when it is first named, so that `import agora_core` costs
little more than numpy and needs no optional package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_MODULES: dict[str, str] = {}


def _export(module: str, *names: str) -> None:
    _MODULES.update(dict.fromkeys(names, f"agora_core.{module}"))


_export(
    "records",
    "ChunkRecord",
    "IndexedDocument",
    "IngestDocument",
    "Passage",
    "VectorRecord",
    "chunk_id_to_point_id",
    "document_id_of",
)
_export(
    "errors",
    "AgoraError",
    "DimensionMismatchError",
    "EmbeddingError",
    "InvalidArgumentError",
    "InvalidEmbeddingError",
    "InvalidFilterError",
    "InvalidMetadataError",
    "MissingExtraError",
    "ModelServerError",
    "RerankingError",
    "RetrieverLegError",
    "SchemaError",
    "ScopeViolationError",
    "StoreClosedError",
    "StoreUnavailableError",
    "UnsafeRemovalError",
    "UnsupportedFilterError",
    "UnsupportedOperationError",
)
_export("metadata", "UNSET", "MetadataPatch", "apply_metadata_patch", "effective_patch_keys")
_export(
    "filters",
    "Expression",
    "Field",
    "all_of",
    "any_of",
    "assert_removal_filter",
    "compile_filter",
    "conjoin",
    "field",
    "filter_denies_all",
    "filter_from_json",
    "filter_to_json",
    "matches_filter",
    "not_",
)
_export(
    "protocols",
    "AnyFilter",
    "EmbeddingProvider",
    "LexicalVectorStore",
    "MetadataFilter",
    "Reranker",
    "Retriever",
    "VectorStore",
    "is_lexical_vector_store",
)
_export("similarity", "cosine_similarity", "maximal_marginal_relevance", "relevance_score")
_export("fusion", "reciprocal_rank_fusion", "relative_score_fusion")
_export("chunking", "chunk_documents", "chunk_text")
_export("ingestion", "aingest_chunks", "aingest_documents", "ingest_chunks", "ingest_documents")
_export(
    "inject",
    "ContextInjector",
    "Injection",
    "passage_from_dict",
    "passage_to_dict",
    "render_context",
)
_export("scoped", "ScopedRetriever", "ScopedVectorStore")
_export("stores.base", "BaseVectorStore")
_export("stores.memory", "MemoryVectorStore")
_export("stores.postgres", "PgLexicalVectorStore", "PgVectorColumns", "PgVectorStore")
_export("stores.qdrant", "QdrantLexicalVectorStore", "QdrantStore")
_export("keyword", "Tokenizer", "get_tokenizer", "suggest_tokenizer")
_export(
    "retrievers",
    "EmbeddingRetriever",
    "HybridRetriever",
    "KeywordRetriever",
    "LexicalRetriever",
    "RerankingRetriever",
    "tune_hybrid",
)
_export(
    "embedders",
    "OnnxEmbeddingProvider",
    "OpenAICompatibleEmbeddingProvider",
    "WordLlamaEmbeddingProvider",
)
_export("rerankers", "CrossEncoderReranker", "EmbeddingReranker", "HttpReranker")

_SUBPACKAGES = ("filters", "retrievers", "stores", "embedders", "rerankers", "keyword", "testing")

__all__ = [*sorted(_MODULES), "__version__", "retrievers"]  # noqa: PLE0604 - names are declared in _MODULES


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(importlib.import_module(_MODULES[name]), name)
        globals()[name] = value
        return value
    if name in _SUBPACKAGES:
        return importlib.import_module(f"agora_core.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_SUBPACKAGES})


if TYPE_CHECKING:
    from agora_core import retrievers as retrievers
    from agora_core.chunking import chunk_documents as chunk_documents, chunk_text as chunk_text
    from agora_core.embedders import (
        OnnxEmbeddingProvider as OnnxEmbeddingProvider,
        OpenAICompatibleEmbeddingProvider as OpenAICompatibleEmbeddingProvider,
        WordLlamaEmbeddingProvider as WordLlamaEmbeddingProvider,
    )
    from agora_core.errors import (
        AgoraError as AgoraError,
        DimensionMismatchError as DimensionMismatchError,
        EmbeddingError as EmbeddingError,
        InvalidArgumentError as InvalidArgumentError,
        InvalidEmbeddingError as InvalidEmbeddingError,
        InvalidFilterError as InvalidFilterError,
        InvalidMetadataError as InvalidMetadataError,
        MissingExtraError as MissingExtraError,
        ModelServerError as ModelServerError,
        RerankingError as RerankingError,
        RetrieverLegError as RetrieverLegError,
        SchemaError as SchemaError,
        ScopeViolationError as ScopeViolationError,
        StoreClosedError as StoreClosedError,
        StoreUnavailableError as StoreUnavailableError,
        UnsafeRemovalError as UnsafeRemovalError,
        UnsupportedFilterError as UnsupportedFilterError,
        UnsupportedOperationError as UnsupportedOperationError,
    )
    from agora_core.filters import (
        Expression as Expression,
        Field as Field,
        all_of as all_of,
        any_of as any_of,
        assert_removal_filter as assert_removal_filter,
        compile_filter as compile_filter,
        conjoin as conjoin,
        field as field,
        filter_denies_all as filter_denies_all,
        filter_from_json as filter_from_json,
        filter_to_json as filter_to_json,
        matches_filter as matches_filter,
        not_ as not_,
    )
    from agora_core.fusion import (
        reciprocal_rank_fusion as reciprocal_rank_fusion,
        relative_score_fusion as relative_score_fusion,
    )
    from agora_core.ingestion import (
        aingest_chunks as aingest_chunks,
        aingest_documents as aingest_documents,
        ingest_chunks as ingest_chunks,
        ingest_documents as ingest_documents,
    )
    from agora_core.inject import (
        ContextInjector as ContextInjector,
        Injection as Injection,
        passage_from_dict as passage_from_dict,
        passage_to_dict as passage_to_dict,
        render_context as render_context,
    )
    from agora_core.keyword import (
        Tokenizer as Tokenizer,
        get_tokenizer as get_tokenizer,
        suggest_tokenizer as suggest_tokenizer,
    )
    from agora_core.metadata import (
        UNSET as UNSET,
        MetadataPatch as MetadataPatch,
        apply_metadata_patch as apply_metadata_patch,
        effective_patch_keys as effective_patch_keys,
    )
    from agora_core.protocols import (
        AnyFilter as AnyFilter,
        EmbeddingProvider as EmbeddingProvider,
        LexicalVectorStore as LexicalVectorStore,
        MetadataFilter as MetadataFilter,
        Reranker as Reranker,
        Retriever as Retriever,
        VectorStore as VectorStore,
        is_lexical_vector_store as is_lexical_vector_store,
    )
    from agora_core.records import (
        ChunkRecord as ChunkRecord,
        IndexedDocument as IndexedDocument,
        IngestDocument as IngestDocument,
        Passage as Passage,
        VectorRecord as VectorRecord,
        chunk_id_to_point_id as chunk_id_to_point_id,
        document_id_of as document_id_of,
    )
    from agora_core.rerankers import (
        CrossEncoderReranker as CrossEncoderReranker,
        EmbeddingReranker as EmbeddingReranker,
        HttpReranker as HttpReranker,
    )
    from agora_core.retrievers import (
        EmbeddingRetriever as EmbeddingRetriever,
        HybridRetriever as HybridRetriever,
        KeywordRetriever as KeywordRetriever,
        LexicalRetriever as LexicalRetriever,
        RerankingRetriever as RerankingRetriever,
        tune_hybrid as tune_hybrid,
    )
    from agora_core.scoped import (
        ScopedRetriever as ScopedRetriever,
        ScopedVectorStore as ScopedVectorStore,
    )
    from agora_core.similarity import (
        cosine_similarity as cosine_similarity,
        maximal_marginal_relevance as maximal_marginal_relevance,
        relevance_score as relevance_score,
    )
    from agora_core.stores.base import BaseVectorStore as BaseVectorStore
    from agora_core.stores.memory import MemoryVectorStore as MemoryVectorStore
    from agora_core.stores.postgres import (
        PgLexicalVectorStore as PgLexicalVectorStore,
        PgVectorColumns as PgVectorColumns,
        PgVectorStore as PgVectorStore,
    )
    from agora_core.stores.qdrant import (
        QdrantLexicalVectorStore as QdrantLexicalVectorStore,
        QdrantStore as QdrantStore,
    )
