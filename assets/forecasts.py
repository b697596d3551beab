"""Assets that forecast, and of how wrong that was: fits, predictions, timelines, errors."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import polars as pl
from dagster import (
    AssetKey,
    AssetsDefinition,
    AutomationCondition,
    MaterializeResult,
    MetadataValue,
    ResourceParam,
    TableColumnDep,
    TableColumnLineage,
    asset,
)
from matplotlib.figure import Figure

from assets.metadata import OWNERS, comments, errors, of_frame, of_table
from assets.resources import RoundsResource, WarehouseResource
from assets.study_lineage import StudyLineage
from forecasting.costs import examples_per_step
from forecasting.decisions.answer import answer
from forecasting.decisions.question import JobQuestion
from forecasting.evaluation import evaluate
from forecasting.findings.mark import Mark
from forecasting.findings.study import with_pending
from forecasting.fits import Fit
from forecasting.inputs import baseline_in_words, round_input_runs_by_scenario
from forecasting.results import by_system, forecasts, outcome, scaling
from forecasting.round_forecasts import fit_round, fits_of_round, predict_missing
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.synthetic_trace import steps_per_s
from models.async_sgd.systems import ASYNC_SGD
from models.async_sgd.timeline import Timeline, simulate_trace, timeline_of_trace
from models.async_sgd.workers import group_of_each
from models.ceer.systems import CEER, CEER_PYTORCH
from models.choice.overheads import Overheads
from models.srift.system import SRIFT
from models.system import System
from profilers.probe import PlannedRun
from reports import report, study_sections
from reports.marks import draw
from studies.messages import Progress, name_some
from studies.plan import REPORT_NAME, fit_name
from studies.rounds import Round
from warehouse.records import BadInput, Scenario
from warehouse.requirements import Refusal


def fit_asset(of: StudyLineage, system: System) -> AssetsDefinition:
    """Return the asset that fits a system; it depends on the probes that the system rests on."""
    probes = dict.fromkeys(need.probe for need in of.rests[system])

    @asset(
        key=of.key("fits", system.name),
        description=f"The fit of {system.name}. {system.what}",
        deps=[*(of.key("profiles", probe) for probe in probes), *of.learned(system)],
        group_name=of.name,
        owners=OWNERS,
        kinds={"fit", "duckdb"},
        pool="warehouse",
        code_version=system.version,
        metadata=of_table("fit.fit"),
    )
    def fits(
        rounds: RoundsResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
    ) -> MaterializeResult:
        round_, house = rounds.to_forecast(of.path), warehouse.open()
        fits_of = fit_round(system, round_, house, progress)
        progress.finished(fit_name(system.name))
        rows = pl.DataFrame(
            [
                (curve.dnn, fit.fit_id, fit.row_count, list(fit.group.run_ids))
                for curve, fit in fits_of.items()
            ],
            schema=["dnn", "fit_id", "row_count", "run_ids"],
            orient="row",
        )
        return MaterializeResult(
            metadata=of_frame(rows, round_, (), comments(warehouse, "fit.fit"))
        )

    return fits


def prediction_asset(of: StudyLineage, system: System) -> AssetsDefinition:
    """Return the asset that writes a system's forecasts to the ledger."""

    @asset(
        key=of.key("predictions", system.name),
        description=f"What {system.name} forecasts, written to the ledger before anything is "
        f"measured. {system.what}",
        deps=[of.key("fits", system.name)],
        group_name=of.name,
        owners=OWNERS,
        kinds={"forecast", "duckdb"},
        pool="warehouse",
        code_version=system.version,
        metadata=of_table("pred.ledger"),
    )
    def predictions(
        rounds: RoundsResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
    ) -> MaterializeResult:
        round_ = rounds.to_forecast(of.path)
        ledger = predict_missing(system, round_, warehouse.open(), progress)
        rows = forecasts(round_, ledger, system.name).drop_nulls("predicted")
        label = round_.study.metric.in_words
        drawn = rows.rename({"predicted": label})
        mark = Mark("line", "workers", (label,), of="title")
        figures = [draw(mark, drawn, system.name)] if rows.height else []
        return MaterializeResult(
            metadata=of_frame(ledger, round_, figures, comments(warehouse, "pred.ledger"))
        )

    return predictions


# Assets of what a system simulates: timelines of workers, as Figures 4 and 15 of ICPE'20.


STEPS = 3
"""Steps of each worker that are shown."""


def simulations(of: StudyLineage) -> list[AssetsDefinition]:
    """Return the timelines of a study of asynchronous SGD; nothing of another."""
    return [_timelines(of)] if ASYNC_SGD in of.rests else []


