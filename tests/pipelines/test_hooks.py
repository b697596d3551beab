"""A run that fails: Dagster's daemon tells a webhook, once."""

import logging
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from dagster import AssetKey, DagsterInstance, DagsterRun, DefaultSensorStatus, job, op
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon import sensor as daemon

from pipelines import dagster_history, notification
from tests.pipelines.receivers import WebServer, serving
from warehouse.home import CHECKOUT
from warehouse.records import ProbeFailed


@op
def measure() -> None:
    """Fail as a probe does."""
    try:
        raise ProbeFailed("iperf3 failed:\n  no route to host")
    except ProbeFailed as error:
        raise RuntimeError("links did not land") from error


@job
def fails() -> None:
    """Run what fails."""
    measure()


@op
def nothing() -> None:
    """Do nothing."""


@job
def works() -> None:
    """Run what does not fail."""
    nothing()


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    """Yield a server that the environment names."""
    with serving(WebServer()) as server:
        monkeypatch.setenv("STEPCAST_WEBHOOK", f"http://127.0.0.1:{server.server_port}/hook")
        monkeypatch.setenv("STEPCAST_UI", "https://runs.example.org/")
        monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what opening the history sets
        monkeypatch.setattr(daemon, "is_under_min_interval", lambda *_: False)
        yield server


def ticks(instance: DagsterInstance) -> Generator[None, None, None]:
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


def test_the_daemon_tells_of_a_run_that_fails(web: WebServer, home: Path) -> None:
    with dagster_history.instance(home) as instance:
        looks = ticks(instance)
        next(looks)
        works.execute_in_process(instance=instance)
        failed = fails.execute_in_process(instance=instance, raise_on_error=False)
        next(looks)
        next(looks)
        looks.close()
    ((path, content),) = web.posted
    assert path == "/hook"
    assert content["title"] == "Stepcast: fails failed"
    assert (content["job"], content["run"]) == ("fails", failed.run_id)
    assert content["error"] == "warehouse.records.ProbeFailed: iperf3 failed: no route to host"
    assert content["link"] == f"https://runs.example.org/runs/{failed.run_id}"


def test_a_notice_names_study_and_partition() -> None:
    run = DagsterRun(
        "__ASSET_JOB",
        run_id="1",
        asset_selection=frozenset({AssetKey(["demo", "profiles", "links"])}),
        tags={"dagster/partition": "emu.avx2.s15"},
    )
    title, facts = notification.failure_notice(run, "e")
    assert title == "Stepcast: assets of emu.avx2.s15 failed"
    assert (facts["study"], facts["partition"]) == ("demo", "emu.avx2.s15")
    assert facts["link"] == "http://localhost:3000/runs/1"


@pytest.mark.parametrize("webhook", ["", "ftp://wrong"])
def test_it_is_off_until_somebody_is_named(
    webhook: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("STEPCAST_WEBHOOK", webhook)
    stopped = {sensor.default_status for sensor in notification.sensors()}
    assert stopped == {DefaultSensorStatus.STOPPED}
    assert ("nobody is told of failures" in caplog.text) == bool(webhook)
