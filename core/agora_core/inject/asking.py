"""Who asks, as a digest: what was retrieved for one actor and is kept beside it is shown to no other."""

from __future__ import annotations

import dataclasses
import hashlib
import uuid
from collections.abc import Callable
from typing import Any

from agora_core.calling import acall_function, call_function, scope_of
from agora_core.errors import UnsupportedOperationError
from agora_core.filters import Expression, filter_to_json, frozen_filter
from agora_core.filters.literals import canonical_json
from agora_core.metadata import UNSET
from agora_core.steps import Call, Steps


class Asker:
    """Who asks in one call, from `ContextInjector.asker`, which takes it as an actor too.

    The filter is derived once, for the retrieval and for telling actors apart.
    """

    def __init__(self, actor: Any, hook: Callable[[Any], Any] | None, retriever: object) -> None:
        """Take an actor, the application's `retrieval_filter`, and the retriever that is asked."""
        self.actor, self._hook, self._retriever = actor, hook, retriever
        self._bound: Any = UNSET

    def bound(self) -> Steps[Any]:
        """Return what the hook answers for this actor; it is asked once."""
        if self._bound is UNSET and (hook := self._hook) is not None:
            # A function with a method `acall` has an async twin of its own.
            awaited = getattr(hook, "acall", hook)
            self._bound = yield Call(
                lambda: call_function(hook, self.actor, what="retrieval_filter"),
                lambda: acall_function(awaited, self.actor),
            )
        return self._bound

    def identity(self) -> Steps[str]:
        """Return a digest of what a retrieval is bounded by: who asks, and the scope of the retriever now.

        An actor that is JSON, or a dataclass of JSON, is told by itself and asks the hook nothing; any other by the
        filter that is derived for it, without a hook by the scope alone. "" where nobody asks and nothing bounds; where
        nobody can say what bounds, no two digests are equal.

        Raises:
            InvalidFilterError: the hook answered with something that is not a filter.
        """
        nobody = self.actor is UNSET
        try:
            scope = yield from scope_of(self._retriever)
        except UnsupportedOperationError:
            # An async function decides it, behind a retriever that is composed of others.
            return uuid.uuid4().hex
        known = [canonical_json(filter_to_json(scope)) if isinstance(scope, Expression) else ""]
        if not nobody:
            try:
                known.append(f"actor {canonical_json(_as_data(self.actor))}")
            except (TypeError, ValueError, RecursionError):
                nobody = self._hook is None and scope is UNSET
                if self._hook is not None:
                    bound = yield from self.bound()
                    known.append(f"filter {canonical_json(filter_to_json(frozen_filter(bound)))}")
        if nobody and (self._hook is not None or self.actor is not UNSET):
            # A hook that has nobody to ask for, or a retriever that may bound itself by who asks, whom nothing tells.
            return uuid.uuid4().hex
        return hashlib.sha256("\0".join(known).encode("utf-8", "surrogatepass")).hexdigest() if any(known) else ""


def _as_data(actor: Any) -> Any:
    """Return the fields of a dataclass with its name, and what else its object holds; anything else as it is."""
    if not dataclasses.is_dataclass(actor) or isinstance(actor, type):
        return actor
    fields = {each.name: getattr(actor, each.name) for each in dataclasses.fields(actor)}
    return [type(actor).__qualname__, {**getattr(actor, "__dict__", {}), **fields}]
