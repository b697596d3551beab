"""How fast Srift's optimiser answers: the case studies of section 5.2, and a large catalogue."""

import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial

from benchmarks.child import best_of
from models.choice.limits import Job
from models.choice.offers import Offer
from models.srift import iteration
from models.srift.allreduce_samples import AlphaBeta, Line
from models.srift.iteration import NodeProfile, Performance
from models.srift.latency import Latency, PiecewiseLinear, sample_points
from models.srift.optimizer import OptimizerResult, optimize
from warehouse.records import StepcastError

# Made-up profiles: of the paper's cases, and of a large catalogue. Where the paper prints a number
# it is used: types, capacities, spot prices and largest batches (Table 4) and link speeds (Table
# 2). Seconds per sample are declared here, of the order of the configurations it prints (section
# 5.2); so are latencies of all-reduces, and layers, whose sizes add up to those of the real
# networks.


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


# What is timed.

_AGREE = 1e-9


@dataclass(frozen=True)
class OptimizerReport:
    """Figures of one benchmark.

    `catalogue_configurations` is how many ways there are to divide the catalogue's global batch,
    counted before any is ruled out. Choices are in the order of the times.
    """

    case1_s: float
    case2_s: float
    case3_s: float
    catalogue_s: float
    catalogue_configurations: int
    choices: tuple[str, ...]

    def to_dict(self) -> dict[str, float]:
        """Return the figures by key."""
        return {key: value for key, value in asdict(self).items() if key != "choices"}


def measure(
    types: int = 40, capacity: int = 64, progress: Callable[[str], None] = lambda _: None
) -> OptimizerReport:
    """Time the three cases and a catalogue; every optimum is confirmed by the event simulator.

    Raises:
        StepcastError: the event simulator does not agree with an optimum.
    """
    cases = [case(1), case(2), case(3), catalogue(types, capacity)]
    times_s, answers = [], []
    for number, study in enumerate(cases, 1):
        progress(f"case {number}" if number < 4 else f"{types} types of {capacity} nodes")
        answers.append(confirm_answer(study))
        times_s.append(best_of(3, partial(answer, study)))
    return OptimizerReport(
        case1_s=times_s[0],
        case2_s=times_s[1],
        case3_s=times_s[2],
        catalogue_s=times_s[3],
        catalogue_configurations=answers[-1].configurations,
        choices=tuple(
            "none" if answered.choice is None else answered.choice.configuration.label
            for answered in answers
        ),
    )


def answer(case: CaseStudy) -> OptimizerResult:
    """Search a case exhaustively."""
    return optimize(case.performance, case.offers, case.job, max_types=case.max_types)


def confirm_answer(case: CaseStudy) -> OptimizerResult:
    """Return the answer to a case whose choices the event simulator expects to take as long.

    Raises:
        StepcastError: it does not.
    """
    answered = answer(case)
    for choice in [answered.choice, *answered.alternatives]:
        if choice is None:
            continue
        alone_s = iteration.simulate(case.performance, choice.configuration).step_time_s
        if abs(alone_s / choice.step_time_s - 1) > _AGREE:
            raise StepcastError(
                f"{choice.configuration.label}: the search expects {choice.step_time_s} s a step, "
                f"the event simulator {alone_s} s; this is a defect of the search"
            )
    return answered
