"""Scenarios that a job may run on: what they take and cost, and how surely."""

from dataclasses import dataclass
from typing import Literal

from models.choosing.limits import Limit, Limits, Outcome, kept
from models.choosing.options import Span
from models.choosing.overheads import Expected
from models.choosing.ratios import Ratios
from warehouse.records import Market


@dataclass(frozen=True)
class Candidate:
    """One way to run a job, as one system forecasts it.

    Attributes:
        key: what tells it from others: its scenario and market.
        label: in words.
        system: whose forecast it is.
        training: framework, strategy and servers; the same of candidates that differ in workers.
        node_type: of its workers.
        workers: how many there are.
        market: where all its nodes are rented.
        usd_per_hour: what all its nodes cost.
        usd_per_worker_hour: what one of its workers costs.
        train_s: seconds that training takes, as forecast.
        expected: what comes to that.
        ratios: how much longer training took than was forecast; None: what it takes is known.
    """

    key: str
    label: str
    system: str
    training: str
    node_type: str
    workers: int
    market: Market
    usd_per_hour: float
    usd_per_worker_hour: float
    train_s: float
    expected: Expected
    ratios: Ratios | None

    @property
    def scenario_id(self) -> str:
        """The scenario of its key."""
        return self.key.partition(" ")[0]

    @property
    def has_evidence(self) -> bool:
        """Whether past errors say how wrong its forecast may be."""
        return self.ratios is None or bool(self.ratios.values)

    @property
    def outcome(self) -> Outcome:
        """What the job is expected to take and cost."""
        return self.outcome_at(1.0)

    def outcome_at(self, ratio: float) -> Outcome:
        """Return what the job takes and costs where training takes `ratio` times its forecast."""
        time_s = self.expected.time_s(ratio * self.train_s)
        cost_usd = time_s * self.usd_per_hour / 3600 if self.usd_per_hour else 0.0
        return Outcome(time_s, cost_usd, self.usd_per_hour)

    def chance_of_exceeding(self, limits: Limits, limit: Limit) -> float:
        """Return the probability, 0 to 1, that a limit is exceeded; at most so much."""
        most = limits.of(limit)
        if most is None:
            return 0.0
        if limit == "usd_per_hour":
            return 0.0 if kept(most, self.usd_per_hour) else 1.0
        if limit == "budget_usd":
            most = 3600 * most / self.usd_per_hour if self.usd_per_hour else float("inf")
        if self.ratios is None:
            return 0.0 if kept(most, self.outcome.time_s) else 1.0
        ratio = (most - self.expected.fixed_s) / (self.expected.factor * self.train_s)
        return self.ratios.probability_above(ratio * (1 + 1e-9)) if ratio > 0 else 1.0

    def worst(self, level: float) -> Outcome:
        """Return what is exceeded with a probability of `level` at most; inf: it is not known."""
        high = 1.0 if self.ratios is None else self.ratios.high(level)
        return self.outcome_at(float("inf") if high is None else high)

    def span(self, what: Literal["time_s", "cost_usd"], level: float) -> Span:
        """Return time or cost, between what is fallen short of and exceeded at a level."""
        place = 0 if what == "time_s" else 1
        value = self.outcome[place]
        low, high = (self.ratios.low(level), self.ratios.high(level)) if self.ratios else (1.0, 1.0)
        return Span(
            value=value,
            low=None if low is None else self.outcome_at(low)[place],
            high=None if high is None else self.outcome_at(high)[place],
        )
