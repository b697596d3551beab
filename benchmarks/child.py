"""Parts of a benchmark, each in a process of its own, so that its peak memory is its own."""

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from warehouse.child_process import bound
from warehouse.records import StepcastError

_TIMEOUT_S = 1200


@dataclass(frozen=True)
class PartResult:
    """What a part took: seconds of what it timed itself, and the most memory of its process."""

    seconds: float
    peak_mb: float


def run(part: Callable[..., float], *arguments: str | int) -> PartResult:
    """Call a function of a module in a fresh interpreter; it returns the seconds it measured.

    Raises:
        StepcastError: it failed; the message ends with the last line of its stderr.
    """
    call = json.dumps([part.__module__, part.__name__, *arguments])
    command = bound([sys.executable, "-m", __name__, call])
    root = Path(__file__).parents[1]
    ran = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if ran.returncode:
        why = (ran.stderr.strip().splitlines() or ["no message"])[-1]
        raise StepcastError(f"benchmark part {part.__name__} failed: {why}")
    return PartResult(**json.loads(ran.stdout.splitlines()[-1]))


def best_of(times: int, work: Callable[[], object]) -> float:
    """Return the shortest of several times that `work` takes, seconds."""
    return min(seconds(work) for _ in range(times))


def seconds(work: Callable[[], object]) -> float:
    """Return how long `work` takes, seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _main() -> None:
    module, name, *arguments = json.loads(sys.argv[1])
    took = getattr(importlib.import_module(module), name)(*arguments)
    # Not getrusage: its maximum counts the parent's memory too, from before exec.
    status = Path("/proc/self/status").read_text()
    peak_mb = int(status.partition("VmHWM:")[2].split()[0]) / 1000
    sys.stdout.write(json.dumps({"seconds": took, "peak_mb": peak_mb}) + "\n")


if __name__ == "__main__":
    _main()
