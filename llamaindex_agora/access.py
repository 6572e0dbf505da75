"""Defence in depth: nodes that an actor may not see are dropped, wherever they came from."""

from __future__ import annotations

import logging
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from agora_core.filters import matches_filter
from llamaindex_agora.filters import Filters, to_core_filter

_log = logging.getLogger(__name__)


class AccessFilterPostprocessor(BaseNodePostprocessor):
    """Drops every node whose metadata the filter does not match, and counts them.

    It guards retrievers that cannot filter by themselves, and catches what a mistake let through: filter in the
    retriever first, for what is dropped here leaves fewer nodes than were asked for.

    Args:
        filter: what may pass: our mapping, an expression, or `MetadataFilters`. Required: there is no "no filter".
    """

    _filter: Any = PrivateAttr()
    _dropped: int = PrivateAttr(default=0)

    def __init__(self, filter: Filters, **kwargs: Any) -> None:
        """Check the filter.

        Raises:
            InvalidFilterError: the filter could not be built.
        """
        super().__init__(**kwargs)
        self._filter = to_core_filter(filter)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows this class."""
        return "AccessFilterPostprocessor"

    @property
    def dropped(self) -> int:
        """How many nodes have been dropped so far."""
        return self._dropped

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        kept = [node for node in nodes if matches_filter(node.node.metadata, self._filter)]
        dropped = len(nodes) - len(kept)
        if dropped:
            self._dropped += dropped
            _log.warning("dropped %d of %d nodes that the access filter does not match", dropped, len(nodes))
        return kept
