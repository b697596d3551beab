"""What each fitted predictor forecasts, written to the ledger before anything is measured."""

from dagster import AssetsDefinition, MaterializeResult, ResourceParam, asset

from assets import plots
from assets.fits import async_sgd_fits, linear_fits
from assets.fitting import ASYNC_SGD, LINEAR, System, predict_missing
from assets.metadata import OWNERS, of_frame
from assets.progress import Progress
from assets.resources import StudyResource, WarehouseResource
from assets.results import forecasts


def _predictions(system: System, fits: AssetsDefinition, description: str) -> AssetsDefinition:
    @asset(
        key=["predictions", system.name],
        description=description,
        deps=[fits],
        group_name="predictions",
        owners=OWNERS,
        kinds={"python", "duckdb"},
        pool="warehouse",
        code_version=system.version,
    )
    def predictions(
        study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
    ) -> MaterializeResult:
        round_ = study.open_round()
        ledger = predict_missing(system, round_, warehouse.open(), progress)
        rows = forecasts(round_, ledger).with_columns(measured=None, spread_percent=None)
        figures = [
            plots.scaling(job, job["dnn"][0])
            for job in rows.partition_by("job", maintain_order=True)
        ]
        return MaterializeResult(metadata=of_frame(ledger, round_, figures))

    return predictions


async_sgd_predictions = _predictions(
    ASYNC_SGD, async_sgd_fits, "Throughput by simulation of the traced steps, with an interval."
)
linear_predictions = _predictions(LINEAR, linear_fits, "Throughput by linear scaling.")
