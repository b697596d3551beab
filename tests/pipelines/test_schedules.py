"""What Dagster's daemon does when a schedule is due: it queues the study's job."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dagster import DagsterInstance, DagsterRunStatus
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.daemon import SchedulerDaemon
from dagster._scheduler.scheduler import launch_scheduled_runs

from pipelines import dagster_history
from tests.exhaustive import exhaustive
from tests.reference import REFERENCE
from warehouse.home import CHECKOUT
from warehouse.sets import copy_kept_runs, kept_runs


def tick(instance: DagsterInstance, until: datetime) -> None:
    """Let the scheduler do what it does each time it wakes, as if it were so late."""
    target = ModuleTarget(
        module_name="pipelines.definitions",
        attribute=None,
        working_directory=str(CHECKOUT),
        location_name="stepcast",
    )
    with WorkspaceProcessContext(instance, target) as workspace:
        (location,) = workspace.create_request_context().code_locations
        (repository,) = location.get_repositories().values()
        for schedule in repository.get_schedules():
            instance.start_schedule(schedule)
        logger = logging.getLogger(SchedulerDaemon.daemon_type())
        for _ in launch_scheduled_runs(workspace, logger, until, {}):
            pass


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("days", "jobs"),
    [
        *exhaustive((1 / 40, {"variance", "reap"})),
        (8, {"variance", "reap", "prices"}),
    ],
    ids=["soon", "a week"],
)
def test_a_due_schedule_queues_the_job_of_its_study(
    days: float, jobs: set[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what opening the history sets
    run = next(run for run in kept_runs(REFERENCE) if run.study == "variance")
    copy_kept_runs(REFERENCE, home / "landing", [run.run_id], durable=False)
    with dagster_history.instance(home) as instance:
        tick(instance, datetime.now(UTC) + timedelta(days=days))
        runs = instance.get_runs()
        # The hour of prices may come soon.
        job_names = {run.job_name for run in runs}
        assert jobs <= job_names <= jobs | {"prices"}
        assert {run.status for run in runs} == {DagsterRunStatus.QUEUED}
        assert all(run.tags["dagster/schedule_name"] for run in runs)
