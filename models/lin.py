"""The queueing model of Lin et al. (MASCOTS 2018), as far as ICPE 2020 tells: docs/baselines.md."""

from collections.abc import Sequence

from pydantic import Field

from models.async_sgd.profiles import tracer_excess_s
from models.inputs import STEPS, inputs_of_like_workers
from models.phases import phases
from models.profiled_run import (
    PointForecaster,
    metric_mean,
    profiled_scenario,
)
from models.system import System, Tables
from warehouse.records import BadInput, Scenario


class Lin(PointForecaster):
    """A closed queueing network in which each worker is a customer, of a profiled run.

    Workers queue for the downlink, the uplink and the server; for `delay_s` each is by itself.
    """

    run_id: str
    scenario: Scenario
    downlink_s: float = Field(gt=0)
    uplink_s: float = Field(gt=0)
    update_s: float = Field(ge=0)
    delay_s: float = Field(ge=0)

    def value(self, scenario: Scenario) -> float:
        """Return the throughput, in steps of all workers a second."""
        demands_s = (self.downlink_s, self.uplink_s, self.update_s)
        return mva(demands_s, self.delay_s, scenario.strategy.workers)


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


def fit(tables: Tables) -> Lin:
    """Fit to the phases of one profile of 1 worker and 1 server.

    What tracing adds to a step is taken off the time that the worker is by itself.

    Args:
        tables: `STEPS` of the profile and of its link, and stream if packets were captured.

    Raises:
        BadInput: tables that are incomplete or contradict each other.
    """
    run_id = tables["operation"]["run_id"][0]
    mean = phases(tables).drop("step").mean().row(0, named=True)
    if not (mean["downlink_s"] > 0 and mean["uplink_s"] > 0):
        raise BadInput(
            f"run {run_id}: expected downlink and uplink phases above 0 s, found "
            f"{mean['downlink_s']:g} and {mean['uplink_s']:g}; profile again"
        )
    own_s = mean["start_s"] + mean["compute_s"] + metric_mean(tables, run_id, "client_gap_s")
    return Lin(
        run_id=run_id,
        scenario=profiled_scenario(tables, run_id),
        downlink_s=mean["downlink_s"],
        uplink_s=mean["uplink_s"],
        update_s=mean["update_s"],
        delay_s=max(own_s - tracer_excess_s(tables["timing"], tables["step"]), 0.0),
    )


LIN = System(
    name="lin",
    version="1",
    what="Baseline: workers queue for each phase of a step (Lin et al., MASCOTS 2018).",
    source="Lin, Paolieri, Chou, Golubchik, MASCOTS 2018, as compared in ICPE 2020, section 4.4",
    tables=(*STEPS, "stream"),
    inputs=inputs_of_like_workers,
    fit=fit,
    load=lambda text, _: Lin.model_validate_json(text),
)
