"""How a network is divided among GPUs: what each computes, keeps, and waits for others.

Tensor parallelism divides the widths of a layer's products among GPUs of a node (Shoeybi et al.,
Megatron-LM, 2019, section 3), and sequence parallelism the words between them (Korthikanti et al.,
Reducing Activation Recomputation, 2022, section 4.2.2): each operator has a part of its work.
Attention and the dense part of a layer each gather and scatter once a pass; both together move as
much as an all-reduce. Pipeline parallelism gives consecutive layers to stages, which take micro
batches one forward, one backward (Narayanan et al., 2021, section 2.2); the last has the head, too.

Layers are told by how often calls occur: a call that is made once or several times in each layer
is theirs, the rest is of embeddings and head. Experts are not divided.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

import numpy as np

from models.gpu_step.collectives import Collectives, Topology
from models.gpu_step.operator_kinds import KIND_OF, common_name
from models.system import NotCovered
from networks.gpu_steps import GpuStep, Operator, Tensor
from warehouse.records import Strategy

GRADIENTS_DIVIDED, ALL_DIVIDED = 2, 3
"""ZeRO's stages in which gradients are, and parameters, too."""
_LEAST_LAYERS = 2
_BLOCKS = 2
"""Parts of a layer that gather and scatter: attention, and what is dense."""
_ZERO = {"zero1": 1, "zero2": 2, "sharded": 3, "hsdp": 3}


