"""The names of `forecasting.sanity`, where assets still look for them."""

from forecasting.sanity import (
    disturbed_windows,
    impossible,
    link_bounds,
    lost_orders,
    odd_links,
    odd_traces,
    superlinear,
    uncaptured,
)

__all__ = [
    "disturbed_windows",
    "impossible",
    "link_bounds",
    "lost_orders",
    "odd_links",
    "odd_traces",
    "superlinear",
    "uncaptured",
]
