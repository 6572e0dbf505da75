"""Facets: how often each value of a metadata key occurs, counted alike by every store."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agora_core.filters.literals import json_type
from agora_core.filters.paths import MISSING, Path, field_path, value_at
from agora_core.metadata import INT64_MAX, INT64_MIN
from agora_core.records import JSON
from agora_core.validation import check_top_k

_text: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_quoted: Final = json.encoder.encode_basestring
Facets = list[tuple[JSON, int]]


def check_facets(key: str | Sequence[str], limit: int) -> tuple[Path, int]:
    """Return the path that `key` names (as `field` reads it) and the limit.

    Raises:
        InvalidFilterError: the key is neither a str nor a non-empty list of str.
        InvalidArgumentError: the limit is below 1, or no int.
    """
    return field_path(key), check_top_k(limit, argument="limit")


def facet_value(value: JSON) -> JSON:
    """Return the one form of a value that all its spellings share: a whole number is an int where 64 bits hold it."""
    kind = json_type(value)
    if kind == "number":
        whole = isinstance(value, float) and value.is_integer() and INT64_MIN <= value <= INT64_MAX
        return int(value) if whole else value
    if kind == "array":
        return [facet_value(item) for item in value]
    if kind == "object":
        return {key: facet_value(item) for key, item in value.items()}
    return value


def facet_text(value: JSON) -> str:
    """Return the JSON of a value: sorted keys, no spaces, nothing escaped that need not be. Facets are told by it."""
    return _text(facet_value(value))


def facet_texts(metadata: Mapping[str, JSON] | None, path: Path) -> Iterator[str]:
    """Return the facets of one record, each once: its value, or the distinct members where that is a list."""
    value = value_at(metadata or {}, path)
    if isinstance(value, (list, tuple)):
        return iter(dict.fromkeys(map(facet_text, value)))
    return iter(() if value is MISSING else (facet_text(value),))


def count_facets(records: Iterable[Mapping[str, JSON] | None], path: Path) -> dict[str, int]:
    """Count the facets of records, given by their metadata."""
    counts: dict[str, int] = {}
    for metadata in records:
        for text in facet_texts(metadata, path):
            counts[text] = counts.get(text, 0) + 1
    return counts


def most_frequent_values(tables: Sequence[tuple[Sequence[JSON], npt.NDArray[np.int64]]], limit: int) -> Facets:
    """Return the `limit` most frequent of values in several lists with their counts, which add up across the lists.

    The JSON, which costs most where a key has a hundred thousand values, is written only for what may be among them.
    """
    filled = [(values, counts) for values, counts in tables if len(values)]
    if len(filled) == 1:
        values, counts = filled[0]
        least = 1 if len(counts) <= limit else max(1, int(np.partition(counts, -limit)[-limit]))
        above, ties = np.flatnonzero(counts > least).tolist(), np.flatnonzero(counts == least).tolist()
        chosen = [(facet_text(values[place]), int(counts[place])) for place in above]
        texts = map(_short_text, [values[place] for place in ties])
        chosen += [(text, least) for text in heapq.nsmallest(limit - len(above), texts)]
        return most_frequent(chosen, limit)
    added: dict[str, int] = {}
    for values, counts in filled:
        for value, count in zip(values, counts.tolist(), strict=True):
            if count:
                text = _short_text(value)
                added[text] = added.get(text, 0) + count
    return most_frequent(added.items(), limit)


def _short_text(value: JSON) -> str:
    return _quoted(value) if type(value) is str else int.__repr__(value) if type(value) is int else facet_text(value)


def most_frequent(counts: Iterable[tuple[str, int]], limit: int) -> Facets:
    """Return the `limit` most frequent facets, equal counts by the code points of their JSON."""
    best: list[tuple[Any, int]] = heapq.nsmallest(limit, counts, key=lambda facet: (-facet[1], facet[0]))
    return [(json.loads(text), count) for text, count in best]
