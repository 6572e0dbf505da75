"""Chunkers: what turns a document into chunks, by the kind of its text. Any callable of the shape serves too."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from agora_core.chunking.prose import (
    DEFAULT_CHUNK_SIZE,
    check_separator,
    check_sizes,
    pack_records,
    without_nul,
)
from agora_core.chunking.windows import BLANKS, Measure, Span, checked_measure, packed, prose_windows, trimmed
from agora_core.errors import InvalidArgumentError
from agora_core.records import IngestDocument, Metadata

OverlapAt = Literal["character", "word"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document.

    `start` and `end` are its place in the document's text, in code points, or None. `metadata` is what is known of this
    piece alone; it is added to the document's, whose own keys win.

    Examples:
        >>> Chunk("30 days", 4, 11).text
        '30 days'
    """

    text: str
    start: int | None = None
    end: int | None = None
    metadata: Metadata | None = None


Chunker = Callable[[IngestDocument], Iterable[Chunk]]
"""Cuts one document. U+0000 was taken out of its text already."""


class BaseChunker(ABC):
    """Cuts the text of a document into chunks of at most `chunk_size`, without blanks at their ends."""

    def __init__(
        self,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
        overlap: int | None = None,
        *,
        overlap_at: OverlapAt = "character",
        measure: Measure = len,
        offsets: bool = False,
    ) -> None:
        """Check the options.

        Args:
            chunk_size: in units of `measure`, 1 or more.
            overlap: how much of the end of a chunk the next one repeats, in units of `measure`, 0 or more and below
                `chunk_size`; where whole pieces are packed, as many whole ones as fit. Left out it is 100, or
                `chunk_size // 8` where 100 would not fit.
            overlap_at: `word` begins what is repeated at the start of a word, `character` anywhere.
            measure: the length of a text; `len` counts code points. It is taken to grow with the text.
            offsets: give each chunk its place in the text; `text[chunk.start:chunk.end] == chunk.text`.

        Raises:
            InvalidArgumentError: an argument is out of its range or of another type.
        """
        if overlap_at not in ("character", "word"):
            raise InvalidArgumentError(f"overlap_at must be 'character' or 'word', got {overlap_at!r}")
        self.chunk_size, self.overlap = check_sizes(chunk_size, overlap)
        self.overlap_at: OverlapAt = overlap_at
        self.measure = checked_measure(measure)
        self.offsets = bool(offsets)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(chunk_size={self.chunk_size}, overlap={self.overlap})"

    def __call__(self, document: IngestDocument) -> list[Chunk]:
        """Return the chunks of a document, in the order of its text."""
        return self.split(document.text, source=document.source or document.id)

    def split(self, text: str, *, source: str | None = None) -> list[Chunk]:
        """Return the chunks of a text, U+0000 taken out first. `source` may tell its kind, as a file's name does."""
        if not isinstance(text, str):
            raise InvalidArgumentError(f"text must be a str, got {type(text).__name__}")
        plain = without_nul(text)
        return [self._chunk(plain, span, metadata) for span, metadata in self._pieces(plain, source)]

    @abstractmethod
    def _pieces(self, text: str, source: str | None) -> Iterator[tuple[Span, Metadata | None]]:
        """Give the places of the chunks, without blanks at their ends, and what is known of each."""

    def _chunk(self, text: str, span: Span, metadata: Metadata | None) -> Chunk:
        start, end = span
        if not self.offsets:
            return Chunk(text[start:end], metadata=metadata)
        return Chunk(text[start:end], start, end, metadata)

    def _prose(self, text: str, span: Span) -> Iterator[Span]:
        at_word = self.overlap_at == "word"
        for window in prose_windows(text, span, self.chunk_size, self.overlap, self.measure, at_word):
            if (piece := trimmed(text, window))[0] < piece[1]:
                yield piece

    def _packed(self, text: str, pieces: Sequence[Span]) -> Iterator[Span]:
        """Pack pieces that stand next to one another; one that is too long is cut as prose."""
        run: list[Span] = []
        for piece in pieces:
            if self._length(text, piece) <= self.chunk_size:
                run.append(piece)
                continue
            yield from self._packed_whole(text, run)
            run = []
            yield from self._prose(text, piece)
        yield from self._packed_whole(text, run)

    def _packed_whole(self, text: str, pieces: Sequence[Span]) -> Iterator[Span]:
        def length(first: int, end: int) -> int:
            return self._length(text, (pieces[first][0], pieces[end - 1][1]))

        for first, end in packed(len(pieces), length, self.chunk_size, self.overlap, fresh=True):
            span = self._trimmed(text, (pieces[first][0], pieces[end - 1][1]))
            if span[0] < span[1]:
                yield span

    def _trimmed(self, text: str, span: Span) -> Span:
        return trimmed(text, span)

    def _length(self, text: str, span: Span) -> int:
        start, end = self._trimmed(text, span)
        return end - start if self.measure is len else self.measure(text[start:end])


