"""A process that outlives a killed controller just long enough to tidy up after it.

Started as `python -m pipelines.runtime.janitor PID`, that of its controller; waits for the end of
its stdin, which comes however the controller ends, and is told before where there is nothing to do.
Programs on nodes die with the controller; what namespaces and control groups it left behind is
removed here, and the instances it rented are ended.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MODULE = "pipelines.runtime.janitor"
_TIDY = "tidy"


@contextmanager
def run_janitor() -> Iterator[None]:
    """Have a janitor wait for the end of this process or context, whichever is first."""
    janitor = subprocess.Popen(
        # Not left to the janitor to find out: its parent may be gone before it looks.
        [sys.executable, "-m", _MODULE, str(os.getpid())],
        stdin=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        # A Ctrl-C is for the controller, which needs it no less then.
        start_new_session=True,
        text=True,
    )
    try:
        yield
    finally:
        janitor.communicate(_TIDY, timeout=60)


def main() -> None:
    """Wait, and remove what dead owners left."""
    from profilers.clusters import reap
    from profilers.renting.reaper import settle_home
    from warehouse.home import home

    controller = int(sys.argv[1])
    if sys.stdin.read() == _TIDY:
        return
    # Its files are closed before it counts as dead.
    while os.getppid() == controller:
        time.sleep(0.05)
    reap()
    settle_home(home(), lambda _: None)


if __name__ == "__main__":
    main()
