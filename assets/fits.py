"""Each predictor, fitted to what it may see of the profiles."""

import polars as pl
from dagster import AssetsDefinition, MaterializeResult, ResourceParam, asset

from assets.metadata import OWNERS, of_frame
from assets.profiles import profiles_loaded
from assets.resources import StudyResource, WarehouseResource
from forecasting.fitting import fit_curves
from models.system import System
from models.systems import SYSTEMS
from studies.progress import Progress


def _fits(system: System) -> AssetsDefinition:
    @asset(
        key=["fits", system.name],
        description=system.what,
        deps=[profiles_loaded],
        group_name="fits",
        owners=OWNERS,
        kinds={"python", "duckdb"},
        pool="warehouse",
        code_version=system.version,
    )
    def fits(
        study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
    ) -> MaterializeResult:
        round_, house = study.latest_round(), warehouse.open()
        fitted = fit_curves(system, round_, house, progress)
        house.record_fit(*(fit.record for fit in fitted))
        rows = pl.DataFrame(
            [
                (fit.curve.dnn, fit.record.fit_id, fit.record.row_count, list(fit.record.run_ids))
                for fit in fitted
            ],
            schema=["dnn", "fit_id", "row_count", "run_ids"],
            orient="row",
        )
        return MaterializeResult(metadata=of_frame(rows, round_))

    return fits


FITS = [_fits(system) for system in SYSTEMS]
