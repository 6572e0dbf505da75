"""The keyword index after any history of writes answers as the formula does, worked out from scratch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora_core import ChunkRecord, all_of
from agora_core.keyword import get_tokenizer
from agora_core.retrievers import KeywordRetriever
from tests.unit import generated
from tests.unit.keyword.model import PlainModel, assert_same_ranking

WORDS = ["alpha", "beta", "gamma", "delta", "rare", "the", "the", "the", "a", "x1", "Alpha,", "beta-gamma"]
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
queries = st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=5).map(" ".join)
ids = st.builds(
    lambda name, n: name if n is None else f"{name}#{n}", st.sampled_from("abcde"), st.sampled_from([None, 0, 1, 2])
)
records = st.builds(
    ChunkRecord, id=ids, text=texts, source=st.none() | st.sampled_from(["", "s.md"]), metadata=generated.metadata
)
operations = st.one_of(
    st.tuples(st.just("add"), st.lists(records, max_size=6)),
    st.tuples(st.just("add"), st.lists(records, max_size=1)),
    st.tuples(st.just("replace"), st.lists(st.sampled_from("abcde"), max_size=2), st.lists(records, max_size=3)),
    st.tuples(st.just("remove"), st.lists(ids, max_size=4)),
    st.tuples(st.just("remove_document"), st.sampled_from("abcdef")),
    st.tuples(st.just("update_metadata"), st.sampled_from("abcdef"), generated.patches),
    st.tuples(st.just("retrieve"), queries, st.integers(1, 6)),
)


@pytest.fixture(params=["as shipped", "tiny"], autouse=True, scope="module")
def sizes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Blocks, folds, bulk writes and caches at sizes that a small test passes many times over."""
    with ExitStack() as stack:
        if request.param == "tiny":
            for name, value in (
                ("postings.BLOCK_POSTINGS", 8),
                ("postings._LEAST_DIRT", 4),
                ("postings._LONG_TAIL", 1),
                ("index._LEAST_BULK", 12),
                ("counting._CHUNK_BITS", 2),
                ("search._EAGER", 2),
                ("search._SMALL", 1),
                ("search._FEW", 1),
                ("search._LEAST_CACHE", 16),
            ):
                stack.enter_context(patch(f"agora_core.keyword.{name}", value))
        yield


def apply(retriever: KeywordRetriever, model: PlainModel, operation: tuple[Any, ...]) -> None:
    kind, *arguments = operation
    if kind == "retrieve":
        query, top_k = arguments
        assert_same_ranking(retriever.retrieve(query, top_k=top_k), model.retrieve(query), top_k)
    elif kind == "add":
        assert retriever.add(arguments[0]) == len({record.id for record in arguments[0]})
        model.add(arguments[0])
    elif kind == "replace":
        documents, given_records = arguments
        assert retriever.replace_documents(documents, given_records) == len({record.id for record in given_records})
        for document in documents:
            model.remove_document(document)
        model.add(given_records)
    else:
        assert getattr(retriever, kind)(*arguments) == getattr(model, kind)(
            *[list(dict.fromkeys(a)) if kind == "remove" else a for a in arguments]
        )
    assert len(retriever) == len(model.records)


@given(
    st.lists(operations, max_size=25),
    queries,
    st.integers(1, 8),
    st.sampled_from([(1.5, 0.75), (0.0, 0.5), (1.2, 1.0), (2.0, 0.0)]),
)
def test_any_history_answers_as_the_formula(
    history: list[tuple[Any, ...]], query: str, top_k: int, parameters: tuple[float, float]
) -> None:
    k1, b = parameters
    retriever = KeywordRetriever(k1=k1, b=b)
    model = PlainModel(get_tokenizer("unicode"), k1=k1, b=b)
    for operation in history:
        apply(retriever, model, operation)
    assert_same_ranking(retriever.retrieve(query, top_k=top_k), model.retrieve(query), top_k)
    assert retriever.list_document_ids() == sorted({key.partition("#")[0] for key in model.records})


