"""Every error this library raises of its own accord, `AgoraError` at the root.

Each refusal of a value is a `ValueError` as well, so that callers who know only the standard library catch it too.
"""

from __future__ import annotations


class AgoraError(Exception):
    """The root of every error raised by this library."""


class InvalidArgumentError(AgoraError, ValueError):
    """An argument breaks a rule; the message names the argument, its value, the rule and the remedy."""


class InvalidMetadataError(InvalidArgumentError):
    """A record holds something that is not JSON; the message names the record, the key and the type."""


class InvalidFilterError(InvalidArgumentError):
    """A filter could not be built. It is never dropped and never widened."""


class DimensionMismatchError(InvalidArgumentError):
    """An embedding has another length than the store's dimension."""


class InvalidEmbeddingError(InvalidArgumentError):
    """An embedding holds NaN, infinity or something that is no number."""


class UnsafeRemovalError(InvalidArgumentError):
    """A removal is not bounded by its filter; `reason` is `empty-filter` or `unbounded-filter`."""

    def __init__(self, message: str | None = None, *, reason: str = "empty-filter") -> None:
        self.reason = reason
        super().__init__(
            message
            or f"refused to remove by a filter that bounds nothing ({reason}); name at least one condition "
            "that a record without metadata does not satisfy"
        )


class EmbeddingModelError(InvalidArgumentError):
    """A store holds vectors of one embedding model and was given, or asked by, another; nothing was embedded."""

    def __init__(self, *, filled_by: str, given: str) -> None:
        super().__init__(
            f"the store was filled by the embedding model {filled_by!r} and the embedder is {given!r}; vectors of two "
            "models cannot be compared. Use the model of the store, or move the store with reembed()"
        )


class UnsupportedFilterError(InvalidFilterError):
    """A backend cannot answer this filter exactly; raised before anything is read."""


class ScopeViolationError(InvalidArgumentError):
    """A write through a scope would touch, create or leave a record outside that scope; nothing was written."""


class UnsupportedOperationError(AgoraError, TypeError):
    """A part given to this library lacks a method that the call needs."""


class MissingExtraError(AgoraError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class EmbeddingError(AgoraError, RuntimeError):
    """An embedder failed or answered with something else than one vector per text."""


class RerankingError(AgoraError, RuntimeError):
    """A reranker failed or answered with something it was not given."""


class ModelServerError(AgoraError, RuntimeError):
    """A model server refused a request or answered unreadably; `status` is the HTTP status, or None."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class AuthorizationError(AgoraError, RuntimeError):
    """A permission check answered with something that is no decision; nothing was returned."""


class RetrieverLegError(AgoraError, RuntimeError):
    """One leg of a hybrid retrieval failed; the cause is chained.

    `leg` is its position, None where one search of a store answers all legs together.
    """

    def __init__(self, message: str, *, leg: int | None) -> None:
        self.leg = leg
        super().__init__(message)


class SchemaError(AgoraError, RuntimeError):
    """A database or collection is not as the store needs it; the message says what differs."""


class StoreUnavailableError(AgoraError, RuntimeError):
    """A store's backend could not be reached in time."""


class StoreClosedError(AgoraError, RuntimeError):
    """The store was used after it had been closed."""


def out_of_scope(record_id: str) -> ScopeViolationError:
    """Return the error for a record that a scoped write may not touch.

    It does not say whether the record exists, nor what the filter's values are, for they may be secrets.
    """
    return ScopeViolationError(
        f"record {record_id!r} lies outside the scope of this store; nothing was written. "
        "Write records whose metadata matches the scope, under ids of its own, or use on_write='stamp'"
    )
