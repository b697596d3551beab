"""Settings and origin of a landed run: what was asked of its probe, by which command and version.

A run keeps the settings that its probe was given. Some say what is measured (`Probe.essential`):
where those differ, rows are missing, or were not to be seen. All others say how long or how often,
and what a run has measured it has, whatever a study says now.
"""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from profilers.probe import PlannedRun, Settings
from profilers.probes import PROBES
from warehouse.home import code_version
from warehouse.records import Run

KEY = "settings"
"""Where a run's config has them, as JSON."""


def with_settings(run: Run, settings: Settings) -> Run:
    """Return a run that tells what was asked of its probe, and what made it."""
    config = {**run.config, KEY: json.dumps(dict(settings))}
    return with_origin(run.model_copy(update={"config": config}))


def differences(run: Run, settings: Settings) -> dict[str, str] | None:
    """Return, by setting, what a run was asked for and what is asked now, where they differ.

    None where it does not tell, as runs that landed before they kept their settings.
    """
    text = run.config.get(KEY)
    if not isinstance(text, str):
        return None
    then: Mapping[str, object] = json.loads(text)
    values = {name: (_in_order(then.get(name)), _in_order(now)) for name, now in settings.items()}
    return {
        name: f"{name} {json.dumps(before)}, not {json.dumps(now)}"
        for name, (before, now) in values.items()
        if before != now
    }


def is_outdated(need: PlannedRun, run: Run) -> bool:
    """Tell whether a run was this need, but measured something else than is needed now.

    A run that does not tell is taken as it is.
    """
    changed = differences(run, need.settings) if need.is_done_by(run) else None
    return bool(PROBES[need.probe].essential & (changed or {}).keys())


def _in_order(value: object) -> object:
    """Return a setting in one way, however it was written: the order of a list says nothing."""
    return sorted(set(value)) if isinstance(value, list | tuple) else value


# What made a run, as the run keeps it: the command line, and the version of Stepcast.


COMMAND, CODE_VERSION = "command", "code_version"
"""Where a run's config has them; report.configuration leaves them out of what was asked."""
_LONGEST = 200


def with_origin(run: Run) -> Run:
    """Return a run that tells which command made it, with which version of Stepcast."""
    origin = {COMMAND: command(), CODE_VERSION: code_version()}
    return run.model_copy(update={"config": {**run.config, **origin}})


def command() -> str:
    """Return the command line of this process, as a shell takes it; only the start of a long one.

    Dagster gives its own processes pages of JSON.
    """
    program, *arguments = sys.argv or [""]
    text = shlex.join([Path(program).name, *arguments])
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
