"""How filters are written: `field("year") >= 2020`, `all_of`, `any_of`, `not_`, and the mapping form compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from agora_core.errors import InvalidFilterError
from agora_core.filters.expressions import (
    FALSE,
    MAX_DEPTH,
    TRUE,
    And,
    Compare,
    ComparisonOperator,
    ContainsAll,
    ContainsAny,
    Equals,
    Exists,
    Expression,
    IsOneOf,
    MatchesAny,
    MatchesText,
    Not,
    Or,
    Path,
)
from agora_core.filters.literals import Literal, plain_value
from agora_core.filters.text import fold_case
from agora_core.metadata import plain_text, text_problem
from agora_core.protocols import AnyFilter


class Field:
    """A place in the metadata; its operators and methods build conditions. Made by `field`."""

    __slots__ = ("path",)
    path: Path

    def __init__(self, path: Path) -> None:
        object.__setattr__(self, "path", path)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a field is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Field, (self.path,))

    def __eq__(self, value: object) -> Expression:  # type: ignore[override]
        """The value equals `value` as JSON: `1` is `1.0`, never `True` or `"1"`; a list equals the whole list."""
        return Equals(self.path, _literal(value))

    def __ne__(self, value: object) -> Expression:  # type: ignore[override]
        """Not `==`: a missing key and every other JSON type satisfy it."""
        return not_(Equals(self.path, _literal(value)))

    def __lt__(self, value: Any) -> Expression:
        return self._compare("<", value)

    def __le__(self, value: Any) -> Expression:
        return self._compare("<=", value)

    def __gt__(self, value: Any) -> Expression:
        return self._compare(">", value)

    def __ge__(self, value: Any) -> Expression:
        return self._compare(">=", value)

    def __hash__(self) -> int:
        return hash(self.path)

    def __bool__(self) -> NoReturn:
        raise TypeError("a field has no truth value; use .exists()")

    def __repr__(self) -> str:
        from agora_core.filters.expressions import field_repr

        return field_repr(self.path)

    def in_(self, values: Iterable[Any]) -> Expression:
        """The whole value is one of `values`; no value at all is the deny."""
        literals = _literals(values, "in_")
        return IsOneOf(self.path, literals) if literals else FALSE

    def not_in(self, values: Iterable[Any]) -> Expression:
        """Not `in_`: a missing key satisfies it."""
        return not_(self.in_(values))

    def matches_any(self, values: Iterable[Any]) -> Expression:
        """The mapping form's list: the value is one of `values` or, being a list, shares an element with them."""
        literals = _literals(values, "matches_any")
        return MatchesAny(self.path, literals) if literals else FALSE

    def contains_any(self, values: Iterable[Any]) -> Expression:
        """The value is a list and holds one of `values`; no value at all is the deny."""
        literals = _literals(values, "contains_any")
        return ContainsAny(self.path, literals) if literals else FALSE

    def contains_all(self, values: Iterable[Any]) -> Expression:
        """The value is a list and holds each of `values`; with none given, any list will do."""
        return ContainsAll(self.path, _literals(values, "contains_all"))

    def exists(self) -> Expression:
        """There is a value, be it null."""
        return Exists(self.path)

    def is_null(self) -> Expression:
        """A null is stored; a missing key is not null."""
        return Equals(self.path, Literal(None))

    def between(self, low: Any, high: Any) -> Expression:
        """`low <= value <= high`, both ends included."""
        return all_of(self._compare(">=", low), self._compare("<=", high))

    def matches_text(self, text: str, *, case_sensitive: bool = True) -> Expression:
        """The value is a string that contains `text`: no wildcards, no words, just the characters.

        Without case, each character counts as its one-character lower case, alike on every backend.
        """
        if not isinstance(text, str):
            raise InvalidFilterError(f"matches_text takes a str, got {type(text).__name__}")
        text = plain_text(text)
        _check_text(text, "the text of matches_text")
        if not isinstance(case_sensitive, bool):
            raise InvalidFilterError(f"case_sensitive must be a bool, got {type(case_sensitive).__name__}")
        return MatchesText(self.path, text if case_sensitive else fold_case(text), case_sensitive)

    def _compare(self, operator: ComparisonOperator, value: Any) -> Expression:
        literal = _literal(value)
        if literal.type not in ("number", "string"):
            raise InvalidFilterError(
                f"{operator} compares numbers and strings, got {type(value).__name__}; use == or in_ for other values"
            )
        return Compare(self.path, operator, literal)


