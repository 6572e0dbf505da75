"""JSON over HTTP for model servers: standard library only, with time-outs, retries and errors that tell no secrets.

Sync calls block; the async ones run each request in a worker thread and wait between attempts on the event loop, so
cancelling stops the retries at once while a request already on the wire ends by itself (within its time-out).
Redirects are not followed: they would turn a POST into a GET and could carry the key to another host. The proxy
variables of the environment (`HTTPS_PROXY`, `NO_PROXY`, ...) are honoured.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from agora_core.concurrency import in_waiting_thread
from agora_core.errors import InvalidArgumentError, ModelServerError
from agora_core.http_retry import RetryPolicy, asked_wait, retry_delay

MAX_BODY_BYTES: Final = 256 * 1024 * 1024
"""Longest answer that is read, in bytes; a server that sends more is taken for broken."""

UNREADABLE: Final = 502
"""The status of an error about a 2xx answer that is no JSON or not of the expected shape."""

_TOO_LARGE: Final = re.compile(
    r"batch[ _-]?size|too many (?:inputs|texts|items|documents|tokens)|too large"
    r"|(?:array|list|batch|input) (?:is )?too (?:long|big)"
    r"|array length|tokens per request|max(?:imum)?[^.]{0,40} (?:inputs|items|batch|documents)",
    re.IGNORECASE,
)
_TEXT_TOO_LONG: Final = re.compile(r"context[ _](?:length|window)|sequence length|less than \d+ tokens", re.IGNORECASE)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")


class RequestTooLargeError(ModelServerError):
    """A server refused a request for its size: 413, or a 400 or 422 whose message says so. Send less at once."""


def check_url(url: Any, *, argument: str) -> str:
    """Return `url` where it is an absolute http(s) URL without credentials; refuse it otherwise."""
    if not isinstance(url, str):
        raise InvalidArgumentError(f"{argument} must be a str, got {type(url).__name__}")
    try:
        parts = urlsplit(url)
        bad = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        raise InvalidArgumentError(f"{argument} is no readable URL; write it as https://host/path") from None
    if "@" in parts.netloc:
        raise InvalidArgumentError(f"{argument} must not hold a user name or password; pass them in `headers`")
    if bad or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidArgumentError(f"{argument} must be an absolute http or https URL, got {url!r}")
    return url


def reveal_key(api_key: Any) -> str | None:
    """Return the text of an API key given as a str or as an object with `get_secret_value()`; its value is not shown.

    White space around it (the newline of a key file) is cut; an empty key counts as none.
    """
    if api_key is None:
        return None
    reader = getattr(api_key, "get_secret_value", None)
    key = reader() if callable(reader) else api_key
    if not isinstance(key, str):
        raise InvalidArgumentError(f"api_key must be a str or a secret string, got {type(key).__name__}")
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise InvalidArgumentError("api_key holds characters that no HTTP header may carry; check how it was read")
    return key or None


def check_headers(headers: Any) -> dict[str, str]:
    """Return a checked copy of extra request headers; their values are never shown."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise InvalidArgumentError(f"headers must be a mapping of str to str, got {type(headers).__name__}")
    copy: dict[str, str] = {}
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.match(name):
            raise InvalidArgumentError(f"headers: {name!r} is no header name")
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise InvalidArgumentError(f"headers[{name!r}] must be a printable ASCII str")
        copy[name] = value
    return copy