def _timelines(of: StudyLineage) -> AssetsDefinition:
    @asset(
        key=of.key("simulations", "timelines"),
        deps=[of.key("fits", ASYNC_SGD.name)],
        group_name=of.name,
        owners=OWNERS,
        kinds={"simulation", "matplotlib"},
        pool="warehouse",
        code_version=ASYNC_SGD.version,
    )
    def timelines(rounds: RoundsResource, warehouse: WarehouseResource) -> MaterializeResult:
        """What workers are predicted to do when, in the largest scenario of each network."""
        round_ = rounds.latest(of.path)
        figures: list[Figure] = []
        rows = []
        largest: dict[str, tuple[Scenario, Fit]] = {}
        for curve, fit in fits_of_round(ASYNC_SGD, round_, warehouse.open()).items():
            largest.setdefault(curve.dnn, (curve.scenarios(round_.backend)[-1], fit))
        for scenario, fit in largest.values():
            model = fit.fitted()
            assert isinstance(model, AsyncSGD)
            shown, steps_per_s = simulate_timeline(model, scenario, STEPS)
            figures.append(draw(_TIMELINE, _spans(shown), scenario.label))
            rows.append((scenario.label, steps_per_s, shown.intervals.height))
        schema = ["label", "throughput_steps_per_s", "intervals"]
        frame = pl.DataFrame(rows, schema, orient="row")
        return MaterializeResult(metadata=of_frame(frame, round_, figures))

    return timelines


def simulate_timeline(model: AsyncSGD, scenario: Scenario, steps: int) -> tuple[Timeline, float]:
    """Return steps of a simulation after its warm-up, and its throughput in steps/s."""
    trace = simulate_trace(model, scenario, record=True)
    skip = model.parameters.settings.warm_up_steps
    graphs = [group.graph for group in group_of_each(model.simulation(scenario, 0))]
    shown = timeline_of_trace(graphs, trace, skip=skip, count=steps)
    return shown, steps_per_s(trace, skip)


_TIMELINE = Mark("spans", "start_ms", ("what",), of="resource", to="end_ms")


def _spans(timeline: Timeline) -> pl.DataFrame:
    """Return when each worker's resources are at work."""
    return timeline.intervals.sort("worker", "resource").select(
        "resource",
        what=pl.format("worker {}: {}", "worker", "resource"),
        start_ms=pl.col("start_us") / 1e3,
        end_ms=pl.col("end_us") / 1e3,
    )


# Assets of what systems recommend: nodes for a job of each network that a study tests.


RECOMMEND = (SRIFT, CEER, CEER_PYTORCH)
"""Systems of papers about what to rent: each is asked alone."""
ITERATIONS = 1_000
"""Steps of the job that is asked about: of the largest test scenario that a system forecasts."""
_SCHEMA = {
    "dnn": pl.String,
    "global_batch": pl.Int64,
    "iterations": pl.Int64,
    "choice": pl.String,
    "hours": pl.Float64,
    "cost_usd": pl.Float64,
    "recommendation_id": pl.String,
}


def recommendations(of: StudyLineage) -> list[AssetsDefinition]:
    """Return an asset for each system of a study that recommends; nothing where none does."""
    return [_asset(of, system) for system in of.systems if system in RECOMMEND]


def _asset(of: StudyLineage, system: System) -> AssetsDefinition:
    @asset(
        key=of.key("recommendations", system.name),
        description=f"The cheapest nodes for {ITERATIONS:,} steps of each network.",
        deps=[of.key("fits", system.name)],
        group_name=of.name,
        owners=OWNERS,
        kinds={"recommendation", "duckdb"},
        pool="warehouse",
        code_version=system.version,
        metadata=of_table("pred.recommendation"),
    )
    def recommended(
        rounds: RoundsResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
    ) -> MaterializeResult:
        round_, house = rounds.latest(of.path), warehouse.open()
        rows, refused = [], defaultdict(list)
        for question, capacity in questions_of_round(round_, system):
            progress.say(f"what to rent for {question.dnn} by {system.name}")
            try:
                answered = answer(
                    house,
                    question,
                    capacity,
                    "on_demand",
                    [system],
                    backend=round_.backend,
                    host=round_.host_id,
                    # All forecasts of a study are in the ledger before what judges them.
                    keeps_forecasts=False,
                )
            except BadInput as error:
                refused[str(error)].append(question.dnn)
                continue
            choice = answered.decision.choice
            chosen: tuple[str, float | None, float | None] = ("none", None, None)
            if choice is not None:
                chosen = choice.label, choice.outcome.time_s / 3600, choice.outcome.cost_usd
            job = question.dnn, question.global_batch, ITERATIONS
            rows.append((*job, *chosen, answered.recommendation_id))
        for reason, dnns in refused.items():
            progress.warn(f"{system.name} recommends nothing for {name_some(dnns)}: {reason}")
        frame = pl.DataFrame(rows, _SCHEMA, orient="row")
        return MaterializeResult(
            metadata=of_frame(frame, round_, (), comments(warehouse, "pred.recommendation"))
        )

    return recommended


