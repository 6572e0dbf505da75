"""Every claim about an index, held against the plan of the very statement that a store sends; 60,000 rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from agora_core import PgLexicalVectorStore, field
from agora_core.filters import compile_filter
from agora_core.steps import Steps
from agora_core.stores.postgres import loading, patching, search, statements, text_search
from agora_core.stores.postgres.connections import Operation
from agora_core.stores.postgres.rows import Vector, one_vector
from agora_core.stores.postgres.session import Statement
from agora_core.stores.postgres.statements import Target
from agora_core.stores.postgres.text_search import parse_text_query
from agora_core.validation import prepare_embedding
from tests.integration.postgres.conftest import BIG, BIG_DIMENSION

QUERY: Vector = one_vector(prepare_embedding([1.0] * BIG_DIMENSION, dimension=BIG_DIMENSION), "vector")
ONE_PERCENT = compile_filter({"share": [1]})
RARE = compile_filter({"rare": "yes"})


@pytest.fixture(scope="module")
def store(pg_conninfo: str, big_table: str) -> Iterator[PgLexicalVectorStore]:
    with PgLexicalVectorStore(pg_conninfo, table=big_table, dimension=BIG_DIMENSION, text_search="simple") as store:
        yield store


@pytest.fixture(scope="module")
def target(store: PgLexicalVectorStore) -> Target:
    found: Target = store._connections.run(Operation(store._known_target))
    return found


@pytest.fixture
def plan(store: PgLexicalVectorStore) -> Callable[[Statement], dict[str, Any]]:
    """Return a function that gives the nodes and indexes of a statement's plan, the statement as it is sent."""

    def explain(statement: Statement) -> dict[str, Any]:
        def steps() -> Steps[Any]:
            answer = yield Statement("EXPLAIN (FORMAT JSON) " + statement.text, statement.parameters)
            return answer.rows[0][0][0]["Plan"]

        found: dict[str, Any] = {"nodes": [], "indexes": [], "relations": []}

        def walk(node: dict[str, Any]) -> None:
            found["nodes"].append(node["Node Type"])
            found["indexes"] += [node["Index Name"]] if "Index Name" in node else []
            if node["Node Type"] == "Seq Scan":
                found["relations"].append(node["Relation Name"])
            for child in node.get("Plans", []):
                walk(child)

        walk(store._connections.run(Operation(steps)))
        return found

    return explain


@pytest.mark.parametrize(
    "filter", [{"share": [1]}, {"rare": "yes"}, field("n") == 77, {"rare": ["yes"], "share": [50]}]
)
def test_filtered_search_reads_the_tokens_index(plan: Any, target: Target, filter: Any) -> None:
    found = plan(search.bounded_exact(target, compile_filter(filter), QUERY, 10, 5_000))
    assert "big_table_tokens_idx" in found["indexes"]
    assert not found["relations"]


def test_plain_and_wide_searches_walk_the_vector_index(plan: Any, target: Target) -> None:
    plain = plan(search.nearest(target, None, QUERY, 10))
    assert plain["indexes"] == ["big_table_cosine_hnsw_idx"]
    wide = plan(search.nearest(target, compile_filter({"share": [50]}), QUERY, 10, width=100))
    assert wide["indexes"] == ["big_table_cosine_hnsw_idx"]
    assert not wide["relations"]


def test_zero_vectors_have_an_index(plan: Any, target: Target) -> None:
    found = plan(search.zero_vectors(target, None, 10))
    assert found["indexes"] == ["big_table_zero_idx"]


def test_removal_and_patches_find_a_document_by_its_index(plan: Any, target: Target) -> None:
    for statement in (
        statements.remove_documents(target, ["d7"], None),
        statements.remove_documents(target, ["d7", "d8"], ONE_PERCENT),
        patching.update_metadata(target, "d7", {"a": 1}, None),
        patching.update_metadata(target, "d7", {"a": None}, ONE_PERCENT),
    ):
        found = plan(statement)
        assert "big_table_document_id_idx" in found["indexes"]
        assert not found["relations"]


@pytest.mark.parametrize("filter", [ONE_PERCENT, RARE])
def test_lists_counts_and_removals_by_filter_read_the_tokens_index(plan: Any, target: Target, filter: Any) -> None:
    for statement in (
        statements.list_document_ids(target, filter),
        statements.list_documents(target, filter),
        statements.count(target, filter),
        statements.remove_where(target, filter),
    ):
        found = plan(statement)
        assert "big_table_tokens_idx" in found["indexes"]
        assert not found["relations"]


def test_reads_by_id_use_the_primary_key(plan: Any, target: Target) -> None:
    for statement in (
        statements.get(target, ["d1#0", "d2#0"], None),
        statements.delete(target, ["d1#0"], ONE_PERCENT),
        statements.scan_page(target, None, "d7", 500),
        loading.any_known(target, ["d1#0", "nothing"]),
        search.first_by_id(target, None, 10),
    ):
        found = plan(statement)
        assert "big_table_pkey" in found["indexes"]
        assert not found["relations"]


@pytest.mark.parametrize("ranking", ["bm25", "ts_rank_cd"])
@pytest.mark.parametrize("query", ["w7", "v3 w999", "w7 -v3", '"w7 v7" w12'])
def test_text_search_reads_the_text_index(plan: Any, target: Target, query: str, ranking: Any) -> None:
    parsed = parse_text_query(query, drop_stop_words=True)
    statement = text_search.search_text(
        target, parsed, None, configuration="simple", ranking=ranking, top_k=10, k1=1.5, b=0.75
    )
    found = plan(statement)
    assert "big_table_simple_text_idx" in found["indexes"]
    assert not found["relations"]


def test_estimates_are_those_of_the_tokens(store: PgLexicalVectorStore, target: Target) -> None:
    for share in (50, 20, 10, 5):
        statement = search.estimate(target, compile_filter({"share": [share]}))

        def steps(statement: Statement = statement) -> Steps[float]:
            answer = yield statement
            return search.estimated_breadth(answer.rows[0][0], 1).share

        estimated = store._connections.run(Operation(steps))
        assert estimated == pytest.approx(share / 100, rel=0.25)


def test_a_plan_with_steps_before_it_still_tells_the_estimate(store: PgLexicalVectorStore, target: Target) -> None:
    """A list that is read once a statement stands in the plan beside what is estimated."""

    def steps() -> Steps[search.Breadth]:
        answer = yield search.estimate(target, compile_filter({"share": [5, *range(1_000, 1_100)]}))
        return search.estimated_breadth(answer.rows[0][0], 5_001)

    breadth = store._connections.run(Operation(steps))
    assert breadth == (pytest.approx(5_001 / BIG, rel=0.1), pytest.approx(BIG, rel=0.01))


def test_no_statement_is_prepared(pg_conninfo: str, big_table: str) -> None:
    """Else a plan made for one actor's filter would be used for another's."""
    with psycopg.connect(pg_conninfo, autocommit=True) as connection:
        with PgLexicalVectorStore(connection, table=big_table, dimension=BIG_DIMENSION, text_search="simple") as store:
            for _ in range(8):
                store.search([1.0] * BIG_DIMENSION, top_k=3, filter={"share": [1]})
        row = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
        assert row == (0,)
