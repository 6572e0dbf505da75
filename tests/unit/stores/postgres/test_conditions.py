"""Filters as SQL: what is bound, what is narrowed, and that no value is ever part of a statement."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import sql

from agora_core import all_of, any_of, field, not_
from agora_core.errors import UnsupportedFilterError
from agora_core.filters import Expression, compile_filter
from agora_core.stores.postgres.conditions import ALWAYS, Condition, compile_condition
from tests.unit import generated

METADATA = sql.Identifier("t", "metadata")
TOKENS = sql.Identifier("t", "tokens")
HOSTILE = ["'; DROP TABLE x; --", "%s", "%(f0)s", "%", "\\", '"', ":x", "{}", "$1", "/*", "💥", "q" * 5_000]


def compiled(filter: Any, *, tokens: bool = True, containment: bool = False) -> Condition:
    return compile_condition(
        compile_filter(filter), metadata=METADATA, tokens=TOKENS if tokens else None, containment=containment
    )


def test_membership_is_one_condition_on_the_tokens() -> None:
    condition = compiled({"tenant": ["a", 1]})
    assert condition.clause.text == '"t"."tokens" && %(f0)s::text[]'
    assert condition.parameters == {"f0": ["=6:tenantsa", "=6:tenantn1", "[6:tenantsa", "[6:tenantn1"]}
    assert compiled({"tenant": "a"}).clause.text == '"t"."tokens" @> %(f0)s::text[]'


def test_a_long_list_is_hashed_and_not_compared_token_by_token() -> None:
    """Quadratic cost: `&&` took 10 s for a list of 3,000 ids on 20,000 rows; hashed it takes what 10 ids take."""
    ids = [f"doc-{n}" for n in range(1_000)]
    short, long = compiled({"doc": ids[:30]}), compiled({"doc": ids})
    assert "&&" in short.clause.text
    assert long.clause.text == 'EXISTS (SELECT FROM unnest("t"."tokens") AS token WHERE token = ANY (%(f0)s::text[]))'
    assert len(long.parameters["f0"]) == 2_000
    assert compiled(not_({"doc": ids})).clause.text == f"NOT {long.clause.text}"


def test_negated_membership_is_still_the_tokens() -> None:
    assert compiled(not_({"k": ["a"]})).clause.text == 'NOT "t"."tokens" && %(f0)s::text[]'


def test_what_tokens_only_narrow_is_looked_at_as_well_and_never_negated() -> None:
    narrowed = compiled(field("k") == {"a": 1}).clause.text
    assert narrowed.startswith('("t"."tokens" @> ')
    assert "= %(f2)s::jsonb" in narrowed
    assert "tokens" not in compiled(not_(field("k") == {"a": 1})).clause.text
    assert "tokens" not in compiled(not_(any_of(field("k.x") == 1, field("o") == [1]))).clause.text


def test_a_table_without_tokens_is_narrowed_by_containment_where_it_has_that_index() -> None:
    text = compiled({"k": ["a"]}, tokens=False, containment=True)
    assert '"t"."metadata" @> ANY' in text.clause.text
    assert '{"k":"a"}' in text.parameters["f0"]
    assert "@>" not in compiled({"k": ["a"]}, tokens=False).clause.text
    assert "@>" not in compiled(not_({"k": ["a"]}), tokens=False, containment=True).clause.text


def test_strings_are_ordered_by_code_point_whatever_the_database_is_set_to() -> None:
    assert 'COLLATE "C" >= ' in compiled(field("k") >= "a").clause.text


def test_no_filter_is_always_and_a_deny_is_false() -> None:
    assert compile_condition(None, metadata=METADATA) is ALWAYS
    assert compiled({}) is ALWAYS
    assert compiled({"k": []}).clause.text == "false"


@given(generated.filters, st.booleans(), st.booleans())
def test_statements_of_one_shape_have_one_text(filter: Any, tokens: bool, containment: bool) -> None:
    condition = compiled(filter, tokens=tokens, containment=containment)
    text = condition.clause.text
    assert all(f"%({name})s" in text for name in condition.parameters)
    bare = text
    for name in sorted(condition.parameters, key=len, reverse=True):
        bare = bare.replace(f"%({name})s", "")
    # What is left is ours: no placeholder, no value.
    assert "%" not in bare
    for value in ("tenant", "__proto__", "ключ", "a.b", "q\"'", "a'b", "true'", "é"):
        assert value not in bare


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("tokens", [True, False])
def test_no_hostile_key_or_value_is_ever_part_of_a_statement(hostile: str, tokens: bool) -> None:
    here = field([hostile])
    conditions: list[Expression] = [
        here == hostile,
        here != {hostile: hostile},
        here.in_([hostile]),
        here.contains_any([hostile, [hostile]]),
        here.contains_all([hostile]),
        here >= hostile,
        here.exists(),
        here.matches_text(hostile),
        here.matches_text(hostile, case_sensitive=False),
        here.starts_with(hostile),
        field(["a", hostile]) == 1,
        compile_filter({hostile: [hostile, {hostile: 1}]}),
    ]
    for condition in conditions:
        plain = compiled(_harmless(condition), tokens=tokens)
        assert compiled(condition, tokens=tokens).clause.text == plain.clause.text
    assert compiled(all_of(*conditions), tokens=tokens, containment=True).parameters


def _harmless(expression: Expression) -> Expression:
    """The same filter with harmless words in it."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {plain(key): plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        return "word" if isinstance(value, str) and value in HOSTILE else value

    def replaced(data: Any, key: str | None = None) -> Any:
        if isinstance(data, dict):
            return {name: replaced(item, name) for name, item in data.items()}
        if isinstance(data, list):
            return [replaced(item) for item in data]
        return plain(data)

    data = replaced(_keys(expression.to_json()))
    return Expression.from_json(data)


def _keys(data: Any) -> Any:
    if isinstance(data, dict):
        return {("word" if key in HOSTILE else key): _keys(item) for key, item in data.items()}
    return [_keys(item) for item in data] if isinstance(data, list) else data


def test_more_conditions_than_parameters_are_refused() -> None:
    many = any_of(*(field("k") >= n for n in range(40_000)))
    with pytest.raises(UnsupportedFilterError, match=r"conditions, where one statement takes 60000"):
        compiled(many)
    # Values of one membership are one parameter.
    assert len(compiled({"k": list(range(40_000))}).parameters) == 1
