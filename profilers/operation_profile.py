"""Profiles of the operations of one device that trains alone, at full speed and at its share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Generic, TypeVar

import polars as pl

from profilers.probe import PlannedRun, RequestedScenarios, Session, Settings
from profilers.scenarios import single_worker_scenarios
from profilers.steady.host import Patience
from profilers.tables import sample_table
from warehouse.records import Purpose, Scenario
from warehouse.requirements import Subject

WARM_UP_STEPS = 5
PIECE_STEPS = 10
"""Steps that are measured again together if something disturbs them."""

Step = TypeVar("Step")
Trace = TypeVar("Trace")


@dataclass(frozen=True)
class TimedSteps(Generic[Step, Trace]):
    """Steps of a device, and the part of the host's time that was stolen meanwhile.

    Attributes:
        free: untraced, at full speed.
        traces: of pieces of steps, at full speed.
        held: untraced, at the node's share.
        stolen: a fraction.
    """

    free: list[Step]
    traces: list[Trace]
    held: list[Step]
    stolen: float


def time_steps(
    session: Session,
    scenario: Scenario,
    traced: int,
    untraced: int,
    *,
    run: Callable[[int], list[Step]],
    trace: Callable[[int], Trace],
    confine: Callable[[], None],
) -> TimedSteps[Step, Trace]:
    """Time so many steps of a job.

    Args:
        session: where.
        scenario: what trains.
        traced: steps at full speed whose operations are timed.
        untraced: steps as they are at full speed, in between; and as many at the node's share.
        run: runs steps, and returns each.
        trace: runs steps whose operations are timed, and returns what they took.
        confine: holds the job to its node's share from then on.
    """
    dnn, patience = scenario.workload.dnn, Patience(session.cluster.cpu_times)
    session.say(f"profile {dnn}: {untraced} untraced steps, {traced} traced")
    run(WARM_UP_STEPS)
    pieces = []
    # In turn, so that steps with and without the tracer see the same moods of the host.
    for first in range(0, traced, PIECE_STEPS):
        last = min(first + PIECE_STEPS, traced)
        free = round(untraced * last / traced) - round(untraced * first / traced)

        def piece(free: int = free, steps: int = last - first) -> tuple[list[Step], Trace]:
            return run(free) if free else [], trace(steps)

        pieces.append(patience.measure_undisturbed(piece))
    session.say(f"profile {dnn}: {untraced} steps at the node's share")
    confine()
    run(WARM_UP_STEPS)
    held = patience.pieces(run, untraced, PIECE_STEPS)
    return TimedSteps(
        [step for piece in pieces for step in piece.value[0]],
        [piece.value[1] for piece in pieces],
        [step for piece in held for step in piece.value],
        fmean([*(piece.stolen for piece in pieces), *(piece.stolen for piece in held)]),
    )


def operation_tables(
    scenario: Scenario,
    parameter_count: int,
    durations: Sequence[pl.DataFrame],
    timed: TimedSteps[Any, Any],
    *,
    held_s: float,
    free_s: float,
    traced_s: float,
) -> dict[str, pl.DataFrame]:
    """Return tables operation_time, dnn and sample of a profile.

    Args:
        scenario: what trained.
        parameter_count: of its network.
        durations: as in `operation_time`.
        timed: its steps.
        held_s: seconds of a step at the node's share.
        free_s: at full speed.
        traced_s: with the tracer.
    """
    load = scenario.workload
    network = {
        "dnn": load.dnn,
        "framework": load.framework,
        "image_size": load.image_size,
        "batch_size": load.batch_size,
        "parameter_count": parameter_count,
    }
    samples = {
        "step_time_s": held_s,
        "unconfined_step_time_s": free_s,
        "traced_step_time_s": traced_s,
    }
    return {
        "operation_time": operation_time(durations),
        "dnn": pl.DataFrame([network]),
        "sample": sample_table(
            [
                *((name, "s", None, value) for name, value in samples.items()),
                ("stolen_cpu_fraction", "1", None, timed.stolen),
            ]
        ),
    }


def operation_time(pieces: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return table operation_time of the steps of all pieces.

    An operation that runs several times in a step counts with their sum.

    Args:
        pieces: operation, step (numbered in each piece by itself) and us, a row per execution.
    """
    sums = pl.concat(
        piece.group_by("operation", "step").agg(pl.col("us").sum()) for piece in pieces
    )
    us = pl.col("us")
    return (
        sums.group_by("operation")
        .agg(
            pl.len().cast(pl.Int32).alias("steps"),
            us.mean().alias("mean_us"),
            us.median().alias("median_us"),
            us.std().fill_null(0.0).alias("sd_us"),
            us.min().cast(pl.Float64).alias("min_us"),
            us.quantile(0.95, "linear").alias("p95_us"),
        )
        .sort("operation")
    )


def plan_operation_runs(
    probe: str,
    requested: RequestedScenarios,
    settings: Settings,
    expected_s: Callable[[Scenario], float],
    *,
    test: bool,
) -> Iterator[PlannedRun]:
    """Yield one worker of each type of train scenarios and, with `test`, of test scenarios.

    What both have in common fits may see. `expected_s` is what steps of each are expected to take.
    """

    def of_each_type(scenarios: Sequence[Scenario], purpose: Purpose) -> dict[Scenario, Purpose]:
        alone = (each for scenario in scenarios for each in single_worker_scenarios(scenario))
        return dict.fromkeys(alone, purpose)

    hidden = of_each_type(requested.test if test else (), "measurement")
    for scenario, purpose in (hidden | of_each_type(requested.train, "profile")).items():
        yield PlannedRun(
            Subject(probe, scenario, scenario.link_mbps),
            purpose,
            f"profile {scenario.label}",
            scenario.nodes,
            settings,
            expected_s=expected_s(scenario),
            of_train=purpose == "profile",
        )
