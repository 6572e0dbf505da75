"""Text search over rows, as the keyword retriever and the memory store share it: BM25, phrases and exclusions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agora_core.keyword.analysis import AnyTokenizer
from agora_core.keyword.bm25 import check_bm25_parameters
from agora_core.keyword.index import BM25Index
from agora_core.keyword.ordering import BoolArray, Int32Array
from agora_core.keyword.querying import TextQuery
from agora_core.keyword.search import Searcher, Selection

Scored = list[tuple[int, float]]


class TextIndex:
    """An index with its search. Not safe under threads: the lock of its owner guards it, save as `BM25Index` says."""

    def __init__(self, tokenizer: AnyTokenizer, k1: float, b: float) -> None:
        self.k1, self.b = check_bm25_parameters(k1, b)
        self.tokenizer = tokenizer
        self.index = BM25Index(tokenizer)
        self.searcher = Searcher(self.index, self.k1, self.b)

    def search(
        self,
        query: TextQuery,
        k: int,
        floor: float | None,
        selection: Selection | None,
        scope: Selection | None,
        text_of: Callable[[int], str],
    ) -> Scored:
        """Return the rows, with their scores, of the k best and of all that tie with the last of these, in no order.

        Args:
            query: what is asked.
            k: 1 or more.
            floor: the least score; None keeps all.
            selection: the rows to look at; None for all.
            scope: the rows whose statistics count, which hold the selection; None for all.
            text_of: gives the text of a row as it was indexed.
        """
        if query.is_blank:
            return []
        if query.is_plain:
            return self.searcher.search(query.weights, k, floor, selection, scope)
        mask = self._may_hold(query, selection)
        narrowed = Selection(mask)
        asked = k
        try:
            while narrowed.count:
                found = self.searcher.search(query.weights, asked, floor, narrowed, scope)
                kept = [pair for pair in found if query.admits(self.tokenizer, text_of(pair[0]))]
                if len(kept) >= k or len(found) < asked:
                    return kept
                asked *= 4
            return []
        finally:
            self.searcher.forget_selection(narrowed)

    def _may_hold(self, query: TextQuery, selection: Selection | None) -> BoolArray:
        """Return the rows that hold every term of each phrase, and none that is excluded for sure."""
        mask: BoolArray = (self.index.taken if selection is None else selection.mask).copy()
        for phrase in query.phrases:
            for term in phrase.terms:
                held = np.zeros(len(mask), np.bool_)
                held[self._rows(term)] = True
                mask &= held
        for phrase in query.excluded:
            if phrase.is_one_term:
                mask[self._rows(phrase.terms[0])] = False
        return mask

    def _rows(self, term: str) -> Int32Array | list[int]:
        number = self.index.vocabulary.get(term)
        if number is None:
            return []
        return self.index.postings.read(number)[0]
