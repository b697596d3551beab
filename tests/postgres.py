"""A cluster of PostgreSQL of our own, in a new folder, as a user without rights."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import chown
from tempfile import TemporaryDirectory

from tests.ports import free_port
from warehouse.records import MissingTool, StepcastError

_UNPRIVILEGED, _PASSWORD = "nobody", "hunter2"
_TRIES = 20
NOT_SYNCED = "-c fsync=off"
"""What is lost if the machine stops, not if a process is killed: for tests."""


def programs() -> Path | None:
    """Return the folder of the newest server that Debian has installed."""
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@dataclass(frozen=True)
class Cluster:
    """A cluster in `folder`, which nobody else uses, and its empty database."""

    folder: str
    port: int
    settings: str

    @property
    def url(self) -> str:
        """The address of the database, with the password."""
        return f"postgresql://stepcast:{_PASSWORD}@127.0.0.1:{self.port}/lab"

    def start(self) -> None:
        """Start the server, also after it was killed.

        Raises:
            StepcastError: it does not start; its last line says why.
        """
        listens = f"-k {self.folder} -p {self.port} -c listen_addresses=127.0.0.1 {self.settings}"
        log = f"{self.folder}/log"
        for _ in range(_TRIES):
            # Processes of a killed server hold its memory until they see that it is gone.
            with suppress(StepcastError):
                self.run("pg_ctl", "start", "-D", self._data, "-w", "-o", listens, "-l", log)
                return
        raise StepcastError(f"PostgreSQL: {Path(log).read_text().splitlines()[-1]}")

    def kill(self) -> None:
        """Kill the server with SIGKILL; those of its processes that work see it and end."""
        pid = Path(self._data, "postmaster.pid").read_text().splitlines()[0]
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)

    def stop(self) -> None:
        """End the server at once."""
        self.run("pg_ctl", "stop", "-D", self._data, "-m", "immediate")

    def make(self) -> None:
        """Make the cluster, start it, and make the database."""
        password = Path(self.folder, "password")
        password.write_text(_PASSWORD)
        asks = ("--auth=scram-sha-256", f"--pwfile={password}", "--encoding=UTF8", "--no-locale")
        self.run("initdb", "-D", self._data, "-U", "stepcast", "--no-sync", *asks)
        self.start()
        self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "stepcast", "lab")

    def run(self, name: str, *arguments: str) -> None:
        """Run a program of PostgreSQL.

        Raises:
            MissingTool: it is not installed.
            StepcastError: it failed.
        """
        if (bin_ := programs()) is None:
            raise MissingTool("PostgreSQL is not installed: apt-get install postgresql")
        root = os.geteuid() == 0
        as_user = ["setpriv", f"--reuid={_UNPRIVILEGED}", "--regid=nogroup", "--clear-groups"]
        done = subprocess.run(
            [*(as_user if root else []), str(bin_ / name), *arguments],
            cwd=self.folder,
            env={**os.environ, "PGPASSWORD": _PASSWORD},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise StepcastError(f"{name} of PostgreSQL ended with {done.returncode}")

    @property
    def _data(self) -> str:
        return f"{self.folder}/data"


@contextmanager
def cluster(settings: str = "") -> Iterator[Cluster]:
    """Yield a new cluster, which runs; it ends with the block."""
    with TemporaryDirectory(prefix="postgres-", dir="/tmp") as folder:
        if os.geteuid() == 0:
            chown(folder, _UNPRIVILEGED)
        server = Cluster(folder, free_port(), settings)
        server.make()
        try:
            yield server
        finally:
            server.stop()
