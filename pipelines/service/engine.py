"""The Inference Engine: forecasts of workloads on nodes, from the newest history."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from threading import Lock

import networks
from forecasting import embedders
from forecasting.asked.runs import VisibleRun, newest_of_each, visible_runs
from forecasting.fits import fit_or_load
from models.predictddl.fitted import PredictDDL
from models.predictddl.observed import DENSE, DEPTHWISE, DISK, MEMORY, images_per_step
from models.predictddl.systems import PREDICTDDL, known_of
from networks.primitives import Primitive, PrimitiveGraph
from pipelines.service.contracts import Cluster, Forecast, Graph, Nodes, Workload
from profilers.clusters.node_types import node_group
from warehouse.records import BadInput, NodeGroup, Scenario, StepcastError, Strategy
from warehouse.records import Workload as Trained
from warehouse.warehouse import Warehouse

DEFAULT_DATASET = "digits"
_PROBES = ("torch_throughput", "inventory")
Measured = Mapping[str, Mapping[str, float]]


class Engine:
    """Forecasts by predictddl, fitted to all visible steps of the place that was measured last.

    It is fitted when it is first asked, and again when the history has other runs.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = Lock()
        self._fitted: dict[str, tuple[tuple[str, ...], PredictDDL]] = {}

    def forecasts(
        self,
        workloads: Sequence[Workload],
        groups: Sequence[NodeGroup],
        measured: Measured,
        link_mbps: float | None,
    ) -> list[Forecast]:
        """Return a forecast or a refusal of each workload, whose dataset's type is known.

        Args:
            workloads: what is to be trained.
            groups: the nodes that train it.
            measured: what nodes of a type can do, beside what the history knows.
            link_mbps: of their links.
        """
        return [self._forecast(one, groups, measured, link_mbps) for one in workloads]

    def _forecast(
        self,
        workload: Workload,
        groups: Sequence[NodeGroup],
        measured: Measured,
        link_mbps: float | None,
    ) -> Forecast:
        try:
            model = self._model(workload.dataset.type)
            graphs = {}
            dnn = workload.dnn
            if workload.graph is not None:
                graph = graph_of(workload.graph, workload.image_size)
                dnn = graph.dnn
                graphs = {(dnn, workload.image_size): graph}
            assert dnn is not None
            if not graphs:
                networks.check(dnn, workload.image_size, "pytorch")
            scenario = _scenario(dnn, workload, groups, link_mbps)
            asked = _knowing(model, graphs, measured)
            (row,) = asked.predict([scenario]).to_dicts()
            distance, nearest = asked.distance(scenario)
        except (StepcastError, ValueError, RuntimeError) as error:
            return Forecast(status="refused", reason=str(error))
        epoch = workload.dataset.images / images_per_step(scenario)
        return Forecast(
            status="forecast",
            step_time_s=row["value"],
            low=row["low"],
            high=row["high"],
            epoch_s=row["value"] * epoch,
            answered_by=model.who(scenario),
            nearest=nearest,
            distance=distance,
        )

    def _model(self, dataset: str) -> PredictDDL:
        with self._lock:
            runs = _steps(visible_runs(self._warehouse))
            ids = tuple(run.run_id for run in runs)
            known = self._fitted.get(dataset)
            if known is None or known[0] != ids:
                known = ids, self._fit(dataset, ids)
                self._fitted[dataset] = known
            return known[1]

    def _fit(self, dataset: str, run_ids: Sequence[str]) -> PredictDDL:
        if not run_ids:
            raise BadInput(
                "no steps of PyTorch have been measured yet; `stepcast run` a study that lists "
                "some under train"
            )
        tables = self._warehouse.visible_tables(PREDICTDDL.tables, list(run_ids))
        if dataset != DEFAULT_DATASET:
            return PredictDDL.fit(known_of(tables, lambda: embedders.embedder(dataset)))
        found = fit_or_load(PREDICTDDL, run_ids, tables, self._warehouse)
        assert isinstance(found, PredictDDL)
        return found


