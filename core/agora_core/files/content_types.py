"""What kind of file it is, told by its bytes first and by its name second."""

from __future__ import annotations

import io
import mimetypes
import zipfile
from pathlib import PurePosixPath
from typing import Final

UNKNOWN: Final = "application/octet-stream"
PDF: Final = "application/pdf"
DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX: Final = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
EPUB: Final = "application/epub+zip"
ENCRYPTED_OFFICE: Final = "application/x-encrypted-office"

_TEXT_SUFFIXES: Final = {
    **dict.fromkeys((".md", ".markdown", ".mdx"), "text/markdown"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "text/html"),
    **dict.fromkeys((".jsonl", ".ndjson"), "application/jsonl"),
    ".json": "application/json",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".eml": "message/rfc822",
    **dict.fromkeys((".txt", ".text", ".log", ".rst"), "text/plain"),
}
CODE_SUFFIXES: Final = frozenset(
    (
        *(".py", ".pyi", ".js", ".jsx", ".mjs", ".ts", ".tsx", ".java", ".kt", ".scala", ".c", ".h", ".cc", ".cpp"),
        *(".hpp", ".cs", ".go", ".rs", ".rb", ".php", ".swift", ".dart", ".lua", ".pl", ".r", ".jl", ".sh", ".sql"),
        *(".css", ".scss", ".vue", ".svelte", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".xml", ".proto", ".tf"),
    )
)
_BINARY_SUFFIXES: Final = frozenset((".pdf", ".docx", ".xlsx", ".pptx", ".epub", ".doc", ".xls", ".ppt", ".zip"))
_BINARY_FAMILIES: Final = frozenset(("image", "audio", "video", "font"))
_UNICODE_MARKS: Final = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")
_LOOKED_AT: Final = 8192
_CONTROLS: Final = bytes(set(range(32)) - set(b"\t\n\r\f\x0b\x1b"))


def normalized_content_type(content_type: str) -> str:
    """Return a content type without its parameters, in lower case: `text/html` for `Text/HTML; charset=utf-8`."""
    return content_type.partition(";")[0].strip().lower()


def detected_content_type(data: bytes, name: str) -> str:
    """Return the content type of a file; `application/octet-stream` where it is none that has a text.

    Bytes that tell their kind are believed before the name is.
    """
    if data.startswith(b"PK\x03\x04"):
        return _zipped(data)
    if b"%PDF-" in data[:1024]:
        return PDF
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        return ENCRYPTED_OFFICE if "EncryptedPackage".encode("utf-16-le") in data else UNKNOWN
    head, suffix = data[:_LOOKED_AT], PurePosixPath(name).suffix.lower()
    if suffix in _BINARY_SUFFIXES or not _is_text(head):
        return UNKNOWN
    if suffix in _TEXT_SUFFIXES:
        return _TEXT_SUFFIXES[suffix]
    if suffix in CODE_SUFFIXES:
        return f"text/x-{suffix[1:]}"
    if (mimetypes.guess_type(name)[0] or "").partition("/")[0] in _BINARY_FAMILIES:
        return UNKNOWN
    start = head.lstrip().lower()
    return "text/html" if start.startswith((b"<!doctype html", b"<html")) else "text/plain"


def _is_text(head: bytes) -> bool:
    return head.startswith(_UNICODE_MARKS) or head.translate(None, _CONTROLS) == head


def _zipped(data: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return UNKNOWN
    for part, kind in (("word/document.xml", DOCX), ("xl/workbook.xml", XLSX), ("ppt/presentation.xml", PPTX)):
        if part in names:
            return kind
    return EPUB if "META-INF/container.xml" in names else UNKNOWN
