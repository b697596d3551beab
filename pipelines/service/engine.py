"""The Inference Engine: forecasts of workloads on nodes, from the newest history."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from threading import Lock

import networks
from forecasting import embedders
from forecasting.asked.near import Judged
from forecasting.asked.runs import visible_runs
from forecasting.fits import fit_or_load, told_apart
from models.predictddl.fitted import PredictDDL
from models.predictddl.known import key_of
from models.predictddl.observed import images_per_step
from models.predictddl.systems import PREDICTDDL, fit
from networks.primitives import Primitive, PrimitiveGraph
from pipelines.service.contracts import Forecast, Graph, Workload
from pipelines.service.near import METRIC, check_near
from pipelines.service.places import Place
from pipelines.service.resting import Rests, rests_of
from warehouse.records import Backend, BadInput, Scenario, Strategy
from warehouse.records import Workload as Trained
from warehouse.warehouse import Warehouse

DEFAULT_DATASET = "digits"
"""The one whose fits the history keeps."""
_REFUSALS = (BadInput, ValueError, ArithmeticError, RuntimeError)
"""What networks, nodes and fits raise of what cannot be forecast; a busy history is no refusal."""
_KEPT = 8
"""Fits at hand: those that were asked last."""


@dataclass(frozen=True)
class Forecasts:
    """What the engine says of workloads.

    Attributes:
        of: a forecast or a refusal of each.
        backend: whose runs they rest on; None: nothing was forecast.
        host_id: the same, of hosts.
        judged: scenarios of that backend whose forecasts by predictddl were measured; None: as
            backend.
    """

    of: list[Forecast]
    backend: Backend | None = None
    host_id: str | None = None
    judged: int | None = None


class Engine:
    """Forecasts by predictddl, fitted to all visible steps of the place that answers a question.

    It is fitted when it is first asked about a place, and again when the history has other runs.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = Lock()
        self._fitted: dict[object, PredictDDL] = {}

    def forecasts(self, workloads: Sequence[Workload], place: Place) -> Forecasts:
        """Return a forecast or a refusal of each workload, whose dataset's type is known."""
        scenarios, graphs = _scenarios(workloads, place)
        some = next((one for one in scenarios if isinstance(one, Scenario)), None)
        if some is None:
            return Forecasts([_refused(str(reason)) for reason in scenarios])
        try:
            rests, judged = self._history(place, some)
        except _REFUSALS as error:
            return Forecasts([_refused(_reason(one, error)) for one in scenarios])
        models: dict[str, PredictDDL | str] = {}
        for name in dict.fromkeys(one.dataset.type for one in workloads):
            try:
                model = self._model(name, rests)
                _check_known(place, model)
                models[name] = model.knowing(graphs, place.measured)
            except _REFUSALS as error:
                models[name] = str(error)
        pairs = [
            _checked(scenario, models[one.dataset.type], judged)
            for one, scenario in zip(workloads, scenarios, strict=True)
        ]
        asked = [one[0] for one in pairs if not isinstance(one, str)]
        PREDICTDDL.prepare([one for one in asked if key_of(one) not in graphs])
        made = [_forecast(one, pair) for one, pair in zip(workloads, pairs, strict=True)]
        like_these = judged.of.get((PREDICTDDL.name, METRIC), ())
        return Forecasts(made, rests.backend, rests.host_id, len(like_these))

    def _history(self, place: Place, scenario: Scenario) -> tuple[Rests, Judged]:
        with self._lock, self._warehouse.reading():
            rests = rests_of(visible_runs(self._warehouse), place, scenario)
            return rests, Judged.read(self._warehouse, rests.backend)

    def _model(self, dataset: str, rests: Rests) -> PredictDDL:
        with self._lock:
            path = embedders.known().get(dataset)
            made_of = dataset, rests, path, path and path.stat().st_mtime_ns
            found = self._fitted.pop(made_of, None) or self._fit(dataset, rests)
            self._fitted[made_of] = found
            while len(self._fitted) > _KEPT:
                del self._fitted[next(iter(self._fitted))]
            return found

    def _fit(self, dataset: str, rests: Rests) -> PredictDDL:
        rows = self._warehouse.visible_tables(PREDICTDDL.tables, list(rests.run_ids))
        tables = told_apart(rows, rests.host_id)
        if dataset != DEFAULT_DATASET or embedders.known()[dataset].parent != embedders.SHIPPED:
            return fit(tables, lambda: embedders.embedder(dataset))
        found = fit_or_load(PREDICTDDL, rests.run_ids, tables, self._warehouse)
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


def _checked(
    scenario: Scenario | str, model: PredictDDL | str, judged: Judged
) -> tuple[Scenario, PredictDDL] | str:
    """Return what is forecast and by what, or why nothing is."""
    if isinstance(scenario, str) or isinstance(model, str):
        return scenario if isinstance(scenario, str) else str(model)
    try:
        check_near(scenario, judged, [one.scenario for one in model.known.runs])
    except BadInput as error:
        return str(error)
    return scenario, model


def _forecast(workload: Workload, pair: tuple[Scenario, PredictDDL] | str) -> Forecast:
    if isinstance(pair, str):
        return _refused(pair)
    scenario, model = pair
    try:
        (row,) = model.predict([scenario]).to_dicts()
        distance, nearest = model.distance(scenario)
    except _REFUSALS as error:
        return _refused(str(error))
    epoch_s = row["value"] * workload.dataset.images / images_per_step(scenario)
    told = row["value"], row["low"], row["high"], epoch_s, distance
    if not all(isfinite(one) for one in told if one is not None):
        return _refused(f"{scenario.label}: the forecast is no number")
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


def _reason(scenario: Scenario | str, error: Exception) -> str:
    return scenario if isinstance(scenario, str) else str(error)


def _refused(reason: str) -> Forecast:
    return Forecast(status="refused", reason=reason)


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
