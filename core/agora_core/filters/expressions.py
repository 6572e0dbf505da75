"""The one internal form of a filter: an immutable tree that is hashable, printable and equal by value.

Logic is two-valued. A leaf on a missing path, or on a value of another JSON type, is false; `Not` of it is true.
Nodes are built by `field`, `all_of`, `any_of`, `not_` and `compile_filter`, which fold constants: the tree that says
"everything" is always `TRUE`, and the one that says "nothing" is always `FALSE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from typing import Literal as OneOf

from agora_core.filters.literals import Literal

if TYPE_CHECKING:
    from agora_core.protocols import AnyFilter

Path = tuple[str, ...]
"""Segments from the top level down, through objects only. A key of the mapping form is one segment, dots included."""

ComparisonOperator = OneOf["<", "<=", ">", ">="]

MAX_DEPTH: Final = 64


class Expression:
    """A condition on metadata. Combine with `&`, `|` and `~`, or with `all_of`, `any_of` and `not_`."""

    __slots__ = ()

    def __and__(self, other: AnyFilter) -> Expression:
        from agora_core.filters.build import all_of

        return all_of(self, other)

    def __or__(self, other: AnyFilter) -> Expression:
        from agora_core.filters.build import any_of

        return any_of(self, other)

    def __invert__(self) -> Expression:
        from agora_core.filters.build import not_

        return not_(self)

    def __bool__(self) -> bool:
        raise TypeError("a filter expression has no truth value; combine with all_of, any_of, not_ or with & | ~")

    def to_json(self) -> dict[str, Any]:
        """Return the expression as plain JSON that `Expression.from_json` reads back."""
        from agora_core.filters.serialization import filter_to_json

        return filter_to_json(self)

    @staticmethod
    def from_json(data: Any) -> Expression:
        """Read what `to_json` wrote.

        Raises:
            InvalidFilterError: the data is not the JSON of an expression.
        """
        from agora_core.filters.serialization import filter_from_json

        return filter_from_json(data)


class Leaf(Expression):
    """A condition on the value at one `path`."""

    __slots__ = ()
    path: Path


@dataclass(frozen=True, slots=True)
class And(Expression):
    """Every child holds; without children it holds always."""

    children: tuple[Expression, ...]

    def __repr__(self) -> str:
        return f"all_of({', '.join(map(repr, self.children))})"


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """At least one child holds; without children it never holds."""

    children: tuple[Expression, ...]

    def __repr__(self) -> str:
        return f"any_of({', '.join(map(repr, self.children))})"


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """The child does not hold."""

    child: Expression

    def __repr__(self) -> str:
        return f"not_({self.child!r})"


@dataclass(frozen=True, slots=True)
class Equals(Leaf):
    """The value at `path` equals the literal as JSON. `None` matches a stored null and not a missing path."""

    path: Path
    literal: Literal

    def __repr__(self) -> str:
        if self.literal.type == "null":
            return f"{field_repr(self.path)}.is_null()"
        return f"({field_repr(self.path)} == {self.literal!r})"


@dataclass(frozen=True, slots=True)
class MatchesAny(Leaf):
    """The list value of the mapping form: the value equals a literal or, being a list, holds one. Never empty."""

    path: Path
    literals: tuple[Literal, ...]

    def __repr__(self) -> str:
        return f"{field_repr(self.path)}.matches_any({list(self.literals)!r})"


@dataclass(frozen=True, slots=True)
class IsOneOf(Leaf):
    """The whole value equals one of the literals. Never empty."""

    path: Path
    literals: tuple[Literal, ...]

    def __repr__(self) -> str:
        return f"{field_repr(self.path)}.in_({list(self.literals)!r})"


@dataclass(frozen=True, slots=True)
class ContainsAny(Leaf):
    """The value is a list that holds at least one of the literals. Never empty."""

    path: Path
    literals: tuple[Literal, ...]

    def __repr__(self) -> str:
        return f"{field_repr(self.path)}.contains_any({list(self.literals)!r})"


@dataclass(frozen=True, slots=True)
class ContainsAll(Leaf):
    """The value is a list that holds every literal; without literals, any list."""

    path: Path
    literals: tuple[Literal, ...]

    def __repr__(self) -> str:
        return f"{field_repr(self.path)}.contains_all({list(self.literals)!r})"


@dataclass(frozen=True, slots=True)
class Compare(Leaf):
    """A number compared with a number, exactly, or a string with a string, by code point."""

    path: Path
    operator: ComparisonOperator
    literal: Literal

    def __repr__(self) -> str:
        return f"({field_repr(self.path)} {self.operator} {self.literal!r})"


@dataclass(frozen=True, slots=True)
class Exists(Leaf):
    """There is a value at `path`, be it null."""

    path: Path

    def __repr__(self) -> str:
        return f"{field_repr(self.path)}.exists()"


@dataclass(frozen=True, slots=True)
class MatchesText(Leaf):
    """The value is a string that contains `text` literally. Where case does not count, `text` is stored folded."""

    path: Path
    text: str
    case_sensitive: bool

    def __repr__(self) -> str:
        more = "" if self.case_sensitive else ", case_sensitive=False"
        return f"{field_repr(self.path)}.matches_text({self.text!r}{more})"


TRUE: Final = And(())
FALSE: Final = Or(())


def field_repr(path: Path) -> str:
    """Return the Python text that builds the field of `path`."""
    if all(path) and not any("." in segment or "\\" in segment for segment in path):
        return f"field({'.'.join(path)!r})"
    return f"field({list(path)!r})"
