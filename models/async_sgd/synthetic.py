"""Synthetic traces of a fitted job: what the workers of a configuration would do, step by step."""

from dataclasses import replace

import polars as pl

from models.async_sgd.compiled import simulate_together
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.stretches import stretches
from models.async_sgd.synthetic_trace import Trace
from warehouse.records import Scenario

ACTIVE = {
    "resource": pl.String,
    "worker": pl.Int32,
    "server": pl.Int32,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
}


def synthesise(
    model: AsyncSGD,
    scenario: Scenario,
    *,
    steps: int | None = None,
    seed: int = 0,
    record: bool = False,
) -> Trace:
    """Run one of the simulations that a prediction is the mean of again; all workers start at once.

    Args:
        model: the fitted job.
        scenario: what is predicted.
        steps: how many each worker does; as many as a prediction has unless given.
        seed: which of the simulations.
        record: keep what ran when.

    Raises:
        BadInput: as `AsyncSGD.predict`.
    """
    return simulate_together(
        [
            group._replace(
                options=replace(group.options, steps=steps or group.options.steps, record=record)
            )
            for group in model.simulation(scenario, seed)
        ]
    )


def active_links(trace: Trace) -> pl.DataFrame:
    """Return when each connection of a recorded trace had data under way (Figs. 9 and 24).

    Returns:
        resource (downlink or uplink), server, worker, start_s and end_s; stretches that touch or
        overlap are one.
    """
    chunks = pl.DataFrame(
        [
            (one.resource.name.lower(), one.worker, one.server, one.start_s, one.end_s)
            for one in trace.intervals
            if one.resource.is_link and one.size_bytes > 0
        ],
        schema=ACTIVE,
        orient="row",
    )
    return stretches(chunks, ["resource", "server", "worker"], "start_s", "end_s")
