"""Instances that nobody can connect to: processes of this host, with a folder and an address."""

import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from profilers.clusters.ec2 import VARIABLE as SHUTDOWN
from profilers.clusters.ssh import MACHINE
from profilers.renting import ssm

_FIRST = "sleep infinity"
_SHUTDOWN = """#!/bin/sh
printf 'USEC=%s000000\\nMODE=poweroff\\n' $(($(date +%s) + 60 * ${2#+})) > "$STEPCAST_SHUTDOWN"
"""


@dataclass
class Instance:
    """Processes with a folder and an address; they end with the first of them."""

    folder: Path
    address: str
    first: "subprocess.Popen[bytes]"

    @classmethod
    def started(cls, folder: Path, address: str, user_data: str) -> "Instance":
        """Start an instance in a folder that is not there yet; return it once user data has run."""
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/shutdown").write_text(_SHUTDOWN)
        (folder / "bin/shutdown").chmod(0o755)
        alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        instance = cls(folder, address, subprocess.Popen([*alone, *_FIRST.split()]))
        while not instance._children():
            assert instance.first.poll() is None
        with (folder / "console").open("wb") as console:
            assert instance.run(user_data, console, console).wait() == 0
        return instance

    def end(self) -> None:
        """End it, with whatever runs there."""
        self.first.kill()
        self.first.wait()

    def run(self, script: str, out: IO[bytes], errors: IO[bytes]) -> "subprocess.Popen[bytes]":
        """Start a script of root's shell."""
        script = script.replace(ssm.FOLDER, str(self.folder / "lib"))
        for there, here in (("/etc/ssh/", "./"), ("> /dev/console", ">> ./console")):
            script = script.replace(there, here)
        variables = {
            MACHINE: str(self.folder),
            SHUTDOWN: str(self.folder / "scheduled"),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
        }
        return subprocess.Popen(
            ["nsenter", "--target", self._children()[0], "--pid", "--mount", "sh", "-c", script],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            env={**os.environ, **variables},
        )

    def processes(self) -> list[str]:
        """Return the words of what runs there, beside its first process."""
        space = os.readlink(f"/proc/{self.first.pid}/ns/pid_for_children")
        commands = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (path / "cmdline").read_text().replace("\0", " ").strip()
                if os.readlink(path / "ns/pid") == space and words and words != _FIRST:
                    commands.append(words)
        return commands

    def _children(self) -> list[str]:
        pid = self.first.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
