"""Queries: plain ones are words, web ones have phrases and exclusions, alike for every index."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import InvalidArgumentError
from agora_core.keyword import UnicodeTokenizer, get_tokenizer, parse_query

UNICODE = UnicodeTokenizer()


def found(query: str, text: str, tokenizer: str = "unicode") -> bool:
    analyser = get_tokenizer(tokenizer)
    parsed = parse_query(query, analyser, syntax="web")
    return any(term in analyser(text) for term in parsed.weights) and parsed.admits(analyser, text)


@pytest.mark.parametrize(
    ("query", "text", "wanted"),
    [
        ('"heat pump"', "A heat pump heats.", True),
        ('"heat pump"', "pump heat", False),
        ('"heat pump"', "heat the pump", False),
        ('"HEAT  pump!" price', "price of a Heat-Pump", True),
        ("pump -price", "pump and price", False),
        ("pump -price", "pump, priceless", True),
        ('pump -"used car"', "a used red car, a pump", True),
        ('pump -"used car"', "a used car, a pump", False),
        ("pump -used/car", "pump used-car", False),
        ("tar - xvf", "tar xvf", True),
        ("pump -", "pump", True),
        ("-price", "pump", False),
        ('-price -"a b"', "price a b", False),
        ('""', "anything", False),
        ('"pump', "pump", True),
        ('5"pump"', "5 pump", True),
        ('(title:"heat pump")', "heat pump", True),
        ('(title:"heat pump")', "title pump heat", False),
        ('"学习算法"', "机器学习算法很多", True),
        ('"学习算法"', "学习的算法", False),
        ('"学习 algo"', "机器学习 algo", True),
        ('"法"', "算法", True),
        ("机器 -法", "机器算法", False),
        ("机器 -算法", "机器 法算", True),
        ('"größe xl"', "Gro\u0308ße XL", True),
    ],
)
def test_web_syntax_means_phrases_and_exclusions(query: str, text: str, wanted: bool) -> None:
    assert found(query, text) is wanted


def test_a_phrase_keeps_the_stop_words_that_a_query_drops() -> None:
    assert found('"heat of the pumps"', "the heat of the pump", "english")
    assert not found('"heat of the pumps"', "the heat pump", "english")
    assert not found('"heat pump"', "heat of the pump", "english")


@given(st.text(alphabet='abc -"\u2014\n算法', max_size=30))
def test_a_plain_query_has_no_syntax(query: str) -> None:
    parsed = parse_query(query, UNICODE)
    assert parsed.is_plain
    assert list(parsed.weights) == list(dict.fromkeys(UNICODE.query(query)))
    assert parse_query(query, UNICODE, syntax="plain") == parsed


@given(st.text(alphabet='abc -"\u2014\n算法', max_size=30))
def test_a_web_query_without_syntax_is_a_plain_one(query: str) -> None:
    plain = re.sub('["-]', " ", query)
    assert parse_query(plain, UNICODE, syntax="web") == parse_query(plain, UNICODE)


@given(st.text(alphabet='ab -"', max_size=30), st.text(alphabet="ab ", max_size=20))
def test_nothing_typed_is_an_error_and_admission_is_that_of_its_parts(query: str, text: str) -> None:
    parsed = parse_query(query, UNICODE, syntax="web")
    words = f" {' '.join(UNICODE(text))} "
    wanted = all(f" {' '.join(phrase.spelled)} " in words for phrase in parsed.phrases)
    unwanted = any(f" {' '.join(phrase.spelled)} " in words for phrase in parsed.excluded)
    assert parsed.admits(UNICODE, text) is (wanted and not unwanted)


def test_what_is_no_query_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="query must be a str, got int"):
        parse_query(3, UNICODE)
    with pytest.raises(InvalidArgumentError, match="syntax must be 'plain' or 'web', got 'sql'"):
        parse_query("a", UNICODE, syntax="sql")
