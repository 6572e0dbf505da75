"""`PgVectorStore`: records in one PostgreSQL table with pgvector."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, TypeVar

from agora_core.errors import AgoraError, InvalidArgumentError
from agora_core.stores.postgres.connections import Connections, Operation, Source
from agora_core.stores.postgres.dense import Selectivity
from agora_core.stores.postgres.embedded import EmbeddedServer
from agora_core.stores.postgres.layout import METRICS, IndexKind, Layout, Metric, PgVectorColumns, Storage
from agora_core.stores.postgres.maintenance import check_swap, swap
from agora_core.stores.postgres.row_security import PgRowSecurity
from agora_core.stores.postgres.search import LARGEST_EF
from agora_core.validation import check_dimension, check_top_k

StoreT = TypeVar("StoreT", bound="PgVectorStore")


class PgVectorStore(PgRowSecurity):
    """Records in a PostgreSQL table with pgvector: PostgreSQL 14 or later, pgvector 0.7 or later (0.8 is much faster).

    One object serves sync and async code, in any number of threads and event loops. Nothing is connected before the
    first call and no connection is held between calls. See docs/postgres.md for sizing and operation.

    Examples:
        >>> with PgVectorStore(conninfo, table="facts", dimension=2) as vectors:
        ...     vectors.ensure_schema()
        ...     vectors.upsert([VectorRecord("faq#0", "Returns are free.", [1.0, 0.0], metadata={"year": 2024})])
        ...     vectors.search([1.0, 0.0], top_k=1, filter=field("year") >= 2020)[0].id
        1
        'faq#0'
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
        self._upsert_batch_size = check_top_k(upsert_batch_size, argument="upsert_batch_size")
        self._ef_search = ef_search
        self._probes = None if ivfflat_probes is None else check_top_k(ivfflat_probes, argument="ivfflat_probes")
        self._selectivity = Selectivity()
        self._known = {}
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
    def conninfo(self) -> str:
        """The connection string, for another tool; its `repr` shows no password. Empty where a pool tells none."""
        return self._connections.conninfo

    @property
    def table(self) -> str:
        """The name of the table, without its schema."""
        return self._layout.table

    def _text_search(self) -> str | None:
        """The text search configuration; None for a store that does not search texts."""
        return None

    # Running.

    def _run(self, operation: Operation) -> Any:
        try:
            return self._connections.run(operation, self._actor)
        except AgoraError as error:
            if operation.otherwise is None:
                raise
            return operation.otherwise(error)

    async def _arun(self, operation: Operation) -> Any:
        try:
            return await self._connections.arun(operation, self._actor)
        except AgoraError as error:
            if operation.otherwise is None:
                raise
            return operation.otherwise(error)

    def swap_tables(self, into: PgVectorStore) -> None:
        """Let this store's table and that of `into` change names, in one transaction, indexes and text index included.

        After `reembed(store, embedder, into=into)` whoever opens the old name finds the new vectors. The two store
        objects keep the names that they were opened with: each now stands on the other's rows.

        Raises:
            InvalidArgumentError: both are one table, or lie in two schemas.
        """
        self._run(self._swapping(into))
        self._swapped(into)

    async def aswap_tables(self, into: PgVectorStore) -> None:
        """Async twin of `swap_tables`."""
        await self._arun(self._swapping(into))
        self._swapped(into)

    def _swapping(self, into: PgVectorStore) -> Operation:
        check_swap(self._layout, into._layout)
        return Operation(lambda: swap(self._layout, into._layout), writes=True)

    def _swapped(self, into: PgVectorStore) -> None:
        for store in (self, into):
            store._recheck()
            store._model = None

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