class ProseChunker(BaseChunker):
    """Cuts prose at spaces and blank lines, as `chunk_text` does: the default.

    Examples:
        >>> [chunk.text for chunk in ProseChunker(12, 0).split("Everyone has 30 days.")]
        ['Everyone', 'has 30 days.']
    """

    def _pieces(self, text: str, source: str | None) -> Iterator[tuple[Span, None]]:
        for span in self._prose(text, (0, len(text))):
            yield span, None


class RecordChunker(BaseChunker):
    """Packs whole records, joined by the separator they were split at; one that is too long is a chunk of its own.

    With `offsets` the text between two records is as it stands in the document, blanks included.

    Examples:
        >>> [chunk.text for chunk in RecordChunker(8, 0).split("one\\ntwo\\nthree")]
        ['one\\ntwo', 'three']
    """

    def __init__(
        self,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
        overlap: int | None = None,
        *,
        separator: str = "\n",
        overlap_at: OverlapAt = "character",
        measure: Measure = len,
        offsets: bool = False,
    ) -> None:
        """Take the options of `BaseChunker`, and what stands between two records, taken literally.

        Raises:
            InvalidArgumentError: an argument is out of its range, or the separator is empty.
        """
        super().__init__(chunk_size, overlap, overlap_at=overlap_at, measure=measure, offsets=offsets)
        self.separator = check_separator(separator)
        if not self.separator:
            raise InvalidArgumentError("separator must not be empty; use ProseChunker for a text without records")

    def split(self, text: str, *, source: str | None = None) -> list[Chunk]:
        """Return the chunks of a text; see `BaseChunker.split`."""
        if self.offsets or not isinstance(text, str):
            return super().split(text, source=source)
        plain = without_nul(text)
        records = [plain[start:end] for start, end in self._records(plain)]
        pairs = pack_records(records, self.chunk_size, self.overlap, self.separator, self.measure)
        return [Chunk(self.separator.join(records[first:end])) for first, end in pairs]

    def _records(self, text: str) -> Iterator[Span]:
        start = 0
        for part in text.split(self.separator):
            span = trimmed(text, (start, start + len(part)))
            if span[0] < span[1]:
                yield span
            start += len(part) + len(self.separator)

    def _pieces(self, text: str, source: str | None) -> Iterator[tuple[Span, None]]:
        spans = list(self._records(text))
        records = [text[start:end] for start, end in spans]
        for first, end in pack_records(records, self.chunk_size, self.overlap, self.separator, self.measure):
            yield (spans[first][0], spans[end - 1][1]), None


class SentenceChunker(BaseChunker):
    """Packs whole sentences; one that is too long is cut as prose.

    A sentence ends at `.`, `!`, `?`, an ellipsis or their like in other scripts, quotes and brackets that follow
    included; not after an abbreviation, an initial or the number of a list, nor before a small letter. A blank line
    ends one too.

    Examples:
        >>> [chunk.text for chunk in SentenceChunker(20, 0).split("Leave is 30 days. Notice is short.")]
        ['Leave is 30 days.', 'Notice is short.']
    """

    def _pieces(self, text: str, source: str | None) -> Iterator[tuple[Span, None]]:
        for span in self._packed(text, list(sentences(text))):
            yield span, None


