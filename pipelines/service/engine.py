"""The Inference Engine: forecasts of workloads on nodes, by the way that all questions take."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from hashlib import sha256
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from pydantic import ValidationError

import networks
from forecasting import embedders
from forecasting.forecast import (
    ForecastAnswer,
    Observations,
    ScenarioForecast,
    forecast_nameless,
    predict_curves,
)
from forecasting.history_scope import RunIndex, VisibleRun, select_host_of_types
from forecasting.inputs import systems_named
from forecasting.scope import ForecastRefusal, HistoryScope
from models.system import System
from networks.primitives import Primitive, PrimitiveGraph
from pipelines.cli.answers import ForecastRow, RefusalRow, epoch_s
from pipelines.service.contracts import Forecast, Graph, Workload
from pipelines.service.places import TrainingPlace
from profilers.clusters.node_types import GPU
from profilers.record_file import fault
from studies.curve import Curve
from warehouse.records import Backend, BadInput, Scenario, Strategy, TrainingWorkload
from warehouse.warehouse import Warehouse

DEFAULT_DATASET = "digits"
"""The one whose fits the history keeps."""


@dataclass(frozen=True)
class WorkloadForecasts:
    """What the engine says of workloads.

    Attributes:
        of: a forecast or a refusal of each.
        backend: whose runs they rest on; None: nothing was forecast.
        host_id: the same, of hosts.
    """

    of: list[Forecast]
    backend: Backend | None = None
    host_id: str | None = None


class Engine:
    """Forecasts as `stepcast predict` makes them, of all systems that need no naming.

    Networks and nodes without a name here are forecast by predictddl alone: from their graphs, and
    from what nodes tell that they can do.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def forecasts(self, workloads: Sequence[Workload], place: TrainingPlace) -> WorkloadForecasts:
        """Return a forecast or a refusal of each workload, whose dataset's type is known."""
        made: dict[int, Forecast] = {}
        answers: list[ForecastAnswer] = []
        # By the type of dataset whose embedder answers; None: all systems answer.
        numbers: dict[str | None, list[int]] = {None: []}
        for number, workload in enumerate(workloads):
            dataset = workload.dataset.type
            is_named = workload.graph is None and not place.measured
            key = None if is_named and dataset == DEFAULT_DATASET else dataset
            numbers.setdefault(key, []).append(number)
        for key, asked in numbers.items():
            some = [workloads[number] for number in asked]
            try:
                if key is None:
                    of, answer = self._named(some, place)
                else:
                    of, answer = self._nameless(some, place, key)
            except BadInput as error:
                of, answer = [_refused(str(error)) for _ in some], None
            made |= dict(zip(asked, of, strict=True))
            answers += [answer] if answer is not None else []
        of_all = [made[number] for number in range(len(workloads))]
        if not answers:
            return WorkloadForecasts(of_all)
        return WorkloadForecasts(of_all, answers[0].place.backend, answers[0].place.host_id)

    def _named(
        self, workloads: Sequence[Workload], place: TrainingPlace
    ) -> tuple[list[Forecast], ForecastAnswer | None]:
        curves = [_curve(workload, place) for workload in workloads]
        sound = [curve for curve in curves if isinstance(curve, Curve)]
        if not sound:
            return [_refused(str(reason)) for reason in curves], None
        systems = systems_named([])
        answer = predict_curves(
            self._warehouse, list(dict.fromkeys(sound)), systems, dry_run=True, far_out=False
        )
        by_scenario = _by_scenario(answer)
        return [
            _refused(curve)
            if isinstance(curve, str)
            else _forecast(workload, by_scenario[curve.scenarios(answer.place.backend)[0]])
            for workload, curve in zip(workloads, curves, strict=True)
        ], answer

    def _nameless(
        self, workloads: Sequence[Workload], place: TrainingPlace, dataset: str
    ) -> tuple[list[Forecast], ForecastAnswer | None]:
        graphs = {}
        scenarios: list[Scenario | str] = []
        for workload in workloads:
            try:
                dnn = workload.dnn
                if workload.graph is not None:
                    graph = graph_of(workload.graph, workload.image_size)
                    graphs[graph.dnn, workload.image_size], dnn = graph, graph.dnn
                scenarios.append(_scenario(str(dnn), workload, place))
            except ValueError as error:
                scenarios.append(str(error))
        sound = [scenario for scenario in scenarios if isinstance(scenario, Scenario)]
        if not sound:
            return [_refused(str(reason)) for reason in scenarios], None
        system = embedders.system_of(dataset)
        answer = forecast_nameless(
            self._warehouse,
            list(dict.fromkeys(sound)),
            [system],
            Observations(graphs, place.measured),
            lambda runs: _scope(runs, place),
        )
        by_scenario = _by_scenario(answer)
        return [
            _refused(scenario)
            if isinstance(scenario, str)
            else _forecast(workload, by_scenario[scenario])
            for workload, scenario in zip(workloads, scenarios, strict=True)
        ], answer


def graph_of(graph: Graph, image_size: int) -> PrimitiveGraph:
    """Return a graph that somebody sent, named by its content.

    Raises:
        ValueError: it is none.
    """
    name = f"graph-{sha256(graph.model_dump_json().encode()).hexdigest()[:12]}"
    nodes = tuple(Primitive(**node.model_dump()) for node in graph.nodes)
    return PrimitiveGraph(name, image_size, nodes, tuple(graph.edges), graph.parameter_count)


def _recipe(workload: Workload) -> dict[str, Any]:
    return {
        "precision": workload.precision,
        "optimizer": workload.optimizer,
        "accumulate": workload.accumulate,
        "memory_format": workload.memory_format,
        "sequence_length": workload.sequence_length,
    }


