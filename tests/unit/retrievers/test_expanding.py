"""Neighbours and whole documents: what comes with a passage, and what must not."""

from __future__ import annotations

import pydoc_data.topics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import (
    ExpandingRetriever,
    IngestDocument,
    InvalidArgumentError,
    MemoryVectorStore,
    Passage,
    ProseChunker,
    UnsupportedOperationError,
    VectorRecord,
    chunk_documents,
    ingest_documents,
)
from agora_core.retrievers import EmbeddingRetriever
from agora_core.testing import FakeEmbeddingProvider

TEXT = pydoc_data.topics.topics["lambda"] + pydoc_data.topics.topics["yield"] + pydoc_data.topics.topics["numbers"]


class Found:
    """Finds what it is told to, in that order, under no filter but remembers it."""

    scope = None

    def __init__(self, *ids: str) -> None:
        self.ids = ids

    def retrieve(
        self, query: str, *, top_k: int = 5, filter: Any = None, min_score: float | None = None
    ) -> list[Passage]:
        return [Passage(key, f"text of {key}", 1.0 - place / 10) for place, key in enumerate(self.ids)][:top_k]


def numbered(count: int, document: str = "d", **labels: Any) -> MemoryVectorStore:
    store = MemoryVectorStore()
    store.upsert(
        [
            VectorRecord(f"{document}#{n}", f"text of {document}#{n}", [1.0, n], None, labels.get(f"m{n}"))
            for n in range(count)
        ]
    )
    return store


def test_a_passage_comes_with_its_neighbours_in_reading_order() -> None:
    expanded = ExpandingRetriever(Found("d#4"), numbered(10), before=1, after=2).retrieve("q")
    assert [(one.id, one.score) for one in expanded] == [("d#4", 1.0)]
    assert expanded[0].text == "text of d#3\ntext of d#4\ntext of d#5\ntext of d#6"
    assert expanded[0].metadata == {"chunk_ids": ["d#3", "d#4", "d#5", "d#6"]}


def test_windows_that_touch_become_one_at_the_better_rank() -> None:
    retriever = ExpandingRetriever(Found("d#8", "d#1", "e#0", "d#4", "d#6"), numbered(10), before=1, after=1)
    found = [(one.id, one.metadata and one.metadata["chunk_ids"]) for one in retriever.retrieve("q")]
    assert found == [("d#8", [f"d#{n}" for n in range(10)]), ("e#0", ["e#0"])]


@pytest.mark.parametrize("call", ["filter", "base", "store"])
def test_a_denied_neighbour_ends_the_window(call: str) -> None:
    """Denied by the call, by the base's scope or by the store's: it never appears, and nothing behind it."""
    labels: Any = {f"m{n}": {"acl": "all" if n not in (2, 6) else "board"} for n in range(10)}
    store, allowed = numbered(10, **labels), {"acl": "all"}

    class Bounded(Found):
        scope = None

    base: Any = Bounded("d#4")
    options: dict[str, Any] = {}
    if call == "base":
        from agora_core import compile_filter

        base.scope = compile_filter(allowed)
    elif call == "filter":
        options["filter"] = allowed
    view: Any = store.scoped(allowed) if call == "store" else store
    found = ExpandingRetriever(base, view, before=5, after=5).retrieve("q", **options)
    assert found[0].metadata == {"chunk_ids": ["d#3", "d#4", "d#5"]}


@given(st.sets(st.integers(0, 11), min_size=1, max_size=6), st.integers(0, 3), st.integers(0, 3))
def test_every_window_is_that_of_the_plain_rule(hits: set[int], before: int, after: int) -> None:
    ids = [f"d#{n}" for n in sorted(hits, key=lambda n: (n * 7) % 12)]
    found = ExpandingRetriever(Found(*ids), numbered(12), before=before, after=after).retrieve("q", top_k=20)
    covered = {n for hit in hits for n in range(max(0, hit - before), min(12, hit + after + 1))}
    windows = [[int(key[2:]) for key in (one.metadata or {})["chunk_ids"]] for one in found]
    assert sorted(n for window in windows for n in window) == sorted(covered)
    for window in windows:
        assert window == list(range(window[0], window[-1] + 1))
        # What touches was joined.
        assert window[0] - 1 not in covered
    ranks = [min(ids.index(f"d#{n}") for n in window if n in hits) for window in windows]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("offsets", [True, False])
def test_what_chunks_share_stands_once_and_offsets_are_kept(offsets: bool) -> None:
    store = MemoryVectorStore()
    chunker = ProseChunker(300, 60, overlap_at="word", offsets=offsets)
    document = IngestDocument("d", TEXT)
    ingest_documents([document], embedder=FakeEmbeddingProvider(8), store=store, chunker=chunker)
    count = len(chunk_documents([document], chunker=chunker))
    (whole,) = ExpandingRetriever(Found("d#3"), store, before=count, after=count).retrieve("q")
    assert " ".join(whole.text.split()) == " ".join(TEXT.split())
    if offsets:
        assert whole.metadata is not None
        assert TEXT[whole.metadata["start"] : whole.metadata["end"]] == TEXT.strip()


def test_a_document_half_of_whose_chunks_were_found_comes_back_whole_once() -> None:
    store = numbered(6)
    store.upsert([VectorRecord(f"e#{n}", f"text of e#{n}", [1.0, n]) for n in range(7)])
    base = Found("e#0", "d#5", "e#3", "d#0", "d#2", "e#6")
    found = ExpandingRetriever(base, store, before=0, after=0, merge_parents=0.5).retrieve("q", top_k=6)
    assert [one.id for one in found] == ["e#0", "d#5", "e#3", "e#6"]
    assert found[1].metadata == {"chunk_ids": [f"d#{n}" for n in range(6)]}


def test_ids_without_a_number_stay_alone() -> None:
    store = MemoryVectorStore()
    store.upsert([VectorRecord("node", "x", [1.0])])
    assert [one.text for one in ExpandingRetriever(Found("node", "d#01"), store).retrieve("q")] == [
        "text of node",
        "text of d#01",
    ]


async def test_it_composes_and_is_async() -> None:
    embedder, store = FakeEmbeddingProvider(8), MemoryVectorStore()
    ingest_documents([IngestDocument("d", TEXT, "t.md", {"acl": "all"})], embedder=embedder, store=store)
    retriever = ExpandingRetriever(EmbeddingRetriever(embedder, store).scoped({"acl": "all"}), store)
    assert await retriever.aretrieve("lambda", top_k=2) == retriever.retrieve("lambda", top_k=2)
    assert retriever.scope is not None
    assert retriever.scoped({"acl": "none"}).retrieve("lambda") == []


def test_bad_arguments_are_refused() -> None:
    store = numbered(1)
    for options in ({"before": -1}, {"after": True}, {"merge_parents": 0}, {"merge_parents": 1.5}):
        with pytest.raises(InvalidArgumentError, match=next(iter(options))):
            ExpandingRetriever(Found(), store, **options)
    with pytest.raises(UnsupportedOperationError):
        ExpandingRetriever(Found(), object())  # type: ignore[arg-type]
