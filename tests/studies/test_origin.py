"""What a run keeps of what made it."""

import sys
from pathlib import Path

import pytest

from studies.run_settings import command, with_origin
from tests.studies.test_run_settings import links
from tests.synthetic import landed
from warehouse.home import code_version


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/usr/local/bin/stepcast", "run", "my study.yaml"], "stepcast run 'my study.yaml'"),
        (
            ["/lib/dagster/__main__.py", "api", "execute_run", "{" + 300 * " " + "}"],
            "dagster api execute_run …",
        ),
        (["-c"], "-c"),
        ([], ""),
    ],
)
def test_a_command_is_what_a_shell_takes(
    argv: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    assert command().strip("'") == expected.strip("'")


def test_a_run_keeps_its_command_and_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["stepcast", "run", "demo.yaml"])
    run = landed(links(tmp_path))
    recorded = with_origin(run)
    assert recorded.config == {
        **run.config,
        "command": "stepcast run demo.yaml",
        "code_version": code_version(),
    }
