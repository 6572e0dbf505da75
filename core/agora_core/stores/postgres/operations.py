"""What a store does, as operations: generators of statements, each written once for sync and async code."""

from __future__ import annotations

import itertools
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from agora_core.errors import AgoraError, EmbeddingModelError, ScopeViolationError, out_of_scope
from agora_core.filters import FALSE, TRUE, Expression, compile_filter, predicate, removal_filter
from agora_core.metadata import MetadataPatch, validate_patch
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, IndexedDocument, Passage, VectorRecord, document_id_of
from agora_core.steps import Steps
from agora_core.stores.base import Health
from agora_core.stores.facets import Facets, check_facets, facet_text, most_frequent
from agora_core.stores.fingerprints import Fingerprint, Patched
from agora_core.stores.operations import OperationStore
from agora_core.stores.per_document import check_per_document, grow
from agora_core.stores.postgres import loading, patching, search, statements
from agora_core.stores.postgres.catalog import Catalog, catalog_statement, check_table, read_catalog
from agora_core.stores.postgres.connections import Operation
from agora_core.stores.postgres.dense import DenseSearch, Selectivity
from agora_core.stores.postgres.layout import Layout
from agora_core.stores.postgres.rows import check_storable, from_json_text, passage, vector_record
from agora_core.stores.postgres.session import beside
from agora_core.stores.postgres.statements import Target
from agora_core.stores.postgres.text.index import TextIndex
from agora_core.validation import (
    Float32Array,
    RecordBatch,
    check_id,
    check_ids,
    check_min_score,
    check_top_k,
    prepare_embedding,
    prepare_records,
)

_CATALOG_SECONDS: Final = 60.0
_LOAD: Final = 5_000
"""Records that are checked and encoded at once: the memory of a load of any size."""

_SCAN_PAGE: Final = 500
_MOST_ROUNDS: Final = 1_000


def passages(rows: Sequence[Sequence[Any]]) -> Steps[list[Passage]]:
    """Return the passages of rows."""
    return beside(lambda: [passage(row) for row in rows], len(rows))


