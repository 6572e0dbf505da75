"""A PostgreSQL server of one's own, to be killed and started again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from tests.fix_postgres import start_embedded_server


class Killable:
    """A server that a test may kill and start again on the same folder and address.

    It is a child of this process, so that a killed one can be waited for; pgserver only makes its folder.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="agora-pg-kill-"))
        made = start_embedded_server(self.folder)
        self.conninfo = self.address = str(made.get_uri())
        options = psycopg.conninfo.conninfo_to_dict(self.conninfo)
        self._command = [str(made.bin_path / "postgres"), "-D", str(self.folder), "-h", "", "-k", str(options["host"])]
        self._user = made.system_user
        made.cleanup()
        self.start()

    def start(self) -> None:
        self._log = (self.folder.parent / f"{self.folder.name}.log").open("ab")
        self._process = self._launched()
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.conninfo).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None:
                    # The sessions of a killed server end one after another; a new one waits for the last.
                    self._process = self._launched()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _launched(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdout=self._log, stderr=self._log, user=self._user)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def remove(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)
        self._log.close()
        Path(self._log.name).unlink()
        shutil.rmtree(self.folder, ignore_errors=True)
