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
    Relaxation,
    needed_relaxations,
    objective_key,
    relaxations,
)
from models.choice.offers import Offer
from models.srift.iteration import Configuration, ConfigurationGroup, Performance, simulate
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
from models.srift.space import (
    OfferOptions,
    count_splits,
    exhaustible,
    list_offer_options,
    reachable,
)
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


def forecast(
    performance: Performance, offers: Sequence[Offer], configuration: Configuration, job: Job
) -> ConfigurationForecast:
    """Return what a configuration of these offers is expected to take and cost for a job.

    Raises:
        BadInput: as `iteration.simulate`.
    """
    step_time_s = simulate(performance, configuration).step_time_s
    time_s = step_time_s * job.iterations
    return ConfigurationForecast(
        configuration=configuration,
        step_time_s=step_time_s,
        time_s=time_s,
        cost_usd=time_s * usd_per_hour(offers, configuration) / 3600,
    )


def usd_per_hour(offers: Sequence[Offer], configuration: Configuration) -> float:
    """Return what all nodes of a configuration of these offers cost."""
    prices = {(offer.node_type, offer.market): offer.usd_per_hour for offer in offers}
    return sum(
        group.count * prices[group.node_type, group.market] for group in configuration.groups
    )


@dataclass(frozen=True)
class OptimizerResult:
    """What the optimiser found.

    Attributes:
        choice: the best configuration within limits, None if there is none.
        alternatives: the next best, best first.
        relaxations: where there is no choice, each single change that would make one; where none
            suffices alone, what the fastest and the cheapest configuration need.
        configurations: ways to divide the global batch, counted before any was ruled out.
        simulated: configurations whose iteration was simulated.
        complete: whether nothing better can exist; False: the search was stopped.
    """

    choice: ConfigurationForecast | None
    alternatives: tuple[ConfigurationForecast, ...]
    relaxations: tuple[Relaxation[ConfigurationForecast], ...]
    configurations: int
    simulated: int
    complete: bool = True


