"""Sync on every store: it equals a rebuild, embeds only what is new, and survives whatever fails in between."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from agora_core import (
    IngestDocument,
    InvalidArgumentError,
    KeywordRetriever,
    MemoryVectorStore,
    PgVectorStore,
    ProseChunker,
    QdrantStore,
    UnsafeRemovalError,
    UnsupportedOperationError,
    async_sync_documents,
    async_sync_permissions,
    chunk_documents,
    document_id_of,
    ingest_documents,
    reembed,
    sync_documents,
    sync_permissions,
)
from agora_core.testing import FakeEmbeddingProvider

DIMENSION = 8
CUT: dict[str, Any] = {"chunk_size": 24, "overlap": 0}


class Counting(FakeEmbeddingProvider):
    """Counts the texts it embeds."""

    def __init__(self) -> None:
        super().__init__(DIMENSION)
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.texts += texts
        return super().embed(texts)


@pytest.fixture(params=["memory", "postgres", "qdrant"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[], Any]]:
    opened: list[Any] = []

    def open_store() -> Any:
        if request.param == "memory":
            return MemoryVectorStore(dimension=DIMENSION)
        name = f"{request.getfixturevalue('fresh_name')}_{len(opened)}"
        if request.param == "postgres":
            store: Any = PgVectorStore(
                request.getfixturevalue("pg_conninfo"), table=name, dimension=DIMENSION, index=None
            )
            store.ensure_schema()
        else:
            store = QdrantStore(":memory:", collection=name, dimension=DIMENSION)
            store.ensure_collection()
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        store.close()


def content(store: Any) -> list[Any]:
    return [(one.id, one.text, one.source, one.metadata, one.context) for one in store.scan()]


def documents(generator: random.Random, count: int = 8) -> list[IngestDocument]:
    words = ["leave", "notice", "travel", "board", "sick", "note", "office", "days"]
    made = []
    for number in generator.sample(range(count + 3), count):
        text = "\n\n".join(" ".join(generator.choices(words, k=3)) for _ in range(generator.randint(0, 5)))
        labels = {"acl": generator.choice(["all", "hr"]), **({"draft": True} if generator.random() < 0.3 else {})}
        context = generator.choice([None, "Handbook"])
        made.append(IngestDocument(f"d{number}", text, generator.choice(["a.md", "b.md"]), labels, context))
    return made


def rebuilt(make: Callable[[], Any], truth: Sequence[IngestDocument]) -> list[Any]:
    store = make()
    ingest_documents(truth, embedder=FakeEmbeddingProvider(DIMENSION), store=store, **CUT)
    return content(store)


def new_texts(before: Sequence[IngestDocument], after: Sequence[IngestDocument]) -> int:
    def texts(of: Sequence[IngestDocument]) -> set[tuple[str, str]]:
        return {
            (document_id_of(one.id), f"{one.context}\n\n{one.text}" if one.context else one.text)
            for one in chunk_documents(of, **CUT)
        }

    return len(texts(after) - texts(before))


@pytest.mark.parametrize("seed", range(3))
def test_after_any_edits_it_equals_a_rebuild_and_embeds_what_is_new(make: Any, seed: int) -> None:
    generator = random.Random(seed)
    store, embedder, keyword = make(), Counting(), KeywordRetriever()
    before: list[IngestDocument] = []
    for _ in range(4):
        truth = documents(generator)
        planned = sync_documents(truth, embedder=embedder, store=store, keyword=keyword, dry_run=True, **CUT)
        paid = len(embedder.texts)
        report = sync_documents(iter(truth), embedder=embedder, store=store, keyword=keyword, **CUT)
        assert len(embedder.texts) - paid == report.chunks_embedded == new_texts(before, truth)
        planned.seconds = report.seconds
        assert planned == report
        told = [*report.embedded, *report.reused, *report.relabelled, *report.unchanged]
        assert sorted(told) == sorted(one.id for one in truth)
        assert sorted(report.removed) == sorted({one.id for one in before if one.text.strip()} - {*told})
        assert report.failed == {}
        assert content(store) == rebuilt(make, truth)
        expected = KeywordRetriever()
        expected.add(chunk_documents(truth, **CUT))
        for query in ("leave days", "handbook board"):
            assert keyword.retrieve(query, top_k=50) == expected.retrieve(query, top_k=50)
        again = sync_documents(truth, embedder=embedder, store=store, keyword=keyword, **CUT)
        assert sorted(again.unchanged) == sorted(told)
        assert again.chunks_embedded == 0
        before = truth


async def test_the_async_twin_takes_async_sources(make: Any) -> None:
    truth = documents(random.Random(9))

    async def source() -> Any:
        for one in truth:
            yield one

    store = make()
    report = await async_sync_documents(source(), embedder=Counting(), store=store, concurrency=2, **CUT)
    assert len(report.embedded) + len(report.unchanged) == len(truth)
    assert content(store) == rebuilt(make, truth)


def test_the_lists_of_the_report(make: Any) -> None:
    store, embedder = make(), Counting()
    text = "one two three four five\n\nsix seven eight nine ten"
    first = [
        IngestDocument(key, text, "s", {"k": 1})
        for key in ("same", "moved", "relabelled", "gone", "blank", "resourced")
    ]
    sync_documents(first, embedder=embedder, store=store, **CUT)
    second = [
        IngestDocument("same", text, "s", {"k": 1}),
        IngestDocument("moved", "brand new at the top\n\n" + text, "s", {"k": 1}),
        IngestDocument("relabelled", text, "s", {"k": 2}),
        IngestDocument("blank", " \n ", "s", {"k": 1}),
        IngestDocument("resourced", text, "t", {"k": 1}),
        IngestDocument("same", "another text of the same id"),
        IngestDocument("bad", text, None, {"k": object()}),
        IngestDocument("new", "hello"),
    ]
    report = sync_documents(second, embedder=embedder, store=store, **CUT)
    assert report.embedded == ["moved", "new"]
    assert report.reused == ["blank", "resourced"]
    assert report.relabelled == ["relabelled"]
    assert report.unchanged == []
    assert report.removed == ["gone"]
    assert set(report.failed) == {"same", "bad"}
    assert "given twice" in report.failed["same"]
    assert report.chunks_embedded == 2
    assert report.chunks_reused == 3 * len(chunk_documents(first[:1], **CUT))
    assert [one.text for one in store.get(["same#0"])] == [chunk_documents(first[:1], **CUT)[0].text]
    assert "moved, new" in str(report)
    assert "<table>" in report._repr_html_()


def test_an_empty_source_is_refused_and_one_that_raises_removes_nothing(make: Any) -> None:
    store, embedder = make(), Counting()
    truth = documents(random.Random(1))
    sync_documents(truth, embedder=embedder, store=store, **CUT)
    before = content(store)
    with pytest.raises(UnsafeRemovalError, match="the source is empty"):
        sync_documents([], embedder=embedder, store=store)

    def broken() -> Iterator[IngestDocument]:
        yield truth[0]
        raise ConnectionError("source ended")

    with pytest.raises(ConnectionError, match="source ended"):
        sync_documents(broken(), embedder=embedder, store=store, **CUT)
    with pytest.raises(ValueError, match="id must not be empty"):
        sync_documents([truth[0], IngestDocument("", "x")], embedder=embedder, store=store, strict=True, **CUT)
    assert content(store) == before
    assert len(sync_documents([], embedder=embedder, store=store, allow_empty=True).removed) > 0
    assert content(store) == []


def test_a_scope_bounds_reading_writing_and_removal(make: Any) -> None:
    store, embedder = make(), Counting()
    other = [
        IngestDocument("theirs", "text of b", None, {"tenant": "b"}),
        IngestDocument("both", "b", None, {"tenant": "b"}),
    ]
    sync_documents(other, embedder=embedder, store=store)
    mine = [
        IngestDocument("mine", "text of a", None, {"tenant": "a"}),
        IngestDocument("outside", "text", None, {"tenant": "b"}),
        IngestDocument("both", "a wants it", None, {"tenant": "a"}),
    ]
    paid = len(embedder.texts)
    report = sync_documents(mine, embedder=embedder, store=store, scope={"tenant": "a"})
    assert (report.embedded, report.removed) == (["mine"], [])
    assert set(report.failed) == {"outside", "both"}
    # What lies outside is not even paid for.
    assert "text" not in embedder.texts[paid:]
    assert store.list_document_ids() == ["both", "mine", "theirs"]
    assert [one.text for one in store.get(["both#0"])] == ["b"]
    gone = sync_documents(
        [IngestDocument("x", "x")], embedder=embedder, store=store.scoped({"tenant": "a"}, on_write="stamp")
    )
    assert (gone.embedded, gone.removed) == (["x"], ["mine"])
    assert store.list_document_ids() == ["both", "theirs", "x"]
    assert store.get(["x#0"])[0].metadata == {"tenant": "a"}


class Failing:
    """Raises at the n-th call to any method of what is behind it."""

    def __init__(self, behind: Any, calls: list[int], at: int) -> None:
        self._behind, self._calls, self._at = behind, calls, at

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._behind, name)
        if not callable(found) or name in ("stamped", "stored_ids", "scoped"):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self._calls[0] += 1
            if self._calls[0] == self._at:
                raise KeyboardInterrupt
            return found(*arguments, **options)

        return call


def test_broken_off_anywhere_and_run_again_it_ends_with_the_same_index(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two calls to embedder, store or keyword index; nothing that was stored is embedded twice."""
    monkeypatch.setattr("agora_core.corpus.sources._DOCUMENTS", 3)
    generator = random.Random(4)
    before, after = documents(generator), documents(generator)
    wanted = {(document_id_of(one.id), one.text, one.context) for one in chunk_documents(after, **CUT)}
    fresh = rebuilt(lambda: MemoryVectorStore(dimension=DIMENSION), after)
    options: dict[str, Any] = {"concurrency": 1, **CUT}
    store, at = make(), 0
    while True:
        at += 1
        embedder, keyword, calls = Counting(), KeywordRetriever(), [0]
        sync_documents(before, embedder=embedder, store=store, keyword=keyword, **CUT)
        keyword.backed_by = None
        parts: dict[str, Any] = {"embedder": embedder, "store": store, "keyword": keyword}
        failing: dict[str, Any] = {name: Failing(part, calls, at) for name, part in parts.items()}
        try:
            sync_documents(after, **failing, **options)
        except KeyboardInterrupt:
            pass
        else:
            break
        held = {(document_id_of(one.id), one.text, one.context) for one in store.scan()}
        paid = len(embedder.texts)
        sync_documents(after, **parts, **options)
        assert len(embedder.texts) - paid <= len(wanted - held)
        assert content(store) == fresh
        assert (
            keyword.stale_documents(
                {
                    key: [one for one in chunk_documents(after, **CUT) if document_id_of(one.id) == key]
                    for key in {one.id for one in after}
                }
            )
            == []
        )
        assert set(keyword.list_document_ids()) == set(store.list_document_ids())
    assert at > 15


