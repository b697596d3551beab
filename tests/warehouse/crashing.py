"""A process whose children work on a warehouse and are killed; asked line by line on stdin.

`HOME NUMBER SECONDS …`: one child for each pair of NUMBER and SECONDS works on HOME, all at once;
each is killed after SECONDS, or left to end if they are negative.
Answers how each ended:
`killed`, `done` or the error. The children are forked before any library has started a thread, so
that hundreds need one start of Python.
"""

import os
import signal
import sys
import time
from pathlib import Path

from tests.warehouse.conftest import Maker
from warehouse.records import StepcastError
from warehouse.warehouse import Warehouse


def work(home: Path, number: int) -> None:
    """Load what has landed, fit to profile NUMBER and predict: all that writes the warehouse."""
    make, warehouse = Maker(home), Warehouse(home)
    warehouse.load()
    fit = make.fit(f"r{number:04}")
    predictions = [make.prediction(fit, make.scenario(workers), workers) for workers in (1, 2, 3)]
    warehouse.record(predictions, fits=[fit])


def child(home: Path, number: str) -> int:
    """Start a child and return its id; it exits with 0 or with 1 after an error of one line."""
    pid = os.fork()
    if pid == 0:
        try:
            work(home, int(number))
        except StepcastError as error:
            os.write(2, f"{error}\n".encode())
            os._exit(1)
        os._exit(0)
    return pid


def ended(pid: int) -> str:
    """Wait for a child and say how it ended."""
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return "killed"
    return "done" if os.WEXITSTATUS(status) == 0 else "error"


def main() -> None:
    """Answer lines until stdin ends."""
    for line in sys.stdin:
        home, *pairs = line.split()
        started = time.monotonic()
        plan = [
            (child(Path(home), number), float(seconds))
            for number, seconds in zip(pairs[::2], pairs[1::2], strict=True)
        ]
        for pid, seconds in sorted(plan, key=lambda process: process[1]):
            if seconds >= 0:
                time.sleep(max(0.0, started + seconds - time.monotonic()))
                os.kill(pid, signal.SIGKILL)
        answers = [ended(pid) for pid, _ in plan]
        os.write(1, f"{time.monotonic() - started} {' '.join(answers)}\n".encode())


if __name__ == "__main__":
    main()
