"""Every probe. A new one is a module of `profilers` and a line here."""

from collections.abc import Mapping

from profilers import (
    allreduce,
    async_steps,
    async_throughput,
    contention,
    inventory,
    largest_batch,
    links,
    slowdown,
    tf_operations,
    tf_step_time,
    torch_operations,
    torch_passes,
    torch_step_time,
    watch,
)
from profilers.probe import Probe
from warehouse.records import BadInput, Scenario

PROBES: Mapping[str, Probe] = {
    module.PROBE.name: module.PROBE
    for module in (
        watch,
        inventory,
        links,
        contention,
        allreduce,
        async_steps,
        tf_operations,
        torch_operations,
        largest_batch,
        torch_passes,
        slowdown,
        async_throughput,
        torch_step_time,
        tf_step_time,
    )
}
"""By the names with which they land, in the order in which a study runs them."""


def judge_of(scenario: Scenario) -> Probe:
    """Return the probe that measures a whole scenario.

    Raises:
        BadInput: none does.
    """
    for probe in PROBES.values():
        if probe.metric is not None and probe.concerns(scenario):
            return probe
    trained = f"{scenario.strategy.kind} of {scenario.workload.framework}"
    raise BadInput(f"{scenario.label}: no probe measures {trained}")
