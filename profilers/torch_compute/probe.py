"""Probe `torch_compute`: how long passes of a PyTorch network take, and when gradients are ready.

Source: Srift, section 4.1.
"""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from statistics import fmean, median
from typing import Any, Self

import polars as pl
from pydantic import Field, model_validator

from profilers.nodes.programs import cluster_nodes
from profilers.nodes.torch_jobs import ComputeJob
from profilers.nodes.torch_training import Layer, Step
from profilers.probe import (
    Measured,
    PlannedRun,
    Probe,
    RequestedScenarios,
    Session,
    one_by_one,
    plan_scenario,
)
from profilers.scenarios import of_batch, step_or_guess_s, trains_pytorch
from profilers.steady.host import Patience
from profilers.tables import sample_table
from profilers.windows import half_width
from warehouse import limits
from warehouse.fields import Batch, Repeats, Seconds
from warehouse.records import BadInput, ProbeFailed, Purpose, Record, Scenario

WARM_UPS = 3
"""First steps of each batch size, in which oneDNN prepares its kernels."""
PIECE_STEPS, PIECE_S, MOST_STEPS = 3, 1.5, 30
"""At least so many steps of one batch size in a row, so long, but no more than so many, after one
that does not count; they are measured again together if something disturbs them. Then it is the
other sizes' turn: all share the host's slow and fast moments, which no longer bend the curve."""
Times = dict[int, list[list[Step]]]
"""The pieces of each batch size, one each turn."""


