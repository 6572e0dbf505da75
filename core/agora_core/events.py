"""What happens, told to whoever listens: handlers of one's own, and OpenTelemetry where it is set up.

An event says what was done, how long it took and how much it was. No id, text, value of a filter or token is in it; the
query is, where a handler asked for it. Nothing is measured while nobody listens.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final, TypeVar

from agora_core.concurrency import fork_safe_lock
from agora_core.metadata import UNSET
from agora_core.steps import Steps

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that ended: `name` is `retrieve`, `search`, `embed`, `rerank`, `upsert`, `ingest` or `sync`.

    Examples:
        >>> seen = []
        >>> stop = on_event(seen.append)
        >>> passage = retriever.retrieve("days of leave", top_k=1)
        >>> stop()
        >>> [event.name for event in seen]
        ['embed', 'search', 'retrieve']
    """

    name: str
    seconds: float
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Counts (`top_k`, `returned`, `texts`, `characters`, `records`), `filter_keys`, the class that did it (`by`), and
    `error`, the class of what was raised."""


Handler = Callable[[Event], object]

# Guards the replacing of `_handlers`; whoever tells an event reads the tuple as it is.
_lock = fork_safe_lock(after=2)
_handlers: tuple[tuple[Handler, bool], ...] = ()
# The names of the events that are under way here, the outermost first.
_under_way: ContextVar[tuple[str, ...]] = ContextVar("agora_events", default=())

_log: Final = logging.getLogger("agora_core")
_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_OPERATIONS: Final = {"retrieve": "retrieval", "embed": "embeddings"}
_MODULE: Final = "opentelemetry.trace"


def on_event(handler: Handler, *, record_content: bool = False) -> Callable[[], None]:
    """Call `handler` with each event, in the thread it happens in; return a function that ends that.

    An error of a handler is logged, and changes nothing for the caller.

    Args:
        handler: takes an `Event`; it should be quick.
        record_content: its events of `retrieve` also hold the query's text as `query`. It may be personal data.

    Examples:
        >>> stop = on_event(lambda event: print(event.name, event.attributes["returned"]))
        >>> found = store.search_text("leave", top_k=1)
        search 1
        >>> stop()
    """
    global _handlers
    if not callable(handler):
        raise TypeError(f"handler must be a function of an event, got {handler!r}")
    entry = (handler, record_content)
    with _lock:
        _handlers = (*_handlers, entry)

    def stop() -> None:
        global _handlers
        with _lock:
            _handlers = tuple(one for one in _handlers if one is not entry)

    return stop


def listening() -> bool:
    """Say whether anyone listens."""
    return bool(_handlers) or _is_traced()


@contextmanager
def watched(name: str, *, content: str | None = None, **attributes: Any) -> Generator[dict[str, Any], None, None]:
    """Tell an event when the block ends; what the block adds to the dict it gets is part of it.

    Inside an event of the same name that is the same thing seen through another layer (a view of a store), nothing is
    told; `retrieve` inside `retrieve` is a leg, and is.
    """
    outer = _under_way.get()
    known: dict[str, Any] = attributes
    if not listening() or (name in outer and name != "retrieve"):
        yield known
        return
    token = _under_way.set((*outer, name))
    begun = time.perf_counter()
    with _span(name, content, known):
        try:
            yield known
        except BaseException as error:
            known["error"] = type(error).__name__
            raise
        finally:
            _under_way.reset(token)
            seconds = time.perf_counter() - begun
            for handler, record_content in _handlers:
                shown = {**known, "query": content} if record_content and content is not None else dict(known)
                try:
                    handler(Event(name, seconds, shown))
                except Exception:
                    _log.exception("a handler of events failed")


def watching(
    name: str, steps: Steps[T], *, content: str | None = None, filter: Any = UNSET, **attributes: Any
) -> Steps[T]:
    """Return an operation that tells an event when it ends; the operation itself where nobody listens.

    Of a `filter` the keys are told; None has none.
    """
    if not listening():
        return steps
    if filter is not UNSET:
        attributes["filter_keys"] = filter_keys(filter)
    return _watching(name, steps, content, attributes)


def _watching(name: str, steps: Steps[T], content: str | None, attributes: dict[str, Any]) -> Steps[T]:
    with watched(name, content=content, **attributes) as known:
        result = yield from steps
        if isinstance(result, list):
            known["returned"] = len(result)
        return result


def watch_methods(cls: type, events: Mapping[str, str], *, root: type) -> None:
    """Let the methods of a class below `root` tell events; `events` names each method's. Async ones stay async.

    What `root` itself defines tells nothing; what a class takes from a mixin does.
    """
    for method, name in events.items():
        owner = next((one for one in cls.__mro__ if method in vars(one)), root)
        # The other classes below `root` were watched when they were made.
        if owner is root or (owner is not cls and issubclass(owner, root)):
            continue
        function = vars(owner)[method]
        setattr(cls, method, _told_async(function, name) if iscoroutinefunction(function) else _told(function, name))


def _told(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    def told(self: Any, *arguments: Any, **options: Any) -> Any:
        if not listening():
            return function(self, *arguments, **options)
        with watched(name, **_described(self, options)) as known:
            return _counted(function(self, *arguments, **options), known)

    return told


def _told_async(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    async def told(self: Any, *arguments: Any, **options: Any) -> Any:
        if not listening():
            return await function(self, *arguments, **options)
        with watched(name, **_described(self, options)) as known:
            return _counted(await function(self, *arguments, **options), known)

    return told


def _described(target: object, options: Mapping[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {"by": type(target).__name__, "filter_keys": filter_keys(options.get("filter"))}
    return {**known, "top_k": options["top_k"]} if "top_k" in options else known


def _counted(result: T, known: dict[str, Any]) -> T:
    if isinstance(result, list):
        known["returned"] = len(result)
    elif isinstance(result, int):
        known["records"] = result
    return result


def filter_keys(filter: Any) -> list[str]:
    """Return the top-level keys a filter speaks of, sorted; its values are nobody's business."""
    if filter is None:
        return []
    if isinstance(filter, Mapping):
        return sorted(map(str, filter))
    found: set[str] = set()
    pending = [filter]
    while pending:
        one = pending.pop()
        path = getattr(one, "path", None)
        if isinstance(path, tuple) and path:
            found.add(str(path[0]))
        pending += getattr(one, "children", ())
        if (inner := getattr(one, "child", None)) is not None:
            pending.append(inner)
    return sorted(found)


def _is_traced() -> bool:
    # Without a provider of the application's own, spans go nowhere.
    trace = sys.modules.get(_MODULE)
    return trace is not None and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@contextmanager
def _span(name: str, content: str | None, known: dict[str, Any]) -> Generator[None, None, None]:
    if not _is_traced():
        yield
        return
    trace = sys.modules[_MODULE]
    operation = _OPERATIONS.get(name, name)
    tracer = trace.get_tracer("agora_core")
    with tracer.start_as_current_span(operation, record_exception=False, set_status_on_exception=False) as span:
        span.set_attribute("gen_ai.operation.name", operation)
        if content is not None and os.environ.get(_CONTENT, "").lower() == "true":
            span.set_attribute("gen_ai.retrieval.query.text", content)
        try:
            yield
        except BaseException as error:
            # The message may hold what was asked; its class does not.
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(trace.StatusCode.ERROR)
            raise
        finally:
            for key, value in known.items():
                if value is not None:
                    span.set_attribute(f"agora.{key}", value)
