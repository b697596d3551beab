"""Every probe. A new one is a folder of `profilers` with its name, and a line here."""

from collections.abc import Mapping

from profilers.allreduce import probe as allreduce
from profilers.contention import probe as contention
from profilers.inventory import probe as inventory
from profilers.links import probe as links
from profilers.probe import Probe
from profilers.slowdown import probe as slowdown
from profilers.tf_operations import probe as tf_operations
from profilers.tf_sync import probe as tf_sync
from profilers.tf_throughput import probe as tf_throughput
from profilers.tf_trace import probe as tf_trace
from profilers.torch_compute import probe as torch_compute
from profilers.torch_memory import probe as torch_memory
from profilers.torch_operations import probe as torch_operations
from profilers.torch_throughput import probe as torch_throughput
from profilers.watch import probe as watch
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