def field(path: str | Sequence[str], *, literal: bool = False) -> Field:
    r"""Return the metadata field at `path`.

    A dot steps into an object: `field("author.name")`. A key that holds a dot itself is written `field(r"a\.b")`,
    `field("a.b", literal=True)` (one key, as it stands) or `field(["a.b"])` (one segment an item).

    Raises:
        InvalidFilterError: the path is neither, is an empty list, or ends in a lone backslash.
    """
    given: Any = path
    if isinstance(given, str):
        segments = (plain_text(given),) if literal else _split(plain_text(given))
    elif isinstance(given, Sequence) and given and all(isinstance(segment, str) for segment in given):
        segments = tuple(map(plain_text, given))
    else:
        raise InvalidFilterError(f"field takes a str or a non-empty list of str, got {type(given).__name__}")
    for segment in segments:
        _check_text(segment, "a field name")
    if len(segments) > MAX_DEPTH:
        raise InvalidFilterError(f"a field path has at most {MAX_DEPTH} segments, got {len(segments)}")
    return Field(segments)


def _split(path: str) -> Path:
    segments, current, escaped = [], "", False
    for character in path:
        if escaped:
            current, escaped = current + character, False
        elif character == "\\":
            escaped = True
        elif character == ".":
            segments.append(current)
            current = ""
        else:
            current += character
    if escaped:
        raise InvalidFilterError(f"the field path {path!r} ends in a lone backslash; write two for one")
    return (*segments, current)


def all_of(*conditions: AnyFilter) -> Expression:
    """Every condition holds. Takes mappings and expressions; without any it holds always.

    Raises:
        InvalidFilterError: a condition is neither, or holds a value that is not JSON.
    """
    children: dict[Expression, None] = {}
    for condition in conditions:
        expression = compile_filter(condition)
        for child in expression.children if isinstance(expression, And) else (expression,):
            children[child] = None
    if FALSE in children:
        return FALSE
    return _bounded(And(tuple(children)) if len(children) != 1 else next(iter(children)))


def any_of(*conditions: AnyFilter) -> Expression:
    """At least one condition holds. Takes mappings and expressions; without any it never holds: the deny.

    Raises:
        InvalidFilterError: a condition is neither, or holds a value that is not JSON.
    """
    children: dict[Expression, None] = {}
    for condition in conditions:
        expression = compile_filter(condition)
        for child in expression.children if isinstance(expression, Or) else (expression,):
            children[child] = None
    if TRUE in children:
        return TRUE
    return _bounded(Or(tuple(children)) if len(children) != 1 else next(iter(children)))


def not_(condition: AnyFilter) -> Expression:
    """The condition does not hold; a missing key satisfies the negation of any condition on it."""
    expression = compile_filter(condition)
    if expression == TRUE:
        return FALSE
    if expression == FALSE:
        return TRUE
    return expression.child if isinstance(expression, Not) else _bounded(Not(expression))


def compile_filter(filter: AnyFilter) -> Expression:
    """Return the internal form of a filter: an expression as it is, the mapping form compiled.

    Raises:
        InvalidFilterError: the filter is neither, a key is no str, or a value is not JSON or is UNSET.
    """
    if isinstance(filter, Expression):
        return filter
    return _conjunction([_condition(key, entry) for key, entry in _entries(filter)])


def frozen_filter(filter: AnyFilter) -> AnyFilter:
    """Return a validated filter that its giver can no longer change: an expression as it is, a mapping as a copy.

    A mapping stays one, so that a store which understands only mappings can answer it too. It is read once.

    Raises:
        InvalidFilterError: as `compile_filter`.
    """
    if isinstance(filter, Expression):
        return filter
    entries = _entries(filter)
    frozen = {
        key: entry.value if isinstance(entry, Literal) else [literal.value for literal in entry]
        for key, entry in entries
    }
    # A mapping that gives a key twice is no dict; every one of its conditions holds.
    return frozen if len(frozen) == len(entries) else _conjunction([_condition(key, entry) for key, entry in entries])


def _entries(filter: Any) -> list[tuple[str, Literal | list[Literal]]]:
    """Return the entries of the mapping form, validated and copied: a list where the value is one, to be match-any."""
    if isinstance(filter, Field):
        raise InvalidFilterError(f"{filter!r} is a field and no condition; compare it, or ask .exists()")
    if not isinstance(filter, Mapping):
        raise InvalidFilterError(
            f"filter must be a mapping or an expression, got {type(filter).__name__}; "
            "leave it out to retrieve without one"
        )
    entries: list[tuple[str, Literal | list[Literal]]] = []
    for key, value in filter.items():
        if not isinstance(key, str):
            raise InvalidFilterError(f"filter keys must be str, got {key!r} of type {type(key).__name__}")
        name = plain_text(key)
        _check_text(name, "a filter key")
        where = f"filter[{name if len(name) <= 60 else name[:57] + '...'!r}]"
        _refuse_operators(name, value, where)
        if isinstance(value, Expression):
            raise InvalidFilterError(f"{where} is an expression; combine it with all_of(mapping, expression)")
        if isinstance(value, (list, tuple)):
            entries.append((name, [Literal(item, where=where) for item in value]))
        else:
            entries.append((name, Literal(value, where=where)))
    return entries


