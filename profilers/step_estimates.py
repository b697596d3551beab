"""About how long training steps of PyTorch take, before anything has run: what plans are made of.

Linear in what the graph of a network counts; the coefficients are those of 168 measured scenarios
of study reference_ddp (eight networks, batches 4 to 20, 1 to 8 nodes of 0.15 of a core). They are
within 20 % of these in the mean, and 4 % too long over all.
"""

from networks.figures import Figures, figures
from profilers.probe import STEP_S
from warehouse.records import NodeGroup, Scenario

_SHARE = 0.15
"""Of a core, on which these seconds were measured."""
_DENSE_S, _DENSE_SSE41_S = 0.065e-9, 0.30e-9
"""Seconds for each floating-point operation of a pass; a step has three passes."""
_DEPTHWISE_S = 8.0e-9
_ACTIVATION_S = 1.15e-8
"""Seconds for each element of a result."""
_NODE_S, _PARAMETER_S = 1.8e-3, 3.8e-8
"""Seconds of a step for each operation, and for each parameter, whatever the batch."""
_EXCHANGED = 0.86
"""Part of the time of an all-reduce on idle links that a step takes longer for it."""


def step_s(scenario: Scenario, batch_size: int | None = None) -> float | None:
    """Return about how many seconds a step of all nodes takes; None of unknown networks.

    Args:
        scenario: an all-reduce of PyTorch.
        batch_size: images of each device instead of the scenario's.
    """
    load = scenario.workload
    found = figures(load.dnn, load.image_size)
    if found is None or load.framework != "pytorch":
        return None
    passes_s = max(
        passes_and_update_s(found, group, batch_size or group.batch_size or load.batch_size)
        for group in scenario.worker_groups
    )
    workers = scenario.strategy.workers
    if scenario.link_mbps is None or workers < 2:
        return passes_s
    link_Bps = scenario.link_mbps * 125_000
    exchanged_s = 2 * (workers - 1) / workers * 4 * found.parameters / link_Bps
    return passes_s + _EXCHANGED * exchanged_s


def passes_and_update_s(found: Figures, group: NodeGroup, batch_size: int) -> float:
    """Return about how many seconds the passes and the update of one device of a node take."""
    dense_s = _DENSE_SSE41_S if group.isa == "SSE41" else _DENSE_S
    image_s = 3 * (
        dense_s * (found.flops - found.depthwise_flops)
        + _DEPTHWISE_S * found.depthwise_flops
        + _ACTIVATION_S * found.activations
    )
    fixed_s = _NODE_S * found.nodes + _PARAMETER_S * found.parameters
    return (batch_size * image_s + fixed_s) * _SHARE / (group.cpu_share or 1.0)


def step_or_guess_s(scenario: Scenario, batch_size: int | None = None) -> float:
    """Return the same, and a guess of networks whose size is unknown."""
    return step_s(scenario, batch_size) or STEP_S