@dataclass(frozen=True)
class Layout:
    """Ranks by what they divide: `tensor` x `stages` x `replicas` are all.

    Attributes:
        tensor: GPUs of a node that divide each layer.
        stages: of the pipeline, of which each GPU has `virtual_stages` in turn.
        replicas: among which batches are divided.
        shards: replicas that divide what ZeRO's stage `zero` says: 1 the optimizer's state, 2
            gradients, too, 3 parameters, too.
        micro_batches: of a step.
    """

    tensor: int = 1
    stages: int = 1
    virtual_stages: int = 1
    replicas: int = 1
    shards: int = 1
    zero: int = 0
    micro_batches: int = 1

    @classmethod
    def of(cls, strategy: Strategy, micro_batches: int) -> "Layout":
        """Return the layout of a strategy."""
        zero = _ZERO.get(strategy.kind, 0)
        replicas, tensor = strategy.replicas, strategy.tensor_parallel
        within = min(replicas, strategy.devices_per_node // tensor)
        shards = 1 if not zero else within if strategy.kind == "hsdp" else replicas
        return cls(
            tensor,
            strategy.pipeline_parallel,
            strategy.virtual_stages,
            replicas,
            shards,
            0 if zero == ALL_DIVIDED and shards == 1 else zero,
            micro_batches,
        )

    @property
    def ranks(self) -> int:
        """All GPUs."""
        return self.tensor * self.stages * self.replicas

    @property
    def is_divided(self) -> bool:
        """Whether layers, or what is in them, are divided among ranks."""
        return self.tensor * self.stages > 1

    @property
    def part(self) -> "Layout":
        """What says which operators a GPU has."""
        return Layout(self.tensor, self.stages)

    @property
    def batches_in_flight(self) -> float:
        """Micro batches whose activations the first stage keeps (Korthikanti, appendix C)."""
        held = min(self.stages, self.micro_batches)
        if self.virtual_stages == 1:
            return held
        return held * (1 + (self.stages - 1) / (self.stages * self.virtual_stages))

    def activation_bytes(self, network: "Blocks") -> int:
        """Return what the stage keeps for backward that keeps most: the first, or the last."""
        layers = ceil(network.layers / self.stages)
        first = layers * network.layer_bytes * self.batches_in_flight
        last = layers * network.layer_bytes + network.head_bytes
        return int((max(first, last) + network.working_bytes) / self.tensor)

    def topology_of(self, ranks: int, all_ranks: Topology) -> Topology:
        """Return the links of so many replicas of a part: tensor ranks are next to each other.

        Parts of a node exchange at once, and share its network.
        """
        nodes = ceil(ranks / min(ranks, all_ranks.devices // self.tensor))
        within = ceil(ranks / nodes)  # of a node that has most of them
        share = all_ranks.network_bps * (within / all_ranks.devices)
        return replace(all_ranks, devices=within, nodes=nodes, network_bps=share)

    def tensor_s(self, network: "Blocks", collectives: Collectives, links: Topology) -> float:
        """Return seconds of one exchange among tensor ranks, of one micro batch."""
        if self.tensor == 1:
            return 0.0
        size = np.array([float(network.stream.bytes)])
        among = replace(links, devices=self.tensor, nodes=1)
        return float(collectives.seconds("all_reduce", size, among)[0])

    def transfer_s(self, network: "Blocks", collectives: Collectives, links: Topology) -> float:
        """Return seconds in which a stage hands a micro batch on, or its gradients back.

        Each tensor rank sends its part; what two GPUs gather is twice what each sends.
        """
        if self.stages == 1:
            return 0.0
        size = np.array([2.0 * network.stream.bytes / self.tensor])
        network_bps = links.network_bps / links.devices
        devices, nodes = (1, 2) if links.nodes > 1 else (2, 1)
        between = replace(links, devices=devices, nodes=nodes, network_bps=network_bps)
        return self.virtual_stages * float(collectives.seconds("all_gather", size, between)[0])


@dataclass(frozen=True)
class Blocks:
    """Layers of a traced step, and what passes between them.

    Attributes:
        layers: how many there are, alike.
        stream: what a layer hands on.
        words: rows of it.
        is_checkpointed: activations of layers are computed again.
        layer_bytes: of activations that a layer keeps for backward.
        working_bytes: beside them, while a layer is computed again.
        head_bytes: of logits and the like.
    """

    layers: int
    stream: Tensor
    words: int
    is_checkpointed: bool
    layer_bytes: float
    working_bytes: float
    head_bytes: float

    @property
    def exchanges(self) -> int:
        """How often tensor ranks of a layer wait for each other in a pass, forward and backward."""
        return _BLOCKS * (3 if self.is_checkpointed else 2)  # forward is done again


def blocks_of(step: GpuStep) -> Blocks:
    """Return the layers of a step.

    Raises:
        NotCovered: it has no layers of words.
    """
    calls = Counter(step.order)
    by_kind: Counter[str] = Counter()
    streams = []
    for number, operator in enumerate(step.operators):
        by_kind[_attention_kind(operator)] += calls[number]
        if operator.name.endswith("embedding") and operator.outputs:
            streams.append(operator.outputs[0])
    sizes = Counter(step.units[1:])
    layers = max(sizes.values(), default=0) or by_kind["attention_backward"]
    if layers < _LEAST_LAYERS or not streams:
        raise NotCovered("tensor_parallel, pipeline_parallel: known of layers of words alone")
    stream = max(streams, key=lambda tensor: tensor.numbers)
    words = stream.numbers // stream.shape[-1]
    head = 0.0
    for number, operator in enumerate(step.operators):
        if operator.view or not _of_head(calls[number], layers):
            continue
        logits = [each for each in operator.outputs if _is_wider(each, stream)]
        head += _of_head(calls[number], layers) * sum(each.bytes for each in logits)
    head = min(head, float(step.activation_bytes))
    again = by_kind["attention"] > by_kind["attention_backward"] > 0
    if step.kept is not None or again:
        working = max(step.activation_bytes - layers * stream.bytes - head, 0.0)
        return Blocks(layers, stream, words, True, float(stream.bytes), working, head)
    kept = (step.activation_bytes - head) / layers
    return Blocks(layers, stream, words, False, kept, 0.0, head)


def _attention_kind(operator: Operator) -> str:
    """Return the kind of attention that a call is; where it is no kernel, a softmax stands for it.

    A softmax whose logarithm is taken is a loss.
    """
    name = common_name(operator.name)
    softmax = {"_softmax": "attention", "_softmax_backward_data": "attention_backward"}
    return softmax.get(operator.name, str(KIND_OF.get(name, "")))


def _is_wider(tensor: Tensor, stream: Tensor) -> bool:
    """Tell whether it has more for each word than a layer hands on, as logits do, not weights."""
    width = stream.shape[-1]
    words = stream.numbers // width
    is_of_words = tensor.numbers % words == 0 and tensor.numbers > stream.numbers
    return is_of_words and tensor.shape[-1] != width


def _of_head(calls: int, layers: int) -> int:
    """Return how many calls are of no layer; kinds of layers may take turns."""
    return calls - _of_layers(calls, layers)


def _of_layers(calls: int, layers: int) -> int:
    if calls >= layers:
        return calls - calls % layers
    return calls if 2 * calls >= layers else 0


def divided(step: GpuStep, layout: Layout, network: Blocks, layers: int | None = None) -> GpuStep:
    """Return the step of the GPU that has most to do: the last stage, or one of equal parts.

    What it keeps for backward is `Layout.activation_bytes`. `layers` of this GPU; None: as many as
    of others.

    Raises:
        NotCovered: there are fewer layers than stages, or it has what cannot be divided.
    """
    if not layout.is_divided and layers is None:
        return step
    _check(step, layout, network)
    layers = layers or ceil(network.layers / layout.stages)
    order, turns = _turns(step.order)
    kept = np.array(
        [
            _of_layers(calls, network.layers) * layers // network.layers
            + _of_head(calls, network.layers)
            for calls in np.bincount(order, minlength=len(step.operators)).tolist()
        ]
    )
    root, *units = step.units
    # An embedding and a head that are two parameters are of two stages.
    root_share = 2 if layout.stages > 1 else 1
    return replace(
        step,
        operators=_operators(step.operators, layout.tensor, network.words),
        order=tuple(order[turns < kept[order]].tolist()),
        parameters=_of_stage(step.parameters, layers, network.layers, layout),
        frozen=_of_stage(step.frozen, layers, network.layers, layout),
        units=(root // root_share // layout.tensor, *(each // layout.tensor for each in units)),
        kept=None if step.kept is None else divided(step.kept, layout, network),
        flow=None,
    )


def _check(step: GpuStep, layout: Layout, network: Blocks) -> None:
    """Refuse what cannot be divided so.

    Raises:
        NotCovered: naming what is asked for.
    """
    if layout.stages * layout.virtual_stages > network.layers:
        asked = f"{layout.stages} x {layout.virtual_stages}"
        raise NotCovered(f"pipeline_parallel: {asked} stages, but it has {network.layers} layers")
    for operator in step.operators if layout.tensor > 1 else ():
        name = common_name(operator.name)
        if name == "_grouped_mm":
            raise NotCovered("tensor_parallel: experts are not divided; give pipeline_parallel")
        if KIND_OF.get(name) == "attention" and (heads := operator.inputs[0].shape[1]):
            if heads % layout.tensor:
                raise NotCovered(f"tensor_parallel: {layout.tensor} do not divide {heads} heads")


@lru_cache(maxsize=8)
def _turns(of: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return an order, and how often what stands at each place stood before."""
    order = np.array(of, int)
    by_number = np.argsort(order, kind="stable")
    _, starts, counts = np.unique(order[by_number], return_index=True, return_counts=True)
    ranks = np.empty(len(order), int)
    ranks[by_number] = np.arange(len(order)) - np.repeat(starts, counts)
    return order, ranks


@lru_cache(maxsize=32)
def _parameter_turns(
    parameters: tuple[Tensor, ...],
) -> tuple[tuple[Tensor, ...], np.ndarray, np.ndarray]:
    """Return those that differ, the place of each among these, and how often it stood before."""
    places = {each: place for place, each in enumerate(dict.fromkeys(parameters))}
    return tuple(places), *_turns(tuple(places[each] for each in parameters))


def _of_stage(
    parameters: Sequence[Tensor], layers: int, of_all: int, layout: Layout
) -> tuple[Tensor, ...]:
    """Return a GPU's parts of the parameters of so many layers, and of embedding or head."""

    def kept(count: int) -> int:
        head = _of_head(count, of_all)
        return _of_layers(count, of_all) * layers // of_all + (
            ceil(head / 2) if layout.stages > 1 else head
        )

    kinds, order, turns = _parameter_turns(tuple(parameters))
    most = np.array([kept(count) for count in np.bincount(order).tolist()], int)
    parts = [Tensor((max(each.numbers // layout.tensor, 1),), each.dtype) for each in kinds]
    return tuple(parts[place] for place in order[turns < most[order]].tolist())


@lru_cache(maxsize=64)
def _operators(operators: tuple[Operator, ...], parts: int, words: int) -> tuple[Operator, ...]:
    """Return a rank's part of each call; stages have them alike."""
    return operators if parts == 1 else tuple(_divided(each, parts, words) for each in operators)


def _divided(operator: Operator, parts: int, words: int) -> Operator:
    """Return a rank's part of a call: of products of matrices a width that is not of words."""
    flops = operator.flops and operator.flops / parts
    inputs = tuple(_part(each, parts) for each in operator.inputs)
    outputs = tuple(_part(each, parts) for each in operator.outputs)
    if common_name(operator.name) in ("mm", "addmm") and len(operator.inputs) > 1:
        *bias, left, right = operator.inputs
        sides = {"columns": right.shape[-1], "inner": left.shape[-1], "rows": left.shape[0]}
        widths = [name for name, side in sides.items() if side != words] or ["columns"]
        chosen = max(widths, key=lambda name: sides[name])
        sides[chosen] = ceil(sides[chosen] / parts)
        rows, inner, columns = sides["rows"], sides["inner"], sides["columns"]
        inputs = (
            *(Tensor((*each.shape[:-1], columns), each.dtype) for each in bias),
            Tensor((rows, inner), left.dtype),
            Tensor((inner, columns), right.dtype),
        )
        outputs = tuple(Tensor((rows, columns), each.dtype) for each in operator.outputs)
    return replace(operator, inputs=inputs, outputs=outputs, flops=flops)


def _part(tensor: Tensor, parts: int) -> Tensor:
    """Return a rank's part: of heads, where there are such, else of the first side that divides."""
    shape = list(tensor.shape)
    for place in (1, 0) if len(shape) == 4 else range(len(shape)):
        if shape[place] and shape[place] % parts == 0:
            shape[place] //= parts
            return Tensor(tuple(shape), tensor.dtype)
    return tensor