def _measure(session: Session, need: PlannedRun) -> Measured:
    """Time the passes of a network on one node at some batch sizes, in turns.

    Then steps with hooks that record when gradients are ready (`watched_trials`): networks with
    branches need many, which tell how often each layer is executed.

    Raises:
        ProbeFailed: the job failed, or a batch did not fit.
    """
    settings, dnn = Settings(**need.settings), need.scenario.workload.dnn
    patience = Patience(session.cluster.cpu_times)
    sizes = order_batch_sizes(settings.batch_sizes)
    times: Times = {size: [] for size in sizes}
    with ComputeJob(session.cluster, need.scenario) as job:
        session.say(f"profile {dnn}: warm up")
        steps = {size: _in_a_row(_train(job, size, WARM_UPS)[-1].seconds) for size in sizes}
        least = -(-settings.trials // PIECE_STEPS)
        for turn in turns(times, least, settings.interval, settings.most_s):
            session.say(f"profile {dnn}: {turn}")
            for size in sizes:
                piece = partial(_piece, job, size, steps[size])
                times[size].append(patience.measure_undisturbed(piece).value)
        session.say(f"profile {dnn}: gradients")
        watched = {
            size: _train(job, size, settings.watched_trials, watched=True) for size in sorted(sizes)
        }
        layers = job.layers()
    timed = {
        size: [step for piece in pieces for step in piece] for size, pieces in sorted(times.items())
    }
    tables = {
        "compute": compute_rows(timed),
        "layer": layer_rows(layers),
        "layer_time": layer_time_rows(watched),
        "cluster_node": cluster_nodes({job.node: job.ready}),
        "sample": sample_table([("stolen_cpu_fraction", "1", None, patience.stolen)]),
    }
    config = {
        "trials": settings.trials,
        "watched_trials": settings.watched_trials,
        "warm_ups": WARM_UPS,
        "uncertainty": round(known, 4) if (known := uncertainty(times)) < math.inf else None,
    }
    return Measured(tables, config)


def uncertainty(times: Times) -> float:
    """Return how well the step times of batch sizes are known, in the median: 0.04 for ±4 %.

    Of each that is half of the 95 % confidence interval of the mean over turns, as part of it;
    infinity of a single turn.
    """
    return median(
        half_width([fmean(step.seconds for step in piece) for piece in pieces])
        for pieces in times.values()
    )


def compute_rows(timed: dict[int, list[Step]]) -> pl.DataFrame:
    """Return table compute of the steps of each batch size."""
    return pl.DataFrame(
        [
            (batch_size, trial, 0, step.forward_s, step.backward_s, step.update_s)
            for batch_size, steps in timed.items()
            for trial, step in enumerate(steps)
        ],
        schema=["batch_size", "trial", "rank", "forward_s", "backward_s", "update_s"],
        orient="row",
    )


def layer_rows(layers: Sequence[Layer]) -> pl.DataFrame:
    """Return table layer of a network's layers, in order."""
    return pl.DataFrame([{"layer": index, **asdict(layer)} for index, layer in enumerate(layers)])


def layer_time_rows(watched: dict[int, list[Step]]) -> pl.DataFrame:
    """Return table layer_time; a layer that a step did not execute has no time in it."""
    return pl.DataFrame(
        [
            (batch_size, trial, layer, ready)
            for batch_size, steps in watched.items()
            for trial, step in enumerate(steps)
            for layer, ready in enumerate(step.gradient_ready)
        ],
        schema={
            "batch_size": pl.Int32,
            "trial": pl.Int16,
            "layer": pl.Int32,
            "gradient_ready": pl.Float64,
        },
        orient="row",
    )


def order_batch_sizes(batch_sizes: Iterable[int]) -> list[int]:
    """Return every second batch size, rising, then the others, falling.

    Neighbours are then timed far apart, and a host that grows slower does not tilt the curve.
    """
    sizes = sorted(set(batch_sizes))
    return sizes[::2] + sizes[1::2][::-1]


def turns(
    times: Times, least: int, interval: float | None = None, most_s: float | None = None
) -> Iterator[str]:
    """Yield what each turn is called, until there are enough of them.

    With `interval` they go on until `uncertainty` is no more than that (0.04: 4 %), or for `most_s`
    seconds: a host may be slow for minutes.
    """
    until_s = time.monotonic() + (most_s or math.inf)
    for turn in range(1, least + 1):
        yield f"turn {turn} of {least}"
    while (
        interval is not None
        and time.monotonic() < until_s
        and (known := uncertainty(times)) > interval
    ):
        yield f"one more turn, steps are known to ±{known:.1%}"


def _in_a_row(step_s: float) -> int:
    return min(max(PIECE_STEPS, math.ceil(PIECE_S / step_s)), MOST_STEPS)


def _piece(job: ComputeJob, batch_size: int, steps: int) -> list[Step]:
    return _train(job, batch_size, 1 + steps)[1:]


def _train(job: ComputeJob, batch_size: int, steps: int, *, watched: bool = False) -> list[Step]:
    done = job.train(batch_size, steps, watched=watched)
    if done is None:
        raise ProbeFailed(
            f"a batch of {batch_size} does not fit the node's memory; search the largest one first "
            "(probe torch_memory)"
        )
    return done


class Settings(Record):
    """Batch sizes (none: a quarter, half and all of the largest that trains), and steps of each.

    With `interval`, steps are timed until they are known as well as that, or for `most_s`: see
    `turns`. Batch sizes that are `held_out` are timed apart, hidden from fits: they tell how well
    profiles know sizes that they do not have.
    """

    batch_sizes: tuple[Batch, ...] = Field(default=(), max_length=limits.LISTED)
    held_out: tuple[Batch, ...] = Field(default=(), max_length=limits.LISTED)
    trials: int = Field(default=20, ge=2, le=limits.REPEATS)
    watched_trials: Repeats = 5
    interval: float | None = Field(default=None, gt=0, lt=1, allow_inf_nan=False)
    most_s: Seconds | None = None

    @model_validator(mode="after")
    def _interval_has_an_end(self) -> Self:
        if (self.interval is None) != (self.most_s is None):
            raise ValueError("interval and most_s belong together; give both or neither")
        return self


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    """Yield profiles of each network on each node type, and what judges them: other batch sizes."""
    common_settings = settings.model_dump(exclude={"held_out"})
    largest: dict[Scenario, int] = {}
    for scenario in requested.own:
        bare, batch_size = of_batch(scenario, 1), _batch_of(scenario)
        largest[bare] = max(batch_size, largest.get(bare, 0))
    for bare, most in largest.items():
        sizes = settings.batch_sizes or tuple(sorted({-(-most // 4), -(-most // 2), most, 2}))
        if overlap := sorted({*sizes} & {*settings.held_out}):
            raise BadInput(
                f"held_out: {overlap} are among the batch sizes that are profiled, {list(sizes)}; "
                "hold out others"
            )
        yield _need(bare, common_settings | {"batch_sizes": sizes}, "profile")
        if settings.held_out:
            # No more time each than profiles have.
            share = len(settings.held_out) / len(sizes)
            most_s = settings.most_s and share * settings.most_s
            held_out = {"batch_sizes": settings.held_out, "most_s": most_s}
            yield _need(bare, common_settings | held_out, "measurement")


def _need(bare: Scenario, settings: Mapping[str, Any], purpose: Purpose) -> PlannedRun:
    scenario = of_batch(bare, max(settings["batch_sizes"]))
    verb = "profile" if purpose == "profile" else "time held-out batches,"
    expected_s = _expected_s(scenario, settings)
    return plan_scenario("torch_compute", scenario, settings, expected_s, purpose, verb=verb)


def _expected_s(scenario: Scenario, settings: Mapping[str, Any]) -> float:
    steps_s = [step_or_guess_s(scenario, size) for size in settings["batch_sizes"]]
    turn_s = sum(one_s * (1 + _in_a_row(one_s)) for one_s in steps_s)
    least_s = -(-settings["trials"] // PIECE_STEPS) * turn_s
    timed_s = max(float(least_s), settings["most_s"] or 0.0)
    untimed = WARM_UPS + int(settings["watched_trials"])
    return float(timed_s + untimed * sum(steps_s))


def _batch_of(scenario: Scenario) -> int:
    return scenario.nodes[0].batch_size or scenario.workload.batch_size


PROBE = Probe(
    name="torch_compute",
    what="Passes of one node, and when its gradients are ready.",
    kind="pytorch",
    tables=("compute", "layer", "layer_time", "cluster_node", "sample"),
    settings=Settings,
    needs=_needs,
    run=one_by_one(_measure),
    concerns=trains_pytorch,
    essential=frozenset({"batch_sizes"}),
)
