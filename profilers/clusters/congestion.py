"""The host's list of the congestion controls that namespaces may choose: extended, and put back.

The list is the whole machine's. What was in it is written down before it is changed, in a folder of
root's that is empty after a boot, as the change is gone then: a later process puts it back where
one was killed.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from profilers import private
from warehouse.records import ProbeFailed

ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
RECORD = Path("/run/stepcast/congestion-control")


@contextmanager
def allowed(name: str) -> Iterator[None]:
    """Have the list hold an algorithm during the block; other processes that want that wait.

    Raises:
        ProbeFailed: the kernel does not have the algorithm, or does not let its list be changed.
    """
    with _record() as file:
        _put_back(file)
        try:
            before = ALLOWED.read_text().split()
            if name not in before:
                json.dump([before, [*before, name]], file)
                file.flush()
                ALLOWED.write_text(" ".join([*before, name]))
        except OSError as error:
            raise ProbeFailed(
                f"{name} cannot be added to {ALLOWED}: {error.strerror}; `modprobe tcp_{name}`"
            ) from None
        try:
            yield
        finally:
            _put_back(file)


def put_back() -> bool:
    """Put back what a killed process has changed; return whether there was such a change."""
    if os.geteuid() != 0 or not RECORD.exists():
        return False
    with _record() as file:
        return _put_back(file)


@contextmanager
def _record() -> Iterator[TextIO]:
    with os.fdopen(private.opened(private.folder(RECORD.parent) / RECORD.name), "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _put_back(file: TextIO) -> bool:
    """Do what the record says, unless somebody has changed the list since; empty the record."""
    file.seek(0)
    content, changed = file.read(), False
    # A record that was not written whole is of a change that was not made.
    with suppress(ValueError):
        before, after = json.loads(content)
        if set(ALLOWED.read_text().split()) == set(after):
            ALLOWED.write_text(" ".join(before))
            changed = True
    file.seek(0)
    file.truncate()
    return changed
