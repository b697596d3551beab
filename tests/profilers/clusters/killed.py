"""Processes that own something, and are killed."""

import subprocess
import sys

MAKE = """
import sys
import time
from profilers.clusters import owner
print(owner.new_prefix(), flush=True)
(owner.folder() / "job-1").mkdir()
print("ready", flush=True)
sys.stdin.read()
"""


def made_by_a_killed_process() -> str:
    """Return the prefix of a process that was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", MAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as maker:
        assert maker.stdout is not None
        prefix = maker.stdout.readline().strip()
        assert maker.stdout.readline() == "ready\n"
        maker.kill()
    return prefix
