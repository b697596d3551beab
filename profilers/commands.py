"""Run other programs: argument lists, timeouts always, stderr kept for the message."""

import shutil
import subprocess
from collections.abc import Sequence

from warehouse.records import MissingTool, ProbeFailed


def run(argv: Sequence[str], *, timeout_s: float = 20) -> str:
    """Run a program to its end and return its stdout.

    Raises:
        MissingTool: it is not installed.
        ProbeFailed: it failed or did not end within `timeout_s`.
    """
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise MissingTool(f"{argv[0]} is not installed; `stepcast doctor` says how") from None
    except subprocess.TimeoutExpired:
        raise ProbeFailed(f"`{' '.join(argv)}` did not end within {timeout_s:g} s") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-500:]
        raise ProbeFailed(f"`{' '.join(argv)}` exited with {done.returncode}: {said}")
    return done.stdout


def missing(*tools: str) -> list[str]:
    """Return those of `tools` that are not on the PATH."""
    return [tool for tool in tools if shutil.which(tool) is None]
