"""Text search of every implementation beside BM25 worked out from its formula: any history, any query, any bound.

One random life of a corpus is led on the memory, Postgres and Qdrant stores (local mode and engine) and on a
`KeywordRetriever`; after each step they are asked the same, and ids, order and scores must be those of the formula.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psycopg
import pytest
from psycopg import sql

from agora_core import (
    ChunkRecord,
    KeywordRetriever,
    MemoryLexicalVectorStore,
    Passage,
    PgLexicalVectorStore,
    QdrantLexicalVectorStore,
    VectorRecord,
    apply_metadata_patch,
    document_id_of,
    field,
    matches_filter,
)
from agora_core.keyword import get_tokenizer
from agora_core.keyword.analysis import passage_terms
from tests.contract.backends import open_loop
from tests.integration.qdrant.edge_client import EdgeClient

T = TypeVar("T")

FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
LONG = 1500 if FUZZ else 60

TOKENIZERS = ("unicode", "english", "russian")
K1, B = 1.2, 0.6
TOLERANCE = 1e-9

WORDS = (
    *("the", "falcon", "falcons", "flying", "Plan", "plan", "to be", "O'Brien's", "don't"),
    *("Straße", "strasse", "Häuser", "Haus"),
    *("быстрые", "лисицы", "лисица", "и"),
    *("الكتب", "كتب", "مدرسة"),
    *("हिन्दी", "शब्द", "घर में"),
    *("東京都", "東京", "休暇", "カタカナ", "算法设计", "算法"),
    *("서버를", "서버"),
    *("กินข้าว", "กิน"),
    *("naïve", "nai\u0308ve", "İstanbul", "ΣΟΦΟΣ", "σοφος"),
    *("config.yaml", "CVE-2024-1234", "HTTPServer2", "read/write", "bob@example.org", "snake_case_name", "x1", "3.14"),
    *('"', "-", "-x", "'", "\\", "%s", ":*", "&|!", "<->", "$1", "{}", "😀", "\u200b", "a\u200db", "\t\n", "y" * 300),
)
PHRASES = ("flying falcons", "東京都", "the plan", "config.yaml", "to be", "算法", "x1 plan")
DOCUMENTS = ("a", "b", "b#1", "ä", "日本", 'it\'s "x"')
GROUPS: tuple[Any, ...] = (["x"], ["y"], ["x", "y"], [], None)
FILTERS: tuple[Any, ...] = (None, None, {"acl": ["x"]}, {"n": [0, 1, 2]}, {"acl": []}, field("n") >= 3)
SCOPES: tuple[Any, ...] = (None, None, {"acl": ["x"]}, {"acl": ["y"]}, {"n": [1, 3]}, {"n": 77})


class Chooser(Protocol):
    def choose(self, among: Sequence[T]) -> T: ...


class Seeded:
    """A chooser over `random.Random`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, among: Sequence[T]) -> T:
        return self._random.choice(among)


# The formula ----------------------------------------------------------------------------------------------------------


class Query:
    """What is asked: words, and for web syntax phrases that must and that must not stand in a text."""

    def __init__(self, chooser: Chooser) -> None:
        count = chooser.choose((0, 1, 1, 2, 3, 5))
        self.words = [chooser.choose(WORDS) for _ in range(count)]
        if chooser.choose((0, 1)) and self.words:
            self.words.append(self.words[0])
        self.syntax = chooser.choose(("plain", "plain", "web"))
        self.phrases: list[str] = []
        self.excluded: list[str] = []
        if self.syntax == "web":
            # What reads as syntax elsewhere is left to the tests of the reader itself.
            self.words = [word for word in self.words if not set(word) & set('"-')]
            self.phrases = [chooser.choose(PHRASES) for _ in range(chooser.choose((0, 0, 1, 2)))]
            self.excluded = [chooser.choose(PHRASES) for _ in range(chooser.choose((0, 0, 1)))]

    @property
    def text(self) -> str:
        quoted = [f'"{phrase}"' for phrase in self.phrases] + [f'-"{phrase}"' for phrase in self.excluded]
        return " ".join([*self.words, *quoted])

    def __repr__(self) -> str:
        return f"{self.syntax} query {self.text!r}"


