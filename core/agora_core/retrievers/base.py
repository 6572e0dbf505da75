"""What every shipped retriever has in common: one statement of its work, both twins, the scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import TYPE_CHECKING

from agora_core.embedding import check_query
from agora_core.events import watching
from agora_core.filters import Expression, any_of, compile_filter, conjoin
from agora_core.passages import Passages
from agora_core.protocols import AnyFilter, Retriever
from agora_core.records import Passage
from agora_core.retrievers.explanation import Explanation, recorded, recording
from agora_core.steps import Steps, arun, run
from agora_core.stores.per_document import check_per_document
from agora_core.validation import check_min_score, check_top_k

if TYPE_CHECKING:
    from agora_core.retrievers.scoped import ScopedRetriever


class BaseRetriever:
    """Finds passages for a query, from sync and from async code.

    A subclass states its work once, as `_retrieve`; the arguments it gets are checked.
    """

    @property
    def scope(self) -> Expression | None:
        """What bounds this retriever: None where nothing does, else the whole conjunction of all that does."""
        return None

    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        raise NotImplementedError(f"{type(self).__name__} must define _retrieve, or retrieve and aretrieve")

    def _over(self, wrap: Callable[[Retriever], Retriever]) -> Retriever | None:
        """Return this retriever with `wrap` before every reranker in it, so that these see only what is let through.

        All that it then finds went through `wrap`. None where nothing in it reranks: then wrapping the whole does.
        """
        return None

    def _holds(self, ids: list[str], scope: AnyFilter) -> Steps[set[str]]:
        """Say which of these ids there are within a scope, for views of a namespace; a retriever may not know."""
        yield from ()
        return set()

    def retrieve(
        self,
        query: str,
        *,
        top_k: int = 5,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> Passages:
        """Return at most `top_k` passages, best first.

        Args:
            query: what is asked, in the words of who asks.
            top_k: 1 or more.
            filter: a mapping or an expression; None retrieves without one.
            min_score: keep `score >= min_score`, on the scale of this retriever's own scores; None keeps all.
            per_document: at most this many passages of one document, 1 or more; `top_k` still counts passages, and
                the list is filled as far as there are any. None bounds nothing.

        Raises:
            InvalidArgumentError: an argument is not as described.
            InvalidFilterError: the filter could not be built.
        """
        return Passages(run(self._checked(query, top_k, filter, min_score, per_document)), query=query)

    async def aretrieve(
        self,
        query: str,
        *,
        top_k: int = 5,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> Passages:
        """Async twin of `retrieve`."""
        return Passages(await arun(self._checked(query, top_k, filter, min_score, per_document)), query=query)

    def explain(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> Explanation:
        """Retrieve, and say why each passage came: see `Explanation`. The passages are those of `retrieve`.

        Arguments and errors are those of `retrieve`. Legs that one store answers in one call are asked apart.
        """
        return run(self._explaining(query, top_k, filter, min_score))

    async def aexplain(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> Explanation:
        """Async twin of `explain`."""
        return await arun(self._explaining(query, top_k, filter, min_score))

    def _explaining(
        self, query: str, top_k: int, filter: AnyFilter | None, min_score: float | None
    ) -> Steps[Explanation]:
        with recorded(self) as around:
            found = yield from self._checked(query, top_k, filter, min_score, None)
        written = around.parts[0]
        if min_score is not None and written.is_simple:
            # A store that floors does not say how many it left out.
            without = yield from self._checked(query, top_k, filter, None, None)
            written.innermost.floored = len(without) - len(found)
        return Explanation(query, written, found)

    def _checked(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        wanted, floor, most = check_top_k(top_k), check_min_score(min_score), check_per_document(per_document)
        steps = self._retrieve(check_query(query), wanted, filter, floor, most)
        if recording() is not None:
            steps = self._recorded(steps)
        return watching("retrieve", steps, content=query, filter=filter, by=type(self).__name__, top_k=wanted)

    def _recorded(self, steps: Steps[list[Passage]]) -> Steps[list[Passage]]:
        with recorded(self) as own:
            own.found = yield from steps
            return own.found

    def scoped(self, filter: AnyFilter, *, namespace: str | None = None) -> ScopedRetriever:
        """Return a view of this retriever in which `filter` always holds; a call's own filter only narrows it.

        Args:
            filter: what the view may find.
            namespace: the ids of this namespace are shown without it; see `BaseVectorStore.scoped`.
        """
        from agora_core.retrievers.scoped import ScopedRetriever

        return ScopedRetriever(self, filter, namespace=namespace)


def at_least(passages: Iterable[Passage], min_score: float | None) -> list[Passage]:
    """Return the passages that reach a floor, all where it is None."""
    if min_score is None:
        return list(passages)
    return [passage for passage in passages if passage.score >= min_score]


def wrapped_inside(retriever: object, wrap: Callable[[Retriever], Retriever]) -> Retriever | None:
    """Return a retriever with `wrap` before every reranker in it; None where there is none, or none is known."""
    over = getattr(retriever, "_over", None)
    inner: Retriever | None = None if over is None else over(wrap)
    return inner


def whole_scope(part: object, *filters: AnyFilter | None) -> Expression | None:
    """Return the scope of what is bounded by `filters` too; None where nothing bounds it.

    Raises:
        AttributeError: the part does not say what bounds it.
    """
    return conjoined(part.scope, *filters)  # type: ignore[attr-defined]


def conjoined(*filters: AnyFilter | None) -> Expression | None:
    """Return all filters that are given as one; None where none is."""
    known = [each for each in filters if each is not None]
    return compile_filter(reduce(conjoin, known)) if known else None


def known_scope(retriever: object) -> Expression | None:
    """Return the scope that somebody's retriever tells, None where it has none of ours."""
    scope = getattr(retriever, "scope", None)
    return scope if isinstance(scope, Expression) else None


def shared_scope(parts: Iterable[object]) -> Expression | None:
    """Return the scope of a retriever that is composed of others: theirs where they agree, else any of theirs.

    Raises:
        AttributeError: a part does not say what bounds it.
    """
    scopes: list[Expression] = []
    for part in parts:
        scope: Expression | None = part.scope  # type: ignore[attr-defined]
        if scope is None:
            return None
        if scope not in scopes:
            scopes.append(scope)
    return None if not scopes else scopes[0] if len(scopes) == 1 else any_of(*scopes)
