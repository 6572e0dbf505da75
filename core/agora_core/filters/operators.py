"""The operators of the filter language, one entry each: what it takes, what it means, its JSON, its SQL, its lookup.

Everything else goes by this table: the JSON form, the index in memory, Postgres' and Qdrant's compilers. A backend that
has no index for an operator looks up more records than match (`Lookup.exact` is False) and judges each by `holds`.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from typing import Literal as OneOf

from agora_core.filters.literals import JsonType, Literal, Literals, json_equal, json_type
from agora_core.filters.text import fold_case, fold_mapping

_TYPES: Final[tuple[JsonType, ...]] = ("null", "boolean", "number", "string", "array", "object")

Test = Callable[[Any], bool]
"""The test of a value that is there."""

_NONE: Final = Literals()


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text to look for; where case does not count it is stored folded."""

    text: str
    case_sensitive: bool = True

    def of(self, value: Any) -> Any:
        """Return a text as this one is compared with it."""
        return value if self.case_sensitive else fold_case(value)


@dataclass(frozen=True, slots=True)
class Sql:
    """A condition on the jsonb `{value}` at a path; null or false where the operator does not hold.

    `{members}` is the set of a list's members (empty for anything else); every other name is a parameter: a Literal
    becomes a jsonb, Literals a jsonb[], a str a text.
    """

    template: str
    parameters: Mapping[str, Literal | Literals | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lookup:
    """What to ask an index of values for: the records with any of these, or with `every` one of them.

    A record has a member of `equal` where its value is that, of `holds` where its value is a list that holds that, of
    `types` where its value is of that JSON type. `exact` says that these are the records that match; without it they
    are all that may match, and each is to be judged. `bound` is an exact comparison of numbers, for an index of those.
    """

    equal: Literals = _NONE
    holds: Literals = _NONE
    types: tuple[JsonType, ...] = ()
    every: bool = False
    exact: bool = True
    bound: tuple[str, float] | None = None

    @property
    def has_compounds(self) -> bool:
        """Whether a list or an object is looked for."""
        return self.equal.has_compounds or self.holds.has_compounds

    @property
    def only_scalar_types(self) -> bool:
        """Whether nothing but the type of a scalar is looked for."""
        return not (self.every or len(self.equal) or len(self.holds) or "array" in self.types or "object" in self.types)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Operator:
    """One operator. What it is given is its operand: None, a `Literal`, `Literals` or a `Text`, by `takes`."""

    name: str
    """Its name in JSON, and of the method of `Field`; of a symbol the method is Python's."""
    takes: OneOf["nothing", "value", "values", "text"]
    holds: Callable[[Any], Test]
    """From the operand to the test of a value that is there; a missing one never satisfies."""
    sql: Callable[[Any], Sql]
    """From the operand to Postgres' condition, which says exactly the same."""
    lookup: Callable[[Any], Lookup] = lambda _: Lookup(types=_TYPES, exact=False)
    """From the operand to what an index is asked; left out, every record with a value is judged."""
    method: str = ""
    types: tuple[JsonType, ...] = ()
    """The JSON types that a value may have; none is every type."""
    denies_empty: bool = True
    """Whether no values at all deny everything."""
    usage: str
    """How it is written, and what it means, for the table in the documentation."""
    meaning: str

    def __repr__(self) -> str:
        return f"Operator({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (operator_named, (self.name,))


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _equals(literal: Literal) -> Test:
    expected = literal.value
    return lambda value: json_equal(value, expected)


def _shares(values: Literals) -> Test:
    return lambda value: _is_list(value) and any(member in values for member in value)


def _matches_any(values: Literals) -> Test:
    return lambda value: value in values or (_is_list(value) and any(member in values for member in value))


def _contains_all(values: Literals) -> Test:
    wanted = list(values)
    return lambda value: _is_list(value) and all(any(json_equal(v, want) for v in value) for want in wanted)


EQUALS: Final = Operator(
    name="==",
    takes="value",
    holds=_equals,
    # jsonb equality is JSON equality: numbers by value, types kept apart, objects whatever their order.
    sql=lambda literal: Sql("{value} = {literal}", {"literal": literal}),
    lookup=lambda literal: Lookup(equal=Literals([literal.value])),
    usage='`field("k") == v`, `field("k") != v`, `.is_null()`',
    meaning="the whole value equals `v` as JSON; `!=` is `not_` of it; a null is stored",
)
IN: Final = Operator(
    name="in",
    method="in_",
    takes="values",
    holds=lambda values: values.__contains__,
    sql=lambda values: Sql("{value} = ANY ({values})", {"values": values}),
    lookup=lambda values: Lookup(equal=values),
    usage="`.in_([...])`, `.not_in([...])`",
    meaning="the whole value is one of them; `.not_in` is `not_` of it",
)
MATCHES_ANY: Final = Operator(
    name="matches_any",
    takes="values",
    holds=_matches_any,
    sql=lambda values: Sql(
        "({value} = ANY ({values}) OR EXISTS (SELECT FROM {members} AS member WHERE member = ANY ({values})))",
        {"values": values},
    ),
    lookup=lambda values: Lookup(equal=values, holds=values),
    usage="`.matches_any([...])`",
    meaning="what a list means in the mapping form",
)
CONTAINS_ANY: Final = Operator(
    name="contains_any",
    takes="values",
    holds=_shares,
    sql=lambda values: Sql(
        "EXISTS (SELECT FROM {members} AS member WHERE member = ANY ({values}))", {"values": values}
    ),
    lookup=lambda values: Lookup(holds=values),
    usage="`.contains_any([...])`",
    meaning="the value is a list and holds one of them",
)
CONTAINS_ALL: Final = Operator(
    name="contains_all",
    takes="values",
    denies_empty=False,
    holds=_contains_all,
    sql=lambda values: Sql(
        "(jsonb_typeof({value}) = 'array' AND NOT EXISTS (SELECT FROM unnest({values}) AS wanted "
        "WHERE wanted NOT IN (SELECT member FROM {members} AS member)))",
        {"values": values},
    ),
    lookup=lambda values: Lookup(holds=values, types=() if len(values) else ("array",), every=True),
    usage="`.contains_all([...])`",
    meaning="the value is a list and holds each of them",
)
EXISTS: Final = Operator(
    name="exists",
    takes="nothing",
    holds=lambda _: lambda value: True,
    sql=lambda _: Sql("{value} IS NOT NULL"),
    lookup=lambda _: Lookup(types=_TYPES),
    usage="`.exists()`",
    meaning="there is a value, be it null",
)


def _comparison(symbol: str, compare: Callable[[Any, Any], bool]) -> Operator:
    def sql(literal: Literal) -> Sql:
        if literal.type == "number":
            # Two jsonb numbers compare as numerics, exactly; no cast can fail.
            return Sql(f"(jsonb_typeof({{value}}) = 'number' AND {{value}} {symbol} {{bound}})", {"bound": literal})
        # "C" orders UTF-8 by code point, whatever the database's collation is.
        template = (
            f"(jsonb_typeof({{value}}) = 'string' AND ({{value}} #>> '{{{{}}}}') COLLATE \"C\" {symbol} {{bound}})"
        )
        return Sql(template, {"bound": str(literal.value)})

    def holds(literal: Literal) -> Test:
        kind, bound = literal.type, literal.value
        return lambda value: json_type(value) == kind and compare(value, bound)

    def lookup(literal: Literal) -> Lookup:
        bound: Any = (symbol, literal.value) if literal.type == "number" else None
        return Lookup(types=(literal.type,), exact=False, bound=bound)

    return Operator(
        name=symbol,
        takes="value",
        types=("number", "string"),
        holds=holds,
        sql=sql,
        lookup=lookup,
        usage=f'`field("k") {symbol} v`' + (", `.between(a, b)`" if symbol == "<=" else ""),
        meaning="a number against a number, exactly, or a string against a string, by code point"
        + ("; `.between` includes both ends" if symbol == "<=" else ""),
    )


LESS: Final = _comparison("<", python.lt)
AT_MOST: Final = _comparison("<=", python.le)
MORE: Final = _comparison(">", python.gt)
AT_LEAST: Final = _comparison(">=", python.ge)


def _text_sql(condition: str) -> Callable[[Text], Sql]:
    """Return the SQL of an operator on strings; `condition` names the value's `{{text}}` and the `{{needle}}`."""

    def sql(text: Text) -> Sql:
        value, parameters = "({value} #>> '{{}}') COLLATE \"C\"", {"needle": text.text}
        if not text.case_sensitive:
            # lower() would depend on the locale; the characters that fold into the needle's are few.
            value = f"translate({value}, {{folded}}, {{into}})"
            parameters["folded"], parameters["into"] = fold_mapping(text.text)
        return Sql(f"(jsonb_typeof({{value}}) = 'string' AND {condition.replace('{text}', value)})", parameters)

    return sql


def _strings(text: Text) -> Lookup:
    return Lookup(types=("string",), exact=False)


MATCHES_TEXT: Final = Operator(
    name="matches_text",
    takes="text",
    holds=lambda text: lambda value: isinstance(value, str) and text.text in text.of(value),
    sql=_text_sql("strpos({text}, {needle}) > 0"),
    lookup=_strings,
    usage='`.matches_text("...", case_sensitive=True)`',
    meaning="the value is a string that contains these characters, literally",
)
STARTS_WITH: Final = Operator(
    name="starts_with",
    takes="text",
    holds=lambda text: lambda value: isinstance(value, str) and text.of(value).startswith(text.text),
    sql=_text_sql("starts_with({text}, {needle})"),
    lookup=_strings,
    usage='`.starts_with("...", case_sensitive=True)`',
    meaning="the value is a string that begins with these characters, literally",
)

OPERATORS: Final[dict[str, Operator]] = {
    entry.name: entry
    for entry in (
        EQUALS,
        LESS,
        AT_MOST,
        MORE,
        AT_LEAST,
        IN,
        CONTAINS_ANY,
        CONTAINS_ALL,
        MATCHES_ANY,
        EXISTS,
        MATCHES_TEXT,
        STARTS_WITH,
    )
}
"""Every operator by its name in JSON."""


def operator_named(name: str) -> Operator:
    """Return the operator of this name: what a pickle of one holds."""
    return OPERATORS[name]
