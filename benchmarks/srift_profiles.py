"""Made-up profiles for the optimiser's benchmark: of the paper's cases, and of a large catalogue.

Where the paper prints a number it is used: types, capacities, spot prices and largest batches
(Table 4) and link speeds (Table 2). Seconds per sample are declared here, of the order of the
configurations it prints (section 5.2); so are latencies of all-reduces, and layers, whose sizes
add up to those of the real networks.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from models.choice.limits import Job
from models.choice.offers import Offer
from models.srift.allreduce_samples import AlphaBeta, Line
from models.srift.latency import Latency, PiecewiseLinear, sample_points
from models.srift.performance import NodeProfile, Performance

GBPS = 1e9 / 8
_SCALE = 0.036
_HOP_S = 25e-6
_START_S = 0.01
LINKS = {"p3.8xlarge": 11.2 * GBPS, "g3.8xlarge": 11.9 * GBPS, "g4dn.8xlarge": 20.3 * GBPS}
PRICES = {"p3.8xlarge": 3.68, "g3.8xlarge": 0.69, "g4dn.8xlarge": 0.72}


@dataclass(frozen=True)
class CaseStudy:
    """A network, what is on offer, what is asked."""

    performance: Performance
    offers: tuple[Offer, ...]
    job: Job
    max_types: int | None = None


@dataclass(frozen=True)
class CaseNetwork:
    """Layers, bytes in all, and seconds per sample and largest batch per node by node type."""

    layers: int
    total_bytes: int
    seconds: Mapping[str, float]
    max_batch: Mapping[str, int]


INCEPTION = CaseNetwork(94, 95_000_000, {"g4dn.8xlarge": 0.0132}, {"g4dn.8xlarge": 128})
VGG = CaseNetwork(
    19,
    574_000_000,
    {"g3.8xlarge": 0.0165, "g4dn.8xlarge": 0.0145},
    {"g3.8xlarge": 64, "g4dn.8xlarge": 128},
)
SHUFFLENET = CaseNetwork(
    57,
    29_600_000,
    {"p3.8xlarge": 0.00031, "g3.8xlarge": 0.0026, "g4dn.8xlarge": 0.0025},
    {"p3.8xlarge": 1024, "g3.8xlarge": 256, "g4dn.8xlarge": 256},
)


def case(number: int) -> CaseStudy:
    """Return case study 1, 2 or 3 of section 5.2."""
    if number == 1:
        job = Job(global_batch=1024, iterations=1000, minimize="time")
        return _case(INCEPTION, {"g4dn.8xlarge": 16}, job)
    if number == 2:
        job = Job(global_batch=1024, iterations=1000, minimize="cost")
        return _case(VGG, {"g4dn.8xlarge": 16, "g3.8xlarge": 16}, job)
    job = Job(global_batch=6144, iterations=1000, minimize="time", deadline_s=600.0, budget_usd=3.0)
    return _case(SHUFFLENET, {"p3.8xlarge": 4, "g3.8xlarge": 8, "g4dn.8xlarge": 8}, job)


def catalogue(types: int = 40, capacity: int = 64) -> CaseStudy:
    """Return a job for many node types, alone and in pairs, with 64 samples for each node of one.

    Prices follow speed: faster types cost more per sample, by chance a fifth more or less. Within
    the deadline of a second per iteration, the slowest types are too slow.
    """
    source = random.Random(5)
    names = [f"type{i:02}" for i in range(types)]
    speed = {name: 2 ** source.uniform(-1.5, 1.5) for name in names}
    network = CaseNetwork(
        54,
        102_000_000,
        {name: 0.01 / speed[name] for name in names},
        {name: 2 ** source.randint(5, 9) for name in names},
    )
    links = {name: source.choice([5, 10, 20, 25]) * GBPS for name in names}
    offers = tuple(
        Offer(
            node_type=name,
            market="spot",
            usd_per_hour=speed[name] ** 1.2 * source.uniform(0.8, 1.2),
            capacity=capacity,
        )
        for name in names
    )
    job = Job(global_batch=64 * capacity, iterations=1000, minimize="cost", deadline_s=1000.0)
    return CaseStudy(_performance(network, links, {}), offers, job, max_types=2)


def _case(network: CaseNetwork, capacities: Mapping[str, int], job: Job) -> CaseStudy:
    offers = tuple(
        Offer(node_type=name, market="spot", usd_per_hour=PRICES[name], capacity=capacity)
        for name, capacity in capacities.items()
    )
    return CaseStudy(_performance(network, LINKS, {"p3.8xlarge": 4}), offers, job)


def _performance(
    network: CaseNetwork, links: Mapping[str, float], devices: Mapping[str, int]
) -> Performance:
    source = random.Random(7)
    weights = [source.uniform(0.1, 1.9) for _ in range(network.layers)]
    layer_bytes = tuple(int(network.total_bytes * weight / sum(weights)) for weight in weights)
    # Gradients are there in reverse order, at even distances.
    ready = tuple(1 - i / network.layers for i in range(network.layers))
    nodes = {
        name: _node(seconds, network.max_batch[name], devices.get(name, 1), ready, links[name])
        for name, seconds in network.seconds.items()
    }
    lines = {name: Line(hop_s=_HOP_S, link_Bps=links[name]) for name in nodes}
    return Performance(layer_bytes, nodes, AlphaBeta(lines=lines))


def _node(
    seconds: float, max_batch: int, devices: int, ready: tuple[float, ...], link_Bps: float
) -> NodeProfile:
    """Return a profile of `seconds` per sample of a node, a third of it forward."""
    points = sample_points(max_batch // devices)
    passes = [
        PiecewiseLinear(
            batch_sizes=points,
            seconds=tuple((_START_S + seconds * devices * batch) * part for batch in points),
        )
        for part in (1 / 3, 2 / 3)
    ]
    latency = Latency(forward=passes[0], backward=passes[1], straggler_scale=_SCALE)
    return NodeProfile(
        devices=devices,
        max_batch=max_batch // devices,
        latency=latency,
        ready=ready,
        link_Bps=link_Bps,
    )
