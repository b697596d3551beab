"""Launches as the book has them."""

from datetime import UTC, datetime
from typing import Any

from profilers.renting.book import LaunchIntent

AT = datetime(2026, 11, 26, tzinfo=UTC)


def intent(token: str = "t0", **fields: Any) -> LaunchIntent:
    """Return a launch: an m5.large of us-east-1 for a dollar and an hour, but for `fields`."""
    usual: dict[str, Any] = {
        "token": token,
        "owner": "o",
        "account": "a",
        "region": "us-east-1",
        "zone": None,
        "node_type": "m5.large",
        "market": "on_demand",
        "count": 1,
        "usd_per_hour": 1.0,
        "hours": 1.0,
        "at": AT,
    }
    return LaunchIntent.model_validate(usual | fields)
