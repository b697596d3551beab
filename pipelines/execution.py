"""Running a study in this process, with its resources, in the history that Dagster's pages show."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import dagster as dg

from assets import fleet as fleet_assets
from assets.fleet import FleetResource
from assets.resources import OWNER_TAG, LoggedProgress, RoundsResource, WarehouseResource, owner_tag
from assets.study_lineage import read_lineage
from fleet.schedule import AgendaItem
from pipelines import fleet
from pipelines.lineage import study_definitions
from studies.messages import Progress
from warehouse.home import home
from warehouse.records import Backend, StepcastError

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_LOCATION = {".dagster/repository": "__repository__@pipelines.definitions"}
"""Lists the run among those of the job in the web interface."""
_AGAIN_S = 0.1


def execute(
    instance: dg.DagsterInstance,
    study: Path,
    backend: Backend,
    progress: Progress,
    *,
    judged: bool = True,
) -> Sequence[str]:
    """Materialise every asset for a study; return the checks that warn.

    Args:
        instance: where the history of runs is.
        study: its file.
        backend: of its nodes.
        progress: told of what is done.
        judged: whether test scenarios are measured too; else profiles and forecasts are made.

    Raises:
        KeyboardInterrupt: the run was interrupted; everything is torn down.
        StepcastError: a blocking check failed, or as an asset raised it.
    """
    of = read_lineage(study, backend)
    everything = study_definitions(resources(backend, progress), study, backend=backend)
    fitted = [of.key(group, each.name) for each in of.systems for group in ("fits", "predictions")]
    profiles = [of.key("profiles", probe) for probe in of.profiling]
    selection = None if judged else [*profiles, *fitted]
    return _execute(instance, everything.resolve_job_def(of.name), selection=selection)


def execute_item(instance: dg.DagsterInstance, item: AgendaItem, progress: Progress) -> None:
    """Make a visit to a member of the fleet, or watch it.

    Raises:
        KeyboardInterrupt: as `execute`.
        StepcastError: as an asset raised it.
    """
    resource_definitions = dg.Definitions(resources=resources(item.member.backend, progress))
    job = dg.Definitions.merge(fleet_assets.definitions(), resource_definitions).resolve_job_def(
        fleet_assets.WATCHES if item.watches else fleet_assets.PROFILES
    )
    _execute(instance, job, item.member.node_type, fleet.select_assets(item))


def _execute(
    instance: dg.DagsterInstance,
    job: dg.JobDefinition,
    partition: str | None = None,
    selection: Sequence[dg.AssetKey] | None = None,
) -> Sequence[str]:
    run_id = str(uuid4())
    # Reading traces imports TensorFlow, which would talk on stderr.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        with _no_interrupt_lost():
            job.execute_in_process(
                _QUIET,
                instance,
                run_id=run_id,
                tags={**_LOCATION, OWNER_TAG: owner_tag()},
                partition_key=partition,
                asset_selection=selection,
            )
    except dg.DagsterExecutionInterruptedError:
        raise KeyboardInterrupt from None
    except dg.DagsterError as error:
        failed = _failed_checks(instance, run_id, dg.AssetCheckSeverity.ERROR)
        if failed:
            raise StepcastError(f"check {failed[0]}") from error
        raise
    return _failed_checks(instance, run_id, dg.AssetCheckSeverity.WARN)


@contextmanager
def _no_interrupt_lost() -> Iterator[None]:
    """Interrupt again where Python ignored it: what a weak reference's callback raises is lost."""
    before = sys.unraisablehook

    def hook(lost: "sys.UnraisableHookArgs") -> None:
        if not isinstance(lost.exc_value, dg.DagsterExecutionInterruptedError | KeyboardInterrupt):
            before(lost)
            return
        main = threading.main_thread().ident
        assert main is not None
        # Soon: what is raised in here would be lost as well.
        threading.Timer(_AGAIN_S, signal.pthread_kill, (main, signal.SIGINT)).start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _failed_checks(
    instance: dg.DagsterInstance, run_id: str, severity: dg.AssetCheckSeverity
) -> list[str]:
    """Return each check that did not pass, with what it found."""
    entries = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    data = [entry.get_dagster_event().event_specific_data for entry in entries]
    return [
        f"{evaluation.asset_key.to_user_string()} {evaluation.check_name.replace('_', ' ')}: "
        f"{evaluation.description or 'no description'}"
        for evaluation in data
        if isinstance(evaluation, dg.AssetCheckEvaluation)
        and not evaluation.passed
        and evaluation.severity == severity
    ]


def resources(backend: str | None = None, progress: Progress | None = None) -> dict[str, object]:
    """Return the resources of runs in the home that STEPCAST_HOME names."""
    warehouse = WarehouseResource(home=str(home()))
    return {
        "fleet": FleetResource(warehouse=warehouse),
        "rounds": RoundsResource(backend=backend, warehouse=warehouse),
        "warehouse": warehouse,
        "progress": LoggedProgress(progress),
    }
