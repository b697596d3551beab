"""Scenarios that a job may run on: time, cost, and how much longer training takes than forecast."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, exp, floor, fsum, inf, isfinite
from statistics import NormalDist

import numpy as np
from pydantic import field_validator

from models.choice.limits import Limit, Limits, Outcome, keeps_limit
from models.choice.offers import Span
from models.choice.overheads import ExpectedDuration
from warehouse.records import Market, Record

# How much longer training takes than was forecast, as past errors tell.
#
# If the next forecast errs like past ones, each place among n past ratios is as likely as any
# other: a ratio above x then has a probability of at most (1 + how many are above x) / (n + 1),
# whatever their distribution. That is split conformal prediction with the ratio as its score (Lei
# et al., "Distribution-free predictive inference for regression", JASA 113, 2018, section 2.2).


_ROUNDING = 1e-9
_PERCENTILES = [NormalDist().inv_cdf(place / 100) for place in range(1, 100)]
FORGIVEN = 1e-9
"""Rounding of ranks: 0.9 * 10 is nine."""


class Ratios(Record):
    """What was measured over what was forecast, both as times; `basis` says of which forecasts.

    Without values nothing is known: any ratio has a probability of 1 at most, and no ends.
    """

    values: tuple[float, ...]
    basis: str

    @field_validator("values")
    @classmethod
    def _sorted(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if not all(value > 0 and isfinite(value) for value in values):
            raise ValueError(f"expected ratios above 0, found {values[:3]}")
        return tuple(sorted(values))

    def probability_above(self, ratio: float) -> float:
        """Return the probability, 0 to 1, of a ratio above one: at most so much."""
        above = len(self.values) - bisect_right(self.values, ratio)
        return (1 + above) / (len(self.values) + 1)

    def probability_below(self, ratio: float) -> float:
        """Return the probability, 0 to 1, of a ratio below one: at most so much."""
        return (1 + bisect_left(self.values, ratio)) / (len(self.values) + 1)

    def high(self, level: float) -> float | None:
        """Return what is exceeded with a probability of `level` at most; None: too few are known.

        It is the smallest x whose `probability_above` is no larger than `level`.
        """
        rank = ceil((1 - level) * (len(self.values) + 1) - FORGIVEN)
        return self.values[max(rank, 1) - 1] if rank <= len(self.values) else None

    def low(self, level: float) -> float | None:
        """Return what is fallen short of with a probability of `level` at most; None: too few."""
        rank = floor(level * (len(self.values) + 1) + FORGIVEN)
        return self.values[rank - 1] if rank >= 1 else None

    @property
    def spread(self) -> float:
        """Mean size of 1 - ratio: how wrong forecasts were, as a part of them; inf: not known."""
        if not self.values:
            return inf
        return sum(abs(1 - value) for value in self.values) / len(self.values)


def fewest_ratios(level: float) -> int:
    """Return of how many ratios at least one is exceeded with a probability of `level`."""
    return ceil(1 / level - FORGIVEN) - 1


def normal_ratios(sigma: float, basis: str) -> Ratios:
    """Return the percentiles of ratios whose logarithm is normal, with a mean of 0."""
    return Ratios(values=tuple(exp(sigma * of_one) for of_one in _PERCENTILES), basis=basis)


def widen_ratios(ratios: Iterable[float], factor: float, basis: str) -> Ratios:
    """Return ratios that lie `factor` times as far from 1, on a logarithmic scale."""
    return Ratios(values=tuple(ratio**factor for ratio in ratios), basis=basis)


def thin_ratios(ratios: Ratios, most: int) -> Sequence[float]:
    """Return at most so many of the ratios, evenly spread over their ranks."""
    count = len(ratios.values)
    if count <= most:
        return ratios.values
    return [ratios.values[(2 * place + 1) * count // (2 * most)] for place in range(most)]


@dataclass(frozen=True)
class Candidate:
    """One way to run a job, as one system forecasts it.

    Attributes:
        key: what tells it from others: its scenario and market.
        label: in words.
        system: whose forecast it is.
        training: framework, strategy and servers; the same of candidates that differ in workers.
        node_types: of its workers.
        workers: how many there are.
        market: where all its nodes are rented.
        usd_per_hour: what all its nodes cost.
        train_s: seconds that training takes, as forecast.
        expected: what comes to that.
        ratios: how much longer training took than was forecast; None: what it takes is known.
        step_samples: of a step of all devices together; None: it has none.
    """

    key: str
    label: str
    system: str
    training: str
    node_types: tuple[str, ...]
    workers: int
    market: Market
    usd_per_hour: float
    train_s: float
    expected: ExpectedDuration
    ratios: Ratios | None
    step_samples: int | None = None

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
        return self._outcome_of(self.expected.time_s(self.train_s))

    def _outcome_of(self, time_s: float) -> Outcome:
        cost_usd = time_s * self.usd_per_hour / 3600 if self.usd_per_hour else 0.0
        return Outcome(time_s, cost_usd, self.usd_per_hour)

    def chance_of_exceeding(self, limits: Limits, limit: Limit) -> float:
        """Return the probability, 0 to 1, that a limit is exceeded; at most so much."""
        most = limits.of(limit)
        if most is None:
            return 0.0
        if limit == "usd_per_hour":
            return 0.0 if keeps_limit(most, self.usd_per_hour) else 1.0
        if limit == "budget_usd":
            most = 3600 * most / self.usd_per_hour if self.usd_per_hour else inf
        if self.ratios is None:
            return 0.0 if keeps_limit(most, self.outcome.time_s) else 1.0
        return self._chance(self.ratios.probability_above, most * (1 + 1e-9))

    def worst(self, level: float) -> Outcome:
        """Return what is exceeded with a probability of `level` at most; inf: it is not known."""
        if self.ratios is None:
            return self.outcome
        above, times = self.ratios.probability_above, self._times_s

        def is_enough(time_s: float) -> bool:
            # These times are met by past ratios themselves: rounding must not put them beyond.
            return self._chance(above, time_s * (1 + _ROUNDING)) <= level + _ROUNDING

        place = bisect_left(times, True, key=is_enough)
        return self._outcome_of(times[place] if place < len(times) else inf)

    def spans(self, level: float) -> tuple[Span, Span]:
        """Return time and cost, each between what is fallen short of and exceeded at a level."""
        low: Outcome | None = self.outcome
        high = self.worst(level)
        if self.ratios is not None:
            below, times = self.ratios.probability_below, self._times_s

            def is_too_long(time_s: float) -> bool:
                return self._chance(below, time_s * (1 - _ROUNDING)) > level + _ROUNDING

            place = bisect_left(times, True, key=is_too_long)
            low = None if place == 0 else self._outcome_of(times[place - 1])
        time_s, cost_usd = (
            Span(
                value=self.outcome[field],
                low=low and low[field],
                high=high[field] if isfinite(high[field]) else None,
            )
            for field in (0, 1)
        )
        return time_s, cost_usd

    @cached_property
    def _times_s(self) -> list[float]:
        """How long the job takes by each past ratio and launch, in order, seconds."""
        ratios = np.array(self.ratios.values if self.ratios else ())
        train_s = self.expected.factor * self.train_s * ratios
        times_s: list[float] = np.add.outer(self.expected.varied_fixed_s, train_s).ravel().tolist()
        return sorted(times_s)

    def _chance(self, of_ratio: Callable[[float], float], time_s: float) -> float:
        """Return the mean over launches of what is said of the ratio with which a time is met."""
        train_s = self.expected.factor * self.train_s
        fixed_s = self.expected.varied_fixed_s
        return fsum([of_ratio((time_s - each_s) / train_s) for each_s in fixed_s]) / len(fixed_s)
