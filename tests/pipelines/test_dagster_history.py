"""Dagster's history is in the home, whatever the working directory."""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from urllib.request import urlopen

import pytest
import yaml
from dagster import DagsterInstance, job

from pipelines import dagster_history
from tests.ports import free_port
from warehouse.home import CHECKOUT
from warehouse.records import BadInput


@job
def nothing() -> None:
    """Do nothing."""


def test_settings_are_those_of_the_checkout_with_absolute_paths(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")
    dagster_history.prepare(home)
    written = yaml.safe_load((home / "dagster.yaml").read_text())
    original = yaml.safe_load((CHECKOUT / "dagster.yaml").read_text())
    assert written["storage"] == {"sqlite": {"base_dir": f"{home}/dagster"}}
    assert ".stepcast" not in str(written)
    for key in ("telemetry", "concurrency", "run_monitoring", "retention"):
        assert written[key] == original[key]


def test_what_runs_here_is_seen_by_the_web_interface(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")
    with dagster_history.instance(home) as instance:
        run_id = nothing.execute_in_process(instance=instance).run_id
    monkeypatch.chdir(tmp_path)
    with DagsterInstance.get() as instance:
        assert [run.run_id for run in instance.get_runs()] == [run_id]


def test_a_history_that_was_in_postgresql_is_no_longer_found(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPCAST_POSTGRES", "postgresql://lab:hunter2@host/lab")
    with pytest.raises(BadInput, match="STEPCAST_POSTGRES: the history"):
        dagster_history.prepare(home)
    assert not (home / "dagster.yaml").exists()


def of_home(home: Path) -> dict[str, str]:
    """Return the command lines of processes that work on a home, by their ids."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"STEPCAST_HOME={home}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found[process.name] = (process / "cmdline").read_text().replace("\0", " ")
    return found


def wait(done: Callable[[], object]) -> None:
    """Wait until something is the case."""
    until = monotonic() + 120
    while not done():
        assert monotonic() < until
        sleep(0.1)


@pytest.mark.exhaustive
def test_the_web_interface_starts_all_and_ends_all(home: Path) -> None:
    port = free_port()

    def answers() -> bool:
        with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/server_info", timeout=5) as page:
            return bool(page.status == 200)
        return False

    command = [sys.executable, "-m", "pipelines.cli.main", "ui", "--port", str(port)]
    with (home.parent / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=CHECKOUT, stdout=log, stderr=log)
    try:
        wait(answers)
        parts = {"dagster_webserver", "dagster._daemon", "dagster code-server"}
        wait(lambda: all(any(part in line for line in of_home(home).values()) for part in parts))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        wait(lambda: not of_home(home))
        assert not answers()
    finally:
        process.kill()
