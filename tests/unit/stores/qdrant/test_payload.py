"""Tokens decide who sees what: two values must share one exactly when they are equal as JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core.filters.literals import JsonType, Literals, json_equal
from agora_core.filters.operators import EXISTS, Lookup
from agora_core.filters.paths import Path
from agora_core.stores.fingerprints import digest
from agora_core.stores.qdrant.numbers import number_parts
from agora_core.stores.qdrant.payload import (
    filter_object,
    looked_for,
    number_keys,
    patched_slots,
    point_payload,
    slot_object,
    slot_of,
    tokens_key,
)
from tests.unit import generated

PATH = ("k",)


def exact_token(path: Path, value: Any) -> str:
    (token,) = looked_for(path, Lookup(equal=Literals([value])))
    return token


def member_token(path: Path, value: Any) -> str:
    (token,) = looked_for(path, Lookup(holds=Literals([value])))
    return token


def type_token(path: Path, kind: JsonType) -> str:
    (token,) = looked_for(path, Lookup(types=(kind,)))
    return token


@given(generated.values, generated.values)
def test_values_share_their_exact_token_exactly_when_equal_as_json(left: Any, right: Any) -> None:
    same = exact_token(PATH, left) == exact_token(PATH, right)
    assert same is json_equal(left, right)


@given(generated.values, generated.values)
def test_a_record_has_the_exact_token_of_its_value_and_of_no_other(value: Any, other: Any) -> None:
    tokens = slot_object(value)["t"]
    assert (exact_token(PATH, other) in tokens) is json_equal(value, other)


@given(generated.values, generated.values)
def test_a_record_has_member_tokens_of_its_elements_only(value: Any, other: Any) -> None:
    tokens = slot_object(value)["t"]
    holds = isinstance(value, list) and any(json_equal(item, other) for item in value)
    assert (member_token(PATH, other) in tokens) is holds


@given(generated.values)
def test_a_value_has_exactly_one_type_token(value: Any) -> None:
    tokens = slot_object(value)["t"]
    assert sum(token in tokens for token in looked_for(PATH, EXISTS.lookup(None))) == 1


@given(st.text(alphabet='a=~snbzo[]",.#', max_size=6), st.text(alphabet='a=~snbzo[]",.#', max_size=6))
def test_no_value_can_pose_as_another_path_or_kind(key: str, text: str) -> None:
    below = slot_object({key: text})["t"]
    nested = ("k", key)
    assert exact_token(nested, text) in below
    assert exact_token(PATH, text) not in below
    assert member_token(nested, text) not in below
    assert type_token(("k", key, key), "string") not in below


def test_a_scalar_and_a_list_that_holds_it_share_no_token() -> None:
    assert set(slot_object("a")["t"]).isdisjoint(slot_object(["a"])["t"])


def test_readable_tokens() -> None:
    assert slot_object("acme") == {"t": ['="acme"', "s"]}
    assert slot_object(["a", 1]) == {"t": ['=["a",1]', "a", '~"a"', "~1"]}
    assert slot_object({"x": None})["t"] == ['={"x":null}', "o", '["x"]=null', '["x"]z']


def test_long_values_are_stored_as_a_digest() -> None:
    (exact, kind) = slot_object("x" * 10_000)["t"]
    assert len(exact) == 49
    assert exact.startswith("#")
    assert kind == "s"
    assert exact != slot_object("x" * 9_999)["t"][0]


def test_numbers_are_mirrored_where_they_stand_alone() -> None:
    assert tuple(slot_object(7)["n"].values()) == number_parts(7)
    assert "n" not in slot_object(True)
    assert "n" not in slot_object([7])
    nested = slot_object({"a": {"b": 2.5}, "c": [1]})
    (place,) = nested["p"]
    assert tuple(nested["p"][place].values()) == number_parts(2.5)
    assert number_keys(("k", "a", "b"))[0] == f"agora.{slot_of('k')}.p.{place}.h"


@pytest.mark.parametrize("key", ["a.b", "", 'q"t', "a[]", "a[0]", "ключ", "__proto__", "x y", "v", "t"])
def test_every_key_has_a_slot_that_needs_no_quoting(key: str) -> None:
    slot = slot_of(key)
    assert len(slot) == 33
    assert slot.isascii()
    assert slot.isalnum()
    assert slot[0] == "k"
    assert tokens_key((key,)) == f"agora.{slot}.t"


def test_payload_of_a_record() -> None:
    payload = point_payload("faq#2", "text", None, None)
    shown = digest("text")
    assert payload == {"id": "faq#2", "documentId": "faq", "text": "text", "agora": {"v": 1, "d": shown}}
    payload = point_payload("faq", "text", "", {})
    assert payload["source"] == ""
    assert payload["metadata"] == {}
    payload = point_payload("a#1#2", "text", "s.md", {"k": [1]})
    assert payload["documentId"] == "a#1"
    assert payload["agora"] == {**filter_object({"k": [1]}), "d": shown}
    payload = point_payload("a#0", "text", None, None, "Title")
    assert payload["agora"] == {"v": 1, "c": "Title", "d": f"{digest('Title' + chr(10) * 2 + 'text')} {shown}"}


def test_a_patch_rewrites_the_slots_it_names_and_deletes_by_null() -> None:
    assert patched_slots({"a": 1, "b": None}) == {slot_of("a"): slot_object(1), slot_of("b"): None}
