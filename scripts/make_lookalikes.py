"""Write core/agora_core/inject/lookalikes.py: what reads as a letter, a digit or a bracket of the block's own marks.

The base is the Unicode consortium's table of confusables, as the package `confusable-homoglyphs` carries it. Brackets
and letters whose names say that they are another shape of the same are added. What NFKD and the general categories
tell of a character when it is met needs no entry; what opens something is searched for and so is listed whole.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from confusable_homoglyphs import confusables

TARGET = Path(__file__).resolve().parent.parent / "core" / "agora_core" / "inject" / "lookalikes.py"
LETTERS = "retivdconxl23456789"
"""Those of the fence and the digits; 0 reads as o, 1 and I as l."""
DROPPED = "/\\_-.,'~"
"""What stands between words, or is drawn as next to nothing."""
BRACKETS = {"Ps": "[", "Pe": "]"}
# Low quotation marks count as opening punctuation, and are no brackets.
NO_BRACKETS = "\u201a\u201e\u2e42\u301d\u301e\u301f\u2e5d"
ANGLE = re.compile(r"LEFT.*\bANGLE\b|\bLESS-THAN\b")
PIECES = {"\u23a1": "[", "\u23a2": "[", "\u23a3": "[", "\u23a4": "]", "\u23a5": "]", "\u23a6": "]"}
LETTER = re.compile(r".*\b(?:LATIN|REGIONAL INDICATOR)\b.*\bLETTER (?:[A-Z]{2,} )*([A-Z])(?: WITH .*)?")
FILLERS = "\u115f\u1160\u3164\uffa0"


def without_marks(text: str) -> str:
    """Return the compatibility decomposition of a text, without marks and format characters."""
    apart = unicodedata.normalize("NFKD", text)
    return "".join(c for c in apart if unicodedata.category(c)[0] != "M" and unicodedata.category(c) != "Cf")


def consortium() -> dict[str, str]:
    """Return, for each character of the table that reads as one that matters here, that character."""
    found: dict[str, str] = {}
    wanted = {*"<()|:", *LETTERS, *LETTERS.upper(), *DROPPED}
    # A prototype without marks first: `ε` is nearer to `e` than to what has one.
    for prototype in sorted(confusables.confusables_data, key=len):
        target = without_marks(prototype)
        if not prototype[0].isascii() or target not in wanted:
            continue
        for entry in confusables.confusables_data[prototype]:
            plain = "".join(c for c in entry["c"] if unicodedata.category(c) != "Cf")
            if len(plain) == 1 and not plain.isascii():
                reads = "" if target in DROPPED else "l" if target == "I" else target.lower()
                found.setdefault(plain, "|" if reads == "l" and unicodedata.category(plain)[0] in "PS" else reads)
    return found


def entries() -> Iterator[tuple[str, str]]:
    """Yield (character, what it reads as) for each character beyond ASCII that needs an entry."""
    known = consortium()
    for char in map(chr, range(0x80, 0x110000)):
        category, name, apart = unicodedata.category(char), unicodedata.name(char, ""), without_marks(char)
        if char in FILLERS:
            yield char, ""
        elif category[0] in "MC":
            continue
        elif len(apart) == 1 and apart.isascii():
            if apart in "<[]()":
                yield char, apart
        elif ANGLE.search(name):
            yield char, "<"
        elif known.get(char) in ("<", "|", ":"):
            yield char, known[char]
        elif char in PIECES or (category in BRACKETS and apart[0] not in "({})" and char not in NO_BRACKETS):
            yield char, PIECES.get(char) or BRACKETS[category]
        elif category == "Nd" and known.get(char, "o") in "ol":
            continue
        elif char in known and (known[char] or category[0] in "LN"):
            yield char, known[char]
        elif (swapped := known.get(char.upper()) or known.get(char.lower())) and swapped.isalpha():
            yield char, swapped
        elif (match := LETTER.fullmatch(name)) and match[1].lower() in LETTERS:
            yield char, "l" if match[1] == "I" and "CAPITAL" in name else match[1].lower()


def lookalikes() -> dict[str, str]:
    """Return, for each character of ours, those that read as it."""
    groups: dict[str, list[str]] = defaultdict(list)
    for char, reads in entries():
        groups[reads].append(char)
    return {reads: "".join(groups[reads]) for reads in sorted(groups)}


def module() -> str:
    """Return the text of the module."""
    lines = [
        '"""Characters beyond ASCII that read as one of the block\'s own. Made by scripts/make_lookalikes.py."""',
        "",
        "from typing import Final",
        "",
        f"# Of Unicode {unicodedata.unidata_version}.",
        '# Under "" stand letters that are drawn as a separator or as nothing.',
        "LOOKALIKES: Final[dict[str, str]] = {",
    ]
    for reads, chars in lookalikes().items():
        escaped = [ascii(char)[1:-1] for char in chars]
        rows = ["".join(escaped[start : start + 12]) for start in range(0, len(escaped), 12)]
        lines += [f'    "{reads}": (', *(f'        "{row}"' for row in rows), "    ),"]
    return "\n".join([*lines, "}", ""])


if __name__ == "__main__":
    TARGET.write_text(module(), encoding="utf-8")
