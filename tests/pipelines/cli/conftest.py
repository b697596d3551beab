"""The command line, called in this process."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from pipelines.cli.main import main


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Stepcast = Callable[..., Answer]


@pytest.fixture
def stepcast(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Stepcast:
    """Return a function that runs the command line."""
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what the command sets

    def call(*arguments: str) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, captured.out, captured.err)

    return call
