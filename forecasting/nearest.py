"""The nearest judged cases: how far scenarios are apart, and how wrong forecasts of like ones were.

`find_nearest_cases` is what `predict` and `recommend` ask. The check on committed data is in
`lab/srift.md`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from math import log2

from networks.catalogue import OWN
from networks.extraction import primitive_graphs
from networks.figures import Figures, figures
from warehouse.records import Backend, Scenario
from warehouse.warehouse import Warehouse

# Where a scenario lies among others: its coordinates, and how far two scenarios are apart.
#
# A doubling counts as one, in each of: operations of a step, parameters, workers, servers, speed of
# links. Another network, other nodes and other cross traffic count as one each. docs/predict.md
# says the same to users, and how well errors nearby tell the error of a forecast.


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
        training: as of `Scenario`; scenarios of other training are not compared.
        network: its name.
        pixels: of all images in a step of a device; 0: it sees none.
        numbers: those of `NUMBERS` that are known, all more than zero.
        nodes: types of workers, as many as each has.
        cross_traffic: part of the links that others use.
    """

    training: tuple[str, str, str]
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
        value, other_value = self.numbers.get(name), other.numbers.get(name)
        if value is not None and other_value is not None:
            return abs(log2(value / other_value))
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
        training=scenario.training,
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


_LINKS_REACH = 2.0
"""Of links of one speed, how many times as fast or slow ones are near."""
NEAREST = 5
"""How many judged scenarios tell of a case."""


@dataclass(frozen=True)
class Neighbour:
    """A scenario that a system forecast and that was then measured.

    Attributes:
        label: of the scenario.
        scenario_id: its hash.
        at: where it lies.
        error: of the forecast, percent of what was measured, signed; a mean over rounds.
        size: mean of the errors' sizes, percent.
        inside: how many of the intervals had what was measured.
        intervals: how many forecasts had an interval.
        split: how far the scenario was from what the fit saw.
    """

    label: str
    scenario_id: str
    at: Coordinates
    error: float
    size: float
    inside: int
    intervals: int
    split: str | None = None


Nearest = tuple[tuple[Neighbour, float], ...]
"""Judged scenarios with their distances, the nearest first."""


JudgedScenarios = Mapping[tuple[str, str], Sequence[Neighbour]]
"""All scenarios that were judged on a backend, by system and metric."""


def read_judged_scenarios(
    warehouse: Warehouse, backend: Backend, known_by: datetime | None = None
) -> JudgedScenarios:
    """Read what had been judged by a time, whether a study asked for the forecast or a user."""
    neighbours: dict[tuple[str, str], list[Neighbour]] = {}
    places: dict[str, Coordinates] = {}
    when = None if known_by is None else known_by.isoformat()
    query = warehouse.kept_query if when is None else warehouse.query  # no moment comes again
    rows = query("judged_scenarios", backend=backend, known_by=when)
    for row in rows.to_dicts():
        key = row["scenario_id"]
        if key not in places:
            places[key] = coordinates(Scenario.model_validate(json.loads(row["canonical"])))
        neighbour = Neighbour(
            label=row["label"],
            scenario_id=key,
            at=places[key],
            error=row["error_percent"],
            size=row["ape_percent"],
            inside=row["inside"],
            intervals=row["with_interval"],
            split=row["split"],
        )
        neighbours.setdefault((row["system"], row["metric"]), []).append(neighbour)
    return neighbours


def find_nearest_cases(
    judged: JudgedScenarios, system: str, metric: str, scenario: Scenario, split: str | None = None
) -> tuple[Nearest, str | None]:
    """Return the judged scenarios nearest to one, and why it is farther out than all of them.

    None: it is not, or too little was judged to tell. Those of the same split come first: a
    scenario that its fit had seen tells little of others.

    Args:
        judged: what has been judged on the backend.
        system: that forecasts, by name.
        metric: that it forecasts, by name.
        scenario: that is asked about.
        split: how far it is from what the fit saw; None: not known.
    """
    at = coordinates(scenario)
    neighbours = [
        neighbour
        for neighbour in judged.get((system, metric), ())
        if neighbour.at.training == at.training
    ]
    ranked = sorted(
        ((neighbour, at.distance(neighbour.at)) for neighbour in neighbours),
        key=lambda near: (split not in (None, near[0].split), near[1], near[0].label),
    )
    # A scenario of which forecasts of several splits were judged is there once.
    nearest: dict[str, tuple[Neighbour, float]] = {}
    for near in ranked:
        nearest.setdefault(near[0].scenario_id, near)
    far = "; ".join(_beyond(at, [neighbour.at for neighbour in neighbours]))
    far = far and f"{far}; list it under test of a study: `stepcast run` judges it"
    return tuple(nearest.values())[:NEAREST], far or None


def _beyond(at: Coordinates, known: Sequence[Coordinates]) -> Iterator[str]:
    for name, words in NUMBERS.items():
        value = at.numbers.get(name)
        values = sorted({point.numbers[name] for point in known if name in point.numbers})
        reached = judged_range(values)
        if value is None or reached is None or reached[0] <= value <= reached[1]:
            continue
        nearest = reached[0] if value < reached[0] else reached[1]
        yield (
            f"{format_amount(value)} {words}, where forecasts were judged from "
            f"{format_amount(values[0])} to {format_amount(values[-1])}; first measure a scenario "
            f"of {format_amount(nearest)} {words}"
        )


def far_links(
    scenario: Scenario, trained: Iterable[Scenario | None], judged: Sequence[Neighbour]
) -> str | None:
    """Return how far links are from those of measured steps, where no judged forecast bounds it."""
    asked = scenario.link_mbps
    if asked is None:
        return None
    known = sorted({of.link_mbps for of in trained if of is not None and of.link_mbps is not None})
    of_judged = {neighbour.at.numbers.get("link_mbps") for neighbour in judged}
    if not known or len(of_judged) > 1:
        return None
    least, most = judged_range(known) or (known[0] / _LINKS_REACH, known[0] * _LINKS_REACH)
    if least <= asked <= most:
        return None
    return (
        f"{asked:,.10g} Mb/s of links, where steps were measured from {known[0]:,.10g} to "
        f"{known[-1]:,.10g}"
    )


def format_amount(number: float) -> str:
    """Return a number in four digits, as people read it: 66,600, 13.36 million."""
    rounded = float(f"{number:.4g}")
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if rounded >= size:
            return f"{rounded / size:.4g} {word}"
    return f"{rounded:,.10g}"


def judged_range(values: Sequence[float]) -> tuple[float, float] | None:
    """Return how far forecasts reach that were judged at some values of a coordinate.

    Between two neighbouring values forecasts are trusted, so as far as the widest such gap (a
    factor, two at least) they are trusted beyond the ends, too. With one value there is no gap:
    None.

    Args:
        values: that differ, all more than zero, in ascending order.
    """
    gaps = [larger / smaller for smaller, larger in pairwise(values)]
    widest = max(gaps, default=1.0)
    return (values[0] / max(widest, 2.0), values[-1] * max(widest, 2.0)) if gaps else None
