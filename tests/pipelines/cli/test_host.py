"""`stepcast reap`, `networks`, `node-types`, `doctor` and `ui`."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import networks
from tests.pipelines.ran import leave_dead_run


def test_networks_are_listed(stepcast: Callable[..., Any]) -> None:
    lines = stepcast("networks").out.splitlines()
    frameworks = [("tensorflow:", "tensorflow"), ("pytorch:", "pytorch")]
    listed = [one for head, name in frameworks for one in (head, *networks.names(name))]
    assert [line.split()[0] for line in lines] == listed
    assert lines.count("  small_cnn  (images of 16 px or more)") == 2


def test_reap_ends_runs_without_a_process(stepcast: Callable[..., Any], home: Path) -> None:
    dead = leave_dead_run(home)
    assert f"marked run {dead} as failed" in stepcast("reap").out
    assert f"marked run {dead}" not in stepcast("reap").out


def test_doctor_exits_as_its_findings_say(
    stepcast: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.cli import doctor

    bad = doctor.HostFinding("a thing", False, "broken", "everything", "mend it", essential=True)
    monkeypatch.setattr(doctor, "examine", lambda: [bad])
    answer = stepcast("doctor")
    assert answer.code == 1
    assert "mend it" in answer.out


def test_the_web_interface_shows_the_history_of_this_home(
    stepcast: Callable[..., Any], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def start(program: str, arguments: list[str]) -> None:
        started.append([program, *arguments])
        assert os.environ["DAGSTER_HOME"] == os.environ["STEPCAST_HOME"] == str(home)

    monkeypatch.chdir(home)  # put back where the command goes
    monkeypatch.setattr("os.execv", start)
    assert stepcast("ui", "--port", "3456").code == 0
    ((program, *arguments),) = started
    assert program == arguments[0] == sys.executable
    assert arguments[3:8] == ["-m", "dagster", "dev", "-m", "pipelines.definitions"]
    assert arguments[-4:] == ["--host", "127.0.0.1", "--port", "3456"]
    assert (home / "dagster.yaml").exists()


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("code", ["dagster", "code-server", "start", "-m", "pipelines.definitions"]),
        ("daemon", ["dagster._daemon", "run", "-w"]),
        ("web", ["dagster_webserver", "-w"]),
    ],
)
def test_each_of_its_services_starts_alone(
    part: str,
    words: list[str],
    stepcast: Callable[..., Any],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[list[str]] = []
    monkeypatch.chdir(home)  # put back where the command goes
    monkeypatch.setattr("os.execv", lambda _, arguments: started.append(arguments))
    assert stepcast("ui", "--only", part, "--code", "code:99").code == 0
    ((_, module, *arguments),) = started
    assert (module, arguments[: len(words)]) == ("-m", words)
    if part == "code":
        assert arguments[-4:] == ["--host", "127.0.0.1", "--port", "99"]
    else:
        workspace = yaml.safe_load((home / "workspace.yaml").read_text())
        server = {"host": "code", "port": 99, "location_name": "pipelines.definitions"}
        assert workspace == {"load_from": [{"grpc_server": server}]}
    assert stepcast("ui", "--only", part, "--code", "99").code == 2
