"""The store in memory."""

from agora_core.stores.memory.store import MemoryVectorStore as MemoryVectorStore