def _refuse_operators(key: str, value: Any, where: str) -> None:
    """Refuse operators of other systems' filters, at any depth: as data they would match nothing, negated everything.

    Raises:
        InvalidFilterError: the value holds an object that is not empty and whose keys are all such operators.
    """
    if isinstance(value, Mapping) or (isinstance(value, (list, tuple)) and not all(type(v) is str for v in value)):
        # With a bound, for a value may hold itself; what is too deep is refused as a literal.
        pending: list[tuple[Any, int]] = [({key: value} if key in _COMBINING else value, 0)]
        while pending:
            inner, depth = pending.pop()
            if depth > MAX_DEPTH:
                continue
            if isinstance(inner, Mapping):
                names = list(inner)
                if names and all(isinstance(name, str) and plain_text(name) in _FOREIGN for name in names):
                    instead = _FOREIGN[plain_text(names[0])]
                    raise InvalidFilterError(
                        f"{where} holds the operator {names[0]!r} inside an object, and a mapping filter has none: "
                        f"write {instead}; field({key!r}, literal=True) == {{...}} compares with such an object"
                    )
                pending += [(item, depth + 1) for item in inner.values()]
            elif isinstance(inner, (list, tuple)):
                pending += [(item, depth + 1) for item in inner if isinstance(item, (Mapping, list, tuple))]


_COMBINING: Final = frozenset(("$and", "$or", "$not", "$nor"))
# The operators of LangChain's filters, and what says the same here.
_FOREIGN: Final = {
    "$eq": "field(key) == value",
    "$ne": "field(key) != value",
    "$lt": "field(key) < value",
    "$lte": "field(key) <= value",
    "$gt": "field(key) > value",
    "$gte": "field(key) >= value",
    "$in": "field(key).in_([...])",
    "$nin": "field(key).not_in([...])",
    "$between": "field(key).between(low, high)",
    "$exists": "field(key).exists()",
    "$like": "field(key).matches_text(text)",
    "$ilike": "field(key).matches_text(text, case_sensitive=False)",
    "$regex": "field(key).matches_text(text)",
    "$contains": "field(key).contains_any([...])",
    "$not_contains": "not_(field(key).contains_any([...]))",
    "$all": "field(key).contains_all([...])",
    "$and": "all_of(...)",
    "$or": "any_of(...)",
    "$not": "not_(...)",
    "$nor": "not_(any_of(...))",
}


def _condition(key: str, entry: Literal | list[Literal]) -> Expression:
    if isinstance(entry, Literal):
        return Equals((key,), entry)
    return MatchesAny((key,), tuple(dict.fromkeys(entry))) if entry else FALSE


def _conjunction(conditions: Iterable[Expression]) -> Expression:
    children = dict.fromkeys(conditions)
    if FALSE in children:
        return FALSE
    return And(tuple(children)) if len(children) != 1 else next(iter(children))


def conjoin(scope: AnyFilter, filter: AnyFilter | None) -> AnyFilter:
    """Return the conjunction of both; a mapping where two mappings share no key, so that any store understands it.

    What is returned is nobody else's: whoever it is handed to may change it.

    Raises:
        InvalidFilterError: one of them could not be built.
    """
    bound = frozen_filter(scope)
    if filter is None:
        return bound
    given = frozen_filter(filter)
    if isinstance(bound, Mapping) and isinstance(given, Mapping) and bound.keys().isdisjoint(given.keys()):
        return {**bound, **given}
    return all_of(bound, given)


def _literal(value: Any) -> Literal:
    if isinstance(value, (Expression, Field)):
        raise InvalidFilterError(f"a field is compared with a value, got {type(value).__name__}, which is a condition")
    return Literal(plain_value(value))


def _literals(values: Iterable[Any], method: str) -> tuple[Literal, ...]:
    if isinstance(values, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(values, Iterable):
        raise InvalidFilterError(f"{method} takes a list of values, got {type(values).__name__}; put it in a list")
    try:
        items = iter(values)
    except TypeError:
        # A numpy array without dimensions claims to be iterable.
        raise InvalidFilterError(f"{method} takes a list of values, got a {type(values).__name__} of one") from None
    return tuple(dict.fromkeys(_literal(value) for value in items))


def _check_text(text: str, what: str) -> None:
    problem = text_problem(text)
    if problem is not None:
        raise InvalidFilterError(f"{what} {problem}, which no record can hold")


def _depth(expression: Expression) -> int:
    if isinstance(expression, (And, Or)):
        return 1 + max(map(_depth, expression.children), default=0)
    return 1 + _depth(expression.child) if isinstance(expression, Not) else 1


def _bounded(expression: Expression) -> Expression:
    # Children are bounded already, so this recursion is at most MAX_DEPTH + 1 deep.
    if _depth(expression) > MAX_DEPTH:
        raise InvalidFilterError(f"a filter is nested at most {MAX_DEPTH} levels deep; flatten it")
    return expression
