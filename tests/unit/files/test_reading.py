"""Files into documents: every type with a real file, what is skipped and why, and files made to do harm."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import pytest

from agora_core import (
    FileChunker,
    FilePart,
    IngestDocument,
    InvalidArgumentError,
    chunk_documents,
    read_files,
    watch_files,
)
from agora_core.files import isolation
from tests.unit.files import made


class Skips(dict[str, str]):
    """What was skipped, by name."""

    def __call__(self, path: PurePath, reason: str) -> None:
        self[path.name] = reason


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "files"
    place.mkdir()
    return place


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def read(folder: Path, **options: Any) -> dict[str, IngestDocument]:
    return {document.id: document for document in read_files(folder, **options)}


def test_a_folder_of_every_type_is_read(folder: Path) -> None:
    files: dict[str, str | bytes] = {
        "a/plain.txt": "Olá".encode("latin-1"),
        "a/utf16.txt": "Grüße".encode("utf-16"),
        "a/notes": "no suffix\r\nat all",
        "b/guide.md": "# Guide\n\ntext",
        "b/page.html": "<title>T</title><nav>menu</nav><h2>Head</h2><script>x()</script><p>Body<br>two<ul><li>one</ul>"
        "<div hidden>secret</div><table><tr><td>a<td>b</table><pre>x  = 1\n  y</pre>",
        "c/rows.csv": 'name;note\n"Bo";"line one\n\nline two"\nAna;x;extra\n',
        "c/rows.tsv": "name\tage\nBo\t3\n",
        "c/list.json": '[{"a": 1}, {"a": "é"}]',
        "c/object.json": '{"a": 1}',
        "c/lines.jsonl": '{"a": 1}\n{"a": 2}\n',
        "d/code.py": "def f():\n    return 1\n",
        "d/code.ts": "const a = 1\n",
        "d/mail.eml": made.MAIL,
        "e/report.pdf": made.pdf(["Page one.", "", "Page three."]),
        "e/policy.docx": made.docx(),
        "e/rates.xlsx": made.xlsx(),
        "e/deck.pptx": made.pptx(),
        "e/book.epub": made.epub(),
        # Its bytes say what it is, whatever its name does.
        "e/renamed.txt": made.pdf(["Really a PDF."]),
    }
    write(folder, files)
    skips = Skips()
    found = read(folder, on_skip=skips)
    assert skips == {}
    assert {key: (one.text, one.metadata) for key, one in found.items()} == {
        "a/plain.txt": ("Olá", None),
        "a/utf16.txt": ("Grüße", None),
        "a/notes": ("no suffix\nat all", None),
        "b/guide.md": ("# Guide\n\ntext", None),
        "b/page.html": ("T\n\n## Head\n\nBody\ntwo\n\n- one\n\na | b\n\nx  = 1\n  y", None),
        "c/rows.csv": ("name: Bo\nnote: line one\nline two\n\nname: Ana\nnote: x\ncolumn 3: extra", None),
        "c/rows.tsv": ("name: Bo\nage: 3", None),
        "c/list.json": ('{"a": 1}\n{"a": "é"}', None),
        "c/object.json": ('{"a": 1}', None),
        "c/lines.jsonl": ('{"a": 1}\n{"a": 2}\n', None),
        "d/code.py": ("def f():\n    return 1\n", None),
        "d/code.ts": ("const a = 1\n", None),
        "d/mail.eml": ("Subject: Café\nFrom: Ana <ana@example.org>\nTo: bo@example.org\n\nSee you at the café.", None),
        "e/report.pdf!1": ("Page one.", {"page": 1}),
        "e/report.pdf!3": ("Page three.", {"page": 3}),
        "e/policy.docx": (
            (
                "# Leave policy\n\nEveryone has 30 days of leave.\n\n## Carry over\n\n"
                "Five days carry over.\n\nCountry | Days\n"
            ),
            None,
        ),
        "e/rates.xlsx!1": ("City: Porto\nRate: 80\n\nCity: Oslo\nRate: 120.5", {"sheet": "Rates"}),
        "e/rates.xlsx!2": ("All rates are net.", {"sheet": "Notes"}),
        "e/deck.pptx!1": ("Slide 1\n\nFalcon launches in May.\n\nMention Porto.", {"slide": 1}),
        "e/deck.pptx!2": ("Slide 2\n\nFalcon launches in May.\n\nMention Porto.", {"slide": 2}),
        "e/book.epub!1": ("# One\n\nIt was a dark night.", {"chapter": 1}),
        "e/book.epub!2": ("The end.", {"chapter": 2}),
        "e/renamed.txt!1": ("Really a PDF.", {"page": 1}),
    }
    assert found["e/report.pdf!3"].source == "e/report.pdf"
    # In the order of names, so that a second run meets the same files in the same order.
    assert list(found)[:3] == ["a/notes", "a/plain.txt", "a/utf16.txt"]


def test_each_kind_is_cut_as_its_name_says(folder: Path) -> None:
    rows = "a,b\n" + "".join(f"{n},{'x' * 50}\n" for n in range(40))
    write(folder, {"guide.md": "# A\n\none\n\n## B\n\ntwo", "rows.csv": rows, "code.py": "def f():\n    return 1\n"})
    chunks = chunk_documents(read_files(folder), chunker=FileChunker(chunk_size=200))
    assert [one.metadata for one in chunks if one.source == "guide.md"] == [
        {"headings": ["A"]},
        {"headings": ["A", "B"]},
    ]
    table = [one.text for one in chunks if one.source == "rows.csv"]
    assert len(table) > 5
    assert all(record.startswith("a: ") for text in table for record in text.split("\n\n"))


def test_metadata_is_given_for_each_file_and_wins_over_what_stands_in_it(folder: Path) -> None:
    write(folder, {"acme/report.pdf": made.pdf(["x"]), "beta/a.txt": "y"})
    found = read(folder, metadata=lambda path: {"tenant": path.parent.name, "page": "mine"})
    assert found["acme/report.pdf!1"].metadata == {"page": "mine", "tenant": "acme"}
    assert found["beta/a.txt"].metadata == {"tenant": "beta", "page": "mine"}
    assert read(folder, metadata={"k": 1})["beta/a.txt"].metadata == {"k": 1}


def test_files_patterns_and_urls_are_paths_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, {"a.txt": "a", "sub/b.txt": "b", "sub/c.md": "c"})
    assert [one.id for one in read_files(folder / "a.txt")] == ["a.txt"]
    assert [one.id for one in read_files([folder / "a.txt", folder / "sub"])] == ["a.txt", "b.txt", "c.md"]
    assert [one.id for one in read_files(f"{folder}/**/*.txt")] == ["a.txt", "sub/b.txt"]
    monkeypatch.chdir(folder)
    assert [one.id for one in read_files("s*/*.md")] == ["sub/c.md"]
    assert [one.id for one in read_files(f"file://{folder}")] == ["a.txt", "sub/b.txt", "sub/c.md"]
    import fsspec

    fsspec.filesystem("memory").pipe("/docs/x/d.txt", b"d")
    assert [(one.id, one.text) for one in read_files("memory://docs")] == [("x/d.txt", "d")]


def test_a_path_that_does_not_exist_is_refused_at_once(folder: Path) -> None:
    for missing in (folder / "nowhere", f"{folder}/*.nothing", "memory://no/where"):
        with pytest.raises(FileNotFoundError, match=r"give paths of files|must match one"):
            read_files(missing)
    with pytest.raises(InvalidArgumentError, match="max_bytes must be an int of 0 or more, got -1"):
        read_files(folder, max_bytes=-1)
    with pytest.raises(InvalidArgumentError, match="metadata must be a mapping or a function"):
        read_files(folder, metadata=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="readers must map content types"):
        read_files(folder, readers={"foo": 3})  # type: ignore[arg-type]


def test_two_files_of_one_id_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {"a/README.md": "x", "b/README.md": "y"})
    with pytest.raises(InvalidArgumentError, match=r"would both have the id 'README\.md'"):
        list(read_files([tmp_path / "a", tmp_path / "b"]))


def test_a_reader_of_ones_own_reads_its_type(folder: Path) -> None:
    write(folder, {"a.txt": "a", "b.txt": "b"})

    def upper(data: bytes, content_type: str) -> list[FilePart]:
        return [FilePart(data.decode().upper(), {"line": 1}), FilePart(" ")]

    assert {one.id: one.text for one in read_files(folder, readers={"text/*": upper})} == {
        "a.txt!1": "A",
        "b.txt!1": "B",
    }


def test_what_is_skipped_is_named_with_its_reason(folder: Path) -> None:
    write(
        folder,
        {
            "image.png": b"\x89PNG\r\n\x1a\n\x00\x00",
            "cut.jpg": b"\xff\xd8",
            "archive.zip": made.zipped({"a.txt": "x"}),
            "text.pdf": "not a PDF",
            "blank.txt": " \n",
            "scan.pdf": made.pdf(["", ""]),
            "locked.pdf": made.encrypted_pdf("x"),
            "locked.docx": b"\xd0\xcf\x11\xe0" + b"\x00" * 100 + "EncryptedPackage".encode("utf-16-le"),
            "old.doc": b"\xd0\xcf\x11\xe0" + b"\x00" * 100,
            "cut.pdf": made.pdf(["x"])[:-300],
            "cut.docx": made.docx()[:-300],
            "large.txt": "x" * 5_001,
            ".git/config": "x",
            "kept.txt": "kept",
        },
    )
    (folder / "link.txt").symlink_to(folder / "kept.txt")
    (folder / "loop").symlink_to(folder)
    (folder / "leaves").symlink_to("/etc")
    os.link(folder / "kept.txt", folder / "same.txt")
    os.mkfifo(folder / "pipe.txt")
    skips = Skips()
    assert list(read(folder, on_skip=skips, max_bytes=60_000)) == ["kept.txt", "large.txt"]
    reasons = {name: reason.partition(":")[0] for name, reason in skips.items()}
    assert reasons == {
        "image.png": "unsupported-type",
        "cut.jpg": "unsupported-type",
        "archive.zip": "unsupported-type",
        "text.pdf": "unsupported-type",
        "old.doc": "unsupported-type",
        "blank.txt": "empty-text",
        "scan.pdf": "empty-text",
        "locked.pdf": "encrypted",
        "locked.docx": "encrypted",
        "cut.docx": "unsupported-type",
        "cut.pdf": reasons["cut.pdf"],
        ".git": "hidden",
        "leaves": "outside",
        "pipe.txt": "not-a-file",
    }
    assert reasons["cut.pdf"] in ("unreadable", "empty-text")
    skips.clear()
    assert list(read(folder, on_skip=skips, max_bytes=5_000)) == ["kept.txt"]
    assert skips["large.txt"] == "too-large: 5001 bytes"


ENTITIES = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
BOMB = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "aaaaaaaaaa">{ENTITIES}]><w:document>&a11;</w:document>'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bomb.docx", lambda: made.zipped({"word/document.xml": b"\0" * 80_000_000, "[Content_Types].xml": "x"})),
        ("entities.docx", lambda: made.zipped({"word/document.xml": BOMB, "[Content_Types].xml": BOMB})),
        ("entities.epub", lambda: made.zipped({"META-INF/container.xml": BOMB})),
        ("traversal.epub", lambda: made.epub().replace(b"OEBPS/c0.xhtml", b"../../../c0.xh")),
        ("endless.pdf", lambda: made.pdf(["x"], kids="2 0 R 2 0 R")),
        ("comments.html", lambda: b"<p>x" + b"<!--" * 400_000),
    ],
)
def test_a_hostile_file_ends_in_a_skip_and_the_next_is_read(
    folder: Path, name: str, content: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded in time and memory, whatever its parser would do; the process that it wrecked is replaced."""
    monkeypatch.setattr(isolation, "SECONDS", 3.0)
    write(folder, {f"a{name}": content(), "b.pdf": made.pdf(["still here"])})
    skips = Skips()
    begun = time.monotonic()
    found = read(folder, on_skip=skips)
    assert "b.pdf!1" in found
    assert time.monotonic() - begun < 10
    others = set(found) - {"b.pdf!1"}
    # A reader that survives it gives at most what is really there.
    assert sum(len(found[key].text) for key in others) < 2_000_000
    reason, _, detail = skips.get(f"a{name}", "").partition(": ")
    assert others or reason in ("too-large", "unreadable", "timeout", "empty-text")
    assert not reason or not detail.startswith(reason)


