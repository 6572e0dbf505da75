"""Saving and loading a keyword index."""

from __future__ import annotations

import copy
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora_core import ChunkRecord, HybridRetriever, MemoryVectorStore, VectorRecord
from agora_core.errors import InvalidArgumentError
from agora_core.retrievers import KeywordRetriever
from tests.unit.keyword.test_history import ids, records

RECORDS = [
    ChunkRecord("a#0", "Running shoes für die Straße 東京", "a.md", {"k": [1, 2.5, True, None, {"x": "é"}]}),
    ChunkRecord("b", "", None, None),
    ChunkRecord("c", "the runner ran", "", {}),
]


def saved(path: Path, **options: Any) -> KeywordRetriever:
    retriever = KeywordRetriever(**options)
    retriever.add(RECORDS)
    retriever.save(path)
    return retriever


@pytest.mark.parametrize("tokenizer", [None, "ascii", "english"])
def test_a_loaded_index_answers_as_the_saved_one(tmp_path: Path, tokenizer: str | None) -> None:
    original = saved(tmp_path / "index.agora", tokenizer=tokenizer, k1=1.2, b=0.5)
    loaded = KeywordRetriever.load(tmp_path / "index.agora")
    assert repr(loaded) == repr(original)
    assert loaded.list_document_ids() == ["a", "b", "c"]
    for query in ("runner", "runs the", "strasse", "東京", "shoes runner"):
        assert loaded.retrieve(query) == original.retrieve(query)
        assert loaded.retrieve(query, filter={"k": [2.5]}) == original.retrieve(query, filter={"k": [2.5]})
    # And goes on from there.
    for retriever in (loaded, original):
        retriever.add([ChunkRecord("d", "new runner"), ChunkRecord("a#0", "only shoes")])
        retriever.remove("c")
    assert loaded.retrieve("runner shoes the") == original.retrieve("runner shoes the")
    assert [path.name for path in tmp_path.iterdir()] == ["index.agora"]


