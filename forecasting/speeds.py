"""How many samples a scenario trains a second, whichever metric tells its speed."""

from models.predictddl.observed import images_per_step
from profilers.probe import STEP_TIME, THROUGHPUT
from warehouse.records import Scenario


def examples_per_step(scenario: Scenario) -> int:
    """Return of how many examples a step is: of one worker, or of all where they wait."""
    if scenario.strategy.kind == "all_reduce":
        return images_per_step(scenario)
    return scenario.workload.batch_size * scenario.strategy.devices_per_node


def samples_per_s(scenario: Scenario, metric: str, value: float) -> float | None:
    """Return samples a second of all workers; None: the metric is no speed of training.

    Args:
        scenario: what trains.
        metric: step_time_s, or throughput_steps_per_s of all workers.
        value: of the metric, more than zero.
    """
    if metric == THROUGHPUT.name:
        return value * examples_per_step(scenario)
    if metric == STEP_TIME.name:
        return examples_per_step(scenario) / value
    return None
