"""Who holds control groups to their share of a steady core: a program beside the cluster."""

import json
import os
import subprocess
import sys
from collections import deque
from datetime import datetime
from statistics import fmean
from threading import Thread

from profilers import clock
from profilers.clusters.base import SOURCE
from warehouse.records import ProbeFailed

_KEPT = 10_000
"""Readings that are remembered: those of about three hours."""


class Pacer:
    """Runs the program; what it is given keeps its share of a steady core until it stops."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None
        self._listener: Thread | None = None
        self._read: deque[tuple[datetime, float]] = deque(maxlen=_KEPT)

    def add(self, name: str, cpu_share: float, core_gflops: float) -> None:
        """Pace the control group called `name`, which has that share, from now on."""
        if self._program is None:
            self._program = subprocess.Popen(
                [sys.executable, "-m", "profilers.steady.pacing"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE)},
            )
            self._listener = Thread(target=self._listen, args=(self._program,), daemon=True)
            self._listener.start()
        assert self._program.stdin is not None
        group = {"name": name, "cpu_share": cpu_share, "core_gflops": core_gflops}
        self._program.stdin.write(f"{json.dumps(group)}\n".encode())
        self._program.stdin.flush()

    def host_gflops(self, since: datetime) -> float | None:
        """Return how fast the host's cores were since then, 10⁹ operations a second each.

        None where nothing is paced, or nothing was heard yet.

        Raises:
            ProbeFailed: the program has ended: nodes went on at whatever pace they had.
        """
        if self._program is None:
            return None
        if self._program.poll() is not None:
            raise ProbeFailed(
                f"the program that paces steady cores has ended (exit {self._program.returncode}); "
                "what was measured since is of no steady speed: run it again"
            )
        gflops = [one for at, one in self._read.copy() if at >= since]
        return fmean(gflops) if gflops else None

    def stop(self) -> None:
        """End the program, if it was started; safe to call twice."""
        if self._program is not None:
            assert self._listener is not None
            with self._program as program:
                program.kill()
                self._listener.join()
            self._program = None

    def _listen(self, program: "subprocess.Popen[bytes]") -> None:
        assert program.stdout is not None
        for line in program.stdout:
            self._read.append((clock.now(), float(line)))
