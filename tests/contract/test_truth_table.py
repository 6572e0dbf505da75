"""Every backend gives the same answer to every pair of the truth table, and docs/filters.md shows those answers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agora_core.filters import filter_to_json, matches_filter
from agora_core.filters.operators import OPERATORS
from agora_core.records import VectorRecord
from agora_core.testing.examples import FILTER_EXAMPLES
from tests.contract.backends import Backend, open_backends
from tests.contract.truth_table import TOPICS, filter_of, render, value_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "filters.md"
BEGIN, END = "<!-- truth table: begin -->\n", "<!-- truth table: end -->"
PAIRS = [pair for topic in TOPICS for pair in topic.pairs()]


@pytest.fixture(scope="module")
def answers(pg_conninfo: str) -> Iterator[dict[str, dict[tuple[str, str], bool]]]:
    """Ask each backend, record by record, and return its answers."""
    with open_backends(pg_conninfo) as backends:
        yield {backend.name: ask(backend) for backend in backends.all if backend.colour == "sync"}


def ask(backend: Backend) -> dict[tuple[str, str], bool]:
    store: Any = backend.empty("cosine")
    sources = sorted({record for record, _ in PAIRS})
    store.upsert(VectorRecord(f"r{n:03}", "", [1, 0, 0], None, value_of(s)) for n, s in enumerate(sources))
    found = {source: set(store.list_document_ids(filter_of(source))) for source in sorted({f for _, f in PAIRS})}
    return {(record, filter): f"r{sources.index(record):03}" in found[filter] for record, filter in PAIRS}


def test_the_table_is_large_enough() -> None:
    assert len(PAIRS) >= 300
    assert len({matches_filter(value_of(record), filter_of(filter)) for record, filter in PAIRS}) == 2


@pytest.mark.parametrize("name", ["memory", "postgres", "qdrant"])
def test_backend_answers_as_matches_filter_does(answers: dict[str, dict[tuple[str, str], bool]], name: str) -> None:
    wrong = [
        (record, filter)
        for record, filter in PAIRS
        if answers[name][record, filter] != matches_filter(value_of(record), filter_of(filter))
    ]
    assert wrong == []


def test_every_operator_is_in_the_table() -> None:
    """An operator without a pair in the truth table, or without an example in the contract, is not proved anywhere."""
    asked = json.dumps([filter_to_json(filter_of(filter)) for _, filter in PAIRS])
    shown = json.dumps([filter_to_json(filter) for filter in FILTER_EXAMPLES.values()])
    for name in OPERATORS:
        assert f'"op": "{name}"' in asked, name
        assert f'"op": "{name}"' in shown, name


def test_the_document_lists_every_operator() -> None:
    """docs/filters.md shows the table of operators; AGORA_WRITE_DOCS=1 writes it anew."""
    rows = [f"| {one.usage} | {one.meaning} |" for one in OPERATORS.values()]
    table = "\n".join(["", "| expression | holds where |", "| --- | --- |", *rows, "", ""])
    _check_document("<!-- operators: begin -->\n", table, "<!-- operators: end -->")


def test_the_document_shows_these_answers(answers: dict[str, dict[tuple[str, str], bool]]) -> None:
    """docs/filters.md holds the table as the backends answered; AGORA_WRITE_DOCS=1 writes it anew."""
    _check_document(BEGIN, "\n" + render(answers), END)


def _check_document(begin: str, part: str, end: str) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(begin)
    _, after = rest.split(end)
    if os.environ.get("AGORA_WRITE_DOCS"):
        DOCUMENT.write_text(before + begin + part + end + after, encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == before + begin + part + end + after
