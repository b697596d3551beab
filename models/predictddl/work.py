"""What a step has to do, as seconds that it would take at the speeds of its nodes and links.

A network's graph says what an image costs: floating-point operations of convolutions and matrices,
of grouped and of single channels, elements of results, more often those of
convolutions and normalizations, parameters that each step reads, writes and exchanges. Divided by
what a node can do, these are times: the terms of a linear model with coefficients of 0 or more.

A regression on a few of these figures is what others have to beat.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from models.predictddl.observations import Capabilities, batch_of, of_node
from networks.primitives import PRIMITIVES, Primitive, PrimitiveGraph
from warehouse.records import NodeGroup, Scenario

if TYPE_CHECKING:
    from models.predictddl.training_set import TrainingSet


Floats = NDArray[np.float64]
_BYTES = 4
_GROUPED, _DEPTHWISE = frozenset({"group_conv"}), frozenset({"depthwise_conv"})
_DENSE = frozenset({"conv", "dilated_conv", "linear", "matmul", "attention"})
_CONVOLUTIONS = frozenset({"conv", "dilated_conv", "group_conv", "depthwise_conv"})
_NORMALIZATIONS = frozenset({"batch_norm", "layer_norm"})
_PARTS = frozenset({"input", "bias", "scale"})
"""Nodes that are no operations of their own: convolutions and normalizations add biases."""
_TOGETHER = 16
"""From this batch on, or on several threads, PyTorch has oneDNN convolve single pixels of all
images together; else it multiplies matrices image by image (`ConvParams::use_mkldnn`)."""


@dataclass(frozen=True)
class Work:
    """What one image costs in a forward pass, and what each step does besides.

    Attributes:
        dense: floating-point operations of convolutions of all channels, and of matrices.
        pointwise: those of them that convolutions of single pixels have.
        repeated: parameters of convolutions of single pixels.
        grouped: of convolutions of groups of channels.
        depthwise: of convolutions of single channels.
        elements: of all results, but biases and scales.
        convolved: those of them that convolutions have; activations follow most of these.
        normalized: those of them that normalizations have.
        activations: of all results, biases and scales included.
        parameters: trained ones.
        nodes: primitives, but the input, biases and scales.
        depth: of the longest path.
    """

    dense: float
    pointwise: float
    repeated: float
    grouped: float
    depthwise: float
    elements: float
    convolved: float
    normalized: float
    activations: float
    parameters: float
    nodes: int
    depth: int

    @classmethod
    def of(cls, graph: PrimitiveGraph) -> Self:
        """Return the work of a network."""

        def flops(types: frozenset[str]) -> float:
            return sum(node.flops for node in graph.nodes if node.type in types)

        def elements(types: frozenset[str]) -> float:
            return float(sum(node.output_elements for node in graph.nodes if node.type in types))

        depth = [0] * len(graph.nodes)
        for source, target in graph.edges:
            depth[target] = max(depth[target], depth[source] + 1)
        return cls(
            dense=flops(_DENSE),
            pointwise=sum(node.flops for node in graph.nodes if _is_pointwise(node)),
            repeated=float(sum(node.parameters for node in graph.nodes if _is_pointwise(node))),
            grouped=flops(_GROUPED),
            depthwise=flops(_DEPTHWISE),
            elements=graph.activations - elements(_PARTS - {"input"}),
            convolved=elements(_CONVOLUTIONS),
            normalized=elements(_NORMALIZATIONS),
            activations=float(graph.activations),
            parameters=float(graph.parameter_count),
            nodes=max(sum(node.type not in _PARTS for node in graph.nodes), 1),
            depth=max(depth),
        )

    @property
    def flops(self) -> float:
        """All floating-point operations of a forward pass of one image."""
        return self.dense + self.grouped + self.depthwise


def terms(
    work: Work, scenario: Scenario, group: NodeGroup, can: Capabilities, link_Bps: float
) -> Floats:
    """Return the terms of a step on nodes of one group, seconds: [terms].

    Convolutions of groups count as others: few networks have them, so that a term of their own
    would say what else these networks have.

    Args:
        work: of the network.
        scenario: that trains it.
        group: the nodes.
        can: what one of them can do.
        link_Bps: of their links, bytes a second in each direction.
    """
    batch, ranks = batch_of(scenario, group), ranks_of(scenario)
    bytes_ = _BYTES * work.parameters
    exchanged_s = 2 * (ranks - 1) / ranks * bytes_ / link_Bps
    several = float(ranks > 1)
    alone = float(batch < _TOGETHER and group.threads == 1)
    dense = work.dense + work.grouped
    return np.array(
        [
            batch * (dense - alone * work.pointwise) / can.dense_flops,
            alone * batch * work.pointwise / (can.pointwise_part * can.dense_flops),
            alone * batch * work.repeated * _BYTES / can.results_Bps,
            batch * work.depthwise / can.depthwise_flops,
            batch * work.elements * _BYTES / can.results_Bps,
            batch * work.convolved * _BYTES / can.results_Bps,
            batch * work.normalized * _BYTES / can.results_Bps,
            bytes_ / can.results_Bps,  # of parameters
            1e-5 * work.nodes / can.cores,
            1e-3 / can.cores,  # to start
            exchanged_s,
            several * bytes_ / can.results_Bps,  # of parameters that are exchanged
            1e-3 * (ranks - 1),
        ]
    )


def _is_pointwise(node: Primitive) -> bool:
    return node.type == "conv" and node.kernel == 1


def ranks_of(scenario: Scenario) -> int:
    """Return how many devices take part in an all-reduce."""
    return scenario.strategy.workers * scenario.strategy.devices_per_node


def traits(work: Work) -> Floats:
    """Return what kind of network it is, whatever its size: logarithms of ratios.

    Elements and parameters for each floating-point operation, how many of these are of grouped and
    of single channels, floating-point operations of a node, and how deep it is for its nodes.
    """
    flops = max(work.flops, 1.0)
    return np.array(
        [
            np.log10(max(work.elements, 1.0) / flops),
            np.log10(max(work.parameters, 1.0) / flops),
            work.grouped / flops,
            work.depthwise / flops,
            np.log10(flops / work.nodes),
            np.log10(work.nodes),
            work.depth / work.nodes,
        ]
    )


LogLinearForecaster = Callable[[Sequence[Scenario]], tuple[Floats, Floats]]


def fit_log_linear(known: "TrainingSet", *, of_counts: bool = False) -> LogLinearForecaster:
    """Fit logarithms of seconds to those of operations, activations and parameters, and setups.

    Args:
        known: runs that were measured.
        of_counts: how many primitives of each type there are is in the place of these figures.
    """

    def speed(group: NodeGroup) -> float:
        return of_node(group, known.measured).dense_flops

    def features(scenarios: Sequence[Scenario]) -> Floats:
        keys = [(scenario.workload.dnn, scenario.workload.image_size) for scenario in scenarios]
        graphs = known.graphs(keys)
        rows = []
        for scenario, key in zip(scenarios, keys, strict=True):
            if of_counts:
                own = [log(1 + graphs[key].histogram[name]) for name in PRIMITIVES]
            else:
                work = Work.of(graphs[key])
                figures = work.flops, work.activations, work.parameters
                own = [log(max(figure, 1.0)) for figure in figures]
            slowest, ranks = min(scenario.worker_groups, key=speed), ranks_of(scenario)
            batch = batch_of(scenario, slowest)
            rows.append([*own, log(batch), log(ranks), float(ranks > 1), log(speed(slowest))])
        return np.array(rows)

    design = features([run.scenario for run in known.runs])
    middle, spread = design.mean(axis=0), design.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)
    matrix = (design - middle) / spread
    target = np.log(known.steps_s)
    level = float(target.mean())
    normal = matrix.T @ matrix + (1.0 if of_counts else 1e-3) * np.eye(matrix.shape[1])
    weights = np.linalg.solve(normal, matrix.T @ (target - level))
    left = target - level - matrix @ weights
    deviation = float(np.sqrt((left**2).sum() / max(len(left) - matrix.shape[1] - 1, 1)))

    def forecast(scenarios: Sequence[Scenario]) -> tuple[Floats, Floats]:
        logarithms = level + (features(scenarios) - middle) / spread @ weights
        return logarithms, np.full(len(scenarios), deviation)

    return forecast
