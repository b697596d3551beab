"""Which GPUs a scenario has, what a forecast of them needs, and which scenarios it is not about."""

from models.gpu_step import own_traces, timed_collectives
from models.gpu_step.device import Device, device_of_node
from models.gpu_step.operators import HALF
from profilers.clusters.node_types import node_types
from warehouse.records import Scenario
from warehouse.requirements import Refusal, Requirement


def node_type_of(scenario: Scenario) -> str:
    return scenario.nodes[0].node_type


def ranks_of(scenario: Scenario) -> int:
    return scenario.strategy.workers * scenario.strategy.devices_per_node


def reach_of(scenario: Scenario) -> str | None:
    """Return whether GPUs exchange `within` a node or `across` nodes; None: there is one."""
    if ranks_of(scenario) == 1:
        return None
    return "across" if scenario.strategy.workers > 1 else "within"


def gpu_of(scenario: Scenario) -> Device:
    device = device_of_node(node_type_of(scenario))
    assert device is not None  # `requirements` refuses others
    return device


def requirements(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    """Return public and own measurements that fits see, or why there is no forecast."""
    load, strategy, name = scenario.workload, scenario.strategy, node_type_of(scenario)
    if load.framework != "pytorch" or strategy.has_servers:
        reason = f"it is about GPUs of pytorch, not {strategy.kind} of {load.framework}"
        return Refusal(reason, foreign=True)
    device = device_of_node(name)
    if device is None:
        return Refusal(f"no data sheet of a GPU of {name}", foreign=not name.startswith("gpu."))
    if len({node.node_type for node in scenario.nodes}) > 1:
        return Refusal("it knows GPUs of one type together, not mixed ones")
    kind = node_types().get(name)
    if kind is None or strategy.devices_per_node > kind.gpus:
        has = "no" if kind is None else str(kind.gpus)
        return Refusal(f"{strategy.devices_per_node} devices a node, but {name} has {has}")
    if load.precision in HALF and load.precision not in device.peak:
        return Refusal(device.without_units(load.precision))
    if load.memory_format != "contiguous" and load.precision not in HALF:
        return Refusal(
            f"nobody timed {load.memory_format} but in half precision; leave out --memory-format "
            "for contiguous tensors, or give --precision"
        )
    return (
        Requirement("csv", "public", scenario),
        *(
            Requirement(probe, "public", scenario, optional=True)
            for probe in (own_traces.PROBE, *timed_collectives.PROBES)
        ),
        # What its host needs to issue a step; all that are known, so that one fit does for all.
        Requirement("inventory", "train", scenario, optional=True),
        # A study that names the probe has it measured on its own nodes.
        Requirement("inventory", "cluster", scenario, optional=True, any_link=True),
    )
