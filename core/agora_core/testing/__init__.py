"""The testing kit, shipped to users: doubles, and the contract class that every store passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agora_core.testing.contract import VectorStoreContract
    from agora_core.testing.doubles import FakeEmbeddingProvider, FakeReranker, in_memory_retriever

__all__ = ["FakeEmbeddingProvider", "FakeReranker", "VectorStoreContract", "in_memory_retriever"]


def __getattr__(name: str) -> Any:
    # The contract needs pytest; the doubles do not.
    if name == "VectorStoreContract":
        from agora_core.testing.contract import VectorStoreContract

        return VectorStoreContract
    if name in __all__:
        from agora_core.testing import doubles

        return getattr(doubles, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
