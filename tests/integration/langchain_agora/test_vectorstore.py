"""Faults that LangChain's own stores and retrievers have or had, each shown to be absent here.

A test is named after what breaks elsewhere, and says in its docstring where: `lc` is langchain-ai/langchain, `lcpg`
langchain-ai/langchain-postgres.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import InMemoryRecordManager, index

from agora_core import (
    ChunkRecord,
    EmbeddingRetriever,
    InvalidFilterError,
    KeywordRetriever,
    MemoryVectorStore,
    PgVectorStore,
    UnsafeRemovalError,
    VectorRecord,
)
from agora_core.testing import FakeEmbeddingProvider
from langchain_agora import (
    AgoraRetriever,
    AgoraVectorStore,
    InjectContext,
    InjectContextMiddleware,
    to_core_filter,
)
from tests.contract.langchain.stores import open_store
from tests.unit.langchain_agora.colours import Run

METRICS = ("cosine", "l2", "inner")


class Plane(Embeddings):
    """Embeds `"x,y"` as that point."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(part) for part in text.split(",")]


FRUIT = ["apple pie and more apple", "cherry cake", "plum jam", "cherry and apple"]
SAME, ASLANT, ACROSS, OPPOSITE = "1,0", "0.6,0.8", "0,1", "-1,0"


@pytest.fixture
def plane(kind: str, conninfo: Any) -> Iterator[AgoraVectorStore]:
    with open_store(kind, conninfo, dimension=2) as store:
        yield AgoraVectorStore(store, Plane())


def ids(found: Any) -> list[str]:
    return [document.id for document in found]


# -- scores and thresholds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
def test_relevance_is_not_inverted_and_does_not_jump(run: Run, kind: str, conninfo: Any, metric: str) -> None:
    """PGVectorStore and Qdrant give an identical vector 0.0 and an opposite one 1.0 under the inner product; PGVector
    gives an orthogonal one 1.0. lc #13437: scores not proportional; mem0 #3840, #4652: distance taken for similarity.
    """
    with open_store(kind, conninfo, dimension=2, metric=metric) as store:
        vectors = AgoraVectorStore(store, Plane())
        texts = [OPPOSITE, ACROSS, ASLANT, SAME]
        run(vectors, "add_texts", texts, ids=texts)
        found = run(vectors, "similarity_search_with_relevance_scores", SAME)
        assert ids(document for document, _ in found)[:3] == [SAME, ASLANT, ACROSS]
        relevances = [relevance for _, relevance in found]
        assert relevances[0] == pytest.approx(1.0, abs=1e-6)
        assert relevances == sorted(relevances, reverse=True)
        assert relevances[2] < relevances[1] < relevances[0]
        scores = [score for _, score in run(vectors, "similarity_search_with_score", SAME)]
        assert scores == sorted(scores, reverse=True)
        options: dict[str, Any] = {"search_kwargs": {"score_threshold": 0.5}}
        floor = vectors.as_retriever(search_type="similarity_score_threshold", **options)
        assert ids(run(floor, "invoke", SAME)) == [SAME, ASLANT]


def test_a_threshold_retriever_works_and_takes_an_int(run: Run, plane: AgoraVectorStore) -> None:
    """InMemoryVectorStore raises NotImplementedError; LangChain's retriever refuses `score_threshold=1`; lc #12707."""
    run(plane, "add_texts", [SAME, ACROSS], ids=["same", "across"])
    options: dict[str, Any] = {"search_kwargs": {"score_threshold": 1}}
    floor = plane.as_retriever(search_type="similarity_score_threshold", **options)
    assert ids(run(floor, "invoke", SAME)) == ["same"]


def test_the_floor_is_answered_before_the_cut(run: Run, plane: AgoraVectorStore) -> None:
    """LangChain floors after LIMIT, in the client; PGVectorStore takes `score_threshold` and ignores it."""
    asked: list[Any] = []
    for name in ("search", "asearch"):
        method = getattr(plane.store, name)

        def watched(*args: Any, method: Any = method, **options: Any) -> Any:
            asked.append(options.get("min_score"))
            return method(*args, **options)

        setattr(plane.store, name, watched)
    run(plane, "similarity_search_with_relevance_scores", SAME, score_threshold=0.5)
    assert asked
    assert set(asked) == {0.5}
    with pytest.raises(TypeError):
        run(plane, "similarity_search", SAME, score_threshold=0.5)


