"""Assets that forecast: a system fitted to what it rests on, and what it says of test scenarios."""

import polars as pl
from dagster import AssetsDefinition, MaterializeResult, ResourceParam, asset

from assets.metadata import OWNERS, comments, of_frame, of_table
from assets.resources import RoundsResource, WarehouseResource
from assets.studied import Studied
from forecasting.fitting import fit_curves, predict_missing
from forecasting.results import curves, forecasts
from models.system import System
from reports import study_plots
from studies.plan import fit_name
from studies.progress import Progress


def fit_asset(of: Studied, system: System) -> AssetsDefinition:
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
        round_, house = rounds.latest(of.path), warehouse.open()
        fitted = fit_curves(system, round_, house, progress)
        house.record_fit(*(fit.record for fit in fitted))
        progress.finished(fit_name(system.name))
        rows = pl.DataFrame(
            [
                (fit.curve.dnn, fit.record.fit_id, fit.record.row_count, list(fit.record.run_ids))
                for fit in fitted
            ],
            schema=["dnn", "fit_id", "row_count", "run_ids"],
            orient="row",
        )
        return MaterializeResult(
            metadata=of_frame(rows, round_, (), comments(warehouse, "fit.fit"))
        )

    return fits


def prediction_asset(of: Studied, system: System) -> AssetsDefinition:
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
        round_ = rounds.latest(of.path)
        ledger = predict_missing(system, round_, warehouse.open(), progress)
        rows = forecasts(round_, ledger, system.name).drop_nulls("predicted")
        label = round_.study.metric.in_words
        figures = [study_plots.forecasts(curves(rows), label, system.name)] if rows.height else []
        return MaterializeResult(
            metadata=of_frame(ledger, round_, figures, comments(warehouse, "pred.ledger"))
        )

    return predictions
