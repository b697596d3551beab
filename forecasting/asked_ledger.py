"""Forecasts that were merely asked for, as the ledger keeps them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from forecasting.fit_plan import prediction_of
from forecasting.history_scope import HostSelection
from warehouse.ledger import FitRecord
from warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from forecasting.forecast import ScenarioForecast


def write_forecasts(
    new: Sequence["ScenarioForecast"],
    chosen_host: HostSelection,
    warehouse: Warehouse,
    made: Sequence[FitRecord] = (),
) -> int:
    """Write forecasts and return how many are new; for nothing new the history is not opened.

    Args:
        new: forecasts.
        chosen_host: whose they are.
        warehouse: the history.
        made: fits that were made now. Also those whose forecasts are all refused are kept, so that
            nobody has to make them again.
    """
    of_forecasts = [forecast.fit.record for forecast in new if forecast.fit.record is not None]
    # By their ids they are told apart when they are written; each id is a hash of a megabyte.
    fits = {id(record): record for record in (*of_forecasts, *made)}
    if not new and not fits:
        return 0
    return warehouse.record_asked(
        list(fits.values()),
        [forecast.scenario for forecast in new],
        [
            prediction_of(
                forecast.system,
                forecast.fit.fit_id,
                forecast.scenario,
                (forecast.value, forecast.low, forecast.high, forecast.unknown),
                backend=chosen_host.backend,
                host_id=chosen_host.host_id,
                price_snapshot=forecast.price_snapshot,
            )
            for forecast in new
        ],
        {forecast.prices for forecast in new if forecast.prices is not None},
    )
