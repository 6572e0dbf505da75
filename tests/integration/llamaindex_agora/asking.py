"""Nodes and questions of the tests of the neighbours' faults."""

from __future__ import annotations

from typing import Any

from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

from tests.contract.llamaindex.stores import Colour
from tests.integration.llamaindex_agora.scripted import DIMENSION

HYBRID, TEXT, MMR = VectorStoreQueryMode.HYBRID, VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.MMR


def vector(*values: float) -> list[float]:
    return [*values, *([0.0] * (DIMENSION - len(values)))]


def node(id: str, text: str = "", *values: float, source: str = "doc", **metadata: Any) -> TextNode:
    return TextNode(
        id_=id,
        text=text or f"text of {id}",
        metadata=metadata,
        embedding=vector(*(values or (1.0,))),
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=source)},
    )


def ids(nodes: list[NodeWithScore]) -> list[str]:
    return [found.node.node_id for found in nodes]


def ask(store: Colour, **options: Any) -> Any:
    return store.query(VectorStoreQuery(**{"query_embedding": vector(1.0), "similarity_top_k": 10, **options}))
