"""Forecasts that were merely asked for, as the ledger keeps them."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from forecasting.asked.place import Place
from warehouse import systems as registered
from warehouse.records import Prediction
from warehouse.version import code_version
from warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from forecasting.asked.answer import Forecast


def write(new: Sequence["Forecast"], place: Place, warehouse: Warehouse) -> int:
    """Write forecasts and return how many are new; for none of them the history is not opened."""
    if not new:
        return 0
    return warehouse.record_asked(
        tuple(_systems(new)),
        [one.fit.record for one in new if one.fit.record is not None],
        [one.scenario for one in new],
        [_prediction(one, place) for one in new],
        {one.cost.prices for one in new if one.cost is not None},
    )


def snapshot_of(one: "Forecast") -> str | None:
    """Return the id of the prices that a forecast names."""
    return None if one.cost is None else one.cost.snapshot


def _systems(new: Iterable["Forecast"]) -> Iterator[registered.System]:
    for one in dict.fromkeys(forecast.system for forecast in new):
        yield registered.System(name=one.name, what=one.what, source=one.source)


def _prediction(one: "Forecast", place: Place) -> Prediction:
    return Prediction(
        system=one.system.name,
        model_version=one.system.version,
        fit_id=one.fit.fit_id,
        subject_id=one.scenario.scenario_id,
        backend=place.backend,
        host_id=place.host_id,
        study=None,
        repeat=None,
        metric=one.metric.name,
        unit=one.metric.unit,
        value=one.value,
        low=one.low,
        high=one.high,
        price_snapshot=snapshot_of(one),
        code_version=code_version(),
        made_at=datetime.now(UTC),
    )
