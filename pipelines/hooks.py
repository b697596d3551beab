"""What tells of failed runs: a sensor, since a hook of a job would miss most of them.

A sensor of run failures sees every run of the history: of any job, of assets that somebody
materialises by hand, of the command line, and runs whose process was killed. Hooks of a job run
within its process, step by step. The sensor runs in Dagster's daemon, as schedules do.
"""

import logging
import os

from dagster import (
    DagsterRun,
    DefaultSensorStatus,
    RunFailureSensorContext,
    SensorDefinition,
    run_failure_sensor,
)

from pipelines.notification import Notice, Webhook, configured_webhook, tell
from warehouse.records import BadInput

UI = "STEPCAST_UI"
"""Where people open the web interface; links lead there."""
_LONGEST = 400


def sensor() -> SensorDefinition:
    """Return the sensor that tells of failed runs; it is on where somebody is to be told."""
    return failures(_configured())


def failures(webhook: Webhook | None) -> SensorDefinition:
    """Return a sensor that tells a webhook of every run that fails; off where there is none."""

    @run_failure_sensor(
        name="tell_of_failures",
        description="Tells a webhook of every failed run: docs/changes.md.",
        monitor_all_code_locations=True,
        default_status=DefaultSensorStatus.RUNNING if webhook else DefaultSensorStatus.STOPPED,
    )
    def tell_of_failures(context: RunFailureSensorContext) -> None:
        if webhook is None:
            context.log.warning("nobody is told: STEPCAST_WEBHOOK names no webhook")
            return
        notice = notice_of(context.dagster_run, _error(context), os.environ.get(UI))
        tell(notice, webhook, context.log.warning)

    return tell_of_failures


def notice_of(run: DagsterRun, error: str, ui: str | None) -> Notice:
    """Return what people are told of a failed run: job, study, partition, error, and a link."""
    partition = run.tags.get("dagster/partition")
    studies = {key.path[0] for key in run.asset_selection or ()}
    what = "assets" if run.job_name.startswith("__") else run.job_name
    about = ", ".join(sorted(studies)) or None
    return Notice(
        f"Stepcast: {what}{f' of {partition}' if partition else ''} failed",
        {
            "job": run.job_name,
            "study": about or run.job_name,
            "partition": partition,
            "error": error,
            "run": run.run_id,
            "link": f"{(ui or 'http://localhost:3000').rstrip('/')}/runs/{run.run_id}",
        },
    )


def _error(context: RunFailureSensorContext) -> str:
    """Return the cause of a failure in one line."""
    found = [
        data.error
        for event in context.get_step_failure_events()
        if (data := event.step_failure_data) is not None and data.error is not None
    ]
    if not found:
        return _line(context.failure_event.message or "no step failed; the run ended")
    error = found[0]
    while error.cause is not None:
        error = error.cause
    return _line(error.message)


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _configured() -> Webhook | None:
    """Return whom to tell; a wrong variable is a warning, as the studies must not be lost to it."""
    try:
        return configured_webhook()
    except BadInput as error:
        logging.getLogger("dagster").warning("nobody is told of failures: %s", error)
        return None
