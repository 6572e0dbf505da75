"""How text becomes terms: the `Tokenizer` seam, and the two tokenizers that know no language.

A tokenizer is a callable from a text to the list of its terms, repeats kept. What may differ between a passage and a
query is said by an optional method `query(text)`; without one a query is tokenized like a passage. A term that stands n
times in a query weighs the square root of n.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, Protocol, runtime_checkable

from agora_core.records import JSON


@runtime_checkable
class Tokenizer(Protocol):
    """Turns a text into terms. `name` and `config` (plain JSON) say which one it is, for an index that is saved.

    Optional: `query(text) -> list[str]`, for tokenizers that treat a query differently from a passage;
    `measured(text) -> tuple[list[str], int]`, for those whose passages are shorter than their number of terms;
    `phrase(text) -> list[str]`, the running terms alone, for those that give a passage more than them; and, for speed,
    `words(text) -> list[str]` with `expand(words) -> list[tuple[terms, length]]`, where the terms of a passage are
    those of its words one after another, and its length is the sum of theirs (the number of terms where that is 0),
    and `spaced(text) -> bytes | None`, the same words as ASCII bytes that stand apart by blanks, or None where words
    cannot be told so.

    Examples:
        >>> get_tokenizer("unicode")("HTTPServer2 starts")
        ['httpserver2', 'http', 'server', '2', 'starts']
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


def query_weights(tokenizer: AnyTokenizer, text: str) -> dict[str, float]:
    """Return the distinct terms of a query in the order they first occur, each with the root of how often it does."""
    special: Any = getattr(tokenizer, "query", None)
    terms: list[str] = special(text) if special is not None else tokenizer(text)
    return {term: 1.0 if count == 1 else math.sqrt(count) for term, count in Counter(terms).items()}


def query_terms(tokenizer: AnyTokenizer, text: str) -> list[str]:
    """Return the distinct terms of a query in the order they first occur."""
    return list(query_weights(tokenizer, text))


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

    def query(self, text: str) -> list[str]:
        """Return the terms of a query, each once: the reference does not count repetitions there."""
        return list(dict.fromkeys(ascii_terms(text)))

    def spaced(self, text: str) -> bytes:
        """Return the terms of a text apart by blanks."""
        return text.lower().encode("ascii", "replace").translate(_ASCII_TABLE)

    def words(self, text: str) -> list[str]:
        """Return the terms of a text, which are its words."""
        return ascii_terms(text)

    def expand(self, words: Sequence[str]) -> list[tuple[Sequence[str], int]]:
        """Return each word as its only term."""
        return [((word,), 1) for word in words]

    def __repr__(self) -> str:
        return "AsciiTokenizer()"


# Each set of characters is in two parts: below U+10000 Python matches a set by one lookup, above range by range.
# Scripts whose words are not told apart by spaces, or are mostly compounds: Thai, Lao, Myanmar, Khmer, kana, Han and
# Hangul, and what belongs to them.
_DENSE: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\ua9e0-\ua9ff\uaa60-\uaa7f\u3041-\u30ff\u31f0-\u31ff",
    "\U0001aff0-\U0001b16f",
)
# Of these a single character, a Han one or a Hangul syllable, is a term as well.
_SINGLE: Final = (
    "\u1100-\u11ff\u3005-\u3007\u3021-\u3029\u3130-\u318f\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff",
    "\U00020000-\U000323af",
)
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
    single: re.Pattern[str]
    mark: re.Pattern[str]
    marked_word: re.Pattern[str]
    word: re.Pattern[str]
    identifier: re.Pattern[str]
    marked_identifier: re.Pattern[str]


