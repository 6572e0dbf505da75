"""A vector store's nodes where LlamaIndex looks for documents, so that none have to be kept twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llama_index.core.schema import BaseNode
from llama_index.core.storage.docstore import SimpleDocumentStore

if TYPE_CHECKING:
    from llamaindex_agora.vectorstore import AgoraVectorStore


class StoredNodes(SimpleDocumentStore):
    """Reads nodes by id from a vector store, within its bounds; what is added here besides stays in memory.

    It serves `PrevNextNodePostprocessor` and `AutoMergingRetriever`, as the docstore of a storage context too. A node
    that is missing, or that a scope hides, raises as it does with LlamaIndex's own; `agora_core.ExpandingRetriever`
    ends the window there instead.
    """

    def __init__(self, vectors: AgoraVectorStore) -> None:
        """Take the vector store that has the nodes."""
        super().__init__()
        self._vectors = vectors

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows this class."""
        return "StoredNodes"

    def get_document(self, doc_id: str, raise_error: bool = True) -> BaseNode | None:
        """Return a node; see `BaseDocumentStore.get_document`."""
        found = self._vectors.get_nodes([doc_id])
        return found[0] if found else super().get_document(doc_id, raise_error)

    async def aget_document(self, doc_id: str, raise_error: bool = True) -> BaseNode | None:
        """Async twin of `get_document`."""
        found = await self._vectors.aget_nodes([doc_id])
        return found[0] if found else await super().aget_document(doc_id, raise_error)

    def document_exists(self, doc_id: str) -> bool:
        """Say whether there is a node of this id."""
        return self.get_document(doc_id, raise_error=False) is not None

    async def adocument_exists(self, doc_id: str) -> bool:
        """Async twin of `document_exists`."""
        return await self.aget_document(doc_id, raise_error=False) is not None
