"""Errors of the driver as errors of this library: what happened and what to do, never a value, text or password."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from agora_core.errors import AgoraError, SchemaError, StoreClosedError, StoreUnavailableError

RETRIED: Final = (errors.SerializationFailure, errors.DeadlockDetected)
"""The server rolled the transaction back and says: again."""

_SCHEMA_ERRORS: Final = (
    errors.InsufficientPrivilege,
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedObject,
    errors.UndefinedFunction,
    errors.InvalidSchemaName,
    errors.DatatypeMismatch,
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


def is_lost(error: BaseException) -> bool:
    """Say whether the connection broke, as opposed to a statement being refused."""
    if isinstance(error, (PoolTimeout, PoolClosed, TooManyRequests)):
        return False
    if isinstance(error, (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow)):
        return True
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and error.sqlstate is None


def translated(error: Exception, *, committing: bool = False) -> AgoraError:
    """Return the error to raise for one of the driver's."""
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
    if is_lost(error) or isinstance(error, psycopg.OperationalError):
        return PostgresUnavailableError(f"PostgreSQL is not available: {message}", error)
    if isinstance(error, _SCHEMA_ERRORS):
        return SchemaError(f"PostgreSQL refused a statement: {message}; call ensure_schema() with a role that may")
    constraint = error.diag.constraint_name
    where = f" (constraint {constraint!r})" if constraint else ""
    return PostgresError(f"PostgreSQL refused a statement, which was rolled back: {message}{where}", error)


def _first_line(error: psycopg.Error) -> str:
    primary = error.diag.message_primary
    if primary:
        return primary
    # Without a server's answer the text is libpq's, which names host and user and no password.
    return str(error).partition("\n")[0] or type(error).__name__
