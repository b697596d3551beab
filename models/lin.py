"""The queueing model of Lin et al. (MASCOTS 2018), as far as ICPE 2020 tells: docs/baselines.md."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from pydantic import Field

from models.async_sgd.profiles import tracer_excess_s
from models.inputs import STEPS, inputs_of_like_workers, step_tables_of
from models.phases import phases
from models.profiled_run import forecasts, metric_mean, of_run, only_run_id, profiled_scenario
from models.system import System, Tables
from warehouse.records import BadInput, Record, Scenario


class Parameters(Record):
    """The profiled run, its scenario, and what one worker's step takes of each station.

    Workers queue for the downlink, the uplink and the server; for `delay_s` each is by itself.
    """

    run_id: str
    scenario: Scenario
    downlink_s: float = Field(gt=0)
    uplink_s: float = Field(gt=0)
    update_s: float = Field(ge=0)
    delay_s: float = Field(ge=0)


@dataclass(frozen=True)
class Lin:
    """A closed queueing network in which each worker is a customer."""

    parameters: Parameters

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id and value (throughput_steps_per_s); low and high are NULL.

        Raises:
            BadInput: a scenario whose workload, nodes or link differ from the profiled one.
        """
        fitted = self.parameters
        demands_s = (fitted.downlink_s, fitted.uplink_s, fitted.update_s)
        return forecasts(
            fitted.scenario, scenarios, lambda workers: mva(demands_s, fitted.delay_s, workers)
        )

    def parameters_json(self) -> str:
        """Return the parameters as canonical JSON."""
        return self.parameters.canonical_json()

    @classmethod
    def from_json(cls, text: str) -> "Lin":
        """Read what `parameters_json` wrote."""
        return cls(Parameters.model_validate_json(text))


def mva(demands_s: Sequence[float], delay_s: float, customers: int) -> float:
    """Return the throughput, customers per second, of a closed network with queues and a delay.

    Args:
        demands_s: what a customer takes of each queue, in seconds, per round.
        delay_s: how long it is away from all queues per round.
        customers: how many there are, 1 or more.

    Source: Reiser, Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks",
    JACM 1980. Exact where queues serve exponential times in order, or all present equally.
    """
    waiting = [0.0] * len(demands_s)
    throughput = 0.0
    for present in range(1, customers + 1):
        residence_s = [s * (1 + queue) for s, queue in zip(demands_s, waiting, strict=True)]
        throughput = present / (delay_s + sum(residence_s))
        waiting = [throughput * s for s in residence_s]
    return throughput


def fit(
    *,
    runs: pl.DataFrame,
    scenarios: pl.DataFrame,
    operations: pl.DataFrame,
    timings: pl.DataFrame,
    steps: pl.DataFrame,
    samples: pl.DataFrame,
    links: pl.DataFrame,
    streams: pl.DataFrame | None = None,
) -> Lin:
    """Fit to the phases of one profile of 1 worker and 1 server.

    What tracing adds to a step is taken off the time that the worker is by itself.

    Args:
        runs: table run; may hold other runs too, as may the next five.
        scenarios: table scenario.
        operations: table operation of exactly one run, the profile.
        timings: table timing.
        steps: table step.
        samples: table sample, for `client_gap_s`.
        links: table link of the profiled link.
        streams: table stream, if packets were captured.

    Raises:
        BadInput: tables that are incomplete or contradict each other.
    """
    run_id = only_run_id(operations, "operation")
    scenario = profiled_scenario(run_id, runs, scenarios)
    timings, steps = of_run(timings, run_id), of_run(steps, run_id)
    streams = None if streams is None else of_run(streams, run_id)
    mean = phases(operations, timings, steps, links, streams).drop("step").mean().row(0, named=True)
    if not (mean["downlink_s"] > 0 and mean["uplink_s"] > 0):
        raise BadInput(
            f"run {run_id}: expected downlink and uplink phases above 0 s, found "
            f"{mean['downlink_s']:g} and {mean['uplink_s']:g}; profile again"
        )
    own_s = mean["start_s"] + mean["compute_s"] + metric_mean(samples, run_id, "client_gap_s")
    return Lin(
        Parameters(
            run_id=run_id,
            scenario=scenario,
            downlink_s=mean["downlink_s"],
            uplink_s=mean["uplink_s"],
            update_s=mean["update_s"],
            delay_s=max(own_s - tracer_excess_s(timings, steps), 0.0),
        )
    )


def _fit(tables: Tables) -> Lin:
    return fit(**step_tables_of(tables), streams=tables["stream"])


LIN = System(
    name="lin",
    version="1",
    what="Baseline: workers queue for each phase of a step (Lin et al., MASCOTS 2018).",
    source="Lin, Paolieri, Chou, Golubchik, MASCOTS 2018, as compared in ICPE 2020, section 4.4",
    tables=(*STEPS, "stream"),
    inputs=inputs_of_like_workers,
    fit=_fit,
    load=lambda text, _: Lin.from_json(text),
)
