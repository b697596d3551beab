"""Which nodes to rent: cheapest or fastest within limits, what to relax, the front (4.4)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from models.choice import offers as choosing
from models.choice.limits import (
    Job,
    Limit,
    Limits,
    Minimize,
    Outcome,
    exceeded_limits,
    objective_key,
    relaxations,
)
from models.choice.offers import Offer
from models.srift.iteration import Configuration, ConfigurationGroup, Performance
from models.srift.search import (
    SHORTENED,
    BatchSplit,
    Bools,
    Evaluator,
    Exploration,
    Floats,
    StepLimits,
    divide_amount,
)
from models.srift.space import OfferOptions, count_splits, exhaustible, list_offer_options
from warehouse.records import Record

# What a configuration is expected to take and cost for a job (section 4.4).


class ConfigurationForecast(Record):
    """What a configuration is expected to take and cost, for one iteration and the whole job."""

    configuration: Configuration
    step_time_s: float
    time_s: float
    cost_usd: float

    @property
    def usd_per_hour(self) -> float:
        """Price of all nodes."""
        return 3600 * self.cost_usd / self.time_s

    @property
    def outcome(self) -> Outcome:
        """What is expected of the job."""
        return Outcome(self.time_s, self.cost_usd, self.usd_per_hour)


def forecast_of_row(space: OfferOptions, row: BatchSplit, job: Job) -> ConfigurationForecast:
    """Return a row of the space as a forecast of the job."""
    groups = [
        ConfigurationGroup(
            node_type=space.offers[space.offer[option]].node_type,
            market=space.offers[space.offer[option]].market,
            count=int(space.count[option]),
            batch_size=int(space.batch_size[option]),
        )
        for option in row.options
    ]
    return ConfigurationForecast(
        configuration=Configuration(groups=tuple(groups)),
        step_time_s=row.step_s,
        time_s=row.step_s * job.iterations,
        cost_usd=row.step_usd * job.iterations,
    )


@dataclass(frozen=True)
class OptimizerResult:
    """What the optimiser found.

    Attributes:
        choice: the best configuration within limits, None if there is none.
        relaxations: where limits alone leave no choice, each single one that, raised, makes one,
            and that one; where none suffices alone, the fastest and the cheapest configuration.
        complete: whether nothing better can exist; False: the search was stopped.
    """

    choice: ConfigurationForecast | None
    relaxations: tuple[tuple[Limit, ConfigurationForecast], ...] = ()
    complete: bool = True


def optimize(
    performance: Performance,
    offers: Sequence[Offer],
    job: Job,
    *,
    max_types: int | None = None,
    explain: bool = True,
    stop: Callable[[], bool] = lambda: False,
) -> OptimizerResult:
    """Return the best configuration of all, by exhaustive search.

    All nodes of an offer have the same power-of-two batch per device. Ties go to what is better by
    the other objective, then to fewer offers, then to those given first.

    Args:
        performance: profiles of the network and the bandwidth model.
        offers: node types on offer.
        job: what is to be trained.
        max_types: most offers in one configuration; None: all of them.
        explain: whether to look for relaxations where there is no choice.
        stop: asked now and then; True ends the search with what was found.

    Raises:
        BadInput: an offer without profile, or too many configurations to search them all.
    """
    space = list_offer_options(performance, offers, job.global_batch)
    types = exhaustible(space, job.global_batch, max_types)
    evaluator = Evaluator(performance, space)
    limits = StepLimits.of(job, job.iterations)
    search = BestRow(evaluator, limits, stop, objective=job.minimize)
    search.explore(job.global_batch, types)
    if search.best is not None:
        choice = forecast_of_row(space, search.best, job)
        return OptimizerResult(choice, complete=search.complete)
    is_short = explain and search.complete and count_splits(space, job.global_batch, types)
    relaxations = find_relaxations(evaluator, job, types) if is_short else ()
    return OptimizerResult(None, relaxations, search.complete)


# The best row of a space by one objective (section 4.4).


@dataclass
class BestRow(Exploration):
    """The best row, in `best`; None: there is none."""

    objective: Minimize = "time"
    best: BatchSplit | None = None

    def key(self, row: BatchSplit) -> tuple[float, float, int, tuple[int, ...]]:
        """Return what is compared: the objective, the other one, and then fewer offers."""
        values = objective_key(self.objective, row.step_s, row.step_usd)
        return *values, len(row.options), row.options

    def matters(self, bound_s: Floats, bound_usd: Floats) -> Bools:
        """Tell which rows can be the best."""
        promising: Bools = self.priority(bound_s, bound_usd) * SHORTENED <= self._worst
        return promising

    def priority(self, bound_s: Floats, bound_usd: Floats) -> Floats:
        """Return the objective's bound."""
        return bound_s if self.objective == "time" else bound_usd

    def at_most_s(self, usd_per_s: Floats) -> Floats:
        """Return what the best takes, or its cost would pay for."""
        if self.objective == "time":
            return np.full(len(usd_per_s), self._worst)
        return divide_amount(self._worst, usd_per_s)

    def take(self, rows: list[BatchSplit]) -> None:
        """Keep the best."""
        known = [] if self.best is None else [self.best]
        self.best = min([*known, *rows], key=self.key, default=None)

    @property
    def _worst(self) -> float:
        return inf if self.best is None else self.key(self.best)[0]


