"""The baseline every predictor has to beat: W workers do W times the steps of one."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from models.profiled_run import (
    forecasts,
    metric_mean,
    of_run,
    only_run_id,
    profiled_scenario,
)
from warehouse.records import BadInput, Record, Scenario

_METRIC = "step_time_s"


class Parameters(Record):
    """The profiled run, its scenario, and seconds per step of its one worker, untraced."""

    run_id: str
    scenario: Scenario
    step_time_s: float


@dataclass(frozen=True)
class Linear:
    """Linear scaling of one profiled worker."""

    parameters: Parameters

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id and value (throughput_steps_per_s); low and high are NULL.

        Raises:
            BadInput: a scenario whose workload, nodes or link differ from the profiled one.
        """
        step_time_s = self.parameters.step_time_s
        return forecasts(self.parameters.scenario, scenarios, lambda workers: workers / step_time_s)

    def parameters_json(self) -> str:
        """Return the parameters as canonical JSON."""
        return self.parameters.canonical_json()

    @classmethod
    def from_json(cls, text: str) -> "Linear":
        """Read what `parameters_json` wrote."""
        return cls(Parameters.model_validate_json(text))


def fit(*, runs: pl.DataFrame, scenarios: pl.DataFrame, samples: pl.DataFrame) -> Linear:
    """Fit to the `step_time_s` of one profile run: seconds from a step's start to the next's.

    Args:
        runs: table run; may hold other runs too.
        scenarios: table scenario.
        samples: table sample, with `step_time_s` of exactly one run.

    Raises:
        BadInput: not exactly one profiled run of 1 worker and 1 server, or no step time above 0.
    """
    run_id = only_run_id(samples.filter(pl.col("metric") == _METRIC), "sample")
    step_time_s = metric_mean(of_run(samples, run_id), run_id, _METRIC)
    if step_time_s == 0:
        raise BadInput(f"run {run_id}: expected {_METRIC} above 0, found 0; profile again")
    scenario = profiled_scenario(run_id, runs, scenarios)
    return Linear(Parameters(run_id=run_id, scenario=scenario, step_time_s=step_time_s))
