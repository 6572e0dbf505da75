"""Saved files that were changed, cut or made by somebody else: refused in one way, and nothing in them runs."""

from __future__ import annotations

import io
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agora_core import ChunkRecord, InvalidArgumentError, KeywordRetriever, MemoryVectorStore, VectorRecord

Change = Callable[[bytes], bytes]


def saved_store(path: Path) -> type[MemoryVectorStore]:
    store = MemoryVectorStore()
    store.upsert([VectorRecord(f"a{n}", "some words", [1.0, float(n)], metadata={"n": n}) for n in range(3)])
    store.save(path)
    return MemoryVectorStore


def saved_index(path: Path) -> type[KeywordRetriever]:
    keyword = KeywordRetriever()
    keyword.add([ChunkRecord(f"a{n}", "some words here", metadata={"n": n}) for n in range(3)])
    keyword.save(path)
    return KeywordRetriever


@pytest.fixture(params=[saved_store, saved_index], ids=["store", "index"])
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Path]:
    path = tmp_path / "saved"
    return request.param(path), path


def rewritten(
    path: Path, member: str | tuple[str, ...], change: Change, *, compression: int = zipfile.ZIP_STORED
) -> Path:
    """Write a copy of an archive in which every member that ends in `member` is changed."""
    target = path.with_name("changed")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w", compression) as copy:
        assert any(name.endswith(member) for name in source.namelist())
        for name in source.namelist():
            data = source.read(name)
            copy.writestr(name, change(data) if name.endswith(member) else data)
    return target


def array_bytes(header: str, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


LINES = ("records.jsonl", "ids.json")


@pytest.mark.parametrize(
    ("member", "data"),
    [
        (LINES, b"[" * 100_000 + b"]" * 100_000),
        ("head.json", b"[" * 100_000 + b"]" * 100_000),
        ("head.json", b"null"),
        (LINES, b'["a","\\ud800",null,null]\n' * 3),
        (LINES, b'["a","t",null,{"k":NaN}]\n["b","t",null,null]\n["c","t",null,null]'),
        (LINES, b'["a","t",null,null]\n' * 3),
        (LINES, b"\xff\xfe\n" * 3),
        (".npy", array_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (10**12, 10**5), }")),
        (".npy", array_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 100000), }")),
        (".npy", array_bytes("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"cos\nsystem\n(S'x'\ntR.")),
        (".npy", npy(np.zeros((3, 2)) * np.nan)),
        (".npy", npy(np.array(["a", "b"]))),
        (".npy", b""),
    ],
    ids=range(13),
)
def test_what_was_changed_inside_is_refused(saved: tuple[Any, Path], member: Any, data: bytes) -> None:
    kind, path = saved
    with pytest.raises(InvalidArgumentError, match="or is damaged"):
        kind.load(rewritten(path, member, lambda _: data))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_flipped_and_missing_bytes_are_refused_or_harmless(saved: tuple[Any, Path], compression: int) -> None:
    kind, path = saved
    good = rewritten(path, "", lambda data: data, compression=compression).read_bytes()
    chance = random.Random(5)
    for _ in range(150):
        bad = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            bad[chance.randrange(len(bad))] = chance.randrange(256)
        path.write_bytes(bad[: chance.randrange(len(bad))] if chance.random() < 0.2 else bad)
        try:
            kind.load(path)
        except InvalidArgumentError as error:
            assert str(path) in str(error)  # noqa: PT017 # either outcome is right


def test_what_is_no_path_or_not_there_is_told_as_that(saved: tuple[Any, Path], tmp_path: Path) -> None:
    kind, _ = saved
    with pytest.raises(FileNotFoundError):
        kind.load(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        kind.load(tmp_path)
    for path in (None, 5, object()):
        with pytest.raises(TypeError):
            kind.load(path)


def test_a_save_that_fails_leaves_nothing_behind(saved: tuple[Any, Path], tmp_path: Path) -> None:
    kind, path = saved
    (tmp_path / "folder").mkdir()
    before = path.read_bytes()
    for target in (tmp_path / "folder", tmp_path / "no" / "such"):
        with pytest.raises(OSError, match=str(tmp_path)):
            kind.load(path).save(target)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "saved"]
    assert path.read_bytes() == before
