"""Who holds control groups to their share of a steady core: a program beside the cluster."""

import json
import os
import subprocess
import sys

from profilers.clusters.base import SOURCE


class Pacer:
    """Runs the program; what it is given keeps its share of a steady core until it stops."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None

    def add(self, name: str, cpu_share: float, core_gflops: float) -> None:
        """Pace the control group called `name`, which has that share, from now on."""
        if self._program is None:
            self._program = subprocess.Popen(
                [sys.executable, "-m", "profilers.pacing"],
                stdin=subprocess.PIPE,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE)},
            )
        assert self._program.stdin is not None
        group = {"name": name, "cpu_share": cpu_share, "core_gflops": core_gflops}
        self._program.stdin.write(f"{json.dumps(group)}\n".encode())
        self._program.stdin.flush()

    def stop(self) -> None:
        """End the program, if it was started; safe to call twice."""
        if self._program is not None:
            self._program.kill()
            self._program.communicate()
            self._program = None
