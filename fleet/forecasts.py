"""What systems forecast of a member's networks from its newest profiles."""

from collections.abc import Callable

import polars as pl

from fleet.members import Member
from fleet.studies import visit
from forecasting.asked.answer import Forecast, predict_asked
from forecasting.chosen import named
from warehouse.records import Backend
from warehouse.warehouse import Warehouse

_SCHEMA = {
    "scenario": pl.String,
    "system": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "fit_id": pl.String,
    "is_new": pl.Boolean,
    "refused": pl.String,
}


def refit(
    member: Member, backend: Backend, warehouse: Warehouse, say: Callable[[str], None]
) -> pl.DataFrame:
    """Fit what can be fitted to a member's newest profiles, and forecast its networks.

    Fits and forecasts go to the ledger, as those that `stepcast predict` makes: asked for, and
    judged apart from those of studies.

    Returns:
        One row per scenario and system: a forecast with its interval, or why there is none.
    """
    curves = [one.model_copy(update={"is_judged": True}) for one in visit(member).curves]
    answer = predict_asked(warehouse, curves, named([]), backend=backend, say=say)
    told = [_told(one) for one in answer.forecasts]
    refused = [
        {"scenario": one.scenario.label, "system": one.system.name, "refused": one.reason}
        for one in answer.refused
        if not one.foreign
    ]
    return pl.DataFrame([*told, *refused], schema=_SCHEMA)


def _told(one: Forecast) -> dict[str, object]:
    return {
        "scenario": one.scenario.label,
        "system": one.system.name,
        "metric": one.metric.name,
        "value": one.value,
        "low": one.low,
        "high": one.high,
        "fit_id": one.fit.fit_id,
        "is_new": one.is_new,
    }
