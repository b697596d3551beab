"""How wrong the predictions were."""

from dagster import AutomationCondition, MaterializeResult, MetadataValue, ResourceParam, asset

from assets.measured import measured_loaded
from assets.metadata import OWNERS, of_frame
from assets.resources import StudyResource, WarehouseResource
from forecasting.evaluation import evaluate
from forecasting.results import outcome
from reports import plots, report
from studies.plan import REPORT_NAME
from studies.progress import Progress

_WHEN = AutomationCondition.eager() & AutomationCondition.all_deps_blocking_checks_passed()


@asset(
    key=["accuracy", "table"],
    deps=[measured_loaded],
    group_name="accuracy",
    owners=OWNERS,
    kinds={"duckdb"},
    pool="warehouse",
    automation_condition=_WHEN,
)
def table(study: StudyResource, warehouse: WarehouseResource) -> MaterializeResult:
    """Predicted beside measured, one row for each scenario of the round that ran last."""
    round_ = study.latest_round()
    rows = outcome(round_, warehouse.open().accuracy())
    metric, baseline = round_.study.metric_in_words, round_.study.baseline_in_words
    figures = [
        plots.scaling(curve, metric, curve["dnn"][0], baseline)
        for curve in rows.partition_by("curve", maintain_order=True)
    ]
    return MaterializeResult(metadata=of_frame(rows, round_, figures))


@asset(
    key=["accuracy", "report"],
    deps=[table],
    group_name="accuracy",
    owners=OWNERS,
    kinds={"html", "matplotlib"},
    pool="warehouse",
    automation_condition=_WHEN,
)
def html_report(
    study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
) -> MaterializeResult:
    """The newest round of the whole study as one HTML file that needs no network."""
    progress.say(REPORT_NAME)
    round_ = study.whole_round()
    found = evaluate(round_, warehouse.open())
    file = report.write(found, warehouse.report)
    progress.finished(REPORT_NAME)
    return MaterializeResult(
        metadata={**of_frame(found.rows, round_), "file": MetadataValue.path(file)}
    )
