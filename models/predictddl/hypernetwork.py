"""The graph hypernetwork in PyTorch: what `ghn.py` computes, with gradients, and its decoder.

It learns on random networks of cells, as small as their images: each cell combines results of
earlier ones by operations that are drawn, as in the search space of DARTS that GHN-2 extends. A
network is a list of layers in the order in which they run; its graph is that list, so that what is
predicted for a node is what its layer takes.

Source: Zhang et al., ICLR 2019, eq. (3) to (6); Knyazev et al., NeurIPS 2021, sections 4.1 to 4.3
and appendices A and B; Liu et al., arXiv 1806.09055.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.predictddl.ghn import SIZE, Embedder, lengths_of, types_of
from networks.primitives import PRIMITIVES, Primitive, PrimitiveGraph

MOST_LAYERS = 60
CHANNELS = (8, 16, 24, 32)
"""Of a whole network; the decoder predicts kernels of at most 32 × 32 channels."""
MOST_KERNEL = 7
_CONVOLUTIONS = ("conv", "group_conv", "depthwise_conv", "dilated_conv")
_KERNELS = {
    "conv": (1, 3, 5, 7),
    "group_conv": (3, 5),
    "depthwise_conv": (3, 5, 7),
    "dilated_conv": (3, 5),
}
_GROUPS = 4


@dataclass(frozen=True)
class RandomLayer:
    """One operation of a network.

    Attributes:
        type: of `networks.primitives.PRIMITIVES`.
        reads: places of the layers whose results it takes.
        shape: of its trained weights; empty if it has none.
        groups: of a convolution.
        dilation: of a convolution.
        stride: of a convolution or pool.
        channels: of its result.
        size: side of its result.
    """

    type: str
    reads: tuple[int, ...]
    channels: int
    size: int
    shape: tuple[int, ...] = ()
    groups: int = 1
    dilation: int = 1
    stride: int = 1


@dataclass
class RandomNetwork:
    """Layers in the order in which they run; the first is the image, the last gives logits."""

    image_channels: int
    image_size: int
    classes: int
    layers: list[RandomLayer] = field(default_factory=list)

    @property
    def graph(self) -> PrimitiveGraph:
        """Its graph: a node a layer."""
        nodes = tuple(
            Primitive(
                layer.type,
                prod(layer.shape) if layer.shape else 0,
                output_elements=layer.channels * layer.size**2,
                kernel=prod(layer.shape[2:]) if layer.type in _CONVOLUTIONS else 0,
            )
            for layer in self.layers
        )
        edges = tuple(
            sorted(
                {
                    (source, place)
                    for place, layer in enumerate(self.layers)
                    for source in layer.reads
                }
            )
        )
        parameters = sum(node.parameters for node in nodes)
        return PrimitiveGraph("random", self.image_size, nodes, edges, parameters)

    def add(self, layer: RandomLayer) -> int:
        """Append a layer; return its place."""
        self.layers.append(layer)
        return len(self.layers) - 1


def draw(chance: Random, *, image_channels: int, image_size: int, classes: int) -> RandomNetwork:
    """Return a network drawn by chance, of at most `MOST_LAYERS` layers."""
    while True:
        network = _draw(chance, image_channels, image_size, classes)
        if len(network.layers) <= MOST_LAYERS:
            return network


def _draw(chance: Random, image_channels: int, image_size: int, classes: int) -> RandomNetwork:
    network = RandomNetwork(image_channels, image_size, classes)
    width = chance.choice(CHANNELS)
    normalized = chance.random() < 0.8
    image = network.add(RandomLayer("input", (), image_channels, image_size))
    stem = _convolved(network, chance, image, "conv", width, normalized)
    states = [stem]
    for _ in range(chance.randint(1, 4)):
        if chance.random() < 0.4 and network.layers[states[-1]].size > 2:
            states = [_pooled(network, chance, states[-1], stride=2)]
        states.append(_cell(network, chance, states, width, normalized))
    last = states[-1]
    pooled = network.add(RandomLayer("global_pool", (last,), network.layers[last].channels, 1))
    channels = network.layers[pooled].channels
    logits = network.add(RandomLayer("linear", (pooled,), classes, 1, shape=(classes, channels)))
    network.add(RandomLayer("bias", (logits,), classes, 1, shape=(classes,)))
    return network


def _cell(
    network: RandomNetwork, chance: Random, states: Sequence[int], width: int, normalized: bool
) -> int:
    """Add branches that read earlier results of one size, and what joins them."""
    size = network.layers[states[-1]].size
    known = [state for state in states if network.layers[state].size == size]
    branches = []
    for _ in range(chance.randint(1, 3)):
        source = chance.choice(known)
        kind = chance.choice((*_CONVOLUTIONS, *_CONVOLUTIONS, "pool", "skip"))
        if kind == "skip":
            branches.append(source)
        elif kind == "pool":
            branches.append(_pooled(network, chance, source, stride=1))
        else:
            branches.append(_convolved(network, chance, source, kind, width, normalized))
    branches = list(dict.fromkeys(branches))
    joined = branches[0]
    if len(branches) > 1:
        channels = [network.layers[branch].channels for branch in branches]
        if len(set(channels)) > 1 or (chance.random() < 0.3 and sum(channels) <= CHANNELS[-1]):
            if sum(channels) > CHANNELS[-1]:
                branches = [
                    _convolved(network, chance, branch, "conv", width, normalized)
                    for branch in branches
                ]
                joined = network.add(RandomLayer("sum", tuple(branches), width, size))
            else:
                joined = network.add(RandomLayer("concat", tuple(branches), sum(channels), size))
        else:
            joined = network.add(RandomLayer("sum", tuple(branches), channels[0], size))
    if chance.random() < 0.2:
        joined = _squeezed(network, joined)
    return joined


def _convolved(
    network: RandomNetwork, chance: Random, source: int, kind: str, width: int, normalized: bool
) -> int:
    """Add a convolution, to `width` channels if it can change them, and what follows it."""
    of = network.layers[source]
    kernel = chance.choice([size for size in _KERNELS[kind] if size <= max(of.size, 1) + 2])
    groups, channels = 1, width
    if kind == "depthwise_conv":
        groups = channels = of.channels
    elif kind == "group_conv":
        groups = _GROUPS if of.channels % _GROUPS == 0 and width % _GROUPS == 0 else 1
        kind = kind if groups > 1 else "conv"
    place = network.add(
        RandomLayer(
            kind,
            (source,),
            channels,
            of.size,
            shape=(channels, of.channels // groups, kernel, kernel),
            groups=groups,
            dilation=2 if kind == "dilated_conv" else 1,
        )
    )
    follows = "batch_norm" if normalized else "bias"
    shape = (2, channels) if normalized else (channels,)
    return network.add(RandomLayer(follows, (place,), channels, of.size, shape=shape))


def _pooled(network: RandomNetwork, chance: Random, source: int, stride: int) -> int:
    of = network.layers[source]
    kind = chance.choice(("max_pool", "avg_pool"))
    size = (of.size - 1) // stride + 1
    return network.add(RandomLayer(kind, (source,), of.channels, size, stride=stride))


def _squeezed(network: RandomNetwork, source: int) -> int:
    """Add a weight for each channel, by what all places have in the mean (squeeze-excitation)."""
    of = network.layers[source]
    pooled = network.add(RandomLayer("global_pool", (source,), of.channels, 1))
    weights = network.add(
        RandomLayer("linear", (pooled,), of.channels, 1, shape=(of.channels, of.channels))
    )
    return network.add(RandomLayer("product", (source, weights), of.channels, of.size))


_MOST_CHANNELS = CHANNELS[-1]
_SQUARE = _MOST_CHANNELS * _MOST_CHANNELS


class Hypernetwork(nn.Module):
    """Predicts the weights of networks from their graphs.

    Args:
        classes: of the classifiers, which have a part of the decoder of their own.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(PRIMITIVES), SIZE)
        self.near, self.far = (
            nn.Sequential(nn.Linear(SIZE, SIZE), nn.ReLU(), nn.Linear(SIZE, SIZE)) for _ in range(2)
        )
        self.gru = nn.GRUCell(SIZE, SIZE)
        self.decoder = Decoder(classes)

    def forward(self, networks: Sequence[RandomNetwork]) -> list[dict[int, Tensor]]:
        """Return the weights of each network's layers, by their places."""
        graphs = [network.graph for network in networks]
        states = self.states(graphs)
        weights, first = [], 0
        for network in networks:
            hidden = states[first : first + len(network.layers)]
            first += len(network.layers)
            weights.append(
                {
                    place: self.decoder(state, layer)
                    for place, (state, layer) in enumerate(zip(hidden, network.layers, strict=True))
                    if layer.shape
                }
            )
        return weights

    def states(self, graphs: Sequence[PrimitiveGraph]) -> Tensor:
        """Return the last states of the nodes of several graphs, one below the other.

        Nodes of one depth do not wait for each other, so each depth of all graphs is one product.
        """
        lengths = _diagonal([lengths_of(graph) for graph in graphs])
        states: Tensor = self.embed(
            torch.from_numpy(np.concatenate([types_of(graph) for graph in graphs]))
        )
        for directed in (lengths, lengths.T):
            states = self._passed(states, torch.from_numpy(np.ascontiguousarray(directed)))
        return states

    def embedder(self) -> Embedder:
        """Return what embeds graphs, without the decoder."""
        named = dict(self.named_parameters())
        return Embedder(
            {name: named[own].detach().numpy().copy() for name, own in _names().items()}
        )

    def _passed(self, states: Tensor, lengths: Tensor) -> Tensor:
        """Return the states after a pass; lengths[u, v] is that of the path from u to v."""
        near = (lengths == 1).float().T
        far = torch.where(lengths > 1, 1 / lengths.float(), 0.0).T
        order = _by_depth((lengths > 0).numpy())
        parts: list[Tensor] = []
        messages, messages_far = torch.zeros(0, SIZE), torch.zeros(0, SIZE)
        before = torch.zeros(0, dtype=torch.int64)
        for level in order:
            rows = torch.from_numpy(level)
            message = near[rows][:, before] @ messages + far[rows][:, before] @ messages_far
            made = self.gru(message, states[rows])
            parts.append(made)
            before = torch.cat([before, rows])
            messages = torch.cat([messages, self.near(made)])
            messages_far = torch.cat([messages_far, self.far(made)])
        return torch.cat(parts)[torch.argsort(before)]


