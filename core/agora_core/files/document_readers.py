"""Readers of PDF, Word, Excel, PowerPoint and EPUB files, by the packages of the extra `files`.

They run in a process of their own (see `isolation`), because a hostile file can keep a parser busy for ever.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from agora_core.files.html_text import html_to_text
from agora_core.files.parts import TOO_LARGE, FilePart, UnreadableFileError
from agora_core.files.text_readers import decoded, rows_as_text


def read_pdf(data: bytes) -> Iterator[FilePart]:
    """Give the pages of a PDF that have a text, with `page`, from 1."""
    import pypdf

    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableFileError("encrypted")
    for number, page in enumerate(reader.pages, 1):
        yield FilePart(page.extract_text(), {"page": number})


def read_docx(data: bytes) -> Iterator[FilePart]:
    """Give the text of a Word document, headings as `# ...`, tables as one line a row."""
    import docx
    from docx.table import Table

    lines = []
    for block in docx.Document(io.BytesIO(data)).iter_inner_content():
        if isinstance(block, Table):
            lines += [" | ".join(cell.text.strip() for cell in row.cells) for row in block.rows]
            lines.append("")
            continue
        style = (block.style.name if block.style is not None else "") or ""
        level = style.removeprefix("Heading ")
        mark = "# " if style == "Title" else f"{'#' * int(level)} " if level.isdigit() else ""
        lines += [f"{mark}{block.text.strip()}", ""]
    yield FilePart("\n".join(lines))


def read_xlsx(data: bytes) -> Iterator[FilePart]:
    """Give the sheets of a workbook with `sheet`, their rows as `header: value` lines, a blank line between two."""
    import openpyxl

    workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    for sheet in workbook.worksheets:
        yield FilePart(rows_as_text(sheet.iter_rows(values_only=True)), {"sheet": sheet.title})


def read_pptx(data: bytes) -> Iterator[FilePart]:
    """Give the slides of a presentation with `slide`, from 1: the texts of its shapes, tables and notes."""
    import pptx

    for number, slide in enumerate(pptx.Presentation(io.BytesIO(data)).slides, 1):
        lines = [text for shape in slide.shapes for text in _shape_texts(shape)]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            lines.append(slide.notes_slide.notes_text_frame.text)
        yield FilePart("\n\n".join(line for line in lines if line.strip()), {"slide": number})


def _shape_texts(shape: Any) -> Iterator[str]:
    if shape.has_text_frame:
        yield shape.text_frame.text
    if getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield " | ".join(cell.text for cell in row.cells)
    for inner in getattr(shape, "shapes", ()):
        yield from _shape_texts(inner)


def read_epub(data: bytes) -> Iterator[FilePart]:
    """Give the chapters of a book in their order with `chapter`, from 1."""
    from lxml import etree

    # No entity is resolved and nothing is fetched, whatever the book declares.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if "META-INF/encryption.xml" in archive.namelist() and "META-INF/rights.xml" in archive.namelist():
            raise UnreadableFileError("encrypted")
        container = etree.fromstring(archive.read("META-INF/container.xml"), parser)
        package = str(container.xpath("//*[local-name()='rootfile']/@full-path")[0])
        book = etree.fromstring(archive.read(package), parser)
        places = {
            str(item.get("id")): posixpath.normpath(
                posixpath.join(posixpath.dirname(package), unquote(item.get("href")))
            )
            for item in book.xpath("//*[local-name()='manifest']/*[local-name()='item']")
        }
        order = [str(key) for key in book.xpath("//*[local-name()='spine']/*[local-name()='itemref']/@idref")]
        names = set(archive.namelist())
        for number, key in enumerate(order, 1):
            if (place := places.get(key)) in names and place is not None:
                yield FilePart(html_to_text(decoded(archive.read(place))), {"chapter": number})


def check_archive(data: bytes, most: int) -> None:
    """Refuse an archive that unpacks to more than `most` bytes.

    Raises:
        UnreadableFileError: it does, or it is encrypted.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
    # zipfile reads no more of an entry than it declares.
    if sum(entry.file_size for entry in entries) > most:
        raise UnreadableFileError(TOO_LARGE, f"unpacks to more than {most} bytes")
    if any(entry.flag_bits & 1 for entry in entries):
        raise UnreadableFileError("encrypted")
