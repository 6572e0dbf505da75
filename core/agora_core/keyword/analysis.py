"""How text becomes terms: the `Tokenizer` seam, and the two tokenizers that know no language.

A tokenizer is a callable from a text to the list of its terms, repeats kept. What may differ between a passage and a
query is said by an optional method `query(text)`; without one a query is tokenized like a passage.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


# Each set of characters is in two parts: below U+10000 Python matches a set by one lookup, above range by range.
# Scripts written without spaces: Thai, Lao, Myanmar, Khmer, kana, Han, and what belongs to them.
_DENSE: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\ua9e0-\ua9ff\uaa60-\uaa7f\u3041-\u30ff\u31f0-\u31ff",
    "\U0001aff0-\U0001b16f",
)
_HAN: Final = ("\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff", "\U00020000-\U000323af")
# Default-ignorable characters that may stand inside a word: soft hyphen, joiners, variation selectors.
_IGNORED: Final = (
    "\u00ad\u034f\u180b-\u180f\u200c\u200d\u2060\ufe00-\ufe0f\ufeff",
    "\U000e0100-\U000e01ef",
)
# Where combining marks are: the two planes in use, and the variation selectors.
_MARKED: Final = ((0x300, 0x10000), (0x10000, 0x20000), (0xE0100, 0xE01F0))
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
# What typographers add to plain English: a text with nothing else beyond ASCII still goes the fast way.
_TYPOGRAPHY: Final = "\u2019\u2018\u201c\u201d\u2013\u2014\u2026\u00a0\u2022"


@dataclass(frozen=True, slots=True)
class _Patterns:
    ignored: re.Pattern[str]
    dense: re.Pattern[str]
    han: re.Pattern[str]
    mark: re.Pattern[str]
    marked_word: re.Pattern[str]
    word: re.Pattern[str]


@lru_cache(maxsize=2)
def _patterns(*, astral: bool) -> _Patterns:
    """Build, when first needed, the patterns for texts with or without characters above U+FFFF."""

    def one_of(*sets: tuple[str, str]) -> str:
        low = "".join(lower for lower, _ in sets)
        return f"(?:[{low}]|[{''.join(upper for _, upper in sets)}])" if astral else f"[{low}]"

    marks = one_of((_marks(*_MARKED[:1]), _marks(*_MARKED[1:])))
    return _Patterns(
        ignored=re.compile(one_of(_IGNORED)),
        dense=re.compile(f"{one_of(_DENSE, _HAN)}+"),
        han=re.compile(one_of(_HAN)),
        mark=re.compile(marks),
        marked_word=re.compile(rf"(?:[^\W_]+{marks}*)+"),
        word=re.compile(r"[^\W_]+"),
    )


@lru_cache(maxsize=2)
def _marks(*spans: tuple[int, int]) -> str:
    """Return the combining marks within some spans, as the inside of a set."""
    codes = [code for span in spans for code in range(*span) if unicodedata.category(chr(code))[0] == "M"]
    return "".join(map(chr, codes))


def _patterns_for(text: str) -> _Patterns:
    return _patterns(astral=_ASTRAL.search(text) is not None)


def fold_text(text: str) -> str:
    """Return `text` with compatible characters unified (NFKC), case folded and invisible characters dropped.

    Canonically equivalent texts fold to the same; accents stay.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = unicodedata.normalize("NFKC", folded)  # folding can take composed characters apart
    ignored = _patterns_for(folded).ignored
    if ignored.search(folded):
        folded = unicodedata.normalize("NFC", ignored.sub("", folded))
    return folded


def unicode_words(text: str) -> list[str]:
    """Return the words of a folded text: letters and digits of every script with their combining marks."""
    if not any(character.isalnum() or unicodedata.category(character)[0] == "M" for character in _ASTRAL.findall(text)):
        text = _ASTRAL.sub(" ", text)  # emoji, mostly
    patterns = _patterns_for(text)
    return (patterns.marked_word if patterns.mark.search(text) else patterns.word).findall(text)


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
        patterns = _patterns_for(folded)
        if patterns.dense.search(folded) is None:
            return words
        terms: list[str] = []
        for word in words:
            _split_dense(word, terms, patterns, single=single)
        return terms


def _split_dense(word: str, terms: list[str], patterns: _Patterns, *, single: bool) -> None:
    """Add a word to `terms`, its parts in scripts without spaces as overlapping pairs."""
    position = 0
    for match in patterns.dense.finditer(word):
        start, end = match.span()
        if start > position:
            terms.append(word[position:start])
        position = end
        if end - start == 1:
            terms.append(match.group())
            continue
        terms += [word[at : at + 2] for at in range(start, end - 1)]
        if single:
            terms += patterns.han.findall(match.group())
    if position < len(word):
        terms.append(word[position:])
