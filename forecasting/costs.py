"""What forecasts cost at prices that are known, and how many samples a second they train."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from models.choice.offers import prices_in_one_region
from models.predictddl.observations import images_per_step
from profilers.probe import STEP_TIME, THROUGHPUT
from warehouse.records import BadInput, Price, Scenario

_SAMPLES = 1e6


def prices_of(scenario: Scenario, prices: Sequence[Price]) -> tuple[Price, ...] | None:
    """Return what nodes of a scenario cost on demand; None where a node type has no price.

    All its nodes are in one region, the cheapest that has all types.

    Args:
        scenario: whose nodes are paid for, servers included.
        prices: on demand, of `models.choice.offers.preferred_prices`.
    """
    nodes = nodes_by_type(scenario)
    try:
        return tuple(prices_in_one_region(prices, nodes, "on_demand", datetime.now(UTC)))
    except BadInput:
        return None


def usd_per_hour(scenario: Scenario, prices: Sequence[Price] | None) -> float | None:
    """Return what all nodes of a scenario cost an hour at the prices of their types, if known."""
    if prices is None:
        return None
    nodes = nodes_by_type(scenario)
    return sum(price.usd_per_hour * nodes[price.node_type] for price in prices)


def nodes_by_type(scenario: Scenario) -> Counter[str]:
    """Return how many nodes of each type a scenario has, servers included."""
    nodes: Counter[str] = Counter()
    for group in scenario.nodes:
        nodes[group.node_type] += group.count
    return nodes


def usd_per_million_samples(
    scenario: Scenario, metric: str, value: float, usd_per_hour: float
) -> float | None:
    """Return what a million samples cost; None if nothing gets done, or the metric is no speed.

    Args:
        scenario: what trains.
        metric: step_time_s, or throughput_steps_per_s of all workers.
        value: of the metric.
        usd_per_hour: what its nodes cost.
    """
    if not value > 0:
        return None
    speed = samples_per_s(scenario, metric, value)
    return None if speed is None else _SAMPLES / speed * usd_per_hour / 3600


# How many samples a scenario trains a second, whichever metric tells its speed.


def examples_per_step(scenario: Scenario) -> int:
    """Return of how many examples a step is: of one worker, or of all where they wait."""
    if not scenario.strategy.has_servers:
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