def optimize(
    performance: Performance,
    offers: Sequence[Offer],
    job: Job,
    *,
    max_types: int | None = None,
    keep: int = 5,
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
        keep: how many configurations to return.
        explain: whether to look for relaxations where there is no choice.
        stop: asked now and then; True ends the search with what was found.

    Raises:
        BadInput: an offer without profile, or too many configurations to search them all.
    """
    space = list_offer_options(performance, offers, job.global_batch)
    types = exhaustible(space, job.global_batch, max_types)
    evaluator = Evaluator(performance, space)
    limits = StepLimits.of(job, job.iterations)
    search = BestRows(evaluator, limits, stop, objective=job.minimize, keep=keep)
    forecasts = [forecast_of_row(space, row, job) for row in search.run(job.global_batch, types)]
    count = count_splits(space, job.global_batch, types)
    relaxations: tuple[Relaxation[ConfigurationForecast], ...] = ()
    if explain and not forecasts and search.complete:
        relaxations = (
            find_relaxations(evaluator, job, types)
            if count
            else find_divisible_batches(evaluator, job, types)
        )
    return OptimizerResult(
        choice=forecasts[0] if forecasts else None,
        alternatives=tuple(forecasts[1:]),
        relaxations=relaxations,
        configurations=count,
        simulated=evaluator.simulated,
        complete=search.complete,
    )


# The best rows of a space by one objective (section 4.4).


@dataclass
class BestRows(Exploration):
    """The `keep` best rows, best first, in `best`."""

    objective: Minimize = "time"
    keep: int = 1
    best: list[BatchSplit] = field(default_factory=list)

    def run(self, global_batch: int, max_types: int) -> list[BatchSplit]:
        """Return the best rows of at most `max_types` offers each."""
        self.explore(global_batch, max_types)
        return self.best

    def key(self, row: BatchSplit) -> tuple[float, float, int, tuple[int, ...]]:
        """Return what is compared: the objective, the other one, and then fewer offers."""
        values = objective_key(self.objective, row.step_s, row.step_usd)
        return *values, len(row.options), row.options

    def matters(self, bound_s: Floats, bound_usd: Floats) -> Bools:
        """Tell which rows can be among the best."""
        promising: Bools = self.priority(bound_s, bound_usd) * SHORTENED <= self._worst
        return promising

    def priority(self, bound_s: Floats, bound_usd: Floats) -> Floats:
        """Return the objective's bound."""
        return bound_s if self.objective == "time" else bound_usd

    def at_most_s(self, usd_per_s: Floats) -> Floats:
        """Return what the worst of the best takes, or its cost would pay for."""
        if self.objective == "time":
            return np.full(len(usd_per_s), self._worst)
        return divide_amount(self._worst, usd_per_s)

    def take(self, rows: list[BatchSplit]) -> None:
        """Keep the best."""
        self.best = sorted([*self.best, *rows], key=self.key)[: self.keep]

    @property
    def _worst(self) -> float:
        return self.key(self.best[-1])[0] if len(self.best) == self.keep else inf


# No feasible choice of nodes: which limit to relax, and by how much, found by search.


_ENOUGH = 1e-3


def find_relaxations(
    evaluator: Evaluator, job: Job, types: int
) -> tuple[Relaxation[ConfigurationForecast], ...]:
    """Return by how much each limit has to rise with the others kept; an hour's to a thousandth.

    Where none suffices alone: to what the fastest and the cheapest configuration need.
    """

    def best(objective: Minimize, within: Limits) -> ConfigurationForecast | None:
        limits = StepLimits.of(within, job.iterations)
        search = BestRows(evaluator, limits, lambda: False, objective=objective)
        rows = search.run(job.global_batch, types)
        return forecast_of_row(evaluator.space, rows[0], job) if rows else None

    def least(limit: Limit, within: Limits) -> ConfigurationForecast | None:
        match limit:
            case "deadline_s":
                return best("time", within)
            case "budget_usd":
                return best("cost", within)
            case "usd_per_hour":
                return least_an_hour(within)

    def least_an_hour(within: Limits) -> ConfigurationForecast | None:
        """Halve what is between a price that suffices and one that does not."""
        sufficient, low = best("time", within), job.usd_per_hour or 0.0
        while sufficient is not None and sufficient.usd_per_hour > low * (1 + _ENOUGH):
            middle = (low + sufficient.usd_per_hour) / 2
            cheaper = best("time", within.but("usd_per_hour", middle))
            sufficient, low = (sufficient, middle) if cheaper is None else (cheaper, low)
        return sufficient

    if alone := relaxations(job, least):
        return tuple(alone)
    for within in (Limits(usd_per_hour=job.usd_per_hour), Limits()):
        fastest, cheapest = best("time", within), best("cost", within)
        if fastest is not None:
            break
    late = [
        needed_relaxation
        for needed_relaxation in needed_relaxations(job, fastest)
        if needed_relaxation.constraint == "deadline_s"
    ]
    dear = [
        needed_relaxation
        for needed_relaxation in needed_relaxations(job, cheapest)
        if needed_relaxation.constraint != "deadline_s"
    ]
    return (*late, *dear)


def find_divisible_batches(
    evaluator: Evaluator, job: Job, types: int
) -> tuple[Relaxation[ConfigurationForecast], ...]:
    """Return what keeps the nodes on offer from dividing the global batch.

    They hold too few samples, or no whole number of nodes with power-of-two batches makes exactly
    this one; then the nearest global batches that can be divided are named.
    """
    performance, batch = evaluator.performance, job.global_batch
    offers = evaluator.space.offers
    # Where there is room for a batch, there is a size from it to its double, or of single samples.
    devices = [performance.node(offer.node_type).devices for offer in offers]
    largest = max(2 * batch, *devices)
    space = list_offer_options(performance, offers, largest)
    rooms = [int(space.samples[space.offer == i].max(initial=0)) for i in range(len(offers))]
    room = sum(sorted(rooms)[-types:])
    if room < batch:
        return (Relaxation("capacity", room, batch),)
    sizes = np.flatnonzero(reachable(space, largest, types))
    nearest = [*sizes[sizes < batch][-1:].tolist(), *sizes[sizes > batch][:1].tolist()]
    return tuple(Relaxation("global_batch", batch, size) for size in nearest if size)


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
