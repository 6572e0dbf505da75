"""How documents enter an `AgoraVectorStore`, change and leave it, in both colours."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document

from agora_core import (
    InvalidMetadataError,
    MemoryVectorStore,
    UnsafeRemovalError,
    VectorRecord,
)
from langchain_agora import AgoraVectorStore
from tests.unit.langchain_agora.angles import Angles, angles, filled, ids_of
from tests.unit.langchain_agora.colours import Run


def test_ids_are_kept_as_given_and_filled_where_none_is(run: Run) -> None:
    vectors = angles()
    documents = [Document("1", id="faq#0"), Document("2"), Document("3", id="own"), Document("4", id="lost")]
    ids = run(vectors, "add_documents", documents, ids=[None, None, None, "kept"])
    assert (ids[0], ids[2], ids[3]) == ("faq#0", "own", "kept")
    assert len(ids[1]) == 36
    assert [document.page_content for document in run(vectors, "get_by_ids", ids)] == ["1", "2", "3", "4"]
    assert documents[1].id is None


@pytest.mark.parametrize("ids", [["1"], ["1", "2", "3", "4"], [], "abc"])
def test_a_wrong_number_of_ids_is_refused_and_nothing_is_stored(run: Run, ids: Any) -> None:
    vectors = angles()
    with pytest.raises(ValueError, match=r"ids must be a list with one id for each document.*3 documents"):
        run(vectors, "add_texts", ["1", "2", "3"], ids=ids)
    assert vectors.store.count() == 0
    assert vectors.embedding.texts == []  # type: ignore[attr-defined]


def test_a_wrong_number_of_metadatas_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="metadatas must hold one mapping for each text: got 1 for 2 texts"):
        run(angles(), "add_texts", ["1", "2"], [{}])


METADATA = {"s": "x", "i": 1, "f": 1.5, "b": True, "none": None, "list": [1, "a", [2]], "object": {"a": {"b": 1}}}


def test_metadata_comes_back_equal_with_nothing_of_ours(run: Run) -> None:
    vectors = angles()
    (id,) = run(vectors, "add_documents", [Document("1", metadata=METADATA)])
    (found,) = run(vectors, "similarity_search", "1")
    assert found == Document("1", id=id, metadata=METADATA)
    assert [type(value) for value in found.metadata.values()] == [type(value) for value in METADATA.values()]


def test_what_is_found_shares_nothing_with_the_store(run: Run) -> None:
    vectors = angles()
    given = {"tags": ["a"]}
    run(vectors, "add_documents", [Document("1", id="x", metadata=given)])
    given["tags"].append("mine")
    for name, argument in (("similarity_search", "1"), ("get_by_ids", ["x"])):
        (found,) = run(vectors, name, argument)
        found.metadata["tags"].append("changed")
    assert run(vectors, "get_by_ids", ["x"])[0].metadata == {"tags": ["a"]}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"when": dt.timedelta(1)}, r"document 'x'.*\['when'\].*timedelta"),
        ({"tags": {"a"}}, r"\['tags'\].*set"),
        ({"score": float("nan")}, r"\['score'\].*nan"),
        ({1: "a"}, "key 1"),
    ],
)
def test_metadata_that_is_not_json_is_refused_before_anything_is_embedded(
    run: Run, metadata: Any, message: str
) -> None:
    vectors = angles()
    document = Document.model_construct(page_content="1", id="x", metadata=metadata)
    with pytest.raises(InvalidMetadataError, match=message):
        run(vectors, "add_documents", [Document("2"), document])
    assert vectors.embedding.texts == []  # type: ignore[attr-defined]
    assert vectors.store.count() == 0


def test_text_vector_and_metadata_are_replaced(run: Run) -> None:
    vectors = filled(run, "0", "90")
    run(vectors, "add_documents", [Document("180", id="0", metadata={"new": True})])
    (first, _) = run(vectors, "similarity_search", "180", k=2)
    assert first == Document("180", id="0", metadata={"new": True})


def test_batches_are_embedded_one_by_one_and_stored_together(run: Run) -> None:
    vectors = angles()
    writes: list[int] = []
    upsert = vectors.store.upsert

    def counted(records: Sequence[VectorRecord], **options: Any) -> int:
        writes.append(len(records))
        return int(upsert(records, **options))

    vectors.store.upsert = counted
    vectors.store.aupsert = None
    run(vectors, "add_texts", ["1", "2", "3", "4", "5"], batch_size=2)
    assert vectors.embedding.texts == [["1", "2"], ["3", "4"], ["5"]]  # type: ignore[attr-defined]
    assert writes == [5]


def test_nothing_is_asked_for_nothing(run: Run) -> None:
    vectors = angles()
    assert run(vectors, "add_documents", []) == []
    assert vectors.embedding.texts == []  # type: ignore[attr-defined]


def test_an_embedding_model_that_answers_too_little_is_refused(run: Run) -> None:
    class Short(Angles):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return super().embed_documents(texts[1:])

    vectors = AgoraVectorStore(MemoryVectorStore(), Short())
    with pytest.raises(RuntimeError, match="1 vectors for 2 texts"):
        run(vectors, "add_texts", ["1", "2"])
    assert vectors.store.count() == 0


def test_the_constructors_fill_a_store(run: Run) -> None:
    store = MemoryVectorStore()
    made = run(AgoraVectorStore, "from_texts", ["1", "2"], Angles(), [{"a": 1}, None], ids=["x", "y"], store=store)
    assert type(made) is AgoraVectorStore
    assert made.store is store
    assert run(made, "get_by_ids", ["x", "y"]) == [Document("1", id="x", metadata={"a": 1}), Document("2", id="y")]
    fresh = run(AgoraVectorStore, "from_documents", [Document("1", id="z")], Angles())
    assert ids_of(run(fresh, "similarity_search", "1")) == ["z"]


MISSPELT: list[tuple[str, list[Any]]] = [
    ("add_documents", [[]]),
    ("add_texts", [[]]),
    ("delete", [["x"]]),
    ("similarity_search", ["1"]),
    ("similarity_search_with_score", ["1"]),
    ("similarity_search_with_relevance_scores", ["1"]),
    ("similarity_search_by_vector", [[1.0, 0.0]]),
    ("max_marginal_relevance_search", ["1"]),
    ("max_marginal_relevance_search_by_vector", [[1.0, 0.0]]),
    ("update_metadata", ["x", {}]),
]


@pytest.mark.parametrize(("name", "arguments"), MISSPELT, ids=[name for name, _ in MISSPELT])
def test_a_misspelt_keyword_raises(run: Run, name: str, arguments: list[Any]) -> None:
    with pytest.raises(TypeError, match="fitler"):
        run(filled(run, "1"), name, *arguments, fitler={"n": 0})


def test_the_source_is_kept_apart_unless_a_key_is_named_for_it(run: Run) -> None:
    store = MemoryVectorStore()
    store.upsert([VectorRecord("core", "1", Angles.at(1), "core.md", {"a": 1})])
    plain = AgoraVectorStore(store, Angles())
    named = AgoraVectorStore(store, Angles(), source_key="source")
    run(plain, "add_documents", [Document("2", id="plain", metadata={"source": "plain.md"})])
    run(named, "add_documents", [Document("3", id="named", metadata={"source": "named.md"})])
    run(named, "add_documents", [Document("4", id="odd", metadata={"source": 4})])
    assert [record.source for record in store.get(["core", "plain", "named", "odd"])] == [
        "core.md",
        None,
        "named.md",
        None,
    ]
    assert [document.metadata for document in run(plain, "get_by_ids", ["core", "named"])] == [
        {"a": 1},
        {"source": "named.md"},
    ]
    assert run(named, "get_by_ids", ["core"])[0].metadata == {"a": 1, "source": "core.md"}


def test_delete_by_ids_by_filter_and_by_both(run: Run) -> None:
    vectors = filled(run, "0", "1", "2", "3")
    assert run(vectors, "delete", ["0", "missing"]) is True
    assert run(vectors, "delete", ["1", "2"], filter={"n": 2}) is True
    assert ids_of(run(vectors, "get_by_ids", ["0", "1", "2", "3"])) == ["1", "3"]
    assert run(vectors, "delete", filter={"n": {"$gte": 3}}) is True
    assert run(vectors, "delete", []) is True
    assert run(vectors, "delete", filter={"n": []}) is True
    assert ids_of(run(vectors, "get_by_ids", ["1", "3"])) == ["1"]


@pytest.mark.parametrize("filter", [None, {}, {"$not": {"n": 0}}, {"n": {"$nin": []}}])
def test_a_delete_that_bounds_nothing_is_refused(run: Run, filter: Any) -> None:
    vectors = filled(run, "0", "1")
    with pytest.raises(UnsafeRemovalError):
        run(vectors, "delete", filter=filter)
    assert vectors.store.count() == 2


def test_a_patch_costs_no_embedding(run: Run) -> None:
    vectors = angles()
    run(vectors, "add_texts", ["1", "2"], [{"a": 1}, {"a": 1}], ids=["doc#0", "doc#1"])
    asked = len(vectors.embedding.texts)  # type: ignore[attr-defined]
    assert run(vectors, "update_metadata", "doc", {"a": None, "b": [1]}) == 2
    assert run(vectors, "update_metadata", "unknown", {"a": 1}) == 0
    assert [document.metadata for document in run(vectors, "get_by_ids", ["doc#0", "doc#1"])] == [{"b": [1]}] * 2
    assert len(vectors.embedding.texts) == asked  # type: ignore[attr-defined]
