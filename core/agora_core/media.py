"""Ingest uploads: read a file where it is kept, take its text, index it, and say what happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agora_core.calling import acall_function, call_function
from agora_core.chunking import BLANKS, document_cutter
from agora_core.errors import InvalidArgumentError
from agora_core.files.content_types import detected_content_type, normalized_content_type
from agora_core.files.html_text import stripped_html
from agora_core.files.parts import TOO_LARGE, FilePart, UnreadableFileError, check_max_bytes
from agora_core.files.reading import DEFAULT_MAX_BYTES
from agora_core.files.registry import GivenReaders, Readers
from agora_core.ingestion import aingest_documents, ingest_documents
from agora_core.ingestion_plan import KeywordPort
from agora_core.protocols import EmbeddingProvider, VectorStore
from agora_core.records import IngestDocument
from agora_core.steps import Steps, arun, ask, run
from agora_core.stores.ports import StorePort
from agora_core.stores.run_scope import abound_store, bound_store


@dataclass(frozen=True, slots=True)
class MediaRef:
    """Where an upload is kept and whose it is. What is None is not known, and stands in no metadata.

    Examples:
        >>> MediaRef("m1", "s3", "faq.txt", "text/plain", tenant_ref="acme").tenant_ref
        'acme'
    """

    id: str
    disk: str
    key: str
    content_type: str | None = None
    size: int | None = None
    owner_type: str | None = None
    owner_id: str | None = None
    collection: str | None = None
    tenant_ref: str | None = None

    def labels(self) -> dict[str, str]:
        """Return who owns it, under the keys of chunks' metadata and of events."""
        known = {
            "ownerType": self.owner_type,
            "ownerId": self.owner_id,
            "collection": self.collection,
            "tenantRef": self.tenant_ref,
        }
        return {name: value for name, value in known.items() if value is not None}


class MediaResult(dict[str, Any]):
    """What became of an upload: `status`, with `chunks` or `reason`. Its fields are attributes too.

    Examples:
        >>> media = MediaIngestion(embedder=embedder, store=store, read=lambda ref: b"", content_types=["text/plain"])
        >>> media.ingest(MediaRef("m2", "s3", "a.png", "image/png")).reason
        'unsupported-type'
    """

    @property
    def status(self) -> str:
        """`ingested` or `skipped`."""
        return str(self["status"])

    @property
    def chunks(self) -> int | None:
        """How many chunks were written; None where it was skipped."""
        return self.get("chunks")

    @property
    def reason(self) -> str | None:
        """Why it was skipped: `unsupported-type`, `too-large`, `empty-text`, `encrypted`, `unreadable` or `timeout`."""
        return self.get("reason")


INGESTED: Final = "rag:media.ingested"
REMOVED: Final = "rag:media.removed"
SKIPPED: Final = "rag:media.skipped"
FAILED: Final = "rag:media.failed"