def of_types(nodes: Iterable[Nodes]) -> list[NodeGroup]:
    """Return groups of nodes of types that the catalogue has.

    Raises:
        BadInput: there is no such type.
    """
    counts: Counter[str] = Counter()
    for one in nodes:
        counts[one.node_type] += one.count
    return [node_group("worker", name, count) for name, count in counts.items()]


def of_cluster(cluster: Cluster) -> tuple[list[NodeGroup], Measured, float | None]:
    """Return groups of the nodes that have registered, what one of each can do, their slowest link.

    Nodes of one type are taken for alike: a group can do what the least of them can.

    Raises:
        BadInput: none has registered.
    """
    if not cluster.nodes:
        raise BadInput(
            "no node has registered: name some under `nodes`, or run `stepcast node join` on them"
        )
    groups, measured = [], {}
    for name in dict.fromkeys(one.report.node_type for one in cluster.nodes):
        theirs = [one.report for one in cluster.nodes if one.report.node_type == name]
        least = min((one.available for one in theirs), key=lambda can: can.dense_flops)
        groups.append(
            NodeGroup(
                role="worker",
                node_type=name,
                count=len(theirs),
                cpu_share=least.cores,
                memory_bytes=int(least.memory_bytes) or None,
            )
        )
        measured[name] = {
            DENSE: least.dense_flops,
            DEPTHWISE: least.depthwise_flops,
            MEMORY: least.memory_Bps,
            DISK: least.disk_Bps,
        }
    links = [one.report.link_mbps for one in cluster.nodes if one.report.link_mbps is not None]
    return groups, measured, min(links, default=None)


def graph_of(graph: Graph, image_size: int) -> PrimitiveGraph:
    """Return a graph that somebody sent, named by its content.

    Raises:
        ValueError: it is none.
    """
    name = f"graph-{sha256(graph.model_dump_json().encode()).hexdigest()[:12]}"
    nodes = tuple(Primitive(**one.model_dump()) for one in graph.nodes)
    return PrimitiveGraph(name, image_size, nodes, tuple(graph.edges), graph.parameter_count)


def _scenario(
    dnn: str, workload: Workload, groups: Sequence[NodeGroup], link_mbps: float | None
) -> Scenario:
    load = Trained(
        dnn=dnn,
        framework="pytorch",
        image_size=workload.image_size,
        batch_size=workload.batch_size,
    )
    workers = sum(group.count for group in groups)
    return Scenario(
        workload=load,
        strategy=Strategy(kind="all_reduce", workers=workers),
        nodes=tuple(groups),
        link_mbps=link_mbps,
    )


def _knowing(
    model: PredictDDL, graphs: Mapping[tuple[str, int], PrimitiveGraph], measured: Measured
) -> PredictDDL:
    """Return a model that knows graphs which have no name, and what other nodes can do."""
    known, own = model.known, model.known.graphs

    def both(wanted: Iterable[tuple[str, int]]) -> Mapping[tuple[str, int], PrimitiveGraph]:
        asked = list(dict.fromkeys(wanted))
        return {
            **own([one for one in asked if one not in graphs]),
            **{one: graphs[one] for one in asked if one in graphs},
        }

    more = {**known.measured, **measured}
    return replace(model, known=replace(known, graphs=both, measured=more), _models={})


def _steps(runs: Sequence[VisibleRun]) -> tuple[VisibleRun, ...]:
    """Return the newest steps and inventories of the place that was measured last."""
    ours = [run for run in runs if run.subject.probe in _PROBES]
    first = next((run for run in ours if run.subject.probe == _PROBES[0]), None)
    if first is None:
        return ()
    place = first.backend, first.host_id
    return newest_of_each(run for run in ours if (run.backend, run.host_id) == place)

