"""How commands say at which prices something was reckoned, and of when these are."""

from collections.abc import Iterable

from warehouse.records import Price


def priced(prices: Iterable[Price]) -> str:
    """Return the prices with market, place, source and date."""
    return "; ".join(
        f"{one.node_type} ${one.usd_per_hour:g}/h {one.market.replace('_', ' ')} in "
        f"{one.zone or one.region or 'any region'} ({_origin(one)})"
        for one in prices
    )


def _origin(price: Price) -> str:
    seen = "" if price.observed_at is None else f", {price.observed_at:%Y-%m-%d}"
    return f"{price.source}{seen}"
