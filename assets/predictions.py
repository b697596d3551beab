"""What each fitted predictor forecasts, written to the ledger before anything is measured."""

from dagster import AssetsDefinition, MaterializeResult, ResourceParam, asset

from assets.fits import FITS
from assets.metadata import OWNERS, of_frame
from assets.resources import StudyResource, WarehouseResource
from forecasting.fitting import predict_missing
from models.async_sgd.systems import ASYNC_SGD
from models.linear import LINEAR
from models.system import System
from models.systems import SYSTEMS
from reports import study_plots
from reports.results import curves, forecasts
from studies.progress import Progress


def _predictions(system: System, fits: AssetsDefinition) -> AssetsDefinition:
    @asset(
        key=["predictions", system.name],
        description=f"{system.what} Written to the ledger before anything is measured.",
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
        round_ = study.latest_round()
        ledger = predict_missing(system, round_, warehouse.open(), progress)
        rows = forecasts(round_, ledger, system.name).drop_nulls("predicted")
        label = round_.study.metric_in_words
        figures = [study_plots.forecasts(curves(rows), label, system.name)] if rows.height else []
        return MaterializeResult(metadata=of_frame(ledger, round_, figures))

    return predictions


PREDICTIONS = [_predictions(system, fits) for system, fits in zip(SYSTEMS, FITS, strict=True)]
async_sgd_predictions = PREDICTIONS[SYSTEMS.index(ASYNC_SGD)]
linear_predictions = PREDICTIONS[SYSTEMS.index(LINEAR)]
