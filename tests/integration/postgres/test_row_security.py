"""Row security with real roles: the server keeps an actor to its rows when the store forgets to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from agora_core import PgLexicalVectorStore, VectorRecord, field
from agora_core.errors import InvalidArgumentError, InvalidFilterError, SchemaError, ScopeViolationError
from agora_core.steps import Steps
from agora_core.stores.postgres import statements
from agora_core.stores.postgres.conditions import ALWAYS
from agora_core.stores.postgres.connections import Operation
from agora_core.stores.postgres.session import Statement
from agora_core.stores.postgres.statements import Target

ROWS = [
    VectorRecord(f"{t}{n}#0", f"common {t}", [1.0, n, 0.0], None, {"tenant": t, "acl": ["all", f"g{n % 3}"], 'o"\\': 1})
    for t in ("a", "b")
    for n in range(30)
]


@pytest.fixture
def owner(make_store: Any, admin: Any, fresh_name: str) -> Iterator[PgLexicalVectorStore]:
    store = make_store(lexical=True, schema=fresh_name, index=None)
    store.upsert(ROWS)
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(fresh_name)))
    for _ in range(2):
        for statement in store.rls_statements(keys=["tenant", "acl"], role=fresh_name):
            admin.execute(statement)
    yield store
    store.close()
    admin.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(fresh_name)))
    admin.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(fresh_name)))


@pytest.fixture
def limited(owner: PgLexicalVectorStore, make_store: Any, pg_conninfo: str, fresh_name: str) -> PgLexicalVectorStore:
    """The store as the application's role sees it, over one connection that all actors share."""
    conninfo = psycopg.conninfo.make_conninfo(pg_conninfo, user=fresh_name)
    store: PgLexicalVectorStore = make_store(
        conninfo, lexical=True, schema=fresh_name, index=None, ensure=False, max_connections=1
    )
    store.verify_rls()
    return store


A = {"tenant": "a", "acl": ["all"]}
B = {"tenant": "b", "acl": ["g1", "g2"]}


def everything(view: Any) -> set[str]:
    """Every way to read."""
    ids = [record.id for record in ROWS]
    assert view.search([0.0, 0.0, 0.0], top_k=99, per_document=1) == view.search([0.0, 0.0, 0.0], top_k=99)
    found = [
        {p.id for p in view.search([1.0, 1.0, 0.0], top_k=99)},
        {p.id for p in view.search([1.0, 1.0, 0.0], top_k=99, filter=field("tenant").exists())},
        {p.id for p in view.search_text("common", top_k=99)},
        {p.id for p in view.search_hybrid("common", [1.0, 1.0, 0.0], top_k=99)},
        {r.id for r in view.get(ids)},
        {r.id for r in view.scan()},
        {f"{document}#0" for document in view.list_document_ids()},
        {f"{document.id}#0" for document in view.list_documents()},
    ]
    assert all(some == found[0] for some in found)
    assert view.count() == len(found[0]) == sum(count for _, count in view.facets("tenant"))
    return found[0]


def test_actors_share_one_connection_and_see_what_they_may(limited: Any) -> None:
    for actor, expected in ((A, 30), (B, 20), ({**A, "tenant": []}, 0), ({"tenant": "a"}, 0)):
        seen = everything(limited.as_actor(actor))
        assert len(seen) == expected
        assert all(id.startswith(str(actor["tenant"])) for id in seen)
        # A missing setting sees nothing, also on a connection that had one.
        assert everything(limited) == set()


async def test_actors_from_async_code(limited: Any) -> None:
    await limited.averify_rls()
    views = [limited.as_actor(A), limited.as_actor(B), limited]
    assert await asyncio.gather(*(view.acount() for view in views)) == [30, 20, 0]
    assert await views[1].aupdate_metadata("b1", {"x": 1}) == 1
    assert await limited.acount() == 0


