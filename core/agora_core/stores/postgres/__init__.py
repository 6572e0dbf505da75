"""PostgreSQL with pgvector: `PgVectorStore`, and `PgLexicalVectorStore`, which searches texts as well."""

from __future__ import annotations

from agora_core.extras import require

# Said in this library's words, before the imports below say it in Python's.
require("psycopg", extra="postgres")
require("psycopg_pool", extra="postgres")

from agora_core.stores.postgres.failures import PostgresError  # noqa: E402
from agora_core.stores.postgres.layout import PgVectorColumns  # noqa: E402
from agora_core.stores.postgres.lexical import PgLexicalVectorStore  # noqa: E402
from agora_core.stores.postgres.store import PgVectorStore  # noqa: E402

__all__ = ["PgLexicalVectorStore", "PgVectorColumns", "PgVectorStore", "PostgresError"]