def test_a_gigabyte_of_nothing_is_not_read(folder: Path) -> None:
    with (folder / "sparse.txt").open("wb") as file:
        file.truncate(1 << 30)
    skips = Skips()
    assert read(folder, on_skip=skips) == {}
    assert skips == {"sparse.txt": f"too-large: {1 << 30} bytes"}


def test_a_reader_that_never_ends_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, {"a.pdf": made.pdf(["x"])})
    monkeypatch.setattr(isolation, "SECONDS", 0.0)
    skips = Skips()
    assert read(folder, on_skip=skips) == {}
    assert skips["a.pdf"].startswith("timeout: not read within 0 s")
    monkeypatch.undo()
    assert list(read(folder)) == ["a.pdf!1"]


def test_files_are_read_one_at_a_time(folder: Path) -> None:
    write(folder, {"a.txt": "a", "b.txt": "b"})
    reading = read_files(folder)
    assert next(reading).id == "a.txt"
    (folder / "b.txt").write_text("changed since")
    assert next(reading).text == "changed since"


def test_a_watched_folder_tells_of_changes_once_they_settled(folder: Path) -> None:
    """Kind: a change between the first look and the begin of watching, which nobody is told of."""
    stop = threading.Event()
    turns = watch_files(folder, settle=0.1, stop=stop)
    assert next(turns) == set()
    write(folder, {"a.txt": "a", "bad.pdf": b"%PDF-1.4"})
    timer = threading.Timer(30, stop.set)
    timer.start()
    changed = next(turns, set())
    timer.cancel()
    stop.set()
    assert {path.name for path in changed} == {"a.txt", "bad.pdf"}
    skips = Skips()
    assert list(read(folder, on_skip=skips)) == ["a.txt"]
    with pytest.raises(FileNotFoundError):
        watch_files(folder / "nowhere")
    with pytest.raises(InvalidArgumentError, match="settle must be a number of seconds above 0"):
        watch_files(folder, settle=0)