class MediaIngestion:
    """Keeps an index in step with uploads. An upload that is skipped, or fails, leaves what was indexed of it as it is.

    Each chunk has the metadata `mediaId` and, where they are known, `ownerType`, `ownerId`, `collection`, `tenantRef`;
    its source is the upload's key. Text is stored as it is, HTML as its bare text; other types need the extra `files`,
    or a reader of one's own.

    Examples:
        >>> media = MediaIngestion(
        ...     embedder=embedder, store=MemoryVectorStore(), read=lambda ref: b"Refunds take ten days."
        ... )
        >>> media.ingest(MediaRef("m1", "s3", "faq.txt", "text/plain")).chunks
        1
    """

    def __init__(
        self,
        *,
        embedder: EmbeddingProvider,
        store: VectorStore,
        read: Callable[[MediaRef], Any],
        content_types: Iterable[str] | None = None,
        max_bytes: int | None = None,
        readers: GivenReaders | None = None,
        resolve: Callable[[Mapping[str, Any]], Any] | None = None,
        on_event: Callable[[str, dict[str, Any]], Any] | None = None,
        keyword: Any = None,
        **chunking: Any,
    ) -> None:
        """Keep the parts; nothing is read yet.

        Args:
            embedder: any object with `embed`.
            store: any object with `upsert` and `remove`.
            read: returns the bytes of an upload; may be async, for the async methods.
            content_types: the only types that are indexed; None or an empty list allows all that can be read.
            max_bytes: larger uploads are skipped by their declared size, by their real one where none is declared; it
                bounds what they unpack to as well. None allows any size, and 50 MB unpacked.
            readers: of content types (see `read_files`), before those that come with the library.
            resolve: returns the `MediaRef` for the payload of an event, or None where there is none any more.
            on_event: called with the event's name and payload: `rag:media.ingested` (mediaId, chunks, owner keys),
                `rag:media.removed` (mediaId), `rag:media.skipped` (mediaId, contentType, reason), `rag:media.failed`
                (mediaId, error; by `handle` alone).
            keyword: a `KeywordRetriever` to keep in step with the store.
            chunking: options of `ingest_documents`: `chunk_size`, `overlap`, `separator` or `chunker`.

        Raises:
            InvalidArgumentError: an argument is not as described.
        """
        functions: dict[str, Any] = {"read": read, "resolve": resolve, "on_event": on_event}
        for name, value in functions.items():
            if not callable(value) and (value is not None or name == "read"):
                raise InvalidArgumentError(f"{name} must be a function, got {value!r}")
        if max_bytes is not None:
            check_max_bytes(max_bytes)
        if isinstance(content_types, str):
            raise InvalidArgumentError(f"content_types must be a list of content types, got {content_types!r}")
        # Refuses an option it does not take, or out of its range, before anything is read.
        document_cutter(**chunking)
        self._embedder, self._store, self._keyword = embedder, store, keyword
        self._read, self._resolve, self._on_event = read, resolve, on_event
        self._allowed = frozenset(map(normalized_content_type, content_types or ()))
        self._max_bytes = max_bytes
        self._readers = Readers(readers, max_bytes=DEFAULT_MAX_BYTES if max_bytes is None else max_bytes)
        self._chunking = chunking

    def ingest(self, ref: MediaRef) -> MediaResult:
        """Index an upload in place of what was indexed of it before.

        Raises:
            Exception: whatever `read`, the embedder or the store raised; what was indexed before stays.
        """
        return run(self._ingesting(ref))

    async def aingest(self, ref: MediaRef) -> MediaResult:
        """Async twin of `ingest`."""
        return await arun(self._ingesting(ref))

    def remove(self, media_id: str) -> None:
        """Remove what was indexed of an upload, from the keyword index too, within what bounds the store."""
        run(self._removing(media_id))

    async def aremove(self, media_id: str) -> None:
        """Async twin of `remove`."""
        await arun(self._removing(media_id))

    def handle(self, payload: object) -> MediaResult | None:
        """Ingest what an upload's event names: a mapping with the str keys `id`, `disk` and `key`, none empty.

        Return None where there is no `resolve`, the payload is no such mapping, or nothing is resolved. A failure
        becomes the event `rag:media.failed`, and None is returned; without `on_event` it is raised.
        """
        return run(self._handling(payload))

    async def ahandle(self, payload: object) -> MediaResult | None:
        """Async twin of `handle`."""
        return await arun(self._handling(payload))

    def _ingesting(self, ref: MediaRef) -> Steps[MediaResult]:
        declared = None if ref.content_type is None else normalized_content_type(ref.content_type)
        try:
            if declared is not None and self._allowed and declared not in self._allowed:
                raise UnreadableFileError("unsupported-type")
            self._check_size(ref.size)
            data = bytes((yield from _asked(self._read, "read", ref)))
            kind = declared if declared is not None else detected_content_type(data, ref.key)
            if declared is None and self._allowed and kind not in self._allowed:
                raise UnreadableFileError("unsupported-type")
            if ref.size is None:
                self._check_size(len(data))
            parts = yield from ask(self._parts, _in_thread(self._parts), data, kind)
        except UnreadableFileError as error:
            shown = declared or ""
            yield from self._told(SKIPPED, {"mediaId": ref.id, "contentType": shown, "reason": error.reason})
            return MediaResult(status="skipped", reason=error.reason)
        chunks = yield from self._stored(ref, parts)
        yield from self._told(INGESTED, {"mediaId": ref.id, "chunks": chunks, **ref.labels()})
        return MediaResult(status="ingested", chunks=chunks)

    def _check_size(self, size: int | None) -> None:
        if size is not None and self._max_bytes is not None and size > self._max_bytes:
            raise UnreadableFileError(TOO_LARGE)

    def _parts(self, data: bytes, kind: str) -> list[FilePart]:
        if self._readers.has_own(kind):
            parts = self._readers.read(data, kind)
        elif kind == "text/html":
            parts = [FilePart(stripped_html(data.decode("utf-8", errors="replace")))]
        elif kind.startswith("text/") or kind == "application/json":
            parts = [FilePart(data.decode("utf-8", errors="replace"))]
        else:
            parts = self._readers.read(data, kind)
        if not any(part.text.strip(BLANKS) for part in parts):
            raise UnreadableFileError("empty-text")
        return parts

    def _stored(self, ref: MediaRef, parts: list[FilePart]) -> Steps[int]:
        # One document an upload, whatever it is made of: it is replaced and removed as one.
        text = "\n\n".join(part.text for part in parts)
        document = IngestDocument(ref.id, text, ref.key, {"mediaId": ref.id, **ref.labels()})
        options: dict[str, Any] = {
            "embedder": self._embedder,
            "store": self._store,
            "keyword": self._keyword,
            **self._chunking,
        }
        return (yield from ask(ingest_documents, aingest_documents, [document], **options))

    def _removing(self, media_id: str) -> Steps[None]:
        # Decided once for both, where who asks decides what bounds the store.
        store = StorePort((yield from ask(bound_store, abound_store, self._store)))
        index = None if self._keyword is None else KeywordPort(self._keyword, store)
        yield from store.remove(media_id)
        if index is not None:
            yield from index.write([], [media_id])
        yield from self._told(REMOVED, {"mediaId": media_id})

    def _handling(self, payload: object) -> Steps[MediaResult | None]:
        if self._resolve is None or not _is_payload(payload):
            return None
        media_id = payload["id"]  # type: ignore[index]  # as was just seen
        try:
            ref = yield from _asked(self._resolve, "resolve", payload)
            return None if ref is None else (yield from self._ingesting(ref))
        except Exception as error:
            if self._on_event is None:
                raise
            yield from self._told(FAILED, {"mediaId": media_id, "error": f"{type(error).__name__}: {error}"})
            return None

    def _told(self, name: str, payload: dict[str, Any]) -> Steps[None]:
        if self._on_event is not None:
            yield from _asked(self._on_event, "on_event", name, payload)


def _asked(function: Callable[..., Any], what: str, *arguments: Any) -> Steps[Any]:
    return (
        yield from ask(
            lambda: call_function(function, *arguments, what=what), lambda: acall_function(function, *arguments)
        )
    )


def _in_thread(function: Callable[..., list[FilePart]]) -> Callable[..., Any]:
    async def awaited(*arguments: Any) -> list[FilePart]:
        found: list[FilePart] = await acall_function(function, *arguments)
        return found

    return awaited


def _is_payload(payload: object) -> bool:
    return isinstance(payload, Mapping) and all(
        isinstance(payload.get(name), str) and payload[name] for name in ("id", "disk", "key")
    )