def test_without_its_where_clause_nothing_leaks(limited: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "condition", lambda *_: ALWAYS)
    for actor, expected in ((A, 30), (B, 20)):
        seen = everything(limited.as_actor(actor))
        assert len(seen) == expected
        assert all(id.startswith(str(actor["tenant"])) for id in seen)
    view = limited.as_actor(A)
    assert view.remove("b1") == view.delete(["b1#0"]) == view.update_metadata("b1", {"x": 1}) == 0
    assert view.remove_where({"tenant": "b"}) == 30
    assert limited.as_actor(B).count() == 20


def test_a_write_that_the_policy_refuses(limited: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    view = limited.as_actor(A)
    mine = VectorRecord("new#0", "", [1, 0, 0], None, {"tenant": "a", "acl": ["all"]})
    theirs = VectorRecord("b1#0", "", [1, 0, 0], None, {"tenant": "a", "acl": ["all"]})
    assert view.upsert([mine]) == 1
    assert view.upsert([VectorRecord(f"m{n}", "", [1, 0, 0], None, mine.metadata) for n in range(150)]) == 150
    with pytest.raises(ScopeViolationError):
        view.upsert([theirs])
    with pytest.raises(ScopeViolationError):
        view.update_metadata("a1", {"tenant": "b"})
    # What checks before the server does is taken away: the server refuses the same.
    monkeypatch.setattr(Target, "condition", lambda *_: ALWAYS)
    inner = view._store
    calls: tuple[Callable[[], Any], ...] = (
        lambda: inner.upsert([VectorRecord("x", "", [1, 0, 0], None, {"tenant": "b", "acl": ["all"]})]),
        lambda: inner.upsert([theirs]),
        lambda: inner.update_metadata("a1", {"tenant": "b"}),
        lambda: limited.upsert([mine]),
    )
    for call in calls:
        with pytest.raises(ScopeViolationError, match="row security refused a write"):
            call()


def test_a_callers_transaction_goes_on_without_the_actor(
    limited: Any, make_store: Any, pg_conninfo: str, fresh_name: str
) -> None:
    with psycopg.connect(pg_conninfo, user=fresh_name, autocommit=True) as connection:
        store = make_store(connection, schema=fresh_name, index=None, ensure=False)
        with connection.transaction(force_rollback=True):
            assert store.as_actor(A).count() == 30
            assert store.as_actor(A).remove("a1") == 1
            assert store.count() == 0


TABLE = "{0}.{0}"


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        ("ALTER TABLE {0}.{0} OWNER TO {0}", "owns the table or is a member"),
        ("CREATE ROLE {0}_o; GRANT {0}_o TO {0}; ALTER TABLE {0}.{0} OWNER TO {0}_o", "owns the table or is a member"),
        ("ALTER ROLE {0} SUPERUSER", "is a superuser"),
        ("ALTER ROLE {0} BYPASSRLS", "has BYPASSRLS"),
        ("GRANT TRUNCATE ON {0}.{0} TO {0}", "may TRUNCATE"),
        ("ALTER TABLE {0}.{0} DISABLE ROW LEVEL SECURITY", "is not enabled"),
        ("ALTER TABLE {0}.{0} NO FORCE ROW LEVEL SECURITY", "is not forced"),
        ("DROP POLICY agora_actor ON {0}.{0}", "is missing"),
        ("ALTER POLICY agora_actor ON {0}.{0} USING (true)", "was changed"),
        ("ALTER POLICY agora_actor ON {0}.{0} USING (true) WITH CHECK (true)", "was changed"),
        ("ALTER POLICY agora_actor ON {0}.{0} USING ({loose}) WITH CHECK ({loose})", "was changed"),
        ("CREATE POLICY more ON {0}.{0} FOR SELECT USING (true)", "the permissive policy 'more'"),
    ],
)
def test_what_could_step_over_the_policy_is_refused(
    limited: Any, admin: Any, fresh_name: str, break_it: str, message: str
) -> None:
    if "{loose}" in break_it:
        # The same conditions of two keys, of which one would do.
        (using,) = admin.execute("SELECT pg_get_expr(polqual, polrelid) FROM pg_policy").fetchone()
        assert using.count(") AND ((tokens") == 1
        break_it = break_it.replace("{loose}", using.replace(") AND ((tokens", ") OR ((tokens"))
    admin.execute(break_it.replace("{0}", fresh_name))
    try:
        with pytest.raises(SchemaError, match=message):
            limited.verify_rls()
        with pytest.raises(SchemaError, match=message):
            asyncio.run(limited.averify_rls())
    finally:
        admin.execute(f"ALTER TABLE {fresh_name}.{fresh_name} OWNER TO {admin.info.user}")
        admin.execute(f"DROP ROLE IF EXISTS {fresh_name}_o")


