"""Scenarios as probes take them: one worker of each type, and what one start of a job measures."""

from collections.abc import Hashable, Iterable, Sequence

import polars as pl

from warehouse.records import BadInput, NodeGroup, Scenario


def is_async(scenario: Scenario) -> bool:
    """Tell whether TensorFlow's workers train with parameter servers, each at its own pace."""
    found = scenario.strategy.kind, scenario.workload.framework
    return found == ("async_parameter_server", "tensorflow")


def is_all_reduce(scenario: Scenario, framework: str) -> bool:
    """Tell whether all workers of a framework exchange gradients in each step."""
    found = scenario.strategy.kind, scenario.workload.framework
    return found == ("all_reduce", framework)


def trains_pytorch(scenario: Scenario) -> bool:
    """Tell whether PyTorch trains without servers: replicas, or one device alone."""
    return scenario.workload.framework == "pytorch" and not scenario.strategy.has_servers


def single_worker_scenarios(scenario: Scenario) -> tuple[Scenario, ...]:
    """Return one worker of each type by itself, of training without servers: it needs no links."""
    strategy = scenario.strategy.model_copy(update={"workers": 1})
    return tuple(
        scenario.model_copy(update={"strategy": strategy, "nodes": (group.one,), "link_mbps": None})
        for group in scenario.worker_groups
    )


def take_turns(groups: Sequence[NodeGroup], workers: int) -> tuple[NodeGroup, ...]:
    """Return so many workers whose types take turns in the order of `groups`, and other nodes."""
    types = [group for group in groups if group.role == "worker"]
    counts = [len(range(place, workers, len(types))) for place in range(len(types))]
    found = [
        group.model_copy(update={"count": count, "batch_size": None})
        for group, count in zip(types, counts, strict=True)
        if count
    ]
    return (*found, *(group for group in groups if group.role != "worker"))


def largest(scenarios: Iterable[Scenario]) -> Scenario:
    """Return the scenario with the most workers, of these with the most nodes, the last of equals.

    Raises:
        ValueError: there is none.
    """
    found = sorted(
        scenarios, key=lambda one: (one.strategy.workers, sum(group.count for group in one.nodes))
    )
    if not found:
        raise ValueError("the largest of no scenarios")
    return found[-1]


def same_start(scenario: Scenario, *, any_batch: bool = False) -> Hashable:
    """Return what scenarios share that one start of their programs can measure.

    They differ in numbers of workers, whose types take turns, and with `any_batch` in batch sizes.
    Other mixes have starts of their own.
    """
    if take_turns(scenario.nodes, scenario.strategy.workers) != scenario.nodes:
        return scenario
    groups = tuple(group.model_copy(update={"count": 1}) for group in scenario.worker_groups)
    others = tuple(group for group in scenario.nodes if group.role != "worker")
    load = scenario.workload
    if any_batch:
        load = load.model_copy(update={"batch_size": 1})
    strategy = scenario.strategy.model_copy(update={"workers": 1})
    return load, strategy, groups, others, scenario.link_mbps, scenario.cross_traffic


# Scenarios of TensorFlow that one start of their job measures, and the table of their steps.


STEP_SCHEMA = {
    "worker": pl.Int16,
    "step": pl.Int32,
    "window": pl.Int16,
    "traced": pl.Boolean,
    "start_us": pl.Int64,
    "end_us": pl.Int64,
}
"""Columns of table step, as measured runs land it."""


def check_family(scenarios: Sequence[Scenario], workers: int) -> Scenario:
    """Return the scenario of most workers; the others only have fewer of them.

    Raises:
        BadInput: they differ in more than W, or need more than `workers`.
    """
    largest = max(scenarios, key=lambda scenario: scenario.strategy.workers)
    for scenario in scenarios:
        # Not the other way round: with a single worker nobody knows the types of further ones.
        if largest.with_workers(scenario.strategy.workers) != scenario:
            raise BadInput(f"{scenario.label} and {largest.label} differ in more than W")
    if largest.strategy.workers > workers:
        raise BadInput(f"{largest.label} needs more workers than the cluster's {workers}")
    return largest