def test_one_bad_text_does_not_stop_the_rest() -> None:
    class Picky(Counting):
        def embed(self, texts: Sequence[str]) -> Any:
            if any("poison" in text for text in texts):
                raise RuntimeError("cannot embed this")
            return super().embed(texts)

    store = MemoryVectorStore()
    report = sync_documents(
        [IngestDocument("a", "good"), IngestDocument("b", "poison"), IngestDocument("c", "fine")],
        embedder=Picky(),
        store=store,
    )
    assert (report.embedded, report.failed) == (["a", "c"], {"b": "RuntimeError: cannot embed this"})
    assert store.list_document_ids() == ["a", "c"]


def test_an_embedder_that_is_down_ends_the_run_and_removes_nothing() -> None:
    """Paying for a source of any length, call by call, for nothing."""

    class Down(Counting):
        calls = 0

        def embed(self, texts: Sequence[str]) -> Any:
            self.calls += 1
            raise ConnectionError("down")

    store, down = MemoryVectorStore(), Down()
    sync_documents([IngestDocument("kept", "text")], embedder=Counting(), store=store)
    with pytest.raises(ConnectionError, match="down"):
        sync_documents((IngestDocument(f"d{n}", f"t{n}") for n in range(50)), embedder=down, store=store)
    assert down.calls < 12
    assert store.list_document_ids() == ["kept"]


