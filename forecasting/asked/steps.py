"""Measured steps that correct forecasts: of what, by how much, and whether they tell anything."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from profilers.probe import THROUGHPUT
from studies.curve import Curve
from warehouse.records import BadInput, Scenario


@dataclass(frozen=True)
class Measured:
    """A step that somebody measured.

    Attributes:
        scenario: what trained.
        step_s: seconds of a step of each worker.
        run_id: the run that measured it, which fits may see; None: the user has the number.
    """

    scenario: Scenario
    step_s: float
    run_id: str | None = None


@dataclass(frozen=True)
class Steps:
    """Seconds of a worker's step, by curves of one scenario; and the runs that measured them."""

    of: dict[Curve, float] = field(default_factory=dict)
    run_ids: dict[Curve, str] = field(default_factory=dict)


def check_tells(steps: Steps, curves: Sequence[Curve]) -> None:
    """Refuse a measured step that corrects no forecast.

    Args:
        steps: that were measured.
        curves: what is asked about.

    Raises:
        BadInput: one of them trains something else, elsewhere, or with more workers.
    """
    asked = [scenario for curve in curves for scenario in _anywhere(curve)]
    for step in (_anywhere(curve)[0] for curve in steps.of):
        if not any(tells(step, one) for one in asked):
            raise BadInput(
                f"a measured step of {step.label} corrects no forecast: expected the network, "
                "images, batch, node types and devices that are asked about, and no more workers"
            )


def has(curve: Curve, other: Curve) -> bool:
    """Tell whether a curve has the one scenario of another, on whatever backend."""
    return _anywhere(other)[0] in _anywhere(curve)


def _anywhere(curve: Curve) -> Sequence[Scenario]:
    return curve.scenarios("loopback")


def telling(measured: Sequence[Measured], scenario: Scenario) -> Measured | None:
    """Return the step that tells of a scenario, of several that of most workers."""
    found = [step for step in measured if tells(step.scenario, scenario)]
    return max(found, key=lambda step: step.scenario.strategy.workers, default=None)


def tells(measured: Scenario, other: Scenario) -> bool:
    """Tell whether a measured step says how long the passes of a scenario take.

    The network, its images and batch, the nodes and the devices of each are the same, and the
    scenario has as many workers or more: with more workers than it, the measured step waited for
    exchanges that the other has not.
    """
    ours, theirs = measured.strategy, other.strategy
    return (
        measured.workload == other.workload
        and (ours.kind, ours.devices_per_node) == (theirs.kind, theirs.devices_per_node)
        and {one.one for one in measured.worker_groups} == {one.one for one in other.worker_groups}
        and ours.workers <= theirs.workers
    )


def seconds(scenario: Scenario, metric: str, value: float) -> float:
    """Return how long a worker's step takes: of steps a second of all workers, each has a part."""
    return scenario.strategy.workers / value if metric == THROUGHPUT.name else value


def shifted(forecast_s: float, anchor_s: float, measured_s: float) -> float:
    """Return a step corrected by another, seconds: as much longer, or shorter by its part at most.

    Args:
        forecast_s: the step that is corrected.
        anchor_s: the forecast of the measured step.
        measured_s: the measured step.
    """
    least = forecast_s * min(1.0, measured_s / anchor_s)
    return max(forecast_s + measured_s - anchor_s, least)
