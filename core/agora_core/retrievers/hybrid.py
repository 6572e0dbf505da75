"""Retrieval by several retrievers at once, their lists fused into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from agora_core.calling import Method, offers
from agora_core.embedding import EmbedderPort
from agora_core.errors import (
    EmbeddingModelError,
    InvalidArgumentError,
    InvalidFilterError,
    RetrieverLegError,
    UnsupportedOperationError,
)
from agora_core.filters import Expression, frozen_filter
from agora_core.fusion import DEFAULT_K, FUSIONS, Fusion, check_k, check_weights, fuse, fusion_gains
from agora_core.metadata import with_score
from agora_core.protocols import AnyFilter, Retriever
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever, at_least, shared_scope, wrapped_inside
from agora_core.retrievers.embedding import EmbeddingRetriever
from agora_core.retrievers.explanation import Recording, recording
from agora_core.retrievers.lexical import LexicalRetriever
from agora_core.retrievers.ports import RetrieverPort
from agora_core.steps import Steps, together
from agora_core.stores.per_document import grow_fused
from agora_core.stores.ports import StorePort
from agora_core.validation import check_top_k

DEFAULT_FETCH_TOP_K: Final = 20


class HybridRetriever(BaseRetriever):
    """Asks every leg, and fuses their lists. Scores are those of the fusion.

    A passage is known by its id, whichever leg found it. From async code the legs run at the same time. One that
    fails makes the call fail: an answer from half of the legs would look like a whole one.

    An `EmbeddingRetriever` and a `LexicalRetriever` over one store that has `search_hybrid` are asked in one round
    trip; the ranking is the same.

    Examples:
        >>> hybrid = HybridRetriever([EmbeddingRetriever(embedder, store), LexicalRetriever(store)])
        >>> hybrid.retrieve("directors", top_k=1)[0].id
        'board#0'
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
        """Accept any objects with `retrieve` or `aretrieve`.

        Args:
            retrievers: the legs. Their order decides between equal scores, and whose text and metadata are returned.
            k: of `reciprocal_rank_fusion`; other fusions do not use it.
            fetch_top_k: how many passages each leg is asked for, 1 or more; raised to a call's `top_k` where that is
                larger. 100 suits a `top_k` above 20, a reranker behind, and the fusions of scores, which see
                more of a list's shape.
            weights: one per leg, 0 or more; None weighs all alike.
            fusion: `rrf` (ranks only), `relative_score` (scores scaled to 0..1 per list; the better choice where
                weights are known, see `tune_hybrid`), `adaptive` (as that, its weights read off the lists), or a
                function of the legs' lists that returns one list, best first.

        Raises:
            InvalidArgumentError: an argument is out of its range, or weights are given to `adaptive`.
        """
        if not callable(fusion) and fusion not in FUSIONS:
            raise InvalidArgumentError(
                f"fusion must be one of {', '.join(FUSIONS)}, or a function of the legs' lists, got {fusion!r}"
            )
        self.retrievers = tuple(retrievers)
        if (fusion == "adaptive" or callable(fusion)) and weights is not None:
            raise InvalidArgumentError(
                f"weights cannot be given with fusion={fusion!r}, which finds its own; leave them out"
            )
        self.weights = None if weights is None else tuple(check_weights(weights, len(self.retrievers)))
        self.k = check_k(k)
        self.fetch_top_k = check_top_k(fetch_top_k, argument="fetch_top_k")
        self.fusion = fusion
        self._legs = [RetrieverPort(retriever) for retriever in self.retrievers]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.retrievers)!r}, fusion={self.fusion!r})"

    @property
    def scope(self) -> Expression | None:
        """The scope of the legs where they agree, else any of theirs."""
        return shared_scope(self.retrievers)

    def _over(self, wrap: Callable[[Retriever], Retriever]) -> HybridRetriever | None:
        inside = [wrapped_inside(leg, wrap) for leg in self.retrievers]
        if not any(inside):
            return None
        legs = [wrap(leg) if inner is None else inner for leg, inner in zip(self.retrievers, inside, strict=True)]
        options: dict[str, Any] = {"k": self.k, "fetch_top_k": self.fetch_top_k, "weights": self.weights}
        return HybridRetriever(legs, fusion=self.fusion, **options)

    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        """Fuse what the legs find; the floor is on the fused score and goes to no leg.

        Raises:
            RetrieverLegError: a leg failed; the message names it, the cause is chained.
            InvalidFilterError: a leg refused the filter.
            UnsupportedOperationError: a leg is async only.
        """
        bound = None if filter is None else frozen_filter(filter)
        fetched = max(self.fetch_top_k, top_k)
        written = recording()
        store = self._one_store(per_document) if written is None else None
        if store is not None:
            kept = yield from self._one_round_trip(store, query, top_k, fetched, bound, per_document)
        else:

            def fetch(count: int) -> Steps[list[list[Passage]]]:
                rankings = yield from together([self._leg(n, query, count, bound) for n in range(len(self._legs))])
                if written is not None:
                    written.rankings = rankings
                return rankings

            options = {"top_k": top_k, "fetch_top_k": fetched, "per_document": per_document}
            kept = yield from grow_fused(fetch, self._fuse, **options)  # type: ignore[arg-type]
        # A leg may hand out what it keeps; its metadata is not shared with the caller.
        result = [with_score(passage, passage.score) for passage in at_least(kept, min_score)]
        if written is not None:
            self._write_down(written, kept=len(kept), returned=len(result))
        return result

    def _write_down(self, written: Recording, *, kept: int, returned: int) -> None:
        rankings = written.rankings or []
        written.cut = len({passage.id for ranking in rankings for passage in ranking}) - kept
        written.floored = kept - returned
        if isinstance(self.fusion, str):
            gains, written.weights = fusion_gains(rankings, fusion=self.fusion, k=self.k, weights=self.weights)
            written.gains = [list(gain) for gain in gains]

    def _leg(self, position: int, query: str, fetched: int, filter: AnyFilter | None) -> Steps[list[Passage]]:
        # A copy for each leg: what one does with its filter changes nothing for the next.
        own = None if filter is None else frozen_filter(filter)
        try:
            return (yield from self._legs[position].retrieve(query, top_k=fetched, filter=own))
        except Exception as error:
            raise_for_leg(error, position, self.retrievers[position])

    def _fuse(self, rankings: Sequence[Sequence[Passage]], top_k: int | None) -> list[Passage]:
        return fuse(rankings, fusion=self.fusion, k=self.k, weights=self.weights, top_k=top_k)

    def _one_store(self, per_document: int | None) -> Any:
        """Return the store that answers both legs together, with the ranking of `_fuse`; None where none does."""
        if len(self.retrievers) != 2:
            return None
        dense, lexical = self.retrievers
        if type(dense) is not EmbeddingRetriever or type(lexical) is not LexicalRetriever:
            return None
        if dense.store is not lexical.store or not offers(dense.store, "search_hybrid"):
            return None
        names = Method(dense.store, "search_hybrid").names
        if (
            callable(self.fusion)
            or (self.fusion != "rrf" and not names("fusion"))
            or (lexical.syntax is not None and not names("syntax"))
            or (per_document is not None and not names("per_document"))
        ):
            return None
        return dense.store

    def _one_round_trip(
        self,
        store: Any,
        query: str,
        top_k: int,
        fetched: int,
        filter: AnyFilter | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        dense: Any = self.retrievers[0]
        lexical: Any = self.retrievers[1]
        try:
            embedder = EmbedderPort(dense.embedder)
            yield from StorePort(store).check_model(embedder.model)
            embedding = yield from embedder.embed_query(query)
        except Exception as error:
            raise_for_leg(error, 0, dense)
        if embedding is None:

            def fetch(count: int) -> Steps[list[list[Passage]]]:
                return [[], (yield from self._leg(1, query, count, filter))]

            options = {"top_k": top_k, "fetch_top_k": fetched, "per_document": per_document}
            return (yield from grow_fused(fetch, self._fuse, **options))  # type: ignore[arg-type]
        search = Method(store, "search_hybrid")
        try:
            answer = yield from search(
                query,
                embedding,
                top_k=top_k,
                fetch_top_k=fetched,
                k=self.k,
                weights=self.weights if self.weights is not None or self.fusion != "rrf" else (1.0, 1.0),
                fusion=None if self.fusion == "rrf" else self.fusion,
                filter=filter,
                per_document=per_document,
                syntax=lexical.syntax,
            )
        except Exception as error:
            raise_for_leg(error, None, store)
        return list(answer)

    def _holds(self, ids: list[str], scope: AnyFilter) -> Steps[set[str]]:
        found: set[str] = set()
        for leg in self.retrievers:
            if (holds := getattr(leg, "_holds", None)) is not None:
                found |= yield from holds(ids, scope)
        return found


def raise_for_leg(error: BaseException, position: int | None, leg: object) -> NoReturn:
    """Raise the failure of a leg under its name. What the caller did wrong is raised as it is: it says so itself.

    No position says that both legs were asked at once, as one search of the store `leg`.
    """
    if isinstance(error, (InvalidFilterError, EmbeddingModelError, UnsupportedOperationError)):
        raise error
    name = type(leg).__name__
    which = f"leg {position} of the hybrid ({name})" if position is not None else f"search_hybrid of {name}"
    raise RetrieverLegError(
        f"{which} failed with {type(error).__name__}; "
        "nothing is returned, for the other legs alone would be another answer",
        leg=position,
    ) from error
