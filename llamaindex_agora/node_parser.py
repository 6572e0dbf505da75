"""The core's chunking as a LlamaIndex node parser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import Field
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, TextNode
from llama_index.core.utils import get_tqdm_iterable

from agora_core.chunking import Chunker, document_cutter
from agora_core.errors import InvalidArgumentError
from agora_core.records import IngestDocument


class AgoraNodeParser(NodeParser):
    """Cuts documents into nodes whose ids are the core's chunk ids, `{document id}#{n}`, with source relations.

    The same document cut again gives the same ids, so that adding its nodes again replaces them.

    Args:
        chunk_size: characters per node at most, in code points.
        overlap: characters that neighbours share; None is 100, or an eighth of a small `chunk_size`.
        separator: cut between records only, e.g. `"\\n"` for lines; None cuts prose.
        chunker: a chunker of the core, instead of the sizes; what it knows of a chunk is added to the node's metadata.

    Examples:
        >>> [node.node_id for node in AgoraNodeParser()([Document(id_="faq", text="Returns are free.")])]
        ['faq#0']
    """

    chunk_size: int = Field(default=800, description="Characters per node at most.")
    overlap: int | None = Field(default=None, description="Characters that neighbours share.")
    separator: str | None = Field(default=None, description="What stands between records; None for prose.")
    chunker: Any = Field(default=None, description="A chunker of the core; None for prose.", exclude=True)

    def __init__(
        self,
        *,
        chunk_size: int = 800,
        overlap: int | None = None,
        separator: str | None = None,
        chunker: Chunker | None = None,
        **kwargs: Any,
    ) -> None:
        """Check the sizes.

        Raises:
            InvalidArgumentError: a size is out of its range, a chunker is given together with sizes, or an argument is
                not known.
        """
        unknown = sorted(set(kwargs) - set(type(self).model_fields))
        if unknown:
            raise InvalidArgumentError(f"AgoraNodeParser got the unknown argument {unknown[0]!r}")
        fields: dict[str, Any] = {
            "chunk_size": chunk_size,
            "overlap": overlap,
            "separator": separator,
            "chunker": chunker,
        }
        document_cutter(**fields)
        super().__init__(**fields, **kwargs)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows this class."""
        return "AgoraNodeParser"

    def _parse_nodes(self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any) -> list[BaseNode]:
        parsed: list[BaseNode] = []
        cut = document_cutter(
            chunk_size=self.chunk_size, overlap=self.overlap, separator=self.separator, chunker=self.chunker
        )
        for node in get_tqdm_iterable(nodes, show_progress, "Cutting documents"):
            name = node.metadata.get("file_name")
            text = node.get_content(metadata_mode=MetadataMode.NONE)
            parsed += [
                TextNode(
                    id_=chunk.id,
                    text=chunk.text,
                    metadata={**(chunk.metadata or {}), **(node.metadata if self.include_metadata else {})},
                    excluded_embed_metadata_keys=node.excluded_embed_metadata_keys,
                    excluded_llm_metadata_keys=node.excluded_llm_metadata_keys,
                    relationships={NodeRelationship.SOURCE: node.source_node or node.as_related_node_info()},
                )
                for chunk in cut(IngestDocument(node.node_id, text, name if isinstance(name, str) else None))
            ]
        return parsed