class Decoder(nn.Module):
    """Makes a layer's weights of its node's state: kernels of at most 32 × 32 × 7 × 7."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.window = nn.Linear(SIZE, 16 * MOST_KERNEL**2)
        self.channels = nn.Sequential(
            nn.ReLU(), nn.Conv2d(16, 64, 1), nn.ReLU(), nn.Conv2d(64, _SQUARE, 1)
        )
        self.classes = nn.Linear(_MOST_CHANNELS, classes)
        self.vector = nn.Linear(SIZE, 2 * _MOST_CHANNELS)
        self.class_vector = nn.Linear(SIZE, classes)

    def forward(self, state: Tensor, layer: RandomLayer) -> Tensor:
        """Return the weights of a layer, normalized as its operation asks."""
        if layer.type == "batch_norm":
            scale, shift = self.vector(state).view(2, -1)[:, : layer.channels]
            return torch.stack([2 * torch.sigmoid(scale), torch.tanh(shift)])
        if layer.type == "bias":
            of_classifier = layer.channels == self.classes.out_features
            made = (self.class_vector if of_classifier else self.vector)(state)
            return torch.tanh(made[: layer.channels])
        window = self.window(state).view(1, 16, MOST_KERNEL, MOST_KERNEL)
        kernels = self.channels(window).view(
            _MOST_CHANNELS, _MOST_CHANNELS, MOST_KERNEL, MOST_KERNEL
        )
        if layer.type == "linear":
            middle = kernels[:, :, MOST_KERNEL // 2, MOST_KERNEL // 2]
            inputs = layer.shape[1]
            if layer.shape[0] == self.classes.out_features:
                middle = self.classes(middle.T).T
            return _normalized(middle[: layer.shape[0], :inputs], gain=1.0)
        outputs, inputs, height, width = layer.shape
        top = (MOST_KERNEL - height) // 2
        cut = kernels[:outputs, :inputs, top : top + height, top : top + width]
        return _normalized(cut, gain=2.0)


def run(network: RandomNetwork, weights: Mapping[int, Tensor], images: Tensor) -> Tensor:
    """Return the logits of a network with these weights, [images, classes].

    Convolutions take rectified results, but for the image; normalization is by the batch.
    """
    results: list[Tensor] = []
    for place, layer in enumerate(network.layers):
        given = [results[read] for read in layer.reads]
        results.append(_result(layer, given, weights.get(place), images))
    return results[-1].flatten(1)


def random_weights(network: RandomNetwork, generator: torch.Generator) -> dict[int, Tensor]:
    """Return weights as networks usually begin: He's for kernels, ones and zeros for the rest."""
    weights = {}
    for place, layer in enumerate(network.layers):
        if not layer.shape:
            continue
        if layer.type == "batch_norm":
            weights[place] = torch.stack([torch.ones(layer.channels), torch.zeros(layer.channels)])
        elif layer.type == "bias":
            weights[place] = torch.zeros(layer.shape)
        else:
            fan_in = int(np.prod(layer.shape[1:]))
            gain = 1.0 if layer.type == "linear" else 2.0
            weights[place] = torch.randn(layer.shape, generator=generator) * (gain / fan_in) ** 0.5
    return weights