class _AttemptError(Exception):
    """One attempt failed. `status` is None where no whole answer came; `remedy` completes the message."""

    def __init__(
        self,
        what: str,
        *,
        status: int | None,
        retry_after: float | None = None,
        shown_status: int | None = None,
        too_large: bool = False,
        final: bool = False,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.status = status
        self.retry_after = retry_after
        self.shown_status = status if shown_status is None else shown_status
        self.too_large = too_large
        self.final = final


class HttpJsonClient:
    """POSTs JSON to one URL and returns the JSON it answers.

    Args:
        url: where to post to.
        api_key: sent as a bearer token; a str, or an object with `get_secret_value()`. Never shown.
        headers: extra headers; one called Authorization replaces the bearer token. Values are never shown.
        timeout: seconds for connecting, for each wait for data, and for the whole answer.
        retry: when to try again.
        sleep, asleep, clock, jitter: stand-ins for waiting, the time and chance, for tests.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], Any] = time.sleep,
        asleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if type(timeout) not in (int, float) or not 0 < timeout < math.inf:
            raise InvalidArgumentError(f"timeout must be a number of seconds above 0, got {timeout!r}")
        self.url = check_url(url, argument="url")
        self.timeout = float(timeout)
        self.retry = retry or RetryPolicy()
        key = reveal_key(api_key)
        given = check_headers(headers)
        own = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "agora-retrieval",
        }
        if key is not None:
            own["Authorization"] = f"Bearer {key}"
        replaced = {name.lower() for name in given}
        self._headers = {name: value for name, value in own.items() if name.lower() not in replaced} | given
        self._secrets = [s for s in (key, *given.values()) if s]
        self._sleep, self._asleep, self._clock, self._jitter = sleep, asleep, clock, jitter

    def __repr__(self) -> str:
        return f"HttpJsonClient({self.shown_url!r})"

    @property
    def shown_url(self) -> str:
        """The URL without its query, which may hold a key."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"

    def post(self, payload: Any) -> Any:
        """Send `payload` and return the decoded answer.

        Raises:
            RequestTooLargeError: the server refused the request for its size.
            ModelServerError: no readable 2xx answer came; `status` is the HTTP status, 502 where a 2xx answer was
                unreadable, and None where there was no answer.
        """
        body = _encode(payload)
        attempt = 0
        while True:
            try:
                return self._attempt(body)
            except _AttemptError as failure:
                delay = self._delay_after(failure, attempt)
            self._sleep(delay)
            attempt += 1

    async def apost(self, payload: Any) -> Any:
        """Do what `post` does without blocking the event loop."""
        body = _encode(payload)
        attempt = 0
        while True:
            try:
                return await in_waiting_thread(self._attempt, body)
            except _AttemptError as failure:
                delay = self._delay_after(failure, attempt)
            await self._asleep(delay)
            attempt += 1

    def unreadable(self, what: str) -> ModelServerError:
        """Return the error for a 2xx answer that lacks the expected shape; `what` says how, without quoting it."""
        return ModelServerError(f"{self.shown_url} answered unreadably: {what}", status=UNREADABLE)

    def _delay_after(self, failure: _AttemptError, attempt: int) -> float:
        """Return the seconds to wait before another attempt, or raise what the caller is to see."""
        delay = None
        if not failure.final:
            delay = retry_delay(
                self.retry,
                attempt,
                status=failure.status,
                retry_after=failure.retry_after,
                jitter=self._jitter(),
            )
        if delay is not None:
            return delay
        tries = "" if attempt == 0 else f" (after {attempt + 1} attempts)"
        kind = RequestTooLargeError if failure.too_large else ModelServerError
        # `from None`: the causes hold the answer's body or the request, and with them texts or the key.
        raise kind(f"{self.shown_url} {failure.what}{tries}", status=failure.shown_status) from None

    def _attempt(self, body: bytes) -> Any:
        """Send the request once."""
        # Imported here: they cost more to load than the rest of the core.
        import http.client
        import urllib.error
        import urllib.request

        request = urllib.request.Request(self.url, data=body, headers=self._headers, method="POST")  # noqa: S310 (scheme checked)
        try:
            with _opener().open(request, timeout=self.timeout) as response:
                raw = self._read_whole(response)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error, body) from None
        except urllib.error.URLError as error:
            raise _connection_failure(error.reason, self.timeout) from None
        except (OSError, http.client.HTTPException) as error:
            raise _connection_failure(error, self.timeout) from None
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            what = f"answered with {len(raw)} bytes that are not JSON; check that the URL is that of the model endpoint"
            raise _AttemptError(what, status=UNREADABLE, final=True) from None

    def _read_whole(self, response: Any) -> bytes:
        """Read the body within the time-out; refuse one that ends early (the library does not when read in pieces)."""
        deadline = time.monotonic() + self.timeout
        pieces: list[bytes] = []
        size = 0
        while piece := response.read1(1 << 20):
            pieces.append(piece)
            size += len(piece)
            if size > MAX_BODY_BYTES:
                raise _AttemptError(f"answered with more than {MAX_BODY_BYTES} bytes", status=UNREADABLE, final=True)
            if time.monotonic() > deadline:
                raise TimeoutError
        declared = response.headers.get("Content-Length", "")
        if declared.isdigit() and size < int(declared):
            what = f"cut its answer short: {size} of {declared} bytes came"
            raise _AttemptError(what, status=None, shown_status=UNREADABLE)
        return b"".join(pieces)

    def _refusal(self, error: Any, sent: bytes) -> _AttemptError:
        """Describe a non-2xx answer by its status and, where it is a word we neither sent nor keep secret, its code."""
        import http.client

        status: int = error.code
        try:
            text = error.read(65536).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            text = ""
        code = _error_code(text)
        if code is not None and (code.encode() in sent or any(s in code or code in s for s in self._secrets)):
            code = None
        too_large = status == 413 or (status in (400, 422) and _TOO_LARGE.search(text) is not None)
        shown = f"refused the request with status {status}" + (f" ({code})" if code else "")
        return _AttemptError(
            f"{shown}; {_remedy(status, too_large, text)}",
            status=status,
            retry_after=asked_wait(error.headers, now=self._clock()),
            too_large=too_large,
        )