def _curve(workload: Workload, place: TrainingPlace) -> Curve | str:
    """Return a workload as a study would list it, or why none could."""
    fields: dict[str, Any] = {
        "dnn": workload.dnn,
        "framework": "pytorch",
        "strategy": workload.strategy,
        "image_size": workload.image_size,
        **_recipe(workload),
    }
    batch_size, workers = workload.batch_size, sum(group.count for group in place.groups)
    if len(place.groups) > 1:
        parts = (f"{group.count} {group.node_type}@{batch_size}" for group in place.groups)
        fields |= {"mix": " + ".join(parts), "devices_per_node": place.devices}
        fields |= {"link_mbps": place.link_mbps}
    else:
        fields |= {"batch_size": batch_size, "worker": place.groups[0].node_type}
        if workload.strategy != "single" or workers * place.devices > 1:
            fields |= {"workers": workers, "devices_per_node": place.devices}
            fields |= {"link_mbps": place.link_mbps}
    try:
        curve = Curve.model_validate(fields)
        networks.check(curve.dnn, curve.image_size, curve.framework)
    except ValidationError as error:
        return fault(error, Curve)
    except ValueError as error:
        return str(error)
    return curve


def _scenario(dnn: str, workload: Workload, place: TrainingPlace) -> Scenario:
    """Return the scenario of a workload whose network or nodes have no name here.

    Raises:
        ValueError: there is no such network, or a single device is asked about on several.
    """
    if workload.graph is None:
        networks.check(dnn, workload.image_size, "pytorch")
    workers = sum(group.count for group in place.groups)
    is_single = workload.strategy == "single"
    if is_single and workers * place.devices > 1:
        raise ValueError(
            f"strategy: single is one device, found {workers * place.devices}; several train by "
            "all_reduce"
        )
    return Scenario(
        workload=TrainingWorkload(
            dnn=dnn,
            framework="pytorch",
            image_size=workload.image_size,
            batch_size=workload.batch_size,
            **_recipe(workload),
        ),
        strategy=Strategy(kind=workload.strategy, workers=workers, devices_per_node=place.devices),
        nodes=place.groups,
        link_mbps=None if is_single else place.link_mbps,
    )


def _scope(runs: Sequence[VisibleRun], place: TrainingPlace) -> HistoryScope:
    """Return whose runs tell of nodes of a place.

    Nodes of named types are forecast from the backend and host that `stepcast predict` chooses.
    What registered nodes without GPUs can do they tell themselves, so any steps on processors
    count: this host's, else the newest.

    Raises:
        BadInput: no steps have been measured.
    """
    names = {group.node_type for group in place.groups} - place.measured.keys()
    relevant = [run for run in runs if names or not _on_gpus(run)]
    steps = [run for run in relevant if run.subject.probe == "torch_throughput"]
    if not steps:
        raise BadInput(
            "no steps of PyTorch have been measured yet; `stepcast run` a study that lists some "
            "under train"
        )
    chosen = select_host_of_types(relevant if names else steps, names, {place.link_mbps})
    on_backend = [run for run in relevant if run.backend == chosen.backend]
    return HistoryScope(
        chosen,
        RunIndex(run for run in on_backend if run.host_id == chosen.host_id),
        RunIndex(run for run in on_backend if run.host_id != chosen.host_id),
    )


def _on_gpus(run: VisibleRun) -> bool:
    return any(name.startswith(GPU) for name in run.subject.worker_types)


SystemAnswer = ScenarioForecast | ForecastRefusal


def _by_scenario(answer: ForecastAnswer) -> Mapping[Scenario, list[SystemAnswer]]:
    by_scenario: dict[Scenario, list[SystemAnswer]] = {}
    answers: list[SystemAnswer] = [*answer.forecasts, *answer.refused]
    for each in answers:
        by_scenario.setdefault(each.scenario, []).append(each)
    return by_scenario


def _forecast(workload: Workload, answers: Sequence[SystemAnswer]) -> Forecast:
    """Return what all systems say of a workload, and the figures of the first that forecasts it.

    What stands beside a system, such as a baseline, does not stand in for it.
    """
    order = sorted(answers, key=lambda answer: not _is_primary(answer.system))
    forecasts = [answer for answer in order if isinstance(answer, ScenarioForecast)]
    refusals = [answer for answer in order if isinstance(answer, ForecastRefusal)]
    told = [refusal for refusal in refusals if not refusal.foreign]
    samples = workload.dataset.images
    rows = {
        "systems": [ForecastRow.of(each, samples).model_dump(mode="json") for each in forecasts],
        "refused": [RefusalRow.of(refusal).model_dump(mode="json") for refusal in told],
    }
    chosen = next(
        (
            forecast
            for forecast in forecasts
            if _is_primary(forecast.system) and forecast.fits_memory and forecast.value is not None
        ),
        None,
    )
    if chosen is None:
        primary = [refusal for refusal in told if _is_primary(refusal.system)]
        out_of_memory = [forecast for forecast in forecasts if not forecast.fits_memory]
        reasons = [f"out of memory: {forecast.fitting_batch}" for forecast in out_of_memory]
        reasons += [refusal.in_words for refusal in primary or told or refusals]
        text = "; ".join(dict.fromkeys(reasons))
        return _refused(f"{answers[0].scenario.label}: {text}").model_copy(update=rows)
    epoch = epoch_s(chosen, samples)
    return Forecast(
        status="forecast",
        step_time_s=chosen.value,
        low=chosen.low,
        high=chosen.high,
        epoch_s=None if epoch is None else epoch[0],
        answered_by=chosen.answered_by or chosen.system.name,
        **rows,
    )


def _is_primary(system: System) -> bool:
    return bool(system.beside) or system.tells


def _refused(reason: str) -> Forecast:
    return Forecast(status="refused", reason=reason)


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
