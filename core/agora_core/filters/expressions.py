"""The one internal form of a filter: an immutable tree that is hashable, printable and equal by value.

Logic is two-valued. A leaf on a missing path, or on a value of another JSON type, is false; `Not` of it is true. Trees
are built by `all_of`, `any_of`, `not_`, `compile_filter` and `field`, which fold constants: the tree that says
"everything" is always `TRUE`, and the one that says "nothing" is always `FALSE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Union

from agora_core.errors import InvalidFilterError
from agora_core.filters.foreign import refuse_operators
from agora_core.filters.literals import Literal, Literals, plain_value
from agora_core.filters.operators import EQUALS, MATCHES_ANY, OPERATORS, Operator, Text
from agora_core.filters.paths import Path, Place, check_text, field_path, field_repr
from agora_core.filters.text import fold_case
from agora_core.metadata import MAX_DEPTH
from agora_core.records import JSON

MetadataFilter = Mapping[str, JSON]
"""Keys are ANDed; a list value is match-any, every other value is equality."""

AnyFilter = Union[Mapping[str, JSON], "Expression"]
"""What every `filter` argument takes: the mapping form or an expression."""


class Expression:
    """A condition on metadata. Combine with `&`, `|` and `~`, or with `all_of`, `any_of` and `not_`.

    Examples:
        >>> old = field("year") < 2020
        >>> store.count(~old & field("acl").contains_any(["staff"]))
        1
    """

    __slots__ = ()

    def __and__(self, other: AnyFilter) -> Expression:
        return all_of(self, other)

    def __or__(self, other: AnyFilter) -> Expression:
        return any_of(self, other)

    def __invert__(self) -> Expression:
        return not_(self)

    def __bool__(self) -> bool:
        raise TypeError("a filter expression has no truth value; combine with all_of, any_of, not_ or with & | ~")

    def to_json(self) -> dict[str, Any]:
        """Return the expression as plain JSON that `Expression.from_json` reads back."""
        raise InvalidFilterError(f"{type(self).__name__} is not a condition of the filter language")

    @staticmethod
    def from_json(data: Any) -> Expression:
        """Read what `to_json` wrote.

        Raises:
            InvalidFilterError: the data is not the JSON of an expression; nothing unknown is skipped.

        Examples:
            >>> filter_from_json(filter_to_json(field("year") >= 2020)) == (field("year") >= 2020)
            True
        """
        return _read(data, MAX_DEPTH)


@dataclass(frozen=True, slots=True)
class Leaf(Expression):
    """A condition on the value at one `path`: an operator of the table, and what it is given."""

    path: Path
    operator: Operator
    operand: Any = None

    def __repr__(self) -> str:
        place, operator, operand = field_repr(self.path), self.operator, self.operand
        if isinstance(operand, Text):
            more = "" if operand.case_sensitive else ", case_sensitive=False"
            return f"{place}.{operator.name}({operand.text!r}{more})"
        if isinstance(operand, Literal):
            is_null = operator is EQUALS and operand.type == "null"
            return f"{place}.is_null()" if is_null else f"({place} {operator.name} {operand!r})"
        return f"{place}.{operator.method or operator.name}({'' if operand is None else repr(operand)})"

    def to_json(self) -> dict[str, Any]:
        """Return the leaf as plain JSON: `field`, `op`, and `value` where the operator takes one."""
        data: dict[str, Any] = {"field": list(self.path), "op": self.operator.name}
        if isinstance(self.operand, Text):
            data["value"] = self.operand.text
            return data if self.operand.case_sensitive else {**data, "case_sensitive": False}
        if isinstance(self.operand, Literal):
            data["value"] = self.operand.value
        elif isinstance(self.operand, Literals):
            data["value"] = list(self.operand)
        return data


@dataclass(frozen=True, slots=True)
class And(Expression):
    """Every child holds; without children it holds always."""

    children: tuple[Expression, ...]

    def __repr__(self) -> str:
        return f"all_of({', '.join(map(repr, self.children))})"

    def to_json(self) -> dict[str, Any]:
        """Return the tree as plain JSON."""
        return {"all_of": [child.to_json() for child in self.children]}


@dataclass(frozen=True, slots=True)
class Bounded(And):
    """A conjunction that also says which part of it is a scope: statistics then stay inside that.

    It means what its children mean, to whoever does not look at `scope`.
    """

    scope: Expression


class BoundedMapping(dict[str, Any]):
    """`Bounded` in the mapping form, for stores that understand only that."""

    scope: AnyFilter


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """At least one child holds; without children it never holds."""

    children: tuple[Expression, ...]

    def __repr__(self) -> str:
        return f"any_of({', '.join(map(repr, self.children))})"

    def to_json(self) -> dict[str, Any]:
        """Return the tree as plain JSON."""
        return {"any_of": [child.to_json() for child in self.children]}


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """The child does not hold."""

    child: Expression

    def __repr__(self) -> str:
        return f"not_({self.child!r})"

    def to_json(self) -> dict[str, Any]:
        """Return the tree as plain JSON."""
        return {"not": self.child.to_json()}


TRUE: Final = And(())
FALSE: Final = Or(())


# Leaves.


def condition(path: Path, operator: Operator, value: Any = None, *, case_sensitive: Any = True) -> Expression:
    """Return the condition that `operator` with `value` is on the value at `path`; its operand is checked and frozen.

    Raises:
        InvalidFilterError: the value is not what the operator takes.
    """
    name = operator.method or operator.name
    if operator.takes == "nothing":
        return Leaf(path, operator)
    if operator.takes == "text":
        if not isinstance(value, str):
            raise InvalidFilterError(f"{name} takes a str, got {type(value).__name__}")
        if not isinstance(case_sensitive, bool):
            raise InvalidFilterError(f"case_sensitive must be a bool, got {type(case_sensitive).__name__}")
        text = check_text(value, f"the text of {name}")
        return Leaf(path, operator, Text(text if case_sensitive else fold_case(text), case_sensitive))
    if operator.takes == "values":
        literals = _literals(value, name)
        return Leaf(path, operator, literals) if len(literals) or not operator.denies_empty else FALSE
    literal = Literal(_plain(value))
    if operator.types and literal.type not in operator.types:
        raise InvalidFilterError(
            f"{name} compares {'s and '.join(operator.types)}s, got {type(value).__name__}; "
            "use == or in_ for other values"
        )
    return Leaf(path, operator, literal)


def _plain(value: Any) -> Any:
    if type(value) is str:
        return value
    if isinstance(value, (Expression, Place)):
        raise InvalidFilterError(f"a field is compared with a value, got {type(value).__name__}, which is a condition")
    return plain_value(value)


def _literals(values: Iterable[Any], method: str) -> Literals:
    if isinstance(values, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(values, Iterable):
        raise InvalidFilterError(f"{method} takes a list of values, got {type(values).__name__}; put it in a list")
    try:
        items = iter(values)
    except TypeError:
        # A numpy array without dimensions claims to be iterable.
        raise InvalidFilterError(f"{method} takes a list of values, got a {type(values).__name__} of one") from None
    return Literals(map(_plain, items))


# Combining.


def all_of(*conditions: AnyFilter) -> Expression:
    """Every condition holds. Takes mappings and expressions; without any it holds always.

    Raises:
        InvalidFilterError: a condition is neither, or holds a value that is not JSON.

    Examples:
        >>> store.count(all_of({"acl": ["staff", "board"]}, field("year") >= 2025))
        1
    """
    children: dict[Expression, None] = {}
    for given in conditions:
        expression = compile_filter(given)
        for child in expression.children if isinstance(expression, And) else (expression,):
            children[child] = None
    if FALSE in children:
        return FALSE
    return _bounded(And(tuple(children)) if len(children) != 1 else next(iter(children)))


def any_of(*conditions: AnyFilter) -> Expression:
    """At least one condition holds. Takes mappings and expressions; without any it never holds: the deny.

    Raises:
        InvalidFilterError: a condition is neither, or holds a value that is not JSON.

    Examples:
        >>> store.count(any_of({"acl": ["staff"]}, field("year") >= 2025)), store.count(any_of())
        (2, 0)
    """
    children: dict[Expression, None] = {}
    for given in conditions:
        expression = compile_filter(given)
        for child in expression.children if isinstance(expression, Or) else (expression,):
            children[child] = None
    if TRUE in children:
        return TRUE
    return _bounded(Or(tuple(children)) if len(children) != 1 else next(iter(children)))


def not_(condition: AnyFilter) -> Expression:
    """The condition does not hold; a missing key satisfies the negation of any condition on it.

    Examples:
        >>> store.count(not_({"acl": ["board"]}))
        1
    """
    expression = compile_filter(condition)
    if expression == TRUE:
        return FALSE
    if expression == FALSE:
        return TRUE
    return expression.child if isinstance(expression, Not) else _bounded(Not(expression))


def _depth(expression: Expression) -> int:
    if isinstance(expression, (And, Or)):
        return 1 + max(map(_depth, expression.children), default=0)
    return 1 + _depth(expression.child) if isinstance(expression, Not) else 1


def _bounded(expression: Expression) -> Expression:
    # Children are bounded already, so this recursion is at most MAX_DEPTH + 1 deep.
    if _depth(expression) > MAX_DEPTH:
        raise InvalidFilterError(f"a filter is nested at most {MAX_DEPTH} levels deep; flatten it")
    return expression


# The mapping form.


def compile_filter(filter: AnyFilter) -> Expression:
    """Return the internal form of a filter: an expression as it is, the mapping form compiled.

    Raises:
        InvalidFilterError: the filter is neither, a key is not a str, or a value is not JSON or is UNSET.

    Examples:
        >>> compile_filter({"year": 2024}) == compile_filter(field("year") == 2024)
        True
    """
    if isinstance(filter, Expression):
        return filter
    plain = _conjunction(_entries(filter))
    return _with_scope(plain, filter.scope) if isinstance(filter, BoundedMapping) else plain


def frozen_filter(filter: AnyFilter) -> AnyFilter:
    """Return a validated filter that its giver can no longer change: an expression as it is, a mapping as a copy.

    A mapping stays one, so that a store which understands only mappings can answer it too. It is read once.

    Raises:
        InvalidFilterError: as `compile_filter`.
    """
    if isinstance(filter, Expression):
        return filter
    entries = _entries(filter)
    frozen = {key: entry.value if isinstance(entry, Literal) else list(entry) for key, entry in entries}
    if isinstance(filter, BoundedMapping):
        bounded = BoundedMapping(frozen)
        bounded.scope = filter.scope
        return bounded
    # A mapping that gives a key twice is no dict; every one of its conditions holds.
    return frozen if len(frozen) == len(entries) else _conjunction(entries)


def conjoin(scope: AnyFilter, filter: AnyFilter | None) -> AnyFilter:
    """Return the conjunction of both; a mapping where two mappings share no key, so that any store understands it.

    What is returned is nobody else's: whoever it is handed to may change it.

    Raises:
        InvalidFilterError: one of them could not be built.

    Examples:
        >>> conjoin({"acl": ["staff"]}, {"year": 2024})
        {'acl': ['staff'], 'year': 2024}
    """
    bound = frozen_filter(scope)
    if filter is None:
        return bound
    given = frozen_filter(filter)
    if isinstance(bound, Mapping) and isinstance(given, Mapping) and bound.keys().isdisjoint(given.keys()):
        return {**bound, **given}
    return all_of(bound, given)


def bound_by(scope: AnyFilter, filter: AnyFilter | None) -> AnyFilter:
    """Return the conjunction of both, which says that `scope` is one; what bounds `filter` itself belongs to it.

    Raises:
        InvalidFilterError: one of them could not be built.
    """
    both = conjoin(scope, filter)
    inner = None if filter is None else scope_of(filter)
    whole = frozen_filter(scope if inner is None else conjoin(scope, inner))
    if isinstance(both, Expression):
        return _with_scope(both, whole)
    bounded = BoundedMapping(both)
    bounded.scope = whole
    return bounded


def scope_of(filter: AnyFilter) -> AnyFilter | None:
    """Return the part of a filter that `bound_by` made a scope, None where there is none."""
    return filter.scope if isinstance(filter, (Bounded, BoundedMapping)) else None


def _with_scope(expression: Expression, scope: AnyFilter) -> Expression:
    if expression in (TRUE, FALSE):
        return expression
    children = expression.children if isinstance(expression, And) else (expression,)
    return Bounded(children, compile_filter(scope))


def _entries(filter: Any) -> list[tuple[str, Literal | Literals]]:
    """Return the entries of the mapping form, validated and copied: Literals where a value is a list, for match-any."""
    if isinstance(filter, Place):
        raise InvalidFilterError(f"{filter!r} is a field and no condition; compare it, or ask .exists()")
    if not isinstance(filter, Mapping):
        raise InvalidFilterError(
            f"filter must be a mapping or an expression, got {type(filter).__name__}; "
            "leave it out to retrieve without one"
        )
    entries: list[tuple[str, Literal | Literals]] = []
    for key, value in filter.items():
        if not isinstance(key, str):
            raise InvalidFilterError(f"filter keys must be str, got {key!r} of type {type(key).__name__}")
        name = check_text(key, "a filter key")
        where = f"filter[{name if len(name) <= 60 else name[:57] + '...'!r}]"
        if isinstance(value, Expression):
            raise InvalidFilterError(f"{where} is an expression; combine it with all_of(mapping, expression)")
        refuse_operators(name, value, where)
        is_list = isinstance(value, (list, tuple))
        entries.append((name, Literals(value, where=where) if is_list else Literal(value, where=where)))
    return entries


def _conjunction(entries: Iterable[tuple[str, Literal | Literals]]) -> Expression:
    children: dict[Expression, None] = {}
    for key, entry in entries:
        if isinstance(entry, Literals) and not len(entry):
            return FALSE
        children[Leaf((key,), EQUALS if isinstance(entry, Literal) else MATCHES_ANY, entry)] = None
    return And(tuple(children)) if len(children) != 1 else next(iter(children))


# JSON.


def filter_to_json(filter: AnyFilter) -> dict[str, Any]:
    """Return any filter as plain JSON; `filter_from_json` gives an equal expression back.

    Examples:
        >>> filter_to_json(field("year") >= 2020)
        {'field': ['year'], 'op': '>=', 'value': 2020}
    """
    return compile_filter(filter).to_json()


filter_from_json = Expression.from_json


def _read(data: Any, levels: int) -> Expression:
    if levels < 1:
        raise InvalidFilterError(f"the JSON of a filter is nested at most {MAX_DEPTH} levels deep; flatten it")
    if not isinstance(data, Mapping):
        raise InvalidFilterError(f"the JSON of a filter is an object, got {type(data).__name__}")
    keys = set(data)
    if keys == {"all_of"} or keys == {"any_of"}:
        (name,) = keys
        if not isinstance(data[name], (list, tuple)):
            raise InvalidFilterError(f"{name} holds a list, got {type(data[name]).__name__}")
        children = [_read(child, levels - 1) for child in data[name]]
        return all_of(*children) if name == "all_of" else any_of(*children)
    if keys == {"not"}:
        return not_(_read(data["not"], levels - 1))
    if not {"field", "op"} <= keys <= {"field", "op", "value", "case_sensitive"}:
        raise InvalidFilterError(
            f"the JSON of a filter has the keys {sorted(map(str, keys))}; "
            "expected all_of, any_of, not, or field with op and value"
        )
    operator = OPERATORS.get(data["op"]) if isinstance(data["op"], str) else None
    if operator is None:
        raise InvalidFilterError(f"unknown operator {data['op']!r}; known are {', '.join(OPERATORS)}")
    if "case_sensitive" in data and operator.takes != "text":
        raise InvalidFilterError(f"the operator {operator.name!r} takes no case_sensitive")
    if ("value" in data) is (operator.takes == "nothing"):
        needs = "takes no" if operator.takes == "nothing" else "needs a"
        raise InvalidFilterError(f"the operator {operator.name!r} {needs} value")
    value, case_sensitive = data.get("value"), data.get("case_sensitive", True)
    return condition(field_path(data["field"]), operator, value, case_sensitive=case_sensitive)