def test_the_score_can_be_seen(run: Run) -> None:
    """lc #4279, #12102, #25091: a retriever drops the score; lc #16445: BM25 has none."""
    keyword = KeywordRetriever()
    keyword.add([ChunkRecord("a", "paid leave")])
    assert run(AgoraRetriever(keyword, score_key=None), "invoke", "leave")[0].metadata == {}
    (found,) = run(AgoraRetriever(keyword), "invoke", "leave")
    assert found.metadata["score"] > 0


# -- filters -----------------------------------------------------------------------------------------------------------


def test_an_explicit_eq_works_where_in_does(run: Run, plane: AgoraVectorStore) -> None:
    """lc #20293: `$eq` is an error where `$in` works."""
    run(plane, "add_texts", [SAME, ACROSS], [{"n": 1}, {"n": 2}], ids=["a", "b"])
    for filter in ({"n": 1}, {"n": {"$eq": 1}}, {"n": {"$in": [1]}}):
        assert ids(run(plane, "similarity_search", SAME, filter=filter)) == ["a"]


@pytest.mark.parametrize("filter", [{"n": {"gte": 1}}, {"n": {"$gte ": 1}}, {"n": {"$GTE": 1}}, {"$AND": [{"n": 1}]}])
def test_an_unknown_operator_is_never_ignored(run: Run, plane: AgoraVectorStore, filter: Any) -> None:
    """lc #18758: `gte` is silently ignored."""
    run(plane, "add_texts", [SAME], [{"n": 0}], ids=["a"])
    if filter == {"n": {"gte": 1}}:
        # An object without operators: equality with it, which no record here satisfies.
        assert run(plane, "similarity_search", SAME, filter=filter) == []
        return
    with pytest.raises(InvalidFilterError, match="unknown operator"):
        run(plane, "similarity_search", SAME, filter=filter)


def test_and_or_compose_at_the_top_and_below(run: Run, plane: AgoraVectorStore) -> None:
    """lc #17064, #13955: no top-level or/and; lc #20445: OR and AND give empty or wrong results."""
    run(
        plane, "add_texts", [SAME] * 4, [{"x": x, "y": y} for x in (0, 1) for y in (0, 1)], ids=["00", "01", "10", "11"]
    )
    either = {"$or": [{"x": 1}, {"$and": [{"x": 0}, {"y": {"$gt": 0}}]}]}
    assert sorted(ids(run(plane, "similarity_search", SAME, filter=either))) == ["01", "10", "11"]
    assert ids(run(plane, "similarity_search", SAME, filter={"$and": [either, {"y": 0}]})) == ["10"]


def test_two_operators_on_one_field_and_keys_that_are_no_identifiers(run: Run, plane: AgoraVectorStore) -> None:
    """PGVectorStore refuses two operators on a field, keys that are no identifiers, None, and booleans in `$in`."""
    run(plane, "add_texts", [SAME] * 3, [{"a b-c": 1}, {"a b-c": 2}, {"a b-c": None}], ids=["1", "2", "n"])
    assert ids(run(plane, "similarity_search", SAME, filter={"a b-c": {"$gt": 0, "$lt": 2}})) == ["1"]
    assert ids(run(plane, "similarity_search", SAME, filter={"a b-c": None})) == ["n"]
    assert run(plane, "similarity_search", SAME, filter={"a b-c": {"$in": [True]}}) == []


def test_a_stored_list_is_matched_by_any_of_its_elements(run: Run, plane: AgoraVectorStore) -> None:
    """lcpg #143, #304: `{"acl": ["public"]}` and `$in` find nothing in a stored array; PGVector takes a list for
    match-all; an empty `$in` is an IndexError. The rule is written in `to_core_filter` (lcpg #320)."""
    run(plane, "add_texts", [SAME] * 2, [{"acl": ["public", "x"]}, {"acl": ["board"]}], ids=["p", "b"])
    assert ids(run(plane, "similarity_search", SAME, filter={"acl": ["public", "zzz"]})) == ["p"]
    assert run(plane, "similarity_search", SAME, filter={"acl": {"$in": []}}) == []
    assert run(plane, "similarity_search", SAME, filter={"acl": []}) == []
    assert "`$in` and `$nin` compare the whole value" in str(to_core_filter.__doc__)


def test_a_misspelt_filter_is_not_swallowed(run: Run, plane: AgoraVectorStore) -> None:
    """PGVectorStore swallows `fitler=` and returns everything."""
    run(plane, "add_texts", [SAME], [{"tenant": "b"}])
    with pytest.raises(TypeError, match="fitler"):
        run(plane, "similarity_search", SAME, fitler={"tenant": "a"})
    with pytest.raises(TypeError, match="fitler"):
        run(plane.as_retriever(), "invoke", SAME, fitler={"tenant": "a"})


