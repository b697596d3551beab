"""Sweeps on Dagster: steps that each forecast some parts, on this machine or on a Ray cluster.

Steps share nothing but the folder of the sweep, which every node that executes one has to see. On
this machine they are forks of a server that has imported this module, once for all of them.
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
from typing import Literal

from dagster import (
    Config,
    DagsterEventType,
    DagsterExecutionInterruptedError,
    DagsterInstance,
    ExecutorDefinition,
    JobDefinition,
    build_reconstructable_job,
    execute_job,
    graph,
    multiprocess_executor,
    op,
)

from assets.resources import OWNER_TAG, owner_tag
from forecasting.sweep import SweepFolder, forecast_part
from warehouse.home import home
from warehouse.records import BadInput, StepcastError

Engine = Literal["processes", "ray"]
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
    if (command := multiprocessing.parent_process()) is not None:  # not on Ray
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


def sweep_job(engine: Engine, steps: int) -> JobDefinition:
    """Return the job of a number of steps; how each is named: `step_name`.

    Raises:
        BadInput: the extra of the engine is not installed.
    """

    @graph(name="sweep")
    def sweep() -> None:
        for step in range(steps):
            forecasts.alias(step_name(step))()

    executor = multiprocess_executor if engine == "processes" else _ray_executor()
    return sweep.to_job(executor_def=executor)


def step_name(step: int) -> str:
    """Return how a step is called, from 0."""
    return f"forecasts_{step}"


def _ray_executor() -> ExecutorDefinition:
    try:
        from dagster_ray import ray_executor
    except ModuleNotFoundError:
        raise BadInput(
            "--ray-address: Ray is not installed; `pip install 'stepcast[ray]'` brings it"
        ) from None
    return ray_executor


def divide(parts: Sequence[int], workers: int) -> list[list[int]]:
    """Divide parts among steps; neighbouring ones, which are about the same networks, together."""
    rounds = -(-len(parts) // (STEP_PARTS * workers))
    steps = max(1, min(rounds * workers, len(parts)))
    bounds = [len(parts) * step // steps for step in range(steps + 1)]
    return [list(parts[start:stop]) for start, stop in pairwise(bounds)]


def execute_sweep(
    instance: DagsterInstance,
    folder: SweepFolder,
    engine: Engine = "processes",
    *,
    workers: int,
    address: str | None = None,
) -> None:
    """Forecast the parts of a sweep that are missing.

    Args:
        instance: where the history of runs is.
        folder: of the sweep.
        engine: which executor of Dagster.
        workers: steps at a time.
        address: of the dashboard of a Ray cluster.

    Raises:
        BadInput: the engine is not there, or does not answer.
        KeyboardInterrupt: it was interrupted, and all steps are ended.
        StepcastError: a step failed; the message has its error.
    """
    shares = divide([part.number for part in folder.missing], workers)
    sweep_job(engine, len(shares))
    executor: dict[str, object]
    if engine == "processes":
        start_step_server()
        executor = {"max_concurrent": workers, "start_method": {"forkserver": {}}}
    else:
        passed = [f"{name}={os.environ[name]}" for name in _PASSED if name in os.environ]
        executor = {"ray": {"address": address, "num_cpus": 1, "env_vars": passed}}
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
                __name__,
                sweep_job.__name__,
                reconstructable_kwargs={"engine": engine, "steps": len(shares)},
            ),
            instance,
            config,
            tags={OWNER_TAG: owner_tag()},
        )
    except DagsterExecutionInterruptedError:
        raise KeyboardInterrupt from None
    except ConnectionError:
        raise BadInput(
            f"--ray-address {address}: no Ray cluster answers; `ray start --head` starts one"
        ) from None
    if not result.success:
        kind, reason = _failure(instance, result.run_id)
        if kind == DagsterExecutionInterruptedError.__name__:
            raise KeyboardInterrupt
        raise StepcastError(reason)
    if missing := folder.missing:
        raise StepcastError(f"{folder.path}: {missing[0].file} is missing after all")


_PASSED = ("STEPCAST_HOME", "DAGSTER_HOME")


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
