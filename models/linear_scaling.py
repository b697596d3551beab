"""Linear scaling, the baseline of every predictor: each worker is as fast as it is alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl
from pydantic import Field

from models.inputs import inputs_of_profile_alone
from models.profiled_run import (
    check_alike,
    check_one_job,
    forecasts_of,
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


class Parameters(Record):
    """The profiled runs, one of each type of worker."""

    profiled: tuple[WorkerProfile, ...] = Field(min_length=1)


@dataclass(frozen=True)
class LinearScaling:
    """Linear scaling of profiled workers: each does as many steps as it does alone."""

    parameters: Parameters

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id and value (throughput_steps_per_s); low and high are NULL.

        Raises:
            BadInput: a scenario whose workload, nodes or link differ from the profiled ones.
        """
        return forecasts_of(self.parameters.profiled[0].scenario, scenarios, self._steps_per_s)

    def _steps_per_s(self, scenario: Scenario) -> float:
        profiled = self.parameters.profiled
        check_alike([profile.scenario for profile in profiled], scenario)
        step_time_s = {
            profile.scenario.worker_groups[0].one: profile.step_time_s for profile in profiled
        }
        return steps_per_s(
            (group.count, step_time_s[group.one]) for group in scenario.worker_groups
        )

    def parameters_json(self) -> str:
        """Return the parameters as canonical JSON."""
        return self.parameters.canonical_json()

    @classmethod
    def from_json(cls, text: str) -> "LinearScaling":
        """Read what `parameters_json` wrote."""
        return cls(Parameters.model_validate_json(text))


def fit(*, runs: pl.DataFrame, scenarios: pl.DataFrame, samples: pl.DataFrame) -> LinearScaling:
    """Fit to the `step_time_s` of profile runs: seconds from a step's start to the next's.

    Args:
        runs: table run; may hold other runs too.
        scenarios: table scenario.
        samples: table sample, with `step_time_s` of one run for each type of worker.

    Raises:
        BadInput: no profiled runs of 1 worker of one job, or no step time above 0.
    """
    run_ids = run_ids_of(samples.filter(pl.col("metric") == _METRIC))
    if not run_ids:
        raise BadInput(f"table sample: expected {_METRIC} of a profile, found none; profile again")
    profiled = []
    for run_id in run_ids:
        step_time_s = metric_mean(samples, run_id, _METRIC)
        if step_time_s == 0:
            raise BadInput(f"run {run_id}: expected {_METRIC} above 0, found 0; profile again")
        scenario = profiled_scenario(run_id, runs, scenarios)
        profiled.append(WorkerProfile(run_id=run_id, scenario=scenario, step_time_s=step_time_s))
    check_one_job([profile.scenario for profile in profiled])
    return LinearScaling(Parameters(profiled=tuple(profiled)))


def _fit(tables: Tables) -> LinearScaling:
    return fit(runs=tables["run"], scenarios=tables["scenario"], samples=tables["sample"])


LINEAR = System(
    name="linear",
    version="1",
    what="Baseline: W workers do W times the steps of one.",
    source="baseline",
    tables=("run", "scenario", "sample"),
    inputs=inputs_of_profile_alone,
    fit=_fit,
    load=lambda text, _: LinearScaling.from_json(text),
    in_words="linear scaling",
)


# Linear scaling: each worker is as fast as it is alone, whatever others do.
#
# Where workers do not wait for each other, their rates add up; where they do, the slowest decides.
# The arithmetic of `linear` and of `ideal_scaling`.


def steps_per_s(workers: Iterable[tuple[int, float]]) -> float:
    """Return the steps of all workers per second: W workers do W times the steps of one.

    Args:
        workers: how many there are of each kind, and seconds that a step of one of them takes.
    """
    return sum(count / step_time_s for count, step_time_s in workers)


def step_time_s(alone_s: Iterable[float]) -> float:
    """Return seconds of a step for which all wait: those of the slowest alone.

    Args:
        alone_s: seconds that a step of each kind of worker takes; at least one.
    """
    return max(alone_s)
