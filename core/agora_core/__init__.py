"""Retrieval with one meaning on every backend: stores, filters as access control, fusion, reranking, inject mode.

Everything public is importable from here and is loaded when it is first named, so that `import agora_core` costs
little more than numpy and needs no optional package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agora_core.errors import MissingExtraError as MissingExtraError
from agora_core.extras import stand_in

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
    "EmbeddingModelError",
    "InvalidArgumentError",
    "InvalidEmbeddingError",
    "InvalidFilterError",
    "InvalidMetadataError",
    "MissingExtraError",
    "ModelServerError",
    "RerankingError",
    "AuthorizationError",
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
_export(
    "chunking",
    "Chunk",
    "CodeChunker",
    "MarkdownChunker",
    "ProseChunker",
    "RecordChunker",
    "SentenceChunker",
    "chunk_documents",
    "chunk_text",
)
_export(
    "files",
    "FileChunker",
    "FilePart",
    "UnreadableFileError",
    "UnsupportedContentTypeError",
    "read_files",
    "watch_files",
)
_export("media", "MediaIngestion", "MediaRef", "MediaResult")
_export("ingestion", "aingest_chunks", "aingest_documents", "ingest_chunks", "ingest_documents")
_export(
    "inject",
    "CitationSpan",
    "Citations",
    "ContextInjector",
    "Injection",
    "Quote",
    "parse_citations",
    "passage_from_dict",
    "passage_to_dict",
    "render_context",
    "verify_quotes",
)
_export("retrievers.authorized", "AuthorizedRetriever")
_export("retrievers.scoped", "ScopedRetriever")
_export("stores.scoped", "ScopedVectorStore")
_export("stores.base", "Health", "BaseVectorStore")
_export("stores.memory", "MemoryLexicalVectorStore", "MemoryVectorStore")
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
)
_export(
    "corpus",
    "SyncReport",
    "async_reembed",
    "async_sync_documents",
    "async_sync_permissions",
    "reembed",
    "sync_documents",
    "sync_permissions",
)
_export("evaluation", "tune_hybrid")
_export("events", "Event", "on_event")
_export("embedders.cached", "CachedEmbeddingProvider")
_export("passages", "Passages")
_export("retrievers.expanding", "ExpandingRetriever")
_export("retrievers.explanation", "Explanation")
_export("rerankers.boosting", "BoostingReranker")
_export(
    "embedders",
    "OnnxEmbeddingProvider",
    "OpenAICompatibleEmbeddingProvider",
    "WordLlamaEmbeddingProvider",
)
_export("rerankers", "CrossEncoderReranker", "EmbeddingReranker", "HttpReranker")

_SUBPACKAGES = ("filters", "retrievers", "stores", "embedders", "rerankers", "keyword", "testing")

__all__ = [*sorted(_MODULES), "__version__", "retrievers"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        try:
            value = getattr(importlib.import_module(_MODULES[name]), name)
        except MissingExtraError as error:
            return stand_in(name, error)
        globals()[name] = value
        return value
    if name in _SUBPACKAGES:
        return importlib.import_module(f"agora_core.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_SUBPACKAGES})


if TYPE_CHECKING:
    from agora_core import retrievers as retrievers
    from agora_core.chunking import Chunk as Chunk
    from agora_core.chunking import CodeChunker as CodeChunker
    from agora_core.chunking import MarkdownChunker as MarkdownChunker
    from agora_core.chunking import ProseChunker as ProseChunker
    from agora_core.chunking import RecordChunker as RecordChunker
    from agora_core.chunking import SentenceChunker as SentenceChunker
    from agora_core.chunking import chunk_documents as chunk_documents
    from agora_core.chunking import chunk_text as chunk_text
    from agora_core.corpus import SyncReport as SyncReport
    from agora_core.corpus import async_reembed as async_reembed
    from agora_core.corpus import async_sync_documents as async_sync_documents
    from agora_core.corpus import async_sync_permissions as async_sync_permissions
    from agora_core.corpus import reembed as reembed
    from agora_core.corpus import sync_documents as sync_documents
    from agora_core.corpus import sync_permissions as sync_permissions
    from agora_core.embedders import (
        OnnxEmbeddingProvider as OnnxEmbeddingProvider,
    )
    from agora_core.embedders import (
        OpenAICompatibleEmbeddingProvider as OpenAICompatibleEmbeddingProvider,
    )
    from agora_core.embedders import (
        WordLlamaEmbeddingProvider as WordLlamaEmbeddingProvider,
    )
    from agora_core.embedders.cached import CachedEmbeddingProvider as CachedEmbeddingProvider
    from agora_core.errors import (
        AgoraError as AgoraError,
    )
    from agora_core.errors import (
        AuthorizationError as AuthorizationError,
    )
    from agora_core.errors import (
        DimensionMismatchError as DimensionMismatchError,
    )
    from agora_core.errors import (
        EmbeddingError as EmbeddingError,
    )
    from agora_core.errors import (
        EmbeddingModelError as EmbeddingModelError,
    )
    from agora_core.errors import (
        InvalidArgumentError as InvalidArgumentError,
    )
    from agora_core.errors import (
        InvalidEmbeddingError as InvalidEmbeddingError,
    )
    from agora_core.errors import (
        InvalidFilterError as InvalidFilterError,
    )
    from agora_core.errors import (
        InvalidMetadataError as InvalidMetadataError,
    )
    from agora_core.errors import (
        ModelServerError as ModelServerError,
    )
    from agora_core.errors import (
        RerankingError as RerankingError,
    )
    from agora_core.errors import (
        RetrieverLegError as RetrieverLegError,
    )
    from agora_core.errors import (
        SchemaError as SchemaError,
    )
    from agora_core.errors import (
        ScopeViolationError as ScopeViolationError,
    )
    from agora_core.errors import (
        StoreClosedError as StoreClosedError,
    )
    from agora_core.errors import (
        StoreUnavailableError as StoreUnavailableError,
    )
    from agora_core.errors import (
        UnsafeRemovalError as UnsafeRemovalError,
    )
    from agora_core.errors import (
        UnsupportedFilterError as UnsupportedFilterError,
    )
    from agora_core.errors import (
        UnsupportedOperationError as UnsupportedOperationError,
    )
    from agora_core.evaluation import tune_hybrid as tune_hybrid
    from agora_core.events import Event as Event
    from agora_core.events import on_event as on_event
    from agora_core.files import FileChunker as FileChunker
    from agora_core.files import FilePart as FilePart
    from agora_core.files import UnreadableFileError as UnreadableFileError
    from agora_core.files import UnsupportedContentTypeError as UnsupportedContentTypeError
    from agora_core.files import read_files as read_files
    from agora_core.files import watch_files as watch_files
    from agora_core.filters import (
        Expression as Expression,
    )
    from agora_core.filters import (
        Field as Field,
    )
    from agora_core.filters import (
        all_of as all_of,
    )
    from agora_core.filters import (
        any_of as any_of,
    )
    from agora_core.filters import (
        assert_removal_filter as assert_removal_filter,
    )
    from agora_core.filters import (
        compile_filter as compile_filter,
    )
    from agora_core.filters import (
        conjoin as conjoin,
    )
    from agora_core.filters import (
        field as field,
    )
    from agora_core.filters import (
        filter_denies_all as filter_denies_all,
    )
    from agora_core.filters import (
        filter_from_json as filter_from_json,
    )
    from agora_core.filters import (
        filter_to_json as filter_to_json,
    )
    from agora_core.filters import (
        matches_filter as matches_filter,
    )
    from agora_core.filters import (
        not_ as not_,
    )
    from agora_core.fusion import (
        reciprocal_rank_fusion as reciprocal_rank_fusion,
    )
    from agora_core.fusion import (
        relative_score_fusion as relative_score_fusion,
    )
    from agora_core.ingestion import (
        aingest_chunks as aingest_chunks,
    )
    from agora_core.ingestion import (
        aingest_documents as aingest_documents,
    )
    from agora_core.ingestion import (
        ingest_chunks as ingest_chunks,
    )
    from agora_core.ingestion import (
        ingest_documents as ingest_documents,
    )
    from agora_core.inject import (
        Citations as Citations,
    )
    from agora_core.inject import (
        CitationSpan as CitationSpan,
    )
    from agora_core.inject import (
        ContextInjector as ContextInjector,
    )
    from agora_core.inject import (
        Injection as Injection,
    )
    from agora_core.inject import (
        Quote as Quote,
    )
    from agora_core.inject import (
        parse_citations as parse_citations,
    )
    from agora_core.inject import (
        passage_from_dict as passage_from_dict,
    )
    from agora_core.inject import (
        passage_to_dict as passage_to_dict,
    )
    from agora_core.inject import (
        render_context as render_context,
    )
    from agora_core.inject import (
        verify_quotes as verify_quotes,
    )
    from agora_core.keyword import (
        Tokenizer as Tokenizer,
    )
    from agora_core.keyword import (
        get_tokenizer as get_tokenizer,
    )
    from agora_core.keyword import (
        suggest_tokenizer as suggest_tokenizer,
    )
    from agora_core.media import MediaIngestion as MediaIngestion
    from agora_core.media import MediaRef as MediaRef
    from agora_core.media import MediaResult as MediaResult
    from agora_core.metadata import (
        UNSET as UNSET,
    )
    from agora_core.metadata import (
        MetadataPatch as MetadataPatch,
    )
    from agora_core.metadata import (
        apply_metadata_patch as apply_metadata_patch,
    )
    from agora_core.metadata import (
        effective_patch_keys as effective_patch_keys,
    )
    from agora_core.passages import Passages as Passages
    from agora_core.protocols import (
        AnyFilter as AnyFilter,
    )
    from agora_core.protocols import (
        EmbeddingProvider as EmbeddingProvider,
    )
    from agora_core.protocols import (
        LexicalVectorStore as LexicalVectorStore,
    )
    from agora_core.protocols import (
        MetadataFilter as MetadataFilter,
    )
    from agora_core.protocols import (
        Reranker as Reranker,
    )
    from agora_core.protocols import (
        Retriever as Retriever,
    )
    from agora_core.protocols import (
        VectorStore as VectorStore,
    )
    from agora_core.protocols import (
        is_lexical_vector_store as is_lexical_vector_store,
    )
    from agora_core.records import (
        ChunkRecord as ChunkRecord,
    )
    from agora_core.records import (
        IndexedDocument as IndexedDocument,
    )
    from agora_core.records import (
        IngestDocument as IngestDocument,
    )
    from agora_core.records import (
        Passage as Passage,
    )
    from agora_core.records import (
        VectorRecord as VectorRecord,
    )
    from agora_core.records import (
        chunk_id_to_point_id as chunk_id_to_point_id,
    )
    from agora_core.records import (
        document_id_of as document_id_of,
    )
    from agora_core.rerankers import (
        CrossEncoderReranker as CrossEncoderReranker,
    )
    from agora_core.rerankers import (
        EmbeddingReranker as EmbeddingReranker,
    )
    from agora_core.rerankers import (
        HttpReranker as HttpReranker,
    )
    from agora_core.rerankers.boosting import BoostingReranker as BoostingReranker
    from agora_core.retrievers import (
        EmbeddingRetriever as EmbeddingRetriever,
    )
    from agora_core.retrievers import (
        HybridRetriever as HybridRetriever,
    )
    from agora_core.retrievers import (
        KeywordRetriever as KeywordRetriever,
    )
    from agora_core.retrievers import (
        LexicalRetriever as LexicalRetriever,
    )
    from agora_core.retrievers import (
        RerankingRetriever as RerankingRetriever,
    )
    from agora_core.retrievers.authorized import (
        AuthorizedRetriever as AuthorizedRetriever,
    )
    from agora_core.retrievers.expanding import ExpandingRetriever as ExpandingRetriever
    from agora_core.retrievers.explanation import Explanation as Explanation
    from agora_core.retrievers.scoped import (
        ScopedRetriever as ScopedRetriever,
    )
    from agora_core.similarity import (
        cosine_similarity as cosine_similarity,
    )
    from agora_core.similarity import (
        maximal_marginal_relevance as maximal_marginal_relevance,
    )
    from agora_core.similarity import (
        relevance_score as relevance_score,
    )
    from agora_core.stores.base import BaseVectorStore as BaseVectorStore
    from agora_core.stores.base import Health as Health
    from agora_core.stores.memory import MemoryLexicalVectorStore as MemoryLexicalVectorStore
    from agora_core.stores.memory import MemoryVectorStore as MemoryVectorStore
    from agora_core.stores.postgres import (
        PgLexicalVectorStore as PgLexicalVectorStore,
    )
    from agora_core.stores.postgres import (
        PgVectorColumns as PgVectorColumns,
    )
    from agora_core.stores.postgres import (
        PgVectorStore as PgVectorStore,
    )
    from agora_core.stores.qdrant import (
        QdrantLexicalVectorStore as QdrantLexicalVectorStore,
    )
    from agora_core.stores.qdrant import (
        QdrantStore as QdrantStore,
    )
    from agora_core.stores.scoped import (
        ScopedVectorStore as ScopedVectorStore,
    )