def ranking(
    records: Iterable[VectorRecord], query: Query, tokenizer: Any, *, filter: Any, floor: float | None, most: int | None
) -> list[Passage]:
    """Rank records by the formula of BM25; the statistics are those of all that are given."""
    held = {one.id: passage_terms(tokenizer, searched(one)) for one in records}
    average = sum(length for _, length in held.values()) / len(held) if held else 0.0
    weights = Counter(tokenizer.query(" ".join([*query.words, *query.phrases])))
    found = []
    for one in records:
        terms, length = held[one.id]
        score = 0.0
        for term, times in weights.items():
            frequency = terms.count(term)
            if frequency:
                holding = sum(term in others for others, _ in held.values())
                idf = math.log(1 + (len(held) - holding + 0.5) / (holding + 0.5))
                share = frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length / average))
                score += math.sqrt(times) * idf * share
        if score and (filter is None or matches_filter(one.metadata, filter)) and admitted(one, query, tokenizer):
            found.append(Passage(one.id, one.text, score, one.source, dict(one.metadata or {})))
    found = sorted(found, key=lambda passage: (-passage.score, passage.id))
    kept, taken = [], Counter[str]()
    for passage in found:
        taken[document_id_of(passage.id)] += 1
        if (floor is None or passage.score >= floor) and taken[document_id_of(passage.id)] <= (most or len(found)):
            kept.append(passage)
    return kept


def searched(record: VectorRecord) -> str:
    return f"{record.context}\n\n{record.text}" if record.context else record.text


def admitted(record: VectorRecord, query: Query, tokenizer: Any) -> bool:
    text = searched(record)

    def stands(phrase: str) -> bool:
        runs = [(tokenizer(phrase), tokenizer(text)), (tokenizer.phrase(phrase), tokenizer.phrase(text))]
        return any(
            inner == outer[at : at + len(inner)] for inner, outer in runs for at in range(len(outer) - len(inner) + 1)
        )

    return all(map(stands, query.phrases)) and not any(map(stands, query.excluded))


def assert_is(answer: Sequence[Passage], everything: Sequence[Passage], top_k: int) -> None:
    """Compare an answer with the whole ranking; only what rounding orders may change places."""
    expected, by_id = everything[:top_k], {one.id: one for one in everything}
    assert len(answer) == len(expected)
    for mine, theirs in zip(answer, expected, strict=True):
        assert mine.score == pytest.approx(theirs.score, rel=TOLERANCE)
        one = by_id[mine.id]
        assert mine.score == pytest.approx(one.score, rel=TOLERANCE)
        assert (mine.text, mine.source, mine.metadata or {}) == (one.text, one.source, one.metadata or {})
    for first, second in pairwise(answer):
        assert (-first.score, first.id) < (-second.score, second.id)


# The implementations --------------------------------------------------------------------------------------------------


class Copy:
    """A `KeywordRetriever` behind the calls of a store."""

    def __init__(self, **options: Any) -> None:
        self.keyword = KeywordRetriever(**options)

    def upsert(self, records: Iterable[VectorRecord]) -> None:
        self.keyword.add(chunks(records))

    def replace_documents(self, documents: list[str], records: Iterable[VectorRecord]) -> None:
        self.keyword.replace_documents(documents, chunks(records))

    def remove(self, document: str) -> None:
        self.keyword.remove_document(document)

    def search_text(self, query: str, **options: Any) -> list[Passage]:
        return self.keyword.retrieve(query, **options)

    async def asearch_text(self, query: str, **options: Any) -> list[Passage]:
        return await self.keyword.aretrieve(query, **options)

    def scoped(self, filter: Any) -> Any:
        view = Copy.__new__(Copy)
        view.keyword = self.keyword.scoped(filter)  # type: ignore[assignment]
        return view

    def __getattr__(self, name: str) -> Any:
        return getattr(self.keyword, name)


def chunks(records: Iterable[VectorRecord]) -> list[ChunkRecord]:
    return [ChunkRecord(one.id, one.text, one.source, one.metadata, one.context) for one in records]


