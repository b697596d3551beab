"""A run that fails: Dagster's daemon tells the command of the fleet file, once."""

import logging
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon import sensor as daemon

from pipelines import dagster_history
from pipelines.lineage import all_definitions
from warehouse.home import CHECKOUT
from warehouse.records import ProbeFailed


@dg.op
def measure() -> None:
    """Fail as a probe does."""
    try:
        raise ProbeFailed("iperf3 failed:\n  no route to host")
    except ProbeFailed as error:
        raise RuntimeError("links did not land") from error


@dg.job
def fails() -> None:
    """Run what fails."""
    measure()


@dg.op
def nothing() -> None:
    """Do nothing."""


@dg.job
def works() -> None:
    """Run what does not fail."""
    nothing()


def ticks(instance: dg.DagsterInstance) -> Generator[None, None, None]:
    """Let the daemon look at its sensors, again and again."""
    target = ModuleTarget(
        module_name="pipelines.definitions",
        attribute=None,
        working_directory=str(CHECKOUT),
        location_name="stepcast",
    )
    with WorkspaceProcessContext(instance, target) as workspace:
        while True:
            for _ in daemon.execute_sensor_iteration(
                workspace, logging.getLogger("test"), None, None
            ):
                pass
            yield


def test_the_daemon_tells_of_a_run_that_fails(
    home: Path, notices: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what opening the history sets
    monkeypatch.setattr(daemon, "is_under_min_interval", lambda *_: False)
    with dagster_history.instance(home) as instance:
        looks = ticks(instance)
        next(looks)
        works.execute_in_process(instance=instance)
        failed = fails.execute_in_process(
            instance=instance, raise_on_error=False, tags={"dagster/partition": "emu.avx2.s15"}
        )
        next(looks)
        next(looks)
        looks.close()
    (notice,) = notices()
    assert notice["title"] == "Stepcast: fails of emu.avx2.s15 failed"
    assert (notice["job"], notice["run"]) == ("fails", failed.run_id)
    assert notice["partition"] == "emu.avx2.s15"
    assert notice["error"] == "warehouse.records.ProbeFailed: iperf3 failed: no route to host"


def test_a_webhook_in_the_environment_is_told_what_to_write(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("STEPCAST_WEBHOOK", "https://host/hunter2")
    all_definitions({})
    assert "write `on_change: [curl, --data-binary, '@-'" in caplog.text
    assert "hunter2" not in caplog.text
