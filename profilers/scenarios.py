"""Scenarios as probes take them: which share a start, and how long steps take.

Times of steps are for plans, before anything has run.
"""

from collections.abc import Hashable, Iterable, Sequence

from networks.figures import Figures, figures
from profilers.clusters.node_types import gpus, node_types
from profilers.probe import STEP_S
from warehouse.records import NodeGroup, Scenario


def is_async(scenario: Scenario) -> bool:
    """Tell whether TensorFlow's workers train with parameter servers, each at its own pace."""
    kind_and_framework = scenario.strategy.kind, scenario.workload.framework
    return kind_and_framework == ("async_parameter_server", "tensorflow")


def is_all_reduce(scenario: Scenario, framework: str) -> bool:
    """Tell whether all workers of a framework exchange gradients in each step."""
    kind_and_framework = scenario.strategy.kind, scenario.workload.framework
    return kind_and_framework == ("all_reduce", framework)


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
    worker_groups = [
        group.model_copy(update={"count": count, "batch_size": None})
        for group, count in zip(types, counts, strict=True)
        if count
    ]
    return (*worker_groups, *(group for group in groups if group.role != "worker"))


def of_batch(scenario: Scenario, batch_size: int) -> Scenario:
    """Return a scenario whose devices all have the same batch."""
    load = scenario.workload.model_copy(update={"batch_size": batch_size})
    nodes = tuple(node.model_copy(update={"batch_size": None}) for node in scenario.nodes)
    return scenario.model_copy(update={"workload": load, "nodes": nodes})


def largest(scenarios: Iterable[Scenario]) -> Scenario:
    """Return the scenario with the most workers, of these with the most nodes, the last of equals.

    Raises:
        IndexError: there is none.
    """

    def size(scenario: Scenario) -> tuple[int, int]:
        return scenario.strategy.workers, sum(group.count for group in scenario.nodes)

    return sorted(scenarios, key=size)[-1]


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


# About how long training steps of PyTorch take, before anything has run: linear in what the graph
# of a network counts. The coefficients are those of 168 measured scenarios of study reference_ddp
# (eight networks, batches 4 to 20, 1 to 8 nodes of 0.15 of a core). They are within 20 % of these
# in the mean, and 4 % too long over all.


_SHARE = 0.15
"""Of a core, on which these seconds were measured."""
_DENSE_S, _DENSE_SSE41_S = 0.065e-9, 0.30e-9
"""Seconds for each floating-point operation of a pass; a step has three passes."""
_DEPTHWISE_S = 8.0e-9
_ACTIVATION_S = 1.15e-8
"""Seconds for each element of a result."""
_NODE_S, _PARAMETER_S = 1.8e-3, 3.8e-8
"""Seconds of a step for each operation, and for each parameter, whatever the batch."""
_GPU_FLOPS_PER_S, _GPU_ACTIVATION_S, _GPU_NODE_S = 45e12, 2e-12, 0.25e-3
"""The same of a GPU, beside whose work the host issues operations: by steps of an H100 in float32
(data/public/gpu_h100), which these are within a factor of two of."""
_GPUS_OF_TF32 = ("A10", "L4", "H", "B", "RTX")
"""How models of GPUs begin whose convolutions use TF32."""
_WITHOUT_TF32 = 12
"""How many times as long others take: a T4, the slowest that is rented."""
_EXCHANGED = 0.86
"""Part of the time of an all-reduce on idle links that a step takes longer for it."""


def step_s(scenario: Scenario, batch_size: int | None = None) -> float | None:
    """Return about how many seconds a step of all nodes takes; None of unknown networks.

    Args:
        scenario: an all-reduce of PyTorch.
        batch_size: images of each device instead of the scenario's.
    """
    load = scenario.workload
    dnn_figures = figures(load.dnn, load.image_size)
    if dnn_figures is None or load.framework != "pytorch":
        return None
    passes_s = max(
        passes_and_update_s(dnn_figures, group, batch_size or group.batch_size or load.batch_size)
        for group in scenario.worker_groups
    )
    workers = scenario.strategy.workers
    if scenario.link_mbps is None or workers < 2:
        return passes_s
    link_Bps = scenario.link_mbps * 125_000
    exchanged_s = 2 * (workers - 1) / workers * 4 * dnn_figures.parameters / link_Bps
    return passes_s + _EXCHANGED * exchanged_s


def passes_and_update_s(found: Figures, group: NodeGroup, batch_size: int) -> float:
    """Return about how many seconds the passes and the update of one device of a node take."""
    if gpus(group.node_type):
        image_s = 3 * (found.flops / _GPU_FLOPS_PER_S + _GPU_ACTIVATION_S * found.activations)
        model = node_types()[group.node_type].gpu if group.node_type in node_types() else None
        slower = 1 if model and model.startswith(_GPUS_OF_TF32) else _WITHOUT_TF32
        return max(slower * batch_size * image_s, _GPU_NODE_S * found.nodes)
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
