"""One lock per host: whatever measures here holds it, so measurements never spoil each other."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from profilers.gauge import GAUGE

LOCK = Path("/tmp/stepcast-measuring.lock")
_POLL_S = 1.0
_held: list[TextIO] = []


@contextmanager
def host_lock(waiting: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Hold the host lock; re-entrant within a process, released by the kernel if it dies.

    `waiting` is told who holds it, once per change of holder.
    """
    if _held:
        yield
        return
    with _open() as file:
        told = ""
        while not _try_lock(file):
            message = f"waiting for the measurement of process {holder() or 'unknown'}"
            if message != told:
                waiting(told := message)
            time.sleep(_POLL_S)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        _held.append(file)
        try:
            with GAUGE.running():
                yield
        finally:
            _held.clear()
            file.truncate(0)


def holder() -> str:
    """Return the pid that holds the lock, an empty string if nobody does."""
    try:
        with LOCK.open("r+") as file:
            return "" if _try_lock(file) else file.read().strip()
    except OSError:
        return ""


def _open() -> TextIO:
    try:
        return LOCK.open("r+")
    except FileNotFoundError:
        file = LOCK.open("a+")
        os.fchmod(file.fileno(), 0o666)
        return file


def _try_lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
