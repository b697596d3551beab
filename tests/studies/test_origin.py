"""What a run keeps of what made it."""

import sys
from pathlib import Path

import pytest

from studies.run_settings import command, with_origin
from tests.studies.test_run_settings import links
from tests.synthetic import landed
from warehouse.home import code_version


def test_a_command_is_what_a_shell_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/stepcast", "run", "my study.yaml"])
    assert command() == "stepcast run 'my study.yaml'"
    monkeypatch.setattr(sys, "argv", ["/lib/dagster/__main__.py", "api", "{" + 300 * " " + "}"])
    assert command().startswith("__main__.py api '{ ") and len(command()) == 201


def test_a_run_keeps_its_command_and_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["stepcast", "run", "demo.yaml"])
    run = landed(links(tmp_path))
    recorded = with_origin(run)
    assert recorded.config == {
        **run.config,
        "command": "stepcast run demo.yaml",
        "code_version": code_version(),
    }
