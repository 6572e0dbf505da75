"""`PgVectorStore`: records in one PostgreSQL table with pgvector."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from agora_core.errors import InvalidArgumentError
from agora_core.filters import Expression, compile_filter
from agora_core.metadata import MetadataPatch
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, IndexedDocument, Passage, VectorRecord
from agora_core.stores.base import BaseVectorStore
from agora_core.stores.postgres import maintenance, schema
from agora_core.stores.postgres.connections import Connections, Operation, Source
from agora_core.stores.postgres.embedded import EmbeddedServer
from agora_core.stores.postgres.layout import METRICS, IndexKind, Layout, Metric, PgVectorColumns, Storage
from agora_core.stores.postgres.operations import Operations
from agora_core.stores.postgres.search import LARGEST_EF
from agora_core.validation import check_dimension, check_top_k

StoreT = TypeVar("StoreT", bound="PgVectorStore")

_POLL_SECONDS: Final = 0.5


class PgVectorStore(BaseVectorStore):
    """Records in a PostgreSQL table with pgvector: PostgreSQL 14 or later, pgvector 0.7 or later (0.8 is much faster).

    One object serves sync and async code, in any number of threads and event loops. Nothing is connected before the
    first call and no connection is held between calls. See docs/postgres.md for sizing and operation.
    """

    metric: str
    dimension: int

    def __init__(
        self,
        conninfo: Source,
        *,
        table: str = "agent_rag_chunks",
        schema: str | None = None,
        dimension: int = 1536,
        metric: Metric = "cosine",
        columns: PgVectorColumns | None = None,
        storage: Storage = "vector",
        index: IndexKind | None = "hnsw",
        hnsw_m: int | None = None,
        hnsw_ef_construction: int | None = None,
        ef_search: int | None = None,
        ivfflat_lists: int | None = None,
        ivfflat_probes: int | None = None,
        upsert_batch_size: int = 100,
        max_connections: int = 10,
        pool_timeout: float = 30.0,
    ) -> None:
        """Describe the store; nothing is connected.

        Args:
            conninfo: a connection string, or a psycopg pool or connection, sync or async. Pools made from a string are
                closed with the store; what is handed in is not. A sync pool or connection serves async methods from
                a worker thread; with an async one the sync methods are refused.
            table: its name, without schema.
            schema: the PostgreSQL schema; None takes the first of the search_path.
            dimension: the length of embeddings, at most 16,000; 4,000 with an index.
            metric: `cosine` (score `1 - distance`), `l2` (`-distance`) or `inner` (the inner product).
            columns: the names of the columns, for a table made by something else.
            storage: `vector` keeps float32, `halfvec` half precision in half the space.
            index: `hnsw`, `ivfflat`, None for none; `after` is HNSW that only `build_index` builds, after a bulk load.
            hnsw_m: links of a node; None is pgvector's 16.
            hnsw_ef_construction: candidates while building; None is pgvector's 64.
            ef_search: the least candidates of a search; what a search needs beyond that is found by itself.
            ivfflat_lists: None is pgvector's 100; rows / 1,000 is advised up to a million rows.
            ivfflat_probes: lists looked at first; None is 10.
            upsert_batch_size: up to this many records go as one INSERT, more through COPY.
            max_connections: of each pool made here (one for threads, one for each event loop).
            pool_timeout: seconds to wait for a free connection.

        Raises:
            InvalidArgumentError: a name or number is out of its range, or the connection string is unreadable.
        """
        if metric not in METRICS:
            raise InvalidArgumentError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
        if storage not in ("vector", "halfvec"):
            raise InvalidArgumentError(f"storage must be 'vector' or 'halfvec', got {storage!r}")
        if index not in ("hnsw", "ivfflat", "after", None):
            raise InvalidArgumentError(f"index must be 'hnsw', 'ivfflat', 'after' or None, got {index!r}")
        if ef_search is not None and check_top_k(ef_search, argument="ef_search") > LARGEST_EF:
            raise InvalidArgumentError(f"ef_search must be at most {LARGEST_EF}, which pgvector takes, got {ef_search}")
        if columns is not None and not isinstance(columns, PgVectorColumns):
            raise InvalidArgumentError(f"columns must be PgVectorColumns, got {type(columns).__name__}")
        options = {"m": hnsw_m, "ef_construction": hnsw_ef_construction}
        if index == "ivfflat":
            options = {"lists": ivfflat_lists}
        layout = Layout(
            table,
            schema,
            columns or PgVectorColumns(),
            check_dimension(dimension),
            metric,
            storage,
            "hnsw" if index == "after" else index,
            {name: check_top_k(value, argument=name) for name, value in options.items() if value is not None},
        )
        self.metric = metric
        self.dimension = layout.dimension
        self._index_later = index == "after"
        self._layout = layout
        self._operations = Operations(
            layout,
            upsert_batch_size=check_top_k(upsert_batch_size, argument="upsert_batch_size"),
            ef_search=ef_search,
            probes=None if ivfflat_probes is None else check_top_k(ivfflat_probes, argument="ivfflat_probes"),
            text_search=self._text_search(),
        )
        self._connections = Connections(
            conninfo,
            max_connections=check_top_k(max_connections, argument="max_connections"),
            pool_timeout=pool_timeout,
        )
        self._server: EmbeddedServer | None = None

    @classmethod
    def embedded(cls: type[StoreT], path: str | Path, **options: Any) -> StoreT:
        """Start PostgreSQL on a folder and open a store in it, its schema made; data stay in the folder.

        Needs the extra `embedded-postgres`. The server stops when the last store on the folder is closed, or with the
        process. Options are those of the class.
        """
        server = EmbeddedServer(path)
        try:
            store = cls(server.conninfo, **options)
            store._server = server
            store.ensure_schema()
        except BaseException:
            server.release()
            raise
        return store

    def __repr__(self) -> str:
        where = self._layout.table if self._layout.schema is None else f"{self._layout.schema}.{self._layout.table}"
        return (
            f"{type(self).__name__}({self._connections.described!r}, table={where!r}, dimension={self.dimension}, "
            f"metric={self.metric!r})"
        )

    @property
    def table(self) -> str:
        """The name of the table, without its schema."""
        return self._layout.table

    def _text_search(self) -> str | None:
        """The text search configuration; None for a store that does not search texts."""
        return None

    # Schema.

    def schema_statements(self) -> list[str]:
        """Return the statements that make the schema of a new table, to read or to run by hand; nothing is run."""
        return schema.schema_statements(
            self._layout, text_search=self._text_search(), with_vector_index=not self._index_later
        )

    def adoption_statement(self) -> str | None:
        """Return the one statement that makes a table of another maker fast; it rewrites the table under a lock.

        Run `ensure_schema` before it, for the function it uses, and after it, for the indexes of the new columns.
        """
        statement = schema.add_columns(self._layout, self._text_search())
        return None if statement is None else statement.as_string(None)

    def ensure_schema(self) -> None:
        """Make what is missing of extension, schema, table and indexes, and check what is there.

        May be called by many processes at once, and by a role that may not create where nothing is missing. A table
        that exists is never rewritten; its missing indexes are built, which blocks writes to it meanwhile.

        Raises:
            SchemaError: something there is not as the store was told, or the role may not make what is missing.
        """
        self._connections.run(maintenance.ensure_schema(self._operations, with_vector_index=not self._index_later))

    async def aensure_schema(self) -> None:
        """Async twin of `ensure_schema`."""
        operation = maintenance.ensure_schema(self._operations, with_vector_index=not self._index_later)
        await self._connections.arun(operation)

    def build_index(
        self,
        *,
        progress: maintenance.Progress | None = None,
        memory_mb: int | None = None,
        concurrently: bool = False,
    ) -> bool:
        """Build the vector index if there is none, then ANALYZE. Return whether it was built now.

        Args:
            progress: called as `progress(phase, done, total)` about twice a second, in this thread.
            memory_mb: maintenance_work_mem for this build; a graph that fits is built many times faster.
            concurrently: do not block writers; takes longer.

        Raises:
            SchemaError: the store has `index=None`.
        """
        operation = maintenance.build_index(self._operations, memory_mb=memory_mb, concurrently=concurrently)
        if progress is None:
            return bool(self._connections.run(operation))
        outcome: list[Any] = []
        done = threading.Event()

        def build() -> None:
            try:
                outcome.append(self._connections.run(operation))
            except BaseException as error:  # it is raised in the caller's thread
                outcome.append(error)
            finally:
                done.set()

        threading.Thread(target=build, name="agora-build-index", daemon=True).start()
        while not done.wait(_POLL_SECONDS):
            if (state := self._connections.run(maintenance.build_progress(self._operations))) is not None:
                progress(*state)
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        progress("done", 1, 1)
        return bool(outcome[0])

    async def abuild_index(
        self,
        *,
        progress: maintenance.Progress | None = None,
        memory_mb: int | None = None,
        concurrently: bool = False,
    ) -> bool:
        """Async twin of `build_index`."""
        operation = maintenance.build_index(self._operations, memory_mb=memory_mb, concurrently=concurrently)
        building = asyncio.ensure_future(self._connections.arun(operation))
        while progress is not None and not building.done():
            await asyncio.wait([building], timeout=_POLL_SECONDS)
            if building.done():
                break
            if (state := await self._connections.arun(maintenance.build_progress(self._operations))) is not None:
                progress(*state)
        built = bool(await building)
        if progress is not None:
            progress("done", 1, 1)
        return built

    # Records. What each method means is said in BaseVectorStore.

    def upsert(self, records: Iterable[VectorRecord], *, within: AnyFilter | None = None) -> int:
        """Upsert in one transaction; an iterator of any length is taken in bounded memory. See `BaseVectorStore`."""
        return int(self._run(self._operations.upsert(records, within)))

    async def aupsert(self, records: Iterable[VectorRecord], *, within: AnyFilter | None = None) -> int:
        """Async twin of `upsert`."""
        return int(await self._arun(self._operations.upsert(records, within)))

    def search(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[Passage]:
        """Search; exact where at most 5,000 records match a filter. See `BaseVectorStore`."""
        return list(self._run(self._operations.search(embedding, top_k=top_k, filter=filter, min_score=min_score)))

    async def asearch(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[Passage]:
        """Async twin of `search`."""
        operation = self._operations.search(embedding, top_k=top_k, filter=filter, min_score=min_score)
        return list(await self._arun(operation))

    def get(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> list[VectorRecord]:
        """Return records by id; embeddings are lists of the float32 values kept. See `BaseVectorStore`."""
        return list(self._run(self._operations.get(ids, within)))

    async def aget(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> list[VectorRecord]:
        """Async twin of `get`."""
        return list(await self._arun(self._operations.get(ids, within)))

    def delete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> int:
        """Delete by id. See `BaseVectorStore`."""
        return int(self._run(self._operations.delete(ids, within)))

    async def adelete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> int:
        """Async twin of `delete`."""
        return int(await self._arun(self._operations.delete(ids, within)))

    def remove(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        """Remove a document's chunks. See `BaseVectorStore`."""
        return int(self._run(self._operations.remove(document_id, within)))

    async def aremove(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        """Async twin of `remove`."""
        return int(await self._arun(self._operations.remove(document_id, within)))

    def remove_where(self, filter: AnyFilter) -> int:
        """Remove what matches, in one DELETE. See `BaseVectorStore`."""
        return int(self._run(self._operations.remove_where(filter)))

    async def aremove_where(self, filter: AnyFilter) -> int:
        """Async twin of `remove_where`."""
        return int(await self._arun(self._operations.remove_where(filter)))

    def replace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], *, within: AnyFilter | None = None
    ) -> int:
        """Replace documents in one transaction. See `BaseVectorStore`."""
        return int(self._run(self._operations.replace_documents(document_ids, records, within)))

    async def areplace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], *, within: AnyFilter | None = None
    ) -> int:
        """Async twin of `replace_documents`."""
        return int(await self._arun(self._operations.replace_documents(document_ids, records, within)))

    def update_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        """Patch in one UPDATE, merged by the database. See `BaseVectorStore`."""
        return int(self._run(self._operations.update_metadata(document_id, patch, within)))

    async def aupdate_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        """Async twin of `update_metadata`."""
        return int(await self._arun(self._operations.update_metadata(document_id, patch, within)))

    def list_documents(self, filter: AnyFilter | None = None) -> list[IndexedDocument]:
        """List documents. See `BaseVectorStore`."""
        return list(self._run(self._operations.list_documents(filter)))

    async def alist_documents(self, filter: AnyFilter | None = None) -> list[IndexedDocument]:
        """Async twin of `list_documents`."""
        return list(await self._arun(self._operations.list_documents(filter)))

    def list_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        """List the ids of documents. See `BaseVectorStore`."""
        return list(self._run(self._operations.list_document_ids(filter)))

    async def alist_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        """Async twin of `list_document_ids`."""
        return list(await self._arun(self._operations.list_document_ids(filter)))

    def count(self, filter: AnyFilter | None = None) -> int:
        """Count exactly. See `BaseVectorStore`."""
        return int(self._run(self._operations.count(filter)))

    async def acount(self, filter: AnyFilter | None = None) -> int:
        """Async twin of `count`."""
        return int(await self._arun(self._operations.count(filter)))

    def scan(self, filter: AnyFilter | None = None) -> Iterator[VectorRecord]:
        """Iterate page by page; no connection is held between pages, so later pages see later writes."""
        expression = None if filter is None else compile_filter(filter)
        return self._scan(expression)

    def _scan(self, filter: Expression | None) -> Iterator[VectorRecord]:
        after: str | None = None
        while page := self._run(self._operations.scan_page(filter, after)):
            yield from page
            after = page[-1].id

    async def ascan(self, filter: AnyFilter | None = None) -> AsyncIterator[VectorRecord]:
        """Async twin of `scan`."""
        expression = None if filter is None else compile_filter(filter)
        after: str | None = None
        while page := await self._arun(self._operations.scan_page(expression, after)):
            for record in page:
                yield record
            after = page[-1].id

    # Running.

    def _run(self, operation: Operation) -> Any:
        return self._connections.run(operation)

    async def _arun(self, operation: Operation) -> Any:
        return await self._connections.arun(operation)

    def close(self) -> None:
        """Close the pools that were opened here, and let go of an embedded server. Closing twice is allowed."""
        self._connections.close()
        if self._server is not None:
            self._server.release()

    async def aclose(self) -> None:
        """Async twin of `close`."""
        await self._connections.aclose()
        if self._server is not None:
            await asyncio.to_thread(self._server.release)
