"""How conditions on a field are written: `field("year") >= 2020`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from agora_core.filters.expressions import Expression, all_of, condition, not_
from agora_core.filters.operators import (
    AT_LEAST,
    AT_MOST,
    CONTAINS_ALL,
    CONTAINS_ANY,
    EQUALS,
    EXISTS,
    IN,
    LESS,
    MATCHES_ANY,
    MATCHES_TEXT,
    MORE,
    STARTS_WITH,
)
from agora_core.filters.paths import Path, Place, field_path, field_repr


class Field(Place):
    """A place in the metadata; its operators and methods build conditions. Made by `field`.

    Examples:
        >>> store.count(field("year") >= 2025)
        1
    """

    __slots__ = ()

    def __init__(self, path: Path) -> None:
        object.__setattr__(self, "path", path)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a field is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Field, (self.path,))

    def __eq__(self, value: object) -> Expression:  # type: ignore[override]
        """The value equals `value` as JSON: `1` is `1.0`, never `True` or `"1"`; a list equals the whole list."""
        return condition(self.path, EQUALS, value)

    def __ne__(self, value: object) -> Expression:  # type: ignore[override]
        """Not `==`: a missing key and every other JSON type satisfy it."""
        return not_(condition(self.path, EQUALS, value))

    def __lt__(self, value: Any) -> Expression:
        return condition(self.path, LESS, value)

    def __le__(self, value: Any) -> Expression:
        return condition(self.path, AT_MOST, value)

    def __gt__(self, value: Any) -> Expression:
        return condition(self.path, MORE, value)

    def __ge__(self, value: Any) -> Expression:
        return condition(self.path, AT_LEAST, value)

    def __hash__(self) -> int:
        return hash(self.path)

    def __bool__(self) -> NoReturn:
        raise TypeError("a field has no truth value; use .exists()")

    def __repr__(self) -> str:
        return field_repr(self.path)

    def in_(self, values: Iterable[Any]) -> Expression:
        """The whole value is one of `values`; no value at all is the deny."""
        return condition(self.path, IN, values)

    def not_in(self, values: Iterable[Any]) -> Expression:
        """Not `in_`: a missing key satisfies it."""
        return not_(self.in_(values))

    def matches_any(self, values: Iterable[Any]) -> Expression:
        """The mapping form's list: the value is one of `values` or, being a list, shares an element with them."""
        return condition(self.path, MATCHES_ANY, values)

    def contains_any(self, values: Iterable[Any]) -> Expression:
        """The value is a list and holds one of `values`; no value at all is the deny."""
        return condition(self.path, CONTAINS_ANY, values)

    def contains_all(self, values: Iterable[Any]) -> Expression:
        """The value is a list and holds each of `values`; with none given, any list will do."""
        return condition(self.path, CONTAINS_ALL, values)

    def exists(self) -> Expression:
        """There is a value, be it null."""
        return condition(self.path, EXISTS)

    def is_null(self) -> Expression:
        """A null is stored; a missing key is not null."""
        return condition(self.path, EQUALS, None)

    def between(self, low: Any, high: Any) -> Expression:
        """`low <= value <= high`, both ends included."""
        return all_of(condition(self.path, AT_LEAST, low), condition(self.path, AT_MOST, high))

    def matches_text(self, text: str, *, case_sensitive: bool = True) -> Expression:
        """The value is a string that contains `text`: no wildcards, no words, just the characters.

        Without case, each character counts as its one-character lower case, alike on every backend.
        """
        return condition(self.path, MATCHES_TEXT, text, case_sensitive=case_sensitive)

    def starts_with(self, text: str, *, case_sensitive: bool = True) -> Expression:
        """The value is a string that begins with `text`; case as in `matches_text`."""
        return condition(self.path, STARTS_WITH, text, case_sensitive=case_sensitive)


def field(path: str | Sequence[str], *, literal: bool = False) -> Field:
    r"""Return the metadata field at `path`.

    A dot steps into an object: `field("author.name")`. A key that holds a dot itself is written `field(r"a\.b")`,
    `field("a.b", literal=True)` (one key, as it stands) or `field(["a.b"])` (one segment an item).

    Raises:
        InvalidFilterError: the path is neither, is an empty list, or ends in a lone backslash.

    Examples:
        >>> matches_filter({"owner": {"team": "hr"}}, field(["owner", "team"]) == "hr")
        True
    """
    return Field(field_path(path, literal=literal))
