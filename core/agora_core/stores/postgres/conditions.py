"""A filter as SQL: the one compiler from the internal form to Postgres. Keys and values are bound, never written.

For every leaf there is an exact condition on the jsonb value, with the two-valued logic of the filter language. Where
the table has the `tokens` column a condition on it takes its place when a token says the same thing exactly, and stands
beside it when the token only narrows; so the filter's membership is answered by one GIN index, and the planner's
statistics are those of the tokens. A narrowing condition is true wherever the exact one is, hence it stands only where
nothing negates it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from psycopg import sql

from agora_core.errors import UnsupportedFilterError
from agora_core.filters import FALSE, TRUE, Expression
from agora_core.filters.expressions import (
    And,
    Compare,
    ContainsAll,
    ContainsAny,
    Equals,
    Exists,
    IsOneOf,
    Leaf,
    MatchesAny,
    MatchesText,
    Not,
    Or,
    Path,
)
from agora_core.filters.literals import Literal
from agora_core.filters.text import fold_mapping
from agora_core.stores.postgres.json_text import to_json_text
from agora_core.stores.postgres.tokens import is_exact, list_token, member_token, object_token, value_token

# The protocol numbers parameters with 16 bits; the statement around the condition needs a few of them.
_MOST_PARAMETERS: Final = 60_000

_LEAVES: Final = (Equals, MatchesAny, IsOneOf, ContainsAny, ContainsAll, Compare, Exists, MatchesText)


class Raw(sql.Composable):
    """SQL that a `Composable` was rendered to already."""

    def __init__(self, text: str) -> None:
        super().__init__(text)

    def as_bytes(self, context: Any = None) -> bytes:
        """Return the text, encoded."""
        return str(self._obj).encode()

    @property
    def text(self) -> str:
        """The text."""
        return str(self._obj)


@dataclass(frozen=True, slots=True)
class Condition:
    """A piece of SQL for a WHERE clause, and the parameters it names. Null never comes out where `strict` is asked."""

    clause: Raw
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def strict(self) -> sql.Composable:
        """The condition as a boolean that is never null."""
        return sql.SQL("coalesce({}, false)").format(self.clause)


ALWAYS: Final = Condition(Raw("true"))


def compile_condition(
    expression: Expression | None,
    *,
    metadata: sql.Composable,
    tokens: sql.Composable | None = None,
    containment: bool = False,
    prefix: str = "f",
) -> Condition:
    """Return the condition of a filter; None is no filter.

    Args:
        metadata: the jsonb column, qualified; null counts as `{}`.
        tokens: the tokens column, qualified, or None where the table has none.
        containment: narrow by `metadata @> ...` as well, for a table without tokens that has a GIN index on metadata.
        prefix: the parameters are called this and a number; two conditions in one statement need two prefixes.

    Raises:
        UnsupportedFilterError: the filter holds more values than one statement takes.
    """
    if expression is None or expression == TRUE:
        return ALWAYS
    compiler = _Compiler(metadata, tokens, containment, prefix)
    condition = compiler.positive(expression)
    if len(compiler.parameters) > _MOST_PARAMETERS:
        raise UnsupportedFilterError(
            f"the filter has {len(compiler.parameters)} conditions, where one statement takes {_MOST_PARAMETERS}; "
            "use in_ or a list value, which are one condition each"
        )
    return Condition(Raw(condition.as_string(None)), compiler.parameters)


class _Compiler:
    def __init__(self, metadata: sql.Composable, tokens: sql.Composable | None, containment: bool, prefix: str) -> None:
        self.metadata = metadata
        self.tokens = tokens
        self.containment = containment and tokens is None
        self.prefix = prefix
        self.parameters: dict[str, Any] = {}

    def bind(self, value: object) -> sql.Placeholder:
        """Return the placeholder of a new parameter."""
        name = f"{self.prefix}{len(self.parameters)}"
        self.parameters[name] = value
        return sql.Placeholder(name)

    def positive(self, node: Expression) -> sql.Composable:
        """Compile where nothing negates: null is as good as false, and narrowing conditions are sound."""
        if isinstance(node, (And, Or)):
            return self.joined(node, self.positive)
        if isinstance(node, Not):
            return sql.SQL("NOT {}").format(self.exact(node.child))
        leaf = _leaf(node)
        by_token = self.token_condition(leaf)
        if by_token is None:
            if self.containment and (pattern := self.containment_condition(leaf)) is not None:
                return sql.SQL("({} AND {})").format(pattern, self.value_condition(leaf))
            return self.value_condition(leaf)
        condition, says_all = by_token
        if says_all:
            return condition
        return sql.SQL("({} AND {})").format(condition, self.value_condition(leaf))

    def exact(self, node: Expression) -> sql.Composable:
        """Compile to a boolean that is never null and equivalent to the filter, so that it may be negated."""
        if isinstance(node, (And, Or)):
            return self.joined(node, self.exact)
        if isinstance(node, Not):
            return sql.SQL("NOT {}").format(self.exact(node.child))
        leaf = _leaf(node)
        by_token = self.token_condition(leaf, only_exact=True)
        if by_token is not None:
            return by_token[0]
        return sql.SQL("coalesce({}, false)").format(self.value_condition(leaf))

    def joined(self, node: And | Or, each: Callable[[Expression], sql.Composable]) -> sql.Composable:
        if node == TRUE:
            return sql.SQL("true")
        if node == FALSE:
            return sql.SQL("false")
        word = sql.SQL(" AND ") if isinstance(node, And) else sql.SQL(" OR ")
        return sql.SQL("({})").format(word.join(map(each, node.children)))

    # Tokens.

    def token_condition(self, leaf: Leaf, *, only_exact: bool = False) -> tuple[sql.Composable, bool] | None:
        """Return a condition on the tokens that holds wherever the leaf does, and whether it says all of it."""
        if self.tokens is None:
            return None
        looked_for = _tokens_of(leaf)
        if looked_for is None or (only_exact and not looked_for.says_all):
            return None
        operator = sql.SQL("@>") if looked_for.every else sql.SQL("&&")
        parameter = self.bind(looked_for.tokens)
        return sql.SQL("{} {} {}::text[]").format(self.tokens, operator, parameter), looked_for.says_all

    def containment_condition(self, leaf: Leaf) -> sql.Composable | None:
        """Return a condition that `jsonb @>` answers from a GIN index and that holds wherever the leaf does."""
        patterns: list[Any]
        if isinstance(leaf, Equals):
            patterns = [leaf.literal.value]
        elif isinstance(leaf, IsOneOf):
            patterns = [literal.value for literal in leaf.literals]
        elif isinstance(leaf, MatchesAny):
            patterns = [pattern for literal in leaf.literals for pattern in (literal.value, [literal.value])]
        elif isinstance(leaf, ContainsAny):
            patterns = [[literal.value] for literal in leaf.literals]
        elif isinstance(leaf, ContainsAll):
            patterns = [[literal.value for literal in leaf.literals]]
        else:
            return None
        texts = [to_json_text(_nested(leaf.path, pattern)) for pattern in patterns]
        return sql.SQL("{} @> ANY ({}::text[]::jsonb[])").format(self.metadata, self.bind(texts))

    # Values.

    def value_at(self, path: Path) -> sql.Composable:
        """Return the jsonb at a path, SQL null where there is none. `->` with a text key walks objects only."""
        value: sql.Composable = self.metadata
        for segment in path:
            value = sql.SQL("{} -> {}::text").format(value, self.bind(segment))
        return sql.SQL("({})").format(value)

    def value_condition(self, leaf: Leaf) -> sql.Composable:
        """Return the exact condition on the value; null or false where the leaf does not hold."""
        value = self.value_at(leaf.path)
        if isinstance(leaf, Exists):
            return sql.SQL("{} IS NOT NULL").format(value)
        if isinstance(leaf, Equals):
            # jsonb equality is JSON equality: numbers by value, types kept apart, objects whatever their order.
            return sql.SQL("{} = {}::jsonb").format(value, self.bind(to_json_text(leaf.literal.value)))
        if isinstance(leaf, IsOneOf):
            return self.among(value, leaf.literals)
        if isinstance(leaf, MatchesAny):
            return sql.SQL("({} OR {})").format(self.among(value, leaf.literals), self.shares(value, leaf.literals))
        if isinstance(leaf, ContainsAny):
            return self.shares(value, leaf.literals)
        if isinstance(leaf, ContainsAll):
            return self.holds_all(value, leaf.literals)
        if isinstance(leaf, Compare):
            return self.compared(value, leaf)
        if isinstance(leaf, MatchesText):
            return self.contains_text(value, leaf)
        raise UnsupportedFilterError(f"{type(leaf).__name__} is no condition that Postgres answers")

    def json_array(self, literals: Sequence[Literal]) -> sql.Composable:
        texts = [to_json_text(literal.value) for literal in literals]
        return sql.SQL("{}::text[]::jsonb[]").format(self.bind(texts))

    def among(self, value: sql.Composable, literals: Sequence[Literal]) -> sql.Composable:
        return sql.SQL("{} = ANY ({})").format(value, self.json_array(literals))

    def shares(self, value: sql.Composable, literals: Sequence[Literal]) -> sql.Composable:
        return sql.SQL("EXISTS (SELECT FROM {} AS member WHERE member = ANY ({}))").format(
            _members(value), self.json_array(literals)
        )

    def holds_all(self, value: sql.Composable, literals: Sequence[Literal]) -> sql.Composable:
        return sql.SQL(
            "(jsonb_typeof({value}) = 'array' AND NOT EXISTS (SELECT FROM unnest({wanted}) AS wanted "
            "WHERE wanted NOT IN (SELECT member FROM {members} AS member)))"
        ).format(value=value, wanted=self.json_array(literals), members=_members(value))

    def compared(self, value: sql.Composable, leaf: Compare) -> sql.Composable:
        operator = {"<": sql.SQL("<"), "<=": sql.SQL("<="), ">": sql.SQL(">"), ">=": sql.SQL(">=")}[leaf.operator]
        if leaf.literal.type == "number":
            # Two jsonb numbers compare as numerics, exactly; no cast can fail.
            return sql.SQL("(jsonb_typeof({value}) = 'number' AND {value} {operator} {other}::jsonb)").format(
                value=value, operator=operator, other=self.bind(to_json_text(leaf.literal.value))
            )
        # "C" orders UTF-8 by code point, whatever the database's collation is.
        return sql.SQL(
            "(jsonb_typeof({value}) = 'string' AND ({value} #>> '{{}}') COLLATE \"C\" {operator} {other}::text)"
        ).format(value=value, operator=operator, other=self.bind(leaf.literal.value))

    def contains_text(self, value: sql.Composable, leaf: MatchesText) -> sql.Composable:
        text: sql.Composable = sql.SQL("({} #>> '{{}}') COLLATE \"C\"").format(value)
        if not leaf.case_sensitive:
            # lower() would depend on the locale; the characters that fold into the needle's are few.
            folded, into = fold_mapping(leaf.text)
            text = sql.SQL("translate({}, {}::text, {}::text)").format(text, self.bind(folded), self.bind(into))
        return sql.SQL("(jsonb_typeof({}) = 'string' AND strpos({}, {}::text) > 0)").format(
            value, text, self.bind(leaf.text)
        )


@dataclass(frozen=True, slots=True)
class _LookedFor:
    """Tokens of which a record has `every` one or any, and whether that is all the leaf says."""

    tokens: list[str]
    every: bool
    says_all: bool


def _tokens_of(leaf: Leaf) -> _LookedFor | None:
    """Return the tokens a record must have to satisfy a leaf, or None where tokens say nothing of it."""
    key = leaf.path[0]
    if len(leaf.path) > 1:
        # There is something inside the value of the first key, so that is an object.
        return _LookedFor([object_token(key)], every=True, says_all=False)
    if isinstance(leaf, Equals):
        value = leaf.literal.value
        tokens = [value_token(key, value)]
        if isinstance(value, list):
            tokens += [member_token(key, member) for member in value]
        return _LookedFor(list(dict.fromkeys(tokens)), every=True, says_all=is_exact(leaf.literal))
    if isinstance(leaf, (IsOneOf, MatchesAny, ContainsAny)):
        tokens = []
        for literal in leaf.literals:
            if not isinstance(leaf, ContainsAny):
                tokens.append(value_token(key, literal.value))
            if not isinstance(leaf, IsOneOf):
                tokens.append(member_token(key, literal.value))
        return _LookedFor(list(dict.fromkeys(tokens)), every=False, says_all=all(map(is_exact, leaf.literals)))
    if isinstance(leaf, ContainsAll):
        tokens = [list_token(key), *(member_token(key, literal.value) for literal in leaf.literals)]
        return _LookedFor(list(dict.fromkeys(tokens)), every=True, says_all=all(map(is_exact, leaf.literals)))
    return None


def _leaf(node: Expression) -> Leaf:
    if not isinstance(node, _LEAVES):
        raise UnsupportedFilterError(f"{type(node).__name__} is no condition of the filter language")
    return node


def _members(value: sql.Composable) -> sql.Composable:
    """Return the members of a list as a set, empty for anything else; jsonb_array_elements refuses other types."""
    return sql.SQL("jsonb_array_elements(CASE jsonb_typeof({value}) WHEN 'array' THEN {value} ELSE '[]' END)").format(
        value=value
    )


def _nested(path: Path, value: Any) -> Any:
    for segment in reversed(path):
        value = {segment: value}
    return value