@given(st.lists(operations, max_size=15), queries, generated.filters, st.integers(1, 8))
def test_a_filtered_answer_is_the_matching_part_of_the_whole(
    history: list[tuple[Any, ...]], query: str, filter: Any, top_k: int
) -> None:
    retriever, model = KeywordRetriever(), PlainModel(get_tokenizer("unicode"))
    for operation in history:
        apply(retriever, model, operation)
    everything = model.retrieve(query, filter=filter)
    for _ in range(2):  # anew, and from what is remembered of the filter
        assert_same_ranking(retriever.retrieve(query, top_k=top_k, filter=filter), everything, top_k)
    # The scores are those of the unfiltered answer, to the bit.
    scores = {passage.id: passage.score for passage in retriever.retrieve(query, top_k=1000)}
    for passage in retriever.retrieve(query, top_k=top_k, filter=filter):
        assert passage.score == scores[passage.id]
    assert retriever.retrieve(query, top_k=top_k, filter=all_of()) == retriever.retrieve(query, top_k=top_k)


@given(st.lists(operations, max_size=15), queries, st.integers(1, 4))
def test_a_floor_keeps_what_reaches_it(history: list[tuple[Any, ...]], query: str, top_k: int) -> None:
    retriever, model = KeywordRetriever(), PlainModel(get_tokenizer("unicode"))
    for operation in history:
        apply(retriever, model, operation)
    everything = retriever.retrieve(query, top_k=1000)
    for floor in (-1.0, 0.0, 0.5, *(passage.score for passage in everything), float("inf")):
        expected = [passage for passage in everything if passage.score >= floor][:top_k]
        assert retriever.retrieve(query, top_k=top_k, min_score=floor) == expected


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30)), min_size=1, max_size=120), st.data())
@settings(max_examples=25)
def test_leaving_terms_out_changes_nothing(places: list[tuple[int, int]], data: st.DataObject) -> None:
    """Frequent and rare terms, so that most queries leave some out; every order and cut is that of the formula."""
    texts = [
        " ".join(f"t{n}" for n in range(12) if number % (n + 1) == 0) + f" u{number % 40} common " + "pad " * length
        for number, length in places
    ]
    retriever, model = KeywordRetriever(), PlainModel(get_tokenizer("unicode"))
    written = [ChunkRecord(f"{n:03}", text, None, {"odd": n % 2 == 1}) for n, text in enumerate(texts)]
    retriever.add(written)
    model.add(written)
    words = [*(f"t{n}" for n in range(12)), *(f"u{n}" for n in range(8)), "common", "pad"]
    for _ in range(4):
        query = " ".join(data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=8)))
        top_k = data.draw(st.integers(1, 20))
        filter = data.draw(st.sampled_from([None, {"odd": True}]))
        everything = model.retrieve(query, filter=filter)
        first = retriever.retrieve(query, top_k=top_k, filter=filter)
        assert_same_ranking(first, everything, top_k)
        assert retriever.retrieve(query, top_k=top_k, filter=filter) == first


@given(
    st.lists(
        st.lists(st.sampled_from(["été", "ÉTÉ", "東京", "東京都", "กิน", "abc", "straße", "हिन्दी"]), max_size=5).map(
            " ".join
        ),
        max_size=8,
    )
)
def test_every_script_scores_as_its_terms_do(texts: list[str]) -> None:
    tokenizer = get_tokenizer("unicode")
    retriever, model = KeywordRetriever(), PlainModel(tokenizer)
    written = [ChunkRecord(str(n), text) for n, text in enumerate(texts)]
    retriever.add(written)
    model.add(written)
    for query in ("été", "abc STRASSE", "हिन्दी"):
        assert_same_ranking(retriever.retrieve(query, top_k=3), model.retrieve(query), 3)
