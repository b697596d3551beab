"""How fast PredictDDL answers, alone and beside Ernest, which measures each workload first.

Steps that it learns from are made up: a sum of what real graphs count. What runs take, Ernest's own
and those that PredictDDL learns from, is what a plan expects of them: starts of programs and
iterations on the nodes of the workloads. All of it is on one core, of a process that has loaded its
frameworks; what is timed several times counts by its median.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle, islice, product

from benchmarks.child import median_of
from models import ernest
from models.ernest import ERNEST
from models.predictddl.fit import PredictDDL
from models.predictddl.observations import ObservedStep, one_thread
from models.predictddl.systems import load_shipped_embedder
from models.predictddl.training_set import Key, TrainingSet
from models.predictddl.work import Work
from networks.primitives import Primitive, PrimitiveGraph
from profilers.probe import RequestedScenarios
from profilers.probes import PROBES
from studies.planned_runs import expected_s, group_by_start
from warehouse.inputs import Refusal
from warehouse.records import NodeGroup, Scenario, Strategy, TrainingWorkload

LEARNED = (
    "small_cnn",
    "squeezenet",
    "alexnet",
    "vgg11",
    "resnet18",
    "mobilenet",
    "shufflenet_v2",
    "resnet50",
)
"""Networks of the runs that PredictDDL learns from."""
UNSEEN = (
    "squeezenet_v1_1",
    "resnet10",
    "resnet34",
    "preresnet18",
    "seresnet18",
    "mobilenet_wd2",
    "mobilenetv2_w1",
    "shufflenetv2_w1",
)
"""Networks of the workloads, of which it knows nothing."""
SIDE, LINK_MBPS = 64, 500.0
_FLOPS, _LINK_BPS = 3e9, LINK_MBPS * 125_000
_KINDS = ("conv", "batch_norm", "sum", "depthwise_conv", "batch_norm", "concat")


@dataclass(frozen=True)
class PredictDDLReport:
    """Figures of one benchmark.

    Attributes:
        embed_ms: embedding of a graph of 500 nodes.
        trace_ms: the graph of ResNet-50 from its module.
        batch100_s: forecasts of 100 workloads, each of a graph of its own that no run had and that
            was not embedded before. Embedding is in it; tracing is not.
        ratio_to_ernest: Ernest's time for eight workloads, its runs included, over ours: graphs of
            the networks we learn from, the fit, graphs of the workloads, and forecasts.
        ratio_without_probes: the same without Ernest's runs.
        ratio_with_training_runs: as ratio_to_ernest, and the runs that we learn from count as ours.
    """

    embed_ms: float
    trace_ms: float
    batch100_s: float
    ratio_to_ernest: float
    ratio_without_probes: float
    ratio_with_training_runs: float

    def to_dict(self) -> dict[str, float]:
        """Return the figures by key."""
        return asdict(self)


@one_thread()
def measure(
    learned: Sequence[str] = LEARNED,
    unseen: Sequence[str] = UNSEEN,
    progress: Callable[[str], None] = lambda _: None,
) -> PredictDDLReport:
    """Time an embedding, a graph, a batch of forecasts, and workloads beside Ernest.

    Args:
        learned: networks that PredictDDL learns from.
        unseen: networks of the workloads.
        progress: told what is timed now.
    """
    from networks.pytorch_graph import primitive_graph

    progress("embedding and graph")
    large = chain(500)
    load_shipped_embedder().embedding(large)
    embed_s = median_of(5, partial(load_shipped_embedder().embedding, large))
    trace_s = median_of(5, partial(primitive_graph, "resnet50", SIDE))
    progress(f"{len(unseen)} workloads by PredictDDL and by Ernest")
    workloads = [scenario(name, 6, 8) for name in unseen]
    started_s = time.perf_counter()
    graphs = {(name, SIDE): primitive_graph(name, SIDE) for name in learned}
    fitted = PredictDDL.fit(synthetic_training_set(learned, graphs))
    graphs |= {(name, SIDE): primitive_graph(name, SIDE) for name in unseen}
    fitted.predict(workloads)
    ours_s = time.perf_counter() - started_s
    probes_s, answers_s = ernest_s(workloads, graphs)
    progress("100 forecasts")
    hundred = variants([graphs[name, SIDE] for name in learned], 100)
    return PredictDDLReport(
        embed_ms=1e3 * embed_s,
        trace_ms=1e3 * trace_s,
        batch100_s=batch_s(fitted, hundred),
        ratio_to_ernest=(probes_s + answers_s) / ours_s,
        ratio_without_probes=answers_s / ours_s,
        ratio_with_training_runs=(probes_s + answers_s) / (ours_s + training_s(learned)),
    )


def batch_s(fitted: PredictDDL, graphs: Sequence[PrimitiveGraph]) -> float:
    """Return seconds of a forecast for each of some graphs, none of which was embedded before."""
    setups = cycle(product((3, 6), (8, 6, 10)))
    scenarios = [scenario(graph.dnn, *setup) for graph, setup in zip(graphs, setups, strict=False)]
    sent = {(graph.dnn, SIDE): graph for graph in graphs}
    # A fit that is sent graphs has embedded none of them.
    fresh = iter([fitted.knowing(sent, {}) for _ in range(5)])
    return median_of(5, lambda: next(fresh).predict(scenarios))


def variants(graphs: Sequence[PrimitiveGraph], count: int) -> list[PrimitiveGraph]:
    """Return so many graphs that differ: real ones with one or more convolutions after their end.

    Args:
        graphs: real ones.
        count: of graphs.
    """
    varied = []
    for place, graph in zip(range(count), cycle(graphs), strict=False):
        more, first = 1 + place // len(graphs), len(graph.nodes) - 1
        added = tuple(Primitive("conv", 4096, 4096.0 * 16, 64 * 16, 1) for _ in range(more))
        edges = tuple((first + place, first + place + 1) for place in range(more))
        varied.append(
            PrimitiveGraph(
                f"{graph.dnn}_{place}",
                SIDE,
                graph.nodes + added,
                graph.edges + edges,
                graph.parameter_count + 4096 * more,
            )
        )
    return varied


def chain(nodes: int) -> PrimitiveGraph:
    """Return a graph of so many nodes, with a shortcut over every five."""
    kinds = ("input", *islice(cycle(_KINDS), nodes - 1))
    edges = {(place, place + 1) for place in range(nodes - 1)}
    edges |= {(place, place + 5) for place in range(0, nodes - 5, 5)}
    return PrimitiveGraph("chain", SIDE, tuple(map(Primitive, kinds)), tuple(sorted(edges)), 0)


def synthetic_training_set(
    networks: Sequence[str], graphs: Mapping[Key, PrimitiveGraph]
) -> TrainingSet:
    """Return made-up runs of networks; graphs that are added later are at hand too."""
    runs = [ObservedStep(trained, step_s(trained, graphs)) for trained in training(networks)]

    def at_hand(wanted: Iterable[Key]) -> Mapping[Key, PrimitiveGraph]:
        return {key: graphs[key] for key in wanted}

    return TrainingSet(runs, {}, at_hand, load_shipped_embedder())


def training(networks: Sequence[str]) -> list[Scenario]:
    """Return the runs of networks that PredictDDL learns from: 1 to 8 nodes, two batches."""
    return [scenario(*setup) for setup in product(networks, (1, 2, 4, 8), (4, 12))]


def scenario(dnn: str, workers: int, batch_size: int) -> Scenario:
    """Return training on nodes of a core each."""
    return Scenario(
        workload=TrainingWorkload(
            dnn=dnn, framework="pytorch", image_size=SIDE, batch_size=batch_size
        ),
        strategy=Strategy(kind="all_reduce", workers=workers),
        nodes=(NodeGroup(role="worker", node_type="bench", count=workers, cpu_share=1.0),),
        link_mbps=LINK_MBPS,
    )


def step_s(scenario: Scenario, graphs: Mapping[Key, PrimitiveGraph]) -> float:
    """Return made-up seconds: operations at a speed, and parameters over the link."""
    work = Work.of(graphs[scenario.workload.dnn, SIDE])
    workers = scenario.strategy.workers
    exchange_s = 2 * (workers - 1) / workers * 4 * work.parameters / _LINK_BPS
    return 3 * scenario.workload.batch_size * work.flops / _FLOPS + exchange_s + 1e-3 * work.nodes


def training_s(networks: Sequence[str]) -> float:
    """Return seconds of the runs that PredictDDL learns from."""
    return planned_s(RequestedScenarios(train=tuple(training(networks))))


def ernest_s(
    workloads: Sequence[Scenario], graphs: Mapping[Key, PrimitiveGraph]
) -> tuple[float, float]:
    """Return seconds that Ernest's own runs of workloads take, and its fits and forecasts."""
    probes_s = answers_s = 0.0
    for workload in workloads:
        asks = ERNEST.rests_on(workload)
        assert not isinstance(asks, Refusal)
        runs = tuple(ask.scenario for ask in asks)
        probes_s += planned_s(RequestedScenarios(own=runs))
        started_s = time.perf_counter()
        rows = [ernest.features(run) for run in runs]
        weights = ernest.fit(rows, [step_s(run, graphs) for run in runs])
        float(ernest.features(workload) @ weights)
        answers_s += time.perf_counter() - started_s
    return probes_s, answers_s


def planned_s(requested: RequestedScenarios) -> float:
    """Return how long a plan expects runs of throughput to take, one after another."""
    probe = PROBES["torch_throughput"]
    needs = list(probe.needs(requested, probe.settings()))
    return sum(expected_s(start) for start in group_by_start(needs))
