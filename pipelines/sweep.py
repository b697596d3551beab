"""Sweeps on Dagster: steps that each forecast some parts, as many at a time as there are cores.

Steps share nothing but the folder of the sweep. They are forks of a server that has imported this
module, once for all of them.
"""

import gc
import multiprocessing
import os
from collections.abc import Sequence
from itertools import pairwise
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread

import polars as pl
from dagster import (
    AssetKey,
    AssetMaterialization,
    Config,
    DagsterEventType,
    DagsterExecutionInterruptedError,
    DagsterInstance,
    JobDefinition,
    MetadataValue,
    build_reconstructable_job,
    execute_job,
    graph,
    multiprocess_executor,
    op,
)

from assets.resources import OWNER_TAG, owner_tag
from forecasting.sweep import SweepFolder, forecast_part
from warehouse.home import home
from warehouse.records import StepcastError

STEP_PARTS = 12
"""Parts of a step at most: with a step ends what it keeps in memory of networks."""


class StepConfig(Config):
    """The home, the folder of the sweep, and the parts of a step."""

    home: str
    folder: str
    parts: list[int]


@op
def forecasts(config: StepConfig) -> None:
    """Forecast some parts, one after the other."""
    command = multiprocessing.parent_process()
    assert command is not None
    Thread(target=_end_with, args=(command,), daemon=True).start()
    os.environ["STEPCAST_HOME"] = config.home
    gc.freeze()  # what was imported is no garbage, and stays shared with other steps
    gc.set_threshold(100_000)
    folder = SweepFolder(Path(config.folder))
    for number in config.parts:
        forecast_part(folder, number)


def _end_with(command: BaseProcess) -> None:
    """End this process when the command is killed: Dagster and the server of steps do not."""
    command.join()
    os._exit(1)


def start_step_server() -> None:
    """Start the process that steps are forked from, which imports while this one goes on."""
    forkserver.set_forkserver_preload([__name__])
    forkserver.ensure_running()


def sweep_job(steps: int) -> JobDefinition:
    """Return the job of a number of steps; how each is named: `step_name`."""

    @graph(name="sweep")
    def sweep() -> None:
        for step in range(steps):
            forecasts.alias(step_name(step))()

    return sweep.to_job(executor_def=multiprocess_executor)


def step_name(step: int) -> str:
    """Return how a step is called, from 0."""
    return f"forecasts_{step}"


def divide(parts: Sequence[int], workers: int) -> list[list[int]]:
    """Divide parts among steps; neighbouring ones, which are about the same networks, together."""
    rounds = -(-len(parts) // (STEP_PARTS * workers))
    steps = max(1, min(rounds * workers, len(parts)))
    bounds = [len(parts) * step // steps for step in range(steps + 1)]
    return [list(parts[start:stop]) for start, stop in pairwise(bounds)]


def execute_sweep(instance: DagsterInstance, folder: SweepFolder, workers: int) -> None:
    """Forecast the parts of a sweep that are missing.

    Args:
        instance: where the history of runs is.
        folder: of the sweep.
        workers: steps at a time.

    Raises:
        KeyboardInterrupt: it was interrupted, and all steps are ended.
        StepcastError: a step failed; the message has its error.
    """
    shares = divide([part.number for part in folder.missing], workers)
    start_step_server()
    executor = {"max_concurrent": workers, "start_method": {"forkserver": {}}}
    of_all = {"home": str(home()), "folder": str(folder.path)}
    config = {
        "ops": {
            step_name(step): {"config": {**of_all, "parts": share}}
            for step, share in enumerate(shares)
        },
        "execution": {"config": executor},
        "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
    }
    try:
        result = execute_job(
            build_reconstructable_job(
                __name__, sweep_job.__name__, reconstructable_kwargs={"steps": len(shares)}
            ),
            instance,
            config,
            tags={OWNER_TAG: owner_tag()},
        )
    except DagsterExecutionInterruptedError:
        raise KeyboardInterrupt from None
    if not result.success:
        kind, reason = _failure(instance, result.run_id)
        if kind == DagsterExecutionInterruptedError.__name__:
            raise KeyboardInterrupt
        raise StepcastError(reason)
    _report_rows(instance, folder)


def _report_rows(instance: DagsterInstance, folder: SweepFolder) -> None:
    """Tell Dagster what came of the sweep.

    Raises:
        StepcastError: a part is missing.
    """
    if missing := folder.missing:
        raise StepcastError(f"{folder.path}: {missing[0].file} is missing after all")
    row_count = folder.rows.select(pl.len()).collect().item()
    instance.report_runless_asset_event(
        AssetMaterialization(
            AssetKey(["sweeps", folder.path.name]),
            metadata={
                "dagster/row_count": MetadataValue.int(row_count),
                "folder": MetadataValue.path(str(folder.path)),
            },
        )
    )


def _failure(instance: DagsterInstance, run_id: str) -> tuple[str | None, str]:
    """Return the kind of the error of the step that failed first, and the step with its error."""
    for entry in instance.all_logs(run_id, of_type=DagsterEventType.STEP_FAILURE):
        event = entry.get_dagster_event()
        error = event.step_failure_data.error
        while error is not None and error.cause is not None:
            error = error.cause
        if error is not None:
            return error.cls_name, f"step {event.step_key}: {error.message.strip()}"
    return None, f"run {run_id} failed; `stepcast ui` shows why"
