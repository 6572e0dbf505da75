"""A Haystack document store over a store of the core: for their published tests only, and not shipped."""

import operator
from collections.abc import Callable
from datetime import datetime
from typing import Any

from haystack import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError

from agora_core import VectorRecord, all_of, any_of, field, not_
from agora_core.filters import Expression, Field

DIMENSION = 768
_UNEMBEDDED = "_no_embedding"  # Their documents may have no embedding; a record of ours always has one.
_ORDERED = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_COMPARED: dict[str, Callable[..., Expression]] = {
    **_ORDERED,
    "==": operator.eq,
    "!=": operator.ne,
    "in": Field.in_,
    "not in": Field.not_in,
}
_JOINED: dict[str, Callable[..., Expression]] = {
    "AND": all_of,
    "OR": any_of,
    "NOT": lambda *parts: not_(all_of(*parts)),
}


def to_core_filter(filters: Any) -> Expression:
    """Translate their filters: `{"field", "operator", "value"}`, and `{"operator", "conditions"}` around them."""
    try:
        if not filters or "field" not in filters:
            return _JOINED[filters["operator"]](*map(to_core_filter, filters["conditions"])) if filters else all_of()
        place, value = field(filters["field"].removeprefix("meta.")), filters["value"]
        if value is None and "in" not in filters["operator"]:  # To them a missing key is None, which has no order.
            absent = any_of(not_(place.exists()), place.is_null())
            return {"==": absent, "!=": not_(absent)}.get(filters["operator"], any_of())
        if filters["operator"] in _ORDERED and isinstance(value, str):
            datetime.fromisoformat(value)  # They order numbers and ISO dates, and refuse other strings.
        if "in" in filters["operator"] and not isinstance(value, list):
            raise FilterError(f"{filters['operator']} takes a list, got {value!r}")
        return _COMPARED[filters["operator"]](place, value)
    except (KeyError, ValueError) as error:
        raise FilterError(f"not a filter: {filters!r}") from error


class CoreDocumentStore:
    """id as id, content as text, meta as metadata."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.count_documents, self.delete_documents = store.count, store.delete

    def to_dict(self) -> dict[str, Any]:
        return {"type": "CoreDocumentStore", "init_parameters": {}}

    def count_documents_by_filter(self, filters: Any) -> int:
        return int(self.store.count(to_core_filter(filters)))

    def filter_documents(self, filters: Any = None) -> list[Document]:
        return [_document(record) for record in self.store.scan(to_core_filter(filters))]

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        if not all(isinstance(document, Document) for document in documents):
            raise ValueError("write_documents takes Documents")
        present = {record.id for record in self.store.get([document.id for document in documents])}
        if policy is DuplicatePolicy.FAIL and present:
            raise DuplicateDocumentError(f"already there: {sorted(present)}")
        kept = [document for document in documents if policy is not DuplicatePolicy.SKIP or document.id not in present]
        return int(self.store.upsert([_record(document) for document in kept]))

    def delete_all_documents(self, recreate_index: bool = False) -> None:
        self.store.delete([record.id for record in self.store.scan()])

    def delete_by_filter(self, filters: Any) -> int:
        return int(self.store.remove_where(to_core_filter(filters)))

    def update_by_filter(self, filters: Any, meta: dict[str, Any]) -> int:
        ids = self.store.list_document_ids(chosen := to_core_filter(filters))
        return sum(self.store.update_metadata(id, meta, within=chosen) for id in ids)


def _record(document: Document) -> VectorRecord:
    embedding, meta = document.embedding, dict(document.meta)
    if embedding is None:
        embedding, meta[_UNEMBEDDED] = [0.0] * DIMENSION, True
    return VectorRecord(document.id, document.content or "", embedding, None, meta)


def _document(record: VectorRecord) -> Document:
    meta = dict(record.metadata or {})
    embedding = None if meta.pop(_UNEMBEDDED, False) else [float(value) for value in record.embedding]
    return Document(id=record.id, content=record.text, meta=meta, embedding=embedding)
