"""What a query asks of texts: weighted terms, and with `syntax="web"` phrases that must and that must not stand there.

One meaning for every index and store. A phrase is a run of terms next to one another, as the tokenizer gives them; it
has no syntax to get wrong: what is neither a phrase nor an exclusion is words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from agora_core.errors import InvalidArgumentError
from agora_core.keyword.analysis import AnyTokenizer, query_weights

Syntax = Literal["plain", "web"]
SYNTAXES: Final[tuple[Syntax, ...]] = ("plain", "web")

# A quoted phrase, with a minus before it or not, or a run of other characters. A minus only excludes before a letter,
# a digit or a quote, and a quote only opens where no word is going on.
_PART: Final = re.compile(r'((?<!\S)-)?(?<!\w)"([^"]*)"|(?<!\S)-([^\W_]\S*)|([^\s"]+|")')


@dataclass(frozen=True, slots=True)
class Phrase:
    """Terms that stand next to one another in a text, in one of two forms.

    `spelled` are the terms as a passage has them, `joined` those of the tokenizer's `phrase` method where it has one:
    without what a passage is given beside its running words, as the single characters of scripts without spaces.
    """

    spelled: tuple[str, ...]
    joined: tuple[str, ...]

    @property
    def terms(self) -> tuple[str, ...]:
        """The distinct terms that every text with the phrase holds."""
        return tuple(dict.fromkeys(self.joined if len(self.joined) < len(self.spelled) else self.spelled))

    @property
    def is_one_term(self) -> bool:
        """Whether a text that holds the term holds the phrase, so that nothing has to be read."""
        return len(self.spelled) == 1 or len(self.joined) == 1

    def stands_in(self, tokenizer: AnyTokenizer, text: str) -> bool:
        """Say whether a text holds the phrase."""
        spelled = tokenizer(text)
        if _runs_in(self.spelled, spelled) or (self.is_one_term and self.terms[0] in spelled):
            return True
        return self.joined != self.spelled and _runs_in(self.joined, phrase_terms(tokenizer, text))


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A query taken apart; `weights` gives each distinct term its weight, in the order they first occur."""

    weights: dict[str, float]
    phrases: tuple[Phrase, ...] = ()
    excluded: tuple[Phrase, ...] = ()

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to look for, so that nothing is found; exclusions alone ask for nothing."""
        return not self.weights

    @property
    def is_plain(self) -> bool:
        """Whether the terms are all there is."""
        return not self.phrases and not self.excluded

    def admits(self, tokenizer: AnyTokenizer, text: str) -> bool:
        """Say whether a text holds every phrase and nothing that is excluded."""
        return all(phrase.stands_in(tokenizer, text) for phrase in self.phrases) and not any(
            phrase.stands_in(tokenizer, text) for phrase in self.excluded
        )


def parse_query(query: Any, tokenizer: AnyTokenizer, *, syntax: str | None = None) -> TextQuery:
    """Take a query apart.

    Args:
        query: what a user typed, of any length.
        tokenizer: the one of the index.
        syntax: `plain` (None means it too): quotes and minus are characters like others. `web`: `"a phrase"` must
            stand in a text and its terms count like others, `-word` and `-"a phrase"` must not stand there.

    Raises:
        InvalidArgumentError: the query is not a str, or the syntax not one of the two.
    """
    if not isinstance(query, str):
        raise InvalidArgumentError(f"query must be a str, got {type(query).__name__}")
    if check_syntax(syntax) != "web":
        return TextQuery(query_weights(tokenizer, query))
    wanted: list[str] = []
    phrases: list[Phrase] = []
    excluded: list[Phrase] = []
    for found in _PART.finditer(query):
        minus, quoted, word, other = found.groups()
        said = quoted if word is None else word
        if said is None:
            wanted.append(other)
            continue
        phrase = _phrase(tokenizer, said)
        if word is None and not minus:
            wanted.append(said)
            phrases += phrase
        else:
            excluded += phrase
    weights = query_weights(tokenizer, " ".join(wanted))
    return TextQuery(weights, tuple(dict.fromkeys(phrases)), tuple(dict.fromkeys(excluded)))


def check_syntax(syntax: Any) -> Syntax:
    """Return a syntax; None is `plain`.

    Raises:
        InvalidArgumentError: it is neither `plain` nor `web`.
    """
    if syntax is None:
        return "plain"
    if syntax not in SYNTAXES:
        raise InvalidArgumentError(f"syntax must be 'plain' or 'web', got {syntax!r}")
    return "web" if syntax == "web" else "plain"


def phrase_terms(tokenizer: AnyTokenizer, text: str) -> list[str]:
    """Return the terms of a text in the order in which phrases are told: those of a passage unless it differs."""
    special: Any = getattr(tokenizer, "phrase", None)
    return list(tokenizer(text) if special is None else special(text))


def _phrase(tokenizer: AnyTokenizer, said: str) -> list[Phrase]:
    spelled, joined = tuple(tokenizer(said)), tuple(phrase_terms(tokenizer, said))
    return [Phrase(spelled, joined)] if spelled and joined else []


def _runs_in(terms: Sequence[str], text: Sequence[str]) -> bool:
    """Say whether `terms` stand next to one another, in order, among the terms of a text."""
    size, first = len(terms), terms[0]
    wanted, within = list(terms), list(text)
    at = -1
    try:
        while True:
            at = within.index(first, at + 1)
            if within[at : at + size] == wanted:
                return True
    except ValueError:
        return False
