"""Where a scenario lies among others: its coordinates, and how far two scenarios are apart.

A doubling counts as one, in each of: operations of a step, parameters, workers, servers, speed of
links. Another network, other nodes and other cross traffic count as one each. docs/predict.md says
the same to users, and how well errors nearby tell the error of a forecast.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2

from networks.catalogue import OWN
from networks.extraction import primitive_graphs
from networks.figures import Figures, figures
from warehouse.records import Scenario

UNKNOWN = 3.0
"""Doublings between networks where the size of one is not known: operations and parameters each."""
NUMBERS: Mapping[str, str] = {
    "flops": "operations in a step of a device",
    "parameters": "parameters",
    "workers": "workers",
    "servers": "parameter servers",
    "link_mbps": "Mb/s of links",
}
"""The coordinates that are numbers, in words."""


@dataclass(frozen=True)
class Coordinates:
    """What tells scenarios apart.

    Attributes:
        training: framework and strategy; scenarios of other training are not compared.
        network: its name.
        pixels: of all images in a step of a device; 0: it sees none.
        numbers: those of `NUMBERS` that are known, all more than zero.
        nodes: types of workers, as many as each has.
        cross_traffic: part of the links that others use.
    """

    training: tuple[str, str]
    network: str
    pixels: int
    numbers: Mapping[str, float]
    nodes: frozenset[str]
    cross_traffic: float

    def distance(self, other: "Coordinates") -> float:
        """Return how far another scenario is; infinite if it is other training."""
        if self.training != other.training:
            return float("inf")
        apart = float(self.network != other.network)
        apart += float(self.nodes != other.nodes)
        apart += float(self.cross_traffic != other.cross_traffic)
        return apart + sum(self._doublings(other, name) for name in NUMBERS)

    def _doublings(self, other: "Coordinates", name: str) -> float:
        ours, theirs = self.numbers.get(name), other.numbers.get(name)
        if ours is not None and theirs is not None:
            return abs(log2(ours / theirs))
        if name not in ("flops", "parameters"):
            return 0.0
        if self.network != other.network:
            return UNKNOWN
        # Of one network, operations grow with what it sees.
        pixels = self.pixels, other.pixels
        return abs(log2(pixels[0] / pixels[1])) if name == "flops" and all(pixels) else 0.0


def coordinates(scenario: Scenario) -> Coordinates:
    """Return where a scenario lies."""
    load, strategy = scenario.workload, scenario.strategy
    batches = [group.batch_size or load.batch_size for group in scenario.worker_groups]
    numbers = {"workers": float(strategy.workers)}
    if strategy.servers:
        numbers["servers"] = float(strategy.servers)
    if scenario.link_mbps is not None:
        numbers["link_mbps"] = scenario.link_mbps
    if (size := _figures(load.dnn, load.image_size)) is not None:
        numbers["parameters"] = float(size.parameters)
        numbers["flops"] = size.flops * max(batches)
    known = {name: value for name, value in numbers.items() if value > 0}
    return Coordinates(
        training=(load.framework, strategy.kind),
        network=load.dnn,
        pixels=load.image_size**2 * max(batches),
        numbers=known,
        nodes=frozenset(group.node_type for group in scenario.worker_groups),
        cross_traffic=scenario.cross_traffic or 0.0,
    )


def _figures(dnn: str, image_size: int) -> Figures | None:
    """Return about how large a network is; None where no table has it."""
    if dnn.startswith(OWN):
        # The graph of a user's model is at hand while it is asked about.
        try:
            return Figures.of(primitive_graphs([(dnn, image_size)])[dnn, image_size])
        except ValueError:
            return None
    return figures(dnn, image_size)