def test_what_has_no_readable_id_keeps_everything_from_being_removed() -> None:
    """A document that cannot be told apart may be any of those that are stored."""
    store = MemoryVectorStore()
    sync_documents([IngestDocument("a", "text"), IngestDocument("b", "text")], embedder=Counting(), store=store)
    broken: Any = IngestDocument(None, "text")  # type: ignore[arg-type]
    report = sync_documents([IngestDocument("a", "text"), broken], embedder=Counting(), store=store)
    assert (list(report.failed), report.removed) == (["documents[1]"], [])
    assert store.list_document_ids() == ["a", "b"]


def test_what_others_add_meanwhile_is_not_taken_for_gone() -> None:
    store = MemoryVectorStore()
    sync_documents([IngestDocument("gone", "text")], embedder=Counting(), store=store)

    def source() -> Iterator[IngestDocument]:
        yield IngestDocument("a", "text")
        ingest_documents([IngestDocument("theirs", "text")], embedder=Counting(), store=store)

    monkey = pytest.MonkeyPatch()
    monkey.setattr("agora_core.corpus.sources._DOCUMENTS", 1)
    with monkey.context():
        report = sync_documents(source(), embedder=Counting(), store=store)
    monkey.undo()
    assert report.removed == ["gone"]
    assert store.list_document_ids() == ["a", "theirs"]


