"""The Mongo-style operator dict that users of other LangChain stores write, translated to the core's filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from agora_core.errors import InvalidFilterError
from agora_core.filters import Expression, Field, all_of, any_of, compile_filter, field, frozen_filter, not_
from agora_core.protocols import AnyFilter

_BOTH_ENDS: Final = 2


def to_core_filter(filter: Any) -> AnyFilter:
    """Return what a `filter=` argument means as a filter of the core.

    Three forms are taken:

    * an **expression** of the core, as it is;
    * the core's **mapping**, copied: keys are ANDed, a list value is match-any, any other value is equality;
    * an **operator dict**: a mapping with a key that begins with `$`, or with a value that is a dict with such a key.
      Its plain entries keep the meaning they have in the mapping. Field operators are `$eq $ne $lt $lte $gt $gte $in
      $nin $between $exists $not`, several on one field are ANDed; `$and`, `$or` take a non-empty list of filters,
      `$not` takes a filter or a list of filters of which none may hold.

    `$eq` with a list is equality with the whole list. `$in` and `$nin` compare the whole value, as `in_` does: a stored
    list is not looked into (a plain list value, `{"acl": ["a", "b"]}`, does that). `$ne`, `$nin` and `$not` are
    satisfied by a missing key. `$exists` asks whether the key is there, be its value null. `$between` has both ends
    included. Keys are literal: a dot is not a path; write `field("author.name") == "x"` to step into an object.

    Raises:
        InvalidFilterError: the filter is none of the three, or holds an operator that is not known, or one that is
            hidden inside an object to compare with. Nothing is skipped.

    Examples:
        >>> to_core_filter({"year": {"$gte": 2020}}) == (field("year") >= 2020)
        True
    """
    if not isinstance(filter, Mapping):
        return compile_filter(filter)
    # Read once: what is judged here is what is passed on, whatever the giver's mapping says later.
    entries = dict(filter)
    if not any(_is_operator(key) or _holds_operators(value) for key, value in entries.items()):
        # It stays a mapping, so that a store which knows nothing else can answer it; refused here where it cannot be.
        return _plain(entries)
    try:
        return _translate(entries)
    except RecursionError:
        raise InvalidFilterError("the filter is nested too deeply; flatten it") from None


def to_scope(scope: Any) -> AnyFilter:
    """Return what `scoped` binds: a filter of the core, whose values are data; operators are read in `filter=` alone.

    Raises:
        InvalidFilterError: it is no filter of the core, or holds operators.
    """
    if not isinstance(scope, Mapping):
        return compile_filter(scope)
    entries = dict(scope)
    for key, value in entries.items():
        if _is_operator(key) or _holds_operators(value):
            raise InvalidFilterError(
                f"scoped takes values as data and reads no operators, got some at {key!r}; where the application "
                "itself writes them, give scoped(to_core_filter({...})), or an expression such as field('year') >= 2020"
            )
    return _plain(entries)


def _plain(entries: Mapping[str, Any]) -> AnyFilter:
    # Copied first, for a copy has an end, whatever is nested in what was given.
    frozen = frozen_filter(entries)
    if isinstance(frozen, Mapping):
        for key, value in frozen.items():
            _refuse_hidden_operators(key, value)
    return frozen


def _translate(filter: Any) -> Expression:
    if not isinstance(filter, Mapping):
        return compile_filter(filter)
    conditions: list[AnyFilter] = []
    for key, value in filter.items():
        if _is_operator(key):
            conditions.append(_combine(key, value))
        elif _holds_operators(value):
            conditions.append(_on_field(key, value))
        else:
            conditions.append(_plain({key: value}))
    return all_of(*conditions)


def _combine(operator: str, value: Any) -> Expression:
    if operator == "$and":
        return all_of(*map(_translate, _filters(operator, value)))
    if operator == "$or":
        return any_of(*map(_translate, _filters(operator, value)))
    if operator == "$not":
        if isinstance(value, (list, tuple)):
            return all_of(*(not_(_translate(each)) for each in _filters(operator, value)))
        return not_(_translate(value))
    if operator in _ON_FIELD:
        raise InvalidFilterError(
            f"{operator} stands on a field, as in {{'year': {{'{operator}': ...}}}}; "
            f"without a field there are {_listed(_COMBINING)}"
        )
    raise _unknown(operator)


def _on_field(key: str, operators: Mapping[str, Any]) -> Expression:
    place = field(key, literal=True)
    conditions = []
    for operator, value in operators.items():
        if not _is_operator(operator):
            raise InvalidFilterError(
                f"filter[{key!r}] mixes operators with the plain key {operator!r}; combine two conditions with $and, "
                "and compare with a whole object through $eq"
            )
        if operator not in _ON_FIELD:
            raise _unknown(operator)
        conditions.append(_ON_FIELD[operator](place, value))
    return all_of(*conditions)


def _in(place: Field, value: Any) -> Expression:
    return place.in_(_values("$in", value))


def _nin(place: Field, value: Any) -> Expression:
    return place.not_in(_values("$nin", value))


def _between(place: Field, value: Any) -> Expression:
    if not isinstance(value, (list, tuple)) or len(value) != _BOTH_ENDS:
        raise InvalidFilterError(f"$between takes a list of two values, low and high, got {type(value).__name__}")
    return place.between(value[0], value[1])


def _exists(place: Field, value: Any) -> Expression:
    if not isinstance(value, bool):
        raise InvalidFilterError(f"$exists takes True or False, got {type(value).__name__}")
    return place.exists() if value else not_(place.exists())


def _not(place: Field, value: Any) -> Expression:
    if not _holds_operators(value):
        raise InvalidFilterError(
            f"$not on a field takes operators, as {{'$not': {{'$eq': ...}}}}, got {type(value).__name__}"
        )
    return not_(_on_field(place.path[0], value))


_ON_FIELD: Final[dict[str, Callable[[Field, Any], Expression]]] = {
    "$eq": lambda place, value: place == value,
    "$ne": lambda place, value: place != value,
    "$lt": lambda place, value: place < value,
    "$lte": lambda place, value: place <= value,
    "$gt": lambda place, value: place > value,
    "$gte": lambda place, value: place >= value,
    "$in": _in,
    "$nin": _nin,
    "$between": _between,
    "$exists": _exists,
    "$not": _not,
}
_COMBINING: Final = ("$and", "$or", "$not")
_INSTEAD: Final = {
    "$like": "write field(...).matches_text(text) for a literal substring",
    "$ilike": "write field(...).matches_text(text, case_sensitive=False) for a literal substring",
    "$contains": "write field(...).contains_any([...]) for an element of a stored list",
    "$all": "write field(...).contains_all([...])",
}


def _is_operator(key: Any) -> bool:
    return isinstance(key, str) and key.startswith("$")


def _holds_operators(value: Any) -> bool:
    return isinstance(value, Mapping) and any(_is_operator(key) for key in value)


def _filters(operator: str, value: Any) -> list[Any]:
    # An empty list is refused: for $and it would let everything through, and whoever computed it meant something.
    if not isinstance(value, (list, tuple)) or not value:
        raise InvalidFilterError(f"{operator} takes a non-empty list of filters, got {_described(value)}")
    return list(value)


def _values(operator: str, value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise InvalidFilterError(f"{operator} takes a list of values, got {_described(value)}; put it in a list")
    return list(value)


def _described(value: Any) -> str:
    return "an empty list" if isinstance(value, (list, tuple)) else type(value).__name__


def _listed(names: Any) -> str:
    return ", ".join(names)


def _unknown(operator: str) -> InvalidFilterError:
    hint = _INSTEAD.get(operator, f"for a metadata key of that name, write field({operator!r}, literal=True) == ...")
    return InvalidFilterError(
        f"unknown operator {operator!r} in the filter; on a field there are {_listed(_ON_FIELD)}, "
        f"and around filters {_listed(_COMBINING)}; {hint}"
    )


def _refuse_hidden_operators(key: Any, value: Any) -> None:
    """Refuse an operator below the first level, known or not.

    Compared as part of an object it would match nothing, silently, and everything where it is negated.
    """
    pending = [value]
    while pending:
        inner = pending.pop()
        if isinstance(inner, Mapping):
            hidden = [name for name in inner if _is_operator(name)]
            if hidden:
                raise InvalidFilterError(
                    f"filter[{key!r}] holds the operator {hidden[0]!r} inside an object; keys are literal here: write "
                    'field("author.name") == ... for a place inside an object, and $eq to compare with an object '
                    "that has such a key"
                )
            pending.extend(inner.values())
        elif isinstance(inner, (list, tuple)):
            pending.extend(inner)
