"""Case folding that every backend can do alike: one character to one character, by Unicode's lower case."""

from __future__ import annotations

import functools
import sys


def fold_character(character: str) -> str:
    """Return the lower case of one character, or the character where its lower case is longer than one."""
    lowered = character.lower()
    return lowered if len(lowered) == 1 else character


def fold_case(text: str) -> str:
    """Return `text` with each character folded on its own; its length never changes."""
    return text.lower() if text.isascii() else "".join(map(fold_character, text))


@functools.lru_cache(maxsize=1)
def _variants() -> dict[str, str]:
    """Map each folded character to the others that fold to it (about 1,400 characters in all)."""
    variants: dict[str, str] = {}
    for point in range(sys.maxunicode + 1):
        character = chr(point)
        folded = fold_character(character)
        if folded != character:
            variants[folded] = variants.get(folded, "") + character
    return variants


def fold_mapping(needle: str) -> tuple[str, str]:
    """Return (`from`, `to`), equally long: the characters that fold into one of the folded `needle`, and their folds.

    Replacing `from` by `to` in a haystack is enough to look for a folded needle in it (SQL's `translate` does that).
    """
    variants = _variants()
    pairs = [(other, folded) for folded in sorted(set(fold_case(needle))) for other in variants.get(folded, "")]
    return "".join(a for a, _ in pairs), "".join(b for _, b in pairs)