class World:
    """An empty implementation of each kind, one after another, and the event loop of their async methods."""

    def __init__(self, conninfo: str, folder: Path, stack: ExitStack) -> None:
        self.loop = stack.enter_context(open_loop())
        self.folder = folder
        self._admin = stack.enter_context(psycopg.connect(conninfo, autocommit=True))
        self._conninfo, self._stack = conninfo, stack
        self._number = itertools.count()
        self._tables: dict[str, PgLexicalVectorStore] = {}

    def empty(self, tokenizer: str) -> dict[str, Any]:
        options: dict[str, Any] = {"tokenizer": tokenizer, "k1": K1, "b": B}
        made: dict[str, Any] = {
            "memory": MemoryLexicalVectorStore(dimension=3, **options),
            "keyword": Copy(**options),
            "postgres": self._postgres(tokenizer, options),
        }
        for name, client in (
            ("qdrant", ":memory:"),
            ("qdrant engine", self._stack.enter_context(closing(EdgeClient()))),
        ):
            collection = f"text_{next(self._number)}"
            made[name] = QdrantLexicalVectorStore(client, collection=collection, dimension=3, **options)
            made[name].ensure_collection()
        return made

    def _postgres(self, tokenizer: str, options: dict[str, Any]) -> PgLexicalVectorStore:
        if tokenizer not in self._tables:
            store = PgLexicalVectorStore(self._conninfo, table=f"text_{tokenizer}", dimension=3, index=None, **options)
            store.ensure_schema()
            self._stack.callback(store.close)
            self._stack.callback(lambda: self.loop.run_until_complete(store.aclose()))
            self._tables[tokenizer] = store
        self._admin.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(f"text_{tokenizer}")))
        return self._tables[tokenizer]