class PgOperations(OperationStore):
    """The operations on one table. Arguments are checked when an operation is made, before anything is connected."""

    _layout: Layout
    _upsert_batch_size: int
    _ef_search: int | None
    _probes: int | None
    _selectivity: Selectivity
    _known: dict[str, tuple[Target, float]]
    """What was looked up, shared with the views of actors."""
    _actor: Mapping[str, str] | None = None
    """Settings of each transaction that tell the server who acts; see `row_security`."""

    @property
    def _target(self) -> tuple[Target, float] | None:
        return self._known.get("target")

    @_target.setter
    def _target(self, target: tuple[Target, float] | None) -> None:
        if target is None:
            self._known.clear()
        else:
            self._known["target"] = target

    _model: tuple[str, float] | None = None
    _texts: TextIndex | None = None
    """The text index of a store that searches texts by the library's own analysers."""

    @abstractmethod
    def _text_search(self) -> str | None:
        """The text search configuration; None for a store that does not search texts."""

    # What is there.

    def _look(self) -> Steps[Catalog]:
        """Read the catalog."""
        answer = yield catalog_statement(self._layout)
        return read_catalog(answer.rows[0], self._layout, text_search=self._text_search())

    def _known_target(self) -> Steps[Target]:
        """Return the table as the catalog has it, looked up at most once a minute."""
        known = self._target
        if known is not None and known[1] > time.monotonic():
            return known[0]
        catalog = yield from self._look()
        check_table(catalog, self._layout)
        target = Target(self._layout, catalog)
        self._target = (target, time.monotonic() + _CATALOG_SECONDS)
        return target

    def _recheck(self) -> None:
        """Forget the catalog, after something that changes it."""
        self._target = None
        self._selectivity.forget()
        if self._texts is not None:
            self._texts.forget()

    def _check(self) -> Operation:
        def steps() -> Steps[Health]:
            catalog = yield from self._look()
            versions = {"server": _version(catalog.server), "pgvector": ".".join(map(str, catalog.pgvector))}
            try:
                check_table(catalog, self._layout)
            except AgoraError as error:
                return Health(False, str(error), versions)
            invalid = [index.name for index in catalog.indexes if not index.valid]
            if invalid:
                detail = f"the index {invalid[0]!r} is invalid, as an interrupted build leaves it; call build_index()"
                return Health(False, detail, versions)
            ((rows,),) = (yield statements.estimated_rows(Target(self._layout, catalog))).rows
            # Below 0 the server has not looked yet, and a count would be a guess.
            counts = {} if rows < 0 else {"records": rows}
            return Health(True, "the table is as the store was opened for", versions, counts)

        return Operation(steps, otherwise=lambda error: Health(False, str(error)))

    # Reading.

    def _search(
        self,
        embedding: Embedding,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Operation:
        vector = prepare_embedding(embedding, dimension=self._layout.dimension)
        most, floor, expression = check_top_k(top_k), check_min_score(min_score), expression_of(filter)
        each = check_per_document(per_document)

        def steps() -> Steps[list[Passage]]:
            if expression == FALSE:
                return []
            target = yield from self._known_target()
            grouped: int | None = None

            def best(wanted: int) -> Steps[list[Passage]]:
                nonlocal grouped
                walk = self._walk(target, expression, vector, wanted, per_document=grouped)
                # The first round most often fills the list; from the second on the server cuts by document.
                grouped = each
                rows = yield from walk.finished((yield walk.statement))
                # The rows come by falling score, so the floor cuts off an end of them; inside the statement it would
                # make the index scan go on in vain.
                return (yield from passages([row for row in rows if floor is None or row[4] >= floor]))

            return (yield from grow(best, top_k=most, per_document=each, first=2 * most))

        return Operation(steps)

    def _walk(
        self,
        target: Target,
        filter: Expression | None,
        embedding: Float32Array,
        top_k: int,
        *,
        per_document: int | None = None,
    ) -> DenseSearch:
        """Begin a vector search; see `DenseSearch`."""
        return DenseSearch(
            target,
            filter,
            embedding,
            top_k,
            per_document=per_document,
            selectivity=self._selectivity,
            ef_search=self._ef_search,
            probes=self._probes,
            bound_twice=self._actor is not None,
        )

    def _get(self, ids: Sequence[str], within: AnyFilter | None) -> Operation:
        wanted, bound = check_ids(ids), expression_of(within)

        def steps() -> Steps[list[VectorRecord]]:
            if not wanted or bound == FALSE:
                return []
            target = yield from self._known_target()
            answer = yield statements.get(target, wanted, bound)
            found = {row[0]: row for row in answer.rows}
            return (yield from self._records([found[key] for key in wanted if key in found]))

        return Operation(steps)

    def _scan(self, filter: AnyFilter | None) -> Operation:
        return self._page(expression_of(filter), None)

    def _page(self, filter: Expression | None, after: str | None) -> Operation:
        """The records that come next in a scan, and the operation of those after them."""

        def steps() -> Steps[tuple[list[VectorRecord], Operation | None]]:
            if filter == FALSE:
                return [], None
            target = yield from self._known_target()
            answer = yield statements.scan_page(target, filter, after, _SCAN_PAGE)
            page = yield from self._records(answer.rows)
            return page, self._page(filter, page[-1].id) if page else None

        return Operation(steps)

    def _records(self, rows: Sequence[Sequence[Any]]) -> Steps[list[VectorRecord]]:
        """Make records of rows; of many beside the event loop."""

        def records() -> list[VectorRecord]:
            return [vector_record(row, self._layout.storage) for row in rows]

        return beside(records, len(rows))

    def _count(self, filter: AnyFilter | None) -> Operation:
        return self._reading(filter, statements.count, lambda rows: int(rows[0][0]), 0)

    def _list_documents(self, filter: AnyFilter | None) -> Operation:
        def documents(rows: Sequence[Sequence[Any]]) -> list[IndexedDocument]:
            return [IndexedDocument(row[0], from_json_text(row[1])) for row in rows]

        return self._reading(filter, statements.list_documents, documents, [])

    def _list_document_ids(self, filter: AnyFilter | None) -> Operation:
        return self._reading(filter, statements.list_document_ids, lambda rows: [row[0] for row in rows], [])

    def _facets(self, key: str | Sequence[str], filter: AnyFilter | None, limit: int) -> Operation:
        (path, most), expression = check_facets(key, limit), expression_of(filter)

        def steps() -> Steps[Facets]:
            if expression == FALSE:
                return []
            target = yield from self._known_target()
            # Of a key without lists the rows are grouped by what they hold, at half the cost.
            asked = statements.has_lists(target, path[0]) if len(path) == 1 else None
            lists = asked is None or (yield asked).rows[0][0]
            rows = (yield statements.facets(target, expression, path, most, lists=lists)).rows

            def counted() -> Facets:
                return most_frequent([(facet_text(from_json_text(text)), int(count)) for text, count in rows], most)

            return (yield from beside(counted, len(rows)))

        return Operation(steps)

    def _check_model(self, model: str, fills: bool) -> Operation | None:
        known = self._model
        if known is not None and known[0] == model and known[1] > time.monotonic():
            return None

        def steps() -> Steps[None]:
            target = yield from self._known_target()
            answer = yield statements.model(target)
            found = answer.rows[0][0] if answer.rows else None
            # A role that does not own the table cannot keep the name with it; then none is known.
            if found is None and fills and target.catalog.alterable:
                yield statements.keep_model(target, model)
                found = model
            if found not in (None, model):
                raise EmbeddingModelError(filled_by=found, given=model)
            if found is not None:
                self._model = (found, time.monotonic() + _CATALOG_SECONDS)

        return Operation(steps, writes=fills)

    def _fingerprints(self, document_ids: Sequence[str], digests: bool, within: AnyFilter | None) -> Operation:
        documents, bound = check_ids(document_ids, argument="document_ids"), expression_of(within)

        def steps() -> Steps[list[Fingerprint]]:
            if not documents or bound == FALSE:
                return []
            target = yield from self._known_target()
            answer = yield statements.fingerprints(target, documents, bound, digests=digests)
            # Labels repeat: each is read once, and nobody changes those of a fingerprint.
            labels = {text: from_json_text(text) for text in {row[4] for row in answer.rows}}
            return [Fingerprint(row[0], row[1] or row[2], row[2], row[3], labels[row[4]]) for row in answer.rows]

        return Operation(steps)

    def patch_documents(
        self, patches: Mapping[str, MetadataPatch], *, within: AnyFilter | None = None
    ) -> dict[str, Patched]:
        """Patch many documents in one statement; see `update_metadata` for what a patch means.

        Return what became of each document that there is. One whose patch would move a chunk out of `within` is left
        as it is.
        """
        done: dict[str, Patched] = self._run(self._patch_documents(patches, within))
        return done

    async def apatch_documents(
        self, patches: Mapping[str, MetadataPatch], *, within: AnyFilter | None = None
    ) -> dict[str, Patched]:
        """Async twin of `patch_documents`."""
        done: dict[str, Patched] = await self._arun(self._patch_documents(patches, within))
        return done

    def _patch_documents(self, patches: Mapping[str, MetadataPatch], within: AnyFilter | None) -> Operation:
        effective = {check_id(key, argument="document_id"): validate_patch(patch) for key, patch in patches.items()}
        bound = expression_of(within)

        def steps() -> Steps[dict[str, Patched]]:
            if not effective or bound == FALSE:
                return {}
            target = yield from self._known_target()
            yield statements.lock_documents(target, list(effective))
            answer = yield patching.patch_documents(target, effective, bound)
            if any(row[2] for row in answer.rows):
                self._selectivity.forget()
            return {row[0]: Patched(int(row[1]), int(row[2]), bool(row[3])) for row in answer.rows}

        return Operation(steps, writes=bool(effective))

    def _reading(
        self,
        filter: AnyFilter | None,
        statement: Callable[[Target, Expression | None], Any],
        result: Callable[[Sequence[Sequence[Any]]], Any],
        denied: Any,
    ) -> Operation:
        """One statement over what matches, and what its rows mean."""
        expression = expression_of(filter)

        def steps() -> Steps[Any]:
            if expression == FALSE:
                return denied
            target = yield from self._known_target()
            rows = (yield statement(target, expression)).rows
            return (yield from beside(lambda: result(rows), len(rows)))

        return Operation(steps)

    # Removing. Who waits for a writer of the same rows must see what that writer left: calls by document or id wait
    # before they look, calls by filter look again where rows went away while they waited.

    def _delete(self, ids: Sequence[str], within: AnyFilter | None) -> Operation:
        wanted, bound = check_ids(ids), expression_of(within)
        documents = [document_id_of(key) for key in wanted]
        return self._removal(documents, lambda target: statements.delete(target, wanted, bound), bound == FALSE)

    def _remove(self, document_id: str, within: AnyFilter | None) -> Operation:
        documents, bound = [check_id(document_id, argument="document_id")], expression_of(within)
        return self._removal(
            documents, lambda target: statements.remove_documents(target, documents, bound), bound == FALSE
        )

    def _removal(self, documents: list[str], statement: Callable[[Target], Any], denied: bool) -> Operation:
        nothing = denied or not documents

        def steps() -> Steps[int]:
            if nothing:
                return 0
            target = yield from self._known_target()
            yield statements.lock_documents(target, documents)
            answer = yield statement(target)
            self._selectivity.forget()
            return int(answer.count)

        return Operation(steps, writes=not nothing)

    def _remove_where(self, filter: AnyFilter) -> Operation:
        expression = removal_filter(filter)

        def steps() -> Steps[int]:
            if expression == FALSE:
                return 0
            target = yield from self._known_target()
            removed = 0
            for _ in range(_MOST_ROUNDS):
                seen, gone = (yield statements.remove_where(target, expression)).rows[0]
                removed += gone
                if seen == gone:
                    break
            self._selectivity.forget()
            return removed

        return Operation(steps, writes=expression != FALSE)

    # Writing.

    def _upsert(self, records: Iterable[VectorRecord], within: AnyFilter | None) -> Operation:
        bound = expression_of(within)
        batches, replayable = self._batches(records, bound)

        def steps() -> Steps[int]:
            target = yield from self._known_target()
            return (yield from self._write(target, batches(), bound))

        return Operation(steps, writes=True, replayable=replayable)

    def _replace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], within: AnyFilter | None
    ) -> Operation:
        documents, bound = check_ids(document_ids, argument="document_ids"), expression_of(within)
        batches, replayable = self._batches(records, bound)

        def steps() -> Steps[int]:
            target = yield from self._known_target()
            if documents:
                yield statements.lock_documents(target, documents)
                yield statements.remove_documents(target, documents, bound)
            self._selectivity.forget()
            return (yield from self._write(target, batches(), bound))

        return Operation(steps, writes=True, replayable=replayable)

    def _update_metadata(self, document_id: str, patch: MetadataPatch, within: AnyFilter | None) -> Operation:
        document, bound = check_id(document_id, argument="document_id"), expression_of(within)
        effective = validate_patch(patch)
        nothing = not effective or bound == FALSE

        def steps() -> Steps[int]:
            if nothing:
                return 0
            target = yield from self._known_target()
            yield statements.lock_documents(target, [document])
            answer = yield patching.update_metadata(target, document, effective, bound)
            if not all(row[0] for row in answer.rows):
                raise ScopeViolationError(
                    f"the patch would move a chunk of document {document!r} out of the scope; nothing was written"
                )
            self._selectivity.forget()
            return int(answer.count)

        return Operation(steps, writes=not nothing)

    def _write(self, target: Target, batches: Iterator[RecordBatch], bound: Expression | None) -> Steps[int]:
        texts = self._texts
        after = None if texts is None else lambda batch: texts.index(target, batch)
        written = yield from loading.write(target, batches, bound, single=self._upsert_batch_size, after=after)
        if written >= search.EXACT_ROWS_UNFILTERED:
            self._selectivity.forget()
        return written

    def _batches(
        self, records: Iterable[VectorRecord], bound: Expression | None
    ) -> tuple[Callable[[], Iterator[RecordBatch]], bool]:
        """Return a function that gives the records in checked batches, and whether it may be called again.

        Up to one batch is checked here and now. More are checked as they are sent, within the transaction.
        """
        if isinstance(records, (str, bytes, Mapping, VectorRecord)) or not isinstance(records, Iterable):
            prepare_records(records, dimension=self._layout.dimension)
        replayable = isinstance(records, (list, tuple))
        # A list is kept as it is now, for a retry reads it again.
        source: Sequence[VectorRecord] | Iterator[VectorRecord] = list(records) if replayable else iter(records)
        head = list(itertools.islice(source, _LOAD + 1)) if not replayable else source
        if isinstance(head, list) and len(head) <= _LOAD:
            batch = self._prepared(head, bound)
            return lambda: iter((batch,)), True
        if replayable:
            return lambda: self._prepare_each(iter(source), bound), True
        return lambda: self._prepare_each(itertools.chain(head, source), bound), False

    def _prepare_each(self, records: Iterator[VectorRecord], bound: Expression | None) -> Iterator[RecordBatch]:
        while some := list(itertools.islice(records, _LOAD)):
            yield self._prepared(some, bound)

    def _prepared(self, records: Sequence[VectorRecord], bound: Expression | None) -> RecordBatch:
        batch = prepare_records(records, dimension=self._layout.dimension)
        check_storable(batch, half=self._layout.storage == "halfvec" or self._layout.half_index)
        if bound is not None:
            holds = predicate(bound)
            for record_id, metadata in zip(batch.ids, batch.metadata, strict=True):
                if not holds(metadata or {}):
                    raise out_of_scope(record_id)
        return batch if self._texts is None else self._texts.analysed(batch)


def expression_of(filter: AnyFilter | None) -> Expression | None:
    """Return the internal form; what matches everything is no filter."""
    expression = None if filter is None else compile_filter(filter)
    return None if expression == TRUE else expression


def _version(number: int) -> str:
    """Return the server's version from its number: 180001 is 18.1."""
    return f"{number // 10_000}.{number % 10_000}"
