"""Any server that speaks OpenAI's `/v1/embeddings`: OpenAI, vLLM, TEI, Ollama, LM Studio, LiteLLM, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from agora_core.concurrency import map_bounded
from agora_core.embedders.vectors import Vector
from agora_core.http_json import HttpJsonClient, RequestTooLargeError, check_url
from agora_core.http_retry import RetryPolicy
from agora_core.model_inputs import check_count, check_name, check_texts

OPENAI_URL: Final = "https://api.openai.com/v1"


class OpenAICompatibleEmbeddingProvider:
    """Embeds through a server's `{base_url}/embeddings`, with the standard library's HTTP.

    Requests that fail for a passing reason (no connection, time-out, a cut answer, 408, 409, 425, 429, 5xx) are
    repeated after a growing, jittered wait, or after what the server's Retry-After asks (up to 30 s). A batch that is
    refused for its size (413, or 400 and 422 that say so) is halved until it passes, and later batches start at the
    size that passed. Vectors are put in order by the `index` the server gives.

    The async methods run requests in worker threads, at most `concurrency` at once; cancelling them stops further
    requests and waits, while one already sent ends by itself. Errors and `repr` show neither key, headers nor texts.

    Args:
        base_url: without the trailing `/embeddings`; default OpenAI's.
        model: the model's name on that server.
        api_key: sent as a bearer token; a str or an object with `get_secret_value()`. None (default) sends none.
        batch_size: texts a request; default 64.
        max_input_chars: texts are cut to so many characters (after their prefix); default 24,000, None cuts nothing.
        dimensions: asked of the server where given, and checked; default the model's own.
        headers: extra headers.
        timeout: seconds for connecting, for each wait for data, and for the whole answer; default 60.
        max_retries: attempts after the first; default 3.
        concurrency: requests that `aembed` has under way at once; default 4.
        query_prefix, passage_prefix: put before queries (`embed_query`) and passages (`embed`); default none.

    Raises:
        InvalidArgumentError: an argument breaks a rule.
        ModelServerError: the server refused or answered unreadably, for example with another number of vectors than
            texts were sent; `status` is the HTTP status, 502 for an unreadable answer, None for no answer.

    Examples:
        >>> server = OpenAICompatibleEmbeddingProvider("http://localhost:11434/v1", model="nomic-embed-text")
    """

    def __init__(
        self,
        base_url: str = OPENAI_URL,
        model: str = "text-embedding-3-small",
        api_key: Any = None,
        *,
        batch_size: int = 64,
        max_input_chars: int | None = 24_000,
        dimensions: int | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        max_retries: int = 3,
        concurrency: int = 4,
        query_prefix: str = "",
        passage_prefix: str = "",
    ) -> None:
        check_name(model, argument="model")
        self._base_url = check_url(base_url, argument="base_url").rstrip("/")
        self._client = HttpJsonClient(
            f"{self._base_url}/embeddings",
            api_key=api_key,
            headers=headers,
            timeout=timeout,
            retry=RetryPolicy(max_retries=max_retries),
        )
        self._model = model
        self._batch_size = check_count(batch_size, argument="batch_size")
        self._max_chars = None if max_input_chars is None else check_count(max_input_chars, argument="max_input_chars")
        self._dimensions = None if dimensions is None else check_count(dimensions, argument="dimensions")
        self._concurrency = check_count(concurrency, argument="concurrency")
        self._query_prefix, self._passage_prefix = check_texts([query_prefix, passage_prefix])
        self._dimension: int | None = self._dimensions

    def __repr__(self) -> str:
        return f"OpenAICompatibleEmbeddingProvider({self._client.shown_url!r}, model={self._model!r})"

    @property
    def model(self) -> str:
        """The name of the model, which stores remember."""
        return self._model

    @property
    def dimension(self) -> int | None:
        """The length of every vector; None until the first answer where `dimensions` was not given."""
        return self._dimension

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per passage, in the same order; [] for none, without a request."""
        prepared = self._prepare(texts, self._passage_prefix)
        vectors: list[Vector] = []
        while len(vectors) < len(prepared):
            vectors += self._embed_batch(prepared[len(vectors) : len(vectors) + self._batch_size])
        return vectors

    async def aembed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per passage, in the same order; several batches are under way at once."""
        prepared = self._prepare(texts, self._passage_prefix)
        size = self._batch_size
        batches = [prepared[start : start + size] for start in range(0, len(prepared), size)]
        answers = await map_bounded(self._aembed_batch, batches, limit=self._concurrency)
        return [vector for answer in answers for vector in answer]

    def embed_query(self, text: str) -> Vector:
        """Return the vector of one query."""
        return self._embed_batch(self._prepare([text], self._query_prefix))[0]

    async def aembed_query(self, text: str) -> Vector:
        """Do what `embed_query` does without blocking the event loop."""
        return (await self._aembed_batch(self._prepare([text], self._query_prefix)))[0]

    def _prepare(self, texts: Sequence[str], prefix: str) -> list[str]:
        # Servers refuse the empty text; one space is what they take in its place.
        return [(prefix + text)[: self._max_chars] or " " for text in check_texts(texts)]

    def _payload(self, batch: list[str]) -> dict[str, Any]:
        payload: dict[str, Any] = {"model": self._model, "input": batch}
        if self._dimensions is not None:
            payload["dimensions"] = self._dimensions
        return payload

    def _embed_batch(self, batch: list[str]) -> list[Vector]:
        """Embed one batch, halving it where it is refused for its size."""
        try:
            return self._read(self._client.post(self._payload(batch)), len(batch))
        except RequestTooLargeError:
            if len(batch) == 1:
                raise
        half = (len(batch) + 1) // 2
        vectors = self._embed_batch(batch[:half]) + self._embed_batch(batch[half:])
        self._batch_size = min(self._batch_size, half)
        return vectors

    async def _aembed_batch(self, batch: list[str]) -> list[Vector]:
        try:
            return self._read(await self._client.apost(self._payload(batch)), len(batch))
        except RequestTooLargeError:
            if len(batch) == 1:
                raise
        half = (len(batch) + 1) // 2
        vectors = await self._aembed_batch(batch[:half]) + await self._aembed_batch(batch[half:])
        self._batch_size = min(self._batch_size, half)
        return vectors

    def _read(self, answer: Any, count: int) -> list[Vector]:
        """Return the vectors of one answer in the order of the texts sent."""
        try:
            vectors = read_embeddings(answer, count)
        except ValueError as error:
            raise self._client.unreadable(str(error)) from None
        expected = self._dimensions or self._dimension or len(vectors[0])
        lengths = {len(vector) for vector in vectors}
        if lengths != {expected}:
            what = f"its vectors have {sorted(lengths)} dimensions, expected {expected}"
            raise self._client.unreadable(what)
        self._dimension = expected
        return vectors


def read_embeddings(answer: Any, count: int) -> list[Vector]:
    """Return the `count` vectors of an `/v1/embeddings` answer, ordered by their `index`.

    Items without an index are taken in the order they came.

    Raises:
        ValueError: another number of items, indices that are no permutation, or an embedding that is not a list of
            finite numbers. The message quotes nothing of the answer but counts and types.
    """
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("it has no list of objects called 'data'")
    if len(items) != count:
        raise ValueError(f"it has {len(items)} vectors for {count} texts")
    indices = [item.get("index", position) for position, item in enumerate(items)]
    if any(type(index) is not int for index in indices) or sorted(indices) != list(range(count)):
        raise ValueError(f"the indices of its vectors are not 0 to {count - 1}, each once")
    vectors: list[Vector] = [np.empty(0, dtype=np.float32)] * count
    for index, item in zip(indices, items, strict=True):
        vectors[index] = _read_vector(item.get("embedding"), index)
    return vectors


def _read_vector(value: Any, index: int) -> Vector:
    if not isinstance(value, list) or not value or not all(type(number) in (float, int) for number in value):
        raise ValueError(f"the vector at index {index} is not a list of numbers")
    try:
        # The cast of a number beyond float32 gives infinity, which the next line refuses.
        with np.errstate(over="ignore"):
            vector = np.array(value, dtype=np.float64).astype(np.float32)
    except OverflowError:
        raise ValueError(f"the vector at index {index} holds a number too large to be one") from None
    if not np.isfinite(vector).all():
        raise ValueError(f"the vector at index {index} holds NaN or infinity")
    return vector
