"""Assets of a study: probes run where a round lacks them, fits, forecasts, errors."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import dagster as dg
import polars as pl

from assets.metadata import OWNERS, errors, of_figures, of_frame, of_table
from assets.resources import RoundsResource, WarehouseResource
from assets.study_lineage import StudyLineage
from forecasting.evaluation import evaluate, with_pending
from forecasting.inputs import baseline_in_words
from forecasting.results import by_system, scaling
from forecasting.round_forecasts import check_predicted, fit_round, predict_missing
from models.system import System
from profilers.probes import PROBES
from reports import report, study_sections
from studies import run_tables
from studies.measurement import measure, profile
from studies.messages import Progress
from studies.plan import REPORT_NAME, fit_name
from studies.rounds import Round

_MONTH = dg.FreshnessPolicy.time_window(fail_window=timedelta(days=30))
POOL = "measuring_host"
_WHEN = dg.AutomationCondition.eager() & dg.AutomationCondition.all_deps_blocking_checks_passed()


def table_of(probe: str) -> str:
    """Return the table of the history that has most of what a probe lands."""
    return f"raw.{PROBES[probe].tables[0]}"


def profile_asset(of: StudyLineage, probe: str) -> dg.AssetsDefinition:
    """Return the asset that runs a probe for predictors to see, before anything is predicted."""

    @dg.asset(
        key=of.key("profiles", probe),
        description=PROBES[probe].what,
        group_name=of.name,
        owners=OWNERS,
        kinds={PROBES[probe].kind, "profile"},
        pool=POOL,
        freshness_policy=_MONTH,
        metadata=of_table(table_of(probe)),
    )
    def profiled(
        rounds: RoundsResource, warehouse: WarehouseResource, progress: dg.ResourceParam[Progress]
    ) -> dg.MaterializeResult:
        round_ = rounds.opened(of.path)
        with rounds.renting(round_, progress):
            round_ = profile(round_, probe, warehouse.landing, progress)
        rounds.keep(of.path, round_)
        loaded = load(warehouse, progress)
        rows = profile_rows(round_, warehouse.landing, probe)
        return dg.MaterializeResult(metadata=of_frame(rows, round_) | loaded)

    return profiled


def measured_asset(
    of: StudyLineage, probe: str, predicted: Sequence[dg.AssetKey]
) -> dg.AssetsDefinition:
    """Return the asset that runs a probe on test scenarios, after what is predicted of them."""

    @dg.asset(
        key=of.key("measured", probe),
        description=f"{PROBES[probe].what} Of test scenarios, after they have been predicted.",
        deps=predicted,
        group_name=of.name,
        owners=OWNERS,
        kinds={PROBES[probe].kind, "measured"},
        pool=POOL,
        freshness_policy=_MONTH,
        metadata=of_table(table_of(probe)),
    )
    def measured(
        rounds: RoundsResource, warehouse: WarehouseResource, progress: dg.ResourceParam[Progress]
    ) -> dg.MaterializeResult:
        round_ = rounds.latest_here(of.path)
        check_predicted(round_, warehouse.published_ledger())
        with rounds.renting(round_, progress):
            round_ = measure(round_, warehouse.landing, progress, [probe])
        rounds.keep(of.path, round_)
        loaded = load(warehouse, progress)
        samples = run_tables.rows(round_, warehouse.landing, probe, "sample", "measurement")
        return dg.MaterializeResult(metadata=of_frame(samples, round_) | loaded)

    return measured


def profile_rows(round_: Round, landing: Path, probe: str) -> pl.DataFrame:
    """Return the rows of the first table of a probe that fits may see."""
    return run_tables.rows(round_, landing, probe, PROBES[probe].tables[0], "profile")


def load(warehouse: WarehouseResource, progress: Progress) -> dict[str, dg.MetadataValue]:
    """Load whatever has landed; return how much that was. A run set aside is told of."""
    report = warehouse.open().load()
    for run in report.quarantined:
        progress.warn(f"landed run {run.run_id} was set aside in {run.folder}: {run.reason}")
    return {
        "newly_loaded": dg.MetadataValue.int(len(report.loaded)),
        "set_aside": dg.MetadataValue.int(len(report.quarantined)),
    }


def fit_asset(of: StudyLineage, system: System) -> dg.AssetsDefinition:
    """Return the asset that fits a system; it depends on the probes that the system rests on."""
    probes = dict.fromkeys(need.probe for need in of.rests[system])

    @dg.asset(
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
        rounds: RoundsResource, warehouse: WarehouseResource, progress: dg.ResourceParam[Progress]
    ) -> dg.MaterializeResult:
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
        return dg.MaterializeResult(metadata=of_frame(rows, round_))

    return fits


def prediction_asset(of: StudyLineage, system: System) -> dg.AssetsDefinition:
    """Return the asset that writes a system's forecasts to the ledger."""

    @dg.asset(
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
        rounds: RoundsResource, warehouse: WarehouseResource, progress: dg.ResourceParam[Progress]
    ) -> dg.MaterializeResult:
        round_ = rounds.to_forecast(of.path)
        ledger = predict_missing(system, round_, warehouse.open(), progress)
        return dg.MaterializeResult(metadata=of_frame(ledger, round_))

    return predictions


def table_asset(of: StudyLineage) -> dg.AssetsDefinition:
    """Return the asset of forecasts beside measurements."""

    @dg.asset(
        key=of.key("accuracy", "table"),
        deps=[of.key("measured", probe) for probe in of.measuring],
        group_name=of.name,
        owners=OWNERS,
        kinds={"duckdb"},
        pool="warehouse",
        automation_condition=_WHEN,
        metadata=of_table("report.accuracy"),
    )
    def table(rounds: RoundsResource, warehouse: WarehouseResource) -> dg.MaterializeResult:
        """Predicted beside measured, one row for each scenario of the round that ran last."""
        round_ = rounds.latest(of.path)
        history = warehouse.open()
        accuracy = history.query("judged")
        rows = with_pending(round_, accuracy, history)
        metric, baseline = round_.study.metric.in_words, baseline_in_words(round_.study)
        figures = of_figures(
            study_sections.scaling(curve, metric, curve["dnn"][0], baseline)
            for curve in scaling(rows)
        )
        shown = of_frame(rows, round_) | figures | errors(by_system(round_, accuracy))
        return dg.MaterializeResult(metadata=shown)

    return table


def report_asset(of: StudyLineage) -> dg.AssetsDefinition:
    """Return the asset of the HTML report."""

    @dg.asset(
        key=of.key("accuracy", "report"),
        deps=[of.key("accuracy", "table")],
        group_name=of.name,
        owners=OWNERS,
        kinds={"html", "matplotlib"},
        pool="warehouse",
        automation_condition=_WHEN,
    )
    def html_report(
        rounds: RoundsResource, warehouse: WarehouseResource, progress: dg.ResourceParam[Progress]
    ) -> dg.MaterializeResult:
        """The newest round of the whole study as one HTML file that needs no network."""
        progress.say(REPORT_NAME)
        round_ = rounds.whole(of.path)
        evaluation = evaluate(round_, warehouse.open())
        file = report.write(evaluation, warehouse.report)
        progress.finished(REPORT_NAME)
        return dg.MaterializeResult(
            metadata={**of_frame(evaluation.rows, round_), "file": dg.MetadataValue.path(file)}
        )

    return html_report
