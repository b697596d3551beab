"""How commands say at which prices something was reckoned, and of when these are."""

from collections.abc import Iterable
from datetime import UTC, datetime

from warehouse.records import Price


def priced(prices: Iterable[Price]) -> str:
    """Return the prices with market, place, source and date."""
    return "; ".join(
        f"{one.node_type} ${one.usd_per_hour:g}/h {one.market.replace('_', ' ')} in "
        f"{one.zone or one.region or 'any region'} ({_origin(one)})"
        for one in prices
    )


def _origin(price: Price) -> str:
    """Return the source and the date, or the year where no more is known."""
    when = price.observed_at
    if when is None:
        return price.source
    only_year = when == datetime(when.year, 1, 1, tzinfo=UTC)
    return f"{price.source}, {when:{'%Y' if only_year else '%Y-%m-%d'}}"
