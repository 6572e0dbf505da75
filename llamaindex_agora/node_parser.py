"""The core's chunking as a LlamaIndex node parser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import Field
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, TextNode
from llama_index.core.utils import get_tqdm_iterable

from agora_core.chunking import check_sizes, chunk_text
from agora_core.errors import InvalidArgumentError


class AgoraNodeParser(NodeParser):
    """Cuts documents into nodes whose ids are the core's chunk ids, `{document id}#{n}`, with source relations.

    The same document cut again gives the same ids, so that adding its nodes again replaces them.

    Args:
        chunk_size: characters per node at most, in code points.
        overlap: characters that neighbours share; None is 100, or an eighth of a small `chunk_size`.
        separator: cut between records only, e.g. `"\\n"` for lines; None cuts prose.
    """

    chunk_size: int = Field(default=800, description="Characters per node at most.")
    overlap: int | None = Field(default=None, description="Characters that neighbours share.")
    separator: str | None = Field(default=None, description="What stands between records; None for prose.")

    def __init__(
        self, *, chunk_size: int = 800, overlap: int | None = None, separator: str | None = None, **kwargs: Any
    ) -> None:
        """Check the sizes.

        Raises:
            InvalidArgumentError: a size is out of its range, or an argument is not known.
        """
        unknown = sorted(set(kwargs) - set(type(self).model_fields))
        if unknown:
            raise InvalidArgumentError(f"AgoraNodeParser got the unknown argument {unknown[0]!r}")
        check_sizes(chunk_size, overlap)
        fields: dict[str, Any] = {"chunk_size": chunk_size, "overlap": overlap, "separator": separator}
        super().__init__(**fields, **kwargs)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows this class."""
        return "AgoraNodeParser"

    def _parse_nodes(self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any) -> list[BaseNode]:
        parsed: list[BaseNode] = []
        for node in get_tqdm_iterable(nodes, show_progress, "Cutting documents"):
            text = node.get_content(metadata_mode=MetadataMode.NONE).replace("\x00", "")
            pieces = chunk_text(text, chunk_size=self.chunk_size, overlap=self.overlap, separator=self.separator)
            for number, piece in enumerate(pieces):
                parsed.append(
                    TextNode(
                        id_=f"{node.node_id}#{number}",
                        text=piece,
                        metadata=dict(node.metadata) if self.include_metadata else {},
                        excluded_embed_metadata_keys=node.excluded_embed_metadata_keys,
                        excluded_llm_metadata_keys=node.excluded_llm_metadata_keys,
                        relationships={NodeRelationship.SOURCE: node.source_node or node.as_related_node_info()},
                    )
                )
        return parsed
