"""When what measures runs by itself."""

from dagster import DefaultScheduleStatus, ScheduleDefinition

from pipelines.jobs import demo

weekly_reprofiling = ScheduleDefinition(
    name="weekly_reprofiling",
    job=demo,
    cron_schedule="0 3 * * 0",
    default_status=DefaultScheduleStatus.STOPPED,
    description="A new round of the study every Sunday night. Off until you switch it on.",
)
