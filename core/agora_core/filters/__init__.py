"""Metadata filters: a mapping form, an expression language, and the one internal form both compile to.

A filter is a security boundary. Nothing in this package drops a condition, guesses a type or widens what it was given.
"""

from __future__ import annotations

from agora_core.filters.build import Field, all_of, any_of, compile_filter, conjoin, field, frozen_filter, not_
from agora_core.filters.expressions import FALSE, TRUE, Expression
from agora_core.filters.matching import (
    assert_removal_filter,
    filter_denies_all,
    matches_filter,
    predicate,
    removal_filter,
)
from agora_core.filters.serialization import filter_from_json, filter_to_json

__all__ = [
    "FALSE",
    "TRUE",
    "Expression",
    "Field",
    "all_of",
    "any_of",
    "assert_removal_filter",
    "compile_filter",
    "conjoin",
    "field",
    "filter_denies_all",
    "filter_from_json",
    "filter_to_json",
    "frozen_filter",
    "matches_filter",
    "not_",
    "predicate",
    "removal_filter",
]