class Life:
    """One corpus, led the same everywhere."""

    def __init__(self, world: World, tokenizer: str) -> None:
        self.world, self.tokenizer = world, get_tokenizer(tokenizer)
        self.stores = world.empty(tokenizer)
        self.records: dict[str, VectorRecord] = {}

    def step(self, chooser: Chooser) -> None:
        getattr(self, chooser.choose(("_upsert", "_upsert", "_replace", "_remove", "_patch", "_upkeep")))(chooser)
        for _ in range(2):
            self._ask(chooser)

    def everywhere(self, act: Callable[[Any], Any]) -> None:
        for store in self.stores.values():
            act(store)

    def _record(self, chooser: Chooser, document: str) -> VectorRecord:
        number = chooser.choose(range(4))
        text = " ".join(chooser.choose(WORDS) for _ in range(chooser.choose((0, 1, 2, 4, 9))))
        angle = 0.2 + 0.3 * number + 1.3 * DOCUMENTS.index(document)
        vector = [math.cos(angle), math.sin(angle), 0.0]
        metadata = {"acl": chooser.choose(GROUPS), "n": chooser.choose(range(6))}
        context = chooser.choose((None, None, None, "the guide"))
        return VectorRecord(f"{document}#{number}", text, vector, chooser.choose((None, "s")), metadata, context)

    def _upsert(self, chooser: Chooser) -> None:
        made = [self._record(chooser, chooser.choose(DOCUMENTS)) for _ in range(chooser.choose((1, 2, 5, 12)))]
        self.everywhere(lambda store: store.upsert(made))
        self.records.update({one.id: one for one in made})

    def _replace(self, chooser: Chooser) -> None:
        document = chooser.choose(DOCUMENTS)
        made = [self._record(chooser, document) for _ in range(chooser.choose((0, 1, 3)))]
        self.everywhere(lambda store: store.replace_documents([document], made))
        self._forget([key for key in self.records if document_id_of(key) == document])
        self.records.update({one.id: one for one in made})

    def _remove(self, chooser: Chooser) -> None:
        document = chooser.choose(DOCUMENTS)
        own = [key for key in self.records if document_id_of(key) == document]
        if chooser.choose((True, False)):
            self.everywhere(lambda store: store.remove(document))
            self._forget(own)
        else:
            self.everywhere(lambda store: store.delete(own[:1]))
            self._forget(own[:1])

    def _patch(self, chooser: Chooser) -> None:
        document = chooser.choose(DOCUMENTS)
        patch = {chooser.choose(("acl", "n")): chooser.choose((*GROUPS, 1, 3))}
        own = [one for one in self.records.values() if document_id_of(one.id) == document]
        for store in self.stores.values():
            assert store.update_metadata(document, patch) == len(own)
        for one in own:
            self.records[one.id] = replace(one, metadata=apply_metadata_patch(one.metadata, patch))

    def _upkeep(self, chooser: Chooser) -> None:
        self.stores["postgres"].maintain()
        self.stores["memory"].save(self.world.folder / "store")
        self.stores["memory"] = MemoryLexicalVectorStore.load(self.world.folder / "store")
        self.stores["keyword"].save(self.world.folder / "index")
        self.stores["keyword"].keyword = KeywordRetriever.load(self.world.folder / "index")

    def _forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            del self.records[key]

    def _ask(self, chooser: Chooser) -> None:
        query = Query(chooser)
        scope, filter = chooser.choose(SCOPES), chooser.choose(FILTERS)
        most, top_k = chooser.choose((None, None, 1, 2)), chooser.choose((1, 2, 5, 40))
        seen = [one for one in self.records.values() if scope is None or matches_filter(one.metadata, scope)]
        floor: float | None = None
        everything = ranking(seen, query, self.tokenizer, filter=filter, floor=None, most=most)
        if len(everything) > 2 and chooser.choose((True, False)):
            # Between two scores, where rounding decides nothing.
            floor = (everything[1].score + everything[2].score) / 2
            if not everything[1].score > floor * (1 + 1e-6) > everything[2].score * (1 + 2e-6):
                floor = None
            everything = ranking(seen, query, self.tokenizer, filter=filter, floor=floor, most=most)
        given = {"filter": filter, "min_score": floor, "per_document": most}
        options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        options.update({} if query.syntax == "plain" else {"syntax": "web"})
        natively_async = chooser.choose((True, False))
        for name, store in self.stores.items():
            if name == "keyword" and query.syntax == "web":
                continue  # a retriever is told at its making
            view = store if scope is None else store.scoped(scope)
            if natively_async:
                answer = self.world.loop.run_until_complete(view.asearch_text(query.text, top_k=top_k, **options))
            else:
                answer = view.search_text(query.text, top_k=top_k, **options)
            try:
                assert_is(answer, everything, top_k)
            except AssertionError as error:
                wanted = [(one.id, one.score) for one in everything[:top_k]]
                raise AssertionError(
                    f"{name}: {query}, scope {scope}, top_k {top_k}, {options}\n expected {wanted}\n"
                    f" got {[(one.id, one.score) for one in answer]}\n of {seen}"
                ) from error
        self._ask_both(query, scope, top_k, options)

    def _ask_both(self, query: Query, scope: Any, top_k: int, options: dict[str, Any]) -> None:
        """The hybrid of every store is that of the memory store."""
        options = {name: value for name, value in options.items() if name != "min_score"}
        answers = {}
        for name, store in self.stores.items():
            if name != "keyword":
                view = store if scope is None else store.scoped(scope)
                found = view.search_hybrid(query.text, [math.cos(0.7), math.sin(0.7), 0.1], top_k=top_k, **options)
                answers[name] = [(one.id, pytest.approx(one.score, rel=TOLERANCE)) for one in found]
        for name, answer in answers.items():
            assert answer == answers["memory"], (name, query, scope, top_k, options)


@pytest.fixture(scope="module")
def world(pg_conninfo: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(pg_conninfo, tmp_path_factory.mktemp("saved"), stack)


@pytest.mark.fuzz
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_a_long_life_wears_nothing_out(world: World, tokenizer: str) -> None:
    """A long history of one store under each analyser."""
    life = Life(world, tokenizer)
    chooser = Seeded(random.randrange(2**32) if FUZZ else len(tokenizer))
    for _ in range(LONG):
        life.step(chooser)
