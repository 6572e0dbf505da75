"""The tables and triggers of text search beside the table of records, as pure functions that return statements.

    <table>_text_rows     id, row, length   one row a record: its number and length
    <table>_text_postings term, postings    segments, see `segments`; joined now and then
    <table>_text_dead     row               numbers that count no more
    <table>_text_counts   texts, length     differences; their sums are the statistics
    <table>_text_pending  id                records whose text is not indexed yet

Triggers keep the first four right whoever removes or changes a record, and put what is new into the last; a write
through the store then indexes its own texts within its transaction. A row of postings mixes records, so whoever is
bound by row security must not be granted these tables.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql

from agora_core.keyword.analysis import AnyTokenizer
from agora_core.keyword.persistence import fingerprint, tokenizer_identity
from agora_core.stores.postgres.layout import Layout

PARTS: Final = ("rows", "postings", "dead", "counts", "pending")
EVENTS: Final = ("insert", "update", "delete", "truncate")
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class TextTables:
    """The quoted names of the tables, in the schema of the records, or in the one given."""

    layout: Layout
    schema: str | None = None

    def __getitem__(self, part: str) -> sql.Composable:
        return self._named(f"text_{part}")

    def function(self, event: str) -> sql.Composable:
        """The trigger function of an event."""
        return self._named(f"text_on_{event}")

    def trigger(self, event: str) -> sql.Composable:
        """The name of the trigger of an event."""
        return sql.Identifier(self.layout.index_name(f"text_on_{event}"))

    def _named(self, suffix: str) -> sql.Composable:
        name = self.layout.index_name(suffix)
        return self.layout.qualified(name) if self.schema is None else sql.Identifier(self.schema, name)


def mark_of(tokenizer: AnyTokenizer) -> str:
    """Return what is kept with the index of the analyser that made it: its name, settings and a digest, as JSON."""
    name, config = tokenizer_identity(tokenizer)
    mark = {"version": VERSION, "tokenizer": name, "config": config, "fingerprint": fingerprint(tokenizer, [])}
    return json.dumps(mark, sort_keys=True)


def create(layout: Layout, context: str | None, mark: str, schema: str) -> list[sql.Composable]:
    """Return the statements that make the index; all records that there are become pending.

    Args:
        layout: of the records.
        context: the column of contexts that the table has, or None.
        mark: what `mark_of` gives.
        schema: the schema of the records: a trigger function may not look for names in a path that others set.
    """
    pieces = _pieces(layout, context, mark, schema)
    return [sql.SQL(text).format(**pieces) for text in _DDL]


def functions(layout: Layout, schema: str) -> list[sql.Composable]:
    """Return the statements that make the trigger functions anew, after a table has changed its name."""
    pieces = _pieces(layout, None, "", schema)
    return [sql.SQL(text).format(**pieces) for text in _DDL if text.startswith("CREATE OR REPLACE FUNCTION")]


def _pieces(layout: Layout, context: str | None, mark: str, schema: str) -> dict[str, Any]:
    tables = TextTables(layout, schema)
    texts = [layout.columns.text, *([] if context is None else [context])]
    differs = sql.SQL(" OR ").join(
        sql.SQL("OLD.{name} IS DISTINCT FROM NEW.{name}").format(name=sql.Identifier(name)) for name in texts
    )
    return {
        **{part: tables[part] for part in PARTS},
        **{f"on_{event}": tables.function(event) for event in EVENTS},
        **{f"trigger_{event}": tables.trigger(event) for event in EVENTS},
        "records": sql.Identifier(schema, layout.table),
        "key": sql.Identifier(layout.columns.id),
        "changed": sql.SQL(", ").join(map(sql.Identifier, texts)),
        "differs": differs,
        "mark": sql.Literal(mark),
        # SECURITY DEFINER: whoever may write records need not be granted these tables.
        "function": sql.SQL(
            "RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS"
        ),
    }


def drop(layout: Layout) -> list[sql.Composable]:
    """Return the statements that empty the index and make every record pending, for another analyser."""
    tables = TextTables(layout)
    emptied: list[sql.Composable] = [sql.SQL("DELETE FROM {}").format(tables[part]) for part in PARTS]
    pending = sql.SQL("INSERT INTO {} SELECT {} FROM {}").format(
        tables["pending"], sql.Identifier(layout.columns.id), layout.name
    )
    return [*emptied, pending]


def remark(layout: Layout, mark: str) -> sql.Composable:
    """Return the statement that says which analyser made the index."""
    return sql.SQL("COMMENT ON TABLE {} IS {}").format(TextTables(layout)["postings"], sql.Literal(mark))


_DDL: Final = (
    (
        'CREATE TABLE IF NOT EXISTS {rows} (id text COLLATE "C" PRIMARY KEY, '
        "row bigint GENERATED ALWAYS AS IDENTITY UNIQUE, length bigint NOT NULL)"
    ),
    'CREATE TABLE IF NOT EXISTS {postings} (term text COLLATE "C" NOT NULL, postings bytea NOT NULL)',
    "ALTER TABLE {postings} ALTER COLUMN postings SET STORAGE EXTERNAL",
    "CREATE INDEX ON {postings} (term)",
    "CREATE TABLE IF NOT EXISTS {dead} (row bigint NOT NULL)",
    "CREATE TABLE IF NOT EXISTS {counts} (texts bigint NOT NULL, length bigint NOT NULL)",
    'CREATE TABLE IF NOT EXISTS {pending} (id text COLLATE "C" NOT NULL)',
    "CREATE INDEX ON {pending} (id)",
    (
        "CREATE OR REPLACE FUNCTION {on_insert}() {function} $agora$ BEGIN "
        "INSERT INTO {pending} SELECT fresh.{key} FROM fresh; "
        "RETURN NULL; END $agora$"
    ),
    (
        "CREATE OR REPLACE FUNCTION {on_update}() {function} $agora$ BEGIN "
        "WITH gone AS (DELETE FROM {rows} AS r WHERE r.id = OLD.{key} RETURNING r.row, r.length), "
        "marked AS (INSERT INTO {dead} SELECT gone.row FROM gone) "
        "INSERT INTO {counts} SELECT -1, -gone.length FROM gone; "
        "INSERT INTO {pending} VALUES (NEW.{key}); "
        "RETURN NULL; END $agora$"
    ),
    (
        "CREATE OR REPLACE FUNCTION {on_delete}() {function} $agora$ BEGIN "
        "WITH gone AS (DELETE FROM {rows} AS r USING old_records AS o WHERE r.id = o.{key} RETURNING r.row, r.length), "
        "marked AS (INSERT INTO {dead} SELECT gone.row FROM gone) "
        "INSERT INTO {counts} SELECT -count(*), -sum(gone.length) FROM gone HAVING count(*) > 0; "
        "DELETE FROM {pending} AS p USING old_records AS o WHERE p.id = o.{key}; "
        "RETURN NULL; END $agora$"
    ),
    (
        "CREATE OR REPLACE FUNCTION {on_truncate}() {function} $agora$ BEGIN "
        "DELETE FROM {rows}; DELETE FROM {postings}; DELETE FROM {dead}; DELETE FROM {counts}; DELETE FROM {pending}; "
        "RETURN NULL; END $agora$"
    ),
    "DROP TRIGGER IF EXISTS {trigger_insert} ON {records}",
    (
        "CREATE TRIGGER {trigger_insert} AFTER INSERT ON {records} REFERENCING NEW TABLE AS fresh "
        "FOR EACH STATEMENT EXECUTE FUNCTION {on_insert}()"
    ),
    "DROP TRIGGER IF EXISTS {trigger_update} ON {records}",
    (
        "CREATE TRIGGER {trigger_update} AFTER UPDATE OF {key}, {changed} ON {records} FOR EACH ROW "
        "WHEN (OLD.{key} IS DISTINCT FROM NEW.{key} OR {differs}) EXECUTE FUNCTION {on_update}()"
    ),
    "DROP TRIGGER IF EXISTS {trigger_delete} ON {records}",
    (
        "CREATE TRIGGER {trigger_delete} AFTER DELETE ON {records} REFERENCING OLD TABLE AS old_records "
        "FOR EACH STATEMENT EXECUTE FUNCTION {on_delete}()"
    ),
    "DROP TRIGGER IF EXISTS {trigger_truncate} ON {records}",
    "CREATE TRIGGER {trigger_truncate} AFTER TRUNCATE ON {records} FOR EACH STATEMENT EXECUTE FUNCTION {on_truncate}()",
    "INSERT INTO {pending} SELECT {key} FROM {records}",
    "COMMENT ON TABLE {postings} IS {mark}",
)
