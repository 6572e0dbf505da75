"""Sequences of operations on the original's memory store, and what it answered at each step."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from agora_core import InvalidArgumentError, MemoryVectorStore, UnsafeRemovalError, VectorRecord
from agora_core.metadata import UNSET
from tests.golden_cases import UNDEFINED, GoldenCase, GoldenError, assert_same, drop_undefined, golden_params

STEPS = {
    "remove": lambda store, step: store.remove(step["documentId"]),
    "updateMetadata": lambda store, step: store.update_metadata(
        step["documentId"], {key: UNSET if value is UNDEFINED else value for key, value in step["patch"].items()}
    ),
    "listDocumentIds": lambda store, step: store.list_document_ids(filter_of(step)),
}


def filter_of(step: dict[str, Any]) -> Any:
    filter = step.get("filter", UNDEFINED)
    return None if filter is UNDEFINED else filter


def record(raw: dict[str, Any]) -> VectorRecord:
    given = drop_undefined(raw)
    return VectorRecord(given["id"], given["text"], given["embedding"], given.get("source"), given.get("metadata"))


def as_dict(value: Any, *fields: str) -> dict[str, Any]:
    return {name: got for name in fields if (got := getattr(value, name)) is not None}


def check_search(store: MemoryVectorStore, step: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    options = drop_undefined(step["options"])
    top_k = options["topK"]
    asked = {"filter": options.get("filter"), "min_score": options.get("minScore")}
    if top_k < 1:
        # The original answers nothing; here a top_k below 1 is refused everywhere.
        with pytest.raises(InvalidArgumentError, match="top_k"):
            store.search(step["embedding"], top_k=top_k, **asked)
        return
    found = [
        as_dict(passage, "id", "text", "score", "source", "metadata")
        for passage in store.search(step["embedding"], top_k=top_k, **asked)
    ]
    assert_same([passage["score"] for passage in found], [passage["score"] for passage in expected])
    # The original breaks ties by insertion and this store by id, so a tie that the cut goes through may keep others.
    everything = {
        passage.id: as_dict(passage, "id", "text", "score", "source", "metadata")
        for passage in store.search(step["embedding"], top_k=10**6, **asked)
    }
    last = expected[-1]["score"] if len(expected) == top_k else None
    for score, group in groupby(expected, key=lambda passage: round(passage["score"], 9)):
        alike = [passage for passage in found if round(passage["score"], 9) == score]
        wanted = list(group)
        assert [passage["id"] for passage in alike] == sorted(passage["id"] for passage in alike)
        for passage in wanted:
            assert_same(everything[passage["id"]], drop_undefined(passage))
        if last is None or round(last, 9) != score:
            assert {passage["id"] for passage in alike} == {passage["id"] for passage in wanted}


@pytest.mark.parametrize("case", golden_params("memory_store"))
def test_memory_store(case: GoldenCase) -> None:
    store = MemoryVectorStore()
    for step, expected in zip(case.input["steps"], case.expected, strict=True):
        operation = step["op"]
        if operation == "upsert":
            store.upsert([record(raw) for raw in step["records"]])
        elif operation == "search":
            check_search(store, step, expected)
        elif operation == "listDocuments":
            # The original lists in the order of insertion and takes the metadata of the first inserted chunk; here
            # lists are sorted and the chunk with the smallest number speaks. So only the ids are compared in general.
            listed = store.list_documents(filter_of(step))
            assert [document.id for document in listed] == sorted(document["id"] for document in expected)
        elif operation == "listDocumentIds":
            assert STEPS[operation](store, step) == sorted(expected)
        elif operation == "removeWhere":
            if isinstance(expected, GoldenError):
                with pytest.raises(UnsafeRemovalError) as raised:
                    store.remove_where(step["filter"])
                assert raised.value.reason == expected.details["reason"]
            else:
                assert store.remove_where(step["filter"]) == expected
        elif operation == "updateMetadata":
            assert STEPS[operation](store, step) == expected
        else:
            # The original's remove returns nothing, ours the number of chunks.
            STEPS[operation](store, step)
