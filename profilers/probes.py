"""Every probe. A new one is a module of `profilers` and a line here."""

from collections.abc import Mapping

from profilers import (
    allreduce,
    contention,
    inventory,
    links,
    slowdown,
    tf_operations,
    tf_sync,
    tf_throughput,
    tf_trace,
    torch_compute,
    torch_memory,
    torch_operations,
    torch_throughput,
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
        tf_trace,
        tf_operations,
        torch_operations,
        torch_memory,
        torch_compute,
        slowdown,
        tf_throughput,
        torch_throughput,
        tf_sync,
    )
}
"""By the names with which they land, in the order in which a study runs them."""


def measuring_probe(scenario: Scenario) -> Probe:
    """Return the probe that measures a whole scenario.

    Raises:
        BadInput: none does.
    """
    for probe in PROBES.values():
        if probe.metric is not None and probe.concerns(scenario):
            return probe
    trained = f"{scenario.strategy.kind} of {scenario.workload.framework}"
    raise BadInput(f"{scenario.label}: no probe measures {trained}")
