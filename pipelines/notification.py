"""Telling people outside of failed runs and drift, through a webhook that a variable names.

What they are told never holds a secret, and neither do the errors of telling: the path of the
webhook is left out of every message.

Both are sensors of Dagster's daemon. One of run failures sees every run of the history: of any job,
of assets that somebody materialises by hand, of the command line, and runs whose process was
killed; a hook of a job would miss most of them. An alarm of drift fails no run.
"""

import json
import logging
import os
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from urllib.parse import urlsplit

from dagster import (
    DagsterRun,
    DefaultSensorStatus,
    RunFailureSensorContext,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    run_failure_sensor,
)
from dagster import sensor as dagster_sensor

from fleet.history import Alarm, confirmed_alarms
from warehouse.home import home
from warehouse.records import BadInput

WEBHOOK = "STEPCAST_WEBHOOK"
UI = "STEPCAST_UI"
"""Where people open the web interface; links lead there."""
_TIMEOUT_S = 10.0
_LONGEST = 400
Facts = Mapping[str, str | None]


@dataclass(frozen=True)
class Webhook:
    """An address that takes JSON by POST."""

    url: str = field(repr=False)

    def tell(self, title: str, facts: Facts, warn: Callable[[str], object]) -> bool:
        """Post a title of one line and facts by name; return whether they were taken.

        `text`, which chat programs show, has both. `warn` is told why they were not taken; nothing
        is raised, so what wanted to tell goes on.
        """
        lines = [f"{name}: {value}" for name, value in facts.items() if value is not None]
        content = {"text": "\n".join([title, "", *lines]), "title": title, **facts}
        request = urllib.request.Request(
            self.url, json.dumps(content).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
                return True
        except (OSError, HTTPException, ValueError) as error:
            host = urlsplit(self.url).hostname
            warn(f"the webhook at {host} was not told: {_kind(error)}")
            return False


def _kind(error: Exception) -> str:
    """Return what kind of error it was, with numbers only: its text may repeat a secret."""
    reason = getattr(error, "reason", error)
    number = getattr(error, "code", getattr(reason, "errno", None))
    kind = type(reason if isinstance(reason, Exception) else error).__name__
    return kind if number is None else f"{kind} {number}"


def configured_webhook(environment: Mapping[str, str] = os.environ) -> Webhook | None:
    """Return the webhook that the environment names, if it names one.

    Raises:
        BadInput: the variable is wrong; the message does not repeat what it holds.
    """
    url = environment.get(WEBHOOK)
    if not url:
        return None
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right or not url.isprintable():
        raise BadInput(f"{WEBHOOK}: expected https://HOST/PATH")
    return Webhook(url)


def sensors() -> list[SensorDefinition]:
    """Return what tells of failed runs and of drift; they are on where somebody is to be told."""
    try:
        webhook = configured_webhook()
    except BadInput as error:
        # A wrong variable must not cost the studies.
        logging.getLogger("dagster").warning("nobody is told of failures: %s", error)
        webhook = None
    return [failures(webhook), drift(webhook)]


def _status(webhook: Webhook | None) -> DefaultSensorStatus:
    return DefaultSensorStatus.RUNNING if webhook else DefaultSensorStatus.STOPPED


def failures(webhook: Webhook | None) -> SensorDefinition:
    """Return a sensor that tells a webhook of every run that fails; off where there is none."""

    @run_failure_sensor(
        name="tell_of_failures",
        description="Tells a webhook of every failed run: docs/changes.md.",
        monitor_all_code_locations=True,
        default_status=_status(webhook),
    )
    def tell_of_failures(context: RunFailureSensorContext) -> None:
        if webhook is None:
            context.log.warning(f"nobody is told: {WEBHOOK} names no webhook")
        else:
            webhook.tell(*failure_notice(context.dagster_run, _cause(context)), context.log.warning)

    return tell_of_failures


def failure_notice(run: DagsterRun, error: str) -> tuple[str, Facts]:
    """Return what people are told of a failed run: a title, and job, study, partition, error."""
    partition = run.tags.get("dagster/partition")
    studies = {key.path[0] for key in run.asset_selection or ()}
    what = "assets" if run.job_name.startswith("__") else run.job_name
    return f"Stepcast: {what}{f' of {partition}' if partition else ''} failed", {
        "job": run.job_name,
        "study": ", ".join(sorted(studies)) or run.job_name,
        "partition": partition,
        "error": error,
        "run": run.run_id,
        "link": _link(f"runs/{run.run_id}"),
    }


def _link(page: str) -> str:
    return f"{os.environ.get(UI, 'http://localhost:3000').rstrip('/')}/{page}"


def _cause(context: RunFailureSensorContext) -> str:
    """Return the cause of a failure in one line."""
    errors = (event.step_failure_data.error for event in context.get_step_failure_events())
    error = next((error for error in errors if error is not None), None)
    while error is not None and error.cause is not None:
        error = error.cause
    text = context.failure_event.message if error is None else error.message
    line = " ".join((text or "no step failed; the run ended").split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def drift(webhook: Webhook | None) -> SensorDefinition:
    """Return a sensor that tells a webhook of every confirmed alarm; off where there is none.

    Its cursor is the number of the load of the last alarm that was told.
    """

    @dagster_sensor(
        name="tell_of_drift",
        description="Tells a webhook when a node type has changed, and when that has ended: "
        "docs/changes.md.",
        minimum_interval_seconds=60,
        default_status=_status(webhook),
    )
    def tell_of_drift(context: SensorEvaluationContext) -> SkipReason:
        if webhook is None:
            return SkipReason(f"{WEBHOOK} names no webhook")
        alarms = confirmed_alarms(home())
        newest = max((alarm.sequence for alarm in alarms), default=0)
        # What is older than this sensor is no news, and a history made anew has other numbers.
        last_sequence = newest if context.cursor is None else min(int(context.cursor), newest)
        untold = [alarm for alarm in alarms if alarm.sequence > last_sequence]
        told = 0
        # One that is not taken is told again at the next look, and those after it.
        while told < len(untold) and webhook.tell(*drift_notice(untold[told]), context.log.warning):
            last_sequence, told = untold[told].sequence, told + 1
        context.update_cursor(str(last_sequence))
        return SkipReason(f"{told} alarms told, {len(untold) - told} left")

    return tell_of_drift


def drift_notice(alarm: Alarm) -> tuple[str, Facts]:
    """Return what people are told of an alarm: a title, and node type, where and what changed."""
    what = "is as it was before its change" if alarm.ended else "has changed"
    return f"Stepcast: {alarm.node_type} {what}", {
        "node_type": alarm.node_type,
        "backend": alarm.backend,
        "host": alarm.host_id,
        "state": "ended" if alarm.ended else "changed",
        "changes": str(alarm),
        "raised_at": f"{alarm.raised_at:%Y-%m-%d %H:%M} UTC",
        "link": _link("assets/fleet/condition"),
    }
