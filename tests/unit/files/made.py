"""Small files of every kind, made here: what the tests of readers read."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any

EPUB_CONTAINER = (
    '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)


def pdf(pages: Sequence[str], *, kids: str | None = None) -> bytes:
    """A PDF with one line of text a page; `kids` replaces the list of its pages, for one that has no end."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    numbers = []
    for text in pages:
        content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        numbers.append(len(objects) + 1)
        font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects) + 2} 0 R "
            f"/Resources << /Font << /F1 {font} >> >> >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    listed = kids if kids is not None else " ".join(f"{number} 0 R" for number in numbers)
    objects[1] = f"<< /Type /Pages /Kids [{listed}] /Count {len(pages)} >>"
    out = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    return out + f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()


def encrypted_pdf(text: str) -> bytes:
    """A PDF that a password protects."""
    import pypdf

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf([text])))
    writer.encrypt("secret", algorithm="RC4-128")
    return saved(writer.write)


def docx() -> bytes:
    """A Word document with headings and a table."""
    import docx

    document = docx.Document()
    document.add_heading("Leave policy", 1)
    document.add_paragraph("Everyone has 30 days of leave.")
    document.add_heading("Carry over", 2)
    document.add_paragraph("Five days carry over.")
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "Country", "Days"
    return saved(document.save)


def xlsx() -> bytes:
    """A workbook of two sheets."""
    import openpyxl

    workbook = openpyxl.Workbook()
    first: Any = workbook.active
    first.title = "Rates"
    for row in (["City", "Rate"], ["Porto", 80], [None, None], ["Oslo", 120.5]):
        first.append(row)
    workbook.create_sheet("Empty")
    workbook.create_sheet("Notes").append(["All rates are net."])
    return saved(workbook.save)


def pptx() -> bytes:
    """A presentation of two slides, one with notes."""
    import pptx

    presentation = pptx.Presentation()
    for number in (1, 2):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = f"Slide {number}"
        slide.placeholders[1].text = "Falcon launches in May."
        slide.notes_slide.notes_text_frame.text = "Mention Porto."
    return saved(presentation.save)


def epub(chapters: Sequence[str] = ("<h1>One</h1><p>It was a dark night.</p>", "<p>The end.</p>")) -> bytes:
    """A book; the spine goes through its chapters backwards from how the archive holds them."""
    names = [f"c{n}.xhtml" for n in range(len(chapters))]
    items = "".join(f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in names)
    spine = "".join(f'<itemref idref="{name}"/>' for name in names)
    package = (
        '<?xml version="1.0"?><!DOCTYPE package [<!ENTITY a "aaaa">]><package xmlns="http://www.idpf.org/2007/opf">'
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    files = {"META-INF/container.xml": EPUB_CONTAINER, "OEBPS/book.opf": package}
    pages = {f"OEBPS/{name}": f"<html><body>{text}</body></html>" for name, text in zip(names, chapters, strict=True)}
    return zipped({**files, **dict(reversed(pages.items()))})


def zipped(files: dict[str, str | bytes]) -> bytes:
    """An archive of these files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def saved(save: Any) -> bytes:
    """The bytes that a document's `save` writes."""
    out = io.BytesIO()
    save(out)
    return out.getvalue()


MAIL = (
    b"From: Ana <ana@example.org>\r\nTo: bo@example.org\r\nSubject: =?utf-8?q?Caf=C3=A9?=\r\n"
    b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n"
    b"--x\r\nContent-Type: text/html; charset=iso-8859-1\r\n\r\n<p>See you at the caf\xe9.</p>\r\n"
    b"--x\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename=a.pdf\r\n\r\n"
    b"secret\r\n--x--\r\n"
)
