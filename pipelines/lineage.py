"""Definitions of studies and of what belongs to none, with schedules and sensors; no framework."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import dagster as dg

from assets import aws
from assets import fleet as fleet_assets
from assets.definitions import definitions_of
from pipelines import fleet, notification
from profilers.clusters.fleet import INSTEAD_OF_WEBHOOK
from studies.study import read_study
from warehouse.history import studies_of
from warehouse.home import CHECKOUT
from warehouse.records import Backend, BadInput, StepcastError

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


STUDIES = "STEPCAST_STUDIES"
"""Names further folders or files of studies, as PATH does."""
DEMO = "demo"


def study_files() -> Iterator[Path]:
    """Yield the study files that lineage shows: ours, then those that `STUDIES` names."""
    more = [Path(name) for name in os.environ.get(STUDIES, "").split(os.pathsep) if name]
    for path in (CHECKOUT / "studies", *more):
        yield from sorted(path.glob("*.yaml")) if path.is_dir() else (path,)


def shown_files(home: Path) -> Iterator[Path]:
    """Yield the study files that the web interface shows of a home.

    Those are ours of which something has run there (the demo where nothing has), and all that
    `STUDIES` names.
    """
    try:
        ran = studies_of(home)
    except BadInput as error:
        logging.getLogger("dagster").warning("no study is known to have run: %s", error)
        ran = set()
    files = list(study_files())
    own_names: dict[Path, str | None] = {}
    for file in files:
        if file.parent == CHECKOUT / "studies":
            own_names[file] = None
            with suppress(BadInput):
                own_names[file] = read_study(file, traces=False).name
    shown = ran & {*own_names.values()} or {DEMO}
    yield from (file for file in files if file not in own_names or own_names[file] in shown)


def all_definitions(with_resources: Mapping[str, object], *files: Path) -> dg.Definitions:
    """Return everything: definitions of studies, prices, and the fleet."""
    sensors = dg.Definitions(sensors=[fleet.sensor(), notification.tell_of_failures])
    if os.environ.get("STEPCAST_WEBHOOK"):
        logging.getLogger("dagster").warning(
            "STEPCAST_WEBHOOK tells nobody: %s", INSTEAD_OF_WEBHOOK
        )
    beside = aws.definitions(), fleet_assets.definitions(), sensors
    return study_definitions(with_resources, *files, beside=beside)


def study_definitions(
    with_resources: Mapping[str, object],
    *files: Path,
    backend: Backend = "emulated",
    beside: Sequence[dg.Definitions] = (),
) -> dg.Definitions:
    """Return the definitions of studies on a backend, with the resources of a run.

    `beside` has what belongs to no study; no study may have the name of a job of it.

    A study that is wrong has no assets, and a warning says why; it takes no other with it. Steps
    run one after another in one process: nothing may run beside what measures.
    """
    taken = {job.name for of in beside for job in of.jobs or ()}
    by_job: dict[str, dg.Definitions] = {}
    for file in files:
        try:
            of = definitions_of(file, backend)
        except StepcastError as error:
            logging.getLogger("dagster").warning("study left out of the lineage: %s", error)
            continue
        (job,) = of.jobs or ()
        if job.name in {*taken, *by_job}:
            logging.getLogger("dagster").warning(
                "study left out of the lineage: %s has the name of another, %s", file, job.name
            )
            continue
        by_job[job.name] = of
    planned = [
        dg.ScheduleDefinition(
            name=name,
            job_name=job,
            cron_schedule=cron,
            default_status=dg.DefaultScheduleStatus.STOPPED,
            description=description,
        )
        for name, job, cron, description in _SCHEDULES
        if job in {*taken, *by_job}
    ]
    return dg.Definitions.merge(
        *by_job.values(),
        *beside,
        dg.Definitions(
            schedules=planned, resources=with_resources, executor=dg.in_process_executor
        ),
    )
