"""Text search as operations: what a write adds to the index, what a search reads of it, and its upkeep."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final

import numpy as np
from psycopg import sql

from agora_core.errors import SchemaError
from agora_core.filters import Expression, compile_filter
from agora_core.keyword.analysis import AnyTokenizer
from agora_core.keyword.bm25 import check_bm25_parameters
from agora_core.keyword.querying import TextQuery
from agora_core.records import Passage, document_id_of, indexed_text
from agora_core.steps import Steps
from agora_core.stores.postgres.layout import Layout
from agora_core.stores.postgres.rows import passage
from agora_core.stores.postgres.session import Copy, Statement, beside
from agora_core.stores.postgres.statements import Target, rendered
from agora_core.stores.postgres.text import schema
from agora_core.stores.postgres.text.schema import TextTables
from agora_core.stores.postgres.text.segments import (
    CountedText,
    Extra,
    Rows,
    Scores,
    Statistics,
    blocks,
    copy_pieces,
    counted,
    scored,
    segments_of,
    sweep,
    term_key,
    unpacked_rows,
)
from agora_core.validation import RecordBatch

MOST_PENDING: Final = 10_000
"""So many texts that are not indexed are read and counted by each search; with more of them a search is refused."""

_LOOKED_AGAIN: Final = 8
_FIRST_BLOCK: Final = 64
_NARROW_FROM: Final = 256
_BYTES_A_ROW: Final = 1_024
"""So many bytes of postings are scored in the time in which one row is made into a passage."""

_MERGED_ONE_IN: Final = 200
_SWEPT: Final = 1_000
_KNOWN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class AnalysedBatch(RecordBatch):
    """Records whose texts were counted before the write, outside of any transaction."""

    counted: list[CountedText]


class TextIndex:
    """The text index of one table, for one analyser."""

    def __init__(self, tokenizer: AnyTokenizer, k1: float, b: float) -> None:
        """Take the analyser and the parameters of BM25.

        Raises:
            InvalidArgumentError: a parameter is out of its range.
        """
        self.tokenizer = tokenizer
        self.k1, self.b = check_bm25_parameters(k1, b)
        self.mark = schema.mark_of(tokenizer)
        self._known: tuple[int | None, bool, float] | None = None

    # What is there.

    def forget(self) -> None:
        """Look again whether the index is there and whose it is."""
        self._known = None

    def is_usable(self, target: Target) -> Steps[bool]:
        """Say whether the index is there for this role to read and write; looked up at most once a minute.

        Where row security is active it is not: a row of postings mixes records, and tells of hidden ones.

        Raises:
            SchemaError: another analyser made it.
        """
        if not target.catalog.may_copy:
            return False
        known = self._known
        if known is not None and known[0] == target.catalog.table and known[2] > time.monotonic():
            return known[1]
        mark, permitted = yield from self._found(target.layout)
        if mark is not None:
            self._check_mark(target, mark)
        usable = mark is not None and permitted
        self._known = (target.catalog.table, usable, time.monotonic() + _KNOWN_SECONDS)
        return usable

    def kept(self, layout: Layout) -> Steps[str | None]:
        """Return the name of the analyser that made the index that is there; None where there is none."""
        mark, _ = yield from self._found(layout)
        name = None if mark is None else json.loads(mark).get("tokenizer")
        return name if isinstance(name, str) else None

    def _found(self, layout: Layout) -> Steps[tuple[str | None, bool]]:
        """Return what the index says of itself, None where there is none, and whether this role may use it."""
        answer = yield Statement(
            "SELECT to_regclass(%(name)s) IS NOT NULL, obj_description(to_regclass(%(name)s)::oid, 'pg_class'), "
            "has_table_privilege(to_regclass(%(name)s)::oid, 'SELECT') AND "
            "has_table_privilege(to_regclass(%(name)s)::oid, 'INSERT')",
            {"name": TextTables(layout)["postings"].as_string(None)},
        )
        present, mark, permitted = answer.rows[0]
        return (mark or "{}") if present else None, bool(permitted)

    def _check_mark(self, target: Target, mark: str) -> None:
        if mark == self.mark:
            return
        made, mine = json.loads(mark), json.loads(self.mark)
        if made.get("version", 1) > schema.VERSION:
            raise SchemaError("the text index was made by a newer version of this library; open it with that one")
        name = target.layout.name.as_string(None)
        if (made.get("tokenizer"), made.get("config")) == (mine["tokenizer"], mine["config"]):
            detail = f"another release of the tokenizer {mine['tokenizer']!r}, which gives other terms"
        else:
            detail = f"the tokenizer {made.get('tokenizer')!r}, and the store was opened with {mine['tokenizer']!r}"
        raise SchemaError(
            f"the text index of {name} was made by {detail}; open the store with the tokenizer of the index, or call "
            "index_texts() to index all texts anew"
        )

    def ensure(self, target: Target) -> Steps[None]:
        """Make the index where it is missing. Records that there are become pending; see `index_page`.

        Raises:
            SchemaError: another analyser made the one that there is.
        """
        mark, _ = yield from self._found(target.layout)
        if mark is not None:
            self._check_mark(target, mark)
            return
        answer = yield Statement(
            "SELECT nspname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE pg_class.oid = %(table)s",
            {"table": target.catalog.table},
        )
        for statement in schema.create(target.layout, target.catalog.context, self.mark, answer.rows[0][0]):
            yield rendered(statement)
        self.forget()

    # Writing.

    def analysed(self, batch: RecordBatch) -> AnalysedBatch:
        """Count the texts of records, outside of any transaction and, in async code, of the event loop."""
        texts = [counted(self.tokenizer, text) for text in batch.indexed_texts()]
        columns: Any = {field.name: getattr(batch, field.name) for field in fields(RecordBatch)}
        return AnalysedBatch(**columns, counted=texts)

    def index(self, target: Target, batch: RecordBatch) -> Steps[None]:
        """Index what was just written, within the transaction that wrote it. Texts that did not change stay as is."""
        analysed = batch if isinstance(batch, AnalysedBatch) else self.analysed(batch)
        yield from self._index(target, dict(zip(analysed.ids, analysed.counted, strict=True)))

    def _index(self, target: Target, analysed: Mapping[str, CountedText]) -> Steps[None]:
        if not (yield from self.is_usable(target)):
            # A trigger has put them among the pending ones, where there is an index at all.
            return
        tables = TextTables(target.layout)
        answer = yield rendered(
            sql.SQL("DELETE FROM {} WHERE id = ANY (%(ids)s::text[]) RETURNING id").format(tables["pending"]),
            {"ids": list(analysed)},
        )
        fresh = sorted({row[0] for row in answer.rows})
        if not fresh:
            return
        texts = [analysed[key] for key in fresh]
        answer = yield rendered(
            sql.SQL(
                "INSERT INTO {} (id, length) SELECT * FROM unnest(%(ids)s::text[], %(lengths)s::bigint[]) "
                "RETURNING id, row"
            ).format(tables["rows"]),
            {"ids": fresh, "lengths": [text.length for text in texts]},
        )
        numbers = {row[0]: row[1] for row in answer.rows}
        numbered = [(numbers[key], text) for key, text in zip(fresh, texts, strict=True)]
        segments = yield from beside(lambda: segments_of(numbered), len(numbered))
        if segments:
            copy = sql.SQL("COPY {} (term, postings) FROM STDIN WITH (FORMAT BINARY)").format(tables["postings"])
            yield Copy(copy.as_string(None), copy_pieces(segments))
        yield rendered(
            sql.SQL("INSERT INTO {} VALUES (%(texts)s, %(length)s)").format(tables["counts"]),
            {"texts": len(fresh), "length": sum(text.length for text in texts)},
        )
        if random.randrange(_MERGED_ONE_IN) == 0:  # noqa: S311 # nothing is guarded by it
            yield from self._merge(target, list(segments))

    def index_page(self, target: Target, size: int) -> Steps[int]:
        """Index up to `size` pending texts, within the transaction that runs. Return how many; 0 is the end.

        Each text is locked first, as a writer locks it, so that none is indexed twice or from under a writer.
        """
        tables, columns = TextTables(target.layout), target.layout.columns
        answer = yield rendered(
            sql.SQL(
                "SELECT {key}, {text}, {context} FROM {records} AS t WHERE {key} IN "
                "(SELECT id FROM {pending} LIMIT %(size)s) ORDER BY {order} FOR NO KEY UPDATE"
            ).format(
                key=target.column(columns.id),
                text=target.column(columns.text),
                context=target.context,
                records=target.table,
                pending=tables["pending"],
                order=target.id,
            ),
            {"size": size},
        )
        if not answer.rows:
            return 0
        found = {row[0]: counted(self.tokenizer, indexed_text(row[1], row[2])) for row in answer.rows}
        yield from self._index(target, found)
        return len(found)

    def begin_again(self, target: Target) -> Steps[bool]:
        """Make this analyser the index's, where another made it, and all texts pending. Return whether it was so."""
        mark, _ = yield from self._found(target.layout)
        if mark is None or mark == self.mark:
            return False
        for statement in schema.drop(target.layout):
            yield rendered(statement)
        yield rendered(schema.remark(target.layout, self.mark))
        self.forget()
        return True

    def pending(self, target: Target) -> Steps[int]:
        """Return how many texts are not indexed yet."""
        answer = yield rendered(
            sql.SQL("SELECT count(DISTINCT id) FROM {}").format(TextTables(target.layout)["pending"])
        )
        return int(answer.rows[0][0])

    # Upkeep.

    def maintain(self, target: Target) -> Steps[int]:
        """Join the segments of each term, and sweep out what counts no more. Return how many postings rows are left.

        One at a time: another one that runs makes this one return at once. Readers and writers go on.
        """
        tables = TextTables(target.layout)
        if not (yield from self._locked(target)):
            return -1
        answer = yield rendered(
            sql.SQL("SELECT string_agg(int8send(row), '' ORDER BY row) FROM {}").format(tables["dead"])
        )
        dead = unpacked_rows(answer.rows[0][0])
        after = ""
        while True:
            answer = yield rendered(
                sql.SQL(
                    "WITH chosen AS (SELECT DISTINCT term FROM {postings} WHERE term > %(after)s ORDER BY term "
                    "LIMIT %(size)s), gone AS (DELETE FROM {postings} AS p USING chosen WHERE p.term = chosen.term "
                    "RETURNING p.term, p.postings) "
                    "SELECT term, string_agg(postings, '') FROM gone GROUP BY term"
                ).format(postings=tables["postings"]),
                {"after": after, "size": _SWEPT},
            )
            if not answer.rows:
                break
            after = max(row[0] for row in answer.rows)
            kept = {row[0]: sweep(row[1], dead) for row in answer.rows}
            copy = sql.SQL("COPY {} (term, postings) FROM STDIN WITH (FORMAT BINARY)").format(tables["postings"])
            yield Copy(copy.as_string(None), copy_pieces({term: data for term, data in kept.items() if data}))
        yield rendered(
            sql.SQL("DELETE FROM {} WHERE row = ANY (%(rows)s::bigint[])").format(tables["dead"]),
            {"rows": dead.tolist()},
        )
        yield rendered(
            sql.SQL(
                "WITH gone AS (DELETE FROM {counts} RETURNING texts, length) "
                "INSERT INTO {counts} SELECT sum(texts), sum(length) FROM gone HAVING count(*) > 0"
            ).format(counts=tables["counts"])
        )
        answer = yield rendered(sql.SQL("SELECT count(*) FROM {}").format(tables["postings"]))
        return int(answer.rows[0][0])

    def _merge(self, target: Target, terms: list[str]) -> Steps[None]:
        if (yield from self._locked(target)):
            yield rendered(
                sql.SQL(
                    "WITH gone AS (DELETE FROM {postings} WHERE term = ANY (%(terms)s::text[]) "
                    "RETURNING term, postings) "
                    "INSERT INTO {postings} SELECT term, string_agg(postings, '') FROM gone GROUP BY term"
                ).format(postings=TextTables(target.layout)["postings"]),
                {"terms": terms},
            )

    def _locked(self, target: Target) -> Steps[bool]:
        answer = yield Statement(
            "SELECT pg_try_advisory_xact_lock(hashtextextended('agora-retrieval texts', %(table)s::bigint))",
            {"table": target.catalog.table},
        )
        return bool(answer.rows[0][0])

    # Searching.

    def search(
        self,
        target: Target,
        query: TextQuery,
        filter: Expression | None,
        *,
        top_k: int,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        """Return the best passages. Statistics are those of all texts, or of the scope that the filter carries."""
        if query.is_blank:
            return []
        indexed = yield from self.is_usable(target)
        for _ in range(_LOOKED_AGAIN):
            found = yield from _Search(self, target, query, filter, top_k, min_score, per_document, indexed).run()
            if found is not None:
                return found
        raise SchemaError("texts changed faster than they could be read; try again")


# The parts of a snapshot: kind, term or id, bytes, and two numbers.
_POSTINGS: Final = (
    "SELECT 'posting' AS kind, term, string_agg(postings, '') AS data, NULL::bigint AS texts, NULL::bigint AS length "
    "FROM {postings} WHERE term = ANY (%(terms)s::text[]) GROUP BY term"
)
_DEAD: Final = "SELECT 'dead', NULL, string_agg(int8send(row), '' ORDER BY row), NULL, NULL FROM {dead}"
_COUNTS: Final = "SELECT 'counts', NULL, NULL, sum(texts)::bigint, sum(length)::bigint FROM {counts}"
_VISIBLE: Final = (
    "SELECT 'visible', NULL, string_agg(int8send(r.row), '' ORDER BY r.row), count(*), sum(r.length)::bigint "
    "FROM {records} AS t JOIN {rows} AS r ON r.id = {key} WHERE {condition}"
)
_ALL: Final = (
    "SELECT 'pending' AS kind, t.id AS term, convert_to(CASE WHEN t.context IS NULL OR t.context = '' THEN t.text "
    "ELSE t.context || E'\\n\\n' || t.text END, 'UTF8') AS data, t.inside::int::bigint AS texts, "
    "NULL::bigint AS length "
    "FROM (SELECT {key} AS id, {text}, coalesce({condition}, false) AS inside FROM {records} AS t LIMIT %(most)s) AS t"
)
_PENDING: Final = (
    "SELECT 'pending', p.id, convert_to(CASE WHEN t.context IS NULL OR t.context = '' THEN t.text "
    "ELSE t.context || E'\\n\\n' || t.text END, 'UTF8'), t.inside::int, NULL "
    "FROM (SELECT DISTINCT id FROM {pending} LIMIT %(most)s) AS p JOIN "
    "(SELECT {key} AS id, {text}, coalesce({condition}, false) AS inside FROM {records} AS t) AS t USING (id)"
)


class _VanishedError(Exception):
    """A row that was scored is no longer there: the search begins again."""


class _Search:
    """One search, from one snapshot of the index and what is then read of the records."""

    def __init__(
        self,
        index: TextIndex,
        target: Target,
        query: TextQuery,
        filter: Expression | None,
        top_k: int,
        min_score: float | None,
        per_document: int | None,
        indexed: bool,
    ) -> None:
        self._indexed = indexed
        self._index, self._target, self._query, self._filter = index, target, query, filter
        self._top_k, self._min_score, self._per_document = top_k, min_score, per_document
        self._tables = TextTables(target.layout)
        self._pending: list[str] = []

    def run(self) -> Steps[list[Passage] | None]:
        """Return the passages, or None where a row vanished meanwhile."""
        rows, scores = yield from self._scored()
        if self._min_score is not None:
            enough = int(np.searchsorted(-scores, -self._min_score, side="right"))
            rows, scores = rows[:enough], scores[:enough]
        try:
            return (yield from self._best(rows, scores))
        except _VanishedError:
            return None

    def _scored(self) -> Steps[tuple[Rows, Scores]]:
        terms = [term_key(term) for term in self._query.weights]
        # A view marks its own part of a conjunction, so that statistics stay inside it.
        scope = getattr(self._filter, "scope", None)
        bound = None if scope is None else compile_filter(scope)
        answer = yield self._snapshot(terms, bound)
        segments: dict[str, bytes] = {}
        pending: list[tuple[str, str, bool]] = []
        dead = visible = unpacked_rows(None)
        statistics = Statistics(0, 0)
        for kind, term, data, texts, length in answer.rows:
            if kind == "posting":
                segments[term] = data
            elif kind == "dead":
                dead = unpacked_rows(data)
            elif kind == "counts":
                statistics = Statistics(int(texts or 0), int(length or 0))
            elif kind == "visible":
                visible, statistics = unpacked_rows(data), Statistics(int(texts or 0), int(length or 0))
            else:
                pending.append((term, data.decode(), bool(texts)))
        if len(pending) > MOST_PENDING:
            raise SchemaError(
                f"more than {MOST_PENDING} texts of {self._target.layout.name.as_string(None)} are not indexed, or not "
                "for this role; call ensure_schema() and index_texts() as the owner of the table"
            )
        self._pending = [key for key, _, _ in pending]
        extra = yield from beside(
            lambda: Extra([counted(self._index.tokenizer, text) for _, text, _ in pending]), len(pending)
        )
        shown = np.array([inside for _, _, inside in pending], bool)
        counting = (
            extra.texts if bound is None else [text for text, inside in zip(extra.texts, shown, strict=True) if inside]
        )
        total = Statistics(statistics.texts + len(counting), statistics.length + sum(text.length for text in counting))
        score = partial(
            scored,
            self._query.weights,
            segments,
            extra,
            dead=dead,
            statistics=total,
            visible=None if bound is None else (visible, shown),
            k1=self._index.k1,
            b=self._index.b,
        )
        return (yield from beside(score, sum(map(len, segments.values())) // _BYTES_A_ROW))

    def _snapshot(self, terms: Iterable[str], scope: Expression | None) -> Statement:
        """One statement, so that everything is of one moment."""
        target, columns = self._target, self._target.layout.columns
        condition = target.condition(scope, "s")
        text = sql.SQL("{} AS text, {} AS context").format(target.column(columns.text), target.context)
        pieces: dict[str, Any] = {
            **{part: self._tables[part] for part in schema.PARTS},
            "records": target.table,
            "key": target.column(columns.id),
            "condition": condition.clause,
            "text": text,
        }
        parts = [_POSTINGS, _DEAD, _PENDING, _COUNTS if scope is None else _VISIBLE] if self._indexed else [_ALL]
        query = sql.SQL(" UNION ALL ").join(sql.SQL(part).format(**pieces) for part in parts)
        return rendered(query, condition.parameters, {"terms": list(terms), "most": MOST_PENDING + 1})

    def _best(self, rows: Rows, scores: Scores) -> Steps[list[Passage]]:
        """Judge stretches of the ranking until it is filled."""
        kept: list[Passage] = []
        counts: dict[str, int] = {}
        plain = self._filter is None and self._query.is_plain and self._per_document is None
        left = np.ones(len(rows), bool)
        narrowed = not self._indexed
        for start, end in blocks(scores, self._top_k if plain else max(_FIRST_BLOCK, 2 * self._top_k)):
            if not narrowed and self._filter is not None and start >= _NARROW_FROM:
                # Few of the best match, so the rows that do are asked for, all of them at once.
                left = yield from self._matching(rows)
                narrowed = True
            chosen = np.flatnonzero(left[start:end]) + start
            if not len(chosen):
                continue
            found = yield from self._judged(rows[chosen], scores[chosen])
            for one in sorted(found, key=lambda passage: (-passage.score, passage.id)):
                document = document_id_of(one.id)
                if self._per_document is not None and counts.get(document, 0) >= self._per_document:
                    continue
                counts[document] = counts.get(document, 0) + 1
                kept.append(one)
                if len(kept) == self._top_k:
                    return kept
        return kept

    def _matching(self, rows: Rows) -> Steps[Any]:
        target = self._target
        condition = target.condition(self._filter)
        answer = yield rendered(
            sql.SQL(
                "SELECT string_agg(int8send(r.row), '' ORDER BY r.row) FROM {} AS t JOIN {} AS r ON r.id = {} WHERE {}"
            ).format(target.table, self._tables["rows"], target.column(target.layout.columns.id), condition.clause),
            condition.parameters,
        )
        # What is pending has no row; it is judged by itself.
        return np.isin(rows, unpacked_rows(answer.rows[0][0])) | (rows < 0)

    def _judged(self, rows: Rows, scores: Scores) -> Steps[list[Passage]]:
        """Return the passages of rows that match the filter and hold the phrases.

        Raises:
            _VanishedError: one of the rows is no longer there.
        """
        target = self._target
        condition = target.condition(self._filter)
        if not self._indexed:
            return (yield from self._judged_unindexed(rows, scores))
        score_of = dict(zip(rows.tolist(), scores.tolist(), strict=True))
        stored = [row for row in score_of if row >= 0]
        fresh = {self._pending[-1 - row]: row for row in score_of if row < 0}
        key = target.column(target.layout.columns.id)
        answer = yield rendered(
            sql.SQL(
                "SELECT r.row, coalesce({condition}, false), {context}, {payload} FROM {rows} AS r JOIN {records} AS t "
                "ON {key} = r.id WHERE r.row = ANY (%(rows)s::bigint[]) UNION ALL "
                "SELECT NULL, coalesce({condition}, false), {context}, {payload} FROM {records} AS t "
                "WHERE {key} = ANY (%(ids)s::text[])"
            ).format(
                condition=condition.clause,
                context=target.context,
                payload=target.payload,
                rows=self._tables["rows"],
                records=target.table,
                key=key,
            ),
            condition.parameters,
            {"rows": stored, "ids": list(fresh)},
        )
        if len(answer.rows) < len(score_of):
            raise _VanishedError
        judged = [(score_of[fresh[row[3]] if row[0] is None else row[0]], *row[1:]) for row in answer.rows]
        return (yield from beside(lambda: self._admitted(judged), len(judged)))

    def _judged_unindexed(self, rows: Rows, scores: Scores) -> Steps[list[Passage]]:
        target = self._target
        condition = target.condition(self._filter)
        score_of = {self._pending[-1 - row]: score for row, score in zip(rows.tolist(), scores.tolist(), strict=True)}
        answer = yield rendered(
            sql.SQL(
                "SELECT {key}, coalesce({condition}, false), {context}, {payload} FROM {records} AS t "
                "WHERE {key} = ANY (%(ids)s::text[])"
            ).format(
                key=target.column(target.layout.columns.id),
                condition=condition.clause,
                context=target.context,
                payload=target.payload,
                records=target.table,
            ),
            condition.parameters,
            {"ids": list(score_of)},
        )
        if len(answer.rows) < len(score_of):
            raise _VanishedError
        judged = [(score_of[row[0]], *row[1:]) for row in answer.rows]
        return (yield from beside(lambda: self._admitted(judged), len(judged)))

    def _admitted(self, judged: Iterable[Sequence[Any]]) -> list[Passage]:
        """Return the passages asked for, of rows of score, whether it matches, context, id, text, source, metadata."""
        found = []
        for score, matches, context, *payload in judged:
            if matches and (
                self._query.is_plain or self._query.admits(self._index.tokenizer, indexed_text(payload[1], context))
            ):
                found.append(passage([*payload, score]))
        return found
