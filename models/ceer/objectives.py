"""What a user wants of time and cost; the paper's four scenarios by name (section V)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Objective:
    """Minimise `value(time_s, cost_usd)` of an epoch, within limits (None: no limit)."""

    name: str
    value: Callable[[float, float], float]
    max_usd_per_hour: float | None = None
    max_cost_usd: float | None = None
    max_time_s: float | None = None

    def obstacle(self, time_s: float, cost_usd: float, usd_per_hour: float) -> str | None:
        """Return which limit is exceeded, None if none is."""
        limits = (
            (usd_per_hour, self.max_usd_per_hour, "US dollars per hour"),
            (cost_usd, self.max_cost_usd, "US dollars"),
            (time_s, self.max_time_s, "seconds"),
        )
        for found, limit, unit in limits:
            if limit is not None and found > limit:
                return f"{found:.4g} {unit}, above {limit:.4g}"
        return None


def fastest(time_s: float, cost_usd: float) -> float:
    """Return the time: the objective of whoever is in a hurry."""
    return time_s


def cheapest(time_s: float, cost_usd: float) -> float:
    """Return the cost: the objective of whoever can wait."""
    return cost_usd


def hourly_budget(usd_per_hour: float) -> Objective:
    """Return the paper's first scenario: the least time for at most so much an hour (Fig. 9).

    The time is that of an epoch, as several devices take more samples in a step than one does.
    """
    return Objective("hourly_budget", fastest, max_usd_per_hour=usd_per_hour)


def total_budget(usd: float) -> Objective:
    """Return the paper's second scenario: the least time for at most so much in all (Fig. 10)."""
    return Objective("total_budget", fastest, max_cost_usd=usd)


def least_cost() -> Objective:
    """Return the paper's third scenario: the least cost, however long it takes (Fig. 11)."""
    return Objective("cheapest", cheapest)


def least_cost_at_market_prices() -> Objective:
    """Return the paper's fourth scenario, as the third; with `offers.market_prices` (Fig. 12)."""
    return Objective("market_prices", cheapest)


def scenarios(usd_per_hour: float = 3.42, usd: float = 10.0) -> Mapping[str, Objective]:
    """Return the paper's four scenarios by name.

    Args:
        usd_per_hour: hourly budget; the paper's is 3 dollars, and lets its two dearest offers
            exceed it, which its footnote calls a budget of 3.42.
        usd: total budget.
    """
    found = (
        hourly_budget(usd_per_hour),
        total_budget(usd),
        least_cost(),
        least_cost_at_market_prices(),
    )
    return {one.name: one for one in found}
