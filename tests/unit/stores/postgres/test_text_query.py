"""What a user types, taken apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core.errors import InvalidArgumentError
from agora_core.stores.postgres.text_search import parse_text_query, without_stop_words


@pytest.mark.parametrize(
    ("query", "terms", "phrases", "excluded"),
    [
        ("heat pump", "heat pump", (), ()),
        ('"heat pump" cost', "cost heat pump", ("heat pump",), ()),
        ("heat -price", "heat", (), ("price",)),
        ('heat -"used car" pump', "heat pump", (), ("used car",)),
        ("well-known co-op", "well-known co-op", (), ()),
        ("a -- b - c", "a -- b - c", (), ()),
        ('5" pipe', '5" pipe', (), ()),
        ('"open', '"open', (), ()),
        ('""', "", (), ()),
        ("   ", "", (), ()),
        ("-only", "", (), ("only",)),
        ("nul\x00 \ud800", "nul", (), ()),
    ],
)
def test_queries(query: str, terms: str, phrases: tuple[str, ...], excluded: tuple[str, ...]) -> None:
    parsed = parse_text_query(query, drop_stop_words=False)
    assert (parsed.terms, parsed.phrases, parsed.excluded) == (terms, phrases, excluded)
    assert parsed.is_blank is (not terms)


def test_stop_words_of_the_language_that_most_belong_to_are_left_out() -> None:
    assert without_stop_words(["what", "is", "the", "zebra", "doing", "in", "the", "garden"]) == ["zebra", "garden"]
    assert without_stop_words(["wo", "ist", "die", "Pumpe", "und", "der", "Motor"]) == ["Pumpe", "Motor"]
    assert without_stop_words(["zebra", "garden"]) == ["zebra", "garden"]
    assert without_stop_words(["don't", "up-to-date"]) == ["up-to-date"]


def test_a_query_of_stop_words_only_keeps_them() -> None:
    parsed = parse_text_query("to be or not to be", drop_stop_words=True)
    assert parsed.terms == parsed.all_terms == "to be or not to be"
    assert parse_text_query('the "not to be"', drop_stop_words=True).terms == "not to be"


def test_a_query_must_be_text() -> None:
    with pytest.raises(InvalidArgumentError, match="query must be a str, got NoneType"):
        parse_text_query(None, drop_stop_words=True)


@given(st.text())
def test_nothing_that_can_be_typed_is_an_error(query: str) -> None:
    parsed = parse_text_query(query, drop_stop_words=True)
    assert "\x00" not in parsed.terms + "".join(parsed.phrases) + "".join(parsed.excluded)
    assert parsed.all_terms or not parsed.terms
