"""A process whose children work on a warehouse and are killed; asked line by line on stdin.

`HOME NUMBER SECONDS …`: one child for each pair of NUMBER and SECONDS works on HOME, all at once;
each is killed after SECONDS, or left to end if they are negative. `hold:NUMBER` holds the database
instead, `land:NUMBER` lands a run, `clock:NUMBER` works while the clock steps to and fro, and
`full:NUMBER` works where no file may grow by more than NUMBER kB. Answers how each ended:
`killed`, `done` or the error. The children are forked before any library has started a thread, so
that hundreds need one start of Python.
"""

import os
import resource
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.clocks import DAY, WallClock
from tests.warehouse.conftest import Maker
from warehouse.records import StepcastError
from warehouse.warehouse import Warehouse


def work(home: Path, number: int) -> None:
    """Load what has landed, fit to profile NUMBER and predict: all that writes the warehouse."""
    make, warehouse = Maker(home), Warehouse(home)
    warehouse.load()
    fit = make.fit(f"r{number:04}")
    warehouse.record_fit(fit)
    warehouse.record_predictions(
        [make.prediction(fit, make.scenario(workers), workers) for workers in (1, 2, 3)]
    )


def hold(home: Path, number: int) -> None:
    """Hold the database, as a program that reads it for long."""
    with Warehouse(home).reading():
        time.sleep(number)


def land(home: Path, number: int) -> None:
    """Land a profile."""
    make = Maker(home)
    make.profile(f"r{number:04}", make.scenario(), repeat=number + 1)


def work_while_the_clock_steps(home: Path, number: int) -> None:
    """Work, as the wall clock steps back by a day and forward by two."""
    with pytest.MonkeyPatch.context() as patch:
        clock = WallClock(patch)
        Warehouse(home).load()
        clock.set(-DAY)
        work(home, number)
        clock.set(2 * DAY)
        Warehouse(home).load()


def work_on_a_full_disk(home: Path, kilobytes: int) -> None:
    """Load what has landed where files cannot grow by more than so much."""
    main = home / "warehouse.duckdb"
    limit = (main.stat().st_size if main.exists() else 0) + 1000 * kilobytes
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    Warehouse(home).load()


WORKS = {
    "write": work,
    "hold": hold,
    "land": land,
    "clock": work_while_the_clock_steps,
    "full": work_on_a_full_disk,
}


def child(home: Path, task: str) -> int:
    """Start a child and return its id; it exits with 0 or with 1 after an error of one line."""
    kind, _, number = task.rpartition(":")
    pid = os.fork()
    if pid == 0:
        try:
            WORKS[kind or "write"](home, int(number))
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
