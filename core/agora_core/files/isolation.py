"""Reading in a process of its own, with bounds on time and memory: whatever a hostile file does ends with it."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, Any, Final

from agora_core.errors import MissingExtraError
from agora_core.files.parts import TOO_LARGE, FilePart, UnreadableFileError, UnsupportedContentTypeError

SECONDS: Final = 60.0
"""After so long without an end, a file counts as one that has none."""


def read_apart(data: bytes, content_type: str, *, max_bytes: int, seconds: float | None = None) -> Iterator[FilePart]:
    """Give the parts of a file, read in a child process that all such files share, one at a time.

    Raises:
        UnreadableFileError: the file is damaged, encrypted, too large once unpacked, or takes too long.
        UnsupportedContentTypeError: the package that reads it is not installed.
    """
    return iter(_child().read(data, content_type, max_bytes, SECONDS if seconds is None else seconds))


class _Child:
    def __init__(self) -> None:
        # Guards the process: one file at a time.
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[bytes] = queue.Queue()
        self.pid = os.getpid()

    def read(self, data: bytes, content_type: str, max_bytes: int, seconds: float) -> list[FilePart]:
        with self._lock:
            try:
                return self._read(data, content_type, max_bytes, seconds)
            except BaseException as error:
                # A child in the middle of an answer is of no more use.
                if not isinstance(error, UnreadableFileError) or error.reason in ("timeout", TOO_LARGE):
                    self.stop()
                raise

    def _read(self, data: bytes, content_type: str, max_bytes: int, seconds: float) -> list[FilePart]:
        process = self._started()
        stdin: Any = process.stdin
        head = json.dumps({"type": content_type, "size": len(data), "max_bytes": max_bytes}).encode() + b"\n"
        writer = threading.Thread(target=_send, args=(stdin, head, data), daemon=True)
        writer.start()
        parts: list[FilePart] = []
        room, deadline = max_bytes, time.monotonic() + seconds
        while True:
            try:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise queue.Empty
                line = self._answers.get(timeout=left)
            except queue.Empty:
                raise UnreadableFileError("timeout", f"not read within {seconds:g} s") from None
            if not line:
                self.stop()
                raise UnreadableFileError(
                    "unreadable", "its reader ended without an answer; it may need too much memory"
                )
            answer = json.loads(line)
            if "text" in answer:
                room -= len(answer["text"])
                if room < 0:
                    raise UnreadableFileError(TOO_LARGE, f"holds more than {max_bytes} characters of text")
                parts.append(FilePart(answer["text"], answer["metadata"]))
                continue
            if "missing" in answer:
                raise UnsupportedContentTypeError(
                    content_type, f"{content_type!r} needs {answer['missing']}: pip install 'agora-retrieval[files]'"
                )
            if "reason" in answer:
                raise UnreadableFileError(answer["reason"], answer["detail"])
            return parts

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            # The child finds this library where its parent found it.
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
            self._process = subprocess.Popen(  # this very interpreter and a module of ours
                [sys.executable, "-m", "agora_core.files.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            self._answers = queue.Queue()
            threading.Thread(target=_receive, args=(self._process.stdout, self._answers), daemon=True).start()
        return self._process

    def stop(self) -> None:
        """End the process. The next file starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _send(stdin: IO[bytes], head: bytes, data: bytes) -> None:
    # Where the process is gone, whoever waits for its answer sees that.
    with contextlib.suppress(OSError, ValueError):
        stdin.write(head)
        stdin.write(data)
        stdin.flush()


def _receive(stdout: IO[bytes], answers: queue.Queue[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in stdout:
            answers.put(line)
    answers.put(b"")


_made: list[_Child] = []
# Guards `_made`.
_making = threading.Lock()


def _child() -> _Child:
    with _making:
        if not _made or _made[-1].pid != os.getpid():
            # After a fork the other process's child is not ours: it is neither used nor ended here.
            _made[:] = [_Child()]
            atexit.register(_made[-1].stop)
        return _made[-1]


def missing_package(error: ImportError) -> str:
    """Return the name of the package that an import missed."""
    return "a package" if isinstance(error, MissingExtraError) or not error.name else error.name.partition(".")[0]