def _encode(payload: Any) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


_cached_opener: Any = None


def _opener() -> Any:
    """Return the opener that follows no redirect, made once."""
    global _cached_opener
    if _cached_opener is None:
        import urllib.request

        class _NoRedirects(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
                return None

        _cached_opener = urllib.request.build_opener(_NoRedirects())
    return _cached_opener


def _connection_failure(reason: Any, timeout: float) -> _AttemptError:
    """Describe an attempt that got no whole answer."""
    import http.client
    import ssl

    if isinstance(reason, TimeoutError):
        return _AttemptError(f"did not answer within {timeout:g} s; raise `timeout` or send less at once", status=None)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return _AttemptError("has a certificate that could not be verified", status=None, final=True)
    if isinstance(reason, (http.client.IncompleteRead, http.client.LineTooLong)):
        return _AttemptError("cut its answer short", status=None, shown_status=UNREADABLE)
    # The type and not the text: a protocol error quotes what the server sent.
    detail = getattr(reason, "strerror", None) or type(reason).__name__
    return _AttemptError(f"could not be reached: {detail}", status=None)


def _error_code(text: str) -> str | None:
    """Return the machine-readable code of an error body (`error.code`, `error.type`, `error_type`, `code`, `type`)."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    inner = body.get("error") if isinstance(body, dict) else None
    for holder in (inner, body):
        if isinstance(holder, dict):
            for name in ("code", "type", "error_type"):
                code = holder.get(name)
                if isinstance(code, str) and _CODE.match(code):
                    return code
    return None


def _remedy(status: int, too_large: bool, text: str) -> str:
    """Say what may help, by the status and what the answer's text is about; nothing of the text is quoted."""
    if status in (400, 413, 422) and _TEXT_TOO_LONG.search(text):
        return "a text is longer than the model takes, lower the limit on its characters"
    if too_large:
        return "it is too large, send fewer or shorter texts at once"
    if status in (401, 403):
        return "check api_key"
    if status == 404:
        return "check the URL and the model's name"
    if 300 <= status <= 399:
        return "redirects are not followed, give the final URL"
    if status == 429:
        return "too many requests, send fewer or raise max_retries"
    if status >= 500:
        return "the server failed, try again later"
    return "the server's log or documentation says what it accepts"
