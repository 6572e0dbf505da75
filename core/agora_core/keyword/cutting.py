"""Cutting ASCII texts into words all at once: numpy sees every token, Python only the distinct words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from agora_core.keyword.ordering import Int32Array

# A word's bytes are read eight at a time; one beyond two readings is told apart by Python.
_READ: Final = 8
_LONGEST: Final = 2 * _READ
_BLANK: Final = 0x20
_KEPT: Final = np.array([(1 << 8 * length) - 1 for length in range(_READ + 1)], np.uint64)
# Odd and without pattern: multiplying by them spreads the bits of a word over a number.
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
# A table beyond this outgrows the caches of a processor.
_MAX_SLOT_BITS: Final = 18


@dataclass(frozen=True, slots=True)
class CutTexts:
    """The tokens of texts: `words[numbers[i]]` is token i, and it stands in text `owners[i]`.

    Tokens come in no order, words once or, where they are very long, once for each of their tokens.
    """

    words: list[str]
    numbers: Int32Array
    owners: Int32Array


def cut_texts(texts: Sequence[bytes]) -> CutTexts:
    """Cut texts of ASCII bytes without U+0000, in which words stand apart by blanks."""
    data = b" ".join(texts) + b" " * _LONGEST
    inside = np.frombuffer(data, np.uint8) != _BLANK
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    if inside[0]:
        edges = np.concatenate((np.zeros(1, np.int64), edges))
    starts, ends = edges[::2], edges[1::2]
    lengths = ends - starts
    # The first of two readings of eight bytes at any place, which need not be a multiple of eight.
    readings = np.ndarray((len(data) - _READ + 1,), "<u8", data, strides=(1,))
    first = readings[starts] & _KEPT[np.minimum(lengths, _READ)]
    second = np.zeros(len(starts), np.uint64)
    longer = np.flatnonzero(lengths > _READ)
    second[longer] = readings[starts[longer] + _READ] & _KEPT[np.minimum(lengths[longer], _LONGEST) - _READ]
    long = np.flatnonzero(lengths > _LONGEST)
    shown, numbers = _numbered(first, second, np.flatnonzero(lengths <= _LONGEST).astype(np.int32))
    numbers[long] = np.arange(len(shown), len(shown) + len(long))
    shown = np.concatenate((shown, long))
    words = [
        data[start:end].decode("ascii") for start, end in zip(starts[shown].tolist(), ends[shown].tolist(), strict=True)
    ]
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    upto = np.searchsorted(starts, np.cumsum(sizes + 1))
    owners = np.repeat(np.arange(len(texts), dtype=np.int32), np.diff(upto, prepend=0))
    return CutTexts(words, numbers, owners)


def _numbered(
    first: npt.NDArray[np.uint64], second: npt.NDArray[np.uint64], tokens: Int32Array
) -> tuple[Int32Array, Int32Array]:
    """Number the distinct values of some tokens; return a token of each number, and the numbers of all tokens.

    A table of slots, in rounds: each token writes itself into the slot of its value, and those that find their own
    value there have their number. The others, whose slot went to another value, try the next round's slots.
    """
    numbers = np.zeros(len(first), np.int32)
    shown: list[Int32Array] = []
    count, spread = 0, first * _FIRST ^ second * _SECOND
    while len(tokens):
        bits = min(max(len(tokens).bit_length(), 4), _MAX_SLOT_BITS)
        slots = (spread[tokens] >> np.uint64(64 - bits)).astype(np.int64)
        table = np.full(1 << bits, -1, np.int32)
        table[slots] = tokens
        holders = table[slots]
        settled = (first[holders] == first[tokens]) & (second[holders] == second[tokens])
        used = np.flatnonzero(table >= 0)
        shown.append(table[used])
        table[used] = np.arange(count, count + len(used))
        numbers[tokens[settled]] = table[slots[settled]]
        count += len(used)
        tokens = tokens[~settled]
        spread = (spread ^ spread >> np.uint64(29)) * _SECOND
    return np.concatenate(shown) if shown else np.zeros(0, np.int32), numbers
