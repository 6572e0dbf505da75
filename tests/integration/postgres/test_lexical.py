"""Text search and the hybrid of both legs, on a server."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import (
    EmbeddingRetriever,
    HybridRetriever,
    LexicalRetriever,
    PgLexicalVectorStore,
    VectorRecord,
    is_lexical_vector_store,
    reciprocal_rank_fusion,
    retrievers,
)
from agora_core.errors import InvalidArgumentError

TEXTS = [
    "the heat pump heats the house",
    "a pump moves water",
    "heat from the sun",
    "pump pump pump pump",
    "the price of a used car",
    "c'est la vie, \\ and 'quotes'",
    "don't stop the music",
    "the the the",
    "",
    "日本語 текст ελληνικά",
]
ROWS = [VectorRecord(f"d{n}", text, [1.0, n, 0.5], None, {"even": n % 2 == 0}) for n, text in enumerate(TEXTS)]


class Embedder:
    """Embeds by the length of a text."""

    def embed(self, texts: Any) -> list[list[float]]:
        return [[1.0, len(text) % 9, 0.5] for text in texts]


@pytest.fixture
def store(make_store: Any) -> PgLexicalVectorStore:
    made: PgLexicalVectorStore = make_store(lexical=True)
    made.upsert(ROWS)
    return made


def ids(found: Any) -> list[str]:
    return [passage.id for passage in found]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("what does the heat pump do?", ["d0", "d2", "d3", "d1"]),
        ('"heat pump"', ["d0"]),
        ("pump -water", ["d3", "d0"]),
        ('pump -"moves water"', ["d3", "d0"]),
        ("-pump", []),
        ("zebra", []),
        ("zebra the", ["d7", "d0", "d2", "d6", "d4"]),
        ("the", ["d7", "d0", "d2", "d6", "d4"]),
        ("", []),
        ("  \n ", []),
        ("текст", ["d9"]),
        ("don't", ["d6"]),
        ("price | & ! ( ) : * <-> '' \\", ["d4"]),
        ('"unclosed price', ["d4"]),
    ],
)
def test_queries(store: PgLexicalVectorStore, query: str, expected: list[str]) -> None:
    found = store.search_text(query, top_k=10)
    assert sorted(ids(found)) == sorted(expected)
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
    assert all(p.score > 0 for p in found)
    assert asyncio.run(store.asearch_text(query, top_k=10)) == found


@given(st.text(max_size=30) | st.text(st.sampled_from("pump heat\"'-\\|&!():*<>%{}$\0"), max_size=30))
def test_nothing_that_can_be_typed_is_an_error(pg_conninfo: str, query: str) -> None:
    # The store of the first example is kept: one for each would be slow.
    kept = _kept(pg_conninfo)
    assert len(kept.search_text(query, top_k=3)) <= 3


_stores: dict[str, PgLexicalVectorStore] = {}


def _kept(conninfo: str) -> PgLexicalVectorStore:
    if conninfo not in _stores:
        options: dict[str, Any] = {"text_search": "simple", "syntax": "web", "max_connections": 1}
        store = PgLexicalVectorStore(conninfo, table="typed_at", dimension=3, **options)
        store.ensure_schema()
        store.upsert(ROWS)
        _stores[conninfo] = store
    return _stores[conninfo]


@pytest.fixture(scope="module", autouse=True)
def _close_kept() -> Any:
    yield
    while _stores:
        _stores.popitem()[1].close()


def test_the_score_is_bm25_over_the_rows_that_match(store: PgLexicalVectorStore) -> None:
    """The formula computed by hand, the number of occurrences included that is read off ts_rank."""
    matching = [text for text in TEXTS if "pump" in text.split() or "heat" in text.split()]
    lengths = [len(text.encode()) for text in matching]
    average = sum(lengths) / len(lengths)
    for passage in store.search_text("heat pump", top_k=10):
        expected = 0.0
        for term in ("heat", "pump"):
            holding = sum(term in text.split() for text in matching)
            idf = math.log(1 + (len(matching) - holding + 0.5) / (holding + 0.5))
            frequency = passage.text.split().count(term)
            norm = 1.5 * (1 - 0.75 + 0.75 * len(passage.text.encode()) / average)
            expected += idf * frequency * 2.5 / (frequency + norm) if frequency else 0.0
        assert passage.score == pytest.approx(expected, rel=1e-9)


def test_occurrences_are_counted_up_to_what_a_tsvector_keeps(make_store: Any) -> None:
    store = make_store(lexical=True, k1=1e9, b=0.0)
    numbers = [1, 2, 3, 7, 50, 128, 200, 255]
    store.upsert([VectorRecord(f"d{n:03}", "word " * n, [1, 0, 0]) for n in numbers])
    found = {p.id: p.score for p in store.search_text("word", top_k=20)}
    for n in numbers:
        # With k1 without end the score is idf times the number.
        assert found[f"d{n:03}"] / found["d001"] == pytest.approx(n, rel=1e-4)


def test_a_filter_bounds_the_rows_and_the_statistics(store: PgLexicalVectorStore, make_store: Any) -> None:
    found = store.search_text("heat pump", top_k=10, filter={"even": True})
    assert set(ids(found)) == {"d0", "d2"}
    assert store.search_text("heat pump", top_k=10, filter={"even": []}) == []
    view: Any = store.scoped({"even": True})
    assert view.search_text("heat pump", top_k=10) == found
    # What other tenants hold does not show in a score.
    store.remove_where({"even": False})
    assert store.search_text("heat pump", top_k=10) == found


def test_a_language_stems_and_knows_its_stop_words(make_store: Any) -> None:
    store = make_store(lexical=True, text_search="english")
    store.upsert(ROWS)
    assert set(ids(store.search_text("heating the pumps", top_k=9))) == {"d0", "d1", "d2", "d3"}
    assert store.search_text("the", top_k=9) == []
    assert ids(store.search_text('heat "the"', top_k=9)) == ids(store.search_text("heat", top_k=9))
    cover = make_store(lexical=True, text_search="english", ranking="ts_rank_cd", ensure=False)
    assert set(ids(cover.search_text("heating the pumps", top_k=9))) == {"d0", "d1", "d2", "d3"}


@pytest.mark.parametrize(
    ("query", "filter"), [("heat pump", None), ("heat pump", {"even": True}), ("zebra the", None), ("", None)]
)
def test_both_legs_at_once_rank_as_one_after_the_other(store: PgLexicalVectorStore, query: str, filter: Any) -> None:
    vector = Embedder().embed([query])[0]
    given = {} if filter is None else {"filter": filter}
    legs = [store.search(vector, top_k=20, **given), store.search_text(query, top_k=20, **given)]
    for weights in ((1.0, 1.0), (0.3, 0.7)):
        expected = reciprocal_rank_fusion(legs, k=60, weights=weights)[:5]
        found = store.search_hybrid(query, vector, top_k=5, weights=weights, **given)
        assert found == expected
        assert asyncio.run(store.asearch_hybrid(query, vector, top_k=5, weights=weights, **given)) == expected
    hybrid = HybridRetriever([EmbeddingRetriever(Embedder(), store), LexicalRetriever(store)])
    assert hybrid.retrieve(query, top_k=5, **given) == reciprocal_rank_fusion(legs)[:5]


def test_options_and_arguments_are_checked(store: PgLexicalVectorStore, pg_conninfo: str) -> None:
    for options, message in (
        ({"ranking": "tfidf"}, "ranking must be one of bm25, ts_rank_cd"),
        ({"text_search": "a-b"}, "text_search must be a name"),
        ({"b": 2}, "b must lie between 0 and 1"),
        ({"k1": -1}, "k1 must be 0 or more"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            PgLexicalVectorStore(pg_conninfo, **options)
    calls: list[Callable[[], object]] = [
        lambda: store.search_text("x", top_k=0),
        lambda: store.search_text(None, top_k=1),  # type: ignore[arg-type]
        lambda: store.search_hybrid("x", [1, 0, 0], top_k=1, weights=[1]),
        lambda: store.search_hybrid("x", [1, 0, 0], top_k=1, k=-1),
    ]
    for call in calls:
        with pytest.raises(InvalidArgumentError):
            call()
    assert is_lexical_vector_store(store)


def test_the_factory_gives_the_hybrid_of_both_legs(pg_conninfo: str, fresh_name: str) -> None:
    retriever = retrievers.pgvector(
        pg_conninfo, embedder=Embedder(), table=fresh_name, dimension=3, ensure_schema=True, full_text={}
    )
    with PgLexicalVectorStore(pg_conninfo, table=fresh_name, dimension=3) as store:
        store.ensure_schema()
        store.upsert(ROWS)
        assert retriever.retrieve("heat pump", top_k=3) == store.search_hybrid(
            "heat pump", Embedder().embed(["heat pump"])[0], top_k=3, fetch_top_k=100, fusion="adaptive"
        )
    retriever.close()


def test_a_text_longer_than_a_tsvector_takes_is_stored_and_found_by_its_beginning(make_store: Any) -> None:
    store = make_store(lexical=True)
    text = "needle " + " ".join(f"w{n}" for n in range(300_000)) + " tail"
    assert store.upsert([VectorRecord("long", text, [1, 0, 0])]) == 1
    assert ids(store.search_text("needle", top_k=1)) == ["long"]
    assert store.get(["long"])[0].text == text