def questions_of_round(
    round_: Round, system: System
) -> Iterator[tuple[JobQuestion, Mapping[str, int]]]:
    """Yield what is asked of each network, and how many nodes of each type there are to rent.

    The job is the largest test scenario that the system forecasts, for the least money of training
    alone. On offer are as many nodes of each type as any such scenario of the network on the same
    links has.
    """
    by_dnn: dict[str, list[Scenario]] = defaultdict(list)
    links: dict[Scenario, float | None] = {}
    for curve in round_.study.curves:
        if not curve.is_judged:
            continue
        rested = round_input_runs_by_scenario(round_, system, curve)
        for scenario, rests in rested.items():
            if not isinstance(rests, Refusal) and _types(scenario) <= _profiled(rests):
                by_dnn[scenario.workload.dnn].append(scenario)
                links[scenario] = curve.link_mbps
    for scenarios in by_dnn.values():
        largest = max(scenarios, key=examples_per_step)
        yield (
            _question(largest, links[largest]),
            _capacity(scenario for scenario in scenarios if _alike(scenario, largest)),
        )


def _question(scenario: Scenario, link_mbps: float | None) -> JobQuestion:
    load, batch = scenario.workload, examples_per_step(scenario)
    return JobQuestion(
        dnn=load.dnn,
        framework=load.framework,
        image_size=load.image_size,
        global_batch=batch,
        samples=ITERATIONS * batch,
        devices_per_node=scenario.strategy.devices_per_node,
        link_mbps=link_mbps,
        late=None,
        overheads=Overheads(launch_s=0.0),
    )


def _alike(scenario: Scenario, other: Scenario) -> bool:
    """Tell whether scenarios of a network are on the same links, with images of the same size."""
    return (scenario.link_mbps, scenario.workload.image_size) == (
        other.link_mbps,
        other.workload.image_size,
    )


def _capacity(scenarios: Iterable[Scenario]) -> Mapping[str, int]:
    """Return as many nodes of each type as any of some scenarios has."""
    counts: dict[str, int] = {}
    for scenario in scenarios:
        for group in scenario.worker_groups:
            counts[group.node_type] = max(group.count, counts.get(group.node_type, 0))
    return counts


def _types(scenario: Scenario) -> set[str]:
    return {group.node_type for group in scenario.worker_groups}


def _profiled(rests: Iterable[PlannedRun]) -> set[str]:
    """Return the node types that runs are about on which a forecast rests."""
    return {group.node_type for need in rests for group in need.nodes}


_WHEN = AutomationCondition.eager() & AutomationCondition.all_deps_blocking_checks_passed()


def table_asset(of: StudyLineage) -> AssetsDefinition:
    """Return the asset of forecasts beside measurements."""
    measured = [of.key("measured", probe) for probe in of.measuring]

    @asset(
        key=of.key("accuracy", "table"),
        deps=measured,
        group_name=of.name,
        owners=OWNERS,
        kinds={"duckdb"},
        pool="warehouse",
        automation_condition=_WHEN,
        metadata=of_table("report.accuracy"),
    )
    def table(rounds: RoundsResource, warehouse: WarehouseResource) -> MaterializeResult:
        """Predicted beside measured, one row for each scenario of the round that ran last."""
        round_ = rounds.latest(of.path)
        history = warehouse.open()
        accuracy = history.accuracy()
        rows = with_pending(round_, outcome(round_, accuracy), history)
        metric, baseline = round_.study.metric.in_words, baseline_in_words(round_.study)
        figures = (
            study_sections.scaling(curve, metric, curve["dnn"][0], baseline)
            for curve in scaling(rows)
        )
        shown = of_frame(rows, round_, figures, comments(warehouse, "report.accuracy"))
        lineage = {"dagster/column_lineage": _lineage(of, measured)}
        return MaterializeResult(metadata=shown | lineage | errors(by_system(round_, accuracy)))

    return table


def report_asset(of: StudyLineage) -> AssetsDefinition:
    """Return the asset of the HTML report."""

    @asset(
        key=of.key("accuracy", "report"),
        deps=[of.key("accuracy", "table")],
        group_name=of.name,
        owners=OWNERS,
        kinds={"html", "matplotlib"},
        pool="warehouse",
        automation_condition=_WHEN,
    )
    def html_report(
        rounds: RoundsResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
    ) -> MaterializeResult:
        """The newest round of the whole study as one HTML file that needs no network."""
        progress.say(REPORT_NAME)
        round_ = rounds.whole(of.path)
        evaluation = evaluate(round_, warehouse.open())
        file = report.write(evaluation, warehouse.report)
        progress.finished(REPORT_NAME)
        return MaterializeResult(
            metadata={**of_frame(evaluation.rows, round_), "file": MetadataValue.path(file)}
        )

    return html_report


def _lineage(of: StudyLineage, measured: list[AssetKey]) -> MetadataValue:
    """Return where the columns of the table come from: forecasts from the ledger, samples."""
    ledger = [of.key("predictions", system.name) for system in of.systems]
    samples = [TableColumnDep(key, "value") for key in measured]
    return MetadataValue.column_lineage(
        TableColumnLineage(
            {
                **{
                    name: [TableColumnDep(key, source) for key in ledger]
                    for name, source in (("predicted", "value"), ("low", "low"), ("high", "high"))
                },
                "measured": samples,
                "spread_percent": samples,
            }
        )
    )