def _result(
    layer: RandomLayer, given: Sequence[Tensor], weights: Tensor | None, images: Tensor
) -> Tensor:
    match layer.type:
        case "input":
            return images
        case "sum":
            return torch.stack(list(given)).sum(0)
        case "concat":
            return torch.cat(list(given), dim=1)
        case "product":
            return given[0] * torch.sigmoid(given[1])
        case "max_pool":
            return functional.max_pool2d(given[0], 3, layer.stride, padding=1)
        case "avg_pool":
            return functional.avg_pool2d(
                given[0], 3, layer.stride, padding=1, count_include_pad=False
            )
        case "global_pool":
            return given[0].mean((2, 3), keepdim=True)
    assert weights is not None
    match layer.type:
        case "batch_norm":
            scale, shift = weights
            return functional.batch_norm(given[0], None, None, scale, shift, training=True)
        case "bias":
            return given[0] + weights.view(1, -1, 1, 1)
        case "linear":
            return functional.conv2d(given[0], weights[..., None, None])
    rectified = given[0] if layer.reads == (0,) else functional.relu(given[0])
    padding = layer.dilation * (layer.shape[2] - 1) // 2
    return functional.conv2d(rectified, weights, None, 1, padding, layer.dilation, layer.groups)


def _normalized(weights: Tensor, gain: float) -> Tensor:
    """Return weights of the scale that keeps the variance of what passes through them."""
    fan_in = weights[0].numel()
    return weights * float((gain / fan_in) ** 0.5)


def _diagonal(blocks: Sequence[np.ndarray]) -> np.ndarray:
    size = sum(map(len, blocks))
    joined, first = np.zeros((size, size), np.int16), 0
    for block in blocks:
        joined[first : first + len(block), first : first + len(block)] = block
        first += len(block)
    return joined


def _by_depth(reaches: np.ndarray) -> list[np.ndarray]:
    """Return the nodes that nothing reaches, then those that only these reach, and so on."""
    waits = reaches.sum(axis=0)
    levels, left = [], np.ones(len(reaches), bool)
    while left.any():
        level = np.flatnonzero(left & (waits == 0))
        levels.append(level)
        left[level] = False
        waits = waits - reaches[level].sum(axis=0)
    return levels


def _names() -> Mapping[str, str]:
    """Return PyTorch's name of each of the embedder's parameters."""
    parts = ("near.0", "near.2", "far.0", "far.2")
    perceptrons = {
        f"{part}.{kind}": f"{part}.{kind}" for part in parts for kind in ("weight", "bias")
    }
    cells = {
        f"gru.{name}": f"gru.{name}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    return {"embed": "embed.weight", **perceptrons, **cells}
