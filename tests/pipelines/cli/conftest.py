"""The command line, called in this process."""

import pytest

from tests.pipelines import ran


@pytest.fixture
def stepcast(monkeypatch: pytest.MonkeyPatch) -> ran.Stepcast:
    """Return a function that runs the command line."""
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what the command sets
    return ran.stepcast
