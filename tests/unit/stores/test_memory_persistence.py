"""Saved stores: whole, checked when they are read, and never half written."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora_core import InvalidArgumentError, InvalidMetadataError, MemoryVectorStore, VectorRecord, field
from agora_core.stores.memory import persistence
from agora_core.stores.memory.columns import encode_items
from tests.unit import generated as some
from tests.unit.stores.test_memory_selections import WRITES


@pytest.fixture
def store() -> MemoryVectorStore:
    made = MemoryVectorStore(metric="l2")
    made.upsert(
        [
            VectorRecord("a#0", "one\ntwo\u2028", [0.1, 3e38], "s.md", {"k": ["x", {"y": None}], "n": 2**63 - 1}),
            VectorRecord("日本", "", [0.0, -0.0], "", {}),
            VectorRecord("b", "\U0001f600", [1e-40, 2.0]),
        ]
    )
    return made


def test_a_store_comes_back_as_it_was(store: MemoryVectorStore, tmp_path: Path) -> None:
    store.save(tmp_path / "kept")
    back = MemoryVectorStore.load(str(tmp_path / "kept"))
    assert list(back.scan()) == list(store.scan())
    assert (back.metric, back.dimension) == ("l2", 2)
    assert back.search([1, 1], top_k=9) == store.search([1, 1], top_k=9)
    assert back.count(field("k").contains_any(["x"])) == 1
    back.upsert([VectorRecord("c", "", [1, 2])])
    assert len(store) == 3


@pytest.mark.parametrize("dimension", [None, 5])
def test_an_empty_store_comes_back_empty(dimension: int | None, tmp_path: Path) -> None:
    MemoryVectorStore(metric="inner", dimension=dimension).save(tmp_path / "kept")
    back = MemoryVectorStore.load(tmp_path / "kept")
    assert (len(back), back.dimension, back.metric) == (0, dimension, "inner")


def test_only_the_file_itself_is_left(store: MemoryVectorStore, tmp_path: Path) -> None:
    store.save(tmp_path / "kept")
    store.remove("b")
    store.save(tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert len(MemoryVectorStore.load(tmp_path / "kept")) == 2


def test_a_failure_leaves_the_old_file(
    store: MemoryVectorStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(tmp_path / "kept")
    before = (tmp_path / "kept").read_bytes()
    store.remove("b")

    def fail(descriptor: int) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        store.save(tmp_path / "kept")
    assert (tmp_path / "kept").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_the_file_holds_json_arrays_and_bytes(store: MemoryVectorStore, tmp_path: Path) -> None:
    store.save(tmp_path / "kept")
    with zipfile.ZipFile(tmp_path / "kept") as archive:
        names = {name.removesuffix(".npy") for name in archive.namelist()}
        assert names == {"head.json", "ids.json", "vectors", "texts", "sources", "contexts", "metadata"}
        assert json.loads(archive.read("head.json"))["format"] == "agora-memory-store"


def rewritten(source: Path, target: Path, member: str, content: bytes | None) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = content if name == member else old.read(name)
            if data is not None:
                new.writestr(name, data)
    return target


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def refused(path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a saved memory store, or is damaged"):
        MemoryVectorStore.load(path)


def test_damage_is_found(store: MemoryVectorStore, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    store.save(kept)
    with zipfile.ZipFile(kept) as archive:
        head = json.loads(archive.read("head.json"))
        texts = archive.read("texts")
        lengths = np.load(io.BytesIO(archive.read("texts.npy")))
    damages: list[tuple[str, Any]] = [
        ("head.json", b"{}"),
        ("head.json", b"[]"),
        ("head.json", None),
        ("head.json", json.dumps({**head, "version": 0}).encode()),
        ("head.json", json.dumps({**head, "metric": "l1"}).encode()),
        ("head.json", json.dumps({**head, "dimension": 3}).encode()),
        ("head.json", json.dumps({**head, "records": True}).encode()),
        ("ids.json", b'["a", "b"]'),
        ("ids.json", b'["a", "b", "a"]'),
        ("ids.json", b'["a", "b", ""]'),
        ("ids.json", b'["a", "b", 3]'),
        ("ids.json", b'["a", "b", "\\u0000"]'),
        ("ids.json", b'["a", "b", "\\ud800"]'),
        ("ids.json", b"not json"),
        ("texts", texts + b"x"),
        ("texts", b"\xff" + texts[1:]),
        ("texts", b"\x00" + texts[1:]),
        ("texts.npy", None),
        ("texts.npy", npy(lengths[:2])),
        ("texts.npy", npy(lengths.astype(np.int32))),
        ("texts.npy", npy(np.array([-1, *lengths[1:]]))),
        ("texts.npy", npy(np.array([-2, *lengths[1:]]))),
        # Another cut of the same bytes, amid a character.
        ("texts.npy", npy(np.add(lengths, [1, 0, -1]))),
        ("texts.npy", npy(np.array([2**62, 2**62, 2**62]))),
        ("vectors.npy", None),
        ("vectors.npy", b"not an array"),
        ("vectors.npy", npy(np.array([{"a": 1}] * 3, dtype=object))),
        ("vectors.npy", npy(np.full((3, 2), np.nan, dtype=np.float32))),
        ("vectors.npy", npy(np.zeros((3, 2)))),
        ("vectors.npy", npy(np.zeros((2, 2), dtype=np.float32))),
        ("vectors.npy", npy(np.zeros((3, 2), dtype=np.float32))[:-1]),
    ]
    for member, content in damages:
        refused(rewritten(kept, tmp_path / "damaged", member, content))


def test_a_file_cut_or_changed_at_any_byte_is_refused_or_read_whole(store: MemoryVectorStore, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    store.save(kept)
    whole, wanted = kept.read_bytes(), list(store.scan())
    # Every 7th byte of the contents, and each of the directory's end.
    for cut in (*range(0, len(whole), 7), *range(len(whole) - 40, len(whole))):
        kept.write_bytes(whole[:cut])
        refused(kept)
    for place in range(0, len(whole), 13):
        kept.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        try:
            back = MemoryVectorStore.load(kept)
        except InvalidArgumentError:
            continue
        # What the archive says twice, or nobody reads: dates, rights, a name's copy.
        assert list(back.scan()) == wanted


def test_metadata_that_somebody_made_are_refused_when_they_are_read(store: MemoryVectorStore, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    store.save(kept)
    for made in (b'{"k": NaN}', b'["k"]', b'{"k": "\\u0000"}', b"{", b"[" * 5000, b"3"):
        changed = rewritten(kept, tmp_path / "half", "metadata", made + b"{}")
        lengths = npy(np.array([len(made), 2, -1]))
        back = MemoryVectorStore.load(rewritten(changed, tmp_path / "made", "metadata.npy", lengths))
        assert back.get(["日本"])[0].metadata == {}
        # Asked twice: an index that broke off is not taken for a whole one.
        for filter in ({"k": "x"}, {"k": "x"}, ~field("k").exists()):
            with pytest.raises(InvalidMetadataError, match="saved store"):
                back.count(filter)
        with pytest.raises(InvalidMetadataError, match="saved store"):
            back.search([1, 1], top_k=3)
        with pytest.raises(InvalidMetadataError, match="saved store"):
            back.get(["a#0"])


def test_a_file_of_the_first_version_is_read(store: MemoryVectorStore, tmp_path: Path) -> None:
    vectors = np.array([[0.1, 3e38], [0.0, -0.0], [1e-40, 2.0]], dtype=np.float32)
    lines = [
        ["a#0", "one\ntwo\u2028", "s.md", {"k": ["x", {"y": None}], "n": 2**63 - 1}, None],
        ["日本", "", "", {}, None],
        # Without a context, as the first files were.
        ["b", "\U0001f600", None, None],
    ]
    head = {"format": "agora-memory-store", "version": 1, "metric": "l2", "dimension": 2, "records": 3, "model": "m"}

    def written(lines: list[Any]) -> Path:
        with zipfile.ZipFile(tmp_path / "old", "w") as archive:
            archive.writestr("head.json", json.dumps(head))
            archive.writestr("records.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
            archive.writestr("vectors.npy", npy(vectors))
        return tmp_path / "old"

    back = MemoryVectorStore.load(written(lines))
    assert list(back.scan()) == list(store.scan())
    for wrong in (lines[:2], [*lines[:2], lines[1]], [*lines[:2], ["", "", None, None]], [*lines[:2], {"id": 1}]):
        refused(written(wrong))


@settings(max_examples=settings().max_examples // 2)
@given(
    st.lists(some.records(2), max_size=12),
    st.lists(WRITES, max_size=3),
    st.lists(WRITES, max_size=6),
    st.lists(some.filters, min_size=1, max_size=2),
    st.booleans(),
)
def test_a_loaded_store_goes_on_as_the_one_it_was_saved_from(
    first: Any, before: Any, after: Any, filters: Any, asked_early: bool
) -> None:
    """The kind: rows that are still bytes, or an index that waits, seen otherwise than rows that were written here."""
    store = MemoryVectorStore(dimension=2)
    store.upsert(first)
    apply(store, before)
    with tempfile.TemporaryDirectory() as folder:
        store.save(f"{folder}/kept")
        back = MemoryVectorStore.load(f"{folder}/kept")
        if asked_early:
            for filter in filters:
                back.count(filter)
        apply(store, after)
        apply(back, after)
        back.save(f"{folder}/again")
        for loaded in (back, MemoryVectorStore.load(f"{folder}/again"), pickle.loads(pickle.dumps(back))):
            assert list(loaded.scan()) == list(store.scan())
            assert loaded.list_documents() == store.list_documents()
            assert loaded.facets("k") == store.facets("k")
            for filter in filters:
                assert loaded.count(filter) == store.count(filter)
                assert loaded.search([1, 0.5], top_k=9, filter=filter) == store.search([1, 0.5], top_k=9, filter=filter)
            assert loaded.list_document_ids() == store.list_document_ids()


def apply(store: MemoryVectorStore, writes: Any) -> None:
    for name, *arguments in writes:
        getattr(store, name)(*arguments, *([[]] if name == "replace_documents" else []))


def test_rows_in_bytes_survive_being_swept_together(tmp_path: Path) -> None:
    store = MemoryVectorStore()
    store.upsert(VectorRecord(f"d{n}#0", f"text {n}", [1.0, n], f"s{n}", {"n": n % 5}, f"c{n}") for n in range(400))
    store.save(tmp_path / "kept")
    back = MemoryVectorStore.load(tmp_path / "kept")
    for loaded in (store, back):
        loaded.update_metadata("d7", {"n": "patched"})
        loaded.upsert([VectorRecord("new#0", "new", [1.0, 1.0], None, {"n": 1})])
        loaded.delete([f"d{n}#0" for n in range(0, 400, 2)])
    assert len(back._table.ids) < 400
    assert list(back.scan()) == list(store.scan())
    back.save(tmp_path / "again")
    assert list(MemoryVectorStore.load(tmp_path / "again").scan()) == list(store.scan())
    assert back.get(["d7#0"])[0].metadata == {"n": "patched"}
    assert back.count({"n": 1}) == store.count({"n": 1}) == 41
    for loaded in (store, back):
        loaded.delete([f"d{n}#0" for n in range(1, 400, 2)])
        loaded.upsert([VectorRecord(f"e{n}", "", [1.0, n]) for n in range(100)])
    # Once none of the file's rows is left, nothing of its bytes is.
    assert isinstance(back._table.texts, list)
    assert list(back.scan()) == list(store.scan())


def test_a_file_holds_the_moment_of_the_call(
    store: MemoryVectorStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(tmp_path / "kept")
    back, wanted = MemoryVectorStore.load(tmp_path / "kept"), list(store.scan())

    def written_beside(*arguments: Any) -> Any:
        for one in (store, back):
            one.update_metadata("a", {"n": None, "late": [1]})
            one.upsert([VectorRecord("late", "late", [1, 1], None, {"late": True})])
            one.remove("b")
        return encode_items(*arguments)

    monkeypatch.setattr(persistence, "encode_items", written_beside)
    for one in (store, back):
        one.upsert([VectorRecord("b", "\U0001f600", [1e-40, 2.0])])
        one.delete(["late"])
        one.update_metadata("a", {"n": 2**63 - 1, "late": None})
        one.save(tmp_path / "beside")
        assert list(MemoryVectorStore.load(tmp_path / "beside").scan()) == wanted
        assert one.get(["late"])[0].metadata == {"late": True}


def test_the_file_may_be_replaced_or_removed_once_it_is_read(store: MemoryVectorStore, tmp_path: Path) -> None:
    store.save(tmp_path / "kept")
    (tmp_path / "kept").chmod(0o400)
    wanted = list(store.scan())
    back = MemoryVectorStore.load(tmp_path / "kept")
    other = MemoryVectorStore(metric="l2")
    other.upsert([VectorRecord("other", "another text", [1, 2], None, {"k": "z"})])
    other.save(tmp_path / "kept")
    assert list(back.scan()) == wanted
    os.truncate(tmp_path / "kept", 0)
    (tmp_path / "kept").unlink()
    for copied in (back, copy.deepcopy(back), copy.copy(back), pickle.loads(pickle.dumps(back))):
        copied.update_metadata("b", {"new": 1})
        copied.upsert([VectorRecord("c", "added", [5, 5], None, {"k": ["x"]})])
        assert [record for record in copied.scan() if record.id in ("a#0", "日本")] == wanted[0:1] + wanted[2:3]
        assert copied.get(["b"])[0].metadata == {"new": 1}
        assert copied.count(field("k").contains_any(["x"])) == 2
        assert copied.search([5, 5], top_k=1)[0].text == "added"
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, back.get(["a#0"])[0].text.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100).decode() == wanted[0].text


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MemoryVectorStore.load(tmp_path / "nowhere")