@given(st.lists(records, max_size=10), st.lists(ids, max_size=5), st.lists(records, max_size=4))
@settings(max_examples=25)
def test_any_history_survives(tmp_path_factory: Any, first: list[Any], removed: list[str], later: list[Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.index"
    original = KeywordRetriever()
    original.add(first)
    original.remove(removed)
    original.add(later)
    original.save(path)
    loaded = KeywordRetriever.load(path)
    assert len(loaded) == len(original)
    for query in ("alpha beta", "the rare x1", "gamma"):
        assert loaded.retrieve(query, top_k=50) == original.retrieve(query, top_k=50)


def test_an_empty_index_survives(tmp_path: Path) -> None:
    KeywordRetriever().save(tmp_path / "i")
    loaded = KeywordRetriever.load(tmp_path / "i")
    assert len(loaded) == 0
    loaded.add(RECORDS)
    assert len(loaded.retrieve("runner")) == 1


def test_a_tokenizer_without_a_name_must_be_given_again(tmp_path: Path) -> None:
    saved(tmp_path / "i", tokenizer=str.split)
    with pytest.raises(
        InvalidArgumentError, match="tokenizer must be given: the index was saved with one that has no name"
    ):
        KeywordRetriever.load(tmp_path / "i")
    with pytest.raises(InvalidArgumentError, match="tokenizer gives other terms than the one the index was saved with"):
        KeywordRetriever.load(tmp_path / "i", tokenizer=lambda text: text.split(","))
    assert KeywordRetriever.load(tmp_path / "i", tokenizer=str.split).retrieve("Running")[0].id == "a#0"


def test_another_tokenizer_is_refused(tmp_path: Path) -> None:
    saved(tmp_path / "i", tokenizer="english")
    with pytest.raises(InvalidArgumentError, match="tokenizer must be the one the index was saved with, 'english'"):
        KeywordRetriever.load(tmp_path / "i", tokenizer="german")
    assert len(KeywordRetriever.load(tmp_path / "i", tokenizer="english").retrieve("runs")) == 1


class Versioned:
    """A named tokenizer whose release changes what it makes of a text."""

    name = "versioned"

    def __init__(self, lower: bool, size: Any = 1) -> None:
        self.lower = lower
        self.config = {"size": size}

    def __call__(self, text: str) -> list[str]:
        return (text.lower() if self.lower else text).split()


def test_the_settings_of_a_tokenizer_are_kept_and_compared(tmp_path: Path) -> None:
    saved(tmp_path / "i", tokenizer=Versioned(True))
    with pytest.raises(InvalidArgumentError, match=r"tokenizer must be the one .* 'versioned' \{'size': 1\}"):
        KeywordRetriever.load(tmp_path / "i", tokenizer=Versioned(True, size=2))
    with pytest.raises(InvalidArgumentError, match=r"tokenizer\.config must be JSON to be saved"):
        saved(tmp_path / "j", tokenizer=Versioned(True, size={1}))
    assert not (tmp_path / "j").exists()


def test_a_tokenizer_that_has_changed_counts_anew(tmp_path: Path) -> None:
    saved(tmp_path / "i", tokenizer=Versioned(True))
    loaded = KeywordRetriever.load(tmp_path / "i", tokenizer=Versioned(False))
    assert [passage.id for passage in loaded.retrieve("Running")] == ["a#0"]
    assert loaded.retrieve("running") == []


def test_a_failure_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    original = saved(tmp_path / "i")
    before = (tmp_path / "i").read_bytes()
    original.add([ChunkRecord("x", "more")])
    original._text.tokenizer = Versioned(True, size={1})
    with pytest.raises(InvalidArgumentError):
        original.save(tmp_path / "i")
    assert (tmp_path / "i").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["i"]


def test_a_missing_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        KeywordRetriever.load(tmp_path / "nothing")


def rewrite(path: Path, name: str, content: bytes) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    members[name] = content
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)


def array_bytes(values: Any, kind: Any, path: Path) -> bytes:
    np.save(path, np.array(values, kind), allow_pickle=kind is object)
    return path.with_suffix(".npy").read_bytes()


@pytest.mark.parametrize(
    ("member", "values", "kind"),
    [
        ("rows.npy", [99] * 9, np.int32),
        ("rows.npy", [0], np.int32),
        ("rows.npy", [0.5] * 9, np.float64),
        ("rows.npy", [{"a": 1}], object),
        ("starts.npy", [0, 5, 2], np.int64),
        ("frequencies.npy", [0.5] * 9, np.float32),
        ("lengths.npy", [-1, 0, 3], np.int64),
        ("lengths.npy", [1, 1], np.int64),
    ],
)
def test_a_damaged_array_is_refused(tmp_path: Path, member: str, values: Any, kind: Any) -> None:
    saved(tmp_path / "i")
    rewrite(tmp_path / "i", member, array_bytes(values, kind, tmp_path / "array.npy"))
    with pytest.raises(InvalidArgumentError, match="is not a saved keyword index, or is damaged"):
        KeywordRetriever.load(tmp_path / "i")


@pytest.mark.parametrize(
    ("member", "content"),
    [
        ("head.json", b"{}"),
        ("head.json", b"not json"),
        ("head.json", json.dumps({"format": "agora-keyword-index", "version": "x"}).encode()),
        ("words.json", b'["a", "a"]'),
        ("words.json", b'{"a": 1}'),
        ("records.jsonl", b'["a", "text", null, {"k": NaN}]\n'),
        ("records.jsonl", b'["only an id"]\n'),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, member: str, content: bytes) -> None:
    saved(tmp_path / "i")
    rewrite(tmp_path / "i", member, content)
    with pytest.raises(InvalidArgumentError, match="is not a saved keyword index, or is damaged"):
        KeywordRetriever.load(tmp_path / "i")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(b"\x80\x04K\x01.")
    with pytest.raises(InvalidArgumentError, match="is not a saved keyword index, or is damaged"):
        KeywordRetriever.load(tmp_path / "i")


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda index: pickle.loads(pickle.dumps(index))])
def test_an_index_is_copied_and_pickled_with_its_passages(
    again: Callable[[KeywordRetriever], KeywordRetriever],
) -> None:
    """Kind: an object with a lock that frameworks cannot copy."""
    original = KeywordRetriever(k1=1.2, b=0.5, tokenizer="english", syntax="web")
    original.add([ChunkRecord("gone", "runner", "gone.md", {"gone": True}), *RECORDS])
    original.remove("gone")
    twin = again(original)
    assert repr(twin) == repr(original)
    for query in ("runners", '"the runner"', "ran -shoes"):
        assert twin.retrieve(query) == original.retrieve(query)
    twin.remove("c")
    twin.update_metadata("a", {"k": None})
    assert (len(twin), len(original)) == (2, 3)
    assert original.retrieve("shoes")[0].metadata == RECORDS[0].metadata
    # A composed one, and a view, are copied with it.
    whole = again(HybridRetriever([original.scoped({"k": [2.5]}), original]))  # type: ignore[arg-type]
    assert whole.retrieve("shoes runner") == HybridRetriever([original.scoped({"k": [2.5]}), original]).retrieve(
        "shoes runner"
    )


def test_a_copy_that_is_backed_stands_beside_the_copy_of_its_store() -> None:
    store, index = MemoryVectorStore(), KeywordRetriever()
    index.backed_by = store
    store.upsert([VectorRecord("a#0", "red fox", [1.0])])
    index.rebuild(store)
    twin_store, twin = copy.deepcopy((store, index))
    assert twin.backed_by is twin_store is not store
    store.remove("a")
    assert (index.retrieve("fox"), [one.id for one in twin.retrieve("fox")]) == ([], ["a#0"])
