"""What a store does, as operations: generators of statements, written once and run in either colour."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from agora_core.errors import ScopeViolationError, out_of_scope
from agora_core.filters import FALSE, TRUE, Expression, compile_filter, predicate, removal_filter
from agora_core.metadata import MetadataPatch, validate_patch
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, IndexedDocument, Passage, VectorRecord
from agora_core.stores.postgres import loading, search, statements
from agora_core.stores.postgres.catalog import catalog_statement, check_table, read_catalog
from agora_core.stores.postgres.connections import Operation
from agora_core.stores.postgres.dense import DenseSearch
from agora_core.stores.postgres.json_text import from_json_text
from agora_core.stores.postgres.layout import Layout
from agora_core.stores.postgres.requests import Steps
from agora_core.stores.postgres.rows import check_storable, passage, vector_record
from agora_core.stores.postgres.selectivity import Selectivity
from agora_core.stores.postgres.statements import Target
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


class Operations:
    """The operations on one table. Arguments are checked when an operation is made, before anything is connected."""

    def __init__(
        self,
        layout: Layout,
        *,
        upsert_batch_size: int,
        ef_search: int | None,
        probes: int | None,
        text_search: str | None,
    ) -> None:
        self.layout = layout
        self.upsert_batch_size = upsert_batch_size
        self.text_search = text_search
        self._ef_search = ef_search
        self._probes = probes
        self._target: tuple[Target, float] | None = None
        self.selectivity = Selectivity()

    # What is there.

    def target(self) -> Steps[Target]:
        """Return the table as the catalog has it, looked up at most once a minute."""
        known = self._target
        if known is not None and known[1] > time.monotonic():
            return known[0]
        answer = yield catalog_statement(self.layout)
        catalog = read_catalog(answer.rows[0], self.layout, text_search=self.text_search)
        check_table(catalog, self.layout)
        target = Target(self.layout, catalog)
        self._target = (target, time.monotonic() + _CATALOG_SECONDS)
        return target

    def look_again(self) -> None:
        """Forget the catalog, after something that changes it."""
        self._target = None
        self.selectivity.forget()

    # Reading.

    def search(
        self, embedding: Embedding, *, top_k: int, filter: AnyFilter | None, min_score: float | None
    ) -> Operation:
        """The best rows of a vector search."""
        vector = prepare_embedding(embedding, dimension=self.layout.dimension)
        most, floor, expression = check_top_k(top_k), check_min_score(min_score), expression_of(filter)

        def steps() -> Steps[list[Passage]]:
            if expression == FALSE:
                return []
            target = yield from self.target()
            walk = self.walk(target, expression, vector, most)
            rows = yield from walk.finished((yield walk.statement))
            # The rows come by falling score, so the floor cuts off an end of them; inside the statement it would make
            # the index scan go on in vain.
            return [passage(row) for row in rows if floor is None or row[4] >= floor]

        return Operation(steps)

    def walk(self, target: Target, filter: Expression | None, embedding: Float32Array, top_k: int) -> DenseSearch:
        """Begin a vector search; see `DenseSearch`."""
        return DenseSearch(
            target,
            filter,
            embedding,
            top_k,
            selectivity=self.selectivity,
            ef_search=self._ef_search,
            probes=self._probes,
        )

    def get(self, ids: Sequence[str], within: AnyFilter | None) -> Operation:
        """Records by id, in the order asked."""
        wanted, bound = check_ids(ids), expression_of(within)

        def steps() -> Steps[list[VectorRecord]]:
            if not wanted or bound == FALSE:
                return []
            target = yield from self.target()
            answer = yield statements.get(target, wanted, bound)
            found = {row[0]: row for row in answer.rows}
            return [vector_record(found[key], self.layout.storage) for key in wanted if key in found]

        return Operation(steps)

    def scan_page(self, filter: Expression | None, after: str | None) -> Operation:
        """The records that come next in a scan; an empty page is the end."""

        def steps() -> Steps[list[VectorRecord]]:
            if filter == FALSE:
                return []
            target = yield from self.target()
            answer = yield statements.scan_page(target, filter, after, _SCAN_PAGE)
            return [vector_record(row, self.layout.storage) for row in answer.rows]

        return Operation(steps)

    def count(self, filter: AnyFilter | None) -> Operation:
        """How many records match."""
        expression = expression_of(filter)

        def steps() -> Steps[int]:
            if expression == FALSE:
                return 0
            target = yield from self.target()
            answer = yield statements.count(target, expression)
            return int(answer.rows[0][0])

        return Operation(steps)

    def list_documents(self, filter: AnyFilter | None) -> Operation:
        """Documents with a matching chunk."""
        expression = expression_of(filter)

        def steps() -> Steps[list[IndexedDocument]]:
            if expression == FALSE:
                return []
            target = yield from self.target()
            answer = yield statements.list_documents(target, expression)
            return [IndexedDocument(row[0], from_json_text(row[1])) for row in answer.rows]

        return Operation(steps)

    def list_document_ids(self, filter: AnyFilter | None) -> Operation:
        """Ids of documents with a matching chunk."""
        expression = expression_of(filter)

        def steps() -> Steps[list[str]]:
            if expression == FALSE:
                return []
            target = yield from self.target()
            answer = yield statements.list_document_ids(target, expression)
            return [row[0] for row in answer.rows]

        return Operation(steps)

    # Removing.

    def delete(self, ids: Sequence[str], within: AnyFilter | None) -> Operation:
        """Delete by id."""
        wanted, bound = check_ids(ids), expression_of(within)
        return self._removal(lambda target: statements.delete(target, wanted, bound), not wanted or bound == FALSE)

    def remove(self, document_id: str, within: AnyFilter | None) -> Operation:
        """Delete a document's chunks."""
        document, bound = check_id(document_id, argument="document_id"), expression_of(within)
        return self._removal(lambda target: statements.remove_documents(target, [document], bound), bound == FALSE)

    def remove_where(self, filter: AnyFilter) -> Operation:
        """Delete what matches."""
        expression = removal_filter(filter)
        return self._removal(lambda target: statements.remove_where(target, expression), expression == FALSE)

    def _removal(self, statement: Callable[[Target], Any], nothing: bool) -> Operation:
        def steps() -> Steps[int]:
            if nothing:
                return 0
            target = yield from self.target()
            answer = yield statement(target)
            self.selectivity.forget()
            return answer.count

        return Operation(steps, writes=not nothing)

    # Writing.

    def upsert(self, records: Iterable[VectorRecord], within: AnyFilter | None) -> Operation:
        """Insert or replace records."""
        bound = expression_of(within)
        batches, replayable = self._batches(records, bound)

        def steps() -> Steps[int]:
            target = yield from self.target()
            return (yield from self._write(target, batches(), bound))

        return Operation(steps, writes=True, replayable=replayable)

    def replace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], within: AnyFilter | None
    ) -> Operation:
        """Put records in the place of documents."""
        documents, bound = check_ids(document_ids, argument="document_ids"), expression_of(within)
        batches, replayable = self._batches(records, bound)

        def steps() -> Steps[int]:
            target = yield from self.target()
            if documents:
                yield statements.lock_documents(target, statements.lock_buckets(documents))
                yield statements.remove_documents(target, documents, bound)
            self.selectivity.forget()
            return (yield from self._write(target, batches(), bound))

        return Operation(steps, writes=True, replayable=replayable)

    def update_metadata(self, document_id: str, patch: MetadataPatch, within: AnyFilter | None) -> Operation:
        """Patch a document's chunks."""
        document, bound = check_id(document_id, argument="document_id"), expression_of(within)
        effective = validate_patch(patch)
        nothing = not effective or bound == FALSE

        def steps() -> Steps[int]:
            if nothing:
                return 0
            target = yield from self.target()
            answer = yield statements.update_metadata(target, document, effective, bound)
            if not all(row[0] for row in answer.rows):
                raise ScopeViolationError(
                    f"the patch would move a chunk of document {document!r} out of the scope; nothing was written"
                )
            self.selectivity.forget()
            return answer.count

        return Operation(steps, writes=not nothing)

    def _write(self, target: Target, batches: Iterator[RecordBatch], bound: Expression | None) -> Steps[int]:
        written = yield from loading.write(target, batches, bound, single=self.upsert_batch_size)
        if written >= search.EXACT_ROWS_UNFILTERED:
            self.selectivity.forget()
        return written

    def _batches(
        self, records: Iterable[VectorRecord], bound: Expression | None
    ) -> tuple[Callable[[], Iterator[RecordBatch]], bool]:
        """Return a function that gives the records in checked batches, and whether it may be called again.

        Up to one batch is checked here and now. More are checked as they are sent, within the transaction.
        """
        if isinstance(records, (str, bytes, Mapping, VectorRecord)) or not isinstance(records, Iterable):
            prepare_records(records, dimension=self.layout.dimension)
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
        batch = prepare_records(records, dimension=self.layout.dimension)
        check_storable(batch, half=self.layout.storage == "halfvec" or self.layout.half_index)
        if bound is not None:
            holds = predicate(bound)
            for record_id, metadata in zip(batch.ids, batch.metadata, strict=True):
                if not holds(metadata or {}):
                    raise out_of_scope(record_id)
        return batch


def expression_of(filter: AnyFilter | None) -> Expression | None:
    """Return the internal form; what matches everything is no filter."""
    expression = None if filter is None else compile_filter(filter)
    return None if expression == TRUE else expression
