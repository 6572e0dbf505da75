"""Inject mode: retrieve once a turn, and fold what was found into the system prompt with numbered citations."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from agora_core.calling import acall, acall_function, call, call_function, given
from agora_core.embedding import check_query
from agora_core.errors import InvalidArgumentError, InvalidFilterError
from agora_core.filters import frozen_filter
from agora_core.metadata import copy_json
from agora_core.protocols import AnyFilter, Retriever, Step
from agora_core.records import JSON, Passage
from agora_core.validation import check_min_score, check_top_k

STEP_NAME: Final = "retrieve"
TOOL_NAME: Final = "retrieve"

_OPENING: Final = "<retrieved_context>"
_CLOSING: Final = "</retrieved_context>"
_INSTRUCTION: Final = (
    "Use the retrieved context above to answer when relevant, and cite sources by their bracket number."
)

# White space, and characters that show as nothing or only mark the one before: a model reads a tag with them inside
# as the tag.
_BLANK: Final = (
    r"\s\u00ad\u0300-\u036f\u061c\u180e\u1ab0-\u1aff\u1dc0-\u1dff\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    r"\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\U000e0000-\U000e01ef"
)


def _letters(word: str) -> str:
    """Return a pattern for a word of a to z in Unicode's alphabets for show: fullwidth, circled and mathematical."""
    patterns = []
    for letter in word:
        place = ord(letter) - ord("a")
        # Thirteen alphabets of 26 capitals and 26 small letters one after another.
        mathematical = "".join(chr(0x1D400 + 26 * n + place) for n in range(26))
        patterns.append(f"[{letter}{chr(0xFF41 + place)}{chr(0x24D0 + place)}{mathematical}]")
    return f"[{_BLANK}]*".join(patterns)


# An opening or closing fence in any case and spacing, whole or cut short, with the look-alikes of its marks.
# No two runs of one class stand side by side, so that matching takes linear time.
_FENCE: Final = re.compile(
    "".join(
        (
            r"[<\uff1c\ufe64\u2039\u27e8\u3008]",
            rf"(?=[{_BLANK}/\\\uff0f\u2044\u2215]*",
            _letters("retrieved"),
            rf"[{_BLANK}_\uff3f\-\u2010-\u2015]*",
            _letters("context"),
            ")",
        )
    ),
    re.IGNORECASE,
)
_LINE_BREAKS: Final = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")

RetrievalFilter = Callable[[Any], Any]
"""Called with the actor of a turn; returns the filter of what that actor may see, now or as an awaitable."""


@dataclass(frozen=True, slots=True)
class Injection:
    """A turn with its context: the prompt to use, the passages in it, and the retrieval as a tool call.

    `tool_call` is None where nothing was found, else a JSON object with the keys `id`, `name` (`retrieve`), `args`,
    `status` (`auto_executed`) and `result` (the passages as JSON objects).
    """

    system: str
    passages: list[Passage]
    tool_call: dict[str, JSON] | None


