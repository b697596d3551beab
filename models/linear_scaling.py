"""Linear scaling, the baseline of every predictor: each worker is as fast as it is alone."""

import polars as pl
from pydantic import Field

from models.inputs import inputs_of_profile_alone
from models.profiled_run import (
    PointForecaster,
    metric_mean,
    profiled_scenario,
    run_ids_of,
)
from models.system import System, Tables
from warehouse.records import BadInput, Record, Scenario

_METRIC = "step_time_s"


class WorkerProfile(Record):
    """A profiled run, its scenario, and seconds per step of its one worker, untraced."""

    run_id: str
    scenario: Scenario
    step_time_s: float


class LinearScaling(PointForecaster):
    """W workers do W times the steps of one: of the profiled runs, one of each type of worker."""

    profiled: tuple[WorkerProfile, ...] = Field(min_length=1)

    def value(self, scenario: Scenario) -> float:
        """Return the throughput, in steps of all workers a second."""
        step_time_s = {
            profile.scenario.worker_groups[0].one: profile.step_time_s for profile in self.profiled
        }
        return sum(group.count / step_time_s[group.one] for group in scenario.worker_groups)


def fit(tables: Tables) -> LinearScaling:
    """Fit to the `step_time_s` of profile runs: seconds from a step's start to the next's.

    Raises:
        BadInput: no step time of a profile.
    """
    run_ids = run_ids_of(tables["sample"].filter(pl.col("metric") == _METRIC))
    if not run_ids:
        raise BadInput(f"table sample: expected {_METRIC} of a profile, found none; profile again")
    return LinearScaling(
        profiled=tuple(
            WorkerProfile(
                run_id=run_id,
                scenario=profiled_scenario(tables, run_id),
                step_time_s=metric_mean(tables, run_id, _METRIC),
            )
            for run_id in run_ids
        )
    )


LINEAR = System(
    name="linear",
    version="1",
    what="Baseline: W workers do W times the steps of one.",
    source="baseline",
    tables=("run", "scenario", "sample"),
    inputs=inputs_of_profile_alone,
    fit=fit,
    load=lambda text, _: LinearScaling.model_validate_json(text),
    in_words="linear scaling",
)
