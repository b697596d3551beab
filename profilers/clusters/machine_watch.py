"""A connection that holds a machine's lock and folder, and asks for its CPU times."""

import shlex
import subprocess
import threading
import time
from collections.abc import Sequence

from profilers.commands import read
from profilers.steady.host import CpuTimes, parse_cpu_times
from warehouse.records import ProbeFailed

MACHINE = "STEPCAST_MACHINE"
"""Variable of a machine: the folder that is locked, where several share one /dev. That is no user's
and on no network, so users exclude each other and machines with a common home do not."""
WATCH = f"""
mkdir -p "$0" && trap 'rm -rf "$0"' EXIT && exec 9<"${{{MACHINE}:-/dev}}" || exit
flock -n 9 || {{ echo busy; exit; }}
echo watching
while read -r _; do head -n 1 /proc/stat; done
"""
"""Shell: keep a folder and the machine's lock until the connection ends, tell its CPU times."""
_TIMEOUT_S = 60.0
_LINE_BYTES = 4096


class MachineWatch:
    """Such a connection; the machine is let go with it."""

    def __init__(self, connection: Sequence[str], folder: str, name: str) -> None:
        self._name, self._lock = name, threading.Lock()
        command = shlex.join(["sh", "-c", WATCH, folder])
        self._process = subprocess.Popen(
            [*connection, command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,  # Ctrl-C ends it through `close`, after the others
        )
        line = self._told()
        if line != "watching":
            self.close()
            why = "another Stepcast measures there" if line == "busy" else f"told {line!r}"
            raise ProbeFailed(f"{name} cannot be used: {why}")

    def cpu_times(self) -> CpuTimes:
        """Return what the machine's kernel has counted so far."""
        assert self._process.stdin is not None
        with self._lock:
            try:
                self._process.stdin.write("\n")
            except BrokenPipeError:
                raise ProbeFailed(f"{self._name} is gone") from None
            line = self._told()
        try:
            return parse_cpu_times(line)
        except (ValueError, IndexError):
            raise ProbeFailed(f"{self._name} told {line!r:.60} as its processor times") from None

    def close(self) -> None:
        """Let the machine go."""
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _told(self) -> str:
        assert self._process.stdout is not None
        deadline_s, line = time.monotonic() + _TIMEOUT_S, b""
        while not line.endswith(b"\n"):
            try:
                piece = read(self._process.stdout.fileno(), deadline_s)
            except TimeoutError:
                self._process.kill()
                raise ProbeFailed(f"{self._name}: silent for {_TIMEOUT_S:g} s") from None
            line += piece
            if len(line) > _LINE_BYTES:
                self._process.kill()
                raise ProbeFailed(f"{self._name} told {line[:60]!r} … instead of a line")
            if not piece:
                _, stderr = self._process.communicate()
                words = stderr.strip().splitlines() or [f"exit {self._process.returncode}"]
                raise ProbeFailed(f"{self._name} is gone: {words[-1]}")
        return line.decode(errors="replace").strip()
