"""Jobs for Dagster's queue: one measures until somebody lets it go on, one forecasts."""

import os
from pathlib import Path

import dagster as dg

from assets.study_assets import POOL

FOLDER = "QUEUE_FOLDER"
"""Names the folder of a test, with a pipe that each measuring run reads once."""


def _log(line: str) -> None:
    with (Path(os.environ[FOLDER]) / "log").open("a") as log:
        log.write(f"{line}\n")


@dg.op(pool=POOL)
def measuring(context: dg.OpExecutionContext) -> None:
    """Measure until a test opens the pipe."""
    _log(f"began {context.run_id}")
    (Path(os.environ[FOLDER]) / "pipe").read_bytes()
    _log(f"ended {context.run_id}")


@dg.op(pool="warehouse")
def forecasting(context: dg.OpExecutionContext) -> None:
    """Forecast."""
    _log(f"forecast {context.run_id}")


@dg.job(executor_def=dg.in_process_executor)
def measure() -> None:
    """Run what measures."""
    measuring()


@dg.job(executor_def=dg.in_process_executor)
def forecast() -> None:
    """Run what forecasts."""
    forecasting()


defs = dg.Definitions(jobs=[measure, forecast])
