"""The sensor asks for a run when other sites have landed something, and never twice at a time."""

import logging
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest
from dagster import (
    AssetKey,
    DagsterInstance,
    DagsterRunStatus,
    Definitions,
    RunRequest,
    SkipReason,
    build_sensor_context,
)
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.sensor import execute_sensor_iteration

from assets.sites import RECEIVED
from pipelines import dagster_history, lineage
from pipelines.definitions import defs
from pipelines.execution import resources
from profilers.steady import hostlock
from tests.warehouse.conftest import Maker
from warehouse.check import check
from warehouse.home import CHECKOUT
from warehouse.sites import PREFIX, prefix_of, push
from warehouse.warehouse import read_only

pytestmark = pytest.mark.usefixtures("quiet")

SENSOR = "new_runs_of_other_sites"


@pytest.fixture
def site(tmp_path: Path) -> Maker:
    """Return a site on which two runs have landed."""
    make = Maker(tmp_path / "site")
    for number in (1, 2):
        make.profile(f"r{number}", make.scenario(), repeat=number)
    return make


@pytest.fixture
def prefixed(home: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a prefix, a folder and then one in S3, from which the home of this test receives."""
    monkeypatch.setenv(PREFIX, place)
    return place


def ask(instance: DagsterInstance) -> RunRequest | SkipReason:
    """Return what the sensor answers."""
    answer = defs.resolve_sensor_def(SENSOR)(build_sensor_context(instance))
    assert isinstance(answer, RunRequest | SkipReason)
    return answer


def skipped(instance: DagsterInstance) -> str:
    answer = ask(instance)
    assert isinstance(answer, SkipReason)
    assert answer.skip_message
    return answer.skip_message


def asked(instance: DagsterInstance) -> RunRequest:
    answer = ask(instance)
    assert isinstance(answer, RunRequest)
    return answer


def run(instance: DagsterInstance, request: RunRequest) -> bool:
    """Run what the sensor asked for, in the home of this test."""
    definitions = Definitions.merge(
        lineage.receiving_definitions(), Definitions(resources=resources())
    )
    job = definitions.resolve_job_def(lineage.JOB)
    return job.execute_in_process(
        instance=instance, tags=dict(request.tags), raise_on_error=False
    ).success


def push_all(make: Maker, place: str) -> None:
    push(make.home / "landing", prefix_of(place))


def test_without_a_prefix_there_is_nothing_to_look_at(
    home: Path, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PREFIX, raising=False)
    assert skipped(instance) == f"{PREFIX} is not set; a folder or s3://bucket/name"


def test_what_is_new_is_asked_for_once_and_loaded(
    prefixed: str, home: Path, site: Maker, instance: DagsterInstance
) -> None:
    assert skipped(instance) == f"nothing new in {prefixed}"
    push_all(site, prefixed)
    request = asked(instance)
    assert run(instance, request)
    assert read_only(home, "SELECT run_id FROM raw.run ORDER BY 1")["run_id"].to_list() == [
        "r1",
        "r2",
    ]
    assert check(home).findings == ()
    assert skipped(instance) == f"nothing new in {prefixed}"
    site.profile("r3", site.scenario(), repeat=3)
    push_all(site, prefixed)
    assert asked(instance).run_key != request.run_key


def test_a_bad_run_is_told_of_and_asked_for_no_more(
    prefixed: str, home: Path, site: Maker, instance: DagsterInstance
) -> None:
    run_file = site.home / "landing" / "r1" / "timing.parquet"
    run_file.write_bytes(b"PAR1")
    (run_file.parent / "SHA256SUMS").unlink()
    push_all(site, prefixed)
    assert run(instance, asked(instance))
    (event,) = instance.fetch_materializations(AssetKey(RECEIVED), limit=1).records
    assert event.asset_materialization is not None
    metadata = {name: entry.value for name, entry in event.asset_materialization.metadata.items()}
    assert (metadata["received"], metadata["newly_loaded"], metadata["set_aside"]) == (2, 1, 1)
    assert str(metadata["reasons"]).startswith("* r1: timing.parquet is not readable Parquet")
    assert skipped(instance) == f"nothing new in {prefixed}"
    assert read_only(home, "FROM raw.run")["run_id"].to_list() == ["r2"]


def test_while_a_run_loads_nothing_is_asked_for(
    prefixed: str, site: Maker, instance: DagsterInstance
) -> None:
    push_all(site, prefixed)
    job = defs.resolve_job_def(lineage.JOB)
    instance.create_run_for_job(job, status=DagsterRunStatus.STARTED)
    assert skipped(instance) == "a run is loading what was new"


def test_while_somebody_measures_nothing_is_asked_for(
    prefixed: str, site: Maker, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    push_all(site, prefixed)
    with monkeypatch.context() as measuring:
        measuring.setattr(hostlock, "holder", lambda: "process 17")
        assert skipped(instance) == "process 17 is measuring on this host"
    asked(instance)


def test_what_a_run_left_undone_is_asked_for_again_later(
    prefixed: str, site: Maker, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    push_all(site, prefixed)
    first = asked(instance)
    job = defs.resolve_job_def(lineage.JOB)
    instance.create_run_for_job(job, status=DagsterRunStatus.FAILURE, tags=dict(first.tags))
    assert skipped(instance).endswith("left these 2 runs; the next try is in 2 minutes")
    later = datetime.now(UTC) + timedelta(minutes=3)

    class Later(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(later.timestamp(), tz)

    monkeypatch.setattr(lineage, "datetime", Later)
    assert asked(instance).run_key != first.run_key


def test_a_place_that_is_gone_fails_the_run_in_one_line(
    home: Path, tmp_path: Path, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PREFIX, str(tmp_path / "unmounted"))
    with pytest.raises(Exception, match="unmounted is not a folder"):
        ask(instance)
    assert not run(instance, RunRequest())


def test_the_daemon_queues_the_job_once(
    home: Path, site: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prefix").mkdir()
    monkeypatch.setenv(PREFIX, str(tmp_path / "prefix"))
    push_all(site, str(tmp_path / "prefix"))
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what opening the history sets
    target = ModuleTarget(
        module_name="tests.pipelines.receiving",
        attribute=None,
        working_directory=str(CHECKOUT),
        location_name="stepcast",
    )
    with (
        dagster_history.instance(home) as instance,
        WorkspaceProcessContext(instance, target) as workspace,
    ):
        (location,) = workspace.create_request_context().code_locations
        (repository,) = location.get_repositories().values()
        (sensor,) = (sensor for sensor in repository.get_sensors() if sensor.name == SENSOR)
        instance.start_sensor(sensor)
        for _ in range(2):
            logger = logging.getLogger("sensors")
            for _ in execute_sensor_iteration(workspace, logger, None, None):
                pass
        (queued,) = instance.get_runs()
        assert (queued.job_name, queued.status) == (lineage.JOB, DagsterRunStatus.QUEUED)
        assert queued.tags["dagster/sensor_name"] == SENSOR
