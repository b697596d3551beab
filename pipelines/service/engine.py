"""The Inference Engine: forecasts of workloads on nodes, its threads, and how far it answers."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TypeVar

import networks
from forecasting import embedders
from forecasting.fits import fit_or_load, mark_foreign_hosts
from forecasting.history_scope import visible_runs
from forecasting.nearest import (
    JudgedScenarios,
    coordinates,
    find_nearest_cases,
    format_amount,
    judged_range,
)
from models.predictddl.fit import PredictDDL
from models.predictddl.observations import batch_of, images_per_step
from models.predictddl.systems import PREDICTDDL, fit
from models.predictddl.training_set import key_of
from models.predictddl.work import ranks_of
from networks.primitives import Primitive, PrimitiveGraph
from pipelines.service.contracts import Forecast, Graph, Workload
from pipelines.service.places import ForecastInputs, TrainingPlace, forecast_inputs
from warehouse.inputs import Refusal
from warehouse.records import Backend, BadInput, Scenario, Strategy
from warehouse.records import TrainingWorkload as Trained
from warehouse.warehouse import Warehouse

DEFAULT_DATASET = "digits"
"""The one whose fits the history keeps."""
_REFUSALS = (BadInput, ValueError, ArithmeticError, RuntimeError)
"""What networks, nodes and fits raise of what cannot be forecast; a busy history is no refusal."""
_KEPT = 8
"""Fits at hand: those that were asked last."""


@dataclass(frozen=True)
class WorkloadForecasts:
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

    def forecasts(self, workloads: Sequence[Workload], place: TrainingPlace) -> WorkloadForecasts:
        """Return a forecast or a refusal of each workload, whose dataset's type is known."""
        scenarios, graphs = _scenarios(workloads, place)
        some = next((scenario for scenario in scenarios if isinstance(scenario, Scenario)), None)
        if some is None:
            return WorkloadForecasts([_refused(str(reason)) for reason in scenarios])
        try:
            rests, judged = self._history(place, some)
        except _REFUSALS as error:
            return WorkloadForecasts([_refused(_reason(scenario, error)) for scenario in scenarios])
        models: dict[str, PredictDDL | str] = {}
        for name in dict.fromkeys(workload.dataset.type for workload in workloads):
            try:
                model = self._model(name, rests)
                _check_known(place, model)
                models[name] = model.knowing(graphs, place.measured)
            except _REFUSALS as error:
                models[name] = str(error)
        pairs = [
            _checked(scenario, models[workload.dataset.type], judged)
            for workload, scenario in zip(workloads, scenarios, strict=True)
        ]
        accepted = [pair[0] for pair in pairs if not isinstance(pair, str)]
        PREDICTDDL.prepare([scenario for scenario in accepted if key_of(scenario) not in graphs])
        made = [_forecast(workload, pair) for workload, pair in zip(workloads, pairs, strict=True)]
        like_these = judged.of.get((PREDICTDDL.name, METRIC), ())
        return WorkloadForecasts(made, rests.backend, rests.host_id, len(like_these))

    def _history(
        self, place: TrainingPlace, scenario: Scenario
    ) -> tuple[ForecastInputs, JudgedScenarios]:
        with self._lock, self._warehouse.reading():
            rests = forecast_inputs(visible_runs(self._warehouse), place, scenario)
            return rests, JudgedScenarios.read(self._warehouse, rests.backend)

    def _model(self, dataset: str, rests: ForecastInputs) -> PredictDDL:
        with self._lock:
            path = embedders.available_embedders().get(dataset)
            made_of = dataset, rests, path, path and path.stat().st_mtime_ns
            fitted = self._fitted.pop(made_of, None) or self._fit(dataset, rests)
            self._fitted[made_of] = fitted
            while len(self._fitted) > _KEPT:
                del self._fitted[next(iter(self._fitted))]
            return fitted

    def _fit(self, dataset: str, rests: ForecastInputs) -> PredictDDL:
        rows = self._warehouse.visible_tables(PREDICTDDL.tables, list(rests.run_ids))
        tables = mark_foreign_hosts(rows, rests.host_id)
        if (
            dataset != DEFAULT_DATASET
            or embedders.available_embedders()[dataset].parent != embedders.SHIPPED
        ):
            return fit(tables, lambda: embedders.embedder(dataset))
        fitted = fit_or_load(PREDICTDDL, rests.run_ids, tables, self._warehouse)
        assert isinstance(fitted, PredictDDL)
        return fitted


