"""What a Qdrant store was told when it was made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from agora_core.errors import InvalidArgumentError
from agora_core.extras import require

if TYPE_CHECKING:
    from agora_core.stores.qdrant.sparse import SparseEncoder

Metric = Literal["cosine", "l2", "inner"]
IndexMetadata = Literal["auto"] | Sequence[str] | bool

_DISTANCES: Final = {"cosine": "Cosine", "l2": "Euclid", "inner": "Dot"}
_COLLECTION_NAME: Final = re.compile(r'[^<>:"/\\|?*\x00-\x1f]{1,255}\Z')


VECTOR_NAME: Final = "text"
"""The name of the sparse vector of a text."""


@dataclass(frozen=True, slots=True)
class QdrantSettings:
    """Everything a request needs to know beside its own arguments; checked by `checked_settings`."""

    collection: str
    dimension: int
    metric: Metric
    local: bool = False
    upsert_batch_size: int = 100
    scroll_page_size: int = 256
    shard_key: Any = None
    exact: bool | None = None
    hnsw_ef: int | None = None
    quantization: Mapping[str, Any] | None = None
    read_options: Mapping[str, Any] = field(default_factory=dict)
    write_options: Mapping[str, Any] = field(default_factory=dict)
    sparse: SparseEncoder | None = None

    @property
    def distance(self) -> str:
        """The name of the metric in Qdrant."""
        return _DISTANCES[self.metric]

    def search_params(self, *, exact: bool | None) -> Any:
        """Return Qdrant's search parameters; `exact` overrides the store's own."""
        models = require("qdrant_client", extra="qdrant").models
        exactly = self.exact if exact is None else exact
        quantization = None if self.quantization is None else models.QuantizationSearchParams(**self.quantization)
        if exactly is None and self.hnsw_ef is None and quantization is None:
            return None
        return models.SearchParams(exact=exactly, hnsw_ef=self.hnsw_ef, quantization=quantization)


def check_collection(name: Any) -> str:
    """Return the name of a collection that Qdrant accepts.

    Raises:
        InvalidArgumentError: it is empty, too long, or holds a character that cannot stand in a file name.
    """
    if not isinstance(name, str) or not _COLLECTION_NAME.match(name):
        raise InvalidArgumentError(
            'collection must be 1 to 255 characters without any of < > : " / \\ | ? * and control characters, '
            f"got {name!r}"
        )
    return name


def check_metric(metric: Any) -> Metric:
    """Return a metric.

    Raises:
        InvalidArgumentError: it is none of cosine, l2 and inner.
    """
    if metric not in _DISTANCES:
        raise InvalidArgumentError(f"metric must be one of {', '.join(_DISTANCES)}, got {metric!r}")
    checked: Metric = metric
    return checked
