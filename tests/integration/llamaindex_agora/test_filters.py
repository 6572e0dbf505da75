"""Faults of filters in LlamaIndex's own stores and in its neighbours, each shown to be absent here, on every store.

A test is named after what breaks elsewhere; a number is that of an issue or a pull request of run-llama/llama_index.
"""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
)

from agora_core.errors import InvalidFilterError, UnsafeRemovalError
from agora_core.filters import all_of, any_of, field, not_
from agora_core.testing import in_memory_retriever
from llamaindex_agora import (
    AccessFilterPostprocessor,
    AgoraReranker,
    AgoraRetriever,
    InjectContextPostprocessor,
    to_core_filter,
)
from tests.contract.llamaindex.stores import Colour
from tests.integration.llamaindex_agora.scripted import DIMENSION

Op = FilterOperator
NASTY = [
    "O'Brien",
    'say "x"',
    ":x and team :b",
    "100%",
    "a--b",
    "back\\slash",
    "x' OR '1'='1",
    "%s",
    "{0}",
    "$1",
    "日本",
]


def vector(axis: int = 0) -> list[float]:
    return [float(place == axis) for place in range(DIMENSION)]


def node(id: str, **metadata: Any) -> TextNode:
    return TextNode(id_=id, text=f"text of {id}", metadata=metadata, embedding=vector())


def one(key: str, value: Any, operator: Op = Op.EQ) -> MetadataFilter:
    return MetadataFilter(key=key, value=value, operator=operator)


def group(*filters: Any, condition: FilterCondition = FilterCondition.AND) -> MetadataFilters:
    return MetadataFilters(filters=list(filters), condition=condition)


def found(store: Colour, filters: Any) -> set[str]:
    """Return what a query finds, which must be what `get_nodes` finds."""
    got = {node.node_id for node in store.get_nodes(filters=filters)}
    theirs = filters if isinstance(filters, MetadataFilters) else None
    if theirs is not None:
        result = store.query(VectorStoreQuery(query_embedding=vector(), similarity_top_k=100, filters=theirs))
        assert set(result.ids) == got
    return got


def test_keys_and_values_pasted_into_sql(store: Colour) -> None:
    """22475 and the family of CVE-2025-1793: a value or a key ends the statement, or is taken for a parameter."""
    store.add(
        [node(f"value {text}", name=text) for text in NASTY] + [node(f"key {text}", **{text: 1}) for text in NASTY]
    )
    for text in NASTY:
        assert found(store, group(one("name", text))) == {f"value {text}"}
        assert found(store, group(one(text, 1))) == {f"key {text}"}
        assert found(store, group(one("acl", ["public"], Op.ANY), one("name", text))) == set()


def test_strings_that_look_like_numbers_are_compared_as_numbers(store: Colour) -> None:
    """15962, 18648, 19060: "007" and "2024_123" are cast to float."""
    store.add([node("padded", k="007"), node("plain", k="7"), node("under", k="2024_123"), node("number", k=7)])
    assert found(store, group(one("k", "007"))) == {"padded"}
    assert found(store, group(one("k", "7"))) == {"plain"}
    assert found(store, group(one("k", "2024_123"))) == {"under"}
    assert found(store, group(one("k", 7))) == {"number"}
    assert found(store, group(one("k", ["7", "007"], Op.IN))) == {"plain", "padded"}


def test_eq_with_a_number_crashes_on_a_list(store: Colour) -> None:
    """18648; and one odd row fails a whole range query."""
    store.add([node("list", k=[1, 2]), node("text", k="n/a"), node("one", k=1), node("none", k=None), node("no")])
    assert found(store, group(one("k", 1))) == {"one"}
    assert found(store, group(one("k", 0, Op.GT))) == {"one"}
    assert found(store, group(one("k", 1, Op.CONTAINS))) == {"list"}


