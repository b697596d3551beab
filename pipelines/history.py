"""Dagster's own history, kept in the home: one for the command line and for the web interface."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from dagster import DagsterInstance

from assets.home import CHECKOUT
from warehouse.durable import remove, temporary

_RELATIVE = ".stepcast/dagster"
"""Where the checkout's dagster.yaml keeps history, relative to the working directory."""


def prepare(home: Path) -> None:
    """Write `home`/dagster.yaml, and make `home` the DAGSTER_HOME of this process.

    It is the checkout's file with absolute paths, so that the working directory does not matter.
    """
    settings = yaml.safe_load((CHECKOUT / "dagster.yaml").read_text())
    text = yaml.safe_dump(_absolute(settings, home / "dagster"), sort_keys=False)
    target = home / "dagster.yaml"
    home.mkdir(parents=True, exist_ok=True)
    os.environ["DAGSTER_HOME"] = str(home)
    if target.exists() and target.read_text() == text:
        return
    fresh = temporary(home)
    try:
        fresh.write_text(text)
        os.replace(fresh, target)
    finally:
        remove(fresh)


@contextmanager
def instance(home: Path) -> Iterator[DagsterInstance]:
    """Open the history of `home`."""
    prepare(home)
    with DagsterInstance.get() as opened:
        yield opened


def _absolute(settings: object, folder: Path) -> object:
    if isinstance(settings, dict):
        return {key: _absolute(value, folder) for key, value in settings.items()}
    if isinstance(settings, str) and settings.startswith(_RELATIVE):
        return str(folder) + settings.removeprefix(_RELATIVE)
    return settings
