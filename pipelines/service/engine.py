"""The Inference Engine: forecasts of workloads on nodes, by the way that all questions take."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

import networks
from forecasting import embedders
from forecasting.forecast import ForecastAnswer, ScenarioForecast, forecast_nameless, predict_curves
from forecasting.history_scope import HostSelection, RunIndex, VisibleRun, select_host_of_types
from forecasting.inputs import systems_named
from forecasting.scope import ForecastRefusal, HistoryScope
from models.system import System
from networks.primitives import Primitive, PrimitiveGraph
from pipelines.cli.answers import ForecastRow, RefusalRow, epoch_s
from pipelines.service.contracts import Answer, Forecast, Graph, Workload
from pipelines.service.node_selection import NodeSelection
from profilers.clusters.node_types import GPU
from profilers.record_file import fault
from studies.curve import RECIPE, Curve
from warehouse.records import BadInput, Scenario, Strategy, TrainingWorkload
from warehouse.warehouse import Warehouse

DEFAULT_DATASET = "digits"
"""The one whose fits the history keeps."""
Graphs = dict[tuple[str, int], PrimitiveGraph]
"""Networks that somebody sent, by name and image size."""


class Engine:
    """Forecasts as `stepcast predict` makes them, of all systems that need no naming.

    Networks and nodes without a name here are forecast by predictddl alone: from their graphs, and
    from what nodes tell that they can do.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def answer(
        self,
        workloads: Sequence[Workload],
        nodes: NodeSelection,
        begun: Mapping[str, Forecast] = MappingProxyType({}),
    ) -> Answer:
        """Return a forecast or a refusal of each workload.

        Args:
            workloads: what is trained.
            nodes: where.
            begun: by the type of dataset, what is said where it is not known yet.
        """
        made: dict[int, Forecast] = {}
        chosen: HostSelection | None = None
        # By the type of dataset whose embedder answers; None: all systems answer.
        numbers: dict[str | None, list[int]] = {None: []}
        for number, workload in enumerate(workloads):
            dataset = workload.dataset.type
            is_named = workload.graph is None and not nodes.measured
            if dataset in begun:
                made[number] = begun[dataset]
            else:
                key = None if is_named and dataset == DEFAULT_DATASET else dataset
                numbers.setdefault(key, []).append(number)
        for dataset_type, asked in numbers.items():
            of, answer = self._of_dataset([workloads[i] for i in asked], nodes, dataset_type)
            made |= dict(zip(asked, of, strict=True))
            if answer is not None and chosen is None:
                chosen = answer.chosen_host
        return Answer(
            forecasts=[made[number] for number in range(len(workloads))],
            nodes=nodes.counts,
            devices_per_node=nodes.devices,
            backend=chosen and chosen.backend,
            host_id=chosen and chosen.host_id,
        )

    def _of_dataset(
        self, workloads: Sequence[Workload], nodes: NodeSelection, dataset: str | None
    ) -> tuple[list[Forecast], ForecastAnswer | None]:
        """Return what is said of workloads of one type of dataset; None: of named networks."""
        graphs: Graphs = {}
        subjects: list[Curve | Scenario | str] = []
        for workload in workloads:
            try:
                if dataset is None:
                    subjects.append(_curve(workload, nodes))
                else:
                    subjects.append(_scenario(workload, nodes, graphs))
            except ValidationError as error:
                subjects.append(fault(error, Curve))
            except ValueError as error:
                subjects.append(str(error))
        asked = dict.fromkeys(subjects)
        curves = [subject for subject in asked if isinstance(subject, Curve)]
        scenarios = [subject for subject in asked if isinstance(subject, Scenario)]
        answer = None
        try:
            if curves:
                answer = predict_curves(
                    self._warehouse, curves, systems_named([]), dry_run=True, far_out=False
                )
            elif scenarios and dataset is not None:
                answer = forecast_nameless(
                    self._warehouse,
                    scenarios,
                    [embedders.system_of(dataset)],
                    graphs,
                    nodes.measured,
                    lambda runs: _scope(runs, nodes),
                )
        except BadInput as error:
            subjects = [str(error)] * len(workloads)
        if answer is None:
            return [_refused(str(reason)) for reason in subjects], None
        by_scenario: dict[Scenario, list[SystemAnswer]] = {}
        said_of: list[SystemAnswer] = [*answer.forecasts, *answer.refused]
        for each in said_of:
            by_scenario.setdefault(each.scenario, []).append(each)

        def said(workload: Workload, subject: Curve | Scenario | str) -> Forecast:
            if isinstance(subject, str):
                return _refused(subject)
            if isinstance(subject, Curve):
                (subject,) = subject.scenarios(answer.chosen_host.backend)
            return _forecast(workload, by_scenario[subject])

        return [*map(said, workloads, subjects)], answer


