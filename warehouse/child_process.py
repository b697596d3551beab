"""Child processes that end with the process that started them, and have limits of their own."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

_MEMORY_SHARE = 0.8
_ALONE = 'test "$PPID" = "$0" && exec "$@"'
_WITH_DESCENDANTS = 'test "$PPID" = "$0" || exit 1; trap "kill -KILL 0" TERM; "$@" & wait "$!"'


def bound(
    argv: Sequence[str],
    *,
    memory_bytes: int | None = None,
    cpu_s: int | None = None,
    with_descendants: bool = False,
) -> list[str]:
    """Return the words that run a program which the kernel ends with the thread that starts it.

    That thread has to live as long as the program shall. A parent that has gone before the kernel
    was told is noticed: then the program does not start.

    Args:
        argv: the program.
        memory_bytes: data that it may have (RLIMIT_DATA); it is refused more.
        cpu_s: processor time after which the kernel ends it (RLIMIT_CPU).
        with_descendants: what it starts ends with that thread, too. It needs a session of its own,
            and reads nothing from stdin; a signal that ends it is exit code 128 + number.
    """
    signal, script = ("TERM", _WITH_DESCENDANTS) if with_descendants else ("KILL", _ALONE)
    limits = [
        *([] if memory_bytes is None else [f"--data={memory_bytes}"]),
        *([] if cpu_s is None else [f"--cpu={cpu_s}:{cpu_s + 10}"]),
    ]
    limited = ["prlimit", *limits, "--"] if limits else []
    parent = ["setpriv", "--pdeathsig", signal, "sh", "-c", script, str(os.getpid())]
    return [*limited, *parent, *argv]


def most_memory_bytes() -> int:
    """Return the data that a child process may have: a share of what is free on this machine."""
    match = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    assert match is not None
    return int(_MEMORY_SHARE * int(match[1]) * 1024)
