"""Where instances are asked for, in which order, and what they cost there."""

from collections.abc import Sequence

from profilers.clusters.fleet import Launch
from profilers.renting.allowance import Allowance
from profilers.renting.renter import Place
from warehouse.records import Market


def places_of(node_type: str, market: Market, how: Launch, allowance: Allowance) -> list[Place]:
    """Return the places of a node type: the zones of the fleet file, in its order.

    Raises:
        BadInput: nobody knows the price.
    """
    rate, volume_usd = allowance.rate(node_type, market), how.volume.usd_per_hour
    return [
        Place(how.region, zone, node_type, market, rate.most_usd_per_hour, volume_usd)
        for zone in how.places
    ]


def hourly_usd(places: Sequence[Place]) -> float:
    """Return what an instance costs an hour at the dearest of some places, with its volumes."""
    return max(one.usd_per_hour + one.volume_usd_per_hour for one in places)