def graph_of(graph: Graph, image_size: int) -> PrimitiveGraph:
    """Return a graph that somebody sent, named by its content.

    Raises:
        ValueError: it is none.
    """
    name = f"graph-{sha256(graph.model_dump_json().encode()).hexdigest()[:12]}"
    nodes = tuple(Primitive(**node.model_dump()) for node in graph.nodes)
    return PrimitiveGraph(name, image_size, nodes, tuple(graph.edges), graph.parameter_count)


def _scenarios(
    workloads: Sequence[Workload], place: TrainingPlace
) -> tuple[list[Scenario | str], dict[tuple[str, int], PrimitiveGraph]]:
    """Return each workload's scenario, or why there is none, and the graphs that were sent."""
    scenarios: list[Scenario | str] = []
    graphs = {}
    for workload in workloads:
        try:
            if workload.graph is not None:
                graph = graph_of(workload.graph, workload.image_size)
                graphs[graph.dnn, workload.image_size] = graph
                scenarios.append(_asked(graph.dnn, workload, place))
            elif workload.dnn is not None:
                networks.check(workload.dnn, workload.image_size, "pytorch")
                scenarios.append(_asked(workload.dnn, workload, place))
        except _REFUSALS as error:
            scenarios.append(str(error))
    return scenarios, graphs


def _asked(dnn: str, workload: Workload, place: TrainingPlace) -> Scenario | str:
    """Return the scenario of a workload; why, where predictddl forecasts none of such training.

    Raises:
        BadInput: a single device is asked about on several.
    """
    load = Trained(
        dnn=dnn,
        framework="pytorch",
        image_size=workload.image_size,
        batch_size=workload.batch_size,
        precision=workload.precision,
        optimizer=workload.optimizer,
        accumulate=workload.accumulate,
        memory_format=workload.memory_format,
        sequence_length=workload.sequence_length,
    )
    workers = sum(group.count for group in place.groups)
    is_single = workload.strategy == "single"
    if is_single and workers * place.devices > 1:
        raise BadInput(
            f"strategy: single is one device, found {workers * place.devices}; several train by "
            "all_reduce"
        )
    scenario = Scenario(
        workload=load,
        strategy=Strategy(kind=workload.strategy, workers=workers, devices_per_node=place.devices),
        nodes=place.groups,
        link_mbps=None if is_single else place.link_mbps,
    )
    rests = PREDICTDDL.rests_on(scenario)
    return f"{scenario.label}: {rests.reason}" if isinstance(rests, Refusal) else scenario


def _checked(
    scenario: Scenario | str, model: PredictDDL | str, judged: JudgedScenarios
) -> tuple[Scenario, PredictDDL] | str:
    """Return what is forecast and by what, or why nothing is."""
    if isinstance(scenario, str) or isinstance(model, str):
        return scenario if isinstance(scenario, str) else str(model)
    try:
        check_near(scenario, judged, [run.scenario for run in model.known.runs])
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
    figures = row["value"], row["low"], row["high"], epoch_s, distance
    if not all(isfinite(value) for value in figures if value is not None):
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


def _check_known(place: TrainingPlace, model: PredictDDL) -> None:
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
    if each > max(run.scenario.strategy.devices_per_node for run in model.known.runs):
        raise BadInput(
            f"nobody has measured steps of {each} GPUs a node: `stepcast run` a study that lists "
            f"some under train (devices_per_node: {each})"
        )


# Threads that forecast: few, beside those that take what nodes tell, and no end waits for them.


_COUNT = 4
Result = TypeVar("Result")


