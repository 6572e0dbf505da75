"""Whole retrievers in one line. Each is lazy: nothing is imported, connected or embedded before its first use."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from agora_core.calling import given
from agora_core.errors import InvalidArgumentError, MissingExtraError
from agora_core.protocols import EmbeddingProvider, is_lexical_vector_store
from agora_core.records import IngestDocument
from agora_core.retrievers.embedding import EmbeddingRetriever
from agora_core.retrievers.hybrid import HybridRetriever
from agora_core.retrievers.lazy import SAMPLE, LazyRetriever, Parts, made
from agora_core.retrievers.lexical import LexicalRetriever
from agora_core.retrievers.scoped import seen_from

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from agora_core.stores.postgres.layout import PgVectorColumns

# Written out, because asking the stores would import their drivers; a test compares them with the constructors.


class PgVectorOptions(TypedDict, total=False):
    """Options of `PgVectorStore`."""

    table: str
    schema: str | None
    dimension: int
    metric: Literal["cosine", "l2", "inner"]
    columns: PgVectorColumns | None
    storage: Literal["vector", "halfvec"]
    index: Literal["hnsw", "ivfflat", "after"] | None
    hnsw_m: int | None
    hnsw_ef_construction: int | None
    ef_search: int | None
    ivfflat_lists: int | None
    ivfflat_probes: int | None
    upsert_batch_size: int
    max_connections: int
    pool_timeout: float


class QdrantOptions(TypedDict, total=False):
    """Options of `QdrantStore`."""

    async_client: Any
    collection: str
    dimension: int
    metric: Literal["cosine", "l2", "inner"]
    upsert_batch_size: int
    api_key: str | None
    timeout: int | None
    client_options: Mapping[str, Any] | None
    max_retries: int
    retry_backoff: float
    exact: bool | None
    hnsw_ef: int | None
    quantization: Mapping[str, Any] | None
    shard_key: Any
    consistency: Any
    ordering: Any
    index_metadata: Any
    tenant_key: str | None
    collection_options: Mapping[str, Any] | None


_FETCH_TOP_K: Final = 100
_LEAST_TEXTS: Final = 20

EmbedderOrFactory = EmbeddingProvider | Callable[[], EmbeddingProvider]


def memory(
    embedder: EmbedderOrFactory,
    documents: Iterable[IngestDocument] = (),
    *,
    store: Any = None,
    metric: Literal["cosine", "l2", "inner"] = "cosine",
    dimension: int | None = None,
    full_text: Mapping[str, Any] | None = None,
    hybrid: Mapping[str, Any] | None = None,
    chunk_size: int | None = None,
    overlap: int | None = None,
    separator: str | None = None,
) -> LazyRetriever:
    """Return a retriever over a store in memory, filled with `documents` at its first use.

    Args:
        embedder: an embedder, or a function without arguments that makes one.
        documents: cut by `chunk_size`, `overlap` and `separator` (see `chunk_text`), embedded and stored at first use.
        store: a store, or a function that makes one, instead of a new one in memory.
        metric: of the new store.
        dimension: of the new store; None takes the first record's.
        full_text: options of a `MemoryLexicalVectorStore` (`tokenizer`, `k1`, `b`, `syntax`); given, be it empty, the
            retriever is the hybrid of both legs. The analyser is suggested from the first 100 texts, from 20 on, unless
            `tokenizer` names one. A given `store` that searches no texts gets a `KeywordRetriever` of these options
            beside it, which is filled with what the store holds and backed by it; one that does takes no options.
        hybrid: options of that `HybridRetriever`; by default `fusion="adaptive"` and `fetch_top_k=100`.

    Examples:
        >>> retrievers.memory(embedder, documents, full_text={}).retrieve("directors", top_k=1)[0].id
        'board#0'
    """

    def make(coming: Sequence[IngestDocument]) -> Parts:
        from agora_core.stores.memory import MemoryLexicalVectorStore, MemoryVectorStore

        vectors = made(store, having="search") if store is not None else None
        if full_text is None:
            return _dense(
                MemoryVectorStore(metric=metric, dimension=dimension) if vectors is None else vectors, embedder
            )
        options = dict(full_text)
        if vectors is not None and is_lexical_vector_store(vectors):
            if options:
                raise InvalidArgumentError(
                    f"full_text must be empty: {type(vectors).__name__} searches its texts itself; give it the options"
                )
            return _both_legs(vectors, embedder, hybrid)
        if "tokenizer" not in options:
            texts = [document.text for document in itertools.islice(coming, SAMPLE)]
            if not texts and vectors is not None and callable(getattr(vectors, "scan", None)):
                texts = [record.text for record in itertools.islice(vectors.scan(), SAMPLE)]
            options["tokenizer"] = suggested_tokenizer(texts)
        if vectors is None:
            lexical = MemoryLexicalVectorStore(metric=metric, dimension=dimension, **options)
            return _both_legs(lexical, embedder, hybrid)
        from agora_core.retrievers.keyword import KeywordRetriever

        keyword, provider = KeywordRetriever(**options), made(embedder, having="embed")
        dense = EmbeddingRetriever(provider, vectors)
        legs = [dense, seen_from(keyword, vectors)]
        return Parts(HybridRetriever(legs, **hybrid_options(hybrid)), vectors, provider, keyword)

    def load(path: str | os.PathLike[str]) -> Parts:
        from agora_core.stores.memory import MemoryLexicalVectorStore, MemoryVectorStore

        if full_text is None:
            return _dense(MemoryVectorStore.load(path), embedder)
        return _both_legs(MemoryLexicalVectorStore.load(path, tokenizer=full_text.get("tokenizer")), embedder, hybrid)

    chunking = given(chunk_size=chunk_size, overlap=overlap, separator=separator)
    own, suggest = (load, _suggests(full_text)) if store is None else (None, None)
    filled = store is not None
    return LazyRetriever(make, documents=documents, chunking=chunking, fills_keyword=filled, load=own, suggest=suggest)


def hybrid_options(hybrid: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options of the factories' `HybridRetriever`, those given before the defaults.

    The fusion is `adaptive` over lists of 100; weights without a fusion mean `relative_score`.
    """
    options = {"fetch_top_k": _FETCH_TOP_K, **(hybrid or {})}
    options.setdefault("fusion", "adaptive" if options.get("weights") is None else "relative_score")
    return options


