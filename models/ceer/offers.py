"""What can be rented, and what k of its n devices cost (section V)."""

from collections.abc import Mapping, Sequence

import polars as pl
from pydantic import Field

from warehouse.records import BadInput, Record


class Instance(Record):
    """A machine with `devices` of one node type, and its price."""

    name: str
    node_type: str
    devices: int = Field(ge=1)
    usd_per_hour: float = Field(ge=0)


class DeviceOffer(Record):
    """`devices` of a node type for a price; `instance` is what is rented.

    `instance_devices` is what the instance has: where that is more, the price is pro rata.
    """

    instance: str
    instance_devices: int
    node_type: str
    devices: int
    usd_per_hour: float


def pro_rata(instances: Sequence[Instance]) -> tuple[DeviceOffer, ...]:
    """Return one offer for each node type and number of devices up to the most there are.

    The cheapest instance with exactly k devices is offered; where there is none, k of n devices of
    the larger instance that is cheapest per device, for k/n of its price.

    Source: Hafeez, Gandhi, Ceer, section V.
    """
    offers = []
    for node_type in sorted({instance.node_type for instance in instances}):
        mine = [instance for instance in instances if instance.node_type == node_type]
        for devices in range(1, max(one.devices for one in mine) + 1):
            exact = [one for one in mine if one.devices == devices]
            larger = [one for one in mine if one.devices > devices]
            best = min(exact or larger, key=lambda one: (one.usd_per_hour / one.devices, one.name))
            offers.append(
                DeviceOffer(
                    instance=best.name,
                    instance_devices=best.devices,
                    node_type=node_type,
                    devices=devices,
                    usd_per_hour=price_of_devices(best.usd_per_hour, devices, best.devices),
                )
            )
    return tuple(offers)


def price_of_devices(usd_per_hour: float, devices: int, of: int) -> float:
    """Return the price of some of an instance's devices: k/n of its own.

    Source: Hafeez, Gandhi, Ceer, section V.
    """
    return usd_per_hour * devices / of


def market_prices(usd_per_hour: Mapping[str, float], devices: int) -> tuple[DeviceOffer, ...]:
    """Return offers of 1 to `devices` devices of each node type, k of them for k times the price.

    Args:
        usd_per_hour: price of one device by node type.
        devices: the most that are offered.

    Source: Hafeez, Gandhi, Ceer, section V, budget minimisation with commodity prices.
    """
    single = [
        (name, price, k) for name, price in usd_per_hour.items() for k in range(1, devices + 1)
    ]
    return tuple(
        DeviceOffer(
            instance=node_type,
            instance_devices=k,
            node_type=node_type,
            devices=k,
            usd_per_hour=price * k,
        )
        for node_type, price, k in single
    )


def price_epochs(epochs: pl.DataFrame, offers: Sequence[DeviceOffer]) -> pl.DataFrame:
    """Return epochs that are on offer, with instance, usd_per_hour and cost_usd, its low and high.

    Args:
        epochs: node_type, devices and time_s, seconds; where there are time_low_s and time_high_s,
            cost_low_usd and cost_high_usd follow from them.
        offers: what can be rented.

    Raises:
        BadInput: none of the epochs is on offer.
    """
    table = pl.DataFrame([offer.model_dump() for offer in offers], schema=_OFFERED)
    joined = epochs.join(table, on=["node_type", "devices"])
    if joined.is_empty():
        there = ", ".join(sorted({f"{offer.devices} x {offer.node_type}" for offer in offers}))
        raise BadInput(
            f"offers: expected prices of the predicted node types, found {there or 'none'}; add a "
            f"price of {', '.join(epochs['node_type'].unique().sort())}"
        )
    hourly = pl.col("usd_per_hour") / 3600
    costs = {"time_s": "cost_usd", "time_low_s": "cost_low_usd", "time_high_s": "cost_high_usd"}
    return joined.with_columns(
        (pl.col(time) * hourly).alias(cost)
        for time, cost in costs.items()
        if time in joined.columns
    )


_OFFERED = {
    "instance": pl.String,
    "instance_devices": pl.Int64,
    "node_type": pl.String,
    "devices": pl.Int64,
    "usd_per_hour": pl.Float64,
}
