"""Defence in depth: nodes that an actor may not see are dropped, wherever they came from."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from agora_core.filters import compile_filter, matches_filter
from llamaindex_agora.arguments import refuse_unknown
from llamaindex_agora.filters import Filters, to_core_filter

_log = logging.getLogger(__name__)


class AccessFilterPostprocessor(BaseNodePostprocessor):
    """Drops every node whose metadata the filter does not match, and counts them.

    It guards retrievers that cannot filter by themselves, and catches what a mistake let through: filter in the
    retriever first, for what is dropped here leaves fewer nodes than were asked for.

    Args:
        filter: what may pass: our mapping, an expression, `MetadataFilters`, or a function without arguments that
            returns one of them, called for each query. Required: there is no "no filter".

    Examples:
        >>> nodes = AgoraRetriever(retriever).retrieve("days of leave")
        >>> guard = AccessFilterPostprocessor(filter={"acl": ["staff"]})
        >>> [hit.node.node_id for hit in guard.postprocess_nodes(nodes)], guard.dropped
        (['leave#0'], 1)
    """

    _filter: Any = PrivateAttr()
    _dropped: int = PrivateAttr(default=0)

    def __init__(self, filter: Filters | Callable[[], Filters], **kwargs: Any) -> None:
        """Check the filter.

        Raises:
            InvalidFilterError: the filter could not be built.
            TypeError: an unknown keyword.
        """
        refuse_unknown(type(self), kwargs)
        super().__init__(**kwargs)
        self._filter = filter if callable(filter) else compile_filter(to_core_filter(filter))

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
        allowed = compile_filter(to_core_filter(self._filter())) if callable(self._filter) else self._filter
        kept, dropped = [], []
        for node in nodes:
            if matches_filter(node.node.metadata, allowed):
                kept.append(node)
            else:
                dropped.append(node.node.node_id)
        if dropped:
            self._dropped += len(dropped)
            _log.warning(
                "dropped %d of %d nodes that the access filter does not match: %s",
                len(dropped),
                len(nodes),
                ", ".join(map(repr, dropped)),
            )
        return kept