class ContextInjector:
    """Retrieves once a turn and folds the passages into the system prompt.

    Who may see what is decided by `retrieval_filter`. When it raises, or returns anything but a mapping or an
    expression, the turn fails: there is never a retrieval without the filter that was asked for.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        top_k: int = 5,
        retrieval_filter: RetrievalFilter | None = None,
        min_score: float | None = None,
        step: Step | None = None,
    ) -> None:
        """Stand on any object with `retrieve` or `aretrieve`.

        Args:
            retriever: asked once a turn.
            top_k: passages per turn, 1 or more.
            retrieval_filter: called with the actor of the turn, inside the step; None retrieves without a filter.
            min_score: a floor on the retriever's scores; None keeps all.
            step: the durable seam. `step("retrieve", fn)` returns what `fn()` returned, now or in an earlier run of
                the same turn: a list of plain JSON objects, see `passage_to_dict`. Its memory must not outlive a turn.
        """
        self.retriever = retriever
        self.top_k = check_top_k(top_k)
        self.min_score = check_min_score(min_score)
        self.retrieval_filter = _check_callable(retrieval_filter, "retrieval_filter")
        self.step = _check_callable(step, "step")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.retriever!r}, top_k={self.top_k})"

    def inject(self, query: str, *, system: str = "", actor: Any = None) -> Injection:
        """Retrieve for `query` and fold the passages into `system`.

        A blank query retrieves nothing. Without passages the prompt is `system`, unchanged.

        Raises:
            InvalidFilterError: `retrieval_filter` returned neither a mapping nor an expression.
            UnsupportedOperationError: the retriever, the hook or the step is async.
        """
        if not check_query(query).strip():
            return Injection(system, [], None)

        def fn() -> list[dict[str, JSON]]:
            options = self._options()
            if self.retrieval_filter is not None:
                bound = call_function(self.retrieval_filter, actor, what="retrieval_filter")
                options["filter"] = _check_filter(bound)
            return _as_dicts(call(self.retriever, "retrieve", query, **options))

        if self.step is None:
            return self._folded(query, system, fn())
        return self._folded(query, system, call_function(self.step, STEP_NAME, fn, what="step"))

    async def ainject(self, query: str, *, system: str = "", actor: Any = None) -> Injection:
        """Async twin of `inject`. The hook and the step may be async or not.

        An async step awaits `fn()`. A sync step runs in a worker thread, where `fn()` returns the passages themselves.
        """
        if not check_query(query).strip():
            return Injection(system, [], None)

        async def retrieve() -> list[dict[str, JSON]]:
            options = self._options()
            if self.retrieval_filter is not None:
                options["filter"] = _check_filter(await acall_function(self.retrieval_filter, actor))
            return _as_dicts(await acall(self.retriever, "retrieve", query, **options))

        if self.step is None:
            return self._folded(query, system, await retrieve())
        loop = asyncio.get_running_loop()

        def fn() -> Any:
            if _running_loop() is loop:
                return retrieve()
            return asyncio.run_coroutine_threadsafe(retrieve(), loop).result()

        return self._folded(query, system, await acall_function(self.step, STEP_NAME, fn))

    def _options(self) -> dict[str, Any]:
        return {"top_k": self.top_k, **given(min_score=self.min_score)}

    def _folded(self, query: str, system: str, found: Any) -> Injection:
        passages = passages_from_step(found)
        # With a step the id comes from what was retrieved, so that a turn run again records the same call.
        call_id = None if self.step is None else _stable_id(query, found)
        return Injection(fold_context(system, passages), passages, retrieval_call(query, passages, id=call_id))


def render_context(passages: Sequence[Passage]) -> str:
    """Return the block that a model reads: the passages in numbered brackets, fenced, and how to use them.

    A passage cannot close the block it stands in: the bracket of a fence in its text or source is written `&lt;`,
    and a source is put on one line. Without passages it is "".
    """
    if not passages:
        return ""
    items = [_item(number, passage) for number, passage in enumerate(passages, start=1)]
    return "\n".join([_OPENING, *items, _CLOSING, _INSTRUCTION])


def fold_context(system: str, passages: Sequence[Passage]) -> str:
    """Return a system prompt followed by the block of `passages`; without passages it is unchanged."""
    if not passages:
        return system
    block = render_context(passages)
    return f"{system}\n\n{block}" if system else block


def retrieval_call(query: str, passages: Sequence[Passage], *, id: str | None = None) -> dict[str, JSON] | None:
    """Return a retrieval as a tool call that was already executed; None where it found nothing.

    `id` left out is a new one.
    """
    if not passages:
        return None
    return {
        "id": f"retrieve-{uuid.uuid4().hex}" if id is None else id,
        "name": TOOL_NAME,
        "args": {"query": query},
        "status": "auto_executed",
        "result": [passage_to_dict(passage) for passage in passages],
    }


def passage_to_dict(passage: Passage) -> dict[str, JSON]:
    """Return a passage as a plain JSON object that shares nothing with it; source and metadata only where it has them.

    Raises:
        InvalidMetadataError: its metadata is not JSON.
    """
    plain: dict[str, JSON] = {"id": passage.id, "text": passage.text, "score": float(passage.score)}
    if passage.source is not None:
        plain["source"] = passage.source
    if passage.metadata is not None:
        plain["metadata"] = copy_json(passage.metadata, where=f"passage {passage.id!r}", what="metadata")
    return plain


def passage_from_dict(plain: Mapping[str, JSON]) -> Passage:
    """Return the passage that `passage_to_dict` made an object of; other keys are ignored.

    Raises:
        InvalidArgumentError: a field is missing or of another type.
    """
    if not isinstance(plain, Mapping):
        raise InvalidArgumentError(f"a passage must be an object with id, text and score, got {type(plain).__name__}")
    for name, kinds, optional in _FIELDS:
        value = plain.get(name)
        if (value is None and optional) or (isinstance(value, kinds) and not isinstance(value, bool)):
            continue
        raise InvalidArgumentError(
            f"a passage's {name!r} must be {'null or ' if optional else ''}"
            f"{' or '.join(kind.__name__ for kind in kinds)}, got {type(value).__name__}"
        )
    metadata = plain.get("metadata")
    return Passage(
        plain["id"],
        plain["text"],
        float(plain["score"]),
        plain.get("source"),
        None if metadata is None else copy_json(metadata, where=f"passage {plain['id']!r}", what="metadata"),
    )


_FIELDS: Final[tuple[tuple[str, tuple[type, ...], bool], ...]] = (
    ("id", (str,), False),
    ("text", (str,), False),
    ("score", (int, float), False),
    ("source", (str,), True),
    ("metadata", (dict, Mapping), True),
)


def passages_from_step(found: Any) -> list[Passage]:
    """Return the passages that a step returned as JSON objects.

    Raises:
        InvalidArgumentError: it returned something else, for instance nothing at all.
    """
    if isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Sequence):
        raise InvalidArgumentError(
            f"step must return what fn() returned, a list of passages as JSON objects, got {type(found).__name__}"
        )
    return [passage_from_dict(plain) for plain in found]


def _item(number: int, passage: Passage) -> str:
    text = _without_fences(passage.text)
    if passage.source is None:
        return f"[{number}] {text}"
    # A line break in a source could start what looks like another item.
    return f"[{number}] ({_without_fences(_LINE_BREAKS.sub(' ', passage.source))}) {text}"


def _without_fences(text: str) -> str:
    return _FENCE.sub("&lt;", text)


def _as_dicts(passages: Any) -> list[dict[str, JSON]]:
    return [passage_to_dict(passage) for passage in passages]


def _stable_id(query: str, found: Any) -> str:
    content = json.dumps([query, found], sort_keys=True, default=str)
    return f"retrieve-{hashlib.sha256(content.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _check_filter(bound: Any) -> AnyFilter:
    """Return what the hook returned where it is a filter; fail closed otherwise, None included."""
    try:
        # Frozen: who answered with a mapping may change it before it is used.
        return frozen_filter(bound)
    except InvalidFilterError as error:
        raise InvalidFilterError(
            f"retrieval_filter returned no usable filter, so nothing is retrieved: {error}"
        ) from error


def _check_callable(function: Any, argument: str) -> Callable[..., Any | Awaitable[Any]] | None:
    if function is not None and not callable(function):
        raise InvalidArgumentError(f"{argument} must be callable or None, got {type(function).__name__}")
    return cast("Callable[..., Any | Awaitable[Any]] | None", function)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
