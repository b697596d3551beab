"""A process that outlives a killed controller just long enough to tidy up after it.

Started as `python -m pipelines.runtime.janitor`; waits for the end of its stdin, which comes
however its controller ends. Programs on nodes die with the controller; what namespaces and control
groups it left behind is removed here.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def employed() -> Iterator[None]:
    """Have a janitor wait for the end of this process or context, whichever is first."""
    janitor = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        # A Ctrl-C is for the controller, which needs it no less then.
        start_new_session=True,
    )
    assert janitor.stdin is not None
    try:
        yield
    finally:
        janitor.stdin.close()
        janitor.wait(timeout=60)


def main() -> None:
    """Wait, and remove what dead owners left."""
    from profilers.clusters import reap

    sys.stdin.read()
    reap()


if __name__ == "__main__":
    main()
