"""Three ways to keep a store equal to its source: this library's, LangChain's and LlamaIndex's, over the same store."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from langchain_classic.indexes import SQLRecordManager
from langchain_core.documents import Document as LangChainDocument
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import index
from llama_index.core import Document as LlamaIndexDocument
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.storage.docstore import SimpleDocumentStore

import langchain_agora
import llamaindex_agora
from agora_core import IngestDocument, sync_documents

DIMENSION = 256
BATCH = 256
PER_TEXT = 0.004
"""Seconds an embedding takes: a full batch in a second, as hosted models answer."""


def vectors_of(texts: Sequence[str]) -> list[list[float]]:
    """Return vectors that depend on the texts, after the time that a model would take."""
    begun = time.perf_counter()
    seeds = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") for text in texts]
    made = [np.random.Generator(np.random.SFC64(seed)).random(DIMENSION, np.float32).tolist() for seed in seeds]
    time.sleep(max(0.0, len(texts) * PER_TEXT - (time.perf_counter() - begun)))
    return made


class Way(Protocol):
    """Keeps a store equal to documents."""

    def run(self, documents: Sequence[IngestDocument]) -> None:
        """Bring the store in step."""
        ...


class Ours:
    """`sync_documents`, which embeds four batches at once unless told otherwise."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts."""
        return vectors_of(texts)

    def run(self, documents: Sequence[IngestDocument]) -> None:
        """Bring the store in step."""
        sync_documents(documents, embedder=self, store=self._store)


class _LangChainEmbeddings(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return vectors_of(texts)

    def embed_query(self, text: str) -> list[float]:
        return vectors_of([text])[0]


class LangChain:
    """`index()` with its record manager in SQLite, cleanup in full."""

    def __init__(self, store: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="agora-bench-")
        self._records = SQLRecordManager("bench", db_url=f"sqlite:///{Path(self._folder.name) / 'records.db'}")
        self._records.create_schema()
        self._store = langchain_agora.AgoraVectorStore(store, _LangChainEmbeddings())
        self._splitter = langchain_agora.AgoraTextSplitter()

    def run(self, documents: Sequence[IngestDocument]) -> None:
        """Bring the store in step."""
        whole = [
            LangChainDocument(one.text, metadata={**(one.metadata or {}), "source": one.source, "document": one.id})
            for one in documents
        ]
        index(
            self._splitter.split_documents(whole),
            self._records,
            self._store,
            cleanup="full",
            source_id_key="document",
            batch_size=BATCH,
            key_encoder="sha256",
        )


class _LlamaIndexEmbedding(BaseEmbedding):
    def _get_text_embedding(self, text: str) -> list[float]:
        return vectors_of([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return vectors_of(texts)

    def _get_query_embedding(self, query: str) -> list[float]:
        return vectors_of([query])[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return vectors_of([query])[0]


class LlamaIndex:
    """`IngestionPipeline` with a docstore in a file, removing what is gone."""

    def __init__(self, store: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="agora-bench-")
        self._path = str(Path(self._folder.name) / "docstore.json")
        self._store = llamaindex_agora.AgoraVectorStore(store=store)
        SimpleDocumentStore().persist(self._path)

    def run(self, documents: Sequence[IngestDocument]) -> None:
        """Bring the store in step, in a process that begins and ends."""
        docstore = SimpleDocumentStore.from_persist_path(self._path)
        IngestionPipeline(
            transformations=[llamaindex_agora.AgoraNodeParser(), _LlamaIndexEmbedding(embed_batch_size=BATCH)],
            vector_store=self._store,
            docstore=docstore,
            docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
        ).run(
            documents=[
                LlamaIndexDocument(
                    id_=one.id,
                    text=one.text,
                    metadata={**(one.metadata or {}), "source": one.source},
                    excluded_embed_metadata_keys=["acl", "source"],
                )
                for one in documents
            ]
        )
        docstore.persist(self._path)


WAYS: dict[str, Any] = {"ours": Ours, "LangChain": LangChain, "LlamaIndex": LlamaIndex}
