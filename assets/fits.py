"""Each predictor, fitted to what it may see of the profiles."""

import polars as pl
from dagster import AssetsDefinition, MaterializeResult, asset

from assets.fitting import ASYNC_SGD, LINEAR, System, fit_jobs
from assets.metadata import OWNERS, of_frame
from assets.profiles import profiles_loaded
from assets.resources import StudyResource, WarehouseResource


def _fits(system: System, description: str) -> AssetsDefinition:
    @asset(
        key=["fits", system.name],
        description=description,
        deps=[profiles_loaded],
        group_name="fits",
        owners=OWNERS,
        kinds={"python", "duckdb"},
        pool="warehouse",
        code_version=system.version,
    )
    def fits(study: StudyResource, warehouse: WarehouseResource) -> MaterializeResult:
        round_, house = study.open_round(), warehouse.open()
        fitted = fit_jobs(system, round_, house)
        for fit in fitted:
            house.record_fit(fit.record)
        rows = pl.DataFrame(
            [
                (fit.job.dnn, fit.record.fit_id, fit.record.row_count, list(fit.record.run_ids))
                for fit in fitted
            ],
            schema=["dnn", "fit_id", "row_count", "run_ids"],
            orient="row",
        )
        return MaterializeResult(metadata=of_frame(rows, round_))

    return fits


async_sgd_fits = _fits(ASYNC_SGD, "The model of Li et al. (ICPE 2020), fitted to each traced job.")
linear_fits = _fits(LINEAR, "The baseline: W workers do W times the steps of one.")
