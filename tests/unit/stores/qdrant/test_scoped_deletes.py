"""Another writer that acts between the reading and the deleting of a scoped call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agora_core import QdrantStore, VectorRecord
from tests.integration.qdrant.edge_client import EdgeClient


class Interrupted(EdgeClient):
    """A client in which something happens right before the first change of each call."""

    before: Callable[[], Any] | None = None

    def _update(self, collection_name: str, operation: Any) -> None:
        happening, self.before = self.before, None
        if happening is not None:
            happening()
        super()._update(collection_name, operation)


def record(key: str, tenant: str) -> VectorRecord:
    return VectorRecord(key, "text", [1.0, 0.0], metadata={"tenant": tenant})


@pytest.mark.parametrize("method", ["delete", "remove", "remove_where", "replace_documents"])
def test_a_record_that_left_the_scope_meanwhile_is_not_deleted(method: str) -> None:
    client: Any = Interrupted()
    store = QdrantStore(client, collection="records", dimension=2)
    store.ensure_collection()
    store.upsert([record("moves", "a"), record("stays", "a"), record("other", "b")])
    client.before = lambda: store.update_metadata("moves", {"tenant": "b"})
    view: Any = store.scoped({"tenant": "a"})
    arguments: dict[str, tuple[Any, ...]] = {
        "delete": (["moves", "stays", "other"],),
        "remove": ("moves",),
        "remove_where": ({"tenant": ["a", "b"]},),
        "replace_documents": (["moves", "stays", "other"], []),
    }
    getattr(view, method)(*arguments[method])
    left = {one.id for one in store.scan({"tenant": "b"})}
    assert left == {"moves", "other"}
    assert client.before is None
    client.close()
