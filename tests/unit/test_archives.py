"""Saved files take their place whole, keep their mode and link, and what a killed writer left is swept away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agora_core import ChunkRecord, InvalidArgumentError, KeywordRetriever, MemoryLexicalVectorStore, VectorRecord
from agora_core.archives import writing_file


def store() -> MemoryLexicalVectorStore:
    made = MemoryLexicalVectorStore()
    made.upsert([VectorRecord("a#0", "red fox", [1.0, 0.0])])
    return made


def index() -> KeywordRetriever:
    made = KeywordRetriever()
    made.add([ChunkRecord("a#0", "red fox")])
    return made


SAVERS = pytest.mark.parametrize("make", [store, index])


@SAVERS
def test_a_link_stays_one_and_the_file_keeps_its_mode(make: Callable[[], Any], tmp_path: Path) -> None:
    real = tmp_path / "real"
    link = tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    make().save(link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert type(make()).load(link).__len__() == 1


def test_a_new_file_gets_the_mode_that_open_would_give(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        store().save(tmp_path / "new")
    finally:
        os.umask(mask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o644


KILLED = """
import os, sys
from agora_core.archives import writing_file
with writing_file(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os._exit(1)
"""


@SAVERS
def test_what_a_killed_writer_left_is_swept_and_what_another_is_writing_is_not(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    path = tmp_path / "[odd] name"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=60)
    assert len(list(tmp_path.iterdir())) == 1
    with writing_file(path) as mine:
        mine.write(b"mine")
        make().save(path)
        assert len(list(tmp_path.iterdir())) == 2
    assert path.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [path]


@SAVERS
def test_a_file_of_a_newer_release_says_so(make: Callable[[], Any], tmp_path: Path) -> None:
    made = make()
    made.save(tmp_path / "new")
    with zipfile.ZipFile(tmp_path / "new") as archive:
        head = {**json.loads(archive.read("head.json")), "version": 7}
    with zipfile.ZipFile(tmp_path / "new", "w") as archive:
        archive.writestr("head.json", json.dumps(head))
    with pytest.raises(InvalidArgumentError, match=r"of version 7, saved by a newer release; .*update agora-retrieval"):
        type(made).load(tmp_path / "new")
