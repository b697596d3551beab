"""What runs by itself: schedules of what measures, and a sensor of what other sites have landed."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from itertools import islice

from dagster import (
    AssetSelection,
    DagsterInstance,
    DefaultScheduleStatus,
    DefaultSensorStatus,
    Definitions,
    RunRequest,
    RunsFilter,
    ScheduleDefinition,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    define_asset_job,
    in_process_executor,
    sensor,
)

from assets.home_lock import UNFINISHED
from assets.sites import RECEIVED, received_asset
from profilers.steady import hostlock
from warehouse.home import home
from warehouse.prefixes import PREFIX, configured_prefix
from warehouse.records import content_hash
from warehouse.sites import waiting_runs

JOB = "receive"
NEW = "stepcast/new"
"""The tag of a run that says what was new when it was asked for."""
_EVERY_S = 60
_LONGEST_WAIT = timedelta(hours=1)
_LOOKED_AT = 1_000


def receiving_definitions() -> Definitions:
    """Return the asset, job and sensor that load what other sites have landed."""
    job = define_asset_job(
        JOB,
        selection=AssetSelection.assets(list(RECEIVED)),
        executor_def=in_process_executor,
        description=f"Load the runs that other sites left at {PREFIX}.",
    )
    return Definitions(assets=[received_asset()], jobs=[job], sensors=[_sensor()])


def _sensor() -> SensorDefinition:
    @sensor(
        name="new_runs_of_other_sites",
        job_name=JOB,
        minimum_interval_seconds=_EVERY_S,
        default_status=DefaultSensorStatus.STOPPED,
        description=f"Looks for runs at {PREFIX} that this history lacks. Off until you switch it "
        "on.",
    )
    def new_runs(context: SensorEvaluationContext) -> RunRequest | SkipReason:
        prefix = configured_prefix()
        if prefix is None:
            return SkipReason(f"{PREFIX} is not set; a folder or s3://bucket/name")
        instance = context.instance
        if instance.get_runs_count(RunsFilter(job_name=JOB, statuses=UNFINISHED)):
            return SkipReason("a run is loading what was new")
        # Loading keeps a core busy, which would spoil what is measured.
        if measuring := hostlock.holder():
            return SkipReason(f"{measuring} is measuring on this host")
        new = list(islice(waiting_runs(prefix, home() / "landing"), _LOOKED_AT))
        if not new:
            return SkipReason(f"nothing new in {prefix.name}")
        return _request(instance, content_hash("\n".join(new)), len(new))

    return new_runs


def _request(instance: DagsterInstance, what: str, count: int) -> RunRequest | SkipReason:
    """Ask for a run; the more runs have left the same things undone, the later."""
    before = instance.get_run_records(RunsFilter(job_name=JOB, tags={NEW: what}))
    if before:
        wait = min(timedelta(minutes=2 ** min(len(before), 10)), _LONGEST_WAIT)
        if (since := datetime.now(UTC) - before[0].create_timestamp) < wait:
            return SkipReason(
                f"run {before[0].dagster_run.run_id} left these {count} runs; the next try is in "
                f"{(wait - since).total_seconds() / 60:.0f} minutes"
            )
    return RunRequest(run_key=f"{what}-{len(before)}", tags={NEW: what})


# When what measures runs by itself.


_SCHEDULES = (
    (
        "half_hourly_variance",
        "variance",
        "*/30 * * * *",
        "How much nodes and links vary: studies/variance.yaml each half hour, for a day.",
    ),
    (
        "weekly_demo",
        "demo",
        "0 3 * * 0",
        "A new round of studies/demo.yaml every Sunday night. Off until you switch it on.",
    ),
    (
        "daily_prices",
        "prices",
        "0 5 * * *",
        "What AWS asks for instance types, every morning. Off until you switch it on.",
    ),
    (
        "quarter_hourly_reap",
        "reap",
        "*/15 * * * *",
        "End rented instances of dead processes of this home. Off until you switch it on.",
    ),
)


def schedules(jobs: Collection[str]) -> list[ScheduleDefinition]:
    """Return the schedules of those of these jobs that have one."""
    return [
        ScheduleDefinition(
            name=name,
            job_name=job,
            cron_schedule=cron,
            default_status=DefaultScheduleStatus.STOPPED,
            description=description,
        )
        for name, job, cron, description in _SCHEDULES
        if job in jobs
    ]
