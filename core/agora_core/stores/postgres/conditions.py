"""A filter as SQL: the one compiler from the internal form to Postgres. Keys and values are bound, never written.

For every leaf there is an exact condition on the jsonb value, with the two-valued logic of the filter language. Where
the table has the `tokens` column a condition on it takes its place when a token says the same thing exactly, and stands
beside it when the token only narrows; so the filter's membership is answered by one GIN index, and the planner's
statistics are those of the tokens. A narrowing condition is true wherever the exact one is, hence it stands only where
nothing negates it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from psycopg import sql

from agora_core.errors import UnsupportedFilterError
from agora_core.filters import FALSE, TRUE, Expression
from agora_core.filters.expressions import And, Leaf, Not, Or
from agora_core.filters.literals import Literal, Literals
from agora_core.filters.paths import Path
from agora_core.stores.postgres.rows import to_json_text
from agora_core.stores.postgres.tokens import tokens_looked_for

# The protocol numbers parameters with 16 bits; the statement around the condition needs a few of them.
_MOST_PARAMETERS: Final = 60_000

LONG: Final = 64
"""Tokens above which a row must not be compared with each of them, as `&&` does outside of the GIN index."""

LONGEST: Final = 1_024
"""Tokens above which hashing them beats that index, whose cost grows with their number for each row it finds."""


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
    hashed_from: int = LONGEST,
    prefix: str = "f",
) -> Condition:
    """Return the condition of a filter; None is no filter.

    Args:
        metadata: the jsonb column, qualified; null counts as `{}`.
        tokens: the tokens column, qualified, or None where the table has none.
        containment: narrow by `metadata @> ...` as well, for a table without tokens that has a GIN index on metadata.
        hashed_from: how many tokens looked for are hashed and not looked up in the index.
        prefix: the parameters are called this and a number; two conditions in one statement need two prefixes.

    Raises:
        UnsupportedFilterError: the filter holds more values than one statement takes.
    """
    if expression is None or expression == TRUE:
        return ALWAYS
    if (leaves := _leaves(expression)) > _MOST_PARAMETERS:
        raise _too_many(str(leaves))
    compiler = _Compiler(metadata, tokens, containment, hashed_from, prefix)
    condition = compiler.positive(expression)
    return Condition(Raw(condition.as_string(None)), compiler.parameters)


class _Compiler:
    def __init__(
        self, metadata: sql.Composable, tokens: sql.Composable | None, containment: bool, hashed_from: int, prefix: str
    ) -> None:
        self.metadata = metadata
        self.tokens = tokens
        self.containment = containment and tokens is None
        self.hashed_from = hashed_from
        self.prefix = prefix
        self.parameters: dict[str, Any] = {}

    def bind(self, value: object) -> sql.Placeholder:
        """Return the placeholder of a new parameter."""
        if len(self.parameters) == _MOST_PARAMETERS:
            raise _too_many("more")
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
        looked_for = tokens_looked_for(leaf.path, leaf.operator.lookup(leaf.operand))
        if looked_for is None or (only_exact and not looked_for.says_all):
            return None
        parameter = self.bind(looked_for.tokens)
        if len(looked_for.tokens) > LONG and not looked_for.every:
            # The planner takes what it does not know for rare, and goes by the index; a constant list is hashed.
            known = "EXISTS (SELECT FROM unnest({}) AS token WHERE token = ANY ({}::text[]))"
            text = known if len(looked_for.tokens) > self.hashed_from else "{} && (SELECT {}::text[])"
            return sql.SQL(text).format(self.tokens, parameter), looked_for.says_all
        operator = sql.SQL("@>") if looked_for.every else sql.SQL("&&")
        return sql.SQL("{} {} {}::text[]").format(self.tokens, operator, parameter), looked_for.says_all

    def containment_condition(self, leaf: Leaf) -> sql.Composable | None:
        """Return a condition that `jsonb @>` answers from a GIN index and that holds wherever the leaf does."""
        lookup = leaf.operator.lookup(leaf.operand)
        patterns: list[Any] = [*lookup.equal]
        if lookup.every:
            patterns = [[*lookup.holds]]
        elif lookup.types:
            return None
        else:
            patterns += [[member] for member in lookup.holds]
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
        said, value = leaf.operator.sql(leaf.operand), self.value_at(leaf.path)
        bound = {name: self.parameter(given) for name, given in said.parameters.items()}
        # The template is one of the table's, whatever the filter holds; every value is a parameter.
        return sql.SQL(said.template).format(value=value, members=_members(value), **bound)

    def parameter(self, given: Literal | Literals | str) -> sql.Composable:
        """Bind a parameter of a template, with its type."""
        if isinstance(given, Literal):
            return sql.SQL("{}::jsonb").format(self.bind(to_json_text(given.value)))
        if isinstance(given, Literals):
            return sql.SQL("{}::text[]::jsonb[]").format(self.bind([to_json_text(value) for value in given]))
        return sql.SQL("{}::text").format(self.bind(given))


def _leaves(node: Expression) -> int:
    if isinstance(node, (And, Or)):
        return sum(map(_leaves, node.children))
    return _leaves(node.child) if isinstance(node, Not) else 1


def _too_many(number: str) -> UnsupportedFilterError:
    return UnsupportedFilterError(
        f"the filter has {number} conditions, where one statement takes {_MOST_PARAMETERS}; "
        "use in_ or a list value, which are one condition each"
    )


def _leaf(node: Expression) -> Leaf:
    if not isinstance(node, Leaf):
        raise UnsupportedFilterError(f"{type(node).__name__} is not a condition of the filter language")
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
