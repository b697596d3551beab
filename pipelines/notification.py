"""Telling people outside of failed runs and drift, through a webhook that a variable names.

What they are told never holds a secret, and neither do the errors of telling: the path of the
webhook is left out of every message.
"""

import json
import logging
import os
import urllib.request
from collections.abc import Callable, Mapping, Sequence
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
TIMEOUT_S = 10.0
_SMTP = "STEPCAST_SMTP"


@dataclass(frozen=True)
class Notification:
    """What people are told: a title of one line, and facts by name."""

    title: str
    facts: Mapping[str, str | None]

    @property
    def text(self) -> str:
        """Return title and facts, a line each."""
        lines = [f"{name}: {value}" for name, value in self.facts.items() if value is not None]
        return "\n".join([self.title, "", *lines])


@dataclass(frozen=True)
class Webhook:
    """An address that takes JSON by POST."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        return f"the webhook at {urlsplit(self.url).hostname}"

    def tell(self, notice: Notification) -> None:
        """Post the title as `text`, which chat programs show, and the facts by their names.

        Raises:
            OSError, HTTPException: it was not taken.
        """
        content = json.dumps({"text": notice.text, "title": notice.title, **notice.facts})
        request = urllib.request.Request(
            self.url, content.encode(), {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):
            pass


def configured_webhook(environment: Mapping[str, str] = os.environ) -> Webhook | None:
    """Return the webhook that the environment names, if it names one.

    Raises:
        BadInput: a variable is wrong; the message does not repeat what it holds.
    """
    if environment.get(_SMTP):
        raise BadInput(f"{_SMTP}: Stepcast sends no e-mail any more; name a webhook: {WEBHOOK}")
    url = environment.get(WEBHOOK)
    if not url:
        return None
    if not _is_web_address(url):
        raise BadInput(f"{WEBHOOK}: expected https://HOST/PATH")
    return Webhook(url)


def send_notification(
    notice: Notification, webhook: Webhook, warn: Callable[[str], object]
) -> bool:
    """Tell a webhook; return whether it took the notice.

    `warn` is told why it did not; nothing is raised, so what wanted to tell goes on.
    """
    try:
        webhook.tell(notice)
    except (OSError, HTTPException, ValueError) as error:
        warn(f"{webhook} was not told: {_why(error)}")
        return False
    return True


def _why(error: Exception) -> str:
    """Return what kind of error it was, with numbers only: its text may repeat a secret."""
    code = getattr(error, "code", None)
    reason = getattr(error, "reason", error)
    number = code if code is not None else getattr(reason, "errno", None)
    kind = type(reason).__name__ if isinstance(reason, Exception) else type(error).__name__
    return kind if number is None else f"{kind} {number}"


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and port != 0
        and url.isprintable()
    )


# What tells of failed runs: a sensor, since a hook of a job would miss most of them.
#
# A sensor of run failures sees every run of the history: of any job, of assets that somebody
# materialises by hand, of the command line, and runs whose process was killed. Hooks of a job run
# within its process, step by step. The sensor runs in Dagster's daemon, as schedules do.


UI = "STEPCAST_UI"
"""Where people open the web interface; links lead there."""
_LONGEST = 400


def sensors() -> list[SensorDefinition]:
    """Return what tells of failed runs and of drift; they are on where somebody is to be told."""
    webhook = _configured()
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
            context.log.warning("nobody is told: STEPCAST_WEBHOOK names no webhook")
            return
        notice = notification_of_failure(context.dagster_run, _error(context), os.environ.get(UI))
        send_notification(notice, webhook, context.log.warning)

    return tell_of_failures


def notification_of_failure(run: DagsterRun, error: str, ui: str | None) -> Notification:
    """Return what people are told of a failed run: job, study, partition, error, and a link."""
    partition = run.tags.get("dagster/partition")
    studies = {key.path[0] for key in run.asset_selection or ()}
    what = "assets" if run.job_name.startswith("__") else run.job_name
    about = ", ".join(sorted(studies)) or None
    return Notification(
        f"Stepcast: {what}{f' of {partition}' if partition else ''} failed",
        {
            "job": run.job_name,
            "study": about or run.job_name,
            "partition": partition,
            "error": error,
            "run": run.run_id,
            "link": _link(f"runs/{run.run_id}", ui),
        },
    )


def _link(page: str, ui: str | None) -> str:
    return f"{(ui or 'http://localhost:3000').rstrip('/')}/{page}"


def _error(context: RunFailureSensorContext) -> str:
    """Return the cause of a failure in one line."""
    errors = [
        data.error
        for event in context.get_step_failure_events()
        if (data := event.step_failure_data) is not None and data.error is not None
    ]
    if not errors:
        return _line(context.failure_event.message or "no step failed; the run ended")
    error = errors[0]
    while error.cause is not None:
        error = error.cause
    return _line(error.message)


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


# What tells of drift: a sensor too, for an alarm fails no run.
#
# Its cursor is the number of the load of the last alarm that was told.


def drift(webhook: Webhook | None) -> SensorDefinition:
    """Return a sensor that tells a webhook of every confirmed alarm; off where there is none."""

    @dagster_sensor(
        name="tell_of_drift",
        description="Tells a webhook when a node type has changed, and when that has ended: "
        "docs/changes.md.",
        minimum_interval_seconds=60,
        default_status=_status(webhook),
    )
    def tell_of_drift(context: SensorEvaluationContext) -> SkipReason:
        if webhook is None:
            return SkipReason("STEPCAST_WEBHOOK names no webhook")
        alarms = confirmed_alarms(home())
        newest = max((alarm.sequence for alarm in alarms), default=0)
        # What is older than this sensor is no news, and a history made anew has other numbers.
        last_sequence = newest if context.cursor is None else min(int(context.cursor), newest)
        count = 0
        for alarm in alarms:
            if alarm.sequence <= last_sequence:
                continue
            notice = notification_of_drift(alarm, os.environ.get(UI))
            if not send_notification(notice, webhook, context.log.warning):
                break  # the next look tells it again
            last_sequence, count = alarm.sequence, count + 1
        context.update_cursor(str(last_sequence))
        return SkipReason(f"{count} alarms told, {_untold(alarms, last_sequence)} left")

    return tell_of_drift


def _untold(alarms: Sequence[Alarm], last_sequence: int) -> int:
    return sum(alarm.sequence > last_sequence for alarm in alarms)


def notification_of_drift(alarm: Alarm, ui: str | None) -> Notification:
    """Return what people are told of an alarm: node type, where, what changed, and a link."""
    what = "is as it was before its change" if alarm.ended else "has changed"
    return Notification(
        f"Stepcast: {alarm.node_type} {what}",
        {
            "node_type": alarm.node_type,
            "backend": alarm.backend,
            "host": alarm.host_id,
            "state": "ended" if alarm.ended else "changed",
            "changes": str(alarm),
            "raised_at": f"{alarm.raised_at:%Y-%m-%d %H:%M} UTC",
            "link": _link("assets/fleet/condition", ui),
        },
    )


def _configured() -> Webhook | None:
    """Return whom to tell; a wrong variable is a warning, as the studies must not be lost to it."""
    try:
        return configured_webhook()
    except BadInput as error:
        logging.getLogger("dagster").warning("nobody is told of failures: %s", error)
        return None