def test_an_empty_filter_does_not_open_what_must_be_bounded(run: Run, plane: AgoraVectorStore) -> None:
    """`{}` means "no filter" everywhere. Here it matches all where a search was asked for without a scope, and is
    refused where it would delete; a scope that comes to nothing fails the call."""
    run(plane, "add_texts", [SAME], ids=["a"])
    assert ids(run(plane, "similarity_search", SAME, filter={})) == ["a"]
    with pytest.raises(UnsafeRemovalError):
        run(plane, "delete", filter={})
    with pytest.raises(InvalidFilterError):
        run(plane.scoped(lambda config: None), "similarity_search", SAME)
    assert run(plane.scoped({"tenant": "a"}), "similarity_search", SAME, filter={}) == []


def test_filters_bind_searches_and_deletes_alike(run: Run, plane: AgoraVectorStore) -> None:
    """mem0 #6232: a backend ignored `filters`, so that a search leaked and a delete took everything."""
    run(plane, "add_texts", [SAME] * 3, [{"t": "a"}, {"t": "b"}, {}], ids=["a", "b", "n"])
    for name in ("similarity_search", "max_marginal_relevance_search"):
        assert ids(run(plane, name, SAME, filter={"t": "a"})) == ["a"]
    run(plane, "delete", filter={"t": "a"})
    assert sorted(ids(run(plane, "get_by_ids", ["a", "b", "n"]))) == ["b", "n"]


def test_the_scope_holds_on_every_path(run: Run, plane: AgoraVectorStore) -> None:
    """agno #9493: a tenant is dropped on one path; jeremylongshore #572: a retriever stays bound to the first tenant
    it was built for. LangChain lets a call's `filter` replace the one of `search_kwargs`."""
    run(plane, "add_texts", [SAME, ACROSS], [{"t": "a"}, {"t": "b"}], ids=["a", "b"])
    view = plane.scoped(lambda config: {"t": config["configurable"]["t"]})
    types: list[Any] = [("similarity", {}), ("mmr", {}), ("similarity_score_threshold", {"score_threshold": 0.0})]
    for search_type, kwargs in types:
        retriever = view.as_retriever(search_type=search_type, search_kwargs=kwargs)
        for tenant in "abab":
            config = {"configurable": {"t": tenant}}
            assert ids(run(retriever, "invoke", SAME, config)) == [tenant]
            assert ids(run(retriever, "invoke", SAME, config, filter={"t": ["a", "b"]})) == [tenant]
            assert run(retriever, "invoke", SAME, config, filter={"t": "ab".replace(tenant, "")}) == []
        with pytest.raises(KeyError):
            run(retriever, "invoke", SAME)


# -- writing and deleting ----------------------------------------------------------------------------------------------


def test_one_id_in_two_collections_is_two_records(run: Run, kind: str, conninfo: Any) -> None:
    """PGVector (lcpg #139, lc #31613): the same id in a second collection replaces the text of the first, which then
    shows the other tenant's secret, and deleting it in one deletes the other's."""
    with open_store(kind, conninfo, dimension=2) as first, open_store(kind, conninfo, dimension=2) as second:
        one, two = AgoraVectorStore(first, Plane()), AgoraVectorStore(second, Plane())
        run(one, "add_texts", [SAME], [{"of": 1}], ids=["x"])
        run(two, "add_texts", [ACROSS], [{"of": 2}], ids=["x"])
        assert run(one, "get_by_ids", ["x"]) == [Document(SAME, id="x", metadata={"of": 1})]
        run(two, "delete", ["x"])
        assert run(two, "get_by_ids", ["x"]) == []
        assert ids(run(one, "get_by_ids", ["x"])) == ["x"]


def test_documents_are_deleted_by_metadata_with_a_guard(run: Run, plane: AgoraVectorStore) -> None:
    """lcpg #127, #271, lc #31712: no delete by metadata, or one that reports nothing and takes only columns."""
    run(plane, "add_texts", [SAME] * 3, [{"doc": "a"}, {"doc": "a"}, {"doc": "b"}], ids=["1", "2", "3"])
    assert plane.store.remove_where({"doc": "b"}) == 1
    assert run(plane, "delete", filter={"doc": {"$eq": "a"}}) is True
    assert plane.store.count() == 0
    with pytest.raises(UnsafeRemovalError):
        run(plane, "delete")


