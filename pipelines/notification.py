"""Telling people of failed runs, as `fleet.notice` tells of changes.

The sensor sees every run of the history: of any job, of assets that somebody materialises by hand,
of the command line, and runs whose process was killed. A hook of a job would miss most of them.
"""

import dagster as dg

from fleet.notice import tell

_LONGEST = 400


@dg.run_failure_sensor(
    monitor_all_code_locations=True, default_status=dg.DefaultSensorStatus.RUNNING
)
def tell_of_failures(context: dg.RunFailureSensorContext) -> None:
    """Tell the command `on_change` of the fleet file of a run that failed: docs/changes.md."""
    run, text = context.dagster_run, context.failure_event.message or "the run ended"
    first = next((event.step_failure_data for event in context.get_step_failure_events()), None)
    error = first and first.error
    while error is not None:
        text, error = error.message, error.cause
    studies = sorted({key.path[0] for key in run.asset_selection or ()})
    what = "assets" if run.job_name.startswith("__") else run.job_name
    partition = run.tags.get("dagster/partition")
    facts = {
        "job": run.job_name,
        "study": ", ".join(studies) or None,
        "partition": partition,
        "error": " ".join(text.split())[:_LONGEST],
        "run": run.run_id,
    }
    title = f"Stepcast: {what}{f' of {partition}' if partition else ''} failed"
    tell(title, facts, context.log.warning)