_CLOSERS: Final = "\"'\\)\\]}»”’›」』】）》〉"
_END: Final = re.compile(
    f"[.!?…]+[{_CLOSERS}]*(?=\\s|$)|[。！？｡．؟।॥۔։።]+[{_CLOSERS}]*|\n[^\\S\n]*\n\\s*",
)
_LAST_WORD: Final = re.compile(r"(\S+)\Z")
_ABBREVIATED: Final = """
mr mrs ms dr prof sr jr st mt vs etc e.g i.e cf al approx dept est fig figs eq eqs ed eds vol vols pp p ch sec
inc ltd co corp gen col capt lt sgt rev hon gov sen rep jan feb mar apr jun jul aug sep sept oct nov dec a.m p.m u.s u.k
ph.d z.b d.h u.a bzw usw ca vgl abb nr str hr fr bspw ggf evtl inkl av c.-à-d env p.ex mme mlle m sra ud uds ej pág art
núm
"""
_ABBREVIATIONS: Final = frozenset(_ABBREVIATED.split())
_NUMBERED: Final = re.compile(r"[^\S\n]+[0-9]")
_NUMBER: Final = re.compile(r"[(\[]?(?:[0-9]{1,3}|[A-Za-z])\Z")


def sentences(text: str) -> Iterator[Span]:
    """Give the places of the sentences of a text, one after another, the white space behind each included."""
    start = 0
    for match in _END.finditer(text):
        end = match.end()
        if match.group()[0] in ".!?…" and not _ends_sentence(text, start, match):
            continue
        while end < len(text) and text[end] in BLANKS:
            end += 1
        if text[start:end].strip(BLANKS):
            yield start, end
            start = end
    if text[start:].strip(BLANKS):
        yield start, len(text)


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    following = text[match.end() : match.end() + 40].lstrip(BLANKS)[:1]
    if following.islower():
        return False
    if match.group()[0] != ".":
        return True
    found = _LAST_WORD.search(text[max(start, match.start() - 40) : match.start()])
    word = "" if found is None else found.group(1).lstrip("\"'([{«“‘„")
    if word.lower() in _ABBREVIATIONS or (
        word in ("No", "Nos", "no", "nos", "Nr") and _NUMBERED.match(text, match.end())
    ):
        return False
    if len(word) == 1 and word.isupper():
        # An initial; that "vitamin C." may end a sentence cannot be told from it.
        return not following
    # The number of a list where it begins a line; "in 1999." ends a sentence.
    before = text[max(start, match.start() - 40) : match.start() - len(word)].rpartition("\n")[2]
    return not (_NUMBER.fullmatch(word) and not before.strip(BLANKS))


def check_chunker(chunker: Any) -> Chunker:
    """Return `chunker` where it can be called.

    Raises:
        InvalidArgumentError: it cannot.
    """
    if not callable(chunker) or isinstance(chunker, type):
        raise InvalidArgumentError(
            f"chunker must be a callable from a document to its chunks, such as MarkdownChunker(), got {chunker!r}"
        )
    checked: Chunker = chunker
    return checked


def chunks_by(chunker: Chunker, document: IngestDocument) -> list[Chunk]:
    """Return what a chunker makes of a document, checked; chunks of blanks only are left out.

    Raises:
        InvalidArgumentError: it answers with something else than chunks.
    """
    answer: Any = chunker(document)
    if isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
        raise InvalidArgumentError(f"chunker must answer with a list of Chunk, got {type(answer).__name__}")
    chunks = []
    for number, chunk in enumerate(answer):
        if not isinstance(chunk, Chunk) or not isinstance(chunk.text, str):
            raise InvalidArgumentError(
                f"chunker must answer with a list of Chunk; its answer {number} for document {document.id!r} is "
                f"{type(chunk).__name__}"
            )
        if chunk.text.strip(BLANKS):
            chunks.append(chunk)
    return chunks
