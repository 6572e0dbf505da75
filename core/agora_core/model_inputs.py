"""How embedders and rerankers check what they are given."""

from __future__ import annotations

from typing import Any

from agora_core.errors import InvalidArgumentError


def check_texts(texts: Any) -> list[str]:
    """Return `texts` as a list of str.

    Raises:
        InvalidArgumentError: it is one str (a common slip that would embed its letters), holds something else than
            str, or a lone surrogate. The texts themselves are not shown.
    """
    if isinstance(texts, (str, bytes)):
        raise InvalidArgumentError(
            f"texts must be a sequence of str, got one {type(texts).__name__}; wrap it in a list"
        )
    checked = list(texts)
    for number, text in enumerate(checked):
        if not isinstance(text, str):
            raise InvalidArgumentError(f"texts[{number}] must be a str, got {type(text).__name__}")
        if not text.isascii():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError:
                raise InvalidArgumentError(f"texts[{number}] contains a lone surrogate; remove it first") from None
    return checked


def check_count(value: Any, *, argument: str) -> int:
    """Return a batch size, dimension or limit that is an int of 1 or more; refuse anything else."""
    if type(value) is not int or value < 1:
        raise InvalidArgumentError(f"{argument} must be an int of 1 or more, got {value!r}")
    return value


def check_name(value: Any, *, argument: str) -> str:
    """Return a name that is a non-empty str; refuse anything else."""
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(f"{argument} must be a non-empty str, got {value!r}")
    return value
