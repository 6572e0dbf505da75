"""Metadata filters: a mapping form, an expression language, and the one internal form both compile to.

A filter is a security boundary. Nothing in this package drops a condition, guesses a type or widens what it was given.
"""

from __future__ import annotations

from agora_core.filters.build import Field, field
from agora_core.filters.expressions import (
    FALSE,
    TRUE,
    AnyFilter,
    Expression,
    MetadataFilter,
    all_of,
    any_of,
    bound_by,
    compile_filter,
    conjoin,
    filter_from_json,
    filter_to_json,
    frozen_filter,
    not_,
    scope_of,
)
from agora_core.filters.matching import (
    assert_removal_filter,
    filter_denies_all,
    matches_filter,
    predicate,
    removal_filter,
)

__all__ = [
    "FALSE",
    "TRUE",
    "AnyFilter",
    "Expression",
    "Field",
    "MetadataFilter",
    "all_of",
    "any_of",
    "assert_removal_filter",
    "bound_by",
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
    "scope_of",
]
