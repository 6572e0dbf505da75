"""Nodes as records of the core, and back.

A record keeps the node's id, text and metadata live, so that filters and patches of the core and the nodes that come
back cannot disagree. What else a node holds stands under private metadata keys.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MetadataMode,
    Node,
    NodeWithScore,
    TextNode,
)

from agora_core.coercion import coerce_metadata, coerce_text
from agora_core.errors import InvalidArgumentError, InvalidMetadataError
from agora_core.metadata import clone_metadata
from agora_core.records import JSON, Passage, VectorRecord

NODE_KEY: Final = "_agora_node"
NODE_ID_KEY: Final = "_agora_node_id"
REF_DOC_KEY: Final = "_agora_ref_doc_id"
PRIVATE_KEYS: Final = frozenset((NODE_KEY, NODE_ID_KEY, REF_DOC_KEY))
_SOURCE_KEYS: Final = ("source", "file_name", "file_path")
_OWN: Final[Mapping[str | None, type[BaseNode]]] = {
    cls.class_name(): cls for cls in (TextNode, Node, ImageNode, IndexNode, Document, ImageDocument)
}


def refuse_private_keys(metadata: Mapping[str, Any], *, where: str) -> None:
    """Refuse metadata that uses the names this adapter keeps for itself.

    Raises:
        InvalidMetadataError: it does.
    """
    taken = sorted(PRIVATE_KEYS.intersection(metadata))
    if taken:
        raise InvalidMetadataError(f"{where} has the key {taken[0]!r}, which this adapter keeps for itself; rename it")


def record_parts(node: BaseNode, *, coerce: bool = False) -> tuple[str, str, str | None, dict[str, JSON]]:
    """Return (id, text, source, metadata) of a node as the core stores them.

    Args:
        node: is not changed.
        coerce: make JSON of what is nearly JSON, see `agora_core.coercion`.

    Raises:
        InvalidMetadataError: the node's metadata uses a private key.
    """
    refuse_private_keys(node.metadata, where=f"node {node.node_id!r}: metadata")
    if coerce:
        node = _coerced(node)
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    rest = node.model_dump(mode="json", exclude={"id_", "metadata", "embedding"}, exclude_defaults=True)
    if rest.get("text") == text:
        del rest["text"]
    resource = rest.get("text_resource")
    if isinstance(resource, dict) and resource.get("text") == text:
        resource["text"] = None
    for related in _relations(rest):
        if related.get("metadata", {}) == node.metadata:
            # Their parsers copy a document's metadata into every relation, where a patch would not reach it.
            related["metadata"] = None
    # The id stands in the metadata as well, because a filter is what a backend restricts a search by.
    metadata = {**node.metadata, NODE_KEY: json.dumps(rest, ensure_ascii=False), NODE_ID_KEY: node.node_id}
    if node.ref_doc_id is not None:
        metadata[REF_DOC_KEY] = node.ref_doc_id
    source = next((node.metadata[key] for key in _SOURCE_KEYS if isinstance(node.metadata.get(key), str)), None)
    return node.node_id, coerce_text(text) if coerce else text, source, metadata


def _coerced(node: BaseNode) -> BaseNode:
    """Return a node whose metadata, and that of its relations, is JSON where it can be."""
    relations: dict[Any, Any] = {}
    for kind, related in node.relationships.items():
        one = related if isinstance(related, list) else [related]
        plain = [each.model_copy(update={"metadata": coerce_metadata(each.metadata)}) for each in one]
        relations[kind] = plain if isinstance(related, list) else plain[0]
    return node.model_copy(update={"metadata": coerce_metadata(node.metadata), "relationships": relations})


def to_record(node: BaseNode, *, coerce: bool = False) -> VectorRecord:
    """Return a node with its embedding as a record; see `record_parts`.

    Raises:
        InvalidArgumentError: the node has no embedding.
        InvalidMetadataError: the node's metadata uses a private key.
    """
    if node.embedding is None:
        raise InvalidArgumentError(
            f"node {node.node_id!r} has no embedding; embed it first, or add it through a VectorStoreIndex"
        )
    id, text, source, metadata = record_parts(node, coerce=coerce)  # noqa: A001
    return VectorRecord(id, text, node.embedding, source, metadata)


def to_node(id: str, text: str, metadata: Mapping[str, JSON] | None, source: str | None = None) -> BaseNode:
    """Return the node of a record; one that was not written by this adapter becomes a TextNode.

    What else a node held is data of the record, and whoever wrote that may have written anything: id, text and metadata
    are the record's in any case, no local file is named, and what makes no node is left out.
    """
    shown = shown_metadata(metadata)
    blob = (metadata or {}).get(NODE_KEY)
    if isinstance(blob, str):
        with contextlib.suppress(ValueError, TypeError, AttributeError, KeyError, RecursionError):
            node = _restored(json.loads(blob), id, text, shown)
            if (node.node_id, node.get_content(metadata_mode=MetadataMode.NONE)) == (id, text):
                return node
    elif source is not None:
        shown.setdefault("source", source)
    return TextNode(id_=id, text=text, metadata=shown)


def shown_metadata(metadata: Mapping[str, JSON] | None) -> dict[str, JSON]:
    """Return metadata without the keys that this adapter keeps for itself."""
    return {key: value for key, value in (metadata or {}).items() if key not in PRIVATE_KEYS}


def _restored(rest: dict[str, Any], id: str, text: str, shown: dict[str, JSON]) -> BaseNode:
    cls = _class_named(rest.pop("class_name", None))
    rest.pop("embedding", None)
    # A path in a record would make whoever resolves the node read a file of this machine.
    rest.pop("image_path", None)
    for resource in rest.values():
        if isinstance(resource, dict):
            resource.pop("path", None)
    rest["id_"] = id
    rest["metadata"] = shown
    for related in _relations(rest):
        if related.get("metadata", shown) is None:
            related["metadata"] = clone_metadata(shown)
    if isinstance(rest.get("text_resource"), dict):
        rest["text_resource"]["text"] = text
    elif issubclass(cls, TextNode):
        rest["text"] = text
    return cls.model_validate(rest)


def passage_to_node(passage: Passage) -> NodeWithScore:
    """Return a retrieved passage as a fresh node with its score."""
    metadata = passage.metadata
    stored = metadata.stored if isinstance(metadata, NodeMetadata) else metadata
    node = to_node(passage.id, passage.text, stored, passage.source)
    return NodeWithScore(node=node, score=passage.score)


class NodeMetadata(dict[str, JSON]):
    """A node's metadata as any leg may see it, and aside what `passage_to_node` makes the same node of."""

    stored: Mapping[str, JSON]


def node_to_passage(found: NodeWithScore) -> Passage:
    """Return a node of theirs as a passage that `passage_to_node` makes the same node of; no score counts as 0."""
    id, text, source, stored = record_parts(found.node, coerce=True)  # noqa: A001
    metadata = NodeMetadata(shown_metadata(stored))
    metadata.stored = stored
    return Passage(id, text, 0.0 if found.score is None else float(found.score), source, metadata)


def record_to_node(record: VectorRecord) -> BaseNode:
    """Return a stored record as a node with its embedding."""
    node = to_node(record.id, record.text, record.metadata, record.source)
    node.embedding = [float(value) for value in record.embedding]
    return node


def _relations(rest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for related in rest.get("relationships", {}).values():
        yield from related if isinstance(related, list) else [related]


def _class_named(name: str | None) -> type[BaseNode]:
    if name in _OWN:
        return _OWN[name]
    return next((cls for cls in _subclasses(_OWN.values()) if cls.class_name() == name), TextNode)


def _subclasses(classes: Iterable[type[BaseNode]]) -> Iterator[type[BaseNode]]:
    for cls in classes:
        yield from cls.__subclasses__()
        yield from _subclasses(cls.__subclasses__())
