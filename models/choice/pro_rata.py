"""What k of the n devices of an instance cost, and by how much a choice of devices is regretted."""

from collections.abc import Mapping, Sequence
from math import inf

import polars as pl
from pydantic import Field

from models.choice.limits import Limits, Minimize, Outcome, exceeded_limits, objective_key
from warehouse.records import Record


class Instance(Record):
    """A machine with `devices` of one node type, and its price."""

    name: str
    node_type: str
    devices: int = Field(ge=1)
    usd_per_hour: float = Field(ge=0)


OFFERS = {
    "node_type": pl.String,
    "devices": pl.Int64,
    "instance": pl.String,
    "usd_per_hour": pl.Float64,
}
"""Devices of a node type, the instance that is rented for them, and their price."""


def pro_rata(instances: Sequence[Instance]) -> pl.DataFrame:
    """Return `OFFERS`: a row for each node type and number of devices up to the most there are.

    The cheapest instance with exactly k devices is offered; where there is none, k of n devices of
    the larger instance that is cheapest per device, for k/n of its price.

    Source: Hafeez, Gandhi, Ceer, section V.
    """
    rows = []
    for node_type in sorted({instance.node_type for instance in instances}):
        of_type = [instance for instance in instances if instance.node_type == node_type]
        for devices in range(1, max(instance.devices for instance in of_type) + 1):
            exact = [instance for instance in of_type if instance.devices == devices]
            larger = [instance for instance in of_type if instance.devices > devices]
            best = min(exact or larger, key=lambda its: (its.usd_per_hour / its.devices, its.name))
            price = best.usd_per_hour * devices / best.devices
            rows.append((node_type, devices, best.name, price))
    return pl.DataFrame(rows, schema=OFFERS, orient="row")


def regrets(
    options: pl.DataFrame, minimize: Minimize, limits: Limits
) -> Mapping[str, tuple[str | None, float | None]]:
    """Return what each chooser takes, and by which share that is above the measured best.

    They are `forecast`, `cheapest` (the lowest price an hour) and `most powerful` (the dearest
    device, and as many as there are). The last two look at prices and the hourly limit alone.

    Args:
        options: node_type, devices, usd_per_hour, and predicted_s and measured_s of the job; what
            has no forecast is not chosen by forecast.
        minimize: what is made small.
        limits: within which.

    Returns: the choice as "2 emu.avx2.s15", None: nothing; its regret: 0 for the best, infinity
        where the choice breaks a limit, or nothing was chosen though something could have been;
        None where it was not measured.

    Source: Hafeez, Gandhi, Ceer, section V.
    """
    rows = options.sort("usd_per_hour", "node_type", "devices").to_dicts()
    measured, predicted = (
        {_named(row): _value(row, time, minimize, limits) for row in rows}
        for time in ("measured_s", "predicted_s")
    )
    best = min((value for value in measured.values() if value is not None), default=inf)
    hourly = Limits(usd_per_hour=limits.usd_per_hour)
    within = [
        row for row in rows if not exceeded_limits(hourly, Outcome(0, 0, row["usd_per_hour"]))
    ]
    feasible = {name: value for name, value in predicted.items() if value not in (None, inf)}
    powerful = max(
        within,
        key=lambda row: (round(row["usd_per_hour"] / row["devices"], 8), row["devices"]),
        default=None,
    )
    chosen = {
        "forecast": min(feasible, key=lambda name: feasible[name] or 0.0, default=None),
        "cheapest": next(map(_named, within), None),
        "most powerful": None if powerful is None else _named(powerful),
    }
    return {
        who: (name, _regret(None if name is None else measured[name], best, name is not None))
        for who, name in chosen.items()
    }


def _named(row: Mapping[str, object]) -> str:
    return f"{row['devices']} {row['node_type']}"


def _value(
    row: Mapping[str, float | None], time: str, minimize: Minimize, limits: Limits
) -> float | None:
    """Return the objective; infinity where a limit is broken, None where the time is not known."""
    time_s, usd_per_hour = row[time], row["usd_per_hour"]
    if time_s is None or usd_per_hour is None:
        return None
    outcome = Outcome(time_s, time_s * usd_per_hour / 3600, usd_per_hour)
    if exceeded_limits(limits, outcome):
        return inf
    return objective_key(minimize, outcome.time_s, outcome.cost_usd)[0]


def _regret(value: float | None, best: float, is_chosen: bool) -> float | None:
    if not is_chosen:
        return 0.0 if best == inf else inf
    if value is None or value == inf:
        return value
    return value / best - 1 if best > 0 else 0.0
