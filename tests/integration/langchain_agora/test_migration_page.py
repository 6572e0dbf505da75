"""Every snippet of the migration page runs, and what stands before and after finds the same documents."""

from __future__ import annotations

import gc
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "migrate-langchain.md"
NAMES = [
    "InMemoryVectorStore",
    "PGVector",
    "PGVectorStore",
    "BM25Retriever",
    "EnsembleRetriever",
    "ContextualCompressionRetriever",
]
EXPECTED = ["Directors have 40 days of paid leave a year.", "Everyone has 30 days of paid leave a year."]


def sections() -> dict[str, list[str]]:
    """Return the Python snippets of each section; those before the first section are under ""."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    titles = ["", *parts[1::2]]
    return {
        title: re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
        for title, text in zip(titles, parts[0::2], strict=True)
    }


def run(snippet: str, namespace: dict[str, Any]) -> None:
    exec(compile(snippet, PAGE.name, "exec"), namespace)


def texts_found(snippet: str, names: dict[str, Any]) -> list[str]:
    """Run a snippet of its own and return what it found, best first."""
    with warnings.catch_warnings():
        # What LangChain's packages say of themselves: that they are old, and which connections they leave open.
        warnings.simplefilter("ignore")
        namespace = dict(names)
        run(snippet, namespace)
        texts = [document.page_content for document in namespace["found"]]
        del namespace
        gc.collect()
    return texts


@pytest.fixture
def namespace(pg_conninfo: str) -> dict[str, Any]:
    url = pg_conninfo.replace("postgresql://", "postgresql+psycopg://", 1)
    names: dict[str, Any] = {"POSTGRES_URL": pg_conninfo, "SQLALCHEMY_URL": url}
    (preface,) = sections()[""]
    run(preface, names)
    return names


def test_every_piece_has_a_section() -> None:
    assert list(sections())[1:7] == NAMES
    assert all(len(sections()[name]) == 2 for name in NAMES)


@pytest.mark.postgres
@pytest.mark.parametrize("name", NAMES)
def test_before_and_after_find_the_same(namespace: dict[str, Any], name: str) -> None:
    before, after = sections()[name]
    theirs = texts_found(before, namespace)
    ours = texts_found(after, namespace)
    assert sorted(theirs) == EXPECTED
    assert sorted(ours) == EXPECTED


@pytest.mark.postgres
def test_the_other_snippets_run(namespace: dict[str, Any]) -> None:
    others = [snippet for title, found in sections().items() if title not in ("", *NAMES) for snippet in found]
    assert others
    for snippet in others:
        run(snippet, dict(namespace))