def test_an_unsupported_operator_matches_everything(store: Colour) -> None:
    """20237: a filter that a store did not know was left out."""
    store.add([node("a")])
    unknown = MetadataFilters.model_construct(
        filters=[MetadataFilter.model_construct(key="k", value=1, operator="near")], condition=FilterCondition.AND
    )
    with pytest.raises(InvalidFilterError, match="near"):
        store.get_nodes(filters=unknown)
    with pytest.raises(InvalidFilterError, match="XOR"):
        to_core_filter(MetadataFilters.model_construct(filters=[one("k", 1)], condition="XOR"))
    for filters in (object(), "k == 1", 3):
        with pytest.raises(InvalidFilterError):
            store.get_nodes(filters=filters)


def test_or_is_executed_as_and_and_not_is_missing(store: Colour) -> None:
    """9376, 10557, 17206, 20861: and the nesting of 16310, which their reference function refuses."""
    store.add([node("a", k=1, j=1), node("b", k=2, j=1), node("c", k=3, j=2)])
    either = group(one("k", 1), one("k", 2), condition=FilterCondition.OR)
    assert found(store, either) == {"a", "b"}
    assert found(store, group(either, one("k", 2, Op.NE))) == {"a"}
    assert found(store, group(either, condition=FilterCondition.NOT)) == {"c"}
    assert found(store, group(group(one("j", 2)), either, condition=FilterCondition.OR)) == {"a", "b", "c"}


def test_booleans_cannot_be_asked_for(store: Colour) -> None:
    """16310: pydantic refuses a bool in a MetadataFilter; a mapping or an expression says it."""
    store.add([node("yes", flag=True), node("no", flag=False), node("one", flag=1), node("text", flag="true")])
    assert found(store, {"flag": True}) == {"yes"}
    assert found(store, field("flag") == False) == {"no"}  # noqa: E712
    assert found(store, group(one("flag", 1))) == {"one"}
    assert found(store, group(one("flag", "true"))) == {"text"}


def test_dates_cannot_be_compared(store: Colour) -> None:
    """16318, 19639: ISO dates compare as strings, in code point order."""
    store.add([node(day, day=day) for day in ("2023-12-31", "2024-01-01", "2024-06-30")])
    assert found(store, group(one("day", "2024-01-01", Op.GTE), one("day", "2024-06-30", Op.LT))) == {"2024-01-01"}


def test_empty_lists_cannot_be_found(store: Colour) -> None:
    """17849."""
    store.add([node("empty", tags=[]), node("full", tags=["x"]), node("missing"), node("null", tags=None)])
    assert found(store, group(one("tags", None, Op.IS_EMPTY))) == {"empty", "missing", "null"}
    assert found(store, field("tags") == []) == {"empty"}


def test_in_is_implemented_as_contains(store: Colour) -> None:
    """11406; Qdrant matches an element of a list for IN and for EQ."""
    store.add([node("list", k=["public"]), node("text", k="public"), node("part", k="public library")])
    assert found(store, group(one("k", ["public"], Op.IN))) == {"text"}
    assert found(store, group(one("k", "public"))) == {"text"}
    assert found(store, group(one("k", "public", Op.CONTAINS))) == {"list"}
    assert found(store, group(one("k", ["public"], Op.ANY))) == {"list"}


def test_a_missing_key_fails_ne_and_nin(store: Colour) -> None:
    """Postgres and Qdrant leave out rows without the key, their reference keeps them."""
    store.add([node("a", k=1), node("b", k=2), node("missing")])
    assert found(store, group(one("k", 1, Op.NE))) == {"b", "missing"}
    assert found(store, group(one("k", [1], Op.NIN))) == {"b", "missing"}


def test_empty_lists_of_values_are_syntax_errors(store: Colour) -> None:
    """IN [] is an SQL error in one store and NotImplementedError in another; it is the deny."""
    store.add([node("a", k=["x"]), node("b", k="x")])
    assert found(store, group(one("k", [], Op.IN))) == set()
    assert found(store, group(one("k", [], Op.ANY))) == set()
    assert found(store, {"k": []}) == set()


