"""One answer on all stores: that of LlamaIndex's own reference function, save the exceptions listed here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from agora_core.filters import matches_filter
from llamaindex_agora.filters import to_core_filter
from tests.contract.llamaindex.filter_table import FILTERS, RECORDS
from tests.contract.llamaindex.stores import KINDS, open_adapter

PAIRS = [(record, name) for record in RECORDS for name in FILTERS]
_EQUAL = (FilterOperator.EQ, FilterOperator.NE)
_INTO_LISTS = (FilterOperator.ANY, FilterOperator.ALL, FilterOperator.CONTAINS)


def reference(metadata: dict[str, Any], filters: MetadataFilters) -> bool | None:
    """Return what their reference function answers, None where it raises. No condition means AND; older ones raise."""
    filters = filters.model_copy(update={"condition": filters.condition or FilterCondition.AND})
    try:
        return bool(build_metadata_filter_fn(lambda _: metadata, filters)("x"))
    except TypeError:
        return None


# In earlier releases the reference says that a missing key fails NE and NIN; here it satisfies them.
MISSING_FAILS = (
    reference({}, MetadataFilters(filters=[MetadataFilter(key="k", value=1, operator=FilterOperator.NE)])) is False
)


def exception(metadata: dict[str, Any], filters: MetadataFilters) -> str | None:
    """Return why our answer may differ from the reference's, None where it may not."""
    for item in filters.filters:
        assert isinstance(item, MetadataFilter)
        value = metadata.get(item.key)
        if reference(metadata, MetadataFilters(filters=[item])) is None:
            return "the reference raises; here a comparison with another type is false"
        if MISSING_FAILS and value is None and item.operator in (FilterOperator.NE, FilterOperator.NIN):
            return "the reference fails NE and NIN on a missing key"
        if item.value is None and item.key in metadata and value is None and item.operator in _EQUAL:
            return "a stored null is missing to the reference"
        if item.operator in _INTO_LISTS and value is not None and not isinstance(value, list):
            return "the reference takes what is no list for one: substrings, keys, or ALL of nothing"
        if isinstance(value, bool) and not isinstance(item.value, str):
            return "the reference takes True for 1"
        if isinstance(value, list) and True in [v for v in value if isinstance(v, bool)]:
            return "the reference takes True for 1"
    return None


def test_the_table_is_large_and_the_exceptions_few() -> None:
    excepted = [pair for pair in PAIRS if exception(RECORDS[pair[0]], FILTERS[pair[1]])]
    assert len(PAIRS) >= 150
    assert len(PAIRS) - len(excepted) >= 800
    assert {operator for f in FILTERS.values() for operator in _operators(f)} == set(FilterOperator)


def _operators(filters: MetadataFilters) -> Iterator[FilterOperator]:
    for item in filters.filters:
        assert isinstance(item, MetadataFilter)
        yield item.operator


@pytest.mark.parametrize("name", FILTERS)
def test_translation_answers_as_their_reference(name: str) -> None:
    filters = FILTERS[name]
    for record, metadata in RECORDS.items():
        ours = matches_filter(metadata, to_core_filter(filters))
        theirs = reference(metadata, filters)
        if exception(metadata, filters) is None:
            assert ours is theirs, (record, name)
        elif theirs is None:
            assert ours is not None


@pytest.fixture(scope="module", params=KINDS)
def answers(request: pytest.FixtureRequest, pg_conninfo: str) -> Iterator[dict[str, set[str]]]:
    """Return, for each filter, the records that a store finds."""
    with open_adapter(request.param, "sync", pg_conninfo) as store:
        store.add([TextNode(id_=id, text="t", metadata=m, embedding=[1.0, 0.0, 0.0]) for id, m in RECORDS.items()])
        yield {name: {n.node_id for n in store.get_nodes(filters=filters)} for name, filters in FILTERS.items()}


def test_every_store_gives_that_answer(answers: dict[str, set[str]]) -> None:
    expected = {
        name: {id for id, metadata in RECORDS.items() if matches_filter(metadata, to_core_filter(filters))}
        for name, filters in FILTERS.items()
    }
    assert answers == expected
