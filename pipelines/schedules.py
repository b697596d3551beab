"""When what measures runs by itself."""

from collections.abc import Collection

from dagster import DefaultScheduleStatus, ScheduleDefinition

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
