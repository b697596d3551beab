"""The embedding of a DNN's graph by a graph hypernetwork, compiled, without its decoder.

Nodes begin as learned vectors of their operation (a one-hot vector times a matrix). In the order of
a forward pass, then of a backward pass, each gets a message of those before it: of its neighbours,
and along virtual edges of those that a shortest path of s edges leads from, divided by s. A gated
recurrent unit makes its next state of both. The embedding is the mean of the nodes' last states.

Source: Assogba et al., PredictDDL, section III-E, eq. (3) and (4); Knyazev et al., NeurIPS 2021.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from networks.kept_graphs import keep, kept
from networks.primitives import PRIMITIVES, PrimitiveGraph
from warehouse.records import BadInput, error_context

Floats = NDArray[np.float32]
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
            array = self.parameters.get(name)
            if array is None or array.shape != shape or array.dtype != np.float32:
                kind = "nothing" if array is None else f"{array.dtype} {list(array.shape)}"
                raise BadInput(
                    f"embedder: expected {name} of float32 {list(shape)}, found {kind}; train it "
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

        with error_context(f"{path}: expected an embedder's parameters", OSError, SafetensorError):
            return cls(load_file(path))

    def write(self, path: Path) -> None:
        """Write the parameters (safetensors)."""
        from safetensors.numpy import save_file

        save_file({name: np.ascontiguousarray(self.parameters[name]) for name in SHAPES}, path)

    def embedding(self, graph: PrimitiveGraph) -> Floats:
        """Return the mean of the nodes' last states, [SIZE]; kept beside graphs."""
        content = sha256(self._digest)
        content.update(json.dumps(asdict(graph), sort_keys=True).encode())
        name = f"embedding-{content.hexdigest()[:32]}"
        if (before := kept(name)) is not None:
            return np.array(before, np.float32)
        mean: Floats = self.states(graph).mean(axis=0, dtype=np.float64).astype(np.float32)
        keep(name, json.dumps(mean.tolist()))
        return mean

    def states(self, graph: PrimitiveGraph) -> Floats:
        """Return the nodes' last states, [nodes, SIZE]."""
        from models.predictddl.message_passing import traverse  # loads a compiler

        states = self.parameters["embed"][types_of(graph)]
        near, far, gru = (self._parts[place : place + 4] for place in (0, 4, 8))
        traverse(states, lengths_of(graph), PASSES, near, far, gru)
        return states

    @cached_property
    def _digest(self) -> bytes:
        """What tells this embedder from another, in its parameters or its code."""
        content = sha256()
        for name in SHAPES:
            content.update(np.ascontiguousarray(self.parameters[name]).tobytes())
        for file in (Path(__file__), Path(__file__).with_name("message_passing.py")):
            content.update(file.read_bytes())
        return content.digest()

    @cached_property
    def _parts(self) -> tuple[Floats, ...]:
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
    from models.predictddl.message_passing import distances

    edges = np.array(sorted(graph.edges), np.int32).reshape(-1, 2)
    first = np.searchsorted(edges[:, 0], np.arange(len(graph.nodes) + 1)).astype(np.int32)
    return distances(first, np.ascontiguousarray(edges[:, 1]), MOST_STEPS)


def cosine_distance(embedding: Floats, other: Floats) -> float:
    """Return 1 less the cosine of the angle between two embeddings."""
    return float(1 - embedding @ other / (np.linalg.norm(embedding) * np.linalg.norm(other)))
