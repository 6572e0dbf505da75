"""Where records lie: the table, its columns and its indexes, as checked and quoted names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from psycopg import sql

from agora_core.errors import InvalidArgumentError

Metric = Literal["cosine", "l2", "inner"]
IndexKind = Literal["hnsw", "ivfflat", "after"]
Storage = Literal["vector", "halfvec"]

METRICS: Final[tuple[Metric, ...]] = ("cosine", "l2", "inner")
OPERATORS: Final[Mapping[str, str]] = {"cosine": "<=>", "l2": "<->", "inner": "<#>"}
OPCLASSES: Final[Mapping[str, str]] = {"cosine": "cosine_ops", "l2": "l2_ops", "inner": "ip_ops"}

LARGEST_VECTOR_INDEX: Final = 2_000
LARGEST_INDEX: Final = 4_000
LARGEST_VECTOR: Final = 16_000

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
_LONGEST_IDENTIFIER = 63


def check_identifier(value: Any, *, argument: str) -> str:
    """Return the name of a table, schema, column or text search configuration.

    Names are quoted wherever they are used; the strict rule keeps them readable in every log and tool besides.

    Raises:
        InvalidArgumentError: it is not ASCII letters, digits and underscores, begins with a digit, or is longer than
            the 63 bytes that PostgreSQL keeps.
    """
    if not isinstance(value, str) or not _IDENTIFIER.match(value) or len(value) > _LONGEST_IDENTIFIER:
        shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
        raise InvalidArgumentError(
            f"{argument} must be a name of at most {_LONGEST_IDENTIFIER} ASCII letters, digits and underscores "
            f"that does not begin with a digit, got {shown}"
        )
    return value


@dataclass(frozen=True, slots=True)
class PgVectorColumns:
    """The names of the columns, for a table that was made by something else.

    `id`, `text`, `metadata` and `embedding` have to exist; `source` is None where a table has no such column. `context`
    is needed for records with a context alone, `key_order` keeps the order of metadata keys; `ensure_schema` adds both,
    None does without.
    `document_id`, `tokens` and `text_search` are generated columns that make things fast. They are used
    where the table has them, and everything is answered without them where it has not; None never looks for them.

    Examples:
        >>> columns = PgVectorColumns(id="pk", text="body", source=None, metadata="meta", embedding="vec")
        >>> columns.text
        'body'
    """

    id: str = "id"
    text: str = "text"
    source: str | None = "source"
    metadata: str = "metadata"
    embedding: str = "embedding"
    document_id: str | None = "document_id"
    tokens: str | None = "tokens"
    text_search: str | None = "text_search"
    context: str | None = "agora_context"
    key_order: str | None = "agora_key_order"

    def __post_init__(self) -> None:
        """Check every name."""
        names = [getattr(self, item.name) for item in fields(self)]
        for item, name in zip(fields(self), names, strict=True):
            if name is not None or item.name in ("id", "text", "metadata", "embedding"):
                check_identifier(name, argument=f"columns.{item.name}")
        given = [name for name in names if name is not None]
        if len(set(given)) != len(given):
            raise InvalidArgumentError(f"columns must have names that differ, got {given!r}")


@dataclass(frozen=True, slots=True)
class Layout:
    """A table of records as SQL sees it; everything in it is decided without a connection."""

    table: str
    schema: str | None
    columns: PgVectorColumns
    dimension: int
    metric: Metric
    storage: Storage = "vector"
    index: Literal["hnsw", "ivfflat"] | None = "hnsw"
    index_options: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check names and numbers against each other."""
        check_identifier(self.table, argument="table")
        if self.schema is not None:
            check_identifier(self.schema, argument="schema")
        if self.dimension > LARGEST_VECTOR:
            raise InvalidArgumentError(f"dimension must be at most {LARGEST_VECTOR}, got {self.dimension}")
        if self.index is not None and self.dimension > LARGEST_INDEX:
            raise InvalidArgumentError(
                f"pgvector indexes at most {LARGEST_INDEX} dimensions, got {self.dimension}; pass index=None to search "
                "without an index, or use an embedder with fewer dimensions"
            )

    @property
    def name(self) -> sql.Identifier:
        """The table, quoted, with its schema where one was given."""
        return self.qualified(self.table)

    def qualified(self, name: str) -> sql.Identifier:
        """Return another name in the table's schema, quoted."""
        return sql.Identifier(name) if self.schema is None else sql.Identifier(self.schema, name)

    @property
    def half_index(self) -> bool:
        """Whether the vector index holds half precision over full vectors, and its candidates are scored anew."""
        return self.storage == "vector" and self.dimension > LARGEST_VECTOR_INDEX

    @property
    def vector_type(self) -> sql.SQL:
        """The type of the embedding column, without its dimension."""
        return sql.SQL("halfvec") if self.storage == "halfvec" else sql.SQL("vector")

    @property
    def norm_function(self) -> sql.SQL:
        """The function that gives the length of an embedding."""
        return sql.SQL("l2_norm") if self.storage == "halfvec" else sql.SQL("vector_norm")

    @property
    def opclass(self) -> str:
        """The operator class of the vector index."""
        kind = "halfvec" if self.half_index or self.storage == "halfvec" else "vector"
        return f"{kind}_{OPCLASSES[self.metric]}"

    def index_name(self, suffix: str) -> str:
        """Return the name of one of the table's indexes: unlike any other table's, and never cut by the server."""
        name = f"{self.table}_{suffix}"
        if len(name) <= _LONGEST_IDENTIFIER:
            return name
        digest = hashlib.sha256(self.table.encode()).hexdigest()[:8]
        return f"{self.table[: _LONGEST_IDENTIFIER - len(suffix) - 10]}_{digest}_{suffix}"
