"""The command line, called in this process."""

from pathlib import Path
from shutil import copytree

import pytest

from tests.pipelines import ran


@pytest.fixture
def stepcast(monkeypatch: pytest.MonkeyPatch) -> ran.Stepcast:
    """Return a function that runs the command line."""
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what the command sets
    return ran.stepcast


@pytest.fixture
def ask(stepcast: ran.Stepcast, repeated: Path, monkeypatch: pytest.MonkeyPatch) -> ran.Stepcast:
    """Return the command line on a home with ten equal rounds."""
    monkeypatch.setenv("STEPCAST_HOME", str(repeated))
    return stepcast


@pytest.fixture
def history(small_history: Path, home: Path) -> Path:
    """Return this test's home with a copy of the small history."""
    return Path(copytree(small_history, home, dirs_exist_ok=True))
