"""Fixtures of the tests against Qdrant."""

from __future__ import annotations

from tests.integration.qdrant.fix_clients import make_store, qdrant_client

__all__ = ["make_store", "qdrant_client"]