def suggested_tokenizer(texts: Sequence[str]) -> str:
    """Return the name of the analyser for texts like these: `unicode` for fewer than 20, or where an extra lacks."""
    if len(texts) < _LEAST_TEXTS:
        return "unicode"
    from agora_core.keyword.registry import get_tokenizer, suggest_tokenizer

    name = suggest_tokenizer(texts)
    try:
        get_tokenizer(name)
    except MissingExtraError as error:
        warnings.warn(f"the texts look {name}, but they are analysed as 'unicode': {error}", stacklevel=2)
        return "unicode"
    return name


def _suggests(full_text: Mapping[str, Any] | None) -> Callable[[Sequence[str]], str] | None:
    """Return what suggests an analyser where there is to be one and nobody has named it."""
    named = full_text is None or not {"tokenizer", "text_search"}.isdisjoint(full_text)
    return None if named else suggested_tokenizer


def pgvector(
    conninfo: Any,
    *,
    embedder: EmbedderOrFactory,
    ensure_schema: bool = False,
    full_text: Mapping[str, Any] | None = None,
    hybrid: Mapping[str, Any] | None = None,
    **store_options: Unpack[PgVectorOptions],
) -> LazyRetriever:
    """Return a retriever over a Postgres table.

    Args:
        conninfo: what `PgVectorStore` takes, or a function without arguments that gives it.
        embedder: an embedder, or a function without arguments that makes one.
        ensure_schema: create what is missing in the database at first use.
        full_text: options of a `PgLexicalVectorStore`; given, be it empty, the retriever is the hybrid of both legs. An
            index that is there keeps its analyser. For a new one it is suggested from the first 100 texts of the table,
            or of what the retriever's own `add` or `sync` puts into an empty one, from 20 on, unless one is named here.
        hybrid: options of that `HybridRetriever`; by default `fusion="adaptive"` and `fetch_top_k=100`.
        store_options: options of `PgVectorStore` (`table`, `dimension`, `metric`, ...).

    Raises:
        TypeError: `PgVectorStore` has no such option.

    Examples:
        >>> lazy = retrievers.pgvector("postgresql://app@db/app", embedder=embedder, table="faq", ensure_schema=True)
    """
    _check_options("pgvector", store_options, frozenset(PgVectorOptions.__annotations__))

    def make(coming: Sequence[IngestDocument]) -> Parts:
        from agora_core.stores.postgres import PgLexicalVectorStore, PgVectorStore

        where = conninfo() if callable(conninfo) else conninfo
        if full_text is None:
            return _dense(PgVectorStore(where, **store_options), embedder)
        return _both_legs(PgLexicalVectorStore(where, **store_options, **full_text), embedder, hybrid)

    return LazyRetriever(make, prepare="ensure_schema" if ensure_schema else None, suggest=_suggests(full_text))


