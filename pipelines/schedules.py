"""When what measures runs by itself."""

from dagster import DefaultScheduleStatus, ScheduleDefinition

from pipelines.jobs import demo
from warehouse.home import CHECKOUT

VARIANCE = CHECKOUT / "studies" / "variance.yaml"

half_hourly_variance = ScheduleDefinition(
    name="half_hourly_variance",
    job=demo,
    cron_schedule="*/30 * * * *",
    run_config={"resources": {"study": {"config": {"path": str(VARIANCE)}}}},
    default_status=DefaultScheduleStatus.STOPPED,
    description="How much nodes and links vary: studies/variance.yaml each half hour, for a day.",
)
weekly_reprofiling = ScheduleDefinition(
    name="weekly_reprofiling",
    job=demo,
    cron_schedule="0 3 * * 0",
    default_status=DefaultScheduleStatus.STOPPED,
    description="A new round of the study every Sunday night. Off until you switch it on.",
)
