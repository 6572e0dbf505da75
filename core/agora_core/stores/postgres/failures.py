"""Errors of the driver as errors of this library: what happened and what to do, never a value, text or password."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, Connection, errors
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from agora_core.errors import AgoraError, SchemaError, ScopeViolationError, StoreClosedError, StoreUnavailableError

RETRIED: Final = (errors.SerializationFailure, errors.DeadlockDetected)
"""The server rolled the transaction back and says: again."""

_READ_ONLY: Final = errors.ReadOnlySqlTransaction.sqlstate


class Kind(Enum):
    """What an error of the server means for the caller."""

    UNAVAILABLE = "try again later"
    SCHEMA = "mend the schema or the role"
    REFUSED = "the statement or the data will be refused again"


KINDS: Final[Mapping[str, Kind]] = {
    "08": Kind.UNAVAILABLE,  # connection exceptions, those of poolers too
    "40": Kind.UNAVAILABLE,  # serialization and deadlocks, after all retries
    "53300": Kind.UNAVAILABLE,  # too many connections
    "55P03": Kind.UNAVAILABLE,  # a lock was not to be had in time
    "57": Kind.UNAVAILABLE,  # shutdowns, idle sessions, cancellations
    "25P03": Kind.UNAVAILABLE,  # a transaction that was idle too long
    "25P04": Kind.UNAVAILABLE,  # a transaction that took too long
    "42501": Kind.SCHEMA,  # insufficient privilege
    "42P01": Kind.SCHEMA,  # no such table
    "42703": Kind.SCHEMA,  # no such column
    "42704": Kind.SCHEMA,  # no such object
    "42883": Kind.SCHEMA,  # no such function
    "3F000": Kind.SCHEMA,  # no such schema
    "42804": Kind.SCHEMA,  # another type
}
"""By code or class of codes. Everything else is refused: limits (54), a full disk (53100), roles (28), data (22)."""

# Before a session is there libpq hands on the server's text and no code.
_REFUSED_AT_THE_DOOR: Final = re.compile(
    r'(role|database|user) ".*" does not exist|authentication failed|no pg_hba\.conf entry|not permitted to log in'
)


class PostgresError(AgoraError, RuntimeError):
    """PostgreSQL refused a statement, which was rolled back; `sqlstate` is its code, `driver_error` is psycopg's error.

    The message is the server's first line only: its details quote rows.
    """

    def __init__(self, message: str, driver_error: psycopg.Error) -> None:
        super().__init__(message)
        self.sqlstate = driver_error.sqlstate
        self.driver_error = driver_error


class PostgresUnavailableError(StoreUnavailableError):
    """PostgreSQL could not be reached, was lost, or took too long; `driver_error` is what psycopg raised."""

    def __init__(self, message: str, driver_error: Exception) -> None:
        super().__init__(message)
        self.driver_error = driver_error


def is_lost(error: psycopg.Error, connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Say whether the connection is of no more use, as opposed to a statement being refused.

    The connection itself is asked. What ends a session says FATAL, whatever its code; and a server that became
    read-only is not the one that writes were meant for.
    """
    return (
        connection.closed
        or error.diag.severity_nonlocalized in ("FATAL", "PANIC")
        or isinstance(error, errors.ReadOnlySqlTransaction)
    )


def translated(error: Exception, *, lost: bool = False, committing: bool = False) -> AgoraError:
    """Return the error to raise for one of the driver's, by its SQLSTATE.

    Args:
        lost: the connection broke.
        committing: it broke while a write was being committed.
    """
    if isinstance(error, PoolTimeout):
        return PostgresUnavailableError(
            "no connection could be had in time: all are in use, or the server cannot be reached; raise "
            "max_connections or pool_timeout, or ask less at once",
            error,
        )
    if isinstance(error, TooManyRequests):
        return PostgresUnavailableError("too many callers wait for a connection; ask less at once", error)
    if isinstance(error, PoolClosed):
        return StoreClosedError("the connection pool that this store was given is closed")
    if committing:
        return PostgresUnavailableError(
            "the connection was lost while a write was being committed, so it may have been applied or not; read back "
            "what was written, or write it again",
            error,
        )
    if not isinstance(error, psycopg.Error):
        raise error
    message = _first_line(error)
    if isinstance(error, errors.QueryCanceled):
        return PostgresUnavailableError(
            f"PostgreSQL cancelled a statement ({message}), which was rolled back; raise statement_timeout, or ask for "
            "less at once",
            error,
        )
    kind = kind_of(error.sqlstate)
    if error.sqlstate is None and _REFUSED_AT_THE_DOOR.search(message):
        return PostgresError(f"PostgreSQL refused the connection: {message}; check user, password and database", error)
    if kind is Kind.UNAVAILABLE or (lost and kind is not Kind.SCHEMA and error.sqlstate != _READ_ONLY):
        return PostgresUnavailableError(f"PostgreSQL is not available: {message}", error)
    if error.diag.source_function == "ExecWithCheckOptions":
        return ScopeViolationError(
            "the server's row security refused a write outside what this actor is bound to; nothing was written"
        )
    if kind is Kind.SCHEMA:
        return SchemaError(f"PostgreSQL refused a statement: {message}; call ensure_schema() with a role that may")
    constraint = error.diag.constraint_name
    where = f" (constraint {constraint!r})" if constraint else ""
    return PostgresError(f"PostgreSQL refused a statement, which was rolled back: {message}{where}", error)


def kind_of(sqlstate: str | None) -> Kind:
    """Return what an error means for the caller: its whole code first, then its class. No code is no answer."""
    if sqlstate is None:
        return Kind.UNAVAILABLE
    return KINDS.get(sqlstate) or KINDS.get(sqlstate[:2]) or Kind.REFUSED


def _first_line(error: psycopg.Error) -> str:
    primary = error.diag.message_primary
    if primary:
        return primary
    # Without a server's answer the text is libpq's, which names host and user and no password.
    return str(error).partition("\n")[0] or type(error).__name__
