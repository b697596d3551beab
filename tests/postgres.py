"""A cluster of PostgreSQL for a test, in a folder of its own, as a user without rights."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import chown
from tempfile import TemporaryDirectory

from tests.ports import free_port

_UNPRIVILEGED, _PASSWORD = "nobody", "hunter2"


def programs() -> Path | None:
    """Return the folder of the newest server that Debian has installed."""
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the address of an empty database; its cluster ends with the block."""
    bin_ = programs()
    assert bin_ is not None
    with TemporaryDirectory(prefix="postgres-", dir="/tmp") as folder:
        as_user: list[str] = []
        if os.geteuid() == 0:
            chown(folder, _UNPRIVILEGED)
            as_user = ["setpriv", f"--reuid={_UNPRIVILEGED}", "--regid=nogroup", "--clear-groups"]
        port = free_port()
        data, log = f"{folder}/data", f"{folder}/log"
        listens = f"-k {folder} -p {port} -c listen_addresses=127.0.0.1 -c fsync=off"

        def run(name: str, *arguments: str) -> None:
            command = [*as_user, str(bin_ / name), *arguments]
            environment = {**os.environ, "PGPASSWORD": _PASSWORD}
            done = subprocess.run(
                command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, timeout=60
            )
            assert done.returncode == 0, command

        password = Path(folder, "password")
        password.write_text(_PASSWORD)
        asks = ("--auth=scram-sha-256", f"--pwfile={password}", "--encoding=UTF8", "--no-locale")
        run("initdb", "-D", data, "-U", "stepcast", "--no-sync", *asks)
        run("pg_ctl", "start", "-D", data, "-w", "-o", listens, "-l", log)
        try:
            run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "stepcast", "lab")
            yield f"postgresql://stepcast:{_PASSWORD}@127.0.0.1:{port}/lab"
        finally:
            run("pg_ctl", "stop", "-D", data, "-m", "immediate")
