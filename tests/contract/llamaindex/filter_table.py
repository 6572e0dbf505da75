"""Records and filters for the LlamaIndex operators: every operator against every kind of value."""

from __future__ import annotations

from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

RECORDS: dict[str, dict[str, Any]] = {
    "missing": {},
    "null": {"k": None},
    "empty": {"k": ""},
    "empty list": {"k": []},
    "one": {"k": 1},
    "float": {"k": 2.5},
    "text one": {"k": "1"},
    "padded": {"k": "01"},
    "true": {"k": True},
    "bob": {"k": "bob"},
    "upper": {"k": "BOB"},
    "quote": {"k": "O'Brien"},
    "sql": {"k": "x' OR '1'='1"},
    "percent": {"k": "100% :x -- \\ %s _"},
    "unicode": {"k": "日本 É"},
    "list": {"k": ["public", "role:ADMIN"]},
    "numbers": {"k": [1, 2]},
    "mixed": {"k": ["1", 1, None]},
    "dotted": {"k.a": "bob", "k": {"a": "bob"}},
    "two": {"k": "bob", "j": 3},
}

Op = FilterOperator


def one(operator: FilterOperator, value: Any, key: str = "k") -> MetadataFilter:
    return MetadataFilter(key=key, value=value, operator=operator)


SINGLE: list[MetadataFilter] = [
    *(one(Op.EQ, value) for value in (1, 1.0, "1", "01", "bob", "", "O'Brien", "x' OR '1'='1", "日本 É", 2.5)),
    one(Op.EQ, "100% :x -- \\ %s _"),
    one(Op.EQ, ["public", "role:ADMIN"]),
    one(Op.EQ, "public"),
    one(Op.EQ, "bob", key="k.a"),
    *(one(Op.NE, value) for value in (1, "bob", "public", "absent")),
    *(one(Op.GT, value) for value in (0, 1, "bo")),
    *(one(Op.GTE, value) for value in (1, 2.5, "bob")),
    *(one(Op.LT, value) for value in (2, "c")),
    *(one(Op.LTE, value) for value in (1, "bob")),
    *(one(Op.IN, value) for value in ([1, 2], ["1", "bob"], ["public"], [])),
    *(one(Op.NIN, value) for value in ([1], ["bob", "1"], [])),
    *(one(Op.ANY, value) for value in (["public", "x"], [1], ["1"], [])),
    *(one(Op.ALL, value) for value in (["public", "role:ADMIN"], [1, 2], [])),
    *(one(Op.CONTAINS, value) for value in ("public", 1, "1", "o")),
    *(one(Op.TEXT_MATCH, value) for value in ("bo", "%", "_", "O'", "日", "")),
    *(one(Op.TEXT_MATCH_INSENSITIVE, value) for value in ("BO", "é", "o'b")),
    one(Op.IS_EMPTY, None),
    one(Op.EQ, None),
    one(Op.NE, None),
]

GROUPS: list[MetadataFilters] = [
    MetadataFilters(filters=[one(Op.EQ, "bob"), one(Op.EQ, 3, "j")], condition=FilterCondition.AND),
    MetadataFilters(filters=[one(Op.EQ, "bob"), one(Op.EQ, 1)], condition=FilterCondition.OR),
    MetadataFilters(filters=[one(Op.EQ, "bob"), one(Op.EQ, 1)], condition=FilterCondition.NOT),
    MetadataFilters(filters=[one(Op.NE, "bob"), one(Op.NE, 1)], condition=None),
    MetadataFilters(filters=[one(Op.NE, 3, "j")], condition=FilterCondition.NOT),
]

FILTERS: dict[str, MetadataFilters] = {
    **{f"{f.key} {f.operator.name} {f.value!r}": MetadataFilters(filters=[f]) for f in SINGLE},
    **{f"group {n}": group for n, group in enumerate(GROUPS)},
}
