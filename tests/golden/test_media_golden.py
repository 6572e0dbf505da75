"""Golden cases of media: content types, text extraction, dispatch by type, ingestion.

Three exceptions: types that the original cannot read are read where their packages are installed; known faults of its
HTML extractor are not copied; nothing is removed before the new vectors are there (which no case can tell).
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from agora_core import MediaIngestion, MediaRef, MemoryVectorStore, UnreadableFileError, UnsupportedContentTypeError
from agora_core.files.content_types import normalized_content_type
from agora_core.files.registry import Readers
from agora_core.testing import FakeEmbeddingProvider
from tests.golden_cases import UNDEFINED, GoldenCase, GoldenError, golden_params

# Faults: entities decoded twice or not at all, a comment that ends at its first `>`.
HTML_FAULTS = ("html/double_decode", "html/numeric_other", "html/comment_gt", "html/accents")
# "x" is no PDF; a type that can be read is not unsupported.
READ_HERE = ("unsupported/application/pdf",)


def store_text(data: bytes, content_type: str) -> str:
    """The text that media ingestion stores, or the error."""
    seen: list[str] = []

    class Watching(MemoryVectorStore):
        def replace_documents(self, document_ids: Any, records: Any, **options: Any) -> int:
            seen.append(records[0].text)
            return super().replace_documents(document_ids, records, **options)

    media = MediaIngestion(embedder=FakeEmbeddingProvider(4), store=Watching(), read=lambda ref: data)
    # What is stored is trimmed and without U+0000; the extractor's own answer is asked for here.
    return "".join(part.text for part in media._parts(data, normalized_content_type(content_type)))


@pytest.mark.parametrize("case", golden_params("text_extractor", without=(*HTML_FAULTS, *READ_HERE)))
def test_text_extractor(case: GoldenCase) -> None:
    data = base64.b64decode(case.input["bytes_base64"])
    if isinstance(case.expected, GoldenError):
        with pytest.raises(UnsupportedContentTypeError):
            store_text(data, case.input["content_type"])
    elif not case.expected.strip():
        with pytest.raises(UnreadableFileError, match="empty-text"):
            store_text(data, case.input["content_type"])
    else:
        assert store_text(data, case.input["content_type"]) == case.expected


@pytest.mark.parametrize("case", golden_params("content_type", without=('fixed/"application/pdf"',)))
def test_content_type(case: GoldenCase) -> None:
    assert normalized_content_type(case.input) == case.expected["normalized"]
    try:
        store_text(b"x", case.input)
    except UnsupportedContentTypeError:
        supported = False
    else:
        supported = True
    assert supported is case.expected["supported"]


@pytest.mark.parametrize("case", golden_params("mime_dispatch"))
def test_mime_dispatch(case: GoldenCase) -> None:
    def labelled(number: int) -> Any:
        return lambda data, content_type: f"{number}|{content_type}"

    # The default readers stand aside, as in the original, whose registry is bare.
    pairs = [(name, labelled(number)) for number, name in enumerate(case.input["registrations"])]
    readers = Readers(pairs, max_bytes=100)
    kind = normalized_content_type(case.input["content_type"])
    if isinstance(case.expected, GoldenError):
        assert not readers.has_own(kind)
    else:
        assert readers.read(b"x", case.input["content_type"])[0].text == case.expected


REF_FIELDS = {
    "contentType": "content_type",
    "ownerType": "owner_type",
    "ownerId": "owner_id",
    "tenantRef": "tenant_ref",
}


def ref_of(raw: dict[str, Any]) -> MediaRef:
    return MediaRef(**{REF_FIELDS.get(name, name): value for name, value in raw.items()})


# "%PDF-1.4" alone is no PDF; it is unreadable and not of an unsupported type.
READ_PDF = ("skip/unsupported_extractor", "event/unsupported")


@pytest.mark.parametrize("case", golden_params("media_ingestion", without=READ_PDF))
def test_media_ingestion(case: GoldenCase) -> None:
    config = case.input["config"]
    files = {(one["disk"], one["key"]): one["text"] for one in case.input["files"]}
    events: list[Any] = []
    store = MemoryVectorStore()
    resolve = config.get("resolve")
    cut = {{"chunkSize": "chunk_size"}.get(name, name): value for name, value in config.get("chunk", {}).items()}
    media = MediaIngestion(
        embedder=FakeEmbeddingProvider(8),
        store=store,
        read=lambda ref: files[ref.disk, ref.key].encode(),
        content_types=config.get("contentTypes"),
        max_bytes=config.get("maxBytes"),
        resolve=None if resolve is None else lambda payload: ref_of(resolve[payload["id"]]),
        on_event=lambda name, payload: events.append([name, payload]),
        **cut,
    )
    results: list[Any] = []
    for step in case.input["steps"]:
        try:
            if step["op"] == "ingest":
                results.append(media.ingest(ref_of(step["ref"])))
            elif step["op"] == "remove":
                media.remove(step["mediaId"])
                results.append(None)
            elif step["op"] == "event":
                result = media.handle(step["payload"])
                results.append(UNDEFINED if result is None else result)
            else:
                files[step["disk"], step["key"]] = step["text"]
                results.append(None)
        except Exception as error:
            results.append(GoldenError("Error", {}) if isinstance(error, KeyError) else error)
    assert results == case.expected["results"]
    assert events == case.expected["events"]
    listed = [{"id": one.id, "metadata": one.metadata} for one in store.list_documents()]
    assert listed == case.expected["documents"]
    stored = [{"id": one.id, "text": one.text, "source": one.source, "metadata": one.metadata} for one in store.scan()]
    assert stored == case.expected["chunks"]
