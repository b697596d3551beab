"""Assets of how wrong forecasts were."""

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

from assets.metadata import OWNERS, comments, errors, of_frame, of_table
from assets.resources import RoundsResource, WarehouseResource
from assets.study_lineage import StudyLineage
from forecasting.evaluation import evaluate
from forecasting.findings.study import with_pending
from forecasting.inputs import baseline_in_words
from forecasting.results import by_system, outcome, scaling
from reports import report, study_plots
from studies.messages import Progress
from studies.plan import REPORT_NAME

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
            study_plots.scaling(curve, metric, curve["dnn"][0], baseline) for curve in scaling(rows)
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
                    mine: [TableColumnDep(key, theirs) for key in ledger]
                    for mine, theirs in (("predicted", "value"), ("low", "low"), ("high", "high"))
                },
                "measured": samples,
                "spread_percent": samples,
            }
        )
    )
