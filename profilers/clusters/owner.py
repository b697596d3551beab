"""Names that say who made a thing, so that what a killed run left can be found and removed.

Every namespace and control group is called `stepcast-<pid>-<start>-<serial>-<what>`. The owner's
start time (clock ticks since boot) tells it from a later process that got the same pid.
"""

import itertools
import os
import re
from pathlib import Path

PREFIX = "stepcast"
_serials = itertools.count()
_NAME = re.compile(rf"{PREFIX}-(?P<pid>\d+)-(?P<start>\d+)-\d+-")


def new_prefix() -> str:
    """Return a name prefix that no other cluster of this or any other process uses."""
    pid = os.getpid()
    return f"{PREFIX}-{pid}-{start_ticks(pid)}-{next(_serials)}"


def is_orphan(name: str) -> bool:
    """Tell whether `name` is one of ours and its owner is gone."""
    match = _NAME.match(name)
    return match is not None and start_ticks(int(match["pid"])) != int(match["start"])


def start_ticks(pid: int) -> int:
    """Start time of a process in clock ticks since boot, -1 if there is none, or it has ended.

    Field 22 of /proc/PID/stat; the command in field 2 may hold blanks and brackets. Field 3 tells
    of one that has ended while nobody has asked how.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] in "ZX" else int(fields[19])
