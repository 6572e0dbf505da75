"""Media ingestion: what golden cases do not say."""

from __future__ import annotations

from typing import Any

import pytest

from agora_core import InvalidArgumentError, KeywordRetriever, MediaIngestion, MediaRef, MemoryVectorStore
from agora_core.testing import FakeEmbeddingProvider
from tests.unit.files import made


def ingestion(files: dict[str, bytes], **options: Any) -> tuple[MediaIngestion, MemoryVectorStore, list[Any]]:
    events: list[Any] = []
    store = MemoryVectorStore()
    made_of = {
        "embedder": FakeEmbeddingProvider(8),
        "store": store,
        "read": lambda ref: files[ref.key],
        "on_event": lambda name, payload: events.append((name, payload)),
        **options,
    }
    return MediaIngestion(**made_of), store, events


async def test_the_twins_do_the_same() -> None:
    async def read(ref: MediaRef) -> bytes:
        return b"refund window"

    media, store, events = ingestion({}, read=read, resolve=lambda payload: MediaRef("m", "s3", payload["key"]))
    assert await media.aingest(MediaRef("m", "s3", "a.txt", "text/plain")) == {"status": "ingested", "chunks": 1}
    result = await media.ahandle({"id": "m", "disk": "s3", "key": "a.txt"})
    assert result is not None
    assert (result.status, result.chunks, result.reason) == ("ingested", 1, None)
    await media.aremove("m")
    assert store.count() == 0
    assert [name for name, _ in events] == ["rag:media.ingested"] * 2 + ["rag:media.removed"]


def test_documents_of_other_types_are_read_as_one() -> None:
    media, store, events = ingestion({"a.pdf": made.pdf(["One.", "Two."]), "x.pdf": b"%PDF-1.4"})
    assert media.ingest(MediaRef("m", "s3", "a.pdf", "application/pdf")).chunks == 1
    assert store.get(["m#0"])[0].text == "One.\n\nTwo."
    # No type declared: its bytes say it.
    assert media.ingest(MediaRef("n", "s3", "a.pdf")).status == "ingested"
    assert media.ingest(MediaRef("m", "s3", "x.pdf", "application/pdf")).reason == "unreadable"
    # What was indexed before it stays.
    assert store.count({"mediaId": "m"}) == 1
    assert events[-1] == (
        "rag:media.skipped",
        {"mediaId": "m", "contentType": "application/pdf", "reason": "unreadable"},
    )


def test_the_real_size_counts_where_none_is_declared() -> None:
    media, _, _ = ingestion({"a.txt": b"x" * 11}, max_bytes=10)
    assert media.ingest(MediaRef("m", "s3", "a.txt", "text/plain")).reason == "too-large"


def test_nothing_is_removed_before_the_new_vectors_are_there() -> None:
    class Failing(FakeEmbeddingProvider):
        fails = False

        def embed(self, texts: Any) -> Any:
            if self.fails:
                raise ConnectionError("down")
            return super().embed(texts)

    embedder, keyword = Failing(8), KeywordRetriever()
    media, store, events = ingestion(
        {"a.txt": b"refund"}, embedder=embedder, keyword=keyword, resolve=lambda payload: MediaRef("m", "s3", "a.txt")
    )
    media.ingest(MediaRef("m", "s3", "a.txt"))
    embedder.fails = True
    with pytest.raises(ConnectionError):
        media.ingest(MediaRef("m", "s3", "a.txt"))
    assert media.handle({"id": "m", "disk": "s3", "key": "a.txt"}) is None
    assert events[-1] == ("rag:media.failed", {"mediaId": "m", "error": "ConnectionError: down"})
    assert store.count() == 1
    assert [one.id for one in keyword.retrieve("refund")] == ["m#0"]
    media.remove("m")
    assert store.count() == 0
    assert keyword.retrieve("refund") == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"read": None}, "read must be a function"),
        ({"resolve": 3}, "resolve must be a function"),
        ({"max_bytes": -1}, "max_bytes must be an int of 0 or more"),
        ({"content_types": "text/plain"}, "content_types must be a list"),
        ({"readers": {"x": 1}}, "readers must map content types"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        ingestion({}, **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'chunksize'"):
        ingestion({}, chunksize=3)


@pytest.mark.parametrize("namespace", [None, "a"])
async def test_removal_goes_no_further_than_what_bounds_the_store(namespace: str | None) -> None:
    """Kind: a write to a copy that is not bounded as the store is, or goes by other ids."""
    store, keyword = MemoryVectorStore(), KeywordRetriever()

    def of(tenant: str) -> MediaIngestion:
        view = store.scoped({"tenantRef": tenant}, namespace=namespace and tenant)
        embedder = FakeEmbeddingProvider(8)
        return MediaIngestion(embedder=embedder, store=view, keyword=keyword, read=lambda ref: b"refund")

    of("a").ingest(MediaRef("m", "s3", "a.txt", "text/plain", tenant_ref="a"))
    of("b").remove("m")
    await of("b").aremove("m")
    assert len(keyword) == store.count() == 1
    await of("a").aremove("m")
    assert len(keyword) == store.count() == 0
