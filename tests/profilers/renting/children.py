"""Processes that ask the stand-in EC2, and are killed at one of their calls."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.profilers.renting.cloud import Cloud

_LOOP = """
import os, sys
for line in iter(sys.stdin.readline, ""):
    pid = os.fork()
    if not pid:
        name = named(line.strip())
        print(name, os.getpid(), flush=True)
        os.read(0, 3)
        try:
            live(name)
            os._exit(0)
        finally:
            os._exit(1)
    print(os.waitpid(pid, 0)[1], flush=True)
"""
"""Forks a process for each line that it reads, so that what they import is imported once."""
Killed = Callable[[str, int, int], tuple[int, str]]


@contextmanager
def children(cloud: Cloud, program: str, how: str) -> Iterator[Killed]:
    """Yield what has a process killed at a call, before (0) or after (1) it is done.

    It takes a line, the call and when, and returns the wait status and the process's name.

    Args:
        cloud: that is asked.
        program: defines `named(line)`, the name of a process, and `live(name)`, what it does.
        how: of the launches: `sys.argv[1]` of the program.
    """
    with subprocess.Popen(
        [sys.executable, "-c", program + _LOOP, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        reads, writes = process.stdout, process.stdin
        assert reads is not None and writes is not None

        def killed(line: str, call: int, when: int) -> tuple[int, str]:
            print(line, file=writes, flush=True)
            name, pid = reads.readline().split()
            cloud.asked, cloud.at_call = [], (call, when, int(pid))
            print("go", file=writes, flush=True)
            status = int(reads.readline())
            cloud.at_call = None
            return status, name

        yield killed
