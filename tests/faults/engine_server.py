"""Qdrant's engine on a folder, served over REST by a process of its own that may be killed and started again.

python -m tests.faults.engine_server FOLDER PORT
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.integration.qdrant.edge_client import EdgeClient
from tests.integration.qdrant.rest_server import RestServer


class _Lasting(EdgeClient):
    """The engine, which finds the collections again that an earlier process made."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder=folder)
        self._list = folder / "collections.json"

    def known(self) -> dict[str, Any]:
        known: dict[str, Any] = json.loads(self._list.read_text()) if self._list.exists() else {}
        return known

    def create_collection(self, collection_name: str, *arguments: Any, **options: Any) -> bool:
        made = super().create_collection(collection_name, *arguments, **options)
        described = {"vectors": json.loads(arguments[0].model_dump_json(exclude_none=True))}
        self._list.write_text(json.dumps({**self.known(), collection_name: described}))
        return made


class EngineServer:
    """The process that serves, as its tests see it."""

    def __init__(self, folder: str | None = None) -> None:
        """Make a folder below `folder` and start."""
        self.folder = Path(tempfile.mkdtemp(prefix="agora-engine-", dir=folder))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.faults.engine_server", str(self.folder), str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "the server did not start"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def fail(self, *, failures: list[int], dropped: int) -> None:
        """Answer the next requests with these statuses, and do not answer so many."""
        self._said({"failures": failures, "dropped": dropped})

    def connections(self) -> int:
        """How many connections to the server are open, beside the one that asks."""
        return int(self._said(None)["connections"]) - 1

    def _said(self, body: dict[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.address}/faults", data), timeout=10) as answer:
            said: dict[str, Any] = json.load(answer)
        return said

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def main() -> None:
    """Serve until killed."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    engine = _Lasting(folder)
    server = RestServer(engine, port=port, keep=False)
    for name, described in engine.known().items():
        server.answer("PUT", f"/collections/{name}", json.dumps(described).encode())
    print("ready", flush=True)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main()
