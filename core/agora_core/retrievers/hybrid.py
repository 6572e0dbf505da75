"""Retrieval by several retrievers at once, their lists fused into one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, NoReturn

from agora_core.calling import acall, call, given, offers
from agora_core.embedding import aembed_query, check_query, embed_query
from agora_core.errors import InvalidArgumentError, InvalidFilterError, RetrieverLegError, UnsupportedOperationError
from agora_core.filters import frozen_filter
from agora_core.fusion import DEFAULT_K, FUSIONS, Fusion, check_k, check_weights, fuse
from agora_core.metadata import clone_metadata
from agora_core.protocols import AnyFilter, Retriever
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever, at_least
from agora_core.retrievers.embedding import EmbeddingRetriever
from agora_core.retrievers.lexical import LexicalRetriever
from agora_core.validation import check_min_score, check_top_k

DEFAULT_FETCH_TOP_K: Final = 20


class HybridRetriever(BaseRetriever):
    """Asks every leg, and fuses their lists. Scores are those of the fusion.

    A passage is known by its id, whichever leg found it. From async code the legs run at the same time. One that
    fails makes the call fail: an answer from half of the legs would look like a whole one.

    An `EmbeddingRetriever` and a `LexicalRetriever` over one store that has `search_hybrid` are asked in one round
    trip; the ranking is the same.
    """

    def __init__(
        self,
        retrievers: Sequence[Retriever],
        *,
        k: float = DEFAULT_K,
        fetch_top_k: int = DEFAULT_FETCH_TOP_K,
        weights: Sequence[float] | None = None,
        fusion: Fusion = "rrf",
    ) -> None:
        """Stand on any objects with `retrieve` or `aretrieve`.

        Args:
            retrievers: the legs. Their order decides between equal scores, and whose text and metadata are returned.
            k: of `reciprocal_rank_fusion`; other fusions do not use it.
            fetch_top_k: how many passages each leg is asked for, 1 or more; raised to a call's `top_k` where that is
                larger. 100 suits a `top_k` above 20, a reranker behind, and the fusions of scores, which see
                more of a list's shape.
            weights: one per leg, 0 or more; None weighs all alike.
            fusion: `rrf` (ranks only), `relative_score` (scores scaled to 0..1 per list; the better choice where
                weights are known, see `tune_hybrid`) or `adaptive` (as that, its weights read off the lists).

        Raises:
            InvalidArgumentError: an argument is out of its range, or weights are given to `adaptive`.
        """
        if fusion not in FUSIONS:
            raise InvalidArgumentError(f"fusion must be one of {', '.join(FUSIONS)}, got {fusion!r}")
        self.retrievers = tuple(retrievers)
        if fusion == "adaptive" and weights is not None:
            raise InvalidArgumentError(
                "weights cannot be given with fusion='adaptive', which finds its own; leave them out"
            )
        self.weights = None if weights is None else tuple(check_weights(weights, len(self.retrievers)))
        self.k = check_k(k)
        self.fetch_top_k = check_top_k(fetch_top_k, argument="fetch_top_k")
        self.fusion = fusion

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.retrievers)!r}, fusion={self.fusion!r})"

    def retrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Return the `top_k` best passages by fused score, which `min_score` is a floor on; it goes to no leg.

        Raises:
            RetrieverLegError: a leg failed; the message names it, the cause is chained.
            InvalidFilterError: a leg refused the filter.
            UnsupportedOperationError: a leg is async only.
        """
        check_query(query)
        top_k, floor = check_top_k(top_k), check_min_score(min_score)
        bound = None if filter is None else frozen_filter(filter)
        if self._is_one_round_trip():
            return self._finish(self._search_hybrid(query, top_k, bound), top_k, floor)
        rankings = []
        for position, leg in enumerate(self.retrievers):
            try:
                rankings.append(call(leg, "retrieve", query, **self._leg_options(top_k, bound)))
            except Exception as error:
                raise_for_leg(error, position, leg)
        return self._finish(self._fuse(rankings, top_k), top_k, floor)

    async def aretrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Async twin of `retrieve`: the legs run concurrently, and when one fails the others are cancelled."""
        check_query(query)
        top_k, floor = check_top_k(top_k), check_min_score(min_score)
        bound = None if filter is None else frozen_filter(filter)
        if self._is_one_round_trip():
            return self._finish(await self._asearch_hybrid(query, top_k, bound), top_k, floor)
        rankings = await self._all(
            [acall(leg, "retrieve", query, **self._leg_options(top_k, bound)) for leg in self.retrievers]
        )
        return self._finish(self._fuse(rankings, top_k), top_k, floor)

    def _leg_options(self, top_k: int, filter: AnyFilter | None) -> dict[str, Any]:
        # A copy for each leg: what one does with its filter changes nothing for the next.
        own = None if filter is None else frozen_filter(filter)
        return {"top_k": max(self.fetch_top_k, top_k), **given(filter=own)}

    async def _all(self, legs: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Await all legs. No leg outlives this call, however it ends."""
        tasks = [asyncio.ensure_future(leg) for leg in legs]
        try:
            if tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for position, task in enumerate(tasks):
                error = _failure(task)
                if error is not None:
                    raise_for_leg(error, position, self.retrievers[position])
            return [task.result() for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _fuse(self, rankings: Sequence[Sequence[Passage]], top_k: int) -> list[Passage]:
        return fuse(rankings, fusion=self.fusion, k=self.k, weights=self.weights, top_k=top_k)

    def _finish(self, fused: Sequence[Passage], top_k: int, floor: float | None) -> list[Passage]:
        kept = at_least(fused[:top_k], floor)
        # A leg may hand out what it keeps; its metadata is not shared with the caller.
        return [
            Passage(passage.id, passage.text, passage.score, passage.source, clone_metadata(passage.metadata))
            for passage in kept
        ]

    def _is_one_round_trip(self) -> bool:
        """Say whether both legs stand on one store that answers them together, with the ranking of `_fuse`."""
        if self.fusion != "rrf" or len(self.retrievers) != 2:
            return False
        dense, lexical = self.retrievers
        return (
            type(dense) is EmbeddingRetriever
            and type(lexical) is LexicalRetriever
            and dense.store is lexical.store
            and offers(dense.store, "search_hybrid")
        )

    def _hybrid_options(self, top_k: int, filter: AnyFilter | None) -> dict[str, Any]:
        return {
            "top_k": top_k,
            "fetch_top_k": max(self.fetch_top_k, top_k),
            "k": self.k,
            "weights": self.weights or (1.0, 1.0),
            **given(filter=filter),
        }

    def _search_hybrid(self, query: str, top_k: int, filter: AnyFilter | None) -> list[Passage]:
        dense: Any = self.retrievers[0]
        try:
            embedding = embed_query(dense.embedder, query)
            if embedding is not None:
                options = self._hybrid_options(top_k, filter)
                return list(call(dense.store, "search_hybrid", query, embedding, **options))
            lexical = call(self.retrievers[1], "retrieve", query, **self._leg_options(top_k, filter))
        except Exception as error:
            raise_for_leg(error, 0, dense)
        return self._fuse([[], lexical], top_k)

    async def _asearch_hybrid(self, query: str, top_k: int, filter: AnyFilter | None) -> list[Passage]:
        dense: Any = self.retrievers[0]
        try:
            embedding = await aembed_query(dense.embedder, query)
            if embedding is not None:
                options = self._hybrid_options(top_k, filter)
                return list(await acall(dense.store, "search_hybrid", query, embedding, **options))
            lexical = await acall(self.retrievers[1], "retrieve", query, **self._leg_options(top_k, filter))
        except Exception as error:
            raise_for_leg(error, 0, dense)
        return self._fuse([[], lexical], top_k)


def _failure(task: asyncio.Future[Any]) -> BaseException | None:
    """Return why a leg failed; None where it has not, or is not done."""
    if not task.done():
        return None
    return asyncio.CancelledError() if task.cancelled() else task.exception()


def raise_for_leg(error: BaseException, position: int, leg: object) -> NoReturn:
    """Raise the failure of a leg under its name. What the caller did wrong is raised as it is: it says so itself."""
    if isinstance(error, (InvalidFilterError, UnsupportedOperationError)):
        raise error
    raise RetrieverLegError(
        f"leg {position} of the hybrid ({type(leg).__name__}) failed with {type(error).__name__}; "
        "nothing is returned, for the other legs alone would be another answer",
        leg=position,
    ) from error
