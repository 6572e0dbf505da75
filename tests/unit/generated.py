"""Random records, filters and patches, made to meet each other: few keys and values, some of them hostile."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from agora_core import Expression, Field, VectorRecord, all_of, any_of, field, not_

KEYS = ["k", "tenant", "a.b", "", "__proto__", "ключ", "q\"'", "a[]", "o"]
SCALARS: list[Any] = [
    None, True, False, 0, 1, 1.0, 2, -1, 1.5, 2**53 + 1, 2.0**53,
    "1", "true", "", "a", "b", "A", "ab", "null", "é", "a'b",
]  # fmt: skip
DOCUMENTS = ["d", "d#1", "e", "f", "#", "ß"]

keys = st.sampled_from(KEYS)
scalars = st.sampled_from(SCALARS)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "a.b", ""]), inner, max_size=2)
    ),
    max_leaves=4,
)
metadata = st.none() | st.dictionaries(keys, values, max_size=4)
patches = st.dictionaries(keys, values, max_size=3)
texts = st.sampled_from(["", "a", "one two", "déjà vu", "日本語"])
record_ids = st.builds(
    lambda document, number: document if number is None else f"{document}#{number}",
    st.sampled_from(DOCUMENTS),
    st.sampled_from([None, 0, 1, 2, 10, "01"]),
)
components = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])


def embeddings(dimension: int) -> st.SearchStrategy[list[float]]:
    """Small vectors, so that ties and zero vectors are frequent."""
    return st.lists(components, min_size=dimension, max_size=dimension)


def records(dimension: int) -> st.SearchStrategy[VectorRecord]:
    """A record with an id out of few."""
    return st.builds(
        VectorRecord,
        id=record_ids,
        text=texts,
        embedding=embeddings(dimension),
        source=st.none() | st.sampled_from(["", "s.md"]),
        metadata=metadata,
    )


mapping_filters = st.dictionaries(keys, values, max_size=2)
_paths = st.one_of(keys.map(lambda key: (key,)), st.tuples(keys, st.sampled_from(["x", "y", "a.b", ""])))
_comparable = st.sampled_from([value for value in SCALARS if type(value) in (int, float, str)])


def _leaf(place: Field, value: Any, some: list[Any], bound: Any, kind: int, text: str) -> Expression:
    made: list[Expression] = [
        place == value,
        place != value,
        place < bound,
        place <= bound,
        place > bound,
        place >= bound,
        place.in_(some),
        place.not_in(some),
        place.matches_any(some),
        place.contains_any(some),
        place.contains_all(some),
        place.exists(),
        place.is_null(),
        place.matches_text(text),
        place.matches_text(text, case_sensitive=False),
        place.starts_with(text),
        place.starts_with(text, case_sensitive=False),
    ]
    return made[kind]


leaves = st.builds(
    _leaf,
    place=_paths.map(field),
    value=values,
    some=st.lists(values, max_size=3),
    bound=_comparable,
    kind=st.integers(0, 16),
    text=st.sampled_from(["", "a", "A", "é", "É", "'", "ab"]),
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda some: all_of(*some)),
        st.lists(inner, max_size=3).map(lambda some: any_of(*some)),
        inner.map(not_),
        st.tuples(mapping_filters, inner).map(lambda both: all_of(*both)),
    ),
    max_leaves=5,
)
filters: st.SearchStrategy[Any] = mapping_filters | expressions
