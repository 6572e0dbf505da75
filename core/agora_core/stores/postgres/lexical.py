"""PLACEHOLDER."""

from __future__ import annotations

from agora_core.stores.postgres.store import PgVectorStore


class PgLexicalVectorStore(PgVectorStore):
    """A `PgVectorStore` that searches texts as well."""