def graph_of(graph: Graph, image_size: int) -> PrimitiveGraph:
    """Return a graph that somebody sent, named by its content.

    Raises:
        ValueError: it is none.
    """
    name = f"graph-{sha256(graph.model_dump_json().encode()).hexdigest()[:12]}"
    nodes = tuple(Primitive(**node.model_dump()) for node in graph.nodes)
    return PrimitiveGraph(name, image_size, nodes, tuple(graph.edges), graph.parameter_count)


def _curve(workload: Workload, nodes: NodeSelection) -> Curve:
    """Return a workload as a study would list it.

    Raises:
        ValueError: none could.
    """
    fields: dict[str, Any] = {
        "dnn": workload.dnn,
        "framework": "pytorch",
        "strategy": workload.strategy,
        "image_size": workload.image_size,
        **workload.model_dump(include={*RECIPE, "sequence_length"}),
    }
    batch_size, workers = workload.batch_size, sum(group.count for group in nodes.groups)
    if len(nodes.groups) > 1:
        parts = (f"{group.count} {group.node_type}@{batch_size}" for group in nodes.groups)
        fields |= {"mix": " + ".join(parts), "devices_per_node": nodes.devices}
        fields |= {"link_mbps": nodes.link_mbps}
    else:
        fields |= {"batch_size": batch_size, "worker": nodes.groups[0].node_type}
        if workload.strategy != "single" or workers * nodes.devices > 1:
            fields |= {"workers": workers, "devices_per_node": nodes.devices}
            fields |= {"link_mbps": nodes.link_mbps}
    curve = Curve.model_validate(fields)
    networks.check(curve.dnn, curve.image_size, curve.framework)
    return curve


def _scenario(workload: Workload, nodes: NodeSelection, graphs: Graphs) -> Scenario:
    """Return the scenario of a workload whose network or nodes have no name here.

    A graph that was sent is put into `graphs`.

    Raises:
        ValueError: there is no such network, or a single device is asked about on several.
    """
    if workload.graph is None:
        dnn = str(workload.dnn)
        networks.check(dnn, workload.image_size, "pytorch")
    else:
        graph = graph_of(workload.graph, workload.image_size)
        graphs[graph.dnn, workload.image_size], dnn = graph, graph.dnn
    workers = sum(group.count for group in nodes.groups)
    is_single = workload.strategy == "single"
    if is_single and workers * nodes.devices > 1:
        raise ValueError(
            f"strategy: single is one device, found {workers * nodes.devices}; several train by "
            "all_reduce"
        )
    return Scenario(
        workload=TrainingWorkload(
            dnn=dnn,
            framework="pytorch",
            image_size=workload.image_size,
            batch_size=workload.batch_size,
            **workload.model_dump(include={*RECIPE, "sequence_length"}),
        ),
        strategy=Strategy(kind=workload.strategy, workers=workers, devices_per_node=nodes.devices),
        nodes=nodes.groups,
        link_mbps=None if is_single else nodes.link_mbps,
    )


def _scope(runs: Sequence[VisibleRun], nodes: NodeSelection) -> HistoryScope:
    """Return whose runs tell of nodes.

    Nodes of named types are forecast from the backend and host that `stepcast predict` chooses.
    What registered nodes without GPUs can do they tell themselves, so any steps on processors
    count: this host's, else the newest.

    Raises:
        BadInput: no steps have been measured.
    """
    names = {group.node_type for group in nodes.groups} - nodes.measured.keys()
    relevant = [
        run
        for run in runs
        if names or not any(name.startswith(GPU) for name in run.subject.worker_types)
    ]
    steps = [run for run in relevant if run.subject.probe == "torch_throughput"]
    if not steps:
        raise BadInput(
            "no steps of PyTorch have been measured yet; `stepcast run` a study that lists some "
            "under train"
        )
    chosen = select_host_of_types(relevant if names else steps, names, {nodes.link_mbps})
    on_backend = [run for run in relevant if run.backend == chosen.backend]
    return HistoryScope(
        chosen,
        RunIndex(run for run in on_backend if run.host_id == chosen.host_id),
        RunIndex(run for run in on_backend if run.host_id != chosen.host_id),
    )


SystemAnswer = ScenarioForecast | ForecastRefusal


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
        "refused": [RefusalRow.model_validate(each).model_dump(mode="json") for each in told],
    }
    primary = [forecast for forecast in forecasts if _is_primary(forecast.system)]
    usable = [each for each in primary if each.fits_memory and each.value is not None]
    if not usable:
        reasons = [
            f"out of memory: {forecast.fitting_batch}"
            for forecast in forecasts
            if not forecast.fits_memory
        ]
        of_primary = [refusal for refusal in told if _is_primary(refusal.system)]
        reasons += [refusal.in_words for refusal in of_primary or told or refusals]
        text = "; ".join(dict.fromkeys(reasons))
        return _refused(f"{answers[0].scenario.label}: {text}").model_copy(update=rows)
    chosen = usable[0]
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
