"""When steps and operations ran: simulated, traced, measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from models.async_sgd.graph import Resource, StepGraph
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.simulator import simulate_together
from models.async_sgd.synthetic_trace import Interval, Trace
from warehouse.records import BadInput, Scenario

STEPS = pl.Schema({"worker": pl.Int16, "step": pl.Int32, "start_us": pl.Int64, "end_us": pl.Int64})
INTERVALS = pl.Schema(
    {
        "worker": pl.Int16,
        "step": pl.Int32,
        "operation": pl.Int32,
        "name": pl.String,
        "resource": pl.String,
        "server": pl.Int16,
        "start_us": pl.Int64,
        "end_us": pl.Int64,
        "size_bytes": pl.Float64,
    }
)


@dataclass(frozen=True)
class Timeline:
    """Steps of every worker one after the other, and what ran in them where that is known.

    `steps` has the columns of `STEPS`, `intervals` those of `INTERVALS`: a computation, or a chunk
    of a transfer on the link (`size_bytes`: what it carried, else NULL); `server` is NULL for
    computations of a worker. Times are whole microseconds since the timeline's beginning.
    """

    steps: pl.DataFrame
    intervals: pl.DataFrame

    @property
    def workers(self) -> list[int]:
        """The workers, in order."""
        return self.steps["worker"].unique().sort().to_list()


def timeline_of_trace(
    graphs: Sequence[StepGraph], trace: Trace, *, skip: int, count: int
) -> Timeline:
    """Return `count` steps of each worker of a recorded simulation; `graphs` are theirs.

    The timeline begins when the last worker has left its first `skip` steps behind; steps that
    started earlier are left out, so that workers are shown at the same time.

    Raises:
        BadInput: a worker has fewer steps after that.
    """
    numbers = (~np.isnan(trace.step_starts_s)).sum(axis=1).tolist()
    if not 0 <= skip < min(numbers):
        raise BadInput(
            f"timeline: expected 0 to {min(numbers) - 1} steps to be left out, found {skip}"
        )
    opens_s = float(trace.step_starts_s[:, skip].max())
    rows = []
    for worker, simulated_steps in enumerate(numbers):
        first = int((trace.step_starts_s[worker] < opens_s).sum())
        if first + count > simulated_steps:
            raise BadInput(
                f"timeline: {simulated_steps} steps per worker were simulated, of which "
                f"{simulated_steps - first} of worker {worker} are left; ask for fewer"
            )
        rows += [
            (
                worker,
                step,
                _us(trace.step_starts_s[worker, step] - opens_s),
                _us(trace.step_ends_s[worker, step] - opens_s),
            )
            for step in range(first, first + count)
        ]
    wanted = {(worker, step) for worker, step, *_ in rows}
    ran = [interval for interval in trace.intervals if (interval.worker, interval.step) in wanted]
    steps = pl.DataFrame(rows, schema=STEPS, orient="row")
    return Timeline(steps, interval_frame(graphs, ran, opens_s))


def interval_frame(
    graphs: Sequence[StepGraph], ran: Sequence[Interval], since_s: float = 0.0
) -> pl.DataFrame:
    """Return recorded intervals in the columns of `INTERVALS`, times since `since_s`.

    `graphs` are those of the workers.
    """
    rows = [
        (
            interval.worker,
            interval.step,
            interval.operation,
            graphs[interval.worker].names[interval.operation],
            interval.resource.name.lower(),
            None if interval.resource is Resource.WORKER else interval.server,
            _us(interval.start_s - since_s),
            _us(interval.end_s - since_s),
            interval.size_bytes if interval.resource.is_link else None,
        )
        for interval in ran
    ]
    order = ("worker", "step", "start_us", "end_us", "operation")
    return pl.DataFrame(rows, schema=INTERVALS, orient="row").sort(order)


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


# Synthetic traces of a fitted job: what the workers of a configuration would do, step by step.


def simulate_trace(
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
