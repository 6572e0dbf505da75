"""The laws of a vector store as a pytest class. Inherit it, give `make_store`, and your store is held to them.

```python
class TestMyStore(VectorStoreContract):
    def make_store(self, *, dimension: int, metric: str) -> MyStore:
        return MyStore(dimension=dimension, metric=metric)
```

Every test runs sync and async. A store that lacks an optional method names it in `lacks`, with the reason.
"""

from __future__ import annotations

from agora_core.testing.contract.base import Caller, Opener, record
from agora_core.testing.contract.changing import ChangingLaws
from agora_core.testing.contract.scoping import ScopingLaws
from agora_core.testing.contract.searching import SearchingLaws
from agora_core.testing.contract.writing import WritingLaws

__all__ = ["Caller", "Opener", "VectorStoreContract", "record"]


class VectorStoreContract(WritingLaws, SearchingLaws, ChangingLaws, ScopingLaws):
    """The laws. Override `make_store`; set `metrics` to those the store knows and `lacks` to what it has not.

    Examples:
        >>> class TestMyStore(VectorStoreContract):
        ...     def make_store(self, *, dimension, metric):
        ...         return MemoryVectorStore(dimension=dimension, metric=metric)  # yours
    """
