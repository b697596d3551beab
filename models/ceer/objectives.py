"""The paper's four scenarios by name: what is minimised, within which limits (section V)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from models.choosing.limits import LIMITS, Limits, Outcome, exceeded
from models.choosing.objectives import cheapest, fastest

_SAID = {"deadline_s": "seconds", "budget_usd": "US dollars", "usd_per_hour": "US dollars per hour"}


@dataclass(frozen=True)
class Objective:
    """Minimise `value(time_s, cost_usd)` of an epoch, within limits."""

    name: str
    value: Callable[[float, float], float]
    limits: Limits = field(default_factory=Limits)

    def obstacle(self, outcome: Outcome) -> str | None:
        """Return which limits are exceeded, None if none is."""
        found = dict(zip(LIMITS, outcome, strict=True))
        return (
            " and ".join(
                f"{found[one]:.4g} {_SAID[one]}, above {self.limits.of(one):.4g}"
                for one in exceeded(self.limits, outcome)
            )
            or None
        )


def hourly_budget(usd_per_hour: float) -> Objective:
    """Return the paper's first scenario: the least time for at most so much an hour (Fig. 9).

    The time is that of an epoch, as several devices take more samples in a step than one does.
    """
    return Objective("hourly_budget", fastest, Limits(usd_per_hour=usd_per_hour))


def total_budget(usd: float) -> Objective:
    """Return the paper's second scenario: the least time for at most so much in all (Fig. 10)."""
    return Objective("total_budget", fastest, Limits(budget_usd=usd))


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