def qdrant(
    client: Any = None,
    *,
    embedder: EmbedderOrFactory,
    ensure_collection: bool = False,
    full_text: Mapping[str, Any] | None = None,
    hybrid: Mapping[str, Any] | None = None,
    **store_options: Unpack[QdrantOptions],
) -> LazyRetriever:
    """Return a retriever over a Qdrant collection.

    Args:
        client: what `QdrantStore` takes, or a function without arguments that gives it.
        embedder: an embedder, or a function without arguments that makes one.
        ensure_collection: create what is missing on the server at first use.
        full_text: options of a `QdrantLexicalVectorStore`; given, be it empty, the retriever is the hybrid of both. A
            collection that is there keeps its analyser. For a new one it is suggested from the first 100 texts that the
            retriever's own `add` or `sync` puts into it, from 20 on, unless one is named here.
        hybrid: options of that `HybridRetriever`; by default `fusion="adaptive"` and `fetch_top_k=100`.
        store_options: options of `QdrantStore` (`collection`, `dimension`, `metric`, ...).

    Raises:
        TypeError: `QdrantStore` has no such option.

    Examples:
        >>> server = QdrantClient(":memory:")
        >>> lazy = retrievers.qdrant(server, embedder=embedder, collection="faq", dimension=64, ensure_collection=True)
        >>> lazy.retrieve("days of leave")
        []
    """
    _check_options("qdrant", store_options, frozenset(QdrantOptions.__annotations__))

    def make(coming: Sequence[IngestDocument]) -> Parts:
        from agora_core.stores.qdrant import QdrantLexicalVectorStore, QdrantStore

        where = client() if callable(client) else client
        if full_text is None:
            return _dense(QdrantStore(where, **store_options), embedder)
        return _both_legs(QdrantLexicalVectorStore(where, **store_options, **full_text), embedder, hybrid)

    return LazyRetriever(make, prepare="ensure_collection" if ensure_collection else None, suggest=_suggests(full_text))


def _dense(store: Any, embedder: EmbedderOrFactory) -> Parts:
    provider = made(embedder, having="embed")
    return Parts(EmbeddingRetriever(provider, store), store, provider)


def _both_legs(store: Any, embedder: EmbedderOrFactory, hybrid: Mapping[str, Any] | None) -> Parts:
    provider = made(embedder, having="embed")
    legs = [EmbeddingRetriever(provider, store), LexicalRetriever(store)]
    return Parts(HybridRetriever(legs, **hybrid_options(hybrid)), store, provider)


def _check_options(factory: str, options: Mapping[str, Any], known: frozenset[str]) -> None:
    """Refuse a misspelt option now: the store that would is only made at first use."""
    for name in options:
        if name not in known:
            raise TypeError(
                f"{factory}() got an unexpected keyword argument {name!r}; it takes {', '.join(sorted(known))}"
            )
