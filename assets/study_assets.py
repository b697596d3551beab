"""Assets of a study: probes run where a round lacks them, fits, forecasts, errors."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

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
from warehouse.records import Purpose

_MONTH = dg.FreshnessPolicy.time_window(fail_window=timedelta(days=30))
POOL = "measuring_host"
_WHEN = dg.AutomationCondition.eager() & dg.AutomationCondition.all_deps_blocking_checks_passed()


def table_of(probe: str) -> str:
    """Return the table of the history that has most of what a probe lands."""
    return f"raw.{PROBES[probe].tables[0]}"


def _declared(
    of: StudyLineage, group: str, noun: str, kinds: set[str], table: str, pool: str = "warehouse"
) -> dict[str, Any]:
    """Return what Dagster is told of any asset of a study."""
    return {
        "key": of.key(group, noun),
        "group_name": of.name,
        "owners": OWNERS,
        "kinds": kinds,
        "metadata": of_table(table),
        "pool": pool,
    }


def probe_asset(
    of: StudyLineage, probe: str, purpose: Purpose, predicted: Sequence[dg.AssetKey] = ()
) -> dg.AssetsDefinition:
    """Return the asset that runs a probe.

    It profiles before anything is predicted, or measures test scenarios after what is.
    """
    profiles, kind, table = purpose == "profile", PROBES[probe].kind, table_of(probe)
    group, noun = ("profiles", "profile") if profiles else ("measured", "measured")
    of_test = "" if profiles else " Of test scenarios, after they have been predicted."

    @dg.asset(
        **_declared(of, group, probe, {kind, noun}, table, POOL),
        description=f"{PROBES[probe].what}{of_test}",
        deps=predicted,
        freshness_policy=_MONTH,
    )
    def probed(
        rounds: RoundsResource, warehouse: WarehouseResource, progress: dg.ResourceParam[Progress]
    ) -> dg.MaterializeResult:
        round_ = rounds.opened(of.path) if profiles else rounds.latest_here(of.path)
        if not profiles:
            check_predicted(round_, warehouse.published_ledger())
        with rounds.renting(round_, progress):
            if profiles:
                round_ = profile(round_, probe, warehouse.landing, progress)
            else:
                round_ = measure(round_, warehouse.landing, progress, [probe])
        rounds.keep(of.path, round_)
        loaded = load(warehouse, progress)
        name = PROBES[probe].tables[0] if profiles else "sample"
        rows = run_tables.rows(round_, warehouse.landing, probe, name, purpose)
        return dg.MaterializeResult(metadata=of_frame(rows, round_) | loaded)

    return probed


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
        **_declared(of, "fits", system.name, {"fit", "duckdb"}, "fit.fit"),
        description=f"The fit of {system.name}. {system.what}",
        deps=[*(of.key("profiles", probe) for probe in probes), *of.learned(system)],
        code_version=system.version,
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
        **_declared(of, "predictions", system.name, {"forecast", "duckdb"}, "pred.ledger"),
        description=f"What {system.name} forecasts, written to the ledger before anything is "
        f"measured. {system.what}",
        deps=[of.key("fits", system.name)],
        code_version=system.version,
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
        **_declared(of, "accuracy", "table", {"duckdb"}, "report.accuracy"),
        deps=[of.key("measured", probe) for probe in of.measuring],
        automation_condition=_WHEN,
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
