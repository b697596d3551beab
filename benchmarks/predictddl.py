"""How fast PredictDDL answers, alone and beside Ernest, which measures each workload first.

Steps that it learns from are made up: a sum of what real graphs count. What Ernest's own runs take
is what a plan expects of them: starts of programs and iterations on the nodes of the workloads.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle, islice, product

from benchmarks.child import best_of
from models.ernest import features
from models.ernest.systems import ERNEST
from models.predictddl.fitted import PredictDDL
from models.predictddl.ghn import Embedder
from models.predictddl.known import Key, Known
from models.predictddl.observed import Observed
from models.predictddl.work import Work
from networks.primitives import Primitive, PrimitiveGraph
from profilers.probe import Asked
from profilers.probes import PROBES
from warehouse.asks import Refusal
from warehouse.records import NodeGroup, Scenario, Strategy, Workload

NETWORKS = (
    "small_cnn",
    "squeezenet",
    "alexnet",
    "vgg11",
    "resnet18",
    "mobilenet",
    "shufflenet_v2",
    "resnet50",
)
SIDE, LINK_MBPS, MOST_WORKERS = 64, 500.0, 8
_FLOPS, _LINK_BPS = 3e9, LINK_MBPS * 125_000
_KINDS = ("conv", "batch_norm", "sum", "depthwise_conv", "batch_norm", "concat")


@dataclass(frozen=True)
class Report:
    """Figures of one benchmark.

    Attributes:
        embed_ms: embedding of a graph of 500 nodes, on one core.
        trace_ms: the graph of ResNet-50 from its module, frameworks loaded.
        batch100_s: forecasts of 100 workloads whose graphs are at hand.
        ratio_to_ernest: Ernest's time for eight workloads, its runs included, over ours.
        ratio_without_probes: the same without Ernest's runs.
    """

    embed_ms: float
    trace_ms: float
    batch100_s: float
    ratio_to_ernest: float
    ratio_without_probes: float

    def to_dict(self) -> dict[str, float]:
        """Return the figures by key."""
        return asdict(self)


def measure(
    networks: Sequence[str] = NETWORKS, progress: Callable[[str], None] = lambda _: None
) -> Report:
    """Time an embedding, a graph, a batch of forecasts, and eight workloads beside Ernest."""
    from networks.primitive_graph import primitive_graph

    embedder = Embedder.untrained()
    progress("graphs")
    graphs = {(name, SIDE): primitive_graph(name, SIDE) for name in networks}
    large = chain(500)
    embedder.embedding(large)
    embed_s = best_of(5, partial(embedder.embedding, large))
    trace_s = best_of(3, partial(primitive_graph, "resnet50", SIDE))
    progress("fit to made-up steps")
    fitted = PredictDDL.fit(known(networks, graphs, embedder))
    asked = [scenario(*one) for one in product(networks, (3, 6), (8, 6, 10))]
    hundred = list(islice(cycle(asked), 100))
    fitted.predict(hundred)
    batch100_s = best_of(3, partial(fitted.predict, hundred))
    workloads = [scenario(name, 6, 8) for name in networks]
    progress(f"{len(workloads)} workloads by PredictDDL and by Ernest")
    started_s = time.perf_counter()
    for name in networks:
        embedder.embedding(primitive_graph(name, SIDE))
    fitted.predict(workloads)
    ours_s = time.perf_counter() - started_s
    probes_s, answers_s = ernest_s(workloads, graphs)
    return Report(
        embed_ms=1e3 * embed_s,
        trace_ms=1e3 * trace_s,
        batch100_s=batch100_s,
        ratio_to_ernest=(probes_s + answers_s) / ours_s,
        ratio_without_probes=answers_s / ours_s,
    )


def chain(nodes: int) -> PrimitiveGraph:
    """Return a graph of so many nodes, with a shortcut over every five."""
    kinds = ("input", *islice(cycle(_KINDS), nodes - 1))
    edges = {(place, place + 1) for place in range(nodes - 1)}
    edges |= {(place, place + 5) for place in range(0, nodes - 5, 5)}
    return PrimitiveGraph("chain", SIDE, tuple(map(Primitive, kinds)), tuple(sorted(edges)), 0)


def known(
    networks: Sequence[str], graphs: Mapping[Key, PrimitiveGraph], embedder: Embedder
) -> Known:
    """Return made-up runs of networks, on 1 to 8 nodes with two batches."""
    made = [scenario(*one) for one in product(networks, (1, 2, 4, 8), (4, 12))]
    runs = [Observed(one, step_s(one, graphs)) for one in made]

    def at_hand(wanted: Iterable[Key]) -> Mapping[Key, PrimitiveGraph]:
        return {key: graphs[key] for key in wanted}

    return Known(runs, {}, at_hand, embedder)


def scenario(dnn: str, workers: int, batch_size: int) -> Scenario:
    """Return training on nodes of a core each."""
    return Scenario(
        workload=Workload(dnn=dnn, framework="pytorch", image_size=SIDE, batch_size=batch_size),
        strategy=Strategy(kind="all_reduce", workers=workers),
        nodes=(NodeGroup(role="worker", node_type="bench", count=workers, cpu_share=1.0),),
        link_mbps=LINK_MBPS,
    )


def step_s(one: Scenario, graphs: Mapping[Key, PrimitiveGraph]) -> float:
    """Return made-up seconds: operations at a speed, and parameters over the link."""
    work = Work.of(graphs[one.workload.dnn, SIDE])
    workers = one.strategy.workers
    exchange_s = 2 * (workers - 1) / workers * 4 * work.parameters / _LINK_BPS
    return 3 * one.workload.batch_size * work.flops / _FLOPS + exchange_s + 1e-3 * work.nodes


def ernest_s(
    workloads: Sequence[Scenario], graphs: Mapping[Key, PrimitiveGraph]
) -> tuple[float, float]:
    """Return seconds that Ernest's own runs of workloads take, and its fits and forecasts."""
    probes_s = answers_s = 0.0
    probe = PROBES["torch_throughput"]
    for one in workloads:
        asks = ERNEST.rests_on(one)
        assert not isinstance(asks, Refusal)
        runs = tuple(ask.scenario for ask in asks)
        needs = list(probe.needs(Asked(own=runs), probe.settings()))
        # Runs that share a start pay for it once.
        starts = {need.start: need.start_s for need in needs}
        probes_s += sum(need.expected_s for need in needs) + sum(starts.values())
        started_s = time.perf_counter()
        rows = [features.features(run) for run in runs]
        found = features.fit(rows, [step_s(run, graphs) for run in runs])
        float(features.features(one) @ found)
        answers_s += time.perf_counter() - started_s
    return probes_s, answers_s
