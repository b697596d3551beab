"""How large PyTorch's networks are, from a table: no graph is extracted, no framework loaded.

Plans need to know about how long steps take before anything has run, and studies are written by
rules about it. `python -m networks.figures` makes the table anew from all graphs: two minutes.
"""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from networks.catalogue import minimum_image_size, names
from networks.extraction import primitive_graphs
from networks.primitives import PrimitiveGraph

SIDE = 64
"""Of the images that the table is about, pixels; networks that need larger ones are at theirs."""
FILE = Path(__file__).with_name("figures.csv")


class Figures(NamedTuple):
    """Of a forward pass of one image.

    Attributes:
        image_size: side of the image, pixels.
        flops: of convolutions and products; multiplications and additions count as one each.
        depthwise_flops: those of them in convolutions of single channels.
        activations: elements of all results.
        parameters: that are trained.
        nodes: operations.
    """

    image_size: int
    flops: float
    depthwise_flops: float
    activations: float
    parameters: int
    nodes: int

    def at(self, image_size: int) -> "Figures":
        """Return about what they are of an image of another size: maps grow with its area."""
        area = (image_size / self.image_size) ** 2
        return self._replace(
            image_size=image_size,
            flops=area * self.flops,
            depthwise_flops=area * self.depthwise_flops,
            activations=area * self.activations,
        )

    @classmethod
    def of(cls, graph: PrimitiveGraph) -> "Figures":
        """Return those of a graph."""
        depthwise = (node.flops for node in graph.nodes if node.type == "depthwise_conv")
        return cls(
            graph.image_size,
            graph.flops,
            sum(depthwise),
            graph.activations,
            graph.parameter_count,
            len(graph.nodes),
        )


def figures(dnn: str, image_size: int) -> Figures | None:
    """Return about how large a network of PyTorch is; None of one that is not in the table."""
    tabled = table().get(dnn)
    return tabled and tabled.at(image_size)


@cache
def table() -> Mapping[str, Figures]:
    """Return the figures of each network in the table, by name."""
    with FILE.open(newline="") as file:
        return {
            row["dnn"]: Figures(
                int(row["image_size"]),
                float(row["flops"]),
                float(row["depthwise_flops"]),
                float(row["activations"]),
                int(row["parameters"]),
                int(row["nodes"]),
            )
            for row in csv.DictReader(file)
        }


def main() -> None:
    """Write the table."""
    keys = [(name, max(SIDE, minimum_image_size(name, "pytorch"))) for name in names("pytorch")]
    graphs = primitive_graphs(keys)
    with FILE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["dnn", *Figures._fields])
        for key in keys:
            sizes = Figures.of(graphs[key])
            counts = map(round, (sizes.flops, sizes.depthwise_flops, sizes.activations))
            writer.writerow([key[0], sizes.image_size, *counts, sizes.parameters, sizes.nodes])


if __name__ == "__main__":
    main()
