"""Tokenizers for one language each: Unicode words, stop words, Snowball stems (extra `stemming`)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from agora_core.concurrency import fork_safe_lock
from agora_core.extras import require
from agora_core.keyword.analysis import UnicodeTokenizer
from agora_core.keyword.stopwords import stop_words
from agora_core.records import JSON

# Bounds the memory of the stems that are kept; a vocabulary beyond it is stemmed again as it comes.
_MAX_STEMS: Final = 400_000


class SnowballTokenizer:
    """Words of every script reduced to their stems by the Snowball algorithm of one language.

    A passage keeps its stop words without their counting towards its length; a query drops them, unless it consists
    of nothing else. So "the who" is found, and every other query scores as if passages had no stop words.

    Args:
        language: a Snowball algorithm in lower case, such as `english`, `german` or `russian`.

    Raises:
        MissingExtraError: snowballstemmer is not installed (extra `stemming`).
        KeyError: there is no algorithm of that name.
    """

    def __init__(self, language: str) -> None:
        self.name = language
        self._stemmer: Any = _algorithm(language)
        self._unicode = UnicodeTokenizer()
        self._stop = stop_words(language)
        self._stems: dict[str, str] = {}
        self._lock = fork_safe_lock(after=2)

    @property
    def config(self) -> dict[str, JSON]:
        """There is nothing to set beside the name, which is that of the language."""
        return {}

    def __call__(self, text: str) -> list[str]:
        """Return the stems of a passage, stop words among them."""
        return self._stem(self._unicode(text))

    def measured(self, text: str) -> tuple[list[str], int]:
        """Return the stems of a passage and how many of them are no stop words (all count where all are)."""
        words = self._unicode(text)
        stop = self._stop
        length = len([word for word in words if word not in stop]) if stop else len(words)
        return self._stem(words), length or len(words)

    def query(self, text: str) -> list[str]:
        """Return the stems of a query without its stop words, or all of them where there is nothing else."""
        words = self._unicode.query(text)
        return self._stem([word for word in words if word not in self._stop] or words)

    def phrase(self, text: str) -> list[str]:
        """Return the running stems of a text, stop words among them."""
        return self._stem(self._unicode.phrase(text))

    def spaced(self, text: str) -> bytes | None:
        """Return the words of a text apart by blanks; see `UnicodeTokenizer.spaced`."""
        return self._unicode.spaced(text)

    def words(self, text: str) -> list[str]:
        """Return the words of a text; see `UnicodeTokenizer.words`."""
        return self._unicode.words(text)

    def expand(self, words: Sequence[str]) -> list[tuple[Sequence[str], int]]:
        """Return for each word the stems that it gives a passage, and how many of them are of no stop words."""
        given = [terms for terms, _ in self._unicode.expand(words)]
        stems = iter(self._stem([term for terms in given for term in terms]))
        return [([next(stems) for _ in terms], sum(term not in self._stop for term in terms)) for terms in given]

    def __reduce__(self) -> tuple[type[SnowballTokenizer], tuple[str]]:
        return type(self), (self.name,)

    def __repr__(self) -> str:
        return f"SnowballTokenizer({self.name!r})"

    def _stem(self, words: list[str]) -> list[str]:
        stems = self._stems
        try:
            return [stems[word] for word in words]
        except KeyError:
            # A Snowball stemmer keeps its word in itself, so two threads must not share it at a time.
            with self._lock:
                if len(stems) > _MAX_STEMS:
                    stems = self._stems = {}
                fresh = [word for word in dict.fromkeys(words) if word not in stems]
                stems.update(zip(fresh, self._stemmer.stemWords(fresh), strict=True))
                return [stems[word] for word in words]


def _algorithm(language: str) -> Any:
    """Return Snowball's own algorithm of a language; KeyError where there is none.

    `snowballstemmer.stemmer()` is not asked: where PyStemmer happens to be installed it hands out that one, whose
    release has other stems and fewer languages, and an index filled in one place would miss words in another.
    """
    require("snowballstemmer", extra="stemming")
    try:
        module = import_module(f"snowballstemmer.{language}_stemmer")
    except ModuleNotFoundError:
        raise KeyError(f"there is no Snowball algorithm {language!r}") from None
    return getattr(module, "".join(part.capitalize() for part in language.split("_")) + "Stemmer")()
