"""Every error this library raises of its own accord, `AgoraError` at the root.

Each refusal of a value is a `ValueError` as well, so that callers who know only the standard library catch it too.
"""

from __future__ import annotations


class AgoraError(Exception):
    """The root of every error raised by this library.

    Examples:
        >>> try:
        ...     retriever.retrieve("leave", top_k=0)
        ... except AgoraError as error:
        ...     print(type(error).__name__)
        InvalidArgumentError
    """


class InvalidArgumentError(AgoraError, ValueError):
    """An argument breaks a rule; the message names the argument, its value, the rule and the remedy.

    Examples:
        >>> issubclass(InvalidArgumentError, ValueError)
        True
    """


class InvalidMetadataError(InvalidArgumentError):
    """A record holds something that is not JSON; the message names the record, the key and the type.

    Examples:
        >>> store.update_metadata("leave", {"since": {1, 2}})
        Traceback (most recent call last):
        agora_core.errors.InvalidMetadataError: ...
    """


class InvalidFilterError(InvalidArgumentError):
    """A filter could not be built. It is never dropped and never widened.

    Examples:
        >>> store.count({"year": {"$gte": 2020}})
        Traceback (most recent call last):
        agora_core.errors.InvalidFilterError: ...
    """


class DimensionMismatchError(InvalidArgumentError):
    """An embedding has another length than the store's dimension.

    Examples:
        >>> store.search([1.0, 0.0], top_k=1)
        Traceback (most recent call last):
        agora_core.errors.DimensionMismatchError: ...
    """


class InvalidEmbeddingError(InvalidArgumentError):
    """An embedding holds NaN, infinity or something that is no number.

    Examples:
        >>> MemoryVectorStore(dimension=2).search([float("nan"), 0.0], top_k=1)
        Traceback (most recent call last):
        agora_core.errors.InvalidEmbeddingError: ...
    """


class UnsafeRemovalError(InvalidArgumentError):
    """A removal is not bounded by its filter; `reason` is `empty-filter` or `unbounded-filter`.

    Examples:
        >>> store.remove_where({})
        Traceback (most recent call last):
        agora_core.errors.UnsafeRemovalError: ...
    """

    def __init__(self, message: str | None = None, *, reason: str = "empty-filter") -> None:
        self.reason = reason
        super().__init__(
            message
            or f"refused to remove by a filter that bounds nothing ({reason}); name at least one condition "
            "that a record without metadata does not satisfy"
        )


class EmbeddingModelError(InvalidArgumentError):
    """A store holds vectors of one embedding model and was given, or asked by, another; nothing was embedded.

    Examples:
        >>> print(EmbeddingModelError(filled_by="minilm", given="e5"))
        the store was filled by the embedding model 'minilm' and the embedder is 'e5'; ...
    """

    def __init__(self, *, filled_by: str, given: str) -> None:
        super().__init__(
            f"the store was filled by the embedding model {filled_by!r} and the embedder is {given!r}; vectors of two "
            "models cannot be compared. Use the model of the store, or move the store with reembed()"
        )


class UnsupportedFilterError(InvalidFilterError):
    """A backend cannot answer this filter exactly; raised before anything is read.

    Examples:
        >>> issubclass(UnsupportedFilterError, InvalidFilterError)
        True
    """


class ScopeViolationError(InvalidArgumentError):
    """A write through a scope would touch, create or leave a record outside that scope; nothing was written.

    Examples:
        >>> store.scoped({"acl": ["staff"]}).update_metadata("leave", {"acl": ["board"]})
        Traceback (most recent call last):
        agora_core.errors.ScopeViolationError: ...
    """


class UnsupportedOperationError(AgoraError, TypeError):
    """A part given to this library lacks a method that the call needs.

    Examples:
        >>> LexicalRetriever(MemoryVectorStore()).retrieve("leave")
        Traceback (most recent call last):
        agora_core.errors.UnsupportedOperationError: ...
    """


class MissingExtraError(AgoraError, ImportError):
    """An optional package is not installed; the message names the extra that brings it.

    Examples:
        >>> issubclass(MissingExtraError, ImportError)
        True
    """


class EmbeddingError(AgoraError, RuntimeError):
    """An embedder failed or answered with something else than one vector per text.

    Examples:
        >>> class Short:
        ...     def embed(self, texts):
        ...         return []
        >>> ingest_documents(documents, embedder=Short(), store=store)
        Traceback (most recent call last):
        agora_core.errors.EmbeddingError: ...
    """


class RerankingError(AgoraError, RuntimeError):
    """A reranker failed or answered with something it was not given.

    Examples:
        >>> issubclass(RerankingError, RuntimeError)
        True
    """


class ModelServerError(AgoraError, RuntimeError):
    """A model server refused a request or answered unreadably; `status` is the HTTP status, or None.

    Examples:
        >>> ModelServerError("too many requests", status=429).status
        429
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class AuthorizationError(AgoraError, RuntimeError):
    """A permission check answered with something that is not a decision; nothing was returned.

    Examples:
        >>> AuthorizedRetriever(retriever, lambda ids: ["never asked for"]).retrieve("leave")
        Traceback (most recent call last):
        agora_core.errors.AuthorizationError: ...
    """


class RetrieverLegError(AgoraError, RuntimeError):
    """One leg of a hybrid retrieval failed; the cause is chained.

    `leg` is its position, None where one search of a store answers all legs together.

    Examples:
        >>> RetrieverLegError("leg 1 (LexicalRetriever) failed", leg=1).leg
        1
    """

    def __init__(self, message: str, *, leg: int | None) -> None:
        self.leg = leg
        super().__init__(message)


class SchemaError(AgoraError, RuntimeError):
    """A database or collection is not as the store needs it; the message says what differs.

    Examples:
        >>> issubclass(SchemaError, RuntimeError)
        True
    """


class StoreUnavailableError(AgoraError, RuntimeError):
    """A store's backend could not be reached in time.

    Examples:
        >>> try:
        ...     PgVectorStore("postgresql://nobody@127.0.0.1:1/none", table="faq", dimension=3).count()
        ... except StoreUnavailableError as error:
        ...     print(error)
        PostgreSQL is not available: ...
    """


class StoreClosedError(AgoraError, RuntimeError):
    """The store was used after it had been closed.

    Examples:
        >>> closed = PgVectorStore("postgresql://app@db/app", table="faq", dimension=3)
        >>> closed.close()
        >>> closed.count()
        Traceback (most recent call last):
        agora_core.errors.StoreClosedError: ...
    """


def out_of_scope(record_id: str) -> ScopeViolationError:
    """Return the error for a record that a scoped write may not touch.

    It does not say whether the record exists, nor what the filter's values are, for they may be secrets.
    """
    return ScopeViolationError(
        f"record {record_id!r} lies outside the scope of this store; nothing was written. "
        "Write records whose metadata matches the scope, under ids of its own, or use on_write='stamp'"
    )
