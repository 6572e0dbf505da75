"""How text becomes terms: the `Tokenizer` seam, and the two tokenizers that know no language.

A tokenizer is a callable from a text to the list of its terms, repeats kept. What may differ between a passage and a
query is said by an optional method `query(text)`; without one a query is tokenized like a passage.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol, runtime_checkable

from agora_core.records import JSON


@runtime_checkable
class Tokenizer(Protocol):
    """Turns a text into terms. `name` and `config` (plain JSON) say which one it is, for an index that is saved.

    Optional: `query(text) -> list[str]`, for tokenizers that treat a query differently from a passage, and
    `measured(text) -> tuple[list[str], int]`, for those whose passages are shorter than their number of terms.
    """

    @property
    def name(self) -> str:
        """What `get_tokenizer` knows it by."""
        ...

    @property
    def config(self) -> Mapping[str, JSON]:
        """Its settings; equal name and settings mean equal terms."""
        ...

    def __call__(self, text: str) -> list[str]:
        """Return the terms of a passage in the order of the text, repeats kept."""
        ...


AnyTokenizer = Callable[[str], list[str]]


def query_terms(tokenizer: AnyTokenizer, text: str) -> list[str]:
    """Return the distinct terms of a query in the order they first occur."""
    special: Any = getattr(tokenizer, "query", None)
    return list(dict.fromkeys(special(text) if special is not None else tokenizer(text)))


def passage_terms(tokenizer: AnyTokenizer, text: str) -> tuple[list[str], int]:
    """Return the terms of a passage, and its length as the score counts it: the number of terms unless it differs."""
    special: Any = getattr(tokenizer, "measured", None)
    if special is not None:
        measured: tuple[list[str], int] = special(text)
        return measured
    terms = tokenizer(text)
    return terms, len(terms)


_ASCII_TABLE: Final = bytes(c if chr(c).isdecimal() or chr(c).islower() else 32 for c in range(128)) + b" " * 128


def ascii_terms(text: str) -> list[str]:
    """Return the runs of `[a-z0-9]` in the lower-cased text: `re.findall("[a-z0-9]+", text.lower())`, faster."""
    return text.lower().encode("ascii", "replace").translate(_ASCII_TABLE).decode("ascii").split()


class AsciiTokenizer:
    """The runs of `[a-z0-9]` in the lower-cased text, as the reference has it: other scripts give no terms."""

    name = "ascii"

    @property
    def config(self) -> dict[str, JSON]:
        """There is nothing to set."""
        return {}

    def __call__(self, text: str) -> list[str]:
        """Return the terms of `text`."""
        return ascii_terms(text)

    def __repr__(self) -> str:
        return "AsciiTokenizer()"


# Scripts written without spaces: Thai, Lao, Myanmar, Khmer, kana, Han (with its extensions), and what belongs to them.
_THAI_TO_KHMER: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\ua9e0-\ua9ff\uaa60-\uaa7f"
_KANA: Final = "\u3041-\u30ff\u31f0-\u31ff\U0001aff0-\U0001b16f"
_HAN: Final = "\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_DENSE: Final = re.compile(f"[{_THAI_TO_KHMER}{_KANA}{_HAN}]+")
_HAN_CHARACTER: Final = re.compile(f"[{_HAN}]")

# Default-ignorable characters that may stand inside a word: soft hyphen, joiners, variation selectors.
_IGNORED: Final = re.compile("[\u00ad\u034f\u180b-\u180f\u200c\u200d\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]")
# What typographers add to plain English: a text with nothing else beyond ASCII still goes the fast way.
_TYPOGRAPHY: Final = "\u2019\u2018\u201c\u201d\u2013\u2014\u2026\u00a0\u2022"

_PLAIN_WORD: Final = re.compile(r"[^\W_]+")


@lru_cache(maxsize=1)
def _mark_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Build, once and when first needed, the patterns of a combining mark and of a word that may hold some."""
    ranges: list[list[int]] = []
    for start, stop in ((0x300, 0x20000), (0xE0100, 0xE01F0)):
        for code in range(start, min(stop, sys.maxunicode)):
            if unicodedata.category(chr(code))[0] == "M":
                if ranges and ranges[-1][1] == code - 1:
                    ranges[-1][1] = code
                else:
                    ranges.append([code, code])
    marks = "".join(f"{chr(low)}-{chr(high)}" for low, high in ranges)
    return re.compile(f"[{marks}]"), re.compile(rf"(?:[^\W_]+[{marks}]*)+")


def fold_text(text: str) -> str:
    """Return `text` with compatible characters unified (NFKC), case folded and invisible characters dropped.

    Canonically equivalent texts fold to the same; accents stay.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = unicodedata.normalize("NFKC", folded)  # folding can take composed characters apart
    if _IGNORED.search(folded):
        folded = unicodedata.normalize("NFC", _IGNORED.sub("", folded))
    return folded


def unicode_words(text: str) -> list[str]:
    """Return the words of a folded text: letters and digits of every script with their combining marks."""
    mark, word = _mark_patterns()
    return word.findall(text) if mark.search(text) else _PLAIN_WORD.findall(text)


class UnicodeTokenizer:
    """Words of every script, case folded; the default. Equal to `AsciiTokenizer` on ASCII text.

    Combining marks stay in their words and accents are kept. Scripts written without spaces (Han, kana, Thai, Lao,
    Khmer, Myanmar) give overlapping pairs of characters. A passage gives each Han character by itself as well, so that
    a query of one character finds it.
    """

    name = "unicode"

    @property
    def config(self) -> dict[str, JSON]:
        """There is nothing to set."""
        return {}

    def __call__(self, text: str) -> list[str]:
        """Return the terms of a passage."""
        return self._terms(text, single=True)

    def query(self, text: str) -> list[str]:
        """Return the terms of a query: pairs, and single characters only where one stands alone."""
        return self._terms(text, single=False)

    def __repr__(self) -> str:
        return "UnicodeTokenizer()"

    @staticmethod
    def _terms(text: str, *, single: bool) -> list[str]:
        if text.isascii():
            return ascii_terms(text)
        plain = text
        for character in _TYPOGRAPHY:
            plain = plain.replace(character, " ")
        if plain.isascii():
            return ascii_terms(plain)
        folded = fold_text(text)
        words = unicode_words(folded)
        if _DENSE.search(folded) is None:
            return words
        terms: list[str] = []
        for word in words:
            _split_dense(word, terms, single=single)
        return terms


def _split_dense(word: str, terms: list[str], *, single: bool) -> None:
    """Add a word to `terms`, its parts in scripts without spaces as overlapping pairs."""
    position = 0
    for match in _DENSE.finditer(word):
        start, end = match.span()
        if start > position:
            terms.append(word[position:start])
        position = end
        if end - start == 1:
            terms.append(match.group())
            continue
        terms += [word[at : at + 2] for at in range(start, end - 1)]
        if single:
            terms += _HAN_CHARACTER.findall(match.group())
    if position < len(word):
        terms.append(word[position:])
