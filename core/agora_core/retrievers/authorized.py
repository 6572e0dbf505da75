"""Retrieval behind a permission check that lives elsewhere: OpenFGA, SpiceDB, Cerbos, a query of one's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from agora_core.calling import acall_function, call_function
from agora_core.errors import AuthorizationError, InvalidArgumentError
from agora_core.filters import Expression
from agora_core.protocols import AnyFilter, Retriever
from agora_core.records import Passage, document_id_of
from agora_core.retrievers.base import BaseRetriever, shared_scope, wrapped_inside
from agora_core.retrievers.ports import RetrieverPort
from agora_core.steps import Call, Steps
from agora_core.validation import check_top_k

Check = Callable[[Sequence[str]], Iterable[str] | Awaitable[Iterable[str]]]
"""Takes document ids and returns those of them that are allowed."""

_GROWTH = 2


class AuthorizedRetriever(BaseRetriever):
    """Gives only passages of documents that `check` allows, in the order of `base`.

    Nothing reaches a caller, a log or a reranker before it was allowed: where something in `base` reranks, be it the
    leg of a hybrid, its candidates are checked. Decisions hold for one call and are never remembered beyond it; each
    document is asked for once a call, or once for each leg of a hybrid in which a leg reranks. Put a filter before it
    that keeps out most of what is not allowed, so that few checks are needed.

    Examples:
        >>> may = AuthorizedRetriever(retriever, lambda ids: [one for one in ids if one != "board"])
        >>> [passage.id for passage in may.retrieve("days of leave")]
        ['leave#0']
    """

    def __init__(self, base: Retriever, check: Check, *, batch_size: int = 50, max_checks: int = 500) -> None:
        """Accept any object with `retrieve` or `aretrieve`.

        Args:
            base: gives the passages, best first.
            check: takes a list of document ids and returns those that are allowed, sync or async; async only from
                async code. Whatever it raises fails the call.
            batch_size: how many ids it is asked for at once, 1 or more.
            max_checks: how many ids are asked for in one call, 1 or more; then what is allowed so far is the answer.

        Raises:
            InvalidArgumentError: `check` cannot be called, or a number is below 1.
            UnsupportedOperationError: `base` has neither method.
        """
        if not callable(check):
            raise InvalidArgumentError(f"check must be a function of document ids, got {type(check).__name__}")
        self.base = base
        self.check = check
        self.batch_size = check_top_k(batch_size, argument="batch_size")
        self.max_checks = check_top_k(max_checks, argument="max_checks")
        wrap = partial(AuthorizedRetriever, check=check, batch_size=batch_size, max_checks=max_checks)
        inner = wrapped_inside(base, wrap)
        self._inner = None if inner is None else RetrieverPort(inner)
        self._base = RetrieverPort(base)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r})"

    @property
    def scope(self) -> Expression | None:
        """The scope of the base."""
        return shared_scope([self.base])

    def _over(self, wrap: Callable[[Retriever], Retriever]) -> AuthorizedRetriever | None:
        inner = wrapped_inside(self.base, wrap)
        numbers = {"batch_size": self.batch_size, "max_checks": self.max_checks}
        return None if inner is None else AuthorizedRetriever(inner, self.check, **numbers)

    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        """Retrieve and check, and ask for more until there is enough, no more, or no check left.

        Raises:
            AuthorizationError: the check answered with something else than a list of ids that it was asked for.
        """

        def fetch(port: RetrieverPort, count: int) -> Steps[list[Passage]]:
            options = {"top_k": count, "min_score": min_score, "per_document": per_document}
            return port.retrieve(query, filter=filter, **options)  # type: ignore[arg-type]

        if self._inner is not None:
            return (yield from fetch(self._inner, top_k))
        decided: dict[str, bool] = {}
        wanted = max(top_k, self.batch_size)
        while True:
            passages = yield from fetch(self._base, wanted)
            kept, exhausted = yield from self._allowed(passages, decided, top_k)
            if len(kept) >= top_k or exhausted or len(passages) < wanted:
                return kept
            wanted *= _GROWTH

    def _allowed(
        self, passages: Sequence[Passage], decided: dict[str, bool], top_k: int
    ) -> Steps[tuple[list[Passage], bool]]:
        """Return the first passages that are allowed, and whether a check would have been one too many."""
        kept: list[Passage] = []
        documents = [document_id_of(passage.id) for passage in passages]
        for position, passage in enumerate(passages):
            if len(kept) >= top_k:
                break
            if documents[position] not in decided:
                room = min(self.batch_size, self.max_checks - len(decided))
                if room < 1:
                    return kept, True
                asked = [key for key in dict.fromkeys(documents[position:]) if key not in decided][:room]
                allowed = yield from self._ask(asked)
                decided.update((key, key in allowed) for key in asked)
            if decided[documents[position]]:
                kept.append(passage)
        return kept, False

    def _ask(self, asked: list[str]) -> Steps[set[str]]:
        answer: Any = yield Call(
            partial(call_function, self.check, list(asked), what="check"),
            partial(acall_function, self.check, list(asked)),
        )
        # The keys of a mapping of decisions would allow all that it denies.
        if isinstance(answer, (str, bytes, Mapping)) or not isinstance(answer, Iterable):
            raise AuthorizationError(
                f"check must return a list of the document ids that are allowed, got {type(answer).__name__}; "
                "nothing is returned"
            )
        allowed = set()
        for key in answer:
            if not isinstance(key, str) or key not in asked:
                raise AuthorizationError(
                    "check returned an id that it was not asked for; it must return ids of the list it was given. "
                    "Nothing is returned"
                )
            allowed.add(key)
        return allowed

    def _holds(self, ids: list[str], scope: AnyFilter) -> Steps[set[str]]:
        holds = getattr(self.base, "_holds", None)
        return set() if holds is None else (yield from holds(ids, scope))
