"""The one compiler from filter expressions to Qdrant's filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agora_core.errors import UnsupportedFilterError
from agora_core.extras import require
from agora_core.filters import FALSE, TRUE, Expression, compile_filter, predicate
from agora_core.filters.expressions import And, Leaf, Not, Or
from agora_core.filters.matching import Predicate
from agora_core.filters.paths import Path
from agora_core.protocols import AnyFilter
from agora_core.stores.qdrant.local_mode import judging_filter
from agora_core.stores.qdrant.numbers import number_parts
from agora_core.stores.qdrant.payload import FORMAT, FORMAT_KEY, MARKED, looked_for, number_keys, tokens_key

if TYPE_CHECKING:
    from qdrant_client import models


# Servers read requests to about 100 levels, and each Filter inside another takes two; what is deeper is judged here.
_DEEPEST: Final = 32


@dataclass(frozen=True, slots=True)
class CompiledFilter:
    """A filter for Qdrant: `tokens` selects by tokens what matches, and more where `exact` is False; `matches` decides.

    `tokens` is None where every point is selected, and nowhere else: a filter that matches nothing has a Filter that
    selects nothing, which Qdrant itself can only read so. `denies` says that nothing need be asked at all.
    A point that another writer left without tokens is selected by `candidates` and not by `own`.
    """

    tokens: models.Filter | None
    exact: bool
    matches: Predicate
    denies: bool = False

    @property
    def candidates(self) -> Any:
        """The Filter of all points that may match, None for every point; `matches` judges each."""
        if self.tokens is None:
            return None
        return qdrant_models().Filter(should=[self.tokens, *_lacking_tokens()])

    @property
    def own(self) -> Any:
        """The Filter of the points with tokens that match, exactly so where `exact` is True."""
        has_tokens = _has_tokens()
        return qdrant_models().Filter(must=[has_tokens] if self.tokens is None else [self.tokens, has_tokens])


def _has_tokens() -> Any:
    models = qdrant_models()
    return models.FieldCondition(key=FORMAT_KEY, match=models.MatchValue(value=FORMAT))


def without_tokens() -> models.Filter:
    """Return the Filter of the points whose tokens say nothing: of another writer, or under way."""
    return qdrant_models().Filter(should=_lacking_tokens())  # type: ignore[no-any-return]


def _lacking_tokens() -> list[Any]:
    # Said by what is there: a server finds that in its indexes, and would walk every point to find what is not.
    models = qdrant_models()
    marked = models.FieldCondition(key=FORMAT_KEY, match=models.MatchValue(value=MARKED))
    return [marked, models.IsEmptyCondition(is_empty=models.PayloadField(key=FORMAT_KEY))]


def _nothing() -> Any:
    """Return the condition that holds for no point: its id is among none."""
    return qdrant_models().HasIdCondition(has_id=[])


def _everything(metadata: Any) -> bool:
    return True


NO_FILTER: Final = CompiledFilter(None, True, _everything)


def qdrant_models() -> Any:
    """Return the models of qdrant-client.

    Raises:
        MissingExtraError: it is not installed.
    """
    return require("qdrant_client", extra="qdrant").models


def compile_for_qdrant(filter: AnyFilter | None, *, local: bool = False) -> CompiledFilter:
    """Compile a filter, None meaning none; for local mode, which has no index, it is a judge of each point.

    Raises:
        InvalidFilterError: the filter could not be built.
        UnsupportedFilterError: it holds a condition that this compiler does not know.
    """
    if filter is None:
        return NO_FILTER
    expression = compile_filter(filter)
    if expression == TRUE:
        return NO_FILTER
    if expression == FALSE:
        return CompiledFilter(conjunction([_nothing()]), True, predicate(expression), denies=True)
    if local:
        matches = predicate(expression)
        return CompiledFilter(judging_filter(matches), True, matches)
    compiler = _Compiler()
    condition = compiler.superset(expression)
    return CompiledFilter(
        None if condition is None else conjunction([condition]), compiler.exact, predicate(expression)
    )


def conjunction(must: list[Any], *, must_not: list[Any] | None = None) -> Any:
    """Return one Filter of these conditions, None where there are none; a lone Filter is not wrapped again."""
    models = qdrant_models()
    if not must and not must_not:
        return None
    if len(must) == 1 and not must_not and isinstance(must[0], models.Filter):
        return must[0]
    return models.Filter(must=must or None, must_not=must_not)


class _Compiler:
    """Turns one expression into conditions, and remembers in `exact` whether they say exactly the same."""

    def __init__(self) -> None:
        self.exact = True
        self._models = qdrant_models()

    def superset(self, node: Expression, *, negated: bool = False, depth: int = 0) -> Any:
        """Return a condition that every match of `node` (of its negation, where `negated`) satisfies; None is all.

        Negations are pushed down to the leaves, because the negation of a superset is no superset.
        """
        if isinstance(node, Not):
            return self.superset(node.child, negated=not negated, depth=depth)
        if isinstance(node, (And, Or)):
            if not node.children:
                # An empty list of alternatives would be read as no condition.
                return None if isinstance(node, And) is not negated else _nothing()
            if depth == _DEEPEST:
                self.exact = False
                return None
            children = [self.superset(child, negated=negated, depth=depth + 1) for child in node.children]
            if isinstance(node, And) is not negated:
                return conjunction([child for child in children if child is not None])
            return None if None in children else self._models.Filter(should=children)
        if not isinstance(node, Leaf):
            raise UnsupportedFilterError(f"{type(node).__name__} is not a condition that Qdrant can be asked")
        condition, exact = self._leaf(node)
        if exact:
            return self._models.Filter(must_not=[condition]) if negated else condition
        self.exact = False
        # The condition holds for more than the leaf, so its negation would lose matches: every point is a candidate.
        return None if negated else condition

    def _leaf(self, node: Leaf) -> tuple[Any, bool]:
        """Return the condition of a leaf, and whether it says exactly the same."""
        lookup = node.operator.lookup(node.operand)
        if lookup.bound is not None:
            return self._range(node.path, *lookup.bound), True
        tokens = looked_for(node.path, lookup)
        if not tokens:
            return _nothing(), True
        if not lookup.every or len(tokens) == 1:
            return self._any(node.path, tokens), lookup.exact
        return self._models.Filter(must=[self._any(node.path, [token]) for token in tokens]), lookup.exact

    def _any(self, path: Path, tokens: list[str]) -> Any:
        match = self._models.MatchAny(any=tokens) if len(tokens) > 1 else self._models.MatchValue(value=tokens[0])
        return self._models.FieldCondition(key=tokens_key(path), match=match)

    def _range(self, path: Path, operator: str, number: float) -> Any:
        """Compare both parts of a number: the high one decides, and where it is equal the low one."""
        models = self._models
        (high_key, low_key), (high, low) = number_keys(path), number_parts(number)
        strict = "lt" if operator in ("<", "<=") else "gt"
        side = strict + ("e" if operator in ("<=", ">=") else "")
        beyond = models.FieldCondition(key=high_key, range=models.Range(**{strict: float(high)}))
        at = models.FieldCondition(key=high_key, match=models.MatchValue(value=high))
        rest = models.FieldCondition(key=low_key, range=models.Range(**{side: float(low)}))
        return models.Filter(should=[beyond, models.Filter(must=[at, rest])])
