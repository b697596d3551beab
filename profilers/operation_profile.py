"""Profiles of the operations of one device that trains alone, at full speed and at its share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import polars as pl

from profilers.probe import PlannedRun, RequestedScenarios, Session, plan_scenario
from profilers.scenarios import single_worker_scenarios
from profilers.steady.host import Patience
from profilers.tables import operation_time, sample_table
from warehouse.records import Purpose, Scenario

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
        patience.stolen,
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


def operation_runs(
    probe: str, expected_s: Callable[[Any, Scenario], float]
) -> Callable[[RequestedScenarios, Any], Iterator[PlannedRun]]:
    """Return the `needs` of a probe of one worker of each type, of train scenarios.

    Where its settings say `test`, test scenarios too. What both have in common fits may see.
    `expected_s` is what steps of each are expected to take, with these settings.
    """

    def of_each_type(scenarios: Sequence[Scenario], purpose: Purpose) -> dict[Scenario, Purpose]:
        alone = (each for scenario in scenarios for each in single_worker_scenarios(scenario))
        return dict.fromkeys(alone, purpose)

    def needs(requested: RequestedScenarios, settings: Any) -> Iterator[PlannedRun]:
        run_settings = settings.model_dump(exclude={"test"})
        hidden = of_each_type(requested.test if settings.test else (), "measurement")
        for scenario, purpose in (hidden | of_each_type(requested.train, "profile")).items():
            steps_s, of_train = expected_s(settings, scenario), purpose == "profile"
            yield plan_scenario(probe, scenario, run_settings, steps_s, purpose, of_train=of_train)

    return needs
