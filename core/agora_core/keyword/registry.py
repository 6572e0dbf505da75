"""Tokenizers by name, and a guess at the one that suits a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

from agora_core.errors import InvalidArgumentError
from agora_core.keyword.analysis import (
    AnyTokenizer,
    AsciiTokenizer,
    Tokenizer,
    UnicodeTokenizer,
    fold_text,
    unicode_words,
)
from agora_core.keyword.stemming import SnowballTokenizer
from agora_core.keyword.stopwords import STOP_WORDS, stop_words

LANGUAGES: Final = (
    "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "estonian", "finnish", "french", "german",
    "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish", "yiddish",
)  # fmt: skip

_PLAIN: Final[dict[str, Callable[[], Tokenizer]]] = {"ascii": AsciiTokenizer, "unicode": UnicodeTokenizer}

# A text in a language has at least this share of stop words of its list, and a text in another one fewer.
_LEAST_SHARE: Final = 0.15
_LEAST_WORDS: Final = 12


def tokenizer_names() -> list[str]:
    """Return every name that `get_tokenizer` takes, in code-point order."""
    return sorted((*_PLAIN, *LANGUAGES))


@cache
def get_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer of that name: `ascii`, `unicode`, or a language such as `english`.

    One object serves all who ask for the same name; it may be used from several threads.

    Raises:
        InvalidArgumentError: no tokenizer has that name.
        MissingExtraError: it is a language, and the extra `stemming` is not installed.

    Examples:
        >>> get_tokenizer("english")("Returns are free")
        ['return', 'are', 'free']
    """
    if name in _PLAIN:
        return _PLAIN[name]()
    if name in LANGUAGES:
        return SnowballTokenizer(name)
    raise InvalidArgumentError(
        f"tokenizer {name!r} is not known; use one of {', '.join(tokenizer_names())}, or pass a callable"
    )


def resolve_tokenizer(tokenizer: AnyTokenizer | str | None) -> AnyTokenizer:
    """Return a tokenizer given by name, given as it is, or left out: `unicode`.

    Raises:
        InvalidArgumentError: it is neither a known name nor callable.
    """
    if tokenizer is None:
        return get_tokenizer("unicode")
    if isinstance(tokenizer, str):
        return get_tokenizer(tokenizer)
    if not callable(tokenizer):
        raise InvalidArgumentError(
            f"tokenizer must be a name or a callable from text to terms, got {type(tokenizer).__name__}"
        )
    return tokenizer


def suggest_tokenizer(sample_texts: Iterable[str]) -> str:
    """Return the name of the tokenizer that suits texts like these, `unicode` where no language stands out.

    A language is told by its share of stop words. A few dozen passages are enough; of each the first 2,000 characters
    are read, of the texts the first 1,000. The suggested one may need the extra `stemming`.

    Raises:
        InvalidArgumentError: a lone str was given instead of several.

    Examples:
        >>> suggest_tokenizer(["Everyone has thirty days of leave, and those who work in shifts have more of it."])
        'english'
    """
    if isinstance(sample_texts, str):
        raise InvalidArgumentError("sample_texts must be several texts, got one str; pass [text]")
    words: Counter[str] = Counter()
    for count, text in enumerate(sample_texts):
        if count == 1000:
            break
        words.update(unicode_words(fold_text(text[:2000])))
    total = words.total()
    if total < _LEAST_WORDS:
        return "unicode"
    shares = {language: sum(words[word] for word in stop_words(language)) / total for language in sorted(STOP_WORDS)}
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] >= _LEAST_SHARE else "unicode"
