"""Cynthia (Zheng et al., ICPP 2019) as ICPE 2020 prints it, and its variant: docs/baselines.md."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import polars as pl
from pydantic import Field

from models.async_sgd.profiles import tracer_excess_s
from models.inputs import STEPS, inputs_of_like_workers, step_tables_of
from models.phases import compute_busy_s, transfer_s
from models.profiled_run import forecasts, metric_mean, of_run, only_run_id, profiled_scenario
from models.system import System, Tables
from warehouse.records import BadInput, Record, Scenario

LEAST_COMPUTING = 0.5
"""Of the traced computation, however much tracing seems to cost; as async_sgd/profiles.py."""


class Parameters(Record):
    """The profiled run, its scenario, T_p, T_C and U_1 in the terms of section 1 of ICPE 2020."""

    run_id: str
    scenario: Scenario
    compute_s: float = Field(ge=0)
    transfer_s: float = Field(gt=0)
    utilisation: float = Field(gt=0, le=1)


@dataclass(frozen=True)
class Cynthia:
    """A closed form of computation time, communication time and network utilisation."""

    parameters: Parameters

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id and value (throughput_steps_per_s); low and high are NULL.

        Raises:
            BadInput: a scenario whose workload, nodes or link differ from the profiled one.
        """
        return forecasts(self.parameters.scenario, scenarios, self._steps_per_s)

    def parameters_json(self) -> str:
        """Return the parameters as canonical JSON."""
        return self.parameters.canonical_json()

    @classmethod
    def from_json(cls, text: str) -> "Cynthia":
        """Read what `parameters_json` wrote."""
        return cls(Parameters.model_validate_json(text))

    def _steps_per_s(self, workers: int) -> float:
        fitted = self.parameters
        return steps_per_s(fitted.compute_s, 2 * fitted.transfer_s, fitted.utilisation, workers)


def steps_per_s(compute_s: float, both_ways_s: float, utilisation: float, workers: int) -> float:
    """W / (T_p max(1, W U_1) + 2 T_C): ICPE 2020, section 1, in steps and not in examples."""
    return workers / (compute_s * max(1.0, workers * utilisation) + both_ways_s)


def fit(
    *,
    runs: pl.DataFrame,
    scenarios: pl.DataFrame,
    operations: pl.DataFrame,
    timings: pl.DataFrame,
    steps: pl.DataFrame,
    samples: pl.DataFrame,
    links: pl.DataFrame,
    halved: bool = False,
) -> Cynthia:
    """Fit to one profile of 1 worker and 1 server.

    T_p is the time of a step in which the worker computes, less what tracing adds to a step; T_C
    the mean of both directions' bytes at the link's speed; U_1 the part of an untraced step that
    2 T_C makes up, at most 1.

    Args:
        runs: table run; may hold other runs too, as may the next five.
        scenarios: table scenario.
        operations: table operation of exactly one run, the profile.
        timings: table timing.
        steps: table step.
        samples: table sample, for `step_time_s`.
        links: table link of the profiled link.
        halved: whether T_C is halved (ICPE 2020, section 4.4).

    Raises:
        BadInput: tables that are incomplete or contradict each other.
    """
    run_id = only_run_id(operations, "operation")
    scenario = profiled_scenario(run_id, runs, scenarios)
    timings, steps = of_run(timings, run_id), of_run(steps, run_id)
    step_time_s = metric_mean(samples, run_id, "step_time_s")
    if step_time_s == 0:
        raise BadInput(f"run {run_id}: expected step_time_s above 0, found 0; profile again")
    both_ways_s = sum(transfer_s(operations, links).values()) * (0.5 if halved else 1.0)
    traced_s = compute_busy_s(operations, timings, steps)
    untraced_s = traced_s - tracer_excess_s(timings, steps)
    return Cynthia(
        Parameters(
            run_id=run_id,
            scenario=scenario,
            compute_s=max(untraced_s, LEAST_COMPUTING * traced_s),
            transfer_s=both_ways_s / 2,
            utilisation=min(both_ways_s / step_time_s, 1.0),
        )
    )


def _fit(tables: Tables, *, halved: bool = False) -> Cynthia:
    return fit(**step_tables_of(tables), halved=halved)


CYNTHIA = System(
    name="cynthia",
    version="1",
    what="Baseline: a closed form of computation, communication and utilisation (ICPP 2019).",
    source="Zheng, Xu, Chen, Zhou, Liu, ICPP 2019, as compared in ICPE 2020, section 4.4",
    tables=STEPS,
    inputs=inputs_of_like_workers,
    fit=_fit,
    load=lambda text, _: Cynthia.from_json(text),
)
CYNTHIA_HALF = replace(
    CYNTHIA,
    name="cynthia_half",
    what="Baseline: Cynthia with communication times halved (ICPE 2020, section 4.4).",
    source="ICPE 2020, section 4.4",
    fit=partial(_fit, halved=True),
)
