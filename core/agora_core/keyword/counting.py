"""Counting terms: texts become postings, sorted by term, before the index takes them over."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from agora_core.errors import InvalidArgumentError
from agora_core.keyword.analysis import AnyTokenizer, passage_terms
from agora_core.keyword.cutting import cut_texts
from agora_core.keyword.ordering import Float32Array, Int32Array, Int64Array, run_starts, stable_order

# Passages counted at a time: bounds the memory of a large addition.
_CHUNK_BITS: Final = 13
_COMPACTED: Final = 1 << 17


class Vocabulary(dict[str, int]):
    """Terms to numbers; looking up a new term numbers it. Numbers that were given back are used again."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str | None] = []
        self.free: list[int] = []
        self.fresh: list[int] = []  # what was numbered since it was last emptied
        self._forgotten = 0

    def __missing__(self, word: Any) -> int:
        if not isinstance(word, str):
            raise InvalidArgumentError(f"the tokenizer must give terms of type str, got {type(word).__name__}")
        if self.free:
            number = self.free.pop()
            self.words[number] = word
        else:
            number = len(self.words)
            self.words.append(word)
        self[word] = number
        self.fresh.append(number)
        return number

    def forget(self, numbers: Iterable[int]) -> None:
        """Give numbers back for other terms; one that stands for none is passed over."""
        for number in numbers:
            word = self.words[number]
            if word is not None:
                del self[word]
                self.words[number] = None
                self.free.append(number)
                self._forgotten += 1

    def compact(self) -> None:
        """Give back the room of forgotten terms, where they have become many. No reader may run."""
        # A dict that loses and gains keys grows to twice its need. A large one is left so: rebuilding takes too long.
        if max(256, len(self) // 8) < self._forgotten and len(self) < _COMPACTED:
            kept = list(self.items())
            self.clear()
            self.update(kept)
            self._forgotten = 0


@dataclass(frozen=True, slots=True)
class CountedTexts:
    """Texts counted but not yet indexed; `terms`, `texts` (their positions) and `frequencies` go by term, then text."""

    lengths: Int64Array
    distinct: list[bytes]  # per text its distinct terms as int32, ascending
    terms: Int64Array
    texts: Int32Array
    frequencies: Float32Array


NOTHING: Final = CountedTexts(
    np.zeros(0, np.int64), [], np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
)


def count_texts(texts: Sequence[str], tokenizer: AnyTokenizer, vocabulary: Vocabulary) -> CountedTexts:
    """Tokenize and count texts, numbering terms that are new. A failure leaves the vocabulary as it was.

    Raises:
        InvalidArgumentError: the tokenizer gave something else than str.
    """
    vocabulary.fresh = []
    numbered = _ByWords(tokenizer, vocabulary) if len(texts) > 1 and _gives_words(tokenizer) else None
    number_terms = _ByTerms(tokenizer, vocabulary) if numbered is None else numbered
    try:
        chunks = [_count_chunk(texts, at, number_terms) for at in range(0, len(texts), 1 << _CHUNK_BITS)]
    except BaseException:
        vocabulary.forget(vocabulary.fresh)
        raise
    finally:
        vocabulary.fresh = []
    if not chunks:
        return NOTHING
    return chunks[0] if len(chunks) == 1 else _joined(chunks, len(vocabulary.words))


class _ByTerms:
    """Numbers the terms of texts one by one."""

    def __init__(self, tokenizer: AnyTokenizer, vocabulary: Vocabulary) -> None:
        self._tokenizer, self._vocabulary = tokenizer, vocabulary

    def number(self, texts: Sequence[str]) -> tuple[Int32Array, Int32Array, Int64Array]:
        """Return the numbers of all terms, the text of each (its position), and the lengths of the texts."""
        number = self._vocabulary.__getitem__
        # A list takes the numbers of a text faster than an array does, or numpy.
        listed: list[int] = []
        lengths: list[int] = []
        sizes: list[int] = []
        for text in texts:
            terms, length = passage_terms(self._tokenizer, text)
            listed.extend(map(number, terms))
            lengths.append(length)
            sizes.append(len(terms))
        return np.array(listed, np.int32), _owners(sizes), np.asarray(lengths, np.int64)


class _ByWords:
    """Numbers the words of texts, which are quick to tell, and takes each distinct one apart only once."""

    def __init__(self, tokenizer: Any, vocabulary: Vocabulary) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._words = _Numbers()
        # The first term of each word, as a number; of those that give another number of terms, all.
        self._single = array("i")
        self._several: dict[int, list[int]] = {}
        self._sizes, self._lengths = array("q"), array("q")

    def number(self, texts: Sequence[str]) -> tuple[Int32Array, Int32Array, Int64Array]:
        """Return what `_ByTerms.number` does, the terms in no order."""
        held, owners = self._cut(texts)
        self._expand()
        first, sizes = np.array(self._single, np.int32), np.array(self._sizes, np.int64)
        spans = np.array(self._lengths, np.int64)
        lengths = np.bincount(owners, spans[held], minlength=len(texts)).astype(np.int64)
        terms, others = first[held], np.flatnonzero(sizes[held] != 1)
        if len(others):
            lists = [self._several[word] for word in held[others].tolist()]
            more = np.fromiter(itertools.chain.from_iterable(lists), np.int32)
            terms = np.concatenate((np.delete(terms, others), more))
            owners = np.concatenate((np.delete(owners, others), np.repeat(owners[others], list(map(len, lists)))))
        return terms, owners, np.where(lengths > 0, lengths, np.bincount(owners, minlength=len(texts)))

    def _cut(self, texts: Sequence[str]) -> tuple[Int32Array, Int32Array]:
        """Return the numbers of all words and the text of each."""
        number, split, spaced = self._words.__getitem__, self._tokenizer.words, self._tokenizer.spaced
        plain: list[bytes] = []
        listed: list[int] = []
        sizes: list[int] = []
        for text in texts:
            data = spaced(text)
            words = split(text) if data is None else ()
            plain.append(data or b"")
            listed.extend(map(number, words))
            sizes.append(len(words))
        cut = cut_texts(plain)
        known = np.fromiter(map(number, cut.words), np.int32, len(cut.words))
        if not listed:
            return known[cut.numbers], cut.owners
        held = np.concatenate((known[cut.numbers], np.array(listed, np.int32)))
        return held, np.concatenate((cut.owners, _owners(sizes)))

    def _expand(self) -> None:
        """Take apart the words that are new."""
        term = self._vocabulary.__getitem__
        fresh = list(itertools.islice(self._words, len(self._sizes), None))
        for word, (terms, length) in enumerate(self._tokenizer.expand(fresh), len(self._sizes)):
            self._sizes.append(len(terms))
            self._lengths.append(length)
            if len(terms) == 1:
                self._single.append(term(terms[0]))
            else:
                self._single.append(-1)
                self._several[word] = list(map(term, terms))


class _Numbers(dict[str, int]):
    """Words to numbers in the order of their first use."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


def _gives_words(tokenizer: AnyTokenizer) -> bool:
    return all(callable(getattr(tokenizer, name, None)) for name in ("spaced", "words", "expand"))


def _owners(sizes: Sequence[int]) -> Int32Array:
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)


def _count_chunk(texts: Sequence[str], first: int, by: _ByTerms | _ByWords) -> CountedTexts:
    numbers, owners, lengths = by.number(texts[first : first + (1 << _CHUNK_BITS)])
    if (owners[1:] < owners[:-1]).any():
        order = stable_order(owners)
        numbers, owners = numbers[order], owners[order]
    order = stable_order(numbers)
    held, owners = numbers[order], owners[order]
    starts = run_starts(held, owners)
    frequencies = np.diff(np.append(starts, len(held)))
    held, owners = held[starts], owners[starts]
    order = stable_order(owners)
    return CountedTexts(
        lengths,
        split_by_owner(held[order], owners[order], len(lengths)),
        held.astype(np.int64),
        owners + np.int32(first),
        frequencies.astype(np.float32),
    )


def split_by_owner(terms: Int32Array, owners: Int32Array, count: int) -> list[bytes]:
    """Return the terms of each of `count` owners as bytes; both arrays go by owner."""
    packed = terms.tobytes()
    ends = (np.searchsorted(owners, np.arange(count + 1)) * 4).tolist()
    return [packed[low:high] for low, high in pairwise(ends)]


def _joined(chunks: list[CountedTexts], known: int) -> CountedTexts:
    """Join counted chunks in linear time: each posting is written where its term has got to."""
    totals = np.zeros(known + 1, np.int64)
    for chunk in chunks:
        totals[1:] += np.bincount(chunk.terms, minlength=known)
    place = np.cumsum(totals)
    size = int(place[-1])
    texts, frequencies = np.empty(size, np.int32), np.empty(size, np.float32)
    for chunk in chunks:
        starts = run_starts(chunk.terms)
        counts = np.diff(np.append(starts, len(chunk.terms)))
        held = chunk.terms[starts]
        at = np.repeat(place[held] - starts, counts) + np.arange(len(chunk.terms))
        texts[at], frequencies[at] = chunk.texts, chunk.frequencies
        place[held] += counts
    return CountedTexts(
        np.concatenate([chunk.lengths for chunk in chunks]),
        [distinct for chunk in chunks for distinct in chunk.distinct],
        np.repeat(np.arange(known), totals[1:]),
        texts,
        frequencies,
    )
