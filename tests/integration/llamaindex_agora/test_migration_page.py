"""Every snippet of the migration page runs, and what stands before and after finds the same texts."""

from __future__ import annotations

import gc
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "migrate-llamaindex.md"
NAMES = ["SimpleVectorStore", "PGVectorStore", "BM25Retriever", "QueryFusionRetriever"]
EXPECTED = ["Directors have 40 days of paid leave a year.", "Everyone has 30 days of paid leave a year."]


def sections() -> dict[str, list[str]]:
    """Return the Python snippets of each section; those before the first section are under ""."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    titles = ["", *parts[1::2]]
    return {
        title: re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
        for title, text in zip(titles, parts[0::2], strict=True)
    }


def run(snippet: str, names: dict[str, Any]) -> list[str]:
    """Run a snippet and return the texts it found, best first."""
    with warnings.catch_warnings():
        # What their packages say of themselves, and of the connections they leave open.
        warnings.simplefilter("ignore")
        namespace = dict(names)
        exec(compile(snippet, PAGE.name, "exec"), namespace)
        texts = [found.node.get_content() for found in namespace.get("found", [])]
        del namespace
        gc.collect()
    return texts


@pytest.fixture
def names(pg_conninfo: str) -> dict[str, Any]:
    given: dict[str, Any] = {
        "POSTGRES_URL": pg_conninfo,
        "SQLALCHEMY_URL": pg_conninfo.replace("postgresql://", "postgresql+psycopg2://", 1),
        "ASYNC_SQLALCHEMY_URL": pg_conninfo.replace("postgresql://", "postgresql+asyncpg://", 1),
    }
    (preface,) = sections()[""]
    exec(compile(preface, PAGE.name, "exec"), given)
    return given


def test_every_piece_has_a_section() -> None:
    assert list(sections())[1:5] == NAMES
    assert all(len(sections()[name]) == 2 for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_before_and_after_find_the_same(names: dict[str, Any], name: str) -> None:
    before, after = sections()[name]
    assert sorted(run(after, names)) == EXPECTED
    assert sorted(run(before, names)) == EXPECTED


def test_the_other_snippets_run(names: dict[str, Any]) -> None:
    others = [snippet for title, found in sections().items() if title not in ("", *NAMES) for snippet in found]
    assert others
    for snippet in others:
        run(snippet, names)
