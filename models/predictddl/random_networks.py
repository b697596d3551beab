"""Random networks that a hypernetwork learns on: cells of operations that are drawn.

Each cell combines results of earlier ones, as in the search space of DARTS that GHN-2 extends. A
network is a list of layers in the order in which they run; its graph is that list, so that what is
predicted for a node is what its layer takes.

Source: Knyazev et al., NeurIPS 2021, appendix A; Liu et al., arXiv 1806.09055.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random

from networks.primitives import Primitive, PrimitiveGraph

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
        # Squeeze-excitation: a weight for each channel, by what all places have in the mean.
        of = network.layers[joined]
        pooled = network.add(RandomLayer("global_pool", (joined,), of.channels, 1))
        square = (of.channels, of.channels)
        weights = network.add(RandomLayer("linear", (pooled,), of.channels, 1, shape=square))
        joined = network.add(RandomLayer("product", (joined, weights), of.channels, of.size))
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