def test_a_scope_is_reported_alike_by_a_dry_run_and_by_the_run(make: Any) -> None:
    store, embedder = make(), Counting()
    sync_documents([IngestDocument("both", "b", None, {"t": "b"})], embedder=embedder, store=store)
    mine = [IngestDocument("both", "a", None, {"t": "a"}), IngestDocument("mine", "a", None, {"t": "a"})]
    paid = len(embedder.texts)
    planned = sync_documents(mine, embedder=embedder, store=store, scope={"t": "a"}, dry_run=True)
    report = sync_documents(mine, embedder=embedder, store=store, scope={"t": "a"})
    planned.seconds = report.seconds
    assert planned == report
    assert (report.embedded, list(report.failed), len(embedder.texts) - paid) == (["mine"], ["both"], 1)
    again = sync_documents(mine[1:], embedder=embedder, store=store, scope={"t": "a"})
    assert (again.unchanged, again.removed) == (["mine"], [])


def test_namespaces_are_synced_each_by_itself(make: Any) -> None:
    store = make()
    views = {name: store.scoped({"t": name}, on_write="stamp", namespace=name) for name in ("a", "b")}
    ingest_documents(
        [IngestDocument("plain", "in scope, of no namespace", None, {"t": "a"})], embedder=Counting(), store=store
    )
    for name, view in views.items():
        truth = [IngestDocument("README", f"of {name}"), IngestDocument("gone", "x")]
        assert sync_documents(truth, embedder=Counting(), store=view).embedded == ["README", "gone"]
        report = sync_documents(truth[:1], embedder=Counting(), store=view)
        assert (report.unchanged, report.removed) == (["README"], ["gone"])
        told = sync_permissions([("README", {"k": 1}), ("gone", {"k": 1}), ("plain", {"k": 1})], store=view)
        assert (told.relabelled, sorted(told.failed)) == (["README"], ["gone", "plain"])
    assert store.list_document_ids() == ["a\x1fREADME", "b\x1fREADME", "plain"]
    assert store.get(["plain#0"])[0].metadata == {"t": "a"}


def test_contexts_by_chunk_stand_behind_the_documents() -> None:
    store = MemoryVectorStore()
    report = sync_documents(
        [IngestDocument("a", "text", None, None, "Title")],
        embedder=Counting(),
        store=store,
        contextualize=lambda document, chunk: f"about {chunk.id}",
    )
    assert report.characters_embedded == len("Title\n\nabout a#0\n\ntext")
    assert store.get(["a#0"])[0].context == "Title\n\nabout a#0"


def test_bad_arguments_are_refused() -> None:
    store, embedder = MemoryVectorStore(), Counting()
    truth = [IngestDocument("a", "text")]
    for options, words in (
        ({"concurrency": 0}, "concurrency must be 1 or more"),
        ({"contextualize": 3}, "contextualize must be a function"),
        ({"chunker": ProseChunker(), "chunk_size": 9}, "cannot be given together with chunker="),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            sync_documents(truth, embedder=embedder, store=store, **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'chunksize'"):
        sync_documents(truth, embedder=embedder, store=store, chunksize=3)
    with pytest.raises(UnsupportedOperationError, match="has no attribute 'scope'"):
        sync_documents(truth, embedder=embedder, store=object())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="must be an iterable of IngestDocument"):
        sync_documents("text", embedder=embedder, store=store)  # type: ignore[arg-type]


async def test_permissions_change_labels_and_nothing_else(make: Any) -> None:
    store, embedder, keyword = make(), Counting(), KeywordRetriever()
    truth = [IngestDocument(f"d{n}", f"text number {n}. " * 3, None, {"acl": ["all"], "n": n}) for n in range(6)]
    sync_documents(truth, embedder=embedder, store=store, keyword=keyword, **CUT)
    paid = len(embedder.texts)
    patches: list[Any] = [("d1", {"acl": ["hr"]}), ("d2", {"n": 2}), ("nowhere", {"acl": []}), ("d3", {"n": None})]
    report = sync_permissions(iter(patches), store=store, keyword=keyword)
    assert (report.relabelled, report.unchanged, report.failed) == (["d1", "d3"], ["d2"], {"nowhere": "not found"})
    assert len(embedder.texts) == paid
    assert {one.id: one.metadata for one in store.list_documents()}["d1"] == {"acl": ["hr"], "n": 1}
    assert store.count({"acl": ["hr"]}) == len(chunk_documents([truth[1]], **CUT))
    assert {document_id_of(one.id) for one in keyword.retrieve("text", top_k=99, filter={"acl": ["hr"]})} == {"d1"}
    again = await async_sync_permissions(patches, store=store, keyword=keyword)
    assert (again.relabelled, sorted(again.unchanged)) == ([], ["d1", "d2", "d3"])
    bounded = sync_permissions([("d1", {"n": 9}), ("d4", {"acl": ["out"]})], store=store, scope={"acl": ["all"]})
    assert bounded.failed["d1"] == "not found"
    assert "scope" in bounded.failed["d4"]
    twice = sync_permissions([("d5", {"n": 50}), ("d5", {"n": 51})], store=store)
    assert twice.relabelled == ["d5"]
    assert {one.id: one.metadata for one in store.list_documents()}["d5"] == {"acl": ["all"], "n": 51}
    wrongs: list[Any] = [{"d1": {}}, [("d1",)], [("d1", {"k": object()})]]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"patch"):
            sync_permissions(wrong, store=store)


