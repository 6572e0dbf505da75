"""Rerankers in both directions: ours as a document compressor, any of their compressors as a reranker of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, field_validator

from agora_core.adapting import RerankerPort, Steps, arun, offers, run, trusted_order
from agora_core.errors import InvalidArgumentError, RerankingError
from agora_core.metadata import clone_metadata
from agora_core.records import Passage
from agora_core.rerankers.ordering import check_request
from agora_core.validation import check_top_k
from langchain_agora.documents import score_of

SCORE_KEY: Final = "relevance_score"
"""Where LangChain's rerankers put their score."""

_PLACE_KEY: Final = "agora_place"


class AgoraReranker(BaseDocumentCompressor):
    """Any reranker of the core wherever LangChain takes a document compressor.

    Answers with copies, best first, that keep their ids; the documents given are not changed.

    ```python
    ContextualCompressionRetriever(base_compressor=AgoraReranker(reranker=reranker, top_n=5), base_retriever=retriever)
    ```

    Examples:
        >>> found = AgoraRetriever(retriever=retriever).invoke("days of leave")
        >>> AgoraReranker(reranker=EmbeddingReranker(embedder), top_n=1).compress_documents(found, "directors")[0].id
        'board#0'
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    reranker: Any
    """Any object with `rerank` or `arerank`."""

    top_n: int | None = None
    """How many documents are kept; None keeps all."""

    score_key: str | None = SCORE_KEY
    """The metadata key under which the score is put; None leaves it out."""

    @field_validator("reranker")
    @classmethod
    def _check_reranker(cls, value: Any) -> Any:
        if not offers(value, "rerank"):
            raise InvalidArgumentError(f"reranker must have rerank or arerank, got {type(value).__name__}")
        return value

    @field_validator("top_n", mode="before")
    @classmethod
    def _check_top_n(cls, value: Any) -> int | None:
        return None if value is None else check_top_k(value, argument="top_n")

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> Sequence[Document]:
        """Return the best documents for `query`, best first."""
        return run(self._compressed(documents, query))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> Sequence[Document]:
        """Async twin of `compress_documents`."""
        return await arun(self._compressed(documents, query))

    def _compressed(self, documents: Sequence[Document], query: str) -> Steps[list[Document]]:
        asked = _as_passages(documents)
        given = list(asked.values())
        originals = dict(zip(asked, documents, strict=True))
        ranked = yield from RerankerPort(self.reranker).rerank(query, given, top_k=self.top_n)
        answer = []
        for passage in trusted_order(ranked, given, self.reranker):
            original = originals[passage.id]
            extra = {} if self.score_key is None else {self.score_key: passage.score}
            metadata = {**original.metadata, **extra}
            answer.append(Document(page_content=original.page_content, id=original.id, metadata=metadata))
        return answer


class LangChainReranker:
    """Any document compressor of LangChain's as a reranker of the core.

    What it drops is dropped. The score is the number it leaves under `score_key`, else 1 / rank.

    Examples:
        >>> theirs = AgoraReranker(reranker=EmbeddingReranker(embedder), top_n=1)  # any document compressor
        >>> LangChainReranker(theirs).rerank("directors", passages)[0].id
        'board#0'
    """

    def __init__(self, compressor: BaseDocumentCompressor, *, score_key: str | None = SCORE_KEY) -> None:
        """Stand on anything with `compress_documents`."""
        if not callable(getattr(compressor, "compress_documents", None)):
            raise InvalidArgumentError(f"compressor must have compress_documents, got {type(compressor).__name__}")
        self.compressor = compressor
        self.score_key = score_key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.compressor).__name__})"

    def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Return the best `top_k` passages (all where it is None) in the compressor's order.

        Raises:
            RerankingError: the compressor answers with a document that cannot be told from the ones it was given.
        """
        given = check_request(query, passages, top_k)
        documents = self.compressor.compress_documents(_as_documents(given), query)
        return self._ranked(documents, given, top_k)

    async def arerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Async twin of `rerank`."""
        given = check_request(query, passages, top_k)
        documents = await self.compressor.acompress_documents(_as_documents(given), query)
        return self._ranked(documents, given, top_k)

    def _ranked(self, documents: Sequence[Document], given: Sequence[Passage], top_k: int | None) -> list[Passage]:
        ranked: dict[int, Passage] = {}
        for rank, document in enumerate(documents, 1):
            # Compressors may lose the id of a document, and change its text; its metadata they carry along. Only the
            # order and the score are theirs: what a passage says is the retriever's.
            place = document.metadata.get(_PLACE_KEY)
            if not isinstance(place, int) or not 0 <= place < len(given):
                raise RerankingError(
                    f"{type(self.compressor).__name__} returned a document without the metadata it was given, "
                    "so it is not known which passage it is"
                )
            passage = given[place]
            score = score_of(document, self.score_key, rank)
            metadata = clone_metadata(passage.metadata)
            # Of the pieces that a compressor cut a passage into, the best stands for it.
            ranked.setdefault(place, Passage(passage.id, passage.text, score, passage.source, metadata))
        return list(ranked.values())[:top_k]


def _as_passages(documents: Sequence[Document]) -> dict[str, Passage]:
    """Return documents as passages by id; one without an id, or with another's, is known by its place."""
    passages: dict[str, Passage] = {}
    for place, document in enumerate(documents):
        name = document.id
        while name is None or name in passages:
            name = f"{place}" if name is None else f"{name}~{place}"
        passages[name] = Passage(name, document.page_content, 1.0 / (place + 1), None, dict(document.metadata))
    return passages


def _as_documents(passages: Sequence[Passage]) -> list[Document]:
    return [
        Document(
            page_content=passage.text,
            id=passage.id,
            metadata={**(clone_metadata(passage.metadata) or {}), _PLACE_KEY: place},
        )
        for place, passage in enumerate(passages)
    ]
