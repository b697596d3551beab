"""The embedding of a DNN's graph by a graph hypernetwork, compiled, without its decoder.

Nodes begin as learned vectors of their operation (a one-hot vector times a matrix). In the order of
a forward pass, then of a backward pass, each gets a message of those before it: of its neighbours,
and along virtual edges of those that a shortest path of s edges leads from, divided by s. A gated
recurrent unit makes its next state of both. The embedding is the mean of the nodes' last states.

Source: Assogba et al., PredictDDL, section III-E, eq. (3) and (4); Knyazev et al., NeurIPS 2021.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from networks.primitives import PRIMITIVES, PrimitiveGraph
from warehouse.records import BadInput

Floats = NDArray[np.float32]
Places = NDArray[np.int32]
F = TypeVar("F", bound=Callable[..., object])


def _compiled(function: F) -> F:
    made: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return cast(F, made)


@_compiled
def distances(first: Places, targets: Places, most: int) -> NDArray[np.int16]:
    """Return the length of the shortest path from each node to each other, 0 where there is none.

    Args:
        first: [nodes + 1], where the targets of each node begin.
        targets: [edges], sorted by source.
        most: longer paths are not looked for.
    """
    nodes = len(first) - 1
    found = np.zeros((nodes, nodes), np.int16)
    queue = np.empty(nodes, np.int32)
    for source in range(nodes):
        head, tail = 0, 1
        queue[0] = source
        while head < tail:
            node = queue[head]
            head += 1
            length = found[source, node] + 1
            if length > most:
                break
            for place in range(first[node], first[node + 1]):
                target = targets[place]
                if found[source, target] == 0:
                    found[source, target] = length
                    queue[tail] = target
                    tail += 1
    return found


@_compiled
def _perceptron(state: Any, weights: Any, biases: Any, out_weights: Any, out_biases: Any) -> Any:
    """Return a perceptron of one hidden layer of rectified units."""
    size = len(out_biases)
    result = np.empty(size, np.float32)
    hidden = np.empty(len(biases), np.float32)
    for row in range(len(biases)):
        total = biases[row]
        for column in range(len(state)):
            total += weights[row, column] * state[column]
        hidden[row] = max(total, np.float32(0.0))
    for row in range(size):
        total = out_biases[row]
        for column in range(len(hidden)):
            total += out_weights[row, column] * hidden[column]
        result[row] = total
    return result


@_compiled
def _gated(
    state: Any, message: Any, of_message: Any, of_state: Any, b_message: Any, b_state: Any
) -> Any:
    """Return the next state of a gated recurrent unit (Cho et al., EMNLP 2014, eq. 5 to 8).

    Weights are [3 × size, size]: reset, update, candidate.
    """
    size = len(state)
    result = np.empty(size, np.float32)
    told = np.empty(3 * size, np.float32)
    kept = np.empty(3 * size, np.float32)
    for row in range(3 * size):
        by_message, by_state = b_message[row], b_state[row]
        for column in range(size):
            by_message += of_message[row, column] * message[column]
            by_state += of_state[row, column] * state[column]
        told[row], kept[row] = by_message, by_state
    for row in range(size):
        reset = np.float32(1.0) / (np.float32(1.0) + np.exp(-(told[row] + kept[row])))
        at = size + row
        update = np.float32(1.0) / (np.float32(1.0) + np.exp(-(told[at] + kept[at])))
        at += size
        candidate = np.tanh(told[at] + reset * kept[at])
        result[row] = (np.float32(1.0) - update) * candidate + update * state[row]
    return result


@_compiled
def traverse(
    states: Floats,
    lengths: NDArray[np.int16],
    passes: int,
    w1: Floats,
    b1: Floats,
    w2: Floats,
    b2: Floats,
    v1: Floats,
    c1: Floats,
    v2: Floats,
    c2: Floats,
    of_message: Floats,
    of_state: Floats,
    b_message: Floats,
    b_state: Floats,
) -> None:
    """Update states [nodes, size] in place: each pass forward, then backward (eq. 4).

    Args:
        states: first features of nodes, in an order in which they can run.
        lengths: of shortest paths, `distances`; 1 is an edge, more a virtual one of weight 1/s.
        passes: T.
        w1: with b1, w2, b2 the perceptron of edges.
        v1: with c1, v2, c2 that of virtual edges.
        of_message: with the others the gated recurrent unit.
        b1: see w1.
        w2: see w1.
        b2: see w1.
        c1: see v1.
        v2: see v1.
        c2: see v1.
        of_state: see of_message.
        b_message: see of_message.
        b_state: see of_message.
    """
    nodes, size = states.shape
    told = np.empty((nodes, size), np.float32)
    told_far = np.empty((nodes, size), np.float32)
    message = np.empty(size, np.float32)
    for _ in range(passes):
        for backward in range(2):
            for place in range(nodes):
                node = nodes - 1 - place if backward else place
                message[:] = 0
                for other_place in range(place):
                    other = nodes - 1 - other_place if backward else other_place
                    length = lengths[node, other] if backward else lengths[other, node]
                    if length == 1:
                        message += told[other]
                    elif length > 1:
                        message += told_far[other] / np.float32(length)
                states[node] = _gated(
                    states[node], message, of_message, of_state, b_message, b_state
                )
                told[node] = _perceptron(states[node], w1, b1, w2, b2)
                told_far[node] = _perceptron(states[node], v1, c1, v2, c2)


SHIPPED = Path(__file__).parent / "embedders"
"""A file a type of dataset: <type>.safetensors."""
SIZE = 32
"""Dimensions of a state, and of the embedding (section III-B)."""
MOST_STEPS = 50
"""s_max of virtual edges."""
PASSES = 1
"""T."""
SHAPES: Mapping[str, tuple[int, ...]] = {
    "embed": (len(PRIMITIVES), SIZE),
    "near.0.weight": (SIZE, SIZE),
    "near.0.bias": (SIZE,),
    "near.2.weight": (SIZE, SIZE),
    "near.2.bias": (SIZE,),
    "far.0.weight": (SIZE, SIZE),
    "far.0.bias": (SIZE,),
    "far.2.weight": (SIZE, SIZE),
    "far.2.bias": (SIZE,),
    "gru.weight_ih": (3 * SIZE, SIZE),
    "gru.weight_hh": (3 * SIZE, SIZE),
    "gru.bias_ih": (3 * SIZE,),
    "gru.bias_hh": (3 * SIZE,),
}
"""Of the embedder's parameters, as PyTorch names and lays them out."""


