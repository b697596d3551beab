"""The janitor, whose controller may be gone before it looks."""

import subprocess
import sys

from pipelines.runtime import janitor


def test_it_ends_although_its_controller_did_before_it_looked() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ended = subprocess.run(
        [sys.executable, "-m", janitor.__name__, str(gone.pid)],
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0
