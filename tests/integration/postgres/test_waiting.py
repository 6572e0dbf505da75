"""A call that waits for another writer sees what that writer left: no answer of 0 for a document that is there.

Kind: a lock that only one of several writers takes. The writer is held open in a transaction of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from agora_core import PgVectorStore, VectorRecord


def chunks(version: int) -> list[VectorRecord]:
    return [VectorRecord(f"doc#{n}", f"v{version}", [1.0, n, version], None, {"acl": ["all"]}) for n in range(3)]


@pytest.mark.parametrize(
    ("call", "left"),
    [
        (lambda store: store.update_metadata("doc", {"acl": ["board"]}), 0),
        (lambda store: store.remove("doc"), 0),
        (lambda store: store.remove_where({"acl": ["all"]}), 0),
        (lambda store: store.delete(["doc#0", "doc#1", "doc#2"]), 0),
        (lambda store: store.replace_documents(["doc"], []) or 3, 0),
        (lambda store: store.scoped({"acl": ["all"]}).remove("doc"), 0),
    ],
    ids=["update_metadata", "remove", "remove_where", "delete", "replace", "scoped"],
)
def test_who_waits_for_a_replacement_sees_what_it_left(
    make_store: Any, pg_conninfo: str, call: Callable[[PgVectorStore], int], left: int
) -> None:
    store = make_store(index=None)
    store.upsert(chunks(1))
    answers: list[int] = []
    with psycopg.connect(pg_conninfo, autocommit=True) as connection:
        other = PgVectorStore(connection, table=store.table, dimension=3, index=None)
        with connection.transaction():
            other.replace_documents(["doc"], chunks(2))
            thread = threading.Thread(target=lambda: answers.append(call(store)))
            thread.start()
            time.sleep(0.4)
            assert not answers
        thread.join(30)
    assert answers == [3]
    assert store.count({"acl": ["all"]}) == left
