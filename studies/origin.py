"""What made a run, as the run keeps it: the command line, and the version of Stepcast."""

import shlex
import sys
from pathlib import Path

from warehouse.records import Run
from warehouse.version import code_version

COMMAND, CODE_VERSION = "command", "code_version"
"""Where a run's config has them; report.configuration leaves them out of what was asked."""
_LONGEST, _LEFT_OUT = 200, "…"


def with_origin(run: Run) -> Run:
    """Return a run that tells which command made it, with which version of Stepcast."""
    origin = {COMMAND: command(), CODE_VERSION: code_version()}
    return run.model_copy(update={"config": {**run.config, **origin}})


def command() -> str:
    """Return the command line of this process, as a shell takes it.

    Long arguments are left out: Dagster gives its own processes pages of JSON.
    """
    program, *arguments = sys.argv or [""]
    path = Path(program)
    name = path.parent.name if path.name == "__main__.py" else path.name
    shown = [one if len(one) <= _LONGEST else _LEFT_OUT for one in arguments[:_LONGEST]]
    return shlex.join([name, *shown]).replace(f"'{_LEFT_OUT}'", _LEFT_OUT)
