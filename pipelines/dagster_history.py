"""Dagster's own history, in SQLite in the home: one for the command line and the web interface."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import yaml
from dagster import DagsterInstance

from warehouse.documents import read_document
from warehouse.durable_files import write_text
from warehouse.records import BadInput

MODULE = "pipelines.definitions"
"""What Dagster loads; its pages name the code by it, however it is served."""

_RELATIVE = ".stepcast/dagster"
"""Where the checkout's dagster.yaml keeps history, relative to the working directory."""
_SETTINGS = Path(__file__).with_name("dagster.yaml")
_HERE = "dagster-here.yaml"
_UNCAPTURED = {
    "module": "dagster.core.storage.noop_compute_log_manager",
    "class": "NoOpComputeLogManager",
}


def prepare(home: Path) -> None:
    """Write `home`/dagster.yaml, and make `home` the DAGSTER_HOME of this process.

    It is the checkout's file with absolute paths, so that the working directory does not matter.

    Raises:
        BadInput: a variable asks for a history in PostgreSQL, as earlier versions kept one.
    """
    if os.environ.get("STEPCAST_POSTGRES"):
        raise BadInput(
            "STEPCAST_POSTGRES: the history of runs is in the home now; unset the variable"
        )
    home.mkdir(parents=True, exist_ok=True)
    _write(home / "dagster.yaml", _settings(home))
    os.environ["DAGSTER_HOME"] = str(home)


@contextmanager
def instance(home: Path) -> Iterator[DagsterInstance]:
    """Open the history of `home`, for runs in this process.

    Their output is left alone: Dagster would send it through files and helper programs, which
    disturb progress bars, Ctrl-C and measurements.
    """
    prepare(home)
    _write(home / _HERE, {**_settings(home), "compute_logs": _UNCAPTURED})
    with DagsterInstance.from_config(str(home), _HERE) as opened:
        yield opened


def _settings(home: Path) -> Mapping[str, object]:
    settings = cast(Mapping[str, object], read_document(_SETTINGS, "Dagster's settings"))
    return {key: _absolute(value, home / "dagster") for key, value in settings.items()}


def _absolute(setting: object, folder: Path) -> object:
    if isinstance(setting, dict):
        return {key: _absolute(value, folder) for key, value in setting.items()}
    if isinstance(setting, str) and setting.startswith(_RELATIVE):
        return str(folder) + setting.removeprefix(_RELATIVE)
    return setting


def _write(path: Path, settings: Mapping[str, object]) -> None:
    text = yaml.safe_dump(dict(settings), sort_keys=False)
    if not path.exists() or path.read_text() != text:
        write_text(path, text)