def test_short_ids_do_not_drop_texts(run: Run, plane: AgoraVectorStore) -> None:
    """LangChain zips texts with ids: the third of three texts with two ids is lost without a word."""
    with pytest.raises(ValueError, match="one id for each document"):
        run(plane, "add_texts", [SAME, ACROSS, OPPOSITE], ids=["1", "2"])
    assert plane.store.count() == 0


def test_a_result_shares_nothing_with_the_store(run: Run, plane: AgoraVectorStore) -> None:
    """InMemoryVectorStore hands out its own nested objects: changing a result changes the row."""
    run(plane, "add_texts", [SAME], [{"tags": ["a"], "deep": {"x": [1]}}], ids=["a"])
    found = run(plane, "similarity_search", SAME)[0].metadata
    found["tags"].append("b")
    found["deep"]["x"].clear()
    assert run(plane, "similarity_search", SAME)[0].metadata == {"tags": ["a"], "deep": {"x": [1]}}


def test_any_id_is_taken_and_nothing_is_added_to_metadata(run: Run, plane: AgoraVectorStore) -> None:
    """Qdrant wants UUIDs or integers, puts `_id` and `_collection_name` into metadata, and loses the id on the way."""
    odd = ["faq#0", "7", "ü/c?d", " ", "a" * 300]
    run(plane, "add_texts", [SAME] * 5, ids=odd)
    assert run(plane, "get_by_ids", odd) == [Document(SAME, id=id) for id in odd]


def test_index_sees_what_the_store_holds(run: Run, plane: AgoraVectorStore) -> None:
    """lc #39937: the record manager says "skipped" while the store is empty. The store can be asked instead."""
    records = InMemoryRecordManager("faults")
    documents = [Document(SAME, metadata={"source": "a"})]
    options: dict[str, Any] = {"cleanup": "full", "source_id_key": "source", "key_encoder": "sha256"}
    index(documents, records, plane, **options)
    known = records.list_keys()
    run(plane, "delete", known)
    assert index(documents, records, plane, **options)["num_skipped"] == 1
    there = set(plane.store.list_document_ids())
    records.delete_keys([key for key in known if key not in there])
    assert index(documents, records, plane, **options)["num_added"] == 1
    assert plane.store.list_document_ids() == known


def test_a_changed_label_costs_no_embedding(run: Run, plane: AgoraVectorStore) -> None:
    """`index()` embeds anew when only the ACL changed, for its ids are hashes of content and metadata."""
    asked: list[str] = []
    plane.embedding.embed_documents = asked.extend  # type: ignore[method-assign, assignment]
    plane.store.upsert([VectorRecord("faq#0", SAME, [1.0, 0.0], None, {"acl": ["a"]})])
    assert run(plane, "update_metadata", "faq", {"acl": ["a", "b"]}) == 1
    assert run(plane, "similarity_search", SAME, filter={"acl": ["b"]})[0].metadata == {"acl": ["a", "b"]}
    assert asked == []


def test_mmr_agrees_with_langchains_own(run: Run) -> None:
    """InMemoryVectorStore picks the same documents where vectors are of unit length."""
    from langchain_core.vectorstores import InMemoryVectorStore

    texts = ["1,0", "0.8,0.6", "0.6,0.8", "0,1", "-0.6,0.8"]
    theirs = InMemoryVectorStore(Plane())
    theirs.add_texts(texts, ids=texts)
    ours = AgoraVectorStore(MemoryVectorStore(), Plane())
    ours.add_texts(texts, ids=texts)
    for k in (1, 2, 3, 5):
        for weight in (0.2, 0.5, 0.9):
            options: dict[str, Any] = {"k": k, "fetch_k": 5, "lambda_mult": weight}
            expected = ids(theirs.max_marginal_relevance_search("0.96,0.28", **options))
            assert ids(run(ours, "max_marginal_relevance_search", "0.96,0.28", **options)) == expected


def test_sync_and_async_agree(run: Run, kind: str, conninfo: Any) -> None:
    """lc #27920: `ainvoke` on the parent's logic where only the sync method was overridden."""
    with open_store(kind, conninfo, dimension=64) as store:
        embedder = FakeEmbeddingProvider()
        vectors = AgoraVectorStore(store, embedder)
        vectors.add_texts(FRUIT, [{"n": n} for n in range(4)], ids=list("abcd"))
        retriever = AgoraRetriever(retriever=EmbeddingRetriever(embedder, store), score_key="score", k=3)
        options: dict[str, Any] = {"k": 2, "filter": {"n": {"$lt": 3}}, "min_score": 0.1}
        assert asyncio.run(retriever.ainvoke("apple", **options)) == retriever.invoke("apple", **options)
        narrowed = vectors.as_retriever(search_kwargs={"k": 2})
        assert asyncio.run(narrowed.ainvoke("apple")) == narrowed.invoke("apple")


