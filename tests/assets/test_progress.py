"""Warnings go to Dagster's log, and nowhere else."""

import subprocess
import sys


def test_outside_a_run_of_dagster_nothing_is_printed() -> None:
    warn = "from assets.resources import LoggedProgress; LoggedProgress().warn('a fault')"
    done = subprocess.run(
        [sys.executable, "-c", warn], capture_output=True, text=True, check=True, timeout=120
    )
    assert "a fault" not in done.stdout + done.stderr
