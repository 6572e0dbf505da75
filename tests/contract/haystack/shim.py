"""A Haystack document store over a store of the core: for their published tests only, and not shipped."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from haystack import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError

from agora_core import VectorRecord, all_of, any_of, field, not_
from agora_core.filters import Expression

DIMENSION = 768
# Their documents may have no embedding; a record of ours always has one.
_NO_EMBEDDING = "_no_embedding"


def to_core_filter(filters: dict[str, Any] | None) -> Expression:
    """Translate their filters: `{"field", "operator", "value"}`, and `{"operator", "conditions"}` around them."""
    if not filters:
        return all_of()
    if "conditions" in filters or "field" not in filters:
        parts = [to_core_filter(condition) for condition in _key(filters, "conditions")]
        operator = _key(filters, "operator")
        if operator not in ("AND", "OR", "NOT"):
            raise FilterError(f"unknown operator {operator!r}")
        return any_of(*parts) if operator == "OR" else all_of(*parts) if operator == "AND" else not_(all_of(*parts))
    place = field(filters["field"].removeprefix("meta."))
    operator, value = _key(filters, "operator"), _key(filters, "value")
    if operator in ("==", "!="):
        # To them a missing key is None.
        equal: Expression = any_of(not_(place.exists()), place.is_null()) if value is None else place == value
        return equal if operator == "==" else not_(equal)
    if operator in ("in", "not in"):
        if not isinstance(value, list):
            raise FilterError(f"{operator} takes a list, got {type(value).__name__}")
        return place.in_(value) if operator == "in" else place.not_in(value)
    if value is None:
        return any_of()
    _check_ordered(value)
    comparisons: dict[str, Expression] = {
        ">": place > value,
        ">=": place >= value,
        "<": place < value,
        "<=": place <= value,
    }
    return comparisons[operator]


def _check_ordered(value: Any) -> None:
    """They order numbers and ISO dates, and refuse other strings."""
    try:
        if isinstance(value, str):
            datetime.fromisoformat(value)
        elif not isinstance(value, (int, float)):
            raise FilterError(f"cannot order {type(value).__name__}")
    except ValueError as error:
        raise FilterError(f"{value!r} is no ISO date") from error


def _key(filters: dict[str, Any], name: str) -> Any:
    if name not in filters:
        raise FilterError(f"{name!r} is missing")
    return filters[name]


class CoreDocumentStore:
    """id as id, content as text, meta as metadata."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def to_dict(self) -> dict[str, Any]:
        return {"type": "CoreDocumentStore", "init_parameters": {}}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CoreDocumentStore:
        raise NotImplementedError("a store of the core is an object and not a configuration")

    def count_documents(self) -> int:
        return int(self.store.count())

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        return int(self.store.count(to_core_filter(filters)))

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        return [_document(record) for record in self.store.scan(to_core_filter(filters))]

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        if not all(isinstance(document, Document) for document in documents):
            raise ValueError("write_documents takes Documents")
        present = {record.id for record in self.store.get([document.id for document in documents])}
        if policy is DuplicatePolicy.FAIL and present:
            raise DuplicateDocumentError(f"already there: {sorted(present)}")
        if policy is DuplicatePolicy.SKIP:
            documents = [document for document in documents if document.id not in present]
        return int(self.store.upsert([_record(document) for document in documents]))

    def delete_documents(self, document_ids: list[str]) -> None:
        self.store.delete(document_ids)

    def delete_all_documents(self, recreate_index: bool = False) -> None:
        self.store.delete([record.id for record in self.store.scan()])

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        return int(self.store.remove_where(to_core_filter(filters)))

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        chosen = to_core_filter(filters)
        ids = self.store.list_document_ids(chosen)
        return sum(self.store.update_metadata(id, meta, within=chosen) for id in ids)


def _record(document: Document) -> VectorRecord:
    embedding, marked = document.embedding, {}
    if embedding is None:
        embedding, marked = [0.0] * DIMENSION, {_NO_EMBEDDING: True}
    return VectorRecord(document.id, document.content or "", embedding, None, {**document.meta, **marked})


def _document(record: VectorRecord) -> Document:
    meta = dict(record.metadata or {})
    embedding = None if meta.pop(_NO_EMBEDDING, False) else [float(value) for value in record.embedding]
    return Document(id=record.id, content=record.text, meta=meta, embedding=embedding)
