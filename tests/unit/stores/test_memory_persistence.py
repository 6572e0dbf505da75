"""Saved stores: whole, checked when they are read, and never half written."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agora_core import InvalidArgumentError, MemoryVectorStore, VectorRecord, field


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


def test_the_file_holds_json_and_one_array(store: MemoryVectorStore, tmp_path: Path) -> None:
    store.save(tmp_path / "kept")
    with zipfile.ZipFile(tmp_path / "kept") as archive:
        assert sorted(archive.namelist()) == ["head.json", "records.jsonl", "vectors.npy"]
        assert json.loads(archive.read("head.json"))["format"] == "agora-memory-store"


def rewritten(source: Path, target: Path, member: str, content: bytes | None) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = content if name == member else old.read(name)
            if data is not None:
                new.writestr(name, data)
    return target


def test_damage_is_found(store: MemoryVectorStore, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    store.save(kept)
    with zipfile.ZipFile(kept) as archive:
        head = json.loads(archive.read("head.json"))
        lines = archive.read("records.jsonl").splitlines(keepends=True)
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}] * 3, dtype=object), allow_pickle=True)
    np.save(tmp_path / "nan.npy", np.full((3, 2), np.nan, dtype=np.float32))
    np.save(tmp_path / "wide.npy", np.zeros((3, 2)))
    damages: list[tuple[str, Any]] = [
        ("head.json", b"{}"),
        ("head.json", b"[]"),
        ("head.json", None),
        ("head.json", json.dumps({**head, "version": 0}).encode()),
        ("head.json", json.dumps({**head, "metric": "l1"}).encode()),
        ("head.json", json.dumps({**head, "dimension": 3}).encode()),
        ("records.jsonl", b"".join(lines[:2])),
        ("records.jsonl", b"".join([lines[0], lines[1], lines[1]])),
        ("records.jsonl", b"".join([lines[0], lines[1], b'["", "", null, null]\n'])),
        ("records.jsonl", b"".join([lines[0], lines[1], b'{"id": 1}\n'])),
        ("records.jsonl", b"not json\n"),
        ("vectors.npy", None),
        ("vectors.npy", b"not an array"),
        ("vectors.npy", (tmp_path / "objects.npy").read_bytes()),
        ("vectors.npy", (tmp_path / "nan.npy").read_bytes()),
        ("vectors.npy", (tmp_path / "wide.npy").read_bytes()),
    ]
    for member, content in damages:
        damaged = rewritten(kept, tmp_path / "damaged", member, content)
        with pytest.raises(InvalidArgumentError, match="is no saved memory store, or is damaged"):
            MemoryVectorStore.load(damaged)
    whole = kept.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        kept.write_bytes(whole[:cut])
        with pytest.raises(InvalidArgumentError, match="is no saved memory store, or is damaged"):
            MemoryVectorStore.load(kept)


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MemoryVectorStore.load(tmp_path / "nowhere")