@lru_cache(maxsize=2)
def _patterns(*, astral: bool) -> _Patterns:
    """Build, when first needed, the patterns for texts with or without characters above U+FFFF."""

    def one_of(*sets: tuple[str, str]) -> str:
        low = "".join(lower for lower, _ in sets)
        return f"(?:[{low}]|[{''.join(upper for _, upper in sets)}])" if astral else f"[{low}]"

    marks = one_of((_marks(*_MARKED[:1]), _marks(*_MARKED[1:])))
    return _Patterns(
        ignored=re.compile(one_of(_IGNORED)),
        dense=re.compile(f"{one_of(_DENSE, _SINGLE)}+"),
        single=re.compile(one_of(_SINGLE)),
        mark=re.compile(marks),
        marked_word=re.compile(rf"(?:[^\W_]+{marks}*)+"),
        word=re.compile(r"[^\W_]+"),
        identifier=re.compile(r"[^\W_]\w*"),
        marked_identifier=re.compile(rf"[^\W_](?:\w|{marks})*"),
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
    """Words of every script, case folded; the default.

    Combining marks stay in their words and accents are kept. An identifier gives itself and its parts: `HTTPServer2`
    is `httpserver2`, `http`, `server` and `2`, `max_size` is `max_size`, `max` and `size`. Scripts written without
    spaces (Han, kana, Thai, Lao, Khmer, Myanmar) and Hangul give overlapping pairs of characters. A passage gives each
    Han character and Hangul syllable by itself as well, so that a query of one finds it.
    """

    name = "unicode"

    def __init__(self) -> None:
        # What each word gives, as it is written. Threads may race to fill it: they write the same.
        self._known: dict[str, tuple[str, ...]] = {}

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

    def phrase(self, text: str) -> list[str]:
        """Return the running terms of a text: without the single characters that a passage is given beside pairs."""
        return self._terms(text, single=False)

    def __reduce__(self) -> tuple[type[UnicodeTokenizer], tuple[()]]:
        return type(self), ()

    def __repr__(self) -> str:
        return "UnicodeTokenizer()"

    def _terms(self, text: str, *, single: bool) -> list[str]:
        terms: list[str] = []
        known = self._known
        for word in self.words(text):
            given = known.get(word)
            if given is None:
                patterns = _patterns_for(word)
                if not word.isascii() and patterns.dense.search(word):
                    _split_dense(word, terms, patterns, single=single)
                    continue
                given = self._learn(word)
            terms += given
        return terms

    def words(self, text: str) -> list[str]:
        """Return the words of a text as they are written."""
        plain = self.spaced(text)
        if plain is not None:
            return plain.decode("ascii").split()
        normal = unicodedata.normalize("NFKC", text)
        ignored = _patterns_for(normal).ignored
        if ignored.search(normal):
            normal = unicodedata.normalize("NFC", ignored.sub("", normal))
        return identifiers(normal)

    def spaced(self, text: str) -> bytes | None:
        """Return the words of a text apart by blanks, None where it holds more than ASCII and typography."""
        plain = text
        if not text.isascii():
            for character in _TYPOGRAPHY:
                plain = plain.replace(character, " ")
            if not plain.isascii():
                return None
        return plain.encode("ascii").translate(_WORD_TABLE)

    def expand(self, words: Sequence[str]) -> list[tuple[Sequence[str], int]]:
        """Return for each word the terms that it gives a passage, and how many."""
        given: list[Sequence[str]] = []
        for word in words:
            if word.isascii() and word.isalpha() and (word.islower() or word[1:].islower()):
                given.append((word.lower(),))
                continue
            patterns = _patterns_for(word)
            if word.isascii() or patterns.dense.search(word) is None:
                given.append(_identifier_terms(word))
            else:
                terms: list[str] = []
                _split_dense(word, terms, patterns, single=True)
                given.append(terms)
        return [(terms, len(terms)) for terms in given]

    def _learn(self, word: str) -> tuple[str, ...]:
        """Return what a word gives, and remember it."""
        if len(self._known) >= _MAX_KNOWN:
            self._known = {}
        given = self._known[word] = _identifier_terms(word)
        return given


def _split_dense(word: str, terms: list[str], patterns: _Patterns, *, single: bool) -> None:
    """Add a word to `terms`, its parts in scripts without spaces as overlapping pairs."""
    position = 0
    for match in patterns.dense.finditer(word):
        start, end = match.span()
        if start > position:
            terms += _identifier_terms(word[position:start])
        position = end
        run = _folded(match.group())
        if len(run) == 1:
            terms.append(run)
            continue
        terms += [run[at : at + 2] for at in range(len(run) - 1)]
        if single:
            terms += patterns.single.findall(run)
    if position < len(word):
        terms += _identifier_terms(word[position:])


# Bounds the memory of the words that are kept; a vocabulary beyond it is taken apart again as it comes.
_MAX_KNOWN: Final = 1 << 16
_WORD_TABLE: Final = bytes(c if chr(c).isalnum() or chr(c) == "_" else 32 for c in range(128)) + b" " * 128


def _kind(character: str) -> str:
    if character.isdecimal():
        return "0"
    return "A" if character.isupper() else "a" if character.islower() else "x" if character.isalnum() else ""


def identifiers(text: str) -> list[str]:
    """Return the words of a text that is normal but not folded, an underscore being a letter within them."""
    if not any(character.isalnum() or unicodedata.category(character)[0] == "M" for character in _ASTRAL.findall(text)):
        text = _ASTRAL.sub(" ", text)  # emoji, mostly
    patterns = _patterns_for(text)
    return (patterns.marked_identifier if patterns.mark.search(text) else patterns.identifier).findall(text)


def _folded(word: str) -> str:
    return unicodedata.normalize("NFKC", word.casefold())  # folding can take composed characters apart


def _identifier_terms(word: str) -> tuple[str, ...]:
    """Return a word without underscores at its ends, folded, and where it has several its parts."""
    word = word.strip("_")
    if word.isalpha() and (word.islower() or word[1:].islower()):
        return (_folded(word),)
    # Marks are passed over: they go with their letter.
    kinds = [(place, "_" if letter == "_" else _kind(letter)) for place, letter in enumerate(word)]
    based = [(place, kind) for place, kind in kinds if kind]
    found = _BOUNDARY.finditer("".join(kind for _, kind in based))
    cuts = [0, *(based[match.start()][0] for match in found if 0 < match.start() < len(based))]
    if len(cuts) == 1:
        return (_folded(word),) if word else ()
    parts = [word[low:high] for low, high in pairwise([*cuts, len(word)])]
    return _folded(word), *(_folded(part) for part in parts if part[0] != "_")


# Letters of a script without capitals part from nothing but digits and underscores.
_BOUNDARY: Final = re.compile("(?<=a)(?=A)|(?<=A)(?=Aa)|(?<=[aAx])(?=0)|(?<=0)(?=[aAx])|(?=_)|(?<=_)")
