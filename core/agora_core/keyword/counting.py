"""Counting terms: texts become postings, sorted by term, before the index takes them over."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from agora_core.errors import InvalidArgumentError
from agora_core.keyword.analysis import AnyTokenizer, passage_terms
from agora_core.keyword.postings import Float32Array, Int32Array, Int64Array

# Passages counted at a time: bounds the memory of a large addition.
_CHUNK_BITS: Final = 13
# Term, text and frequency are packed into one int64 to be sorted; a larger frequency takes the slow way.
_FREQUENCY_BITS: Final = 18


class Vocabulary(dict[str, int]):
    """Terms to numbers; looking up a new term numbers it. Numbers that were given back are used again."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str | None] = []
        self.free: list[int] = []
        self.fresh: list[int] = []  # what was numbered since it was last emptied

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
    try:
        chunks = [_count_chunk(texts, at, tokenizer, vocabulary) for at in range(0, len(texts), 1 << _CHUNK_BITS)]
    except BaseException:
        vocabulary.forget(vocabulary.fresh)
        raise
    finally:
        vocabulary.fresh = []
    if not chunks:
        return NOTHING
    return chunks[0] if len(chunks) == 1 else _joined(chunks, len(vocabulary.words))


def _count_chunk(texts: Sequence[str], first: int, tokenizer: AnyTokenizer, vocabulary: Vocabulary) -> CountedTexts:
    number = vocabulary.__getitem__
    numbers: array[int] = array("i")
    lengths: list[int] = []
    sizes: list[int] = []
    for text in texts[first : first + (1 << _CHUNK_BITS)]:
        terms, length = passage_terms(tokenizer, text)
        numbers.extend(map(number, terms))
        lengths.append(length)
        sizes.append(len(terms))
    owner = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    keys = owner << 32 | np.frombuffer(numbers, np.int32)
    keys.sort()
    starts = run_starts(keys)
    frequencies = np.diff(np.append(starts, len(keys)))
    keys = keys[starts]
    held, owners = keys & 0xFFFFFFFF, keys >> 32
    distinct = split_by_owner(held, owners, len(sizes))
    if len(sizes) > 1:
        held, owners, frequencies = _by_term(held, owners, frequencies)
    return CountedTexts(
        np.asarray(lengths, np.int64),
        distinct,
        held,
        (owners + first).astype(np.int32),
        frequencies.astype(np.float32),
    )


def _by_term(
    terms: Int64Array, owners: Int64Array, frequencies: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Sort postings that go by owner so that they go by term, then owner."""
    if len(frequencies) and int(frequencies.max()) >> _FREQUENCY_BITS:
        order = np.argsort(terms, kind="stable")
        return terms[order], owners[order], frequencies[order]
    # One sort of packed keys is several times as fast as an argsort and three gathers.
    keys = (terms << _CHUNK_BITS | owners) << _FREQUENCY_BITS | frequencies
    keys.sort()
    return (
        keys >> _FREQUENCY_BITS + _CHUNK_BITS,
        keys >> _FREQUENCY_BITS & (1 << _CHUNK_BITS) - 1,
        keys & (1 << _FREQUENCY_BITS) - 1,
    )


def split_by_owner(terms: Int64Array, owners: Int64Array | Int32Array, count: int) -> list[bytes]:
    """Return the terms of each of `count` owners as bytes of int32; both arrays go by owner."""
    packed = terms.astype(np.int32).tobytes()
    ends = (np.searchsorted(owners, np.arange(count + 1)) * 4).tolist()
    return [packed[low:high] for low, high in pairwise(ends)]


def run_starts(ordered: Int64Array) -> Int64Array:
    """Return where each run of equal values begins."""
    if not len(ordered):
        return np.zeros(0, np.int64)
    return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))


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
