"""Metadata at the door, and the laws of patches."""

from __future__ import annotations

import copy
import datetime as dt
import enum
import math
import pickle
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import UNSET, InvalidMetadataError, apply_metadata_patch, effective_patch_keys
from agora_core.metadata import clone_metadata, copy_metadata, is_storable, text_problem
from tests.unit import generated as some

any_patches = st.dictionaries(some.keys, some.values | st.just(UNSET), max_size=4)


@given(metadata=some.metadata)
def test_copies_are_equal_and_share_nothing(metadata: Any) -> None:
    for made in (copy_metadata(metadata), clone_metadata(copy_metadata(metadata))):
        assert made == metadata
        assert repr(made) == repr(metadata)  # the types too: 1 is not True
        before = copy.deepcopy(metadata)
        _spoil(made)
        assert metadata == before


def _spoil(value: Any) -> None:
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        _spoil(item)
    if isinstance(value, (dict, list)):
        value.clear()


class Level(str, enum.Enum):
    HIGH = "high"


def test_what_stands_for_json_is_taken_by_its_plain_value() -> None:
    given_ = {
        "tuple": (1, (2,)),
        "mapping": MappingProxyType({"a": OrderedDict(b=1)}),
        "enum": Level.HIGH,
        "number": np.float64(1.5),
        "text": np.str_("a"),
    }
    made = copy_metadata(given_)
    assert made == {"tuple": [1, [2]], "mapping": {"a": {"b": 1}}, "enum": "high", "number": 1.5, "text": "a"}
    assert [type(value) for value in made.values()] == [list, dict, str, float, str]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"at": dt.datetime(2024, 1, 1)}, r"metadata\['at'\] is a datetime, which is not JSON"),  # noqa: DTZ001
        ({"tags": {1, 2}}, r"metadata\['tags'\] is a set"),
        ({"a": {"b": [0, b"x"]}}, r"metadata\['a'\]\['b'\]\[1\] is a bytes"),
        ({"k": math.nan}, r"metadata\['k'\] is the float nan"),
        ({"k": [math.inf]}, r"metadata\['k'\]\[0\] is the float inf"),
        ({"k": 2**63}, r"metadata\['k'\] is an int outside signed 64 bits"),
        ({"k": -(2**63) - 1}, "outside signed 64 bits"),
        ({1: "a"}, "has the key 1 of type int"),
        ({"a": {None: 1}}, r"metadata\['a'\] has the key None of type NoneType"),
        ({"k": "a\x00"}, r"metadata\['k'\] contains U\+0000"),
        ({"k": ["\udfff"]}, "lone surrogate"),
        ({"k\x00": 1}, r"a key of metadata contains U\+0000"),
        ({"k": UNSET}, "which is not JSON"),
        ({"k": np.array([1])}, "is a ndarray"),
        ({"k": 1j}, "is a complex"),
        ("text", "must be a mapping or None, got str"),
        ([("k", 1)], "must be a mapping or None, got list"),
    ],
)
def test_refusals_name_the_place_and_the_type(metadata: Any, message: str) -> None:
    with pytest.raises(InvalidMetadataError, match=f"^record 'r': .*{message}"):
        copy_metadata(metadata, where="record 'r'")


def test_nesting_is_bounded() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    with pytest.raises(InvalidMetadataError, match="nested deeper than 64"):
        copy_metadata({"k": deep})


def test_the_ends_of_64_bits_are_inside() -> None:
    ends = {"low": -(2**63), "high": 2**63 - 1}
    assert copy_metadata(ends) == ends


@given(st.text(alphabet=st.characters() | st.sampled_from("\x00\ud800a"), max_size=5))
def test_storable_text(text: str) -> None:
    assert is_storable(text) is (text_problem(text) is None)
    assert is_storable(text) is not ("\x00" in text or any(0xD800 <= ord(c) < 0xE000 for c in text))


@given(metadata=some.metadata, patch=any_patches)
def test_a_patch_is_a_shallow_merge(metadata: Any, patch: dict[str, Any]) -> None:
    before, given_patch = copy.deepcopy(metadata), dict(patch)
    result = apply_metadata_patch(metadata, patch)
    expected = dict(metadata or {})
    for key, value in patch.items():
        if value is None:
            expected.pop(key, None)
        elif value is not UNSET:
            expected[key] = value
    assert result == expected
    assert list(result) == list(expected)
    assert metadata == before
    assert patch == given_patch


@given(metadata=some.metadata, patch=any_patches)
def test_laws_of_patches(metadata: Any, patch: dict[str, Any]) -> None:
    once = apply_metadata_patch(metadata, patch)
    assert apply_metadata_patch(once, patch) == once
    assert apply_metadata_patch(metadata, {}) == (metadata or {})
    keys = effective_patch_keys(patch)
    assert keys == [key for key, value in patch.items() if value is not UNSET]
    assert apply_metadata_patch(metadata, {key: patch[key] for key in keys}) == once
    for key in keys:
        assert (key in once) is (patch[key] is not None)


@given(metadata=some.metadata, first=some.patches, second=some.patches)
def test_the_later_patch_wins(metadata: Any, first: dict[str, Any], second: dict[str, Any]) -> None:
    one_by_one = apply_metadata_patch(apply_metadata_patch(metadata, first), second)
    assert one_by_one == apply_metadata_patch(metadata, {**first, **second})


def test_a_patched_value_is_not_shared_with_the_patch() -> None:
    patch: dict[str, Any] = {"acl": {"read": ["a"]}}
    result = apply_metadata_patch(None, patch)
    patch["acl"]["read"].append("b")
    assert result == {"acl": {"read": ["a"]}}


def test_a_nested_null_is_data() -> None:
    assert apply_metadata_patch({"a": {"x": 1}}, {"a": {"y": None}}) == {"a": {"y": None}}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "patch must be a mapping, got NoneType"),
        ([("a", 1)], "patch must be a mapping, got list"),
        ({1: 2}, "the patch has the key 1 of type int"),
        ({"a": {"b": UNSET}}, r"the value of 'a'\['b'\] is a _Unset"),
        ({"a": math.nan}, "the value of 'a' is the float nan"),
        ({"a": {1}}, "the value of 'a' is a set"),
    ],
)
def test_patches_are_refused_whole(patch: Any, message: str) -> None:
    with pytest.raises(InvalidMetadataError, match=message):
        apply_metadata_patch({}, patch)
    with pytest.raises(InvalidMetadataError, match=message):
        effective_patch_keys(patch)


def test_unset_is_one_and_has_no_truth_value() -> None:
    assert pickle.loads(pickle.dumps(UNSET)) is UNSET
    assert copy.deepcopy(UNSET) is UNSET
    assert repr(UNSET) == "UNSET"
    with pytest.raises(TypeError, match="is UNSET"):
        bool(UNSET)