@dataclass(frozen=True, eq=False)
class Embedder:
    """A graph hypernetwork's parameters but its decoder's, `SHAPES` by name."""

    parameters: Mapping[str, Floats]

    def __post_init__(self) -> None:
        """Refuse other parameters.

        Raises:
            BadInput: naming the first that differs.
        """
        for name, shape in SHAPES.items():
            found = self.parameters.get(name)
            if found is None or found.shape != shape or found.dtype != np.float32:
                there = "nothing" if found is None else f"{found.dtype} {list(found.shape)}"
                raise BadInput(
                    f"embedder: expected {name} of float32 {list(shape)}, found {there}; train it "
                    "with this version"
                )

    @classmethod
    def untrained(cls, seed: int = 0) -> Self:
        """Return one of PyTorch's usual random parameters: uniform within 1/√inputs."""
        draw = np.random.default_rng(seed)
        bound = SIZE**-0.5
        parameters = {
            name: draw.uniform(-bound, bound, shape).astype(np.float32)
            for name, shape in SHAPES.items()
        }
        parameters["embed"] = draw.standard_normal(SHAPES["embed"]).astype(np.float32)
        return cls(parameters)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what training wrote.

        Raises:
            BadInput: there is no such file, or it is none of these.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return cls(load_file(path))
        except (OSError, SafetensorError) as error:
            raise BadInput(f"{path}: expected an embedder's parameters ({error})") from None

    def write(self, path: Path) -> None:
        """Write the parameters (safetensors)."""
        from safetensors.numpy import save_file

        save_file({name: np.ascontiguousarray(self.parameters[name]) for name in SHAPES}, path)

    def embedding(self, graph: PrimitiveGraph) -> Floats:
        """Return the mean of the nodes' last states, [SIZE]."""
        mean: Floats = self.states(graph).mean(axis=0, dtype=np.float64).astype(np.float32)
        return mean

    def states(self, graph: PrimitiveGraph) -> Floats:
        """Return the nodes' last states, [nodes, SIZE]."""
        states = self.parameters["embed"][types_of(graph)]
        traverse(states, lengths_of(graph), PASSES, *self._weights)
        return states

    @cached_property
    def _weights(self) -> tuple[Floats, ...]:
        return tuple(
            np.ascontiguousarray(self.parameters[name]) for name in SHAPES if name != "embed"
        )


def types_of(graph: PrimitiveGraph) -> NDArray[np.int64]:
    """Return the place of each node's type in `PRIMITIVES`."""
    places = {name: place for place, name in enumerate(PRIMITIVES)}
    return np.array([places[node.type] for node in graph.nodes])


def lengths_of(graph: PrimitiveGraph) -> NDArray[np.int16]:
    """Return the edges of the shortest path from each node to each other, [nodes, nodes].

    0 where no path leads, or one of more than `MOST_STEPS`.
    """
    edges = np.array(sorted(graph.edges), np.int32).reshape(-1, 2)
    first = np.searchsorted(edges[:, 0], np.arange(len(graph.nodes) + 1)).astype(np.int32)
    return distances(first, np.ascontiguousarray(edges[:, 1]), MOST_STEPS)


def cosine_distance(one: Floats, other: Floats) -> float:
    """Return 1 less the cosine of the angle between two embeddings."""
    return float(1 - one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
