"""Patches as statements: metadata merged by the database, by one UPDATE, the order of its keys kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg import sql

from agora_core.filters import Expression
from agora_core.metadata import MetadataPatch
from agora_core.records import JSON
from agora_core.stores.postgres.conditions import ALWAYS, Condition, compile_condition
from agora_core.stores.postgres.rows import key_order, to_json_text
from agora_core.stores.postgres.session import Statement
from agora_core.stores.postgres.statements import Target, locked_rows, rendered


def update_metadata(target: Target, document_id: str, effective: MetadataPatch, within: Expression | None) -> Statement:
    """Patch a document's chunks, merged by the database; a row for each says whether it stays within the bound."""
    columns = target.layout.columns
    changes: dict[str, JSON] = {key: value for key, value in effective.items() if value is not None}
    before = target.condition(within, "b")
    after = target.condition(within, "a")
    metadata = target.column(columns.metadata)
    return rendered(
        sql.SQL(
            "{locked} UPDATE {table} AS t SET {name} = "
            "((CASE jsonb_typeof({metadata}) WHEN 'object' THEN {metadata} ELSE '{{}}' END) || %(changes)s::jsonb) "
            "- %(removed)s::text[]{order} FROM locked WHERE {key} = locked.key RETURNING {after}"
        ).format(
            order=_patched_order(target, sql.SQL("%(added)s::jsonb"), sql.SQL("%(removed)s::text[]")),
            locked=locked_rows(target, sql.SQL("{} = %(document)s::text").format(target.document_id), before),
            table=target.table,
            name=sql.Identifier(columns.metadata),
            metadata=metadata,
            key=target.column(columns.id),
            after=after.strict,
        ),
        before.parameters,
        after.parameters,
        {
            "changes": to_json_text(changes),
            **({} if target.catalog.key_order is None else {"added": to_json_text(_order_of(changes))}),
            "removed": [key for key, value in effective.items() if value is None],
            "document": document_id,
        },
    )


def patch_documents(target: Target, patches: Mapping[str, Mapping[str, JSON]], within: Expression | None) -> Statement:
    """Patch the chunks of many documents: id, how many chunks there are, how many changed, and whether one may not."""
    columns = target.layout.columns
    before = target.condition(within, "b")
    after = _judged_alone(within)
    metadata = target.column(columns.metadata)
    changes = [{key: value for key, value in patch.items() if value is not None} for patch in patches.values()]
    return rendered(
        sql.SQL(
            "WITH given AS MATERIALIZED (SELECT g.document, g.changes, g.added, "
            "ARRAY(SELECT jsonb_array_elements_text(g.removed)) AS removed FROM unnest(%(documents)s::text[], "
            "%(changes)s::jsonb[], %(added)s::jsonb[], %(removed)s::jsonb[]) "
            "AS g (document, changes, added, removed)), "
            "found AS MATERIALIZED (SELECT {key} AS key, g.document, g.added, g.removed, {metadata} AS old, "
            "((CASE jsonb_typeof({metadata}) WHEN 'object' THEN {metadata} ELSE '{{}}' END) || g.changes) "
            "- g.removed AS new "
            "FROM given AS g JOIN {table} AS t ON {document} = g.document WHERE {before} ORDER BY {id} "
            "FOR UPDATE OF t), "
            "judged AS MATERIALIZED (SELECT document, bool_and({allowed}) AS allowed FROM found GROUP BY document), "
            "done AS (UPDATE {table} AS t SET {name} = found.new{order} FROM found JOIN judged USING (document) "
            "WHERE {key} = found.key AND judged.allowed "
            "AND found.new IS DISTINCT FROM coalesce(nullif(found.old, 'null'), '{{}}') RETURNING found.document) "
            "SELECT document, count(*), (SELECT count(*) FROM done WHERE done.document = found.document), "
            "NOT bool_and(judged.allowed) FROM found JOIN judged USING (document) GROUP BY document"
        ).format(
            key=target.column(columns.id),
            metadata=metadata,
            table=target.table,
            document=target.document_id,
            before=before.clause,
            id=target.id,
            name=sql.Identifier(columns.metadata),
            order=_patched_order(target, sql.SQL("found.added"), sql.SQL("found.removed")),
            allowed=after.strict,
        ),
        before.parameters,
        after.parameters,
        {
            "documents": list(patches),
            "changes": [to_json_text(one) for one in changes],
            "added": [to_json_text(_order_of(one)) for one in changes],
            "removed": [
                to_json_text([key for key, value in patch.items() if value is None]) for patch in patches.values()
            ],
        },
    )


def _judged_alone(within: Expression | None) -> Condition:
    """The bound on a column `new`, which has no tokens beside it."""
    if within is None:
        return ALWAYS
    return compile_condition(within, metadata=sql.SQL("new"), tokens=None, containment=False, prefix="a")


def _order_of(changes: Mapping[str, JSON]) -> list[Any]:
    """Return each key of a patch, with the order inside its value where that is not jsonb's."""
    inside = {key: key_order(value) for key, value in changes.items()}
    return [key if order is None else [key, order] for key, order in inside.items()]


def _patched_order(target: Target, added: sql.Composable, removed: sql.Composable) -> sql.Composable:
    """Return the assignment that keeps the order of keys through a patch: what is there keeps its place."""
    if target.catalog.key_order is None:
        return sql.SQL("")
    return sql.SQL(
        ", {name} = ("
        "WITH old AS (SELECT item, place, coalesce(item ->> 0, item #>> '{{}}') AS key "
        "FROM jsonb_array_elements(coalesce({column}, (SELECT jsonb_agg(to_jsonb(key)) FROM jsonb_object_keys("
        "CASE jsonb_typeof({metadata}) WHEN 'object' THEN {metadata} ELSE '{{}}' END) AS key), '[]')) "
        "WITH ORDINALITY AS items (item, place)), "
        "new AS (SELECT item, place, coalesce(item ->> 0, item #>> '{{}}') AS key "
        "FROM jsonb_array_elements({added}) WITH ORDINALITY AS items (item, place)) "
        "SELECT coalesce(jsonb_agg(coalesce(new.item, old.item) ORDER BY old.place, new.place), '[]') "
        "FROM old FULL JOIN new USING (key) WHERE NOT (key = ANY ({removed})))"
    ).format(
        added=added,
        removed=removed,
        name=sql.Identifier(target.catalog.key_order),
        column=target.column(target.catalog.key_order),
        metadata=target.column(target.layout.columns.metadata),
    )
