"""The graph hypernetwork in PyTorch: what `ghn.py` computes, with gradients, and its decoder.

Source: Zhang et al., ICLR 2019, eq. (3) to (6); Knyazev et al., NeurIPS 2021, sections 4.1 to 4.3
and appendix B.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import scipy
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.predictddl.ghn import SHAPES, SIZE, Embedder, lengths_of, types_of
from models.predictddl.random_networks import CHANNELS, MOST_KERNEL, RandomLayer, RandomNetwork
from networks.primitives import PRIMITIVES, PrimitiveGraph

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
        lengths = scipy.linalg.block_diag(*(lengths_of(graph) for graph in graphs))
        states: Tensor = self.embed(
            torch.from_numpy(np.concatenate([types_of(graph) for graph in graphs]))
        )
        for directed in (lengths, lengths.T):
            states = self._passed(states, torch.from_numpy(np.ascontiguousarray(directed)))
        return states

    def embedder(self) -> Embedder:
        """Return what embeds graphs, without the decoder."""
        own = dict(self.named_parameters())
        own["embed"] = own["embed.weight"]
        return Embedder({name: own[name].detach().numpy().copy() for name in SHAPES})

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
