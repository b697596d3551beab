"""One lock per host: whatever measures here holds it, so measurements never spoil each other.

The lock is a socket's name in the kernel (unix(7), abstract), which one process of all users can
have, and which is free when that ends. No file is opened or written for it.
"""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from profilers.steady.gauges import GAUGE

NAME = "\0stepcast-measuring"
_POLL_S = 1.0
_MOST_WAITING = 1024
_CREDENTIALS = struct.Struct("3i")
"""What the kernel says of a socket's other end: process, user, group."""
_held: list[socket.socket] = []


@contextmanager
def host_lock(waiting: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Hold the host lock; re-entrant within a process, released by the kernel if it dies.

    `waiting` is told who holds it, once per change of holder.
    """
    if _held:
        yield
        return
    with socket.socket(socket.AF_UNIX) as lock:
        last_message = ""
        while not _try_lock(lock):
            with _connected() as other:
                message = f"waiting for the measurement of {_named(other) or 'another process'}"
                if message != last_message:
                    waiting(last_message := message)
                _await_end(other)
        _held.append(lock)
        try:
            with GAUGE.running():
                yield
        finally:
            _held.clear()


def holder() -> str:
    """Return who holds the lock, such as "process 17"; an empty string if nobody does."""
    with _connected() as other:
        return _named(other)


def _try_lock(lock: socket.socket) -> bool:
    try:
        lock.bind(NAME)
    except OSError:
        return False
    # For those that wait: the kernel tells them who listens, and when no more.
    lock.listen(_MOST_WAITING)
    return True


@contextmanager
def _connected() -> Iterator[socket.socket]:
    """Yield a socket that is connected to the holder's, if somebody holds the lock."""
    with socket.socket(socket.AF_UNIX) as other:
        other.settimeout(_POLL_S)
        with suppress(OSError):
            other.connect(NAME)
        yield other


def _named(other: socket.socket) -> str:
    try:
        other.getpeername()
        credentials = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return ""
    pid, _, _ = _CREDENTIALS.unpack(credentials)
    return f"process {pid}" if pid > 0 else "a process of another container"


def _await_end(other: socket.socket) -> None:
    """Wait until the holder lets go; at most for a while."""
    try:
        data = other.recv(1)
    except TimeoutError:
        return
    except OSError:
        data = b""
    if data:  # by none of ours
        time.sleep(_POLL_S)
