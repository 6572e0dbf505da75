"""Filters as the server answers them, against what they mean; and the token function against Python's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

from agora_core import any_of, field, matches_filter, not_
from agora_core.filters import compile_filter
from agora_core.stores.postgres.conditions import compile_condition
from agora_core.stores.postgres.layout import Layout, PgVectorColumns
from agora_core.stores.postgres.rows import to_json_text
from agora_core.stores.postgres.schema import document_id_of_sql, tokens_function
from agora_core.stores.postgres.tokens import metadata_tokens
from tests.unit import generated

METADATA, TOKENS = sql.Identifier("t", "metadata"), sql.Identifier("t", "tokens")
WAYS = [{"tokens": TOKENS}, {"tokens": None}, {"tokens": None, "containment": True}]


@pytest.fixture(scope="module")
def server(pg_conninfo: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(pg_conninfo, autocommit=True) as connection:
        connection.execute(tokens_function(Layout("x", None, PgVectorColumns(), 3, "cosine")))
        yield connection


def answers(server: psycopg.Connection[Any], metadata: Any, filter: Any) -> list[bool]:
    """Return what each way of writing the filter says of a record."""
    row = sql.SQL("(SELECT m AS metadata, agora_metadata_tokens_v1(m) AS tokens FROM (SELECT %(m)s::jsonb) AS x(m))")
    found = []
    for way in WAYS:
        condition = compile_condition(compile_filter(filter), metadata=METADATA, **way)  # type: ignore[arg-type]
        query = sql.SQL("SELECT {}, (SELECT count(*) FROM {} AS t WHERE {}) FROM {} AS t").format(
            condition.strict, row, condition.clause, row
        )
        text = None if metadata is None else to_json_text(metadata)
        strict, rows = server.execute(query, {**condition.parameters, "m": text}).fetchone() or (None, None)
        assert strict is (rows == 1)
        found.append(strict)
    return found


@settings(max_examples=300)
@given(metadata=generated.metadata, filter=generated.filters)
def test_a_filter_means_the_same_on_the_server(server: psycopg.Connection[Any], metadata: Any, filter: Any) -> None:
    assert answers(server, metadata, filter) == [matches_filter(metadata, filter)] * 3


VALUES: list[Any] = [
    *generated.SCALARS, [], [1], ["a"], ["a", "b"], [None], [True], [1.0, "1"], [["a"]], [[1], 2], [{"x": 1}],
    {}, {"x": 1}, {"x": 1.0, "y": 2}, {"x": [1]}, {"x": None}, {"0": "a"},
]  # fmt: skip
RECORDS: list[Any] = [
    None,
    {},
    {"o": {}},
    {"other": 1},
    *({"k": value} for value in VALUES),
    *({"k": {"x": value}} for value in VALUES),
]


def grid() -> Iterator[Any]:
    """Every kind of condition with every value, on a key and inside an object."""
    for place in (field("k"), field("k.x"), field("k.0")):
        yield place.exists()
        yield place.contains_all([])
        for n, value in enumerate(VALUES):
            pair = [value, VALUES[(n * 7 + 3) % len(VALUES)]]
            yield from (place == value, place.in_(pair), place.matches_any(pair))
            yield from (place.contains_any(pair), place.contains_all(pair), place.contains_all([value]))
            if isinstance(value, (int, float, str)) and not isinstance(value, bool):
                yield from (place < value, place <= value, place > value, place >= value)
            if isinstance(value, str):
                yield from (place.matches_text(value), place.matches_text(value, case_sensitive=False))
    yield from ({"k": value} for value in VALUES)


@pytest.mark.parametrize("way", range(3))
def test_every_condition_on_every_value(server: psycopg.Connection[Any], way: int) -> None:
    """Each condition and its negation, alone and in company, over all records at once."""
    server.execute("DROP TABLE IF EXISTS every_record")
    server.execute(
        "CREATE TEMP TABLE every_record AS SELECT n, m AS metadata, agora_metadata_tokens_v1(m) AS tokens "
        "FROM unnest(%s::text[]::jsonb[]) WITH ORDINALITY AS r(m, n)",
        ([None if record is None else to_json_text(record) for record in RECORDS],),
    )
    for condition in grid():
        for filter in (condition, not_(condition), not_(any_of(condition, field("other") == 1))):
            compiled = compile_condition(compile_filter(filter), metadata=METADATA, **WAYS[way])  # type: ignore[arg-type]
            found = server.execute(
                sql.SQL("SELECT coalesce(array_agg(n ORDER BY n), '{{}}') FROM every_record AS t WHERE {}").format(
                    compiled.clause
                ),
                compiled.parameters,
            ).fetchone()
            expected = [n for n, record in enumerate(RECORDS, 1) if matches_filter(record, filter)]
            assert found == (expected,), filter


HOSTILE = ["'", '"', "\\", "%s", "%(f0)s", ";--", "{", "[", "null", "\n", "\u2028", "💥", "ǅ", "İ", "ß", "x" * 3_000]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_keys_and_values(server: psycopg.Connection[Any], hostile: str) -> None:
    record = {hostile: [hostile, {hostile: hostile}], "o": {hostile: hostile}, "s": hostile}
    other = {hostile + "x": [hostile + "x"], "s": hostile + "x"}
    for matching in (
        {hostile: [hostile]},
        {hostile: [{hostile: hostile}]},
        {"o": {hostile: hostile}},
        field(["o", hostile]) == hostile,
        field("s") >= hostile,
        field("s").matches_text(hostile),
        field("s").matches_text(hostile.lower(), case_sensitive=False),
        field([hostile]).contains_all([hostile]),
        not_(field([hostile]).is_null()),
    ):
        assert answers(server, record, matching) == [matches_filter(record, matching)] * 3
        assert answers(server, other, matching) == [matches_filter(other, matching)] * 3


def test_a_key_of_a_megabyte(server: psycopg.Connection[Any]) -> None:
    key = "k" * 1_000_000
    assert answers(server, {key: 1}, {key: [1]}) == [True] * 3
    assert answers(server, {key: 1}, {key + "k": [1]}) == [False] * 3


@pytest.mark.parametrize(
    ("value", "other", "equal"),
    [
        (2.0**60, 2**60, True),
        (2**53 + 1, 2.0**53, False),
        (1e16, 10**16, True),
        (1e23, 1e23, True),
        (0.1, 0.1, True),
        (5e-324, 5e-324, True),
        (1.7976931348623157e308, 1.7976931348623157e308, True),
        (-0.0, 0, True),
        (1, True, False),
        (2**63 - 1, 2.0**63, False),
    ],
)
def test_numbers_are_compared_exactly(server: psycopg.Connection[Any], value: Any, other: Any, equal: bool) -> None:
    for record, looked_for in ((value, other), (other, value)):
        assert answers(server, {"k": record}, {"k": looked_for}) == [equal] * 3
        assert answers(server, {"k": [record]}, {"k": [looked_for]}) == [equal] * 3
        assert answers(server, {"k": record}, field("k").in_([looked_for])) == [equal] * 3


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab'\\é", max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), anything, max_size=4)
)
def test_the_server_computes_the_tokens_that_python_does(
    server: psycopg.Connection[Any], metadata: dict[str, Any]
) -> None:
    row = server.execute("SELECT agora_metadata_tokens_v1(%s::jsonb)", (to_json_text(metadata),)).fetchone()
    assert row is not None
    assert sorted(row[0]) == sorted(metadata_tokens(metadata))


@pytest.mark.parametrize("stored", [None, "null", "1", "[1]", '"a"'])
def test_what_is_no_object_has_no_tokens(server: psycopg.Connection[Any], stored: str | None) -> None:
    assert server.execute("SELECT agora_metadata_tokens_v1(%s::jsonb)", (stored,)).fetchone() == ([],)


@given(st.text(st.sampled_from("a#0123\n\r é٣"), max_size=8))
def test_the_server_agrees_which_document_an_id_belongs_to(server: psycopg.Connection[Any], record_id: str) -> None:
    from agora_core import document_id_of

    query = sql.SQL("SELECT {}").format(document_id_of_sql(sql.SQL("%s::text")))
    assert server.execute(query, (record_id,)).fetchone() == (document_id_of(record_id),)


def test_unicode_folds_without_a_locale(server: psycopg.Connection[Any]) -> None:
    for stored, needle, matches in (
        ("ÉCLAIR", "éclair", True),
        ("STRASSE", "straße", False),
        ("İstanbul", "istanbul", False),
        ("ΣΑΣ", "σασ", True),
        ("ǅ", "ǆ", True),
    ):
        filter = field("k").matches_text(needle, case_sensitive=False)
        assert answers(server, {"k": stored}, filter) == [matches] * 3
        assert matches_filter({"k": stored}, filter) is matches


def test_json_text_goes_through_the_server_unchanged(server: psycopg.Connection[Any]) -> None:
    value = {"a": [1e16, 1.0, 2**60, 1e23, 0.1, True, None, "é"], "b": {"": 5e-324}}
    row = server.execute("SELECT (%s::jsonb)::text", (to_json_text(value),)).fetchone()
    assert row is not None
    assert json.loads(row[0]) == value