def test_a_restrictive_policy_beside_ours_is_no_fault(limited: Any, admin: Any, fresh_name: str) -> None:
    admin.execute(f"CREATE POLICY less ON {fresh_name}.{fresh_name} AS RESTRICTIVE USING (id <> 'a1#0')")
    limited.verify_rls()
    assert limited.as_actor(A).count() == 29


def test_an_actor_of_many_groups(limited: Any, owner: Any, admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long list was read and compared anew for each row of the table; now the index alone is asked, once."""
    owner.upsert(VectorRecord(f"c{n}", "", [1, 0, 0], None, {"tenant": "c", "acl": [f"g{n}"]}) for n in range(2_000))
    groups = ["all", *(f"group {n}" for n in range(500))]
    mine = {f"a{n}#0" for n in range(30)}
    assert everything(limited.as_actor({"tenant": "a", "acl": groups})) == mine
    assert limited.as_actor({"tenant": groups[1:], "acl": groups}).count() == 0
    assert limited.as_actor({"tenant": ["c", "b"], "acl": [*groups, "g1", "g5"]}).count() == 32
    plan: list[str] = []
    steps = statements.count(limited._known["target"][0], None)

    def explained() -> Steps[None]:
        answer = yield Statement(f"EXPLAIN {steps.text}", steps.parameters)
        plan.extend(row[0] for row in answer.rows)

    limited._connections.run(Operation(explained), limited.as_actor({"tenant": groups, "acl": groups})._store._actor)
    assert any("InitPlan" in line for line in plan)
    assert any("tokens_idx" in line for line in plan)
    assert not any("Seq Scan" in line for line in plan)
    monkeypatch.setattr(Target, "condition", lambda *_: ALWAYS)
    assert everything(limited.as_actor({"tenant": ["a", *groups], "acl": groups})) == mine


def test_the_owner_is_told_to_be_one(owner: Any) -> None:
    with pytest.raises(SchemaError, match="is a superuser"):
        owner.verify_rls()


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.as_actor({}),
        lambda store: store.as_actor(field("tenant") == "a"),
        lambda store: store.as_actor({"tenant": {"a": 1}}),
        lambda store: store.as_actor({"tenant": [["a"]]}),
        lambda store: store.as_actor(None),
    ],
)
def test_an_actor_binds_keys_to_values(make_store: Any, call: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidFilterError):
        call(make_store(ensure=False))


def test_keys_and_roles_are_checked(make_store: Any) -> None:
    store = make_store(ensure=False)
    for keys in ([], "tenant", [1]):
        with pytest.raises(InvalidArgumentError):
            store.rls_statements(keys=keys, role="app")
    with pytest.raises(InvalidArgumentError, match="role must be a name"):
        store.rls_statements(keys=["tenant"], role="a; DROP")


def test_values_of_every_kind_bind_as_the_filter_does(limited: Any, owner: Any, admin: Any, fresh_name: str) -> None:
    values: list[Any] = ["", '"', "\\", "{}", "a,b", "NULL", "é💥", "x" * 400, 1, 1.5, -0.0, 2**62, True, None]
    owner.upsert([VectorRecord(f"k{n}", "", [1, 0, 0], None, {"k'": value}) for n, value in enumerate(values)])
    for statement in owner.rls_statements(keys=["k'"], role=fresh_name):
        admin.execute(statement)
    limited.verify_rls()
    for value in [*values, ["", 1], [None, "x" * 400]]:
        view = limited.as_actor({"k'": value})
        assert view._store.count() == owner.count({"k'": value}) > 0
