"""The keyword retriever: what it answers, refuses, shares and survives."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from agora_core import ChunkRecord, VectorRecord, all_of, field, not_
from agora_core.errors import InvalidArgumentError, InvalidFilterError, InvalidMetadataError
from agora_core.metadata import UNSET
from agora_core.protocols import Retriever
from agora_core.retrievers import KeywordRetriever

FAQ = [
    ChunkRecord("faq#0", "The return window is ten days.", "faq.md", {"audience": ["public"], "year": 2023}),
    ChunkRecord("faq#1", "Batteries ship separately; return them at the depot.", "faq.md", {"audience": ["staff"]}),
    ChunkRecord("note", "Return return return.", None, {"audience": "staff", "year": 2024.0}),
    ChunkRecord("empty", "", None, None),
]


def filled() -> KeywordRetriever:
    retriever = KeywordRetriever()
    assert retriever.add(FAQ) == 4
    return retriever


def ids(retriever: KeywordRetriever, query: str = "return", **options: Any) -> list[str]:
    return [passage.id for passage in retriever.retrieve(query, **options)]


def test_is_a_retriever() -> None:
    assert isinstance(KeywordRetriever(), Retriever)
    assert repr(filled()) == "KeywordRetriever(4 passages, k1=1.5, b=0.75, tokenizer=unicode)"


def test_an_empty_index_and_an_empty_query_answer_nothing() -> None:
    assert KeywordRetriever().retrieve("anything") == []
    assert filled().retrieve("") == filled().retrieve("?!") == filled().retrieve("unknown words") == []


def test_only_passages_that_hold_a_term_come_back_whole() -> None:
    passages = filled().retrieve("RETURN depot")
    assert [passage.id for passage in passages] == ["faq#1", "note", "faq#0"]
    assert passages[0].text == FAQ[1].text
    assert (passages[0].source, passages[0].metadata) == ("faq.md", {"audience": ["staff"]})
    assert passages[1].source is None
    assert all(passage.score > 0 for passage in passages)


def test_five_passages_unless_told_otherwise() -> None:
    retriever = KeywordRetriever()
    retriever.add([ChunkRecord(f"{n}", "word") for n in range(9)])
    assert ids(retriever, "word") == ["0", "1", "2", "3", "4"]
    assert len(retriever.retrieve("word", top_k=100)) == 9


def test_equal_scores_go_by_code_points_also_through_the_cut() -> None:
    retriever = KeywordRetriever()
    retriever.add([ChunkRecord(name, "same words") for name in ("b", "é", "a", "Z", "😀", "ﬀ")])
    assert ids(retriever, "words", top_k=3) == ["Z", "a", "b"]
    assert ids(retriever, "words", top_k=6) == ["Z", "a", "b", "é", "ﬀ", "😀"]


def test_anything_with_an_id_and_a_text_is_a_record() -> None:
    @dataclass
    class Note:
        id: str
        text: str

    retriever = KeywordRetriever()
    retriever.add([Note("n", "plain note"), VectorRecord("v", "vector note", [0.0], "s", {"k": 1})])
    assert ids(retriever, "note") == ["n", "v"]
    assert retriever.retrieve("vector")[0].metadata == {"k": 1}


def test_of_one_id_the_last_wins_and_replaces() -> None:
    retriever = filled()
    assert retriever.add([ChunkRecord("note", "first"), ChunkRecord("note", "second")]) == 1
    assert len(retriever) == 4
    assert ids(retriever, "first") == []
    assert ids(retriever, "second") == ["note"]


def test_removal() -> None:
    retriever = filled()
    assert retriever.remove("note") == 1
    assert retriever.remove(["note", "faq#0", "faq#0", "unknown"]) == 1
    assert ids(retriever) == ["faq#1"]
    assert retriever.remove_document("faq") == 1
    assert retriever.remove_document("faq") == 0
    assert retriever.list_document_ids() == ["empty"]
    retriever.add(FAQ)
    assert ids(retriever) == ids(filled())


def test_documents_are_told_by_their_chunk_number() -> None:
    retriever = KeywordRetriever()
    retriever.add([ChunkRecord(name, "x") for name in ("a#1", "a", "a#2#3", "a#x", "b#0")])
    assert retriever.list_document_ids() == ["a", "a#2", "a#x", "b"]
    assert retriever.remove_document("a") == 2
    assert ids(retriever, "x") == ["a#2#3", "a#x", "b#0"]


def test_replace_documents_in_one_step() -> None:
    retriever = filled()
    assert (
        retriever.replace_documents(["faq", "unknown"], [ChunkRecord("faq#1", "new return"), ChunkRecord("x", "y")])
        == 2
    )
    assert ids(retriever, "return new days y") == ["faq#1", "x", "note"]
    assert retriever.replace_documents(["faq"], []) == 0
    assert retriever.list_document_ids() == ["empty", "note", "x"]


def test_update_metadata_patches_every_chunk() -> None:
    retriever = filled()
    assert retriever.update_metadata("faq", {"audience": ["all"], "year": None, "skipped": UNSET}) == 2
    assert [passage.metadata for passage in retriever.retrieve("days batteries")] == [{"audience": ["all"]}] * 2
    assert ids(retriever, filter={"audience": "public"}) == []
    assert sorted(ids(retriever, filter={"audience": ["all"]})) == ["faq#0", "faq#1"]
    assert retriever.update_metadata("unknown", {"k": 1}) == 0
    assert retriever.update_metadata("faq", {}) == retriever.update_metadata("faq", {"k": UNSET}) == 0


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (None, ["faq#0", "faq#1", "note"]),
        ({}, ["faq#0", "faq#1", "note"]),
        ({"audience": ["staff"]}, ["faq#1", "note"]),
        ({"audience": "staff"}, ["note"]),
        ({"audience": []}, []),
        ({"year": 2024}, ["note"]),
        ({"year": True}, []),
        ({"year": "2024"}, []),
        ({"audience": ["staff", "public"], "year": 2023}, ["faq#0"]),
        (field("year") >= 2023, ["faq#0", "note"]),
        (not_(field("audience").contains_any(["staff"])), ["faq#0", "note"]),
        (all_of(), ["faq#0", "faq#1", "note"]),
    ],
)
def test_filters(filter: Any, expected: list[str]) -> None:
    retriever = filled()
    for _ in range(2):
        assert sorted(ids(retriever, filter=filter)) == expected
    if filter is not None:
        documents = set(retriever.list_document_ids(filter)) - {"empty"}
        assert documents == {key.partition("#")[0] for key in expected}


def test_a_remembered_filter_does_not_mix_up_json_types() -> None:
    retriever = KeywordRetriever()
    values: list[Any] = [1, 1.0, True, "1", ["1"], [1], [True], "True", None]
    retriever.add([ChunkRecord(str(n), "x", None, {"k": value}) for n, value in enumerate(values)])
    for _ in range(2):
        assert ids(retriever, "x", filter={"k": 1}) == ["0", "1"]
        assert ids(retriever, "x", filter={"k": 1.0}) == ["0", "1"]
        assert ids(retriever, "x", filter={"k": True}) == ["2"]
        assert ids(retriever, "x", filter={"k": "1"}) == ["3"]
        assert ids(retriever, "x", filter={"k": ["1"]}) == ["3", "4"]
        assert ids(retriever, "x", filter={"k": [1]}) == ["0", "1", "5"]
        assert ids(retriever, "x", filter={"k": ("1",)}) == ["3", "4"]
        assert ids(retriever, "x", filter={"k": [["1"]]}) == ["4"]
        assert ids(retriever, "x", filter={"k": None}) == ["8"]


def test_statistics_are_those_of_the_whole_collection() -> None:
    retriever = filled()
    everything = {passage.id: passage.score for passage in retriever.retrieve("return days")}
    for passage in retriever.retrieve("return days", filter={"audience": ["staff"]}):
        assert passage.score == everything[passage.id]


def test_a_scope_narrows_every_call() -> None:
    scoped = filled().scoped({"audience": ["staff"]})
    assert sorted(passage.id for passage in scoped.retrieve("return")) == ["faq#1", "note"]
    assert scoped.retrieve("return", filter={"audience": ["public"]}) == []


def test_a_floor_is_inclusive_and_comes_before_the_cut() -> None:
    retriever = filled()
    best, second, third = retriever.retrieve("return")
    assert ids(retriever, min_score=second.score) == [best.id, second.id]
    assert ids(retriever, min_score=math.nextafter(second.score, math.inf)) == [best.id]
    assert ids(retriever, min_score=third.score, top_k=1) == [best.id]
    assert ids(retriever, min_score=-1) == [best.id, second.id, third.id]


def test_nothing_is_shared_with_the_caller() -> None:
    metadata = {"tags": ["a"]}
    retriever = KeywordRetriever()
    retriever.add([ChunkRecord("r", "x", None, metadata)])
    metadata["tags"].append("b")
    answer = retriever.retrieve("x")[0]
    assert answer.metadata == {"tags": ["a"]}
    answer.metadata["tags"].append("c")
    patch = {"more": ["d"]}
    retriever.update_metadata("r", patch)
    patch["more"].append("e")
    assert retriever.retrieve("x")[0].metadata == {"tags": ["a"], "more": ["d"]}


@pytest.mark.parametrize(
    ("record", "error", "message"),
    [
        (ChunkRecord("", "x"), InvalidMetadataError, r"records\[2\]: id must not be empty"),
        (ChunkRecord("bad\x00", "x"), InvalidMetadataError, r"records\[2\]: id contains U\+0000"),
        (ChunkRecord("bad", "x\ud800"), InvalidMetadataError, "record 'bad': text contains a lone surrogate"),
        (ChunkRecord("bad", "x", "s\x00"), InvalidMetadataError, "record 'bad': source contains"),
        (ChunkRecord("bad", 3), InvalidMetadataError, "record 'bad': text must be a str, got int"),  # type: ignore[arg-type]
        (ChunkRecord(7, "x"), InvalidMetadataError, r"records\[2\]: id must be a str, got int"),  # type: ignore[arg-type]
        (
            ChunkRecord("bad", "x", None, {"when": dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)}),
            InvalidMetadataError,
            r"record 'bad': metadata\['when'\] is a datetime, which is not JSON",
        ),
        (ChunkRecord("bad", "x", None, {"k": {1, 2}}), InvalidMetadataError, "is a set, which is not JSON"),
        (ChunkRecord("bad", "x", None, {"k": math.nan}), InvalidMetadataError, "only finite floats are JSON"),
        (ChunkRecord("bad", "x", None, {1: 2}), InvalidMetadataError, "metadata keys must be str"),  # type: ignore[dict-item]
        (
            ("bad", "x"),
            InvalidArgumentError,
            r"records\[2\] must have an id and a text as a ChunkRecord has, got tuple",
        ),
    ],
)
def test_a_bad_record_is_named_and_nothing_is_written(record: Any, error: type[Exception], message: str) -> None:
    retriever = filled()
    before = retriever.retrieve("return x fine")
    for write in (retriever.add, lambda records: retriever.replace_documents(["faq"], records)):
        with pytest.raises(error, match=message):
            write([ChunkRecord("new", "fine x return"), ChunkRecord("faq#0", "x"), record, ChunkRecord("z", "x")])
    assert retriever.retrieve("return x fine") == before
    assert len(retriever) == 4


def test_a_failing_tokenizer_leaves_the_index_as_it_was() -> None:
    def tokenize(text: str) -> list[Any]:
        if "boom" in text:
            raise RuntimeError("no terms")
        return [3] if "three" in text else text.split()

    retriever = KeywordRetriever(tokenizer=tokenize)
    retriever.add([ChunkRecord("a", "old words")])
    with pytest.raises(RuntimeError, match="no terms"):
        retriever.add([ChunkRecord("b", "fresh words"), ChunkRecord("a", "boom")])
    with pytest.raises(InvalidArgumentError, match="the tokenizer must give terms of type str, got int"):
        retriever.add([ChunkRecord("b", "other words"), ChunkRecord("a", "three")])
    assert ids(retriever, "fresh other words") == ["a"]
    retriever.add([ChunkRecord("b", "other words")])
    assert ids(retriever, "other") == ["b"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"top_k": 0}, InvalidArgumentError, "top_k must be 1 or more, got 0"),
        ({"top_k": -3}, InvalidArgumentError, "top_k must be 1 or more, got -3"),
        ({"top_k": 2.0}, InvalidArgumentError, "top_k must be an int"),
        ({"top_k": True}, InvalidArgumentError, "top_k must be an int"),
        ({"min_score": math.nan}, InvalidArgumentError, "min_score is NaN"),
        ({"filter": [1]}, InvalidFilterError, "filter must be a mapping or an expression, got list"),
        ({"filter": {"k": UNSET}}, InvalidFilterError, "UNSET|JSON"),
        ({"filter": {"k": "\ud800"}}, InvalidFilterError, "surrogate"),
        ({"filter": {3: "x"}}, InvalidFilterError, "filter keys must be str"),
        ({"query": 3}, InvalidArgumentError, "query must be a str, got int"),
        ({"filters": {}}, TypeError, "filters"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    for retriever in (KeywordRetriever(), filled()):
        with pytest.raises(error, match=message):
            retriever.retrieve(**{"query": "return", **options})


def test_bad_writes_are_refused() -> None:
    retriever = filled()
    with pytest.raises(InvalidArgumentError, match="records must be a list of records, got str"):
        retriever.add("text")
    with pytest.raises(InvalidArgumentError, match="records must be a list of records, got ChunkRecord"):
        retriever.add(FAQ[0])  # type: ignore[arg-type]
    with pytest.raises(InvalidMetadataError, match="which is not JSON"):
        retriever.update_metadata("faq", {"k": object()})
    with pytest.raises(InvalidArgumentError):
        retriever.remove(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        retriever.replace_documents("faq", [])
    assert retriever.add([]) == 0
    assert retriever.remove([]) == 0
    assert ids(retriever) == ids(filled())


async def test_every_method_has_an_async_twin(tmp_path: Any) -> None:
    retriever, twin = filled(), KeywordRetriever()
    assert await twin.aadd(FAQ) == 4
    assert await twin.aretrieve("return", top_k=2, filter={"audience": ["staff"]}) == retriever.retrieve(
        "return", top_k=2, filter={"audience": ["staff"]}
    )
    assert await twin.alist_document_ids() == retriever.list_document_ids()
    await twin.asave(tmp_path / "index")
    loaded = await KeywordRetriever.aload(tmp_path / "index")
    assert await twin.aupdate_metadata("faq", {"k": 1}) == 2
    assert await twin.aremove("note") == 1
    assert await twin.aremove_document("faq") == 2
    assert await twin.areplace_documents(["empty"], [ChunkRecord("x", "y")]) == 1
    assert len(twin) == 1
    assert await loaded.aretrieve("return") == retriever.retrieve("return")
    assert len(await asyncio.gather(*(loaded.aretrieve("return") for _ in range(8)))) == 8


def test_a_search_sees_the_index_before_or_after_a_write() -> None:
    """Each write keeps the number of passages that hold the word, and all of one write carry its number."""
    retriever = KeywordRetriever()

    def batch(number: int) -> list[ChunkRecord]:
        return [
            ChunkRecord(f"d#{n}", f"word filler{number % 7} " * (1 + n % 3), None, {"n": number}) for n in range(40)
        ]

    retriever.add(batch(0))
    stop = threading.Event()
    faults: list[str] = []

    def search() -> None:
        while not stop.is_set():
            for options in ({}, {"filter": field("n") >= 0}):
                passages = retriever.retrieve("word", top_k=100, **options)  # type: ignore[arg-type]
                if len(passages) != 40 or len({passage.metadata["n"] for passage in passages if passage.metadata}) != 1:
                    faults.append(f"{len(passages)} passages")

    def write() -> None:
        for number in range(1, 120):
            if number % 3:
                retriever.add(batch(number))
            else:
                retriever.replace_documents(["d"], batch(number))

    readers = [threading.Thread(target=search) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        write()
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not faults


def test_writers_in_several_threads_lose_nothing() -> None:
    retriever = KeywordRetriever()

    def write(part: int) -> None:
        for number in range(60):
            retriever.add([ChunkRecord(f"{part}-{number}#{n}", f"all {'abcd'[part]}part n{number}") for n in range(3)])
            if number % 2:
                retriever.remove_document(f"{part}-{number - 1}")

    threads = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(retriever) == 4 * 30 * 3
    assert len(retriever.retrieve("all", top_k=1000)) == 360
    assert len(retriever.retrieve("cpart", top_k=1000)) == 90