# -- connections, loops and threads ------------------------------------------------------------------------------------


def test_nothing_is_opened_before_the_first_use() -> None:
    """lcpg #220: building the engine blocks an async server; no loop, thread or connection belongs in a constructor."""
    before = threading.active_count()
    store = PgVectorStore("postgresql://nobody@127.0.0.1:9/none", table="t", dimension=2)
    vectors = AgoraVectorStore(store, Plane())
    vectors.as_retriever()
    vectors.scoped({"tenant": "a"}).as_retriever(search_type="mmr")
    retriever = EmbeddingRetriever(FakeEmbeddingProvider(), store)
    AgoraRetriever(retriever=retriever).scoped({"tenant": "a"})
    InjectContext(retriever)
    InjectContextMiddleware(retriever)
    assert threading.active_count() == before
    store.close()


@pytest.mark.postgres
def test_connections_are_closed_and_few(conninfo: Any, fresh_name: str) -> None:
    """lcpg #151, lc #28991, #28347, #9696, #11433: connections stay open, or one is held for good."""
    import psycopg

    name = f"agora_{fresh_name}"[:60]
    url = conninfo()
    named = psycopg.conninfo.make_conninfo(url, application_name=name)

    def open_now() -> int:
        with psycopg.connect(url) as connection:
            query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
            row = connection.execute(query, [name]).fetchone()
        return 0 if row is None else int(row[0])

    with PgVectorStore(named, table=fresh_name, dimension=2) as store:
        store.ensure_schema()
        vectors = AgoraVectorStore(store, Plane())
        vectors.add_texts([SAME])
        with ThreadPoolExecutor(20) as pool:
            assert all(pool.map(lambda _: vectors.similarity_search(SAME), range(60)))
        assert open_now() <= 10
    # The server notices a closed connection a moment later.
    for _ in range(200):
        if not open_now():
            break
        threading.Event().wait(0.02)
    assert open_now() == 0


def test_async_works_in_one_loop_after_another(plane: AgoraVectorStore) -> None:
    """lc #17485, #30974, #14836: async PGVector without a loop, with a lazy set-up that fails, or that blocks."""
    asyncio.run(plane.aadd_texts([SAME], ids=["a"]))
    for _ in range(2):
        assert ids(asyncio.run(plane.asimilarity_search(SAME))) == ["a"]
    assert ids(plane.similarity_search(SAME)) == ["a"]


@pytest.mark.postgres
def test_a_narrow_filter_on_an_hnsw_index_finds_what_there_is(run: Run, conninfo: Any, fresh_name: str) -> None:
    """pgvector #259, #671, #719, dify #31896, akb #212: an HNSW index gives 0 of 10 where 1 row in 200 matches.
    lc #23853: and LangChain creates no such index."""
    import psycopg

    rows = 2_000
    with PgVectorStore(conninfo(), table=fresh_name, dimension=2) as store:
        store.ensure_schema()
        points = [[(n * 7919 % rows) / rows + 0.01, (n * 104_729 % rows) / rows] for n in range(rows)]
        store.upsert(
            VectorRecord(f"{n:05}", "t", point, None, {"rare": n % 200 == 0}) for n, point in enumerate(points)
        )
        with psycopg.connect(conninfo(), autocommit=True) as connection:
            connection.execute(f"ANALYZE {fresh_name}")
            query = "SELECT count(*) FROM pg_indexes WHERE tablename = %s AND indexdef ILIKE '%%hnsw%%'"
            found = connection.execute(query, [fresh_name]).fetchone()
            assert found is not None
            assert found[0] == 1
            # The planner would be right to scan so small a table; what is asked is what the index gives.
            role = "ALTER ROLE CURRENT_USER SET enable_{} = {}"
            for setting in ("seqscan", "sort"):
                connection.execute(role.format(setting, "off"))
        try:
            with PgVectorStore(conninfo(), table=fresh_name, dimension=2) as forced:
                vectors = AgoraVectorStore(forced, Plane())
                assert len(run(vectors, "similarity_search", "0.9,0.1", k=10, filter={"rare": True})) == 10
        finally:
            with psycopg.connect(conninfo(), autocommit=True) as connection:
                for setting in ("seqscan", "sort"):
                    connection.execute(f"ALTER ROLE CURRENT_USER RESET enable_{setting}")
