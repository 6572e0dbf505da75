"""Readers of files that are text: prose, Markdown, code, JSON, tables, HTML, mail. They need no package."""

from __future__ import annotations

import contextlib
import csv
import email
import email.policy
import io
import itertools
import json
from collections.abc import Iterable, Iterator
from email.message import EmailMessage
from typing import Any, Final

from agora_core.files.html_text import html_to_text
from agora_core.files.parts import UnreadableFileError

_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"))
_GUESSED_FROM: Final = 128
_MARKS_16: Final = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def decoded(data: bytes) -> str:
    """Return the text of bytes: by their byte order mark, as UTF-8, or in the encoding that they look like.

    What looks like none is read as Windows-1252, undefined bytes as U+FFFD. Without the extra `files` all that is not
    UTF-8 is read so.
    """
    for mark, encoding in (*_MARKS, *_MARKS_16):
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        best = None
    else:
        # A few letters look like anything.
        best = from_bytes(data[:100_000]).best() if len(data) >= _GUESSED_FROM else None
    return data.decode("cp1252" if best is None else best.encoding, errors="replace")


def read_text(data: bytes, content_type: str) -> str:
    """Return the text of a file as it is, line ends as `\\n`."""
    return decoded(data).replace("\r\n", "\n").replace("\r", "\n")


def read_json(data: bytes, content_type: str) -> str:
    """Return a list of objects as one object a line; any other JSON, or what is none, as it stands."""
    text = read_text(data, content_type)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        return "\n".join(json.dumps(entry, ensure_ascii=False) for entry in value)
    return text


def read_table(data: bytes, content_type: str) -> str:
    """Return the rows of a CSV or TSV, each as `header: value` lines, a blank line between two."""
    text = read_text(data, content_type).lstrip("\ufeff")
    try:
        delimiter = csv.Sniffer().sniff(text[:20_000], ",;\t|").delimiter
    except csv.Error:
        delimiter = "\t" if content_type == "text/tab-separated-values" else ","
    previous = csv.field_size_limit(max(len(text), 1))
    try:
        return rows_as_text(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        raise UnreadableFileError("unreadable", str(error)) from error
    finally:
        csv.field_size_limit(previous)


def rows_as_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows, the first of which names the columns, as records of `name: value` lines, blank ones left out."""
    cells = ([_cell(value) for value in row] for row in rows)
    filled: Iterator[list[str]] = (row for row in cells if any(row))
    header = next(filled, [])
    records = []
    for row in filled:
        named = itertools.zip_longest(header, row, fillvalue="")
        lines = [f"{name or f'column {n}'}: {value}" for n, (name, value) in enumerate(named, 1) if value]
        records.append("\n".join(lines))
    # A table of one row has no records; its only row is what it says.
    return "\n\n".join(records) if records else " ".join(header)


def _cell(value: Any) -> str:
    # A blank line would end the record.
    return "\n".join(line for line in str("" if value is None else value).splitlines() if line.strip()).strip()


def read_mail(data: bytes, content_type: str) -> str:
    """Return who wrote to whom, when and of what, and the text of a mail; attachments are left out."""
    message = email.message_from_bytes(data, policy=email.policy.default)
    assert isinstance(message, EmailMessage)  # noqa: S101 # what this policy makes
    lines = [f"{name}: {message[name]}" for name in ("Subject", "From", "To", "Date") if message[name]]
    body = message.get_body(("plain", "html"))
    if body is not None:
        payload = body.get_payload(decode=True)
        text = decoded(payload) if isinstance(payload, bytes) else ""
        charset = body.get_content_charset()
        if charset is not None and isinstance(payload, bytes):
            with contextlib.suppress(LookupError):
                text = payload.decode(charset, errors="replace")
        lines += ["", html_to_text(text) if body.get_content_subtype() == "html" else text.replace("\r\n", "\n")]
    return "\n".join(lines).strip()
