"""Rerankers behind HTTP: servers shaped like Cohere's, Jina's or Text Embeddings Inference's (TEI)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agora_core.concurrency import map_bounded
from agora_core.errors import InvalidArgumentError
from agora_core.http_json import HttpJsonClient, RequestTooLargeError
from agora_core.http_retry import RetryPolicy
from agora_core.model_inputs import check_count, check_name
from agora_core.records import Passage
from agora_core.rerankers.ordering import check_max_chars, check_request, in_order

Format = Literal["auto", "cohere", "jina", "tei"]
Scored = tuple[int, float]


class HttpReranker:
    """Scores passages with a rerank server, through the standard library's HTTP.

    One request holds at most `batch_limit` passages; more are sent in several, whose scores are compared as they are
    (a cross-encoder scores each pair by itself). Passages that the server leaves out of its answer are dropped, and
    indices that it repeats or makes up are ignored. Requests that fail for a passing reason are repeated as
    `OpenAICompatibleEmbeddingProvider` does, and one refused for its size is sent in halves. Errors and `repr` show
    neither key, headers nor texts.

    Args:
        url: the full URL, for example `https://api.cohere.com/v2/rerank`, `https://api.jina.ai/v1/rerank` or
            `http://localhost:8080/rerank`.
        model: name of the model, sent where given; Cohere and Jina ask for it.
        api_key: sent as a bearer token; a str or an object with `get_secret_value()`. None (default) sends none.
        format: what is sent beside the query: `cohere` and `jina` documents and top_n, `tei` texts, and `auto`
            (default) all of them, for servers that ignore what they do not know. All shapes of answer are read: a bare
            list, or a list under `results` or `data`, of `index` with `relevance_score` or `score`.
        headers: extra headers.
        extra_body: further members of the request, for example `{"truncate": True}` for TEI.
        timeout: seconds for connecting, for each wait for data, and for the whole answer; default 30.
        max_retries: attempts after the first; default 3.
        batch_limit: passages a request; default 256.
        max_passage_chars: only so many leading characters of a passage are sent; default None, all of it.
        concurrency: requests that `arerank` has under way at once; default 4.

    Raises:
        InvalidArgumentError: an argument breaks a rule.
        ModelServerError: the server refused or answered unreadably; `status` is the HTTP status, 502 for an unreadable
            answer, None for no answer.

    Examples:
        >>> server = HttpReranker("http://localhost:8080/rerank", max_passage_chars=2_000)
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        api_key: Any = None,
        format: Format = "auto",
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        timeout: float = 30.0,
        max_retries: int = 3,
        batch_limit: int = 256,
        max_passage_chars: int | None = None,
        concurrency: int = 4,
    ) -> None:
        if format not in ("auto", "cohere", "jina", "tei"):
            raise InvalidArgumentError(f"format must be 'auto', 'cohere', 'jina' or 'tei', got {format!r}")
        if model is not None:
            check_name(model, argument="model")
        retry = RetryPolicy(max_retries=max_retries)
        self._client = HttpJsonClient(url, api_key=api_key, headers=headers, timeout=timeout, retry=retry)
        self._model = model
        self._format = format
        self._extra = dict(extra_body or {})
        self._batch_limit = check_count(batch_limit, argument="batch_limit")
        self._max_chars = check_max_chars(max_passage_chars)
        self._concurrency = check_count(concurrency, argument="concurrency")

    def __repr__(self) -> str:
        return f"HttpReranker({self._client.shown_url!r}, model={self._model!r}, format={self._format!r})"

    def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Return fresh passages by the server's score, best first, the best `top_k` where it is given.

        No passages give [] without a request.
        """
        checked = check_request(query, passages, top_k)
        scored: list[Scored] = []
        for start, texts in self._batches(checked):
            scored += [(start + index, score) for index, score in self._score(query, texts, top_k)]
        return _ordered(checked, scored, top_k)

    async def arerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Do what `rerank` does without blocking the event loop; several requests are under way at once."""
        checked = check_request(query, passages, top_k)

        async def run(batch: tuple[int, list[str]]) -> list[Scored]:
            start, texts = batch
            return [(start + index, score) for index, score in await self._ascore(query, texts, top_k)]

        answers = await map_bounded(run, self._batches(checked), limit=self._concurrency)
        return _ordered(checked, [pair for answer in answers for pair in answer], top_k)

    def _batches(self, passages: list[Passage]) -> list[tuple[int, list[str]]]:
        """Return the texts of each request with the position of its first."""
        texts = [passage.text[: self._max_chars] for passage in passages]
        step = self._batch_limit
        return [(start, texts[start : start + step]) for start in range(0, len(texts), step)]

    def _score(self, query: str, texts: list[str], top_k: int | None) -> list[Scored]:
        try:
            return self._read(self._client.post(self._payload(query, texts, top_k)), len(texts))
        except RequestTooLargeError:
            if len(texts) == 1:
                raise
        half = (len(texts) + 1) // 2
        first, second = self._score(query, texts[:half], top_k), self._score(query, texts[half:], top_k)
        return first + [(half + index, score) for index, score in second]

    async def _ascore(self, query: str, texts: list[str], top_k: int | None) -> list[Scored]:
        try:
            return self._read(await self._client.apost(self._payload(query, texts, top_k)), len(texts))
        except RequestTooLargeError:
            if len(texts) == 1:
                raise
        half = (len(texts) + 1) // 2
        first = await self._ascore(query, texts[:half], top_k)
        second = await self._ascore(query, texts[half:], top_k)
        return first + [(half + index, score) for index, score in second]

    def _payload(self, query: str, texts: list[str], top_k: int | None) -> dict[str, Any]:
        payload: dict[str, Any] = {"query": query}
        if self._model is not None:
            payload["model"] = self._model
        if self._format != "tei":
            payload["documents"] = texts
            payload["top_n"] = len(texts) if top_k is None else min(top_k, len(texts))
        if self._format in ("auto", "tei"):
            payload["texts"] = texts
        return payload | self._extra

    def _read(self, answer: Any, count: int) -> list[Scored]:
        try:
            return read_scores(answer, count)
        except ValueError as error:
            raise self._client.unreadable(str(error)) from None


def read_scores(answer: Any, count: int) -> list[Scored]:
    """Return (index, score) of each item of a rerank answer about `count` texts, in its order.

    Items whose index is unknown or was seen before are left out. The score is `relevance_score`, else `score`, else 0.

    Raises:
        ValueError: the answer holds no list of objects, or a score that is no number. Nothing of it is quoted.
    """
    items = answer
    if isinstance(answer, dict):
        items = answer.get("results", answer.get("data"))
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("it is not a list of objects, nor has one called 'results' or 'data'")
    scores: dict[int, float] = {}
    for item in items:
        index = item.get("index")
        if type(index) is not int or not 0 <= index < count or index in scores:
            continue
        score = item.get("relevance_score", item.get("score", 0.0))
        if not is_finite(score):
            raise ValueError(f"the score of index {index} is not a finite number")
        scores[index] = score
    return list(scores.items())


def is_finite(value: Any) -> bool:
    """Say whether a decoded JSON value is a number that a float can hold, neither NaN nor infinite."""
    if type(value) not in (float, int):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _ordered(passages: list[Passage], scored: list[Scored], top_k: int | None) -> list[Passage]:
    """Return the scored passages in order; those of equal score in the order they were given to the reranker."""
    kept = sorted(scored)
    return in_order([passages[index] for index, _ in kept], [score for _, score in kept], top_k)
