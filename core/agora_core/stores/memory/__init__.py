"""The store in memory."""

from agora_core.stores.memory.lexical import MemoryLexicalVectorStore as MemoryLexicalVectorStore
from agora_core.stores.memory.store import MemoryVectorStore as MemoryVectorStore