# No feasible choice of nodes: which limit to relax, and by how much, found by search.


def find_relaxations(
    evaluator: Evaluator, job: Job, types: int
) -> tuple[tuple[Limit, ConfigurationForecast], ...]:
    """Return the least that deadline and budget have to admit, each with the other limits kept.

    Where none suffices alone: the fastest and the cheapest configuration.
    """

    def best(objective: Minimize, within: Limits) -> ConfigurationForecast | None:
        limits = StepLimits.of(within, job.iterations)
        search = BestRow(evaluator, limits, lambda: False, objective=objective)
        search.explore(job.global_batch, types)
        return search.best and forecast_of_row(evaluator.space, search.best, job)

    def least(limit: Limit, within: Limits) -> ConfigurationForecast | None:
        return best("time" if limit == "deadline_s" else "cost", within)

    if alone := relaxations(job, least):
        return tuple(alone)
    fastest, cheapest = best("time", Limits()), best("cost", Limits())
    if fastest is None or cheapest is None:
        return ()
    ends: tuple[tuple[Limit, ConfigurationForecast], ...] = (
        ("deadline_s", fastest),
        ("budget_usd", cheapest),
    )
    exceeded = tuple(end for end in ends if end[0] in exceeded_limits(job, end[1].outcome))
    return exceeded or tuple((limit, fastest) for limit in exceeded_limits(job, fastest.outcome))


# What more money buys: the configurations than which none is both faster and cheaper.


def pareto_front(
    performance: Performance, offers: Sequence[Offer], job: Job, max_types: int | None = None
) -> tuple[ConfigurationForecast, ...]:
    """Return the Pareto front of time against cost within the job's limits, fastest first.

    Of configurations with equal time and cost it has the one of fewest offers.

    Raises:
        BadInput: as `optimizer.optimize`.
    """
    space = list_offer_options(performance, offers, job.global_batch)
    types = exhaustible(space, job.global_batch, max_types)
    front = Front(Evaluator(performance, space), StepLimits.of(job, job.iterations), lambda: False)
    front.explore(job.global_batch, types)
    return tuple(forecast_of_row(space, row, job) for row in front.rows)


@dataclass
class Front(Exploration):
    """The Pareto front of rows, in `rows`: times rise, costs fall."""

    rows: list[BatchSplit] = field(default_factory=list)

    def matters(self, bound_s: Floats, bound_usd: Floats) -> Bools:
        """Tell which rows are not dominated by one of the front, even if they meet their bounds."""
        if not self.rows:
            return np.ones(len(bound_s), dtype=bool)
        times = np.array([row.step_s for row in self.rows])
        costs = np.array([inf, *(row.step_usd for row in self.rows)])
        better: Bools = bound_usd < costs[np.searchsorted(times, bound_s, side="right")]
        return better

    def priority(self, bound_s: Floats, bound_usd: Floats) -> Floats:
        """Return the product of both, which is small in the middle of the front."""
        return bound_s * bound_usd

    def at_most_s(self, usd_per_s: Floats) -> Floats:
        """Return when rows begin to be dominated."""
        dominated_s = [
            np.maximum(row.step_s, divide_amount(row.step_usd, usd_per_s)) for row in self.rows
        ]
        earliest_s: Floats = np.min([np.full(len(usd_per_s), inf), *dominated_s], axis=0)
        return earliest_s

    def take(self, rows: list[BatchSplit]) -> None:
        """Merge rows into the front."""
        self.rows = choosing.pareto_front(
            [*self.rows, *rows], key=lambda row: (row.step_s, row.step_usd, len(row.options))
        )