def test_wildcards_in_a_text_match(store: Colour) -> None:
    """`%` and `_` match anything in Postgres."""
    store.add([node("bob", k="bob"), node("percent", k="50%"), node("under", k="a_b")])
    assert found(store, group(one("k", "%", Op.TEXT_MATCH))) == {"percent"}
    assert found(store, group(one("k", "_", Op.TEXT_MATCH))) == {"under"}
    assert found(store, group(one("k", "BO", Op.TEXT_MATCH_INSENSITIVE))) == {"bob"}


def test_two_conditions_on_one_key_become_one(store: Colour) -> None:
    """A user's condition on `audience` replaces the one that guards it."""
    store.add([node("both", audience=["public", "mine"]), node("mine", audience=["mine"])])
    guard, asked = one("audience", ["public"], Op.ANY), one("audience", ["mine"], Op.ANY)
    assert found(store, group(guard, asked)) == {"both"}
    assert found(store, group(asked, guard)) == {"both"}


def test_not_in_escapes_the_and_beside_it(store: Colour) -> None:
    """haystack-core-integrations 3586: an OR for missing keys, without parentheses."""
    store.add([node("a", k=1, acl="x"), node("b", acl="y"), node("c", k=2, acl="y"), node("d", k=2, acl="x")])
    assert found(store, group(one("k", [1], Op.NIN), one("acl", "x"))) == {"d"}
    assert found(store, all_of(field("k").not_in([1]), not_(any_of(field("acl") == "y")))) == {"d"}


def test_a_text_equal_to_a_sentinel_is_lost(store: Colour) -> None:
    """haystack-core-integrations 3593: a value that an implementation keeps for itself."""
    words = ["NO_VALUE", "no_value", "None", "null", "UNSET", "_agora_node", "[]", "{}", ""]
    store.add([node(f"is {word}", k=word) for word in words])
    for word in words:
        assert found(store, group(one("k", word))) == {f"is {word}"}
    store.delete("None")
    assert len(store.get_nodes()) == len(words)


def test_an_empty_filter_in_a_destructive_call_empties_the_store(store: Colour) -> None:
    """`delete_nodes(filters=MetadataFilters(filters=[]))` empties Simple, PG and Qdrant; so does `delete_nodes()`."""
    store.add([node("a")])
    refused: list[dict[str, Any]] = [{}, {"filters": group()}, {"filters": {}}, {"filters": all_of()}]
    for bad in refused:
        with pytest.raises(UnsafeRemovalError):
            store.delete_nodes(**bad)
    store.delete_nodes(filters={"k": []})
    store.delete_nodes(node_ids=[])
    assert [node.node_id for node in store.get_nodes()] == ["a"]
    assert store.get_nodes(node_ids=[]) == []


def test_a_misspelt_filter_is_swallowed() -> None:
    """17857: `filter=` for `filters=` retrieves without any. (Their own `VectorIndexRetriever` still swallows it.)"""
    core = in_memory_retriever(["x"])
    with pytest.raises(TypeError):
        AgoraRetriever(retriever=core, filters={"k": []})
    with pytest.raises(TypeError):
        InjectContextPostprocessor(retriever=core, retreival_filter=lambda _: {"k": []})
    with pytest.raises(TypeError):
        AccessFilterPostprocessor(filters={"k": []})  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        AgoraReranker(reranker=core, top_k=3)


def test_a_filter_that_changes_under_a_retriever() -> None:
    """A mapping that the caller goes on using is not the retriever's."""
    filter: dict[str, Any] = {"acl": ["none"]}
    retriever = AgoraRetriever(retriever=in_memory_retriever(["red fox"]), filter=filter)
    filter["acl"] = ["public"]
    filter.clear()
    assert retriever.retrieve("red fox") == []


# 4 (19060, an index that a cast defeats), 13 (20128, a GIN index for tags): what an index answers is decided in the
# store of the core and tested with its query plans; there is no cast, and the adapter writes no SQL.
# `update_by_filter({})` changes every row in pgvector-haystack: there is no update by filter here.