class Slots:
    """Threads that do what they are asked for; more than they can do waits for its turn.

    They are daemons, as those of Python's own pools are not: one that fits for minutes keeps no
    process alive that ends.

    Args:
        count: of the threads.
    """

    def __init__(self, count: int = _COUNT) -> None:
        self._count, self._lock, self._busy = count, Lock(), 0
        self._asked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._threads: list[Thread] = []

    @property
    def is_busy(self) -> bool:
        """Whether one of them does something now."""
        with self._lock:
            return self._busy > 0

    async def run(self, call: Callable[[], Result]) -> Result:
        """Return what a call returns in one of the threads, or raise what it raises."""
        done: Future[Result] = Future()

        def job() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(call())
            except Exception as error:
                done.set_exception(error)

        with self._lock:
            if len(self._threads) < self._count:
                self._threads.append(Thread(target=self._work, name="forecasts", daemon=True))
                self._threads[-1].start()
        self._asked.put(job)
        return await asyncio.wrap_future(done)

    def _work(self) -> None:
        while True:
            job = self._asked.get()
            with self._lock:
                self._busy += 1
            job()
            with self._lock:
                self._busy -= 1


# How far forecasts reach: as far as some were judged, else as far as steps were measured.


METRIC = "step_time_s"
_LINKS = "Mb/s of links"
_LEAST_REACH = 2.0
"""Of one value, up and down: a factor."""


def check_near(scenario: Scenario, judged: JudgedScenarios, measured: Sequence[Scenario]) -> None:
    """Refuse a scenario that is farther out than any whose forecast was judged.

    Where none was judged, or the size of the network is in no table, one is refused that is farther
    out than any whose steps were measured.

    Args:
        scenario: that is asked about.
        judged: what has been judged on the backend.
        measured: whose steps the fit saw, one at least.

    Raises:
        BadInput: it is; the message says what to measure.
    """
    if ranks_of(scenario) > 1 and not any(ranks_of(other) > 1 for other in measured):
        raise BadInput(
            f"{scenario.label}: no steps of several devices, so no exchange is known; `stepcast "
            "run` a study that lists some under train"
        )
    case = find_nearest_cases(judged, PREDICTDDL.name, METRIC, scenario)
    far = case.far or ""
    if not far:
        is_known = bool(case.nearest) and "flops" in coordinates(scenario).numbers
        like_these = judged.of.get((PREDICTDDL.name, METRIC), ())
        links = {other.at.numbers.get("link_mbps") for other in like_these}
        # Forecasts that were judged on links of one speed bound no other.
        bounded = _BOUNDED if not is_known else [] if len(links) > 1 else [_LINKS]
        far = "; ".join(_beyond(scenario, measured, bounded))
        far += "; list it under train of a study, and `stepcast run` it" if far else ""
    if far:
        raise BadInput(f"{scenario.label}: far out: {far}")


def _beyond(
    scenario: Scenario, measured: Sequence[Scenario], bounded: Iterable[str]
) -> Iterator[str]:
    for words in bounded:
        of = _BOUNDED[words]
        known = sorted({value for other in measured for value in of(other)})
        if not known:  # no links were shaped
            continue
        least, most = judged_range(known) or (known[0] / _LEAST_REACH, known[0] * _LEAST_REACH)
        for value in of(scenario):
            if not least <= value <= most:
                yield (
                    f"{value:,.10g} {words}, where steps were measured from {known[0]:,.10g} to "
                    f"{known[-1]:,.10g}; first measure a scenario of "
                    f"{format_amount(least if value < least else most)} {words}"
                )


def _batches(scenario: Scenario) -> set[int]:
    return {batch_of(scenario, group) for group in scenario.worker_groups}


def _links(scenario: Scenario) -> set[float]:
    return set() if scenario.link_mbps is None else {scenario.link_mbps}


_BOUNDED: Mapping[str, Callable[[Scenario], Set[float]]] = {
    "workers": lambda scenario: {scenario.strategy.workers},
    "images a batch": _batches,
    "pixels a side": lambda scenario: {scenario.workload.image_size},
    _LINKS: _links,
}
