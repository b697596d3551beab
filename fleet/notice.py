"""Telling people: the command that the fleet file names gets a notice as JSON on stdin."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from profilers.clusters.fleet import find_fleet
from warehouse.child_process import bound
from warehouse.records import StepcastError

_TIMEOUT_S = 30.0


def tell(title: str, facts: Mapping[str, str | None], warn: Callable[[str], object]) -> None:
    """Run the user's command, if the fleet file names one; `warn` is told if it failed.

    It is run without a shell, once, for half a minute at most. Its words and what it prints are
    left out of every message: they may have a secret.

    Args:
        title: one line.
        facts: by name; `text`, which chat programs show, has them and the title.
        warn: nothing is raised, so what wanted to tell goes on.
    """
    lines = [f"{name}: {value}" for name, value in facts.items() if value is not None]
    notice = {"text": "\n".join([title, "", *lines]), "title": title, **facts}
    try:
        if (fleet := find_fleet()) is None or not fleet.on_change:
            return
        code = _exit_code(bound(fleet.on_change), f"{json.dumps(notice)}\n".encode())
        why = f"exit {code}" if code else ""
    except (OSError, StepcastError, subprocess.TimeoutExpired) as error:
        why = type(error).__name__
    if why:
        warn(f"on_change of the fleet file did not take {title!r}: {why}")


def _exit_code(command: Sequence[str], given: bytes) -> int:
    """Run a command; what it started ends with it where it takes too long."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
    ) as program:
        try:
            program.communicate(given, timeout=_TIMEOUT_S)
        except BaseException:
            os.killpg(program.pid, signal.SIGKILL)
            raise
        return program.returncode
