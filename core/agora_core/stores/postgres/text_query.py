"""What a user types, taken apart: terms to find, phrases that must stand there, words that must not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from agora_core.errors import InvalidArgumentError
from agora_core.keyword.stopwords import STOP_WORDS, stop_words

_LONGEST_QUERY: Final = 100_000
_MOST_CLAUSES: Final = 64

# A quoted phrase or a run without blanks, with a minus before it or not.
_PART = re.compile(r'(?<!\S)(-?)"([^"]*)"|(\S+)')
_EXCLUDED = re.compile(r"-[^\W_]", re.UNICODE)
_WORD = re.compile(r"\w+", re.UNICODE)
# What no database stores: U+0000 and lone surrogates.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A query; `terms` is text whose words are looked for, any of them. `all_terms` keeps its stop words."""

    terms: str
    all_terms: str
    phrases: tuple[str, ...]
    excluded: tuple[str, ...]

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to look for."""
        return not self.all_terms


def parse_text_query(query: Any, *, drop_stop_words: bool, plain: bool = False) -> TextQuery:
    """Take a query apart. There is no syntax to get wrong: what is no phrase and no exclusion is words.

    `"heat pump"` must stand so; `-price` and `-"used car"` must not stand; everything else is found if any word is.

    Args:
        plain: quotes and minus are characters like others.
        drop_stop_words: leave function words out, unless there is nothing else. The language is the one that most of
            them belong to.

    Raises:
        InvalidArgumentError: the query is no str.
    """
    if not isinstance(query, str):
        raise InvalidArgumentError(f"query must be a str, got {type(query).__name__}")
    words: list[str] = []
    phrases: list[str] = []
    excluded: list[str] = []
    text = _UNSTORABLE.sub(" ", query)[:_LONGEST_QUERY]
    for minus, phrase, word in [("", "", part) for part in text.split()] if plain else _PART.findall(text):
        if word:
            if not plain and _EXCLUDED.match(word):
                excluded.append(word[1:])
            else:
                words.append(word)
        elif _WORD.search(phrase):
            (excluded if minus else phrases).append(phrase)
    wanted = [*words, *phrases]
    kept = without_stop_words(words) if drop_stop_words else words
    return TextQuery(
        terms=" ".join([*kept, *phrases]) or " ".join(wanted),
        all_terms=" ".join(wanted),
        phrases=tuple(phrases[:_MOST_CLAUSES]),
        excluded=tuple(excluded[:_MOST_CLAUSES]),
    )


def without_stop_words(words: list[str]) -> list[str]:
    """Return the words that are no function words of the language that most of the function words belong to."""
    parts = [tuple(part.lower() for part in _WORD.findall(word)) for word in words]
    counts = {language: sum(part in stop_words(language) for word in parts for part in word) for language in STOP_WORDS}
    most = max(counts.values())
    if not most:
        return words
    dropped = frozenset[str]().union(*(stop_words(language) for language, n in counts.items() if n == most))
    return [
        word
        for word, inside in zip(words, parts, strict=True)
        # A hyphenated word is a term of its own.
        if "-" in word or not inside or not all(part in dropped for part in inside)
    ]
