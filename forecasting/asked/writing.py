"""Forecasts that were merely asked for, as the ledger keeps them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from forecasting.asked.place import Place
from models.system import System
from warehouse import systems as registered
from warehouse.ledger import FitRecord
from warehouse.records import Prediction
from warehouse.version import code_version
from warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from forecasting.asked.answer import Forecast


def write(
    new: Sequence["Forecast"],
    place: Place,
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
    fits = [(one.system, one.fit.record) for one in new if one.fit.record is not None]
    fits += [(system, one) for system, records in (refused or {}).items() for one in records]
    if not new and not fits:
        return 0
    return warehouse.record_asked(
        tuple(_systems([*(one.system for one in new), *(system for system, _ in fits)])),
        [record for _, record in fits],
        [one.scenario for one in new],
        [_prediction(one, place) for one in new],
        {one.cost.prices for one in new if one.cost is not None},
    )


def snapshot_of(one: "Forecast") -> str | None:
    """Return the id of the prices that a forecast names."""
    return None if one.cost is None else one.cost.snapshot


def _systems(systems: Iterable[System]) -> Iterator[registered.System]:
    for one in dict.fromkeys(systems):
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
