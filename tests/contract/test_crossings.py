"""No public interface takes a bound without a test that attacks it, and docs/security.md lists them all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.contract.crossings import ATTACKS, crossings, table

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- crossings: begin -->\n", "<!-- crossings: end -->"


def test_every_crossing_is_attacked() -> None:
    """A new parameter that carries a filter, a scope or an actor needs its line in `ATTACKS`, and the test it names."""
    assert set(crossings()) == set(ATTACKS)


@pytest.mark.parametrize("who", ATTACKS)
def test_the_attack_is_on_what_it_names(who: str) -> None:
    """The files exist, and at least one of them, or what it imports to open stores, names the class or function."""
    files = [ROOT / path for path in ATTACKS[who]]
    assert all(path.is_file() for path in files)
    helpers = [ROOT / "tests/contract/backends.py", ROOT / "tests/contract/walls.py"]
    texts = "".join(path.read_text(encoding="utf-8") for path in (*files, *helpers) if path.is_file())
    assert who.rpartition(".")[2] in texts


def test_the_document_lists_every_crossing() -> None:
    """docs/security.md shows the table; AGORA_WRITE_DOCS=1 writes it anew."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    if os.environ.get("AGORA_WRITE_DOCS"):
        DOCUMENT.write_text(before + BEGIN + table() + END + after, encoding="utf-8")
    shown = DOCUMENT.read_text(encoding="utf-8") == before + BEGIN + table() + END + after
    assert shown, "run AGORA_WRITE_DOCS=1 pytest tests/contract/test_crossings.py, and look at what is new"
