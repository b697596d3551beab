"""Ending the processes of a namespace or a control group, and no others."""

import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress


def end(pids: Iterable[int], belongs: Callable[[int], bool]) -> None:
    """Kill those of the processes that belong there.

    Kernels list processes of other containers as 0, which would name our own process group.
    `belongs` is asked while the process is held: a number may have become another process's.
    """
    for pid in pids:
        if pid <= 1 or pid == os.getpid():
            continue
        with suppress(ProcessLookupError):
            held = os.pidfd_open(pid)
            try:
                if belongs(pid):
                    signal.pidfd_send_signal(held, signal.SIGKILL)
            finally:
                os.close(held)
