"""The Inference Engine: forecasts of workloads on nodes, from the newest history."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import isfinite
from threading import Lock

import networks
from forecasting import embedders
from forecasting.asked.runs import VisibleRun, newest_of_each, visible_runs
from forecasting.fits import fit_or_load
from models.predictddl.fitted import PredictDDL
from models.predictddl.known import key_of
from models.predictddl.observed import images_per_step
from models.predictddl.systems import PREDICTDDL, fit
from networks.primitives import Primitive, PrimitiveGraph
from pipelines.service.contracts import Forecast, Graph, Workload
from pipelines.service.places import Place
from warehouse.records import BadInput, Scenario, Strategy
from warehouse.records import Workload as Trained
from warehouse.warehouse import Warehouse

DEFAULT_DATASET = "digits"
"""The one whose fits the history keeps."""
_PROBES = ("torch_throughput", "inventory")
_REFUSALS = (BadInput, ValueError, ArithmeticError, RuntimeError)
"""What networks, nodes and fits raise of what cannot be forecast; a busy history is no refusal."""
Graphs = Mapping[tuple[str, int], PrimitiveGraph]


class Engine:
    """Forecasts by predictddl, fitted to all visible steps of the place that was measured last.

    It is fitted when it is first asked, and again when the history has other runs.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = Lock()
        self._fitted: dict[str, tuple[object, PredictDDL]] = {}

    def forecasts(self, workloads: Sequence[Workload], place: Place) -> list[Forecast]:
        """Return a forecast or a refusal of each workload, whose dataset's type is known."""
        scenarios, graphs = _scenarios(workloads, place)
        models: dict[str, PredictDDL | str] = {}
        for name in dict.fromkeys(one.dataset.type for one in workloads):
            try:
                model = self._model(name)
                _check_known(place, model)
                models[name] = model.knowing(graphs, place.measured)
            except _REFUSALS as error:
                models[name] = str(error)
        if not all(isinstance(one, str) for one in models.values()):
            known = [one for one in scenarios if isinstance(one, Scenario)]
            PREDICTDDL.prepare([one for one in known if key_of(one) not in graphs])
        return [
            _forecast(one, scenario, models[one.dataset.type])
            for one, scenario in zip(workloads, scenarios, strict=True)
        ]

    def _model(self, dataset: str) -> PredictDDL:
        with self._lock:
            runs = _steps(visible_runs(self._warehouse))
            ids = tuple(run.run_id for run in runs)
            path = embedders.known().get(dataset)
            made_of = ids, path, path and path.stat().st_mtime_ns
            known = self._fitted.get(dataset)
            if known is None or known[0] != made_of:
                known = made_of, self._fit(dataset, ids)
                self._fitted[dataset] = known
            return known[1]

    def _fit(self, dataset: str, run_ids: Sequence[str]) -> PredictDDL:
        if not run_ids:
            raise BadInput(
                "no steps of PyTorch have been measured yet; `stepcast run` a study that lists "
                "some under train"
            )
        tables = self._warehouse.visible_tables(PREDICTDDL.tables, list(run_ids))
        if dataset != DEFAULT_DATASET or embedders.known()[dataset].parent != embedders.SHIPPED:
            return fit(tables, lambda: embedders.embedder(dataset))
        found = fit_or_load(PREDICTDDL, run_ids, tables, self._warehouse)
        assert isinstance(found, PredictDDL)
        return found


def graph_of(graph: Graph, image_size: int) -> PrimitiveGraph:
    """Return a graph that somebody sent, named by its content.

    Raises:
        ValueError: it is none.
    """
    name = f"graph-{sha256(graph.model_dump_json().encode()).hexdigest()[:12]}"
    nodes = tuple(Primitive(**one.model_dump()) for one in graph.nodes)
    return PrimitiveGraph(name, image_size, nodes, tuple(graph.edges), graph.parameter_count)


def _scenarios(
    workloads: Sequence[Workload], place: Place
) -> tuple[list[Scenario | str], dict[tuple[str, int], PrimitiveGraph]]:
    """Return each workload's scenario, or why there is none, and the graphs that were sent."""
    found: list[Scenario | str] = []
    graphs = {}
    for one in workloads:
        try:
            if one.graph is not None:
                graph = graph_of(one.graph, one.image_size)
                graphs[graph.dnn, one.image_size] = graph
                found.append(_scenario(graph.dnn, one, place))
            elif one.dnn is not None:
                networks.check(one.dnn, one.image_size, "pytorch")
                found.append(_scenario(one.dnn, one, place))
        except _REFUSALS as error:
            found.append(str(error))
    return found, graphs


def _scenario(dnn: str, workload: Workload, place: Place) -> Scenario:
    load = Trained(
        dnn=dnn,
        framework="pytorch",
        image_size=workload.image_size,
        batch_size=workload.batch_size,
    )
    workers = sum(group.count for group in place.groups)
    return Scenario(
        workload=load,
        strategy=Strategy(kind="all_reduce", workers=workers, devices_per_node=place.devices),
        nodes=place.groups,
        link_mbps=place.link_mbps,
    )


def _forecast(workload: Workload, scenario: Scenario | str, model: PredictDDL | str) -> Forecast:
    if isinstance(scenario, str) or isinstance(model, str):
        reason = scenario if isinstance(scenario, str) else str(model)
        return Forecast(status="refused", reason=reason)
    try:
        (row,) = model.predict([scenario]).to_dicts()
        distance, nearest = model.distance(scenario)
    except _REFUSALS as error:
        return Forecast(status="refused", reason=str(error))
    epoch_s = row["value"] * workload.dataset.images / images_per_step(scenario)
    told = row["value"], row["low"], row["high"], epoch_s, distance
    if not all(isfinite(one) for one in told if one is not None):
        return Forecast(status="refused", reason=f"{scenario.label}: the forecast is no number")
    return Forecast(
        status="forecast",
        step_time_s=row["value"],
        low=row["low"],
        high=row["high"],
        epoch_s=epoch_s,
        answered_by=model.answered_by(scenario),
        nearest=nearest,
        distance=distance,
    )


def _check_known(place: Place, model: PredictDDL) -> None:
    """Refuse nodes of which nobody knows what they can do, alone or with several devices each.

    Raises:
        BadInput: naming the type, or the number of devices.
    """
    for group in place.groups:
        name = group.node_type
        if name not in place.measured and name not in model.known.measured:
            raise BadInput(
                f"nobody has measured what nodes of type {name} can do: `stepcast run` a study "
                "that trains on them (probe inventory), or `stepcast node join` on one without GPUs"
            )
    each = place.devices
    if each > max(one.scenario.strategy.devices_per_node for one in model.known.runs):
        raise BadInput(
            f"nobody has measured steps of {each} GPUs a node: `stepcast run` a study that lists "
            f"some under train (devices_per_node: {each})"
        )


def _steps(runs: Sequence[VisibleRun]) -> tuple[VisibleRun, ...]:
    """Return the newest steps and inventories of the place that was measured last."""
    ours = [run for run in runs if run.subject.probe in _PROBES]
    first = next((run for run in ours if run.subject.probe == _PROBES[0]), None)
    if first is None:
        return ()
    place = first.backend, first.host_id
    return newest_of_each(run for run in ours if (run.backend, run.host_id) == place)
