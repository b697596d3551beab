"""Forecasts that were merely asked for, as the ledger keeps them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from forecasting.fit_plan import prediction_of
from forecasting.history_scope import HostSelection
from models.system import System
from warehouse.ledger import FitRecord
from warehouse.records import Prediction
from warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from forecasting.forecast import ScenarioForecast


def write_forecasts(
    new: Sequence["ScenarioForecast"],
    place: HostSelection,
    warehouse: Warehouse,
    refused: Mapping[System, Sequence[FitRecord]] | None = None,
) -> int:
    """Write forecasts and return how many are new; for nothing new the history is not opened.

    Args:
        new: forecasts.
        place: whose they are.
        warehouse: the history.
        refused: fits that were made, by system, whose forecasts may all be refused: they need not
            be made again when somebody asks the next time.
    """
    fits = [forecast.fit.record for forecast in new if forecast.fit.record is not None]
    fits += [record for records in (refused or {}).values() for record in records]
    if not new and not fits:
        return 0
    return warehouse.record_asked(
        fits,
        [forecast.scenario for forecast in new],
        [_prediction(forecast, place) for forecast in new],
        {forecast.cost.prices for forecast in new if forecast.cost is not None},
    )


def snapshot_of(forecast: "ScenarioForecast") -> str | None:
    """Return the id of the prices that a forecast names."""
    return None if forecast.cost is None else forecast.cost.snapshot


def _prediction(forecast: "ScenarioForecast", place: HostSelection) -> Prediction:
    figures = forecast.value, forecast.low, forecast.high, forecast.unknown
    return prediction_of(
        forecast.system,
        forecast.fit.fit_id,
        forecast.scenario,
        figures,
        backend=place.backend,
        host_id=place.host_id,
        price_snapshot=snapshot_of(forecast),
    )
