"""Follow a folder: be told when its files have changed and no more do."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from agora_core.errors import InvalidArgumentError
from agora_core.extras import require

_WAKING: Final = 200
"""Milliseconds."""

PathLike = str | os.PathLike[str]


def watch_files(
    paths: PathLike | Iterable[PathLike], *, settle: float = 1.0, stop: threading.Event | None = None
) -> Iterator[set[Path]]:
    """Give an empty set once the paths are watched, then those that changed, each time changes have settled.

    What changes while a turn is being dealt with is told in the next. It needs the extra `watch`.

    To keep an index in step with a folder, sync at each turn:

        for _ in watch_files("docs"):
            sync_documents(read_files("docs"), embedder=embedder, store=store)

    Args:
        paths: folders or files that exist.
        settle: seconds without a change after which changes count as settled, above 0.
        stop: set it to end; without one the iteration ends with the process.

    Raises:
        FileNotFoundError: a path does not exist.
        InvalidArgumentError: `settle` is not above 0.

    Examples:
        >>> for changed in watch_files(folder):
        ...     print([document.id for document in read_files(folder)])
        ...     break
        ['guide.md']
    """
    watchfiles = require("watchfiles", extra="watch")
    seconds: Any = settle
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise InvalidArgumentError(f"settle must be a number of seconds above 0, got {settle!r}")
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    for path in given:
        if not Path(path).exists():
            raise FileNotFoundError(f"path {os.fspath(path)!r} does not exist; give folders and files that do")
    milliseconds = int(settle * 1000)
    # It wakes up without a change too, so that it surely watches before the first turn is given: what changes from then
    # on is told, also while a turn is being dealt with.
    turns = watchfiles.watch(
        *given,
        debounce=max(milliseconds * 16, 1600),
        step=milliseconds,
        stop_event=stop,
        rust_timeout=_WAKING,
        yield_on_timeout=True,
    )

    def settled() -> Iterator[set[Path]]:
        next(turns, None)
        yield set()
        for changes in turns:
            if changes:
                yield {Path(path) for _, path in changes}

    return settled()
