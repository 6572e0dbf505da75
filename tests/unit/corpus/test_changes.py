"""What has to be done to a document: each case of the table, by hand."""

from __future__ import annotations

from agora_core.corpus.changes import change_of
from agora_core.metadata import UNSET
from agora_core.records import ChunkRecord
from agora_core.stores.fingerprints import Fingerprint, fingerprint_of, is_effective


def chunks(*texts: str, source: str | None = None, **metadata: object) -> list[ChunkRecord]:
    return [ChunkRecord(f"d#{n}", text, source, dict(metadata) or None) for n, text in enumerate(texts)]


def stored(of: list[ChunkRecord]) -> list[Fingerprint]:
    return [fingerprint_of(one.id, one.text, one.context, one.source, one.metadata, digests=True) for one in of]


def test_equal_documents_ask_for_nothing() -> None:
    change = change_of("d", chunks("a", "b", k=1), stored(chunks("a", "b", k=1)))
    assert (change.outcome, change.texts, list(change.written), change.stale) == ("unchanged", [], [], [])


def test_a_paragraph_at_the_top_embeds_only_itself() -> None:
    change = change_of("d", chunks("new", "a", "b"), stored(chunks("a", "b")))
    assert (change.outcome, change.texts) == ("embedded", ["new"])
    assert [one.id for one in change.written] == ["d#0", "d#1", "d#2"]
    assert not change.replaced
    assert change.reused == 2


def test_equal_new_texts_are_embedded_once() -> None:
    assert change_of("d", chunks("x", "x", "a"), stored(chunks("a"))).texts == ["x"]


def test_a_shorter_document_only_loses_its_end() -> None:
    change = change_of("d", chunks("a"), stored(chunks("a", "b", "c")))
    assert (change.outcome, change.texts, change.stale) == ("reused", [], ["d#1", "d#2"])
    assert change.replaced
    assert change.kept == {"a": "d#0"}
    empty = change_of("d", [], stored(chunks("a")))
    assert (empty.outcome, empty.replaced) == ("reused", True)


def test_one_patch_relabels_where_it_can() -> None:
    change = change_of("d", chunks("a", "b", k=2), stored(chunks("a", "b", k=1, gone=True)))
    assert (change.outcome, change.patch) == ("relabelled", {"k": 2, "gone": None})
    # A stored null cannot be patched in, and labels of single chunks are no patch of the document.
    assert change_of("d", chunks("a", k=None), stored(chunks("a", k=1))).patch is None
    mixed = [ChunkRecord("d#0", "a", None, {"h": 1}), ChunkRecord("d#1", "b", None, {"h": 2})]
    change = change_of("d", mixed, stored(chunks("a", "b", h=0)))
    assert (change.outcome, change.patch, len(change.written)) == ("relabelled", None, 2)
    # True is no 1.
    assert change_of("d", chunks("a", k=True), stored(chunks("a", k=1))).outcome == "relabelled"


def test_a_source_or_a_shown_text_changes_without_an_embedding() -> None:
    assert change_of("d", chunks("a", source="new"), stored(chunks("a", source="old"))).outcome == "reused"
    split = [ChunkRecord("d#0", "tail", None, None, "head")]
    joined = stored([ChunkRecord("d#0", "head\n\ntail")])
    assert (change_of("d", split, joined).outcome, change_of("d", split, joined).texts) == ("reused", [])


def test_a_context_alone_embeds_only_its_chunks() -> None:
    before = [ChunkRecord("d#0", "a", None, None, "x"), ChunkRecord("d#1", "b", None, None, "x")]
    after = [before[0], ChunkRecord("d#1", "b", None, None, "y")]
    assert change_of("d", after, stored(before)).texts == ["y\n\nb"]


def test_effective_patches() -> None:
    assert is_effective({"k": 2}, {"k": 1})
    assert is_effective({"k": None}, {"k": 1})
    assert is_effective({"k": True}, {"k": 1})
    assert not is_effective({"k": 1.0, "x": None, "u": UNSET}, {"k": 1})