class Other(FakeEmbeddingProvider):
    """Another model."""

    def embed(self, texts: Sequence[str]) -> Any:
        return [[-value for value in vector] for vector in super().embed(texts)]


def test_a_store_moves_to_another_model_and_the_move_can_be_broken_off(make: Any) -> None:
    store, into = make(), make()
    truth = documents(random.Random(6), 12)
    sync_documents(truth, embedder=Counting(), store=store, **CUT)
    chunks = len(content(store))

    class Breaking(Other):
        calls = 0

        def embed(self, texts: Sequence[str]) -> Any:
            self.calls += 1
            if self.calls == 3:
                raise ConnectionError("broken off")
            return super().embed(texts)

    breaking = Breaking(DIMENSION)
    with pytest.raises(ConnectionError):
        reembed(store, breaking, into=into, batch_size=4)
    report = reembed(store, breaking, into=into, batch_size=4)
    assert report.chunks_embedded == chunks - 8
    assert content(into) == content(store)
    # What changed meanwhile is followed, what is gone is removed.
    changed = store.list_document_ids()
    store.update_metadata(changed[0], {"new": 1})
    store.remove(changed[1])
    report = reembed(store, breaking, into=into)
    assert (report.relabelled, report.removed, report.embedded) == ([changed[0]], [changed[1]], [])
    assert content(into) == content(store)
    # JSON tells true from 1, as filters do, where Python calls them equal: a label that says so has changed.
    for old, new in ((1, True), (True, 1), ({"public": [0]}, {"public": [False]})):
        store.update_metadata(changed[0], {"flag": old})
        reembed(store, breaking, into=into)
        store.update_metadata(changed[0], {"flag": new})
        assert reembed(store, breaking, into=into).relabelled == [changed[0]]
        assert into.count({"flag": new}) == store.count({"flag": new}) > 0
    with pytest.raises(InvalidArgumentError, match="another store"):
        reembed(store, breaking, into=store)


class Named(Counting):
    """An embedder with a name."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.model = model


async def test_a_store_refuses_vectors_of_another_model(make: Any, tmp_path: Any) -> None:
    """Of the same length, so that nothing else would notice; refused before anything is embedded, both named."""
    from agora_core import EmbeddingModelError, EmbeddingRetriever

    store, small, large = make(), Named("small"), Named("large")
    truth = [IngestDocument("a", "text")]
    ingest_documents(truth, embedder=small, store=store)
    assert EmbeddingRetriever(small, store).retrieve("text")
    calls: list[Callable[[], Any]] = [
        lambda: ingest_documents(truth, embedder=large, store=store),
        lambda: sync_documents(truth, embedder=large, store=store.scoped({"k": 1}), allow_empty=True),
        lambda: EmbeddingRetriever(large, store).retrieve("text"),
        lambda: reembed(make(), large, into=store),
    ]
    for call in calls:
        with pytest.raises(EmbeddingModelError, match=r"'small' and the embedder is 'large'.*reembed"):
            call()
    with pytest.raises(EmbeddingModelError):
        await EmbeddingRetriever(large, store).aretrieve("text")
    assert large.texts == []
    # One without a name passes.
    assert EmbeddingRetriever(Counting(), store).retrieve("text")
    if isinstance(store, MemoryVectorStore):
        store.save(tmp_path / "kept.agora")
        store = MemoryVectorStore.load(tmp_path / "kept.agora")
        with pytest.raises(EmbeddingModelError):
            EmbeddingRetriever(large, store).retrieve("text")
    into = make()
    reembed(store, large, into=into)
    assert EmbeddingRetriever(large, into).retrieve("text")
