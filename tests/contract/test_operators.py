"""An operator of somebody's own: one entry of the table is all that it needs, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agora_core.filters import all_of, any_of, matches_filter, not_
from agora_core.filters.expressions import condition, filter_from_json
from agora_core.filters.literals import Literal
from agora_core.filters.operators import OPERATORS, Operator, Sql
from agora_core.records import VectorRecord
from agora_core.testing.examples import METADATA_EXAMPLES
from tests.contract.backends import open_backends


@pytest.fixture
def has_length() -> Iterator[Operator]:
    """The value is a list of so many members: no index knows lengths, so each record with a value is judged."""
    entry = Operator(
        name="has_length",
        takes="value",
        types=("number",),
        holds=lambda literal: lambda value: isinstance(value, list) and len(value) == literal.value,
        sql=lambda literal: Sql(
            "(SELECT count(*) FROM {members}) = {n}::bigint AND jsonb_typeof({value}) = 'array'", _n(literal)
        ),
        usage="`.has_length(n)`",
        meaning="the value is a list of `n` members",
    )
    OPERATORS["has_length"] = entry
    yield entry
    del OPERATORS["has_length"]


def _n(literal: Literal) -> dict[str, Any]:
    return {"n": literal}


def test_an_operator_is_one_entry(has_length: Operator, pg_conninfo: str) -> None:
    leaf = condition(("k",), has_length, 2)
    assert filter_from_json(leaf.to_json()) == leaf
    deeper = condition(("k", "b"), has_length, 2)
    filters = [leaf, not_(leaf), deeper, not_(deeper), any_of(leaf, deeper, {"j": 2}), all_of({"j": 2}, not_(leaf))]
    with open_backends(pg_conninfo) as backends:
        for backend in backends.all:
            if backend.colour != "sync":
                continue
            store: Any = backend.empty("cosine")
            store.upsert(VectorRecord(f"r{n:03}", "", [1, 0, 0], None, m) for n, m in enumerate(METADATA_EXAMPLES))
            for filter in filters:
                expected = [f"r{n:03}" for n, m in enumerate(METADATA_EXAMPLES) if matches_filter(m, filter)]
                assert store.list_document_ids(filter) == expected, (backend.name, filter)
                assert sorted(p.id for p in store.search([1, 0, 0], top_k=99, filter=filter)) == expected
