"""Sweeps on Dagster: steps that each forecast some parts, on this machine or on a Ray cluster.

Steps share nothing but the folder of the sweep, which every node that executes one has to see.
"""

import ctypes
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from dagster import (
    AssetKey,
    AssetMaterialization,
    Config,
    DagsterEventType,
    DagsterExecutionInterruptedError,
    DagsterInstance,
    DynamicOut,
    DynamicOutput,
    ExecutorDefinition,
    In,
    JobDefinition,
    MetadataValue,
    Nothing,
    OpExecutionContext,
    execute_job,
    graph,
    multiprocess_executor,
    op,
    reconstructable,
)

from assets.resources import OWNER_TAG, owner_tag
from forecasting.sweep import SweepFolder, forecast_part
from warehouse.records import BadInput, StepcastError

Engine = Literal["processes", "ray"]
_PR_SET_PDEATHSIG = 1
"""Of <linux/prctl.h>."""
STEP_PARTS = 12
"""Parts of a step at most: a step starts an interpreter, which takes seconds."""


class SweepConfig(Config):
    """The folder of a sweep, and how many steps at a time."""

    folder: str
    workers: int


@op(out=DynamicOut(list[int]))
def missing_parts(config: SweepConfig) -> Iterator[DynamicOutput[list[int]]]:
    """Divide the parts that are not there yet among steps.

    A step has neighbouring parts, which are about the same networks.
    """
    numbers = [part.number for part in SweepFolder(Path(config.folder)).missing]
    size = max(1, min(STEP_PARTS, -(-len(numbers) // config.workers)))
    for start in range(0, len(numbers), size):
        chosen = numbers[start : start + size]
        yield DynamicOutput(chosen, mapping_key=f"from_{chosen[0]:05}")


@op
def forecasts(config: SweepConfig, numbers: list[int]) -> None:
    """Forecast some parts, one after the other."""
    _end_with_parent()
    folder = SweepFolder(Path(config.folder))
    for number in numbers:
        forecast_part(folder, number)


def _end_with_parent() -> None:
    """Have the kernel end this process when its parent is killed, which Dagster does not."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@op(ins={"parts": In(Nothing)})
def rows(context: OpExecutionContext, config: SweepConfig) -> None:
    """Tell Dagster what came of the sweep.

    Raises:
        StepcastError: a part is missing.
    """
    folder = SweepFolder(Path(config.folder))
    if missing := folder.missing:
        raise StepcastError(f"{folder.path}: {missing[0].file} is missing after all")
    counted = folder.rows.select("scenario").collect().height
    context.log_event(
        AssetMaterialization(
            AssetKey(["sweeps", folder.path.name]),
            metadata={
                "dagster/row_count": MetadataValue.int(counted),
                "folder": MetadataValue.path(str(folder.path)),
            },
        )
    )


@graph
def sweep() -> None:
    """Forecast whatever is missing."""
    rows(missing_parts().map(forecasts).collect())


def processes_sweep() -> JobDefinition:
    """Return the job whose steps are processes of this machine."""
    return _job(multiprocess_executor)


def ray_sweep() -> JobDefinition:
    """Return the job whose steps are jobs of a Ray cluster.

    Raises:
        BadInput: the extra is not installed.
    """
    try:
        from dagster_ray import ray_executor
    except ModuleNotFoundError:
        raise BadInput(
            "--engine ray: Ray is not installed; `pip install 'stepcast[ray]'` brings it"
        ) from None
    return _job(ray_executor)


def _job(executor: ExecutorDefinition) -> JobDefinition:
    return sweep.to_job(name="sweep", executor_def=executor)


_JOBS: Mapping[Engine, Callable[[], JobDefinition]] = {
    "processes": processes_sweep,
    "ray": ray_sweep,
}


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
    _JOBS[engine]()
    told = {"folder": str(folder.path), "workers": workers}
    executor: dict[str, object] = {"max_concurrent": workers}
    if engine == "ray":
        passed = [f"{name}={os.environ[name]}" for name in _PASSED if name in os.environ]
        executor = {"ray": {"address": address, "num_cpus": 1, "env_vars": passed}}
    config = {
        "ops": {name: {"config": told} for name in ("missing_parts", "forecasts", "rows")},
        "execution": {"config": executor},
        "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
    }
    try:
        result = execute_job(
            reconstructable(_JOBS[engine]),
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
    if result.success:
        return
    kind, reason = _failure(instance, result.run_id)
    if kind == DagsterExecutionInterruptedError.__name__:
        raise KeyboardInterrupt
    raise StepcastError(reason)


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
