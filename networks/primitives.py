"""A DNN as a graph of primitive operations, as graph hypernetworks read it; loads no framework.

Source: Assogba et al., PredictDDL, section II-B and Fig. 3; Knyazev et al., NeurIPS 2021, GHN-2.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

PRIMITIVES = (
    "input",
    "conv",
    "group_conv",
    "depthwise_conv",
    "dilated_conv",
    "linear",
    "matmul",
    "attention",
    "embedding",
    "bias",
    "scale",
    "batch_norm",
    "layer_norm",
    "max_pool",
    "avg_pool",
    "global_pool",
    "sum",
    "product",
    "concat",
    "other",
)
"""Kinds of nodes. Activations and changes of shape are parts of edges, as in GHN-2."""
MOST_NODES = 5_000
"""Of a graph that somebody sends."""


@dataclass(frozen=True)
class Primitive:
    """An operation of the forward pass, for one image.

    Attributes:
        type: one of `PRIMITIVES`.
        parameters: trained ones that it reads.
        flops: multiplications and additions of matrix products and convolutions, each as one.
        output_elements: of its result.
        kernel: elements of a convolution's or pool's window; 0 of all others.
    """

    type: str
    parameters: int = 0
    flops: float = 0.0
    output_elements: int = 0
    kernel: int = 0


@dataclass(frozen=True)
class PrimitiveGraph:
    """The primitives of a DNN, and which results each reads.

    Attributes:
        dnn: its name.
        image_size: side of the images, pixels; 0 where it takes none.
        nodes: in an order in which they can run.
        edges: pairs (from, to) of places in `nodes`, from before to.
        parameter_count: all that are trained.
    """

    dnn: str
    image_size: int
    nodes: tuple[Primitive, ...]
    edges: tuple[tuple[int, int], ...]
    parameter_count: int

    def __post_init__(self) -> None:
        """Refuse what is no graph of primitives.

        Raises:
            ValueError: naming what is wrong.
        """
        if not 0 < len(self.nodes) <= MOST_NODES:
            raise ValueError(f"expected 1 to {MOST_NODES:,} nodes, found {len(self.nodes):,}")
        for place, node in enumerate(self.nodes):
            if node.type not in PRIMITIVES:
                known = ", ".join(PRIMITIVES)
                raise ValueError(f"node {place}: no primitive {node.type!r}; there are {known}")
        for source, target in self.edges:
            if not 0 <= source < target < len(self.nodes):
                raise ValueError(
                    f"edge {source} → {target}: expected places of {len(self.nodes)} nodes, the "
                    "first before the second"
                )

    @cached_property
    def histogram(self) -> Mapping[str, int]:
        """How many nodes there are of each type."""
        counts = Counter(node.type for node in self.nodes)
        return {name: counts[name] for name in PRIMITIVES}

    @cached_property
    def flops(self) -> float:
        """Of a forward pass of one image."""
        return sum(node.flops for node in self.nodes)

    @cached_property
    def activations(self) -> int:
        """Elements of all results of a forward pass of one image."""
        return sum(node.output_elements for node in self.nodes)

    def to_json(self) -> str:
        """Return it as a line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the graph of what `to_json` wrote, parsed.

        Raises:
            ValueError, TypeError, KeyError: it is none.
        """
        nodes = tuple(Primitive(**node) for node in fields["nodes"])
        edges = tuple((int(source), int(target)) for source, target in fields["edges"])
        return cls(**{**fields, "nodes": nodes, "edges": edges})
