"""Let two tables change names, in one transaction: how a store keeps its name when it moves to another model."""

from __future__ import annotations

from psycopg import sql

from agora_core.errors import InvalidArgumentError
from agora_core.steps import Steps
from agora_core.stores.postgres.layout import Layout
from agora_core.stores.postgres.session import Statement
from agora_core.stores.postgres.statements import rendered
from agora_core.stores.postgres.text.schema import EVENTS, PARTS, functions

_PARKED = "agora_swapped"


def check_swap(one: Layout, other: Layout) -> None:
    """Refuse tables that cannot change names.

    Raises:
        InvalidArgumentError: they are one table, or lie in two schemas.
    """
    if one.schema != other.schema:
        raise InvalidArgumentError("into must be a table of the same schema, for a name belongs to its schema")
    if one.table == other.table:
        raise InvalidArgumentError("into must be another table")


def swap(one: Layout, other: Layout) -> Steps[None]:
    """Let both tables change names, with their indexes and what text search keeps beside them."""
    # In the order of names, as every other swap of the two, so that none waits for the other in a ring.
    for layout in sorted((one, other), key=lambda layout: layout.table):
        yield rendered(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(layout.name))
    names = yield from _names(one)
    others = yield from _names(other)
    for kind, suffix in names:
        yield _rename(one, kind, _named(one, suffix), f"{_PARKED}_{suffix}"[:63])
    for kind, suffix in others:
        yield _rename(one, kind, _named(other, suffix), _named(one, suffix))
    for kind, suffix in names:
        yield _rename(one, kind, f"{_PARKED}_{suffix}"[:63], _named(other, suffix))
    answer = yield Statement(
        "SELECT nspname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE pg_class.oid = to_regclass(%(name)s)::oid",
        {"name": one.name.as_string(None)},
    )
    # The bodies of trigger functions hold names.
    for layout, found in ((one, others), (other, names)):
        if ("FUNCTION", "text_on_insert") in found:
            for statement in functions(layout, answer.rows[0][0]):
                yield rendered(statement)


def _names(layout: Layout) -> Steps[list[tuple[str, str]]]:
    """Return what has a name that the table's begins: what kind it is, and the rest of its name; "" is the table."""
    found = [("TABLE", "")]
    answer = yield Statement(
        "SELECT i.relname FROM pg_index JOIN pg_class i ON i.oid = indexrelid WHERE indrelid = to_regclass(%(table)s)",
        {"table": layout.name.as_string(None)},
    )
    present = {row[0] for row in answer.rows}
    prefix = f"{layout.table}_"
    found += [("INDEX", name.removeprefix(prefix)) for name in sorted(present) if name.startswith(prefix)]
    for part in PARTS:
        answer = yield Statement(
            "SELECT to_regclass(%(name)s) IS NOT NULL",
            {"name": layout.qualified(layout.index_name(f"text_{part}")).as_string(None)},
        )
        if answer.rows[0][0]:
            found.append(("TABLE", f"text_{part}"))
    if ("TABLE", "text_rows") in found:
        found += [("FUNCTION", f"text_on_{event}") for event in EVENTS]
    return found


def _named(layout: Layout, suffix: str) -> str:
    return layout.index_name(suffix) if suffix else layout.table


def _rename(layout: Layout, kind: str, old: str, new: str) -> Statement:
    what = sql.SQL("{}()" if kind == "FUNCTION" else "{}").format(layout.qualified(old))
    return rendered(sql.SQL("ALTER {} {} RENAME TO {}").format(sql.SQL(kind), what, sql.Identifier(new)))
